"""`veilstream resume`: a command to the running daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    config: Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)],
    publication: Annotated[str | None, typer.Argument(help="Which publication (default: all).")] = None,
    json: options.Json = False,
) -> None:
    """Take cuts again."""
    from stream.daemon import orders
    from stream.daemon.start import daemon_settings
    from stream.records import Command

    settings, source = daemon_settings(config)
    offset = orders.send(settings, source, Command(name="resume", publication=publication))
    if json:
        emit_json({"command": "resume", "publication": publication, "offset": offset})
    else:
        tables().print(f"resume stands at offset {offset} of the delta topic")
