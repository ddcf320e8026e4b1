"""Faust application 1: partitions of source events to ordered deltas. Stateless.

Order of a batch, which is the guarantee: decode and validate, send deltas and dead letters, wait for the broker's
acknowledgement of each, and only then acknowledge the source events, in order. While one batch waits the next is
taken and sent, never a third. Any surprise ends the process; the service manager starts it again, and the offsets that
were not acknowledged are read again. The fold drops repeats.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faust
import msgspec
from faust.types import TP
from kafka.errors import KafkaError

from connectors.columns import Names
from connectors.kafka.events import Schema, decoder
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from connectors.times import nanoseconds
from models.errors import VeilstreamError
from stream.config.settings import Settings
from stream.daemon.delta_reader import spoken_of
from stream.daemon.deltas import DeltaWriter, SourceRecord
from stream.daemon.faust_app import CrashingSupervisor, application, offer_health
from stream.daemon.faust_consumer import first_record, log_begins
from stream.daemon.progress import ProgressCheck, patience
from stream.fold.records import Heartbeat, Tick
from stream.values.pseudonym import Pseudonyms

if TYPE_CHECKING:
    from stream.metrics.exporter import Metrics

TAKE = 500
"""Events of one batch. More would hold more unacknowledged events, less would pay more round trips an event."""

WITHIN = 0.25
"""Seconds that an incomplete batch waits: the price of latency where traffic is low."""

APPEND_TIME = 1
"""Kafka's timestamp type for the broker's own clock; a producer's clock is not believed for `max_skew`."""


@dataclass
class Progress:
    """What monitoring reads of an ingest worker; counts only."""

    events: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    deltas: int = 0
    lag: dict[str, int] = field(default_factory=dict)
    """Source records not yet taken at the last report, by topic/number."""


def delta_writer(settings: Settings, source: Source, key: bytes) -> DeltaWriter:
    """The writer that a configuration asks for. Attributes that nobody needs are never decoded."""
    process = settings.process
    schema = Schema(
        names=Names.of(process.columns.changed),
        attributes=tuple(dict.fromkeys((*process.kept, *source.attributes))),
        timezone=process.timezone,
        event_id=source.event_id,
        end=source.end,
        format=source.format,
    )
    return DeltaWriter(
        decode=decoder(schema),
        pseudonyms=Pseudonyms(key),
        max_skew_ns=int(source.max_skew * 1_000_000_000),
        limit=source.delta_batch_bytes,
        dlq_payload=source.dlq_payload,
        earliest=None if process.earliest is None else nanoseconds(process.earliest),
        raw_resources=process.raw_resources,
    )


