"""CSV files: one row an event, a header line, UTF-8, comma, semicolon or tab, packed with gzip or not.

An empty field is missing. A column whose every value is written as Python writes an int, a float or a boolean
is read as such; any other column stays text (`007` stays `007`). Case, activity and resource are always text.
A text that a spreadsheet would take for a formula is written with a quote before it (`'=1+1`), and read without.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from connectors.columns import Names
from connectors.formulas import guarded, unguarded
from connectors.frame import check_columns, flat_columns, from_frame
from connectors.output import clean, isoformat, writing
from connectors.xes_stream import opened
from models.errors import InputError
from models.eventlog import Column, EventLog

_SEPARATORS = ",;\t"


def read(
    path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None, *, unit: str | None = None
) -> EventLog:
    """The log of a CSV file; errors as `connectors.frame.from_frame`, with file and line."""
    import pandas as pd

    names = Names.of(columns)
    separator = _check_header(path, names)
    with _opened(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows wider than the header: it would cut them
        try:
            frame = pd.read_csv(
                stream,
                sep=separator,
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                index_col=False,
                skip_blank_lines=True,
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            if "out of memory" in str(error):
                raise MemoryError from error
            raise InputError(f"{path}: {_wrong_width(path, separator)}") from error
    frame.columns = [unguarded(str(name)) for name in frame.columns]
    for name in frame.columns:
        if frame[name].str.startswith("'", na=False).any():
            frame[name] = frame[name].map(unguarded, na_action="ignore")
    log = from_frame(frame, names, timezone, unit, str(path), lambda row: f"{path}: line {_line(path, separator, row)}")
    return log.with_columns(
        case={name: typed(column) for name, column in log.case_attributes.items()},
        event={name: typed(column) for name, column in log.event_attributes.items()},
    )


def _check_header(path: Path, names: Names) -> str:
    """The separator of the file, after a look at its header."""
    with _opened(path) as stream:
        first = stream.readline()
    if not first.strip():
        raise InputError(f"{path}: the file is empty; the first line has to name the columns")
    separator = max(_SEPARATORS, key=first.count)
    check_columns([unguarded(name) for name in next(_fields_of([first], separator))], names, str(path))
    return separator


def _fields_of(lines: Iterable[str], separator: str) -> Any:
    """csv's reader, for fields of any length."""
    csv.field_size_limit(2**31 - 1)
    return csv.reader(lines, delimiter=separator)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    with opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8; convert it first") from error


def _records(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records after the header with the line on which each begins, blank lines left out."""
    with _opened(path) as stream:
        reader = _fields_of(stream, separator)
        next(reader)
        begin = reader.line_num + 1
        for record in reader:
            if record:
                yield begin, record
            begin = reader.line_num + 1


def _line(path: Path, separator: str, row: int) -> int:
    """The line of a row, found by reading again: only errors need it."""
    for number, (line, _) in enumerate(_records(path, separator)):
        if number == row:
            return line
    return row + 2


def _wrong_width(path: Path, separator: str) -> str:
    with _opened(path) as stream:
        width = len(next(_fields_of(stream, separator)))
    for line, record in _records(path, separator):
        if len(record) > width:
            return f"line {line} has {len(record)} fields, the header names {width}"
    return "is not well-formed CSV (an open quotation?)"


def _boolean(text: str) -> bool:
    return {"True": True, "False": False}[text]


def typed(column: Column) -> Column:
    """The column with ints, floats or booleans where every text is exactly how Python writes that value."""
    for kind in (int, float, _boolean):
        try:
            values: list[Any] = [kind(text) for text in column.values]
        except (ValueError, KeyError):
            continue
        # 1e999 and nan would come back as other values than they went
        if all(str(value) == text and value == value for value, text in zip(values, column.values, strict=True)):
            return Column(column.codes, tuple(values))
    return column


def write(log: EventLog, path: Path) -> None:
    """Write `.csv` or `.csv.gz`: UTF-8, comma, times in UTC with zone; missing values and "" are empty fields.

    Cases without events have no row. InputError where an attribute bears a name that the table needs itself.
    """
    columns = flat_columns(log)
    ids = [guarded(clean(case)) for case in log.case_ids]
    fields = [
        [ids[case] for case in log.case_of_event.tolist()],
        _fields(log.activity),
        isoformat(log.time),
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
