"""Uniqueness on random logs against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.eventlog import EventLog
from models.risk.index import TraceIndex
from models.risk.points import KnownColumns
from models.risk.true_points import MOST_PERSONS, search_persons
from models.risk.uniqueness import NEVER, greedy_points, known_points, trace_uniqueness
from tests.conftest import examples
from tests.oracles.risk import expected_uniqueness, fewest_points, person_searches, unique, unique_chances

CASES = st.lists(
    st.tuples(st.text("abc", max_size=6), st.sampled_from(["x", "y", None])), min_size=1, max_size=8
)  # fmt: skip


def _log(cases: list[tuple[str, str | None]]) -> EventLog:
    return EventLog.from_traces(cases, "S")


def _index(log: EventLog, *columns: str) -> TraceIndex:
    return TraceIndex.build(log, KnownColumns(columns or ("activity",), ("S",)))


@examples(500)
@given(CASES)
def test_all_points_agree_with_brute_force(cases: list[tuple[str, str | None]]) -> None:
    """With every point known the index says what comparing all pairs of multisets says, with attributes and without."""
    traces, groups = [trace for trace, _ in cases], [value for _, value in cases]
    log = _log(cases)
    found = _index(log).unique(log.lengths, np.random.default_rng(0)).mean()
    assert found == pytest.approx(expected_uniqueness(traces, groups, 6))
    bare = trace_uniqueness(log, "E", "all").points[0].unique_mean
    assert bare == pytest.approx(expected_uniqueness(traces, [None] * len(traces), 6))


@examples(100)
@given(CASES, st.integers(1, 3))
def test_counted_choices_agree_with_comparing_all_pairs(cases: list[tuple[str, str | None]], m: int) -> None:
    """The two oracles: holders of each choice counted (fast enough for a real log) and every pair of cases compared."""
    traces, groups = [trace for trace, _ in cases if trace], [value for trace, value in cases if trace]
    if traces:
        chances = unique_chances(traces, groups, m)
        assert sum(chances) / len(chances) == pytest.approx(expected_uniqueness(traces, groups, m))


@examples(30)
@given(CASES, st.integers(1, 3), st.integers(0, 9))
def test_random_draws_estimate_the_mean_over_all_choices(
    cases: list[tuple[str, str | None]], m: int, seed: int
) -> None:
    """300 draws come within 5 standard errors of the exact mean over all choices of m events."""
    traces, groups = [trace for trace, _ in cases], [value for _, value in cases]
    index, rng = _index(_log(cases)), np.random.default_rng(seed)
    take = np.minimum(m, index.lengths)
    found = np.mean([index.unique(take, rng).mean() for _ in range(300)])
    # Cases draw independently: the variance of a draw's share is at most 1 / (4 cases).
    assert found == pytest.approx(expected_uniqueness(traces, groups, m), abs=5 * np.sqrt(0.25 / len(cases) / 300))


@examples(100)
@given(st.lists(CASES, min_size=2, max_size=4), st.booleans())
def test_an_updated_index_equals_a_new_one(logs: list[list[tuple[str, str | None]]], joint: bool) -> None:
    """Cases that grow, shrink, leave, return or change their attribute: updating equals building."""
    seen = KnownColumns(("activity", "time"), ("S",))
    index = TraceIndex.build(_log(logs[0]), seen, joint=joint)
    for cases in logs[1:]:
        log = _log(cases).select_cases(np.arange(len(cases))[::-1])
        index.update(log)
        fresh = TraceIndex.build(log, seen, joint=joint)
        half = (log.lengths + 1) // 2
        for take in (log.lengths, half):
            same: Any = [each.unique(take, np.random.default_rng(7)).tolist() for each in (index, fresh)]
            assert same[0] == same[1]


@examples(100)
@given(CASES, st.booleans())
def test_twins_are_the_cases_that_another_one_equals(cases: list[tuple[str, str | None]], alike: bool) -> None:
    """Distinguished by digests, and by the points themselves if two digests are equal."""
    written = mock.patch("models.risk.index.digests", lambda *given: given[-1].fill(7)) if alike else nullcontext()
    with written:
        twin = _index(_log(cases)).twin.tolist()
    assert twin == [cases.count(one) > 1 for one in cases]


@examples(50)
@given(CASES, st.integers(1, 5), st.integers(0, 9))
def test_draws_are_the_same_however_many_are_held(cases: list[tuple[str, str | None]], most: int, seed: int) -> None:
    """Some cases at a time, or all of them."""
    index = _index(_log(cases))
    take = np.minimum(2, index.lengths)
    whole = index.unique(take, np.random.default_rng(seed)).tolist()
    with mock.patch("models.risk.index.DRAWN", most):
        assert index.unique(take, np.random.default_rng(seed)).tolist() == whole


@examples(100)
@given(CASES)
def test_an_event_is_alone_where_no_other_case_has_a_point_of_it(cases: list[tuple[str, str | None]]) -> None:
    """However often its own case has it."""
    index = _index(_log(cases))
    assert index.postings is not None
    expected = [sum(letter in trace for trace, _ in cases) == 1 for trace, _ in cases for letter in trace]
    assert index.postings.alone.tolist() == expected


@examples(100)
@given(CASES)
def test_the_greedy_adversary_is_valid_and_no_better_than_the_best(cases: list[tuple[str, str | None]]) -> None:
    """Greedy singles out exactly those cases that can be, with at least as many points as the smallest set."""
    traces, groups = [trace for trace, _ in cases], [value for _, value in cases]
    for case, needed in enumerate(greedy_points(_index(_log(cases))).tolist()):
        best = fewest_points(traces, groups, case)
        assert (needed == NEVER) == (best is None)
        if best is not None:
            assert best <= needed <= len(traces[case])


@examples(100)
@given(CASES)
def test_per_column_knowledge_is_never_more_than_joint(cases: list[tuple[str, str | None]]) -> None:
    """A case that contains the joint points contains each column's: per-column singles out no more cases."""
    log = _log(cases)
    seen = KnownColumns(("activity", "time"))
    shares = [
        TraceIndex.build(log, seen, joint=joint).unique(log.lengths, np.random.default_rng(0))
        for joint in (True, False)
    ]
    assert np.all(shares[0] >= shares[1])


