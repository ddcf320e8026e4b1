"""The status of an active coordinator, for `status` and `gap`: positions and counts, nothing about cases.

The file outlives its process. Therefore it contains who wrote it, when that was, and when the last record came; a
reader derives `standstill` from it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import msgspec

from connectors.kafka.faults import not_allowed
from models.errors import InputError, VeilstreamError, shortage
from models.instants import utc_text
from stream.daemon.broker_contact import SILENT_SECONDS, BrokerContact
from stream.daemon.delta_topic import Anchor, LostDeltasError
from stream.daemon.unreadable import unreadable_partitions
from stream.fold.fold import Fold
from stream.fold.rules import PublicationRules
from stream.fold.state import Partition
from stream.fold.triggers import PublicationState
from stream.ledger.layout import OperatorLayout
from stream.release.reason import Code
from stream.values.duration import SECOND

BEHIND_NS = 60 * 1_000_000_000
"""A wall clock that goes back by more than this was set back. Less is the difference between the workers' clocks."""


class Alarms:
    """Logs faults of a coordinator's input, each once, when it begins.

    These are gaps, a wall clock that was set back, and events under another pseudonym key.
    """

    def __init__(self) -> None:
        self._behind = self._foreign = False
        # Source and partition of each gap that was logged. A second gap may begin while the first is open.
        self._logged_gaps: set[tuple[str, int]] = set()

    def look(self, fold: Fold) -> None:
        """Log new gaps and foreign keys. Called after each record."""
        open_gaps: set[tuple[str, int]] = set()
        if fold.gap:
            open_gaps = {key for key, partition in fold.state.partitions.items() if partition.gap}
        new_gaps = []
        for source, number in sorted(open_gaps - self._logged_gaps):
            new_gaps += gaps(fold, source, number)
        if new_gaps:
            log.error("gap: %s; nothing is released until `veilstream gap rewind|accept`", "; ".join(new_gaps))
        self._logged_gaps = open_gaps
        if fold.state.foreign and not self._foreign:
            log.error("events under another pseudonym key come, and are rejected: give every worker the same key")
            self._foreign = True

    def tick(self, fold: Fold, at: int) -> None:
        """Log that the wall clock was set back. Called before each tick.

        The clock of the fold never goes back, so ticks have no effect until the wall clock has caught up.
        """
        now = fold.now
        behind = now is not None and at < now - (0 if self._behind else BEHIND_NS)
        if behind and not self._behind:
            log.error(
                "the wall clock was set back by %d s: windows that use it do not fire until it has caught up",
                ((now or 0) - at) // 1_000_000_000,
            )
        self._behind = behind


def gaps(fold: Fold, source_is: str | None = None, number_is: int | None = None) -> list[str]:
    """Describe each gap by its missing offsets; only those of one source or partition if it is named."""
    described = []
    for (source, number), partition in fold.state.partitions.items():
        is_chosen = source_is in (None, source) and number_is in (None, number)
        if partition.gap and is_chosen:
            described.append(f"{source}/{number}: {_text(partition)}")
    return described


def _text(partition: Partition) -> str:
    first, last = partition.missing or (0, 0)
    if partition.fault == "recreated":
        return "the topic was deleted and created again; unread events of the former topic are gone"
    if partition.fault == "truncated":
        return f"the log lost its records from offset {first} on, and assigns these offsets again"
    return f"offsets {first} to {last} are missing"


log = logging.getLogger("veilstream")


@dataclass(frozen=True, slots=True)
class CoordinatorSnapshot:
    """The facts about a coordinator that the status file shows.

    Parameters
    ----------
    fold
        Its state.
    position
        Position of the last folded record.
    saved
        Position of the last checkpoint.
    anchor, lost
        The delta topic, and the error if it is not the one that was folded.
    held
        Releases that wait for approval.
    saved_at
        When the state was last saved, seconds since 1970; None if it never was.
    releases
        Last and next release, and budget, of each publication.
    building
        The build that runs beside the fold.
    """

    fold: Fold
    position: int
    saved: int
    anchor: Anchor
    lost: LostDeltasError | None
    held: Sequence[HeldStatus] = ()
    saved_at: float | None = None
    releases: Mapping[str, ReleaseStatus] = field(default_factory=dict)
    building: BuildStatus | None = None


HEARTBEAT = 5.0
"""The heartbeat (seconds) of a status file of an earlier program, which does not contain it."""

