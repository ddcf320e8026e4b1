"""Uniform whole numbers from the operating system's cryptographic source, many at a low price.

`secrets.randbelow` asks the system for each number; a release draws hundreds of thousands.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

Element = TypeVar("Element")

BLOCK = 1024
"""Words that are asked for at a time."""


class Chance:
    """A source of random numbers for one use.

    Make one for each use, and drop it afterwards: nobody can foresee its words or draw them again.
    """

    def __init__(self) -> None:
        self._words: Iterator[int] = iter(())

    def below(self, bound: int) -> int:
        """Draw a number from 0 to `bound` - 1, uniformly. `bound` is 1 to 2^64.

        Parameters
        ----------
        bound
            1 to 2^64.
        """
        shift = 64 - (bound - 1).bit_length()
        while True:  # a word's first bits, until they are below the bound: less than two words on average
            word = next(self._words, None)
            if word is None:
                self._words = iter(np.frombuffer(secrets.token_bytes(8 * BLOCK), dtype=np.uint64).tolist())
            elif word >> shift < bound:
                return int(word >> shift)


def in_random_order(elements: Sequence[Element], below: Callable[[int], int]) -> list[Element]:
    """Return the elements in uniformly random order (Fisher-Yates).

    Parameters
    ----------
    elements
        Elements of any kind.
    below
        Draws a number from 0 to its argument - 1, uniformly, such as `Chance().below`.
    """
    order = list(elements)
    for last in range(len(order) - 1, 0, -1):
        other = below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
