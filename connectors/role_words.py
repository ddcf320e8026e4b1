"""Words of column names that suggest the role of an attribute: a file of data, which users extend with their own."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path

from models.errors import InputError

ROLES = ("identifier", "sensitive", "quasi")
"""In the order in which they are tried."""

Patterns = Mapping[str, Sequence[str]]
"""Role to patterns, in lower case and without accents."""


@cache
def shipped() -> Patterns:
    """Return the words that the package brings."""
    return _checked(files("connectors").joinpath("words.toml").read_text(encoding="utf-8"), "words.toml")


def extended(path: Path | None) -> Patterns:
    """Return the words of the package together with those of a user's file of the same form.

    Parameters
    ----------
    path
        The user's file, if there is one.

    Raises
    ------
    InputError
        The file cannot be read, is not TOML, or has a table that is not a role or a value that is not a list of texts.
    """
    if path is None:
        return shipped()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read; give a file of words in TOML") from None
    further = _checked(text, str(path))
    return {role: (*shipped()[role], *further[role]) for role in ROLES}


def role_of(name: str, patterns: Patterns) -> str | None:
    """Return the first role that a word, or several words in a row, of a column's name suggests.

    Parameters
    ----------
    name
        Name of a column.
    patterns
        Words by role, with `*` and `?`.
    """
    runs = list(_runs(words_of(name)))
    for role in ROLES:
        if any(fnmatchcase(run, pattern) for run in runs for pattern in patterns[role]):
            return role
    return None


def words_of(name: str) -> list[str]:
    """Split a name at signs and at capitals, in lower case and without accents.

    Parameters
    ----------
    name
        Name of a column.
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.findall(r"[a-z]+|\d+", _folded(parted))


def _runs(words: Sequence[str], longest: int = 3) -> Iterator[str]:
    for size in range(1, longest + 1):
        for first in range(len(words) - size + 1):
            yield " ".join(words[first : first + size])


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _checked(text: str, source: str) -> Patterns:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: no TOML ({error})") from None
    result: dict[str, tuple[str, ...]] = dict.fromkeys(ROLES, ())
    for role, languages in document.items():
        if role not in ROLES or not isinstance(languages, dict):
            raise InputError(f"{source}: {role!r} is not a role; its tables are {', '.join(ROLES)}")
        for language, words in languages.items():
            if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
                raise InputError(f"{source}: {role}.{language} is not a list of words")
            result[role] += tuple(_folded(word).replace("_", " ").replace("-", " ") for word in words)
    return result
