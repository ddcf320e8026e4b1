"""`veilstream restore FILE DIR`: bring a backup back, unless it is behind what was published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    file: Annotated[Path, typer.Argument(help="A backup.", show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.", show_default=False)],
    store: Annotated[str, typer.Option("--store", help="fsspec URL of the releases, if not in DIR.")] = "",
    json: options.Json = False,
) -> None:
    """Restore the operator's folder; exit 4 if the store has releases that the backup does not contain."""
    from stream.ledger.layout import OperatorLayout
    from stream.operator.backup import restore

    about = restore(file, folder, store or None)
    key = OperatorLayout(folder).key
    if json:
        emit_json({"folder": str(folder), **about})
    else:
        console = tables()
        console.print(f"{folder}: {about['entries']} ledger entries restored")
        if not key.exists():
            console.print(
                f"the pseudonym key is not in the backup, and nothing continues without it: put the key of "
                f"the lost folder at {key}, or give it with VEILSTREAM_KEY_FILE; do not create a new one",
                soft_wrap=True,
            )
