"""Erasure, the lock, and restored snapshots: what must be refused is refused, what must be gone is gone."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from connectors import read_log
from models.errors import RefusedError
from stream.commands import execute as veilstream
from stream.config import sources
from stream.ledger import release_record
from stream.ledger.folder import read_key
from stream.operator.history import ledger_view
from stream.operator.idle_folder import erase_in_folder
from stream.run.replay import Replay
from stream.run.service import ReleaseService
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values.pseudonym import Pseudonyms
from tests.replay.crashing import configuration, replay, sample


def test_an_erased_case_is_in_nothing_that_is_kept_or_comes_later(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run stops half-way, one case is erased, the run continues: releases continue, without the case."""
    out = world / "out"
    with pytest.raises(Aborted):
        replay(world, out, at=at_nth("checkpointed", 3, abort))
    before = verifier.decisions(out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\n")))
    assert veilstream(["erase", "-c", str(world / "config3.toml"), "-o", str(out)]) == 0
    assert "already out in plain: 1" in capsys.readouterr().out
    replay(world, out)
    assert verifier.verify(out) == []
    assert len(verifier.decisions(out)) > len(before)
    pseudonym = Pseudonyms(read_key(out / "operator" / "key")).case("case3")
    for path in out.glob("operator/*/*/variants.parquet"):
        assert pseudonym not in release_record.read(path).log.case_ids
    for path in (out / "operator").rglob("*"):
        if path.is_file():
            assert pseudonym.encode() not in path.read_bytes()
    last = max(out.glob("public/plain/release-*"))
    assert read_log(last / "log.xes.gz").n_cases == 99


@pytest.mark.parametrize(("ids", "hinted"), [("case3", False), ("case3\nCase4", True), ("case3 ", True)])
def test_an_id_that_is_written_otherwise_is_hinted_at(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ids: str, hinted: bool
) -> None:
    """A cell of a spreadsheet has a blank more, and the person stays in every later release."""
    out = world / "out"
    replay(world, out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{ids}\n".encode())))
    capsys.readouterr()
    assert veilstream(["erase", "-c", str(world / "config3.toml"), "-o", str(out)]) == 0
    assert ("with the source: spaces, leading zeros" in " ".join(capsys.readouterr().out.split())) is hinted


def test_a_tombstone_survives_the_loss_of_the_checkpoints(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay from the beginning refuses the erased case too."""
    out = world / "out"
    replay(world, out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\n")))
    assert veilstream(["erase", "-c", str(world / "config3.toml"), "-o", str(out)]) == 0
    shutil.rmtree(out / "operator" / "checkpoints")
    replay(world, out)
    last = max(out.glob("operator/plain/0*/variants.parquet"))
    assert Pseudonyms(read_key(out / "operator" / "key")).case("case3") not in release_record.read(last).log.case_ids


def test_two_processes_on_one_folder(world: Path) -> None:
    """The second is refused with exit code 4."""
    loaded = sources.load(world / "config3.toml")
    service = ReleaseService(loaded, world / "out")
    with pytest.raises(RefusedError, match="another veilstream process") as error:
        ReleaseService(loaded, world / "out")
    service.close()
    assert error.value.exit_code == 4


def test_a_restored_ledger_that_is_behind_the_store(world: Path) -> None:
    """A release that the ledger does not know stops everything; so does a checkpoint newer than its ledger."""
    out = world / "out"
    with pytest.raises(Aborted):
        replay(world, out, at=at_nth("checkpointed", 2, abort))
    shutil.copytree(out / "operator", world / "snapshot")
    replay(world, out)
    newest = out / "operator" / "checkpoints"
    shutil.copy(newest / "fold.checkpoint", world / "newer.checkpoint")
    shutil.rmtree(out / "operator")
    shutil.copytree(world / "snapshot", out / "operator")
    with pytest.raises(RefusedError, match="ledger does not know it"):
        replay(world, out)
    shutil.rmtree(out / "public")
    shutil.copy(world / "newer.checkpoint", newest / "fold.checkpoint")
    with pytest.raises(RefusedError, match=r"older than the state|gone from the store"):
        replay(world, out)


def test_backup_and_restore(world: Path) -> None:
    """A current backup restores; one that is behind the store is refused with exit code 4."""
    out = world / "out"
    with pytest.raises(Aborted):
        replay(world, out, at=at_nth("checkpointed", 2, abort))
    assert veilstream(["backup", str(out), str(world / "early.tar.gz"), "--with-key"]) == 0
    replay(world, out)
    assert veilstream(["backup", str(out), str(world / "late.tar.gz"), "--with-key"]) == 0
    shutil.rmtree(out / "operator")
    assert veilstream(["restore", str(world / "early.tar.gz"), str(out)]) == 4
    assert not (out / "operator").exists()
    assert veilstream(["restore", str(world / "late.tar.gz"), str(out)]) == 0
    replay(world, out)
    assert verifier.verify(out) == []


def test_another_log_or_configuration_is_refused(world: Path) -> None:
    """A folder belongs to the log and the configuration that its replay began with."""
    out = world / "out"
    replay(world, out)
    other = sample(world / "out" / "public", cases=30)
    with pytest.raises(RefusedError, match="the log is not the one"):
        Replay(sources.load(world / "config3.toml"), out).run(read_log(other))
    with pytest.raises(RefusedError, match="the configuration is not the one"):
        Replay(sources.load(configuration(world, 1)), out).run(read_log(world / "log.xes"))


def test_a_foreign_folder_is_not_touched(world: Path) -> None:
    """A folder with somebody's files is refused, exit 2, and nothing is written there."""
    foreign = world / "theirs"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("x")
    code = veilstream(["replay", str(world / "log.xes"), "-c", str(world / "config3.toml"), "-o", str(foreign)])
    assert code == 2
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_an_erasure_that_died_half_way_is_finished_at_the_next_start(world: Path) -> None:
    """The ledger knows, the files and the checkpoint do not yet: opening the folder completes it."""
    from stream.fold.state import digest
    from stream.ledger.sqlite import SqliteLedger
    from tests.entries import entry

    out = world / "out"
    with pytest.raises(Aborted):
        replay(world, out, at=at_nth("checkpointed", 3, abort))
    pseudonym = Pseudonyms(read_key(out / "operator" / "key")).case("case3")
    ledger = SqliteLedger(out / "operator" / "ledger.sqlite", "crash")
    body = {"cases": 1, "tombstones": [digest(pseudonym).hex()], "releases": [1]}
    ledger.append(entry("erased", publication="plain", body=body))
    ledger.close()
    replay(world, out)
    for path in out.glob("operator/*/*/variants.parquet"):
        assert pseudonym not in release_record.read(path).log.case_ids
    for path in (out / "operator").rglob("*"):
        if path.is_file():
            assert pseudonym.encode() not in path.read_bytes()
    assert verifier.verify(out) == []


def test_the_ledger_states_how_many_of_the_cases_were_known(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt id is refused from now on, and counts as no erased case."""
    from stream.ledger.sqlite import SqliteLedger

    out = world / "out"
    replay(world, out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\ncase03\ncase3\n")))
    assert veilstream(["erase", "-c", str(world / "config3.toml"), "-o", str(out)]) == 0
    ledger = SqliteLedger(out / "operator" / "ledger.sqlite", "crash")
    try:
        assert ledger.view.account("plain").erased == 1
        (erased,) = [entry for entry in ledger.view.history if entry.kind == "erased" and entry.publication == "plain"]
        assert (erased.body.cases, erased.body.known) == (2, 1)
        assert len(ledger.view.tombstones) == 2
    finally:
        ledger.close()


def test_another_key_is_refused(world: Path) -> None:
    """Under another key every case would be a new person: the folder belongs to one key."""
    out = world / "out"
    replay(world, out)
    (out / "operator" / "key").write_text("ab" * 32 + "\n")
    with pytest.raises(RefusedError, match="the pseudonym key is not the one"):
        replay(world, out)


def test_an_erasure_under_another_key_is_refused(world: Path) -> None:
    """It would find no case and refuse nobody, and would count as done."""
    out, settings = world / "out", sources.load(world / "config3.toml")
    replay(world, out)
    key = out / "operator" / "key"
    right = key.read_text()
    key.write_text("ab" * 32 + "\n")
    with pytest.raises(RefusedError, match="under another key than the one given here"):
        erase_in_folder(settings, out, ["case3"])
    assert not ledger_view(out).tombstones
    key.write_text(right)
    assert erase_in_folder(settings, out, ["case3"])["known"] == 1
    assert len(ledger_view(out).tombstones) == 1


def test_a_lost_ledger_is_refused_and_no_empty_one_takes_its_place(world: Path) -> None:
    """With an empty one, `releases` would say that nothing was released, and advise a smaller window."""
    out = world / "out"
    replay(world, out)
    for file in out.glob("operator/ledger.sqlite*"):
        file.unlink()
    with pytest.raises(RefusedError, match=r"ledger\.sqlite: is missing, .* restore the ledger") as caught:
        replay(world, out)
    assert caught.value.exit_code == 4
    assert not (out / "operator" / "ledger.sqlite").exists()
    assert veilstream(["releases", str(out)]) == 2
