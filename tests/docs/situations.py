"""Rules for a situation in which somebody sets a key, passes an option, or looks at a metric."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LEAST_WORDS = 3
"""Words of a situation that say something: something, what it does, and to what."""

GRAMMAR = """
a about after again all also an and any are as at be because been before but by can cannot could do does for
from had has have how if in into is it its just least less may might more most much must no not of on one only
or other others our own should so some somebody someone such than that the their them then there these they
this those to too up very was we were what when where which who will with without would you your
"""
PHRASES = """
adjust alternative another appropriate apply available behave behaviour change changed choose chosen config
configuration configure custom customise customize default defaults desired different differ explicitly
feature fit fits fitting important like make makes matter necessary need needed needs option options override
parameter parameters please possible prefer preferred proper purpose reason reasonable relevant require
required requirement requirements requires set sets setting settings situation situations something specific
specify standard suit suitable suits thing things usage use used useful user users uses value values want
wanted wants whatever whenever wish wrong
"""
EMPTY = frozenset((GRAMMAR + PHRASES).split())
"""Words that describe no situation: a sentence of these alone would fit every key."""


def faults(name: str, situation: str, *starts: str) -> Iterator[str]:
    """Yield what is wrong with the situation that belongs to `name`.

    It begins in one of the ways `starts`, is a whole sentence, and says something that neither `name` nor `EMPTY` says.
    """
    start = next((start for start in starts if situation.startswith(start)), None)
    if start is None:
        yield f"does not begin with {' or '.join(starts)}"
        return
    if not situation.endswith((".", ")", "`")):
        yield "is not a whole sentence"
    if len(informative(name, situation.removeprefix(start))) < LEAST_WORDS:
        yield "names no situation: it would suit any other key as well"


def informative(name: str, text: str) -> set[str]:
    """Return the words of a text that are neither empty nor those of the name, without endings of plurals."""
    repeated = set(words(name))
    return {word for word in words(text) if word not in repeated and word not in EMPTY}


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; a plural counts as its singular."""
    found = re.findall(r"[a-z]+", text.lower().replace("_", " "))
    return [word if word in EMPTY else word.removesuffix("s") for word in found if len(word) > 1]


def repeated(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return the situations that two different names have in common: at most one of them can be meant."""
    names: dict[str, set[str]] = {}
    for name, situation in entries:
        names.setdefault(" ".join(words(situation)), set()).add(name)
    return [f"{sorted(owners)}: {text}" for text, owners in names.items() if len(owners) > 1]
