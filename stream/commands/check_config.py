"""`veilstream check-config FILE`: what a configuration means, and which of its claims cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    file: Annotated[Path, typer.Argument(help="The configuration file (TOML).", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Output folder, to compare with its releases.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check a configuration file; warn of claims that cannot hold."""
    from stream.config import sources
    from stream.config.lint import notes, warnings
    from stream.operator.history import looser_than_released

    loaded = sources.load(file)
    doubts, hints = warnings(loaded), notes(loaded)
    if output is not None:
        doubts += looser_than_released(loaded, output)
    body = {
        "file": str(file),
        "valid": True,
        "process": loaded.process.name,
        "publications": [publication.name for publication in loaded.publication],
        "config_digest": loaded.digest,
        "warnings": doubts,
        "notes": hints,
    }
    if json:
        emit_json(body)
        return
    console = tables()
    names = ", ".join(publication.name for publication in loaded.publication) or "none"
    console.print(f"{file}: valid; process {loaded.process.name}, publications {names}")
    for warning in doubts:
        console.print(f"warning: {warning}")
    for note in hints:
        console.print(f"note: {note}")
