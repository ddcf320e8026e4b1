"""`veilstream key create`: the pseudonym key, made before the first start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"
app = typer.Typer(help="The pseudonym key.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make the pseudonym key."""


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="New file for the key (mode 0600).", show_default=False)],
    json: options.Json = False,
) -> None:
    """Make a key file. Keep it: under another key the same case would count as two."""
    from stream.ledger.folder import create_key, ignored_by_git, read_key
    from stream.values.pseudonym import Pseudonyms

    ignored_by_git(file.absolute().parent, file.name)
    create_key(file)
    identity = Pseudonyms(read_key(file)).id
    if json:
        emit_json({"file": str(file), "key_id": identity})
    else:
        tables().print(f"{file}: key {identity}")
