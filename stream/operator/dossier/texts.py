"""All texts of the dossier, one file for each language.

The program holds no sentence of the dossier: it names a text by its key and fills in the values. A further language
is a further file with the same keys and placeholders.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from models.dp.budget import format_amount
from models.errors import InputError

Language = Literal["en", "de", "nl"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

FOLDER = Path(__file__).parent


class MarkedQuestion(str):
    """A question that only people can answer. Pages mark it."""

    __slots__ = ()


class English(str):
    """Words of the program or of a manifest, which exist in English only. Pages declare their language."""

    __slots__ = ()


class DossierTexts:
    """The texts of one language.

    Parameters
    ----------
    language
        One of `LANGUAGES`.

    Raises
    ------
    InputError
        If there is no file for the language.
    """

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise InputError(f"--language {language}: no such language; the dossier exists in {', '.join(LANGUAGES)}")
        self.language = language
        self._texts = dict(flat(tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))))

    def __contains__(self, key: str) -> bool:
        """Whether a text has this key."""
        return key in self._texts

    def say(self, key: str, **values: Any) -> str:
        """Return a text with its values.

        Raises
        ------
        KeyError
            If the language has no such text, or the text needs a value that is missing.
        """
        return self._texts[key].format(**values)

    def count(self, key: str, number: int, **values: Any) -> str:
        """Return the text for a number of things: `<key>.one` or `<key>.many`."""
        form = "one" if number == 1 else "many"
        return self.say(f"{key}.{form}", number=number, **values)

    def translated(self, prefix: str, word: str) -> str:
        """Return the translation of a word of the program; the English word itself if there is none.

        Parameters
        ----------
        prefix
            Part of the file of texts.
        word
            The English word.
        """
        key = f"{prefix}.{word}"
        return self._texts[key] if key in self._texts else English(word)

    def question(self, text: str) -> MarkedQuestion:
        """Return a question, marked as open.

        Parameters
        ----------
        text
            The question.
        """
        return MarkedQuestion(self.say("page.open", question=text))

    def share(self, value: float) -> str:
        """Return a measured share as percent with one decimal.

        Parameters
        ----------
        value
            0 to 1; a risk may be below 0.
        """
        shown = f"{100 * value:.1f}"
        if shown == "-0.0":
            shown = "0.0"
        return f"{self._decimal(shown)}\N{NO-BREAK SPACE}%"

    def percent(self, value: float) -> str:
        """Return a share that somebody chose as percent.

        Parameters
        ----------
        value
            0 to 1.
        """
        return f"{self._decimal(f'{100 * value:g}')}\N{NO-BREAK SPACE}%"

    def number(self, value: float) -> str:
        """Return a parameter or a bound as people write it.

        Parameters
        ----------
        value
            The number.
        """
        return self._decimal(f"{value:g}")

    def amount(self, value: float) -> str:
        """Return an epsilon or a delta, never less than it is.

        Parameters
        ----------
        value
            The amount.
        """
        return self._decimal(format_amount(value, 6))

    def both(self, items: Sequence[str]) -> str:
        """Return `a, b and c`.

        Parameters
        ----------
        items
            Words or clauses.
        """
        if len(items) < 2:
            return "".join(items)
        return f"{', '.join(items[:-1])}{self._texts['format.and']}{items[-1]}"

    def _decimal(self, text: str) -> str:
        return text.replace(".", self._texts["format.decimal"]).replace("-", "\N{MINUS SIGN}")


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of nested tables as dotted keys.

    Parameters
    ----------
    table
        A table of texts, with tables in it.
    prefix
        Keys of the tables around it, with a dot at the end.
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def day(moment: str | date | datetime) -> str:
    """Return the date of a moment of the ledger as YYYY-MM-DD.

    Parameters
    ----------
    moment
        Time in ISO 8601, or a date.
    """
    return moment[:10] if isinstance(moment, str) else moment.isoformat()[:10]
