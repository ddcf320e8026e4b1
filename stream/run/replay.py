"""A log file through the same fold and the same release life as the daemon, without a broker.

A replay makes the releases of the daemon: one source, one partition, offsets by time. It continues after a kill; cuts
that were decided before keep their decision in the ledger.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.reading import Reading
from connectors.times import nanoseconds
from models.anonymize.sensitive import (
    refuse_identifying,
    warnings_of_late_values,
    warnings_of_lost_values,
    warnings_of_several_values,
    warnings_of_values,
)
from models.errors import InputError, RefusedError
from models.eventlog import EventLog
from stream.config.settings import Process, Settings
from stream.fold.fold import Fold
from stream.fold.records import Cut, Delta, Row, Tick
from stream.ledger.entries import ClaimBody, ClaimEntry
from stream.release.contract import Decision
from stream.release.documents import AuditDocument, is_empty
from stream.release.erasure import apply_tombstones
from stream.release.failpoints import Faults
from stream.release.gate import worst_anonymity
from stream.release.planned import BuiltBy
from stream.release.schedule import SimulatedClock
from stream.release.spec import Intake
from stream.release.verdict import LOG_END, Verdict, exit_code, verdicts
from stream.run.figures import events_by_outcome, publications_with_waiting_cases, sum_of_known
from stream.run.log_source import SOURCE, LogRecords, log_facts, records_from_log
from stream.run.presets import with_default
from stream.run.runner import Arrival, Runner
from stream.run.service import ProcessContext, ReleaseService, refuse_without_start

if TYPE_CHECKING:
    from stream.run.observer import MetricsObserver

BATCH = 500
"""Events a record: what the daemon takes at once. Cuts do not depend on it."""

MOST_WINDOWS = 1_000_000
"""Tumbling windows between the first event and the last: each is a cut, and more of them are a unit mistaken."""


@dataclass
class ReplayOutcome:
    """Result of a replay: decisions in order of their cuts, and the state after the last event."""

    decisions: list[tuple[str, Decision]] = field(default_factory=list)
    tail: dict[str, dict[str, int | None]] = field(default_factory=dict)
    events: int = 0
    cases: int = 0
    seconds: float = 0.0
    left_out: int = 0
    """Events before `process.earliest` or after the given end of the replay."""
    warning: str = ""
    """Why the run did not begin at the newest checkpoint, or ""."""
    doubtful_values: list[str] = field(default_factory=list)
    """Warnings of sensitive attributes that change within a case."""

    @property
    def withheld(self) -> list[Decision]:
        """Attempts that the gate or the mechanism refused; not those that wait for a person or for more cases."""
        withheld = (decision for _, decision in self.decisions if decision.status == "withheld")
        return [decision for decision in withheld if decision.refused]

    @property
    def held(self) -> list[tuple[str, int]]:
        """Publication and number of the releases that wait for a person's decision."""
        return [(name, decision.sequence) for name, decision in self.decisions if decision.status == "held"]

    def document(self) -> Mapping[str, Any]:
        """Return the stable JSON shape of `replay` (operator view)."""
        return {
            "releases": [dict(decision.audit) for _, decision in self.decisions if decision.status == "sealed"],
            "withheld": [_unreleased(name, decision) for name, decision in self.decisions if decision.refused],
            "waiting": [_unreleased(name, decision) for name, decision in self.decisions if decision.waits],
            "held": [dict(decision.audit) for _, decision in self.decisions if decision.status == "held"],
            "verdicts": [verdict.as_json() for verdict in self.verdicts()],
            "tail": {**self.total(), "publications": self.tail},
            "events": self.events,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }

    def warnings(self) -> list[str]:
        """Return the warnings of the log, and of the last release of each publication."""
        last = {name: decision.audit for name, decision in self.decisions if decision.status == "sealed"}
        of_releases = [
            f"{name}: {warning}"
            for name, audit in last.items()
            if audit.get("counts", {}).get("released") is not None
            for warning in audit.get("loss", {}).get("warnings", ())
        ]
        return [*self.doubtful_values, *of_releases, *self._warnings_of_empty_releases()]

    def _warnings_of_empty_releases(self) -> Iterator[str]:
        """Yield a warning for each publication with noise of which releases are empty."""
        empty: dict[str, list[int]] = {}
        for name, decision in self.decisions:
            # Of a series in which each release takes the place of a held one, one is left to decide on.
            if decision.status in ("sealed", "held") and is_empty(decision.audit):
                empty.setdefault(name, []).append(decision.sequence)
        for name, numbers in empty.items():
            subject = f"release {numbers[0]} of {name} is empty"
            if len(numbers) > 1:
                subject = f"{len(numbers)} releases of {name} are empty ({', '.join(map(str, numbers))})"
            yield (
                f"{subject}: nothing in the log exceeds the noise, and epsilon was spent all the same; "
                "choose a larger epsilon or fewer releases (veilstream advise --noise)"
            )

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each publication's releases together."""
        names = dict.fromkeys((*(name for name, _ in self.decisions), *self.tail))
        sealed: dict[str, list[AuditDocument]] = {name: [] for name in names}
        refused: dict[str, list[list[str]]] = {name: [] for name in names}
        ended = set()
        for name, decision in self.decisions:
            if decision.status == "sealed":
                sealed[name].append(decision.audit)
            elif decision.status != "held":
                refused[name].append(decision.reasons)
            if decision.audit.get("trigger") == LOG_END:
                ended.add(name)
        return verdicts(sealed, refused, Counter(name for name, _ in self.held), ended)

    @property
    def exit_code(self) -> int:
        """3 if an attempt was refused or a publication has released nothing; else 0, also if some cuts only waited."""
        return 3 if self.withheld else exit_code(self.verdicts())

    def total(self) -> dict[str, int | None]:
        """Return the sum of the tails of all publications; None for numbers that cannot be counted."""
        names = ("released", "suppressed", "pending", "late")
        return {name: sum_of_known([tail[name] for tail in self.tail.values()]) for name in names}

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield one line for each cut, for people.

        Columns: publication, number, time, trigger, cases, events, kept (share of the exposed events), activities
        (how many of the frequent ones are in it), KA, FA, CA, BA, reasons.
        """
        for name, decision in self.decisions:
            audit = decision.audit
            counts, anonymity = audit.get("counts") or {}, audit.get("anonymity") or {}
            worst = [worst_anonymity(anonymity, measure) for measure in ("ka", "fa", "ca", "ba")]
            gate = audit.get("gate", {})
            reasons = "; ".join(decision.reasons or gate.get("reasons", ()))
            if reasons and gate.get("decision") == "repaired":
                reasons = f"repaired, since {reasons}"
            number: int | str = decision.sequence if decision.status == "sealed" else decision.status
            if decision.waits:
                number = "waits"
            moment = str(audit.get("cut", {}).get("time", ""))[:16]
            cases, events = counts.get("released_cases"), counts.get("released")
            yield (name, number, moment, audit.get("trigger"), cases, events, *_kept(audit), *worst, reasons)


def _unreleased(publication: str, decision: Decision) -> dict[str, Any]:
    """Return the JSON of a cut that released nothing."""
    return {**decision.audit, "publication": publication, "cut_id": decision.cut, "reasons": decision.reasons}


def _kept(audit: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Share of events kept and `frequent activities present/all`, where the audit of loss was made of a removal."""
    lost = audit.get("loss") or {}
    if lost.get("status") != "ok" or (audit.get("counts") or {}).get("released") is None:
        return None, None
    return f"{lost['kept']:.3f}", f"{lost['frequent'] - len(lost['lost'])}/{lost['frequent']}"


