"""`veilstream risk LOG`: how many cases a little knowledge singles out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, progress, tables

if TYPE_CHECKING:
    from models.eventlog import EventLog
    from models.risk.uniqueness import Uniqueness

PANEL = "Measure"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the adversary knows, of whom."""

    projection: Annotated[
        str, typer.Option(metavar="A..F|all", help="What the adversary knows of an event (docs/glossary.md).")
    ] = "all"
    resolution: Annotated[str, typer.Option(help="Times are floored to seconds, minutes, hours or days.")] = "seconds"
    points: Annotated[str, typer.Option(metavar="M[,M|P%]", help="Points known: numbers, shares, all.")] = "10%,50%,90%"
    draws: Annotated[int, typer.Option(help="Random draws that are averaged.")] = 20
    semantics: Annotated[str, typer.Option(help="joint, or per-column (the paper's program).")] = "joint"
    unit: Annotated[str, typer.Option(help="Who the person is: case or resource.")] = "case"
    adversary: Annotated[str, typer.Option(help="random points, or greedy (those that single out fastest).")] = "random"
    case_attributes: Annotated[str, typer.Option(metavar="A[,B]", help="Case attributes known; else found.")] = ""
    event_attributes: Annotated[str, typer.Option(metavar="A[,B]", help="Event attributes known; else found.")] = ""


@options.grouped
def command(
    log: options.Log,
    known: Knowledge = Knowledge(),
    population: Annotated[int, typer.Option(metavar="N", help="Estimate uniqueness among N persons.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the figure (png, pdf, svg).")] = None,
    sensitive: options.Sensitive = "",
    reading: Reading = Reading(),  # noqa: B008 - frozen
    engine: _engine.Options = _engine.IN_MEMORY,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Measure how many cases a little knowledge singles out, in the log or in a population."""
    engine.refuse("risk reads the points of each case")
    from connectors import read_log
    from models.risk.table import ALL, as_json
    from models.risk.uniqueness import checked, trace_uniqueness

    wanted = list(ALL) if known.projection == "all" else options.split(known.projection)
    amounts = [checked(part) for part in options.split(known.points)]
    if not wanted or not amounts:
        raise InputError("--projection and --points each need a value")
    events = read_log(log, reading=reading)
    ask = partial(
        trace_uniqueness,
        events,
        resolution=known.resolution,  # type: ignore[arg-type] # these names are checked inside
        draws=known.draws,
        seed=seed,
        semantics=known.semantics,  # type: ignore[arg-type]
        unit=known.unit,  # type: ignore[arg-type]
        adversary=known.adversary,  # type: ignore[arg-type]
        sensitive=options.split(sensitive),
        case_attributes=options.split(known.case_attributes) or None,
        event_attributes=_by_role(options.split(known.event_attributes), reading.columns or {}) or None,
    )
    if plot is not None:
        from stream.commands._plot import check

        check(plot)
    found, seconds = _measure(wanted, lambda name: ask(name, amounts))  # type: ignore[arg-type]
    estimate = _population(events, found[0], population, seed) if population else None
    rows = [as_json(each) | {"seconds": spent} for each, spent in zip(found, seconds, strict=True)]
    if plot is not None:
        from stream.commands._risk_plot import draw

        draw(plot, log.name, found)
    if json:
        emit_json(_document(rows, known.resolution, estimate))
    else:
        _print(log.name, found, estimate)


def _by_role(attributes: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The file's column of resources as `resource`: no event attribute has its name any more."""
    return ["resource" if name == names.get("resource") else name for name in attributes]


def _measure(wanted: Sequence[str], ask: Callable[[str], Uniqueness]) -> tuple[list[Uniqueness], list[float]]:
    """What each projection gives, and its CPU seconds."""
    found, seconds = [], []
    with progress() as bar:
        for name in bar.track(wanted, description="uniqueness by projection"):
            begin = time.process_time()
            found.append(ask(name))
            seconds.append(time.process_time() - begin)
    return found, seconds


def _population(log: EventLog, found: Uniqueness, size: int, seed: int) -> Mapping[str, Any]:
    from models.risk.population import population_uniqueness

    if found.unit != "case" or not found.case_attributes:
        raise InputError("--population needs case attributes; name them with --case-attributes")
    return asdict(population_uniqueness(log, found.case_attributes, size, seed=seed))


def _document(
    rows: Sequence[Mapping[str, Any]], resolution: str, estimate: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    if len(rows) == 1:
        return {**rows[0], "population": estimate}
    known = next((row["case_uniqueness"] for row in rows if row["case_uniqueness"] is not None), None)
    return {
        "projection": "all",
        "resolution": resolution,
        "points": [],
        "case_uniqueness": known,
        "population": estimate,
        "projections": rows,
    }


def _print(name: str, found: Sequence[Uniqueness], estimate: Mapping[str, Any] | None) -> None:
    first = found[0]
    amounts = next((each.points for each in found if each.points), ())
    title = f"{name}: share of {first.cases} {first.unit}s that are unique ({first.semantics}, {first.resolution})"
    table = grid("projection", *(str(point.m) for point in amounts), "attributes alone", title=title)
    for each in found:
        cells = [_cell(point.unique_mean, point.unique_sd) for point in each.points] or ["-"] * len(amounts)
        alone = "-" if each.case_uniqueness is None or each.projection not in "BDF" else f"{each.case_uniqueness:.4f}"
        table.add_row(each.projection, *(cells if each.status == "ok" else ["n/a"] * len(amounts)), alone)
    tables().print(table)
    for line in dict.fromkeys(f"{each.projection}: {each.reason}" for each in found if each.reason):
        tables().print(line)
    for line in dict.fromkeys(note for each in found for note in each.notes):
        tables().print(line)
    tables().print(
        f"known attributes: of cases {', '.join(first.case_attributes) or 'none'}; "
        f"of events {', '.join(first.event_attributes) or 'none'}"
    )
    if estimate:
        tables().print(
            "population of {size}: {unique_mean:.4f} unique (sd {unique_sd:.4f} over {runs} runs), "
            "sample {sample_unique:.4f}; error of the fit {fit_error:.4f}".format(**estimate)
        )


def _cell(mean: float, sd: float) -> str:
    return f"{mean:.4f} ± {sd:.4f}" if sd else f"{mean:.4f}"
