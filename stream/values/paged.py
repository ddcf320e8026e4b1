"""Arrays in files that nobody else can open: memory that the operating system can take back.

The columns of a cut are read by one step after the other, and are seldom needed in between. In the heap they are in
memory all the time. Here they are in a file that has no name and is mapped into the process: a step reads them as it
reads every array, and the system drops pages that it needs elsewhere. A process that is killed leaves no file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from models.errors import shortage
from models.eventlog import MISSING, Codes, Column, EventLog, Ints, starts_of
from models.keys import BLOCK, case_blocks

Array = npt.NDArray[Any]


class ColumnPlace(Protocol):
    """A place at which columns stay: the heap, or files."""

    def keep(self, array: Array) -> Array:
        """Return an array with the same items that stays there."""

    def empty(self, length: int, dtype: npt.DTypeLike) -> Array:
        """Return an array of so many zeros that stays there."""


SMALL = 1 << 16
"""Bytes up to which an array stays in the heap: each mapped one is a file."""

PIECE = 1 << 20
"""Bytes that are written together where room cannot be reserved at once."""


class Heap:
    """Leaves arrays in the heap (implements `ColumnPlace`)."""

    def keep(self, array: Array) -> Array:
        """Return the array as it is."""
        return array

    def empty(self, length: int, dtype: npt.DTypeLike) -> Array:
        """Return an array of zeros."""
        return np.zeros(length, dtype=dtype)


HEAP = Heap()


@dataclass(frozen=True, slots=True)
class ColumnFiles:
    """Makes arrays in files without a name in `folder`, whose disk holds them (implements `ColumnPlace`)."""

    folder: Path

    def keep(self, array: Array) -> Array:
        """Return a copy of an array in a file."""
        copy = self.empty(len(array), array.dtype)
        copy[:] = array
        drop_pages(copy)
        return copy

    def empty(self, length: int, dtype: npt.DTypeLike) -> Array:
        """Return an array of zeros in a file.

        Raises
        ------
        UnavailableError
            If the disk has no room for it. It is reserved here, since a write to mapped memory without it would end
            the process.
        """
        kind = np.dtype(dtype)
        size = length * kind.itemsize
        if size <= SMALL:
            return np.zeros(length, dtype=kind)
        try:
            with tempfile.TemporaryFile(dir=self.folder, prefix=".pages-") as file:
                _reserve(file, size)
                memory = mmap.mmap(file.fileno(), size)
        except OSError as error:
            short = shortage(error, str(self.folder))
            if short is None:
                raise
            raise short from None
        return np.frombuffer(memory, dtype=kind)

    def joined(self, parts: Iterable[EventLog], n_events: int, alike: EventLog | None = None) -> EventLog:
        """Return the cases of several logs as one, without attributes; its columns are in files.

        Parameters
        ----------
        parts
            The logs, of which one at a time is in the heap.
        n_events
            Events of all of them.
        alike
            A log whose codes the columns have; by default values are coded as they appear.
        """
        activity, resource = self.empty(n_events, np.int32), self.empty(n_events, np.int32)
        time, row = self.empty(n_events, np.int64), self.empty(n_events, np.int64)
        activities, resources = _PartCodes(), _PartCodes()
        if alike is not None:
            activities.codes(alike.activity)
            resources.codes(alike.resource)
        ids: list[str] = []
        lengths = [np.zeros(0, dtype=np.int64)]
        end = 0
        for part in parts:
            place = slice(end, end + part.n_events)
            end += part.n_events
            activity[place], resource[place] = activities.codes(part.activity), resources.codes(part.resource)
            time[place], row[place] = part.time, part.row
            ids += part.case_ids
            lengths.append(part.lengths)
        for column in (activity, resource, time, row):
            drop_pages(column)
        return EventLog(
            case_ids=tuple(ids),
            starts=starts_of(np.concatenate(lengths)),
            activity=Column(activity, tuple(activities.code_of)),
            time=time,
            resource=Column(resource, tuple(resources.code_of)),
            row=row,
        )


def _reserve(file: IO[bytes], size: int) -> None:
    """Make a file of so many zeros for which the disk has room."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for begin in range(0, size, PIECE):  # macOS: a longer file alone reserves nothing
        file.write(bytes(min(PIECE, size - begin)))
    file.flush()


class _PartCodes:
    """The values of a column whose parts come one after the other."""

    def __init__(self) -> None:
        self.code_of: dict[Any, int] = {}

    def codes(self, part: Column) -> Codes:
        """Return the codes of a part in the coding of all parts."""
        code_of_value = [self.code_of.setdefault(value, len(self.code_of)) for value in part.values]
        # The last place is that of missing values, whose code is -1.
        codes: Codes = np.asarray([*code_of_value, MISSING], dtype=np.int32)[part.codes]
        return codes


def parts_of(log: EventLog, cases: Ints) -> Iterator[EventLog]:
    """Yield the chosen cases as logs of some cases each, in the wanted order; a case may occur more than once."""
    starts = starts_of(log.lengths[cases])
    if not starts[-1]:
        yield log.select_cases(cases)  # cases without events make no block
    for begin, end in case_blocks(starts, BLOCK):
        yield log.select_cases(cases[begin:end])


def moved(log: EventLog, place: ColumnPlace) -> EventLog:
    """Return a log whose columns of events stay at a place; those of attributes are as they were."""
    return replace(
        log,
        activity=replace(log.activity, codes=place.keep(log.activity.codes)),
        time=place.keep(log.time),
        resource=replace(log.resource, codes=place.keep(log.resource.codes)),
        row=place.keep(log.row),
    )


def drop_pages(array: Array) -> None:
    """Drop the pages of an array from this process, if they are in a file; they are read from it again."""
    memory = _mapped(array)
    if memory is not None and hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED)


def drop_log_pages(log: EventLog) -> None:
    """Drop the pages of a log's columns from this process."""
    for array in arrays_of(log):
        drop_pages(array)


def arrays_of(log: EventLog) -> Iterator[Array]:
    """Yield the arrays of a log's columns of events."""
    yield from (log.activity.codes, log.resource.codes, log.time, log.row)
    yield from (column.codes for column in log.event_attributes.values())


def _mapped(array: Array) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None
