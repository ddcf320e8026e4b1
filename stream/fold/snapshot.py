"""The state of the fold as bytes, and its changes since it was last saved.

Equal states give equal bytes: everything is in a fixed order. Derived values (deadlines of inactivity, counts of
events_per_case) are not saved, but computed again on restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from models.errors import RefusedError
from stream.fold.forgotten import DigestSet
from stream.fold.message_parts import Binary, encoded_parts, plain_number
from stream.fold.records import Attributes, Delta
from stream.fold.state import (
    ActorCodes,
    Array,
    AttributeValues,
    CaseIndex,
    Codes,
    ColumnTable,
    Partition,
    State,
    countable,
)
from stream.fold.triggers import PublicationState
from stream.values.memory import PIECE, Bytes, gathered, is_scratch, moved, release, scratch, slice_of, spend

if TYPE_CHECKING:
    from stream.fold.rules import FoldRules

STATE_VERSION = 4
"""Version of the bytes of `encode`; raised with every change of the state's shape."""


def _without_logs(table: dict[str, Any]) -> dict[str, Any]:
    """Upgrade from version 1 to 2: the log that a partition was read from is unknown.

    A state of version 1 has no rules with `start` or `private`, and no event that is RETIRED.
    """
    partitions = [[*partition, "", -1, None] for partition in table["state"]["partitions"]]
    return {**table, "state": {**table["state"], "partitions": partitions}}


def _without_forgotten(table: dict[str, Any]) -> dict[str, Any]:
    """Upgrade from version 2 to 3: no case is settled, and none was forgotten.

    The first decision on a cut after that settles the cases of all cuts before it.
    """
    state = table["state"]
    n_cases = len(state["names"])
    cases = {**state["cases"], "settled": ["|b1", bytearray(n_cases)]}
    return {**table, "state": {**state, "cases": cases, "forgotten": b""}}


def _without_drops(table: dict[str, Any]) -> dict[str, Any]:
    """Upgrade from version 3 to 4: no event left for the archive.

    An older program must not continue such a state: it would lose the count of drops, and with it the knowledge
    which segments of the archive the state does not have.
    """
    state = table["state"]
    return {**table, "state": {**state, "counters": {**state["counters"], "drops": 0}}}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _without_logs,
    2: _without_forgotten,
    3: _without_drops,
}
"""By version n, the function that upgrades a state from version n to n + 1. A new STATE_VERSION brings the step from
the version before it. The oldest step remains as long as a program that may still run somewhere wrote that version."""

LEVELS = ("case_attributes", "event_attributes")

_COUNTERS = (
    "ordered",
    "earliest",
    "latest",
    "duplicates",
    "refused",
    "foreign",
    "removed_cases",
    "removed_events",
    "drops",
)


def dump_state(state: State) -> dict[str, Any]:
    """Return plain values of events, cases and partitions."""
    return {
        "events": state.events.to_state(),
        "cases": state.cases.to_state(),
        "names": state.index.names(state.cases.size),
        "gone": sorted(state.index.gone),
        "forgotten": state.forgotten.to_bytes(),
        "activities": list(state.activity_names),
        "resources": list(state.resource_names),
        "named": state.named,
        "case_attributes": [[name, values.to_state()] for name, values in sorted(state.case_attributes.items())],
        "event_attributes": [[name, values.to_state()] for name, values in sorted(state.event_attributes.items())],
        "event_ids": [[case, sorted(ids)] for case, ids in sorted(state.event_ids.items())],
        "partitions": dump_partitions(state),
        "counters": counters(state),
    }


def counters(state: State) -> dict[str, int | bool | None]:
    """Return the numbers of a state that are in none of its tables."""
    return {name: getattr(state, name) for name in _COUNTERS}


def dump_partitions(state: State) -> list[list[Any]]:
    """Return plain values of the partitions, with the records that wait behind a gap."""
    return [_dump_partition(name, partition) for name, partition in state.partitions.items()]


