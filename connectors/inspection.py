"""Facts about a log file that can be read from it: `veilstream inspect`.

The guesses are tried on the file itself, so that the proposed flags are flags that read it. Values are shown as shapes
alone.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import bad_rows, guessing
from connectors.bad_rows import BadRows
from connectors.case_ids import doubtful_activities, doubtful_case_ids, doubtful_values, repeated_rows
from connectors.columns import CASE_PREFIX, ColumnNames, resolved, shape, typed
from connectors.dates import (
    DAY_FIRST,
    ISO,
    MONTH_FIRST,
    YEAR_FIRST,
    UnknownTimesError,
    numbers,
    plan,
    plan_for_most,
    zoned,
)
from connectors.frame import check_given_columns, encode
from connectors.lifecycle import counted_twice
from connectors.logs import STDIN, kind_of_log, read_log
from connectors.reading import SEPARATORS, Reading
from connectors.role_words import Patterns, extended
from connectors.times import ZonelessError, parser
from models.errors import InputError
from models.eventlog import Column, EventLog
from models.instants import UNITS

if TYPE_CHECKING:
    import pandas as pd

_SAMPLES = 3
"""Shapes that are shown of a column."""
_NAMED = 4
"""Columns that a note names."""
_NOON = 12
_WIDE = 3
"""Columns of times beside that of the event, from which on a table may have a column for each activity."""
_SINCE = {**dict.fromkeys(UNITS, "1970-01-01 UTC"), "excel": "1899-12-30 (Excel's days)"}
"""Units that numbers of times may count, and since when."""
_PARTS = ("case", "activity", "time", "resource")
_TYPES = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    """One column, with its part of the log or its proposed role, and the reason.

    Attributes
    ----------
    name
        Name of the column.
    part
        Part of the log that it is taken for, if any.
    role
        Proposed role in `[process.attributes]`, if any.
    reason
        Why it has this part or role, or none.
    type
        Type of its values, in words.
    filled, distinct
        Number of rows with a value, and of different values.
    samples
        Shapes of some values.
    """

    name: str
    part: str | None
    role: str | None
    reason: str
    type: str
    filled: int
    distinct: int
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A flag that only a person can decide.

    Attributes
    ----------
    flag
        Name of the flag.
    choices
        Values that it may have.
    why
        Why nothing decides it.
    """

    flag: str
    choices: tuple[str, ...]
    why: str


_ZONE_OF_CLOCK = OpenQuestion("--timezone", ("ZONE",), "the times carry no zone; name that of their clock")


@dataclass(slots=True)
class Inspection:
    """All facts about a file, as `veilstream inspect --json` prints them.

    `log` is null if the file cannot be read with the flags; `problems` states why. `bad_rows` are by cause: how many,
    and the places of examples. `declared` are the flags with which a mechanism that promises epsilon reads the file.
    `activities` are the labels of the log, if somebody asks for them.
    """

    file: str
    kind: str
    bytes: int
    encoding: str | None = None
    separator: str | None = None
    header_line: int | None = None
    rows: int | None = None
    duplicates: int | None = None
    time: dict[str, Any] = field(default_factory=dict)
    columns: list[InspectedColumn] = field(default_factory=list)
    object_types: dict[str, dict[str, int]] = field(default_factory=dict)
    log: dict[str, int] | None = None
    decisions: list[OpenQuestion] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bad_rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)
    activities: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def names(self, role: str) -> list[str]:
        """Return the attributes with a proposed role, by their names in the log."""
        return [column.name.removeprefix(CASE_PREFIX) for column in self.columns if column.role == role]


def inspect(
    path: Path,
    reading: Reading,
    words: Path | None = None,
    *,
    activities: bool = False,
) -> Inspection:
    """Look at a file. InputError if it is not a log at all.

    Parameters
    ----------
    path
        The file or folder, or `-` for standard input.
    reading
        The user's statements about it.
    words
        A file of further words of column names.
    activities
        Whether the labels of activities are shown; all other values appear as shapes alone.
    """
    patterns = extended(words)
    if str(path) != STDIN:
        return _inspect_named(path, str(path), reading, patterns, activities)
    from connectors.stdin import spooled

    with spooled() as file:
        return _inspect_named(file, STDIN, reading, patterns, activities)


