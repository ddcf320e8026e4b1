"""`veilstream risk LOG`: how many cases a little knowledge singles out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, progress, tables

if TYPE_CHECKING:
    from models.eventlog import EventLog
    from models.risk.points import Projection
    from models.risk.uniqueness import Uniqueness
    from models.variants import VariantTable

PANEL = "Measure"


@dataclass(frozen=True, slots=True)
class AdversaryOptions:
    """Knowledge of the adversary about a person."""

    projection: Annotated[
        str, typer.Option(metavar="A..F|all", help="Knowledge of the adversary about an event (docs/glossary.md).")
    ] = "all"
    resolution: Annotated[str, typer.Option(help="Times are floored to seconds, minutes, hours or days.")] = "seconds"
    points: Annotated[str, typer.Option(metavar="M[,M|P%]", help="Points known: numbers, shares, all.")] = "10%,50%,90%"
    draws: Annotated[int, typer.Option(help="Random draws that are averaged.")] = 20
    semantics: Annotated[str, typer.Option(help="joint, or per-column (the paper's program).")] = "joint"
    unit: Annotated[str, typer.Option(help="Unit of protection: case or resource.")] = "case"
    adversary: Annotated[str, typer.Option(help="random points, or greedy (those that single out fastest).")] = "random"
    case_attributes: Annotated[str, typer.Option(metavar="A[,B]", help="Case attributes known; else found.")] = ""
    event_attributes: Annotated[str, typer.Option(metavar="A[,B]", help="Event attributes known; else found.")] = ""


@options.grouped
def command(
    log: options.Log,
    attacker: AdversaryOptions = AdversaryOptions(),
    population: Annotated[int, typer.Option(metavar="N", help="Estimate uniqueness among N persons.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the figure (png, pdf, svg).")] = None,
    sensitive: options.Sensitive = "",
    reading: Reading = Reading(),  # noqa: B008 - frozen
    engine: _engine.EngineOptions = _engine.IN_MEMORY,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Measure how many cases a little knowledge singles out, in the log or in a population."""
    from connectors import read_log
    from connectors.logs import declared_times
    from models.risk.table import document, estimate_population, questions, with_time_note

    projections, amounts = questions(options.split(attacker.projection), options.split(attacker.points))
    if plot is not None:
        from stream.commands._plot import check

        check(plot)
    never_known = options.split_attributes(sensitive)
    estimate = None
    if engine.engine == _engine.EMBEDDED:
        events = read_log(log, reading=reading)
        ask = _of_log(events, attacker, never_known, reading, seed)
        measured, seconds = _measure(projections, amounts, ask)
        if population:
            estimate = estimate_population(events, measured[0], population, seed)
    else:
        _refuse_beyond_variants(attacker, projections, population, engine)
        variants = _count_variants(log, attacker, projections, never_known, reading, engine)
        ask = _of_variants(variants, attacker, seed)
        measured, seconds = _measure(projections, amounts, ask)
    measured = with_time_note(measured, declared_times(log))
    if plot is not None:
        from stream.commands._plot import draw_uniqueness

        draw_uniqueness(plot, log.name, measured)
    if json:
        emit_json(document(measured, seconds, attacker.resolution, estimate))
    else:
        _print(log.name, measured, estimate)


def _of_log(
    events: EventLog, attacker: AdversaryOptions, sensitive: Sequence[str], reading: Reading, seed: int
) -> Callable[..., Uniqueness]:
    """Return the uniqueness of the cases of a log, as a function of projection and points."""
    from models.risk.table import known_event_attributes
    from models.risk.uniqueness import trace_uniqueness

    resource_column = (reading.columns or {}).get("resource")
    event_attributes = known_event_attributes(options.split(attacker.event_attributes), resource_column)
    return partial(
        trace_uniqueness,
        events,
        resolution=attacker.resolution,  # type: ignore[arg-type] # these names are checked inside
        draws=attacker.draws,
        seed=seed,
        semantics=attacker.semantics,  # type: ignore[arg-type]
        unit=attacker.unit,  # type: ignore[arg-type]
        adversary=attacker.adversary,  # type: ignore[arg-type]
        sensitive=sensitive,
        case_attributes=options.split(attacker.case_attributes) or None,
        event_attributes=event_attributes or None,
    )


