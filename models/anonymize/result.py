"""Result of every mechanism that removes events: the events that stay, and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import BoundError
from models.eventlog import Column, EventLog, Ints, starts_of
from models.knowledge import NANOSECONDS, Knowledge, items, relative_times
from models.variants import total


@content_free("satisfied", "events")
@dataclass(frozen=True, slots=True)
class Anonymized:
    """A log after removal of events.

    Parameters
    ----------
    source
        The log that went in.
    kept
        bool[E], which of its events stay. Cases that lost all events are dropped.
    knowledge
        The knowledge that the mechanism protects against.
    suppressed
        Items that were removed everywhere, as values that JSON can hold.
    satisfied
        Verdict on `kept` of a checker that shares no code with the search.
    warnings
        Sentences about the result.
    bounded
        Whether the exact search reached its bound on work, and a heuristic finished.
    details
        Further findings by name (audit of local suppression, groups of Baseline-2, ...), as values that JSON can hold.
    cases
        int64[C], number of cases that each case of `source` represents (a table of variants). None: one each.
    """

    source: EventLog
    kept: npt.NDArray[np.bool_]
    knowledge: Knowledge
    suppressed: tuple[Any, ...] = ()
    satisfied: bool = False
    warnings: tuple[str, ...] = ()
    bounded: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    cases: Ints | None = None

    @property
    def kept_per_case(self) -> Ints:
        """Events that stay in each source case, int64[C]."""
        return np.diff(starts_of(self.kept)[self.source.starts])

    @property
    def origin(self) -> Ints:
        """Source case of each released case, int64[released cases]."""
        return np.flatnonzero(self.kept_per_case > 0)

    @property
    def dropped(self) -> Ints:
        """Source cases that lost every event (also those that never had one)."""
        return np.flatnonzero(self.kept_per_case == 0)

    @property
    def n_actual(self) -> int:
        """Most events removed from one released case (dropped cases are counted by `dropped`)."""
        lost = (self.source.lengths - self.kept_per_case)[self.origin]
        return int(lost.max()) if len(lost) else 0

    @property
    def log(self) -> EventLog:
        """The released cases with their kept events; times, ids and attributes as in the source."""
        return self.source.select_events(self.kept, drop_empty=True)

    @property
    def items(self) -> Column:
        """The item of each released event, relative times anchored at the start of the *source* case."""
        return items(self.source, self.knowledge).take(self.kept)

    @property
    def relative_ns(self) -> Ints:
        """Time of each released event to the start of its source case, truncated to T, in nanoseconds."""
        knowledge = self.knowledge
        return relative_times(self.source, knowledge.T, knowledge.clock)[self.kept] * NANOSECONDS[knowledge.T]

    @property
    def events(self) -> int:
        """Events that stay."""
        return total(self.kept_per_case, self.cases)

    @property
    def source_events(self) -> int:
        """Events that went in."""
        return total(self.source.lengths, self.cases)

    @property
    def cases_dropped(self) -> int:
        """Cases that lost every event; one that never had any is none of them."""
        return total((self.kept_per_case == 0) & (self.source.lengths > 0), self.cases)


def refuse_empty(result: Anonymized, subject: str) -> Anonymized:
    """Return the result if anything is left.

    Parameters
    ----------
    result
        The anonymized log.
    subject
        The mechanism, with which the message begins.

    Raises
    ------
    BoundError
        If every event would be suppressed; an empty log is never a success.
    """
    if result.source.n_events and not result.kept.any():
        cases = total(result.source.lengths >= 0, result.cases)
        raise BoundError(f"{subject}: all {cases} cases would be suppressed, nothing is released")
    return result