def _inspect_named(
    path: Path,
    name: str,
    reading: Reading,
    patterns: Patterns,
    activities: bool,
) -> Inspection:
    """Inspect a file that the user gave as `name`."""
    kind = kind_of_log(path)
    is_table = kind in (".csv", ".parquet")
    files = path.iterdir() if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file())
    facts = Inspection(name, kind.removeprefix("."), size)

    def add_note(sentence: str) -> None:
        # The table was described first, and the reader says the same of the log, with the name of the file.
        if not any(sentence.endswith(noted) for noted in facts.notes):
            facts.notes.append(sentence)

    reading = trial = replace(reading, say=add_note)
    if is_table:
        trial = _inspect_table(path, kind, reading, facts, patterns)
    elif kind == ".ocel":
        _inspect_objects(path, reading, facts)
    _add_given_flags(reading, facts, is_table=is_table)
    if kind == ".ocel" and reading.object_type is None:
        # Nothing more is known before a type is chosen.
        _add_commands(facts)
        return facts
    _try(path, trial, facts, is_table=is_table, patterns=patterns)
    # With a problem, commands would fail, or read the log in an unintended way.
    if not facts.problems:
        _add_commands(facts)
    if not activities:
        facts.activities.clear()
    facts.notes = [note.replace(str(path), name) for note in dict.fromkeys(facts.notes)]
    return facts


def _inspect_table(path: Path, kind: str, reading: Reading, facts: Inspection, patterns: Patterns) -> Reading:
    """Describe columns, parts and times of a table, and return how to read it."""
    frame = _rows(path, kind, reading, facts)
    facts.rows = len(frame)
    if not len(frame.columns):
        raise InputError(f"{path}: no column has a name")
    columns = {str(name): encode(frame[name]) for name in frame.columns}
    _note_duplicates(columns, facts)
    named_by_user = reading.columns or {}
    check_given_columns(list(columns), named_by_user, str(path))
    parts = guessing.parts(columns, named_by_user)
    _describe_columns(columns, parts, facts, patterns)
    for role in ("case", "activity", "time"):
        if role not in parts:
            why = f"no column looks like the {role}"
            facts.decisions.append(OpenQuestion("--columns", (f"{role}=COLUMN",), why))
    _report_further_times(columns, parts, facts)

    roles = list(_PARTS)
    if reading.lifecycle is not None or "lifecycle" in named_by_user:
        # Otherwise no reader needs the transitions, and their column is an attribute like the others.
        roles.append("lifecycle")
    names = {role: parts[role].column for role in roles if role in parts}
    facts.flags += _column_flag(names, list(columns), reading, facts)
    trial = replace(reading, columns={**named_by_user, **names})
    if "time" in names:
        trial = _inspect_time_column(names["time"], columns, frame, trial, facts)
    facts.declared = _declaration(facts, reading)
    return trial


def _note_duplicates(columns: Mapping[str, Column], facts: Inspection) -> None:
    """Report rows that equal an earlier one in all columns."""
    import pandas as pd

    # Codes, since some values have no hash.
    codes = {name: column.codes for name, column in columns.items()}
    facts.duplicates = int(pd.DataFrame(codes).duplicated().sum())
    if facts.duplicates:
        facts.notes.append(repeated_rows(facts.duplicates))


def _describe_columns(
    columns: Mapping[str, Column], parts: Mapping[str, guessing.Guess], facts: Inspection, patterns: Patterns
) -> None:
    """Describe each column of a table, and report doubtful case ids, activities and values."""
    case = columns[parts["case"].column] if "case" in parts else None
    if case is not None:
        facts.notes += _doubtful_ids(case)
        if guessing.in_first_rows(case):
            case = guessing.filled_down(case)
            facts.problems.append(
                f"{parts['case'].column!r} has a value in one row of each case alone, as merged cells of a spreadsheet "
                "have: write it into every row first (pandas: .ffill()), else all other events are left out"
            )
    activity = columns[parts["activity"].column] if "activity" in parts else None
    if activity is not None:
        facts.notes += doubtful_activities(activity)
    part_of_column = {guess.column: (role, guess.reason) for role, guess in parts.items()}
    is_wide = "activity" not in parts and "time" in parts
    for name, column in columns.items():
        described = _describe(name, column, part_of_column.get(name), case, activity, patterns)
        if is_wide and described.part is None and guessing.looks_like_times(column):
            described = replace(described, role=None, reason="the time of one activity?")
        facts.columns.append(described)
        if name not in part_of_column:
            facts.notes += doubtful_values(name, column)


