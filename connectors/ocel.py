"""Object-centric event logs (OCEL 2.0: JSON, SQLite, XML), flattened by pm4py.

The objects of one type become the cases. Flattening changes counts, and its effects are reported: an event without an
object of the type is left out, one with several is counted once for each (convergence), and if a case has several
objects of another type, the events of all of them are in one trace (divergence).

pm4py reads times without a zone as UTC. Times are therefore taken from the file as they are written, and read like
those of every other log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from connectors.columns import CASE_PREFIX, resolved, typed
from connectors.frame import from_frame
from connectors.reading import Reading
from connectors.time_columns import times
from connectors.xes_stream import elements
from models.content_free import content_free
from models.errors import InputError, NoEventsError
from models.eventlog import EventLog

JSON, XML, SQLITE = (".json", ".jsonocel"), (".xml", ".xmlocel"), (".sqlite",)


@content_free()
class _Relation(msgspec.Struct, rename={"object": "objectId"}):
    object: str


@content_free()
class _Event(msgspec.Struct):
    id: str
    type: str
    time: str
    relationships: list[_Relation] = []


@content_free()
class _Object(msgspec.Struct):
    id: str
    type: str


@content_free()
class _Document(msgspec.Struct):
    """The parts of the JSON that are needed here; pm4py reads the others."""

    events: list[_Event]
    objects: list[_Object]


@content_free()
@dataclass(frozen=True, slots=True)
class Objects:
    """Events, objects and relations of an object-centric log.

    Attributes
    ----------
    times, activities
        Event to time as written, and to activity.
    types
        Object to object type.
    relations
        (event, object), each pair once.
    """

    times: Mapping[str, str]
    activities: Mapping[str, str]
    types: Mapping[str, str]
    relations: tuple[tuple[str, str], ...]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the number of objects, and of events with such an object, by type in order of their names."""
        objects: dict[str, int] = {}
        for kind in self.types.values():
            objects[kind] = objects.get(kind, 0) + 1
        events: dict[str, set[str]] = {}
        for event, thing in self.relations:
            events.setdefault(self.types[thing], set()).add(event)
        return {kind: (objects[kind], len(events.get(kind, ()))) for kind in sorted(objects)}

    def effects(self, kind: str) -> list[str]:
        """Return sentences about the effects of flattening by a type on counts.

        Parameters
        ----------
        kind
            Object type whose objects are the cases.

        Returns
        -------
        list of str
            How many events are left out, convergence, and divergence.
        """
        related: dict[str, dict[str, set[str]]] = {}
        for event, thing in self.relations:
            related.setdefault(event, {}).setdefault(self.types[thing], set()).add(thing)
        with_case = {event: by_type[kind] for event, by_type in related.items() if kind in by_type}
        rows = sum(map(len, with_case.values()))
        copies = rows - len(with_case)
        several = sum(len(cases) > 1 for cases in with_case.values())
        n_cases = len(set().union(*with_case.values()))
        left_out = len(self.times) - len(with_case)
        flattened = (
            f"flattened by {kind!r}: {n_cases} cases, {rows} events; {left_out} of {len(self.times)} events have no "
            "such object and are left out"
        )
        convergence = "convergence: none, no event belongs to several cases"
        if several:
            convergence = (
                f"convergence: events of several cases are counted in each ({several}); {copies} of the {rows} are "
                "such copies, which frequencies and resources count too often"
            )
        return [flattened, convergence, self._divergence(kind, with_case, related, n_cases)]

    def _divergence(
        self,
        kind: str,
        with_case: Mapping[str, set[str]],
        related: Mapping[str, Mapping[str, set[str]]],
        cases: int,
    ) -> str:
        """Return a sentence about activities that occur for different objects of another type in a case."""
        groups: dict[tuple[str, str, str], set[frozenset[str]]] = {}
        for event, cases_of_event in with_case.items():
            for other, things in related[event].items():
                if other == kind:
                    continue
                for case in cases_of_event:
                    groups.setdefault((case, self.activities[event], other), set()).add(frozenset(things))
        diverging_cases: dict[str, set[str]] = {}
        for (case, _, other), sets in groups.items():
            if len(sets) > 1:
                diverging_cases.setdefault(other, set()).add(case)
        if not diverging_cases:
            return "divergence: none, no activity is repeated in a case for different objects of another type"
        parts = ", ".join(
            f"{len(diverging_cases[other])} of {cases} cases by {other!r}" for other in sorted(diverging_cases)
        )
        return (
            f"divergence: {parts} repeat an activity for different objects of that type; such repetitions and their "
            "order are not those of one such object"
        )


