"""CSV files: one row an event, a header line, packed with gzip or not.

Encoding (UTF-8, UTF-16, a Windows code page) and separator (comma, semicolon, tab, bar) are found out.
An empty field is missing. A column whose every value is written as Python writes an int, a float or a boolean
is read as such; any other column stays text (`007` stays `007`). Case, activity and resource are always text.
A text that a spreadsheet would take for a formula is written with a quote before it (`'=1+1`), and read without.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from connectors.bad_rows import BYTES, FIELDS, QUOTES, BadRows
from connectors.columns import resolved, said, shape
from connectors.folders import joined, parts
from connectors.formulas import guarded, unguarded
from connectors.frame import Where, check_columns, check_names, flat_columns, from_frame
from connectors.output import clean, isodurations, isoformat, writing
from connectors.reading import SEPARATORS, Reading, UndeclaredError
from connectors.xes_stream import opened
from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog

if TYPE_CHECKING:
    import pandas as pd


# In which encoding a text file is written: byte order mark, UTF-8, else the likeliest of the usual ones.
#
# The libraries' guess between code pages that differ in a few letters is a toss-up (a French export is
# taken for Cyrillic), so Windows' western code page stands until another one is clearly better.

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_USUAL = ("cp1252", "cp1251", "cp1253", "cp932", "gb18030", "big5", "euc_kr")
_HEAD = 4096
_SAMPLE = 1 << 16
"""Bytes of lines with letters beyond ASCII that are shown to the detector."""


def known(name: str) -> str:
    """The codec's own name; InputError when Python has no such encoding of text."""
    try:
        b"x".decode(name, "ignore")
        return codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise InputError(f"--encoding {name}: no encoding of this name; use utf-8, cp1252, utf-16 ...") from None


