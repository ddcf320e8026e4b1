"""The compiled part of `connectors.xes_write`: the text of some traces, put together from what repeats in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.content_free import content_free
from models.eventlog import Ints

Bytes = npt.NDArray[np.uint8]


@content_free()
class Texts(NamedTuple):
    """Texts one after the other: text k is `flat[begin[k]:begin[k + 1]]`."""

    flat: Bytes
    begin: Ints

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """The texts, in their order."""
        begin = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=begin[1:])
        return cls(np.frombuffer(bytearray(b"".join(texts)), dtype=np.uint8), begin)

    def lengths(self) -> Ints:
        """Of each text."""
        return np.diff(self.begin)


def traces(heads: Texts, starts: Ints, shown: Texts, which: Ints, times: Bytes, when: Ints, end: bytes) -> bytes:
    """Trace after trace: its head, for each event what it shows (`which`) and its time (row `when` of `times`), and
    `end`. `starts`: where each trace begins among these events."""
    size = (
        len(heads.flat) + int(shown.lengths()[which].sum()) + times.shape[1] * len(which) + len(end) * len(starts[1:])
    )
    out = np.empty(size, dtype=np.uint8)
    _lay_out(heads, starts, shown, which, times, when, np.frombuffer(bytearray(end), dtype=np.uint8), out)
    return out.tobytes()


@kernel
def _lay_out(
    heads: Texts, starts: Ints, shown: Texts, which: Ints, times: Bytes, when: Ints, end: Bytes, out: Bytes
) -> None:
    at = 0
    for trace in range(len(starts) - 1):
        for k in range(heads.begin[trace], heads.begin[trace + 1]):
            out[at] = heads.flat[k]
            at += 1
        for event in range(starts[trace], starts[trace + 1]):
            for k in range(shown.begin[which[event]], shown.begin[which[event] + 1]):
                out[at] = shown.flat[k]
                at += 1
            for k in range(times.shape[1]):
                out[at] = times[when[event], k]
                at += 1
        for k in range(len(end)):
            out[at] = end[k]
            at += 1
