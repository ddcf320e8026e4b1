"""Odd and hostile log files, generated: what people's programs write, and what breaks readers.

Each entry says what has to come of it: the very events (made here from their datetimes, without our readers), or one
line that names the place and the flag. Cells of refused files hold SECRET, which no message may repeat.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Event = tuple[str, str, datetime]

EVENTS: tuple[Event, ...] = (
    ("7", "Prüfung", datetime(2024, 12, 31, 14, 5, 6, tzinfo=UTC)),
    ("7", "Ende", datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("8", "Prüfung", datetime(2025, 1, 13, 23, 59, 59, tzinfo=UTC)),
)
XES_HEADER = ("case:concept:name", "concept:name", "time:timestamp")
BASE = datetime(1899, 12, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """A file: `events` when it has to go in, else `said`: words that the one line must hold."""

    title: str
    name: str
    data: bytes
    events: tuple[Event, ...] = ()
    said: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, list[Any]] = field(default_factory=dict)


def iso(moment: datetime) -> str:
    """With zone."""
    return moment.isoformat()


def table(
    separator: str = ",",
    header: tuple[str, ...] = XES_HEADER,
    write: Callable[[datetime], str] = iso,
    end: str = "\n",
    events: tuple[Event, ...] = EVENTS,
    extra: tuple[str, ...] = (),
    quote: bool = False,
) -> str:
    """The events as a table; `extra` are further cells, one a row, under the header's fourth name."""
    rows = [list(header)] + [
        [case, activity, write(when), *([extra[place]] if extra else [])]
        for place, (case, activity, when) in enumerate(events)
    ]
    cells = [[f'"{cell}"' if quote else cell for cell in row] for row in rows]
    return "".join(separator.join(row) + end for row in cells)


def good(title: str, text: str | bytes, *, encoding: str = "utf-8", name: str = "log.csv", **more: Any) -> Entry:
    """A file that goes in with the events above, unless `events` says others."""
    data = text if isinstance(text, bytes) else text.encode(encoding)
    return Entry(title, name, data, **{"events": EVENTS, **more})


def bad(
    title: str, text: str | bytes, *said: str, name: str = "log.csv", encoding: str = "utf-8", **options: Any
) -> Entry:
    """A file that is refused."""
    data = text if isinstance(text, bytes) else text.encode(encoding)
    return Entry(title, name, data, said=said, options=options)


def writings() -> Iterator[Entry]:
    """Separator x encoding x end of line."""
    for separator, sign in {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}.items():
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"):
            for words, end in {"unix": "\n", "windows": "\r\n"}.items():
                title = f"{separator}, {encoding}, {words}"
                yield good(
                    title, table(sign, end=end), encoding=encoding, name="log.tsv" if sign == "\t" else "log.csv"
                )
    yield good("old Mac line ends", table(end="\r"))
    yield good("every cell quoted", table(";", quote=True))
    yield good("packed", gzip.compress(table().encode()), name="log.csv.gz")
    yield good("packed tabs", gzip.compress(table("\t").encode("cp1252")), name="LOG.TSV.GZ")
    yield good("no end of the last line", table().rstrip("\n"))
    yield good("blank lines before, between and after", "\n\n" + table(end="\n\n") + "\n\n")
    yield good("Excel names its separator", "sep=;\r\n" + table(";", end="\r\n"))
    yield good("Excel names a bar, quoted", '"sep=|"\n' + table("|"))
    yield good("mark and separator line", "\ufeffsep=;\n" + table(";"))
    yield good("a separator at the end of each line", table(";", end=";\n"))
    yield good("blank after each comma", table(", "))
    for declared, mark in (("utf-8", "utf-8-sig"), ("utf-16-le", "utf-16-le"), ("UTF-16", "utf-16")):
        text = table(header=("a", "b", "c")) if mark != "utf-16-le" else "\ufeff" + table(header=("a", "b", "c"))
        how = {"encoding": declared, "columns": {"case": "a", "activity": "b", "time": "c"}}
        yield good(f"a mark, and declared to be {declared}", text, encoding=mark, options=how)
    yield good("cp1250 with its name", table(), encoding="cp1250", options={"encoding": "cp1250"})
    yield good("cp437 with its name", table(), encoding="cp437", options={"encoding": "cp437"})
    yield good("a separator of its own, named", table("#"), options={"separator": "#"})
    yield good("a separator named by word", table("|"), options={"separator": "bar"})
    yield good(
        "commas in quoted cells of a semicolon file", table(";", extra=('"a,b,c"',) * 3, header=(*XES_HEADER, "x,y"))
    )
    russian = tuple((case, "Создать заявку", when) for case, _, when in EVENTS)
    yield good("Cyrillic code page", table(events=russian), encoding="cp1251", events=russian)
    japanese = tuple((case, "申請を作成する", when) for case, _, when in EVENTS)
    yield good("Shift-JIS", table(events=japanese), encoding="cp932", events=japanese)
    chinese = tuple((case, "创建申请", when) for case, _, when in EVENTS)
    yield good("GB 18030", table(events=chinese), encoding="gb18030", events=chinese, options={"encoding": "gb18030"})