class Replay:
    """One log through one configuration into one output folder.

    Parameters
    ----------
    settings, output
        Configuration, and the folder of the replay.
    speed
        How many times faster than event time the replay runs. None: without a wait.
    on_progress
        Called with the number of events that are folded.
    sleep
        Waits for so many seconds, if `speed` is set.
    batch
        Events of a record.
    watch
        Follows decisions and state, for metrics.
    built_by, assess, on_assess, faults
        As of `ReleaseService`.
    intake
        How the log was read (`intake_of`). The promise of epsilon in a manifest begins with it.
    """

    def __init__(
        self,
        settings: Settings,
        output: Path,
        *,
        speed: float | None = None,
        on_progress: Callable[[int], None] = lambda _events: None,
        sleep: Callable[[float], None] = time.sleep,
        batch: int = BATCH,
        watch: MetricsObserver | None = None,
        built_by: BuiltBy | None = None,
        intake: Intake = "log",
        assess: bool = False,
        on_assess: Callable[[str], None] = lambda _attack: None,
        faults: Faults = Faults(),  # noqa: B008 - frozen
    ) -> None:
        self.settings, self.speed, self.on_progress, self.sleep = settings, speed, on_progress, sleep
        # At the pace of event time, a record with several events would come at the moment of its first one.
        self.batch = batch if speed is None else 1
        self.clock = SimulatedClock()
        self.watch = watch
        self.service = ReleaseService(
            settings,
            output,
            context=ProcessContext(self.clock, intake),
            watch=watch,
            built_by=built_by,
            assess=assess,
            on_assess=on_assess,
            faults=faults,
        )
        if watch is not None:
            watch.attached(self.service)
        self._moment: int | None = None

    def run(self, log: EventLog, *, final: bool = False, until: int | None = None) -> ReplayOutcome:
        """Replay the whole log. The folder is unlocked afterwards, also after an error.

        Parameters
        ----------
        log
            The log. It is dropped once the fold has all events: if the caller drops it too, the last release has its
            memory.
        final
            Whether the end of the log makes a last cut.
        until
            Moment (ns) at which the replay ends. Later events are left out, and the clock runs on to it.
        """
        started = time.monotonic()
        try:
            all_events, log = log.n_events, within(log, self.settings, until)
            events = log.n_events
            outcome = ReplayOutcome(events=events, cases=log.n_cases, left_out=all_events - events)
            outcome.doubtful_values = self._doubtful_values(log)
            resume = Resume(self.service, log, until)
            fold, outcome.warning = resume.fold, resume.warning
            run = _ReplayRun(self.service, fold, self.on_progress, self.watch)
            runner = Runner(fold, run, every=self.settings.checkpoint_every, position=fold.position)
            records = self._records(log)
            del log
            runner.run(LogRecords(records, resume.taken, self._pace))
            # The clock runs on to the given end: windows may end after the last event.
            cuts_of_tick: Iterable[Cut] = () if until is None else fold.apply(events, Tick(at=until))
            for cut in chain(cuts_of_tick, self._last_cuts(fold, final)):
                run.decide(cut)
            if self.watch is not None:
                self.watch.folded(fold, last=True)
            # Releases that still wait for their moment leave now: no later event would bring it.
            self.clock.reached = None
            self.service.publish_due()
            outcome.decisions = [*resume.before(run.decisions), *map(self._settled, run.decisions)]
            outcome.tail = {name: events_by_outcome(self.service, fold, name) for name in fold.publications}
        finally:
            self.service.close()
        outcome.seconds = time.monotonic() - started
        return outcome

    def _doubtful_values(self, log: EventLog) -> list[str]:
        """Return warnings about the sensitive attributes. Publications that promise epsilon read none of them."""
        mechanisms = [publication.build_mechanism for publication in self.settings.publication]
        mechanisms = [mechanism for mechanism in mechanisms if mechanism.reads_data_in_gate]
        if not mechanisms:
            return []
        sensitive = self.settings.process.sensitive
        warnings = warnings_of_several_values(log.changing_cases(sensitive))
        all_bins = [getattr(mechanism, "bins", {}) for mechanism in mechanisms]
        unbinned = [name for name in sensitive if not all(name in bins for bins in all_bins)]
        warnings += warnings_of_values(log, unbinned)
        # C bounds the values of those mechanisms, in groups of K cases.
        smallest_groups = [getattr(mechanism, "K", 1) for mechanism in mechanisms if getattr(mechanism, "C", 1) < 1]
        if smallest_groups:
            warnings += warnings_of_lost_values(log, sensitive, max(smallest_groups))
            warnings += warnings_of_late_values(log, sensitive, max(smallest_groups))
        return warnings

    def _last_cuts(self, fold: Fold, final: bool) -> Iterator[Cut]:
        """Yield the cuts after the last event. The held releases are counted here, after the earlier cuts."""
        holding = publications_with_waiting_cases(self.service, fold) if final else ()
        yield from fold.finish(final=final, holding=holding)

    def _settled(self, decided: tuple[str, Decision]) -> tuple[str, Decision]:
        """Return the decision at the end of the replay.

        A newer candidate may have taken the place of a held one.
        """
        name, decision = decided
        if decision.status == "held":
            decision = self.service.pipelines[name].decided(decision.cut) or decision
        return name, decision

    def _records(self, log: EventLog) -> Iterator[tuple[int, Delta]]:
        pseudonyms, process = self.service.pseudonyms, self.settings.process
        return records_from_log(
            log,
            pseudonym=pseudonyms.case,
            attributes=(*process.kept, *process.attributes.person),
            log_end=process.completion.log_end,
            batch=self.batch,
            key=pseudonyms.id,
            resource=None if process.raw_resources else pseudonyms.resource,
            person=None if process.person is None else (process.person, pseudonyms.person),
            place=self.service.place,
        )

    def _pace(self, record: Delta) -> None:
        """Wait for the moment of a record, where the replay follows event time (`speed`)."""
        if self.speed is None:
            return
        moment = Row(*record.rows[0]).time_ns
        last_moment = moment if self._moment is None else self._moment
        self.sleep(max(0, moment - last_moment) / 1e9 / self.speed)
        self.clock.reached = self._moment = moment
        self.service.publish_due()


