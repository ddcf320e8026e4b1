"""What a log file is, as far as it can be told by looking: `veilstream inspect`.

The guesses are tried on the file itself, so that flags which are proposed are flags that read it. Values are shown as
shapes alone.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors import guessing
from connectors.bad_rows import BadRows
from connectors.columns import CASE_PREFIX, ColumnNames, resolved, shape, typed
from connectors.dates import ISO, ORDERS, UnknownTimesError, numbers, plan, plan_for_most, zoned
from connectors.frame import encode
from connectors.logs import STDIN, kind_of_log, read_log
from connectors.reading import SEPARATORS, Reading
from connectors.role_words import Patterns, extended
from connectors.times import ZonelessError, parser
from models.errors import InputError
from models.eventlog import Column, EventLog

if TYPE_CHECKING:
    import pandas as pd

_SAMPLES = 3
_NAMED = 4
"""Columns of a note."""
COUNTS = {**dict.fromkeys(("s", "ms", "us", "ns"), "1970-01-01 UTC"), "excel": "1899-12-30 (Excel's days)"}
"""What numbers may count as times, and since when."""
PARTS = ("case", "activity", "time", "resource")


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    """One column, with its part of the log or its proposed role, and the reason."""

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
    """A flag that only a person can decide."""

    flag: str
    choices: tuple[str, ...]
    why: str


@dataclass(slots=True)
class Inspection:
    """All facts about a file.

    `log` is null if the file cannot be read with the flags; `problems` states why.
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
    """Rows that cannot be read, by cause: how many, and the places of examples."""
    declared: list[str] = field(default_factory=list)
    """The flags with which a mechanism that promises epsilon reads the file: each row by itself."""
    flags: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def names(self, role: str) -> list[str]:
        """Return the attributes with a proposed role, by their names in the log."""
        return [one.name.removeprefix(CASE_PREFIX) for one in self.columns if one.role == role]


def inspect(path: Path, reading: Reading, words: Path | None = None) -> Inspection:
    """Look at a file. InputError if it is no log at all.

    Parameters
    ----------
    path
        The file or folder, or `-` for standard input.
    reading
        The user's statements about it.
    words
        A file of further words of column names.
    """
    if str(path) == STDIN:
        from connectors.stdin import spooled

        with spooled() as file:
            return inspect_named(file, STDIN, reading, words)
    return inspect_named(path, str(path), reading, words)


def inspect_named(path: Path, name: str, reading: Reading, words: Path | None = None) -> Inspection:
    """Look at a file that the user knows by `name`."""
    patterns = extended(words)
    kind = kind_of_log(path)
    size = sum(one.stat().st_size for one in (path.iterdir() if path.is_dir() else [path]) if one.is_file())
    found = Inspection(name, kind.removeprefix("."), size)
    how = replace(reading, say=found.notes.append)
    if kind in (".csv", ".parquet"):
        how = _flat(path, kind, how, found, patterns)
    elif kind == ".ocel" and _ocel(path, how, found):
        return found
    _tried(path, how, found, flat=kind in (".csv", ".parquet"), patterns=patterns)
    if found.problems:
        found.commands = []  # they would fail, or read the log otherwise than meant
    else:
        _commands(found)
    found.notes = [note.replace(str(path), name) for note in dict.fromkeys(found.notes)]
    return found