def _inspect_time_column(
    name: str, columns: Mapping[str, Column], frame: pd.DataFrame, reading: Reading, facts: Inspection
) -> Reading:
    """Describe the times of a table, report days without a time of day, and return how to read it."""
    clocks = guessing.clocks(columns)
    if clocks and ":" not in _shapes_of(columns[name]):
        facts.problems.append(
            f"{name!r} has days and {clocks[0]!r} the time of day: join them into one column first, "
            "else the events of a day stay in the order of the file"
        )
    trial = _inspect_times(frame[name], reading, facts)
    if _have_half_a_day(columns[name]):
        facts.notes.append(
            f"{name}: all hours are from 1 to 12, and each of them occurs: this looks like a clock of 12 hours without "
            "AM and PM, with which events of the afternoon come before those of the morning; export times with 24 hours"
        )
    if not clocks and _are_days(columns[name], facts.time.get("format")):
        facts.notes.append(
            f"{name}: the times are days without a time of day: events of a case on one day stay in the order of "
            "the file, which then decides what a trace shows; export the time of day if it was recorded"
        )
    return trial


def _rows(path: Path, kind: str, reading: Reading, facts: Inspection) -> pd.DataFrame:
    if kind == ".parquet":
        from connectors import parquet

        frame, _ = parquet.read_parts(path, reading, check=False)
        return frame
    from connectors import csv

    # Bad rows are counted once, when the file is tried.
    dialects, frame, _ = csv.read_parts(path, replace(reading, bad_rows=BadRows()), check=False)
    dialect = dialects[0]
    # The suffix of Python's name only allows a byte order mark.
    facts.encoding = dialect.encoding.removesuffix("-sig")
    facts.separator = SEPARATORS.get(dialect.separator, dialect.separator)
    facts.header_line = dialect.skipped + 1
    return frame


def _orders(formats: list[str]) -> list[str]:
    """Return the orders of day, month and year that read dates of all these formats of strptime.

    A reader of one order also reads dates that begin with the year.
    """
    not_year_first = [form for form in formats if not form.startswith("%Y")]
    orders = {MONTH_FIRST if form.startswith("%m") else DAY_FIRST for form in not_year_first}
    return sorted(orders) or [YEAR_FIRST]


def _declaration(facts: Inspection, reading: Reading) -> list[str]:
    """Return the flags for all that a reader would detect from the rows of a table; none if it has no rows."""
    if not facts.rows:
        return []
    form = facts.time.get("format")
    readings = facts.time.get("readings")
    if form == "ISO 8601":
        form = ISO
    elif isinstance(form, list):
        form = "|".join(_orders(form))
    elif readings:
        form = "|".join(readings)
    elif form == "timestamp":
        form = None
    elif not form:
        form = "FORMAT"
    values = {"encoding": facts.encoding, "separator": facts.separator, "time-format": form}
    if facts.time.get("zone") is False:
        values["timezone"] = reading.timezone or "ZONE"
    return [f"--{name} {shlex.quote(value)}" for name, value in values.items() if value]


def _doubtful_ids(case: Column) -> list[str]:
    ids = [str(value) for value in case.values]
    rows_of_case = np.bincount(case.codes[case.codes >= 0], minlength=len(ids))
    return doubtful_case_ids(ids, rows_of_case)


def _shapes_of(column: Column) -> str:
    """Return the shapes of the first values, one after another."""
    return " ".join(shape(str(value)) for value in column.values[:50])


def _are_days(times: Column, form: str | list[str] | None) -> bool:
    """Return whether times are dates alone, by their format."""
    forms = [form] if isinstance(form, str) else form or []
    if any(each in UNITS for each in forms):
        return False
    if any("%" not in each for each in forms):
        # ISO 8601, an order of day and month, or timestamps: a letter or a colon belongs to the time of day.
        return not {":", "A"} & set(_shapes_of(times))
    return bool(forms) and all("%d" in each and "%H" not in each and "%I" not in each for each in forms)


