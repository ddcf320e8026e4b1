"""Memory that a process gives back to the operating system."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

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