MISSED = 3
"""After this many heartbeats without progress something has stopped. A single one may be late."""


class LostDelta(TypedDict):
    """The topic that replaced the one that was folded, and its first offset that differs."""

    log: str
    first: int


class DeltaStatus(TypedDict):
    """The delta topic that is folded, and whether it is still the same."""

    log: str
    lost: LostDelta | None


class PartitionStatus(TypedDict, total=False):
    """Progress of one source partition.

    Attributes
    ----------
    src, p
        Topic and number of the partition.
    last
        Offset up to which its records were folded.
    missing, fault
        First and last missing offset, and the reason. Both are None if none is missing.
    """

    src: str
    p: int
    last: int
    missing: tuple[int, int] | None
    fault: str | None


class Gap(TypedDict, total=False):
    """A source partition that misses offsets, as in `PartitionStatus`.

    `gone`, after `gap rewind`: those of them that the topic does not have any more, if there are any.
    """

    src: str
    p: int
    last: int
    missing: tuple[int, int]
    fault: str | None
    gone: tuple[int, int]


class HeldStatus(TypedDict):
    """A release that waits for a person's approval. `since`: seconds since 1970."""

    publication: str
    number: int
    since: float


class TriggerStatus(TypedDict, total=False):
    """A trigger of the next release.

    Attributes
    ----------
    trigger
        Name of the trigger.
    have, need
        Number that was counted, and number at which the trigger fires.
    due
        Moment at which it fires, in seconds since 1970. `every` has none before its first window has begun.
    clock
        The clock of `due`: event times, or wall time.
    """

    trigger: str
    have: int
    need: int
    due: float
    clock: str


class BudgetStatus(TypedDict):
    """Epsilon that was charged, its limit, and the releases that every limit of the process can still pay."""

    spent_epsilon: float
    max_epsilon: float | None
    left_releases: int | None


class ReleaseStatus(TypedDict):
    """Releases of one publication.

    Attributes
    ----------
    last, last_at
        Number of the last release, and its time in seconds since 1970. Both are None without a release. The time is
        also None if the audit of the release cannot be read.
    next
        Triggers of the next release.
    withheld_streak
        Attempts since the last release that were withheld.
    withheld_for
        Codes of the reasons of the newest attempt, if it was withheld.
    budget
        None for a publication that charges nothing.
    """

    last: int | None
    last_at: float | None
    next: list[TriggerStatus]
    withheld_streak: int
    withheld_for: list[Code]
    budget: BudgetStatus | None


class BuildStatus(TypedDict):
    """A build that runs while records are folded, and how long it has taken so far."""

    publication: str
    cut: str
    seconds: float


class LagStatus(TypedDict):
    """Records that wait: of each source partition (`topic/number`), in the delta topic, and dead letters that are kept.

    They are differences of offsets, so markers of transactions count.
    """

    source: dict[str, int]
    delta: int
    dead_letters: int


class Status(TypedDict, total=False):
    """The content of status.json and of the status topic.

    Files of earlier programs lack `host`, `delta`, `key`, `heartbeat`, `moved`, `busy_seconds`, `held`, `paused`,
    `unreadable`, `broker_contact`, `process`, `checkpoint_at`, `releases`, `lag`, `building` and `ended_by`.

    Attributes
    ----------
    busy_seconds
        Duration of the current step of the fold, or of the build that runs beside it.
    ended_by
        Last line of the log of a process that ended because of an error.
    """

    state: str
    at: float
    pid: int
    host: str
    position: int
    delta: DeltaStatus
    checkpoint: int
    partitions: list[PartitionStatus]
    key: str
    foreign: int
    publications: dict[str, dict[str, int]]
    held: list[HeldStatus]
    paused: list[str]
    heartbeat: float
    moved: float
    busy_seconds: float
    unreadable: list[str]
    broker_contact: float
    process: str
    checkpoint_at: float | None
    releases: dict[str, ReleaseStatus]
    lag: LagStatus
    building: BuildStatus | None
    ended_by: str


