"""When a case is complete: its last event ends it, or it has had all activities of `end_all`, in any order and
whatever follows, or it has been silent for `inactivity`.

Silence is measured twice, and either is enough: in event time, by the least watermark of the partitions, and by
ticks, since the last event was recorded (so that replaying an old log into a topic does not complete it at once).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from stream.fold.cases import Table
from stream.fold.triggers import Clock

Mask = npt.NDArray[np.bool_]


def complete_now(cases: Table, inactivity: int | None, clock: Clock) -> npt.NDArray[np.bool_]:
    """bool by case code, from each case's last event and the clock."""
    return cases["ended"] | silent_now(cases, inactivity, clock)


def silent_now(cases: Table, inactivity: int | None, clock: Clock) -> npt.NDArray[np.bool_]:
    """bool by case code: silent for `inactivity`, in event time or by ticks."""
    result = np.zeros(cases.size, dtype=np.bool_)
    if inactivity is None:
        return result
    if clock.watermark is not None:
        result |= cases["last"] <= clock.watermark - inactivity
    if clock.now is not None:
        result |= np.maximum(cases["last"], cases["arrival"]) <= clock.now - inactivity
    return result


class EndAll:
    """Which of the activities that complete a case together each case has had: one bit an activity, uint64."""

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
        """Per event, in order of acceptance: whether its case has had all by then. `had`: by case code, before."""
        now: dict[int, int] = {}
        complete, known = int(self.all), had.tolist()
        result = np.zeros(len(cases), dtype=np.bool_)
        for place, (case, bit) in enumerate(zip(cases.tolist(), bits.tolist(), strict=True)):
            before = now[case] if case in now else known[case] if case < len(known) else 0
            now[case] = before | bit
            result[place] = now[case] == complete
        return result


class Inactivity:
    """Open cases in the order in which silence will complete them.

    One entry a case: an entry whose case has moved on meanwhile is put back at its present deadline when it comes up,
    so an event costs nothing here.
    """

    def __init__(self, inactivity: int | None) -> None:
        self.inactivity = inactivity
        self._event: list[tuple[int, int]] = []
        self._wall: list[tuple[int, int]] = []

    def rebuild(self, cases: Table) -> None:
        """From the state: what is here is derived, and so never in a snapshot."""
        self._event, self._wall = [], []
        for case in np.flatnonzero(~cases["closed"]).tolist():
            self.opened(case, cases)

    def opened(self, case: int, cases: Table) -> None:
        if self.inactivity is not None:
            last = int(cases["last"][case])
            self.push(case, last + self.inactivity)

    def push(self, case: int, deadline: int) -> None:
        """An open case with a deadline that is right or too early (then it is put back when it comes up)."""
        heapq.heappush(self._event, (deadline, case))
        heapq.heappush(self._wall, (deadline, case))

    def next_event(self, cases: Table) -> tuple[int, int] | None:
        """(deadline in event time, case) of the next completion, None when no case is open."""
        return self._top(self._event, cases, wall=False)

    def next_wall(self, cases: Table) -> tuple[int, int] | None:
        """(deadline by ticks, case)."""
        return self._top(self._wall, cases, wall=True)

    def _top(self, heap: list[tuple[int, int]], cases: Table, *, wall: bool) -> tuple[int, int] | None:
        while heap:
            deadline, case = heap[0]
            if cases["closed"][case]:
                heapq.heappop(heap)
                continue
            last = int(cases["last"][case])
            since = max(last, int(cases["arrival"][case])) if wall else last
            present = since + (self.inactivity or 0)
            if present == deadline:
                return deadline, case
            heapq.heapreplace(heap, (present, case))
        return None
