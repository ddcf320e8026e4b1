"""`veilstream releases DIR`: what was released and what was withheld, from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, filled, show_reasons, show_verdicts, tables

if TYPE_CHECKING:
    from stream.operator.history import HistoryRow

PANEL = "Operate"
HEAD = ("no", "status", "time", "trigger", "cases", "events", "kept")


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of a replay.", show_default=False)],
    json: options.Json = False,
) -> int:
    """List releases and withheld attempts of an output folder; exit 3 if a publication has released nothing."""
    from stream.operator.history import late_sentence, read
    from stream.release.verdict import exit_code

    history = read(folder)
    rows, verdicts = history.rows, history.verdicts()
    if json:
        emit_json({"folder": str(folder), "verdicts": [verdict.as_json() for verdict in verdicts], "attempts": rows})
        return exit_code(verdicts)
    show_verdicts(verdicts)
    console = tables()
    for name in dict.fromkeys(row["publication"] for row in rows):
        of_publication = [row for row in rows if row["publication"] == name]
        console.print(filled(HEAD, [_cells(row) for row in of_publication], title=name, word_columns=4))
        show_reasons(console, [_reason(row) for row in of_publication])
        if late := late_sentence(of_publication):
            console.print(f"{name}: {late}", soft_wrap=True)
    return exit_code(verdicts)


def _reason(row: HistoryRow) -> tuple[str, str, str]:
    """Return number (or status), time and reasons of an attempt."""
    why = "; ".join(row["reasons"])
    if why and row["decision"] == "repaired":
        why = f"repaired, since {why}"
    return str(row["sequence"] or row["status"]), row["time"][:16], why


def _cells(row: HistoryRow) -> tuple[Any, ...]:
    kept = None if row["kept"] is None else f"{row['kept']:.3f}"
    number = row["sequence"] or ("?" if row["status"] == "waiting" else "x")
    figures = row["cases"], row["events"], kept
    return number, row["status"], row["time"][:16], row["trigger"], *figures
