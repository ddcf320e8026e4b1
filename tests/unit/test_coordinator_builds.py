"""A coordinator that folds while it builds a release, without a broker."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.kafka.source import Source
from models.errors import TakenOverError
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.state_machine import ActiveCoordinator, LedgerFacts, _withheld_for
from stream.daemon.status import Alarms, read_status
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Delta, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.view import LedgerView
from stream.release.contract import Decision
from stream.release.reason import Reason
from stream.run.runner import Runner
from tests.entries import entry
from tests.patience import patient_time

DAY = 86_400 * 10**9


class SlowBuilds:
    """The service of one publication; a build waits for `go_on`, and fails if `error` is set."""

    watch = None

    def __init__(self, folder: Path) -> None:
        self.go_on, self.error = threading.Event(), None
        self.decision = Decision("cut", "sealed", 1)
        self.begun: list[str] = []
        account = SimpleNamespace(last_number=0, held=(), streak=0)
        self.pipelines = {"p": SimpleNamespace(decided=lambda _cut: None, account=account)}
        self.checkpoints = SimpleNamespace(newest=lambda: None)
        self.with_pseudonyms = lambda record: record
        self.published_due: list[bool] = []

    def attempt(self, fold: Fold, cut: Any) -> Any:
        return fold.exposed(cut)

    def decide_attempt(self, publication: str, attempt: Any) -> Decision:
        self.begun.append(f"{publication}: {attempt.log.n_events} events")
        assert self.go_on.wait(600)
        if self.error is not None:
            raise self.error
        return self.decision


class Building(ActiveCoordinator):
    """An engine over a fold, without topics or files; it counts its checkpoints and letters."""

    def __init__(self, folder: Path) -> None:
        window = read_window({"new_events": 2})
        self.runner = Runner(Fold(FoldRules((PublicationRules("p", window, "dlq"),))), self, every=1)
        self.letters: list[int] = []
        self.ledger: Any = SimpleNamespace(send=lambda records: self.letters.append(len(records)))
        self.delta: Any = SimpleNamespace(
            anchor=Anchor(""), lost=None, complete=lambda records, _position: records, between=lambda *_: ()
        )
        process = SimpleNamespace(name="p")
        self.host: Any = SimpleNamespace(settings=SimpleNamespace(process=process), output=folder, spans=None)
        self.service: Any = SlowBuilds(folder)
        self.covered = self.saved = -1
        self._saved_at = time.monotonic() - 1000  # a checkpoint is due all the time
        self._must_overwrite_checkpoints, self._alarms = False, Alarms()
        self._builder, self._build = ThreadPoolExecutor(1), None
        self._ledger_facts = LedgerFacts([], {})
        self.saves: list[tuple[int, int]] = []

    def _read_ledger_facts(self) -> LedgerFacts:
        assert not self.building, "the build uses the ledger"
        return LedgerFacts([], {})

    def check_delta(self, *, compare_end: bool = False) -> None:
        pass

    def save(self, *, mirror: bool = False, in_full: bool = False) -> None:
        self.fold.snapshot()  # as the real one, refuses while a cut is undecided
        self.saves.append((self.position, len(self.letters)))
        self.covered, self.saved = self.saved, self.position

    def close(self) -> None:
        self._builder.shutdown()


def _delta(offset: int, *times: int) -> Delta:
    rows = [(offset + i, "c", "a", time, None, None, None, False) for i, time in enumerate(times)]
    return Delta(src="s", p=0, prev=offset - 1, last=offset + len(rows) - 1, n=len(rows), rows=rows)


def _encoded(*records: AnyRecord, first: int = 0) -> list[tuple[int, bytes, int]]:
    return [(first + place, msgspec.json.encode(record), 0) for place, record in enumerate(records)]


CUT_AND_MORE = _encoded(_delta(0, DAY, 2 * DAY), Tick(at=3 * DAY), _delta(2, 0), _delta(3, 5 * DAY))
"""Two events and their cut; behind it a tick, an event that is too late, and one in time."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Building]:
    engine = Building(tmp_path)
    yield engine
    engine.service.go_on.set()
    engine.close()


def _wait_for(condition: Any) -> None:
    deadline = patient_time() + 600
    while not condition():
        assert patient_time() < deadline
        time.sleep(0.01)


