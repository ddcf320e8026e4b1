"""The fold's state as bytes and back. Equal states give equal bytes: everything is in a fixed order.

What can be derived (deadlines of inactivity, counts of events_per_case) is not here but counted anew on restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from models.errors import RefusedError
from stream.fold.cases import ActorCodes, AttributeValues, CaseIndex, Codes, plain
from stream.fold.intake import Partition, State
from stream.fold.patches import Patch
from stream.fold.records import Attributes, Delta

STATE_VERSION = 2
"""Version of what `encode` writes; bumped with every change of the state's shape."""


def _without_logs(table: dict[str, Any]) -> dict[str, Any]:
    """1 to 2: the log that a partition was read from is unknown."""
    partitions = [[*one, "", -1, None] for one in table["state"]["partitions"]]
    return {**table, "state": {**table["state"], "partitions": partitions}}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _without_logs}
"""By version n: how a state of version n becomes one of n + 1. A bump of STATE_VERSION brings the step from the
version before it; older ones are dropped then (a program reads N and N - 1).

1 to 2: partitions know their log; rules may name `start` and `private`, and events be RETIRED; a state of version 1 has
none of these."""

_COUNTERS = ("ordered", "earliest", "latest", "duplicates", "refused", "foreign", "removed_cases", "removed_events")


def dump_state(state: State) -> dict[str, Any]:
    """Plain values of events, cases and partitions."""
    return {
        "events": state.events.to_state(),
        "cases": state.cases.to_state(),
        "names": state.index.names(state.cases.size),
        "gone": sorted(state.index.gone),
        "activities": list(state.activity_names),
        "resources": list(state.resource_names),
        "named": state.named,
        "case_attributes": [[name, one.to_state()] for name, one in sorted(state.case_attributes.items())],
        "event_attributes": [[name, one.to_state()] for name, one in sorted(state.event_attributes.items())],
        "event_ids": [[case, sorted(ids)] for case, ids in sorted(state.event_ids.items())],
        "partitions": dump_partitions(state),
        "counters": counters(state),
    }


def counters(state: State) -> dict[str, int | bool | None]:
    """The numbers that a state keeps beside its tables."""
    return {name: getattr(state, name) for name in _COUNTERS}


def dump_partitions(state: State) -> list[list[Any]]:
    """Plain values of the partitions, with the records that wait behind a gap."""
    return [_dump_partition(name, one) for name, one in state.partitions.items()]


def load_state(table: dict[str, Any]) -> State:
    """The inverse of `dump_state`."""
    state = State()
    state.events.load(table["events"])
    state.cases.load(table["cases"])
    state.index = CaseIndex(((name, code) for code, name in enumerate(table["names"])), set(table["gone"]))
    state.activities = Codes({value: code for code, value in enumerate(table["activities"])})
    state.resources = ActorCodes(table["resources"])
    state.named = table.get("named", not table["resources"])
    state.case_attributes = {name: AttributeValues.from_state(one) for name, one in table["case_attributes"]}
    state.event_attributes = {name: AttributeValues.from_state(one) for name, one in table["event_attributes"]}
    state.event_ids = {case: set(ids) for case, ids in table["event_ids"]}
    for one in table["partitions"]:
        source, partition = _load_partition(one, len(state.partitions))
        state.partitions[source] = partition
    for counter in _COUNTERS:
        setattr(state, counter, table["counters"][counter])
    return state


def _dump_partition(name: tuple[str, int], one: Partition) -> list[Any]:
    held = [[position, _held(record)] for position, record in one.held]
    return [*name, one.hwm, one.latest, one.active, one.accept_gap, held, one.log, one.epoch, one.lost]


def _held(record: Delta) -> bytes:
    """A record behind a gap. Its values as `plain` will make them where one is an integer that msgpack cannot hold."""
    try:
        return msgspec.msgpack.encode(record)
    except OverflowError:
        rows = [(*row[:5], _plain_values(row[5]), *row[6:]) for row in record.rows]
        return msgspec.msgpack.encode(msgspec.structs.replace(record, rows=rows))


def _plain_values(attributes: Attributes | None) -> Attributes | None:
    if attributes is None:
        return None
    return {level: {name: plain(value) for name, value in one.items()} for level, one in attributes.items()}


def _load_partition(raw: list[Any], code: int) -> tuple[tuple[str, int], Partition]:
    source, number, hwm, latest, active, accept_gap, held, log, epoch, lost = raw
    records = [(position, msgspec.msgpack.decode(body, type=Delta)) for position, body in held]
    return (source, number), Partition(code, hwm, latest, active, accept_gap, records, log, epoch, lost)


def encode(table: dict[str, Any]) -> bytes:
    """Bytes with the state version in front."""
    return msgspec.msgpack.encode({"version": STATE_VERSION, **table}, order="sorted", enc_hook=_plain)


def encode_patches(some: list[Patch]) -> bytes:
    """Changes of a state of this version; `stream.fold.patches.merged` applies them."""
    return msgspec.msgpack.encode(some, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """NumPy's scalars as the numbers they are."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a state")


def decode(raw: bytes) -> dict[str, Any]:
    """RefusedError for bytes that are not a state, or one of another version."""
    try:
        table = msgspec.msgpack.decode(raw)
        version = table["version"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise RefusedError("the state of the fold cannot be read: these bytes are not a state") from None
    if not readable(version):
        age = "newer" if version > STATE_VERSION else "older"
        raise RefusedError(f"the state of the fold has version {version}, {age} than the {STATE_VERSION} known here")
    for step in range(version, STATE_VERSION):
        table = UPGRADES[step](dict(table))
    return dict(table)


def readable(version: int) -> bool:
    """Whether `decode` takes a state of this version: our own, or one that `UPGRADES` leads to it."""
    return version <= STATE_VERSION and all(step in UPGRADES for step in range(version, STATE_VERSION))
