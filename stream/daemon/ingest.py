"""The ingest worker: partitions of source events to ordered deltas. Stateless.

Order of a batch, which is the guarantee: decode and validate, send deltas and dead letters, wait for the broker's
acknowledgement of each, and only then acknowledge the source events, in order. While one batch waits the next is
taken and sent, never a third. Any surprise ends the process; the service manager starts it again, and the offsets that
were not acknowledged are read again. The fold drops repeats.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import lt
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.kafka.events import Message
from connectors.kafka.lineage import Lineage, LogClient
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import InputError, UnavailableError, VeilstreamError
from stream.daemon.batch_consumer import FetchMessage
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.broker_contact import BrokerContact, no_contact
from stream.daemon.delta_batches import BatchWriter, SourceBatch
from stream.daemon.delta_topic import seen_in_delta_topic
from stream.daemon.deltas import LogState
from stream.daemon.faust_consumer import TP, App, first_record, leader_epoch
from stream.daemon.health import ProgressCheck, faulty_state, patience
from stream.daemon.unreadable import unreadable_partitions
from stream.daemon.worker_status import WorkerStatusFile
from stream.fold.records import Heartbeat, Tick

if TYPE_CHECKING:
    from stream.run.exporter import Metrics

logger = logging.getLogger("veilstream")

LOOK_SECONDS = 1.0
"""How often a worker asks which logs its topics are, while events come. After a pause it asks before it sends anything;
a topic that is created again and has grown beyond the old position within this time is seen a second late."""

APPEND_TIME = 1
"""Kafka's timestamp type for the broker's own clock; a producer's clock is not believed for `max_skew`."""


@dataclass
class Progress:
    """Counts of an ingest worker, for monitoring."""

    events: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    deltas: int = 0
    lag: dict[str, int] = field(default_factory=dict)
    """Source records not yet taken at the last report, by topic/number."""


