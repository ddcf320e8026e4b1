"""Burned numbers, quarantined bytes, and a store that is not what was sealed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from models.errors import RefusedError
from stream.ledger.change_log import logs
from stream.ledger.sqlite import open_readonly
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import replay


def test_a_sealed_release_whose_bytes_are_gone_burns_its_number(world: Path) -> None:
    """The number is never used again, the cut gets the next one, and the ledger keeps the charge."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("sealed", 1, abort))
    (temporary,) = (world / "out" / "public").glob("*/.*.tmp")
    name = temporary.parent.name
    shutil.rmtree(temporary)
    replay(world)
    entries = open_readonly(world / "out" / "operator" / "ledger.sqlite")
    assert [(e.publication, e.sequence) for e in entries if e.kind == "burned"] == [(name, 1)]
    assert not (world / "out" / "public" / name / "release-000001").exists()
    assert (world / "out" / "public" / name / "release-000002").exists()
    assert verifier.verify(world / "out") == []


def test_unsealed_bytes_are_quarantined(world: Path) -> None:
    """Files that a crash left unsealed are with the operator, and were never visible."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("files_written", 1, abort))
    replay(world)
    quarantined = list((world / "out" / "operator" / "quarantine").glob("*/*"))
    assert len(quarantined) == 1
    assert verifier.verify(world / "out") == []


def test_a_release_that_was_changed_or_taken_away_stops_everything(world: Path) -> None:
    """Neither other bytes under a sealed number nor a missing published release is passed over."""
    replay(world)
    manifest = world / "out" / "public" / "plain" / "release-000001" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(RefusedError, match="not what the ledger sealed"):
        replay(world)
    shutil.rmtree(manifest.parent)
    with pytest.raises(RefusedError, match="gone from the store"):
        replay(world)


def test_a_damaged_checkpoint_is_said_and_the_run_goes_on(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The generation before is used, stderr says why, and the decisions are those that the ledger has."""
    from stream.commands import execute

    replay(world)
    before = verifier.decisions(world / "out")
    newest = world / "out" / "operator" / "checkpoints" / "fold.checkpoint"
    newest.write_bytes(newest.read_bytes()[:-20])
    config, log = str(world / "config3.toml"), str(world / "log.xes")
    assert execute(["replay", log, "-c", config, "-o", str(world / "out"), "--json"]) == 3
    assert "truncated or corrupt" in capsys.readouterr().err
    assert verifier.decisions(world / "out") == before
    assert verifier.verify(world / "out") == []


def test_a_damaged_change_is_said_and_the_run_goes_on(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The state before it is used; the decisions behind it are those that the ledger has."""
    from stream.commands import execute

    replay(world)
    before = verifier.decisions(world / "out")
    newest = max(logs(world / "out" / "operator" / "checkpoints"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    config, log = str(world / "config3.toml"), str(world / "log.xes")
    assert execute(["replay", log, "-c", config, "-o", str(world / "out"), "--json"]) == 3
    assert f"{newest.name}: change" in capsys.readouterr().err
    assert verifier.decisions(world / "out") == before
    assert verifier.verify(world / "out") == []


@pytest.mark.parametrize("name", ["audit.json", "memory.json", "variants.parquet"])
@pytest.mark.parametrize("left", [None, b"", b'{"cut": ', b"\xff\xfe"])
def test_what_is_kept_of_a_release_is_damaged(world: Path, name: str, left: bytes | None) -> None:
    """Gone, empty, cut off or other bytes: the next release would be audited against nothing, or continue nothing. The
    publication releases nothing more, and says which file it lacks; the others continue."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("checkpointed", 3, abort))
    before = len(list((world / "out" / "public" / "plain").glob("release-*")))
    for file in (world / "out" / "operator").glob(f"plain/*/{name}"):
        file.unlink()
        if left is not None:
            file.write_bytes(left)
    replay(world)
    assert len(list((world / "out" / "public" / "plain").glob("release-*"))) == before
    reasons = [
        reason for entry in verifier.OutputContents(world / "out").of("withheld") for reason in entry["body"]["reasons"]
    ]
    assert any(f"{name}: cannot be read" in reason for reason in reasons)
