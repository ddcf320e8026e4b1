"""Write delta records from the source records of one partition: decoded, pseudonymized, split, each offset covered.

Every offset of a batch is a row, in `dlq`, or counted as left out, and the next delta begins at the end of this one. So
a fold with all deltas has all events, and it detects a missing one.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from connectors.kafka.events import DecodedBatch, SourceMessage
from connectors.kafka.formats import EventDecoder
from stream.fold.records import SEVERAL_VERSION, TIMES, VERSION, Delta, with_person
from stream.values.pseudonym import Pseudonyms

MOST_NAMES = 100_000
"""Most pseudonyms of cases, and of resources, in memory. With more of them the memory is cleared and filled again."""

OVERHEAD = 1024
"""Bytes for the fields around the rows, so that a split record stays below the limit as a whole."""

DEAD_BYTES = 24
"""Bytes that the offset of a dead letter takes in a delta, at most."""

Clocks = int | Sequence[int]
"""Latest permitted time of an event, in ns since 1970: of each record, or one for all."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Coordinates and reason of an unusable record; its payload only if the operator configured it."""

    offset: int
    error: str
    payload: bytes | None = None

    def encode(self, source: str, partition: int) -> bytes:
        """Return the record of the dead letter topic."""
        body: dict[str, Any] = {"v": VERSION, "src": source, "p": partition}
        body |= {"offset": self.offset, "error": self.error}
        if self.payload is not None:
            body["payload"] = base64.b64encode(self.payload).decode("ascii")
        return msgspec.json.encode(body)


@dataclass(frozen=True, slots=True)
class LogState:
    """The log that events come from, as a delta describes it (`stream.fold.records.Delta`)."""

    log: str = ""
    epoch: int = -1
    epochs: tuple[tuple[int, int], ...] = ()
    end: int | None = None


