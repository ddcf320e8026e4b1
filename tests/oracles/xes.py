"""XES read in two slow and simple ways: as a tree of elements, and trace by trace with callbacks of expat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from connectors.columns import ColumnNames
from connectors.times import parser
from connectors.xes_columns import CONVERT, lacking
from connectors.xes_stream import check_shape, elements, key_value, local
from models.errors import InputError


def events(document: bytes) -> list[dict[str, str]]:
    """The attributes of each event of each trace, as text by key, in the order of the file."""
    written = [event for trace in ElementTree.fromstring(document) for event in trace if _local(event.tag) == "event"]
    return [{one.attrib["key"]: one.attrib["value"] for one in event if "value" in one.attrib} for event in written]


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of `iter_traces`: its activity, time in nanoseconds, resource, and all further attributes."""

    activity: str
    time: int
    resource: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace of `iter_traces`, events in file order."""

    name: str
    events: tuple[TraceEvent, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def iter_traces(path: Path, columns: Mapping[str, str] | None = None, timezone: str | None = None) -> Iterator[Trace]:
    """Yield the traces one at a time, with traces and events in file order: memory does not grow with the log.

    Errors are those of `connectors.xes.read`, but the names of traces are not compared with one another.
    """
    names = ColumnNames.of(columns)
    builder = _Builder(path, names, timezone)
    for _ in elements(path, builder.start, builder.end):
        yield from builder.finished
        builder.finished.clear()


class _Builder:
    """Whole traces, built as their elements pass."""

    def __init__(self, path: Path, names: ColumnNames, timezone: str | None) -> None:
        self.path, self.names, self.parse = path, names, parser(timezone)
        self.finished: list[Trace] = []
        self.number = 0
        self.open: list[str] = []
        self.own: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        self.events: list[TraceEvent] = []

    def start(self, tag: str, attributes: list[str]) -> None:
        self.open.append(local(tag))
        if self.open[1:] == ["trace"]:
            self.number, self.own, self.events = self.number + 1, {}, []
        elif self.open[1:] == ["trace", "event"]:
            self.attributes = {}
        elif self.open[1:3] == ["trace", "event"] and len(self.open) == 4:
            self._attribute(self.attributes, attributes, self.names.time)
        elif self.open[1:2] == ["trace"] and len(self.open) == 3:
            self._attribute(self.own, attributes, None)
        check_shape(tag, len(self.open))

    def end(self, _: str) -> None:
        if self.open[1:] == ["trace", "event"]:
            self._event()
        elif self.open[1:] == ["trace"]:
            name = self._required(self.own, self.names.trace_name, f"trace {self.number}")
            self.finished.append(Trace(name, tuple(self.events), self.own))
        self.open.pop()

    def _attribute(self, target: dict[str, Any], attributes: list[str], time: str | None) -> None:
        pair, kind = key_value(attributes), self.open[-1]
        if pair is None or kind not in CONVERT:
            return
        key, text = pair
        if key in target:
            raise ValueError(f"attribute {key!r} appears twice")
        value = self.parse(text) if key == time else _converted(text, key, kind)
        if value == value:
            target[key] = value

    def _event(self) -> None:
        where = f"trace {self.number}, event {len(self.events) + 1}"
        activity = self._required(self.attributes, self.names.activity, where)
        time = self.attributes.pop(self.names.time, None)
        if time is None:
            raise InputError(lacking(f"{self.path}: {where}", self.names.time))
        resource = self.attributes.pop(self.names.resource, None)
        self.events.append(TraceEvent(activity, time, None if resource is None else str(resource), self.attributes))

    def _required(self, attributes: dict[str, Any], name: str, where: str) -> str:
        value = attributes.pop(name, None)
        if value is None or value == "":
            raise InputError(lacking(f"{self.path}: {where}", name))
        return str(value)


def _converted(text: str, key: str, kind: str) -> Any:
    try:
        return CONVERT[kind](text)
    except ValueError:
        raise ValueError(f"{key} is not a valid {kind}") from None
