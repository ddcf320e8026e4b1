"""`veilstream export-state PUBLICATION --to FOLDER`: the cases of the fold as a data set for an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    publication: Annotated[str, typer.Argument(help="Whose view of the cases.", show_default=False)],
    config: Annotated[Path, typer.Option("-c", "--config", help="The configuration file.", show_default=False)],
    target: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="A new folder.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Output folder of the replay or daemon.")] = Path(
        "out"
    ),
    json: options.Json = False,
) -> None:
    """Write the cases of the newest checkpoint as Parquet files, which `anonymize --engine` reads (docs/scale.md)."""
    from stream.config import sources
    from stream.operator.export_state import export_state

    found = export_state(sources.load(config), output, publication, target)
    if found.warning:
        typer.echo(f"veilstream: {found.warning}; the checkpoint before it was used", err=True)
    if json:
        emit_json(found.document())
        return
    tables().print(
        f"{found.cases} cases, {found.events} events in {target}; raw data: not to be published", markup=False
    )
