"""The trigger state of one publication, each rule at the value where it begins to hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream.fold.fold import Fold
from stream.fold.records import Cut, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import NEVER, Firing, PublicationState, TriggerClock
from stream.fold.window import EventsPerCase, First, Window

HOUR = 3_600_000_000_000


def _rules(**window: Any) -> PublicationRules:
    return PublicationRules("p", Window(**window))


def _state(**fields: Any) -> PublicationState:
    return PublicationState("p", **fields)


def test_reset_counts_again_and_keeps_the_last_moment_without_a_clock() -> None:
    """A cut ends all counts and the waiting; without a tick the moment of the cut before stays."""
    own = _state(new_cases=3, new_events=4, completed=5, last_cut=7, waiting_since=6, cuts=2)
    own.reset(None)
    assert (own.new_cases, own.new_events, own.completed, own.waiting_since, own.last_cut) == (0, 0, 0, None, 7)
    own.reset(0)
    assert (own.last_cut, own.cuts) == (0, 2)


def test_state_survives_its_table() -> None:
    """Every field comes back from plain values, the last place as a pair."""
    own = _state(new_cases=1, last_place=(4, 2), paused=True, first_done=True, unreleased={"new_cases": 3})
    table = own.to_state()
    assert PublicationState.from_state({**table, "last_place": [4, 2]}) == own
    fresh = _state()
    assert (fresh.last_place, fresh.index, fresh.cuts, fresh.late_included, fresh.orphans) == ((-1, -1), 0, 0, 0, 0)
    assert (fresh.new_cases, fresh.new_events, fresh.completed, fresh.ready, fresh.unfinished) == (0, 0, 0, 0, 0)
    assert (fresh.paused, fresh.first_done) == (False, False)


def test_whose_cases_were_taken_is_in_the_state() -> None:
    """Else a person would give as many cases again behind a restart. If nobody's are counted, the key is left out:
    older programs read that state."""
    own = _state(taken={"someone": 2})
    table = own.to_state()
    assert table["taken"] == {"someone": 2}
    assert PublicationState.from_state(table) == own
    assert "taken" not in _state().to_state()
    assert PublicationState.from_state(_state().to_state()).taken == {}


@pytest.mark.parametrize(
    ("time", "clock", "earliest", "end"),
    [
        ("event", TriggerClock(None, 25), 25, 30),
        ("event", TriggerClock(None, 30), 30, 40),  # a moment on the edge begins its window
        ("event", TriggerClock(None, 45), 13, 20),  # the earliest event, not the watermark
        ("event", TriggerClock(None, 12), 45, 20),  # nor an event beyond it
        ("event", TriggerClock(99, None), 13, None),  # not every partition was heard of
        ("event", TriggerClock(None, -1), -1, 0),
        ("event", TriggerClock(99, 45), None, None),  # no event yet
        ("wall", TriggerClock(25, None), 3, 30),  # the first tick after an event, whatever its time
        ("wall", TriggerClock(25, 99), 3, 30),
        ("wall", TriggerClock(None, 25), 3, None),
        ("wall", TriggerClock(25, 25), None, None),
    ],
)
def test_the_first_window(time: Any, clock: TriggerClock, earliest: int | None, end: int | None) -> None:
    """Aligned to 1970-01-01: that of the earliest event, or for wall time the one that the clock is in."""
    own = _state()
    own.open_windows(_rules(every=10, time=time), clock, earliest)
    assert own.window_end == end


def test_a_window_is_opened_once_and_only_where_there_are_windows() -> None:
    """One that is open stays as it is; without `every` there is none."""
    own = _state(window_end=70)
    own.open_windows(_rules(every=10), TriggerClock(None, 25), 25)
    assert own.window_end == 70
    own = _state()
    own.open_windows(_rules(new_cases=1), TriggerClock(25, 25), 25)
    assert own.window_end is None


@pytest.mark.parametrize(
    ("time", "now", "end", "expected"),
    [
        ("event", 95, 30, 40),  # event time: one window after the other, whatever the clock says
        ("event", None, 30, 40),
        ("wall", 31, 30, 40),
        ("wall", 39, 30, 40),
        ("wall", 40, 30, 50),  # the clock is at the begin of the window that ends at 50
        ("wall", 75, 30, 80),  # one tick went over several windows: on to the one that it is in
        ("wall", 3, 30, 40),  # never back
        ("wall", None, 30, 40),
    ],
)
def test_the_next_window(time: Any, now: int | None, end: int, expected: int) -> None:
    """The one after in event time; in wall time the one that the clock is in, never one that is over."""
    own = _state(window_end=end)
    own.skip_window(_rules(every=10, time=time), TriggerClock(now, None))
    assert own.window_end == expected


def test_no_next_window_without_one() -> None:
    """A window that was never opened is not moved, nor an end that other rules left."""
    for rules, end in ((_rules(every=10), None), (_rules(new_cases=1), 30)):
        own = _state(window_end=end)
        own.skip_window(rules, TriggerClock(99, 99))
        assert own.window_end == end


def _fold(**window: Any) -> Fold:
    return Fold(FoldRules((PublicationRules("p", Window(**window)),)))


def _taken(fold: Fold, position: int, record: Delta | Tick) -> list[tuple[str, int | None, tuple[Any, Any]]]:
    """Cuts of a record as (trigger, moment, window), each decided."""
    cuts: list[Cut] = []
    for cut in fold.apply(position, record):
        cuts.append(cut)
        fold.decided(cut, True)
    return [(cut.trigger, cut.time_ns, cut.window) for cut in cuts]


def _events(first: int, *times: int) -> Delta:
    rows = [tuple(Row(first + place, f"c{first + place}", "a", time)) for place, time in enumerate(times)]
    return Delta(src="s", p=0, prev=first - 1, last=first + len(rows) - 1, n=len(rows), rows=rows)


def test_one_tick_over_several_wall_windows_gives_each_its_cut_at_its_end() -> None:
    """A tick that comes late (an idle night) closes the windows one by one, each at its own end: none is lost, none
    comes twice, and the next one ends after the tick."""
    fold = _fold(every=HOUR, time="wall")
    start = 100 * HOUR
    assert _taken(fold, 0, Tick(at=start)) == []
    assert _taken(fold, 1, _events(0, start + 1)) == []
    cuts = _taken(fold, 2, Tick(at=start + 4 * HOUR + 5))
    assert cuts == [("every", start + k * HOUR, (start + (k - 1) * HOUR, None)) for k in (1, 2, 3, 4)]
    assert _taken(fold, 3, Tick(at=start + 5 * HOUR - 1)) == []
    assert _taken(fold, 4, Tick(at=start + 5 * HOUR)) == [("every", start + 5 * HOUR, (start + 4 * HOUR, None))]


def test_a_restored_clock_far_behind_gives_one_cut_and_goes_on() -> None:
    """Windows that were over while no clock was known are one cut (its end is the window's), and the next ends after
    now."""
    own = _state(window_end=30)
    rules = _rules(every=10, time="wall")
    assert own.firing(rules, TriggerClock(95, None)) == Firing("every", 20)
    own.skip_window(rules, TriggerClock(95, None))
    assert own.window_end == 100
    assert own.firing(rules, TriggerClock(95, None)) is None


def test_windows_that_a_guard_skips_are_skipped_one_by_one() -> None:
    """min_new_cases holds a wall window of too few cases back; they go to the window in which enough have come."""
    fold = _fold(every=HOUR, time="wall", min_new_cases=2)
    start = 100 * HOUR
    _taken(fold, 0, Tick(at=start))
    assert _taken(fold, 1, _events(0, start + 1)) == []
    assert _taken(fold, 2, Tick(at=start + 3 * HOUR)) == []
    assert _taken(fold, 3, _events(1, start + 3 * HOUR + 1)) == []
    cuts = _taken(fold, 4, Tick(at=start + 4 * HOUR))
    assert cuts == [("every", start + 4 * HOUR, (start + 3 * HOUR, None))]


@pytest.mark.parametrize(
    ("window", "fields", "bound"),
    [
        ({"every": 10}, {"window_end": 30}, 30),
        ({"every": 10, "allowed_lateness": 4}, {"window_end": 30}, 34),
        ({"every": 10}, {}, NEVER),
        ({"every": 10, "time": "wall"}, {"window_end": 30}, NEVER),
        ({"new_cases": 1}, {"window_end": 30}, NEVER),
        ({"every": 10, "first": First(until=17)}, {"window_end": 30}, 18),
        ({"every": 10, "first": First(until=17)}, {"window_end": 30, "first_done": True}, 30),
        ({"every": 10, "first": First(new_cases=3)}, {"window_end": 30}, NEVER),
    ],
)
def test_the_watermark_at_which_a_window_closes(window: Any, fields: Any, bound: int) -> None:
    """Its end and the lateness allowed; before the first release, just after `until`, or never."""
    assert _state(**fields).window_bound(_rules(**window)) == bound


def test_a_first_release_with_nothing_in_it_is_skipped_once() -> None:
    """Nothing came before `until`: the guard skips that release, and the other triggers begin."""
    fold = _fold(new_cases=2, skip_if_unchanged=True, first=First(until=50))
    assert _taken(fold, 0, _events(0, 60, 61, 62)) == [("new_cases", 61, (None, None))]
    assert fold.publications["p"].first_done


RULE = EventsPerCase(2, max_wait=7)


@pytest.mark.parametrize(
    ("window", "fields", "bounds"),
    [
        ({"every": 10, "time": "wall"}, {"window_end": 30}, [30]),
        ({"every": 10, "time": "wall"}, {}, []),
        ({"every": 10}, {"window_end": 30}, []),
        ({"new_cases": 3}, {"window_end": 30}, []),
        ({"events_per_case": RULE}, {"waiting_since": 5}, [12]),
        ({"events_per_case": RULE}, {}, []),
        ({"events_per_case": EventsPerCase(2)}, {"waiting_since": 5}, []),
        ({"events_per_case": RULE, "new_cases": 3}, {"waiting_since": 5}, []),  # another trigger fires
        ({"new_cases": 3, "min_interval": 9}, {"last_cut": 5}, [14]),
        ({"new_cases": 3, "min_interval": 9}, {}, []),
        ({"new_cases": 3}, {"last_cut": 5}, []),
        ({"every": 10, "time": "wall", "min_interval": 9}, {"window_end": 30, "last_cut": 5}, [30, 14]),
        ({"every": 10, "time": "wall", "first": First(new_cases=1)}, {"window_end": 30}, []),
        ({"every": 10, "time": "wall", "first": First(new_cases=1)}, {"window_end": 30, "first_done": True}, [30]),
    ],
)
def test_the_clocks_at_which_time_triggers(window: Any, fields: Any, bounds: list[int]) -> None:
    """End of a wall window, end of `max_wait`, and the moment at which `min_interval` sets a held trigger free."""
    assert _state(**fields).wall_bounds(_rules(**window)) == bounds


@pytest.mark.parametrize(
    ("window", "fields", "fresh", "rows"),
    [
        ({"new_cases": 3}, {}, [0, 2, 5, 7], 5),  # the event at 5 brings the third case: five rows before it are safe
        ({"new_cases": 3}, {"new_cases": 2}, [4, 6], 4),
        ({"new_cases": 3}, {"new_cases": 1}, [4], 9),  # one case is missing still: all nine
        ({"new_cases": 3}, {"new_cases": 3}, [4], 9),  # held by a guard: no further case fires it
        ({"new_cases": 4}, {}, [0, 2, 5, 7], 7),
        ({"new_cases": 9, "min_new_cases": 2}, {}, [1, 6, 8], 6),
        ({"new_cases": 2, "min_new_cases": 3}, {}, [1, 6, 8], 6),  # whichever comes first
        ({"new_events": 6}, {}, [], 5),
        ({"new_events": 6}, {"new_events": 5}, [], 0),
        ({"new_events": 6}, {"new_events": 6}, [], 9),
        ({"new_events": 60}, {}, [], 9),
        ({"new_events": 4, "new_cases": 2}, {}, [0, 1], 1),
        ({"new_events": 2, "new_cases": 2}, {}, [0, 5], 1),
        ({"completed_cases": 2}, {}, [0], 9),
        ({"new_cases": 1, "first": First(new_cases=2)}, {}, [3, 6], 6),
        ({"new_cases": 1, "first": First(new_cases=2)}, {"first_done": True}, [3, 6], 3),
        ({"new_cases": 1, "new_events": 1, "first": First(until=2)}, {}, [3, 6], 9),
        ({"new_cases": 1, "first": First(new_events=5)}, {}, [3, 6], 4),
    ],
)
def test_rows_that_surely_fire_nothing(window: Any, fields: Any, fresh: list[int], rows: int) -> None:
    """Exactly up to the row that fires: fewer would be slow, more would cut too late."""
    own = _state(**fields)
    assert own.rows_until(_rules(**window), np.asarray(fresh, dtype=np.int64), 9) == rows


@pytest.mark.parametrize(
    ("window", "fields", "clock", "fires"),
    [
        ({"new_cases": 3}, {"new_cases": 2}, TriggerClock(None, None), None),
        ({"new_cases": 3}, {"new_cases": 3}, TriggerClock(None, None), Firing("new_cases")),
        ({"new_events": 3}, {"new_events": 3}, TriggerClock(None, None), Firing("new_events")),
        ({"completed_cases": 3}, {"completed": 3}, TriggerClock(None, None), Firing("completed_cases")),
        ({"completed_cases": 3}, {"completed": 2, "new_cases": 9, "new_events": 9}, TriggerClock(None, None), None),
        ({"every": 10}, {"window_end": 30}, TriggerClock(99, 29), None),
        ({"every": 10}, {"window_end": 30}, TriggerClock(None, 30), Firing("every", 20, 30)),
        ({"every": 10, "allowed_lateness": 5}, {"window_end": 30}, TriggerClock(None, 34), None),
        ({"every": 10, "allowed_lateness": 5}, {"window_end": 30}, TriggerClock(None, 35), Firing("every", 20, 30)),
        ({"every": 10}, {"window_end": 30}, TriggerClock(99, None), None),
        ({"every": 10}, {}, TriggerClock(99, 99), None),
        ({"every": 10, "time": "wall"}, {"window_end": 30}, TriggerClock(29, 99), None),
        ({"every": 10, "time": "wall"}, {"window_end": 30}, TriggerClock(30, None), Firing("every", 20)),
        ({"every": 10, "time": "wall"}, {"window_end": 30}, TriggerClock(None, 99), None),
        (
            {"every": 10, "new_cases": 1},
            {"window_end": 30, "new_cases": 1},
            TriggerClock(None, 30),
            Firing("every", 20, 30),
        ),
        ({"every": 10, "new_cases": 1}, {"window_end": 30, "new_cases": 1}, TriggerClock(None, 3), Firing("new_cases")),
        ({"manual": True}, {"new_cases": 9}, TriggerClock(99, 99), None),
        # the first release is shaped by `first` alone, and by nothing of it afterwards
        ({"new_cases": 1, "first": First(new_cases=2)}, {"new_cases": 1}, TriggerClock(None, None), None),
        ({"new_cases": 1, "first": First(new_cases=2)}, {"new_cases": 2}, TriggerClock(None, None), Firing("first")),
        ({"new_cases": 1, "first": First(new_events=2)}, {"new_cases": 2}, TriggerClock(None, None), None),
        (
            {"new_cases": 1, "first": First(new_events=2)},
            {"new_events": 2},
            TriggerClock(None, None),
            Firing("first"),
        ),
        ({"new_cases": 9, "first": First(until=50)}, {}, TriggerClock(99, 50), None),
        ({"new_cases": 9, "first": First(until=50)}, {}, TriggerClock(None, 51), Firing("first", end=51)),
        ({"new_cases": 9, "first": First(until=50)}, {}, TriggerClock(99, None), None),
        (
            {"new_cases": 1, "first": First(until=50)},
            {"new_cases": 1, "first_done": True},
            TriggerClock(None, 51),
            Firing("new_cases"),
        ),
    ],
)
def test_what_fires(window: Any, fields: Any, clock: TriggerClock, fires: Firing | None) -> None:
    """Each trigger at the value before the one that fires it, and at that one; time comes before counts."""
    assert _state(**fields).firing(_rules(**window), clock) == fires


@pytest.mark.parametrize(
    ("rule", "fields", "now", "fires"),
    [
        (EventsPerCase(2), {"ready": 4, "unfinished": 4}, None, Firing("events_per_case")),
        (EventsPerCase(2), {"ready": 3, "unfinished": 4}, None, None),
        (EventsPerCase(2), {"ready": 0, "unfinished": 0}, None, None),
        (EventsPerCase(2, fraction=0.5), {"ready": 2, "unfinished": 4}, None, Firing("events_per_case")),
        (EventsPerCase(2, fraction=0.5), {"ready": 1, "unfinished": 4}, None, None),
        (EventsPerCase(2, fraction=0.5), {"ready": 2, "unfinished": 5}, None, None),
        (EventsPerCase(2, max_wait=7), {"unfinished": 4, "waiting_since": 5}, 11, None),
        (EventsPerCase(2, max_wait=7), {"unfinished": 4, "waiting_since": 5}, 12, Firing("max_wait", certain=False)),
        (EventsPerCase(2, max_wait=7), {"unfinished": 4}, 99, None),
        (EventsPerCase(2, max_wait=7), {"unfinished": 4, "waiting_since": 5}, None, None),
        (EventsPerCase(2), {"unfinished": 4, "waiting_since": 5}, 99, None),
        (EventsPerCase(2, lockstep=True), {"ready": 4, "unfinished": 4}, 99, None),
    ],
)
def test_when_enough_cases_are_ready(rule: EventsPerCase, fields: Any, now: int | None, fires: Firing | None) -> None:
    """The rule fires alone when its share of the open cases is ready, or after max_wait, which is not certain."""
    own = _state(**fields)
    assert own.firing(_rules(events_per_case=rule), TriggerClock(now, None)) == fires
    other = own.firing(_rules(events_per_case=rule, new_cases=9), TriggerClock(now, None))
    assert other is None  # if there is another trigger, that one fires


@pytest.mark.parametrize(
    ("window", "fields", "now", "held"),
    [
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 1, "last_cut": 5}, 13, True),
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 1, "last_cut": 5}, 14, False),
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 1, "last_cut": 5}, None, True),  # nobody knows how long ago
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 1}, 99, False),  # the cut before had no clock
        ({"new_cases": 1, "min_interval": 1}, {"cuts": 1}, 99, False),
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 0}, None, False),  # the first release waits for nothing
        ({"new_cases": 1, "min_interval": 9}, {"cuts": 0, "last_cut": 5}, 6, False),
        ({"new_cases": 1}, {"cuts": 1, "last_cut": 5}, 5, False),
        ({"new_cases": 1, "min_new_cases": 3}, {"new_cases": 2}, None, True),
        ({"new_cases": 1, "min_new_cases": 3}, {"new_cases": 3}, None, False),
        ({"every": 10, "min_new_cases": 3}, {"new_cases": 2}, None, False),  # counted among what the window exposes
        ({"every": 10, "time": "wall", "min_new_cases": 3}, {"new_cases": 2}, None, True),
        ({"new_cases": 1}, {"new_cases": 0}, None, False),
    ],
)
def test_what_a_guard_holds_back(window: Any, fields: Any, now: int | None, held: bool) -> None:
    """min_interval since the last cut by ticks, min_new_cases since the last cut."""
    assert _state(**fields).held(_rules(**window), TriggerClock(now, None)) is held
