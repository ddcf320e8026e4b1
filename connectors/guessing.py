"""Guesses about the columns of an unknown table: parts of the log, and roles of attributes.

Guesses are for a person to confirm: a reader uses them only if the flags name them. Words of column names count first
(`words.toml`, which users extend), then the shape of the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from connectors.columns import candidates
from connectors.role_words import Patterns, role_of, shipped
from connectors.times import parser
from models.anonymize.sensitive import ENOUGH_CASES, NEARLY_UNIQUE
from models.eventlog import Column, Ints

CASE = re.compile(
    r"case|trace|order|ticket|incident|request|claim|patient|application|instance|document|dossier|zaak|fall|falnr|vorgang|"
    r"auftrag|antrag|caso|pedido|commande|(^|[^a-z])(id|nr|no|num|number|key)$",
    re.IGNORECASE,
)
ACTIVITY = re.compile(
    r"activit|event|task|step|action|operation|status|stage|milestone|aktivit|tätig|taetig|schritt|stap|handeling|"
    r"étape|etape|tâche|actividad|tarea|paso",
    re.IGNORECASE,
)
TIME = re.compile(r"time|date|stamp|zeit|datum|tijd|heure|hora|fecha|when|(_|\b)(ts|at)$", re.IGNORECASE)
BEGIN = re.compile(r"start|begin|created|creat|von$|desde", re.IGNORECASE)
RESOURCE = re.compile(
    r"resource|user|agent|employee|staff|worker|owner|assignee|originator|performer|operator|clerk|mitarbeiter|"
    r"bearbeiter|medewerker|utilisateur|usuario|handled.?by",
    re.IGNORECASE,
)
LIFECYCLE = re.compile(r"lifecycle|transition|event.?type$", re.IGNORECASE)
_STATES = frozenset(
    ["start", "complete", "schedule", "assign", "reassign", "suspend", "resume", "withdraw", "ate_abort", "pi_abort"]
)

_REASONS = {
    "identifier": "the column name suggests something that names a person",
    "sensitive": "the column name suggests sensitive personal data",
    "quasi": "the column name suggests something that many people know about a person",
}


@dataclass(frozen=True, slots=True)
class Guess:
    """The column taken for a part of the log, and why."""

    column: str
    reason: str


def parts(columns: Mapping[str, Column], named_by_user: Mapping[str, str]) -> dict[str, Guess]:
    """Return guesses of case, activity, time, resource and lifecycle, as far as there are any.

    Parameters
    ----------
    columns
        The table.
    named_by_user
        Column name of each part that the user gave; these are kept.
    """
    guesses = {role: Guess(name, "given by --columns") for role, name in named_by_user.items() if name in columns}
    for role in ("case", "activity", "time", "resource"):
        names = [name for name in candidates(list(columns), role) if name not in _taken(guesses)]
        if role not in guesses and len(names) == 1:
            guesses[role] = Guess(names[0], "a header of common exports")

    def free() -> dict[str, Column]:
        used_names = _taken(guesses)
        return {name: column for name, column in columns.items() if name not in used_names and column.values}

    # The order matters: times are the surest, and an activity is recognised by how it changes in a case.
    if "time" not in guesses and (guess := _time(free())):
        guesses["time"] = guess
    if "case" not in guesses and (guess := _case_of_wide_table(free(), guesses) or _case(free())):
        guesses["case"] = guess
    if "activity" not in guesses:
        case = filled_down(columns[guesses["case"].column]) if "case" in guesses else None
        if guess := _activity(free(), case):
            guesses["activity"] = guess
    if "resource" not in guesses:
        named = [name for name in free() if RESOURCE.search(name)]
        if len(named) == 1:
            guesses["resource"] = Guess(named[0], "its name")
    for name, column in free().items():
        if LIFECYCLE.search(name) or {str(value).lower() for value in column.values} <= _STATES:
            guesses["lifecycle"] = Guess(name, "its values are transitions, such as start and complete")
            break
    return guesses


def _taken(guesses: Mapping[str, Guess]) -> set[str]:
    return {guess.column for guess in guesses.values()}


FEW = 0.1
"""Share of rows that may be bad without a change of the guess: exports hold some, and `inspect` counts them."""

TRIED = 200
"""Values of a column that are read as times: more would only make a guess about a large file slower."""


def looks_like_times(column: Column) -> bool:
    """Return whether all but a few of the first values are times.

    Parameters
    ----------
    column
        The column of a file.
    """
    from connectors.dates import ORDERS, UnknownTimesError, plan, plan_for_most, strptime_format

    texts = [str(value).strip() for value in column.values[:TRIED]]
    if not texts:
        return False
    if sum(not _is_iso(text) for text in texts) <= FEW * len(texts):
        return True
    try:
        plan(texts)
        return True
    except UnknownTimesError as error:
        if error.readings:
            return True
    in_some_order = [any(strptime_format(text, order) for order in ORDERS) for text in texts]
    if in_some_order.count(False) <= FEW * len(texts):
        return True
    try:
        plan_of_most = plan_for_most(texts)
    except UnknownTimesError:
        return False
    return plan_of_most is not None and len(plan_of_most[1]) <= FEW * len(texts)


def _is_iso(text: str) -> bool:
    try:
        parser("UTC")(text)
    except (ValueError, OverflowError):
        return False
    return True


def _has_many_gaps(column: Column) -> bool:
    return bool((column.codes < 0).mean() > FEW)


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?(\s*[AaPp][Mm])?", re.ASCII)
_CLOCK_OF_DIGITS = re.compile(r"([01]?\d|2[0-3])[0-5]\d[0-5]\d", re.ASCII)
"""081500, or 81500 as a number: SAP has the day and the time of day in two columns, without signs between digits."""


def clocks(columns: Mapping[str, Column]) -> list[str]:
    """Return the columns that hold the time of day alone: another column has the day.

    Parameters
    ----------
    columns
        Columns by name.
    """
    names = []
    for name, column in columns.items():
        # Other numbers have five or six digits as well, so the name has to be one of times.
        forms = [_CLOCK, _CLOCK_OF_DIGITS] if TIME.search(name) else [_CLOCK]
        texts = [str(value).strip() for value in column.values]
        if texts and any(all(map(form.fullmatch, texts)) for form in forms):
            names.append(name)
    return names


def _time(free: Mapping[str, Column]) -> Guess | None:
    times = [name for name, column in free.items() if looks_like_times(column)]
    named = [name for name in times if TIME.search(name)]
    ends = [name for name in named if not BEGIN.search(name)]
    names, reason = ends or named, "its name and values"
    if not names:
        names, reason = times, "its values are times"
    if not names:
        return None
    return Guess(max(names, key=lambda name: len(free[name].values)), reason)


LEAST_WIDE = 3
"""Columns of times of a table with a column for each activity. Two may be the begin and the end of an event."""


def _case_of_wide_table(free: Mapping[str, Column], guesses: Mapping[str, Guess]) -> Guess | None:
    """Return the column that names the row, if each row is a case with the time of each activity in a column.

    In such a table no column repeats a case, and a diagnosis or a ward would be taken for it.
    """
    if "time" not in guesses or "activity" in guesses or any(map(ACTIVITY.search, free)):
        return None
    repeated = _repeated_case(free)
    if repeated is not None and CASE.search(repeated.column):
        return None
    n_times = 1 + sum(map(looks_like_times, free.values()))
    ids = [name for name, column in free.items() if _is_id_of_row(column)]
    if n_times < LEAST_WIDE or not ids:
        return None
    named = [name for name in ids if CASE.search(name)]
    return Guess((named or ids)[0], f"each row has a value of its own, and {n_times} columns hold times")


def _is_id_of_row(column: Column) -> bool:
    has_own_values = len(column.values) == len(column) > 1
    return has_own_values and not _kind_of_values(column) and not looks_like_times(column)


def _case(free: Mapping[str, Column]) -> Guess | None:
    """Return the column of case ids: several rows have each id, or the first row of its case alone."""
    repeated = _repeated_case(free)
    if repeated is not None and CASE.search(repeated.column):
        return repeated
    return _merged_case(free, is_alone=repeated is None) or repeated


def _repeated_case(free: Mapping[str, Column]) -> Guess | None:
    """Return the best column of which several rows have each value."""
    best, best_score = None, 0.0
    for name, column in free.items():
        distinct = len(column.values)
        if _has_many_gaps(column) or distinct < 2 or looks_like_times(column) or clocks({name: column}):
            continue
        rows_each = len(column) / distinct
        is_named = bool(CASE.search(name))
        score = 2.0 * is_named + (1.5 <= rows_each <= 200) + min(1.0, distinct / len(column))
        if rows_each > 1 and score > best_score:
            best = Guess(name, f"{distinct} values, {rows_each:.1f} rows each" + ", its name" * is_named)
            best_score = score
    return best


def _merged_case(free: Mapping[str, Column], *, is_alone: bool) -> Guess | None:
    """Return the first column of merged cells with the name of a case column.

    `is_alone`: no other column can be the case. A number in most rows may be that of a document, and replaces none.
    """
    for name, column in free.items():
        n_values = len(column.values)
        is_case = CASE.search(name) and in_first_rows(column)
        if is_case and (is_alone or 2 * n_values <= len(column)):
            return Guess(name, f"{n_values} values, each in one row above rows without one; its name")
    return None


def in_first_rows(column: Column) -> bool:
    """Return whether each value is in one row, and rows without one follow: merged cells of a spreadsheet.

    Parameters
    ----------
    column
        The column of a file.
    """
    n_filled = int((column.codes >= 0).sum())
    if n_filled < 2 or n_filled != len(column.values):
        return False
    return bool(column.codes[0] >= 0) and _has_many_gaps(column)


def filled_down(column: Column) -> Column:
    """Return the column as a reader of merged cells sees it; any other column as it is.

    Parameters
    ----------
    column
        The column of a file.
    """
    if not in_first_rows(column):
        return column
    rows = np.where(column.codes >= 0, np.arange(len(column)), 0)
    return Column(column.codes[np.maximum.accumulate(rows)], column.values)


def _activity(free: Mapping[str, Column], case: Column | None) -> Guess | None:
    best, best_score = None, 0.0
    for name, column in free.items():
        distinct = len(column.values)
        if _has_many_gaps(column) or distinct > max(50, len(column) / 4):
            continue
        if case is not None and constant_in(column, case):
            continue
        is_named = bool(ACTIVITY.search(name))
        is_text = not all(isinstance(value, int | float) or str(value).isdigit() for value in column.values)
        score = 2.0 * is_named + is_text + 0.5 * (distinct > 1) - bool(RESOURCE.search(name))
        if score > best_score:
            best = Guess(name, f"{distinct} values that change in a case" + ", its name" * is_named)
            best_score = score
    return best


def constant_in(column: Column, case: Column) -> bool:
    """Return whether no case has two values of the column.

    Parameters
    ----------
    column, case
        Value and case of each row.
    """
    return cases_with_several_values(column, case) == 0


def cases_with_several_values(column: Column, case: Column) -> int:
    """Return how many cases have rows with different values of the column.

    Parameters
    ----------
    column, case
        Value and case of each row. Missing ones do not count.
    """
    seen = (column.codes >= 0) & (case.codes >= 0)
    pairs = np.unique(np.stack([case.codes[seen], column.codes[seen]]), axis=1)
    values_of_case = np.unique(pairs[0], return_counts=True)[1]
    return int(np.count_nonzero(values_of_case > 1))


def role(
    name: str,
    column: Column,
    case: Column | None,
    activity: Column | None = None,
    patterns: Patterns | None = None,
) -> tuple[str | None, str]:
    """Return the role in `[process.attributes]` that a column may need, and why.

    None is the safe side: an attribute without a role is not stored and not released. It is the answer if the values
    contradict the role that the name suggests, and if nothing suggests a role.

    Parameters
    ----------
    name
        The column's name in the file.
    column, case, activity
        The column, and those of the case and of the activity, if known.
    patterns
        Words of names (`connectors.role_words`); those of the package by default.

    Returns
    -------
    role
        Name of the role, or None.
    reason
        A clause for the user.
    """
    if not column.values:
        return None, "empty"
    if len(column.values) == 1:
        return None, "one value in the whole log"
    if activity is not None and _same_parts(column, activity):
        return None, "a copy of the activity"
    word = role_of(name.removeprefix("case:"), shipped() if patterns is None else patterns)
    kind = _kind_of_values(column)
    if word == "identifier" and kind is not None:
        return None, f"its values are {kind}, which name nobody: sensitive, quasi or public, if you want to keep it"
    if word == "sensitive" and case is not None:
        changing = cases_with_several_values(column, case)
        if changing:
            return word, f"{_REASONS[word]}; cases with several values: {changing}, only the last one is bounded"
    if word is not None:
        return word, _REASONS[word]
    if case is not None:
        cases = _cases_with(column, case)
        if len(cases) >= ENOUGH_CASES and len(column.values) >= NEARLY_UNIQUE * len(cases):
            if kind is not None:
                return None, f"{kind}, nearly every case has its own: sensitive, with classes, if you want to keep it"
            return "identifier", f"{len(column.values)} values in {len(cases)} cases: nearly every case has its own"
        if constant_in(column, case):
            return None, "the same in all rows of a case: sensitive, quasi or public, if you want to keep it"
    return None, "changes in a case: of no use to a release, unless you give it a role"


_BOOLEANS = frozenset(["true", "false", "yes", "no", "ja", "nein", "nee", "oui", "non", "si", "0", "1", "y", "n", "j"])
_MEASURE = re.compile(r"[-+]?\d+[.,]\d+", re.ASCII)
"""A number with a fraction: no identifier is written so, a price and a weight are."""


def _kind_of_values(column: Column) -> str | None:
    """Return the kind of values that name nobody: truth values or measurements. Else None."""
    texts = [str(value).strip().lower() for value in column.values]
    if len(texts) <= 2 and set(texts) <= _BOOLEANS:
        return "true or false"
    numbers = [text for text in texts if re.fullmatch(r"[-+]?\d+([.,]\d+)?", text, re.ASCII)]
    if len(numbers) == len(texts) and any(_MEASURE.fullmatch(text) for text in texts):
        return "measurements"
    return None


def _same_parts(column: Column, other: Column) -> bool:
    """Return whether two columns differ in the names of their values alone."""
    if len(column.values) != len(other.values) or (column.codes < 0).any() or (other.codes < 0).any():
        return False
    pairs = np.unique(np.stack([column.codes, other.codes]), axis=1)
    return bool(pairs.shape[1] == len(column.values))


def _cases_with(column: Column, case: Column) -> Ints:
    return np.unique(case.codes[column.codes >= 0]).astype(np.int64)
