"""`veilstream archive DIR`: write all events that a process still has as an event log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False)
    ],
    config: Annotated[Path, typer.Option("-c", "--config", help="The configuration file.", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="LOG", help="The log to write.", show_default=False)
    ],
    json: options.Json = False,
) -> None:
    """Write the events of archive and state as an event log, for `replay` with another plan.

    It only reads DIR, also while a daemon runs. The log is personal data: its cases have their pseudonyms.
    """
    from connectors.logs import suffix_of, write_log
    from stream.config.sources import load
    from stream.operator.held_events import held_log

    suffix_of(output)  # a wrong suffix is reported before a long archive is read
    log = held_log(load(config), folder)
    os.umask(0o077)  # readable by its owner alone from the first byte on
    write_log(log, output)
    if json:
        emit_json({"file": str(output), "events": log.n_events, "cases": log.n_cases})
    else:
        tables().print(f"{output}: {log.n_events} events of {log.n_cases} cases; delete it when it is no longer needed")