def _flat(path: Path, kind: str, reading: Reading, found: Inspection, patterns: Patterns) -> Reading:
    """Describe columns, parts and times of a table, and return how to read it."""
    if kind == ".csv":
        from connectors import csv

        # Bad rows are counted once, when the file is tried.
        dialects, frame, _ = csv.whole(path, replace(reading, bad_rows=BadRows()), check=False)
        found.encoding = dialects[0].encoding.removesuffix("-sig")  # which only allows a byte order mark
        found.separator = SEPARATORS.get(dialects[0].separator, dialects[0].separator)
        found.header_line = dialects[0].skipped + 1
    else:
        from connectors import parquet

        frame, _ = parquet.whole(path, reading, check=False)
    found.rows = len(frame)
    found.duplicates = _duplicates(frame)
    if found.duplicates:
        found.notes.append(
            f"{found.duplicates} rows are exact copies of an earlier row, and each counts as an event: if an export "
            "repeats rows, remove them first (pandas: drop_duplicates); if an activity can happen twice at one moment, "
            "keep them"
        )
    if not len(frame.columns):
        raise InputError(f"{path}: no column has a name")
    columns = {str(name): encode(frame[name]) for name in frame.columns}
    parts = guessing.parts(columns, reading.columns or {})
    part_of = {guess.column: (role, guess.reason) for role, guess in parts.items()}
    case = columns[parts["case"].column] if "case" in parts else None
    activity = columns[parts["activity"].column] if "activity" in parts else None
    for name, column in columns.items():
        found.columns.append(_attribute(name, column, part_of.get(name), case, activity, patterns))
    for role in ("case", "activity", "time"):
        if role not in parts:
            found.decisions.append(OpenQuestion("--columns", (f"{role}=COLUMN",), f"no column looks like the {role}"))
    names = {role: parts[role].column for role in PARTS if role in parts}
    known = resolved(list(columns), reading.columns)
    found.flags += _column_flag(names, known, list(columns), reading, found)
    how = replace(reading, columns={**(reading.columns or {}), **names})
    if "time" in parts and (clocks := guessing.clocks(columns)) and ":" not in shapes_of(columns[parts["time"].column]):
        found.problems.append(
            f"{parts['time'].column!r} has days and {clocks[0]!r} the time of day: join them into one column first, "
            "else the events of a day stand in the order of the file"
        )
    if "time" in parts:
        how = _times(frame[parts["time"].column], how, found)
    _flags_told(reading, found)
    found.declared = _declaration(found, reading)
    return how


def _declaration(found: Inspection, reading: Reading) -> list[str]:
    """Return the flags for everything that a reader would detect from the rows of a table."""
    told: dict[str, str | None] = {"encoding": found.encoding, "separator": found.separator}
    form = found.time.get("format")
    if form == "ISO 8601":
        form = ISO
    elif isinstance(form, list) or found.time.get("readings"):
        form = "|".join(found.time.get("readings") or ORDERS)
    told["time-format"] = None if form == "timestamp" else form or "FORMAT"
    if found.time.get("zone") is False:
        told["timezone"] = reading.timezone or "ZONE"
    return [f"--{name} {shlex.quote(value)}" for name, value in told.items() if value]


def _duplicates(frame: pd.DataFrame) -> int:
    """Return the number of rows that equal an earlier one in all columns."""
    codes = {name: encode(frame[name]).codes for name in frame.columns}  # also for values that have no hash
    import pandas as pd

    return int(pd.DataFrame(codes).duplicated().sum())


def shapes_of(column: Column) -> str:
    """Return the shapes of the first values, one after another."""
    return " ".join(shape(str(value)) for value in column.values[:50])


def _attribute(
    name: str,
    column: Column,
    part: tuple[str, str] | None,
    case: Column | None,
    activity: Column | None,
    patterns: Patterns,
) -> InspectedColumn:
    role, reason = (None, part[1]) if part else guessing.role(name, column, case, activity, patterns)
    texts = all(isinstance(value, str) for value in column.values)
    values = typed(column, decimal_comma=True).values if texts else column.values
    kinds = {type(value).__name__ for value in values}
    shapes = Counter(shape(str(column.values[code])) for code in column.codes[:2000].tolist() if code >= 0)
    samples = tuple(text for text, _ in shapes.most_common(_SAMPLES))
    kind = kinds.pop() if len(kinds) == 1 else "str"
    return InspectedColumn(
        name,
        part[0] if part else None,
        role,
        reason,
        {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}.get(kind, kind),
        int((column.codes >= 0).sum()),
        len(column.values),
        samples,
    )


def _column_flag(
    names: Mapping[str, str], known: ColumnNames, header: list[str], reading: Reading, found: Inspection
) -> list[str]:
    """Return `--columns` with the columns that no reader would recognise."""
    needed = {
        role: name
        for role, name in names.items()
        if getattr(known, role) != name or (reading.columns or {}).get(role) == name
    }
    if not needed:
        return []
    if not guessing.same_name(list(needed.values())):
        found.problems.append("a column's name holds a comma: name it in [process.columns] of a configuration")
    told = ",".join(f"{role}={name}" for role, name in needed.items())
    return [f"--columns {shlex.quote(told)}"]


def _flags_told(reading: Reading, found: Inspection) -> None:
    for name in ("encoding", "separator", "object_type", "timezone", "time_format"):
        value = getattr(reading, name)
        if value:
            found.flags.append(f"--{name.replace('_', '-')} {shlex.quote(value)}")
    if reading.skip_bad_rows:
        found.flags.append("--skip-bad-rows")


