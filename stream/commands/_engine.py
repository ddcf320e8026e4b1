"""`--engine` and `--memory`, and what the commands that have them share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError, check_choice
from models.instants import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

    from connectors.store.base import FileEntry
    from models.eventlog import Column, Ints
    from models.variants import VariantTable
    from stream.engine import Engine
    from stream.engine.contract import CountQuery
    from stream.engine.dataset import ReleasedAttributes
    from stream.release.contract import Build, Exposure, Mechanism

PANEL = "Engine"

EMBEDDED = "embedded"

Chosen = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="embedded|duckdb|spark",
        help="Counts and writes cases: in memory, on one host out of memory, on a cluster (docs/scale.md).",
        rich_help_panel=PANEL,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="2GB", help="Most that duckdb, or an executor of spark, may use.", rich_help_panel=PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine, and the memory that it may use."""

    engine: Chosen = EMBEDDED
    memory: Memory = None

    def __post_init__(self) -> None:
        """Refuse a limit of memory for the engine that holds the log as it is."""
        if self.engine == EMBEDDED and self.memory is not None:
            raise InputError("--memory is for --engine duckdb and spark")

    def writes_folder(self, output: Path | None) -> bool:
        """Return whether a release goes into a folder of Parquet files: with an engine, or if its name has no ending.

        Parameters
        ----------
        output
            The file or folder that the user named, if any.

        Raises
        ------
        InputError
            For an ending that no log has: a mistyped file name would make a folder of that name.
        """
        from connectors.logs import SUFFIXES

        if self.engine != EMBEDDED:
            return True
        if output is None or output.name.lower().endswith(SUFFIXES):
            return False
        if output.suffix and not output.is_dir():
            raise InputError(
                f"-o {output}: a log is written as {', '.join(SUFFIXES)}, and not as {output.suffix}; for a folder of "
                "Parquet files give a name without an ending"
            )
        return True

    def refuse(self, feature: str) -> None:
        """Refuse an engine for something that only the embedded one can do.

        Parameters
        ----------
        feature
            Begin of the message: what cannot be done.

        Raises
        ------
        InputError
            If another engine was named, or an unknown one.
        """
        from stream.engine.contract import KINDS

        check_choice("--engine", self.engine, KINDS)
        if self.engine != EMBEDDED:
            raise InputError(f"{feature}; only --engine embedded can")


IN_MEMORY = EngineOptions()


@contextmanager
def opened(kind: str, path: Path, reading: Reading, work: Path, memory: str | None) -> Iterator[Engine]:
    """Return the engine, closed at the end.

    Parameters
    ----------
    kind
        Name of the engine.
    path
        The data set.
    reading
        Statements of the user about it.
    work
        Folder for temporary files.
    memory
        Most memory that the engine may use, such as `2GB`.
    """
    from stream.engine import open_engine

    engine = open_engine(kind, path, reading, work, memory)
    try:
        yield engine
    finally:
        engine.close()


def table(
    kind: str,
    path: Path,
    reading: Reading,
    memory: str | None,
    count_query: CountQuery,
) -> VariantTable:
    """Return the table of variants of a data set.

    Parameters
    ----------
    kind
        Name of the engine.
    path
        The data set.
    reading
        Statements of the user about it.
    memory
        Most memory that the engine may use, such as `2GB`.
    count_query
        Items and attributes by which the cases are counted.
    """
    from stream.commands._output import progress
    from stream.engine.source import url_of
    from stream.engine.work import workspace

    with (
        workspace(f"work://{url_of(path)}") as work,
        progress() as bar,
        opened(kind, path, reading, work, memory) as engine,
    ):
        task = bar.add_task(f"{path}: reading", total=None)
        return engine.count(count_query, lambda step: bar.update(task, description=f"{path}: {step}")).table


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """The order for a release of one data set: mechanism, source and target (None: no files)."""

    mechanism: Mechanism
    sensitive: Sequence[str]
    released: Sequence[str]
    keep_resources: bool
    durations: bool
    list_violations: bool
    output: Path | None


