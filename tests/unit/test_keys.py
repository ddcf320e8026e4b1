"""Distinct numbers by a table are those that a sort finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.keys import distinct, grouped


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