def test_records_behind_a_cut_are_folded_while_it_is_built(engine: Building) -> None:
    """The log of the build is that of the cut. Nothing is saved, so no offset is acknowledged, and no letter is sent:
    the build uses the producer. Behind the build comes one checkpoint with all of it, after the letters."""
    engine.apply(CUT_AND_MORE)
    _wait_for(lambda: engine.service.begun)
    assert engine.position == 3
    assert engine.fold.accounting("p")["seen"] == 4
    assert engine.service.begun == ["p: 2 events"]
    assert (engine.saves, engine.letters, engine.acknowledged()) == ([], [], -1)
    building = engine.building
    assert building is not None
    assert (building["publication"], building["cut"]) == ("p", "p/0/1/0")

    engine.service.go_on.set()
    _wait_for(lambda: engine.building is None)
    engine.save_decided()
    assert (engine.saves, engine.letters) == ([(3, 1)], [1])
    assert not engine.fold.awaits_decision


def test_the_next_cut_waits_for_the_decision(engine: Building) -> None:
    """Decisions are made one after the other, in the order of the cuts."""
    engine.apply(CUT_AND_MORE)
    next_cut = threading.Thread(target=engine.apply, args=(_encoded(_delta(4, 6 * DAY), first=4),))
    next_cut.start()
    _wait_for(lambda: not engine.runner.between_records)
    assert engine.service.begun == ["p: 2 events"]
    engine.service.go_on.set()
    next_cut.join()
    _wait_for(lambda: engine.building is None)
    assert engine.service.begun == ["p: 2 events", "p: 4 events"]


def test_a_build_that_fails_ends_the_coordinator_with_its_error(engine: Building) -> None:
    """As in the fold's own thread; the state behind the cut is not saved, also not at the end."""
    engine.apply(CUT_AND_MORE)
    engine.service.error = TakenOverError("another coordinator has taken over")
    engine.service.go_on.set()
    _wait_for(lambda: engine.building is None)
    with pytest.raises(TakenOverError, match="taken over"):
        engine.apply(_encoded(Tick(at=4 * DAY), first=4))
    engine.save_last()
    assert engine.saves == []


def test_a_stop_waits_for_the_build_and_saves_what_is_behind_it(engine: Building) -> None:
    """With its letters."""
    engine.apply(CUT_AND_MORE)
    threading.Timer(0.05, engine.service.go_on.set).start()
    engine.save_last()
    assert engine.saves == [(3, 1)]


@pytest.fixture
def coordinator(engine: Building, tmp_path: Path) -> Coordinator:
    """An active coordinator with this engine."""
    settings = Settings.model_validate({"process": {"name": "p"}})
    host: Any = SimpleNamespace(settings=settings, source=Source(topics=("t",)), output=tmp_path, watch=None)
    coordinator = Coordinator(SimpleNamespace(rebalancing=False, add_future=lambda step: step.close()), host)  # type: ignore[arg-type]
    coordinator.engine, coordinator.state = engine, "active"
    coordinator.status.publish = None
    return coordinator


def test_the_status_shows_the_build_and_its_seconds(coordinator: Coordinator, engine: Building, tmp_path: Path) -> None:
    """After each batch, and at each heartbeat; a build that has ended is not shown any more."""
    (tmp_path / "operator").mkdir()
    engine.apply(CUT_AND_MORE)
    # Seconds are rounded: a fast machine would write the first status within a part of the last digit.
    _wait_for(lambda: engine.building is not None and engine.building["seconds"] > 0)
    coordinator.status.write(engine.snapshot, "active")
    first = read_status(tmp_path)
    started = engine.building
    _wait_for(lambda: engine.building != started)
    coordinator.heartbeat()
    second = read_status(tmp_path)
    assert first is not None
    assert second is not None
    for status in (first, second):
        assert status["building"] is not None
        assert status["building"]["cut"] == "p/0/1/0"
        assert status["publications"]["p"]["seen"] == 4
        assert status["busy_seconds"] > 0
    assert second["building"]["seconds"] > first["building"]["seconds"]
    assert coordinator.probe()["busy_seconds"] > 0

    engine.service.go_on.set()
    _wait_for(lambda: engine.building is None)
    coordinator.heartbeat()
    last = read_status(tmp_path)
    assert last is not None
    assert (last["building"], last["busy_seconds"]) == (None, 0)