def by_head(path: Path) -> str:
    """The encoding that the first bytes tell: a byte order mark, or the zero bytes of UTF-16; else UTF-8."""
    with opened(path) as stream:
        head = stream.read(_HEAD)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    pairs = len(head) // 2
    if pairs and head[1 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-le"
    if pairs and head[0 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-be"
    return "utf-8-sig"


def guessed(path: Path) -> str:
    """The likeliest encoding of a file that is not UTF-8."""
    from charset_normalizer import from_bytes

    sample, size = [], 0
    with opened(path) as stream:
        while size < _SAMPLE and (line := stream.readline(_SAMPLE)):
            if not line.isascii():
                sample.append(line)
                size += len(line)
    text = b"".join(sample)
    matches = from_bytes(text, cp_isolation=list(_USUAL))
    best = matches.best()
    if best is not None and "cp1252" not in best.could_be_from_charset:
        western = next((match for match in matches if match.encoding == "cp1252"), None)
        if western is None or (best.coherence > western.coherence and best.chaos <= western.chaos):
            return str(best.encoding)
    try:
        text.decode("cp1252")
    except UnicodeDecodeError:  # five bytes mean nothing in it
        return "latin-1"
    return "cp1252"


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
    errors: str = "strict"
    """Of decoding: `surrogateescape` keeps bytes that are not of the encoding, so that their rows can be found."""

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
        _places(file, dialect, lines) for file, (dialect, _, lines) in zip(files, found, strict=True)
    ]
    frame, where = joined([rows for _, rows, _ in found], places)
    return [dialect for dialect, _, _ in found], frame, where


def _places(path: Path, dialect: Dialect, lines: Sequence[int] | None) -> Where:
    """Where each row of a file is. Without `lines` the file is read once more when the first row is asked for."""
    known: list[Sequence[int]] = [] if lines is None else [lines]

    def where(row: int) -> str:
        if not known:
            known.append(array("q", (line for line, _ in _records(path, dialect))))
        line = known[0][row] if row < len(known[0]) else row + 2
        return f"{path}: line {line}"

    return where


def table(path: Path, reading: Reading, *, check: bool = True) -> tuple[Dialect, pd.DataFrame, Sequence[int] | None]:
    """How one file is written, its rows as texts, and their lines where rows were left out.

    InputError where it is no table, or (`check`) no log.
    """
    given = None if reading.encoding is None else known(reading.encoding)
    if reading.declared:
        return _by_line(path, reading, _declared_encoding(path, reading, given), check)
    encoding = given or by_head(path)
    try:
        return _table(path, reading, encoding, check)
    except UnicodeError as error:
        if given is not None:
            dialect = _dialect(path, reading, encoding, "surrogateescape")
            return _row_by_row(path, reading, dialect, check)
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


def _table(
    path: Path, reading: Reading, encoding: str, check: bool
) -> tuple[Dialect, pd.DataFrame, Sequence[int] | None]:
    import pandas as pd

    dialect = _dialect(path, reading, encoding)
    _check_header(path, reading, dialect, check)
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
            return _row_by_row(path, reading, dialect, check)
    if _swallows_rows(frame):
        return _row_by_row(path, reading, dialect, check)
    frame.columns = pd.Index(dialect.header)
    return dialect, _cleaned(frame, path, dialect, reading), None


def _swallows_rows(frame: pd.DataFrame) -> bool:
    """Whether a record holds a line break and may be too short: an open quotation takes the rows behind it in."""
    short = frame[frame.iloc[:, -1].isna()]
    return any(bool(short[name].str.contains("\n", regex=False, na=False).any()) for name in short.columns[:-1])


def _check_header(path: Path, reading: Reading, dialect: Dialect, check: bool) -> None:
    if len(dialect.named) == 1:
        raise InputError(
            f"{path}: one column ({shape(dialect.named[0])!r}); name the sign between columns with --separator"
        )
    (check_columns if check else check_names)(dialect.named, resolved(dialect.named, reading.columns), str(path))


def _cleaned(frame: pd.DataFrame, path: Path, dialect: Dialect, reading: Reading) -> pd.DataFrame:
    """The table without columns that have no name, and without the guard of formulas."""
    frame = _without_nameless(frame, path, dialect, reading)
    for name in frame.columns:
        if frame[name].str.startswith("'", na=False).any():
            frame[name] = frame[name].map(unguarded, na_action="ignore")
    return frame


def _row_by_row(
    path: Path, reading: Reading, dialect: Dialect, check: bool
) -> tuple[Dialect, pd.DataFrame, Sequence[int]]:
    """The table of the rows that can be read. A file in which pandas finds one that cannot be is read so."""
    with _opened(path, dialect.encoding, errors="surrogateescape") as stream:
        lines = list(stream)
    if any(_has_bad_bytes(text) for text in dialect.header):
        raise InputError(f"{path}: not written in {dialect.encoding}; name another encoding with --encoding")
    _check_header(path, reading, dialect, check)
    return _rows_of(path, reading, dialect, lines, one_line=False)


def _by_line(path: Path, reading: Reading, encoding: str, check: bool) -> tuple[Dialect, pd.DataFrame, Sequence[int]]:
    """The table, each line by itself: no bytes of a line decide how another one is read.

    So a field cannot hold a line break here: a quotation mark that one row leaves open would take the rows behind it.
    """
    with opened(path) as stream:
        parts_ = stream.read().removeprefix(codecs.BOM_UTF8).split(b"\n")
    lines = [part.decode(encoding, "surrogateescape") for part in parts_]
    dialect = _dialect(path, reading, encoding, "surrogateescape")
    if any(_has_bad_bytes(text) for text in dialect.header):
        raise InputError(f"{path}: line {dialect.skipped + 1}: the header is not written in {encoding} (--encoding)")
    _check_header(path, reading, dialect, check)
    return _rows_of(path, reading, dialect, lines, one_line=True)


def _declared_encoding(path: Path, reading: Reading, encoding: str | None) -> str:
    """The encoding of a log whose rows are read each by itself. InputError where it is not declared, or where a byte of
    one row could shift the letters of the next."""
    missing = [f"--{name}" for name in ("encoding", "separator") if getattr(reading, name) is None]
    if reading.time_format is None and reading.unit is None:
        missing.append("--time-format")
    if encoding is None or missing:
        raise UndeclaredError(str(path), missing)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    if "a,\n".encode(encoding) != b"a,\n":
        raise InputError(
            f"{path}: in {encoding} a byte of one row can shift all that follow; convert the file to UTF-8 for a "
            "mechanism that promises epsilon"
        )
    return encoding


def _has_bad_bytes(text: str) -> bool:
    """Whether the text has bytes that are not of its encoding (`surrogateescape` keeps them as lone surrogates)."""
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)


