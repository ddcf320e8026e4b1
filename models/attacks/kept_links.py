"""Linkable pairs of record classes that go from release to release: only classes that are new are compared.

Whether two classes (sensitive value, variant) are linkable, and with which n, depends on the two alone. From one
candidate of a series to the next nearly all classes are the same. So the links between the classes of all earlier
releases and those of the last candidate are kept, and of the next candidate only pairs with a new class on either side
are listed. What it gives is equal to listing all; `tests/property/test_attacks_kept_links.py` holds both against each
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from models.attacks.linkability import MOST_LINKS, Bytes
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Codes, Ints

Listed = tuple[Ints, Codes, Bytes]
"""Links by earlier rows: row i links to `later[start[i]:start[i + 1]]`, ascending, each with its least n."""

Lister = Callable[[Ints, Ints], Listed]
"""The links between some earlier rows and some later rows, both ascending; later rows by their place among these."""


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


@content_free()
@dataclass
class KeptLinks:
    """Links up to one n. `earlier`, `later`: keys of the classes that were compared; `one`, `two`: int32, the places of
    two linkable classes among them, with their `least` n."""

    earlier: Ints = field(default_factory=_none)
    later: Ints = field(default_factory=_none)
    one: Codes = field(default_factory=lambda: _none().astype(np.int32))
    two: Codes = field(default_factory=lambda: _none().astype(np.int32))
    least: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def move_on(self, earlier: Ints, later: Ints, listed: Lister) -> Listed:
        """Links between the classes `earlier` and `later` (distinct keys, in the order of their rows), of which those
        are `listed` that are not known; what is linked by classes that are gone is forgotten. InputError where they
        are too many."""
        place1, place2 = _places(self.earlier, earlier), _places(self.later, later)
        row1, row2 = place1[self.one], place2[self.two]
        stay = (row1 >= 0) & (row2 >= 0)
        kept = (row1[stay], row2[stay], self.least[stay])
        known1, known2 = np.zeros(len(earlier), dtype=np.bool_), np.zeros(len(later), dtype=np.bool_)
        known1[place1[place1 >= 0]] = True
        known2[place2[place2 >= 0]] = True
        fresh = []
        for own, others in (
            (np.flatnonzero(~known1), np.arange(len(later))),
            (np.flatnonzero(known1), np.flatnonzero(~known2)),
        ):
            if len(own) and len(others):
                start, two, least = listed(own, others)
                fresh.append((np.repeat(own.astype(np.int32), np.diff(start)), others.astype(np.int32)[two], least))
        one, two, least = (np.concatenate(parts) for parts in zip(kept, *fresh, strict=True))
        if len(one) > MOST_LINKS:
            raise InputError(f"over {MOST_LINKS} pairs of records can be linked, more than fit")
        if len(fresh) > 1 or len(kept[0]):  # what was listed at once stands in order
            order = np.argsort(one.astype(np.int64) * len(later) + two, kind="stable")  # sorted runs: they are merged
            one, two, least = one[order], two[order], least[order]
        self.earlier, self.later, self.one, self.two, self.least = earlier, later, one, two, least
        start = np.concatenate(([0], np.cumsum(np.bincount(self.one, minlength=len(earlier))))).astype(np.int64)
        return start, self.two, self.least


def _places(before: Ints, now: Ints) -> Codes:
    """Place of each key of `before` in `now`, -1 where it is gone."""
    if not len(now):
        return np.full(len(before), -1, dtype=np.int32)
    order = np.argsort(now)
    at = np.minimum(np.searchsorted(now[order], before), len(now) - 1)
    return np.where(now[order[at]] == before, order[at], -1).astype(np.int32)
