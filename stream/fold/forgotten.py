"""A set of digests in 16 bytes each, for the cases whose events were dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 16
"""Bytes of a digest. Two cases with one digest would be one case here: with half of the bytes that becomes likely at
four billion cases."""

Digests = npt.NDArray[np.bytes_]


class DigestSet:
    """Digests in one sorted column. A Python set would take about 100 bytes for each digest.

    NumPy compares strings of one length byte by byte (zero bytes at the end count too, since all have 16
    bytes).
    """

    def __init__(self, raw: bytes | bytearray = b"") -> None:
        """Take the bytes of `to_bytes`, which are sorted; they are not copied."""
        self._sorted = _digests(raw)

    def __len__(self) -> int:
        """Return the number of digests."""
        return len(self._sorted)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether a digest is in the set."""
        return bool(self.contains([digest])[0])

    def contains(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return, for each digest, whether it is in the set: bool[len(digests)]."""
        return self._contains(_digests(b"".join(digests)))

    def update(self, digests: Iterable[bytes]) -> None:
        """Add digests."""
        candidates = np.unique(_digests(b"".join(digests)))
        new = candidates[~self._contains(candidates)]
        self._sorted = np.insert(self._sorted, np.searchsorted(self._sorted, new), new)

    def difference_update(self, digests: Iterable[bytes]) -> None:
        """Remove the digests that are in the set."""
        candidates = np.unique(_digests(b"".join(digests)))
        leaving = candidates[self._contains(candidates)]
        if len(leaving):
            self._sorted = np.delete(self._sorted, np.searchsorted(self._sorted, leaving))

    def _contains(self, digests: Digests) -> npt.NDArray[np.bool_]:
        result = np.zeros(len(digests), dtype=np.bool_)
        place = np.searchsorted(self._sorted, digests)
        is_inside = place < len(self._sorted)
        result[is_inside] = self._sorted[place[is_inside]] == digests[is_inside]
        return result

    def to_bytes(self) -> memoryview:
        """Return all digests one after the other, as a view; equal sets give equal bytes."""
        return self._sorted.view(np.uint8).data


def _digests(raw: bytes | bytearray) -> Digests:
    return np.frombuffer(raw, dtype=f"S{DIGEST_BYTES}")
