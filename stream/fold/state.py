"""The state that grows with the log: events and cases in columns (26 bytes an event), and the partitions' positions.

The rows of a delta record become columns: repeats are dropped, strings become codes, events of removed cases are
refused. Events are in order of acceptance, which within a partition is the order of offsets. So (time, partition,
position) is the trace order (event time, source, partition, offset), and no offset is stored.

A row comes into use in two steps. `State.stage` writes the rows of a record behind the rows in use, and
`State.admit` moves the end of the tables over them. Between the two the fold looks for the next row that
could bring a cut. A cut that removes cases voids the staged rows: `unstage` drops them, and `State.batches`
stages them again.

Plan of the file: columns and codes (`ColumnTable`, `Codes`, `CaseIndex`, `AttributeValues`); the rule
`end_all`; one partition of a source with its gap (`Partition`); staged rows (`Batch`); `State`, which owns
all of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from models.eventlog import MISSING, Flags, Ints
from stream.fold.forgotten import DIGEST_BYTES, DigestSet
from stream.fold.records import ROW_WIDTH, TIME_PLACE, TIMES, Delta, PlainRow, with_resources
from stream.values.paged import HEAP, ColumnPlace, drop_pages

if TYPE_CHECKING:
    from stream.fold.rules import FoldRules, SourcePartition

GROWTH = 1.25
"""Room added when a column is full: at most a fifth of the memory is unused (24 bytes an event become 30, and the bound
is 32), and each value is copied about 4 times. At an eighth the copies cost 3 % of the whole fold."""

REFUSED = -1
"""Code of a case that was erased or has left by retention: its events do not come back."""

PENDING, EXPOSED, DROPPED, RETIRED, RELEASED = 0, 1, 2, 3, 4
"""State of an event for one publication. PENDING: no cut has exposed it yet. EXPOSED: a cut did. DROPPED: it came too
late. RETIRED: its case is over for the publication, by the retention of a dp promise or because its person has too many
cases (`stream.fold.exposure.Once`). Retired events leave the state when every publication has retired them. RELEASED:
its case waited for a release, and one has shown it (`PublicationRules.waits`)."""

DERIVED = ("known:", "pending:", "had:")
"""Prefixes of columns that are computed from the others, and therefore are not in a snapshot."""

BLOCK = 1 << 18
"""Rows that a pass over all events takes at a time, so that its intermediate arrays stay small."""

Array = npt.NDArray[Any]


def is_exposed(flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which events a cut has exposed, by their state for a publication; also those that were released since."""
    exposed: npt.NDArray[np.bool_] = (flags == EXPOSED) | (flags == RELEASED)
    return exposed


def blocks(size: int) -> Iterator[slice]:
    """Yield consecutive ranges of at most `BLOCK` rows."""
    for begin in range(0, size, BLOCK):
        yield slice(begin, min(begin + BLOCK, size))


class ColumnTable:
    """Columns of equal length that grow together. `table["name"]` is a view of the rows in use."""

    def __init__(self, columns: Mapping[str, str], place: ColumnPlace = HEAP) -> None:
        self.size = 0
        self._room, self._place = 0, place
        self._data: dict[str, Array] = {name: np.zeros(0, dtype=dtype) for name, dtype in columns.items()}

    def __getitem__(self, name: str) -> Array:
        """Return a view of a column's rows in use."""
        return self._data[name][: self.size]

    def __contains__(self, name: str) -> bool:
        """Return whether there is a column of this name."""
        return name in self._data

    @property
    def nbytes(self) -> int:
        """Memory held, room to grow included."""
        return sum(column.nbytes for column in self._data.values())

    def add_column(self, name: str, dtype: str) -> None:
        """Add a column of zeros."""
        self._data[name] = self._place.empty(self._room, dtype)

    def drop_column(self, name: str) -> None:
        """Remove a column."""
        del self._data[name]

    def reserve(self, size: int) -> None:
        """Make room for `size` rows; new rows are zero in every column."""
        if size <= self._room:
            return
        self._room = max(size, int(self._room * GROWTH), 256)
        for name, column in self._data.items():
            grown = self._place.empty(self._room, column.dtype)
            grown[: len(column)] = column
            drop_pages(grown)
            self._data[name] = grown

    def move(self, place: ColumnPlace) -> None:
        """Move the columns to `place`, one after the other; they grow there."""
        self._place = place
        for name, column in self._data.items():
            self._data[name] = place.keep(column)

    def drop_pages(self) -> None:
        """Drop the pages of the columns from this process, if they are in files."""
        for column in self._data.values():
            drop_pages(column)

    def stage(self, columns: Mapping[str, Any], count: int) -> None:
        """Write rows behind the end; they come into use when `size` passes them."""
        self.reserve(self.size + count)
        for name, column in self._data.items():
            column[self.size : self.size + count] = columns.get(name, 0)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only the rows of the mask, in order, and free the memory of the others."""
        self._data = {name: self._place.keep(self[name][mask]) for name in self._data}
        self.size = self._room = int(mask.sum())

    @property
    def kept(self) -> list[str]:
        """Names of the columns that a snapshot has; `DERIVED` ones are counted again on restore."""
        return [name for name in sorted(self._data) if not name.startswith(DERIVED)]

    def to_state(self) -> dict[str, Any]:
        """Return the kept columns by name, each as its type and a view of its bytes.

        The views show later changes too: encode them at once.
        """
        return {name: [self._data[name].dtype.str, self[name].view(np.uint8).data] for name in self.kept}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace all columns by those of `to_state`, given as bytearrays. They are not copied."""
        self._data = {name: np.frombuffer(raw, dtype=dtype) for name, (dtype, raw) in state.items()}
        self.size = self._room = min((len(column) for column in self._data.values()), default=0)