class Resume:
    """The start of a replay in a folder that may hold an earlier, unfinished replay of the log.

    Attributes
    ----------
    fold
        The fold at the checkpoint, or a new one.
    taken
        Highest rank of an event that the fold contains.
    warning
        Why the replay does not begin at the newest checkpoint; empty if it does.
    """

    def __init__(self, service: ReleaseService, log: EventLog, until: int | None = None) -> None:
        self.service, self.until = service, until
        self._claim(log)
        loaded = service.checkpoints.load()
        self.warning = loaded.warning if loaded else ""
        self.fold, self.taken = self._begun(log) if loaded is None else self._restored(loaded.state)
        apply_tombstones(service, self.fold)

    def _begun(self, log: EventLog) -> tuple[Fold, int]:
        return self.service.new_fold(self.service.rules(embedded=True), log_facts(log)), -1

    def _restored(self, state: memoryview) -> tuple[Fold, int]:
        fold = self.service.fold_of(state)
        return fold, fold.state.partition((SOURCE, 0)).hwm

    def before(self, repeated: Sequence[tuple[str, Decision]]) -> list[tuple[str, Decision]]:
        """Return decisions of the earlier run on cuts before the checkpoint, in ledger order."""
        seen = {decision.cut for _, decision in repeated}
        decisions = []
        for entry in self.service.ledger.view.attempts:
            if entry.cut in seen:
                continue
            decision = self.service.pipelines[entry.publication].decided(entry.cut)
            # A cut whose number was burned was sealed a second time: the number of its decision is the last one.
            if decision is None:
                continue
            if decision.status == "withheld" or decision.sequence == entry.sequence:
                decisions.append((entry.publication, decision))
        return decisions

    def _claim(self, log: EventLog) -> None:
        """Claim the folder for this log and configuration: with others its cuts would differ."""
        own_claim = ClaimBody(
            log=digest(log),
            config=self.service.settings.digest,
            key=self.service.pseudonyms.id,
            until=None if self.until is None else str(self.until),
            publications=tuple(publication.name for publication in self.service.settings.publication),
        )
        view = self.service.ledger.view
        # A new folder, or one whose first replay ended before its claim.
        if view.claim is None and not view.made_by_daemon:
            self.service.ledger.append(ClaimEntry(publication="", body=own_claim))
            return
        # The folder of a daemon belongs to no replay: every comparison below fails.
        claim = ClaimBody() if view.made_by_daemon or view.claim is None else view.claim
        for name, subject in (
            ("log", "the log"),
            ("config", "the configuration"),
            ("key", "the pseudonym key"),
            ("until", "the end (--until)"),
        ):
            if getattr(claim, name) != getattr(own_claim, name):
                raise RefusedError(
                    f"{self.service.folder.output}: {subject} is not the one that this folder's replay began with; "
                    "choose another folder with -o"
                )


