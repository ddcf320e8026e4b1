"""The paper's experiment on a log: a first release up to a split, then releases of x events a case.

Source: temporal-privacy-leakage-2022, section 5. All started, incomplete cases advance in lockstep: by exactly x
events (S1), or by one random r of 0..x per release (S2); every case not yet started starts in the second release.
The artificial start and end are events. The split (paper_split) is the time of the event with index floor(f N) in
file order, and the first release holds the events up to that time. Values by definition do not depend on the draws
of S2 where steps are extreme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, EventLog, Ints, starts_of
from models.leakage.automaton import TransitionSystem, from_moves
from models.leakage.correlations import Scenario, check
from models.leakage.states import END, START, StateFunction, StateSpace, escaped


@content_free()
@dataclass(frozen=True, slots=True)
class Paths:
    """The states that each case passes.

    Attributes
    ----------
    space
        Numbers of the states.
    offsets
        int64[C + 1], where the states of each case begin.
    state
        int64: `state[offsets[c] + p]` is the state after position p of case c; position 0 is the start
        state.
    full
        int64[C], positions of each case, artificial events included.
    """

    space: StateSpace
    offsets: Ints
    state: Ints
    full: Ints


def paths(
    log: EventLog,
    function: StateFunction,
    ended: npt.NDArray[np.bool_],
    items: Column | None = None,
) -> Paths:
    """Return the states of every case over its activities.

    Parameters
    ----------
    log
        The log.
    function
        Maps a prefix to a state.
    ended
        bool[C], cases that are complete once all their events are seen.
    items
        Another event column to use in place of the activity; a missing value is an item.
    """
    space = StateSpace(function)
    begin = [0, space.follow(0, START)]
    column = items or log.activity
    called = [escaped(str(item)) for item in (*column.values, None)]
    names = [called[code] for code in column.codes.tolist()]
    follow, visited = space.follow, []
    for a, b, over in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), ended.tolist(), strict=True):
        visited += begin
        state = begin[1]
        for name in names[a:b]:
            state = follow(state, name)
            visited.append(state)
        if over:
            visited.append(follow(state, END))
    full = log.lengths + 1 + ended
    offsets = starts_of(full + 1)
    return Paths(space, offsets, np.asarray(visited, dtype=np.int64), full.astype(np.int64))


def transition_system(
    state_paths: Paths, shown: Ints, *, least_cases: int = 1, complete_only: bool = False
) -> TransitionSystem:
    """Return the automaton of a release that shows the first `shown[c]` positions of case c (0: not started).

    Parameters
    ----------
    least_cases
        Transitions taken by fewer cases do not count.
    complete_only
        Only complete traces count.
    """
    if complete_only:
        ends = np.asarray(state_paths.space.ends, dtype=np.bool_)
        shown = np.where(ends[state_paths.state[state_paths.offsets[:-1] + shown]], shown, 0)
    position = np.arange(len(state_paths.state)) - np.repeat(state_paths.offsets[:-1], state_paths.full + 1)
    moves = np.flatnonzero((position >= 1) & (position <= np.repeat(shown, state_paths.full + 1)))
    system = from_moves(
        state_paths.space, state_paths.state[moves - 1], state_paths.state[moves], int((shown > 0).sum())
    )
    return system if least_cases == 1 else system.at_least(least_cases)


def ended_cases(log: EventLog, end_activities: Sequence[str] = ()) -> npt.NDArray[np.bool_]:
    """Return which cases are complete once all their events are seen, bool[C].

    Parameters
    ----------
    log
        The log.
    end_activities
        Activities of which one ends a case. None given: all cases are complete, since the log's end is the
        end.

    Raises
    ------
    InputError
        If an end activity does not occur in the log.
    """
    if not end_activities:
        return np.ones(log.n_cases, dtype=np.bool_)
    unknown = sorted(set(end_activities) - set(log.activity.values))
    if unknown:
        raise InputError(f"{len(unknown)} of {len(end_activities)} end activities do not occur in the log")
    ends = [code for code, name in enumerate(log.activity.values) if name in end_activities]
    result = np.zeros(log.n_cases, dtype=np.bool_)
    some = log.lengths > 0
    result[some] = np.isin(log.activity.codes[log.starts[1:][some] - 1], ends)
    return result


def first_release(log: EventLog, fraction: float, ended: npt.NDArray[np.bool_]) -> Ints:
    """Return the positions that the first release shows of each case, int64[C].

    They are those of the events up to the split (paper_split).

    Parameters
    ----------
    log
        The source log.
    fraction
        Part of the events before the split, from 0 to below 1.
    ended
        bool[C], cases that are complete at the end of the log.

    Raises
    ------
    InputError
        If the log has no event, or every event is before the split.
    """
    if not 0 <= fraction < 1:
        raise InputError(f"split = {fraction:g} leaves no continuous part; it is a fraction from 0 to below 1")
    if not log.n_events:
        raise InputError("the log has no events")
    split = log.time[np.argsort(log.row, kind="stable")[int(fraction * log.n_events)]]
    early = starts_of(log.time <= split)
    events = early[log.starts[1:]] - early[log.starts[:-1]]
    shown = np.where(events > 0, events + 1 + (ended & (events == log.lengths)), 0).astype(np.int64)
    if np.array_equal(shown, log.lengths + 1 + ended):
        raise InputError(f"split = {fraction:g} leaves no continuous part: every event is before the split")
    return shown


def lockstep(
    first: Ints, full: Ints, scenario: Scenario, x: int, releases: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """Yield the positions that each release shows, int64[C], until no case has anything left.

    Parameters
    ----------
    first
        int64[C], positions of the first release.
    full
        int64[C], all positions.
    scenario, x
        In each release all cases advance by x events (certain), or by one random number of 0 to x
        (uncertain).
    releases
        Most releases.
    rng
        Draws the random numbers.

    Raises
    ------
    InputError
        If x or `releases` is below 1, or the scenario is unknown.
    """
    check(scenario, x)
    if releases < 1:
        raise InputError(f"releases = {releases}: at least 1 is needed")
    shown = first
    yield shown
    for _ in range(releases - 1):
        if np.array_equal(shown, full):
            return
        advance = x if scenario == "certain" else int(rng.integers(0, x + 1))
        shown = np.minimum(shown + advance, full)
        yield shown