def read(path: Path, reading: Reading) -> EventLog:
    """Return the log of an object-centric file, flattened by one object type.

    Parameters
    ----------
    path
        The file.
    reading
        Statements of the user about the file, with the object type.

    Raises
    ------
    InputError
        If no object type or an unknown one is given; the message lists them.
    NoEventsError
        If no event has an object of the type.
    """
    import pandas as pd

    objects = objects_of(path)
    kinds = objects.counts()
    listed = ", ".join(f"{name} ({things} objects, {events} events)" for name, (things, events) in kinds.items())
    if reading.object_type is None:
        raise InputError(
            f"{path}: an object-centric log; choose the objects that are the cases with --object-type: "
            + (listed or "it has none")
        )
    if reading.object_type not in kinds:
        raise InputError(f"{path}: no object type {reading.object_type!r}; --object-type takes one of: {listed}")
    if not kinds[reading.object_type][1]:
        raise NoEventsError(f"{path}: no event has an object of the type {reading.object_type!r}; it has {listed}")
    written = pd.Series(list(objects.times.values()), dtype=object)
    # Before pm4py, which reports only that some time is wrong.
    times(written, "time", replace(reading, say=lambda _: None), lambda row: f"{path}: event {row + 1}")
    frame = _flattened(path, reading.object_type, objects)
    for line in objects.effects(reading.object_type):
        reading.say(line)
    numbers = {event: place for place, event in enumerate(objects.times)}
    rows = [numbers[event] for event in frame["ocel:eid"]]
    log_frame = frame.drop(columns=["ocel:eid", f"{CASE_PREFIX}ocel:type"], errors="ignore")
    names = resolved([str(name) for name in log_frame.columns], reading.columns)
    log = from_frame(log_frame, names, reading, str(path), lambda row: f"{path}: event {rows[row] + 1}")
    return log.with_columns(
        case={name: typed(column) for name, column in log.case_attributes.items()},
        event={name: typed(column) for name, column in log.event_attributes.items()},
    )


def _flattened(path: Path, kind: str, objects: Objects) -> Any:
    """Return pm4py's table, one row per event and case, in file order, with times as written."""
    from models.utility.discovery import quiet_pm4py

    try:
        with quiet_pm4py() as pm4py:
            suffix, read_file = path.suffix.lower(), pm4py.read_ocel2_sqlite
            if suffix in JSON:
                read_file = pm4py.read_ocel2_json
            elif suffix in XML:
                read_file = pm4py.read_ocel2_xml
            log = read_file(str(path))
            frame = pm4py.ocel_flattening(log, kind)
    except MemoryError:
        raise
    except Exception as error:  # pm4py raises errors of any kind for a file that it does not expect
        raise InputError(
            f"{path}: pm4py cannot flatten it ({type(error).__name__}); is it OCEL 2.0 with all its parts?"
        ) from error
    frame = frame.drop_duplicates(["ocel:eid", "case:concept:name"]).reset_index(drop=True)
    place_in_file = {event: place for place, event in enumerate(objects.times)}
    frame = frame.sort_values("ocel:eid", key=lambda events: events.map(place_in_file), kind="stable")
    frame = frame.reset_index(drop=True)
    frame["time:timestamp"] = [objects.times[event] for event in frame["ocel:eid"]]
    return frame


def objects_of(path: Path) -> Objects:
    """Return events, objects and their relations.

    Parameters
    ----------
    path
        A file of JSON, XML or SQLite; its suffix decides.

    Raises
    ------
    InputError
        If the file is not OCEL 2.0; the message has the place.
    """
    suffix = path.suffix.lower()
    if suffix in JSON:
        return _of_json(path)
    return _of_xml(path) if suffix in XML else _of_sqlite(path)


