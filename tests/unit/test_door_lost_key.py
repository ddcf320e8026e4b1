"""A folder whose pseudonym key is lost: nothing makes a new one, under which everybody would be somebody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import RefusedError
from stream.config.settings import Settings
from stream.daemon.start import pseudonym_key
from stream.ledger.folder import OperatorFolder
from tests.unit.test_pipeline_rules import IDENTITY, _attempt, _service, _settings

KEY = "ab" * 32


def _open_service(output: Path) -> None:
    with _service(output.parent, _settings({"mechanism": IDENTITY})):
        pass


def _open_folder(output: Path) -> None:
    folder = OperatorFolder(output)
    try:
        folder.key()
    finally:
        folder.close()


def _start_daemon(output: Path) -> None:
    pseudonym_key(_settings({"mechanism": IDENTITY}), output)


def _used(tmp_path: Path, settings: Settings) -> Path:
    with _service(tmp_path, settings) as service:
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
    return tmp_path / "out"


@pytest.mark.parametrize("open_it", [_open_service, _open_folder, _start_daemon])
@pytest.mark.parametrize("given", [False, True], ids=["lost", "given-before"])
def test_a_lost_key_is_not_replaced(tmp_path: Path, given: bool, open_it: Callable[[Path], None]) -> None:
    """Exit 4, also if the key was given from outside up to now; the folder gets no key, so the right one can return."""
    settings = _settings({"mechanism": IDENTITY}, **({"key": KEY} if given else {}))
    output = _used(tmp_path, settings)
    key = output / "operator" / "key"
    content = None if given else key.read_bytes()
    key.unlink(missing_ok=True)
    with pytest.raises(RefusedError, match="is missing, and the folder was used under a pseudonym key"):
        open_it(output)
    assert not key.exists()
    if content is not None:
        key.write_bytes(content)
        key.chmod(0o600)
        open_it(output)


def test_a_given_key_needs_no_file(tmp_path: Path) -> None:
    """The key of the configuration is enough."""
    settings = _settings({"mechanism": IDENTITY}, key=KEY)
    output = _used(tmp_path, settings)
    assert pseudonym_key(settings, output) == bytes.fromhex(KEY)
    with _service(tmp_path, settings):
        assert not (output / "operator" / "key").exists()
