"""`veilstream verify` looks at the operator's own files and checkpoints too, by their digests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stream.config import sources
from stream.ledger.envelope import Keys
from stream.ledger.folder import rewrite, write_json
from stream.operator.verify import verify
from stream.run.service import ReleaseService
from tests.conftest import ROOT
from tests.replay.crashing import configuration, replay, sample

STORAGE = "bb" * 32
FROZEN = ROOT / "tests" / "fixtures" / "d56300e"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    sample(folder)
    configuration(folder, 3)
    replay(folder)
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled."""
    shutil.copytree(made / "out", tmp_path / "out")
    return tmp_path / "out"


def _cut_off(path: Path) -> None:
    """Return a copy that was cut off."""
    body = path.read_bytes()
    path.write_bytes(body[: len(body) // 2])


def _flip(path: Path) -> None:
    """One bit in the middle: a disk that decays."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(bytes(body))


def _problems(output: Path, keys: Keys | None = None) -> list[str]:
    return [f"{one.kind} {one.publication} {one.sequence} {one.text}" for one in verify(output, keys=keys).problems]


@pytest.mark.parametrize("spoil", [_cut_off, _flip])
@pytest.mark.parametrize("name", ["variants.parquet", "memory.json", "audit.json"])
def test_a_damaged_file_of_the_operator_is_found(out: Path, name: str, spoil: Callable[[Path], None]) -> None:
    """The next audit reads it: who learns it only then has no backup from before any more."""
    spoil(out / "operator" / "plain" / "000002" / name)
    (problem,) = [line for line in _problems(out) if name in line]
    assert problem.startswith("operator plain 2 ")


@pytest.mark.parametrize("name", ["fold.checkpoint", "fold.checkpoint.previous"])
def test_a_damaged_checkpoint_is_found(out: Path, name: str) -> None:
    """Either generation: the one before is what a start falls back to."""
    path = out / "operator" / "checkpoints" / name
    assert path.is_file()
    _flip(path)
    (problem,) = _problems(out)
    assert problem.startswith("checkpoint ")
    assert name in problem


def test_a_damaged_log_of_changes_is_found(out: Path) -> None:
    """Damage in the log behind the whole state is detected."""
    logs = sorted((out / "operator" / "checkpoints").glob("*.changes"))
    assert logs
    _flip(logs[-1])
    assert [line for line in _problems(out) if line.startswith("checkpoint ")]


def test_an_encrypted_checkpoint_is_checked_with_its_key_and_noted_without(made: Path, tmp_path: Path) -> None:
    """Only the key distinguishes a damaged one from a sound one; the output says that it was not checked."""
    for name in ("log.xes", "config3.toml"):
        shutil.copy(made / name, tmp_path / name)
    config = tmp_path / "config3.toml"
    config.write_text(f'checkpoint_key = "{STORAGE}"\n' + config.read_text())
    replay(tmp_path)
    keys, out = Keys(bytes.fromhex(STORAGE)), tmp_path / "out"
    without = verify(out)
    assert without.holds
    assert any("encrypted" in note and "-c" in note for note in without.notes)
    assert verify(out, keys=keys).holds
    assert not any("encrypted" in note for note in verify(out, keys=keys).notes)
    _flip(out / "operator" / "checkpoints" / "fold.checkpoint")
    assert _problems(out, keys)


def test_what_the_program_itself_rewrites_holds(made: Path, out: Path) -> None:
    """Erasure rewrites what it kept of earlier releases, and long series shorten old audits."""
    path = out / "operator" / "plain" / "000001" / "audit.json"
    service = ReleaseService(sources.load(made / "config3.toml"), out)
    try:
        from stream.fold.fold import Fold

        fold = Fold(service.rules(embedded=True), {})
        service.erase(fold, [service.pseudonyms.case("case3")])
        shorter = {**json.loads(path.read_bytes()), "seconds": {}}
        rewrite(service.folder.ops, path, write_json(shorter))
    finally:
        service.close()
    assert _problems(out) == []
    _flip(out / "operator" / "plain" / "000001" / "variants.parquet")
    assert any("variants.parquet" in line for line in _problems(out))


@pytest.mark.parametrize("digests", [True, False])
def test_a_release_of_an_earlier_program_is_read_instead(out: Path, digests: bool) -> None:
    """It left no digests: a file that cannot be read is found all the same."""
    folder = out / "operator" / "plain" / "000002"
    if not digests:
        (folder / "digests.json").unlink()
    assert _problems(out) == []
    _cut_off(folder / "variants.parquet")
    assert any("variants.parquet" in line for line in _problems(out))
