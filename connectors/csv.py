"""CSV files: one row an event, a header line, packed with gzip or not.

Encoding (UTF-8, UTF-16, a Windows code page) and separator (comma, semicolon, tab, bar) are found out.
An empty field is missing. A column whose every value is written as Python writes an int, a float or a boolean
is read as such; any other column stays text (`007` stays `007`). Case, activity and resource are always text.
A text that a spreadsheet would take for a formula is written with a quote before it (`'=1+1`), and read without.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from connectors.encodings import by_head, guessed, known
from connectors.folders import joined, parts
from connectors.formulas import guarded, unguarded
from connectors.frame import Where, check_columns, check_names, flat_columns, from_frame
from connectors.headers import resolved, said
from connectors.output import clean, isodurations, isoformat, writing
from connectors.reading import SEPARATORS, Reading
from connectors.shapes import shape
from connectors.xes_stream import opened
from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog

if TYPE_CHECKING:
    import pandas as pd

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Names of files that are read as CSV; written are the first two."""

_LOOKED_AT = 25
"""Records after the header that tell the separator."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written: encoding, separator, whether a blank follows it, lines before the header, the header."""

    encoding: str
    separator: str
    blank: bool
    skipped: int
    header: tuple[str, ...]

    @property
    def named(self) -> list[str]:
        """The header without columns that have no name: the index of a data frame, or what a last separator opens."""
        return [name for name in self.header if not _nameless(name)]


def _nameless(name: str) -> bool:
    return not name.strip() or re.fullmatch(r"Unnamed: \d+(_level_\d+)?", name) is not None


def read(path: Path, reading: Reading) -> EventLog:
    """The log of a CSV file or of a folder of them; errors as `connectors.frame.from_frame`, with file and line."""
    dialects, frame, where = whole(path, reading)
    header = [str(name) for name in frame.columns]
    names = resolved(header, reading.columns)
    note = said(header, reading.columns, names)
    if note:
        reading.say(note)
    log = from_frame(frame, names, reading, str(path), where)
    decimal_comma = any(dialect.separator != "," for dialect in dialects)
    return log.with_columns(
        case={name: typed(column, decimal_comma) for name, column in log.case_attributes.items()},
        event={name: typed(column, decimal_comma) for name, column in log.event_attributes.items()},
    )


def whole(path: Path, reading: Reading, *, check: bool = True) -> tuple[list[Dialect], pd.DataFrame, Where]:
    """The dialects of the file or of the folder's files, all rows, and where each stands."""
    files = parts(path, CSV)
    found = [table(file, reading, check=check) for file in files]
    places: list[Where] = [
        lambda row, file=file, dialect=dialect: f"{file}: line {_line(file, dialect, row)}"  # type: ignore[misc]
        for file, (dialect, _) in zip(files, found, strict=True)
    ]
    frame, where = joined([rows for _, rows in found], places)
    return [dialect for dialect, _ in found], frame, where


def table(path: Path, reading: Reading, *, check: bool = True) -> tuple[Dialect, pd.DataFrame]:
    """How one file is written, and its rows as texts; InputError where it is no table, or (`check`) no log."""
    given = None if reading.encoding is None else known(reading.encoding)
    encoding = given or by_head(path)
    try:
        return _table(path, reading, encoding, check)
    except UnicodeError as error:
        if given is not None:
            raise InputError(f"{path}: not written in {given}; name another encoding with --encoding") from error
        if not encoding.startswith("utf-8"):
            raise InputError(f"{path}: not {encoding}, as its first bytes say; name it with --encoding") from error
    encoding = guessed(path)
    reading.say(f"{path}: not UTF-8, read as {encoding} (another: --encoding)")
    try:
        return _table(path, reading, encoding, check)
    except UnicodeError as error:
        raise InputError(f"{path}: not UTF-8, and not {encoding}; name its encoding with --encoding") from error


