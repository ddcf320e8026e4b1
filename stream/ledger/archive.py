"""The archive: events of released cases that the state has dropped, in sealed Parquet segments.

The events of one drop are divided by the day (UTC) of the last event of their case and, if a day has many, by the
first digits of the digest of their case. Each part is one segment. Its name has these three parts
(`stream.ledger.layout`), so that an erasure opens only segments that can contain the case, and expired segments are
found by their names.

A segment is written before the state that no longer has its events is saved, and the state counts its drops. A state
that was saved earlier still has the events of the segments with higher numbers. So readers take the segments up to the
number in the state that they read: each event is then in one of both. A fold that continues from that state drops these
events again, and writes the same numbers again.

Segments are sealed (`stream.ledger.envelope`): encrypted if a storage key is configured, else with a digest alone.

A list names the segments that must exist. It is written after new segments and before a segment is removed:
a crash leaves segments that it does not name, and never names of segments that were removed in good order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from connectors.store.blobs import Blobs
from models.errors import RefusedError
from models.eventlog import Column
from stream.fold.forgotten import DIGEST_BYTES
from stream.fold.named_events import NamedEvents
from stream.fold.state import digest
from stream.ledger.envelope import Damaged, Keys, seal, unseal
from stream.ledger.layout import ARCHIVE, ARCHIVE_ERASED, ARCHIVE_LISTED, ArchiveSegment
from stream.ledger.release_record import parquet_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "veilstream-archive"
VERSION = 1

DAY = 86_400_000_000_000
"""Nanoseconds."""

EVENTS_PER_SEGMENT = 50_000
"""Events of one day in a drop from which they are divided by the digest of their case. An erasure opens all segments of
days with fewer events. With a lower number a small process would write many tiny segments."""

MOST_DIGITS = 2
"""Hexadecimal digits of a digest in the name of a segment, at most: 256 segments of a day in one drop."""


class Archive:
    """The archive of one process, in its mirror or in the operator's folder.

    Parameters
    ----------
    blobs
        Place of the segments. With a mirror both hosts use the same place, so that a host that takes over has it.
    keys
        Keys that encrypt the segments; without a current one they are plain.
    keep
        How long (ns) after the last event of its case an event is kept; None: for ever.
    written
        Called after each segment that was written, for tests of crashes.
    """

    def __init__(
        self, blobs: Blobs, keys: Keys, keep: int | None = None, written: Callable[[], None] = lambda: None
    ) -> None:
        self.blobs, self.keys, self.keep = blobs, keys, keep
        self._written = written
        # Digests of all erased cases. A fold that continues from an older state may drop such a case again.
        self._erased: set[bytes] = set()
        # The last day whose segments are removed already.
        self._expired_day: int | None = None

    def segments(self) -> list[ArchiveSegment]:
        """Return the segments, in order of their drops."""
        names = (name.rpartition("/")[2] for name in self.blobs.names(ARCHIVE))
        return sorted(_parsed(names), key=lambda segment: segment.in_order)

    def missing(self) -> list[ArchiveSegment]:
        """Return the segments that the list names and that do not exist.

        Somebody deleted them, or a disk lost them.
        """
        listed = self._listed()
        if listed is None:
            return []
        return sorted(listed.difference(self.segments()), key=lambda segment: segment.in_order)

    def _all_segments(self) -> set[ArchiveSegment]:
        """Return the segments that exist, and those that are missing."""
        return {*self.segments(), *self.missing()}

    def _listed(self) -> set[ArchiveSegment] | None:
        """Return the segments that must exist; None if nothing lists them, as in an archive of an earlier program."""
        body = self._body(ARCHIVE_LISTED)
        # `verify` reports a damaged list; the next change makes a new one.
        return None if body is None else set(_parsed(body.decode().split()))

    def _body(self, name: str) -> bytes | None:
        """Return the content of a sealed file of the archive; None if it does not exist or is damaged."""
        sealed = self.blobs.get(name)
        if sealed is None:
            return None
        try:
            return bytes(unseal(io.BytesIO(sealed), self.keys, FORMAT).body)
        except Damaged:
            return None

    def _remove(self, removed: Collection[ArchiveSegment], added: Collection[ArchiveSegment] = ()) -> None:
        """Change the list, and then remove segments. Those that are added must exist already."""
        if not removed and not added:
            return
        listed = self._listed()
        if listed is None:
            listed = set(self.segments())
        remaining = (listed | set(added)) - set(removed)
        names = sorted(segment.path.rpartition("/")[2] for segment in remaining)
        self.blobs.put(ARCHIVE_LISTED, seal("\n".join(names).encode(), self.keys, FORMAT, VERSION))
        for segment in removed:
            self.blobs.delete(segment.path)

    # writing

    def write(self, drops: Sequence[NamedEvents], now: int | None) -> None:
        """Make dropped events durable, before the state without them is saved.

        Segments of an earlier drop with the same number are replaced: the fold continued from an older state, and they
        are of its former course.

        Parameters
        ----------
        drops
            The events (`Fold.dropped`).
        now
            Clock of the fold (ns). Days that are expired by then are not written.

        Raises
        ------
        OSError
            With what failed.
        """
        for events in drops:
            former = {segment for segment in self._all_segments() if segment.number == events.number}
            events = events.without(self._erased)
            days = events.last // DAY
            written: set[ArchiveSegment] = set()
            for day in np.unique(days).tolist():
                if now is None or not self._is_expired(day, now):
                    written |= self._write_day(events.select(days == day), day)
            # Segments of the former course that this one did not write again.
            self._remove(former - written, added=written)

    def _write_day(self, events: NamedEvents, day: int) -> set[ArchiveSegment]:
        # A large day is divided by the digests of its cases: an erasure then opens only the segments that can
        # have the case.
        n_digits = 0
        while n_digits < MOST_DIGITS and len(events) > EVENTS_PER_SEGMENT * 16**n_digits:
            n_digits += 1
        bucket_of_case = np.array([digest(name).hex()[:n_digits] for name in events.case.values])
        bucket_of_event = bucket_of_case[events.case.codes]
        written = set()
        for bucket in np.unique(bucket_of_event).tolist():
            segment = ArchiveSegment(day, events.number, bucket)
            self._put(segment, as_table(events.select(bucket_of_event == bucket)))
            written.add(segment)
            self._written()
        return written

    def _put(self, segment: ArchiveSegment, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        file = io.BytesIO()
        pq.write_table(table, file, compression="zstd")
        self.blobs.put(segment.path, seal(file.getbuffer(), self.keys, FORMAT, VERSION))

    def expire(self, now: int | None) -> None:
        """Remove the segments whose time is over.

        Parameters
        ----------
        now
            Clock of the fold (ns); None: nothing is removed.
        """
        if self.keep is None or now is None:
            return
        newest_expired = (now - self.keep) // DAY - 1
        if self._expired_day is not None and newest_expired <= self._expired_day:
            return
        self._remove({segment for segment in self._all_segments() if segment.day <= newest_expired})
        self._expired_day = newest_expired

    def _is_expired(self, day: int, now: int) -> bool:
        """Return whether the time of all cases whose last event was on a day is over."""
        return self.keep is not None and (day + 1) * DAY + self.keep <= now

    def move_from(self, former: Blobs) -> None:
        """Move the segments that the process wrote to its folder before it had a mirror: one place is erased from.

        The list of erased cases is dropped first, since it does not cover what comes. `erase` then reads all segments
        again; each start calls it with every case that was ever erased.
        """
        names = former.names(ARCHIVE)
        if not names:
            return
        self.blobs.delete(ARCHIVE_ERASED)
        lists = (ARCHIVE_ERASED, ARCHIVE_LISTED)
        moved = set()
        for name in names:
            body = former.get(name)
            if body is not None and name not in lists and self.blobs.get(name) is None:
                self.blobs.put(name, body)
                segment = ArchiveSegment.parse(name.rpartition("/")[2])
                moved.update([] if segment is None else [segment])
            former.delete(name)
        self._remove(set(), added=moved)

    # erasure

    def count(self, erased: Collection[bytes]) -> int:
        """Return how many archived events belong to cases with these digests."""
        return sum(int(np.count_nonzero(~stays)) for _, _, stays in self._with(set(erased)))

    def erase(self, erased: set[bytes]) -> None:
        """Remove all events of erased cases, for good. Cases of an earlier erasure are not searched again.

        Parameters
        ----------
        erased
            Digests of every case that was ever erased.

        Raises
        ------
        RefusedError
            If a segment that may contain such a case cannot be opened.
        """
        self._erased |= erased
        remaining = erased - self._erased_before()
        if not remaining or not self.blobs.names(ARCHIVE):
            return
        emptied = set()
        for segment, table, stays in self._with(remaining):
            if stays.any():
                self._put(segment, table.filter(stays))
            else:
                emptied.add(segment)
        self._remove(emptied)
        # Last: if a crash comes before, all these cases are searched again.
        body = b"".join(sorted(erased))
        self.blobs.put(ARCHIVE_ERASED, seal(body, self.keys, FORMAT, VERSION))

    def _erased_before(self) -> set[bytes]:
        """Return the digests of the cases that no segment contains. If they are lost, all segments are read again."""
        body = self._body(ARCHIVE_ERASED) or b""
        return {body[begin : begin + DIGEST_BYTES] for begin in range(0, len(body), DIGEST_BYTES)}

    def _with(self, erased: set[bytes]) -> Iterator[tuple[ArchiveSegment, pa.Table, npt.NDArray[np.bool_]]]:
        """Yield each segment with an event of these cases, its table, and which of its rows are of other cases."""
        hexadecimal = [case.hex() for case in erased]
        for segment in self.segments():
            if not any(text.startswith(segment.bucket) for text in hexadecimal):
                continue
            table = self._read(segment)
            stays = of_other_cases(table, erased)
            if not stays.all():
                yield segment, table, stays

    # reading

    def read(self, until: int) -> Iterator[pa.Table]:
        """Yield the tables of the segments of the first `until` drops, in order.

        Raises
        ------
        RefusedError
            If a segment cannot be opened.
        """
        for segment in self.segments():
            if segment.number <= until:
                yield self._read(segment)

    def _read(self, segment: ArchiveSegment) -> pa.Table:
        import pyarrow as pa

        location = f"{self.blobs.location}/{segment.path}"
        sealed = self.blobs.get(segment.path)
        if sealed is None:
            raise RefusedError(f"{location}: was removed while it was read; try again")
        try:
            opened = unseal(io.BytesIO(sealed), self.keys, FORMAT)
            if opened.version > VERSION:
                raise Damaged(f"has version {opened.version}, newer than {VERSION}, this program's")
            return parquet_table(opened.body)
        except (Damaged, pa.ArrowInvalid) as damage:
            fault = damage if isinstance(damage, Damaged) else "is not a table"
            raise RefusedError(
                f"{location}: {fault}; run `veilstream migrate` if the storage key was changed, restore the file from "
                "a backup, or remove it: its events are then lost"
            ) from None


def _parsed(names: Iterable[str]) -> list[ArchiveSegment]:
    """Return the segments with these file names; names of other files are left out."""
    segments = map(ArchiveSegment.parse, names)
    return [segment for segment in segments if segment is not None]


def of_other_cases(table: pa.Table, digests: Collection[bytes]) -> npt.NDArray[np.bool_]:
    """Return which rows of a segment are of other cases than those with these digests, bool[E]."""
    names = table.column("case").combine_chunks().dictionary_encode()
    is_other = [digest(name) not in digests for name in names.dictionary.to_pylist()]
    stays_by_name = np.array(is_other, dtype=np.bool_)
    stays: npt.NDArray[np.bool_] = stays_by_name[names.indices.to_numpy()]
    return stays


# A segment is a table with a row for each event. Names and values are JSON, since a value can be text, a number or a
# truth value, and columns of Parquet have one type.


def as_table(events: NamedEvents) -> pa.Table:
    """Return events as the table of a segment.

    Columns are plain text and not dictionaries: a dictionary keeps names that no row has, also after an erasure.
    """
    import pyarrow as pa

    columns = {
        "case": _texts(events.case, plain=True),
        "activity": _texts(events.activity),
        "time": pa.array(events.time),
        "resource": _texts(events.resource),
        "source": _texts(events.source, plain=True),
        "partition": pa.array(events.partition),
    }
    for (level, name), column in events.attributes.items():
        if (column.codes >= 0).any():
            columns[f"{level}:{name}"] = _texts(column)
    return pa.table(columns)


def _texts(column: Column, *, plain: bool = False) -> pa.Array:
    """Return a column of strings; null where a value is missing."""
    import pyarrow as pa

    texts = list(column.values)
    if not plain:
        texts = [msgspec.json.encode(value).decode() for value in column.values]
    codes = pa.array(column.codes, mask=column.codes < 0)
    return pa.array(texts, pa.string()).take(codes)
