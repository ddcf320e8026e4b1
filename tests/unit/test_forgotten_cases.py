"""Events of released cases leave the state: when, what stays of them, and what their later events do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Config, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.state import digest
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.run.keeper import StateKeeper
from tests.conftest import ROOT
from tests.oracles.fold_runs import S

MANUAL = read_window({"manual": True})
STATE_3 = ROOT / "tests" / "golden" / "daemon_state_3.msgpack"


def once(name: str, **fields: Any) -> PublicationRules:
    """Return a publication that exposes each case once, at a command."""
    return PublicationRules(name, MANUAL, private=True, once=True, **fields)


def everything(name: str) -> PublicationRules:
    """Return a publication that shows every case again."""
    return PublicationRules(name, MANUAL, private=True)


def rules(*publications: PublicationRules, **fields: Any) -> FoldRules:
    """Return rules under which the activity z completes a case."""
    return FoldRules(publications, end_activities=("z",), key="k", **fields)


class Process:
    """A fold that gets one record after the other."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._clock = 0

    def take(
        self, record: AnyRecord, *, released: bool = True, shows: Sequence[str] = ()
    ) -> list[dict[str, tuple[str, ...]]]:
        """Fold a record, and return the traces of each of its cuts by case."""
        cuts = []
        for cut in self.fold.apply(self.fold.position + 1, record):
            log = self.fold.exposed(cut).log
            cuts.append(dict(zip(log.case_ids, map(tuple, log.traces()), strict=True)))
            self.fold.decided(cut, released=released, shown=shows)
        return cuts

    def events(self, *events: str) -> None:
        """Take events, each as its case and its activity: "c1 a"."""
        last = self.fold.state.partition(("s", 0)).hwm
        rows = []
        for number, event in enumerate(events, last + 1):
            case, activity = event.split()
            rows.append(Row(number, case, activity, number * S, event_id=f"e{number}"))
        self.take(Delta(src="s", p=0, prev=last, last=last + len(rows), n=len(rows), key="k", rows=rows))
        self._clock += 100
        self.take(Tick(at=self._clock * S))

    def release(
        self, publication: str, *, released: bool = True, shows: Sequence[str] = ()
    ) -> dict[str, tuple[str, ...]]:
        """Take a cut of a publication, and return the traces that it exposes; its release shows the cases `shows`."""
        (cut,) = self.take(Command(name="release", publication=publication), released=released, shows=shows)
        return cut


def forgetting() -> Process:
    """Return a process with one publication whose case c1 is forgotten, and whose case c2 is open."""
    process = Process(Fold(rules(once("p"))))
    process.events("c1 a", "c1 z", "c2 a")
    assert process.release("p") == {"c1": ("a", "z")}
    return process


@pytest.mark.parametrize("released", [True, False])
def test_the_events_of_a_released_case_leave(released: bool) -> None:
    """After the decision, whatever it is: a withheld cut does not bring its cases back either."""
    process = Process(Fold(rules(once("p"))))
    process.events("c1 a", "c1 z", "c2 a")
    process.release("p", released=released)
    state = process.fold.state
    assert (state.events.size, state.index.names(state.cases.size)) == (1, ["c2"])
    assert state.event_ids == {0: {"e2"}}
    assert digest("c1") in state.forgotten
    assert process.fold.accounting("p")["seen"] == 3
    assert process.fold.accounting("p")["exposed"] == 2
    assert b"c1" not in process.fold.snapshot()


def test_an_undecided_cut_loses_no_event() -> None:
    """As long as its decision is not durable, all of its events are in the state."""
    process = Process(Fold(rules(once("p"))))
    process.events("c1 a", "c1 z")
    (cut,) = [next(process.fold.apply(9, Command(name="release")))]
    assert process.fold.state.events.size == 2
    assert process.fold.exposed(cut).log.n_events == 2


def test_a_late_event_of_a_forgotten_case_is_lost_and_counted() -> None:
    """It is no new case, completes nothing, is in no cut, and leaves with the next decision."""
    process = forgetting()
    process.events("c1 z")
    assert process.fold.publications["p"].new_cases == 0
    assert process.release("p") == {}
    process.events("c2 z", "c1 z")
    assert process.release("p") == {"c2": ("a", "z")}
    accounting = process.fold.accounting("p")
    assert (accounting["seen"], accounting["exposed"], accounting["late"], accounting["pending"]) == (6, 4, 2, 0)
    assert process.fold.state.events.size == 0
    assert len(process.fold.state.forgotten) == 2


