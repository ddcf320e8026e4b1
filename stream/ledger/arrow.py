"""Arrow arrays of whole numbers and texts, from their buffers.

`pyarrow.array` asks whether what it is given is pandas', and imports all of pandas to know: a fifth of a CPU second of
every process that writes a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from models.eventlog import Codes, Ints

if TYPE_CHECKING:
    import pyarrow as pa


def integers(values: Ints | Codes, there: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """int64 or int32, as the values are; null where one is not `there`."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [_bitmap(there), pa.py_buffer(np.ascontiguousarray(values))])


def texts(values: Sequence[str | None]) -> pa.Array:
    """string; null where there is None."""
    import pyarrow as pa

    written = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum(np.fromiter(map(len, written), dtype=np.int64, count=len(written)))
    if len(ends) and ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values, type=pa.string())  # more than one array holds
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    there = None if None not in values else np.asarray([value is not None for value in values], dtype=np.bool_)
    buffers = [_bitmap(there), pa.py_buffer(offsets), pa.py_buffer(b"".join(written))]
    return pa.Array.from_buffers(pa.string(), len(written), buffers)


def _bitmap(there: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    import pyarrow as pa

    return None if there is None or there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