HEADERS: dict[str, tuple[str, str, str]] = {
    "pm4py": XES_HEADER,
    "Disco": ("Case ID", "Activity", "Complete Timestamp"),
    "Disco, one time": ("Case ID", "Activity", "Timestamp"),
    "Celonis": ("_CASE_KEY", "ACTIVITY_EN", "EVENTTIME"),
    "Celonis, new": ("CASE_KEY", "ACTIVITY", "EVENTTIME"),
    "ProM": ("case", "event", "completeTime"),
    "pm4py tutorials": ("case_id", "activity", "timestamp"),
    "underscores": ("Case_ID", "Activity_Name", "Event_Time"),
    "camel": ("caseId", "activityName", "endTime"),
    "tasks": ("Process Instance", "Task", "End Time"),
    "upper": ("CASEID", "ACTIVITY", "TIMESTAMP"),
    "blanks around": (" Case ID ", " Activity", " Timestamp "),
}


def headers() -> Iterator[Entry]:
    """The usual names, in every order of columns that makes sense, and next to other times."""
    for title, header in HEADERS.items():
        yield good(f"header of {title}", table(";", header=header))
    yield good(
        "Disco in full",
        "Case ID,Activity,Resource,Start Timestamp,Complete Timestamp,Variant,Variant index\n"
        + "".join(f"{c},{a},R,2020-01-01T00:00:00Z,{iso(t)},Variant 1,1\n" for c, a, t in EVENTS),
        attributes={"org:resource": ["R"] * 3, "Variant index": [1] * 3},
    )
    yield good(
        "ProM in full",
        "case,event,startTime,completeTime\n"
        + "".join(f"{c},{a},2020/01/01 00:00:00.000,{t:%Y/%m/%d %H:%M:%S.000}\n" for c, a, t in EVENTS),
        options={"timezone": "UTC"},
    )
    yield good(
        "an index without a name",
        "".join(f"{n},{line}\n" if n else f",{line}\n" for n, line in enumerate(table().splitlines())),
    )
    yield good(
        "Unnamed: 0",
        "".join(f"{n},{line}\n" if n else f"Unnamed: 0,{line}\n" for n, line in enumerate(table().splitlines())),
    )
    yield good(
        "columns named by the user",
        table(header=("a", "b", "c")),
        options={"columns": {"case": "a", "activity": "b", "time": "c"}},
    )
    yield good("one name by the user", table(header=("a", "Activity", "Timestamp")), options={"columns": {"case": "a"}})
    yield good(
        "what the user names goes before what is known",
        table(header=("Case ID", "Activity", "x", "Timestamp"), extra=("2000-01-01T00:00:00Z",) * 3),
        options={"columns": {"time": "x"}},
    )


def rounded(moment: datetime) -> datetime:
    return moment.replace(second=0)


MINUTES = tuple((case, activity, rounded(when)) for case, activity, when in EVENTS)


def noon(moment: datetime) -> str:
    """AM or PM, without a zero before the hour."""
    return f"{moment.hour % 12 or 12}:{moment:%M:%S} {'PM' if moment.hour >= 12 else 'AM'}"


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


