"""Which column of an unknown table is the case, the activity, the time; what role each attribute may need, and why.

Guesses are for a person to confirm: nothing is read by them unless their names are in the flags. Words of names count
first (English, and the commonest of German, Dutch, French and Spanish), then what the values look like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from connectors.headers import candidates
from connectors.times import parser
from models.anonymize.sensitive import ENOUGH_CASES, NEARLY_UNIQUE
from models.eventlog import Column, Ints

CASE = re.compile(
    r"case|trace|order|ticket|incident|request|claim|patient|application|instance|document|dossier|zaak|fall|vorgang|"
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

_ROLES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "identifier",
        re.compile(
            r"(^|[^a-z])(name|surname|(first|last|full|sur).?name|vorname|nachname|ssn|bsn|iban|e?.?mail|phone|mobile|"
            r"telefon|telephone|passport|address|adresse|insurance.?(no|number|id)|social.?security|citizen|licen[cs]e"
            r".?plate|ip)([^a-z]|$)|(patient|customer|client|person|employee|citizen|member).?(id|no|nr|number|name)",
            re.IGNORECASE,
        ),
        "its name is that of something that names a person",
    ),
    (
        "sensitive",
        re.compile(
            r"diagnos|disease|illness|icd|symptom|medicat|drug|treatment|salary|income|gehalt|wage|amount|betrag|"
            r"credit|debt|loan|score|religion|ethnic|race$|orientation|politic|union|crime|offen[cs]e|verdict|outcome|"
            r"result|lactic|leuco|crp|blood|health|disabilit|handicap|behinder|krank|ziekte|gezondheid|inkomen|einkommen",
            re.IGNORECASE,
        ),
        "its name is that of something nobody may learn of a person",
    ),
    (
        "quasi",
        re.compile(
            r"(^|[^a-z])age([^a-z]|$)|alter$|gender|sex$|geschlecht|zip|post.?(al|code)|plz|city|town|region|country|"
            r"nationalit|birth|geburt|dob|marital|occupation|job|profession|language|education",
            re.IGNORECASE,
        ),
        "its name is that of something many know of a person",
    ),
)


@dataclass(frozen=True, slots=True)
class Guess:
    """The column taken for a part of the log, and why."""

    column: str
    reason: str


def parts(columns: Mapping[str, Column], given: Mapping[str, str]) -> dict[str, Guess]:
    """case, activity, time, resource and lifecycle, as far as they are found; what is given stands."""
    found = {role: Guess(name, "as you say") for role, name in given.items() if name in columns}
    for role in ("case", "activity", "time", "resource"):
        names = [name for name in candidates(list(columns), role) if name not in _taken(found)]
        if role not in found and len(names) == 1:
            found[role] = Guess(names[0], "a header of common exports")
    free = {name: column for name, column in columns.items() if name not in _taken(found) and column.values}
    if "time" not in found and (one := _time(free)):
        found["time"] = one
    free = {name: column for name, column in free.items() if name not in _taken(found)}
    if "case" not in found and (one := _case(free)):
        found["case"] = one
    free.pop(found["case"].column if "case" in found else "", None)
    if "activity" not in found and (one := _activity(free, columns, found)):
        found["activity"] = one
    free.pop(found["activity"].column if "activity" in found else "", None)
    if "resource" not in found:
        named = [name for name in free if RESOURCE.search(name)]
        if len(named) == 1:
            found["resource"] = Guess(named[0], "its name")
    for name, column in free.items():
        if LIFECYCLE.search(name) or {str(value).lower() for value in column.values} <= _STATES:
            found["lifecycle"] = Guess(name, "its values are transitions, such as start and complete")
            break
    return found


def _taken(found: Mapping[str, Guess]) -> set[str]:
    return {guess.column for guess in found.values()}


def looks_like_times(column: Column, most: int = 200) -> bool:
    """Whether the first values are times in one of the ways that are read."""
    from connectors.dates import UnknownTimesError, plan

    texts = [str(value).strip() for value in column.values[:most]]
    parse = parser("UTC")
    try:
        for text in texts:
            parse(text)
        return bool(texts)
    except ValueError:
        pass
    try:
        plan(texts)
    except UnknownTimesError as error:
        return bool(error.readings)
    return True


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?(\s*[AaPp][Mm])?", re.ASCII)


def clocks(columns: Mapping[str, Column]) -> list[str]:
    """Columns that hold the time of day alone: the day stands in another."""
    return [
        name
        for name, column in columns.items()
        if column.values and all(_CLOCK.fullmatch(str(value).strip()) for value in column.values)
    ]


def _time(free: Mapping[str, Column]) -> Guess | None:
    times = [name for name, column in free.items() if looks_like_times(column)]
    named = [name for name in times if TIME.search(name)]
    ends = [name for name in named if not BEGIN.search(name)]
    for among, reason in (
        (ends, "its name and values"),
        (named, "its name and values"),
        (times, "its values are times"),
    ):
        if among:
            return Guess(max(among, key=lambda name: len(free[name].values)), reason)
    return None


def _case(free: Mapping[str, Column]) -> Guess | None:
    best, most = None, 0.0
    for name, column in free.items():
        if (column.codes < 0).any() or len(column.values) < 2 or looks_like_times(column):
            continue
        each = len(column) / len(column.values)
        score = 2.0 * bool(CASE.search(name)) + (1.5 <= each <= 200) + min(1.0, len(column.values) / len(column))
        if each > 1 and score > most:
            best = Guess(
                name, f"{len(column.values)} values, {each:.1f} rows each" + ", its name" * bool(CASE.search(name))
            )
            most = score
    return best


def _activity(free: Mapping[str, Column], columns: Mapping[str, Column], found: Mapping[str, Guess]) -> Guess | None:
    case = columns[found["case"].column] if "case" in found else None
    best, most = None, 0.0
    for name, column in free.items():
        if (column.codes < 0).any() or len(column.values) > max(50, len(column) / 4):
            continue
        if case is not None and constant_in(column, case):
            continue
        texts = not all(isinstance(value, int | float) or str(value).isdigit() for value in column.values)
        score = 2.0 * bool(ACTIVITY.search(name)) + texts + 0.5 * (len(column.values) > 1) - bool(RESOURCE.search(name))
        if score > most:
            best = Guess(
                name, f"{len(column.values)} values that change in a case" + ", its name" * bool(ACTIVITY.search(name))
            )
            most = score
    return best


def constant_in(column: Column, case: Column) -> bool:
    """Whether no case has two values of the column."""
    seen = (column.codes >= 0) & (case.codes >= 0)
    pairs = np.unique(np.stack([case.codes[seen], column.codes[seen]]), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1] if pairs.size else True


def role(name: str, column: Column, case: Column | None) -> tuple[str | None, str]:
    """(role in `[process.attributes]`, reason); None where nothing speaks for one, and it is dropped."""
    bare = name.removeprefix("case:")
    for word, pattern, reason in _ROLES:
        if pattern.search(bare):
            return word, reason
    if not column.values:
        return None, "empty"
    if len(column.values) == 1:
        return None, "one value in the whole log"
    if case is not None:
        cases = _cases_with(column, case)
        if len(cases) >= ENOUGH_CASES and len(column.values) >= NEARLY_UNIQUE * len(cases):
            return "identifier", f"{len(column.values)} values in {len(cases)} cases: nearly every case has its own"
        if constant_in(column, case):
            return None, "the same in all rows of a case: sensitive, quasi or public, if you want to keep it"
    return None, "changes in a case: of no use to a release, unless you give it a role"


def _cases_with(column: Column, case: Column) -> Ints:
    return np.unique(case.codes[column.codes >= 0]).astype(np.int64)


def same_name(names: Sequence[str]) -> bool:
    """Whether `--columns` can say these names: it goes by comma."""
    return not any("," in name for name in names)
