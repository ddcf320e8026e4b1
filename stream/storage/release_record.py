"""One release as the audits see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import numpy as np

from models.eventlog import Column, EventLog, SimpleLog
from models.knowledge import NANOSECONDS, Unit, joint, perspective


@dataclass(slots=True)
class Record:
    """One release as the audits see it: the candidate, or an earlier one read back from variants.parquet.

    `log.case_ids` are the pseudonyms of the source cases ("" for a record that is no one case), so partners in
    other releases are found by equal ids. `cache`: where audits keep what they would compute again (per process).
    """

    sequence: int
    log: EventLog
    carries: tuple[str, ...]
    T: str
    sensitive: tuple[str, ...]
    audit: Mapping[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    publication: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Which release of the process it is."""
        return self.publication, self.sequence

    def items(self, carries: Sequence[str] | None = None) -> Column:
        """The joint item of each released event over `carries` (all that the release carries by default).

        Relative times are taken as they stand: they keep the anchor of the source case, which suppression of the
        first event must not move.
        """
        names = tuple(carries if carries is not None else self.carries)
        if "relative_time" not in names:
            return perspective(self.log, names, cast(Unit, self.T))
        ticks = self.log.time // NANOSECONDS[self.T]
        distinct, codes = np.unique(ticks, return_inverse=True)
        column = Column(codes.astype(np.int32), tuple(distinct.tolist()))
        rest = tuple(name for name in names if name != "relative_time")
        return joint([perspective(self.log, (name,)) for name in rest] + [column])

    def simple(self, carries: Sequence[str] | None = None) -> SimpleLog:
        """The simple log of the release over those items and the joint sensitive value."""
        return SimpleLog.from_items(self.log.starts, self.items(carries), self.log.sensitive(self.sensitive))


def first_shown(records: Iterable[Record]) -> dict[str, float]:
    """Seconds since 1970 of the first cut whose release shows each case, by pseudonym; records of no case are none."""
    first: dict[str, float] = {}
    for record in records:
        moment = datetime.fromisoformat(record.audit["cut"]["time"]).timestamp()
        for case in record.log.case_ids:
            if case:
                first.setdefault(case, moment)
    return first