ZONELESS: dict[str, Callable[[datetime], str]] = {
    "31/12/2024 14:05:06": lambda t: f"{t:%d/%m/%Y %H:%M:%S}",
    "12/31/2024 14:05:06": lambda t: f"{t:%m/%d/%Y %H:%M:%S}",
    "31.12.2024 14:05:06": lambda t: f"{t:%d.%m.%Y %H:%M:%S}",
    "31-12-2024 14:05:06": lambda t: f"{t:%d-%m-%Y %H:%M:%S}",
    "31.12.2024, 14:05:06": lambda t: f'"{t:%d.%m.%Y, %H:%M:%S}"',
    "31/12/2024 14.05.06": lambda t: f"{t:%d/%m/%Y %H.%M.%S}",
    "1/2/2025 3:04:05": lambda t: f"{t.day}/{t.month}/{t.year} {t.hour}:{t:%M:%S}",
    "12/31/2024 2:05:06 PM": lambda t: f"{t:%m/%d/%Y} {noon(t)}",
    "12/31/2024 2:05:06 pm": lambda t: f"{t:%m/%d/%Y} {noon(t).lower()}",
    "31/12/2024 2:05:06PM": lambda t: f"{t:%d/%m/%Y} {noon(t).replace(' ', '')}",
    "2024-12-31 2:05:06 PM": lambda t: f"{t:%Y-%m-%d} {noon(t)}",
    "2024/12/31 14:05:06": lambda t: f"{t:%Y/%m/%d %H:%M:%S}",
    "2024-12-31 14:05:06": lambda t: f"{t:%Y-%m-%d %H:%M:%S}",
    "2024-12-31T14:05:06": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}",
    "2024-12-31 14:05:06,000": lambda t: f'"{t:%Y-%m-%d %H:%M:%S},000"',
    "31-Dec-2024 14:05:06": lambda t: f"{t:%d-%b-%Y %H:%M:%S}",
    "31 December 2024 14:05:06": lambda t: f"{t:%d %B %Y %H:%M:%S}",
    "31 Dec 24 14:05:06": lambda t: f"{t:%d %b %y %H:%M:%S}",
    "Dec 31, 2024 2:05:06 PM": lambda t: f'"{t:%b %d, %Y} {noon(t)}"',
    "December 31, 2024 14:05:06": lambda t: f'"{t:%B %d, %Y %H:%M:%S}"',
    "Tue 31 Dec 2024 14:05:06": lambda t: f"{t:%a %d %b %Y %H:%M:%S}",
    "20241231140506": lambda t: f"{t:%Y%m%d%H%M%S}",
    "20241231T140506": lambda t: f"{t:%Y%m%dT%H%M%S}",
    "20241231140506000": lambda t: f"{t:%Y%m%d%H%M%S}000",
    "31/12/2024 14:05:06.000000001 and so on": lambda t: f"{t:%d/%m/%Y %H:%M:%S}.000000000",
}
ZONED: dict[str, Callable[[datetime], str]] = {
    "Z": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}Z",
    "+00:00": iso,
    "+01:00": lambda t: (datetime.fromtimestamp(t.timestamp() + 3600, UTC)).strftime("%Y-%m-%dT%H:%M:%S+01:00"),
    "day first +0100": lambda t: (datetime.fromtimestamp(t.timestamp() + 3600, UTC)).strftime(
        "%d/%m/%Y %H:%M:%S +0100"
    ),
    "day first UTC": lambda t: f"{t:%d.%m.%Y %H:%M:%S} UTC",
    "mail": lambda t: f'"{t:%a, %d %b %Y %H:%M:%S} +0000"',
    "short ISO": lambda t: f"{t:%Y%m%dT%H%M%S}Z",
    "seconds": lambda t: str(seconds(t)),
    "seconds with a fraction": lambda t: f"{seconds(t)}.000",
    "milliseconds": lambda t: f"{seconds(t)}000",
    "microseconds": lambda t: f"{seconds(t)}000000",
    "nanoseconds": lambda t: f"{seconds(t)}000000000",
}
COUNTED = {
    "seconds": "s",
    "seconds with a fraction": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
}
"""Numbers need the unit in which they count."""
DECLARED_FORMATS: dict[str, tuple[str, Callable[[datetime], str]]] = {
    "strptime": ("%H:%M:%S on %d %m %Y", lambda t: f"{t:%H:%M:%S on %d %m %Y}"),
    "strptime, year last": ("%d%m%Y %H%M%S", lambda t: f"{t:%d%m%Y %H%M%S}"),
    "two digits, day first": ("day-first", lambda t: f"{t:%d/%m/%y %H:%M:%S}"),
    "two digits, year first": ("year-first", lambda t: f"{t:%y/%m/%d %H:%M:%S}"),
    "month first": ("month-first", lambda t: f"{t:%m/%d/%Y %H:%M:%S}"),
    "seconds": ("s", lambda t: str(seconds(t))),
    "milliseconds": ("ms", lambda t: f"{seconds(t)}000"),
}


def days(moment: datetime) -> str:
    """Excel's number: a day and its fraction, as many digits as Excel shows."""
    return f"{(moment - BASE).total_seconds() / 86400:.10f}"


