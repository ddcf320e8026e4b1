"""The coordinator's state and its durable steps, without Faust: records in, decisions and checkpoints out.

One thread uses it. Order: fold a record; at each cut the service decides durably; only between records a checkpoint;
what the checkpoint before the last one covers may be acknowledged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from connectors.kafka.lineage import Leader, Lineage, LogClient
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import InputError, RefusedError, VeilstreamError
from stream.config.settings import Settings
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.delta_log import Anchor, LostDeltasError, anchors, note
from stream.daemon.delta_reader import DeltaReader
from stream.daemon.deltas import DeadLetter
from stream.daemon.kafka_ledger import TopicLedger
from stream.daemon.publisher import Announcer, Records
from stream.daemon.status import write_status
from stream.fold.cases import digest
from stream.fold.cut import Cut
from stream.fold.fold import Fold
from stream.fold.intake import Partition
from stream.fold.records import VERSION, AnyRecord, Command, Config, Delta, Tick
from stream.fold.rules import FoldRules, SourcePartition
from stream.release.erasure import apply_tombstones, erase, tombstones
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.schedule import RealClock
from stream.runtime.service import ReleaseService
from stream.storage.entries import ChargeEntry, NoteBody, NoteEntry, SealEntry

log = logging.getLogger("veilstream")

CHECKPOINT_SECONDS = 30.0
"""A quiet stream is checkpointed this often, so that acknowledgements go on."""


MIRROR_SECONDS = 60.0
"""The mirror's checkpoint may be this much older: a host that takes over reads the deltas behind it, which the topic
keeps for days; a state of some megabytes over a network at every cut would hold the releases up."""


DeltaRecord = tuple[int, bytes | None, int]
"""Offset, value, leader epoch (-1: unknown) of a record of the delta topic."""


BEHIND_NS = 60 * 1_000_000_000
"""A wall clock that is this much behind the one of before was set back; less is the jitter of several workers."""


class Saved(msgspec.Struct, array_like=True):
    """What a checkpoint holds: the fold, and how far the ledger was known (an older ledger is then recognised).
    `epoch`: leader epoch of the delta record at `position` (-1: unknown, in states of before version 0.2)."""

    state: bytes
    position: int
    ledger: int
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """Where a coordinator works: configuration, Kafka, its folder, its source partitions, and the fault kit's hook."""

    settings: Settings
    source: Source
    output: Path
    sources: tuple[SourcePartition, ...]
    at: Hook = nothing


