"""`veilstream backup DIR FILE`: ledger, checkpoints and audits as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="The backup to write (.tar.gz).", show_default=False)],
    with_key: Annotated[bool, typer.Option("--with-key", help="Put the pseudonym key in too.")] = False,
    json: options.Json = False,
) -> None:
    """Back up the operator's folder (also while a daemon runs)."""
    from stream.operator.backup import backup

    about = backup(folder, file, with_key=with_key)
    if json:
        emit_json({"file": str(file), **about})
    else:
        key = "" if about["with_key"] else ", without the key"
        tables().print(f"{file}: {about['entries']} ledger entries{key}")
