"""What earlier releases showed of each case: who was in them, and how many events of each item.

Both only grow with a release, so one state follows a series at the cost of the newest release. A log only grows at the
end of its cases, so k events of an item that were shown are taken for the first k of them. After a release by local
suppression, or late events, they may have been others; then the audit that follows every repair finds what no longer
holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import Column, Ints

SPREAD = 1 << 32
"""Key of (case, item): case * SPREAD + item."""


def _empty() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass
class Shown:
    """The state after some releases.

    * `case`, `item`: number of each case id and item met so far;
    * `group`: int64[cases], cases of one group were in the same releases; group 0 was in none;
    * `members`: bool[groups, releases];
    * `keys` (ascending), `counts`: the most events of an item that one release showed of a case.
    """

    case: dict[str, int] = field(default_factory=dict)
    item: dict[Any, int] = field(default_factory=dict)
    group: Ints = field(default_factory=_empty)
    members: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((1, 0), dtype=np.bool_))
    keys: Ints = field(default_factory=_empty)
    counts: Ints = field(default_factory=_empty)

    def add(self, case_ids: Sequence[str], starts: Ints, items: Column) -> None:
        """One more release: its case ids ("" for a record that is no one case) and the item of each event."""
        number = np.asarray([self.case.setdefault(name, len(self.case)) if name else -1 for name in case_ids])
        self._join(number[number >= 0])
        code = np.asarray([self.item.setdefault(value, len(self.item)) for value in items.values], dtype=np.int64)
        case = np.repeat(number, np.diff(starts))
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