class Ingest:
    """One worker: the batches of whatever partitions its group membership gives it."""

    def __init__(
        self, app: App, process: str, source: Source, batches: BatchWriter, metrics: Metrics | None = None
    ) -> None:
        self.app, self.process, self.source = app, process, source
        self.batches, self.writer = batches, batches.writer
        self.delta, self.dlq = topic(process, "delta"), topic(process, "dlq")
        self.progress = Progress()
        self.check = ProgressCheck(patience(source.session_timeout, source.heartbeat))
        self.clock = BrokerClock()
        self.metrics = metrics
        report = no_contact if metrics is None else metrics.contact
        self.contact = BrokerContact(source, (*source.topics, self.delta), source.heartbeat, report)
        self.status: WorkerStatusFile | None = None
        """Where `veilstream status` reads of this worker."""
        self._generation: int | None = None
        self._fetches = 0
        """How many fetches of this generation were taken."""
        self._covered: dict[TP, int] = {}
        self._stalled_positions: dict[TP, tuple[int, int]] = {}
        """Position and end of a partition at the last report, where they differed."""
        self._empty_ranges: dict[TP, tuple[int, int]] = {}
        """Position and end between which the log holds no record."""
        self._started_partitions: set[TP] = set()
        """Partitions whose first events in this generation were where they should be."""
        self._client = LogClient(source)
        self._logs: dict[TP, Lineage] = {}
        """The log of each partition, as last reported by the broker."""
        self._undescribed_logs: set[TP] = set()
        """Partitions whose log no delta has described yet."""
        self._unreported_truncations: dict[TP, int] = {}
        """New end offset of each truncated log, until a delta reports it."""
        self._reported_truncations: dict[TP, Lineage] = {}
        """Truncated logs that a delta has reported."""
        self._logged_skip_kinds: set[str] = set()
        """Reasons for skipped records that were already logged once."""
        self._looked = float("-inf")
        self._waiting: asyncio.Future[None] | None = None
        """The batch before this one, sent and not yet acknowledged; its failure is ours."""

    async def batch(self, fetch: FetchMessage) -> None:
        """Send one batch after the previous one; return when the previous one is durable and acknowledged."""
        generation = self._current_generation()
        # What was buffered before a rebalance is read again by whoever owns it now.
        by_partition = fetch.records if fetch.generation_id == generation else {}
        if by_partition:
            self._expect(fetch)
        sends: list[Any] = []
        ends: dict[TP, int] = {}
        await self._look(by_partition)
        covered = await self._positions(by_partition)
        for tp, mine in by_partition.items():
            await self._begin(tp, covered[tp] + 1, mine[0].offset)
            runs = list(_runs(mine))
            begin = await self._begin_behind_holes(tp, covered[tp], runs)
            for run in runs:
                for part in _parts(run, begin):
                    position = ends.get(tp, covered[tp])
                    first = part[0].offset
                    if position + 1 < min(begin, first):
                        position = min(begin, first) - 1
                        sends.append(self._send(self.delta, self._deleted(tp, position)))
                    sends += await self._write_run(tp, position, part)
                    ends[tp] = part[-1].offset
        sent = [await send for send in sends]  # in this order, also on the topic: the producer keeps it
        if self._current_generation() == generation:
            self._covered.update(ends)
        if self._waiting is not None:
            await self._waiting
        self._waiting = asyncio.ensure_future(self.acknowledge(sent, fetch))
        self.app.add_future(self._waiting)  # ends the process where it fails and no batch follows

    def _expect(self, fetch: FetchMessage) -> None:
        """VeilstreamError where fetches of this generation are missing before this one: the process ends, and reads
        them again."""
        if fetch.number is None:
            return
        lost, self._fetches = fetch.number - self._fetches, fetch.number + 1
        if lost:
            raise VeilstreamError(
                f"{lost} fetches were lost between consumer and worker: this process ends, and they are read again"
            )

    async def acknowledge(self, sent: Sequence[Any], fetch: FetchMessage) -> None:
        """Wait until the broker has everything of a batch; then, and only then, acknowledge its events."""
        await self._taken(sent)
        consumer: Any = self.app.consumer
        consumer.acknowledge([fetch])
        self.check.moved()
        self._tell()

    async def _taken(self, sent: Sequence[Any]) -> None:
        """Wait until the broker has all of these records; their stamps set the clock."""
        stamps = [one.timestamp for one in await asyncio.gather(*sent)]
        if stamps:
            self.clock.heard(max(stamps))

    def probe(self) -> Mapping[str, Any]:
        """Return what the health endpoints report."""
        counts: dict[str, Any] = {
            "events": self.progress.events,
            "dead": dict(self.progress.dead),
            "deltas": self.progress.deltas,
        }
        counts["left_out"] = dict(self.writer.left_out)
        counts["unreadable"] = unreadable_partitions.places
        counts["broker_contact_seconds"] = round(self.contact.seconds, 1)
        state = "rebalancing" if self.app.rebalancing else "ingesting"
        return {"role": "ingest", "state": faulty_state(self.contact) or state, **counts}

    def _tell(self) -> None:
        if self.status is not None:
            self.status.write(unreadable_partitions.places)
        if self.metrics is not None:
            done = self.progress
            self.metrics.unreadable(len(unreadable_partitions.partitions))
            self.metrics.ingested(done.events, done.deltas, done.dead, done.lag, self.writer.left_out)

    async def _write_run(self, tp: TP, covered: int, run: Sequence[Any]) -> list[Any]:
        """Write the deltas of events with rising offsets under one leader. Where offsets begin again, or another leader
        wrote the events, ask the broker for the log first: the fold compares it with the one that it knows."""
        if self.writer.formats is not None and self.writer.formats.prepare is not None:
            prepare = partial(self.writer.formats.prepare, answered=self.check.moved)
            await self._asked(prepare, [_message(record) for record in run])
        first, epoch = run[0].offset, leader_epoch(run[0])
        back = first <= covered
        if back or (tp in self._logs and epoch > self._logs[tp].epoch):
            await self._ask([tp])
        return self._write(tp, first - 1 if back else covered, run)

    def _write(self, tp: TP, prev: int, records: Sequence[Any]) -> list[Any]:
        """Coroutines that hand the partition's deltas and dead letters to the producer, in order."""
        log = self._tell_log(tp, leader_epoch(records[-1]))
        before = self.writer.left_out.total()
        deltas, letters = self.batches.write(tp.topic, tp.partition, prev, self._batch(records), log)
        left_out = self.writer.left_out.total() - before
        for kind in sorted(self.writer.left_out.keys() - self._logged_skip_kinds):
            self._logged_skip_kinds.add(kind)
            logger.info("%s/%d: records become no event: %s; from now on they are only counted", *tp, kind)
        self.progress.events += len(records) - len(letters) - left_out
        self.progress.deltas += len(deltas)
        for letter in letters:
            self.progress.dead[letter.error] = self.progress.dead.get(letter.error, 0) + 1
        sends = [self._send(self.dlq, letter.encode(tp.topic, tp.partition)) for letter in letters]
        return sends + [self._send(self.delta, delta) for delta in deltas]

    def _batch(self, records: Sequence[Any]) -> SourceBatch:
        """With the broker's stamps as clocks, where it stamps records; else with the clock of this moment."""
        clock = self.clock.now()
        if APPEND_TIME not in {record.timestamp_type for record in records}:
            return SourceBatch(records, clock)
        stamped = (record.timestamp_type == APPEND_TIME for record in records)
        return SourceBatch(
            records, [one.timestamp * 1_000_000 if own else clock for one, own in zip(records, stamped, strict=True)]
        )

    def _send(self, name: str, value: bytes) -> Any:
        return self.app.producer.send(name, None, value, 0, None, None)

    def _current_generation(self) -> int:
        generation = int(self.app.consumer_generation_id)
        if generation != self._generation:
            self._generation, self._fetches = generation, 0
            self._covered.clear()
            self._started_partitions.clear()
            self._logs.clear()
            self._undescribed_logs.clear()
            self._unreported_truncations.clear()
            self._reported_truncations.clear()
        return generation

    async def _look(self, partitions: Collection[TP]) -> None:
        """Ask the broker for the topic ids and leaders of the partitions, once in a generation and then every
        `LOOK_SECONDS`; ask for the whole log of a partition whose id or leader has changed."""
        known = all(tp in self._logs for tp in partitions)
        if known and time.monotonic() - self._looked < LOOK_SECONDS:
            return
        leaders = await self._asked(self._client.leaders, (*self.source.topics, self.delta, self.dlq))
        for own in (self.delta, self.dlq):
            if (own, 0) not in leaders:  # the client under us would ask for it a thousand times a second, for ever
                raise InputError(f"topic {own}: missing; run `veilstream topics create`")
        self._looked = time.monotonic()
        changed = []
        for tp in partitions:
            leader, log = leaders.get((tp.topic, tp.partition)), self._logs.get(tp)
            if leader is not None and (log is None or (leader.topic, leader.epoch) != (log.topic, log.epoch)):
                changed.append(tp)
        if changed:
            await self._ask(changed)

    async def _ask(self, partitions: Collection[TP]) -> None:
        """Ask the leaders for the logs of some partitions; the next delta tells what is new about them."""
        generation = self._current_generation()
        places = [(tp.topic, tp.partition) for tp in partitions]
        found = await self._asked(self._client.lineages, places)
        if self._current_generation() != generation:
            return
        for tp in partitions:
            log, before = found.get((tp.topic, tp.partition)), self._logs.get(tp)
            if log is None:
                continue
            self._logs[tp] = log
            if before is None or (before.topic, before.epochs) != (log.topic, log.epochs):
                self._undescribed_logs.add(tp)

    async def _asked(self, question: Callable[[Any], Any], about: Any) -> Any:
        """Return the answer of the broker or the schema registry. While it is away the worker waits, like its consumer;
        the progress check limits this."""
        while True:
            try:
                return await asyncio.get_running_loop().run_in_executor(None, question, about)
            except UnavailableError as error:
                logger.warning("%s; asking again", error)
                await asyncio.sleep(1.0)

    def _tell_log(self, tp: TP, epoch: int) -> LogState:
        """Return what the next delta must tell of its log: all that no delta has told yet."""
        log = self._logs.get(tp)
        if log is None:
            return LogState(epoch=epoch)
        if tp not in self._undescribed_logs and tp not in self._unreported_truncations:
            return LogState(log.topic, epoch)
        self._undescribed_logs.discard(tp)
        return LogState(log.topic, epoch, log.epochs, self._unreported_truncations.pop(tp, None))

    async def _begin(self, tp: TP, expected: int, offset: int) -> None:
        """Check that the first events of an assignment follow those of the one before, or a hole that the log has. A
        rebalance can skip events; they would be committed and no delta would show it. The process then ends and reads
        them again."""
        if tp not in self._started_partitions and offset > expected:
            loop = asyncio.get_running_loop()
            there = await loop.run_in_executor(None, first_record, self.source, tp, expected, offset)
            if there < offset:
                raise VeilstreamError(f"{tp.topic}/{tp.partition}: offsets {there} to {offset - 1} were skipped")
        self._started_partitions.add(tp)

    async def _positions(self, partitions: Collection[TP]) -> dict[TP, int]:
        """Offset of each partition that is covered before the next delta: of this assignment's last one, else the
        committed position. (A delta that was sent and is not durable yet counts: should it fail, the process ends and
        what follows it is a gap to the fold until the offsets are read again.)

        Never "first - 1": what retention or a lost commit took away would pass unseen. Where the log begins behind
        the committed position, `_tell_begin` shows the fold the gap; the begin is asked after the first events came,
        so that it is not older than they are.
        """
        generation = self._current_generation()
        found = {tp: self._covered[tp] for tp in partitions if tp in self._covered}
        missing = [tp for tp in partitions if tp not in found]
        if missing:
            thread: Any = self.app.consumer._thread  # type: ignore[attr-defined]  # Faust gives no other way to ask
            begins = await self._asked(self._client.begins, [(tp.topic, tp.partition) for tp in missing])
            for tp in missing:
                committed = await thread.call_thread(thread._consumer.committed, tp)
                if begins[tp] > (committed or 0):
                    await self._tell_begin(tp, begins[tp], promised=committed is not None)
                found[tp] = max(committed or 0, begins[tp]) - 1
            if self._current_generation() == generation:
                for tp in missing:
                    found[tp] = self._covered.setdefault(tp, found[tp])
        return found

    async def _tell_begin(self, tp: TP, begin: int, *, promised: bool) -> None:
        """The log begins behind the group's position: a delta without an event says so, before an event or an idle
        report does. What was promised is a gap to the fold (a committed position, or a partition that the delta topic
        speaks of); a log that had lost its begin before our first start is none."""
        if not promised:
            loop = asyncio.get_running_loop()
            promised = await loop.run_in_executor(
                None, seen_in_delta_topic, self.process, self.source, tp.topic, tp.partition
            )
        prev = begin - 1 if promised else -1
        delta = self.writer.opening(tp.topic, tp.partition, prev, begin - 1, self._tell_log(tp, -1))
        await self._taken([await self._send(self.delta, delta)])

    async def _begin_behind_holes(self, tp: TP, covered: int, runs: Sequence[Sequence[Any]]) -> int:
        """Return where the log begins if offsets are missing in what was fetched, else 0.

        Transactions and compaction leave holes in a log. Retention does, too, while nobody reads: the client goes on
        at the new begin without an error, and the fold must learn that events are missing. If retention has passed a
        hole of another kind, it counts as missing events: nobody can tell any more.
        """
        position = covered
        for run in runs:
            first, last = run[0].offset, run[-1].offset
            if first > position + 1 or last - first >= len(run):
                found = await self._asked(self._client.begins, [(tp.topic, tp.partition)])
                return int(found[tp.topic, tp.partition])
            position = last
        return 0

    def _deleted(self, tp: TP, position: int) -> bytes:
        """Return a delta without events that begins behind deleted ones: a gap to the fold."""
        return self.writer.opening(tp.topic, tp.partition, position, position, self._tell_log(tp, -1))

    async def report(self) -> None:
        """Heartbeats of the partitions with nothing new, and the tick of whoever owns the first partition."""
        if self.app.rebalancing:
            return
        if not self.app.consumer.assignment():
            if self._current_generation() > 0:
                self.check.moved()  # a member without a partition: there are more workers than partitions
            self.progress.lag = {}
            self._tell()
            return
        generation = self._current_generation()
        owned = sorted(tp for tp in self.app.consumer.assignment() if tp.topic in self.source.topics)
        await self._look(owned)
        covered = dict(await self._positions(owned))  # before the ends are asked: they are not older
        ends = await self.app.consumer.highwaters(*owned)
        await self._look_at_ends({tp: covered[tp] for tp in owned if ends[tp] <= covered[tp]})
        told = [
            self._send(self.delta, self._log_delta(tp))
            for tp in owned
            if tp in self._undescribed_logs or tp in self._unreported_truncations
        ]
        await self._taken([await send for send in told])  # before the clock is read: these are a worker's first
        now = self.clock.now()
        sends = []
        self.progress.lag = {}
        stopped = unreadable_partitions.partitions
        for tp in owned:
            position = covered[tp]
            if ends[tp] <= position:
                continue  # it ends before what was read: it is not idle, its consumer is about to begin again
            if tp in stopped:
                self.progress.lag[f"{tp.topic}/{tp.partition}"] = ends[tp] - position - 1
                continue
            idle = ends[tp] <= position + 1 or await self._nothing_between(tp, position + 1, ends[tp])
            self.progress.lag[f"{tp.topic}/{tp.partition}"] = 0 if idle else ends[tp] - position - 1
            if idle and self._current_generation() == generation:
                beat = Heartbeat(src=tp.topic, p=tp.partition, at=now, last=position)
                sends.append(self._send(self.delta, msgspec.json.encode(beat)))
        if TP(self.source.topics[0], 0) in owned:
            sends.append(self._send(self.delta, msgspec.json.encode(Tick(at=now))))
        await self._taken([await send for send in sends])
        waiting = [tp for tp in owned if tp not in stopped and self.progress.lag.get(f"{tp.topic}/{tp.partition}")]
        if not waiting and (self._waiting is None or self._waiting.done()):
            self.check.moved()  # a restart would not mend a stopped partition
        self._tell()

    def _log_delta(self, tp: TP) -> bytes:
        return self.writer.opening(tp.topic, tp.partition, -1, -1, self._tell_log(tp, -1))

    async def _look_at_ends(self, positions: Mapping[TP, int]) -> None:
        """Ask the leaders about partitions that seem to end before the position that was read; a fetching client cannot
        tell. Each log and end is told once."""
        if not positions:
            return
        await self._ask(positions)
        for tp, position in positions.items():
            log = self._logs.get(tp)
            if log is None or log.end is None or log.end > position or self._reported_truncations.get(tp) == log:
                continue
            self._reported_truncations[tp], self._unreported_truncations[tp] = log, log.end

    async def _nothing_between(self, tp: TP, begin: int, end: int) -> bool:
        """Whether no event stands between a position and the end of the log: transaction markers and compacted records
        have offsets and bring no event. The broker is asked once for each position."""
        place = (begin, end)
        if self._empty_ranges.get(tp) == place:
            return True
        if self._stalled_positions.get(tp) != place:  # it moves, or may be about to
            self._stalled_positions[tp] = place
            return False
        loop = asyncio.get_running_loop()
        try:
            there = await loop.run_in_executor(None, first_record, self.source, tp, begin, end)
        except TimeoutError:
            return False  # the broker does not say: whether we stand still is for the progress check
        if there == end:
            self._empty_ranges[tp] = place
        return there == end


def _message(record: Any) -> Message:
    return Message(record.topic, record.key, record.value)


def _parts(records: Sequence[Any], begin: int) -> Iterator[Sequence[Any]]:
    """The records of a run, split at each hole that lies below the begin of the log."""
    last = 0
    for i in range(1, len(records)):
        behind = records[i - 1].offset + 1
        if behind < begin and behind < records[i].offset:
            yield records[last:i]
            last = i
    yield records[last:]


def _runs(records: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The records of a partition, split where offsets begin again (the log did) or another leader wrote them."""
    offsets, epochs = [record.offset for record in records], list(map(leader_epoch, records))
    if len(set(epochs)) == 1 and all(map(lt, offsets, offsets[1:])):
        yield records
        return
    begin = 0
    for i in range(1, len(records)):
        if offsets[i] <= offsets[i - 1] or epochs[i] != epochs[i - 1]:
            yield records[begin:i]
            begin = i
    yield records[begin:]
