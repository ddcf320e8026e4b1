"""The coordinator's state and its durable steps, without Faust: records in, decisions and checkpoints out.

One thread uses it. Order: fold a record; at each cut the service decides durably; only between records a checkpoint;
what the checkpoint before the last one covers may be acknowledged. The loop is `stream.run.runner`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import InputError, RefusedError
from stream.config.settings import Settings
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.delta_topic import DeltaRecord, DeltaRecords, DeltaTopic, LostDeltasError
from stream.daemon.deltas import DeadLetter
from stream.daemon.kafka_ledger import TopicLedger
from stream.daemon.publisher import Announcer
from stream.daemon.status import Alarms, HeldStatus, Standing, gaps, write_status
from stream.engine.building import builder
from stream.fold.cases import digest
from stream.fold.fold import Fold
from stream.fold.records import Command, Config, Cut, Tick
from stream.fold.rules import FoldRules, SourcePartition
from stream.ledger.checkpoints import SavedState
from stream.release.erasure import apply_tombstones, erase, tombstones
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.schedule import RealClock
from stream.run.keeper import StateKeeper
from stream.run.runner import Arrival, Runner
from stream.run.service import ReleaseService
from stream.values.duration import SECOND

if TYPE_CHECKING:
    from stream.run.observer import MetricsObserver

log = logging.getLogger("veilstream")

CHECKPOINT_SECONDS = 30.0
"""A quiet stream is checkpointed this often, so that acknowledgements go on."""


MIRROR_SECONDS = 60.0
"""The mirror's checkpoint may be this much older: a host that takes over reads the deltas behind it, which the topic
keeps for days; a state of some megabytes over a network at every cut would hold the releases up."""


WHOLE_SHARE = 0.25
"""The state is saved whole at least this often, as a share of `delta_retention`: who falls back to the generation
before reads the deltas behind it, and the topic must have them."""


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """The surroundings of a coordinator.

    Parameters
    ----------
    settings, source
        The configuration.
    output
        Its folder.
    sources
        The source partitions.
    at
        Hook of the fault kit.
    watch
        Metrics that follow it.
    """

    settings: Settings
    source: Source
    output: Path
    sources: tuple[SourcePartition, ...]
    at: Hook = nothing
    watch: MetricsObserver | None = None


class ActiveCoordinator:
    """An active coordinator.

    Opening it fences the one before, recovers, and brings the state up to date. `saved` is the position of the last
    checkpoint, `covered` that of the one before it.
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
                at=host.at,
                open_ledger=open_ledger,
                watch=host.watch,
                mirrored=True,
                intake="records",
                clock=RealClock(clock.now),
                built_by=builder(host.settings.engine.kind, host.output, host.settings.engine.memory),
            )
            opened.callback(self.service.close)
            self.ledger = cast(TopicLedger, self.service.ledger)  # made by `open_ledger`
            self.delta = DeltaTopic(host.settings.process.name, host.source, self.ledger)
            opened.callback(self.delta.close)
            self.runner, configured = self._opened_runner()
            self._keeper = StateKeeper(self.service.checkpoints, host.source.delta_retention * WHOLE_SHARE)
            self.covered = self.saved = -1
            self._saved_at, self._mirrored_at = time.monotonic(), float("-inf")
            self._alarms, self._forget = Alarms(), False
            self._configure(configured=configured)
            self._opened = opened.pop_all()

    # opening

    def _opened_runner(self) -> tuple[Runner, bool]:
        """Restore the newest checkpoint, or begin where the delta topic does.

        Also returns whether the rules of the state are recorded. RefusedError if ledger or delta topic are not those
        of the state.
        """
        saved = self._newest()
        configured = True
        if saved is None:
            recorded = self.delta.recorded_rules()
            configured = recorded is not None
            fold, position, epoch = Fold(recorded or self._rules()), -1, -1
            apply_tombstones(self.service, fold)
        else:
            if saved.ledger > self.ledger.next_offset:
                raise RefusedError(
                    f"the ledger topic ends at {self.ledger.next_offset}, the checkpoint has seen {saved.ledger}: the "
                    "ledger is older than the state; restore it"
                )
            fold, position, epoch = self.service.named(Fold.restore(saved.fold)), _position(saved), saved.epoch
        try:
            epoch = self.delta.settle(position, epoch, self.service.pipelines.values())
        except LostDeltasError:
            standing = Standing(fold, position, -1, self.delta.anchor, self.delta.lost)
            write_status(self.host.output, standing, "gap")
            raise
        every = self.host.settings.checkpoint_every
        return Runner(fold, self, every=every, position=position, epoch=epoch), configured

    def _newest(self) -> SavedState | None:
        """Return the newest checkpoint of this host.

        The mirror's is used if there is none, or if the delta topic begins behind it.
        """
        loaded = self.service.checkpoints.load()
        if loaded is not None and loaded.warning:
            log.warning("checkpoint: %s; the generation before is used", loaded.warning)
        own, mirror = None if loaded is None else SavedState.decode(loaded.state), self.service.mirror
        if mirror is None or (own is not None and _position(own) + 1 >= self.delta.first_position()):
            return own
        log.info("checkpoint: taken from the mirror %s, if it has one", mirror.blobs.where)
        found = mirror.load()
        return own if found is None else SavedState.decode(found)

    def _rules(self) -> FoldRules:
        return replace(self.service.rules(embedded=False), sources=self.host.sources)

    def _configure(self, *, configured: bool) -> None:
        """Write a configuration that differs from the one in the state as a record, effective at its own offset."""
        wanted = self._rules()
        if self.fold.key not in ("", wanted.key):
            raise RefusedError(
                "the pseudonym key of this host is not the one of the recorded events: give it the key of the host "
                "before (VEILSTREAM_KEY_FILE); under another one each case would count twice"
            )
        if configured and self.fold.rules.to_mapping() == wanted.to_mapping():
            return
        self.ledger.send([(self.delta.name, None, msgspec.json.encode(Config(body=wanted.to_mapping())))])

    # its position

    @property
    def fold(self) -> Fold:
        """The state of the fold."""
        return self.runner.fold

    @property
    def position(self) -> int:
        """Position of the last record in the state; the anchor maps it to an offset of the delta topic."""
        return self.runner.position

    @property
    def standing(self) -> Standing:
        """The state that the status file shows."""
        accounts = {name: pipeline.account for name, pipeline in self.service.pipelines.items()}
        held: list[HeldStatus] = [
            {"publication": name, "number": number, "since": (account.seals[number].body.held_at or 0) / SECOND}
            for name, account in accounts.items()
            for number in account.held
        ]
        return Standing(self.fold, self.position, self.saved, self.delta.anchor, self.delta.lost, held)

    def check_delta(self, *, whole: bool = False) -> None:
        """Check that the delta topic is the one that is folded (`DeltaTopic.check`).

        Raises
        ------
        LostDeltasError
            If it is another one.
        """
        try:
            self.delta.check(self.position, self.runner.epoch, whole=whole)
        except LostDeltasError:
            write_status(self.host.output, self.standing, "gap")
            raise

    # records

    def catch_up(self, until: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold the records of the delta topic up to the offset `until` (exclusive) that another host acknowledged."""
        self._fold_all(self.delta.between(self.position, until), stopped)

    def apply(self, records: Iterable[DeltaRecord], stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold records in order, except those that the state has already; none between them is left out."""
        self._fold_all(self.delta.whole(records, self.position), stopped)

    def _fold_all(self, records: Iterable[DeltaRecord], stopped: Callable[[], bool]) -> None:
        if stopped():
            return  # before anything is read: what is missing in front of the records could be long
        self.runner.run(DeltaRecords(records, self.delta.anchor, self.service.readable), stopped)
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS and self.position > self.saved:
            self.save()

    def before(self, arrival: Arrival) -> None:
        """Do what a record requires beside the fold."""
        if isinstance(arrival.record, Tick):
            self._alarms.tick(self.fold, arrival.record.at)
        elif isinstance(arrival.record, Command):
            self._obey(arrival.position, arrival.record)

    def refused(self, arrival: Arrival, error: InputError) -> None:
        """Log a command that cannot be executed; the stream goes on."""
        log.error("command at delta position %d is ignored: %s", arrival.position, error)

    def _obey(self, position: int, command: Command) -> None:
        """Execute a command beyond the fold: erase cases everywhere, or record an accepted gap."""
        if command.name == "erase":
            self._refuse_other_key(command)
            cases = [str(case) for case in command.arguments.get("cases", ())]
            if not {digest(case) for case in cases} <= tombstones(self.service):
                erase(self.service, self.fold, cases)
            self._forget = True
        elif command.name == "gap" and command.arguments.get("action") == "accept":
            missing = self.gaps(command.arguments.get("src"), command.arguments.get("p"))
            for pipeline in self.service.pipelines.values() if missing else ():
                pipeline.accept_gap(position, missing)
        elif command.name in ("approve", "reject"):
            self._rule(position, command)

    def _rule(self, position: int, command: Command) -> None:
        """Obey a person's decision on a held release."""
        ruled = self.service.obey(self.fold, position, command)
        if ruled.ruling == "refused":
            log.error(
                "release %d of %s is not published, and stays held: the gate no longer passes (%s)",
                *(ruled.number, ruled.publication, "; ".join(ruled.reasons)),
            )
        else:
            log.info("release %d of %s is %s", ruled.number, ruled.publication, ruled.ruling)

    def _refuse_other_key(self, command: Command) -> None:
        used = self.fold.key or self.fold.rules.key
        if command.arguments.get("key", used) != used:
            raise InputError("its cases are named under another pseudonym key: nothing is erased; repeat it with ours")

    def decide(self, cut: Cut) -> None:
        """Decide a cut, durably."""
        if cut.publication not in self.service.pipelines:
            log.warning("cut %s: the configuration has no such publication any more; nothing is released", cut.id)
            self.fold.decided(cut, released=False)
            return
        started = time.monotonic()
        before = self.service.pipelines[cut.publication].decided(cut.id)
        decision = self.service.decide(self.fold, cut)
        if before is not None:  # folded again after a crash: nothing new has left
            log.info("cut %s: was decided before (%s)", cut.id, decision.status)
            return
        log.info(
            "cut %s: %s%s in %.2f s",
            cut.id,
            decision.status,
            f" as release {decision.sequence}" if decision.status in ("sealed", "held") else "",
            time.monotonic() - started,
        )
        if decision.status == "held":
            log.warning(
                "release %d of %s is held: veilstream approve or reject %s %d",
                *(decision.sequence, cut.publication, cut.publication, decision.sequence),
            )

    def settled(self) -> None:
        """Send late events to the dlq if a publication asks for it.

        This happens before anything of this record is acknowledged.
        """
        if not self.fold.dead_letters:
            return
        name = topic(self.host.settings.process.name, "dlq")
        self.ledger.send(
            [
                (name, None, DeadLetter(offset, "late").encode(source, partition))
                for source, partition, offset, _ in self.fold.dead_letters
            ]
        )
        if self.service.watch is not None:
            self.service.watch.late(len(self.fold.dead_letters))
        self.fold.dead_letters.clear()

    def folded(self, arrival: Arrival) -> bool:
        """Log problems of the input; after an erasure, save the state."""
        self._alarms.look(self.fold)
        if not self._forget:
            return False
        self._forget = False
        for _generation in range(2):  # no generation on disk may hold an erased case, nor a log of changes
            self.save(mirror=True, whole=True)
        return True

    def gaps(self, source_is: str | None = None, number_is: int | None = None) -> list[str]:
        """Describe each gap; of one source or partition only, where it is named."""
        return gaps(self.fold, source_is, number_is)

    # checkpoints

    def save(self, *, mirror: bool = False, whole: bool = False) -> None:
        """Save the state. `covered` becomes the position of the previous checkpoint, which may be acknowledged.

        Call it only while the state is `Runner.whole`.

        Parameters
        ----------
        mirror
            Whether the mirror must be updated. It is anyway after `MIRROR_SECONDS`, with the whole state.
        whole
            Whether to save the whole state here too, not what changed.
        """
        state = SavedState("daemon", b"", self.ledger.next_offset, self.position, self.runner.epoch)
        self._keeper.save(self.fold, state, whole=whole)
        if self.service.mirror is not None and (mirror or time.monotonic() - self._mirrored_at > MIRROR_SECONDS):
            self.service.mirror.save(self.position, replace(state, fold=self.fold.snapshot()).encode())
            self.service.check_mirror()
            self._mirrored_at = time.monotonic()
        self.host.at(Failpoint.CHECKPOINT)
        self.covered, self.saved = self.saved, self.position
        self._saved_at = time.monotonic()

    def save_last(self) -> None:
        """Save what came since the last checkpoint, unless a record failed midway."""
        if self.position > self.saved and self.runner.whole:
            self.save(mirror=True)

    def acknowledged(self) -> int:
        """Return the delta offset up to which the group may acknowledge; -1 for none, and during a gap."""
        return -1 if self.fold.gap else self.delta.anchor.offset(self.covered)

    def close(self) -> None:
        """Release ledger, folder and connections."""
        self._opened.close()


def _position(saved: SavedState) -> int:
    return -1 if saved.position is None else saved.position
