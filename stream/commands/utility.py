"""`veilstream utility ORIGINAL RELEASED`: what a release is still good for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
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
    from models.eventlog import EventLog

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
    engine: _engine.Options = _engine.IN_MEMORY,
    json: options.Json = False,
) -> None:
    """Compare a release with its original: variants, graphs, times, bottlenecks, and the discovered model."""
    engine.refuse("utility compares the times of events")
    from connectors import read_log
    from models.knowledge import NANOSECONDS

    if fitness not in ("alignment", "replay", "none"):
        raise InputError(f"--fitness {fitness!r} is not one of alignment, replay, none")
    if T not in NANOSECONDS:
        raise InputError(f"--T {T!r} is not one of {', '.join(NANOSECONDS)}")
    here = read_log(original, reading=reading)
    there = read_log(released, reading=reading)
    result = _compare(here, there, tuple(options.split(perspective)), T, fitness)
    if json:
        emit_json(result)
    else:
        _print(result)


def _compare(here: EventLog, there: EventLog, carries: tuple[str, ...], T: str, fitness: str) -> Mapping[str, Any]:
    """The documented JSON; what cannot be measured on these logs is null."""
    from models.utility.discovery import discovery_quality
    from models.utility.distance import data_utility
    from models.utility.graphs import agreement, bottlenecks, directly_follows, edge_distance, handover, ordinal
    from models.utility.mining import mining
    from models.utility.similarity import likeness
    from models.utility.variants import active_cases, moments_of, variant_changes

    _refuse_incomparable(here, there, carries)
    with progress() as bar:
        task = bar.add_task("data utility", total=3)
        result: dict[str, Any] = {
            "data_utility": data_utility(here, there, carries, T),  # type: ignore[arg-type] # checked inside
            "perspective": list(carries),
        }
        bar.update(task, advance=1, description="graphs")
        graphs = directly_follows(here), directly_follows(there)
        result["dfg"] = agreement(*graphs).as_json()
        network = handover(here, there)
        result["handover"] = network.as_json() if network else None
        bar.update(task, advance=1, description="discovered model")
        result["discovery"] = None
        if fitness != "none":
            quality = discovery_quality(here, there, fitness)  # type: ignore[arg-type] # checked above
            result["discovery"] = quality.as_json() | {"method": fitness}
    result |= asdict(edge_distance(*graphs))
    result["likeness"] = asdict(likeness(here, there))
    result["bottlenecks"] = asdict(bottlenecks(here, there))
    result["variants"] = asdict(variant_changes(here, there))
    moments = moments_of(here)
    result["active_cases"] = {
        "moments": [_iso(moment) for moment in moments.tolist()],
        "original": active_cases(here, moments).tolist(),
        "released": active_cases(there, moments).tolist(),
    }
    if ordinal(there) and not ordinal(here):
        result |= dict.fromkeys(("emd_time_months", "mae_time_months", "bottlenecks", "active_cases"))
    timed = ordinal(here) or not ordinal(there)
    found = mining(here, there, result["data_utility"], result["discovery"], timed=timed)
    return {**result, "mining": found.as_json()}


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
        tables().print("times: the release carries none")
        return
    whole, matched = (readable(result[f"{name}_time_months"] * 30 * 86_400) for name in ("emd", "mae"))
    tables().print(f"times: {whole} by edge (matched {matched})")
    tables().print("bottlenecks: {top} of the {of} slowest edges are the same".format(**result["bottlenecks"]))
