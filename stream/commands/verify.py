"""`veilstream verify DIR`: whether a whole output folder is what its ledger says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, filled, grid, tables

PANEL = "Operate"
COUNTS = ("releases", "files", "waiting", "burned", "withheld", "held", "rejected", "epsilon", "delta")


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False)
    ],
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="fsspec URL of the releases, if not in DIR.")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="Configuration with the checkpoint_key, to check encrypted checkpoints."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Check releases, manifests, operator's files, checkpoints and budgets against the ledger. Reads only."""
    from stream.config.sources import load
    from stream.operations.verify import verify

    keys = None if config is None else load(config).storage_keys
    result = verify(folder, store or None, keys)
    if json:
        emit_json({"folder": str(folder), **result.document()})
        return 0 if result.holds else 3
    console = tables()
    total = sum(one.releases for one in result.publications)
    if result.holds:
        files = sum(one.files for one in result.publications)
        console.print(f"[+] HOLDS: {total} releases, {files} files, as the ledger sealed them", style="green")
    else:
        count = len(result.problems)
        console.print(f"[x] DOES NOT HOLD: {count} problem{'s' * (count != 1)}", style="red")
        wrong = grid("publication", "number", "kind", "what does not hold", left=4)
        for one in result.problems:
            wrong.add_row(one.publication, str(one.sequence or ""), one.kind, one.text)
        console.print(wrong)
    rows = [[row.name, *(_told(getattr(row, name)) for name in COUNTS)] for row in result.publications]
    console.print(filled(("publication", *COUNTS), rows, title="", left=1))
    for note in result.notes:
        console.print(f"note: {note}")
    return 0 if result.holds else 3


def _told(value: float) -> str | None:
    """A column of zeros alone is left out."""
    return f"{value:g}" if value else None
