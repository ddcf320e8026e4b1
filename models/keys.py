"""Distinct whole numbers in linear time, where their range is not much wider than their number.

`numpy.unique` sorts. Codes and pairs of codes seldom need it: a table of the range, with one place for each number,
costs less. Where the range is far wider than the numbers, it would cost more, and `numpy.unique` it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.eventlog import Ints

WIDE = 8
"""A range of more than so many times the numbers is sorted. A flag a number takes an eighth of the number's memory."""


def distinct(keys: npt.NDArray[np.integer], size: int) -> Ints:
    """The distinct `keys`, ascending, int64. Each key lies in 0..size-1."""
    if size > WIDE * len(keys):
        return np.unique(keys).astype(np.int64)
    there = np.zeros(size, dtype=np.bool_)
    there[keys] = True
    return np.flatnonzero(there)


def grouped(keys: npt.NDArray[np.integer], size: int) -> tuple[Ints, Ints]:
    """(`distinct(keys, size)`, for each key its place among them, int64[len(keys)])."""
    if size > len(keys):
        found, place = np.unique(keys, return_inverse=True)
        return found.astype(np.int64), place
    found = distinct(keys, size)
    place = np.zeros(size, dtype=np.int64)
    place[found] = np.arange(len(found))
    return found, place[keys]
