"""`veilstream publish LOG`: send a log to the source topic, as an information system would have sent it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

PANEL = "Daemon"


def command(
    log: options.Log,
    config: Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)],
    speed: Annotated[
        float | None, typer.Option("--speed", help="Follow event time, this many times faster (default: at once).")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Source topic (default: the first).")] = None,
    json: options.Json = False,
) -> int:
    """Send the events of a log in order of time; the events of a case go to one partition, in order."""
    from connectors.kafka.producing import publish_log
    from models.errors import InputError
    from stream.daemon.start import daemon_settings

    if speed is not None and not speed > 0:
        raise typer.BadParameter("must be above 0", param_hint="--speed")
    settings, source = daemon_settings(config)
    target = topic or source.topics[0]
    if target not in source.topics:
        raise InputError(f"--topic {target}: not in source.topics ({', '.join(source.topics)})")
    if source.mapping or source.format not in ("auto", "json"):
        raise InputError(f"publish writes plain JSON events; the source reads {source.format} by its own rules")
    columns = settings.process.columns
    with progress() as bar:
        # Ingest drops transitions and logs them, once.
        reading = replace(settings.reading(options.print_note), lifecycle=None, on_bad_rows=options.RowsFile())
        events = options.read_as_declared(log, reading)
        task = bar.add_task("publishing", total=events.n_events)
        sent = publish_log(
            events,
            source,
            target,
            columns.model_dump(),
            speed=speed,
            on_progress=lambda done: bar.update(task, completed=done),
        )
    if json:
        emit_json({"topic": target, "events": sent.events, "partitions": sent.partitions, "seconds": sent.seconds})
    else:
        tables().print(f"{sent.events} events sent to {target} in {sent.seconds:.1f} s")
    return 0
