"""Results: a release with its promise, a measurement, and a series of releases with its verdict.

All three show themselves as a DataFrame, as text and in a notebook. Texts of a log, such as names of activities, are
shown as text: markup in them is escaped, and control characters are replaced.
"""

from __future__ import annotations

import html
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream.values.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from stream.release.verdict import Verdict
    from veilstream._logs import Log

PROMISES = {
    "guaranteed": "guaranteed",
    "to_whom": "to whom",
    "against_whom": "against whom",
    "relation": "relation",
    "unit": "unit",
    "not_guaranteed": "not guaranteed",
    "intake": "intake",
}
"""Parts of a promise that are shown, with their headings; `promise` has all parts."""

CUT = (
    "publication",
    "release",
    "time",
    "trigger",
    "cases",
    "events",
    "kept",
    "activities",
    "KA",
    "FA",
    "CA",
    "BA",
    "reasons",
)
"""Columns of a series, in the order of `ReplayOutcome.rows`."""

COUNTS = ("cases", "events", "KA", "FA", "CA", "BA")
"""Columns of a series that count."""

MOST_ROWS = 60
"""Rows of a table that text and notebooks show."""


class Release:
    """A released log, and what is promised of it.

    A class of its own since a log alone, as a DataFrame, cannot carry its promise.

    Attributes
    ----------
    promise : Mapping of str to str
        What is guaranteed, to whom, against whom, and what is not: the sentences of the release's manifest.
    document : Mapping
        The JSON of `veilstream anonymize --json`; of a release of a series its public manifest.
    """

    def __init__(
        self,
        title: str,
        document: Mapping[str, Any],
        *,
        figures: pd.DataFrame,
        notes: Sequence[str],
        load: Callable[[], Log],
    ) -> None:
        self.document = document
        self.promise: Mapping[str, str] = document["promise"]
        self._title, self._figures, self._notes, self._load = title, figures, tuple(notes), load

    @cached_property
    def log(self) -> Log:
        """The released log, in the form in which its source was given."""
        return self._load()

    def to_dataframe(self) -> pd.DataFrame:
        """Return the released log as a DataFrame, whatever the form of `log` is."""
        import pandas as pd

        from veilstream._logs import given_log, to_frame

        log = self.log
        if isinstance(log, pd.DataFrame):
            return log.copy()
        return to_frame(given_log(log).log)

    def summary(self) -> str:
        """Return counts, promise and warnings as plain text."""
        return _text(self._title, self._figures, promise_lines(self.promise), self._notes)

    def _repr_html_(self) -> str:
        return _html(self._title, self._figures, promise_lines(self.promise), self._notes)

    def __repr__(self) -> str:
        """Return the title, without values of persons."""
        return f"<Release: {self._title}; .log, .promise, .summary()>"


def log_of(log: Log | Release) -> Log:
    """Return the log of a release, and a log as it is."""
    return log.log if isinstance(log, Release) else log


class Measurement:
    """Figures of one measure, and what they mean. A measurement promises nothing.

    One class for attack, leakage, risk, utility and assess: they differ in figures and sentences alone.

    Attributes
    ----------
    document : Mapping
        The JSON that the command of the same name prints with `--json`.
    notes : tuple of str
        What the figures mean, and what was not measured.
    broken : tuple of str
        Bounds that were asked for and do not hold, one sentence each; empty if all hold.
    """

    def __init__(
        self,
        title: str,
        document: Mapping[str, Any],
        *,
        rows: Sequence[Mapping[str, Any]],
        notes: Sequence[str],
        broken: Sequence[str] = (),
    ) -> None:
        self.document, self.notes, self.broken = document, tuple(notes), tuple(broken)
        self._title, self._rows = title, rows

    def to_dataframe(self) -> pd.DataFrame:
        """Return the figures as a DataFrame; what could not be measured is missing."""
        import pandas as pd

        return pd.DataFrame(self._rows)

    def summary(self) -> str:
        """Return figures and notes as plain text."""
        return _text(self._title, self.to_dataframe(), (), (*self._broken_lines(), *self.notes))

    def _broken_lines(self) -> list[str]:
        return [f"broken: {sentence}" for sentence in self.broken]

    def _repr_html_(self) -> str:
        return _html(self._title, self.to_dataframe(), (), (*self._broken_lines(), *self.notes))

    def __repr__(self) -> str:
        """Return the title, without values of persons."""
        return f"<Measurement: {self._title}; .to_dataframe(), .summary()>"


