"""`veilstream utility ORIGINAL RELEASED`: what a release is still good for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

if TYPE_CHECKING:
    from models.eventlog import EventLog, Ints
    from models.variants import VariantTable

PANEL = "Measure"


@options.grouped
def command(
    original: options.Log,
    released: Annotated[Path, typer.Argument(help="The released log.", show_default=False)],
    perspective: Annotated[
        str, typer.Option(metavar="P[,P]", help="Of data utility: activity, resource, relative_time.")
    ] = "activity",
    T: Annotated[str, typer.Option("--T", help="Accuracy of relative times.")] = "minutes",
    fitness: Annotated[
        str, typer.Option(help="Of the discovered model: alignment, replay (fast) or none.")
    ] = "alignment",
    reading: Reading = Reading(),  # noqa: B008 - frozen
    engine: _engine.EngineOptions = _engine.IN_MEMORY,
    json: options.Json = False,
) -> None:
    """Compare a release with its original: variants, graphs, times, bottlenecks, and the discovered model."""
    from connectors import read_log
    from connectors.logs import declared_times, read_released
    from models.utility.comparison import STEPS, check_options, compare, refuse_swapped

    check_options(T, fitness)
    refuse_swapped(declared_times(original), declared_times(released))
    carries = tuple(options.split(perspective))
    logs: list[EventLog] = []
    cases: tuple[Ints | None, Ints | None] = (None, None)
    if engine.engine == _engine.EMBEDDED:
        logs = [read_log(original, reading=reading), read_released(released, reading)]
    else:
        tables = [_counted(path, carries, fitness, reading, engine) for path in (original, released)]
        logs = [table.log for table in tables]
        cases = (tables[0].count, tables[1].count)
    with progress() as bar:
        task = bar.add_task("comparing", total=STEPS)
        result = compare(
            logs[0],
            logs[1],
            carries,
            T,
            fitness,
            cases=cases,
            on_step=lambda step: bar.update(task, advance=1, description=step),
        )
    if json:
        emit_json(result)
    else:
        _print(result)


def _counted(
    path: Path, carries: tuple[str, ...], fitness: str, reading: Reading, engine: _engine.EngineOptions
) -> VariantTable:
    """Return a log as an engine counts its variants; InputError for a measure that needs more than variants."""
    from models.knowledge import Knowledge
    from stream.engine.contract import CountQuery

    if "relative_time" in carries:
        engine.refuse("--perspective relative_time reads the times of single cases")
    if fitness != "none":
        engine.refuse("the discovered model is mined from all cases (--fitness none leaves it out)")
    items = Knowledge("seq", "ar" if "resource" in carries else "ac")
    count_query = CountQuery(items, classes=False, written=False)
    return _engine.table(engine.engine, path, reading, engine.memory, count_query)


def _print(result: Mapping[str, Any]) -> None:
    from rich.table import Table

    from models.utility.comparison import AGREEMENTS, sentences

    table = Table("measure", "fitness", "precision", "F1")
    for name in AGREEMENTS:
        figures = result[name]
        cells = ["-"] * 3
        if figures:
            cells = [f"{figures[key]:.4f}" for key in ("fitness", "precision", "f1")]
        table.add_row(name, *cells)
    first, *further_sentences = sentences(result)
    tables().print(first)
    tables().print(table)
    for sentence in further_sentences:
        tables().print(sentence)
