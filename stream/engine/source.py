"""A data set that an engine reads: Parquet or CSV files by name, folder, partitioned folder, pattern or fsspec URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connectors.columns import CASE_PREFIX, ColumnNames, recognised_columns, resolved
from connectors.frame import check_columns
from connectors.reading import Reading
from connectors.times import zone
from models.anonymize.sensitive import class_columns, refuse_identifying
from models.anonymize.values import written
from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog, Ints
from models.instants import INSTANTS, UNITS, in_utc
from models.knowledge import NANOSECONDS, Knowledge, Unit
from stream.engine.contract import CountQuery

# Labels, items and classes of the distinct values of a data set, by the same functions as for a log in memory.
# Engines count; this module decides the meaning of a value, on the few distinct ones.


def check_bins(count_query: CountQuery) -> None:
    """Refuse bins of an attribute that the query does not name as sensitive."""
    other_attributes = sorted(set(count_query.bins) - set(count_query.sensitive))
    if other_attributes:
        raise InputError(f"bins are given for {', '.join(other_attributes)}, which is not a sensitive attribute here")


def labels(texts: Sequence[str], count_query: CountQuery, *, resource: bool = False) -> Column:
    """Return the label of each distinct text of activities or resources, as a column over the texts.

    Parameters
    ----------
    texts
        The distinct texts.
    count_query
        The query: raw labels, or labels as releases write them.
    resource
        Whether the texts are resources.
    """
    column = Column(np.arange(len(texts), dtype=np.int32), tuple(texts))
    if not count_query.written:
        return column
    # A log of one event for each text goes through the function that writes values for releases: one rule for both.
    missing = Column(np.full(len(texts), MISSING, dtype=np.int32), ())
    if resource:
        return written(_log(len(texts), missing, column)).resource
    return written(_log(len(texts), column, missing)).activity


def attribute(
    name: str, of_case: Column | None, of_event: Column | None, cases: Ints, count_query: CountQuery
) -> Column:
    """Return the value of an attribute in each kind of case, in the form that the query needs.

    A kind is a pair: the value of the case, and the last value of its events.

    Parameters
    ----------
    name
        The attribute.
    of_case, of_event
        int32[kinds], with all distinct values of the column, also those that no case ends with; None if the data set
        has no such column.
    cases
        int64[kinds], number of cases of each kind.
    count_query
        The query: raw values, written values, or (for a sensitive attribute) classes.

    Raises
    ------
    InputError
        If the values name cases.
    """
    # A log of one event for each kind of case: values of cases and of events are merged as in a log in memory.
    kinds = len(cases)
    activity = Column(np.zeros(kinds, dtype=np.int32), ("",))
    log = _log(kinds, activity, Column(np.full(kinds, MISSING, dtype=np.int32), ()))
    log = log.with_columns(
        case={} if of_case is None else {name: of_case}, event={} if of_event is None else {name: of_event}
    )
    if not count_query.written:
        return log.case_values(name)
    bins = {name: count_query.bins[name]} if name in count_query.bins else None
    refuse_identifying(log, (name,), bins, cases)
    log = written(log, (name,))
    if name in count_query.sensitive and count_query.classes:
        return class_columns(log, (name,), bins, cases)[name]
    return log.case_values(name)


def _log(events: int, activity: Column, resource: Column) -> EventLog:
    """Return a log with one case for each event."""
    return EventLog(
        case_ids=tuple(map(str, range(events))),
        starts=np.arange(events + 1, dtype=np.int64),
        activity=activity,
        time=np.zeros(events, dtype=np.int64),
        resource=resource,
        row=np.arange(events, dtype=np.int64),
    )


def common_values(column: Column, cases: Ints, least: int) -> Column:
    """Return the classes of a released sensitive attribute, the rare ones as `other`.

    Parameters
    ----------
    column
        The class of each row of the release.
    cases
        How many cases of each row leave.
    least
        A class of fewer cases is `other`.
    """
    from stream.release.public_view import common

    # Rows of which no case leaves are not counted: their classes must not become common by them.
    leave = np.flatnonzero(cases)
    shown = common(column.take(leave), least, np.zeros(len(leave), dtype=np.int64), cases[leave])
    codes = np.full(len(column), MISSING, dtype=np.int32)
    codes[leave] = shown.codes
    return Column(codes, shown.values)


# Times as engines read them: texts of ISO 8601, and local times of a zone, minute by minute.

ISO = r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
"""Date, time, fraction and zone of a text that engines read. Only `embedded` reads other formats."""

MINUTE = NANOSECONDS["minutes"]

WHOLE_MINUTES_SINCE = 1973
"""Since this year every zone is whole minutes ahead of UTC."""


def local_minutes(minutes: Ints, name: str, place: str) -> tuple[Ints, Ints]:
    """Return the begin in UTC of minutes of local time, as the readers of a log in memory compute it.

    A local time that appears twice (when the clock is set back) is read as the first one, and one that the clock skips
    with the offset before it is set forward (`models.instants.in_utc`).

    Parameters
    ----------
    minutes
        Minutes of local time since 1970.
    name
        The zone.
    place
        The data set, for messages.

    Returns
    -------
    tuple
        The minutes in order, and their begin in UTC (ns).

    Raises
    ------
    InputError
        For times before 1973.
    """
    import pandas as pd

    minutes = np.sort(minutes.astype(np.int64))
    if name.upper() in ("UTC", "Z"):
        return minutes, minutes * MINUTE
    if len(minutes) and int(minutes[0]) * MINUTE < pd.Timestamp(WHOLE_MINUTES_SINCE, 1, 1).value:
        raise InputError(f"{place}: times before {WHOLE_MINUTES_SINCE} in {name} are read by --engine embedded only")
    local = pd.Series((minutes * MINUTE).astype("datetime64[ns]"))
    moment = in_utc(local, zone(name)).astype("datetime64[ns]").astype(np.int64)
    return minutes, moment


def units_coarser_than(T: Unit) -> list[tuple[Unit, int]]:
    """Return the units above T with their nanoseconds, finest first."""
    return [(unit, size) for unit, size in NANOSECONDS.items() if size > NANOSECONDS[T]]  # type: ignore[misc]


# Items as numbers: SQL of any engine counts these numbers, and this module maps them back to items.


def item_sql(knowledge: Knowledge, items: Mapping[str, Column], tick: str) -> str:
    """Return the SQL for the number of an item, with its relative time, activity and resource as digits.

    Codes of labels are `k` of the tables `activity_codes` and `resource_codes`; an event without a
    resource has the digit 0. Parts that the item does not have are left out.

    Parameters
    ----------
    knowledge, items
        Parts of an item, and the labels of its activities and resources.
    tick
        SQL for the relative time in units.
    """
    item = tick if knowledge.structure == "rel" else "0"
    if "activity" in items:
        item = f"({item}) * {max(len(items['activity'].values), 1)} + activity_codes.k"
    if "resource" in items:
        item = f"({item}) * {len(items['resource'].values) + 1} + coalesce(resource_codes.k, -1) + 1"
    return item


def alphabet_of(numbers: Ints, knowledge: Knowledge, items: Mapping[str, Column]) -> tuple[Any, ...]:
    """Return the items that have these numbers (`item_sql`)."""
    # The digits of `item_sql`, the last one first: resource, activity, and the remainder is the relative time.
    parts: dict[str, list[Any]] = {}
    remaining = numbers
    if "resource" in items:
        values = items["resource"].values
        parts["resource"] = [(None, *values)[code] for code in (remaining % (len(values) + 1)).tolist()]
        remaining = remaining // (len(values) + 1)
    if "activity" in items:
        values = items["activity"].values
        parts["activity"] = [values[code] for code in (remaining % max(len(values), 1)).tolist()]
        remaining = remaining // max(len(values), 1)
    parts["relative_time"] = remaining.tolist()
    columns = [parts[name] for name in knowledge.carries]
    return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))


PARQUET, CSV = ".parquet", ".csv"
_SUFFIXES = {".parquet": PARQUET, ".csv": CSV, ".csv.gz": CSV, ".tsv": CSV, ".tsv.gz": CSV}
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])")


def url_of(path: Path | str) -> str:
    """Return the path as text, with the slash that `Path` removes from a URL (`s3:/bucket/x`) restored."""
    text = str(path)
    match = _URL.match(text)
    if match is None or "://" in text[: match.end()]:
        return text
    begin = "file:///" if match[1] == "file" else f"{match[1]}://"
    return f"{begin}{text[match.end() :]}"


def is_url(text: str) -> bool:
    """Return whether the text is a URL of another place than this machine."""
    return "://" in text and not text.startswith("file://")


def located(text: str) -> tuple[Any, str]:
    """Return the file system of a path, pattern or URL, and its path there. InputError for an unknown scheme."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(text)
    except (ImportError, ValueError) as error:
        raise InputError(f"{text}: this kind of URL needs a client of fsspec that is not installed") from error
    return system, root


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files of a data set and their columns.

    Attributes
    ----------
    name
        Path or URL as it was given, for messages.
    kind, files
        Format, and the files of this format, in the order in which their rows count (by name).
    names
        Columns of case, activity, time and resource.
    types
        Arrow types by column (texts for CSV).
    partitions
        Columns in the names of folders.
    reading, dialect
        Options of reading, and the dialect of CSV files.
    """

    name: str
    kind: str
    files: tuple[str, ...]
    names: ColumnNames
    types: dict[str, Any]
    partitions: tuple[str, ...]
    reading: Reading
    dialect: Any = None

    @property
    def header(self) -> list[str]:
        """All columns, those of folders last."""
        return [*self.types, *self.partitions]

    def free(self, name: str) -> str:
        """Return a name like this that no column has, in any letters."""
        used_names = {name.casefold() for name in self.header}
        while name in used_names:
            name += "_"
        return name

    @property
    def zone(self) -> str | None:
        """The zone of times that carry none. InputError if it is unknown."""
        if self.reading.timezone is None:
            return None
        zone(self.reading.timezone)
        return self.reading.timezone

    @property
    def unit(self) -> int | None:
        """Nanoseconds of the unit of the time column; None if it holds times.

        InputError for another format, which engines do not read.
        """
        unit = self.reading.time_format or self.reading.unit
        if unit is None:
            return None
        if unit not in UNITS or not self._counts:
            raise InputError(f"{self.name}: --time-format {unit} of these times is read by --engine embedded only")
        return UNITS[unit]

    @property
    def _counts(self) -> bool:
        import pyarrow as pa

        return bool(pa.types.is_integer(self.types.get(self.names.time, pa.string())))

    def column(self, attribute: str) -> tuple[str | None, str | None]:
        """Return the columns of an attribute, of cases and of events. InputError if the data set has neither."""
        roles = {self.names.case, self.names.activity, self.names.time, self.names.resource}
        attribute_columns = [name for name in self.header if name not in roles]
        case_column, event_column = f"{CASE_PREFIX}{attribute}", attribute
        of_cases = case_column if case_column in attribute_columns else None
        of_events = event_column if event_column in attribute_columns else None
        if of_cases is None and of_events is None:
            available = sorted({name.removeprefix(CASE_PREFIX) for name in attribute_columns})
            raise InputError(f"attribute {attribute!r} is not in the log; it has {', '.join(available) or 'none'}")
        return of_cases, of_events


def clamp_microseconds() -> tuple[int, int]:
    """Return a first and a last microsecond outside the years that are read, whose nanoseconds fit into int64.

    They are two days outside, so that they stay outside when a local time is moved to UTC.
    """
    two_days = 2 * 86_400 * 1_000_000
    return INSTANTS.start // 1000 - two_days, INSTANTS.stop // 1000 + two_days


def without_unit(source: DataFiles) -> str:
    """Return the message for times that are integers without a unit."""
    return f"{source.name}: {source.names.time} is a number, which needs its unit: --time-format s, ms, us or ns"


def opened(path: Path | str, reading: Reading) -> DataFiles:
    """Return the data set at a path, pattern or URL.

    Raises
    ------
    InputError
        If it is not a data set of Parquet or CSV files, or lacks a case, activity or time.
    """
    text = url_of(path)
    system, files = _listed(text)
    kinds = {kind for kind in map(_kind, files) if kind is not None}
    if len(kinds) != 1:
        contents = "no such file, or no Parquet or CSV" if not kinds else "both Parquet and CSV files"
        raise InputError(f"{text}: {contents}; engines read Parquet or CSV files, other logs only --engine embedded")
    kind = kinds.pop()
    _refuse_patterns(files)
    partitions = _partitions(files, text)
    dialect = None
    if kind == PARQUET:
        types = _parquet_types(system, files, text)
    else:
        types, dialect = _csv_types(files, reading, text)
    header = [*types, *partitions]
    _refuse_alike(header, text)
    names = resolved(header, reading.columns)
    check_columns(header, names, text)
    note = recognised_columns(header, reading.columns, names)
    if note:
        reading.say(note)
    if is_url(text):
        scheme = text.partition("://")[0]
        files = [f"{scheme}://{file}" for file in files]
    return DataFiles(text, kind, tuple(files), names, types, partitions, reading, dialect)


def _listed(text: str) -> tuple[Any, list[str]]:
    """Return the file system, and the files by name without hidden ones."""
    system, root = located(text)
    try:
        if any(sign in root for sign in "*?["):
            files = system.glob(root)
        elif system.isdir(root):
            files = system.find(root)
        else:
            files = [root] if system.exists(root) else []
    except OSError as error:
        raise InputError(
            f"{text}: cannot be listed ({type(error).__name__}); check the address and its permissions"
        ) from error
    stem = root.rstrip("/")
    shown = [file for file in files if not _hidden(file.removeprefix(stem)) and _kind(file)]
    return system, sorted(shown)


def _refuse_patterns(files: Iterable[str]) -> None:
    """Refuse a name that an engine would read as a pattern: it would read other files, or one file twice."""
    for file in files:
        if any(sign in file for sign in "*?[{\\"):
            raise InputError(f"{file}: a name with * ? [ {{ or \\ is a pattern to an engine; rename the file")


def _refuse_alike(header: Iterable[str], text: str) -> None:
    """Refuse two columns that an engine reads as one: SQL does not distinguish upper and lower case."""
    seen: dict[str, str] = {}
    for name in header:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(
                f"{text}: columns {other!r} and {name!r} differ in letter case only; rename one, or use --engine "
                "embedded"
            )


def _hidden(inside: str) -> bool:
    return any(part.startswith((".", "_")) for part in inside.split("/") if part)


def _kind(file: str) -> str | None:
    return next((kind for suffix, kind in _SUFFIXES.items() if file.lower().endswith(suffix)), None)


def _partitions(files: Iterable[str], text: str) -> tuple[str, ...]:
    """Return the columns in the names of folders (`year=2024/`), which every file must have."""
    keys_of_files = set()
    for file in files:
        partition_folders = [folder for folder in file.split("/")[:-1] if "=" in folder]
        keys_of_files.add(tuple(folder.partition("=")[0] for folder in partition_folders))
    if len(keys_of_files) > 1:
        raise InputError(f"{text}: folders of some files have other partitions than the first; name one data set")
    return keys_of_files.pop() if keys_of_files else ()


def _parquet_types(system: Any, files: list[str], text: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types: dict[str, Any] = {}
    for place, file in enumerate(files):
        try:
            with system.open(file, "rb") as stream:
                schema = pq.ParquetFile(stream).schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{file}: not a readable Parquet file; fetch it again") from error
        if len(set(schema.names)) < len(schema.names):
            raise InputError(f"{file}: two columns have one name; rename one")
        file_types = {name: _value_type(schema.field(name).type) for name in schema.names}
        if place and file_types != types:
            raise InputError(f"{file}: other columns than the first file of {text}; write them alike")
        types = file_types
    return types


def _value_type(kind: Any) -> Any:
    """Return the type of the values of a column, also of a dictionary-coded one."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _csv_types(files: list[str], reading: Reading, text: str) -> tuple[dict[str, Any], Any]:
    """Return the columns of CSV files, all of them texts, and the dialect, which all files must share."""
    import pyarrow as pa

    from connectors.csv import dialect_of

    if is_url(text):
        raise InputError(f"{text}: CSV is read from files of this machine only; store Parquet, or fetch it")
    dialects = [dialect_of(Path(file), reading) for file in files]
    first = dialects[0]
    for file, dialect in zip(files, dialects, strict=True):
        if dialect != first:
            raise InputError(f"{file}: other format than the first file of {text}; only --engine embedded reads both")
    if not first.encoding.lower().startswith(("utf-8", "utf8", "ascii")) or first.blank:
        raise InputError(f"{text}: written in {first.encoding}, or with blanks; only --engine embedded reads it")
    if first.named != list(first.header):
        raise InputError(f"{text}: a column has no name; only --engine embedded reads it")
    return {name: pa.string() for name in first.header}, first
