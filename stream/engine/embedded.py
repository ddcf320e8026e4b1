"""The engine `embedded`: the log in memory, read as every command reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from connectors import read_log
from connectors.reading import Reading
from models.anonymize.sensitive import class_columns, refuse_identifying
from models.anonymize.values import coarser_unit, written
from models.eventlog import Column, EventLog, Ints
from models.variants import GONE, VariantPlan, variant_table
from stream.engine.contract import ID_DIGITS, Counted, CountQuery, Draws, Leaving, ReportStep, report_nothing

BATCH = 50_000
"""Cases of one batch of `leaving`."""


class Embedded:
    """A log in memory."""

    def __init__(self, source: Path | EventLog, reading: Reading = Reading()) -> None:  # noqa: B008 - frozen
        self._log = source if isinstance(source, EventLog) else read_log(source, reading=reading)
        self._row: Ints = np.empty(0, dtype=np.int64)
        self._public: dict[str, Column] = {}

    @property
    def cases(self) -> int:
        """Cases of the log."""
        return self._log.n_cases

    def count(self, count_query: CountQuery, report_step: ReportStep = report_nothing) -> Counted:
        """Return the table of the log. InputError for an attribute that it lacks or that names cases."""
        report_step("variants")
        knowledge = count_query.knowledge
        unit = coarser_unit(self._log, knowledge.T) if knowledge.structure == "rel" else None
        names = tuple(dict.fromkeys((*count_query.sensitive, *count_query.public)))
        log = self._log
        if count_query.written:
            refuse_identifying(log, names, count_query.bins)
            log = written(log, names)
        if count_query.classes and count_query.written:
            classes = class_columns(log, count_query.sensitive, count_query.bins)
        else:
            classes = {name: log.case_values(name) for name in count_query.sensitive}
        table, self._row = variant_table(log, knowledge, classes)
        self._public = {name: log.case_values(name) for name in count_query.public}
        return Counted(table, unit, self._log.changing_cases(count_query.sensitive))

    def values(self, name: str) -> Column:
        """Return the distinct values of a public attribute."""
        return self._public[name]

    def leaving(
        self,
        plan: VariantPlan,
        draws: Draws,
        report_step: ReportStep = report_nothing,
    ) -> Iterator[Leaving]:
        """Yield the cases that leave, ascending by released id."""
        report_step("cases")
        drawn = np.asarray([draws.of("place", case) for case in self._log.case_ids])
        trace = plan.assigned(self._row, drawn)
        chosen = np.flatnonzero(trace != GONE)
        ids = np.asarray([draws.of("id", self._log.case_ids[case])[:ID_DIGITS] for case in chosen.tolist()])
        order = np.argsort(ids)
        for begin in range(0, len(order), BATCH):
            part = order[begin : begin + BATCH]
            cases = chosen[part]
            attributes = {name: column.codes[cases] for name, column in self._public.items()}
            yield Leaving(ids[part].tolist(), trace[cases], self._row[cases], attributes)

    def close(self) -> None:
        """Do nothing: the log is in memory."""
