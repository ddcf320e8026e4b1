"""CSV files with a header line and one row for each event, packed with gzip or not.

Encoding (UTF-8, UTF-16, a Windows code page) and separator (comma, semicolon, tab, bar) are detected if they are not
given. An empty field is missing. A column whose every value is written as Python writes an int, a float or a boolean is
read as such; any other column stays text (`007` stays `007`). Case, activity and resource are always text. A text that
a spreadsheet would take for a formula is written with a quote before it (`'=1+1`), and read without it.

There are two readers (docs/decisions/029). pandas reads tables in which all rows can be read. The reader by line
defines which rows are bad, and reads all files for mechanisms that promise epsilon.
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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from connectors.bad_rows import BYTES, FIELDS, QUOTES, BadRows, PlaceOfRow
from connectors.columns import resolved, shape, typed
from connectors.folders import joined, parts
from connectors.formulas import guarded, unguarded
from connectors.frame import check_columns, check_names, check_width, flat_columns, from_frame, names_of_log
from connectors.output import clean, isodurations, isoformat, writing
from connectors.reading import SEPARATORS, Reading, UndeclaredError
from connectors.xes_stream import opened
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, EventLog

if TYPE_CHECKING:
    import pandas as pd

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Suffixes that are read as CSV; the first two are written."""

_HEADER_SAMPLE = 25
"""Records that decide the separator, with the header."""

_SEP_LINE = re.compile('"?sep=(.)"?[\r\n]*', re.IGNORECASE)
"""A first line by which Excel names the separator."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Format of a file.

    Parameters
    ----------
    encoding
        Name of the codec.
    separator
        The character between columns.
    blank
        Whether a blank follows each separator.
    skipped
        Lines before the header.
    header
        Names of the columns.
    errors
        Error handling of decoding: `surrogateescape` keeps bytes that are not of the encoding, so that their rows can
        be identified.
    """

    encoding: str
    separator: str
    blank: bool
    skipped: int
    header: tuple[str, ...]
    errors: str = "strict"

    @property
    def named(self) -> list[str]:
        """The header without columns that have no name."""
        return [name for name in self.header if not _is_nameless(name)]


def _is_nameless(name: str) -> bool:
    """Return whether it is the index of a data frame, or the column behind a last separator."""
    return not name.strip() or re.fullmatch(r"Unnamed: \d+(_level_\d+)?", name) is not None


@content_free()
@dataclass(frozen=True, slots=True)
class CsvTable:
    """The rows of one file as texts.

    Parameters
    ----------
    dialect
        Format of the file.
    rows
        One column of texts for each name.
    lines
        The line of each row, if rows were left out.
    """

    dialect: Dialect
    rows: pd.DataFrame
    lines: Sequence[int] | None = None


def read(path: Path, reading: Reading) -> EventLog:
    """Return the log of a CSV file or of a folder of them.

    Errors are those of `connectors.frame.from_frame`, with file and line.

    Parameters
    ----------
    path
        The file or folder.
    reading
        Statements of the user about the file.
    """
    dialects, frame, place_of = read_parts(path, reading)
    names = names_of_log([str(name) for name in frame.columns], reading)
    log = from_frame(frame, names, reading, str(path), place_of)
    decimal_comma = any(dialect.separator != "," for dialect in dialects)
    return log.with_columns(
        case={name: typed(column, decimal_comma) for name, column in log.case_attributes.items()},
        event={name: typed(column, decimal_comma) for name, column in log.event_attributes.items()},
    )


def read_parts(
    path: Path,
    reading: Reading,
    *,
    check: bool = True,
) -> tuple[list[Dialect], pd.DataFrame, PlaceOfRow]:
    """Return the dialects of all files, all rows, and the place of each row.

    Parameters
    ----------
    path
        The file or folder.
    reading
        The user's statements about the files.
    check
        Whether columns of case, activity and time are required.

    Returns
    -------
    dialects
        Format of each file.
    rows
        Texts of all files, one column for each name of the header.
    place_of
        Function from a row to its file and line.
    """
    files = parts(path, CSV)
    tables = [table(file, reading, check=check) for file in files]
    places = [_places(file, table) for file, table in zip(files, tables, strict=True)]
    frame, place_of = joined([table.rows for table in tables], places)
    return [table.dialect for table in tables], frame, place_of


