"""Target and messages that the orders to a running daemon share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stream.commands._output import emit_json, tables

Config = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)]
Which = Annotated[str | None, typer.Argument(help="The publication (default: all).")]


def give(
    name: Literal["release", "pause", "resume"],
    config: Path,
    publication: str | None,
    *,
    json: bool,
) -> None:
    """Put the order on the delta topic and print its offset."""
    from stream.daemon import operator_commands as orders
    from stream.daemon.start import daemon_settings
    from stream.fold.records import Command

    settings, source = daemon_settings(config)
    offset = orders.send(settings, source, Command(name=name, publication=publication))
    if json:
        emit_json({"command": name, "publication": publication, "offset": offset})
    else:
        tables().print(f"{name} is at offset {offset} of the delta topic")
