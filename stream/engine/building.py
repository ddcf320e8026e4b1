"""The releases of a publication built by an engine: each cut's cases are written, counted, planned on and found again.

The cut, its audits, its gate and its seal stay in stream.release.pipeline; an engine replaces the mechanism's
work on the cases in memory. The build has the content that the mechanism itself would build.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connectors import parquet
from connectors.files import FileOps
from connectors.reading import Reading
from models.errors import InputError, VeilstreamError
from models.eventlog import EventLog, Ints
from models.variants import VariantPlan
from stream.engine import open_engine
from stream.engine.contract import ID_DIGITS, CountQuery, Draws, Engine
from stream.engine.work import workspace
from stream.ledger.folder import BUILDING
from stream.ledger.layout import OperatorLayout
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.planned import Place, applied, built_on, classified
from stream.release.public_files import carried
from stream.values.paged import ColumnFiles, drop_log_pages

ROWS = 1 << 20
"""Events of a part; a case is never in two."""


@dataclass(frozen=True, slots=True)
class EngineBuilds:
    """Builds by the engine `kind` (implements `stream.release.planned.BuiltBy`).

    `near`: the folder next to which the cases of a cut are stored while it is built, for this user only.
    """

    kind: str
    near: Path
    memory: str | None = None

    @property
    def pages(self) -> ColumnFiles:
        """Files without a name in `near`, for the columns of cuts and releases."""
        return ColumnFiles(self.near)

    def __call__(self, place: Place, mechanism: Mechanism, exposure: Exposure, memory: Any = None) -> Build:
        """Build a cut. Errors as the mechanism's, and VeilstreamError if the engine fails.

        The cut then has no decision, and is built again by the next run.
        """
        if not exposure.log.n_events:  # no engine reads a log without events
            return mechanism.build(exposure, memory)
        with workspace(str(self.near / f"{BUILDING[1:]}{place.publication}")) as work:
            data = work / "cases"
            data.mkdir(mode=0o700)
            write_cases(exposure, data, FileOps())
            drop_log_pages(exposure.log)
            engine = open_engine(self.kind, data, Reading(), work, self.memory)
            try:
                return _built(engine, mechanism, exposure, memory, self.pages)
            finally:
                engine.close()


def builder(kind: str, output: Path, memory: str | None = None) -> EngineBuilds | None:
    """Return the builder for an output folder; None if the mechanisms build, in memory.

    InputError if the engine is not installed, before the first cut.
    """
    if kind == "embedded":
        return None
    package = {"duckdb": "duckdb", "spark": "pyspark"}[kind]
    if importlib.util.find_spec(package) is None:
        raise InputError(f'engine {kind} needs {package}: install "veilstream[{kind}]"')
    return EngineBuilds(kind, OperatorLayout(output).root, memory)


def _built(
    engine: Engine,
    mechanism: Mechanism,
    exposure: Exposure,
    memory: Any,
    pages: ColumnFiles,
) -> Build:
    """Return the build of a cut whose cases an engine has.

    Raises
    ------
    InputError
        If the mechanism needs more than a table of variants.
    """
    sensitive, bins = classified(mechanism, exposure), getattr(mechanism, "bins", {})
    counted = engine.count(CountQuery(mechanism.variants_by(), sensitive, bins=bins))
    mechanism.check_unit(counted.unit)
    table = counted.table
    if (table.n_cases, table.n_events) != (exposure.log.n_cases, exposure.log.n_events):
        raise VeilstreamError("the engine counted other cases than it was given; run it again")
    planned, count = built_on(mechanism, exposure, table, memory), table.count
    del counted, table  # its events are in memory until the plan is made, and the plan needs the counts alone
    if (planned.build.origin < 0).any():
        return applied(planned, exposure, np.empty(0, dtype=np.int64), pages)
    plan = VariantPlan.of(carried(planned.build), planned.build.origin, count)
    return applied(planned, exposure, _rows(engine, plan, exposure.log.case_ids), pages)


def _rows(engine: Engine, plan: VariantPlan, cases: tuple[str, ...]) -> Ints:
    """Return the row of each case that leaves, -1 for the others: the engine identifies cases by their draws."""
    draws = Draws()
    text = f"S{ID_DIGITS}"  # as an array: a dictionary would take ten times the memory
    drawn = (draws.of("id", name)[:ID_DIGITS].encode() for name in cases)
    ids = np.fromiter(drawn, dtype=text, count=len(cases))
    case_of_place = np.argsort(ids)
    ids = ids[case_of_place]
    if (ids[1:] == ids[:-1]).any():
        raise VeilstreamError("two cases drew one id; run it again")
    row = np.full(len(cases), -1, dtype=np.int64)
    n_leaving = 0
    for part in engine.leaving(plan, draws):
        batch_ids = np.asarray(part.ids, dtype=text)
        place = np.minimum(np.searchsorted(ids, batch_ids), len(ids) - 1)
        if (ids[place] != batch_ids).any():
            raise VeilstreamError("the engine returned a case that it was not given; run it again")
        row[case_of_place[place]] = part.row
        n_leaving += len(part.ids)
    if n_leaving != plan.cases or int(np.count_nonzero(row >= 0)) != n_leaving:
        raise VeilstreamError("the engine lost cases of the plan, or has one twice; run it again")
    return row


def write_cases(exposure: Exposure, folder: Path, disk: FileOps) -> None:
    """Write the cases of an exposure as Parquet files in `folder`, durably.

    Events, and the attributes that classes come from.
    """
    for number, log in enumerate(_parts(exposure)):
        path = folder / f"part-{number:05d}.parquet"
        parquet.write(log, path)
        disk.fsync(path)
    disk.fsync(folder)


def _parts(exposure: Exposure) -> Iterator[EventLog]:
    log = exposure.log
    kept = {name: log.case_values(name) for name in exposure.sensitive}
    bare = log.with_columns(case=kept, event={})
    bounds = [0]
    while bounds[-1] < log.n_cases:
        end = int(np.searchsorted(log.starts, log.starts[bounds[-1]] + ROWS, side="right")) - 1
        bounds.append(max(end, bounds[-1] + 1))
    for begin, end in itertools.pairwise(bounds):
        yield bare.select_cases(np.arange(begin, end))