def _report_further_times(
    columns: Mapping[str, Column], parts: Mapping[str, guessing.Guess], facts: Inspection
) -> None:
    """Report columns of times that the log does not use: of one event, or a column for each activity."""
    used = {part.column for part in parts.values()}
    free = {name: column for name, column in columns.items() if name not in used}
    times = [name for name, column in free.items() if guessing.looks_like_times(column)]
    named = ", ".join(map(repr, times[:_NAMED]))
    if len(times) > _NAMED:
        named += f" and {len(times) - _NAMED} more"
    if "activity" not in parts and "time" in parts and len(times) > 1:
        others = [name for name in columns if name not in times and name != parts["time"].column]
        kept = f".melt({others}, var_name='activity', value_name='time')" if len(others) <= _NAMED else ".melt"
        facts.problems.append(
            f"{1 + len(times)} columns hold times ({parts['time'].column!r}, {named}), and none looks like the "
            f"activity: if each is the time of one activity, write a row for each event first (pandas: {kept}, and "
            ".dropna(subset='time'))"
        )
    elif {"case", "activity", "time"} <= parts.keys():
        case = guessing.filled_down(columns[parts["case"].column])
        changing = [name for name in times if not guessing.constant_in(columns[name], case)]
        if len(changing) >= _WIDE:
            facts.notes.append(
                f"{1 + len(times)} columns hold times ({parts['time'].column!r}, {named}): if each is the time of one "
                "activity, case and activity above are wrong; write a row for each event first (pandas: .melt)"
            )
        elif changing:
            facts.notes.append(
                f"events are ordered by {parts['time'].column!r}, and {', '.join(map(repr, changing))} holds times as "
                "well: if that is the time to order by, name it with --columns time=..."
            )


_HOUR = re.compile(r"(?<![\d:])(\d{1,2}):\d{2}(?!\d)(?!.*[AaPp]\.?[Mm])", re.ASCII)
"""The hour of a time of day, if it is not followed by AM or PM."""


def _have_half_a_day(times: Column) -> bool:
    """Return whether times have each hour from 1 to 12 and no other, as a clock without AM and PM shows them."""
    hours = set()
    for value in times.values:
        match = _HOUR.search(str(value))
        if match is None:
            return False
        hours.add(int(match[1]))
        if not 1 <= int(match[1]) <= _NOON:
            return False
    return len(hours) == _NOON


def _describe(
    name: str,
    column: Column,
    part: tuple[str, str] | None,
    case: Column | None,
    activity: Column | None,
    patterns: Patterns,
) -> InspectedColumn:
    """Describe a column; `part` is its part of the log, with the reason."""
    role = None
    if part is None:
        role, reason = guessing.role(name, column, case, activity, patterns)
    else:
        reason = part[1]
    values = column.values
    if all(isinstance(value, str) for value in values):
        values = typed(column, decimal_comma=True).values
    types = {type(value).__name__ for value in values}
    type_name = types.pop() if len(types) == 1 else "str"
    filled = column.codes >= 0
    blank: list[int] = []
    if part is not None and part[0] == "case":
        # Readers refuse an event whose case id is nothing but blanks.
        blank = [code for code, value in enumerate(column.values) if not str(value).strip()]
        filled &= ~np.isin(column.codes, blank)
    first_codes = column.codes[:2000]
    shapes = Counter(shape(str(column.values[code])) for code in first_codes[first_codes >= 0].tolist())
    return InspectedColumn(
        name=name,
        part=None if part is None else part[0],
        role=role,
        reason=reason,
        type=_TYPES.get(type_name, type_name),
        filled=int(filled.sum()),
        distinct=len(column.values) - len(blank),
        samples=tuple(text for text, _ in shapes.most_common(_SAMPLES)),
    )


def _column_flag(
    names: Mapping[str, str],
    header: list[str],
    reading: Reading,
    facts: Inspection,
) -> list[str]:
    """Return `--columns` with the columns that no reader would recognise."""
    recognised = resolved(header, reading.columns)
    named_by_user = reading.columns or {}
    needed = {
        role: name
        for role, name in names.items()
        if getattr(recognised, role) != name or named_by_user.get(role) == name
    }
    if not needed:
        return []
    if any("," in name for name in needed.values()):
        facts.problems.append("a column's name holds a comma: name it in [process.columns] of a configuration")
    value = ",".join(f"{role}={name}" for role, name in needed.items())
    return [f"--columns {shlex.quote(value)}"]


