"""The coordinator's state and its durable steps, without Faust: records in, decisions and checkpoints out.

The steps, in this order:

1. Fold a record.
2. Decide each cut of that record, durably. A second thread does this (`decide`), and the first one folds further
   records meanwhile; the next cut, a command or a configuration waits.
3. Write a checkpoint, but only between two records, and when all cuts so far are decided.
4. Allow the offsets that the checkpoint before the last one covers to be acknowledged.

The second thread gets the log of the cut, which shares nothing with the state, and alone uses the ledger, the pipelines
and the producer until its decision is taken. The fold knows when that is (`Fold.awaits_decision`).

The loop itself is `stream.run.runner`; `ActiveCoordinator` is its host.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.dp.budget import Charge
from models.errors import InputError, RefusedError
from stream.config.settings import Settings
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.delta_topic import DeltaRecord, DeltaRecords, DeltaTopic, LostDeltasError
from stream.daemon.deltas import DeadLetter
from stream.daemon.kafka_ledger import TopicLedger
from stream.daemon.publisher import Announcer
from stream.daemon.status import (
    Alarms,
    BudgetStatus,
    BuildStatus,
    CoordinatorSnapshot,
    HeldStatus,
    ReleaseStatus,
    StatusFile,
    gaps,
    next_triggers,
)
from stream.engine.building import builder
from stream.fold.fold import Fold
from stream.fold.records import Command, Config, Cut, Outcome, Tick
from stream.fold.rules import FoldRules, SourcePartition
from stream.fold.state import digest
from stream.ledger.checkpoints import SavedState
from stream.ledger.view import Account
from stream.release.contract import Attempt
from stream.release.erasure import apply_tombstones, erase, tombstones
from stream.release.failpoints import Failpoint, Faults, Hook, nothing
from stream.release.pipeline import Pipeline
from stream.release.reason import Code, of_record
from stream.release.schedule import RealClock
from stream.run.exporter import published
from stream.run.keeper import StateKeeper
from stream.run.runner import Arrival, Runner
from stream.run.service import ProcessContext, ReleaseService
from stream.values.duration import SECOND
from stream.values.log_fields import add_log_fields, log_fields

if TYPE_CHECKING:
    from stream.daemon.tracing import ReleaseSpans
    from stream.run.observer import MetricsObserver

log = logging.getLogger("veilstream")

CHECKPOINT_SECONDS = 30.0
"""Interval of checkpoints of a quiet stream. Without a checkpoint no offset is acknowledged."""


MIRROR_SECONDS = 60.0
"""Interval at which the mirror gets the whole state. A shorter one delays releases, since some megabytes go over a
network. A longer one makes a takeover slower: the new host reads the deltas behind the mirror's checkpoint, and they
must still be in the topic."""


FULL_SAVE_SHARE = 0.25
"""The longest time between two full saves of the state, as a share of `delta_retention`. If the newest generation is
damaged, the one before is used, and the delta topic must still have every record behind that one."""


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """Configuration, output folder and observers of a coordinator.

    Parameters
    ----------
    settings, source
        The configuration of the process and of the broker.
    output
        The output folder.
    sources
        Topic and number of each source partition.
    at
        Called at each failpoint; tests crash the process there.
    watch
        Observer that updates the metrics; None if they are switched off.
    spans
        Spans of decisions; None if they are switched off. Its hook is `at`.
    """

    settings: Settings
    source: Source
    output: Path
    sources: tuple[SourcePartition, ...]
    at: Hook = nothing
    watch: MetricsObserver | None = None
    spans: ReleaseSpans | None = None


class RunningBuild(NamedTuple):
    """A build: its cut, when it began by the monotonic clock, and whether its decision releases the cut."""

    cut: Cut
    started: float
    decision: Future[Outcome]


class LedgerFacts(NamedTuple):
    """The part of the status that is read from the ledger; the triggers of the next releases are added later."""

    held: list[HeldStatus]
    releases: dict[str, ReleaseStatus]


class ActiveCoordinator:
    """The coordinator that folds and releases. At most one per process name can append to the ledger.

    The constructor fences the previous coordinator, recovers unfinished releases, and restores the state.

    Attributes
    ----------
    saved
        Position of the last checkpoint; -1 before the first one of this object.
    covered
        Position of the checkpoint before it. If the last one is damaged, the state is restored from this position, so
        records up to here are no longer needed.
    """

    def __init__(self, host: CoordinatorContext) -> None:
        clock = BrokerClock()

        def open_ledger(path: Path, process: str) -> tuple[TopicLedger, Announcer]:
            ledger = TopicLedger(path, process, host.source, clock)
            return ledger, Announcer(process, host.source, ledger.send)

        self.host = host
        with ExitStack() as opened:
            self.service = ReleaseService(
                host.settings,
                host.output,
                context=ProcessContext(RealClock(clock.now), "records", open_ledger, mirrored=True),
                watch=host.watch,
                built_by=builder(host.settings.engine.kind, host.output, host.settings.engine.memory),
                faults=Faults(host.at),
            )
            opened.callback(self.service.close)
            self.ledger = cast(TopicLedger, self.service.ledger)  # made by `open_ledger`
            self.delta = DeltaTopic(host.settings.process.name, host.source, self.ledger)
            opened.callback(self.delta.close)
            self.runner, has_recorded_rules = self._open_runner()
            # One thread: cuts are decided one after the other. Closing waits for it before the ledger is closed.
            self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="build")
            opened.callback(self._builder.shutdown)
            self._build: RunningBuild | None = None
            oldest = host.source.delta_retention * FULL_SAVE_SHARE
            self._keeper = StateKeeper(self.service.checkpoints, oldest, self.service.archive)
            self.covered = self.saved = -1
            self._saved_at, self._mirrored_at = time.monotonic(), float("-inf")
            self._alarms = Alarms()
            # Number and time of the last release of each publication.
            self._last_releases: dict[str, tuple[int, float | None]] = {}
            # Budget of each publication, and the ledger offset up to which it was computed.
            self._budgets: dict[str, tuple[int, BudgetStatus]] = {}
            # Whether the current record erased cases: then no checkpoint on disk may keep an older state.
            self._must_overwrite_checkpoints = False
            # As they were before the present build, or at the last status.
            self._ledger_facts = LedgerFacts([], {})
            self._record_configuration(has_recorded_rules=has_recorded_rules)
            self._opened = opened.pop_all()

    # opening

    def _open_runner(self) -> tuple[Runner, bool]:
        """Restore the newest checkpoint; without one, begin at the start of the delta topic.

        Also returns whether the rules of the state come from the delta topic. RefusedError if the ledger or the delta
        topic is not the one that the state was made from.
        """
        saved = self._newest_checkpoint()
        if saved is None:
            recorded_rules = self.delta.recorded_rules()
            has_recorded_rules = recorded_rules is not None
            fold = self.service.new_fold(recorded_rules or self._rules())
            position, epoch = -1, -1
            # Deltas of erased cases may still be in the topic.
            apply_tombstones(self.service, fold)
        else:
            has_recorded_rules = True
            if saved.ledger > self.ledger.next_offset:
                raise RefusedError(
                    f"the ledger topic ends at {self.ledger.next_offset}, the checkpoint covers {saved.ledger}: the "
                    "ledger is older than the state; restore it"
                )
            fold = self.service.restored(saved.fold)
            position, epoch = _position(saved), saved.epoch
        try:
            epoch = self.delta.settle(position, epoch, self.service.pipelines.values())
        except LostDeltasError:
            # `veilstream gap` reads which topic was lost, and where, from the status file.
            snapshot = CoordinatorSnapshot(fold, position, -1, self.delta.anchor, self.delta.lost)
            StatusFile(self.host.output).write(snapshot, "gap")
            raise
        every = self.host.settings.checkpoint_every
        return Runner(fold, self, every=every, position=position, epoch=epoch), has_recorded_rules

    def _newest_checkpoint(self) -> SavedState | None:
        """Return the newest checkpoint of this host, or that of the mirror.

        The mirror is read if this host has no checkpoint, or if the deltas behind it are no longer in the topic.
        """
        loaded = self.service.checkpoints.load()
        local = None
        if loaded is not None:
            if loaded.warning:
                log.warning("checkpoint: %s; the generation before is used", loaded.warning)
            local = SavedState.decode(loaded.state)
        mirror = self.service.mirror
        if mirror is None:
            return local
        if local is not None and _position(local) + 1 >= self.delta.first_position():
            return local
        log.info("checkpoint: taken from the mirror %s, if it has one", mirror.blobs.location)
        mirrored = mirror.load()
        return local if mirrored is None else SavedState.decode(mirrored)

    def _rules(self) -> FoldRules:
        return replace(self.service.rules(embedded=False), sources=self.host.sources)

    def _record_configuration(self, *, has_recorded_rules: bool) -> None:
        """Write a changed configuration to the delta topic. It takes effect at its own offset, also in a refold."""
        rules = self._rules()
        if self.fold.key not in ("", rules.key):
            raise RefusedError(
                "the pseudonym key of this host is not the one of the recorded events: give it the key of the host "
                "before (VEILSTREAM_KEY_FILE); under another one each case would count twice"
            )
        if has_recorded_rules and self.fold.rules.to_mapping() == rules.to_mapping():
            return
        self.service.refuse_other_cases()
        self.service.refuse_lost_series(self.fold.rules, self.position)
        warn_of_changed_rules(self.fold.rules, rules)
        body = msgspec.json.encode(Config(body=rules.to_mapping()))
        self.ledger.send([(self.delta.name, None, body)])

    # position and status

    @property
    def fold(self) -> Fold:
        """The state of the fold."""
        return self.runner.fold

    @property
    def position(self) -> int:
        """Position of the last record in the state; the anchor maps it to an offset of the delta topic."""
        return self.runner.position

    @property
    def snapshot(self) -> CoordinatorSnapshot:
        """The facts that the status file shows. During a build, those of the ledger are the ones before it."""
        if not self.fold.awaits_decision:
            self._ledger_facts = self._read_ledger_facts()
        newest = self.service.checkpoints.newest()
        return CoordinatorSnapshot(
            self.fold,
            self.position,
            self.saved,
            self.delta.anchor,
            self.delta.lost,
            self._ledger_facts.held,
            saved_at=None if newest is None else newest.saved,
            releases=self._release_status(),
            building=self.building,
        )

    @property
    def building(self) -> BuildStatus | None:
        """The build that runs beside the fold; None if there is none, or its decision has come."""
        build = self._build  # read once: the timer of the event loop asks too
        if build is None or build.decision.done():
            return None
        seconds = round(time.monotonic() - build.started, 3)
        return {"publication": build.cut.publication, "cut": build.cut.id, "seconds": seconds}

    def _read_ledger_facts(self) -> LedgerFacts:
        """Return held releases, and last release and budget of each publication."""
        held: list[HeldStatus] = []
        releases: dict[str, ReleaseStatus] = {}
        for name, pipeline in self.service.pipelines.items():
            account = pipeline.account
            for number in account.held:
                held_at = account.seals[number].body.held_at or 0
                held.append({"publication": name, "number": number, "since": held_at / SECOND})
            last, last_at = self._last_release(pipeline)
            releases[name] = {
                "last": last,
                "last_at": last_at,
                "next": [],
                "withheld_streak": account.streak,
                "withheld_for": _withheld_for(account),
                "budget": self._budget(pipeline),
            }
        return LedgerFacts(held, releases)

    def _release_status(self) -> dict[str, ReleaseStatus]:
        """Return last and next release, and budget, of each publication that is configured and folded."""
        rules = {rule.name: rule for rule in self.fold.rules.publications}
        described: dict[str, ReleaseStatus] = {}
        for name, facts in self._ledger_facts.releases.items():
            counters = self.fold.publications.get(name)
            if counters is None or name not in rules:
                continue  # a new publication, whose rules are on their way through the delta topic
            described[name] = {**facts, "next": next_triggers(rules[name], counters)}
        return described

    def _budget(self, pipeline: Pipeline) -> BudgetStatus | None:
        """Return what a publication has charged and may still charge; None if its mechanism charges nothing.

        An exact composition takes time, and only an entry of the ledger changes it.
        """
        spec = pipeline.spec
        if spec.mechanism.charge() == Charge():
            return None
        cached = self._budgets.get(pipeline.name)
        if cached is None or cached[0] != self.ledger.next_offset:
            limit = spec.gate.max_epsilon
            budget: BudgetStatus = {
                "spent_epsilon": float(pipeline.spent.charge.epsilon),
                "max_epsilon": None if limit is None else float(limit),
                "left_releases": pipeline.releases_left,
            }
            cached = self._budgets[pipeline.name] = (self.ledger.next_offset, budget)
        return cached[1]

    def _last_release(self, pipeline: Pipeline) -> tuple[int | None, float | None]:
        """Return number and time of the last release. Its audit is read once."""
        released = pipeline.account.released_numbers
        if not released:
            return None, None
        number = released[-1]
        cached = self._last_releases.get(pipeline.name)
        if cached is None or cached[0] != number:
            try:
                at = published(pipeline.audit_of(number))
            except RefusedError:
                at = None  # the next attempt reports a damaged audit
            cached = self._last_releases[pipeline.name] = (number, at)
        return cached

    def check_delta(self, *, compare_end: bool = False) -> None:
        """Check that the delta topic is the one that is folded (see `DeltaTopic.check`).

        Raises
        ------
        LostDeltasError
            If it is another one. The snapshot has it from then on.
        """
        self.delta.check(self.position, self.runner.epoch, compare_end=compare_end)

    # records

    def catch_up(self, until: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold the records between the state and the offset `until` (exclusive).

        The group continues at the offset that an earlier coordinator acknowledged. The state of this host may be older.
        """
        self._fold_all(self.delta.between(self.position, until), stopped)

    def apply(self, records: Iterable[DeltaRecord], stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold consecutive records, and skip those that are part of the state already."""
        self._fold_all(self.delta.complete(records, self.position), stopped)

    def _fold_all(self, records: Iterable[DeltaRecord], stopped: Callable[[], bool]) -> None:
        if stopped():
            return  # nothing was read yet, and `records` may begin with a long read of missing ones
        self.runner.run(DeltaRecords(records, self.delta.anchor, self.service.with_pseudonyms), stopped)
        self.save_decided()
        is_due = time.monotonic() - self._saved_at > CHECKPOINT_SECONDS and self.position > self.saved
        if is_due and not self.fold.awaits_decision:
            self.save()

    def save_decided(self) -> None:
        """Take the decision of a build that has ended, and save the state.

        Called between records, and while none arrive: the end of a build brings no record. The error of a build that
        failed is raised.
        """
        if self.runner.settle():
            self.save()

    def before(self, arrival: Arrival) -> None:
        """Check the clock at a tick, and execute a command, before the record is folded."""
        if isinstance(arrival.record, Tick):
            self._alarms.tick(self.fold, arrival.record.at)
        elif isinstance(arrival.record, Command):
            self._execute(arrival.position, arrival.record)

    def refused(self, arrival: Arrival, error: InputError) -> None:
        """Log a command that cannot be executed; the stream continues."""
        log.error("command at delta position %d is ignored: %s", arrival.position, error)

    def _execute(self, position: int, command: Command) -> None:
        """Do the part of a command that concerns more than the fold.

        Erase cases from all files, note an accepted gap in the ledger, decide on a held release, or log an order
        that has no effect.
        """
        if command.name == "erase":
            self._refuse_other_key(command)
            cases = [str(case) for case in command.arguments.get("cases", ())]
            case_digests = {digest(case) for case in cases}
            # After a crash the command is folded again, and the cases may have been erased already.
            if not case_digests <= tombstones(self.service):
                report = erase(self.service, self.fold, cases)
                log.info(
                    "erase at delta position %d: %d of %d cases were known here; veilstream report names the releases "
                    "that hold them",
                    position,
                    report["known"],
                    len(cases),
                )
            self._must_overwrite_checkpoints = True
        elif command.name == "gap" and command.arguments.get("action") == "accept":
            missing = self.gaps(command.arguments.get("src"), command.arguments.get("p"))
            if missing:
                for pipeline in self.service.pipelines.values():
                    pipeline.accept_gap(position, missing)
        elif command.name == "release":
            self._log_ignored(position, command)
        elif command.name in ("approve", "reject"):
            with log_fields(delta=position):
                self._decide_held(position, command)

    def _log_ignored(self, position: int, command: Command) -> None:
        """Log the publications of which no release can be ordered now."""
        for name, counters in self.fold.publications.items():
            if command.publication not in (None, name):
                continue
            if self.fold.gap:
                log.warning("release of %s at delta position %d is ignored: there is a gap", name, position)
            elif counters.paused:
                log.warning("release of %s at delta position %d is ignored: it is paused", name, position)

    def _decide_held(self, position: int, command: Command) -> None:
        """Carry out a person's decision on a held release."""
        outcome = self.service.obey(self.fold, position, command)
        add_log_fields(publication=outcome.publication, release=outcome.number)
        if outcome.status == "refused":
            reasons = "; ".join(outcome.reasons)
            log.error(
                "release %d of %s is not published, and stays held: the gate no longer passes (%s)",
                outcome.number,
                outcome.publication,
                reasons,
            )
        else:
            log.info("release %d of %s is %s", outcome.number, outcome.publication, outcome.status)

    def _refuse_other_key(self, command: Command) -> None:
        """Refuse cases under another pseudonym key: no case of the state has these names."""
        key = self.fold.key or self.fold.rules.key
        if command.arguments.get("key", key) != key:
            raise InputError(
                "its cases are named under another pseudonym key: nothing is erased; repeat it with the key used here"
            )

    def decide(self, cut: Cut) -> None:
        """Take the log of a cut, and let the other thread decide the cut while the fold goes on."""
        with log_fields(publication=cut.publication, cut=cut.id):
            if cut.publication not in self.service.pipelines:
                log.warning("cut %s: the configuration has no such publication any more; nothing is released", cut.id)
                self.fold.decided(cut, released=False)
                return
            attempt = self.service.attempt(self.fold, cut)
        self._ledger_facts = self._read_ledger_facts()
        decision = self._builder.submit(self._decide, cut, attempt)
        self._build = RunningBuild(cut, time.monotonic(), decision)
        self.fold.defer(cut, decision)

    def _decide(self, cut: Cut, attempt: Attempt) -> Outcome:
        """Decide an attempt durably, and return the outcome for the fold.

        Each log line until then names publication, cut and release.
        """
        with log_fields(publication=cut.publication, cut=cut.id):
            return self._log_decision(cut, attempt)

    def _log_decision(self, cut: Cut, attempt: Attempt) -> Outcome:
        started = time.monotonic()
        pipeline = self.service.pipelines[cut.publication]
        earlier_decision = pipeline.decided(cut.id)
        if earlier_decision is None:
            # The number that the attempt gets, unless another coordinator seals it first.
            add_log_fields(release=pipeline.account.last_number + 1)
        decision = self.service.decide_attempt(cut.publication, attempt)
        if self.host.spans is not None:
            self.host.spans.decided()
        if earlier_decision is not None:  # the record is folded again after a crash: nothing new was released
            log.info("cut %s: was decided before (%s)", cut.id, decision.status)
            return decision.outcome
        if decision.status in ("sealed", "held"):
            release = f" as release {decision.sequence}"
            add_log_fields(release=decision.sequence)
        else:
            release = ""
        seconds = time.monotonic() - started
        for stage, stage_seconds in decision.audit.get("seconds", {}).items():
            log.debug("stage %s took %.3f s", stage, stage_seconds)
        outcome = "waiting" if decision.waits else decision.status
        # Codes alone: a sentence of a mechanism may name an activity, and no log line has one.
        codes = sorted({reason.code for reason in decision.because})
        why = ""
        if outcome in ("waiting", "withheld"):
            why = f" ({', '.join(codes)}; veilstream releases shows why)"
        log.info("cut %s: %s%s in %.2f s%s", cut.id, outcome, release, seconds, why)
        if decision.status == "held":
            log.warning(
                "release %d of %s is held: veilstream approve or reject %s %d",
                decision.sequence,
                cut.publication,
                cut.publication,
                decision.sequence,
            )
        return decision.outcome

    def settled(self) -> None:
        """Send late events to the dlq, if a publication is configured so.

        This happens before the state is saved. After a crash the record is folded again and its letters are sent again,
        so none is lost. During a build they wait: the build uses the producer.
        """
        if self._must_overwrite_checkpoints:
            self.fold.take_decision()  # the states without the erased cases are saved behind this record
        if self.fold.awaits_decision:
            return
        if not self.fold.dead_letters:
            return
        name = topic(self.host.settings.process.name, "dlq")
        letters = []
        for source, partition, offset, _ in self.fold.dead_letters:
            letters.append((name, None, DeadLetter(offset, "late").encode(source, partition)))
        self.ledger.send(letters)
        if self.service.watch is not None:
            self.service.watch.late(len(letters))
        self.fold.dead_letters.clear()

    def folded(self, arrival: Arrival) -> bool:
        """Log problems of the input. After an erasure, save the state and return True."""
        self._alarms.look(self.fold)
        if not self._must_overwrite_checkpoints:
            return False
        self._must_overwrite_checkpoints = False
        # Two generations are kept on disk, and none may contain an erased case. A log of changes would.
        for _generation in range(2):
            self.save(mirror=True, in_full=True)
        return True

    def gaps(self, source_is: str | None = None, number_is: int | None = None) -> list[str]:
        """Describe each gap; only those of one source or partition if it is named."""
        return gaps(self.fold, source_is, number_is)

    # checkpoints

    def save(self, *, mirror: bool = False, in_full: bool = False) -> None:
        """Write a checkpoint. Call it only between two records (`Runner.between_records`).

        Records up to the previous checkpoint may be acknowledged afterwards.

        Parameters
        ----------
        mirror
            Whether to update the mirror now. Otherwise it is updated only every `MIRROR_SECONDS`. The mirror always
            gets the full state.
        in_full
            Whether to write the full state to this host's folder too, and not only the changes.
        """
        started = time.monotonic()
        state = SavedState("daemon", b"", self.ledger.next_offset, self.position, self.runner.epoch)
        self._keeper.save(self.fold, state, in_full=in_full)
        mirror_is_due = mirror or time.monotonic() - self._mirrored_at > MIRROR_SECONDS
        if self.service.mirror is not None and mirror_is_due:
            self.service.mirror.save(self.position, *state.parts(self.fold.snapshot_parts()))
            self.service.check_mirror()
            self._mirrored_at = time.monotonic()
        self.host.at(Failpoint.CHECKPOINT)
        self.covered, self.saved = self.saved, self.position
        self._saved_at = time.monotonic()
        seconds = self._saved_at - started
        log.debug("checkpoint at delta position %d in %.3f s", self.position, seconds)
        if self.host.watch is not None:
            self.host.watch.metrics.checkpoint_took(seconds)

    def save_last(self) -> None:
        """Wait for the build that runs, and write a last checkpoint.

        None is written if the state did not change, or is in the middle of a record.
        """
        self.runner.settle(wait=True)
        if self.position > self.saved and self.runner.between_records:
            self.save(mirror=True)

    def acknowledged(self) -> int:
        """Return the last delta offset that the group may acknowledge; -1 if there is none, and during a gap."""
        if self.fold.gap:
            return -1
        return self.delta.anchor.offset(self.covered)

    def close(self) -> None:
        """Wait for the build that runs, and release ledger, folder and connections."""
        self._opened.close()


def warn_of_changed_rules(former: FoldRules, rules: FoldRules) -> None:
    """Log changes by which cases leave later than a person may expect, or not at all."""
    # No such case is completed here: a case that leaves too late harms nobody, and one that leaves too early cannot be
    # called back.
    silence = "after process.completion.inactivity"
    if rules.inactivity is None:
        silence = "never, since process.completion.inactivity is not set: set it, or no release shows these cases"
    if set(rules.end_activities) - set(former.end_activities):
        log.warning(
            "process.completion: the new end_activities hold for events from now on; cases that had them before "
            "are complete with a later one, or %s",
            silence,
        )
    if rules.end_all and set(rules.end_all) != set(former.end_all):
        log.warning(
            "process.completion: the new end_all holds for events from now on; cases that had all of them before are "
            "complete with their next event, or %s",
            silence,
        )
    present_names = {publication.name for publication in rules.publications}
    for publication in former.publications:
        if publication.once and publication.name not in present_names:
            log.warning(
                "%s: left the configuration: the state forgets which cases it has shown and which wait for a release, "
                "so its series cannot continue later",
                publication.name,
            )
    showed_all = {publication.name for publication in former.publications if not publication.once}
    for publication in rules.publications:
        if publication.once and publication.name in showed_all:
            log.warning(
                '%s: with cases = "completed" no release shows a case again that an earlier one showed, even if it was '
                "still open: events that come to such cases are lost",
                publication.name,
            )


def _withheld_for(account: Account) -> list[Code]:
    """Return the codes of the reasons of the newest attempt, if it was withheld."""
    if account.streak == 0:
        return []
    newest = next(reversed(account.withheld.values()))
    return sorted({of_record(text).code for text in newest.body.reasons})


def _position(saved: SavedState) -> int:
    return -1 if saved.position is None else saved.position