def test_dense_items_agree_with_brute_force() -> None:
    """200 cases over two activities: every posting list is a bitset of several words."""
    rng = np.random.default_rng(4)
    cases = [("".join(rng.choice(["a", "b"], size=rng.integers(1, 12))), None) for _ in range(200)]
    log = _log(cases)
    index = TraceIndex.build(log, KnownColumns(("activity",)))
    assert index.postings is not None
    assert index.postings.bits.shape[0] > 4
    from collections import Counter

    counters = [Counter(trace) for trace, _ in cases]
    expected = [unique(case, counters[case], counters, [None] * 200) for case in range(200)]
    assert index.unique(log.lengths, rng).tolist() == expected
    assert 0 < sum(expected) < 200


@examples(100)
@given(CASES, st.booleans(), st.integers(1, 5))
def test_rows_that_are_coded_by_the_block_are_the_same_points(
    cases: list[tuple[str, str | None]], joint: bool, block: int
) -> None:
    """Codes may be others; which cases are unique is not."""
    log, seen = _log(cases), KnownColumns(("activity", "time"), ("S",))
    whole = TraceIndex.build(log, seen, joint=joint)
    with mock.patch("models.risk.points.BLOCK", block):
        parts = TraceIndex.build(log, seen, joint=joint)
    half = (log.lengths + 1) // 2
    for take in (log.lengths, half):
        same = [each.unique(take, np.random.default_rng(7)).tolist() for each in (whole, parts)]
        assert same[0] == same[1]


def _assert_searches_agree(
    traces: Sequence[Sequence[str]], records: Sequence[Sequence[str]], origin: list[int], amounts: list[Any], seed: int
) -> None:
    """The figures of `search_persons` are those of the oracle, and both leave the generator in the same state."""
    log = EventLog.from_traces([(tuple(trace), None) for trace in traces])
    released = EventLog.from_traces([(tuple(record), None) for record in records])
    rng, own_rng = np.random.default_rng(seed), np.random.default_rng(seed)
    searches = search_persons(log, released, np.asarray(origin), amounts, None, rng)
    persons = np.flatnonzero(np.asarray(origin) >= 0)
    if not len(persons):
        assert not searches
        return
    chosen = own_rng.choice(persons, size=min(MOST_PERSONS, len(persons)), replace=False).tolist()
    for amount, search in zip(amounts, searches, strict=True):
        outcomes = person_searches(traces, records, origin, known_points(log.lengths, amount).tolist(), chosen, own_rng)
        shares = [outcomes.count(name) / len(chosen) for name in ("right", "wrong", "several", "none")]
        assert [search.right, search.wrong, search.several, search.none] == shares
        assert (search.m, search.persons) == (amount, len(chosen))
    assert rng.bit_generator.state == own_rng.bit_generator.state


@examples(300)
@given(st.lists(st.text("abc", max_size=7), min_size=1, max_size=12), st.lists(st.integers(0, 11)), st.integers(0, 99))
def test_the_attack_by_true_events_agrees_with_one_search_a_person(
    traces: list[str], dropped: list[int], seed: int
) -> None:
    """Any log, a release in another order that lacks events and has a record of nobody, several amounts."""
    order = np.random.default_rng(seed).permutation(len(traces)).tolist()
    records = ["".join(item for k, item in enumerate(traces[case]) if k not in dropped) for case in order]
    _assert_searches_agree(traces, [*records, "ab"], [*order, -1], [1, 2, 4, "50%", "100%"], seed)


def test_the_attack_by_true_events_draws_from_long_traces_as_well() -> None:
    """Above 10,000 events numpy draws a sample in another way; 30 of them are not released."""
    traces = [[f"{case}-{place}" for place in range(length)] for case, length in enumerate((10_001, 10_040, 9_999, 3))]
    records = [trace[:-30] or trace for trace in traces]
    amounts = [*range(195, 215), "100%"]
    _assert_searches_agree(traces, records, list(range(4)), amounts, 5)