def _add_given_flags(reading: Reading, facts: Inspection, *, is_table: bool) -> None:
    """Add the flags that the user gave, so that the commands read what was inspected.

    For a table, `--columns` is added with the guesses.
    """
    if reading.columns and not is_table:
        value = ",".join(f"{role}={name}" for role, name in reading.columns.items())
        facts.flags.append(f"--columns {shlex.quote(value)}")
    for name in ("encoding", "separator", "object_type", "timezone", "time_format", "lifecycle"):
        value = getattr(reading, name)
        if value:
            facts.flags.append(f"--{name.replace('_', '-')} {shlex.quote(value)}")
    if reading.skip_bad_rows:
        facts.flags.append("--skip-bad-rows")


def _inspect_times(series: pd.Series, reading: Reading, facts: Inspection) -> Reading:
    """Describe the time column, and return how to read it for a try."""
    import pandas as pd

    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        facts.time = {"format": "timestamp", "zone": series.dt.tz is not None}
    else:
        texts = [str(value).strip() for value in dict.fromkeys(series.dropna().tolist())]
        facts.time = _format_of_times(texts, reading, facts)
    if facts.time.get("zone") is False and reading.timezone is None:
        facts.decisions.append(
            OpenQuestion(
                "--timezone", ("ZONE",), "the times carry no zone; name the one of their clock, such as Europe/Berlin"
            )
        )
        reading = replace(reading, timezone="UTC")
    if reading.time_format is not None:
        return reading
    if facts.time.get("readings"):
        return replace(reading, time_format=facts.time["readings"][0])
    unit = facts.time["format"]
    if isinstance(unit, str) and unit in _SINCE and reading.unit is None:
        # Readers refuse numbers without a unit; a person confirms this one.
        facts.flags.append(f"--time-format {unit}")
        facts.notes.append(f"the times are numbers and look like {unit} since {_SINCE[unit]}")
        return replace(reading, time_format=unit)
    return reading


def _note_clock_changes(zone: str, repeated: int, skipped: int, facts: Inspection) -> None:
    """Report local times that the named zone has twice or not at all."""
    effects = []
    if repeated:
        effects.append(
            f"{repeated} times occur twice in {zone}, where the clocks are set back, and are read as the first of the "
            "two, so that events of a case can change their order"
        )
    if skipped:
        effects.append(
            f"{skipped} times do not exist in {zone}, where the clocks are set forward, and are read as later times, "
            "by the length of the gap"
        )
    facts.notes.append(f"{'; '.join(effects)}; export times with their offset from UTC to avoid this")


def _format_of_times(texts: list[str], reading: Reading, facts: Inspection) -> dict[str, Any]:
    """Return the format of distinct texts, and whether they have a zone, as JSON."""
    given_format = reading.time_format
    if given_format is not None:
        return {"format": given_format, "zone": zoned(given_format) or given_format in UNITS}
    if not texts:  # a header alone, or an empty column
        return {"format": None, "zone": None}
    with_zone = without_zone = 0  # of the texts in ISO 8601
    if not numbers(texts):
        with_zone, without_zone, misfits = _count_iso(texts)
        read_by_plan = _count_read_by_plan(texts) if misfits else 0
        fits_most = 2 * misfits < len(texts) and with_zone + without_zone >= read_by_plan
        if not misfits or fits_most:
            _report_mixed_zones(with_zone, without_zone, reading, facts)
            return {"format": "ISO 8601", "zone": not without_zone}
    try:
        whole_plan = plan(texts)
    except UnknownTimesError as error:
        _report_mixed_zones(with_zone, without_zone, reading, facts)
        return _format_of_most_times(texts, error, facts)
    if not whole_plan.formats:
        _report_mixed_zones(with_zone, without_zone, reading, facts)
        return {"format": whole_plan.flag, "zone": whole_plan.unit is not None}
    formats = list(dict.fromkeys(whole_plan.formats))
    with_zone = sum(zoned(form) for form in whole_plan.formats)
    without_zone = len(texts) - with_zone
    _report_mixed_zones(with_zone, without_zone, reading, facts)
    return _formats_found(formats)


def _formats_found(formats: list[str]) -> dict[str, Any]:
    """Return formats of strptime as JSON: one alone, or a list of several."""
    return {"format": formats[0] if len(formats) == 1 else formats, "zone": all(map(zoned, formats))}


def _count_read_by_plan(texts: list[str]) -> int:
    """Return how many texts the reading of most of them reads; 0 if there is none, or several."""
    try:
        most = plan_for_most(texts)
    except UnknownTimesError:
        return 0
    return 0 if most is None else len(texts) - len(most[1])