def _places(path: Path, table: CsvTable) -> PlaceOfRow:
    """Return a function from row to file and line; it reads the file once more if it has to."""
    lines = table.lines

    def place_of(row: int) -> str:
        nonlocal lines
        if lines is None:
            lines = array("q", (line for line, _ in _records(path, table.dialect)))
        line = lines[row] if row < len(lines) else row + 2
        return f"{path}: line {line}"

    return place_of


def table(path: Path, reading: Reading, *, check: bool = True) -> CsvTable:
    """Return the rows of one file.

    Parameters
    ----------
    path
        The file.
    reading
        The user's statements about it.
    check
        Whether the columns of a log must exist.

    Raises
    ------
    InputError
        It is not a table, or no log.
    """
    given_encoding = None if reading.encoding is None else _codec(reading.encoding)
    if reading.declared:
        return _read_by_line(path, reading, _declared_encoding(path, reading, given_encoding), check)
    encoding = given_encoding or _encoding_of_head(path)
    try:
        return _read_with_pandas(path, reading, encoding, check)
    except UnicodeError as error:
        if given_encoding is not None:
            dialect = _dialect(path, reading, encoding, "surrogateescape")
            return _read_row_by_row(path, reading, dialect, check)
        if not encoding.startswith("utf-8"):
            raise InputError(f"{path}: not {encoding}, which its first bytes name; use --encoding") from error
    encoding = _guessed_encoding(path)
    reading.say(f"{path}: not UTF-8, read as {encoding} (another: --encoding)")
    try:
        return _read_with_pandas(path, reading, encoding, check)
    except UnicodeError as error:
        raise InputError(f"{path}: not UTF-8, and not {encoding}; name its encoding with --encoding") from error


def dialect_of(path: Path, reading: Reading) -> Dialect:
    """Return the format of one file, by its first lines.

    Parameters
    ----------
    path
        The file.
    reading
        Statements of the user about the file.

    Raises
    ------
    InputError
        If it is not a table, or not in the given encoding.
    """
    given_encoding = None if reading.encoding is None else _codec(reading.encoding)
    encoding = given_encoding or _encoding_of_head(path)
    try:
        return _dialect(path, reading, encoding)
    except UnicodeError:
        raise InputError(
            f"{path}: not {encoding.removesuffix('-sig')}; save it as UTF-8, or read it with --engine embedded"
        ) from None


# Encodings: a byte order mark, UTF-8, else the likeliest of the usual ones.

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
"""Bytes of lines with letters beyond ASCII that are given to the detector."""


def _codec(name: str) -> str:
    """Return the codec's own name. InputError if Python has no such encoding of text."""
    try:
        b"x".decode(name, "ignore")
        return codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise InputError(f"--encoding {name}: no encoding of this name; use utf-8, cp1252, utf-16 ...") from None


def _encoding_of_head(path: Path) -> str:
    """Return the encoding of a byte order mark or of the zero bytes of UTF-16; else UTF-8."""
    with opened(path) as stream:
        head = stream.read(_HEAD)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    # In UTF-16, every second byte of Latin text is zero.
    pairs = len(head) // 2
    if pairs and head[1 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-le"
    if pairs and head[0 : 2 * pairs : 2].count(0) > pairs * 0.6:
        return "utf-16-be"
    return "utf-8-sig"


def _guessed_encoding(path: Path) -> str:
    """Return the likeliest encoding of a file that is not UTF-8.

    Code pages differ in a few letters, and the library's choice among them is arbitrary (it takes a French export for
    Cyrillic). Windows' western code page is therefore used unless another one is clearly better.
    """
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
    except UnicodeDecodeError:  # cp1252 lacks five bytes
        return "latin-1"
    return "cp1252"


def _declared_encoding(path: Path, reading: Reading, encoding: str | None) -> str:
    """Return the encoding of a file whose rows are read each by itself.

    InputError if it is not declared, or if a byte of one row could shift the letters of the next.
    """
    missing = [f"--{name}" for name in ("encoding", "separator") if getattr(reading, name) is None]
    if reading.time_format is None and reading.unit is None:
        missing.append("--time-format")
    if encoding is None or missing:
        raise UndeclaredError(str(path), missing)
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    if "a,\n".encode(encoding) != b"a,\n":
        raise InputError(
            f"{path}: in {encoding} a byte of one row can shift all that follow; convert the file to UTF-8 for a "
            "mechanism that promises epsilon"
        )
    return encoding


def _has_bad_bytes(text: str) -> bool:
    """Return whether bytes were not of the encoding (`surrogateescape` keeps them as lone surrogates)."""
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)