def _times(series: pd.Series[Any], reading: Reading, found: Inspection) -> Reading:
    """Describe the time column, and return how to read it for a try."""
    import pandas as pd

    if isinstance(series.dtype, pd.DatetimeTZDtype) or pd.api.types.is_datetime64_any_dtype(series):
        found.time = {"format": "timestamp", "zone": series.dt.tz is not None}
    else:
        texts = [str(value).strip() for value in dict.fromkeys(series.dropna().tolist())]
        found.time = _kind_of_times(texts, reading, found)
    if found.time.get("zone") is False and reading.timezone is None:
        found.decisions.append(
            OpenQuestion(
                "--timezone", ("ZONE",), "the times carry no zone; name the one of their clock, such as Europe/Berlin"
            )
        )
        reading = replace(reading, timezone="UTC")
    if found.time.get("readings") and reading.time_format is None:
        reading = replace(reading, time_format=found.time["readings"][0])
    unit = found.time["format"]
    counts = isinstance(unit, str) and unit in COUNTS
    if counts and reading.time_format is None and reading.unit is None:
        # Readers refuse numbers without a unit; a person confirms this one.
        found.flags.append(f"--time-format {unit}")
        found.notes.append(f"the times are numbers and look like {unit} since {COUNTS[unit]}")
        reading = replace(reading, time_format=unit)
    return reading


def _kind_of_times(texts: list[str], reading: Reading, found: Inspection) -> dict[str, Any]:
    told = reading.time_format
    if told is not None:
        return {"format": told, "zone": zoned(told) or told in ("s", "ms", "us", "ns")}
    if not numbers(texts):
        with_zone, without, misfits = _iso_zones(texts)
        if with_zone and without:
            _mixed_zones(with_zone, without, reading, found)
        if not misfits:
            return {"format": "ISO 8601", "zone": not without}
        most = plan_for_most(texts)
        read_by_plan = 0 if most is None else len(texts) - len(most[1])
        if 2 * misfits < len(texts) and with_zone + without >= read_by_plan:
            return {"format": "ISO 8601", "zone": not without}
    try:
        made = plan(texts)
    except UnknownTimesError as error:
        most = plan_for_most(texts)
        if most is not None and 2 * len(most[1]) < len(texts):
            forms = list(dict.fromkeys(form for form in most[0].formats if form))
            if forms:
                return {"format": forms[0] if len(forms) == 1 else forms, "zone": all(map(zoned, forms))}
            return {"format": most[0].flag, "zone": most[0].unit is not None}
        if error.readings:
            found.decisions.append(
                OpenQuestion("--time-format", error.readings, "the dates can be read in each of these ways")
            )
            return {"format": None, "zone": False, "readings": list(error.readings)}
        return {"format": None, "zone": None}
    if made.formats:
        kinds = list(dict.fromkeys(made.formats))
        of_zone = sum(zoned(form) for form in made.formats)
        if 0 < of_zone < len(made.formats):
            _mixed_zones(of_zone, len(made.formats) - of_zone, reading, found)
        return {"format": kinds[0] if len(kinds) == 1 else kinds, "zone": all(zoned(form) for form in kinds)}
    return {"format": made.flag, "zone": made.unit is not None}


def _mixed_zones(with_zone: int, without: int, reading: Reading, found: Inspection) -> None:
    """Report two clocks in one column: events of a case change their order, and variants split."""
    if reading.timezone is None:
        found.problems.append(
            f"mixed zones in one column: {with_zone} distinct times have a zone and {without} have none; find out on "
            "which clock those without a zone were written (it may be that of the others), write the zone into the "
            "file, or name it with --timezone"
        )


def _iso_zones(texts: list[str]) -> tuple[int, int, int]:
    """How many texts are ISO 8601 with a zone, without one, and not at all."""
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


def _ocel(path: Path, reading: Reading, found: Inspection) -> bool:
    """List the object types. Return whether one has to be chosen before anything more is known."""
    from connectors import ocel

    counts = ocel.objects_of(path).counts()
    found.object_types = {name: {"objects": things, "events": events} for name, (things, events) in counts.items()}
    if reading.object_type is not None:
        _flags_told(reading, found)
        return False
    found.decisions.append(OpenQuestion("--object-type", tuple(counts), "the objects of one type become the cases"))
    _commands(found)
    return True


