"""`veilstream run`: the daemon."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

PANEL = "Daemon"


class Role(StrEnum):
    """The work of a process: take events in, decide releases, or both (as two processes of its own)."""

    ingest = "ingest"
    coordinator = "coordinator"
    all = "all"


def command(
    config: Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)],
    role: Annotated[Role, typer.Option("--role", help="Work of this process.")] = Role.all,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of releases and state.")] = Path("out"),
    wait: Annotated[
        bool,
        typer.Option(
            "--wait-on-refusal",
            help="If it cannot start or must not release (exit 2, 4), wait for SIGTERM; for managers that restart it.",
        ),
    ] = False,
) -> int:
    """Run the daemon until SIGTERM; exit 1 after a crash (start it again), 2 or 4 if it must not run."""
    from stream.daemon import logs, roles

    logs.configure()
    if wait:
        return roles.run_waiting(config, output, role.value)
    if role is Role.all:
        return roles.run_all(config, output)
    if role is Role.ingest:
        return roles.run_ingest(config, output)
    return roles.run_coordinator(config, output)
