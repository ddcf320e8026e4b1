"""The minimality audit on random logs against a reader who tries every gap of every case."""

from __future__ import annotations

import itertools
from fractions import Fraction
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.anonymize import minimality as minimality_module
from models.anonymize.local import suppress
from models.anonymize.local_kernels import next_gaps, possible_cases
from models.anonymize.local_model import Bans, Reach, projected
from models.anonymize.minimality import audit
from models.anonymize.view import view
from models.anonymize.violations import TlkcBounds
from models.eventlog import EventLog, starts_of
from models.knowledge import Knowledge
from tests.conftest import examples
from tests.oracles import tlkc

ITEMS = (0, 1, 2, 64, 66)
"""0 and 64, 2 and 66 share a bit in the masks of the kernels."""

TRACES = st.lists(st.lists(st.sampled_from(ITEMS), max_size=6), min_size=1, max_size=8)
CANDIDATES = st.lists(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3).map(tuple), max_size=6, unique=True)


@examples(500)
@given(TRACES, CANDIDATES, CANDIDATES, st.permutations(range(67)), st.sets(st.sampled_from(ITEMS)), st.data())
def test_the_table_of_gaps_agrees_with_trying_every_gap(
    traces: list[list[int]],
    bans: list[tuple[int, ...]],
    wanted: list[tuple[int, ...]],
    priority: list[int],
    once: set[int],
    data: st.DataObject,
) -> None:
    """Any traces that contain no ban, any bans, priorities and items that occur at most once."""
    traces = [trace for trace in traces if not any(tlkc.holds(trace, ban) for ban in bans)]
    weights = [data.draw(st.integers(0, 3)) for _ in traces]
    at_most_once = [item in once for item in range(67)]
    lengths = np.asarray([len(trace) for trace in traces], dtype=np.int64)
    codes = np.asarray([code for trace in traces for code in trace], dtype=np.int32)
    ranks = np.asarray(priority)
    offsets, gaps = next_gaps(
        starts_of(lengths), codes, ranks, *Bans.of(bans).by_trigger(ranks), np.asarray(at_most_once)
    )
    asked = Bans.of(wanted).by_first_item
    counted = possible_cases(np.asarray(weights), offsets, gaps, asked.starts, asked.codes)
    expected = [
        tlkc.possible_cases(traces, weights, priority, bans, at_most_once, candidate) for candidate in asked.candidates
    ]
    assert counted.tolist() == expected


@examples(60)
@given(
    st.lists(st.text("abcd", min_size=1, max_size=5), min_size=4, max_size=16),
    st.sampled_from(["seq", "set", "mult"]),
    st.integers(1, 3),
    st.sampled_from([None, 0, 1]),
)
def test_the_audit_counts_bans_and_pairs_that_a_source_case_contains(
    traces: list[str], structure: str, L: int, most: int | None
) -> None:
    """After local suppression, with and without a bound on what its rules give away."""
    log = EventLog.from_traces([(tuple(trace), None) for trace in traces])
    seen = view(log, Knowledge(structure), {})  # type: ignore[arg-type]
    bounds = TlkcBounds.of(L, 3, Fraction(1))
    state, minimality = suppress(seen, bounds, [], max_minimality=most)
    source = _rows(seen.starts.tolist(), seen.codes.tolist())
    left = projected(seen, state.kept)
    released = _rows(left.starts.tolist(), left.codes.tolist())
    weights = [weight if trace else 0 for trace, weight in zip(released, seen.weight.tolist(), strict=True)]
    n_items = len(seen.alphabet)
    once = [all(trace.count(item) < 2 for trace in source) for item in range(n_items)]

    candidates = set(state.bans.candidates)
    if L > 1:
        candidates |= set(itertools.product(range(n_items), repeat=2))
    audited = [candidate for candidate in candidates if any(tlkc.holds(trace, candidate) for trace in source)]
    bans, priority = state.bans.candidates, state.priority.tolist()
    counts = [tlkc.possible_cases(released, weights, priority, bans, once, candidate) for candidate in audited]
    possible = [count for count in counts if count]
    result = audit(Reach(seen), bounds, state)
    assert minimality == result
    with mock.patch.object(minimality_module, "CELLS", 1):  # each released trace is a block of its own
        assert audit(Reach(seen), bounds, state) == result
    assert result.audited == len(audited)
    assert result.below_k == sum(count < 3 for count in possible)
    assert result.least == min(possible, default=None)


def _rows(starts: list[int], codes: list[int]) -> list[list[int]]:
    return [codes[begin:end] for begin, end in itertools.pairwise(starts)]