class Codes(dict[Any, int]):
    """Codes of values in order of first appearance."""

    def __missing__(self, value: Any) -> int:
        """Give a new value the next code."""
        code = self[value] = len(self)
        return code


class ActorCodes(Codes):
    """Codes in which None is a missing value.

    None has the code -1 here, so that reading a row needs no test.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__({None: MISSING})
        self.update((value, code) for code, value in enumerate(values))

    def __missing__(self, value: Any) -> int:
        """Give a new value the next code; None does not count."""
        code = self[value] = len(self) - 1
        return code


def coded(index: Mapping[Any, int], values: Sequence[Any]) -> npt.NDArray[np.int32]:
    """Return the code of each value, int32."""
    return np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))


class CaseIndex(dict[str, int]):
    """Codes of pseudonyms in order of first appearance; removed cases have the code REFUSED.

    Only a digest is kept of a removed case: enough to refuse later events of the case, and it does not name it.
    """

    def __init__(self, cases: Iterable[tuple[str, int]] = (), gone: set[bytes] | None = None) -> None:
        super().__init__(cases)
        # The same set in every index that replaces this one: it only grows, and a copy would cost memory.
        self.gone: set[bytes] = set() if gone is None else gone

    def __missing__(self, case: str) -> int:
        """Give a new case the next code, and a removed one REFUSED."""
        if self.gone and digest(case) in self.gone:
            return REFUSED
        code = self[case] = len(self)
        return code

    def names(self, size: int) -> list[str]:
        """Return the pseudonyms of the first `size` codes."""
        result = [""] * size
        for name, code in self.items():
            if code < size:
                result[code] = name
        return result

    def recoded(self, keep: npt.NDArray[np.bool_]) -> tuple[CaseIndex, list[str]]:
        """Return an index of the cases of the mask under new codes, and the names of the other cases.

        The index replaces this one. The caller records the other cases.
        """
        new_code = np.cumsum(keep) - 1
        kept, leaving = [], []
        for name, code in self.items():
            if code >= len(keep):  # staged with a row that was not admitted
                continue
            if keep[code]:
                kept.append((name, int(new_code[code])))
            else:
                leaving.append(name)
        return CaseIndex(kept, self.gone), leaving


def digest(case: str) -> bytes:
    """Return the digest that is kept of a case that left: 16 bytes, one-way."""
    return hashlib.blake2b(case.encode(), digest_size=DIGEST_BYTES).digest()


class AttributeValues:
    """Values of one attribute where an event carries one: (event, code) pairs, 8 bytes each."""

    def __init__(self, place: ColumnPlace = HEAP) -> None:
        self.rows = ColumnTable({"event": "<u4", "code": "<i4"}, place)
        self.values = Codes()

    def add(self, events: Sequence[int], values: Iterable[Any]) -> None:
        """Add the values of some events."""
        self.rows.stage({"event": events, "code": [self.values[value] for value in values]}, len(events))
        self.rows.size += len(events)

    def dense(self, size: int) -> npt.NDArray[np.int32]:
        """Return one code per event, int32[size]; MISSING if the event has no value."""
        result = np.full(size, MISSING, dtype=np.int32)
        inside = self.rows["event"] < size
        result[self.rows["event"][inside]] = self.rows["code"][inside]
        return result

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Follow the events of the mask to their new positions.

        The values of other events are dropped, and values that no event has any more.
        """
        self.rows.keep(mask[self.rows["event"]])
        new_position = np.cumsum(mask) - 1
        self.rows["event"][:] = new_position[self.rows["event"]]
        used_codes, new_codes = np.unique(self.rows["code"], return_inverse=True)
        self.rows["code"][:] = new_codes
        values = list(self.values)
        self.values = Codes({values[old]: new for new, old in enumerate(used_codes.tolist())})

    def to_state(self) -> dict[str, Any]:
        """Return plain values, for `from_state`."""
        return {"rows": self.rows.to_state(), "values": list(self.values)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AttributeValues:
        """Return the attribute that `to_state` described."""
        attribute = cls()
        attribute.rows.load(state["rows"])
        attribute.values = Codes({value: code for code, value in enumerate(state["values"])})
        return attribute


INT64 = range(-(1 << 63), 1 << 63)


def countable(value: Any) -> Any:
    """Return an attribute value in a form that can be counted and saved.

    NaN is missing. Lists and tables become their JSON. Integers beyond 64 bits become their digits: ingest refuses
    them, but old deltas and files may contain some.
    """
    if isinstance(value, list | dict):
        return msgspec.json.encode(value, order="deterministic").decode()
    if type(value) is int and value not in INT64:
        return str(value)
    return None if value != value else value


class EndAll:
    """The rule `end_all`: a case is complete once it has had all of certain activities.

    Each activity is one bit of a uint64. A case has the bits of the activities that it has had.
    """

    def __init__(self, activities: Sequence[str]) -> None:
        self.activities = tuple(dict.fromkeys(activities))
        self.all = np.uint64((1 << len(self.activities)) - 1)
        self._bits = np.zeros(0, dtype=np.uint64)

    def bits(self, names: Collection[str], codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """Return the bit of each event; 0 for other activities.

        Parameters
        ----------
        names
            Activities by code. New ones are only added at the end.
        codes
            Activity of each event.
        """
        if len(self._bits) < len(names):
            bit_of = {name: np.uint64(1 << k) for k, name in enumerate(self.activities)}
            self._bits = np.asarray([bit_of.get(name, np.uint64(0)) for name in names], dtype=np.uint64)
        return self._bits[codes]

    def met(
        self,
        had: npt.NDArray[np.uint64],
        cases: npt.NDArray[np.int32],
        bits: npt.NDArray[np.uint64],
    ) -> Flags:
        """Return, for each event in order of acceptance, whether its case has had all activities by then.

        Parameters
        ----------
        had
            Bits of each case before the first of these events, by case code.
        cases, bits
            Case and bit of each event.
        """
        now: dict[int, int] = {}
        complete, had_before = int(self.all), had.tolist()
        result = np.zeros(len(cases), dtype=np.bool_)
        for place, (case, bit) in enumerate(zip(cases.tolist(), bits.tolist(), strict=True)):
            if case in now:
                before = now[case]
            else:
                before = had_before[case] if case < len(had_before) else 0
            now[case] = before | bit
            result[place] = now[case] == complete
        return result


EVENT_COLUMNS = {"case": "<i4", "activity": "<i4", "resource": "<i4", "time": "<i8", "partition": "<u2", "end": "|b1"}
CASE_COLUMNS = {"last": "<i8", "arrival": "<i8", "ended": "|b1", "closed": "|b1", "settled": "|b1"}
"""`settled`: every publication has had its cut of the case, and exposes each case once. So no later cut shows the case,
and its later events complete nothing. `State.forget` drops its events."""

HAD = "had:all"
"""Column of the cases if `end_all` is set: bits of its activities that they have had."""

BEFORE_ALL = -(1 << 63)
"""A time before every event."""


@dataclass(slots=True)
class Partition:
    """The state of one (source, partition).

    Attributes
    ----------
    hwm
        High-water mark: the highest offset applied.
    latest
        Greatest event time.
    active
        Clock when the partition last gave events, or reported that it has no new ones.
    held
        Records that wait behind a gap.
    log, epoch
        Id of the topic that the marks belong to, and leader epoch of the record at `hwm` (-1: unknown).
    lost
        First offset that the log has lost or written again since it was read; 0 if the topic was created again.
    """

    code: int
    hwm: int = -1
    latest: int | None = None
    active: int | None = None
    accept_gap: bool = False
    held: list[tuple[int, Delta]] = field(default_factory=list)
    log: str = ""
    epoch: int = -1
    lost: int | None = None

    @property
    def gap(self) -> bool:
        """Whether offsets are missing."""
        return bool(self.held)

    @property
    def missing(self) -> tuple[int, int] | None:
        """First and last missing offset, if there is a gap.

        If a log begins again and none of its records is missing, the last is below the first.
        """
        if not self.held:
            return None
        return (self.hwm + 1 if self.lost is None else self.lost), self.held[0][1].prev

    @property
    def fault(self) -> Literal["missing", "recreated", "truncated"]:
        """Kind of the gap."""
        if self.lost is None:
            return "missing"
        if self.held[0][1].log != self.log:
            return "recreated"
        return "truncated"

    def reach_time(self, time: int) -> None:
        """Note the time of an event."""
        self.latest = time if self.latest is None else max(self.latest, time)

    def lost_by(self, record: Delta) -> int | None:
        """Return the first offset that the log of a record has lost or written again since it was read.

        None if it is the log that was read so far.
        """
        if record.log and self.log and record.log != self.log:
            return 0
        return lost_from(record.epochs, record.end, self.epoch, self.hwm)

    def must_wait(self, record: Delta) -> bool:
        """Return whether a record must wait.

        It waits if offsets before it are missing, or if it comes from another log than the one read so far. After
        another log every record waits until the operator decides.
        """
        if self.lost is None:
            self.lost = self.lost_by(record)
        return self.lost is not None or (record.prev > self.hwm and not self.accept_gap)

    def continue_from(self, record: Delta) -> None:
        """Continue with the log of a held record, from the first lost offset on."""
        if self.lost is not None:
            self.log = record.log or self.log
            self.hwm, self.lost = self.lost - 1, None
            # A leader that truncates the log again has a later epoch than the last record read before this loss. So
            # that epoch still shows the next loss, although the record at the new mark may have an earlier epoch.
            if self.hwm < 0:
                self.epoch = -1

    def reach(self, record: Delta, before: int) -> None:
        """Move the high-water mark to the last offset that a record covers.

        `before`: the mark before the record was folded.
        """
        self.log = record.log or self.log
        if record.last > before:
            self.hwm, self.epoch = record.last, record.epoch


def lost_from(epochs: Sequence[tuple[int, int]], end: int | None, epoch: int, offset: int) -> int | None:
    """Return the first offset up to `offset` that a log has lost or written again since it was read.

    A leader epoch later than `epoch` must begin behind the record at `offset`. If it begins earlier, the log was
    truncated there, and its offsets were assigned again.

    Parameters
    ----------
    epochs
        (leader epoch, first offset) of the log.
    end
        End offset of the log, if it was truncated.
    epoch
        Leader epoch of the record at `offset`; -1 if unknown: then only `end` shows a loss.
    offset
        Last offset that was read.

    Returns
    -------
    int or None
        None if nothing was lost.
    """
    lost_offsets = [begin for later, begin in epochs if 0 <= epoch < later]
    if end is not None:
        lost_offsets.append(end)
    first = min(lost_offsets, default=None)
    return first if first is not None and first <= offset else None


@dataclass(slots=True)
class Batch:
    """Rows of one record, staged behind the end of the state's tables; the first `accepted` of them are in use.

    Attributes
    ----------
    rows, offsets, times, cases
        Place in the record, offset, event time (ns) and case code of each row.
    ends
        Whether the row ends its case.
    fresh
        Whether the case had no event before the row.
    running
        Greatest time up to the row; `ordered`: no time goes back.
    ids
        Event ids by row, for rows that have one.
    met
        Whether the case has had all activities of `end_all` with the row; `ends` is then true as well. None if there
        is no such rule.
    settled
        Whether the case is settled (`CASE_COLUMNS`); None if no row is of such a case.
    void_from
        Place in the record from which rows must be staged again, since a cut removed or settled cases; also rows that
        were left out.
    """

    rows: Ints
    offsets: Ints
    times: Ints
    cases: npt.NDArray[np.int32]
    ends: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    running: Ints
    ordered: bool
    ids: dict[int, str]
    met: npt.NDArray[np.bool_] | None = None
    settled: npt.NDArray[np.bool_] | None = None
    accepted: int = 0
    void_from: int | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.times)

    def first_at(self, time: int) -> int:
        """Return the first row by which this time is reached."""
        return int(np.searchsorted(self.running, time))


@dataclass(slots=True)
class LeftOutRows:
    """Places, in their record, of staged rows that are repeated or refused."""

    repeated: list[Ints] = field(default_factory=list)
    refused: list[Ints] = field(default_factory=list)

    @staticmethod
    def count(places: Sequence[Ints], end: int) -> int:
        """Count the places before `end`."""
        return sum(int(np.count_nonzero(some < end)) for some in places)


class State:
    """Events, cases and their names; everything that a projection reads."""

    def __init__(self) -> None:
        self._place: ColumnPlace = HEAP
        self.events = ColumnTable(EVENT_COLUMNS)
        self.cases = ColumnTable(CASE_COLUMNS)
        self.index = CaseIndex()
        self.forgotten = DigestSet()
        """Settled cases that have no event here any more."""
        self.activities, self.resources = Codes(), ActorCodes()
        self.case_attributes: dict[str, AttributeValues] = {}
        self.event_attributes: dict[str, AttributeValues] = {}
        self.event_ids: dict[int, set[str]] = {}
        self.partitions: dict[SourcePartition, Partition] = {}
        self.end_activities: frozenset[str] = frozenset()
        self._ending = np.zeros(0, dtype=np.bool_)
        self.end_all = EndAll(())
        self.earliest: int | None = None
        self.latest = BEFORE_ALL
        self.ordered = True
        self.named = True
        """Whether every resource is a pseudonym."""
        self.recoded = 0
        """Number of times that rows left or got other codes: states with different numbers cannot be compared."""
        self.voided = 0
        """Number of times that staged rows became void: rows left or got other codes, or cases were settled."""
        self.purged = 0
        """Number of times that data left which no checkpoint may keep: by erasure or retention, and raw resources."""
        self.drops = 0
        """Number of times that events left for the archive. It is saved with the state, so that a restored state names
        the segments of the archive whose events it does not have."""
        self.duplicates = self.refused = self.foreign = self.removed_cases = self.removed_events = 0

    def move(self, place: ColumnPlace) -> None:
        """Move what the state has of each event to `place`, now and later: columns and attribute values."""
        self._place = place
        for table in self._tables_of_events:
            table.move(place)

    def drop_pages(self) -> None:
        """Drop the pages of events that are in files from this process: until the next cut few are read."""
        for table in self._tables_of_events:
            table.drop_pages()

    @property
    def _tables_of_events(self) -> list[ColumnTable]:
        attributes = (*self.case_attributes.values(), *self.event_attributes.values())
        return [self.events, *(values.rows for values in attributes)]

    @property
    def rank(self) -> Array | None:
        """Place of each partition in the order of (source, partition); None if acceptance is the trace order."""
        if self.ordered and len(self.partitions) <= 1:
            return None
        codes = [self.partitions[name].code for name in sorted(self.partitions)]
        return np.argsort(np.asarray(codes, dtype=np.int64))

    def install(self, rules: FoldRules) -> None:
        """Put rules into effect: the activities that end a case, and the recorded set of sources."""
        self._end_by(rules.end_activities, rules.end_all)
        for source in rules.sources:
            self.partition(source)

    def _end_by(self, activities: Sequence[str], together: Sequence[str]) -> None:
        """Set the activities that end a case, each alone or all together, for events from now on."""
        self.end_activities = frozenset(activities)
        self._ending = np.zeros(0, dtype=np.bool_)
        self.end_all = EndAll(together)
        if HAD in self.cases:
            self.cases.drop_column(HAD)
        if together:
            self.cases.add_column(HAD, "<u8")
            self._recount_had()

    def _recount_had(self) -> None:
        """Compute again, from the events, which activities of `end_all` each case has had."""
        self.cases[HAD][:] = 0
        for block in blocks(self.events.size):
            bits = self._bits(self.events["activity"][block])
            np.bitwise_or.at(self.cases[HAD], self.events["case"][block], bits)

    def _bits(self, activity: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        return self.end_all.bits(self.activities, activity)

    @property
    def activity_names(self) -> tuple[str, ...]:
        """The activities by code."""
        return tuple(self.activities)

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The resources by code, without the place of the missing value."""
        return tuple(self.resources)[1:]

    def name_resources(self, pseudonym: Callable[[str], str]) -> None:
        """Replace raw resources by pseudonyms, also in records that wait behind a gap."""
        if self.named:
            return
        self.resources = ActorCodes(pseudonym(str(name)) for name in self.resource_names)
        for partition in self.partitions.values():
            held = partition.held
            partition.held = [(position, with_resources(record, pseudonym)) for position, record in held]
        self.named = True
        self.recoded += 1
        self.purged += 1

    def reach_back(self, time: int) -> None:
        """Note the time of an event: the first window begins with the earliest."""
        self.earliest = time if self.earliest is None else min(self.earliest, time)

    def partition(self, name: SourcePartition) -> Partition:
        """Return the state of a partition; a new one begins before its first offset."""
        if name not in self.partitions:
            self.partitions[name] = Partition(code=len(self.partitions))
        return self.partitions[name]

    def skip_foreign(self, record: Delta) -> None:
        """Count the rows of a record under another pseudonym key, and cover its offsets."""
        self.foreign += len(record.rows)
        partition = self.partition((record.src, record.p))
        if partition.lost is None and partition.lost_by(record) is None:
            partition.reach(record, partition.hwm)

    def receive(self, position: int, record: Delta) -> Iterator[tuple[Partition, Delta]]:
        """Yield a record with its partition, then the held records whose gap it has closed; nothing if it must wait.

        The caller must fold each record before it takes the next one.
        """
        partition = self.partition((record.src, record.p))
        if partition.must_wait(record):
            partition.held.append((position, record))
            return
        yield partition, record
        yield from self.closed(partition)

    def closed(self, partition: Partition) -> Iterator[tuple[Partition, Delta]]:
        """Yield the held records of a partition that need not wait any more, as `receive` does."""
        while partition.held and not partition.must_wait(partition.held[0][1]):
            _, record = partition.held.pop(0)
            if record.prev > partition.hwm:
                partition.accept_gap = False  # for one gap; the next one needs its own decision
            yield partition, record
        partition.accept_gap = False

    def batches(self, record: Delta, partition: Partition) -> Iterator[Batch]:
        """Stage the rows of a record, and stage the remaining ones again if a cut removed cases before them.

        At the end the partition has reached the last offset of the record.
        """
        reached_before, begin = partition.hwm, 0
        self.named = self.named and (record.named or not record.rows)
        while begin < len(record.rows):
            left_out = LeftOutRows()
            batch = self.stage(record, begin, partition, reached_before, left_out)
            if batch is not None:
                yield batch
            begin = len(record.rows)
            if batch is not None and batch.void_from is not None:
                begin = batch.void_from
                self.unstage()
            # The rows from `begin` on are staged again, and counted then.
            self.duplicates += left_out.count(left_out.repeated, begin)
            self.refused += left_out.count(left_out.refused, begin)
        partition.reach(record, reached_before)

    def stage(
        self, record: Delta, start: int, partition: Partition, before: int, left_out: LeftOutRows
    ) -> Batch | None:
        """Code the rows from `start` on, and write them behind the end of the event table.

        Rows at or below the high-water mark are duplicates. If an offset may have several rows, the mark is `before`,
        that before the record. A row whose time the table cannot hold is refused. `admit` puts staged rows into use.

        Parameters
        ----------
        record
            The delta record.
        start
            First row of it to code.
        partition
            The source partition of the record.
        before
            High-water mark before the record.
        left_out
            Gets the places of the rows that are repeated or refused.

        Returns
        -------
        Batch or None
            None if no row is left.
        """
        rows = record.rows[start:] if start else record.rows
        places = np.arange(start, start + len(rows), dtype=np.int64)
        values, offsets = _values(rows)

        # Leave out rows that were folded before.
        is_new = _above(offsets, before, repeats=True) if record.several else _above(offsets, partition.hwm)
        if is_new is not None:
            left_out.repeated.append(places[~is_new])
            rows = [rows[number] for number in np.flatnonzero(is_new).tolist()]
            places = places[is_new]
            values, offsets = _values(rows)

        # Leave out rows whose time does not fit the column. Hardly any record has one, so the
        # others pay no test.
        try:
            times = _times(values)
        except OverflowError:
            readable = [number for number, time in enumerate(values[TIME_PLACE::ROW_WIDTH]) if time in TIMES]
            left_out.refused.append(np.delete(places, readable))
            rows = [rows[number] for number in readable]
            places = places[readable]
            values, offsets = _values(rows)
            times = _times(values)
        if not len(offsets):
            return None

        # Names become codes. A name that was not seen before gets the next code, here and nowhere else.
        names, activities, _, resources, attributes, ids, ends = (values[i::ROW_WIDTH] for i in range(1, ROW_WIDTH))
        n_known_cases = len(self.index)
        activity = coded(self.activities, activities)
        columns: dict[str, Any] = {
            "place": places,
            "case": coded(self.index, names),
            "time": times,
            "end": self._ends(activity, ends),
            "activity": activity,
            "resource": coded(self.resources, resources),
            "offset": offsets,
        }
        settled = self._settled(columns["case"], n_known_cases)
        if settled is not None:
            columns["settled"] = settled

        # Leave out rows of removed cases, and repeated event ids.
        keep = self._keep(columns, ids, left_out)
        if keep is not None:
            columns = {name: column[keep] for name, column in columns.items()}
            attributes = [attributes[i] for i in np.flatnonzero(keep)]
            ids = [ids[i] for i in np.flatnonzero(keep)]
        return self._staged(columns, attributes, ids, n_known_cases, partition)

    def _staged(
        self,
        columns: dict[str, Any],
        attributes: Sequence[Any],
        ids: Sequence[Any],
        n_known_cases: int,
        partition: Partition,
    ) -> Batch | None:
        """Write columns behind the rows in use; return them with the facts that the fold reads row by row.

        `n_known_cases`: number of cases before these rows; later codes are of new cases.
        """
        count = len(columns["case"])
        if not count:
            return None
        self.events.stage({**columns, "partition": partition.code}, count)
        self._stage_attributes(attributes)
        cases = columns["case"]
        # New cases get rising codes. So a row is the first of its case if its code is above all codes
        # before the row.
        codes_before = np.append(np.int32(n_known_cases - 1), cases)[:-1]
        highest_code_before = np.maximum.accumulate(codes_before)

        met, ends = None, columns["end"]
        if self.end_all.activities:  # the bits of staged rows are not in the table of cases yet
            met = self.end_all.met(self.cases[HAD], cases, self._bits(columns["activity"]))
            ends = ends | met

        running = np.maximum.accumulate(columns["time"])
        id_of_row = {}
        if ids.count(None) < count:
            id_of_row = {i: event_id for i, event_id in enumerate(ids) if event_id is not None}
        return Batch(
            rows=columns["place"],
            offsets=columns["offset"],
            times=columns["time"],
            cases=cases,
            ends=ends,
            fresh=cases > highest_code_before,
            running=running,
            ordered=np.array_equal(running, columns["time"]),
            ids=id_of_row,
            met=met,
            settled=columns.get("settled"),
        )

    def _settled(self, cases: npt.NDArray[np.int32], n_known_cases: int) -> npt.NDArray[np.bool_] | None:
        """Return which rows are of settled cases, also of forgotten ones that are new here; None if no row is."""
        settled_here = self.cases["settled"]
        if not len(self.forgotten) and not settled_here.any():
            return None
        # A case that is new in the index may be a forgotten one. The index has no slice, so its end
        # is read backwards.
        newest_first = islice(reversed(self.index), len(self.index) - n_known_cases)
        new_names = list(newest_first)[::-1]
        is_forgotten = self.forgotten.contains([digest(name) for name in new_names])

        has_new_code = cases >= n_known_cases
        has_old_code = (cases >= 0) & ~has_new_code  # a removed case has the code REFUSED, below 0
        result = np.zeros(len(cases), dtype=np.bool_)
        result[has_new_code] = is_forgotten[cases[has_new_code] - n_known_cases]
        result[has_old_code] = settled_here[cases[has_old_code]]
        return result if result.any() else None

    def _ends(self, activity: Array, ends: Sequence[bool]) -> npt.NDArray[np.bool_]:
        """Return whether each row ends its case: by its activity, or by itself."""
        if len(self._ending) < len(self.activities):
            self._ending = np.array([name in self.end_activities for name in self.activities], dtype=np.bool_)
        by_activity = self._ending[activity]
        if ends.count(False) == len(ends):
            return by_activity
        return by_activity | np.array(ends, dtype=np.bool_)

    def _keep(
        self, columns: Mapping[str, Any], ids: Sequence[str | None], left_out: LeftOutRows
    ) -> npt.NDArray[np.bool_] | None:
        """Mask the rows of removed cases, and those with an event id that their case has had. None: keep all rows.

        Event ids of settled cases are not kept, so a repeated event of such a case is a late one.
        """
        cases, places = columns["case"], columns["place"]
        is_refused = cases == REFUSED
        is_repeated = np.zeros(len(cases), dtype=np.bool_)
        if ids.count(None) != len(ids):
            without_ids = is_refused | columns.get("settled", False)
            in_these_rows: set[tuple[int, str]] = set()
            for i, (case, event_id, skip) in enumerate(zip(cases.tolist(), ids, without_ids.tolist(), strict=True)):
                if event_id is None or skip:
                    continue
                if event_id in self.event_ids.get(case, ()) or (case, event_id) in in_these_rows:
                    is_repeated[i] = True
                in_these_rows.add((case, event_id))
        leaves: Flags = is_refused | is_repeated
        if not leaves.any():
            return None
        left_out.refused.append(places[is_refused])
        left_out.repeated.append(places[is_repeated])
        return ~leaves

    def _stage_attributes(self, attributes: Sequence[Any]) -> None:
        """Add the attribute values of staged rows. `attributes` has {level: {name: value}} or None for each row."""
        if attributes.count(None) == len(attributes):
            return
        values_by_name: dict[tuple[str, str], tuple[list[int], list[Any]]] = {}
        for position, levels in enumerate(attributes, start=self.events.size):
            for level, values in (levels or {}).items():
                for name, value in values.items():
                    value = countable(value)
                    if value is not None:
                        events, column = values_by_name.setdefault((level, name), ([], []))
                        events.append(position)
                        column.append(value)
        for (level, name), (events, column) in values_by_name.items():
            store = self.case_attributes if level == "case" else self.event_attributes
            store.setdefault(name, AttributeValues(self._place)).add(events, column)

    def cases_with(self, events: Array) -> npt.NDArray[np.bool_]:
        """Return, by case code, whether a case has one of some events: bool[C].

        Parameters
        ----------
        events
            bool[E], or the rows of the events.
        """
        has_one = np.zeros(self.cases.size, dtype=np.bool_)
        has_one[self.events["case"][events]] = True
        return has_one

    def changing_cases(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many cases have had several values of each attribute, of their case or of their events."""
        return {name: self._cases_with_several_values(name) for name in names}

    def _cases_with_several_values(self, name: str) -> int:
        changes = np.zeros(self.cases.size, dtype=np.bool_)
        for store in (self.case_attributes, self.event_attributes):
            values = store.get(name)
            if values is None:
                continue
            # At a cut in the middle of a record, its later rows are staged and not yet events.
            is_event = values.rows["event"] < self.events.size
            case = self.events["case"][values.rows["event"][is_event]]
            code = values.rows["code"][is_event]
            some_code = np.full(self.cases.size, MISSING, dtype=np.int32)
            some_code[case] = code
            changes[case[some_code[case] != code]] = True
        return int(np.count_nonzero(changes))

    def unstage(self) -> None:
        """Drop rows that were staged and not admitted: their new cases and their attribute values."""
        seen = self.cases.size
        seen_cases = ((name, code) for name, code in self.index.items() if code < seen)
        self.index = CaseIndex(seen_cases, self.index.gone)
        for attribute in (*self.case_attributes.values(), *self.event_attributes.values()):
            attribute.rows.keep(attribute.rows["event"] < self.events.size)

    def remove(self, keep: npt.NDArray[np.bool_]) -> None:
        """Keep only the cases of the mask, for good: later events of the others are refused."""
        keep_events = keep[self.events["case"]]
        self.removed_cases += int(np.count_nonzero(~keep))
        self.removed_events += int(np.count_nonzero(~keep_events))
        self.purged += 1
        leaving = self._keep_only(keep, keep_events)
        self.refuse({digest(name) for name in leaving})

    def refuse(self, digests: Collection[bytes]) -> None:
        """Refuse the events of cases with these digests from now on."""
        self.index.gone.update(digests)
        self.forgotten.difference_update(digests)

    def settle(self, settled: npt.NDArray[np.bool_]) -> None:
        """Note cases of which every publication has had its cut: bool by case code."""
        is_new = settled & ~self.cases["settled"]
        if is_new.any():
            self.cases["settled"][is_new] = True
            self.voided += 1

    def forget(self, keep: npt.NDArray[np.bool_], keep_events: npt.NDArray[np.bool_]) -> None:
        """Keep only the cases and the events of two masks; the other cases are settled.

        Later events of a forgotten case are accepted and counted as late.
        """
        leaving = self._keep_only(keep, keep_events)
        self.forgotten.update(map(digest, leaving))
        if HAD in self.cases:  # as after a restore, which knows the remaining events alone
            self._recount_had()

    def _keep_only(self, keep: npt.NDArray[np.bool_], keep_events: npt.NDArray[np.bool_]) -> list[str]:
        """Keep only some cases and events, and return the names of the cases that leave.

        The codes of the remaining cases, activities and resources are assigned again, and values that no event has any
        more are dropped.
        """
        self.unstage()
        self.recoded += 1
        self.voided += 1
        new_code = np.cumsum(keep) - 1
        self.index, leaving = self.index.recoded(keep)
        self.event_ids = {int(new_code[case]): ids for case, ids in self.event_ids.items() if keep[case]}
        for attribute in (*self.case_attributes.values(), *self.event_attributes.values()):
            attribute.keep(keep_events)
        self.events.keep(keep_events)
        self.cases.keep(keep)
        self.events["case"][:] = new_code[self.events["case"]]
        activities = _pruned(self.activity_names, self.events["activity"])
        self.activities = Codes({name: code for code, name in enumerate(activities)})
        self.resources = ActorCodes(_pruned(self.resource_names, self.events["resource"]))
        self._ending = np.zeros(0, dtype=np.bool_)
        self.end_all = EndAll(self.end_all.activities)
        return leaving

    def admit(
        self,
        batch: Batch,
        begin: int,
        end: int,
        arrival: int | None,
        closed: Mapping[int, bool],
    ) -> None:
        """Put the staged rows begin .. end-1 into use, and update the last time and the end of their cases.

        Parameters
        ----------
        batch
            The staged rows.
        begin, end
            Range of rows.
        arrival
            Clock (ns) at which they were recorded; None if event time is the clock.
        closed
            Whether a case is complete after the rows, by its code; empty if no trigger counts completions.
        """
        cases, times = batch.cases[begin:end], batch.times[begin:end]

        # The end of both tables moves over the rows and their new cases.
        n_fresh = int(np.count_nonzero(batch.fresh[begin:end]))
        if n_fresh:
            self.cases.stage({"last": BEFORE_ALL, "arrival": BEFORE_ALL}, n_fresh)
            self.cases.size += n_fresh
        self.events.size += end - begin

        # The marks that the rows add to their cases.
        if batch.settled is not None:
            self.cases["settled"][cases[batch.settled[begin:end]]] = True
        if self.end_all.activities:
            admitted = self.events["activity"][begin - end :]
            np.bitwise_or.at(self.cases[HAD], cases, self._bits(admitted))
        if batch.ids:
            for i in range(begin, end):
                if i in batch.ids and (batch.settled is None or not batch.settled[i]):
                    self.event_ids.setdefault(int(batch.cases[i]), set()).add(batch.ids[i])

        # Times, of the whole state.
        if self.ordered:
            goes_back = times[0] < self.latest or not np.array_equal(times, batch.running[begin:end])
            self.ordered = not goes_back
        if not self.ordered:
            self.reach_back(int(times.min()))
        self.latest = max(self.latest, int(times.max()))

        # Times and ends, of each case.
        last, ended = self.cases["last"], self.cases["ended"]
        if closed:
            self.cases["closed"][list(closed)] = list(closed.values())
        if arrival is not None:
            self.cases["arrival"][cases] = arrival
        if self.ordered:
            last[cases] = times  # repeated cases: the last assignment wins, and time does not go back
            ended[cases] = batch.ends[begin:end]
            return
        met = np.zeros(end - begin, dtype=np.bool_) if batch.met is None else batch.met[begin:end]
        ends = batch.ends[begin:end].tolist()
        for case, time, end_flag, has_had_all in zip(cases.tolist(), times.tolist(), ends, met.tolist(), strict=True):
            if time >= last[case]:
                last[case] = time
                ended[case] = end_flag
            ended[case] |= has_had_all


def _values(rows: Sequence[PlainRow]) -> tuple[list[Any], Ints]:
    """Return all values of the rows one after the other, and the offsets.

    Column i is every eighth value from i on. This costs half as much as a `zip` of so many rows.
    """
    values = list(chain.from_iterable(rows))
    return values, np.fromiter(values[::ROW_WIDTH], dtype=np.int64, count=len(rows))


def _times(values: Sequence[Any]) -> Ints:
    """Return the times among the values of rows.

    Raises
    ------
    OverflowError
        If the table of events cannot hold one.
    """
    return np.fromiter(values[TIME_PLACE::ROW_WIDTH], dtype=np.int64, count=len(values) // ROW_WIDTH)


def _above(offset: Ints, hwm: int, *, repeats: bool = False) -> npt.NDArray[np.bool_] | None:
    """Mask the offsets above the high-water mark, in rising order; None: all of them are.

    An offset counts once. With `repeats` it may belong to several rows, one after the other.
    """
    if not len(offset):
        return None
    rises = np.all(offset[1:] > offset[:-1])
    if offset[0] > hwm and rises:
        return None
    highest = np.maximum.accumulate(np.append(hwm, offset))[:-1]
    mask: npt.NDArray[np.bool_] = offset > highest
    if repeats:
        mask |= (offset == highest) & (offset > hwm)
    return mask


def _pruned(names: Sequence[str], column: Array) -> list[str]:
    """Return the names that are still in use, and number `column` again in place.

    Values that only removed cases had are dropped.
    """
    used = np.unique(column[column != MISSING])
    new = np.full(len(names) + 1, MISSING, dtype=np.int32)
    new[used] = np.arange(len(used))
    column[:] = new[column]
    return [names[code] for code in used.tolist()]