def _format_of_most_times(texts: list[str], error: UnknownTimesError, facts: Inspection) -> dict[str, Any]:
    """Return the format of most texts, for a column that no plan reads as a whole."""
    try:
        most = plan_for_most(texts)
    except UnknownTimesError as error_of_most:
        most, error = None, error_of_most
    if most is not None and 2 * len(most[1]) < len(texts):
        reading_of_most, _ = most
        formats = list(dict.fromkeys(form for form in reading_of_most.formats if form))
        if not formats:
            return {"format": reading_of_most.flag, "zone": reading_of_most.unit is not None}
        return _formats_found(formats)
    if error.readings:
        facts.decisions.append(
            OpenQuestion("--time-format", error.readings, "the dates can be read in each of these ways")
        )
        return {"format": None, "zone": False, "readings": list(error.readings)}
    return {"format": None, "zone": None}


def _report_mixed_zones(
    with_zone: int, without_zone: int, reading: Reading, facts: Inspection, noun: str = "distinct times"
) -> None:
    """Report two clocks in one column, if it has both: events of a case change order, and variants split."""
    if with_zone and without_zone and reading.timezone is None:
        facts.problems.append(
            f"mixed zones in one column: {with_zone} {noun} have a zone and {without_zone} have none; find out "
            "on which clock those without a zone were written (it may be that of the others), write the zone into the "
            "file, or name it with --timezone"
        )


def _count_iso(texts: list[str]) -> tuple[int, int, int]:
    """Return how many texts are ISO 8601 with a zone, without one, and not at all."""
    parse = parser(None)
    counts = Counter[str]()
    for text in texts:
        try:
            parse(text)
            counts["zone"] += 1
        except ZonelessError:
            counts["none"] += 1
        except ValueError:
            counts["misfit"] += 1
    return counts["zone"], counts["none"], counts["misfit"]


def _inspect_objects(path: Path, reading: Reading, facts: Inspection) -> None:
    """List the types of objects, and require one if none is given."""
    from connectors import ocel

    counts = ocel.objects_of(path).counts()
    facts.object_types = {kind: {"objects": objects, "events": events} for kind, (objects, events) in counts.items()}
    if reading.object_type is not None:
        return
    facts.decisions.append(OpenQuestion("--object-type", tuple(counts), "the objects of one type become the cases"))
    if not counts or reading.timezone is not None:
        return
    # All types share the clock of the events: the first one shows whether a zone must be named.
    try:
        read_log(path, reading=replace(reading, object_type=next(iter(counts)), say=_say_nothing))
    except InputError as error:
        if "--timezone" in str(error):
            facts.decisions.append(_ZONE_OF_CLOCK)
        else:
            facts.problems.append(str(error))


def _try(path: Path, reading: Reading, facts: Inspection, *, is_table: bool, patterns: Patterns) -> None:
    """Read the file as proposed, and describe the log or the problem."""
    # Rows that --skip-bad-rows would leave out are counted here, whether the flag is given or not.
    bad = BadRows(facts.file)
    trial = replace(reading, skip_bad_rows=True, bad_rows=bad, on_bad_rows=_write_no_file)
    if any(question.flag == "--time-format" for question in facts.decisions):
        # The trial reads by one of several formats: its notes would mislead.
        trial = replace(trial, say=_say_nothing)
    zone = reading.timezone

    def note_clock_changes(repeated: int, skipped: int) -> None:
        if zone is not None:
            _note_clock_changes(zone, repeated, skipped, facts)

    try:
        log = read_log(path, reading=replace(trial, on_clock_changes=note_clock_changes))
    except InputError as error:
        if not is_table and "--timezone" in str(error) and reading.timezone is None:
            facts.decisions.append(_ZONE_OF_CLOCK)
            facts.problems.clear()
            _try(path, replace(reading, timezone="UTC"), facts, is_table=is_table, patterns=patterns)
            return
        facts.problems.append(str(error).replace(str(path), facts.file))
        return
    bad.renamed(str(path), facts.file)
    facts.bad_rows = bad.by_cause()
    zoneless = facts.bad_rows.get(bad_rows.ZONELESS)
    if zoneless is not None and not is_table and reading.timezone is None:
        # A table was looked at before.
        _report_mixed_zones(log.n_events, zoneless["rows"], reading, facts, "times")
        facts.decisions.append(
            OpenQuestion("--timezone", ("ZONE",), "some times carry no zone; name that of their clock")
        )
        _try(path, replace(reading, timezone="UTC"), facts, is_table=is_table, patterns=patterns)
        return
    if bad and not reading.skip_bad_rows:
        facts.problems.append(
            f"{len(bad)} of {len(bad) + bad.readable} rows cannot be read: {bad.summary()}; mend them, or leave them "
            "out with --skip-bad-rows, which writes them to a file"
        )
        return
    facts.activities = sorted({str(value) for value in log.activity.values})
    facts.log = {"cases": log.n_cases, "events": log.n_events, "variants": len(set(log.traces()))}
    if not is_table:
        _describe_log(log, reading, facts, patterns)
    if reading.lifecycle is None:
        _note_lifecycle(log, facts)


