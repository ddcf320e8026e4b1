"""A disk that fills and an fsync that fails: nothing partial is published, and the run continues from there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from connectors.files import FileOps
from models.errors import RefusedError, UnavailableError
from stream.testing import verifier
from stream.testing.faults import FaultyDisk
from tests.replay.crashing import configuration, replay, sample


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk")
    sample(folder)
    for publications in (0, 1, 3):
        configuration(folder, publications)
        replay(folder, folder / f"calm{publications}", publications)
    return folder


@pytest.mark.parametrize("publications", [0, 1, 3])
@pytest.mark.parametrize(
    ("code", "only", "nth"),
    [
        (errno.ENOSPC, {"write"}, 2),
        (errno.ENOSPC, {"write"}, 7),
        (errno.EIO, {"fsync"}, 3),
        (errno.EIO, {"fsync"}, 9),
        (errno.EIO, {"rename", "replace"}, 1),
    ],
)
def test_a_failing_disk(world: Path, tmp_path: Path, publications: int, code: int, only: set, nth: int) -> None:
    """The operation that fails ends the run; what is visible is whole; a healthy disk later completes the run."""
    disk = FaultyDisk(nth, code=code, only=frozenset(only), lasting=True)
    failed = False
    try:
        replay(world, tmp_path / "out", publications, ops=disk)
    except (OSError, RefusedError, UnavailableError):
        failed = True
    assert failed == (len(disk.seen) >= nth)
    assert failed or publications == 0
    assert verifier.verify(tmp_path / "out", finished=False) == []
    before = verifier.digests(tmp_path / "out")
    replay(world, tmp_path / "out", publications)
    assert verifier.verify(tmp_path / "out") == []
    assert verifier.decisions(tmp_path / "out") == verifier.decisions(world / f"calm{publications}")
    after = verifier.digests(tmp_path / "out")
    assert all(after[key] == files for key, files in before.items())


def test_a_disk_that_is_nearly_full_is_seen_before_a_release(world: Path, tmp_path: Path) -> None:
    """Exit code 1 (there may be space later), one clear line, and nothing is charged or published."""

    class Nearly(FileOps):
        def free_bytes(self, path: Path) -> int:
            return 1000

    with pytest.raises(UnavailableError, match="1000 bytes are free"):
        replay(world, tmp_path / "out", ops=Nearly())
    assert verifier.decisions(tmp_path / "out") == {}
    assert verifier.OutputContents(tmp_path / "out").of("charge") == []