def _checked(
    path: Path,
    events: list[tuple[str, str, str]],
    things: list[tuple[str, str]],
    pairs: list[tuple[str, str]],
) -> Objects:
    """Check that ids are unique and that relations name existing events and objects.

    `events` are (id, activity, time).
    """
    ids_of = {
        "event": [event_id for event_id, _, _ in events],
        "object": [object_id for object_id, _ in things],
    }
    for kind, ids in ids_of.items():
        if len(set(ids)) != len(ids):
            place = next(place for place, object_id in enumerate(ids) if object_id in ids[:place])
            raise InputError(f"{path}: {kind} {place + 1} has the id of an earlier {kind}")
    types = dict(things)
    numbers = {event[0]: place for place, event in enumerate(events)}
    for event, thing in pairs:
        if event not in numbers or thing not in types:
            place_of_relation = f"event {numbers[event] + 1}" if event in numbers else "a relation of no event"
            raise InputError(f"{path}: {place_of_relation}: names an object that is not in the log")
    if not events:
        raise NoEventsError(f"{path}: the log holds no events")
    return Objects(
        {event: time for event, _, time in events},
        {event: activity for event, activity, _ in events},
        types,
        tuple(dict.fromkeys(pairs)),
    )


def version_1(path: Path, kind: str) -> str:
    """Return the message for a log of OCEL 1.0, with the command that converts it.

    Parameters
    ----------
    path
        The file.
    kind
        Format in which pm4py reads and writes it: `json`, `xml` or `sqlite`.
    """
    new = f"{path.stem}-ocel2.{kind}"
    return (
        f'{path}: OCEL 1.0, and OCEL 2.0 is read; convert it with pm4py: python -c "import pm4py; '
        f"pm4py.write_ocel2_{kind}(pm4py.read_ocel_{kind}('{path.name}'), '{new}')\""
    )