def _refuse_beyond_variants(
    attacker: AdversaryOptions, projections: Sequence[str], population: int, engine: _engine.EngineOptions
) -> None:
    """Raise InputError for values that are read from single cases."""
    if "A" in projections:
        engine.refuse("projection A knows the times of single cases (others: --projection B,C,D,E,F)")
    if attacker.unit != "case" or attacker.semantics != "joint" or attacker.adversary != "random":
        engine.refuse("--unit resource, --semantics per-column and --adversary greedy read single cases")
    if population:
        engine.refuse("--population fits a model to the attributes of single cases")
    if set(projections) & set("BDF") and not attacker.case_attributes:
        engine.refuse("which case attributes are known is found on the whole log (or name them: --case-attributes)")
    resource_alone = options.split(attacker.event_attributes) in (["resource"], ["org:resource"])
    if set(projections) & set("BC") and not resource_alone:
        engine.refuse("of events, variants have the resource alone (--event-attributes resource)")


def _count_variants(
    log: Path,
    attacker: AdversaryOptions,
    projections: Sequence[Projection],
    sensitive: Sequence[str],
    reading: Reading,
    engine: _engine.EngineOptions,
) -> VariantTable:
    """Return the variants of the log as an engine counts them, by the known items and attributes."""
    from models.knowledge import Knowledge as Items
    from stream.engine.contract import CountQuery

    known_attributes = options.split(attacker.case_attributes)
    # Sensitive attributes too: a misspelt name is reported, as in memory.
    columns = tuple(dict.fromkeys((*known_attributes, *sensitive)))
    items = Items("seq", "ar" if set(projections) & set("BC") else "ac")
    count_query = CountQuery(items, columns, classes=False, written=False)
    return _engine.table(engine.engine, log, reading, engine.memory, count_query)


def _of_variants(variants: VariantTable, attacker: AdversaryOptions, seed: int) -> Callable[..., Uniqueness]:
    """Return the uniqueness of the cases of a table of variants, as a function of projection and points."""
    from models.risk.uniqueness import variant_uniqueness

    known_attributes = tuple(dict.fromkeys(options.split(attacker.case_attributes)))
    return partial(
        variant_uniqueness,
        variants,
        case_attributes=known_attributes,
        draws=attacker.draws,
        seed=seed,
    )


def _measure(
    projections: Sequence[Projection], amounts: Sequence[Any], ask: Callable[..., Uniqueness]
) -> tuple[list[Uniqueness], list[float]]:
    """Measure each projection with its points, and the CPU seconds that it took."""
    from models.risk.table import measure_each

    with progress() as bar:
        shown = bar.track(projections, description="uniqueness by projection")
        return measure_each(shown, lambda name: ask(name, amounts), time.process_time)


def _print(name: str, measured: Sequence[Uniqueness], estimate: Mapping[str, Any] | None) -> None:
    from models.risk.table import sentences

    first = measured[0]
    amounts = next((each.points for each in measured if each.points), ())
    title = f"{name}: share of {first.cases} {first.unit}s that are unique ({first.semantics}, {first.resolution})"
    table = grid("projection", *(str(point.m) for point in amounts), "attributes alone", title=title)
    for each in measured:
        cells = [_cell(point.unique_mean, point.unique_sd) for point in each.points] or ["-"] * len(amounts)
        if each.status != "ok":
            cells = ["n/a"] * len(amounts)
        knows_attributes = each.projection in "BDF"
        attributes_alone = "-"
        if each.case_uniqueness is not None and knows_attributes:
            attributes_alone = f"{each.case_uniqueness:.4f}"
        table.add_row(each.projection, *cells, attributes_alone)
    tables().print(table)
    for line in sentences(measured, estimate):
        tables().print(line)


def _cell(mean: float, sd: float) -> str:
    return f"{mean:.4f} ± {sd:.4f}" if sd else f"{mean:.4f}"