def test_a_slow_build_is_logged_once(
    coordinator: Coordinator, engine: Building, caplog: pytest.LogCaptureFixture
) -> None:
    """When it takes longer than anything else may take without progress."""
    engine.apply(CUT_AND_MORE)
    coordinator.heartbeat()
    assert "its build has taken" not in caplog.text
    coordinator.check.seconds = 0.0
    coordinator.heartbeat()
    coordinator.heartbeat()
    assert caplog.text.count("cut p/0/1/0: its build has taken") == 1


@pytest.mark.parametrize(
    ("reasons", "shown"),
    [
        (
            (Reason("cases", "cases: not enough yet (4 of 200)"),),
            "waiting in # s (cases; veilstream releases shows why)",
        ),
        (
            (Reason("mechanism", "activity 'HIV test' is rare"), Reason("ka", "ka: 3 is below 20"), Reason("ka", "ka")),
            "withheld in # s (ka, mechanism; veilstream releases shows why)",
        ),
        ((), "sealed as release 1 in # s"),
    ],
)
def test_the_log_names_why_a_cut_is_withheld(
    engine: Building, caplog: pytest.LogCaptureFixture, reasons: tuple[Reason, ...], shown: str
) -> None:
    """By the codes of the reasons: a sentence may name an activity, and no log line has one."""
    caplog.set_level("INFO")
    if reasons:
        engine.service.decision = Decision("cut", "withheld", because=reasons)
    engine.service.go_on.set()
    engine.apply(CUT_AND_MORE)
    _wait_for(lambda: engine.building is None)
    (line,) = [record.getMessage() for record in caplog.records if "cut p/0/1/0" in record.getMessage()]
    assert re.sub(r"\d+\.\d+ s", "# s", line) == f"cut p/0/1/0: {shown}"


def test_an_order_that_has_no_effect_is_logged(engine: Building, caplog: pytest.LogCaptureFixture) -> None:
    """A release that is ordered during a pause is not taken later; after `resume` an order is carried out."""
    pause, release, resume = (Command(name=name) for name in ("pause", "release", "resume"))
    engine.apply(_encoded(pause, release, Command(name="release", publication="p")))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == [f"release of p at delta position {position} is ignored: it is paused" for position in (1, 2)]
    engine.service.go_on.set()
    engine.apply(_encoded(resume, _delta(0, DAY), release, first=3))
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == lines
    _wait_for(lambda: engine.service.begun == ["p: 1 events"])


def test_the_status_names_why_the_newest_attempt_was_withheld() -> None:
    """The codes of its reasons, and nothing once a release has left."""
    reasons = ["uniqueness: 0.4 is above 0.1", "cases: not enough yet"]
    withheld = entry("withheld", "p", {"reasons": ["ka: 3 is below 20"]}, cut="p/1/0/0", sequence=1)
    later = entry("withheld", "p", {"reasons": reasons}, cut="p/2/0/0", sequence=1)
    view = LedgerView([withheld, later])
    assert _withheld_for(view.account("p")) == ["cases", "uniqueness"]
    view.take(entry("seal", "p", cut="p/3/0/0", sequence=1))
    assert _withheld_for(view.account("p")) == []


def test_a_build_that_ends_while_no_record_comes_is_saved_at_the_next_heartbeat(
    coordinator: Coordinator, engine: Building
) -> None:
    """The check of the silent delta topic takes the decision."""
    engine.apply(CUT_AND_MORE)
    coordinator._check_silent_delta()
    assert engine.saves == []
    engine.service.go_on.set()
    _wait_for(lambda: engine.building is None)
    coordinator._check_silent_delta()
    assert engine.saves == [(3, 1)]


def test_nothing_is_published_at_its_moment_during_a_build(coordinator: Coordinator, engine: Building) -> None:
    """The build uses the ledger and the list of releases that wait."""
    due: list[str] = []
    engine.service.publish_due = lambda: due.append("due")
    coordinator.status.write = lambda *_: None  # type: ignore[method-assign]
    coordinator._fold(CUT_AND_MORE[:2])
    assert due == []
    engine.service.go_on.set()
    _wait_for(lambda: engine.building is None)
    coordinator._fold(CUT_AND_MORE[2:])
    assert due == ["due"]