def anonymize(
    request: EngineRelease,
    kind: str,
    memory: str | None,
    log: Path,
    reading: Reading,
) -> Mapping[str, Any]:
    """Release a data set by an engine, and return the documented JSON of `anonymize`.

    Parameters
    ----------
    request
        Mechanism, attributes, and target of the release.
    kind
        Name of the engine.
    memory
        Most memory that the engine may use, such as `2GB`.
    log
        The data set.
    reading
        Statements of the user about it.

    Raises
    ------
    InputError
        If the mechanism needs more than variants, or the target exists or is a file of a log.
    """
    from stream.commands._output import progress
    from stream.engine import dataset
    from stream.engine.source import url_of
    from stream.engine.work import workspace

    request.mechanism.variants_by()
    if request.durations:
        raise InputError("--format duration: a data set has timestamps; name a .csv or .parquet file with -o")
    target = None if request.output is None else _folder(url_of(request.output))
    if target is not None:
        dataset.refuse_existing(target, url_of(log))
    place = target or url_of(log)
    with (
        workspace(place if target else f"work://{place}") as work,
        progress() as bar,
        opened(kind, log, reading, work, memory) as engine,
    ):
        return _EngineRun(request, engine, work, bar).result(target)


def _folder(target: str) -> str:
    from connectors.logs import SUFFIXES

    if target.lower().endswith(SUFFIXES):
        raise InputError(f"-o {target}: an engine writes a folder of Parquet files; name a folder")
    return target.rstrip("/")


