"""Neighbouring logs and what an adversary looks at in a release: the stage on which `models.dp.audit` plays.

A small log of our own with one case unlike all others; its neighbours add or remove a case, change an event, or shift a
time. The audit must not read a person's log: witnesses are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.dp.annotation import MILLISECOND
from models.dp.audit import NeighbourPair
from models.dp.counts import NoisyCounts
from models.errors import BoundError
from models.eventlog import EventLog, Ints

HOUR = 3_600_000
DAY = 24 * HOUR

DURATIONS = tuple(HOUR << power for power in range(16))

Run = Callable[[EventLog], EventLog]
"""A mechanism as the audit sees it: a log in, the released log out (or a BoundError), its parameters fixed."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`common` cases of variant A B, of which the last is the victim; times in milliseconds of its second event."""

    common: int = 20
    duration: int = HOUR
    longest: int = 30 * DAY

    def log(self, cases: int, *, last: str = "AB", last_duration: int | None = None) -> EventLog:
        """Return `cases` cases of A B, an hour apart; the last of variant `last`, its events `last_duration` apart.

        Parameters
        ----------
        cases
            Number of cases, at least 1.
        last
            Activities of the last case, one letter each.
        last_duration
            Time between its events, in the unit of `duration`. None: that of the other cases.
        """
        others = [("AB", self.duration)] * (cases - 1)
        victim = (last, self.duration if last_duration is None else last_duration)
        return hourly_log([*others, victim])


def hourly_log(cases: Iterable[tuple[Sequence[str], int]]) -> EventLog:
    """Return a log whose cases begin an hour apart.

    Parameters
    ----------
    cases
        Trace of each case, and the time from each of its events to the next one in milliseconds.
    """
    case, activity, time = [], [], []
    for number, (trace, step) in enumerate(cases):
        for position, name in enumerate(trace):
            case.append(str(number))
            activity.append(name)
            time.append((number * HOUR + position * step) * MILLISECOND)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


def pairs(
    run: Run,
    stage: Stage | None = None,
    *,
    times: bool = True,
    rule: bool = False,
) -> list[NeighbourPair]:
    """Return neighbouring pairs: a case added, a case of a new variant, an event changed, a time shifted.

    Parameters
    ----------
    times
        Whether times are released.
    rule
        Whether the mechanism releases variants of the source log only, which makes every other variant impossible (the
        support differences of Amun).
    """
    scene = stage or Stage()
    base = scene.log(scene.common)
    neighbours = [
        ("a case added", scene.log(scene.common + 1), 1),
        ("a case of a new variant added", scene.log(scene.common + 1, last="AC"), 1),
        ("an event changed", scene.log(scene.common, last="AC"), 2),
    ]
    if times:
        neighbours.append(("a time shifted", scene.log(scene.common, last_duration=scene.longest), 2))
    return [_pair(name, run, base, other, steps, rule) for name, other, steps in neighbours]


def _pair(name: str, run: Run, log: EventLog, other: EventLog, steps: int, rule: bool) -> NeighbourPair:
    around = log.n_cases
    return NeighbourPair(
        name,
        lambda: _outcome(run, log, around),
        lambda: _outcome(run, other, around),
        steps,
        _only_its_variants(log) if rule else None,
        _only_its_variants(other) if rule else None,
    )


Counting = Callable[[Ints], NoisyCounts]
"""A mechanism of counts as the audit sees it: true counts of variants in, the released ones out. It treats each count
by itself, so that the counts of many runs can be given at once."""


def count_pairs(counting: Counting, common: int) -> list[NeighbourPair]:
    """Return the neighbouring pairs as counts alone, in bulk: a case added, one of a new variant, one changed.

    Parameters
    ----------
    counting
        The mechanism on counts.
    common
        Cases of the frequent variant.
    """
    base = (common, 0)
    neighbours = [
        ("a case added", (common + 1, 0), 1),
        ("a case of a new variant added", (common, 1), 1),
        ("an event changed", (common - 1, 1), 2),
    ]
    return [
        NeighbourPair(
            name,
            lambda: (),
            lambda: (),
            steps,
            many_one=partial(_tallied, counting, base, common),
            many_other=partial(_tallied, counting, other, common),
        )
        for name, other, steps in neighbours
    ]


def _tallied(counting: Counting, true: tuple[int, ...], around: int, runs: int) -> Counter[Hashable]:
    """Count how often each variant left, and with how many cases at least or at most."""
    released = counting(np.tile(np.asarray(true, dtype=np.int64), runs))
    seen: Counter[Hashable] = Counter()
    for variant in range(len(true)):
        name = f"variant {variant + 1}"
        counts = released.counts[released.variants % len(true) == variant]
        seen["variant", name] = len(counts)
        seen["no variant", name] = runs - len(counts)
        for bound in (*range(around - 8, around + 10), released.threshold, released.threshold + 1):
            reached = int((counts >= bound).sum())
            seen["at least", name, bound] = reached
            seen["fewer than", name, bound] = len(counts) - reached
            seen["exactly", name, bound] = int((counts == bound).sum())
    return +seen


def _outcome(run: Run, log: EventLog, around: int) -> Iterator[Hashable]:
    """Return what one run shows. A refusal (Amun's filter may leave no case) is an output like any other."""
    try:
        released = run(log)
    except BoundError:
        yield "nothing is released"
        return
    yield from observed(released, around)


def _only_its_variants(log: EventLog) -> Callable[[Hashable], bool]:
    variants = set(log.traces())
    return lambda event: not (isinstance(event, tuple) and event[0] == "variant") or event[1] in variants


def observed(released: EventLog, around: int) -> Iterator[Hashable]:
    """Events of a release: which variants, how many cases of each at least or at most, and how long they took.

    Counts are distinguished near `around`, the number of cases that variants have in the source, and near 0.

    Parameters
    ----------
    released
        A release.
    around
        Cases of each variant in the source.
    """
    bounds = (2, 3, 5, around - 6, around - 3, *range(around - 1, around + 4), around + 6, around + 9)
    counts = Counter(released.traces())
    for trace, count in counts.items():
        yield "variant", trace
        for bound in bounds:
            yield ("at least" if count >= bound else "fewer than", trace, bound)
    for trace in {("A", "B"), ("A", "C")} - set(counts):
        yield "no variant", trace
    filled = released.lengths > 0
    first, last = released.starts[:-1][filled], released.starts[1:][filled] - 1
    durations = (released.time[last] - released.time[first]) // MILLISECOND
    total, longest = int(durations.sum()), int(durations.max(initial=0))
    for bound in DURATIONS:
        yield ("times add up to at least" if total >= bound else "times add up to less than", bound)
        yield ("the longest case takes at least" if longest >= bound else "no case takes", bound)
