"""Events with their names, apart from the codes of a state: the form in which they leave it for the archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.eventlog import Column, Ints
from stream.fold.state import State, digest


@content_free("number")
@dataclass(frozen=True, slots=True)
class NamedEvents:
    """Some events of a state, in the order in which they were accepted.

    Attributes
    ----------
    number
        Number of the drop by which they left the state (`State.drops`).
    case, activity, resource, source
        Pseudonym, names, and source topic of each event. The state keeps no offsets.
    partition
        int32[E], the partition of the source.
    time, last
        int64[E], time of each event and of the last event of its case, ns since 1970-01-01 UTC.
    attributes
        Value of each event by (level, name), as the event carried it; the level is "case" or "event".
    """

    number: int
    case: Column
    activity: Column
    resource: Column
    source: Column
    partition: npt.NDArray[np.int32]
    time: Ints
    last: Ints
    attributes: Mapping[tuple[str, str], Column]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.time)

    def select(self, chosen: npt.NDArray[np.bool_] | Ints) -> NamedEvents:
        """Return some of the events, given as a mask or as ascending positions."""
        return replace(
            self,
            case=_selected(self.case, chosen),
            activity=_selected(self.activity, chosen),
            resource=_selected(self.resource, chosen),
            source=_selected(self.source, chosen),
            partition=self.partition[chosen],
            time=self.time[chosen],
            last=self.last[chosen],
            attributes={key: _selected(column, chosen) for key, column in self.attributes.items()},
        )

    def without(self, digests: set[bytes]) -> NamedEvents:
        """Return the events of all cases but those with these digests."""
        stays = np.fromiter((digest(name) not in digests for name in self.case.values), dtype=np.bool_)
        if stays.all():
            return self
        return self.select(stays[self.case.codes])


def named_events(state: State, chosen: npt.NDArray[np.bool_], number: int) -> NamedEvents:
    """Return events of a state with their names.

    Parameters
    ----------
    state
        The state.
    chosen
        bool[N], the events.
    number
        Number of the drop by which they leave.
    """
    events = state.events
    source_of_code = sorted((partition.code, name) for name, partition in state.partitions.items())
    sources = tuple(dict.fromkeys(name for _, (name, _) in source_of_code))
    place_of_source = {name: place for place, name in enumerate(sources)}
    source_codes = np.array([place_of_source[name] for _, (name, _) in source_of_code], dtype=np.int32)
    numbers = np.array([number for _, (_, number) in source_of_code], dtype=np.int32)

    case = events["case"][chosen]
    partition = events["partition"][chosen]
    attributes: dict[tuple[str, str], Column] = {}
    for level, values_by_name in (("case", state.case_attributes), ("event", state.event_attributes)):
        for name, values in sorted(values_by_name.items()):
            codes = values.dense(events.size)[chosen]
            attributes[level, name] = Column(codes, tuple(values.values))
    return NamedEvents(
        number=number,
        case=_compact(case, state.index.names(state.cases.size)),
        activity=Column(events["activity"][chosen], state.activity_names),
        resource=Column(events["resource"][chosen], state.resource_names),
        source=Column(source_codes[partition], sources),
        partition=numbers[partition],
        time=events["time"][chosen],
        last=state.cases["last"][case],
        attributes=attributes,
    )


def _compact(codes: npt.NDArray[np.int32], names: list[str]) -> Column:
    """Return a column with the names that have an event, and no other."""
    used, new_codes = np.unique(codes, return_inverse=True)
    return Column(new_codes.astype(np.int32), tuple(names[code] for code in used.tolist()))


def _selected(column: Column, chosen: npt.NDArray[np.bool_] | Ints) -> Column:
    """Return the entries at some positions, without values that none of them has: they may name an erased person."""
    used, new_codes = np.unique(column.codes[chosen], return_inverse=True)
    present = used[used >= 0]
    n_missing = len(used) - len(present)
    values = tuple(column.values[code] for code in present.tolist())
    return Column(new_codes.astype(np.int32) - n_missing, values)
