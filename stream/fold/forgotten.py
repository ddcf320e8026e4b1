"""A set of digests in 16 bytes each, for the cases whose events were dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 16
"""Bytes of a digest. Two cases with one digest would be one case here: with half of the bytes that becomes likely at
four billion cases."""

Words = npt.NDArray[np.uint64]


class DigestSet:
    """Digests in two sorted columns of 8 bytes. A Python set would take about 100 bytes for each digest.

    The columns are sorted by the first word. Equal first words are so rare that a lookup goes through them one by one.
    """

    def __init__(self, raw: bytes = b"") -> None:
        """Read the bytes of `to_bytes`, which are sorted."""
        words = _words(raw)
        self._first, self._second = words[:, 0].copy(), words[:, 1].copy()

    def __len__(self) -> int:
        """Return the number of digests."""
        return len(self._first)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether a digest is in the set."""
        return bool(self.contains([digest])[0])

    def contains(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return, for each digest, whether it is in the set: bool[len(digests)]."""
        words = _words(b"".join(digests))
        result = np.zeros(len(words), dtype=np.bool_)
        begin, end = self._ranges(words)
        for place in np.flatnonzero(end > begin).tolist():
            result[place] = words[place, 1] in self._second[begin[place] : end[place]]
        return result

    def update(self, digests: Iterable[bytes]) -> None:
        """Add digests."""
        with_new = np.concatenate((self._words(), _words(b"".join(digests))))
        order = np.lexsort((with_new[:, 1], with_new[:, 0]))
        words = with_new[order]
        is_first = np.ones(len(words), dtype=np.bool_)
        is_first[1:] = np.any(words[1:] != words[:-1], axis=1)
        self._first, self._second = words[is_first, 0], words[is_first, 1]

    def difference_update(self, digests: Iterable[bytes]) -> None:
        """Remove the digests that are in the set."""
        words = _words(b"".join(digests))
        stays = np.ones(len(self), dtype=np.bool_)
        begin, end = self._ranges(words)
        for place in np.flatnonzero(end > begin).tolist():
            same_first_word = slice(begin[place], end[place])
            stays[same_first_word] &= self._second[same_first_word] != words[place, 1]
        self._first, self._second = self._first[stays], self._second[stays]

    def _ranges(self, words: Words) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return begin and end of the rows that have the first word of each digest."""
        begin = np.searchsorted(self._first, words[:, 0], side="left")
        end = np.searchsorted(self._first, words[:, 0], side="right")
        return begin, end

    def to_bytes(self) -> bytes:
        """Return all digests one after the other; equal sets give equal bytes."""
        return self._words().astype(">u8").tobytes()

    def _words(self) -> Words:
        return np.column_stack((self._first, self._second))


def _words(raw: bytes) -> Words:
    """Return digests as two numbers each: uint64[n, 2]."""
    return np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)
