"""Distinct whole numbers in linear time, where their range is not much wider than their number.

`numpy.unique` sorts. Codes and pairs of codes seldom need it: a table of the range, with one place for each number,
costs less. If the range is far wider than the numbers, it would cost more, and `numpy.unique` it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from models.eventlog import Ints

Floats = npt.NDArray[np.float64]

BLOCK = 1 << 18
"""Keys that are looked at together, if a log's are made as they are asked for: a few MB of each array."""

DENSE = 1 << 20
"""A range of up to so many keys has a sum in a table for each."""

WIDE = 8
"""A range of more than so many times the numbers is sorted. A flag a number takes an eighth of the number's memory."""


def distinct(keys: npt.NDArray[np.integer], size: int) -> Ints:
    """Return the distinct `keys`, ascending.

    Parameters
    ----------
    keys
        int[N], each from 0 to size - 1.
    size
        Number of possible keys.

    Returns
    -------
    Ints
        int64[D].

    Examples
    --------
    >>> distinct(np.asarray([3, 0, 3]), 4).tolist()
    [0, 3]
    """
    if size > WIDE * len(keys):
        return np.unique(keys).astype(np.int64)
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[keys] = True
    return np.flatnonzero(occurs)


def grouped(keys: npt.NDArray[np.integer], size: int) -> tuple[Ints, Ints]:
    """Return the distinct keys, and the place of each key among them.

    Parameters
    ----------
    keys
        int[N], each from 0 to size - 1.
    size
        Number of possible keys.

    Returns
    -------
    keys : Ints
        int64[D], as `distinct` returns them.
    place : Ints
        int64[N].

    Examples
    --------
    >>> keys, place = grouped(np.asarray([3, 0, 3]), 4)
    >>> keys.tolist(), place.tolist()
    ([0, 3], [1, 0, 1])
    """
    if size > len(keys):
        distinct_keys, place = np.unique(keys, return_inverse=True)
        return distinct_keys.astype(np.int64), place
    distinct_keys = distinct(keys, size)
    place = np.zeros(size, dtype=np.int64)
    place[distinct_keys] = np.arange(len(distinct_keys))
    return distinct_keys, place[keys]


def case_blocks(starts: Ints, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Yield all cases in blocks of about `size` events, as (first case, last case + 1).

    Parameters
    ----------
    starts
        int64[C + 1], as in EventLog.
    size
        Events of a block, at least 1. A longer case is a block of its own.
    """
    events = np.arange(0, int(starts[-1]), size)
    first_cases = np.unique(np.searchsorted(starts[:-1], events)).tolist()
    n_cases = len(starts) - 1
    return pairwise([*first_cases, n_cases])


class KeyTotals:
    """Counts and sums by key, for keys that arrive in blocks.

    Parameters
    ----------
    size
        Number of possible keys; each key is from 0 to size - 1.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._blocks: list[tuple[Ints, Ints | None, Floats]] = []
        dense = size if size <= DENSE else 0
        self._occurs = np.zeros(dense, dtype=np.bool_)
        self._count, self._sum = np.zeros(dense, dtype=np.int64), np.zeros(dense, dtype=np.float64)

    def add(self, keys: Ints, times: Ints | None = None, values: Floats | None = None) -> None:
        """Add one block of keys.

        Parameters
        ----------
        keys
            int64[N].
        times
            int64[N], how often each key counts; once by default.
        values
            float64[N], what is summed; 0 by default.
        """
        if not len(self._occurs):
            self._blocks.append((keys, times, np.zeros(len(keys)) if values is None else values))
            return
        self._occurs[keys] = True
        np.add.at(self._count, keys, 1 if times is None else times)
        if values is not None:
            np.add.at(self._sum, keys, values if times is None else values * times)

    def totals(self) -> tuple[Ints, Ints, Floats]:
        """Return the distinct keys, ascending, with their counts and sums.

        Returns
        -------
        keys, counts : Ints
            int64[D].
        sums : Floats
            float64[D], added in the order in which the values arrived.
        """
        if not self._blocks:
            distinct_keys = np.flatnonzero(self._occurs)
            return distinct_keys, self._count[distinct_keys], self._sum[distinct_keys]
        keys = np.concatenate([keys_of_block for keys_of_block, _, _ in self._blocks])
        values = np.concatenate([values_of_block for _, _, values_of_block in self._blocks])
        counts_of_blocks = []
        for keys_of_block, times_of_block, _ in self._blocks:
            if times_of_block is None:
                times_of_block = np.ones(len(keys_of_block), dtype=np.int64)
            counts_of_blocks.append(times_of_block)
        times = np.concatenate(counts_of_blocks)
        distinct_keys, place = grouped(keys, self._size)
        # floats hold whole numbers up to 2^53, more than any log has cases
        count = np.bincount(place, times, minlength=len(distinct_keys)).astype(np.int64)
        sums = np.bincount(place, values * times, minlength=len(distinct_keys)).astype(np.float64)
        return distinct_keys, count, sums
