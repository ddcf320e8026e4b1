"""`veilstream inspect LOG`: facts about a file, and the flags to continue with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.reading import Reading
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

if TYPE_CHECKING:
    from rich.table import Table

    from connectors.inspection import InspectedColumn, Inspection

PANEL = "Publish"


@options.grouped
def command(
    log: options.Log,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Further words of column names (TOML, as connectors/words.toml)."),
    ] = None,
    activities: Annotated[
        bool, typer.Option("--activities", help="Print the line of the configuration that declares the activities.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Show the contents of a log file, with guesses of columns and roles, and the flags to confirm them.

    Values appear as shapes alone (9 for a digit, A for a letter), activities only with --activities. Exit 2 if the
    file has a problem.
    """
    from connectors.inspection import inspect

    facts = inspect(log, reading, words, activities=activities)
    if json:
        emit_json(asdict(facts))
    else:
        _show(facts)
    return 2 if facts.problems else 0


def _show(facts: Inspection) -> None:
    console = tables()
    console.print(f"{facts.file}: {_summary(facts)}")
    if facts.columns:
        console.print(_table(facts.columns))
    for name, counts in facts.object_types.items():
        console.print(f"object type {name}: {counts['objects']} objects, {counts['events']} events")
    for note in facts.notes:
        console.print(f"note: {note}")
    for problem in facts.problems:
        console.print(f"problem: {problem}", style="red")
    for decision in facts.decisions:
        console.print(f"to decide: {decision.flag} {'|'.join(decision.choices)}: {decision.why}", style="yellow")
    roles = {role: facts.names(role) for role in ("identifier", "sensitive", "quasi")}
    if any(roles.values()):
        console.print("\nroles to confirm (docs/attributes.md), in a configuration:\n[process.attributes]")
    for role, names in roles.items():
        if names:
            console.print(_toml_list(role, names), soft_wrap=True)
    if facts.declared:
        console.print("\nfor mechanisms that promise epsilon, declare how the file is written (docs/dp.md):")
        console.print(f"  {' '.join(facts.declared)}", soft_wrap=True)
    if facts.activities:
        console.print("\nlabels to declare for dp-synthetic (docs/synthetic.md), in its mechanism:")
        console.print(_toml_list("activities", facts.activities), soft_wrap=True)
        console.print(
            "warning: this list was derived from the data, so it is not public. Remove each label that only a few "
            "people have, or take the list from a process model; otherwise the promise does not hold for these people.",
            style="yellow",
            soft_wrap=True,
        )
    if facts.problems:
        console.print("\nno command is shown while there is a problem; inspect the file again with the flags above")
        return
    console.print("\ncontinue with:")
    for line in facts.commands:
        console.print(f"  {line}", soft_wrap=True)


def _table(columns: Sequence[InspectedColumn]) -> Table:
    """Return the table of the columns, or of the attributes, of a file."""
    table = grid("column", "is", "type", "filled", "values", "looks like", "why", word_columns=3)
    for column_of_words in table.columns[-2:]:
        column_of_words.justify = "left"
    for column in columns:
        meaning = column.part or (f"{column.role}?" if column.role else "")
        counts, shapes = (str(column.filled), str(column.distinct)), ", ".join(column.samples)
        table.add_row(column.name, meaning, column.type, *counts, shapes, column.reason)
    return table


def _toml_list(key: str, names: Sequence[str]) -> str:
    """Return a line of a configuration: `key = ["A", "B"]`."""
    import json

    quoted = [json.dumps(name, ensure_ascii=False) for name in names]
    return f"{key} = [{', '.join(quoted)}]"


def _summary(facts: Inspection) -> str:
    parts = [facts.kind, f"{facts.bytes} bytes"]
    if facts.encoding:
        parts.append(facts.encoding)
    if facts.separator:
        parts.append(f"separated by {facts.separator}")
    if facts.header_line:
        parts.append(f"header on line {facts.header_line}")
    if facts.rows is not None:
        parts.append(f"{facts.rows} rows")
    if facts.log is not None:
        parts.append("{cases} cases, {events} events, {variants} variants".format(**facts.log))
    if facts.time.get("format"):
        zones: dict[bool | None, str] = {True: ", with zone", False: ", without zone"}
        zone = zones.get(facts.time.get("zone"), "")
        parts.append(f"times: {facts.time['format']}{zone}")
    return "; ".join(parts)