class StatusFile:
    """The file `operator/status.json`, replaced with every batch and every heartbeat.

    It may be lost in a crash: everything in it is written again. The thread that folds writes it, and the timer of the
    event loop.
    """

    def __init__(self, output: Path, heartbeat: float = HEARTBEAT) -> None:
        self._output = output
        self._path, self._heartbeat = OperatorLayout(output).status, heartbeat
        self._written_status = Status()
        self._lock = threading.Lock()
        self.contact: BrokerContact | None = None
        self.lag: LagStatus | None = None
        """Records that wait, as last measured."""
        self.publish: Callable[[Status], None] | None = None
        """Also receives each status (`stream.daemon.status_topic`)."""
        self._failing = False

    def write(self, snapshot: CoordinatorSnapshot, state: str) -> None:
        """Write the whole status, after records were folded."""
        busy_seconds = 0.0 if snapshot.building is None else snapshot.building["seconds"]
        times: Status = {"heartbeat": self._heartbeat, "moved": time.time(), "busy_seconds": busy_seconds}
        self._put({**status(snapshot, state), **times})

    def alive(self, state: str, busy_seconds: float, building: BuildStatus | None = None) -> None:
        """Update only the time, the state and what is done now.

        Does nothing before the first `write`: a standby writes no status.
        """
        if self._written_status:
            now: Status = {"state": state, "busy_seconds": busy_seconds, "building": building, "at": time.time()}
            self._put({**self._written_status, **now})

    def stopped(self, ended_by: str) -> None:
        """Record the end of the process.

        A process that ends before it has a status keeps the figures of the one before it, which has ended. Otherwise
        `status` would show why that one ended.

        Parameters
        ----------
        ended_by
            Text of its error, as in the log. Empty if somebody stopped it.
        """
        if not self._written_status and ended_by:
            self._written_status = self._status_of_ended_process()
        if self._written_status:
            if ended_by:
                self._written_status["ended_by"] = ended_by
            self.alive("stopped", 0.0)

    def _status_of_ended_process(self) -> Status:
        """Return the figures of the last coordinator of the folder under the name of this process.

        Empty if there is none, or if it may still run: it holds the lock of the folder, and its status is its own.
        """
        try:
            last = read_status(self._output)
        except InputError:
            return Status()
        if last is None or not _has_ended(last, time.time()):
            return Status()
        return {**last, "pid": os.getpid(), "host": socket.gethostname()}

    def _put(self, status: Status) -> None:
        status["unreadable"] = unreadable_partitions.places
        if self.contact is not None:
            status["broker_contact"] = self.contact.at
        if self.lag is not None:
            status["lag"] = self.lag
        if self.publish is not None:
            self.publish(status)
        with self._lock:
            self._written_status = status
            temporary = self._path.with_suffix(".tmp")
            try:
                temporary.write_bytes(msgspec.json.encode(status))
                os.replace(temporary, self._path)
            except OSError as error:
                # Readers see the age of the file. An error raised here would hide the one that ends the process.
                if not self._failing:
                    log.warning("%s: cannot be written (%s); it stays as it was", self._path, error.strerror)
                self._failing = True
            else:
                self._failing = False


def end_text(error: BaseException) -> str:
    """Return why a process ends, as its log reports it.

    Of an unexpected error this is the type alone, since its text may hold content.
    """
    if isinstance(error, VeilstreamError):
        return str(error)
    short = shortage(error) if isinstance(error, OSError) else not_allowed(error)
    return f"{type(error).__name__}; the log has its stack" if short is None else str(short)


def gaps_of(status: Status) -> list[str]:
    """Describe the lost events in a status: of the delta topic, then of each source partition."""
    described = []
    delta = status.get("delta")
    if delta and delta.get("lost"):
        described.append("the delta topic is not the one that the state was folded from")
    for partition in status["partitions"]:
        if not partition["missing"]:
            continue
        first, last = partition["missing"]
        loss = f"misses offsets {first} to {last}" if first <= last else f"begins again at offset {first}"
        fault = partition.get("fault", "missing")
        described.append(f"{partition['src']}/{partition['p']} {loss} ({fault})")
    return described


def standstill(status: Status, now: float) -> str | None:
    """Return why nothing moves; None if it moves, or may by the next heartbeat.

    A coordinator that is silent for `MISSED` heartbeats has ended or hangs. One that gets no record for so long and
    builds nothing has no ingest.
    """
    patience = _patience(status)
    if status["state"] == "stopped":
        ended_by = status.get("ended_by")
        return f"the coordinator ended: {ended_by}" if ended_by else "the coordinator was stopped"
    if _is_silent(status, now):
        has_ended = status.get("host") == socket.gethostname() and not _runs(int(status["pid"]))
        return "its process has ended" if has_ended else "the coordinator has not been heard of since"
    contact = status.get("broker_contact", status["at"])
    if status["at"] - contact > SILENT_SECONDS:
        since = utc_text(contact)
        return f"no contact with the broker since {since}"
    if unreadable := status.get("unreadable"):
        return "; ".join(f"{place}: cannot be decoded; later records are not folded" for place in unreadable)
    if now - status.get("moved", status["at"]) > patience and not status.get("busy_seconds"):
        return "no records arrive: check that ingest workers run"
    return None


