"""Texts that differ in spelling alone: upper and lower case, spaces, and the encoding of accents.

They are read as different values, since `Mb` and `mb` may be two. Everything that reads a log reports them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

DIFFERENCE = "only by upper and lower case, spaces or the encoding of accents"
"""Describe for people how two spellings of one text differ."""


def spelled_twice(values: Iterable[Any]) -> list[int]:
    """Return the places of the texts that differ in spelling alone from another one.

    Parameters
    ----------
    values
        Distinct values. Those that are no texts are passed over.

    Examples
    --------
    >>> spelled_twice(["HIV", "flu", "hiv ", 3])
    [0, 2]
    """
    places_of_form: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        if isinstance(value, str):
            places_of_form.setdefault(_form(value), []).append(place)
    return sorted(place for places in places_of_form.values() if len(places) > 1 for place in places)


def _form(text: str) -> str:
    """Return what all spellings of a text have in common."""
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())
