"""`veilstream status`: the last status of a coordinator, from its folder or from its topic on the broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, grid, tables

if TYPE_CHECKING:
    from stream.daemon.status import ReleaseStatus, Status, TriggerStatus
    from stream.daemon.status_topic import RemoteStatus

PANEL = "Operate"


def command(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the coordinator.")] = Path("out"),
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", help="Read the status from this broker (host:port), from any host."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="Read the status of this configuration's process from its broker."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Show state, position and counts of a coordinator; exit 4 if a gap, a standstill or a bad batch stops it."""
    if bootstrap is not None or config is not None:
        return _remote(bootstrap, config, json)
    return _local(output, json)


def _local(output: Path, json: bool) -> int:
    """Show the status file of a folder."""
    import time

    from models.errors import InputError
    from stream.daemon.status import read_status, standstill
    from stream.daemon.worker_status import stopped_partitions

    status = read_status(output)
    if status is None:
        missing = "there is no such folder"
        if output.exists():
            missing = "no coordinator has run here, or its first start failed (read its log)"
        raise InputError(f"{output}: {missing}; give the coordinator's folder with -o, or its broker with --bootstrap")
    now = time.time()
    reason, age = standstill(status, now), max(0.0, now - status["at"])
    stopped = stopped_partitions(output, now)
    if json:
        emit_json({**status, "age_seconds": round(age, 3), "standstill": reason, "ingest_unreadable": stopped})
    else:
        _print(status, now, age, reason)
        for place in stopped:
            tables().print(f"ingest: {place}: cannot be decoded, this partition waits")
    return 4 if status["state"] == "gap" or reason or stopped else 0


def _remote(bootstrap: str | None, config: Path | None, json: bool) -> int:
    """Show the status topics of a broker: that of one configuration, or of every process that the broker shows us."""
    import time

    from models.errors import InputError
    from stream.config.sources import load
    from stream.daemon.status import standstill
    from stream.daemon.status_topic import read_remote, status_processes

    source_flags: dict[str, object] = {} if bootstrap is None else {"bootstrap": bootstrap}
    if config is None:
        source_flags["topics"] = ["none"]  # a [source] has topics; nothing reads them here
    settings = load(config, {"source": source_flags} if source_flags else None)
    if settings.source is None:
        raise InputError(f"{config}: no [source] table: it names the broker; or give --bootstrap alone")
    processes = [settings.process.name] if config is not None else status_processes(settings.source)
    if not processes:
        raise InputError(
            f"broker {settings.source.bootstrap}: shows no status topic: none exists (`veilstream topics "
            "create` makes it), or none may be described (give the credentials of its operator with -c; "
            "`veilstream topics acls`)"
        )
    documents: list[dict[str, Any]] = []
    code = 0
    for process in processes:
        remote = read_remote(process, settings.source)
        now = time.time()
        start_failure = remote.failed_start(now)
        if start_failure is not None:
            code = 4
        start_facts = {"process": process, "start": remote.start, "start_failure": start_failure}
        if remote.status is None:
            code = 4 if remote.start is None else code
            if json:
                documents.append(start_facts)
            else:
                tables().print(f"{process}: {_starting(remote, start_failure, now)}")
            continue
        # By the broker's stamp: the clock of the coordinator's host may be wrong. The other times of the status are
        # compared with each other, on that clock.
        age = max(0.0, now - remote.stamped)
        reason = standstill(remote.status, remote.status["at"] + age)
        if remote.status["state"] == "gap" or (reason and remote.start is None):
            code = 4
        if json:
            documents.append({**remote.status, "age_seconds": round(age, 3), "standstill": reason, **start_facts})
            continue
        tables().print(f"{process}:")
        if remote.start is not None:
            tables().print(f"{_starting(remote, start_failure, now)}; the figures are those of the coordinator before")
        _print(remote.status, now, age, reason)
    if json:
        emit_json({"processes": documents})
    return code