def _tried(path: Path, reading: Reading, found: Inspection, *, flat: bool, patterns: Patterns) -> None:
    """Read the file as proposed, and describe the log or the problem."""
    open_ = any(decision.flag == "--time-format" for decision in found.decisions)
    # What --skip-bad-rows would leave out is counted here, whether the flag is given or not.
    bad = BadRows(found.file)
    how = replace(reading, skip_bad_rows=True, bad_rows=bad, on_bad_rows=_counted)
    try:
        log = read_log(path, reading=replace(how, say=_unsaid) if open_ else how)
    except InputError as error:
        found.problems.append(str(error).replace(str(path), found.file))
        if not flat and "--timezone" in str(error) and reading.timezone is None:
            found.decisions.append(
                OpenQuestion("--timezone", ("ZONE",), "the times carry no zone; name that of their clock")
            )
            found.problems.clear()
            _tried(path, replace(reading, timezone="UTC"), found, flat=flat, patterns=patterns)
        return
    bad.renamed(str(path), found.file)
    found.bad_rows = bad.by_cause()
    if bad and not reading.skip_bad_rows:
        found.problems.append(
            f"{len(bad)} of {len(bad) + log.n_events} rows cannot be read: {bad.summary()}; mend them, or leave them "
            "out with --skip-bad-rows, which writes them to a file"
        )
        return
    found.log = {"cases": log.n_cases, "events": log.n_events, "variants": len(set(log.traces()))}
    if not flat:
        _of_log(log, reading, found, patterns)
    _lifecycle(log, found)


def _counted(_: BadRows) -> None:
    """Write no file of bad rows: an inspection reports them itself."""


def _unsaid(_: str) -> None:
    """Report nothing: this is a try by one of several readings."""


def _of_log(log: EventLog, reading: Reading, found: Inspection, patterns: Patterns) -> None:
    """Describe the columns of a log that is no table."""
    names = ColumnNames.of(reading.columns)
    case = Column(log.case_of_event.astype(np.int32), log.case_ids)
    ordinary = "the name that the format gives it"
    shown = [
        (names.case, case, "case"),
        (names.activity, log.activity, "activity"),
        (names.time, Column.encode(log.time.tolist()), "time"),
        (names.resource, log.resource, "resource"),
    ]
    for name, column, part in shown:
        if column.values:
            one = _attribute(name, column, (part, ordinary), case, None, patterns)
            found.columns.append(replace(one, type="time", samples=()) if part == "time" else one)
    own = Column(np.arange(log.n_cases, dtype=np.int32), log.case_ids)
    for name, column in log.case_attributes.items():
        found.columns.append(_attribute(f"{CASE_PREFIX}{name}", column, None, own, None, patterns))
    for name, column in log.event_attributes.items():
        known = ("lifecycle", "its name") if name == "lifecycle:transition" else None
        found.columns.append(_attribute(name, column, known, case, log.activity, patterns))
    found.time = {"format": "ISO 8601"}


def _lifecycle(log: EventLog, found: Inspection) -> None:
    for one in found.columns:
        if one.part == "lifecycle" and one.name in log.event_attributes and one.distinct > 1:
            found.notes.append(
                f"{one.name} has {one.distinct} values: each start and each complete is an event of its own, so that "
                "activities count more than once; --lifecycle complete keeps one of them if that is not meant"
            )


def _commands(found: Inspection) -> None:
    """List the commands to continue with.

    A value that only a person knows is in capitals, or a choice between bars.
    """
    told = [flag.split(" ", 1)[0] for flag in found.flags]
    for decision in found.decisions:
        if decision.flag not in told and decision.flag != "--columns":
            found.flags.append(f"{decision.flag} {shlex.quote('|'.join(decision.choices))}")
    sensitive = found.names("sensitive")
    if not sensitive and (others := [one.name for one in found.columns if not one.part and not one.role]):
        found.notes.append(
            f"no column looks sensitive by its name; is there one whose value nobody may learn about a person "
            f"({', '.join(others[:_NAMED])})? Name it with --sensitive, else all cases of a group may share its value"
        )
    flags = [*found.flags, *([f"--sensitive {shlex.quote(','.join(sensitive))}"] if sensitive else [])]
    words = " ".join([shlex.quote(found.file), *flags])
    found.commands = [f"veilstream replay {words} -o first", f"veilstream advise {words} -o proposed.toml"]
    types = [decision.choices for decision in found.decisions if decision.flag == "--object-type"]
    if types and len(types[0]) > 0:
        others = [flag for flag in flags if not flag.startswith("--object-type")]
        found.commands = []
        for kind in types[0]:
            line = " ".join([shlex.quote(found.file), f"--object-type {shlex.quote(kind)}", *others])
            found.commands.append(f"veilstream replay {line} -o first-{shlex.quote(kind)}")