def _write_no_file(_: BadRows) -> None:
    """Write no file of bad rows: an inspection reports them itself."""


def _say_nothing(_: str) -> None:
    """Report nothing."""


def _describe_log(log: EventLog, reading: Reading, facts: Inspection, patterns: Patterns) -> None:
    """Describe the columns of a log that is not a table."""
    names = ColumnNames.of(reading.columns)
    case = Column(log.case_of_event.astype(np.int32), log.case_ids)
    reason = "the name that the format gives it"
    parts = [
        (names.case, case, "case"),
        (names.activity, log.activity, "activity"),
        (names.time, Column.encode(log.time.tolist()), "time"),
        (names.resource, log.resource, "resource"),
    ]
    for name, column, part in parts:
        if not column.values:
            continue
        described = _describe(name, column, (part, reason), case, None, patterns)
        if part == "time":
            described = replace(described, type="time", samples=())
        facts.columns.append(described)
    case_of_case = Column(np.arange(log.n_cases, dtype=np.int32), log.case_ids)
    for name, column in log.case_attributes.items():
        facts.columns.append(_describe(f"{CASE_PREFIX}{name}", column, None, case_of_case, None, patterns))
    for name, column in log.event_attributes.items():
        lifecycle = ("lifecycle", "its name") if name == "lifecycle:transition" else None
        facts.columns.append(_describe(name, column, lifecycle, case, log.activity, patterns))
    facts.time = {"format": "ISO 8601"}


def _note_lifecycle(log: EventLog, facts: Inspection) -> None:
    for column in facts.columns:
        if column.part == "lifecycle" and column.name in log.event_attributes and column.distinct > 1:
            sentence = counted_twice(column.name, column.distinct)
            # The reader has reported it if the column has the name of XES.
            if not any(note.endswith(sentence) for note in facts.notes):
                facts.notes.append(sentence)


def _add_commands(facts: Inspection) -> None:
    """Add the commands to continue with.

    A value that only a person knows is in capitals, or a choice between bars.
    """
    set_flags = [flag.split(" ", 1)[0] for flag in facts.flags]
    for question in facts.decisions:
        if question.flag not in set_flags and question.flag != "--columns":
            facts.flags.append(f"{question.flag} {shlex.quote('|'.join(question.choices))}")
    sensitive = facts.names("sensitive")
    without_role = [column.name for column in facts.columns if not column.part and not column.role]
    if not sensitive and without_role:
        facts.notes.append(
            f"no column looks sensitive by its name; is there one whose value nobody may learn about a person "
            f"({', '.join(without_role[:_NAMED])})? Name it with --sensitive, else all cases of a group may share its "
            "value"
        )
    flags = list(facts.flags)
    if sensitive:
        flags.append(f"--sensitive {shlex.quote(','.join(sensitive))}")
    file = shlex.quote(facts.file)
    object_types = [question.choices for question in facts.decisions if question.flag == "--object-type"]
    if not object_types or not object_types[0]:
        arguments = " ".join([file, *flags])
        facts.commands = [f"veilstream replay {arguments} -o first", f"veilstream advise {arguments} -o proposed.toml"]
        return
    other_flags = [flag for flag in flags if not flag.startswith("--object-type")]
    facts.commands = []
    for kind in object_types[0]:
        arguments = " ".join([file, f"--object-type {shlex.quote(kind)}", *other_flags])
        facts.commands.append(f"veilstream replay {arguments} -o first-{shlex.quote(kind)}")