def dates() -> Iterator[Entry]:
    """The same moments in all writings."""
    utc = {"timezone": "UTC"}
    for title, write in ZONELESS.items():
        yield good(f"times {title}", table(write=write), options=utc)
    for title, write in ZONED.items():
        unit = COUNTED.get(title)
        options = {} if unit is None else {"time_format": unit}
        yield good(f"zoned times: {title}", table(write=write), options=options)
    for title, (form, write) in DECLARED_FORMATS.items():
        yield good(f"--time-format: {title}", table(write=write), options={**utc, "time_format": form})
    excel = {**utc, "time_format": "excel"}
    yield good("Excel's days", table(write=days), options=excel)
    yield good("Excel's days with a comma", table(";", write=lambda t: days(t).replace(".", ",")), options=excel)
    yield good(
        "days of an old Mac",
        table(write=lambda t: f"{float(days(t)) - 1462:.10f}"),
        options={**utc, "time_format": "excel-1904"},
    )
    yield good("no seconds", table(write=lambda t: f"{t:%d/%m/%Y %H:%M}"), events=MINUTES, options=utc)
    midnight = tuple((case, activity, when.replace(hour=0, minute=0, second=0)) for case, activity, when in EVENTS)
    yield good("days alone", table(write=lambda t: f"{t:%d.%m.%Y}"), events=midnight, options=utc)
    yield good("days alone, ISO", table(write=lambda t: f"{t:%Y%m%d}"), events=midnight, options=utc)
    yield good("blanks around times", table(write=lambda t: f" {t:%d/%m/%Y %H:%M:%S} "), options=utc)
    same = tuple((case, activity, datetime(2025, 5, 5, tzinfo=UTC)) for case, activity, _ in EVENTS)
    yield good("both readings agree", table(events=same, write=lambda t: f"{t:%d/%m/%Y}"), events=same, options=utc)
    summer = tuple((case, activity, datetime(2025, 7, 14, 12, tzinfo=UTC)) for case, activity, _ in EVENTS)
    yield good(
        "summer time",
        table(events=summer, write=lambda _: "14/07/2025 14:00"),
        events=summer,
        options={"timezone": "Europe/Berlin"},
    )


def values() -> Iterator[Entry]:
    """Cells that are easily read wrong."""

    def column(title: str, cells: tuple[str, ...], expected: list[Any], separator: str = ";") -> Entry:
        text = table(separator, header=(*XES_HEADER, "x"), extra=cells)
        return good(f"values: {title}", text, attributes={"x": expected})

    yield column("decimal commas", ("1,5", "2,50", "1.234,25"), [1.5, 2.5, 1234.25])
    yield column("a comma that may part thousands stays text", ("1,500", "2,000", "3,125"), ["1,500", "2,000", "3,125"])
    yield column("below one a comma is decimal", ("0,125", "2,000", "3,125"), [0.125, 2.0, 3.125])
    yield column("leading zeros stay text", ("007", "008", "1"), ["007", "008", "1"])
    yield column("NA, null and nan are text", ("NA", "null", "nan"), ["NA", "null", "nan"])
    yield column("empty is missing", ("", "b", ""), [None, "b", None])
    yield column("numbers with gaps", ("1", "", "3"), [1, None, 3])
    yield column("formulas lose their guard", ("'=1+1", "'@x", "'-y"), ["=1+1", "@x", "-y"])
    yield column("a separator in quotes", ('"a;b"', '"c""d"', "e"), ["a;b", 'c"d', "e"])
    yield column("a line end in quotes", ('"a\nb"', "c", "d"), ["a\nb", "c", "d"])
    yield column("numbers too large for 64 bits", ("123456789012345678901", "1", "2"), [123456789012345678901, 1, 2])
    yield column("infinity stays text", ("1e999", "1.5", "2.5"), ["1e999", "1.5", "2.5"])
    yield column("emoji and right to left", ("🙂", "שלום", "a\u0301"), ["🙂", "שלום", "a\u0301"])
    yield column("a long cell", ("x" * 300_000, "y", "z"), ["x" * 300_000, "y", "z"])
    yield good("short rows lack what is missing", table(header=(*XES_HEADER, "x", "y")), attributes={"x": [None] * 3})


