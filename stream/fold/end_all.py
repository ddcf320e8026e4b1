"""The rule `end_all`: a case is complete once it has had all of certain activities."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


class EndAll:
    """Which of the `end_all` activities each case has had: one bit an activity, uint64."""

    def __init__(self, activities: Sequence[str]) -> None:
        self.activities = tuple(dict.fromkeys(activities))
        self.all = np.uint64((1 << len(self.activities)) - 1)
        self._bits = np.zeros(0, dtype=np.uint64)

    def bits(self, names: Collection[str], codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """The bit of each event; `names`: activities by code (they only grow in number)."""
        if len(self._bits) < len(names):
            place = {name: np.uint64(1 << k) for k, name in enumerate(self.activities)}
            self._bits = np.asarray([place.get(name, np.uint64(0)) for name in names], dtype=np.uint64)
        return self._bits[codes]

    def met(self, had: npt.NDArray[np.uint64], cases: npt.NDArray[np.int32], bits: npt.NDArray[np.uint64]) -> Mask:
        """bool by event, in order of acceptance: whether its case has had all activities by then. `had`: bits by case
        code, before the first of these events."""
        now: dict[int, int] = {}
        complete, known = int(self.all), had.tolist()
        result = np.zeros(len(cases), dtype=np.bool_)
        for place, (case, bit) in enumerate(zip(cases.tolist(), bits.tolist(), strict=True)):
            before = now[case] if case in now else known[case] if case < len(known) else 0
            now[case] = before | bit
            result[place] = now[case] == complete
        return result
