"""A cut: the exact point at which a release is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut of one publication.

    * `position`, `row`: record of the delta topic and row in it (embedded: rank of the event, 0); `index`: which cut
      of this publication at that place; `ordinal`: which cut of the publication, from 1;
    * `time_ns`: the clock at the cut (ticks; event time where embedded or before the first tick);
    * `vector`: (source, partition, highest offset applied), sorted;
    * `window`: begin and end (exclusive) in ns of the window of `every`, None where there is none;
    * `certain`: False where max_wait fired or the mode is up_to; None without events_per_case;
    * `counts`: new_cases, new_events (first exposed by this cut), non_append_insertions (of those, the events that
      stand before an event exposed earlier), pending, late_included (late events since the last cut), late (events
      left out as late, all so far), removed_cases, removed_events (erasure and retention, all so far); where each case
      is exposed once, late_lost (events since the last cut of cases exposed before it) and capped_cases (complete cases
      that were left out, since their person has had as many as may be, or since nobody knows whose they are);
    * `accumulated`: the first three since the last *released* cut, this one included.
    """

    publication: str
    position: int
    row: int
    index: int
    ordinal: int
    time_ns: int
    trigger: str
    vector: tuple[tuple[str, int, int], ...]
    window: tuple[int | None, int | None]
    certain: bool | None
    counts: Mapping[str, int]
    accumulated: Mapping[str, int]

    @property
    def id(self) -> str:
        """Stable name of the cut: publication/offset/row/index."""
        return f"{self.publication}/{self.position}/{self.row}/{self.index}"
