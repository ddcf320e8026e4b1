"""Memory that a process gives back to the operating system."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np

Bytes = bytes | bytearray | memoryview

M_MMAP_THRESHOLD = -3
"""Of glibc's `mallopt`, as `M_TRIM_THRESHOLD`."""
M_TRIM_THRESHOLD = -1

LARGE = 1 << 20
"""Bytes from which a block is the system's, given back when it is freed."""


def give_back() -> None:
    """Return freed memory to the operating system after a release.

    glibc gives large blocks back when they are freed, but raises its threshold for large to 32 MiB by itself. Then
    the columns of a log stay with the process, in pieces that fit nothing. Arrow has an allocator of its own that
    keeps the memory that it read with. Call this before Arrow is loaded. Without glibc its part changes nothing.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, 4 * LARGE)


# Scratch memory holds a file between the disk and the objects that are made of it. Its pages return to the
# operating system as soon as they were copied, so that file and objects are not in memory twice.

PIECE = 1 << 20
"""Bytes that are copied before their pages are released: the most that is in memory twice."""


class ScratchMemory(mmap.mmap):
    """Anonymous memory outside the heap, whose pages can be returned one by one."""


def scratch(size: int) -> memoryview:
    """Return `size` zero bytes in scratch memory; it is freed with the last view of it."""
    # Private: the pages of shared memory, which is the default, would stay when this process releases them.
    memory = ScratchMemory(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memoryview(memory)[:size]


def is_scratch(view: Bytes) -> bool:
    """Return whether bytes are in scratch memory."""
    return isinstance(view, memoryview) and isinstance(view.obj, ScratchMemory)


def pieces(view: memoryview) -> Iterator[memoryview]:
    """Yield bytes piece by piece. If they are scratch memory, each piece is released before the next one.

    A page that two pieces share stays until all of the memory is freed.
    """
    for begin in range(0, len(view), PIECE):
        piece = view[begin : begin + PIECE]
        yield piece
        release(piece)


def moved(view: memoryview) -> bytearray:
    """Return a copy of bytes, and release them if they are scratch memory."""
    copied = bytearray()
    for piece in pieces(view):
        copied += piece  # a large block grows in place, since the system moves its pages
    return copied


def release(view: memoryview) -> None:
    """Return the pages that are wholly in a view to the operating system, if they are scratch memory.

    The bytes are lost, so the caller must have read them.
    """
    memory = view.obj
    if not isinstance(memory, ScratchMemory) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = _address(view) - _address(memory)
    first_page = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    behind_last_page = (begin + len(view)) // mmap.PAGESIZE * mmap.PAGESIZE
    if behind_last_page > first_page:
        memory.madvise(mmap.MADV_DONTNEED, first_page, behind_last_page - first_page)


def spend(view: memoryview) -> None:
    """Overwrite the first byte of partly released scratch memory, so that it is not decoded again."""
    if is_scratch(view) and len(view):
        view[0] = 0


def slice_of(source: Bytes, part: Bytes | msgspec.Raw) -> memoryview:
    """Return bytes inside `source` as a slice of it.

    A decoder returns them as a view of an object of its own, in which scratch memory is not recognized.
    """
    size = len(memoryview(part))
    begin = _address(part) - _address(source) if size else 0
    return memoryview(source)[begin : begin + size]


def gathered(parts: list[Bytes]) -> memoryview:
    """Move parts into one piece of scratch memory, and release each of them.

    The list is emptied: a part that nothing else refers to is freed before the next one is copied.
    """
    result = scratch(sum(len(part) for part in parts))
    place = 0
    parts.reverse()
    while parts:
        for piece in pieces(memoryview(parts.pop())):
            result[place : place + len(piece)] = piece
            place += len(piece)
    return result


def _address(part: Bytes | mmap.mmap | msgspec.Raw) -> int:
    return int(np.frombuffer(part, dtype=np.uint8).__array_interface__["data"][0])
