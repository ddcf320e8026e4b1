"""When the decision on a cut comes changes no cut, no count and no state, and neither does a crash before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RefusedError
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Config, Cut, Delta, Outcome, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold_runs import S, cases_that_leave, shown
from tests.property.test_fold_changes import records
from tests.property.test_fold_changes import rules as any_rules
from tests.property.test_fold_forgets import COUNTING, WALL, _rules, any_retention, streams

forgetting_rules = _rules([*WALL, *COUNTING], any_retention)
rules = st.one_of(any_rules, forgetting_rules)


def is_released(cut: Cut) -> bool:
    """The decision on a cut: every third one is withheld."""
    return cut.ordinal % 3 != 0


class Later:
    """A decision that comes `n_records` records after its cut, or when the fold waits for it."""

    def __init__(self, cut: Cut, n_records: int, projection: Any) -> None:
        self.cut, self.left, self.projection = cut, n_records, projection
        self.shown = shown(cut, projection)
        self.leaving = cases_that_leave(cut, projection)

    def done(self) -> bool:
        return self.left <= 0

    def result(self) -> Outcome:
        # The build reads its log until it ends: what was folded meanwhile must not show in it.
        assert shown(self.cut, self.projection) == self.shown
        return Outcome(is_released(self.cut), self.leaving)


class Stream:
    """A fold with what its records bring. `delays`: records until each decision comes, in turn; none: at once."""

    def __init__(self, fold: Fold, delays: list[int]) -> None:
        self.fold, self.delays = fold, delays
        self.n_cuts = 0
        self.later: Later | None = None

    def take(self, position: int, record: AnyRecord) -> list[Any]:
        """Fold a record; return its cuts with content and counts, its dead letters, and the next deadline."""
        brought: list[Any] = []
        must_wait = isinstance(record, Command | Config)
        if must_wait or self.fold.decision_has_come:
            self.fold.take_decision()
        if self.later is not None:
            self.later.left -= 1
        for cut in self.fold.apply(position, record):
            projection = self.fold.exposed(cut)
            brought.append((cut.id, cut.ordinal, dict(cut.counts), dict(cut.accumulated), shown(cut, projection)))
            self._decide(cut, projection)
        brought += [list(self.fold.dead_letters), self.fold.next_deadline()]
        self.fold.dead_letters.clear()
        for name in sorted(self.fold.publications):
            accounting = self.fold.accounting(name)
            del accounting["non_append_insertions"]  # counted since the last release, so the decision is awaited
            brought.append(accounting)
        return brought

    def _decide(self, cut: Cut, projection: Any) -> None:
        if not self.delays:
            self.fold.decided(cut, is_released(cut), cases_that_leave(cut, projection))
            return
        self.later = Later(cut, self.delays[self.n_cuts % len(self.delays)], projection)
        self.n_cuts += 1
        self.fold.defer(cut, self.later)


@examples(200)
@given(rules, st.tuples(rules, rules), streams, st.lists(st.integers(0, 12), min_size=1, max_size=5))
def test_a_decision_that_comes_later_changes_nothing(
    made: FoldRules, other: tuple[FoldRules, FoldRules], steps: list[Any], delays: list[int]
) -> None:
    """Some records later or at once: the same cuts, counts, dead letters and deadlines, and the same bytes of state
    when the decision was taken. Late events, repeated ids, gaps, erasures, retention and new rules between."""
    at_once, later = Stream(Fold(made), []), Stream(Fold(made), delays)
    for position, record in enumerate(records(steps, other)):
        assert at_once.take(position, record) == later.take(position, record)
        if not later.fold.awaits_decision:
            assert at_once.fold.snapshot() == later.fold.snapshot()
    later.fold.take_decision()
    assert at_once.fold.snapshot() == later.fold.snapshot()


@examples(150)
@given(
    rules,
    st.tuples(rules, rules),
    streams,
    st.lists(st.integers(0, 12), min_size=1, max_size=5),
    st.integers(0, 50),
)
def test_a_crash_before_the_decision_is_a_crash_at_the_cut(
    made: FoldRules, other: tuple[FoldRules, FoldRules], steps: list[Any], delays: list[int], crash: int
) -> None:
    """The last state that could be saved, and the records behind it once more: the same cuts as before the crash, and
    those after it as without one."""
    at_once, stream = Stream(Fold(made), []), Stream(Fold(made), delays)
    saved = stream.fold.snapshot()
    behind: list[tuple[int, AnyRecord, list[Any]]] = []
    for position, record in enumerate(records(steps, other)):
        expected = at_once.take(position, record)
        assert stream.take(position, record) == expected
        behind.append((position, record, expected))
        if not stream.fold.awaits_decision:
            saved, behind = stream.fold.snapshot(), []
        if position == crash:
            stream = Stream(Fold.restore(saved), delays[::-1])
            for earlier_position, earlier_record, earlier_brought in behind:
                assert stream.take(earlier_position, earlier_record) == earlier_brought
    stream.fold.take_decision()
    assert at_once.fold.snapshot() == stream.fold.snapshot()


def _deltas(n_records: int) -> Iterator[tuple[int, Delta]]:
    """One event of a new case in each record."""
    for offset in range(n_records):
        row = Row(offset, f"c{offset}", "a", offset * S)
        yield offset, Delta(src="s", p=0, prev=offset - 1, last=offset, n=1, rows=[row])


def _deferred(decision: Any) -> Fold:
    """A fold with a deferred cut at its second record, and one record behind it."""
    fold = Fold(FoldRules((PublicationRules("p", read_window({"new_events": 2})),)))
    for position, record in _deltas(3):
        for cut in fold.apply(position, record):
            fold.exposed(cut)
            fold.defer(cut, decision)
    return fold


class Failed:
    """A decision that ended with an error."""

    def done(self) -> bool:
        return True

    def result(self) -> Outcome:
        raise OSError("the disk is full")


def test_no_state_is_saved_while_a_decision_is_awaited() -> None:
    """Neither in full nor as changes: the checkpoint would pass the cut."""
    fold = _deferred(Failed())
    for reading in (fold.snapshot, fold.marks):
        with pytest.raises(RefusedError, match=r"p/1/0/0 is undecided"):
            reading()


def test_the_error_of_a_decision_is_raised_and_the_cut_stays_undecided() -> None:
    """Where the decision is taken, and where the next cut waits for it."""
    fold = _deferred(Failed())
    with pytest.raises(OSError, match="full"):
        fold.take_decision()
    assert fold.awaits_decision
    with pytest.raises(OSError, match="full"):
        list(fold.apply(3, Delta(src="s", p=0, prev=2, last=3, n=1, rows=[Row(3, "c3", "a", 3 * S)])))


@pytest.mark.parametrize("record", [Command(name="pause"), Config(body=FoldRules(()).to_mapping())])
def test_a_command_or_configuration_that_overtakes_a_decision_is_refused(record: AnyRecord) -> None:
    """It could erase a case that is built, or remove the publication of the cut."""
    fold = _deferred(Failed())
    with pytest.raises(RefusedError, match="before the decision"):
        list(fold.apply(4, record))


def test_the_log_of_a_deferred_cut_is_gone() -> None:
    """It must be taken before: released cases may be forgotten behind the cut."""
    fold = Fold(FoldRules((PublicationRules("p", read_window({"new_events": 1})),)))
    (position, record), *_ = _deltas(1)
    for cut in fold.apply(position, record):
        fold.defer(cut, Failed())
        with pytest.raises(ValueError, match="not open"):
            fold.exposed(cut)
    list(fold.apply(2, Tick(at=9 * S)))  # ticks go on
