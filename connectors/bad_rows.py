"""Rows of a log that cannot be read: counted by cause, with the places of examples.

By default a log with such rows is refused. With `--skip-bad-rows`, and for mechanisms that promise epsilon, each of
them is left out by itself; the operator is given the counts and a file of the rows.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Ints

NO_CASE = "no case id"
NO_ACTIVITY = "no activity"
NO_TIME = "no time"
TIME = "a time that cannot be read"
ZONELESS = "a time without a zone"
NAME_THE_ZONE = "name the zone of the log with --timezone (such as Europe/Berlin)"
YEAR = "a time outside the years that can be stored"
FIELDS = "more fields than the header"
QUOTES = "quotation marks that do not match"
BYTES = "bytes that are not of the encoding"
TYPE = "a value that is not of its type"
REPEATED = "an attribute or a case id that appears twice"

MOST_EXAMPLES = 5
"""Places that are reported for each cause: enough to look at the file, few enough for one line."""

SUFFIX = ".bad-rows"
"""Ends the name of the file of rows that were left out. No reader takes it for a log."""


PlaceOfRow = Callable[[int], str]
"""From a row of a table (0 is the first) to its place in the file, for messages."""


@content_free()
@dataclass(frozen=True, slots=True)
class Fault:
    """Rows that cannot be read for one cause.

    Parameters
    ----------
    rows
        int64[N], not empty.
    cause
        One of the causes above.
    reason
        Fault of the first of them, which continues the place of that row.
    """

    rows: Ints
    cause: str
    reason: str

    @classmethod
    def of(cls, rows: Any, cause: str, reason: str) -> list[Fault]:
        """Return the fault as a list, which is empty if there are no rows.

        Parameters
        ----------
        rows
            Numbers of the rows, from 0 on.
        cause
            The kind of fault, by which rows are counted.
        reason
            The sentence of the error.
        """
        if not len(rows):
            return []
        return [cls(np.asarray(rows, dtype=np.int64), cause, reason)]


@dataclass(slots=True)
class BadRows:
    """The rows of one log that cannot be read.

    Parameters
    ----------
    source
        The log, as the user named it.
    keep_rows
        Whether the rows themselves are kept, for the file of them.
    """

    source: str = ""
    keep_rows: bool = False
    refusal: str = ""
    """Describe the first bad row, as the refusal of a log does."""
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    readable: int = 0
    """How many events were read from the other rows."""
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    """Place and cause of each kept row, and its fields as they are written."""

    def __len__(self) -> int:
        """Return the number of bad rows."""
        return sum(self.counts.values())

    def add(
        self,
        cause: str,
        place: Callable[[], str],
        text: Callable[[], str],
        reason: Callable[[], str],
    ) -> None:
        """Count a row.

        Parameters
        ----------
        cause
            Name of the cause.
        place, text, reason
            Return the place of the row, its text, and the reason. They cost a look-up, and are called for examples
            and kept rows only.
        """
        if not self.refusal:
            self.refusal = f"{place()}{reason()}"
        self.counts[cause] = self.counts.get(cause, 0) + 1
        examples = self.examples.setdefault(cause, [])
        if len(examples) < MOST_EXAMPLES:
            examples.append(place())
        if self.keep_rows:
            self.rows.append((place(), cause, text()))

    def refused(self, rows: int) -> InputError:
        """Return the error that refuses a log of so many rows because of these.

        Parameters
        ----------
        rows
            Rows of the log, the bad ones among them.
        """
        words = [self.refusal]
        if len(self) > 1:
            words.append(f"{len(self)} of {rows} rows cannot be read: {self.summary()}")
        if len(self) < rows:
            words.append("leave such rows out with --skip-bad-rows")
        return InputError("; ".join(words))

    def renamed(self, path: str, name: str) -> None:
        """Replace `path` by `name` in all places, if the user gave the log as `name`.

        Parameters
        ----------
        path
            Path of the file that was read.
        name
            Name that messages have in its place.
        """
        self.examples = {
            cause: [place.replace(path, name) for place in places] for cause, places in self.examples.items()
        }
        self.rows = [(place.replace(path, name), cause, text) for place, cause, text in self.rows]

    def by_cause(self) -> dict[str, dict[str, Any]]:
        """Return the counts as JSON: `{cause: {"rows": 48, "examples": ["log.csv: line 3", ...]}}`."""
        by_cause = {}
        for cause, count in self.counts.items():
            by_cause[cause] = {"rows": count, "examples": list(self.examples[cause])}
        return by_cause

    def summary(self) -> str:
        """Return the counts by cause as text: `48 with no time (line 3, line 17, ...); 2 with no case id (...)`."""
        parts = []
        for cause, count in self.counts.items():
            places = short_places(self.examples[cause])
            more = ", ..." if count > len(self.examples[cause]) else ""
            parts.append(f"{count} with {cause} ({places}{more})")
        return "; ".join(parts)

    def report(self) -> str:
        """Return the line for the operator: how many rows were left out, and why."""
        return f"{self.source}: {len(self)} rows were left out: {self.summary()}"

    def written(self) -> Iterator[list[str]]:
        """Yield the file of rows that were left out, record by record."""
        yield ["where", "why", "row"]
        yield from map(list, self.rows)


def short_places(places: Iterable[str]) -> str:
    """Return places as text, `log.csv: line 3, line 17`: a file is named once while it stays the same.

    Parameters
    ----------
    places
        Places such as `log.csv: line 3`.
    """
    shown, last = [], None
    for place in places:
        file, sign, inside = place.rpartition(": line ")
        if not sign:
            file, sign, inside = place.rpartition(": row ")
        if sign and file == last:
            shown.append(f"{sign.removeprefix(': ')}{inside}")
        else:
            shown.append(place)
        last = file if sign else None
    return ", ".join(shown)


def fields_as_text(fields: Iterable[Any]) -> str:
    """Return the fields of a row as one line of CSV; None is an empty field.

    Parameters
    ----------
    fields
        Values of one row.
    """
    line = io.StringIO()
    texts = ["" if value is None else str(value) for value in fields]
    csv.writer(line, lineterminator="").writerow(texts)
    return line.getvalue()


def write(bad: BadRows, path: Path) -> None:
    """Write the rows that were left out to a file that only its owner can read.

    The rows are raw data of persons, so the mode is 0600 from the first byte on, also where the file
    existed.

    Parameters
    ----------
    bad
        The rows, with place and cause.
    path
        The file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            os.fchmod(stream.fileno(), 0o600)
            csv.writer(stream).writerows(bad.written())
    except OSError as error:
        raise InputError(
            f"{path}: the rows that were left out cannot be written there ({error.strerror}); "
            "name another file with --bad-rows FILE"
        ) from None