def broken_tables() -> Iterator[Entry]:
    """Tables that are refused."""
    head = ",".join(XES_HEADER)
    row = "SECRET1,SECRETA,2020-01-01T00:00:00Z"
    yield bad("empty file", "", "the file is empty")
    yield bad("blank lines only", "\n\n \n", "the file is empty")
    yield bad("only a separator line", "sep=;\n", "the file is empty")
    yield bad("only a mark", "\ufeff", "the file is empty")
    yield bad("header only", head + "\n", "no events")
    yield bad("no header", f"{row}\n{row}\n", "line 1", "'AAAAAA9', 'AAAAAAA'", "add a line")
    yield bad("no header, a value twice", f"SECRET,SECRET,31/12/2020\n{row}\n", "line 1", "'AAAAAA'", "add a line")
    yield bad("unknown header", "a,b,c\nSECRET,2,3\n", "no column", "it has a, b, c", "--columns")
    yield bad(
        "two cases to choose from",
        "Case ID,CaseID,Activity,Timestamp\nSECRET,1,A,2020-01-01T00:00:00Z\n",
        "no column",
        "--columns case=...",
    )
    yield bad("a column twice", f"{head},x,x\n{row},1,2\n", "'x' appears twice")
    yield bad("a wide row", f"{head}\n{row}\n{row},SECRET\n", "line 3 has 4 fields, the header names 3", "--separator")
    yield bad("all rows wide", f"{head}\n{row},SECRET\n{row},SECRET\n", "line 2 has 4 fields")
    yield bad("an open quotation", f'{head}\n{row}\n"SECRET', "not well-formed CSV")
    yield bad(
        "no case", f"{head}\n{row}\n,SECRET,2020-01-01T00:00:00Z\n", "line 3", "case:concept:name", "--columns case="
    )
    yield bad(
        "no activity", f"{head}\n{row}\nSECRET,,2020-01-01T00:00:00Z\n", "line 3", "concept:name", "--columns activity="
    )
    yield bad("no time", f"{head}\n{row}\nSECRET,SECRET,\n", "line 3", "time:timestamp", "--columns time=")
    yield bad("a row of separators", f"{head}\n{row}\n,,\n", "line 3", "case:concept:name")
    yield bad("a short row without time", f"{head}\n{row}\nSECRET\n", "line 3", "no concept:name")
    yield bad("two values of a case column", f"{head},case:x\n{row},SECRET\n{row},2\n", "line 2", "'case:x'")
    yield bad("zero bytes", b"case:concept:name,conc\0\0ept:name,x\nSECRET\n", "zero bytes", "--encoding")
    yield bad("zero bytes alone", b"\0" * 4096, "line 1")
    yield bad("random bytes", bytes(range(256)) * 8, "log.csv")
    yield bad("a picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"SECRET" * 20, "log.csv")
    yield bad("a spreadsheet", b"PK\x03\x04\x14\0\x06\0" + b"SECRET" * 30, "log.csv")
    yield bad(
        "gzip cut off",
        gzip.compress(("\n".join([head, *[row] * 500])).encode())[:60],
        "damaged or cut off",
        name="log.csv.gz",
    )
    yield bad("no gzip", head + "\n", "damaged or cut off", name="log.csv.gz")
    yield bad(
        "gzip with a wrong checksum",
        gzip.compress(f"{head}\n{row}\n".encode())[:-8] + b"\0" * 8,
        "damaged",
        name="log.csv.gz",
    )
    yield bad(
        "the named encoding is another", table(), "not written in ascii", "--encoding", reading={"encoding": "ascii"}
    )
    yield bad("an unknown encoding", table(), "--encoding martian", reading={"encoding": "martian"})
    yield bad("an encoding of no text", table(), "--encoding base64", reading={"encoding": "base64"})
    yield bad("a separator of two", table(), "--separator", reading={"separator": "::"})
    yield bad(
        "the named separator is another", f"{head}\n{row}\n", "one column", "--separator", reading={"separator": ";"}
    )
    yield bad("cut off UTF-16", b"\xff\xfe" + f"{head}\n{row}".encode("utf-16-le")[:-1], "utf-16", "--encoding")
    yield bad("JSON in a table's clothes", json.dumps([{"case": "SECRET"}]), "log.csv")
    yield bad("a web page", "<html><body>SECRET</body></html>\n", "a page of HTML", "save its sheet as CSV")
    yield bad("a page of words", "This is SECRET.\nIt is not a table, at all.\n", "log.csv")
    yield bad("a suffix that nobody knows", head, "unknown kind of log", name="log.xlsx")
    yield bad("no suffix", head, "unknown kind of log", name="log")


def broken_times() -> Iterator[Entry]:
    """Times that are refused, each with line, column, shape and flag."""

    def times(title: str, cells: list[str], *said: str, **options: Any) -> Entry:
        rows = "".join(f'SECRET{n},SECRET,"{cell}"\n' for n, cell in enumerate(cells))
        return bad(f"times: {title}", "Case ID,Activity,Timestamp\n" + rows, *said, **options)

    zone = {"timezone": "UTC"}
    both = ("day-first", "month-first", "--time-format", "shape")
    yield times(
        "slashes in two readings", ["05/03/2020", "06/04/2020"], "line 2: Timestamp", *both, "99/99/9999", reading=zone
    )
    yield times("dots in two readings", ["05.03.2020 10:00"], "line 2: Timestamp", *both, reading=zone)
    yield times("AM and PM in two readings", ["05/03/2020 10:00 AM"], "line 2: Timestamp", *both, reading=zone)
    yield times("three readings", ["05/03/02"], "year-first", *both, reading=zone)
    yield times(
        "day first, then month first",
        ["31/12/2020", "12/31/2020"],
        "line 3: Timestamp",
        "no order",
        "shape",
        reading=zone,
    )
    yield times(
        "no day in the month", ["2020-01-01", "31/02/2020"], "line 3: Timestamp is not a time", "shape", reading=zone
    )
    yield times("30 February", ["30/02/2020"], "line 2: Timestamp is not a time", "'99/99/9999'", reading=zone)
    yield times("hour 25", ["31/12/2020 25:00"], "line 2: Timestamp is not a time", "shape", reading=zone)
    yield times("hour 14 PM", ["31/12/2020 14:00 PM"], "line 2", "shape", reading=zone)
    yield times("words", ["yesterday SECRET"], "line 2: Timestamp is not a time", "'AAAAAAAAA AAAAAA'", "--time-format")
    yield times("a word after times", ["2020-01-01T00:00:00Z", "SECRET"], "line 3: Timestamp", "'AAAAAA'")
    yield times(
        "a word after dates",
        ["31/12/2020", "31/12/2020", "n/a SECRET"],
        "line 4: Timestamp",
        "'A/A AAAAAA'",
        reading=zone,
    )
    yield times(
        "no zone", ["2020-01-01 10:00"], "line 2: Timestamp has no time zone", "--timezone (such as Europe/Berlin)"
    )
    yield times("no zone, day first", ["31/12/2020"], "line 2: Timestamp has no time zone", "--timezone")
    yield times("no zone in one", ["2020-01-01T00:00:00Z", "2020-01-01 10:00"], "line 3", "no time zone", "--timezone")
    yield times(
        "Excel without a zone",
        ["44196.5"],
        "line 2",
        "no time zone",
        "--timezone",
        reading={"time_format": "excel"},
    )
    yield times("Excel without its name", ["44196.5"], "line 2", "needs its unit", "--time-format excel", reading=zone)
    yield times("seconds without their name", ["1600000000"], "line 2", "needs its unit", "--time-format s")
    yield times("an unknown zone", ["31/12/2020"], "not known", reading={"timezone": "Mars/Base"})
    yield times("a zone by letters", ["31/12/2020 10:00 CEST"], "line 2: Timestamp is not a time", reading=zone)
    yield times("numbers of no unit", ["17", "18"], "line 2: Timestamp", "unknown unit", "--time-format", "'99'")
    yield times("numbers of two units", ["1600000000", "1600000000000"], "line 3: Timestamp", "--time-format s")
    yield times("a number and a word", ["1600000000", "SECRET"], "line", "Timestamp", "shape")
    yield times(
        "no number of the unit", ["1600000000", "SECRET"], "line 3", "number of the unit", reading={"time_format": "s"}
    )
    yield times("no day of Excel", ["44196", "SECRET"], "line 3", "Excel", reading={**zone, "time_format": "excel"})
    yield times(
        "another format",
        ["31/12/2020", "SECRET"],
        "line 3",
        "'%d/%m/%Y'",
        "'AAAAAA'",
        reading={**zone, "time_format": "%d/%m/%Y"},
    )
    yield times("a format of nothing", ["31/12/2020"], "--time-format", reading={**zone, "time_format": "%Q"})
    yield times(
        "a word that is not a format",
        ["31/12/2020"],
        "--time-format",
        "day-first",
        reading={**zone, "time_format": "european"},
    )
    yield times("the year 9999", ["31/12/9999"], "line 2: Timestamp", "shape", reading=zone)
    yield times("the year 1", ["0001-01-01T00:00:00Z"], "line 2: Timestamp", "shape")
    yield times("negative", ["-5"], "line 2: Timestamp is not a time", "'-9'")
    yield times("letters for digits", ["2O2O-O1-O1"], "line 2: Timestamp is not a time", "'9A9A-A9-A9'")
    yield times("full-width digits", ["２０２０-０１-０１"], "line 2: Timestamp is not a time")
    yield times("a huge number", ["9" * 400], "line 2: Timestamp", "shape")
    yield times("a long text", ["SECRET" * 10_000], "line 2: Timestamp is not a time", "...")
    yield times("blanks", ["   "], "line 2: Timestamp is not a time", "'blank'")


def xes(body: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<log>\n{body}</log>\n'


def xes_event(activity: str, time: str) -> str:
    name = f'<string key="concept:name" value="{activity}"/>'
    return f'<event>\n{name}\n<date key="time:timestamp" value="{time}"/>\n</event>\n'


def xes_of(events: tuple[Event, ...], write: Callable[[datetime], str] = iso) -> str:
    cases: dict[str, str] = {}
    for case, activity, when in events:
        cases[case] = cases.get(case, "") + xes_event(activity, write(when))
    return xes("".join(f'<trace>\n<string key="concept:name" value="{c}"/>\n{b}</trace>\n' for c, b in cases.items()))


def markup() -> Iterator[Entry]:
    """XES, well and ill."""
    yield good("XES", xes_of(EVENTS), name="log.xes")
    yield good("XES, packed", gzip.compress(xes_of(EVENTS).encode()), name="log.xes.gz")
    yield good("XES with a mark", xes_of(EVENTS), encoding="utf-8-sig", name="log.xes")
    yield good("XES in Latin-1", xes_of(EVENTS).replace("UTF-8", "ISO-8859-1"), encoding="latin-1", name="log.xes")
    yield good(
        "XES without zones",
        xes_of(EVENTS, lambda t: f"{t:%Y-%m-%dT%H:%M:%S}"),
        name="log.xes",
        options={"timezone": "UTC"},
    )
    bomb = '<!DOCTYPE log [<!ENTITY a "SECRET"><!ENTITY b "&a;&a;&a;&a;">]>'
    for title, text, said in (
        ("empty", "", "not well-formed XML"),
        ("cut off", xes_of(EVENTS)[:150], "not well-formed XML"),
        ("entity bomb", bomb + "<log>&b;</log>", "DOCTYPE"),
        ("external entity", '<!DOCTYPE log SYSTEM "file:///etc/passwd"><log/>', "DOCTYPE"),
        ("no log", "<html>SECRET</html>", "root element"),
        ("no trace", xes(""), "no events"),
        ("too deep", "<log>" + "<x>" * 400 + "</x>" * 400 + "</log>", "nested deeper"),
        ("no name of a trace", xes(f"<trace>\n{xes_event('SECRET', '2020-01-01T00:00:00Z')}</trace>\n"), "trace 1"),
        (
            "no time",
            xes(
                '<trace><string key="concept:name" value="SECRET"/>'
                '<event><string key="concept:name" value="A"/></event>'
                "</trace>"
            ),
            "trace 1, event 1",
        ),
        ("a time that is none", xes_of(EVENTS, lambda _: "SECRET"), "line 7"),
        ("a time without zone", xes_of(EVENTS, lambda t: f"{t:%Y-%m-%dT%H:%M:%S}"), "--timezone"),
        ("an encoding that is not known", '<?xml version="1.0" encoding="martian"?><log/>', "encoding"),
        (
            "two traces of one name",
            xes_of(EVENTS[:2]).replace("</log>", "") + xes_of(EVENTS[:2]).partition("<log>")[2],
            "trace 2",
        ),
    ):
        yield bad(f"XES: {title}", text, said, name="log.xes")


def ocel(events: list[dict[str, Any]], **more: Any) -> str:
    things = [{"id": one, "type": "order", "attributes": [], "relationships": []} for one in ("7", "8")]
    kinds = sorted({event.get("type", "x") for event in events})
    body = {
        "objectTypes": [{"name": "order", "attributes": []}],
        "eventTypes": [{"name": kind, "attributes": []} for kind in kinds],
        "objects": things,
        "events": events,
    }
    return json.dumps({**body, **more})


def ocel_events(write: Callable[[datetime], str] = iso) -> list[dict[str, Any]]:
    return [
        {
            "id": f"e{n}",
            "type": activity,
            "time": write(when),
            "attributes": [],
            "relationships": [{"objectId": case, "qualifier": ""}],
        }
        for n, (case, activity, when) in enumerate(EVENTS)
    ]


def object_centric() -> Iterator[Entry]:
    """OCEL 2.0 in JSON (SQLite and XML have tests of their own)."""
    order = {"object_type": "order"}
    yield good("OCEL", ocel(ocel_events()), name="log.json", options=order)
    yield good(
        "OCEL without zones",
        ocel(ocel_events(lambda t: f"{t:%Y-%m-%dT%H:%M:%S}")),
        name="log.jsonocel",
        options={**order, "timezone": "UTC"},
    )
    first, *rest = ocel_events()
    for title, text, said, reading in (
        ("no type chosen", ocel(ocel_events()), "--object-type: order (2 objects, 3 events)", {}),
        ("an unknown type", ocel(ocel_events()), "--object-type takes one of: order", {"object_type": "item"}),
        ("broken JSON", ocel(ocel_events())[:-5], "not well-formed JSON", order),
        ("a list", "[1, 2]", "no OCEL 2.0", order),
        ("another document", '{"SECRET": 1}', "no OCEL 2.0", order),
        ("no time", ocel([{key: first[key] for key in first if key != "time"}, *rest]), "events[0]", order),
        ("a time that is none", ocel([first, {**rest[0], "time": "SECRET"}]), "event 2: time", order),
        ("no zone", ocel(ocel_events(lambda t: f"{t:%Y-%m-%dT%H:%M:%S}")), "--timezone", order),
        ("an event twice", ocel([first, first]), "event 2", order),
        (
            "no such object",
            ocel([{**first, "relationships": [{"objectId": "SECRET", "qualifier": ""}]}]),
            "event 1",
            order,
        ),
        ("no events", ocel([]), "no events", order),
        ("no related events", ocel([{**first, "relationships": []}]), "no event has an object", order),
        ("deep", "[" * 100_000, "JSON", order),
    ):
        yield bad(f"OCEL: {title}", text, said, name="log.json", reading=reading)
    yield bad("OCEL: no database", "SECRET" * 100, "no OCEL 2.0 in SQLite", name="log.sqlite", reading=order)
    yield bad(
        "OCEL: XML with a bomb", '<!DOCTYPE log [<!ENTITY a "x">]><log/>', "DOCTYPE", name="log.xml", reading=order
    )
    yield bad("OCEL: other XML", "<log><trace/></log>", "no OCEL 2.0", name="log.xml", reading=order)


def arrow() -> Iterator[Entry]:
    """Parquet."""
    import pandas as pd

    def packed(times: Any, header: tuple[str, ...] = XES_HEADER, **more: Any) -> bytes:
        buffer = io.BytesIO()
        cells = ([case for case, _, _ in EVENTS], [activity for _, activity, _ in EVENTS], times)
        pd.DataFrame({**dict(zip(header, cells, strict=True)), **more}).to_parquet(buffer)
        return buffer.getvalue()

    moments = [when for _, _, when in EVENTS]
    naive = pd.to_datetime([when.replace(tzinfo=None) for when in moments])
    yield good("Parquet", packed(moments), name="log.parquet")
    yield good(
        "Parquet with seconds",
        packed([seconds(when) for when in moments]),
        name="log.parquet",
        options={"time_format": "s"},
    )
    yield good("Parquet of Disco's names", packed(moments, HEADERS["Disco"]), name="log.parquet")
    yield good("Parquet without zone", packed(naive), name="log.parquet", options={"timezone": "UTC"})
    yield good(
        "Parquet with texts",
        packed([f"{when:%d/%m/%Y %H:%M:%S}" for when in moments]),
        name="log.parquet",
        options={"timezone": "UTC"},
    )
    yield bad("Parquet without zone, none declared", packed(naive), "row 1", "--timezone", name="log.parquet")
    yield bad("Parquet with words for times", packed(["SECRET"] * 3), "row 1", "'AAAAAA'", name="log.parquet")
    yield bad("no Parquet", b"PAR1 SECRET", "not a readable Parquet", name="log.parquet")
    yield bad("empty Parquet", b"", "not a readable Parquet", name="log.parquet")
    yield bad("Parquet of other columns", packed(moments, ("a", "b", "c")), "--columns", name="log.parquet")


def catalogue() -> list[Entry]:
    """All of them; titles are distinct."""
    rooms = (writings, headers, dates, values, broken_tables, broken_times, markup, object_centric, arrow)
    return [entry for room in rooms for entry in room()]