class ReleaseSeries:
    """The releases of a replayed log, with the verdict on all of them together.

    A class of its own since it keeps the folder of releases and audits: a temporary one is removed with this object.

    Attributes
    ----------
    verdicts : list of Verdict
        One for each publication: word, sentence, and the smallest number that an attack leaves.
    releases : list of Release
        What left, in order. Their logs are read when they are asked for.
    document : Mapping
        The JSON of `veilstream replay --json`: an audit of each cut, for the operator and not for recipients.
    folder : pathlib.Path
        `public` for recipients, `operator` for the audits and the key of the pseudonyms.
    exit_code : int
        What `veilstream replay` ends with: 0, or 3 if a release was withheld or a publication has released nothing.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        verdicts: list[Verdict],
        releases: list[Release],
        rows: Sequence[Mapping[str, Any]],
        notes: Sequence[str],
        folder: Path,
        is_temporary: bool,
        exit_code: int,
    ) -> None:
        self.exit_code = exit_code
        self.document, self.verdicts, self.releases, self.folder = document, verdicts, releases, folder
        self._rows, self._notes = rows, tuple(notes)
        if is_temporary:
            # It holds the key of the pseudonyms, so it must not stay behind.
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per cut: what was released, what each attack leaves, and why something was withheld."""
        import pandas as pd

        # A count that was not measured is missing, and no NaN that makes floats of the others.
        return pd.DataFrame(self._rows, columns=list(CUT)).astype(dict.fromkeys(COUNTS, "Int64"))

    def summary(self) -> str:
        """Return verdict, figures and promises as plain text."""
        return _text(self._title, self.to_dataframe(), self._promises(), (*self._verdict_lines(), *self._notes))

    @property
    def _title(self) -> str:
        return f"{len(self.releases)} releases, {len(self.document['withheld'])} withheld"

    def _verdict_lines(self) -> list[str]:
        return [line for verdict in self.verdicts for line in verdict.lines()]

    def _promises(self) -> list[tuple[str, str]]:
        """Return the promise of the last release of each publication."""
        last = {release.document["publication"]: release for release in self.releases}
        lines = []
        for publication, release in last.items():
            lines += [(f"{publication}, {heading}", text) for heading, text in promise_lines(release.promise)]
        return lines

    def _repr_html_(self) -> str:
        return _html(self._title, self.to_dataframe(), self._promises(), (*self._verdict_lines(), *self._notes))

    def __repr__(self) -> str:
        """Return the verdicts' words, without values of persons."""
        words = ", ".join(verdict.verdict for verdict in self.verdicts)
        return f"<ReleaseSeries: {self._title}: {words}; .releases, .to_dataframe(), .summary()>"


def promise_lines(promise: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the parts of a promise that are shown, each with its heading."""
    return [(heading, promise[key]) for key, heading in PROMISES.items() if promise.get(key)]


def _text(title: str, figures: pd.DataFrame, promises: Sequence[tuple[str, str]], notes: Sequence[str]) -> str:
    table = figures.to_string(index=False, na_rep="-", max_rows=MOST_ROWS)
    lines = [title, "", table, ""]
    lines += [f"{heading}: {text}" for heading, text in promises]
    lines += notes
    return visible("\n".join(lines).rstrip() + "\n")


def _html(title: str, figures: pd.DataFrame, promises: Sequence[tuple[str, str]], notes: Sequence[str]) -> str:
    import pandas as pd

    with pd.option_context("display.max_colwidth", None):
        table = figures.to_html(index=False, na_rep="-", escape=True, border=0, max_rows=MOST_ROWS)
    parts = [f"<p><strong>{html.escape(title)}</strong></p>", table]
    if promises:
        parts.append("<dl>")
        parts += [f"<dt>{html.escape(heading)}</dt><dd>{html.escape(text)}</dd>" for heading, text in promises]
        parts.append("</dl>")
    if notes:
        parts.append("<ul>")
        parts += [f"<li>{html.escape(note.strip())}</li>" for note in notes]
        parts.append("</ul>")
    return visible(f"<div>{''.join(parts)}</div>")
