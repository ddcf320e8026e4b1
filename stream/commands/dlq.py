"""`veilstream dlq list|replay`: look at the dead letters of a process, and send their records again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

PANEL = "Operate"
app = typer.Typer(
    help="List the records that could not be read, and send them again once their cause is gone.", no_args_is_help=True
)

Config = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (TOML).", show_default=False)]

SHOWN = 20
"""Letters in the table of places; `--json` lists all."""


@app.command("list")
def list_letters(
    config: Config,
    reason: Annotated[str, typer.Option("--reason", metavar="A[,B]", help="Only letters of these reasons.")] = "",
    json: options.Json = False,
) -> None:
    """List dead letters by reason, and the newest with their places; never the content of a record."""
    from datetime import UTC, datetime

    from stream.daemon.dead_letters import read_letters
    from stream.daemon.start import daemon_settings

    settings, source = daemon_settings(config)
    reasons = options.split(reason)
    all_letters = read_letters(settings.process.name, source)
    letters = [letter for letter in all_letters if not reasons or letter.reason in reasons]
    if json:
        rows = [
            {"topic": letter.place.topic, "partition": letter.place.partition, "offset": letter.place.offset}
            | {"reason": letter.reason, "at": letter.at, "payload": letter.payload is not None}
            | {"replayed": letter.replayed}
            for letter in letters
        ]
        emit_json({"process": settings.process.name, "letters": rows})
        return
    console = tables()
    if not letters:
        console.print("no dead letters")
        return

    def moment(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")

    by_reason = grid("reason", "letters", "sent again", "first", "last")
    for name in dict.fromkeys(letter.reason for letter in letters):
        of_reason = [letter for letter in letters if letter.reason == name]
        replayed = sum(letter.replayed for letter in of_reason)
        times = [letter.at for letter in of_reason]
        by_reason.add_row(name, str(len(of_reason)), str(replayed), moment(min(times)), moment(max(times)))
    console.print(by_reason)
    newest = grid("place", "reason", "at", "sent again", word_columns=4)
    for letter in letters[-SHOWN:]:
        newest.add_row(str(letter.place), letter.reason, moment(letter.at), "yes" if letter.replayed else "")
    console.print(newest)
    if len(letters) > SHOWN:
        console.print(f"the newest {SHOWN} of {len(letters)}; --json lists all")


@app.command()
def replay(
    config: Config,
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="A[,B]", help="The reasons whose cause is gone.", show_default=False),
    ],
    json: options.Json = False,
) -> int:
    """Send the records of dead letters to their source topic again; exit 1 if some are gone.

    Other readers of the source topic see these records twice, with the header `veilstream-replayed`.
    """
    from models.errors import InputError
    from stream.daemon.dead_letters import read_letters, replay_letters
    from stream.daemon.start import daemon_settings

    reasons = options.split(reason)
    if not reasons:
        raise InputError("--reason: name the reasons whose cause is gone; `veilstream dlq list` shows them")
    settings, source = daemon_settings(config)
    letters = read_letters(settings.process.name, source)
    sent, gone = replay_letters(settings.process.name, source, letters, reasons)
    if json:
        emit_json({"process": settings.process.name, "sent": sent, "gone": gone})
    else:
        console = tables()
        console.print(f"{sent} records were sent again")
        if gone:
            console.print(
                f"{gone} records are gone: their source topic no longer has them, and the dlq does not keep "
                "their bytes (source.dlq_payload). Send these events from the information system"
            )
    return 1 if gone else 0
