"""`veilstream pause`: a command to the running daemon."""

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
    """Take no further cuts until resume; events are still taken in."""
    from stream.daemon import orders
    from stream.daemon.start import daemon_settings
    from stream.records import Command

    settings, source = daemon_settings(config)
    offset = orders.send(settings, source, Command(name="pause", publication=publication))
    if json:
        emit_json({"command": "pause", "publication": publication, "offset": offset})
    else:
        tables().print(f"pause stands at offset {offset} of the delta topic")
