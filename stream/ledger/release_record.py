"""One release as the audits see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, cast

import numpy as np

from models.eventlog import Column, EventLog, SimpleLog
from models.knowledge import NANOSECONDS, Unit, joint, perspective


class StoredRelease(Protocol):
    """The file of a release, from which its log is read again."""

    def log(self) -> EventLog:
        """Its whole log."""

    def case_ids(self) -> tuple[str, ...]:
        """Its cases alone."""


ASKED = ("cut", "counts", "n_actual")
"""What later audits ask of an earlier release's audit. The rest of it, which grows with the number of releases that it
was compared with, stands in its file."""


class Record:
    """One release as the audits see it: the candidate, or an earlier one read back from variants.parquet.

    `log.case_ids` are the pseudonyms of the source cases ("" for a record that is no one case), so partners in
    other releases are found by equal ids. `cache`: where audits keep what they would compute again (per process).
    `stored`: its file, once it was released; the log can leave memory then (`leave_memory`), and is read when it is
    asked for.
    """

    __slots__ = ("T", "_log", "audit", "cache", "carries", "publication", "sensitive", "sequence", "stored")

    def __init__(
        self,
        sequence: int,
        log: EventLog,
        carries: tuple[str, ...],
        T: str,
        sensitive: tuple[str, ...],
        audit: Mapping[str, Any] | None = None,
        cache: dict[str, Any] | None = None,
        publication: str = "",
    ) -> None:
        self.sequence, self.carries, self.T, self.sensitive = sequence, carries, T, sensitive
        self.audit = {} if audit is None else audit
        self.cache = {} if cache is None else cache
        self.publication = publication
        self.stored: StoredRelease | None = None
        self._log: EventLog | None = log

    @property
    def log(self) -> EventLog:
        """The released log; read, and in memory again, where it had left."""
        if self._log is None:
            self._log = cast(StoredRelease, self.stored).log()  # without a file it never left
        return self._log

    @property
    def case_ids(self) -> tuple[str, ...]:
        """`log.case_ids`, without the rest of the log where that has left memory."""
        return self.stored.case_ids() if self._log is None and self.stored is not None else self.log.case_ids

    def stands(self, audit: Mapping[str, Any], stored: StoredRelease) -> None:
        """It was released: of its audit stays what later ones ask of it, and its log is in a file."""
        self.audit = {name: audit[name] for name in ASKED if name in audit}
        self.stored = stored

    def leave_memory(self) -> None:
        """Let go of the log, where a file has it."""
        if self.stored is not None:
            self._log = None

    def showing(self, log: EventLog) -> Record:
        """The same release with another log, and nothing kept with it."""
        return Record(self.sequence, log, self.carries, self.T, self.sensitive, self.audit, {}, self.publication)

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
        for case in record.case_ids:
            if case:
                first.setdefault(case, moment)
    return first
