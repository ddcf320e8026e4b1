"""The operator's folder: private, one process at a time, without leftovers of a crash."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path

import pytest

from stream.ledger.folder import FolderLockedError, OperatorFolder
from stream.ledger.sqlite import SqliteLedger
from stream.operator.backup import backup


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output folder with a ledger, a half-written checkpoint and a half-written release."""
    folder = OperatorFolder(tmp_path / "out")
    SqliteLedger(folder.ledger, "hospital").close()
    folder.checkpoints.mkdir()
    (folder.checkpoints / "fold.checkpoint").write_bytes(b"whole")
    (folder.checkpoints / "tombstones.json.new").write_bytes(b"half")
    folder.close()
    return tmp_path / "out"


def test_it_is_private_and_for_one_process(output: Path) -> None:
    """Nobody else may look in, and a second process is refused."""
    folder = OperatorFolder(output)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    with pytest.raises(FolderLockedError, match="another veilstream process"):
        OperatorFolder(output)
    folder.close()


def test_half_written_files_go_at_the_next_start_and_into_no_backup(output: Path, tmp_path: Path) -> None:
    """`*.new` was never put in its place: a backup leaves it out, the next start removes it; the rest stays."""
    backup(output, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        names = tar.getnames()
    assert "checkpoints/fold.checkpoint" in names
    assert [name for name in names if name.endswith(".new")] == []
    OperatorFolder(output).close()
    assert sorted(path.name for path in (output / "operator" / "checkpoints").iterdir()) == ["fold.checkpoint"]