def _patience(status: Status) -> float:
    return MISSED * float(status.get("heartbeat", HEARTBEAT))


def _is_silent(status: Status, now: float) -> bool:
    """Return whether so many heartbeats are missing that the process has ended or hangs."""
    return abs(now - status["at"]) > _patience(status)  # ahead of now: the clock was set back since


def _has_ended(status: Status, now: float) -> bool:
    """Return whether the coordinator that wrote a status cannot run any more, as far as this host sees."""
    if status["state"] == "stopped" or _is_silent(status, now):
        return True
    # In a container each process of the image has the same number.
    pid = int(status["pid"])
    return status.get("host") == socket.gethostname() and (pid == os.getpid() or not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def status(snapshot: CoordinatorSnapshot, state: str) -> Status:
    """Return positions, partitions with their high-water marks, gaps, and the counts of each publication."""
    fold = snapshot.fold
    return {
        "state": state,
        "at": time.time(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "position": snapshot.position,
        "delta": {"log": snapshot.anchor.log, "lost": _lost(snapshot)},
        "checkpoint": snapshot.saved,
        "partitions": [
            {
                "src": source,
                "p": number,
                "last": partition.hwm,
                "missing": partition.missing,
                "fault": partition.fault if partition.gap else None,
            }
            for (source, number), partition in sorted(fold.state.partitions.items())
        ],
        "key": fold.key or fold.rules.key,
        "foreign": fold.state.foreign,
        "publications": {name: fold.accounting(name) for name in fold.publications},
        "paused": [name for name, counts in fold.publications.items() if counts.paused],
        "held": list(snapshot.held),
        "checkpoint_at": snapshot.saved_at,
        "releases": dict(snapshot.releases),
        "building": snapshot.building,
    }


def next_triggers(rules: PublicationRules, counters: PublicationState) -> list[TriggerStatus]:
    """Return the triggers of the next release, each with what it has and needs.

    Parameters
    ----------
    rules
        Rules of the publication.
    counters
        Its counts since its last cut.
    """
    window, first = rules.window, rules.window.first
    if first is not None and not counters.first_done:
        by_cases = _counted("new_cases", first.new_cases, counters.new_cases)
        by_events = _counted("new_events", first.new_events, counters.new_events)
        triggers = by_cases + by_events
        if first.until is not None:
            clock = "wall" if rules.private else "event"
            triggers.append({"trigger": "first", "due": first.until / SECOND, "clock": clock})
        return triggers
    triggers = _counted("new_cases", window.new_cases, counters.new_cases)
    triggers += _counted("new_events", window.new_events, counters.new_events)
    triggers += _counted("completed_cases", window.completed_cases, counters.completed)
    if window.every is not None and counters.window_end is None:
        triggers.append({"trigger": "every"})
    elif window.every is not None and counters.window_end is not None:
        lateness = window.allowed_lateness if window.tumbling else 0
        due = (counters.window_end + lateness) / SECOND
        triggers.append({"trigger": "every", "due": due, "clock": window.time})
    return triggers


def _counted(trigger: str, need: int | None, have: int) -> list[TriggerStatus]:
    """Return a counting trigger, if it is set."""
    return [] if need is None else [{"trigger": trigger, "have": have, "need": need}]


def _lost(snapshot: CoordinatorSnapshot) -> LostDelta | None:
    """Return id and first differing offset of the topic that replaced the one that was folded."""
    lost = snapshot.lost
    if lost is None:
        return None
    return {"log": lost.lineage.topic, "first": lost.lost}


def read_status(output: Path) -> Status | None:
    """Read the last status; None if no coordinator ever ran here.

    Raises
    ------
    InputError
        If the file exists and cannot be read: another user runs the coordinator.
    """
    path = OperatorLayout(output).status
    try:
        decoded: Status = msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    except OSError as error:
        problem = f"{path}: cannot be read ({error.strerror}); ask as the user who runs the coordinator"
        raise InputError(problem) from None
    return decoded