class _EngineRun:
    """One release by an engine."""

    def __init__(self, request: EngineRelease, engine: Engine, work: Path, bar: Progress) -> None:
        self._request, self._engine, self._work, self._bar = request, engine, work, bar
        self._task = bar.add_task("reading", total=None)

    def _report_step(self, step: str) -> None:
        self._bar.update(self._task, description=step)

    def result(self, target: str | None) -> Mapping[str, Any]:
        """Count and plan; write the release if there is a target."""
        from stream.release import single

        mechanism = self._request.mechanism
        exposure, changing_cases = self._counted()
        problem = single.tlkc_problem(mechanism, exposure)
        violations: Mapping[str, Any] = {}
        if self._request.list_violations:
            if problem is None:
                raise InputError(f"--list-violations is for --mechanism tlkc, not {mechanism.kind}")
            violations = {"violations": single.violation_documents(problem)}
        if target is None:
            return violations
        self._report_step("mechanism")
        build, seconds = single.release_once(mechanism, exposure, keep_resources=self._request.keep_resources)
        if self._request.released:
            from stream.release.public_view import attributes_sentence

            not_guaranteed = (*build.not_guaranteed, attributes_sentence(self._request.released))
            build = replace(build, not_guaranteed=not_guaranteed)
        self._write(target, exposure, build)
        summary = single.summary(mechanism, exposure, build, seconds, changing_cases=changing_cases)
        return {**summary, **violations}

    def _counted(self) -> tuple[Exposure, Mapping[str, int]]:
        """Return the table of variants as a mechanism takes it.

        The second value is how many cases have several values of each sensitive attribute: the table has only the last.
        """
        import numpy as np

        from stream.engine.contract import CountQuery
        from stream.release.contract import Exposure

        mechanism, sensitive = self._request.mechanism, tuple(self._request.sensitive)
        if self._request.released and not mechanism.releases_attributes:
            raise InputError(f"--release-attributes: {mechanism.kind} releases no attributes of cases")
        public = tuple(name for name in self._request.released if name not in sensitive)
        if not mechanism.releases_attributes:
            sensitive = ()
        bins = getattr(mechanism, "bins", {})
        query = CountQuery(mechanism.variants_by(), sensitive, public, bins=bins)
        counted = self._engine.count(query, self._report_step)
        mechanism.check_unit(counted.unit)
        log = counted.table.log
        exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), sensitive, 0, cases=counted.table.count)
        return exposure, counted.changing_cases

    def _write(self, target: str, exposure: Exposure, build: Build) -> None:
        from models.variants import VariantPlan
        from stream.engine import dataset
        from stream.engine.contract import ID_DIGITS, Draws
        from stream.release.manifest import public_parameters, reading_notes
        from stream.release.public_files import carried

        mechanism = self._request.mechanism
        assert exposure.cases is not None  # noqa: S101 - a table has them
        plan = VariantPlan.of(carried(build), build.origin, exposure.cases)
        if plan.is_made:  # records that are nobody's case have no source case to draw an id from
            leaving = dataset.made(plan, lambda size: [secrets.token_hex(ID_DIGITS // 2) for _ in range(size)])
        else:
            leaving = self._engine.leaving(plan, Draws(), self._report_step)
        shown = self._released_attributes(exposure, exposure.cases, build)
        parameters = public_parameters(mechanism, self._request.released)
        privacy = {
            "mechanism": mechanism.kind,
            "parameters": parameters,
            "time_basis": build.time_basis,
            "reading": reading_notes(build),
        }
        self._bar.update(self._task, total=plan.cases)
        dataset.write(
            target,
            self._work,
            plan,
            leaving,
            shown,
            manifest=lambda files: _manifest(mechanism, exposure, build, plan, self._request.released, files),
            privacy={"anonymizations": privacy, "time_basis": build.time_basis},
            report_cases=lambda done: self._bar.update(self._task, completed=done),
        )

    def _released_attributes(self, exposure: Exposure, cases: Ints, build: Build) -> ReleasedAttributes:
        """Return the values of released attributes; of sensitive ones those that enough cases share."""
        import numpy as np

        from stream.engine.dataset import ReleasedAttributes
        from stream.engine.source import common_values
        from stream.release.public_view import GROUP

        rows_that_leave = build.origin[build.origin >= 0]
        leaving_cases = np.zeros(exposure.log.n_cases, dtype=np.int64)  # of each row of the table of variants
        leaving_cases[rows_that_leave] = cases[rows_that_leave]
        least = getattr(self._request.mechanism, "K", GROUP)
        public: dict[str, tuple[Any, ...]] = {}
        by_row: dict[str, Column] = {}
        for name in self._request.released:
            if name in exposure.sensitive:  # a column of the table of variants
                by_row[name] = common_values(exposure.log.case_attributes[name], leaving_cases, least)
            else:
                public[name] = self._engine.values(name).values
        return ReleasedAttributes(public, by_row)


def _manifest(
    mechanism: Mechanism,
    exposure: Exposure,
    build: Build,
    plan: Any,
    released: Sequence[str],
    files: list[FileEntry],
) -> Mapping[str, Any]:
    """Return the public manifest of a data set: for a dp release nothing in it is read off the data."""
    from stream.release.manifest import VERSION, public_parameters, reading_notes, software

    parameters = public_parameters(mechanism, released)
    body: dict[str, Any] = {
        "version": VERSION,
        "published": utc_text(time.time()),
        "mechanism": {"kind": mechanism.kind, "parameters": parameters, **build.public},
        "promise": _promised(mechanism, build, sensitive=bool(exposure.sensitive)),
        "time_basis": build.time_basis,
        "reading": reading_notes(build),
        "carries": [*build.carries, *released],
        "software": software(),
    }
    if mechanism.reads_data_in_gate:
        body["counts"] = {"cases": plan.cases, "events": plan.events, "variants": _variants(plan)}
    return {**body, "files": files}


def _promised(mechanism: Mechanism, build: Build, *, sensitive: bool) -> Mapping[str, Any]:
    """Return the promise. Engines read a data set in their own way: one of epsilon begins at the log as it was read."""
    from stream.release.manifest import INTAKE_STATEMENTS, promise

    body = promise(mechanism, build, sensitive=sensitive)
    return body if mechanism.reads_data_in_gate else {**body, "intake": INTAKE_STATEMENTS["log"]}


def _variants(plan: Any) -> int:
    """Count the distinct sequences of activities among the traces that leave."""
    return len(set(plan.traces.trace_keys({})))
