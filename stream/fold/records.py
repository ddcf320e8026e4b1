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

    Attributes
    ----------
    position, row
        Record of the delta topic and row in it (embedded: rank of the event, and 0).
    index, ordinal
        Number of the cut among those of the publication at this place (from 0), and among all of them (from 1).
    time_ns
        The clock at the cut: of ticks; embedded or before the first tick, of events.
    vector
        (source, partition, highest offset applied), sorted.
    window
        Begin and end (exclusive) in ns of the window of `every`; None if there is none.
    certain
        False if max_wait fired or the mode is up_to; None without events_per_case.
    counts
        new_cases, new_events (first exposed by this cut), non_append_insertions (new events that come before an event
        exposed earlier), pending, late_included (late events since the last cut), late (events left out as late, all
        so far), removed_cases, removed_events (erasure and retention, all so far). If each case is exposed once, also
        late_lost (events since the last cut of cases exposed before it) and capped_cases (complete cases that were
        left out because their person is unknown or has reached the cap).
    accumulated
        The first three counts, added up since the last *released* cut, this one included.
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


def position_of(cut: str) -> int:
    """Return the position of the record at which a cut was taken, from the name of the cut (`Cut.id`)."""
    _, position, _, _ = cut.split("/")
    return int(position)


class Outcome(NamedTuple):
    """Effect of a durable decision on the fold.

    Attributes
    ----------
    released
        Whether the cut was released: counts since the last release begin again.
    shown
        Pseudonyms of cases that releases show, this one or those that a person has approved since. Read only for a
        publication whose cases wait (`PublicationRules.waits`).
    """

    released: bool
    shown: Collection[str] = ()


VERSION: Final = 1
SEVERAL_VERSION: Final = 2
"""Version of deltas with `several`. A program before 0.2 would read their rows of one offset as repeats, so it must
refuse them."""

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

    The attributes from `log` on describe the log that the events were read from. Records before version 0.2 have none
    of them.

    Attributes
    ----------
    src, p
        Topic and number of the source partition.
    prev, last
        Committed position before, and highest offset covered.
    n, rows
        Number of events, and the events.
    dlq
        Offsets of records that went to the dlq.
    wm
        Watermark (ns) of the partition.
    key
        Id of the pseudonym key.
    named
        Whether resources are pseudonyms. Older ingests, and those with `raw_resources`, wrote them as they came.
    several
        Whether rows with one offset are different events of one source record. Otherwise the second one is a repeat.
    log, epoch
        Id of the source topic, and leader epoch of the record at `last` (-1: unknown).
    epochs
        (leader epoch, first offset) of the log, rising. Written when a worker takes a partition and when its leader
        has changed.
    end
        End offset of the log, if it was truncated before the position that was read.
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
    if len(rows) == len(record.rows):
        return record
    return msgspec.structs.replace(record, rows=rows, n=len(rows))


def with_resources(record: Delta, pseudonym: Callable[[str], str]) -> Delta:
    """Return the record with pseudonyms in place of its resources; the same record if it has them already."""
    if record.named:
        return record
    pseudonym_of: dict[str | None, str | None] = {None: None}
    for row in record.rows:
        resource = row[4]
        if resource not in pseudonym_of and resource is not None:
            pseudonym_of[resource] = pseudonym(resource)
    rows = [(*row[:4], pseudonym_of[row[4]], *row[5:]) for row in record.rows]
    return msgspec.structs.replace(record, rows=rows, named=True)


def with_person(
    attributes: Attributes | None,
    name: str,
    pseudonym: Callable[[str], str],
) -> Attributes | None:
    """Return the attributes of a row with its person as a pseudonymous attribute of the case.

    Parameters
    ----------
    attributes
        Attributes of the row.
    name
        The attribute that names the person.
    pseudonym
        Makes the pseudonym of a person.
    """
    levels = attributes or {}
    person = levels.get("case", {}).get(name)
    if person is None:
        person = levels.get("event", {}).get(name)
    if person is None:
        return attributes
    pseudonymous: Attributes = {}
    for level, values in levels.items():
        pseudonymous[level] = {key: value for key, value in values.items() if key != name}
    pseudonymous["case"] = {**pseudonymous.get("case", {}), name: pseudonym(str(person))}
    return {level: values for level, values in pseudonymous.items() if values}


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
