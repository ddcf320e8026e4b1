"""Results: a release with its promise, a measurement, and a series of releases with its verdict.

All three show themselves as a DataFrame, as text and in a notebook. Texts of a log, such as names of activities, are
shown as text: markup in them is escaped, and control characters are replaced.
"""

from __future__ import annotations

import html
import os
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError
from stream.values.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from models.eventlog import EventLog
    from stream.release.verdict import Verdict
    from veilstream._logs import GivenLog, Log

    _ShownParts = tuple[str, pd.DataFrame, Sequence[tuple[str, str]], Sequence[str]]
    """Title, figures, promises and notes, as `_text` and `_html` take them."""

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

MISSING = "-"
"""A figure that was not measured, in text and notebooks."""

NO_ROWS = "(no rows)"
"""In place of a table without rows."""


class ResultFolder:
    """The folder of a series. A temporary one is removed with the last result that reads from it.

    Parameters
    ----------
    path
        The folder.
    is_temporary
        Whether the folder is removed: it holds the key of the pseudonyms, so it must not stay behind.
    """

    def __init__(self, path: Path, *, is_temporary: bool) -> None:
        self.path = path
        if is_temporary:
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


class Release:
    """A released log, and what is promised of it.

    A class of its own since a log alone, as a DataFrame, cannot carry its promise.

    Attributes
    ----------
    promise : Mapping of str to str
        Guarantee, recipients, adversary and limits: the sentences of the release's manifest.
    document : Mapping
        The JSON of `veilstream anonymize --json`; of a release of a series its public manifest.

    Examples
    --------
    >>> import tempfile
    >>> from veilstream import anonymize, read_log
    >>> release = anonymize("examples/hospital.xes.gz", L=2, K=20, C=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.xes.gz")
    ...     len(read_log(f"{folder}/release.xes.gz")) == len(release.log)
    True
    """

    def __init__(
        self,
        title: str,
        document: Mapping[str, Any],
        *,
        figures: pd.DataFrame,
        notes: Sequence[str],
        source: GivenLog,
        header: Mapping[str, Any],
        load: Callable[[], EventLog],
    ) -> None:
        self.document = document
        self.promise: Mapping[str, str] = document["promise"]
        self._title, self._figures, self._notes = title, figures, tuple(notes)
        self._source, self._header, self._load = source, header, load

    @cached_property
    def _released(self) -> EventLog:
        return self._load()

    @cached_property
    def log(self) -> Log:
        """The released log, in the form in which its source was given."""
        return self._source.like(self._released, self._header["time_basis"])

    def save(self, path: str | os.PathLike[str], *, durations: bool = False) -> None:
        """Write the released log to a file, with the header that states what was done to it.

        An existing file is replaced. The file has the case ids of `log`. The header of XES and Parquet names the
        mechanism, its parameters and the meaning of the times, as `veilstream anonymize -o` writes it; `log.to_csv` and
        writers of other programs leave it out. CSV has no place for a header.

        Parameters
        ----------
        path
            .xes or .csv (also packed, .gz), or .parquet.
        durations
            Whether relative times are written as durations (CSV, Parquet), such as P0DT1H2M3S.

        Raises
        ------
        InputError
            The file is the source itself, its suffix is unknown, it cannot be written, or the times are not relative.
        """
        from connectors import write_log

        target, basis = Path(path), self._header["time_basis"]
        source = self._source.path
        if source is not None and target.exists() and source.exists() and target.samefile(source):
            raise InputError(f"{target} is the source itself; name another file")
        if durations and basis != "relative":
            raise InputError(f"durations are for relative times; those of this release are {basis}")
        if not target.parent.is_dir():
            raise InputError(f"{target}: its folder does not exist")
        write_log(self._released, target, privacy=self._header, time_basis=basis, durations=durations)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the released log as a DataFrame, whatever the form of `log` is."""
        import pandas as pd

        from veilstream._logs import to_frame

        if isinstance(self.log, pd.DataFrame):
            return self.log.copy()
        return to_frame(self._released, time_basis=self._header["time_basis"])

    def summary(self) -> str:
        """Return counts, promise and warnings as plain text."""
        return _text(*self._shown_parts())

    def _repr_html_(self) -> str:
        return _html(*self._shown_parts())

    def _shown_parts(self) -> _ShownParts:
        return self._title, self._figures, promise_lines(self.promise), self._notes

    def __repr__(self) -> str:
        """Return the title, without values of persons."""
        return f"<Release: {self._title}; .log, .promise, .summary(), .save(path)>"


def log_of(log: Log | Release) -> Log:
    """Return the log of a release, and a log as it is.

    Parameters
    ----------
    log
        A log of any accepted kind, or a release of this API.
    """
    return log.log if isinstance(log, Release) else log


class Measurement:
    """Figures of one measure, and what they mean. A measurement promises nothing.

    One class for attack, leakage, risk, utility and assess: they differ in figures and sentences alone.

    Attributes
    ----------
    document : Mapping
        The JSON that the command of the same name prints with `--json`.
    notes : tuple of str
        Meaning of the figures, and measures that were left out.
    broken : tuple of str
        Bounds that were set and do not hold, one sentence each; empty if all hold.
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
        return _text(*self._shown_parts())

    def _repr_html_(self) -> str:
        return _html(*self._shown_parts())

    def _shown_parts(self) -> _ShownParts:
        broken_lines = [f"broken: {sentence}" for sentence in self.broken]
        return self._title, self.to_dataframe(), (), (*broken_lines, *self.notes)

    def __repr__(self) -> str:
        """Return the title, without values of persons."""
        return f"<Measurement: {self._title}; .to_dataframe(), .summary()>"


