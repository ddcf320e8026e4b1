"""What a release took goes back to the system when it is done."""

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
    """glibc gives large blocks back when they are freed, but raises what it calls large to 32 MiB by itself: then the
    columns of a log stay with the process, in pieces that fit nothing. Arrow has an allocator of its own that keeps
    what it read with. To be called before Arrow is loaded; without glibc its part changes nothing."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, 4 * LARGE)
