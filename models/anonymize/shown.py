"""Events of each case that earlier releases showed: the releases that held a case, and its events of each item.

Both only grow with a release, so one state follows a series at the cost of the newest release.

The events themselves are derived from the trace that the newest release showed of a case, if that trace fits into the
source (`fixed`): local suppression may have shown the second of two equal events. For other cases, and for items that
the newest release does not show, k shown events are taken to be the first k, since a log only grows at the end of its
cases. Late events can make this wrong. The audit that follows every repair then finds the bounds that no longer hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import Column, Flags, Ints

SPREAD = 1 << 32
"""Key of (case, item): case * SPREAD + item."""


def _empty() -> Ints:
    return np.empty(0, dtype=np.int64)


def _no_traces() -> tuple[Ints, Ints, Ints]:
    return _empty(), np.zeros(1, dtype=np.int64), _empty()


@content_free()
@dataclass
class ShownItems:
    """The state after some releases.

    Parameters
    ----------
    case, item
        Number of each case id and item so far.
    group
        int64[cases], the group of each case. Cases of one group were in the same releases; group 0 was in none.
    members
        bool[groups, releases], the releases that held the cases of each group.
    keys, counts
        int64, by case and item (`SPREAD`, ascending): the most events of the item that one release showed of the case.
    newest
        Cases of the newest release, starts of their traces, and the traces (numbers of items).
    """

    case: dict[str, int] = field(default_factory=dict)
    item: dict[Any, int] = field(default_factory=dict)
    group: Ints = field(default_factory=_empty)
    members: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((1, 0), dtype=np.bool_))
    keys: Ints = field(default_factory=_empty)
    counts: Ints = field(default_factory=_empty)
    newest: tuple[Ints, Ints, Ints] = field(default_factory=_no_traces)

    def add(self, case_ids: Sequence[str], starts: Ints, items: Column) -> None:
        """Add a release.

        Parameters
        ----------
        case_ids
            Its case ids; "" for a record that is not one case.
        starts
            int64[C + 1], where the events of each case begin.
        items
            The item of each event.
        """
        number = np.full(len(case_ids), -1, dtype=np.int64)
        for row, case_id in enumerate(case_ids):
            if case_id:
                number[row] = self.case.setdefault(case_id, len(self.case))
        self._split_groups(number[number >= 0])
        item_codes = [self.item.setdefault(value, len(self.item)) for value in items.values]
        code = np.asarray(item_codes, dtype=np.int64)
        case = np.repeat(number, np.diff(starts))
        self.newest = (number, starts, np.concatenate((code, [-1]))[items.codes])
        real = (case >= 0) & (items.codes >= 0)
        keys, counts = np.unique(case[real] * SPREAD + code[items.codes[real]], return_counts=True)
        both, place = np.unique(np.concatenate((self.keys, keys)), return_inverse=True)
        most = np.zeros(len(both), dtype=np.int64)
        np.maximum.at(most, place, np.concatenate((self.counts, counts)))
        self.keys, self.counts = both, most

    def _split_groups(self, present: Ints) -> None:
        """Split each group into the cases that the new release holds and the others."""
        inside = np.zeros(len(self.case), dtype=np.int64)
        inside[present] = 1
        group = np.concatenate((self.group, np.zeros(len(inside) - len(self.group), dtype=np.int64)))
        split, place = np.unique(np.concatenate(([0], group * 2 + inside)), return_inverse=True)
        self.group = place[1:].astype(np.int64)
        self.members = np.concatenate((self.members[split // 2], (split % 2 == 1)[:, None]), axis=1)

    def groups(self, case_ids: Sequence[str]) -> Ints:
        """Return the group of each case.

        Parameters
        ----------
        case_ids
            Case ids of a log; cases that no release showed are in group 0.

        Returns
        -------
        Ints
            int64[C].
        """
        number = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)
        return np.concatenate((self.group, [0]))[number]

    def fixed(self, case_ids: Sequence[str], starts: Ints, alphabet: Sequence[Any], item: Ints) -> Flags:
        """Return the events of a log that some release showed.

        Parameters
        ----------
        case_ids
            Case ids of the log.
        starts
            int64[C + 1], where the events of each case begin.
        alphabet
            Items of the log.
        item
            int64[E], item of each event as an index into `alphabet`.

        Returns
        -------
        Flags
            bool[E].
        """
        from models.anonymize.hiding_kernels import embed

        names = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)
        numbers, trace_starts, traces = self.newest
        row = np.full(len(self.case) + 1, -1, dtype=np.int64)
        row[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
        item_of_value = np.asarray([self.item.get(value, -2) for value in alphabet], dtype=np.int64)
        case = np.repeat(np.arange(len(case_ids)), np.diff(starts))
        most = self.events(case_ids, alphabet, case, item)
        result = np.zeros(len(item), dtype=np.bool_)
        item_of_event = item_of_value[item] if len(item) else item
        embed(starts, item_of_event, most, row[names], trace_starts, traces, result)
        return result

    def events(self, case_ids: Sequence[str], alphabet: Sequence[Any], case: Ints, item: Ints) -> Ints:
        """Return how many events of an item were shown, for each pair of a case and an item.

        Parameters
        ----------
        case_ids, alphabet
            Case ids and items of a log.
        case, item
            int64[N], N pairs of indices into `case_ids` and `alphabet`.
        """
        names = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)[case]
        codes = np.asarray([self.item.get(value, -1) for value in alphabet], dtype=np.int64)[item]
        keys = names * SPREAD + codes
        place = np.searchsorted(self.keys, keys)
        is_listed = (names >= 0) & (codes >= 0) & (place < len(self.keys))
        is_listed[is_listed] = self.keys[place[is_listed]] == keys[is_listed]
        result = np.zeros(len(keys), dtype=np.int64)
        result[is_listed] = self.counts[place[is_listed]]
        return result
