"""`dossier.toml`: the facts about a publication that only people know."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path

from models.errors import InputError
from stream.operator.dossier.texts import DossierTexts, day

KEYS = (
    "controller",
    "officer",
    "purpose",
    "legal_basis",
    "people",
    "recipients",
    "storage_period",
    "recipient_means",
    "key_holder",
    "contract",
    "environment",
    "incidents",
    "next_review",
    "review_triggers",
    "approved_by",
)
"""In the order of the file. Each has a label and a question in the texts."""

CATALOGUE = "catalogue"
"""Table with facts for a catalogue of health data, which the dossier does not print."""

LONGEST = 600
"""Characters of one fact. The dossier has two pages, and longer facts belong into a document that a fact names."""


def read_facts(path: Path) -> dict[str, str]:
    """Read the facts of a file; keys without a value, or with an empty one, are left out.

    The table `[catalogue]` is for `veilstream catalogue` (`stream.operator.health_profile`).

    Parameters
    ----------
    path
        The file, in TOML.

    Raises
    ------
    InputError
        If the file cannot be read or is not TOML, or a key is unknown, or a value is neither text nor a date, or it is
        too long or holds control characters.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    return checked({key: value for key, value in table.items() if key != CATALOGUE}, str(path))


def checked(table: Mapping[str, object], place: str) -> dict[str, str]:
    """Return the facts of a table that have a value.

    Parameters
    ----------
    table
        Keys and values of the file.
    place
        Name of the file, for messages.

    Raises
    ------
    InputError
        As `read_facts`.
    """
    facts = {}
    for key, value in table.items():
        if key not in KEYS:
            raise InputError(f"{place}: unknown key {key!r}{_nearest(key)}; the keys are {', '.join(KEYS)}")
        if isinstance(value, date | datetime):
            text = day(value)
        elif isinstance(value, str):
            text = " ".join(value.split())
        else:
            raise InputError(f'{place}: {key}: must be text in quotes, such as {key} = "...", or a date')
        if len(text) > LONGEST:
            raise InputError(
                f"{place}: {key}: has {len(text)} characters, at most {LONGEST} fit; name the document with the details"
            )
        if not text.isprintable():
            raise InputError(f"{place}: {key}: holds a control character; remove it")
        if text:
            facts[key] = text
    return facts


def _nearest(key: str) -> str:
    """Return a hint at the key that was meant, if one is near."""
    near = difflib.get_close_matches(key, KEYS, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def template(texts: DossierTexts) -> str:
    """Return an empty file of facts: each key with its question above it.

    Parameters
    ----------
    texts
        Texts of the language.
    """
    lines = [f"# {line}" for line in texts.say("facts.head").splitlines()]
    for key in KEYS:
        lines += ["", f"# {texts.say(f'facts.{key}.question')}", f'{key} = ""']
    return "\n".join(lines) + "\n"
