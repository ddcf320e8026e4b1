"""`veilstream release`: order a release of the running daemon, and wait for its decision if asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands import _order as order
from stream.commands._output import emit_json, tables

PANEL = "Operate"

NOTHING_RELEASED = 3
"""Exit code if a publication was withheld or waits for a person, like that of the verdict."""


def command(
    config: order.Config,
    publication: order.Which = None,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="DURATION", help="Wait for the decision, at most this long: 90s, 10m, 1h."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Take a release now, even if the window is not over; with --wait, exit 3 if a publication releases nothing."""
    if wait is None:
        order.give("release", config, publication, json=json)
        return 0
    return _give_and_wait(config, publication, wait, json=json)


def _give_and_wait(config: Path, publication: str | None, wait: str, *, json: bool) -> int:
    """Order a release, wait for the decision on each publication, and print it."""
    from contextlib import closing

    from stream.daemon import operator_commands as orders
    from stream.daemon.decisions import DecisionReader
    from stream.daemon.start import daemon_settings
    from stream.fold.records import Command
    from stream.values.duration import SECOND, nanoseconds

    seconds = nanoseconds(wait, "--wait") / SECOND
    settings, source = daemon_settings(config)
    names = [publication] if publication else [rules.name for rules in settings.publication]
    with closing(DecisionReader(settings.process.name, source)) as reader:
        offset = orders.send(settings, source, Command(name="release", publication=publication))
        decided = reader.wait(offset, names, seconds)
    if json:
        rows = [
            {"publication": name, "outcome": decided[name].outcome, "release": decided[name].number or None}
            | {"reasons": decided[name].reasons}
            for name in names
        ]
        emit_json({"command": "release", "publication": publication, "offset": offset, "decisions": rows})
    else:
        console = tables()
        for name in names:
            decision = decided[name]
            number = f", release {decision.number}" if decision.number else ""
            reasons = f": {'; '.join(decision.reasons)}" if decision.reasons else ""
            console.print(f"{name}: {decision.outcome}{number}{reasons}")
    if all(decision.outcome == "published" for decision in decided.values()):
        return 0
    return NOTHING_RELEASED