def digest(log: EventLog) -> str:
    """Return the sha256 of everything that a replay reads of a log."""
    sha256 = hashlib.sha256(msgspec.json.encode([log.case_ids, log.activity.values, log.resource.values]))
    for array in (log.starts, log.time, log.row, log.activity.codes, log.resource.codes):
        sha256.update(array.tobytes())
    for name, column in sorted([*log.case_attributes.items(), *log.event_attributes.items()]):
        values = [str(value) for value in column.values]
        sha256.update(msgspec.json.encode([name, values]) + column.codes.tobytes())
    return sha256.hexdigest()


class _ReplayRun:
    """The host of the loop in a replay (implements `stream.run.runner.Host`)."""

    def __init__(
        self,
        service: ReleaseService,
        fold: Fold,
        on_progress: Callable[[int], None],
        watch: MetricsObserver | None,
    ) -> None:
        self.decisions: list[tuple[str, Decision]] = []
        self._service, self._fold, self._on_progress, self._watch = service, fold, on_progress, watch

    def before(self, arrival: Arrival) -> None:
        """Do nothing: a log brings events only."""

    def refused(self, arrival: Arrival, error: InputError) -> None:
        """Raise the error: a log brings no commands."""
        raise error

    def decide(self, cut: Cut) -> None:
        self.decisions.append((cut.publication, self._service.decide(self._fold, cut)))

    def settled(self) -> None:
        """Do nothing: late events of a log go nowhere."""

    def folded(self, arrival: Arrival) -> bool:
        if isinstance(arrival.record, Delta):
            self._on_progress(arrival.record.last + 1)
        if self._watch is not None:
            self._watch.folded(self._fold)
        return False

    def save(self) -> None:
        self._service.checkpoint(self._fold)
        if self._watch is not None:
            self._watch.metrics.checkpointed()


