"""The records of the delta topic: the only input of the fold, from a file or from Kafka.

JSON, version 1; deltas with `several` have version 2. An unknown version fails loudly: a fold that guesses is not
replayable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

# A cut: the exact point at which a release is taken.


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut of one publication.

    * `position`, `row`: record of the delta topic and row in it (embedded: rank of the event, 0); `index`: which cut
      of this publication at that place; `ordinal`: which cut of the publication, from 1;
    * `time_ns`: the clock at the cut (ticks; event time where embedded or before the first tick);
    * `vector`: (source, partition, highest offset applied), sorted;
    * `window`: begin and end (exclusive) in ns of the window of `every`, None if there is none;
    * `certain`: False where max_wait fired or the mode is up_to; None without events_per_case;
    * `counts`: new_cases, new_events (first exposed by this cut), non_append_insertions (of those, the events that
      come before an event exposed earlier), pending, late_included (late events since the last cut), late (events
      left out as late, all so far), removed_cases, removed_events (erasure and retention, all so far); where each case
      is exposed once, late_lost (events since the last cut of cases exposed before it) and capped_cases (complete cases
      that were left out, because their person has reached the cap, or is not known);
    * `accumulated`: the first three since the last *released* cut, this one included.
    """

    publication: str
    position: int
    row: int
    index: int
    ordinal: int
    time_ns: int
    trigger: str
    vector: tuple[tuple[str, int, int], ...]
    window: tuple[int | None, int | None]
    certain: bool | None
    counts: Mapping[str, int]
    accumulated: Mapping[str, int]

    @property
    def id(self) -> str:
        """Stable name of the cut: publication/offset/row/index."""
        return f"{self.publication}/{self.position}/{self.row}/{self.index}"


VERSION: Final = 1
SEVERAL_VERSION: Final = 2
"""Of deltas with `several`: a program before 0.2 would take their rows of one offset as repeats, so it must refuse."""

READABLE: Final = (VERSION, SEVERAL_VERSION)

TIMES: Final = range(-(1 << 63), 1 << 63)
"""Times (ns since 1970) that the fold can hold."""

Attributes = dict[str, dict[str, Any]]
"""{"case": {..}, "event": {..}}."""

PlainRow = tuple[int, str, str, int, str | None, Attributes | None, str | None, bool]
"""A decoded row: the values of a `Row`, without its names (decoding is a quarter cheaper)."""

ROW_WIDTH: Final = 8
TIME_PLACE: Final = 3


class Row(NamedTuple):
    """One event: [offset, case, activity, time_ns, resource, {"case": {..}, "event": {..}}, event_id, end]."""

    offset: int
    case: str
    activity: str
    time_ns: int
    resource: str | None = None
    attributes: Attributes | None = None
    event_id: str | None = None
    end: bool = False


class Record(msgspec.Struct, tag_field="t", frozen=True, kw_only=True):
    """The version, which every record carries."""

    v: int = VERSION


class Delta(Record, tag="delta", frozen=True, kw_only=True):
    """Events of one source partition.

    * `prev`: committed position before; `last`: highest offset covered;
    * `named`: its resources are pseudonyms (older ingests, and those with `raw_resources`, wrote them as they came);
    * `several`: rows with one offset are different events of one source record; without it the second one is a repeat.

    Of the log that they were read from (all optional; records before version 0.2 have none of it):

    * `log`: the id of the source topic; `epoch`: the leader epoch of the record at `last` (-1: unknown);
    * `epochs`: where each leader epoch of the log begins, rising; written when a worker takes a partition and when it
      has another leader;
    * `end`: where the log ends, if that is before what was read.
    """

    src: str
    p: int
    prev: int
    last: int
    n: int
    dlq: list[int] = []
    wm: int | None = None
    key: str = ""
    named: bool = False
    several: bool = False
    rows: Sequence[PlainRow] = []
    log: str = ""
    epoch: int = -1
    epochs: Sequence[tuple[int, int]] = ()
    end: int | None = None


def without_cases(record: Delta, cases: Collection[str]) -> Delta:
    """Return the record without the rows of some cases; the offsets that it covers stay."""
    rows = [row for row in record.rows if row[1] not in cases]
    return record if len(rows) == len(record.rows) else msgspec.structs.replace(record, rows=rows, n=len(rows))


def with_resources(record: Delta, pseudonym: Callable[[str], str]) -> Delta:
    """Return the record with its resources as pseudonyms (itself, if they are)."""
    if record.named:
        return record
    names = {row[4]: pseudonym(row[4]) for row in record.rows if row[4] is not None}
    rows = [(*row[:4], names.get(row[4]) if row[4] is not None else None, *row[5:]) for row in record.rows]
    return msgspec.structs.replace(record, rows=rows, named=True)


def with_person(attributes: Attributes | None, name: str, pseudonym: Callable[[str], str]) -> Attributes | None:
    """Return the attributes of a row with its person as an attribute of the case, by pseudonym.

    `name`: the attribute that names the person.
    """
    levels = attributes or {}
    persons = [levels[level][name] for level in ("case", "event") if levels.get(level, {}).get(name) is not None]
    if not persons:
        return attributes
    others = {level: {key: value for key, value in values.items() if key != name} for level, values in levels.items()}
    others["case"] = {**others.get("case", {}), name: pseudonym(str(persons[0]))}
    return {level: values for level, values in others.items() if values}


class Heartbeat(Record, tag="hb", frozen=True, kw_only=True):
    """A partition without new events, idle since broker time `at` (ns).

    `last`: the highest offset that deltas cover; it shows that a delta was lost even if no event follows.
    """

    src: str
    p: int
    at: int
    last: int | None = None


class Tick(Record, tag="tick", frozen=True, kw_only=True):
    """Wall clock, ns since 1970-01-01 UTC: for wall windows, idle timeout, inactivity, min_interval."""

    at: int


class Command(Record, tag="cmd", frozen=True, kw_only=True):
    """An operator's command: release, pause, resume, erase, gap, approve, reject."""

    name: str
    publication: str | None = None
    arguments: dict[str, Any] = {}


class Config(Record, tag="config", frozen=True, kw_only=True):
    """A new configuration, effective at its own offset."""

    body: dict[str, Any]


AnyRecord = Delta | Heartbeat | Tick | Command | Config