def test_a_case_that_completes_again_counts_no_completion() -> None:
    """A window of completed cases waits for a case that a release can show."""
    window = read_window({"completed_cases": 1})
    process = Process(Fold(rules(PublicationRules("p", window, private=True, once=True))))
    process.events("c1 z")
    assert process.fold.publications["p"].cuts == 1
    process.events("c1 a", "c1 z")
    assert process.fold.publications["p"].cuts == 1
    process.events("c2 z")
    assert process.fold.publications["p"].cuts == 2


def test_a_case_stays_until_every_publication_had_its_cut() -> None:
    """The second publication still shows it, with the events that were late for the first."""
    process = Process(Fold(rules(once("p"), once("q"))))
    process.events("c1 a", "c1 z")
    process.release("p")
    process.events("c1 z")
    assert process.fold.state.events.size == 3
    assert process.release("q") == {"c1": ("a", "z", "z")}
    assert process.release("p") == {}
    assert process.fold.state.events.size == 0
    assert process.fold.accounting("p")["late"] == 1
    assert process.fold.accounting("q")["exposed"] == 3


def test_with_a_publication_that_shows_everything_nothing_is_forgotten() -> None:
    """All events stay for it."""
    process = Process(Fold(rules(once("p"), everything("q"))))
    process.events("c1 a", "c1 z")
    process.release("p")
    assert process.release("q") == process.release("q") == {"c1": ("a", "z")}
    assert len(process.fold.state.forgotten) == 0


def test_a_later_publication_shows_no_released_case() -> None:
    """Neither what was kept of it by chance, nor its later events: a part of a case would be a false one."""
    process = forgetting()
    process.take(Config(body=rules(once("p"), everything("q"), once("r")).to_mapping()))
    process.events("c1 b", "c1 z", "c3 z")
    assert process.release("q") == {"c2": ("a",), "c3": ("z",)}
    assert process.release("r") == {"c3": ("z",)}
    assert process.fold.accounting("q")["late"] == 2


def test_a_forgotten_case_is_erased() -> None:
    """The report counts it, its digest is among those of erased cases, and later events are refused."""
    process = forgetting()
    assert process.fold.count_known(["c1", "c1", "never seen"]) == 1
    assert process.fold.erase(["c1", "c1", "never seen"]) == 1
    assert process.fold.count_known(["c1"]) == 0
    state = process.fold.state
    assert len(state.forgotten) == 0
    assert digest("c1") in state.index.gone
    assert (state.removed_cases, state.removed_events) == (1, 0)
    process.events("c1 a")
    assert state.refused == 1
    assert process.fold.accounting("p")["late"] == 0


def test_a_forgotten_case_with_a_later_event_is_erased_once() -> None:
    """It is in the state and among the digests: one case, and its late event is gone."""
    process = forgetting()
    process.events("c1 a")
    assert process.fold.erase(["c1"]) == 1
    assert (process.fold.state.removed_cases, process.fold.state.removed_events) == (1, 1)
    assert len(process.fold.state.forgotten) == 0
    assert b"c1" not in process.fold.snapshot()


def test_retention_drops_released_events_in_time() -> None:
    """Too few to be dropped for their size, they leave with the first cut after their retention."""
    process = Process(Fold(rules(once("p"), retention=150 * S)))
    process.events("c1 z", *["open a"] * 50)
    process.release("p")
    assert process.fold.state.events.size == 51
    process.events("open a")
    process.release("p")
    assert process.fold.state.events.size == 51
    assert digest("c1") in process.fold.state.forgotten