class Ingest:
    """One worker: the batches of whatever partitions its group membership gives it."""

    def __init__(self, app: faust.App, process: str, source: Source, writer: DeltaWriter) -> None:
        self.app, self.process, self.source, self.writer = app, process, source, writer
        self.delta, self.dlq = topic(process, "delta"), topic(process, "dlq")
        self.progress = Progress()
        self.check = ProgressCheck(patience(source.session_timeout, source.heartbeat))
        self.metrics: Metrics | None = None
        self._generation: int | None = None
        self._covered: dict[TP, int] = {}
        self._stood: dict[TP, tuple[int, int]] = {}
        """Position and end of a partition at the last report, where they differed."""
        self._hollow: dict[TP, tuple[int, int]] = {}
        """Position and end between which the log holds no record."""
        self._begun: set[TP] = set()
        """Partitions whose first events in this generation were where they should be."""
        self._waiting: asyncio.Future[None] | None = None
        """The batch before this one, sent and not yet acknowledged; its failure is ours."""

    async def batch(self, events: Sequence[Any]) -> None:
        """Send one batch behind the one before, and return when that one is durable and acknowledged."""
        generation = self._current_generation()
        by_partition: dict[TP, list[Any]] = {}
        for event in events:
            # What was buffered before a rebalance is read again by whoever owns it now.
            if event.message.generation_id == generation:
                by_partition.setdefault(event.message.tp, []).append(event)
        sends: list[Any] = []
        ends: dict[TP, int] = {}
        covered = await self._positions(by_partition)
        for tp, mine in by_partition.items():
            await self._begin(tp, covered[tp] + 1, mine[0].message.offset)
            sends += self._write(tp, covered[tp], mine)
            ends[tp] = mine[-1].message.offset
        sent = [await send for send in sends]  # in this order, also on the topic: the producer keeps it
        if self._current_generation() == generation:
            self._covered.update(ends)
        if self._waiting is not None:
            await self._waiting
        self._waiting = asyncio.ensure_future(self.acknowledge(sent, by_partition))
        self.app.add_future(self._waiting)  # ends the process where it fails and no batch follows

    async def acknowledge(self, sent: Sequence[Any], by_partition: Mapping[TP, Sequence[Any]]) -> None:
        """Wait until the broker has everything of a batch; then, and only then, acknowledge its events in order."""
        await asyncio.gather(*sent)
        for mine in by_partition.values():
            for event in mine:
                event.ack()
        self.check.moved()
        self._tell()

    def probe(self) -> dict[str, Any]:
        """What the health endpoints tell."""
        counts = {"events": self.progress.events, "dead": dict(self.progress.dead), "deltas": self.progress.deltas}
        return {"role": "ingest", "state": "rebalancing" if self.app.rebalancing else "ingesting", **counts}

    def _tell(self) -> None:
        if self.metrics is not None:
            done = self.progress
            self.metrics.ingested(done.events, done.deltas, done.dead, done.lag)

    def _write(self, tp: TP, prev: int, events: Sequence[Any]) -> list[Any]:
        """Coroutines that hand the partition's deltas and dead letters to the producer, in order."""
        deltas, letters = self.writer.write(tp.topic, tp.partition, prev, map(_record, events))
        self.progress.events += len(events) - len(letters)
        self.progress.deltas += len(deltas)
        for letter in letters:
            self.progress.dead[letter.error] = self.progress.dead.get(letter.error, 0) + 1
        sends = [self._send(self.dlq, letter.encode(tp.topic, tp.partition)) for letter in letters]
        return sends + [self._send(self.delta, delta) for delta in deltas]

    def _send(self, name: str, value: bytes) -> Any:
        return self.app.producer.send(name, None, value, 0, None, None)

    def _current_generation(self) -> int:
        generation = int(self.app.consumer_generation_id)
        if generation != self._generation:
            self._generation = generation
            self._covered.clear()
            self._begun.clear()
        return generation

    async def _begin(self, tp: TP, expected: int, offset: int) -> None:
        """An assignment begins where the one before ended, or at a hole that the log really has. What a rebalance
        skipped would be committed over, and no delta would show it: the process ends instead, and reads it again."""
        if tp not in self._begun and offset > expected:
            loop = asyncio.get_running_loop()
            there = await loop.run_in_executor(None, first_record, self.source, tp, expected, offset)
            if there < offset:
                raise VeilstreamError(f"{tp.topic}/{tp.partition}: offsets {there} to {offset - 1} were skipped")
        self._begun.add(tp)

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
            begins = await asyncio.get_running_loop().run_in_executor(None, log_begins, self.source, missing)
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
            promised = await loop.run_in_executor(None, spoken_of, self.process, self.source, tp.topic, tp.partition)
        delta = self.writer.opening(tp.topic, tp.partition, begin - 1 if promised else -1, begin - 1)
        await (await self._send(self.delta, delta))

    async def report(self) -> None:
        """Heartbeats of the partitions with nothing new, and the tick of whoever owns the first partition."""
        if self.app.rebalancing:
            return
        if not self.app.consumer.assignment():
            if self._current_generation() > 0:
                self.check.moved()  # a member without a partition: there are more workers than partitions
            return
        generation = self._current_generation()
        owned = sorted(tp for tp in self.app.consumer.assignment() if tp.topic in self.source.topics)
        now = time.time_ns()
        ends = await self.app.consumer.highwaters(*owned)
        covered = await self._positions(owned)
        sends = []
        self.progress.lag = {}
        for tp in owned:
            position = covered[tp]
            idle = ends[tp] <= position + 1 or await self._nothing_between(tp, position + 1, ends[tp])
            self.progress.lag[f"{tp.topic}/{tp.partition}"] = 0 if idle else ends[tp] - position - 1
            if idle and self._current_generation() == generation:
                sends.append(
                    self._send(self.delta, msgspec.json.encode(Heartbeat(src=tp.topic, p=tp.partition, at=now)))
                )
        if TP(self.source.topics[0], 0) in owned:
            sends.append(self._send(self.delta, msgspec.json.encode(Tick(at=now))))
        await asyncio.gather(*[await send for send in sends])
        if not any(self.progress.lag.values()):
            self.check.moved()
        self._tell()

    async def _nothing_between(self, tp: TP, begin: int, end: int) -> bool:
        """Whether a partition that stands still before the end of its log has come to that end: markers of
        transactions and what compaction took have offsets and bring no event. The broker is asked once for a place."""
        place = (begin, end)
        if self._hollow.get(tp) == place:
            return True
        if self._stood.get(tp) != place:  # it moves, or may be about to
            self._stood[tp] = place
            return False
        loop = asyncio.get_running_loop()
        try:
            there = await loop.run_in_executor(None, first_record, self.source, tp, begin, end)
        except (KafkaError, TimeoutError):
            return False  # the broker does not say: whether we stand still is for the progress check
        if there == end:
            self._hollow[tp] = place
        return there == end


def _record(event: Any) -> SourceRecord:
    message = event.message
    clock = int(message.timestamp * 1_000_000_000) if message.timestamp_type == APPEND_TIME else time.time_ns()
    return SourceRecord(message.offset, message.value, message.headers, clock)


def ingest_app(settings: Settings, source: Source, key: bytes, folder: Path) -> tuple[faust.App, Ingest]:
    """The application and its worker."""
    process = settings.process.name
    app = application(process, "ingest", source, folder)
    worker = Ingest(app, process, source, delta_writer(settings, source, key))
    events = app.topic(*source.topics, key_serializer="raw", value_serializer="raw", allow_empty=True)

    @app.agent(events, name="ingest", supervisor_strategy=CrashingSupervisor)
    async def take(stream: Any) -> None:
        async for batch in stream.noack_take(TAKE, within=WITHIN):
            await worker.batch(batch)

    @app.timer(interval=source.heartbeat)  # type: ignore[untyped-decorator]
    async def report() -> None:
        await worker.report()

    offer_health(app, settings.health_port, worker.probe)
    return app, worker
