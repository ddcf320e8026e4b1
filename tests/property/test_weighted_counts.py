"""Rows that represent many cases are counted, not written out: the same answers in the memory of the rows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize.check import _in_64_bits, first_violation
from models.anonymize.sensitive import quartile_classes
from models.eventlog import Column, EventLog
from stream.engine.source import common_values

MANY = 10**6
ROOM = 2 * 10**6
"""Bytes: a number for each of `MANY` cases would need four times as much."""


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a second call takes at most: the first one compiles and imports."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_quartiles_are_those_of_all_cases() -> None:
    """As numpy has them of the numbers written out, also where some represent no case or are missing."""
    generator = np.random.default_rng(3)
    for _ in range(200):
        numbers = np.unique(generator.choice([0.1, 0.5, 1, 2, 3.5, 7, 7.25, 9], 6))
        codes = generator.integers(-1, len(numbers), 12).astype(np.int32)
        cases = generator.integers(0, 6, 12)
        column = Column(codes, tuple(numbers.tolist()))
        every = numbers[np.repeat(codes, cases)[np.repeat(codes, cases) >= 0]]
        if not len(every):
            continue
        low, high = np.quantile(every, [0.25, 0.75])
        wanted = [
            None if k < 0 else "low" if numbers[k] <= low else "high" if numbers[k] >= high else "middle" for k in codes
        ]
        assert quartile_classes(column, cases).decode() == wanted


def test_common_values_are_those_of_all_cases() -> None:
    """Rarest first, until `other` represents enough cases: by hand, and for rows written out one by one."""
    column = Column(np.asarray([0, 1, 2, 0, -1], dtype=np.int32), ("a", "b", "c"))
    shown = common_values(column, np.asarray([5, 2, 3, 0, 9]), 4)
    assert shown.decode() == ["a", "other", "other", None, None]
    generator = np.random.default_rng(5)
    for _ in range(200):
        codes = generator.integers(-1, 5, 8).astype(np.int32)
        cases = generator.integers(0, 5, 8)
        column, least = Column(codes, tuple("abcde")), int(generator.integers(1, 7))
        rows = np.repeat(np.arange(8), cases)
        single = common_values(column.take(rows), np.ones(len(rows), dtype=np.int64), least).decode()
        whole = common_values(column, cases, least).decode()
        assert [whole[row] for row in rows.tolist()] == single
        assert all(value is None for value, count in zip(whole, cases.tolist(), strict=True) if not count)


@pytest.mark.parametrize("C", ["1/2", "2/3", "0.8", "0.999999999999999", "1", "1/1000000007", "0.333333333333333333"])
def test_the_share_allows_as_many_cases(C: str) -> None:
    """Of every number of cases, in whole numbers of 64 bits."""
    for total in (1, 2, 7, 100, 999):
        above, below = _in_64_bits(Fraction(C), total)
        assert 1 <= below <= max(total, 1)
        exact = Fraction(C)
        assert all(above * n // below == exact.numerator * n // exact.denominator for n in range(total + 1))


def test_memory_is_that_of_rows() -> None:
    """A check, quartiles and common values of two rows that represent a million cases."""
    log = EventLog.from_traces([("a", "x"), ("a", "y")])
    cases, numbers = np.asarray([MANY // 2, MANY // 2]), Column(np.asarray([0, 1], dtype=np.int32), (1.0, 2.0))
    classes = [log.case_values("sensitive")]
    half = Fraction(1, 2)
    assert peak(lambda: first_violation(log.starts, log.activity, "seq", classes, 1, 2, half, cases=cases)) < ROOM
    assert peak(lambda: quartile_classes(numbers, cases)) < ROOM
    assert peak(lambda: common_values(classes[0], cases, 3)) < ROOM


def test_billions_of_cases_are_checked() -> None:
    """Exactly at the bound and one case above it."""
    log = EventLog.from_traces([("a", "x"), ("a", "y")])
    for more, found in ((0, False), (1, True)):
        cases = np.asarray([4 * 10**11 + more, 10**11])
        answer = first_violation(
            log.starts, log.activity, "seq", [log.case_values("sensitive")], 1, 2, Fraction("0.8"), cases=cases
        )
        assert (answer is not None) == found