def load_state(table: dict[str, Any]) -> State:
    """Return the state that `dump_state` described."""
    state = State()
    state.events.load(table["events"])
    state.cases.load(table["cases"])
    state.index = CaseIndex(((name, code) for code, name in enumerate(table["names"])), set(table["gone"]))
    state.forgotten = DigestSet(table["forgotten"])
    state.activities = Codes({value: code for code, value in enumerate(table["activities"])})
    state.resources = ActorCodes(table["resources"])
    state.named = table.get("named", not table["resources"])
    for level in LEVELS:
        attributes = {name: AttributeValues.from_state(values) for name, values in table[level]}
        setattr(state, level, attributes)
    state.event_ids = {case: set(ids) for case, ids in table["event_ids"]}
    for row in table["partitions"]:
        source, partition = _load_partition(row, len(state.partitions))
        state.partitions[source] = partition
    for counter in _COUNTERS:
        setattr(state, counter, table["counters"][counter])
    return state


def _dump_partition(name: tuple[str, int], partition: Partition) -> list[Any]:
    held_records = [[position, _held(record)] for position, record in partition.held]
    return [
        *name,
        partition.hwm,
        partition.latest,
        partition.active,
        partition.accept_gap,
        held_records,
        partition.log,
        partition.epoch,
        partition.lost,
    ]


def _held(record: Delta) -> bytes:
    """Encode a record behind a gap.

    If it contains an integer that is too large for msgpack, its values are made `countable` first.
    """
    try:
        return msgspec.msgpack.encode(record)
    except OverflowError:
        rows = [(*row[:5], _countable_values(row[5]), *row[6:]) for row in record.rows]
        return msgspec.msgpack.encode(msgspec.structs.replace(record, rows=rows))


def _countable_values(attributes: Attributes | None) -> Attributes | None:
    if attributes is None:
        return None
    return {
        level: {name: countable(value) for name, value in level_values.items()}
        for level, level_values in attributes.items()
    }


def _load_partition(raw: list[Any], code: int) -> tuple[tuple[str, int], Partition]:
    source, number, hwm, latest, active, accept_gap, held_records, log, epoch, lost = raw
    records = [(position, msgspec.msgpack.decode(body, type=Delta)) for position, body in held_records]
    return (source, number), Partition(code, hwm, latest, active, accept_gap, records, log, epoch, lost)


def encode(table: dict[str, Any]) -> list[Bytes]:
    """Encode a table with the state version, in parts (`encoded_parts`)."""
    return encoded_parts({"version": STATE_VERSION, **table})


def encode_patches(patches: list[Patch]) -> bytes:
    """Encode changes of a state of this version; `merged` applies them."""
    return msgspec.msgpack.encode(patches, enc_hook=plain_number)


