"""What changed in the state since it was last saved, so that a checkpoint costs what came and not what is there.

Nobody reports changes. What only ever grows (events, names, values of attributes) is told from its length; every other
column is compared with a copy of its values as they were saved. Where cases left, and so every code is another one, or
where rules were replaced, there are no changes to tell: the state is saved whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from stream.fold import patches
from stream.fold.cases import Array, AttributeValues, CaseIndex, ColumnTable
from stream.fold.intake import State
from stream.fold.patches import Patch
from stream.fold.rules import FoldRules
from stream.fold.snapshot import counters, dump_partitions
from stream.fold.triggers import PublicationState

FIXED = ("case", "activity", "resource", "time", "partition", "end")
"""Columns of the events that never change behind a row's acceptance, but where `State.recoded` says so."""

LEVELS = ("case_attributes", "event_attributes")


@dataclass(frozen=True, slots=True)
class Marks:
    """A state as it was saved: its lengths, and the values of what may change in place (a byte an event and
    publication, 18 bytes a case). Attributes by (level, name): rows, values."""

    rules: FoldRules
    state: State
    recoded: int
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
        """Whether a later state can be told by what changed: the same rules, and no case left."""
        same = (self.rules is rules, self.state is state, self.recoded == state.recoded)
        return all(same) and self.gone == len(state.index.gone)


@dataclass(frozen=True, slots=True)
class StateChange:
    """What changed between two saves: patches in MessagePack, and bytes by which the state grew (at least)."""

    patches: bytes
    grown: int


def marks(rules: FoldRules, state: State, publications: Mapping[str, PublicationState]) -> Marks:
    """The state as it is now."""
    return Marks(
        rules=rules,
        state=state,
        recoded=state.recoded,
        gone=len(state.index.gone),
        events=state.events.size,
        cases=state.cases.size,
        activities=len(state.activities),
        resources=len(state.resources),
        event_columns={name: state.events[name].copy() for name in state.events.kept if name not in FIXED},
        case_columns={name: state.cases[name].copy() for name in state.cases.kept},
        attributes={
            (level, name): (one.rows.size, len(one.values))
            for level in LEVELS
            for name, one in getattr(state, level).items()
        },
        taken={name: dict(own.taken) for name, own in publications.items()},
    )


def changes(since: Marks, publications: Mapping[str, PublicationState]) -> list[Patch]:
    """Patches that make, of the state of `since` as `Fold.snapshot` wrote it, the state as it is now; what the fold
    itself keeps (clock, position, key) is not among them. Only where `since` is `comparable`."""
    state = since.state
    return [
        patches.update(["state", "counters"], counters(state)),
        patches.update(["state"], {"named": state.named, "partitions": dump_partitions(state)}),
        *_table(["state", "events"], state.events, since.events, since.event_columns),
        *_table(["state", "cases"], state.cases, since.cases, since.case_columns),
        *_more(["state", "names"], _names(state.index, since.cases, state.cases.size)),
        *_more(["state", "activities"], _tail(state.activities, since.activities)),
        *_more(["state", "resources"], _tail(state.resources, since.resources)),
        *_event_ids(since),
        *(patch for level in LEVELS for patch in _attributes(since, level)),
        *(patch for i, own in enumerate(publications.values()) for patch in _publication(since, i, own)),
    ]


def _table(path: list[str | int], table: ColumnTable, before: int, compared: Mapping[str, Array]) -> Iterator[Patch]:
    """Rows that changed, of the first `before`, and rows that came."""
    for name in table.kept:
        column, old = table[name], compared.get(name)
        changed = np.zeros(0, dtype=np.int64) if old is None else np.flatnonzero(column[:before] != old)
        if len(changed):
            places = changed.astype("<u4").tobytes()
            yield patches.at([*path, name, 1], column.itemsize, places, column[changed].tobytes())
        if table.size > before:
            yield patches.more([*path, name, 1], column[before:].tobytes())


def _more(path: list[str | int], values: list[Any]) -> Iterator[Patch]:
    if values:
        yield patches.more(path, values)


def _tail(known: Mapping[Any, int], before: int) -> list[Any]:
    """The names that came behind the first `before`."""
    found = list(islice(reversed(known), len(known) - before))
    return found[::-1]


def _names(index: CaseIndex, before: int, size: int) -> list[str]:
    """Pseudonyms by code, from the code `before` on, as `CaseIndex.names` has them."""
    result = [""] * (size - before)
    for name, code in reversed(index.items()):
        if code < before:
            break
        if code < size:
            result[code - before] = name
    return result


def _event_ids(since: Marks) -> Iterator[Patch]:
    """All ids of every case that had an event: who had none got no id."""
    state = since.state
    if state.event_ids and state.events.size > since.events:
        touched = np.unique(state.events["case"][since.events :]).tolist()
        found = [(case, sorted(state.event_ids[case])) for case in touched if case in state.event_ids]
        yield patches.pairs(["state", "event_ids"], found)


def _attributes(since: Marks, level: str) -> Iterator[Patch]:
    attributes: Mapping[str, AttributeValues] = getattr(since.state, level)
    new = [(name, one.to_state()) for name, one in attributes.items() if (level, name) not in since.attributes]
    if new:
        yield patches.pairs(["state", level], new)
    for name, one in attributes.items():
        if (level, name) in since.attributes:
            rows, values = since.attributes[level, name]
            yield from _table(["state", level, name, "rows"], one.rows, rows, {})
            yield from _more(["state", level, name, "values"], _tail(one.values, values))


def _publication(since: Marks, place: int, own: PublicationState) -> Iterator[Patch]:
    """Its counters; of the cases that each person gave, those that are others."""
    counts, before = own.to_state(), since.taken[own.name]
    if before:
        taken = counts.pop("taken")
        changed = {name: number for name, number in taken.items() if before.get(name) != number}
        if changed:
            yield patches.update(["publications", place, "taken"], changed)
    yield patches.update(["publications", place], counts)