def within(log: EventLog, settings: Settings, until: int | None) -> EventLog:
    """Return the events from `process.earliest` to `until`.

    Raises
    ------
    InputError
        If no event is left.
    """
    earliest = settings.process.earliest
    first = int(log.time.min(initial=0)) if earliest is None else nanoseconds(earliest)
    last = int(log.time.max(initial=0)) if until is None else until
    inside = (log.time >= first) & (log.time <= last)
    if inside.all():
        return log
    if not inside.any():
        raise InputError("no event of the log is between process.earliest and the end of the replay (--until)")
    return log.select_events(inside, drop_empty=True)


def settings_for(settings: Settings, log: EventLog, until: int | None = None) -> Settings:
    """Return the settings that a replay of this log runs with: a configuration without publications gets the default.

    Parameters
    ----------
    settings, log
        The configuration and the log.
    until
        End of the replay (ns), if given.

    Raises
    ------
    InputError
        The configuration names something that the log does not have, or the end is before the first event.
    """
    if not settings.publication:
        settings = with_default(settings, log)
    check_against(settings, log, until)
    if until is not None and until < int(log.time.min()):
        raise InputError("--until is before the first event")
    return settings


def intake_of(reading: Reading, until: int | None) -> Intake:
    """Return where promises of epsilon begin for a log that was read in this way.

    Object-centric logs are flattened as a whole before their rows are read.
    """
    if not reading.declared or reading.object_type is not None:
        return "log"
    return "rows to the last event" if until is None else "rows"


