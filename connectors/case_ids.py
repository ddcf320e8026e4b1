"""Case ids, activities and times that may mean a missing one, and case ids that may be the same case as another id.

One person under two ids counts as two: a group of 20 cases may then be of 10 persons. Many persons under one id
make a trace that nobody had. So `inspect` reports such ids, and so does everything that reads a log. They are not
changed, since 17 and 17.0 may be two cases.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import Column, EventLog, Ints
from models.missing_words import means_missing
from models.spelling import DIFFERENCE, spelled_twice, without_invisible

_SHORTENED = re.compile(r"\s*\d([.,]\d+)?E\+\d\d\s*")
"""Long numbers as a spreadsheet shows and then saves them: the last digits are gone."""

_LARGE_FLOAT = re.compile(r"\s*(\d(\.\d+)?e\+\d\d|\d{16,}\.0)\s*")
"""Long whole numbers as Python writes them from a column of floating-point numbers."""

_LEAST_INEXACT_FLOAT = 2**53
"""From here on, different whole numbers have the same floating-point number."""

_QUOTED_NUMBER = re.compile(r"'(\d+)|=\"(\d+)\"")
"""A number as a spreadsheet keeps it as text: `'17` or `="17"`."""

_GROUPED_NUMBER = re.compile(r"[1-9]\d{0,2}([.,' \u00a0\u202f])\d{3}(\1\d{3})*")
"""A whole number with a sign or a space between the thousands."""

LEAST_LETTER_CODES = 20
"""Other case ids of as many capital letters with which a word for a missing id is taken for one of them."""

_TOTALS = frozenset(
    ["total", "totals", "grand total", "subtotal", "sum", "totaal", "eindtotaal", "subtotaal", "som", "summe"]
    + ["gesamt", "gesamtsumme", "gesamtergebnis", "zwischensumme", "somme", "total général", "totale", "suma"]
)
"""First cells of a row of totals that a spreadsheet or a report adds, in lower case and without a colon at the end."""


def doubts(log: EventLog) -> list[str]:
    """Return a sentence for each kind of doubtful case id and activity of a log; none names a case.

    Parameters
    ----------
    log
        A log of a source.
    """
    rows_of_case = log.starts[1:] - log.starts[:-1]
    return [*doubtful_case_ids(log.case_ids, rows_of_case), *doubtful_activities(log.activity)]


def doubts_of_source(log: EventLog) -> list[str]:
    """Return a sentence for each kind of doubtful event of a log of a source; releases have such events on purpose."""
    return repeated_events(log) + distant_times(log) + reversed_ties(log)


LEAST_COPIES = 0.01
"""Share of events from which on copies are reported: real logs hold a few, and an export that repeats rows many."""


def repeated_events(log: EventLog) -> list[str]:
    """Return a sentence on events that are exact copies of another one of their case, if there are many.

    Parameters
    ----------
    log
        A log of a source. Releases with coarse times have such events.
    """
    same_case = np.diff(log.case_of_event) == 0
    is_tie = same_case & (np.diff(log.time) == 0)
    tied = np.flatnonzero(np.append(is_tie, False) | np.insert(is_tie, 0, False))
    if len(tied) <= LEAST_COPIES * log.n_events:
        return []
    columns = [log.activity, log.resource, *log.event_attributes.values()]
    codes = [column.codes[tied] for column in columns]
    n_copies = _count_copies([log.case_of_event[tied], log.time[tied], *codes])
    if n_copies <= LEAST_COPIES * log.n_events:
        return []
    return [repeated_rows(n_copies)]


def _count_copies(columns: Sequence[npt.NDArray[Any]]) -> int:
    """Return how many rows of a table are equal to an earlier one.

    It needs no pandas, whose import takes half a second and 75 MB that a command on XES has no other use for.
    """
    order = np.lexsort(columns)
    is_copy = np.ones(len(order) - 1, dtype=np.bool_)
    for column in columns:
        is_copy &= np.diff(column[order]) == 0
    return int(np.count_nonzero(is_copy))


def repeated_rows(n_copies: int) -> str:
    """Return the sentence on a number of rows that are copies.

    Parameters
    ----------
    n_copies
        Number of rows that are copies.
    """
    return (
        f"{n_copies} rows are exact copies of an earlier row, and each counts as an event: if an export repeats rows, "
        "remove them first (pandas: drop_duplicates); if an activity can happen twice at one moment, keep them"
    )


LEAST_REVERSED = 20
"""Pairs of events with different times that have to be in the order of the file, or against it, to decide on it."""


FEW_IN_ORDER = 0.05
"""Share of those pairs that may be in the order of the file, since exports hold some rows that were added later."""


def reversed_ties(log: EventLog) -> list[str]:
    """Return a sentence on events of one time, if the file lists the newest event first.

    Ties stay in the order of the file, so that their steps are read backwards.

    Parameters
    ----------
    log
        A log of a source.
    """
    is_same_case = np.diff(log.case_of_event) == 0
    is_later = np.diff(log.time) > 0
    is_below = np.diff(log.row) > 0
    n_decided = int(np.count_nonzero(is_same_case & is_later))
    n_in_order = int(np.count_nonzero(is_same_case & is_later & is_below))
    has_other_activity = np.diff(log.activity.codes) != 0
    n_ties = int(np.count_nonzero(is_same_case & ~is_later & has_other_activity))
    if n_decided < LEAST_REVERSED or n_in_order > FEW_IN_ORDER * n_decided or not n_ties:
        return []
    return [
        f"{n_ties} events have the time of another one of their case, and the rows of the file are sorted from the "
        "newest to the oldest: events of one time stay in the order of the file, so these steps are read backwards; "
        "turn the order of the rows round before reading (pandas: frame[::-1])"
    ]


_YEAR = 31_556_952 * 1_000_000_000
"""Mean length of a year of the calendar (ns)."""

FAR = 10
"""Years without an event, beyond which times are far from all others: no process rests so long."""


def distant_times(log: EventLog) -> list[str]:
    """Return a sentence on times that are years before or after those of most events.

    Parameters
    ----------
    log
        A log of a source. The times of a release may be made.
    """
    if not log.n_events or int(log.time.max()) - int(log.time.min()) < FAR * _YEAR:
        return []
    year = log.time // _YEAR
    events_of_year = np.bincount(year - year.min())
    years = np.flatnonzero(events_of_year)
    first_after_gap = np.flatnonzero(np.diff(years) > FAR) + 1
    events_of_period = [int(events_of_year[period].sum()) for period in np.split(years, first_after_gap)]
    n_distant = log.n_events - max(events_of_period)
    if not n_distant:
        return []
    return [
        f"{n_distant} events are more than {FAR} years before or after all others: exports write such times for a "
        "missing one (1900-01-01, 2099-12-31), or a year is mistyped; each is read as a time, so it is the first or "
        "the last event of its case, and windows and completion count by it; correct these times, or empty the fields "
        "and leave such rows out with --skip-bad-rows"
    ]


def doubtful_activities(activity: Column) -> list[str]:
    """Return a sentence on the activities that exports write for a missing one, and one on several spellings.

    Parameters
    ----------
    activity
        Activity of each row.
    """
    sentences = []
    n_rows, written = _missing_words(activity)
    if n_rows:
        sentences.append(
            f"{n_rows} rows have an activity that exports write for a missing one ({written}): each such word is read, "
            "and released, as an activity like the others; if no activity is meant, remove these rows, or empty the "
            "field and leave them out with --skip-bad-rows"
        )
    spellings = len(spelled_twice(activity.values))
    if spellings:
        sentences.append(
            f"{spellings} activities differ from another one {DIFFERENCE}: each spelling is read as an activity of its "
            "own, so fewer cases are alike; write them alike at the source"
        )
    return sentences


def doubtful_values(name: str, column: Column) -> list[str]:
    """Return a sentence on the words for a missing value that an attribute has, and one on several spellings.

    Parameters
    ----------
    name
        The attribute.
    column
        Its value in each row.
    """
    sentences = []
    n_rows, written = _missing_words(column)
    if n_rows:
        sentences.append(
            f"{name}: {n_rows} rows have a word that exports write for a missing value ({written}): it is read as a "
            "value like the others, and among numbers it makes all of them texts; empty these fields if no value is "
            "known"
        )
    spellings = len(spelled_twice(column.values))
    if spellings:
        sentences.append(
            f"{name}: {spellings} values differ from another one {DIFFERENCE}: each spelling is read as a value of its "
            "own; write them alike at the source"
        )
    return sentences


def _missing_words(column: Column) -> tuple[int, str]:
    """Return how many rows have a word for a missing value, and these words."""
    words = [str(value).strip() for value in column.values]
    codes = [code for code, word in enumerate(words) if means_missing(word)]
    n_rows = int(np.count_nonzero(np.isin(column.codes, codes)))
    return n_rows, ", ".join(sorted({words[code] for code in codes}))


def doubtful_case_ids(ids: Sequence[str], rows_of_case: Ints) -> list[str]:
    """Return a sentence for each kind of doubtful case id, for people; none names an id.

    Parameters
    ----------
    ids
        The case ids, each once.
    rows_of_case
        Number of rows of each id.
    """
    sentences = []
    placeholders = [case for case, name in enumerate(ids) if means_missing(name) and not _is_letter_code(name, ids)]
    if placeholders:
        n_rows, written = _rows_and_words(ids, rows_of_case, placeholders)
        sentences.append(
            f"{n_rows} rows have a case id that exports write for a missing one ({written}): each such id is read as "
            "one case, whose rows may belong to different cases; remove these rows, or export them with their case id"
        )
    totals = [case for case, name in enumerate(ids) if name.strip().rstrip(":").casefold() in _TOTALS]
    if totals:
        n_rows, written = _rows_and_words(ids, rows_of_case, totals)
        sentences.append(
            f"{n_rows} rows have a case id that reports write in a row of totals ({written}): it is read as a case "
            "like the others; if these rows are no events, remove them"
        )
    shortened = [case for case, name in enumerate(ids) if _SHORTENED.fullmatch(name)]
    if shortened:
        n_rows = int(rows_of_case[shortened].sum())
        sentences.append(
            f"{n_rows} rows have a case id that a spreadsheet has shortened, such as 1.23457E+11: different cases have "
            "the same id then, and are read as one; export the ids as texts, without opening the file in a spreadsheet"
        )
    inexact = [case for case, name in enumerate(ids) if _is_inexact_float(name)]
    if inexact:
        n_rows = int(rows_of_case[inexact].sum())
        sentences.append(
            f"{n_rows} rows have a case id of 16 digits or more that was stored as a floating-point number, which "
            "keeps fewer: different cases may have the same id then, and are read as one; export the ids as texts "
            "(pandas makes floats of whole numbers if a cell is empty: read the column with dtype=str)"
        )
    similar = _count_similar(ids)
    if similar:
        sentences.append(
            f"{similar} case ids differ from another one only by spaces around them, by upper and lower case, by .0 at "
            "the end or by invisible characters, or as numbers by zeros before them, by a sign between thousands or "
            "by the quotes of a spreadsheet, and each is read as a case of its own; if they mean the same case, write "
            "them alike"
        )
    return sentences


def _is_letter_code(name: str, ids: Sequence[str]) -> bool:
    """Return whether a word is one of many ids of as many capital letters: `NA` is the case between `MZ` and `NB`."""
    if not (name.isascii() and name.isalpha() and name.isupper()):
        return False
    alike = (other for other in ids if len(other) == len(name) and other.isascii() and other.isalpha())
    return sum(other.isupper() for other in alike) > LEAST_LETTER_CODES


def _rows_and_words(ids: Sequence[str], rows_of_case: Ints, cases: list[int]) -> tuple[int, str]:
    """Return the number of rows of some cases, and their ids, each of which is a word of a fixed list."""
    words = {ids[case].strip() for case in cases}
    return int(rows_of_case[cases].sum()), ", ".join(sorted(words))


def _count_similar(ids: Sequence[str]) -> int:
    """Count the ids that have the plain form of another one."""
    # The ids of most logs are in their plain form, or are numbers of one width, and need no table of forms.
    if all(_plain_id(name) == name for name in ids):
        return 0
    if all(name.isdecimal() and name.isascii() and len(name) == len(ids[0]) for name in ids):
        return 0
    number_of_form = Counter(map(_plain_id, set(ids)))
    return sum(number for number in number_of_form.values() if number > 1)


def _is_inexact_float(text: str) -> bool:
    return _LARGE_FLOAT.fullmatch(text) is not None and float(text) >= _LEAST_INEXACT_FLOAT


def _plain_id(text: str) -> str:
    """Return what all ways to write one case id have in common.

    It is in lower case and has no spaces around it and no invisible characters. A whole number has no `.0` at its end,
    no zeros before it, no sign between its thousands and no quotes of a spreadsheet.
    """
    bare = without_invisible(text).strip().casefold()
    if bare.isdecimal():  # most ids that are numbers
        return bare.lstrip("0") or "0"
    quoted = _QUOTED_NUMBER.fullmatch(bare)
    if quoted is not None:
        bare = quoted[1] or quoted[2]
    number = bare.removesuffix(".0").removesuffix(",0")
    grouped = _GROUPED_NUMBER.fullmatch(number)
    if grouped is not None:
        number = number.replace(grouped[1], "")
    return (number.lstrip("0") or "0") if number.isdecimal() else bare
