"""`veilstream migrate`: bring state and mirror to this program's version and to the configured storage key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

PANEL = "Operate"


def command(
    config: Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the coordinator.")] = Path("out"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be rewritten, write nothing.")] = False,
    json: options.Json = False,
) -> int:
    """Rewrite files of an older version or under another storage key.

    Stop the coordinators first. Exit 4 if something cannot be read; then nothing is written.
    """
    from stream.config.sources import load
    from stream.operator.migrate import migrate, plan

    settings = load(config)
    items = plan(settings, output) if dry_run else migrate(settings, output)
    if json:
        emit_json({"dry_run": dry_run, "items": [item.json() for item in items]})
    else:
        console = tables()
        table = grid("action", "version", "protection", "file", word_columns=4)
        for item in items:
            version = "?" if item.version is None else str(item.version)
            if item.version != item.newest:
                version += f" -> {item.newest}"
            protection: str = item.protection or "-"
            if item.protection != item.wanted:
                protection += f" -> {item.wanted}"
            remark = item.problem or item.note
            table.add_row(item.action, version, protection, f"{item.name}: {remark}" if remark else item.name)
        console.print(table)
    return 4 if any(item.problem for item in items) else 0
