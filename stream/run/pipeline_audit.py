"""Neighbouring logs through the whole pipeline: reader, fold, cut, gate, mechanism, files.

This is the stage of `veilstream audit-epsilon --pipeline`.

A mechanism can keep its promise and the pipeline around it break it: by the moment of a release, by its absence, or by
the events that a window exposes. So the output that is audited is all that an outsider can see of a run: how many
attempts there were, when each was and whether it was withheld, the manifest, the sizes of the files, and what they
contain.

The logs are our own. They are files: a run begins at their bytes, with and without the rows of one person, and reads
them as a replay does. So a reader that lets one row decide how the others are read is audited as well.

Time is simulated: ticks come by the hour whatever the events do, as in the daemon, and the
run ends at the same hour with and without the victim. Not seen: how long a build takes; digests and ids, which are
fresh in every run.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from connectors.files import FileOps
from connectors.store.base import MANIFEST, local_release
from models.dp.account import loss
from models.dp.audit import NeighbourPair
from models.dp.budget import Charge
from models.dp.neighbours import observed
from models.errors import InputError, NoEventsError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.fold.records import Delta, PlainRow, Row, Tick
from stream.ledger.layout import MAP_COUNTS
from stream.release.failpoints import Faults
from stream.release.schedule import SimulatedClock
from stream.run.service import ProcessContext, ReleaseService

HOUR_NS = 3_600 * 1_000_000_000
DAY_NS = 24 * HOUR_NS

BEGIN_NS = 1_704_067_200 * 1_000_000_000
"""2024-01-01T00:00:00Z: the public start of the simulated time."""

HOURS = 73
"""Ticks of a run: three windows of a day, and the hour in which the third one closes."""

HEADER = b"case:concept:name,concept:name,time:timestamp"

TIME_FORMAT = "%d/%m/%Y %H:%M:%S.%f"
"""Of the files: on the first days of January no text distinguishes day and month, so a guess would rest on one row."""

FILE = {"encoding": "utf-8", "separator": "comma", "time_format": TIME_FORMAT}
"""The declarations that such a file needs."""

FRESH = ("previous_manifest",)
"""Keys within the manifest's tables that are random in every run: digests of files with fresh ids."""

COUNT_STEP = 5
"""Numbers of cases are distinguished in steps of so many."""

SIZE_STEP = 64
"""And bytes of files in steps of so many."""


@dataclass(frozen=True, slots=True)
class Victim:
    """The person who is present in one log and absent in the other.

    Attributes
    ----------
    trace
        One activity an hour from hour `at` of the run.
    later
        Hours of one more activity each.
    second
        Hour from which a second case of the same activities begins.
    lines
        Further rows of the file, as bytes.
    """

    name: str
    trace: str
    at: int
    later: tuple[int, ...] = ()
    second: int | None = None
    lines: tuple[bytes, ...] = ()

    @property
    def events(self) -> list[tuple[int, int, str]]:
        """(hour, case, activity)."""
        starts = [self.at] if self.second is None else [self.at, self.second]
        events = [(at + step, case, name) for case, at in enumerate(starts) for step, name in enumerate(self.trace)]
        return events + [(hour, 0, self.trace[-1]) for hour in self.later]


VICTIMS = (
    Victim("a case among the others", "AB", 36),
    Victim("a case of a new variant", "XYZ", 36),
    Victim("a case before all others", "AB", 2),
    Victim("a case after all others", "AB", 60),
)
"""Persons whose presence moves what a pipeline may read: a count, a variant, the first event, the last one."""


BYTE_VICTIMS = (
    Victim("a date of the other order, 25/03/2024", "", 36, lines=(b"victim-0,A,25/03/2024 12:30:00.000000",)),
    Victim("a date of the other order, 03/25/2024", "", 36, lines=(b"victim-0,A,03/25/2024 12:30:00.000000",)),
    Victim("a letter in another encoding", "", 36, lines=(b"victim-0,M\xfcller,02/01/2024 12:30:00.000000",)),
    Victim("a row that cannot be read", "", 36, lines=(b'victim-0,"A,02/01/2024 12:30:00.000000',)),
)
"""Persons whose rows would decide how a reader that looks at all rows reads the others, or whether it reads them."""


