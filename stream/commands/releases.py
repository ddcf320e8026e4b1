"""`veilstream releases DIR`: what was released and what was withheld, from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, show_verdicts, tables

PANEL = "Operate"


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of a replay.", show_default=False)],
    json: options.Json = False,
) -> None:
    """List releases and withheld attempts of an output folder."""
    from rich.table import Table

    from stream.operations.history import read

    known = read(folder)
    rows, found = known.rows, known.verdicts()
    if json:
        emit_json({"folder": str(folder), "verdicts": [one.as_json() for one in found], "attempts": rows})
        return
    show_verdicts(found)
    table = Table("publication", "number", "status", "time", "trigger", "cases", "events", "reasons")
    for row in rows:
        cells = (row["publication"], row["sequence"] or "", row["status"], row["time"], row["trigger"])
        counts = (row["cases"] if row["cases"] is not None else "", row["events"] if row["events"] is not None else "")
        table.add_row(*(str(cell) for cell in (*cells, *counts)), "; ".join(row["reasons"]))
    tables().print(table)
