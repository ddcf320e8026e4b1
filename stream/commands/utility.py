"""`veilstream utility ORIGINAL RELEASED`: what a release is still good for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

if TYPE_CHECKING:
    from models.eventlog import EventLog, Ints

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
    from models.knowledge import NANOSECONDS

    if fitness not in ("alignment", "replay", "none"):
        raise InputError(f"--fitness {fitness!r} is not one of alignment, replay, none")
    if T not in NANOSECONDS:
        raise InputError(f"--T {T!r} is not one of {', '.join(NANOSECONDS)}")
    carries = tuple(options.split(perspective))
    if engine.engine == _engine.EMBEDDED:
        engine.refuse("utility")
        here, there = (_Side(read_log(path, reading=reading)) for path in (original, released))
    else:
        here, there = (_counted(path, carries, fitness, reading, engine) for path in (original, released))
    result = _compare(here, there, carries, T, fitness)
    if json:
        emit_json(result)
    else:
        _print(result)


@dataclass(frozen=True, slots=True)
class _Side:
    """A log: its cases, or one case of each variant and how many cases each stands for. Variants have no times."""

    log: EventLog
    cases: Ints | None = None


def _counted(
    path: Path, carries: tuple[str, ...], fitness: str, reading: Reading, engine: _engine.EngineOptions
) -> _Side:
    """Return a log as an engine counts its variants; InputError for a measure that needs more than variants."""
    from models.knowledge import Knowledge
    from stream.engine.contract import CountQuery

    if "relative_time" in carries:
        engine.refuse("--perspective relative_time reads the times of single cases")
    if fitness != "none":
        engine.refuse("the discovered model is mined from all cases (--fitness none leaves it out)")
    wanted = CountQuery(Knowledge("seq", "ar" if "resource" in carries else "ac"), classes=False, written=False)
    table = _engine.table(engine.engine, path, reading, engine.memory, wanted)
    return _Side(table.log, table.count)


TIMED = ("emd_time_months", "mae_time_months", "bottlenecks", "active_cases")
"""What is measured on times."""


def _compare(here: _Side, there: _Side, carries: tuple[str, ...], T: str, fitness: str) -> Mapping[str, Any]:
    """Return the documented JSON; a measure that cannot be taken on these logs is null."""
    from models.utility.discovery import discovery_quality
    from models.utility.distance import data_utility
    from models.utility.graphs import agreement, directly_follows, edge_distance, handover, ordinal
    from models.utility.mining import mining
    from models.utility.similarity import likeness
    from models.utility.variants import variant_changes

    logs, cases = (here.log, there.log), (here.cases, there.cases)
    counted = here.cases is not None
    _refuse_incomparable(*logs, carries)
    with progress() as bar:
        task = bar.add_task("data utility", total=3)
        result: dict[str, Any] = {
            "data_utility": data_utility(*logs, carries, T, cases),  # type: ignore[arg-type] # checked inside
            "perspective": list(carries),
        }
        bar.update(task, advance=1, description="graphs")
        graphs = [directly_follows(side.log, cases=side.cases) for side in (here, there)]
        result["dfg"] = agreement(*graphs).as_json()
        network = handover(*logs, cases)
        result["handover"] = network.as_json() if network else None
        bar.update(task, advance=1, description="discovered model")
        result["discovery"] = None
        if fitness != "none":
            quality = discovery_quality(*logs, fitness)  # type: ignore[arg-type] # checked above
            result["discovery"] = quality.as_json() | {"method": fitness}
    result |= asdict(edge_distance(*graphs))
    result["likeness"] = asdict(likeness(*logs, cases=cases))
    result["bottlenecks"], result["active_cases"] = None, None
    result["variants"] = asdict(variant_changes(*logs))
    if counted or (ordinal(there.log) and not ordinal(here.log)):
        result |= dict.fromkeys(TIMED)
    else:
        result |= _of_times(*logs)
    timed = not counted and (ordinal(here.log) or not ordinal(there.log))
    found = mining(*logs, result["data_utility"], result["discovery"], timed=timed, cases=cases)
    return {**result, "mining": found.as_json()}


def _of_times(here: EventLog, there: EventLog) -> Mapping[str, Any]:
    """Measure the times of events, beside the distance of edges."""
    from models.utility.graphs import bottlenecks
    from models.utility.variants import active_cases, moments_of

    moments = moments_of(here)
    return {
        "bottlenecks": asdict(bottlenecks(here, there)),
        "active_cases": {
            "moments": [_iso(moment) for moment in moments.tolist()],
            "original": active_cases(here, moments).tolist(),
            "released": active_cases(there, moments).tolist(),
        },
    }


def _refuse_incomparable(here: EventLog, there: EventLog, carries: tuple[str, ...]) -> None:
    """InputError for a perspective that the released file does not show, or shows under other names."""
    from models.utility.graphs import ordinal, same_names

    if not carries:
        raise InputError("--perspective names nothing; use activity, resource or relative_time")
    if "relative_time" in carries and ordinal(there) and not ordinal(here):
        raise InputError("--perspective relative_time: the release carries no times, only the order of events")
    # a log without any resource is named by data utility itself
    known = [bool((log.resource.codes >= 0).any()) for log in (here, there)]
    if "resource" in carries and all(known) and not same_names(here, there):
        raise InputError(
            "--perspective resource: no resource of the release is in the original; pseudonyms cannot be compared "
            "(anonymize --keep-resources, process.raw_resources)"
        )


def _iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e9, UTC).isoformat(timespec="seconds")


def _print(result: Mapping[str, Any]) -> None:
    from rich.table import Table

    from models.utility.mining import readable

    table = Table("measure", "fitness", "precision", "F1")
    for name in ("dfg", "handover", "discovery"):
        found = result[name]
        table.add_row(name, *(["-"] * 3 if not found else [f"{found[k]:.4f}" for k in ("fitness", "precision", "f1")]))
    tables().print(f"data utility ({', '.join(result['perspective'])}): {result['data_utility']:.4f}")
    tables().print(table)
    for sentence in result["mining"]["sentences"]:
        tables().print(sentence)
    tables().print("variants: {lost} lost, {new} new".format(**result["variants"]))
    tables().print("edges: frequency {emd_frequency:.4f} (matched {mae_frequency:.4f})".format(**result))
    if result["bottlenecks"] is None:
        tables().print("times: the release carries none, or only variants were compared")
        return
    whole, matched = (readable(result[f"{name}_time_months"] * 30 * 86_400) for name in ("emd", "mae"))
    tables().print(f"times: {whole} by edge (matched {matched})")
    tables().print("bottlenecks: {top} of the {of} slowest edges are the same".format(**result["bottlenecks"]))