SERIES_VICTIMS = (
    Victim("a case of release 3 of 5", "AB", 60),
    Victim("a case that continues after its release", "AB", 36, later=(60, 84)),
    Victim("a case that straddles two windows", "AB", 71),
    Victim("a case of a new variant in release 3 of 5", "XYZ", 60),
)
"""Persons in a series of five releases in which each case counts once."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The cases of everybody else.

    `common` cases of A B have starts spread over so many hours of the second day, and of each of so many `days`
    from then on. The victim comes, or does not. The run ends after so many `hours`.
    """

    common: int = 100
    days: int = 1
    hours: int = HOURS
    spread: int = 22

    def file(self, victim: Victim | None) -> bytes:
        """Return the log as a CSV file, in order of time, with the victim's `lines` in the middle."""
        events: list[tuple[int, int, str, str]] = []
        for number in range(self.days * self.common):
            day, within = divmod(number, self.common)
            start = (1 + day) * DAY_NS + within * self.spread * HOUR_NS // self.common
            events += [(start + step * HOUR_NS, number, f"case-{number}", name) for step, name in enumerate("AB")]
        if victim is not None:
            events += [
                (hour * HOUR_NS + HOUR_NS // 2, -1, f"victim-{case}", name) for hour, case, name in victim.events
            ]
        rows = []
        for time, _, case, activity in sorted(events):
            seconds, nanoseconds = divmod(BEGIN_NS + time, 1_000_000_000)
            moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)
            rows.append(f"{case},{activity},{moment:{TIME_FORMAT}}".encode())
        middle = len(rows) // 2
        further = () if victim is None else victim.lines
        return b"\n".join([HEADER, *rows[:middle], *further, *rows[middle:], b""])


def arriving(log: EventLog, pseudonym: Callable[[str], str]) -> dict[int, list[PlainRow]]:
    """Return the events by the hour in which they arrive, offsets in order of arrival."""
    by_hour: dict[int, list[PlainRow]] = defaultdict(list)
    names = [pseudonym(case) for case in log.case_ids]
    cases, activities, times = log.case_of_event.tolist(), log.activity.decode(), log.time.tolist()
    for offset, event in enumerate(np.lexsort((log.row, log.time)).tolist()):
        hour = (times[event] - BEGIN_NS) // HOUR_NS
        by_hour[hour].append(Row(offset, names[cases[event]], activities[event], times[event]))
    return by_hour


SERIES = Scene(days=4, hours=121, spread=12)
"""Five releases of a day each, the first one without cases; all cases of a day complete in it."""


def small_configuration(mechanism: Mapping[str, Any], **keys: Any) -> Settings:
    """Return the configuration that is audited: a release a day, cases leave a day after their end.

    `keys` are further keys of the publication. If each case counts once, cases stay: only the rule itself keeps
    them from counting again.
    """
    publication: dict[str, Any] = {
        "name": "statistics",
        "window": {"every": "1d", "time": "wall"},
        "mechanism": dict(mechanism),
        "start": "2024-01-01T00:00:00Z",
    }
    publication.update(keys)
    retention = "30d" if keys.get("cases") == "completed" else "1d"
    process = {"name": "audit", "retention": retention, "completion": {"inactivity": "6h"}, "timezone": "UTC"}
    return Settings.model_validate(
        {"process": process, "publication": [publication], "file": dict(FILE), "min_free_bytes": 0}
    )


class _Fleeting(FileOps):
    """Files of a run that nobody keeps need not outlive a crash."""

    def fsync(self, path: Path) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the pipeline on the scene's log, with or without a victim."""

    settings: Settings
    scene: Scene
    victim: Victim | None

    def __call__(self) -> Iterator[Hashable]:
        """Return the events that happened in the output."""
        yield from self.output()[0]

    def output(self) -> tuple[list[Hashable], Charge]:
        """Return everything that an outsider sees, and what the account states of all charges."""
        folder = Path(tempfile.mkdtemp(prefix="audit-"))
        try:
            try:
                log = self._read(folder / "log.csv")
            except InputError:
                return [("no release", "the log is refused")], Charge()
            return self._through(folder / "output", log)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _read(self, file: Path) -> EventLog:
        """Return the log of the file, as a replay of these settings reads it."""
        file.write_bytes(self.scene.file(self.victim))
        return read_log(file, reading=self.settings.reading(_drop_message))

    def _through(self, folder: Path, log: EventLog) -> tuple[list[Hashable], Charge]:
        seen: list[Hashable] = []
        attempts: Counter[str] = Counter()
        counts: list[Counter[tuple[str, ...]]] = []
        context = ProcessContext(SimulatedClock(), "rows")
        service = ReleaseService(self.settings, folder, context=context, faults=Faults(ops=_Fleeting()))
        try:
            fold = Fold(service.rules(embedded=False))
            for position, record in enumerate(self._records(service, log)):
                for cut in fold.apply(position, record):
                    decision = service.decide(fold, cut)
                    attempts[cut.publication] += 1
                    attempt = f"{cut.publication} attempt {attempts[cut.publication]}"
                    hours = (cut.time_ns - BEGIN_NS) / HOUR_NS
                    seen += [(attempt, decision.status), (attempt, f"at hour {hours:g}")]
                    if decision.status == "sealed":
                        place = local_release(folder, cut.publication, decision.sequence)
                        seen += (_tagged(attempt, output) for output in visible(place, self.scene.common))
                        counts.append(_variants(place))
            spent = loss(self.settings.process.budget.adds, service.ledger.view.spending).charge
        finally:
            service.close()
        names = [publication.name for publication in self.settings.publication]
        seen += [(f"{name} attempts", attempts[name]) for name in names]
        seen += together(counts, self.scene.common)
        return seen, spent

    def _records(self, service: ReleaseService, log: EventLog) -> Iterator[Delta | Tick]:
        rows = arriving(log, service.pseudonyms.case)
        last = -1
        yield Tick(at=BEGIN_NS)
        for hour in range(self.scene.hours):
            part = rows.get(hour, [])
            if part:
                first, last = last, part[-1][0]
                yield Delta(src="audit", p=0, prev=first, last=last, n=len(part), key=service.pseudonyms.id, rows=part)
            yield Tick(at=BEGIN_NS + (hour + 1) * HOUR_NS)


