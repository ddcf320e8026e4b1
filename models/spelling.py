"""Texts that differ in spelling alone: upper and lower case, spaces, invisible characters, the encoding of accents.

They are read as different values, since `Mb` and `mb` may be two. Everything that reads a log reports them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

DIFFERENCE = "only by upper and lower case, spaces, invisible characters or the encoding of accents"
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
    read_rightly = text if text.isascii() else _as_utf8(text)
    return unicodedata.normalize("NFC", " ".join(without_invisible(read_rightly).split()).casefold())


def _as_utf8(text: str) -> str:
    """Return the text that was meant, if its UTF-8 was read as a Western encoding: `Prüfung` for `PrÃ¼fung`.

    Hardly any other text with such letters is UTF-8 by chance.
    """
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text


def without_invisible(text: str) -> str:
    """Return a text without characters that nobody sees: spaces of no width, byte order marks, soft hyphens.

    Web pages and joined files leave them. Case ids with and without one look the same, and are two.

    Parameters
    ----------
    text
        Any text.
    """
    if text.isprintable():  # none of these characters is
        return text
    return "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
