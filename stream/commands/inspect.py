"""`veilstream inspect LOG`: what a file is, what its columns may mean, and the flags to go on with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.reading import Reading
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

if TYPE_CHECKING:
    from connectors.inspection import Inspection

PANEL = "Publish"


@options.grouped
def command(
    log: options.Log,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Further words of column names (TOML, as connectors/words.toml)."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Show what a log file holds, guess columns and roles with reasons, and print the flags that confirm them; values
    appear as shapes alone (9 for a digit, A for a letter). Exit 2 where the file has a problem."""
    from connectors.inspection import inspect

    found = inspect(log, reading, words)
    emit_json(asdict(found)) if json else _show(found)
    return 2 if found.problems else 0


def _show(found: Inspection) -> None:
    console = tables()
    console.print(f"{found.file}: {_summary(found)}")
    if found.columns:
        table = grid("column", "is", "type", "filled", "values", "looks like", "why", left=3)
        for words in table.columns[-2:]:
            words.justify = "left"
        for one in found.columns:
            what = one.part or (f"{one.role}?" if one.role else "")
            shapes = ", ".join(one.samples)
            table.add_row(one.name, what, one.type, str(one.filled), str(one.distinct), shapes, one.reason)
        console.print(table)
    for name, counts in found.object_types.items():
        console.print(f"object type {name}: {counts['objects']} objects, {counts['events']} events")
    for note in found.notes:
        console.print(f"note: {note}")
    for problem in found.problems:
        console.print(f"problem: {problem}", style="red")
    for decision in found.decisions:
        console.print(f"to decide: {decision.flag} {'|'.join(decision.choices)}: {decision.why}", style="yellow")
    roles = {role: found.names(role) for role in ("identifier", "sensitive", "quasi")}
    if any(roles.values()):
        console.print("\nroles to confirm (docs/attributes.md), in a configuration:\n[process.attributes]")
        for role, names in roles.items():
            if names:
                console.print(f"{role} = [{', '.join(_quoted(name) for name in names)}]", soft_wrap=True)
    if found.declared:
        console.print("\nfor mechanisms that promise epsilon, declare how the file is written (docs/dp.md):")
        console.print(f"  {' '.join(found.declared)}", soft_wrap=True)
    if found.problems:
        return
    console.print("\ngo on with:")
    for line in found.commands:
        console.print(f"  {line}", soft_wrap=True)


def _quoted(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False)


def _summary(found: Inspection) -> str:
    parts = [found.kind, f"{found.bytes} bytes"]
    if found.encoding:
        parts.append(found.encoding)
    if found.separator:
        parts.append(f"separated by {found.separator}")
    if found.header_line:
        parts.append(f"header on line {found.header_line}")
    if found.rows is not None:
        parts.append(f"{found.rows} rows")
    if found.log is not None:
        parts.append("{cases} cases, {events} events, {variants} variants".format(**found.log))
    if found.time.get("format"):
        zones: dict[bool | None, str] = {True: ", with zone", False: ", without zone"}
        zone = zones.get(found.time.get("zone"), "")
        parts.append(f"times: {found.time['format']}{zone}")
    return "; ".join(parts)
