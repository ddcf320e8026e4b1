"""Many rows at once where each completion counts: one tight loop instead of a full step a row.

Only where time does not go back and one partition speaks, so that an event is the last of its case and cannot be
silent; the loop ends before a case falls silent and after the row at which a completion trigger may hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream.fold.cases import Table
from stream.fold.completion import Inactivity
from stream.fold.intake import Batch
from stream.fold.triggers import NEVER, PublicationState


@dataclass(slots=True)
class Growth:
    """One publication that events_per_case fires alone, and the pending counts that this stride has changed."""

    own: PublicationState
    x: int
    fraction: float
    column: str
    pending: dict[int, int] = field(default_factory=dict)

    def count(self, cases: Table, case: int, *, fresh: bool, before: bool, closed: bool) -> None:
        """One more event of `case`, which was complete `before` and now is `closed`."""
        held = self.pending.get(case)
        if held is None:
            held = 0 if fresh else int(cases[self.column][case])
        self.pending[case] = held + 1
        self.own.unfinished += 1 - (not fresh and (held > 0 or not before))
        was_ready = not fresh and (held >= self.x or (before and held > 0))
        self.own.ready += (closed or held + 1 >= self.x) - was_ready

    @property
    def fires(self) -> bool:
        return self.own.ready > 0 and self.own.ready >= self.fraction * self.own.unfinished


@dataclass(slots=True)
class Stride:
    """The rows begin .. end-1 of a batch, walked: what `flush` writes once they are admitted."""

    end: int
    closed: dict[int, bool]
    growths: list[Growth]

    def flush(self, cases: Table) -> None:
        keys = list(self.closed)
        cases["closed"][keys] = list(self.closed.values())
        for growth in self.growths:
            cases[growth.column][list(growth.pending)] = list(growth.pending.values())


def walk(
    batch: Batch,
    begin: int,
    end: int,
    cases: Table,
    silence: Inactivity,
    goals: list[int | None],
    growths: list[Growth],
    everyone: list[PublicationState],
) -> Stride:
    """Walk from `begin` to `end` at most. `goals`: completions that publications wait for (None: they do not)."""
    top = silence.next_event(cases)
    limit = NEVER if top is None else top[0]
    gap = silence.inactivity
    closed: dict[int, bool] = {}
    known, completed, row = cases["closed"], 0, begin
    goal = min((one for one in goals if one is not None), default=NEVER)
    rows = slice(begin, end)
    for case, time, ended, fresh in zip(
        batch.cases[rows].tolist(),
        batch.times[rows].tolist(),
        batch.ends[rows].tolist(),
        batch.fresh[rows].tolist(),
        strict=True,
    ):
        if time >= limit:
            break
        before = closed.get(case)
        if before is None:
            before = not fresh and bool(known[case])
        for growth in growths:
            growth.count(cases, case, fresh=fresh, before=before, closed=ended)
        closed[case] = ended
        row += 1
        if not ended and (fresh or before) and gap is not None:
            silence.push(case, time + gap)
            limit = min(limit, time + gap)
        if ended and not before:
            completed += 1
        if completed >= goal or any(growth.fires for growth in growths):
            break
    for own in everyone:
        own.completed += completed
    return Stride(row, closed, growths)