def _rows_of(
    path: Path, reading: Reading, dialect: Dialect, lines: Sequence[str], *, one_line: bool
) -> tuple[Dialect, pd.DataFrame, Sequence[int]]:
    """The rows that are rows, with the line on which each begins; the others are counted as bad.

    A record of several lines that is no row is bad in its first line only: the next line may begin a sound one.
    """
    import pandas as pd

    bad = BadRows(str(path)) if reading.bad_rows is None else reading.bad_rows
    width = len(dialect.header)
    at = dialect.skipped + _lines_of_header(lines, dialect)
    rows: list[list[str | None]] = []
    numbers = array("q")
    while at < len(lines):
        if not lines[at].strip("\r\n"):
            at += 1
            continue
        record, used = _record_at(lines, at, dialect, one_line=one_line)
        cause = None if record is not None else QUOTES
        if record is not None and len(record) == width + 1 and not record[-1]:
            record.pop()  # lines that end in one more separator
        if record is not None and len(record) > width:
            cause = FIELDS
        if any(_has_bad_bytes(line) for line in lines[at : at + used]):
            cause = BYTES
        if cause is not None or record is None:
            reason = _why_no_row(cause or QUOTES, record, dialect)
            bad.add(
                cause or QUOTES,
                lambda at=at: f"{path}: line {at + 1}",  # type: ignore[misc]
                lambda at=at: lines[at].rstrip("\r\n"),  # type: ignore[misc]
                lambda reason=reason: reason,  # type: ignore[misc]
            )
            at += 1
            continue
        fields: list[str | None] = [text or None for text in record]
        rows.append(fields + [None] * (width - len(fields)))
        numbers.append(at + 1)
        at += used
    if bad and not rows:
        raise bad.refused(len(bad))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in dialect.header]
    frame = pd.concat([pd.Series(column, dtype=object) for column in columns], axis=1)
    frame.columns = pd.Index(dialect.header)
    return dialect, _cleaned(frame, path, dialect, reading), numbers


def _why_no_row(cause: str, record: Sequence[str] | None, dialect: Dialect) -> str:
    """What is wrong with a line, and what to do, as it goes on from its number."""
    if cause == FIELDS and record is not None:
        kind = SEPARATORS.get(dialect.separator, "separator")
        return (
            f" has {len(record)} fields, the header names {len(dialect.header)}; quote fields that hold a {kind}, or "
            "name another --separator"
        )
    if cause == BYTES:
        return f" is not written in {dialect.encoding}; name another encoding with --encoding"
    return " is not well-formed CSV (an open quotation?)"


def _lines_of_header(lines: Sequence[str], dialect: Dialect) -> int:
    reader = _fields_of(islice(lines, dialect.skipped, None), dialect)
    next(reader)
    return int(reader.line_num)


def _record_at(lines: Sequence[str], at: int, dialect: Dialect, *, one_line: bool) -> tuple[list[str] | None, int]:
    """The record that begins on a line, and how many lines it takes; None where its quotation marks do not match, or
    where it takes several lines and is no row."""
    last = at + 1 if one_line else None
    try:
        reader = csv.reader(
            islice(lines, at, last), delimiter=dialect.separator, skipinitialspace=dialect.blank, strict=True
        )
        record = next(reader)
        used = int(reader.line_num)
    except csv.Error:
        line = lines[at]
        if line.count('"') % 2:
            return None, 1
        try:  # `"a"b`: what pandas and csv take for `ab`
            return next(_fields_of([line], dialect)), 1
        except csv.Error:
            return None, 1
    if used > 1 and len(record) != len(dialect.header):
        return None, 1
    return record, used


def _without_nameless(frame: pd.DataFrame, path: Path, dialect: Dialect, reading: Reading) -> pd.DataFrame:
    kept = [place for place, name in enumerate(dialect.header) if not _nameless(name)]
    if len(kept) == len(dialect.header):
        return frame
    if any(frame.iloc[:, place].notna().any() for place, name in enumerate(dialect.header) if _nameless(name)):
        reading.say(f"{path}: a column without a name is left out")
    return frame.iloc[:, kept].copy()


def _dialect(path: Path, reading: Reading, encoding: str, errors: str = "strict") -> Dialect:
    """The dialect of the file, after a look at its first lines."""
    separator, skipped = reading.separates(), 0
    with _opened(path, encoding, errors) as stream:
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
    separator = separator or _separator(path, reading, encoding, skipped, errors)
    header = next(_records(path, Dialect(encoding, separator, False, skipped, (), errors), header=True))[1]
    header[0] = header[0].removeprefix("\ufeff")  # a mark, where an encoding was told that knows none
    blank = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    names = tuple(unguarded(name.strip() if blank else name) for name in header)
    return Dialect(encoding, separator, blank, skipped, names, errors)


_SEP_LINE = re.compile('"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""Excel's way to name the separator."""


def _separator(path: Path, reading: Reading, encoding: str, skipped: int, errors: str) -> str:
    """The separator whose header names the parts of a log, else that with which most records are as wide as the
    header, else that which makes most columns."""

    def score(separator: str) -> tuple[bool, float, int]:
        dialect = Dialect(encoding, separator, False, skipped, (), errors)
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
def _opened(path: Path, encoding: str, errors: str = "strict") -> Iterator[IO[str]]:
    with opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="") as text:
        yield text


def _records(path: Path, dialect: Dialect, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The records (after the header) with the line on which each begins, blank lines left out."""
    with _opened(path, dialect.encoding, dialect.errors) as stream:
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
