"""Commands to a running daemon. They are records of the delta topic, so a replay executes them at the same place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from connectors.kafka import topics
from connectors.kafka.faults import explained
from connectors.kafka.lineage import LogClient
from connectors.kafka.producing import producer
from connectors.kafka.source import Source
from models.errors import InputError
from stream.config.settings import Settings
from stream.daemon.start import existing_key
from stream.daemon.status import Gap, LostDelta, Status, read_status
from stream.fold.records import Command
from stream.values.pseudonym import Pseudonyms


def send(settings: Settings, source: Source, command: Command) -> int:
    """Append a command to the delta topic, and return its offset.

    Raises
    ------
    InputError
        If the publication or the topic does not exist.
    """
    names = [publication.name for publication in settings.publication]
    if command.publication is not None and command.publication not in names:
        raise InputError(f"there is no publication {command.publication!r}; there are {', '.join(names)}")
    delta = topics.topic(settings.process.name, "delta")
    topics.require(source, [delta])
    with explained(source), producer(source) as client:
        return int(client.send(delta, msgspec.json.encode(command), partition=0).get(timeout=30).offset)


def erase(settings: Settings, source: Source, output: Path, cases: Sequence[str]) -> int:
    """Send the order to erase cases; only their pseudonyms leave this process.

    Raises
    ------
    InputError
        Without the daemon's key: cases are known under its pseudonyms alone.
    """
    pseudonyms = Pseudonyms(existing_key(settings, output))
    used = (read_status(output) or Status()).get("key")
    if used and used != pseudonyms.id:
        raise InputError(f"{output}: its coordinator names cases under another pseudonym key than the one given here")
    names = [pseudonyms.case(case) for case in cases]
    return send(settings, source, Command(name="erase", arguments={"cases": names, "key": pseudonyms.id}))


def mend_gap(settings: Settings, source: Source, output: Path, action: str) -> list[Gap]:
    """Decide on missing events.

    Parameters
    ----------
    settings, source, output
        The daemon's configuration and folder.
    action
        `rewind`: set the ingest group back to the missing events. `accept`: continue without them.

    Raises
    ------
    InputError
        If the coordinator of `output` reports no gap. For `rewind`, also if ingest workers still run, or all
        missing events are gone from their topics.
    """
    status = read_status(output)
    if status is None:
        raise InputError(f"{output}: no coordinator has run here; give its folder with -o")
    delta = status.get("delta")
    if delta and (lost := delta.get("lost")):
        return _mend_delta(settings, source, status, lost, action)
    missing = [cast(Gap, partition) for partition in status["partitions"] if partition["missing"]]
    if not missing:
        raise InputError(f"{output}: its coordinator reports no gap")
    decided = missing
    if action == "rewind":
        missing = _with_removed(source, missing)
        decided = [partition for partition in missing if _has_events(partition)]
        behind = {(partition["src"], partition["p"]): partition["missing"][0] for partition in decided}
        _rewind(settings, source, behind)
    for partition in decided:
        arguments = {"action": action, "src": partition["src"], "p": partition["p"]}
        send(settings, source, Command(name="gap", arguments=arguments))
    return missing


def _with_removed(source: Source, missing: Sequence[Gap]) -> list[Gap]:
    """Return the gaps with the offsets that retention has removed: each of these will be a gap again.

    Raises
    ------
    InputError
        If no partition has anything left to read again.
    """
    client = LogClient(source)
    try:
        begins = client.begins({(partition["src"], partition["p"]) for partition in missing})
    finally:
        client.close()
    gaps: list[Gap] = []
    removed = []
    for partition in missing:
        first, last = partition["missing"]
        begin = begins[partition["src"], partition["p"]]
        place = f"{partition['src']}/{partition['p']}"
        if begin <= first:
            gaps.append(partition)
            continue
        last_gone = begin - 1 if last < first else min(begin - 1, last)  # the end of an open gap is not known
        gaps.append({**partition, "gone": (first, last_gone)})
        removed.append(f"{place}: offsets {first} to {last_gone} are gone, its log begins at offset {begin}")
    if not any(map(_has_events, gaps)):
        raise InputError(
            f"{'; '.join(removed)}: there is nothing to read again; `veilstream gap accept` continues without these "
            "events"
        )
    return gaps


def _has_events(gap: Gap) -> bool:
    """Return whether the topic still has some of the missing events."""
    return "gone" not in gap or gap["gone"][1] != gap["missing"][1]


def _mend_delta(
    settings: Settings,
    source: Source,
    status: Status,
    lost: LostDelta,
    action: str,
) -> list[Gap]:
    """Decide on a delta topic that is not the one of the state.

    `rewind` sets the ingest group back behind the last event that was folded, of every partition. The command goes
    into the new topic, and names it; the next coordinator reads it.
    """
    partitions = status["partitions"]
    if action == "rewind" and partitions:
        behind = {
            (partition["src"], partition["p"]): (partition["missing"] or [partition["last"] + 1])[0]
            for partition in partitions
        }
        _rewind(settings, source, behind)
    # of no source partition: their own gaps are decided by themselves
    arguments = {"action": action, "delta": lost["log"], "position": status["position"], "src": "", "p": -1}
    send(settings, source, Command(name="gap", arguments=arguments))
    name = topics.topic(settings.process.name, "delta")
    return [{"src": name, "p": 0, "last": status["position"], "missing": (lost["first"], lost["first"] - 1)}]


def _rewind(settings: Settings, source: Source, behind: Mapping[tuple[str, int], int]) -> None:
    """Set the ingest group to an offset of each partition."""
    with topics.admin(source) as client:
        topics.set_group_back(client, topics.group(settings.process.name, "ingest"), behind)