def check_against(settings: Settings, log: EventLog, until: int | None = None) -> None:
    """Refuse a configuration that names something that the log does not have.

    A publication that promises epsilon looks for no name among the values of the log: a refusal would reveal the only
    person who has the value.

    Parameters
    ----------
    settings, log
        The configuration and the log.
    until
        End of the replay (ns), if given.

    Raises
    ------
    InputError
        Names what is missing.
    """
    reads_values = not settings.promises_epsilon
    _check_attributes(settings.process, log)
    if reads_values:
        _check_resources(settings.process, log)
    _check_sensitive(settings, log)
    _check_windows(settings, log, until)
    if reads_values:
        _check_end_activities(settings.process, log)
    for publication in settings.publication:
        try:
            publication.build_mechanism.check_log(log)
        except InputError as error:
            raise InputError(f"publication {publication.name!r}: {error}") from None


def _check_attributes(process: Process, log: EventLog) -> None:
    for name in (*process.kept, *process.attributes.person):
        if name not in log.case_attributes and name not in log.event_attributes:
            in_log = ", ".join(sorted({*log.case_attributes, *log.event_attributes})) or "none"
            named_roles = ("sensitive", "quasi", "public", "person")
            roles = [role for role in named_roles if name in getattr(process.attributes, role)]
            described_role = f"{roles[0]} attribute" if roles else "process.resource_roles:"
            raise InputError(f"{described_role} {name!r} is not in the log; it has {in_log}")


def _check_resources(process: Process, log: EventLog) -> None:
    named_resources = set(process.role_of) if isinstance(process.role_of, dict) else set()
    if named_resources and not named_resources & set(map(str, log.resource.values)):
        raise InputError("process.resource_roles names no resource of the log; check the names and --columns resource=")


def _check_sensitive(settings: Settings, log: EventLog) -> None:
    """Refuse sensitive attributes that name single cases, where a release would show their shares."""
    if not settings.publication:
        refuse_identifying(log, settings.process.sensitive)
    for publication in settings.publication:
        if publication.build_mechanism.releases_attributes:
            named = dict.fromkeys((*settings.process.sensitive, *publication.release_attributes))
            refuse_identifying(log, tuple(named), getattr(publication.build_mechanism, "bins", None))


def _check_windows(settings: Settings, log: EventLog, until: int | None) -> None:
    """Refuse windows without a start, and a log that would be cut into too many of them."""
    end = int(log.time.max())
    if until is not None:
        end = min(until, end)
    for publication in settings.publication:
        refuse_without_start(publication)
        every = publication.build_window.every
        first = int(log.time.min()) if publication.start_ns is None else publication.start_ns
        span = end - first
        if every is not None and span // every > MOST_WINDOWS:
            raise InputError(
                f"publication {publication.name!r}: the log spans {span // every} windows of window.every; "
                f"{MOST_WINDOWS} are the most that a replay cuts"
            )


def _check_end_activities(process: Process, log: EventLog) -> None:
    activities = set(log.activity.values)
    for key in ("end_activities", "end_all"):
        for name in getattr(process.completion, key):
            if name not in activities:
                raise InputError(f"process.completion.{key}: the log has no activity {name!r}")
