"""Windows from a declared `start`, and the moment of a private first release: triggers that no event may move."""

from __future__ import annotations

from typing import Any

import pytest

from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.triggers import NEVER, Firing, PublicationState, TriggerClock
from stream.fold.window import First, Window
from tests.oracles.fold_runs import S


def _rules(start: int | None = None, *, private: bool = True, **window: Any) -> PublicationRules:
    return PublicationRules("p", Window(**window), start=start, private=private)


@pytest.mark.parametrize(
    ("time", "clock", "earliest", "simulated", "end"),
    [
        ("event", TriggerClock(None, None), None, False, 13),  # before any event or tick
        ("event", TriggerClock(99, 45), 1, False, 13),  # whatever the first event says: earlier or
        ("event", TriggerClock(99, 45), 45, False, 13),  # later
        ("wall", TriggerClock(None, 45), 45, False, None),  # no tick yet: nobody knows the window
        (
            "wall",
            TriggerClock(25, 45),
            1,
            False,
            33,
        ),  # the window that the first tick is in, on the grid of the start
        ("wall", TriggerClock(33, None), None, False, 43),  # a tick on the edge begins its window
        ("wall", TriggerClock(1, None), None, False, 13),  # a tick before the start: the first window
        ("wall", TriggerClock(25, 45), 45, True, 13),  # simulated time goes through every window from the first
        ("wall", TriggerClock(None, None), None, True, 13),
    ],
)
def test_the_first_window_from_a_start(
    time: Any, clock: TriggerClock, earliest: int | None, simulated: bool, end: int | None
) -> None:
    """Windows of ten from 3: the first ends at 13, and no event moves it."""
    own = PublicationState("p")
    own.open_windows(_rules(3, every=10, time=time), clock, earliest, simulated=simulated)
    assert own.window_end == end


def test_time_is_not_simulated_unless_said() -> None:
    """A daemon that starts long after `start` does not go through the windows before its first tick."""
    own = PublicationState("p")
    own.open_windows(_rules(3, every=10, time="wall"), TriggerClock(25, None), None)
    assert own.window_end == 33


@pytest.mark.parametrize(
    ("start", "time", "now", "end", "expected"),
    [
        (3, "event", 99, 33, 43),
        (3, "event", None, 30, 33),  # a start that came later: the next window ends on its grid
        (None, "event", None, 33, 43),  # without a start: a window further
        (3, "wall", 34, 33, 43),
        (3, "wall", 75, 33, 83),  # one tick over several windows
        (3, "wall", 30, 30, 33),
        (80, "event", None, 33, 90),  # a start that is ahead: its first window
    ],
)
def test_the_next_window_from_a_start(start: int | None, time: Any, now: int | None, end: int, expected: int) -> None:
    """The next window ends on the grid of the start, and in wall time after now."""
    own = PublicationState("p", window_end=end)
    own.skip_window(_rules(start, every=10, time=time), TriggerClock(now, None))
    assert own.window_end == expected


@pytest.mark.parametrize(
    ("first", "private", "done", "bounds", "watermark"),
    [
        (First(until=17), True, False, [18], NEVER),  # by a tick, after the moment itself
        (First(until=17), False, False, [], 18),  # by an event: the watermark
        (First(until=17), True, True, [], NEVER),
        (First(new_cases=17), True, False, [], NEVER),
        (None, True, False, [], NEVER),
        (None, True, True, [], NEVER),
    ],
)
def test_the_clock_that_a_private_first_release_waits_for(
    first: First | None, private: bool, done: bool, bounds: list[int], watermark: int
) -> None:
    """`until` of a dp release comes by a tick just after it, and never by an event; other first releases have none."""
    own, rules = PublicationState("p", first_done=done), _rules(new_cases=9, first=first, private=private)
    assert own.wall_bounds(rules) == bounds
    assert own.window_bound(rules) == watermark


@pytest.mark.parametrize(
    ("private", "clock", "fires"),
    [
        (True, TriggerClock(50, 99), None),
        (True, TriggerClock(51, None), Firing("first", end=51)),
        (True, TriggerClock(None, 99), None),  # somebody's event brings nothing nearer
        (False, TriggerClock(99, 50), None),
        (False, TriggerClock(None, 51), Firing("first", end=51)),
    ],
)
def test_what_a_private_first_release_reads(private: bool, clock: TriggerClock, fires: Firing | None) -> None:
    """Ticks for a dp release, the watermark for others."""
    rules = _rules(new_cases=9, first=First(until=50), private=private)
    assert PublicationState("p").firing(rules, clock) == fires


def _fold_to_tick(*before: AnyRecord, at: int) -> Fold:
    """Fold some records and a tick, under a wall window of 7 s that is counted from 3 s."""
    window = Window(every=7 * S, time="wall")
    fold = Fold(FoldRules((PublicationRules("p", window, start=3 * S, private=True),), sources=(("s", 0),)))
    for position, record in enumerate([*before, Tick(at=at)]):
        assert list(fold.apply(position, record)) == []
    return fold


GAP = Delta(src="s", p=0, prev=4, last=5, n=1, key="k", rows=[Row(5, "c", "a", 1)])


@pytest.mark.parametrize("before", [Command(name="pause"), GAP], ids=["paused", "gap"])
def test_a_restart_does_not_move_the_first_window(before: AnyRecord) -> None:
    """A publication that may release nothing at its first tick still opens its window there, and not at a restart."""
    fold = _fold_to_tick(before, at=20 * S)
    assert fold.publications["p"].window_end == 24 * S
    restored = Fold.restore(fold.snapshot())
    assert restored.snapshot() == fold.snapshot()
    assert restored.next_deadline() == fold.next_deadline() == 24 * S


def test_a_publication_that_was_paused_at_its_first_tick_releases_its_window_when_it_continues() -> None:
    """The window that the first tick opened is over: it is cut at once, before and after a restart alike."""
    fold = _fold_to_tick(Command(name="pause"), at=20 * S)
    list(fold.apply(2, Tick(at=40 * S)))
    for continued in (fold, Fold.restore(fold.snapshot())):
        ends = []
        for cut in continued.apply(3, Command(name="resume")):
            ends.append((cut.trigger, cut.window, continued.publications["p"].window_end))
            continued.decided(cut, released=True)
        assert ends == [("every", (17 * S, None), 45 * S)]
