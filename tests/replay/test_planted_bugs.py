"""The verifier is worth something: four bugs that the order of the seal excludes, each planted and each caught."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import RefusedError
from stream.config import sources
from stream.fold.fold import Fold
from stream.ledger.entries import Entry
from stream.ledger.sqlite import SqliteLedger
from stream.release.contract import Decision
from stream.release.failpoints import BOUNDARIES, Faults
from stream.release.pipeline import Pipeline
from stream.release.stages import Written
from stream.run.replay import Replay
from stream.run.service import ReleaseService
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import configuration, replay, sample


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    sample(folder)
    configuration(folder, 3)
    replay(folder, folder / "calm")
    return folder


def crashed(world: Path, output: Path, boundary: str, nth: int = 1) -> None:
    with pytest.raises(Aborted):
        replay(world, output, at=at_nth(boundary, nth, abort))


def test_the_calm_run_has_no_fault(world: Path) -> None:
    """Control: the verifier finds nothing if nothing is wrong, and there is something to look at."""
    assert verifier.verify(world / "calm") == []
    assert set(verifier.decisions(world / "calm").values()) == {"sealed", "withheld"}


def test_rename_before_the_ledger_row(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visible bytes without a seal."""
    honest = Pipeline._append_seal

    def dishonest(self: Pipeline, written: Written) -> Entry:
        self.store.commit(written.prepared, written.number)
        self.at("planted")
        return honest(self, written)

    monkeypatch.setattr(Pipeline, "_append_seal", dishonest)
    crashed(world, tmp_path / "out", "planted")
    assert any("never sealed" in fault for fault in verifier.verify(tmp_path / "out", finished=False))
    monkeypatch.undo()
    with pytest.raises(RefusedError, match="ledger does not know it"):
        replay(world, tmp_path / "out")


def test_second_draw_for_a_sealed_cut(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that is decided again after a crash is released twice."""
    crashed(world, tmp_path / "out", "published", 2)
    monkeypatch.setattr(Pipeline, "decided", lambda _self, _cut: None)
    replay(world, tmp_path / "out")
    assert any("was released 2 times" in fault for fault in verifier.verify(tmp_path / "out"))


def test_charge_after_the_draw(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that was drawn by an attempt which nothing in the ledger pays for."""
    honest, late = SqliteLedger.append, []

    def dishonest(self: SqliteLedger, entry: Entry) -> Entry:
        if entry.kind == "charge":
            late.append(entry)
            return entry
        for charge in [late.pop()] if late and entry.kind == "seal" else []:
            honest(self, charge)
        return honest(self, entry)

    monkeypatch.setattr(SqliteLedger, "append", dishonest)
    hook = at_nth("files_written", 1, abort)
    only_private = sources.load(configuration(tmp_path, 1))
    with pytest.raises(Aborted):
        Replay(only_private, tmp_path / "out", faults=Faults(hook), batch=40).run(read_log(world / "log.xes"))
    assert any("before it was charged" in fault for fault in verifier.verify(tmp_path / "out", finished=False))


def test_checkpoint_past_an_open_cut(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that has gone past a cut whose decision is not durable: the cut is never decided."""
    honest = ReleaseService.decide

    def dishonest(self: ReleaseService, fold: Fold, cut: Any) -> Decision:
        attempt = self.attempt(fold, cut)
        fold.decided(cut, True)
        self.checkpoint(fold)
        return self.pipelines[cut.publication].attempt(attempt)

    monkeypatch.setattr(ReleaseService, "decide", dishonest)
    crashed(world, tmp_path / "out", "opened", 3)
    monkeypatch.setattr(ReleaseService, "decide", honest)
    replay(world, tmp_path / "out")
    assert verifier.decisions(tmp_path / "out") != verifier.decisions(world / "calm")


def test_the_fold_itself_refuses_a_snapshot_past_an_open_cut(world: Path) -> None:
    """The bug above must be planted with force: an honest fold gives no snapshot while a cut is open."""
    from stream.run.log_source import log_facts, records_from_log

    log = read_log(world / "log.xes")
    loaded = sources.load(world / "config3.toml")
    service = ReleaseService(loaded, world / "snapshot")
    fold = Fold(service.rules(embedded=True), log_facts(log))
    records = records_from_log(log, key=service.pseudonyms.id, batch=500)
    for position, record in records:
        for _cut in fold.apply(position, record):
            with pytest.raises(RefusedError, match="undecided"):
                fold.snapshot()
            break
        break
    service.close()


def test_boundaries_are_named_in_order() -> None:
    """The names that faults are planted by are in the pipeline itself."""
    assert BOUNDARIES.index("charged") < BOUNDARIES.index("built")
    assert BOUNDARIES.index("sealed") < BOUNDARIES.index("renamed")