def decode(raw: Bytes) -> dict[str, Any]:
    """Return the table of a state, in the shape of this version.

    Scratch memory is released while it is decoded, so its bytes can be decoded once. Columns become bytearrays,
    which `ColumnTable.load` uses without a copy.

    Raises
    ------
    RefusedError
        For bytes that are not a state, or one of a version that is not read here.
    """
    try:
        table = _decoded(raw, moved)
        version = table["version"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise RefusedError("the state of the fold cannot be read: these bytes are not a state") from None
    if not readable(version):
        age = "newer" if version > STATE_VERSION else "older"
        raise RefusedError(
            f"the state of the fold has version {version}, {age} than {STATE_VERSION}, which this program reads"
        )
    for step in range(version, STATE_VERSION):
        table = UPGRADES[step](dict(table))
    return dict(table)


ColumnMaker = Callable[[memoryview], Any]
"""Returns what takes the place of the encoded bytes of a column. It owns these bytes, and releases them."""


def _decoded(raw: Bytes, make_column: ColumnMaker) -> dict[str, Any]:
    """Decode a table part by part, and release each part that was decoded."""
    table: dict[str, Any] = msgspec.msgpack.decode(raw, type=dict[str, msgspec.Raw])
    for key, part in table.items():
        table[key] = _state(raw, part, make_column) if key == "state" else msgspec.msgpack.decode(part)
    spend(memoryview(raw))
    return table


def _state(raw: Bytes, encoded: msgspec.Raw, make_column: ColumnMaker) -> dict[str, Any]:
    state: dict[str, Any] = msgspec.msgpack.decode(encoded, type=dict[str, msgspec.Raw])
    for key, part in state.items():
        if key in ("events", "cases"):
            state[key] = _columns(raw, part, make_column)
        elif key in LEVELS:
            attributes = msgspec.msgpack.decode(part, type=list[tuple[str, dict[str, msgspec.Raw]]])
            state[key] = [[name, _attribute(raw, parts, make_column)] for name, parts in attributes]
        elif key == "forgotten":
            state[key] = make_column(slice_of(raw, msgspec.msgpack.decode(part, type=memoryview)))
        else:
            state[key] = msgspec.msgpack.decode(part)
            release(slice_of(raw, part))
    return state


def _attribute(raw: Bytes, parts: dict[str, msgspec.Raw], make_column: ColumnMaker) -> dict[str, Any]:
    rows = _columns(raw, parts["rows"], make_column)
    return {"rows": rows, "values": msgspec.msgpack.decode(parts["values"])}


def _columns(raw: Bytes, encoded: msgspec.Raw, make_column: ColumnMaker) -> dict[str, list[Any]]:
    columns = msgspec.msgpack.decode(encoded, type=dict[str, tuple[str, memoryview]])
    return {name: [dtype, make_column(slice_of(raw, values))] for name, (dtype, values) in columns.items()}


def readable(version: int) -> bool:
    """Return whether `decode` reads a state of this version: the present one, or one that `UPGRADES` covers."""
    return version <= STATE_VERSION and all(step in UPGRADES for step in range(version, STATE_VERSION))


# Patches describe changes of a table of plain values.
#
# They do not depend on the fold, so a later version can apply the patches of the version before it to their table, and
# then upgrade the result. A patch is a list: kind, path, and the new values, which depend on the kind:
#
# * `update`, map: sets these keys of a map;
# * `more`, bytes or list: is appended to a column or list;
# * `at`, width, positions (<u4), values: sets the items at these positions of a column; the width of an item in bytes;
# * `pairs`, list of [key, value]: sets these keys in a list of pairs, which is in order of its keys.
#
# A name in a path selects the value of a map or, in a list of pairs, the value of the pair with that key.

Path = Sequence[str | int]
Patch = list[Any]


def update_patch(path: Path, values: Mapping[str, Any]) -> Patch:
    """Set keys of a map."""
    return ["update", list(path), dict(values)]


def more_patch(path: Path, values: bytes | list[Any]) -> Patch:
    """Append values."""
    return ["more", list(path), values]


def at_patch(path: Path, width: int, positions: bytes, values: bytes) -> Patch:
    """Return the patch that sets single items of a column.

    Parameters
    ----------
    path
        Keys that lead to the column.
    width
        Bytes of an item.
    positions
        Positions of the items, as <u4.
    values
        Their new values.
    """
    return ["at", list(path), width, positions, values]


def pairs_patch(path: Path, values: list[tuple[Any, Any]]) -> Patch:
    """Set the values of keys in a list of pairs."""
    return ["pairs", list(path), values]


def added(patches: Iterable[Patch]) -> int:
    """Return how many bytes patches append to the columns of a table (lists of values do not count)."""
    total = 0
    for kind, _, *arguments in patches:
        if kind == "more" and isinstance(arguments[0], bytes):
            total += len(arguments[0])
    return total


def merged(raw: Bytes, changes_in_order: Iterable[bytes]) -> memoryview:
    """Return a table in MessagePack after changes, each a list of patches in MessagePack.

    The result is in scratch memory. If `raw` is, it is released. Each change is taken when the one before
    is applied.
    """
    table = _Patched(raw)
    for encoded_patches in changes_in_order:
        for kind, path, *arguments in msgspec.msgpack.decode(encoded_patches):
            table.apply(kind, path, arguments)
    parts = encoded_parts(table.patched())
    del table  # the parts alone refer to the columns now, so that each is freed when it was copied
    return gathered(parts)


class _PatchedColumn:
    """A column to which patches are applied, in parts.

    The first part is the saved column, which stays where it was read. Appended items follow in parts of
    `PIECE` bytes, a multiple of the width of every item. All parts are scratch memory: `gathered` would hold a
    large part of another kind twice.
    """

    def __init__(self, saved: Bytes) -> None:
        """Begin with saved bytes. Only scratch memory is changed in place."""
        self.parts: list[Bytes] = [saved if is_scratch(saved) else gathered([saved])]
        self._last = memoryview(b"")
        self._used = 0

    def extend(self, values: bytes) -> None:
        """Append whole items."""
        remaining = memoryview(values)
        while remaining:
            if self._used == len(self._last):
                self._last, self._used = scratch(PIECE), 0
                self.parts.append(self._last[:0])
            end = min(self._used + len(remaining), PIECE)
            n_taken = end - self._used
            self._last[self._used : end] = remaining[:n_taken]
            self.parts[-1] = self._last[:end]
            self._used, remaining = end, remaining[n_taken:]

    def set_items(self, width: int, positions: npt.NDArray[np.uint32], values: bytes) -> None:
        """Set the items at these positions, which ascend; `width`: bytes of an item."""
        new_items = np.frombuffer(values, dtype=np.uint8).reshape(-1, width)
        begins = np.cumsum([0, *(len(part) // width for part in self.parts)])
        of_parts = np.searchsorted(positions, begins)
        for place, (first, behind_last) in enumerate(pairwise(of_parts.tolist())):
            if first == behind_last:
                continue
            items = np.frombuffer(self.parts[place], dtype=np.uint8).reshape(-1, width)
            items[positions[first:behind_last] - begins[place]] = new_items[first:behind_last]


class _Patched:
    """A table to which patches are applied.

    Columns are patched in place (`_PatchedColumn`), so the cost depends on the size of the patches.
    """

    def __init__(self, raw: Bytes) -> None:
        # By the identity of the value of the column in the table.
        self._columns: dict[int, _PatchedColumn] = {}
        # The table is an item of a list, so that the empty path has a parent and a key, too.
        self._root: list[Any] = [_decoded(raw, self._new_column)]
        # Parent and key of each list of pairs that is a map now, by the identity of the map.
        self._lists_as_maps: dict[int, tuple[Any, Any]] = {}

    def apply(self, kind: str, path: Path, arguments: Sequence[Any]) -> None:
        """Apply one patch."""
        parent, key = self._place([0, *path])
        _KINDS[kind](self, parent, key, *arguments)

    def patched(self) -> Any:
        """Return the table with all patches, in plain values."""
        for parent, key in self._lists_as_maps.values():
            parent[key] = sorted(map(list, parent[key].items()))
        self._lists_as_maps.clear()
        return self._root[0]

    def update(self, parent: Any, key: Any, values: Mapping[str, Any]) -> None:
        parent[key].update(values)

    def more(self, parent: Any, key: Any, values: bytes | list[Any]) -> None:
        if isinstance(values, bytes):
            self._column(parent, key).extend(values)
        else:
            parent[key].extend(values)

    def at(self, parent: Any, key: Any, width: int, positions: bytes, values: bytes) -> None:
        self._column(parent, key).set_items(width, np.frombuffer(positions, dtype="<u4"), values)

    def pairs(self, parent: Any, key: Any, values: list[tuple[Any, Any]]) -> None:
        self._as_map(parent, key).update(map(tuple, values))

    def _new_column(self, saved: Bytes) -> Binary:
        """Return the value of a column that begins with saved bytes, and remember how to patch it."""
        column = _PatchedColumn(saved)
        value = Binary(column.parts)
        self._columns[id(value)] = column
        return value

    def _column(self, parent: Any, key: Any) -> _PatchedColumn:
        """Return a column. The first patch of one that a patch has added finds its bytes."""
        if not isinstance(parent[key], Binary):
            parent[key] = self._new_column(parent[key])
        return self._columns[id(parent[key])]

    def _place(self, path: Path) -> tuple[Any, Any]:
        """Find the map or list that contains the end of a path, and its key there."""
        parent: Any = self._root
        for key, following in pairwise(path):
            inside = parent[key]
            if isinstance(inside, list) and isinstance(following, str):
                inside = self._as_map(parent, key)
            parent = inside
        return parent, path[-1]

    def _as_map(self, parent: Any, key: Any) -> dict[Any, Any]:
        """Convert a list of pairs to a map, until `patched`."""
        if isinstance(parent[key], list):
            parent[key] = dict(parent[key])
            self._lists_as_maps[id(parent[key])] = parent, key
        return cast(dict[Any, Any], parent[key])


_KINDS: dict[str, Callable[..., None]] = {
    "update": _Patched.update,
    "more": _Patched.more,
    "at": _Patched.at,
    "pairs": _Patched.pairs,
}


# Changes of the state since it was last saved: the cost of a checkpoint grows with the new events, not with the state.
#
# No part reports its changes. Columns that only grow (events, names, values of attributes) are compared by length.
# Every other column is compared with a copy of its values from the last save.

FIXED = ("case", "activity", "resource", "time", "partition", "end")
"""Columns of the events that never change once a row is accepted, unless `State.recoded` counts a change."""


@dataclass(frozen=True, slots=True)
class Marks:
    """A state as it was saved: its lengths, and copies of the columns that may change in place.

    The copies take one byte for each event and publication, and 18 bytes for each case. `attributes`: numbers of rows
    and of values by (level, name).
    """

    rules: FoldRules
    state: State
    recoded: int
    purged: int
    gone: int
    events: int
    cases: int
    activities: int
    resources: int
    event_columns: Mapping[str, Array]
    case_columns: Mapping[str, Array]
    attributes: Mapping[tuple[str, str], tuple[int, int]]
    taken: Mapping[str, Mapping[str, int]]

    def comparable(self, rules: FoldRules, state: State) -> bool:
        """Return whether changes can describe a later state: rules are the same, and no case left."""
        return self.recoded == state.recoded and self.may_remain(rules, state)

    def may_remain(self, rules: FoldRules, state: State) -> bool:
        """Return whether a checkpoint of this state may remain as the generation before: nothing had to leave since.

        Events of a settled case may remain in it until it is replaced; those of an erased case may not.
        """
        is_same_state = self.rules is rules and self.state is state and self.purged == state.purged
        return is_same_state and self.gone == len(state.index.gone)


@dataclass(frozen=True, slots=True)
class StateChange:
    """Changes between two saves: patches in MessagePack, and bytes by which the state grew (at least)."""

    patches: bytes
    grown: int


def marks(rules: FoldRules, state: State, publications: Mapping[str, PublicationState]) -> Marks:
    """Note the state as it is now."""
    return Marks(
        rules=rules,
        state=state,
        recoded=state.recoded,
        purged=state.purged,
        gone=len(state.index.gone),
        events=state.events.size,
        cases=state.cases.size,
        activities=len(state.activities),
        resources=len(state.resources),
        event_columns={name: state.events[name].copy() for name in state.events.kept if name not in FIXED},
        case_columns={name: state.cases[name].copy() for name in state.cases.kept},
        attributes={
            (level, name): (attribute.rows.size, len(attribute.values))
            for level in LEVELS
            for name, attribute in getattr(state, level).items()
        },
        taken={name: dict(publication.taken) for name, publication in publications.items()},
    )


def changes(since: Marks, publications: Mapping[str, PublicationState]) -> list[Patch]:
    """Return patches that change the state from the one that was saved at `since` to the present one.

    The values of the fold itself (clock, position, key) are not among them. `since` must be `comparable`.
    """
    state = since.state
    patches = [
        update_patch(["state", "counters"], counters(state)),
        update_patch(["state"], {"named": state.named, "partitions": dump_partitions(state)}),
    ]
    patches += _table(["state", "events"], state.events, since.events, since.event_columns)
    patches += _table(["state", "cases"], state.cases, since.cases, since.case_columns)
    patches += _more(["state", "names"], _names(state.index, since.cases, state.cases.size))
    patches += _more(["state", "activities"], _tail(state.activities, since.activities))
    patches += _more(["state", "resources"], _tail(state.resources, since.resources))
    patches += _event_ids(since)
    for level in LEVELS:
        patches += _attributes(since, level)
    for place, publication in enumerate(publications.values()):
        patches += _publication(since, place, publication)
    return patches


def _table(
    path: list[str | int],
    table: ColumnTable,
    before: int,
    compared: Mapping[str, Array],
) -> Iterator[Patch]:
    """Yield patches for the rows that changed among the first `before`, and for the new rows."""
    for name in table.kept:
        column, saved = table[name], compared.get(name)
        if saved is not None:
            changed = np.flatnonzero(column[:before] != saved)
            if len(changed):
                places = changed.astype("<u4").tobytes()
                yield at_patch([*path, name, 1], column.itemsize, places, column[changed].tobytes())
        if table.size > before:
            yield more_patch([*path, name, 1], column[before:].tobytes())


def _more(path: list[str | int], values: list[Any]) -> Iterator[Patch]:
    if values:
        yield more_patch(path, values)


def _tail(codes: Mapping[Any, int], before: int) -> list[Any]:
    """Return the names behind the first `before`."""
    newest_first = list(islice(reversed(codes), len(codes) - before))
    return newest_first[::-1]


def _names(index: CaseIndex, before: int, size: int) -> list[str]:
    """Return pseudonyms by code, from the code `before` on, as `CaseIndex.names` has them."""
    result = [""] * (size - before)
    for name, code in reversed(index.items()):
        if code < before:
            break
        if code < size:
            result[code - before] = name
    return result


def _event_ids(since: Marks) -> Iterator[Patch]:
    """Yield a patch with all event ids of the cases that had an event; other cases got none."""
    state = since.state
    if state.event_ids and state.events.size > since.events:
        touched = np.unique(state.events["case"][since.events :]).tolist()
        ids_by_case = [(case, sorted(state.event_ids[case])) for case in touched if case in state.event_ids]
        yield pairs_patch(["state", "event_ids"], ids_by_case)


def _attributes(since: Marks, level: str) -> Iterator[Patch]:
    attributes: Mapping[str, AttributeValues] = getattr(since.state, level)
    new = [name for name in attributes if (level, name) not in since.attributes]
    if new:
        yield pairs_patch(["state", level], [(name, attributes[name].to_state()) for name in new])
    for name, attribute in attributes.items():
        if name in new:
            continue
        n_rows, n_values = since.attributes[level, name]
        yield from _table(["state", level, name, "rows"], attribute.rows, n_rows, {})
        yield from _more(["state", level, name, "values"], _tail(attribute.values, n_values))


def _publication(since: Marks, place: int, publication: PublicationState) -> Iterator[Patch]:
    """Yield patches for the counters of a publication, and for the changed case numbers of persons."""
    counts, before = publication.to_state(), since.taken[publication.name]
    if before:
        cases_taken = counts.pop("taken")
        changed = {name: number for name, number in cases_taken.items() if before.get(name) != number}
        if changed:
            yield update_patch(["publications", place, "taken"], changed)
    yield update_patch(["publications", place], counts)