def dialect_of(path: Path, reading: Reading) -> Dialect:
    """How one file is written, by its first lines; InputError where it is no table."""
    given = None if reading.encoding is None else known(reading.encoding)
    return _dialect(path, reading, given or by_head(path))


def _table(path: Path, reading: Reading, encoding: str, check: bool) -> tuple[Dialect, pd.DataFrame]:
    import pandas as pd

    dialect = _dialect(path, reading, encoding)
    if len(dialect.named) == 1:
        raise InputError(
            f"{path}: one column ({shape(dialect.named[0])!r}); name the sign between columns with --separator"
        )
    (check_columns if check else check_names)(dialect.named, resolved(dialect.named, reading.columns), str(path))
    with _opened(path, encoding) as stream, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows wider than the header: it would cut them
        try:
            frame = pd.read_csv(
                stream,
                sep=dialect.separator,
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                index_col=False,
                skip_blank_lines=True,
                skiprows=dialect.skipped,
                skipinitialspace=dialect.blank,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            if "out of memory" in str(error):
                raise MemoryError from error
            raise InputError(f"{path}: {_wrong_width(path, dialect)}") from error
    frame.columns = pd.Index(dialect.header)
    frame = _without_nameless(frame, path, dialect, reading)
    for name in frame.columns:
        if frame[name].str.startswith("'", na=False).any():
            frame[name] = frame[name].map(unguarded, na_action="ignore")
    return dialect, frame


def _without_nameless(frame: pd.DataFrame, path: Path, dialect: Dialect, reading: Reading) -> pd.DataFrame:
    kept = [place for place, name in enumerate(dialect.header) if not _nameless(name)]
    if len(kept) == len(dialect.header):
        return frame
    if any(frame.iloc[:, place].notna().any() for place, name in enumerate(dialect.header) if _nameless(name)):
        reading.say(f"{path}: a column without a name is left out")
    return frame.iloc[:, kept].copy()


def _dialect(path: Path, reading: Reading, encoding: str) -> Dialect:
    """The dialect of the file, after a look at its first lines."""
    separator, skipped = reading.separates(), 0
    with _opened(path, encoding) as stream:
        first = stream.readline()
        while first and (not first.strip("\ufeff\r\n \t") or _SEP_LINE.fullmatch(first)):
            told = _SEP_LINE.fullmatch(first)
            separator = separator or (told[1] if told else None)
            skipped += 1
            first = stream.readline()
    if not first:
        raise InputError(f"{path}: the file is empty; the first line has to name the columns")
    if "\0" in first:
        raise InputError(f"{path}: line {skipped + 1} holds zero bytes; no text, or name its --encoding")
    separator = separator or _separator(path, reading, encoding, skipped)
    header = next(_records(path, Dialect(encoding, separator, False, skipped, ()), header=True))[1]
    header[0] = header[0].removeprefix("\ufeff")  # a mark, where an encoding was told that knows none
    blank = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    return Dialect(
        encoding, separator, blank, skipped, tuple(unguarded(name.strip() if blank else name) for name in header)
    )


_SEP_LINE = re.compile('"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""Excel's way to name the separator."""


def _separator(path: Path, reading: Reading, encoding: str, skipped: int) -> str:
    """The separator whose header names the parts of a log, else that with which most records are as wide as the
    header, else that which makes most columns."""

    def score(separator: str) -> tuple[bool, float, int]:
        dialect = Dialect(encoding, separator, False, skipped, ())
        header, *rows = [record for _, record in islice(_records(path, dialect, header=True), _LOOKED_AT)]
        names = [unguarded(name.strip()) for name in header]
        found = resolved(names, reading.columns)
        whole = {found.case, found.activity, found.time} <= set(names)
        fitting = sum(len(row) == len(header) or (len(row) == len(header) + 1 and not row[-1]) for row in rows)
        return whole, (fitting / len(rows) if rows else 1.0) * (len(header) > 1), len(header)

    return max(SEPARATORS, key=score)


def _fields_of(lines: Iterable[str], dialect: Dialect) -> Any:
    """csv's reader, for fields of any length."""
    csv.field_size_limit(2**31 - 1)
    return csv.reader(lines, delimiter=dialect.separator, skipinitialspace=dialect.blank)


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    with opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def _records(path: Path, dialect: Dialect, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The records (after the header) with the line on which each begins, blank lines left out."""
    with _opened(path, dialect.encoding) as stream:
        for _ in range(dialect.skipped):
            stream.readline()
        reader = _fields_of(stream, dialect)
        if not header:
            next(reader)
        begin = reader.line_num + 1
        for record in reader:
            if record:
                yield begin + dialect.skipped, record
            begin = reader.line_num + 1


def _line(path: Path, dialect: Dialect, row: int) -> int:
    """The line of a row, found by reading again: only errors need it."""
    for number, (line, _) in enumerate(_records(path, dialect)):
        if number == row:
            return line
    return row + 2


def _wrong_width(path: Path, dialect: Dialect) -> str:
    width = len(dialect.header)
    for line, record in _records(path, dialect):
        if len(record) > width:
            kind = SEPARATORS.get(dialect.separator, "separator")
            return (
                f"line {line} has {len(record)} fields, the header names {width}; quote fields that hold a {kind}, or "
                "name another --separator"
            )
    return "is not well-formed CSV (an open quotation?)"


def _boolean(text: str) -> bool:
    return {"True": True, "False": False}[text]


def typed(column: Column, decimal_comma: bool = False) -> Column:
    """The column with ints, floats or booleans where every text is exactly how Python writes that value; floats too
    where a decimal comma shows what they are (`1.234,50`)."""
    for kind in (int, float, _boolean):
        try:
            values: list[Any] = [kind(text) for text in column.values]
        except (ValueError, KeyError):
            continue
        # 1e999 and nan would come back as other values than they went
        if all(str(value) == text and value == value for value, text in zip(values, column.values, strict=True)):
            return Column(column.codes, tuple(values))
    if decimal_comma and _commas(column.values):
        return as_numbers(column)
    return column


_WITH_COMMA = re.compile(r"-?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})*", re.ASCII)


def _commas(texts: Sequence[str]) -> bool:
    """Whether the texts are numbers with a decimal comma, and could not be whole ones with commas between thousands."""
    return (
        any("," in text for text in texts)
        and all(_WITH_COMMA.fullmatch(text) for text in texts)
        and not all(_THOUSANDS.fullmatch(text) for text in texts)
    )


def as_numbers(column: Column) -> Column:
    """Texts with a decimal comma as floats; `1,50` and `1,5` are one value."""
    values = Column.encode(float(text.replace(".", "").replace(",", ".")) for text in column.values)
    return Column(np.append(values.codes, np.int32(MISSING))[column.codes], values.values)


def write(log: EventLog, path: Path, *, durations: bool = False) -> None:
    """Write `.csv` or `.csv.gz`: UTF-8, comma, times in UTC with zone, or (`durations`) as `P0DT1H2M3S` since 1970.

    Missing values and "" are empty fields.
    Cases without events have no row. InputError where an attribute bears a name that the table needs itself.
    """
    columns = flat_columns(log)
    ids = [guarded(clean(case)) for case in log.case_ids]
    fields = [
        [ids[case] for case in log.case_of_event.tolist()],
        _fields(log.activity),
        isodurations(log.time) if durations else isoformat(log.time),
        *(_fields(column) for column in columns.values()),
    ]
    with writing(path) as stream:
        table = csv.writer(stream, lineterminator="\r\n")  # RFC 4180; and a lone "\r" in a field is quoted only so
        table.writerow(["case:concept:name", "concept:name", "time:timestamp", *map(guarded, columns)])
        table.writerows(zip(*fields, strict=True))


def _fields(column: Column) -> list[str]:
    table = [*(_field(value) for value in column.values), ""]
    return [table[code] for code in column.codes.tolist()]


def _field(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else guarded(clean(str(value)))