UNKNOWN = LogState()


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Turn source records of one process into delta records.

    It keeps no position: `prev` belongs to the caller.

    Parameters
    ----------
    decoder
        Decodes records to events.
    pseudonyms
        Makes the names of cases, resources, persons and event ids.
    max_skew_ns
        Nanoseconds that an event may run ahead of the clock.
    limit
        Bytes of a delta record, at most.
    dlq_payload
        Whether dead letters contain the record.
    earliest
        Time (ns since 1970) before which events are refused; None if not set.
    raw_resources
        Whether resources keep their names.
    person
        Attribute that names the person of a case; only its pseudonym is written.
    """

    decoder: EventDecoder
    pseudonyms: Pseudonyms
    max_skew_ns: int
    limit: int
    dlq_payload: bool = False
    earliest: int | None = None
    raw_resources: bool = False
    person: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that became no event because of the configuration, by kind. Nothing else shows them."""
    _resource_names: dict[str, str] = field(default_factory=dict)
    _case_names: dict[str, str] = field(default_factory=dict)

    def write(
        self,
        source: str,
        partition: int,
        prev: int,
        records: Sequence[SourceMessage],
        clocks: Clocks,
        log: LogState = UNKNOWN,
    ) -> tuple[list[bytes], list[DeadLetter]]:
        """Write the deltas of a batch.

        Parameters
        ----------
        source, partition
            The source partition.
        prev
            Offset that is covered before the batch.
        records
            Records of one partition as the client gives them: ascending offsets, one leader epoch.
        clocks
            The clock of each record, or one for all.
        log
            The log of the records. All but its id and epoch is written into the first delta only.

        Returns
        -------
        tuple[list[bytes], list[DeadLetter]]
            Delta records in order, and the dead letters among the records.
        """
        batch = self.decoder.decode(records)
        untimely = self._untimely(batch, clocks)
        if untimely:
            batch = batch.without(untimely)
        self.left_out.update(batch.left_out.values())
        rows = self._encode_rows(records, batch)
        splits: Iterable[tuple[int, int]] = [(0, len(records))]
        # Nearly all batches fit into one delta; sizes by record are only computed for the others.
        bytes_of_rows = sum(map(len, rows)) + len(rows)  # with a comma behind each row
        bytes_of_dead_letters = DEAD_BYTES * len(batch.refused)
        if bytes_of_rows + bytes_of_dead_letters + OVERHEAD > self.limit:
            sizes = _record_sizes(len(records), batch.place, rows)
            most = self.limit - OVERHEAD
            too_large = {place: "too_large" for place, size in enumerate(sizes) if size - 1 > most}
            rows = [row for place, row in zip(batch.place, rows, strict=True) if place not in too_large]
            batch = batch.without(too_large)
            splits = self._splits(sizes, batch.refused)
        dead_places = sorted(batch.refused)
        deltas = []
        for begin, end in splits:
            last = records[end - 1].offset
            chosen = slice(bisect_left(batch.place, begin), bisect_left(batch.place, end))
            refused = dead_places[bisect_left(dead_places, begin) : bisect_left(dead_places, end)]
            places = batch.place[chosen]
            delta = self._encode(
                source,
                partition,
                prev,
                last,
                log,
                rows=[msgspec.Raw(row) for row in rows[chosen]],
                dead=[records[place].offset for place in refused],
                watermark=max(batch.time_ns[chosen], default=None),
                several=len(set(places)) < len(places),
            )
            deltas.append(delta)
            # The next delta begins after the last offset of this one, and does not repeat the state of the log.
            prev, log = last, LogState(log.log, log.epoch)
        letters = []
        for place in dead_places:
            record, reason = records[place], batch.refused[place]
            payload = record.value if self.dlq_payload else None
            letters.append(DeadLetter(record.offset, reason, payload))
        return deltas, letters

    def write_empty(
        self,
        source: str,
        partition: int,
        prev: int,
        last: int,
        log: LogState = UNKNOWN,
    ) -> bytes:
        """Write a delta without events: records up to `last` are gone from the log, or were never needed.

        Parameters
        ----------
        source, partition
            The source partition.
        prev, last
            Committed position before, and last covered offset; both -1 if the delta only describes the log.
        log
            Description of the log.
        """
        return self._encode(source, partition, prev, last, log)

    def _untimely(self, batch: DecodedBatch, clocks: Clocks) -> dict[int, str]:
        """Return the records with an event outside the times that are accepted, and why."""
        times = batch.time_ns
        if not times:
            return {}
        # The usual batch has no untimely event: two comparisons decide that, without a look at each row.
        least_clock = clocks if isinstance(clocks, int) else min(clocks)
        earliest = TIMES[0] if self.earliest is None else max(self.earliest, TIMES[0])
        latest = min(least_clock + self.max_skew_ns, TIMES[-1])
        if earliest <= min(times) and max(times) <= latest:
            return {}
        untimely: dict[int, str] = {}
        for place, time_ns in zip(batch.place, times, strict=True):
            clock = clocks if isinstance(clocks, int) else clocks[place]
            if time_ns not in TIMES:  # no decoder returns such a time; in a delta it would stay forever
                untimely.setdefault(place, "time")
            elif time_ns > clock + self.max_skew_ns:
                untimely.setdefault(place, "future")
            elif self.earliest is not None and time_ns < self.earliest:
                untimely.setdefault(place, "past")
        return untimely

    def _encode_rows(self, records: Sequence[SourceMessage], batch: DecodedBatch) -> list[bytes]:
        """Encode one `stream.fold.records.Row` for each event, under pseudonyms."""
        resources, attributes, event_ids = batch.resource, batch.attributes, batch.event_id
        if not self.raw_resources and resources.count(None) < len(resources):
            names = _pseudonyms_of(resources, self._resource_names, self.pseudonyms.resource)
            resources = [None if name is None else names[name] for name in resources]
        if self.person is not None:
            attributes = [with_person(values, self.person, self.pseudonyms.person) for values in attributes]
        if event_ids.count(None) < len(event_ids):
            event_ids = [None if name is None else self.pseudonyms.event(name) for name in event_ids]
        cases = _pseudonyms_of(batch.case, self._case_names, self.pseudonyms.case)
        columns = (
            [records[place].offset for place in batch.place],
            [cases[case] for case in batch.case],
            batch.activity,
            batch.time_ns,
            resources,
            attributes,
            event_ids,
            batch.end,
        )
        return [msgspec.json.encode(row) for row in zip(*columns, strict=True)]

    def _splits(self, sizes: Sequence[int], refused: Mapping[int, str]) -> Iterator[tuple[int, int]]:
        """Split a batch at the limit: ranges of places, one for each delta.

        The rows of a record stay in one delta, since the next one begins behind its offset.
        """
        begin = bytes_so_far = 0
        has_rows = False
        for place, size in enumerate(sizes):
            if place in refused:
                bytes_so_far += DEAD_BYTES
            elif size:
                if has_rows and bytes_so_far + size - 1 + OVERHEAD > self.limit:
                    yield begin, place
                    begin, bytes_so_far = place, 0
                bytes_so_far += size
                has_rows = True
        yield begin, len(sizes)

    def _encode(
        self,
        source: str,
        partition: int,
        prev: int,
        last: int,
        log: LogState,
        *,
        rows: Sequence[Any] = (),
        dead: list[int] | None = None,
        watermark: int | None = None,
        several: bool = False,
    ) -> bytes:
        delta = Delta(
            v=SEVERAL_VERSION if several else VERSION,
            src=source,
            p=partition,
            prev=prev,
            last=last,
            n=len(rows),
            dlq=dead or [],
            wm=watermark,
            key=self.pseudonyms.id,
            named=not self.raw_resources,
            several=several,
            rows=rows,  # encoded already, and written as they are
            log=log.log,
            epoch=log.epoch,
            epochs=log.epochs,
            end=log.end,
        )
        return msgspec.json.encode(delta)


def _record_sizes(count: int, places: Sequence[int], rows: Sequence[bytes]) -> list[int]:
    """Return the bytes of the rows of each record, with a comma behind each row."""
    sizes = [0] * count
    for place, row in zip(places, rows, strict=True):
        sizes[place] += len(row) + 1
    return sizes


def _pseudonyms_of(
    values: Iterable[str | None],
    memory: dict[str, str],
    make: Callable[[str], str],
) -> dict[str, str]:
    """Return the pseudonyms of all values; new ones go into the memory, which is cleared when it is full."""
    pseudonyms = {}
    for value in set(values):
        if value is None:
            continue
        pseudonym = memory.get(value)
        if pseudonym is None:
            if len(memory) >= MOST_NAMES:
                memory.clear()
            pseudonym = memory[value] = make(value)
        pseudonyms[value] = pseudonym
    return pseudonyms