# Rows.


def _read_with_pandas(path: Path, reading: Reading, encoding: str, check: bool) -> CsvTable:
    import pandas as pd

    dialect = _dialect(path, reading, encoding)
    _check_header(path, reading, dialect, check)
    with _opened_text(path, encoding) as stream, warnings.catch_warnings():
        # pandas would cut rows that are wider than the header.
        warnings.simplefilter("error", pd.errors.ParserWarning)
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
            return _read_row_by_row(path, reading, dialect, check)
    if _may_swallow_rows(frame):
        return _read_row_by_row(path, reading, dialect, check)
    frame.columns = pd.Index(dialect.header)
    return CsvTable(dialect, _cleaned(frame, path, dialect, reading))


def _may_swallow_rows(frame: pd.DataFrame) -> bool:
    """Return whether a short record holds a line break: its open quotation then contains the rows behind it."""
    is_short = frame.iloc[:, -1].isna()
    if not is_short.any():
        return False
    short = frame[is_short]
    for name in short.columns[:-1]:
        has_break = short[name].str.contains("\n", regex=False, na=False)
        if has_break.any():
            return True
    return False


def _check_header(path: Path, reading: Reading, dialect: Dialect, check: bool) -> None:
    if len(dialect.named) == 1:
        raise InputError(
            f"{path}: line {dialect.skipped + 1}: one column ({shape(dialect.named[0])!r}); if lines come before the "
            "header, remove them; otherwise name the sign between columns with --separator"
        )
    check_header = check_columns if check else check_names
    check_header(dialect.named, resolved(dialect.named, reading.columns), str(path))


def _read_row_by_row(path: Path, reading: Reading, dialect: Dialect, check: bool) -> CsvTable:
    """Return the rows that can be read, for a file in which pandas finds one that cannot be."""
    with _opened_text(path, dialect.encoding, errors="surrogateescape") as stream:
        lines = list(stream)
    if any(map(_has_bad_bytes, dialect.header)):
        raise InputError(f"{path}: not written in {dialect.encoding}; name another encoding with --encoding")
    _check_header(path, reading, dialect, check)
    return _readable_rows(path, reading, dialect, lines, one_line=False)


def _read_by_line(path: Path, reading: Reading, encoding: str, check: bool) -> CsvTable:
    """Return the rows, each line read by itself: no bytes of a line decide how another one is read.

    So a field cannot hold a line break here: an open quotation mark in one row would contain the rows behind it.
    """
    with opened(path) as stream:
        lines_of_bytes = stream.read().removeprefix(codecs.BOM_UTF8).split(b"\n")
    lines = [line.decode(encoding, "surrogateescape") for line in lines_of_bytes]
    dialect = _dialect(path, reading, encoding, "surrogateescape")
    if any(map(_has_bad_bytes, dialect.header)):
        raise InputError(f"{path}: line {dialect.skipped + 1}: the header is not written in {encoding} (--encoding)")
    _check_header(path, reading, dialect, check)
    return _readable_rows(path, reading, dialect, lines, one_line=True)


def _readable_rows(
    path: Path,
    reading: Reading,
    dialect: Dialect,
    lines: Sequence[str],
    *,
    one_line: bool,
) -> CsvTable:
    """Return the rows that can be read, and count the others as bad.

    A record of several lines that is not a row is bad in its first line only: the next line may begin a sound one.
    """
    import pandas as pd

    bad = BadRows(str(path)) if reading.bad_rows is None else reading.bad_rows
    width = len(dialect.header)
    rows: list[list[str | None]] = []
    line_of_row = array("q")
    at = dialect.skipped + _lines_of_header(lines, dialect)
    while at < len(lines):
        if not lines[at].strip("\r\n"):
            at += 1
            continue
        record, used = _record_at(lines, at, dialect, one_line=one_line)
        if record is not None and len(record) == width + 1 and not record[-1]:
            record.pop()  # the line ends in one more separator
        cause = ""
        if any(map(_has_bad_bytes, lines[at : at + used])):
            cause = BYTES
        elif record is None:
            cause = QUOTES
        elif len(record) > width:
            cause = FIELDS
        if record is None or cause:
            place, text = f"{path}: line {at + 1}", partial(_without_end, lines[at])
            bad.add(cause, partial(str, place), text, partial(_reason, cause, record, dialect))
            at += 1
            continue
        fields: list[str | None] = [text or None for text in record]
        rows.append(fields + [None] * (width - len(fields)))
        line_of_row.append(at + 1)
        at += used
    if bad and not rows:
        raise bad.refused(len(bad))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in dialect.header]
    frame = pd.concat([pd.Series(column, dtype=object) for column in columns], axis=1)
    frame.columns = pd.Index(dialect.header)
    return CsvTable(dialect, _cleaned(frame, path, dialect, reading), line_of_row)


