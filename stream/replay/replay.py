"""A log file through the same fold and the same release life as the daemon, without a broker.

What a replay shows is what the daemon would have released: one source, one partition, offsets by time. It goes on
where it was killed; cuts that were decided before are answered from the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.files import FileOps
from connectors.times import nanoseconds
from models.errors import InputError
from models.eventlog import EventLog
from stream.config.settings import Publication, Settings
from stream.fold.cut import Cut
from stream.fold.fold import Fold
from stream.fold.records import Delta, Row, Tick
from stream.release.contract import Decision
from stream.release.gate import GatePolicy, worst_anonymity
from stream.release.schedule import SimulatedClock
from stream.replay.log_source import records_from_log
from stream.replay.resume import Resume
from stream.runtime.service import Office, refuse_without_start

if TYPE_CHECKING:
    from stream.metrics.observer import Watch

BATCH = 500
"""Events a record: what the daemon takes at once. Cuts do not depend on it."""

MOST_WINDOWS = 1_000_000
"""Tumbling windows between the first event and the last: each is a cut, and more of them are a unit mistaken."""


@dataclass
class Outcome:
    """What a replay did: decisions in order of their cuts, and the state after the last event."""

    decisions: list[tuple[str, Decision]] = field(default_factory=list)
    tail: dict[str, dict[str, int | None]] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    left_out: int = 0
    """Events before `process.earliest` or after the moment that the replay was asked to end at."""
    warning: str = ""
    """Why the run did not begin at the newest checkpoint, or ""."""

    @property
    def withheld(self) -> list[Decision]:
        """Attempts that the gate or the mechanism refused."""
        return [decision for _, decision in self.decisions if decision.status == "withheld"]

    def document(self) -> dict[str, Any]:
        """The stable JSON shape of `replay` (operator view)."""
        return {
            "releases": [dict(decision.audit) for _, decision in self.decisions if decision.status == "sealed"],
            "withheld": [
                {**decision.audit, "publication": name, "cut_id": decision.cut, "reasons": list(decision.reasons)}
                for name, decision in self.decisions
                if decision.status == "withheld"
            ],
            "tail": {**self.total(), "publications": self.tail},
            "events": self.events,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }

    def total(self) -> dict[str, int | None]:
        """The tail of the only publication; of several, their sum (None where one cannot be counted)."""
        names = ("released", "suppressed", "pending", "late")
        parts = {name: [one[name] for one in self.tail.values()] for name in names}
        return {
            name: None if None in values else sum(value for value in values if value is not None)
            for name, values in parts.items()
        }

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One line a cut for people: publication, number, time, trigger, cases, events, KA, FA, CA, BA, reasons."""
        for name, decision in self.decisions:
            audit = decision.audit
            counts, anonymity = audit.get("counts") or {}, audit.get("anonymity") or {}
            worst = [worst_anonymity(anonymity, measure) for measure in ("ka", "fa", "ca", "ba")]
            reasons = "; ".join(decision.reasons or (audit.get("gate") or {}).get("reasons", ()))
            number = decision.sequence if decision.status == "sealed" else "withheld"
            moment = str((audit.get("cut") or {}).get("time", ""))[:16]
            cases, events = counts.get("released_cases"), counts.get("released")
            yield (name, number, moment, audit.get("trigger"), cases, events, *worst, reasons)


