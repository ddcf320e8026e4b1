"""Event logs as XES (IEEE 1849).

One XML element a line, since pm4py's line reader sees nothing otherwise; extensions, globals, times with a zone
(UTC), and the steps of anonymization as log-level metadata: `privacy:anonymizations`, a list with one entry for each
operation. No trace and no event carries privacy metadata: an epsilon per event would reveal which events are noise.
The bytes depend on the log alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from connectors.output import clean, fraction_digits, isoformat_rows, writing_bytes
from models.compiled import kernel
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import EventLog, Ints
from models.keys import grouped

# The compiled part of `connectors.xes_write`: the text of some traces, assembled from their repeated
# parts.

Bytes = npt.NDArray[np.uint8]


@content_free()
class Texts(NamedTuple):
    """Texts one after the other: text k is `flat[begin[k]:begin[k + 1]]`.

    Attributes
    ----------
    flat
        uint8, bytes of all texts.
    begin
        int64[texts + 1].
    """

    flat: Bytes
    begin: Ints

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """Return the texts, in their order.

        Parameters
        ----------
        texts
            UTF-8 each.
        """
        begin = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=begin[1:])
        return cls(np.frombuffer(bytearray(b"".join(texts)), dtype=np.uint8), begin)

    def lengths(self) -> Ints:
        """Return the length of each text, in bytes."""
        return np.diff(self.begin)


def traces(
    heads: Texts,
    starts: Ints,
    event_texts: Texts,
    text_of_event: Ints,
    times: Bytes,
    time_of_event: Ints,
    end: bytes,
) -> bytes:
    """Return the bytes of some traces: head, events and `end` of each.

    Parameters
    ----------
    heads
        Lines of each trace before its events.
    starts
        int64[C + 1], first event of each trace.
    event_texts, text_of_event
        The distinct events without their times, and the number of each event's.
    times, time_of_event
        uint8[T, width], the line of each distinct time, and the number of each event's.
    end
        Last line of a trace.
    """
    n_traces, n_events = len(starts) - 1, len(text_of_event)
    bytes_of_events = int(event_texts.lengths()[text_of_event].sum()) + times.shape[1] * n_events
    size = len(heads.flat) + bytes_of_events + len(end) * n_traces
    out = np.empty(size, dtype=np.uint8)
    end_bytes = np.frombuffer(bytearray(end), dtype=np.uint8)
    _lay_out(heads, starts, event_texts, text_of_event, times, time_of_event, end_bytes, out)
    return out.tobytes()


@kernel
def _lay_out(
    heads: Texts,
    starts: Ints,
    event_texts: Texts,
    text_of_event: Ints,
    times: Bytes,
    time_of_event: Ints,
    end: Bytes,
    out: Bytes,
) -> None:
    at = 0
    for trace in range(len(starts) - 1):
        for k in range(heads.begin[trace], heads.begin[trace + 1]):
            out[at] = heads.flat[k]
            at += 1
        for event in range(starts[trace], starts[trace + 1]):
            text = text_of_event[event]
            for k in range(event_texts.begin[text], event_texts.begin[text + 1]):
                out[at] = event_texts.flat[k]
                at += 1
            for k in range(times.shape[1]):
                out[at] = times[time_of_event[event], k]
                at += 1
        for k in range(len(end)):
            out[at] = end[k]
            at += 1


PRIVACY = "urn:veilstream:xes:privacy:1"
"""URI of the extension that declares the `privacy:` attributes; docs/manifest.md lists them."""

_STANDARD = "http://www.xes-standard.org/"
_EXTENSIONS = {
    "concept": ("Concept", f"{_STANDARD}concept.xesext"),
    "time": ("Time", f"{_STANDARD}time.xesext"),
    "org": ("Organizational", f"{_STANDARD}org.xesext"),
    "lifecycle": ("Lifecycle", f"{_STANDARD}lifecycle.xesext"),
    "privacy": ("Privacy", PRIVACY),
}
_PLAIN = re.compile(r"[A-Za-z0-9 _.:+-]*")
"""Texts that XML writes as they are, as nearly all ids are."""
_TRACES, _TRACE_END = 1024, b"\t</trace>\n"
"""Traces that are packed together: the text of a whole log would not fit into memory with it."""
_BREAKS = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}

Privacy = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def write(log: EventLog, path: Path, privacy: Privacy = None, time_basis: str | None = None) -> None:
    """Write `.xes` or `.xes.gz`.

    Characters that XML cannot hold become U+FFFD. Missing values are left out.

    Parameters
    ----------
    log, path
        The log, and the file; an existing one is replaced.
    privacy
        The operations that were applied, one mapping each (values nested at will).
    time_basis
        The meaning of the times: ordinal, relative, noised ...

    Raises
    ------
    InputError
        An attribute has a name that the format needs itself.
    """
    _check_names(log)
    with writing_bytes(path) as stream:
        stream.write("".join(_head(log, privacy, time_basis)).encode())
        for lines in _traces(log):
            stream.write(lines)
        stream.write(b"</log>\n")


def _check_names(log: EventLog) -> None:
    reserved_names = [name for name in log.case_attributes if name == "concept:name"]
    reserved_names += [
        name for name in log.event_attributes if name in ("concept:name", "time:timestamp", "org:resource")
    ]
    if reserved_names:
        raise InputError(
            f"attribute {reserved_names[0]!r} cannot be written: XES needs that name for the log's own column"
        )


def _head(log: EventLog, privacy: Privacy, time_basis: str | None) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<log xes.version="1849-2016" xes.features="nested-attributes" xmlns="http://www.xes-standard.org/">\n'
    prefixes = {"concept", "time", *(name.partition(":")[0] for name in log.event_attributes if ":" in name)}
    prefixes |= {"org"} if log.resource.values else set()
    prefixes |= {"privacy"} if privacy or time_basis else set()
    for prefix, (name, uri) in _EXTENSIONS.items():
        if prefix in prefixes:
            yield f'\t<extension name="{name}" prefix="{prefix}" uri="{uri}"/>\n'
    yield '\t<global scope="trace">\n\t\t<string key="concept:name" value="name"/>\n\t</global>\n'
    yield '\t<global scope="event">\n\t\t<string key="concept:name" value="name"/>\n'
    yield '\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>\n\t</global>\n'
    yield '\t<classifier name="Activity" keys="concept:name"/>\n'
    yield from _privacy(privacy, time_basis)


def _privacy(privacy: Privacy, time_basis: str | None) -> Iterator[str]:
    if time_basis is not None:
        yield f"\t{_element('privacy:time_basis', time_basis)}\n"
    if not privacy:
        return
    operations = [privacy] if isinstance(privacy, Mapping) else privacy
    yield '\t<list key="privacy:anonymizations">\n\t\t<values>\n'
    for operation in operations:
        yield from _nested("privacy:anonymization", operation, 3)
    yield "\t\t</values>\n\t</list>\n"


def _nested(key: str, value: Any, depth: int) -> Iterator[str]:
    indent = "\t" * depth
    if isinstance(value, Mapping):
        # A text with nested attributes, since pm4py skips a <container>.
        yield f"{indent}<string key={_quoted(key)} value={_quoted(str(value.get('mechanism', '')))}>\n"
        for name, part in value.items():
            yield from _nested(str(name), part, depth + 1)
        yield f"{indent}</string>\n"
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield f"{indent}<list key={_quoted(key)}>\n{indent}\t<values>\n"
        for part in value:
            yield from _nested(key, part, depth + 2)
        yield f"{indent}\t</values>\n{indent}</list>\n"
    elif value is not None:
        yield f"{indent}{_element(key, value)}\n"


def _traces(log: EventLog) -> Iterator[bytes]:
    """Yield the lines of the traces, some traces at a time.

    Each distinct event without its time is written as XML once.
    """
    attributes = [""] * log.n_cases
    attribute_lines = [_lines(name, column.values, 2, column.codes) for name, column in log.case_attributes.items()]
    if attribute_lines:
        attributes = ["".join(lines) for lines in zip(*attribute_lines, strict=True)]
    heads = _heads(log.case_ids, attributes)
    event_texts, text_of_event = _events(log)
    fraction, starts, texts = fraction_digits(log.time), log.starts, Texts.of(event_texts)
    before, after = b'\t\t\t<date key="time:timestamp" value="', b'"/>\n\t\t</event>\n'
    for first in range(0, log.n_cases, _TRACES):
        last = min(first + _TRACES, log.n_cases)
        low, high = int(starts[first]), int(starts[last])
        # Distinct times are few if they are ordinal, and many if each time is protected by itself.
        moments, time_of_event = np.unique(log.time[low:high], return_inverse=True)
        times = isoformat_rows(moments, fraction, before, after)
        some_heads = Texts.of(heads[first:last])
        some_starts, some_texts = starts[first : last + 1] - low, text_of_event[low:high]
        yield traces(some_heads, some_starts, texts, some_texts, times, time_of_event, _TRACE_END)


def _heads(names: Sequence[str], attributes: Sequence[str]) -> list[bytes]:
    """Return the lines of each trace before its events."""
    if _PLAIN.fullmatch("".join(names)):
        named = [f'<string key="concept:name" value="{name}"/>' for name in names]
    else:
        named = [_element("concept:name", name) for name in names]
    return [f"\t<trace>\n\t\t{name}\n{lines}".encode() for name, lines in zip(named, attributes, strict=True)]


def _events(log: EventLog) -> tuple[list[bytes], Ints]:
    """Return the distinct events without their times as XML, and the number of each event's."""
    columns = {"concept:name": log.activity, "org:resource": log.resource, **log.event_attributes}
    shown = {name: column for name, column in columns.items() if column.values}
    joint = np.zeros(log.n_events, dtype=np.int64)
    distinct = min(1, log.n_events)
    for column in shown.values():  # numbered again after each column, so that the next product fits into int64
        size = len(column.values) + 1
        distinct_keys, joint = grouped(joint * size + column.codes + 1, distinct * size)
        distinct = len(distinct_keys)
    # First event of each number. Assigned in reverse order, so that the first event is the last assignment.
    first = np.zeros(distinct, dtype=np.int64)
    first[joint[::-1]] = np.arange(log.n_events)[::-1]
    parts = [_lines(name, column.values, 3, column.codes[first]) for name, column in shown.items()]
    texts = ["".join(lines) for lines in zip(*parts, strict=True)] if parts else [""]
    return [f"\t\t<event>\n{text}".encode() for text in texts], joint


def _lines(name: str, values: Iterable[Any], depth: int, codes: np.ndarray[Any, Any]) -> list[str]:
    """Return the line of each row, empty if the value is missing."""
    table = [*("\t" * depth + _element(name, value) + "\n" for value in values), ""]
    return [table[code] for code in codes.tolist()]


def _element(key: str, value: Any) -> str:
    """Return `<type key=".." value=".."/>`; a value without an XES type is written as text."""
    kind, text = _typed(value)
    return f"<{kind} key={_quoted(key)} value={_quoted(text)}/>"


def _typed(value: Any) -> tuple[str, str]:
    if isinstance(value, (bool, np.bool_)):
        return "boolean", "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return "int", str(value)
    if isinstance(value, (float, np.floating)):
        return "float", repr(float(value)).replace("inf", "INF")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return "date", value.isoformat(timespec="auto" if value.microsecond % 1000 else "milliseconds")
    return "string", str(value)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return quoteattr(clean(text), _BREAKS)
