"""What earlier releases showed of each case: who was in them, and how many events of each item.

Both only grow with a release, so one state follows a series at the cost of the newest release. Which events were shown
of a case is read off the trace that the newest release showed of it, where that fits into the source (`fixed`): local
suppression may have shown the second of two equal events. Of other cases, and of items that the newest release does not
show, k shown events are taken for the first k of them: a log only grows at the end of its cases. Late events may make
them others; then the audit that follows every repair finds what no longer holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import Column, Ints

Mask = npt.NDArray[np.bool_]

SPREAD = 1 << 32
"""Key of (case, item): case * SPREAD + item."""


def _empty() -> Ints:
    return np.empty(0, dtype=np.int64)


@content_free()
@dataclass
class ShownItems:
    """The state after some releases.

    * `case`, `item`: number of each case id and item met so far;
    * `group`: int64[cases], cases of one group were in the same releases; group 0 was in none;
    * `members`: bool[groups, releases];
    * `keys` (ascending), `counts`: the most events of an item that one release showed of a case;
    * `newest`: cases of the newest release, starts of their traces, and the traces (numbers of items).
    """

    case: dict[str, int] = field(default_factory=dict)
    item: dict[Any, int] = field(default_factory=dict)
    group: Ints = field(default_factory=_empty)
    members: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((1, 0), dtype=np.bool_))
    keys: Ints = field(default_factory=_empty)
    counts: Ints = field(default_factory=_empty)
    newest: tuple[Ints, Ints, Ints] = field(default_factory=lambda: (_empty(), np.zeros(1, dtype=np.int64), _empty()))

    def add(self, case_ids: Sequence[str], starts: Ints, items: Column) -> None:
        """One more release: its case ids ("" for a record that is no one case) and the item of each event."""
        number = np.asarray([self.case.setdefault(name, len(self.case)) if name else -1 for name in case_ids])
        self._join(number[number >= 0])
        code = np.asarray([self.item.setdefault(value, len(self.item)) for value in items.values], dtype=np.int64)
        case = np.repeat(number, np.diff(starts))
        self.newest = (number, starts, np.concatenate((code, [-1]))[items.codes])
        real = (case >= 0) & (items.codes >= 0)
        keys, counts = np.unique(case[real] * SPREAD + code[items.codes[real]], return_counts=True)
        both, place = np.unique(np.concatenate((self.keys, keys)), return_inverse=True)
        most = np.zeros(len(both), dtype=np.int64)
        np.maximum.at(most, place, np.concatenate((self.counts, counts)))
        self.keys, self.counts = both, most

    def _join(self, present: Ints) -> None:
        inside = np.zeros(len(self.case), dtype=np.int64)
        inside[present] = 1
        group = np.concatenate((self.group, np.zeros(len(inside) - len(self.group), dtype=np.int64)))
        split, place = np.unique(np.concatenate(([0], group * 2 + inside)), return_inverse=True)
        self.group = place[1:].astype(np.int64)
        self.members = np.concatenate((self.members[split // 2], (split % 2 == 1)[:, None]), axis=1)

    def groups(self, case_ids: Sequence[str]) -> Ints:
        """Group of each case."""
        number = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)
        return np.concatenate((self.group, [0]))[number]

    def fixed(self, case_ids: Sequence[str], starts: Ints, alphabet: Sequence[Any], item: Ints) -> Mask:
        """Return the events of a log that some release showed.

        Parameters
        ----------
        case_ids
            case ids of the log.
        starts
            int64[C + 1], where the events of each case begin.
        alphabet
            items of the log.
        item
            int64[E], item of each event as an index into `alphabet`.

        Returns
        -------
        Mask
            bool[E].
        """
        from models.anonymize.hiding_kernels import embed

        names = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)
        numbers, trace_starts, traces = self.newest
        row = np.full(len(self.case) + 1, -1, dtype=np.int64)
        row[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
        known = np.asarray([self.item.get(value, -2) for value in alphabet], dtype=np.int64)
        case = np.repeat(np.arange(len(case_ids)), np.diff(starts))
        most = self.events(case_ids, alphabet, case, item)
        result = np.zeros(len(item), dtype=np.bool_)
        embed(starts, known[item] if len(item) else item, most, row[names], trace_starts, traces, result)
        return result

    def events(self, case_ids: Sequence[str], alphabet: Sequence[Any], case: Ints, item: Ints) -> Ints:
        """How many events of the item were shown, per (index into case_ids, index into alphabet) pair."""
        names = np.asarray([self.case.get(name, -1) for name in case_ids], dtype=np.int64)[case]
        codes = np.asarray([self.item.get(value, -1) for value in alphabet], dtype=np.int64)[item]
        keys = names * SPREAD + codes
        place = np.searchsorted(self.keys, keys)
        found = (names >= 0) & (codes >= 0) & (place < len(self.keys))
        found[found] = self.keys[place[found]] == keys[found]
        result = np.zeros(len(keys), dtype=np.int64)
        result[found] = self.counts[place[found]]
        return result