class Engine:
    """An active coordinator. Opening it fences the one before, recovers, and brings the state up to date.

    `whole`: the state stands between two records, and not in the middle of one that failed. `position`: of the last
    record that the state has, an offset of the delta topic by its `anchor`; `epoch`: that record's leader epoch."""

    anchor = Anchor("")
    epoch = -1
    behind = False
    """Whether the wall clock of the ticks is behind the one of before, and it was said."""
    lost: LostDeltasError | None = None
    """Why it must not release, where the delta topic is not the one that it folded."""

    def __init__(self, host: CoordinatorContext) -> None:
        self.host = host
        self._reader = DeltaReader(host.settings.process.name, host.source)
        self._delta = topic(host.settings.process.name, "delta")
        self._client = LogClient(host.source)
        self._leader: Leader | None = None
        self._ledger: TopicLedger | None = None
        self._clock = BrokerClock()
        self.service = ReleaseService(
            host.settings,
            host.output,
            at=host.at,
            make_ledger=self._make_ledger,
            publish=self._announcer(),
            mirrored=True,
            clock=RealClock(self._clock.now),
        )
        try:
            self.checkpoints, self._configured = self.service.checkpoints, True
            self._anchored = anchors(self.ledger)
            self.fold, self.position = self._restore()
            self.covered = self.saved = -1
            self._events = 0
            self._saved_at, self._mirrored_at = time.monotonic(), float("-inf")
            self._alarmed = self._forget = self._warned = False
            self.whole = True
            self._anchor()
            self._count_accepted_gaps()
            self._configure()
        except BaseException:
            self.close()
            raise

    # opening

    def _make_ledger(self, path: Path, process: str) -> TopicLedger:
        self._ledger = TopicLedger(path, process, self.host.source, self._clock)
        return self._ledger

    @property
    def ledger(self) -> TopicLedger:
        if self._ledger is None:
            raise RefusedError("the ledger is not open yet")
        return self._ledger

    def _announcer(self) -> Announcer:
        def send(records: Records) -> None:
            self.ledger.send(records)  # opened after the announcer is made

        return Announcer(self.host.settings.process.name, self.host.source, send)

    def _restore(self) -> tuple[Fold, int]:
        """The fold of the newest checkpoint, or a new one that begins where the delta topic does."""
        state = self._saved_state()
        if state is None:
            recorded = self._recorded_rules()
            self._configured = recorded is not None
            fold = Fold(recorded or self._rules())
            apply_tombstones(self.service, fold)
            return fold, -1
        saved = msgspec.msgpack.decode(state, type=Saved)
        if saved.ledger > self.ledger.next_offset:
            raise RefusedError(
                f"the ledger topic ends at {self.ledger.next_offset}, the checkpoint has seen {saved.ledger}: the "
                "ledger is older than the state; restore it"
            )
        self.epoch = saved.epoch
        return self.service.named(Fold.restore(saved.state)), saved.position

    def _anchor(self) -> None:
        """Compare the delta topic with what the state was folded from; LostDeltasError where it is another one and
        nobody has said what to do about it."""
        lineage = self._lineage()
        self.anchor = self._anchored[-1] if self._anchored else Anchor(lineage.topic)
        if self.position + 1 < self.anchor.begin:
            raise RefusedError(
                f"the state here ends at {self.position}, the delta topic of now begins at {self.anchor.begin}: what "
                "lies between is gone; restore a newer checkpoint"
            )
        if self.position < self.anchor.begin:
            self.epoch = -1  # of a log of before
        lost = self.anchor.lost_from(lineage, self.position, self.epoch)
        if lost is None:
            if not self._anchored:
                self.ledger.append(note(self.anchor))
            return
        error = LostDeltasError(self._delta, lineage, self.anchor, self.position, lost)
        action = self._decided_on(error)
        if action is None:
            self._refuse(error)
        self.anchor, self.epoch = Anchor(lineage.topic, self.position + 1 - lost, lost), -1
        self.ledger.append(note(self.anchor))
        for name in self.service.pipelines if action == "accept" else ():
            missing = (f"{self._delta}: from position {self.position + 1} on",)
            self.ledger.append(NoteEntry(publication=name, body=NoteBody(gap=self.position + 1, missing=missing)))
        log.warning("%s: goes on from offset %d as position %d (gap %s)", self._delta, lost, self.anchor.begin, action)

    def _decided_on(self, error: LostDeltasError) -> str | None:
        """What the operator ordered about a delta topic that is not the one of the state: `rewind`, `accept` or, None,
        nothing. The order stands in the topic that it is about. Before the first charge there is nothing to ask."""
        if self.position < 0 and not any(isinstance(entry, ChargeEntry | SealEntry) for entry in self.ledger.entries()):
            return "rewind"
        for _, value, _ in self._reader.read(max(error.lost, self._reader.begin()), self._reader.end()):
            with suppress(msgspec.DecodeError):
                record = _DECODER.decode(value or b"")
                if isinstance(record, Command) and record.name == "gap":
                    told = record.arguments
                    if (told.get("delta"), told.get("position")) == (error.lineage.topic, self.position):
                        return str(told["action"])
        return None

    def _refuse(self, error: LostDeltasError) -> NoReturn:
        self.lost = error
        write_status(self.host.output, self, "gap")
        raise error

    def _lineage(self) -> Lineage:
        place = (self._delta, 0)
        found = self._client.lineages([place]).get(place)
        if found is None:
            raise VeilstreamError(f"topic {self._delta}: is gone; run `veilstream topics create`")
        return found

    def check_delta(self, *, whole: bool = False) -> None:
        """LostDeltasError where the delta topic is not the one that is folded any more; cheap where nothing moved.
        Asked after records came and before they are folded, they are of the topic that was asked about. `whole`: its
        end too, for a topic of which nothing comes."""
        leader = self._client.leaders([self._delta]).get((self._delta, 0))
        if leader is not None and leader == self._leader and not whole:
            return
        lineage = self._lineage()
        lost = self.anchor.lost_from(lineage, self.position, self.epoch)
        if lost is not None:
            self._refuse(LostDeltasError(self._delta, lineage, self.anchor, self.position, lost))
        self._leader = leader

    def _saved_state(self) -> bytes | None:
        """The newest checkpoint of this host; the mirror's where there is none, or the delta topic begins behind it."""
        loaded = self.checkpoints.load()
        if loaded is not None and loaded.warning:
            log.warning("checkpoint: %s; the generation before is used", loaded.warning)
        own = None if loaded is None else loaded.state
        if self.service.mirror is None:
            return own
        last = self._anchored[-1] if self._anchored else Anchor("")
        least = max(last.begin, last.position(self._reader.begin()))
        if own is not None and msgspec.msgpack.decode(own, type=Saved).position + 1 >= least:
            return own
        log.info("checkpoint: taken from the mirror %s, if it has one", self.service.mirror.blobs.where)
        return self.service.mirror.load() or own

    def _recorded_rules(self) -> FoldRules | None:
        """Rules of a fold from the begin of the delta topic: those of its first config record, None without one."""
        begin = self._reader.begin()
        if begin > 0 or (self._anchored and self._anchored[-1].begin > 0):
            raise RefusedError(
                f"no checkpoint here, and the delta topic begins at {begin}: its first records are gone; restore a "
                "backup of the operator's folder"
            )
        for offset, value, _ in self._reader.read(0, self._reader.end()):
            record = decode_record(offset, value)
            if isinstance(record, Config):
                return FoldRules.from_mapping(record.body)
        return None

    def _rules(self) -> FoldRules:
        return replace(self.service.rules(embedded=False), sources=self.host.sources)

    def _configure(self) -> None:
        """A configuration that differs from the one in the state becomes a record, effective at its own offset."""
        wanted = self._rules()
        if self.fold.key not in ("", wanted.key):
            raise RefusedError(
                "the pseudonym key of this host is not the one of the recorded events: give it the key of the host "
                "before (VEILSTREAM_KEY_FILE); under another one each case would count twice"
            )
        if self._configured and self.fold.rules.to_mapping() == wanted.to_mapping():
            return
        self.ledger.send([(self._delta, None, msgspec.json.encode(Config(body=wanted.to_mapping())))])

    # records

    def catch_up(self, until: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Read the delta topic from our position up to the offset `until` (exclusive): what was acknowledged
        elsewhere."""
        following = self.anchor.offset(self.position + 1)
        if until <= following:
            return
        begin = self._reader.begin()
        if begin > following:
            raise RefusedError(
                f"the state here ends at {self.position}, the delta topic begins at {self.anchor.position(begin)}: "
                "what lies between is gone; restore a newer checkpoint"
            )
        self.apply(self._reader.read(following, until), stopped)

    def apply(self, records: Iterable[DeltaRecord], stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold records in order; those that the state has already are skipped."""
        for offset, value, epoch in records:
            if stopped():
                return
            position = self.anchor.position(offset)
            if position <= self.position:
                continue
            cuts, self.whole = 0, False
            for cut in self._cuts(position, self.service.readable(decode_record(offset, value))):
                self._decide(cut)
                cuts += 1
            self._letters()
            self.position, self.epoch, self.whole = position, epoch, True
            self._watch_gap()
            self._watch_keys()
            if self._forget:
                self._forget = False
                self.checkpoint(mirror=True)  # twice: no generation on disk may hold an erased case
                self.checkpoint(mirror=True)
            elif cuts or self._events >= self.host.settings.checkpoint_every:
                self.checkpoint()
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS and self.position > self.saved:
            self.checkpoint()

    def _cuts(self, position: int, record: AnyRecord) -> Iterator[Cut]:
        if isinstance(record, Delta):
            self._events += len(record.rows)
        elif isinstance(record, Tick):
            self._watch_clock(record.at)
        try:
            if isinstance(record, Command):
                self._obey(position, record)
            yield from self.fold.apply(position, record)
        except InputError as error:
            if not isinstance(record, Command):
                raise
            log.error("command at delta position %d is ignored: %s", position, error)

    def _obey(self, position: int, command: Command) -> None:
        """What a command asks for beyond the fold: erasure everywhere, an accepted gap on the record."""
        if command.name == "erase":
            self._refuse_other_key(command)
            cases = [str(case) for case in command.arguments.get("cases", ())]
            if not {digest(case) for case in cases} <= tombstones(self.service):
                erase(self.service, self.fold, cases)
            self._forget = True
        elif command.name == "gap" and command.arguments.get("action") == "accept":
            missing = self.gaps(command.arguments.get("src"), command.arguments.get("p"))
            for name in self.service.pipelines if missing else ():
                body = NoteBody(gap=position, missing=tuple(missing))
                self.ledger.append(NoteEntry(publication=name, body=body))
            self._count_accepted_gaps()

    def _refuse_other_key(self, command: Command) -> None:
        used = self.fold.key or self.fold.rules.key
        if command.arguments.get("key", used) != used:
            raise InputError("its cases are named under another pseudonym key: nothing is erased; repeat it with ours")

    def _count_accepted_gaps(self) -> None:
        for name, pipeline in self.service.pipelines.items():
            notes = (entry.body for entry in self.ledger.entries(name) if isinstance(entry, NoteEntry))
            pipeline.gaps_accepted = len({body.gap for body in notes if body.gap is not None})

    def _decide(self, cut: Cut) -> None:
        if cut.publication not in self.service.pipelines:
            log.warning("cut %s: the configuration has no such publication any more; nothing is released", cut.id)
            self.fold.decided(cut, released=False)
            return
        started = time.monotonic()
        decision = self.service.decide(self.fold, cut)
        log.info(
            "cut %s: %s%s in %.2f s",
            cut.id,
            decision.status,
            f" as release {decision.sequence}" if decision.status == "sealed" else "",
            time.monotonic() - started,
        )

    def _letters(self) -> None:
        """Late events that a publication sends to the dlq: durable before anything of this record is acknowledged."""
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

    def _watch_gap(self) -> None:
        if self.fold.gap and not self._alarmed:
            log.error("gap: %s; nothing is released until `veilstream gap rewind|accept`", "; ".join(self.gaps()))
        self._alarmed = self.fold.gap

    def _watch_clock(self, at: int) -> None:
        """The fold's clock never goes back: a tick of a clock that was set back moves nothing until it is there."""
        now = self.fold.now
        behind = now is not None and at < now - (0 if self.behind else BEHIND_NS)
        if behind and not self.behind:
            log.error(
                "the wall clock was set back by %d s: what goes by the wall clock rests until it is where it was",
                ((now or 0) - at) // 1_000_000_000,
            )
        self.behind = behind

    def _watch_keys(self) -> None:
        if self.fold.state.foreign and not self._warned:
            log.error("events under another pseudonym key come, and are rejected: give every worker the same key")
            self._warned = True

    def gaps(self, source_is: str | None = None, number_is: int | None = None) -> list[str]:
        """Where events are missing: source, partition, and the offsets between what we have and what came. Of one
        source or partition only, where it is named."""
        return [
            f"{source}/{number}: {_gap_text(partition)}"
            for (source, number), partition in self.fold.state.partitions.items()
            if partition.gap and source_is in (None, source) and number_is in (None, number)
        ]

    # checkpoints

    def checkpoint(self, *, mirror: bool = False) -> None:
        """Save the state; `covered` becomes the position of the checkpoint before, which may be acknowledged.
        The mirror gets it too, at the latest every `MIRROR_SECONDS`. Only while the state is `whole`."""
        saved = Saved(self.fold.snapshot(), self.position, self.ledger.next_offset, self.epoch)
        state = msgspec.msgpack.encode(saved)
        self.checkpoints.save(state)
        if self.service.mirror is not None and (mirror or time.monotonic() - self._mirrored_at > MIRROR_SECONDS):
            self.service.mirror.save(self.position, state)
            self._mirrored_at = time.monotonic()
        self.host.at(Failpoint.CHECKPOINT)
        self.covered, self.saved = self.saved, self.position
        self._events = 0
        self._saved_at = time.monotonic()

    def acknowledged(self) -> int:
        """Delta offset up to which the group may acknowledge; -1 for nothing. A gap holds it where it is."""
        return -1 if self.fold.gap else self.anchor.offset(self.covered)

    def close(self) -> None:
        """Give ledger, folder and reader free."""
        self._client.close()
        self._reader.close()
        self.service.close()


def _gap_text(partition: Partition) -> str:
    first, last = partition.missing or (0, 0)
    if partition.fault == "recreated":
        return "the topic was deleted and created again; what was not read of the one before is gone"
    if partition.fault == "truncated":
        return f"the log lost what it had from offset {first} on, and gives these offsets again"
    return f"offsets {first} to {last} are missing"


def decode_record(offset: int, value: bytes | None) -> AnyRecord:
    """A record of the delta topic; RefusedError for another version or no record at all: a guess is not replayable."""
    try:
        record: Any = _DECODER.decode(value or b"")
    except msgspec.DecodeError:
        raise RefusedError(
            f"delta offset {offset}: {_version_of(value)}; this program reads version {VERSION}"
        ) from None
    if record.v != VERSION:
        raise RefusedError(f"delta offset {offset}: version {record.v}; this program reads version {VERSION}")
    return record  # type: ignore[no-any-return]  # the decoder's type is the union of the records


_DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class _Version(msgspec.Struct):
    v: int


def _version_of(value: bytes | None) -> str:
    try:
        return f"version {msgspec.json.decode(value or b'', type=_Version).v}"
    except msgspec.DecodeError:
        return "not a delta record"
