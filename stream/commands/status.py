"""`veilstream status`: the last status of the coordinator of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

if TYPE_CHECKING:
    from stream.daemon.status import Status

PANEL = "Operate"


def command(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the coordinator.")] = Path("out"),
    json: options.Json = False,
) -> int:
    """Show state, position and counts of a coordinator; exit 4 if a gap, a standstill or a bad batch stops it."""
    import time

    from models.errors import InputError
    from stream.daemon.status import gaps_of, read_status, standstill
    from stream.daemon.worker_status import stopped_partitions

    status = read_status(output)
    if status is None:
        raise InputError(f"{output}: no coordinator has run here")
    now = time.time()
    standstill_reason, age = standstill(status, now), max(0.0, now - status["at"])
    stopped = stopped_partitions(output, now)
    if json:
        emit_json(
            {**status, "age_seconds": round(age, 3), "standstill": standstill_reason, "ingest_unreadable": stopped}
        )
    else:
        console = tables()
        console.print(f"{status['state']}, delta offset {status['position']}, checkpoint {status['checkpoint']}")
        console.print(
            f"process {status['pid']}{_on(status)}, {age:.0f} s ago"
            + (f": {standstill_reason}" if standstill_reason else "")
        )
        table = grid("publication", "seen", "exposed", "pending", "late", "cuts", "cases")
        for name, counts in status["publications"].items():
            table.add_row(name, *(str(counts[key]) for key in ("seen", "exposed", "pending", "late", "cuts", "cases")))
        console.print(table)
        if status.get("paused"):
            console.print(f"paused: {', '.join(status['paused'])}")
        for held in status.get("held", ()):
            days = (now - held["since"]) / 86400
            console.print(f"release {held['number']} of {held['publication']} has been held for {days:.1f} days")
        if status["foreign"]:
            console.print(f"{status['foreign']} events under another pseudonym key were rejected")
        for place in stopped:
            console.print(f"ingest: {place}: cannot be decoded, this partition waits")
        for gap in gaps_of(status):
            console.print(f"gap: {gap}")
    return 4 if status["state"] == "gap" or standstill_reason or stopped else 0


def _on(status: Status) -> str:
    return f" on {status['host']}" if "host" in status else ""