def test_one_whole_checkpoint_follows_and_two_after_an_erasure(tmp_path: Path) -> None:
    """The generation before may keep events that nobody asked to remove; an erased case is in neither."""
    process = Process(Fold(rules(once("p"))))
    keeper, checkpoints = StateKeeper(Checkpoints(tmp_path)), Checkpoints(tmp_path)
    saved = []

    def save(*events: str) -> None:
        if events:
            process.events(*events)
        before = (tmp_path / "fold.checkpoint").stat().st_ino if saved else None
        keeper.save(process.fold, SavedState("daemon", b"", 0, process.fold.position))
        saved.append("change" if (tmp_path / "fold.checkpoint").stat().st_ino == before else "whole")
        loaded = checkpoints.load()
        assert loaded is not None
        assert SavedState.decode(loaded.state).fold == process.fold.snapshot()

    for number in range(3):
        save(*(f"first{number}{case} a" for case in range(50)))
    process.events(*(f"first{number}{case} z" for number in range(3) for case in range(50)))
    process.release("p")
    save()
    save("c1 a")
    process.fold.erase(["first00"])
    save()
    save("c1 a")
    save("c1 a")
    assert saved == ["whole", "whole", "change", "whole", "change", "whole", "whole", "change"]
    assert not any(b"first00" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_state_of_version_2_settles_its_released_cases_at_the_first_decision() -> None:
    """Twelve cases of two cuts, of a program that forgot nothing, and then rules by which each case counts once."""
    loaded = Checkpoints(ROOT / "tests" / "fixtures" / "changes_1" / "plain").load()
    assert loaded is not None
    raw = SavedState.decode(loaded.state).fold
    assert msgspec.msgpack.decode(raw)["version"] == 2
    process = Process(Fold.restore(raw))
    process.take(Command(name="gap", arguments={"action": "accept"}))
    assert not process.fold.state.cases["settled"].any()
    process.take(Config(body=replace(process.fold.rules, publications=(once("p"),)).to_mapping()))
    process.release("p")
    assert len(process.fold.state.forgotten) >= 12
    assert process.fold.accounting("p")["exposed"] >= 12
    assert Fold.restore(process.fold.snapshot()).snapshot() == process.fold.snapshot()


def test_the_first_state_of_version_3_is_read() -> None:
    """The state of `forgetting`, with a late event of c1, as the first program with forgotten cases wrote it."""
    raw = STATE_3.read_bytes()
    assert msgspec.msgpack.decode(raw)["version"] == 3
    process = Process(Fold.restore(raw))
    state = process.fold.state
    assert state.index.names(state.cases.size) == ["c2", "c1"]
    assert state.cases["settled"].tolist() == [False, True]
    assert state.forgotten.to_bytes() == digest("c1")
    assert process.release("p") == {}
    accounting = process.fold.accounting("p")
    assert (accounting["seen"], accounting["exposed"], accounting["late"], accounting["pending"]) == (4, 2, 1, 1)
    assert process.fold.state.drops == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_case_that_is_over_before_any_event_counted_is_no_new_case(restarted: bool) -> None:
    """All events of c2 were too late for p, and then its retention was over there. Its next event brings no new case to
    p, whether or not the numbers were computed again meanwhile: after a restart, or when other events are dropped."""
    process = Process(Fold(rules(once("p", late="drop"), once("q", late="next_release"), retention=5 * S)))
    process.events("c1 a")
    process.release("p")
    process.events("c2 z")
    process.release("p")
    assert process.fold.accounting("p")["new_cases"] == 0
    if restarted:
        process.fold = Fold.restore(process.fold.snapshot())
    in_time = Row(2, "c2", "b", 1_000 * S, event_id="e2")
    process.take(Delta(src="s", p=0, prev=1, last=2, n=1, key="k", rows=[in_time]))
    counted = process.fold.accounting("p")
    assert (counted["new_cases"], counted["new_events"]) == (0, 1)


def waiting(**fields: Any) -> Process:
    """Return a process whose cases wait for a release: c1 was released, c2 waits, and c3 is open."""
    groups = PublicationRules("g", MANUAL, once=True, waits=True)
    process = Process(Fold(rules(groups, **fields)))
    process.events("c1 a", "c1 z", "c2 b", "c2 z", "c3 a")
    assert process.release("g", shows=["c1"]) == {"c1": ("a", "z"), "c2": ("b", "z")}
    return process


def test_a_case_waits_as_it_was_until_a_release_shows_it() -> None:
    """Later events of it are lost, also while it waits. The case that was shown leaves the state before the next cut,
    and is in no cut any more."""
    process = waiting()
    process.events("c2 a", "c3 z")
    assert process.release("g", released=False) == {"c2": ("b", "z"), "c3": ("a", "z")}
    assert set(process.fold.state.index) == {"c2", "c3"}
    assert digest("c1") in process.fold.state.forgotten
    assert process.release("g", shows=["c2", "c3"]) == {"c2": ("b", "z"), "c3": ("a", "z")}
    assert process.release("g") == {}
    assert process.fold.accounting("g") == {
        **process.fold.accounting("g"), "seen": 7, "exposed": 6, "pending": 0, "late": 1,
    }  # fmt: skip


def test_a_name_that_no_case_has_is_no_case() -> None:
    """A release may show cases that were erased since: nothing is made of their names."""
    process = waiting()
    process.release("g", shows=["c9"])
    assert "c9" not in process.fold.state.index
    assert len(process.fold.state.index) == 2


def test_retention_ends_a_wait() -> None:
    """The events of a case that nothing released leave at that time: it is in no later cut."""
    process = waiting(retention=50 * S)
    assert set(process.fold.state.index) == {"c1", "c2", "c3"}
    process.events("c4 a")  # the clock moves by 100 s
    assert process.release("g") == {}
    assert set(process.fold.state.index) == {"c3", "c4"}
    assert digest("c2") in process.fold.state.forgotten


def test_a_restored_state_knows_which_cases_wait() -> None:
    """Released and waiting cases are two states of an event."""
    process = waiting()
    restored = Process(Fold.restore(process.fold.snapshot()))
    assert restored.release("g") == {"c2": ("b", "z")}