class ReleaseSeries:
    """The releases of a replayed log, with the verdict on all of them together.

    A class of its own since it keeps the folder of releases and audits. A temporary folder is removed with this object
    and the last of its releases.

    Attributes
    ----------
    verdicts : list of Verdict
        One for each publication: word, sentence, and the smallest number that an attack leaves.
    releases : list of Release
        Published releases, in order. Their logs are read when they are needed.
    document : Mapping
        The JSON of `veilstream replay --json`: an audit of each cut, for the operator and not for recipients.
    folder : pathlib.Path
        `public` for recipients, `operator` for the audits and the key of the pseudonyms.
    exit_code : int
        Exit code of `veilstream replay`: 0, or 3 if a release was withheld or a publication has released nothing.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        verdicts: list[Verdict],
        releases: list[Release],
        rows: Sequence[Mapping[str, Any]],
        notes: Sequence[str],
        folder: ResultFolder,
        exit_code: int,
        comparison: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.exit_code, self._compared = exit_code, comparison
        self.document, self.verdicts, self.releases = document, verdicts, releases
        self.folder, self._folder = folder.path, folder
        self._rows, self._notes = rows, tuple(notes)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per cut: what was released, what each attack leaves, and why something was withheld."""
        import pandas as pd

        # A count that was not measured is missing, and no NaN that makes floats of the others.
        return pd.DataFrame(self._rows, columns=list(CUT)).astype(dict.fromkeys(COUNTS, "Int64"))

    @property
    def comparison(self) -> pd.DataFrame | None:
        """One row per publication, if they were compared: least groups, events kept, utility, delay; else None."""
        import pandas as pd

        if self._compared is None:
            return None
        return pd.DataFrame(self._compared).astype(dict.fromkeys(("ka", "fa", "ca", "ba"), "Int64"))

    def summary(self) -> str:
        """Return verdict, figures and promises as plain text."""
        return _text(*self._shown_parts())

    @property
    def _title(self) -> str:
        return f"{len(self.releases)} releases, {len(self.document['withheld'])} withheld"

    def _promises(self) -> list[tuple[str, str]]:
        """Return the promise of the last release of each publication."""
        last = {release.document["publication"]: release for release in self.releases}
        lines = []
        for publication, release in last.items():
            lines += [(f"{publication}, {heading}", text) for heading, text in promise_lines(release.promise)]
        return lines

    def _repr_html_(self) -> str:
        return _html(*self._shown_parts())

    def _shown_parts(self) -> _ShownParts:
        verdict_lines = [line for verdict in self.verdicts for line in verdict.lines()]
        return self._title, self.to_dataframe(), self._promises(), (*verdict_lines, *self._notes)

    def __repr__(self) -> str:
        """Return the verdicts' words, without values of persons."""
        words = ", ".join(verdict.verdict for verdict in self.verdicts)
        return f"<ReleaseSeries: {self._title}: {words}; .releases, .to_dataframe(), .summary()>"


def promise_lines(promise: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the parts of a promise that are shown, each with its heading.

    Parameters
    ----------
    promise
        Sentences of a mechanism's promise by key. Keys without a sentence are left out.

    Returns
    -------
    list of (heading, sentence)
        In the order of `PROMISES`.
    """
    return [(heading, promise[key]) for key, heading in PROMISES.items() if promise.get(key)]


def _with_dashes(figures: pd.DataFrame) -> pd.DataFrame:
    """Return figures with a dash for None: pandas puts one only for values that it counts as missing."""
    import pandas as pd

    shown = figures.copy()
    for column in figures.columns:
        if pd.api.types.is_object_dtype(figures[column]):
            shown[column] = figures[column].where(figures[column].notna(), MISSING)
    return shown


def _text(
    title: str,
    figures: pd.DataFrame,
    promises: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> str:
    table = NO_ROWS
    if len(figures):
        table = _with_dashes(figures).to_string(index=False, na_rep=MISSING, max_rows=MOST_ROWS)
    lines = [title, "", table, ""]
    lines += [f"{heading}: {text}" for heading, text in promises]
    lines += notes
    return visible("\n".join(lines).rstrip() + "\n")


def _html(
    title: str,
    figures: pd.DataFrame,
    promises: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> str:
    import pandas as pd

    table = f"<p>{NO_ROWS}</p>"
    if len(figures):
        with pd.option_context("display.max_colwidth", None):
            shown = _with_dashes(figures)
            table = shown.to_html(index=False, na_rep=MISSING, escape=True, border=0, max_rows=MOST_ROWS)
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