def _without_end(line: str) -> str:
    return line.rstrip("\r\n")


def _reason(cause: str, record: Sequence[str] | None, dialect: Dialect) -> str:
    """Return what is wrong with a line, and what to do, to follow its number."""
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
    reader = _csv_reader(islice(lines, dialect.skipped, None), dialect)
    next(reader)
    return int(reader.line_num)


def _record_at(
    lines: Sequence[str],
    at: int,
    dialect: Dialect,
    *,
    one_line: bool,
) -> tuple[list[str] | None, int]:
    """Return the record that begins on a line, and how many lines it takes.

    None if its quotation marks do not match, or if it takes several lines and is not a row.
    """
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
        try:  # `"a"b`: pandas and csv take it for `ab`
            return next(_csv_reader([line], dialect)), 1
        except csv.Error:
            return None, 1
    if used > 1 and len(record) != len(dialect.header):
        return None, 1
    return record, used


def _cleaned(frame: pd.DataFrame, path: Path, dialect: Dialect, reading: Reading) -> pd.DataFrame:
    """Return the table without columns that have no name, and without the guard of formulas."""
    frame = _without_nameless(frame, path, dialect, reading)
    for name in frame.columns:
        if frame[name].str.startswith("'", na=False).any():
            frame[name] = frame[name].map(unguarded, na_action="ignore")
    return frame


def _without_nameless(frame: pd.DataFrame, path: Path, dialect: Dialect, reading: Reading) -> pd.DataFrame:
    is_nameless = [_is_nameless(name) for name in dialect.header]
    if not any(is_nameless):
        return frame
    n_filled = int(frame.loc[:, is_nameless].notna().any().sum())
    if n_filled == 1:
        reading.say(f"{path}: a column without a name is left out")
    elif n_filled:
        reading.say(
            f"{path}: {n_filled} columns without a name are left out; if the header has two rows, remove the first"
        )
    return frame.loc[:, [not nameless for nameless in is_nameless]].copy()


# The first lines.


_OTHER_KINDS = (
    (b"PK\x03\x04", "a spreadsheet (.xlsx, .ods) or another packed file: save its sheet as CSV (UTF-8)"),
    (b"\xd0\xcf\x11\xe0", "a workbook of Excel (.xls): save its sheet as CSV (UTF-8)"),
    (b"PAR1\x15", "Parquet: name it .parquet"),
    (b"\x1f\x8b", "gzip data: name it .csv.gz"),
    (b"<html", "a page of HTML: open it in a spreadsheet, and save its sheet as CSV (UTF-8)"),
    (b"<table", "a page of HTML: open it in a spreadsheet, and save its sheet as CSV (UTF-8)"),
    (b"<!doctype html", "a page of HTML: open it in a spreadsheet, and save its sheet as CSV (UTF-8)"),
)
"""First bytes of files of other kinds that were named .csv, in lower case, and what they are."""


def _check_kind(path: Path) -> None:
    """Refuse a file of another kind, whose name alone says CSV."""
    with opened(path) as stream:
        head = stream.read(_HEAD).lstrip(codecs.BOM_UTF8 + b" \t\r\n")
    for first_bytes, kind in _OTHER_KINDS:
        if head.startswith(first_bytes) or head.lower().startswith(first_bytes):
            raise InputError(f"{path}: named as a table, but it is {kind}")


