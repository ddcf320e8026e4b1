"""Distances of variants that go from release to release: only those of new variants are computed.

From one cut of a series to the next most variants are the same, in the source and in the release. Their distances take
most of the time of an exact earth mover's distance, and depend on the two variants alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError

Floats = npt.NDArray[np.float64]

Distances = Callable[[Sequence[str], Sequence[str]], Floats]
"""float64[rows, columns]: the distance of each row's text to each column's."""


@content_free()
@dataclass
class KeptDistances:
    """The distances of the last cut: `cost[rows[one], columns[other]]`.

    Texts are spelt in `letters`, to which new items are added.
    """

    letters: dict[Hashable, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    cost: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def move_on(
        self, rows: Sequence[str], columns: Sequence[str], items: dict[Hashable, str], computed: Distances
    ) -> Floats:
        """float64[rows, columns] of texts spelt in the letters `items`; what is not known is `computed`."""
        if len(self.letters) + len(items) > MOST_LETTERS:
            self.letters, self.rows, self.columns = {}, {}, {}
        spelt = {ord(own): self.letters.setdefault(item, letter(len(self.letters))) for item, own in items.items()}
        names1, names2 = ([text.translate(spelt) for text in texts] for texts in (rows, columns))
        place1, place2 = _places(self.rows, names1), _places(self.columns, names2)
        old1, old2 = np.flatnonzero(place1 >= 0), np.flatnonzero(place2 >= 0)
        new1, new2 = np.flatnonzero(place1 < 0), np.flatnonzero(place2 < 0)
        cost = np.empty((len(rows), len(columns)))
        cost[np.ix_(old1, old2)] = self.cost[np.ix_(place1[old1], place2[old2])]
        cost[new1] = computed([rows[at] for at in new1.tolist()], columns)
        cost[np.ix_(old1, new2)] = computed([rows[at] for at in old1.tolist()], [columns[at] for at in new2.tolist()])
        self.rows, self.columns = ({name: at for at, name in enumerate(names)} for names in (names1, names2))
        self.cost = cost
        return cost


MOST_LETTERS = 1_000_000
"""Of what a character can be."""


def letter(number: int) -> str:
    """Return the character that represents an item; InputError if there are no more."""
    # Surrogates are no characters; everything above them follows on.
    point = number + 1 if number + 1 < 0xD800 else number + 1 + 0x800
    if point > 0x10FFFF:
        raise InputError("more than a million distinct items: choose a coarser T or fewer perspectives")
    return chr(point)


def _places(known: dict[str, int], names: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.asarray([known.get(name, -1) for name in names], dtype=np.int64)
