"""Distinct numbers by a table are those that a sort finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.keys import DENSE, KeyTotals, case_blocks, distinct, grouped


@given(st.integers(1, 400), st.lists(st.integers(0, 399), max_size=60))
def test_a_table_finds_what_a_sort_finds(wide: int, drawn: list[int]) -> None:
    keys = np.asarray([key % wide for key in drawn], dtype=np.int64)
    found, place = grouped(keys, wide)
    wanted, where = np.unique(keys, return_inverse=True)
    assert distinct(keys, wide).tolist() == found.tolist() == wanted.tolist()
    assert place.tolist() == where.tolist()


def test_a_range_far_wider_than_the_numbers_takes_no_table() -> None:
    keys = np.asarray([1 << 60, 5, 1 << 60], dtype=np.int64)
    assert distinct(keys, 1 << 61).tolist() == [5, 1 << 60]
    assert [part.tolist() for part in grouped(keys, 1 << 61)] == [[5, 1 << 60], [1, 0, 1]]


ROW = st.tuples(st.integers(0, 39), st.integers(0, 3), st.floats(-1e6, 1e6))


@pytest.mark.parametrize("size", [40, DENSE, DENSE + 1])  # with a table, and without one
@given(st.lists(st.lists(ROW, max_size=20), max_size=5), st.booleans())
def test_sums_by_key_are_those_of_a_plain_loop(
    size: int, blocks: list[list[tuple[int, int, float]]], weighted: bool
) -> None:
    """Added in the order in which they come, so that no sum differs in its last digit."""
    own, count, total = KeyTotals(size), dict[int, int](), dict[int, float]()
    for block in blocks:
        keys, times, values = (np.asarray([row[place] for row in block]) for place in range(3))
        own.add(keys.astype(np.int64), times.astype(np.int64) if weighted else None, values.astype(np.float64))
        for key, often, value in block:
            weight = often if weighted else 1
            count[key] = count.get(key, 0) + weight
            total[key] = total.get(key, 0.0) + value * weight
    found, counts, sums = own.totals()
    wanted = sorted(count)
    assert found.tolist() == wanted
    assert counts.tolist() == [count[key] for key in wanted]
    assert sums.tolist() == [total[key] for key in wanted]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12))
def test_blocks_of_cases_are_all_cases_with_events_once(lengths: list[int], most: int) -> None:
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    blocks = [*case_blocks(starts, most)]
    assert [event for begin, end in blocks for event in range(starts[begin], starts[end])] == [*range(starts[-1])]
    assert all(one[1] == other[0] for one, other in pairwise(blocks))
    if starts[-1]:
        assert (blocks[0][0], blocks[-1][1]) == (0, len(lengths))
    assert all(starts[end] - starts[begin] < most + 10 for begin, end in blocks)