def _dialect(path: Path, reading: Reading, encoding: str, errors: str = "strict") -> Dialect:
    """Return the dialect of the file, by its first lines."""
    _check_kind(path)
    separator, skipped = reading.separates(), 0
    with _opened_text(path, encoding, errors) as stream:
        # Blank lines, and a line that states the separator, come before the header.
        first = stream.readline()
        while first:
            sep_line = _SEP_LINE.fullmatch(first)
            if sep_line is not None:
                separator = separator or sep_line[1]
            elif first.strip("\ufeff\r\n \t"):
                break
            skipped += 1
            first = stream.readline()
    if not first:
        raise InputError(f"{path}: the file is empty; the first line has to name the columns")
    if "\0" in first:
        raise InputError(f"{path}: line {skipped + 1} holds zero bytes; no text, or name its --encoding")
    # Before the line is split by every separator: that would take a minute for a million columns.
    used_separators = SEPARATORS if separator is None else (separator,)
    check_width(1 + max(map(first.count, used_separators)), f"{path}: line {skipped + 1}")
    separator = separator or _detected_separator(path, reading, encoding, skipped, errors)
    without_header = Dialect(encoding, separator, False, skipped, (), errors)
    _, header = next(_records(path, without_header, header=True))
    # A byte order mark remains if the given encoding has none.
    header[0] = header[0].removeprefix("\ufeff")
    blank = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    if blank:
        header = [name.strip() for name in header]
    names = tuple(map(unguarded, header))
    return Dialect(encoding, separator, blank, skipped, names, errors)


def _detected_separator(path: Path, reading: Reading, encoding: str, skipped: int, errors: str) -> str:
    """Return the separator that fits best (docs/decisions/041).

    First its header has to name the parts of a log, then most records have to be as wide as the header, then it makes
    most columns.
    """

    def is_as_wide(row: list[str], header: list[str]) -> bool:
        # A separator at the end of each record makes one more field, which is empty.
        return len(row) == len(header) or (len(row) == len(header) + 1 and not row[-1])

    def score(separator: str) -> tuple[bool, float, int]:
        dialect = Dialect(encoding, separator, False, skipped, (), errors)
        header, *rows = [record for _, record in islice(_records(path, dialect, header=True), _HEADER_SAMPLE)]
        header_names = [unguarded(name.strip()) for name in header]
        parts_of_log = resolved(header_names, reading.columns)
        is_log = {parts_of_log.case, parts_of_log.activity, parts_of_log.time} <= set(header_names)
        fitting = sum(is_as_wide(row, header) for row in rows)
        share = fitting / len(rows) if rows else 1.0
        return is_log, share if len(header) > 1 else 0.0, len(header)

    return max(SEPARATORS, key=score)


def _csv_reader(lines: Iterable[str], dialect: Dialect) -> Any:
    """Return a reader of the standard library, for fields of any length."""
    csv.field_size_limit(2**31 - 1)
    return csv.reader(lines, delimiter=dialect.separator, skipinitialspace=dialect.blank)


@contextmanager
def _opened_text(path: Path, encoding: str, errors: str = "strict") -> Iterator[IO[str]]:
    with opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="") as text:
        yield text


def _records(path: Path, dialect: Dialect, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the records after the header, each with its first line. Blank lines are left out."""
    with _opened_text(path, dialect.encoding, dialect.errors) as stream:
        for _ in range(dialect.skipped):
            stream.readline()
        reader = _csv_reader(stream, dialect)
        if not header:
            next(reader)
        begin = reader.line_num + 1
        for record in reader:
            if record:
                yield begin + dialect.skipped, record
            begin = reader.line_num + 1


def write(log: EventLog, path: Path, *, durations: bool = False) -> None:
    """Write `.csv` or `.csv.gz`: UTF-8, comma, times in UTC with zone.

    Missing values and "" are empty fields. Cases without events have no row.

    Parameters
    ----------
    log, path
        The log, and the file; an existing one is replaced.
    durations
        Write times as durations since 1970, such as `P0DT1H2M3S`.

    Raises
    ------
    InputError
        An attribute has a name that the table needs itself.
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
        # RFC 4180; and only with this terminator a lone "\r" in a field is quoted.
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerow(["case:concept:name", "concept:name", "time:timestamp", *map(guarded, columns)])
        writer.writerows(zip(*fields, strict=True))


def _fields(column: Column) -> list[str]:
    texts = [*(_field(value) for value in column.values), ""]
    return [texts[code] for code in column.codes.tolist()]


def _field(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else guarded(clean(str(value)))