def _starting(remote: RemoteStatus, start_failure: str | None, now: float) -> str:
    start = remote.start
    if start is None:
        return "no coordinator has written a status yet"
    age = max(0.0, now - remote.started)
    process = f"process {start.pid} on {start.host}"
    if start_failure is not None:
        return f"{start_failure} ({process}, {age:.0f} s ago)"
    return f"a coordinator opens its state: {process}, since {start.seconds + age:.0f} s"


def _print(status: Status, now: float, age: float, standstill_reason: str | None) -> None:
    """Print a status for people. Each figure is that of the status, whose age is in the second line."""
    from stream.daemon.status import gaps_of

    console = tables()
    checkpoint = _checkpoint(status, status["at"] + age)
    console.print(f"{status['state']}, delta offset {status['position']}, checkpoint {checkpoint}")
    console.print(
        f"process {status['pid']}{_on(status)}, {age:.0f} s ago"
        + (f": {standstill_reason}" if standstill_reason else "")
    )
    if "lag" in status:
        lag = status["lag"]
        waiting = f"{sum(lag['source'].values())} source records and {lag['delta']} delta records wait"
        console.print(f"lag: {waiting}; {lag['dead_letters']} dead letters are kept")
    table = grid("publication", "seen", "exposed", "pending", "late", "cuts", "cases")
    for name, counts in status["publications"].items():
        table.add_row(name, *(str(counts[key]) for key in ("seen", "exposed", "pending", "late", "cuts", "cases")))
    console.print(table)
    if status.get("releases"):
        table = grid("publication", "last release", "next release", "withheld since", "epsilon", "releases left")
        for name, release in status["releases"].items():
            table.add_row(name, *_release_cells(release, now))
        console.print(table)
    building = status.get("building")
    if building:
        console.print(f"building: cut {building['cut']}, since {building['seconds']:.0f} s")
    if status.get("paused"):
        console.print(f"paused: {', '.join(status['paused'])}")
    for held_release in status.get("held", ()):
        days = (now - held_release["since"]) / 86400
        name = f"release {held_release['number']} of {held_release['publication']}"
        console.print(f"{name} has been held for {days:.1f} days")
    if status["foreign"]:
        console.print(f"{status['foreign']} events under another pseudonym key were rejected")
    for gap in gaps_of(status):
        console.print(f"gap: {gap}")


def _checkpoint(status: Status, now: float) -> str:
    """Return position and age of the checkpoint."""
    saved = status.get("checkpoint_at")
    if saved is None:
        return "none"
    # This process has written none yet. The one before has.
    position = "of the process before" if status["checkpoint"] < 0 else str(status["checkpoint"])
    return f"{position} ({max(0.0, now - saved):.0f} s old)"


def _release_cells(release: ReleaseStatus, now: float) -> list[str]:
    """Return last and next release, attempts withheld since, spent epsilon of its limit, and releases left."""
    last = "none"
    if release["last"] is not None:
        last = str(release["last"])
        if release["last_at"] is not None:
            last += f", {(now - release['last_at']) / 3600:.1f} h ago"
    following = " or ".join(_trigger(trigger) for trigger in release["next"]) or "by command"
    withheld = str(release["withheld_streak"])
    reasons = release.get("withheld_for")  # a coordinator of an earlier version does not state them
    if reasons:
        withheld += f" ({', '.join(reasons)})"
    budget = release["budget"]
    if budget is None:
        return [last, following, withheld, "", ""]
    spent = f"{budget['spent_epsilon']:g}"
    if budget["max_epsilon"] is not None:
        spent += f" of {budget['max_epsilon']:g}"
    releases_left = "no limit" if budget["left_releases"] is None else str(budget["left_releases"])
    return [last, following, withheld, spent, releases_left]


def _trigger(trigger: TriggerStatus) -> str:
    from models.instants import utc_text

    if "due" in trigger:
        return f"{utc_text(trigger['due'])} ({trigger['clock']} time)"
    if "need" not in trigger:
        return "when its first window has begun"
    return f"{trigger['have']} of {trigger['need']} {trigger['trigger']}"


def _on(status: Status) -> str:
    return f" on {status['host']}" if "host" in status else ""