class Replay:
    """One log through one configuration into one output folder."""

    def __init__(
        self,
        settings: Settings,
        output: Path,
        *,
        speed: float | None = None,
        on_progress: Callable[[int], None] = lambda _events: None,
        at: Callable[[str], None] = lambda _name: None,
        ops: FileOps | None = None,
        sleep: Callable[[float], None] = time.sleep,
        batch: int = BATCH,
        watch: Watch | None = None,
        clock: SimulatedClock | None = None,
    ) -> None:
        self.settings, self.speed, self.on_progress, self.sleep = settings, speed, on_progress, sleep
        self.batch = batch if speed is None else 1
        self.clock = clock or SimulatedClock()
        self.office = Office(settings, output, at=at, ops=ops, clock=self.clock)
        self.office.watch = self.watch = watch

    def run(self, log: EventLog, *, final: bool = False, until: int | None = None) -> Outcome:
        """Replay the whole log; with `until` (ns) what comes after that moment is left out, and the clock runs on to
        it. Leaves the folder unlocked, also on an error."""
        started = time.monotonic()
        try:
            whole, log = log, within(log, self.settings, until)
            outcome = Outcome(events=log.n_events, left_out=whole.n_events - log.n_events)
            resume = Resume(self.office, log, until)
            fold = resume.fold()
            outcome.warning = resume.warning
            for cut in self._cuts(fold, log, resume, final=final, until=until):
                outcome.decisions.append((cut.publication, self.office.decide(fold, cut)))
            self.clock.reached = None
            self.office.publish_due()
            outcome.decisions = [*resume.before(outcome.decisions), *outcome.decisions]
            outcome.tail = {name: self.office.tail(fold, name) for name in fold.publications}
        finally:
            self.office.close()
        outcome.seconds = time.monotonic() - started
        return outcome

    def _cuts(self, fold: Fold, log: EventLog, resume: Resume, *, final: bool, until: int | None) -> Iterator[Cut]:
        pseudonyms, process = self.office.pseudonyms, self.settings.process
        records = records_from_log(
            log,
            pseudonym=pseudonyms.case,
            attributes=process.sensitive,
            log_end=process.completion.log_end,
            batch=self.batch,
            key=pseudonyms.id,
        )
        saved = resume.taken
        left = ((position, record) for position, record in records if record.last > resume.taken)
        for position, record in self._paced(left):
            cuts = 0
            for cut in fold.apply(position, record):
                cuts += 1
                yield cut
            self.on_progress(record.last + 1)
            if self.watch is not None:
                self.watch.folded(fold)
            if cuts or record.last - saved >= self.settings.checkpoint_every:
                resume.save(fold)
                if self.watch is not None:
                    self.watch.metrics.checkpointed()
                saved = record.last
        if until is not None:
            yield from fold.apply(log.n_events, Tick(at=until))
        yield from fold.finish(final=final)
        if self.watch is not None:
            self.watch.folded(fold, last=True)

    def _paced(self, records: Iterator[tuple[int, Delta]]) -> Iterator[tuple[int, Delta]]:
        """The records, in event time divided by `speed` where one is asked for."""
        previous: int | None = None
        for position, record in records:
            if self.speed is not None:
                moment = Row(*record.rows[0]).time_ns
                self.sleep(max(0, moment - (moment if previous is None else previous)) / 1e9 / self.speed)
                self.clock.reached = previous = moment
                self.office.publish_due()
            yield position, record


def default_publication(log: EventLog) -> Publication:
    """What `replay` does without a configuration: TLKC as in the design, a cut at every tenth of the cases."""
    return Publication(
        name="research",
        window={"new_cases": max(1, log.n_cases // 10)},
        mechanism={"kind": "tlkc", "knowledge": "seq", "attribute": "ac", "L": 2, "K": 20, "C": 0.5},
        audit={"bk_length": 2, "n": [0, 1]},
        gate=GatePolicy(min_ka=20),
    )


def within(log: EventLog, settings: Settings, until: int | None) -> EventLog:
    """The events from `process.earliest` to `until`. InputError where none is left."""
    earliest = settings.process.earliest
    first = int(log.time.min(initial=0)) if earliest is None else nanoseconds(earliest)
    inside = (log.time >= first) & (log.time <= (log.time.max(initial=0) if until is None else until))
    if inside.all():
        return log
    if not inside.any():
        raise InputError("no event of the log lies between process.earliest and the end that was asked for")
    return log.select_events(inside, drop_empty=True)


def check_against(settings: Settings, log: EventLog) -> None:
    """InputError where the configuration names what the log does not have."""
    for name in settings.process.sensitive:
        if name not in log.case_attributes and name not in log.event_attributes:
            known = ", ".join(sorted({*log.case_attributes, *log.event_attributes})) or "none"
            raise InputError(f"sensitive attribute {name!r} is not in the log; it has {known}")
    for publication in settings.publication:
        refuse_without_start(publication)
        every = publication.build_window.every
        first = int(log.time.min()) if publication.start_ns is None else publication.start_ns
        span = int(log.time.max()) - first
        if every is not None and span // every > MOST_WINDOWS:
            raise InputError(
                f"publication {publication.name!r}: the log spans {span // every} windows of window.every; "
                f"{MOST_WINDOWS} are the most that a replay cuts"
            )
    activities = set(log.activity.values)
    for key in ("end_activities", "end_all"):
        for name in getattr(settings.process.completion, key):
            if name not in activities:
                raise InputError(f"process.completion.{key}: the log has no activity {name!r}")
    for publication in settings.publication:
        try:
            publication.build_mechanism.check_log(log)
        except InputError as error:
            raise InputError(f"publication {publication.name!r}: {error}") from None