def _names_version_1(data: bytes) -> bool:
    """Return whether a JSON document has the keys of OCEL 1.0."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    old_keys = {"ocel:global-log", "ocel:events", "ocel:objects"}
    return isinstance(document, dict) and not old_keys.isdisjoint(document)


def _of_json(path: Path) -> Objects:
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _names_version_1(data):
            raise InputError(version_1(path, "json")) from None
        if data.lstrip().startswith(b"["):
            raise InputError(
                f"{path}: no OCEL 2.0 in JSON, but a list; write its records as CSV or Parquet, one event a row"
            ) from None
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "not well-formed JSON"
        raise InputError(f"{path}: no OCEL 2.0 in JSON: {reason}") from None
    return _checked(
        path,
        [(event.id, event.type, event.time) for event in document.events],
        [(thing.id, thing.type) for thing in document.objects],
        [(event.id, relation.object) for event in document.events for relation in event.relationships],
    )


_RELATIONS = ("relationship", "relobj", "object")
"""Elements of an event that name one of its objects: writers of OCEL 2.0 differ in it."""


def _of_xml(path: Path) -> Objects:
    events: list[tuple[str, str, str]] = []
    things: list[tuple[str, str]] = []
    pairs: list[tuple[str, str]] = []
    places: list[str] = []
    version_1_seen: list[str] = []

    def start(tag: str, attributes: list[str]) -> None:
        attribute = dict(zip(attributes[::2], attributes[1::2], strict=True))
        # OCEL 1.0 begins with globals, and writes ids and times as elements of their own.
        if places == ["log"] and tag == "global":
            version_1_seen.append(tag)
        if version_1_seen:
            places.append(tag)
            return
        if places == ["log", "events"] and tag == "event":
            events.append((_needed(attribute, "id"), _needed(attribute, "type"), _needed(attribute, "time")))
        elif places == ["log", "objects"] and tag == "object":
            things.append((_needed(attribute, "id"), _needed(attribute, "type")))
        elif places[1:3] == ["events", "event"] and tag in _RELATIONS and "object-id" in attribute:
            event_id, _, _ = events[-1]
            pairs.append((event_id, attribute["object-id"]))
        places.append(tag)

    def end(_tag: str) -> None:
        places.pop()

    for _ in elements(path, start, end):
        pass
    if not events and not things:
        if version_1_seen:
            raise InputError(version_1(path, "xml"))
        raise InputError(f"{path}: XML, but no OCEL 2.0: it has neither events nor objects")
    return _checked(path, events, things, pairs)


def _needed(attributes: Mapping[str, str], name: str) -> str:
    if name not in attributes:
        raise ValueError(f"an event or object without {name}")
    return attributes[name]


MOST_ROWS = 20_000_000
"""Rows of a table of SQLite: pm4py holds all tables in memory, in several copies."""
LONGEST_FIELD = 64 << 20
"""Bytes of a field of SQLite."""
STEPS_PER_BYTE, LEAST_STEPS = 100, 100_000_000
"""Steps of SQLite's machine that reading may take. A row takes some five bytes and ten steps, so a file that only holds
data stays far below; what its schema computes on the way is stopped."""
_HEARTBEAT = 100_000
"""Steps between two looks at their number."""

_TABLES = ("event", "object", "event_object", "event_map_type", "object_map_type")


def _of_sqlite(path: Path) -> Objects:
    # A write-ahead log of SQLite holds rows that would be missing if the file were opened as immutable.
    fixed = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode=ro{fixed}"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as base:
            _bound(base, path)
            _check_tables(base, path, _TABLES)
            kinds = base.execute("SELECT ocel_type, ocel_type_map FROM event_map_type").fetchall()
            object_types = base.execute("SELECT ocel_type, ocel_type_map FROM object_map_type").fetchall()
            # pm4py reads these tables later, without bounds of its own
            _check_tables(base, path, [f"event_{table}" for _, table in kinds])
            _check_tables(base, path, [f"object_{table}" for _, table in object_types])
            _check_tables(base, path, ["object_object"], needed=False)
            activities = dict(base.execute("SELECT ocel_id, ocel_type FROM event").fetchall())
            times: dict[str, Any] = {}
            for _, table in kinds:
                name = _quoted(f"event_{table}")
                times.update(base.execute(f"SELECT ocel_id, ocel_time FROM {name}").fetchall())  # noqa: S608 - quoted
            things = base.execute("SELECT ocel_id, ocel_type FROM object").fetchall()
            pairs = base.execute("SELECT ocel_event_id, ocel_object_id FROM event_object").fetchall()
    except sqlite3.DataError:
        raise InputError(f"{path}: a field has more than {LONGEST_FIELD >> 20} MB; leave such attributes out") from None
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise InputError(f"{path}: reading it takes far longer than its size explains; export it again") from None
        raise InputError(f"{path}: no OCEL 2.0 in SQLite ({error})") from None
    for place, event in enumerate(activities):
        if times.get(event) is None:
            raise InputError(f"{path}: event {place + 1}: no ocel_time; every event needs one")
    events = [(str(event), str(activity), str(times[event])) for event, activity in activities.items()]
    return _checked(
        path,
        events,
        [(str(thing), str(kind)) for thing, kind in things],
        [(str(event), str(thing)) for event, thing in pairs],
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bound(base: sqlite3.Connection, path: Path) -> None:
    """Let a foreign file run nothing of its own, and no statement run forever."""
    base.execute("PRAGMA trusted_schema=OFF")
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_FIELD)
    heartbeats_left = [(LEAST_STEPS + STEPS_PER_BYTE * path.stat().st_size) // _HEARTBEAT]

    def beat() -> int:
        heartbeats_left[0] -= 1
        return int(heartbeats_left[0] < 0)  # other than 0 ends the statement

    base.set_progress_handler(beat, _HEARTBEAT)


def _check_tables(base: sqlite3.Connection, path: Path, names: Sequence[str], *, needed: bool = True) -> None:
    """Raise InputError unless each name is that of a table of stored values, with bounded rows and fields.

    A view could compute its rows forever, a virtual table or a generated column run code of the schema.
    """
    for name in names:
        definition = base.execute(
            "SELECT type, sql FROM sqlite_master WHERE lower(name) = lower(?)", (name,)
        ).fetchone()
        if definition is None:
            if needed:
                raise InputError(f"{path}: no OCEL 2.0 in SQLite (no such table: {name})")
            continue
        columns = base.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
        virtual = definition[0] != "table" or str(definition[1]).upper().startswith("CREATE VIRTUAL")
        if virtual or any(column[6] for column in columns):
            raise InputError(
                f"{path}: {name!r} is not a plain table of stored values; write its rows to a table of that name"
            )
        rows = base.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0]  # noqa: S608 - quoted
        if rows > MOST_ROWS:
            raise InputError(
                f"{path}: {name!r} has {rows} rows, and at most {MOST_ROWS} are read; write events with one kind of "
                "object as Parquet, and use --engine duckdb"
            )
        for column in columns:
            # Reads each value once, so that one that is too long is found before pm4py reads it.
            length = f"max(length({_quoted(column[1])}))"
            base.execute(f"SELECT {length} FROM {_quoted(name)}").fetchone()  # noqa: S608 - quoted
