"""`veilstream plan STATE -o PLAN`: what an engine builds of a cut that `replay --export-cut` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

PANEL = "Operate"


@options.grouped
def command(
    state: Annotated[Path, typer.Argument(help="The folder of replay --export-cut.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PLAN", help="A new file.", show_default=False)],
    engine: _engine.EngineOptions = _engine.IN_MEMORY,
    json: options.Json = False,
) -> None:
    """Build a cut by an engine with its publication's own mechanism, for `replay --plan` (docs/scale.md)."""
    from models.errors import InputError
    from stream.engine import handing, plan_file

    if output.exists():
        raise InputError(f"{output}: exists already; name another file with -o")
    with progress() as bar:
        task = bar.add_task(f"{state}: reading", total=None)
        plan = handing.plan_of(
            state, engine.engine, engine.memory, lambda what: bar.update(task, description=f"{state}: {what}")
        )
    plan_file.write(output, plan)
    place, build = plan.place, plan.planned.build
    if json:
        emit_json(
            {
                "publication": place.publication,
                "number": place.number,
                "cut": place.cut,
                "rows": len(build.origin),
            }
        )
        return
    tables().print(
        f"release {place.number} of {place.publication} is planned in {output}: raw data, not to be published",
        markup=False,
    )