def _drop_message(_: str) -> None:
    """Drop the messages of a reader about a file: they are for the operator, and no output of a run."""


def _tagged(attempt: str, event: tuple[Any, ...]) -> Hashable:
    return (attempt, *event)


def visible(folder: Path, common: int) -> Iterator[tuple[Any, ...]]:
    """Return what a release shows: its manifest key by key, the size of each file, and its contents.

    `common`: about how many cases a variant has in the source.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    for file in manifest.pop("files"):
        yield "bytes", file["path"], (folder / file["path"]).stat().st_size // SIZE_STEP
    for key, value in manifest.items():
        if isinstance(value, dict):
            value = {name: part for name, part in value.items() if name not in FRESH}
        yield "manifest", key, json.dumps(value, sort_keys=True)
    for path in sorted(folder.glob("log.*"))[:1]:
        try:
            log = read_log(path)
        except NoEventsError:
            yield ("no events",)
            continue
        yield from contents(log, common)
    for path in folder.glob(MAP_COUNTS):
        yield from map_contents(json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(folder.glob("accumulated.*"))[:1]:
        try:
            yield from (("so far", *event) for event in contents(read_log(path), common))
        except NoEventsError:
            yield "so far", "no events"


def map_contents(counts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Return the numbers of a process map, in steps of `COUNT_STEP`."""
    yield "case weight", counts["case_weight"]
    yield "cases", counts["cases"]["count"] // COUNT_STEP
    for row in counts["steps"]:
        yield "steps", row["from"], row["to"], row["count"] // COUNT_STEP


def _variants(folder: Path) -> Counter[tuple[str, ...]]:
    """Cases by variant in a release."""
    for path in sorted(folder.glob("log.*"))[:1]:
        try:
            return Counter(tuple(map(str, trace)) for trace in read_log(path).traces())
        except NoEventsError:
            break
    return Counter()


def together(counts: Sequence[Counter[tuple[str, ...]]], common: int) -> Iterator[Hashable]:
    """Return what only several releases reveal.

    A variant that each of some releases on end has more often than the others make it, a multiple of `common`.
    Persons who are counted in each of them show here, and in no single release.
    """
    for trace in sorted(set().union(*counts)):
        above = [count[trace] > common * round(count[trace] / common) for count in counts]
        for first, last in itertools.combinations(range(len(counts)), 2):
            if all(above[first : last + 1]):
                yield f"releases {first + 1} to {last + 1}", "one more each", trace


def contents(log: EventLog, common: int) -> Iterator[tuple[Any, ...]]:
    """Return variants, how many cases of each, and times, as `models.dp.neighbours.observed` distinguishes them.

    Counts are included up to twice the common ones in steps of COUNT_STEP.
    """
    for event in observed(log, common):
        yield event if isinstance(event, tuple) else (event,)
    for trace, count in Counter(log.traces()).items():
        for bound in range(COUNT_STEP, 2 * common, COUNT_STEP):
            yield ("at least" if count >= bound else "fewer than"), trace, bound


def pipeline_pairs(
    settings: Settings,
    scene: Scene,
    victims: tuple[Victim, ...] = VICTIMS,
) -> list[NeighbourPair]:
    """Return the scene without and with each victim, as runs of the pipeline; one step of the claim each.

    Parameters
    ----------
    settings
        The configuration with the publication that is audited.
    scene
        The events that both runs have.
    victims
        The case of one person each, with which the second run differs.
    """
    return [NeighbourPair(victim.name, Run(settings, scene, None), Run(settings, scene, victim)) for victim in victims]


def claimed(settings: Settings, scene: Scene) -> Charge:
    """Return the charge of the releases on the common cases alone.

    The moments of dp releases are public, so a run with a victim is charged the same. A run that is charged more
    shows by its number of attempts.
    """
    return Run(settings, scene, None).output()[1]
