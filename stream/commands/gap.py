"""`veilstream gap rewind|accept`: decide on source events that the coordinator misses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"
app = typer.Typer(help="Decide on a gap in the source events; nothing is released until then.", no_args_is_help=True)

Config = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder of the coordinator.")]


@app.command()
def rewind(config: Config, output: Output = Path("out"), json: options.Json = False) -> None:
    """Read the missing events again (stop the ingest workers first, start them after)."""
    _mend(config, output, "rewind", json)


@app.command()
def accept(config: Config, output: Output = Path("out"), json: options.Json = False) -> None:
    """Continue without the missing events; every later manifest states this."""
    _mend(config, output, "accept", json)


def _mend(config: Path, output: Path, action: str, json: bool) -> None:
    from stream.daemon import operator_commands as orders
    from stream.daemon.start import daemon_settings

    settings, source = daemon_settings(config)
    gaps = orders.mend_gap(settings, source, output, action)
    if json:
        emit_json({"action": action, "gaps": gaps})
        return
    for partition in gaps:
        place = f"{partition['src']}/{partition['p']}"
        first, last = partition["missing"]
        gone = partition.get("gone")
        if gone is not None:
            tables().print(
                f"gone: {place}, offsets {gone[0]} to {gone[1]}: the gap stays; `veilstream gap accept` continues "
                "without these events, after the others were read again",
                soft_wrap=True,
            )
            first = gone[1] + 1
        if gone is None or gone[1] != last:
            offsets = f"offsets {first} to {last}" if first <= last else f"from offset {first} on"
            tables().print(f"{action}: {place}, {offsets}")
