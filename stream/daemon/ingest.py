"""The ingest worker: from partitions of source events to an ordered stream of deltas. It keeps no state on disk.

Each batch goes through these steps, in this order. The order is the guarantee.

1. Decode and validate the records.
2. Send deltas and dead letters.
3. Wait for the broker's acknowledgement of each.
4. Acknowledge the source events, in order.

While one batch waits for the broker, the next one is taken and sent, never a third. Any unexpected condition ends the
process. The service manager starts it again, and events that were not acknowledged are read again. The fold drops
repeats.

Each delta states which offsets it covers, so that the fold finds every event that is missing. A worker therefore asks
the broker for more than events:

* the log of each partition (topic id and leader epochs): a topic that was created again has another log;
* the begin of the log: retention can remove events before they are read;
* the end of the log: a log that lost its end has fewer records than were read.

`Ingest.batch` handles events, `Ingest.report` what happens between them: heartbeats of idle partitions, the tick, and
truncated logs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.columns import ColumnNames
from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from connectors.kafka.lineage import Lineage, LogClient
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from connectors.times import nanoseconds
from models.errors import InputError, UnavailableError, VeilstreamError
from stream.config.settings import Settings
from stream.daemon.broker_clock import BrokerClock
from stream.daemon.broker_contact import BrokerContact, no_contact
from stream.daemon.delta_topic import seen_in_delta_topic
from stream.daemon.deltas import Clocks, DeltaWriter, LogState
from stream.daemon.faust_app import App, CrashingSupervisor, application, offer_health
from stream.daemon.faust_consumer import TP, WAITING, FetchMessage, FetchTransport, first_record, leader_epoch
from stream.daemon.health import ProgressCheck, faulty_state, patience
from stream.daemon.unreadable import unreadable_partitions
from stream.daemon.worker_status import WorkerStatusFile
from stream.fold.records import Heartbeat, Tick
from stream.values.pseudonym import Pseudonyms

if TYPE_CHECKING:
    from stream.run.exporter import Metrics

logger = logging.getLogger("veilstream")

LOOK_SECONDS = 1.0
"""Interval at which a worker asks the broker for the logs of its topics, while events come. After a pause it asks
before it sends anything. A topic that is created again and grows beyond the old position within this time is seen
late."""

DELTA_BYTES = 512 * 1024
"""A delta record is split above this, and a single row above it goes to the dlq. Brokers take records of 1 MB unless
they are configured otherwise."""

APPEND_TIME = 1
"""Kafka's timestamp type for the broker's own clock. The clock of a producer is not trusted for `max_skew`."""


@dataclass
class Progress:
    """Counts of an ingest worker, for monitoring."""

    events: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    deltas: int = 0
    lag: dict[str, int] = field(default_factory=dict)
    """Source records not yet taken at the last report, by topic/number."""


@dataclass
class Generation:
    """State of one membership generation of the consumer group. A rebalance makes a new one."""

    number: int
    fetches: int = 0
    """Fetches of this generation that were taken."""
    covered: dict[TP, int] = field(default_factory=dict)
    """Last offset of each partition that a sent delta covers."""
    started_partitions: set[TP] = field(default_factory=set)
    """Partitions whose first events followed those of the assignment before."""
    logs: dict[TP, Lineage] = field(default_factory=dict)
    """The log of each partition, as last reported by the broker."""
    undescribed_logs: set[TP] = field(default_factory=set)
    """Partitions whose log no delta has described yet."""
    unreported_truncations: dict[TP, int] = field(default_factory=dict)
    """New end offset of each truncated log, until a delta reports it."""
    reported_truncations: dict[TP, Lineage] = field(default_factory=dict)
    """Truncated logs that a delta has reported."""


class Ingest:
    """One worker: it takes the batches of the partitions that its group assigns to it.

    Parameters
    ----------
    app
        The Faust application that brings the batches.
    process
        Name of the process, which its topics contain.
    source
        Configuration of the source topics.
    writer
        Turns source records into delta records.
    metrics
        Receives counts, if the process serves metrics.
    """

    def __init__(
        self, app: App, process: str, source: Source, writer: DeltaWriter, metrics: Metrics | None = None
    ) -> None:
        self.app, self.process, self.source = app, process, source
        self.writer, self.metrics = writer, metrics
        self.delta, self.dlq = topic(process, "delta"), topic(process, "dlq")
        self.progress = Progress()
        self.check = ProgressCheck(patience(source.session_timeout, source.heartbeat))
        self.clock = BrokerClock()
        report = no_contact if metrics is None else metrics.contact
        self.contact = BrokerContact(source, (*source.topics, self.delta), source.heartbeat, report)
        self.status: WorkerStatusFile | None = None
        """The file that `veilstream status` reads about this worker."""
        self._client = LogClient(source)
        self._generation = Generation(-1)
        self._stalled_positions: dict[TP, tuple[int, int]] = {}
        """Position and end of a partition at the last report, if they differed."""
        self._empty_ranges: dict[TP, tuple[int, int]] = {}
        """Position and end between which the log holds no record."""
        self._logged_skip_kinds: set[str] = set()
        """Reasons for skipped records that were already logged once."""
        self._logs_checked_at = float("-inf")
        self._previous_batch: asyncio.Future[None] | None = None
        """The batch before this one: sent, and not yet acknowledged."""
        self.signals = self._signalled
        """Receiver of assignments. Faust keeps only a weak reference to it."""

    # one batch

    async def batch(self, fetch: FetchMessage) -> None:
        """Send one batch after the previous one; return when the previous one is durable and acknowledged."""
        generation = self._current_generation()
        # Records that were fetched before a rebalance are read again by the member that owns them now.
        records_of = fetch.records if fetch.generation_id == generation.number else {}
        if records_of:
            self._check_no_fetch_lost(fetch)
        await self._check_logs(records_of)
        covered = await self._covered_positions(records_of)
        if self._current_generation() is not generation:
            # A rebalance came while the broker was asked. The new generation continues at the committed position,
            # which may be before these records: compared with it, the records between would count as skipped.
            records_of = {}
        sends: list[Any] = []
        for tp, records in records_of.items():
            await self._check_start(generation, tp, covered[tp] + 1, records[0].offset)
            sends += await self._write_records(tp, covered[tp], records)
        sent = [await send for send in sends]  # in this order, also on the topic: the producer keeps it
        if self._current_generation() is generation:
            for tp, records in records_of.items():
                generation.covered[tp] = records[-1].offset
        if self._previous_batch is not None:
            await self._previous_batch
        self._previous_batch = asyncio.ensure_future(self.acknowledge(sent, fetch))
        self.app.add_future(self._previous_batch)  # ends the process if it fails and no batch follows

    def _check_no_fetch_lost(self, fetch: FetchMessage) -> None:
        """Fail if fetches of this generation are missing before this one: the process ends, and reads them again."""
        if fetch.number is None:
            return
        lost = fetch.number - self._generation.fetches
        self._generation.fetches = fetch.number + 1
        if lost:
            raise VeilstreamError(
                f"{lost} fetches were lost between consumer and worker: this process ends, and they are read again"
            )

    async def _write_records(self, tp: TP, covered: int, records: Sequence[Any]) -> list[Any]:
        """Write the deltas of the records of a partition.

        The records are divided twice before they are written:

            records    3 4 5 7 8 | 1 2 3        offsets begin again: two runs (`_runs`)
            run        3 4 5 | 7 8              offset 6 was deleted: two parts (`_split_at_deleted`)

        A delta without events reports the deleted offsets between two parts.
        """
        runs = list(_runs(records))
        log_begin = await self._begin_behind_holes(tp, covered, runs)
        sends: list[Any] = []
        position = covered
        for run in runs:
            for part in _split_at_deleted(run, log_begin):
                first_left = min(log_begin, part[0].offset)
                if position + 1 < first_left:
                    position = first_left - 1
                    sends.append(self._send(self.delta, self._report_deleted(tp, position)))
                sends += await self._write_run(tp, position, part)
                position = part[-1].offset
        return sends

    async def _write_run(self, tp: TP, covered: int, run: Sequence[Any]) -> list[Any]:
        """Write the deltas of events with rising offsets under one leader.

        If offsets begin again, or another leader wrote the events, ask the broker for the log first: the fold compares
        it with the log that it has read so far.
        """
        prepare = self.writer.decoder.prepare
        if prepare is not None:
            await self._ask_until_answered(partial(prepare, answered=self.check.moved), run)
        first, epoch = run[0].offset, leader_epoch(run[0])
        begins_again = first <= covered
        log = self._generation.logs.get(tp)
        if begins_again or (log is not None and epoch > log.epoch):
            await self._refresh_logs([tp])
        return self._write(tp, first - 1 if begins_again else covered, run)

    def _write(self, tp: TP, prev: int, records: Sequence[Any]) -> list[Any]:
        """Return coroutines that hand deltas and dead letters to the producer, in order."""
        log = self._describe_log(tp, leader_epoch(records[-1]))
        left_out_before = self.writer.left_out.total()
        deltas, letters = self.writer.write(*tp, prev, records, self._clocks(records), log)
        left_out = self.writer.left_out.total() - left_out_before
        for kind in sorted(self.writer.left_out.keys() - self._logged_skip_kinds):
            self._logged_skip_kinds.add(kind)
            logger.info("%s/%d: records become no event: %s; from now on they are only counted", *tp, kind)
        self.progress.events += len(records) - len(letters) - left_out
        self.progress.deltas += len(deltas)
        for letter in letters:
            self.progress.dead[letter.error] = self.progress.dead.get(letter.error, 0) + 1
        sends = [self._send(self.dlq, letter.encode(tp.topic, tp.partition)) for letter in letters]
        return sends + [self._send(self.delta, delta) for delta in deltas]

    def _clocks(self, records: Sequence[Any]) -> Clocks:
        """Return the broker's stamp of each record that has one, and the time of this moment for the others."""
        now = self.clock.now()
        if APPEND_TIME not in {record.timestamp_type for record in records}:
            return now
        clocks = []
        for record in records:
            stamped = record.timestamp_type == APPEND_TIME
            clocks.append(record.timestamp * 1_000_000 if stamped else now)
        return clocks

    def _send(self, name: str, value: bytes) -> Any:
        return self.app.producer.send(name, None, value, 0, None, None)

    async def acknowledge(self, sent: Sequence[Any], fetch: FetchMessage) -> None:
        """Wait until the broker has everything of a batch; then, and only then, acknowledge its events."""
        await self._wait_until_durable(sent)
        consumer: Any = self.app.consumer
        consumer.acknowledge([fetch])
        self.check.moved()
        self._publish_status()

    async def _wait_until_durable(self, sent: Sequence[Any]) -> None:
        """Wait until the broker has all of these records; its stamps set the clock."""
        stamps = [record.timestamp for record in await asyncio.gather(*sent)]
        if stamps:
            self.clock.set_by(max(stamps))

    # generations and logs

    async def _signalled(self, _app: Any, _partitions: Any, **_: Any) -> None:
        if self.metrics is not None:
            self.metrics.rebalanced()

    def _current_generation(self) -> Generation:
        number = int(self.app.consumer_generation_id)
        if number != self._generation.number:
            self._generation = Generation(number)
        return self._generation

    async def _check_logs(self, partitions: Collection[TP]) -> None:
        """Ask the broker for the topic ids and leaders of partitions: once a generation, then every `LOOK_SECONDS`.

        If the id or the leader of a partition has changed, ask for its whole log.
        """
        all_known = all(tp in self._generation.logs for tp in partitions)
        if all_known and time.monotonic() - self._logs_checked_at < LOOK_SECONDS:
            return
        leaders = await self._ask_until_answered(self._client.leaders, (*self.source.topics, self.delta, self.dlq))
        for name in (self.delta, self.dlq):
            if (name, 0) not in leaders:  # the client would request it a thousand times a second, without end
                raise InputError(f"topic {name}: missing; run `veilstream topics create`")
        self._logs_checked_at = time.monotonic()
        changed = []
        for tp in partitions:
            leader, log = leaders.get(tp), self._generation.logs.get(tp)
            if leader is None:
                continue
            if log is None or (leader.topic, leader.epoch) != (log.topic, log.epoch):
                changed.append(tp)
        if changed:
            await self._refresh_logs(changed)

    async def _refresh_logs(self, partitions: Collection[TP]) -> None:
        """Ask the leaders for the logs of some partitions; the next delta describes those that have changed."""
        generation = self._current_generation()
        lineages = await self._ask_until_answered(self._client.lineages, partitions)
        if self._current_generation() is not generation:
            return  # a rebalance came meanwhile: the new generation asks for its own partitions
        for tp in partitions:
            log, before = lineages.get(tp), generation.logs.get(tp)
            if log is None:
                continue
            generation.logs[tp] = log
            if before is None or (before.topic, before.epochs) != (log.topic, log.epochs):
                generation.undescribed_logs.add(tp)

    async def _ask_until_answered(self, question: Callable[[Any], Any], about: Any) -> Any:
        """Return the answer of the broker or the schema registry.

        While it is away the worker waits, like its consumer; the progress check limits this.
        """
        while True:
            try:
                return await asyncio.to_thread(question, about)
            except UnavailableError as error:
                logger.warning("%s; asking again", error)
                await asyncio.sleep(1.0)

    def _describe_log(self, tp: TP, epoch: int) -> LogState:
        """Return the description of its log for the next delta: everything that no delta has reported yet."""
        generation = self._generation
        log = generation.logs.get(tp)
        if log is None:
            return LogState(epoch=epoch)
        if tp not in generation.undescribed_logs and tp not in generation.unreported_truncations:
            return LogState(log.topic, epoch)
        generation.undescribed_logs.discard(tp)
        return LogState(log.topic, epoch, log.epochs, generation.unreported_truncations.pop(tp, None))

    # positions and holes

    async def _check_start(self, generation: Generation, tp: TP, expected: int, offset: int) -> None:
        """Check that the first events of an assignment follow those of the one before, or a hole of the log.

        A rebalance can skip events; they would be committed, and no delta would show it. The process then ends and
        reads them again.
        """
        if tp not in generation.started_partitions and offset > expected:
            first = await asyncio.to_thread(first_record, self.source, tp, expected, offset)
            if first < offset:
                raise VeilstreamError(f"{tp.topic}/{tp.partition}: offsets {first} to {offset - 1} were skipped")
        generation.started_partitions.add(tp)

    async def _covered_positions(self, partitions: Collection[TP]) -> dict[TP, int]:
        """Return the offset of each partition that is covered before the next delta.

        It is the last offset of this assignment, else the committed position. A delta that was sent and is not durable
        yet counts: if it fails, the process ends, and what follows it is a gap to the fold until its events are read
        again.

        It is never "first - 1": events that retention or a lost commit took away would pass unseen. If the log begins
        behind the committed position, `_report_log_begin` shows the fold the gap. The begin is asked for after the
        first events came, so that it is not older than they are.
        """
        generation = self._current_generation()
        positions = {tp: generation.covered[tp] for tp in partitions if tp in generation.covered}
        new_partitions = [tp for tp in partitions if tp not in positions]
        if not new_partitions:
            return positions
        consumer: Any = self.app.consumer
        begins = await self._ask_until_answered(self._client.begins, new_partitions)
        for tp in new_partitions:
            committed = await consumer.committed(tp)
            if begins[tp] > (committed or 0):
                await self._report_log_begin(tp, begins[tp], promised=committed is not None)
            positions[tp] = max(committed or 0, begins[tp]) - 1
        if self._current_generation() is generation:
            # While this one waited, the other task (batch or report) may have covered more of a partition.
            for tp in new_partitions:
                positions[tp] = generation.covered.setdefault(tp, positions[tp])
        return positions

    async def _report_log_begin(self, tp: TP, begin: int, *, promised: bool) -> None:
        """Send a delta without events for a log that begins behind the position of the group.

        It comes before an event or an idle report. To the fold it is a gap if the events were promised: by a committed
        position, or by a record of the delta topic about the partition. A log that had lost its begin before our first
        start is not a gap.
        """
        if not promised:
            place = tp.topic, tp.partition
            promised = await asyncio.to_thread(seen_in_delta_topic, self.process, self.source, *place)
        prev = begin - 1 if promised else -1
        delta = self.writer.write_empty(*tp, prev, begin - 1, self._describe_log(tp, -1))
        await self._wait_until_durable([await self._send(self.delta, delta)])

    async def _begin_behind_holes(self, tp: TP, covered: int, runs: Sequence[Sequence[Any]]) -> int:
        """Return where the log begins if offsets are missing in what was fetched, else 0.

        Transactions and compaction leave holes in a log. Retention does, too, if it passes the position of the
        client: the client then continues at the new begin without an error, and the fold must detect the missing
        events. If retention has passed a hole of another kind, it counts as missing events, because the broker no
        longer knows the difference.
        """
        position = covered
        for run in runs:
            first, last = run[0].offset, run[-1].offset
            if first > position + 1 or last - first >= len(run):
                begins = await self._ask_until_answered(self._client.begins, [tp])
                return int(begins[tp])
            position = last
        return 0

    def _report_deleted(self, tp: TP, position: int) -> bytes:
        """Return a delta without events that begins behind deleted ones: a gap to the fold."""
        return self.writer.write_empty(*tp, position, position, self._describe_log(tp, -1))

    # reports

    async def report(self) -> None:
        """Send heartbeats of partitions without new events, and the tick.

        The owner of the first partition sends the tick.
        """
        if self.app.rebalancing:
            return
        if not self.app.consumer.assignment():
            if self._current_generation().number > 0:
                self.check.moved()  # a member without a partition: there are more workers than partitions
            self.progress.lag = {}
            self._publish_status()
            return
        generation = self._current_generation()
        owned = sorted(tp for tp in self.app.consumer.assignment() if tp.topic in self.source.topics)
        await self._check_logs(owned)
        covered = dict(await self._covered_positions(owned))  # before the ends are read: they are not older
        ends = await self.app.consumer.highwaters(*owned)
        await self._find_truncations({tp: covered[tp] for tp in owned if ends[tp] <= covered[tp]})
        await self._report_logs(owned)  # before the clock is read: these are a worker's first records
        now = self.clock.now()
        sends = []
        self.progress.lag = {}
        stopped = unreadable_partitions.partitions
        for tp in owned:
            position, place = covered[tp], f"{tp.topic}/{tp.partition}"
            if ends[tp] <= position:
                # The log ends before the position: it is not idle, its consumer is about to begin again.
                continue
            lag = ends[tp] - position - 1
            if tp in stopped:
                self.progress.lag[place] = lag
                continue
            idle = lag == 0 or await self._nothing_between(tp, position + 1, ends[tp])
            self.progress.lag[place] = 0 if idle else lag
            if idle and self._current_generation() is generation:
                heartbeat = Heartbeat(src=tp.topic, p=tp.partition, at=now, last=position)
                sends.append(self._send(self.delta, msgspec.json.encode(heartbeat)))
        if TP(self.source.topics[0], 0) in owned:
            sends.append(self._send(self.delta, msgspec.json.encode(Tick(at=now))))
        await self._wait_until_durable([await send for send in sends])
        # A restart would not repair a stopped partition, so its lag does not count.
        counted_places = [f"{tp.topic}/{tp.partition}" for tp in owned if tp not in stopped]
        is_behind = any(self.progress.lag.get(place) for place in counted_places)
        is_batch_done = self._previous_batch is None or self._previous_batch.done()
        if is_batch_done and not is_behind:
            self.check.moved()
        self._publish_status()

    async def _report_logs(self, partitions: Collection[TP]) -> None:
        """Send deltas without events for logs that no delta has described, and wait until they are durable."""
        sends = []
        for tp in partitions:
            if tp in self._generation.undescribed_logs or tp in self._generation.unreported_truncations:
                delta = self.writer.write_empty(*tp, -1, -1, self._describe_log(tp, -1))
                sends.append(self._send(self.delta, delta))
        await self._wait_until_durable([await send for send in sends])

    async def _find_truncations(self, positions: Mapping[TP, int]) -> None:
        """Ask the leaders about partitions that seem to end before the position that was read.

        A fetching client cannot see this. Each log and end is reported once.
        """
        if not positions:
            return
        await self._refresh_logs(positions)
        generation = self._generation
        for tp, position in positions.items():
            log = generation.logs.get(tp)
            if log is None or log.end is None or log.end > position:
                continue
            if generation.reported_truncations.get(tp) != log:
                generation.reported_truncations[tp] = log
                generation.unreported_truncations[tp] = log.end

    async def _nothing_between(self, tp: TP, begin: int, end: int) -> bool:
        """Return whether the log holds no event between a position and its end.

        Transaction markers and compacted records have offsets and bring no event. The broker is asked once for each
        position.
        """
        place = (begin, end)
        if self._empty_ranges.get(tp) == place:
            return True
        if self._stalled_positions.get(tp) != place:  # it moves, or may be about to
            self._stalled_positions[tp] = place
            return False
        try:
            first = await asyncio.to_thread(first_record, self.source, tp, begin, end)
        except TimeoutError:
            # The broker does not answer: the progress check decides whether this process is stuck.
            return False
        if first == end:
            self._empty_ranges[tp] = place
        return first == end

    def probe(self) -> Mapping[str, Any]:
        """Return the body of the health endpoints."""
        state = "rebalancing" if self.app.rebalancing else "ingesting"
        return {
            "role": "ingest",
            "state": faulty_state(self.contact) or state,
            "events": self.progress.events,
            "dead": dict(self.progress.dead),
            "deltas": self.progress.deltas,
            "left_out": dict(self.writer.left_out),
            "unreadable": unreadable_partitions.places,
            "broker_contact_seconds": round(self.contact.seconds, 1),
        }

    def _publish_status(self) -> None:
        if self.status is not None:
            self.status.write(unreadable_partitions.places)
        if self.metrics is not None:
            progress = self.progress
            self.metrics.unreadable(len(unreadable_partitions.partitions))
            self.metrics.ingested(progress.events, progress.dead, progress.lag, self.writer.left_out)


def _split_at_deleted(records: Sequence[Any], log_begin: int) -> Iterator[Sequence[Any]]:
    """Split a run at each hole below the begin of the log: retention has removed the events in it."""
    if not log_begin:  # nearly every run: nothing is missing
        yield records
        return
    first = 0
    for i in range(1, len(records)):
        next_offset = records[i - 1].offset + 1
        has_hole = next_offset < records[i].offset
        if has_hole and next_offset < log_begin:
            yield records[first:i]
            first = i
    yield records[first:]


def _runs(records: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split the records of a partition where offsets begin again (the log did) or another leader wrote them."""
    offsets = [record.offset for record in records]
    epochs = list(map(leader_epoch, records))
    if len(set(epochs)) == 1 and all(map(lt, offsets, offsets[1:])):  # nearly every fetch
        yield records
        return
    first = 0
    for i in range(1, len(records)):
        if offsets[i] <= offsets[i - 1] or epochs[i] != epochs[i - 1]:
            yield records[first:i]
            first = i
    yield records[first:]


def delta_writer(settings: Settings, source: Source, key: bytes) -> DeltaWriter:
    """Make the delta writer of a configuration. Attributes that nobody needs are not decoded."""
    process = settings.process
    schema = Schema(
        names=ColumnNames.of(process.columns.changed),
        attributes=tuple(dict.fromkeys((*process.kept, *process.attributes.person, *source.kept))),
        timezone=process.timezone,
        event_id=source.event_id,
        end=source.end,
        format=source.format,
        time_unit=source.time_unit,
        lifecycle=process.lifecycle,
    )
    decoder = event_decoder(
        schema,
        registry=source.registry,
        mappings=source.mapping,
        snapshots=source.snapshots == "take",
        reader_schema=source.reader_schema,
    )
    return DeltaWriter(
        decoder=decoder,
        pseudonyms=Pseudonyms(key),
        max_skew_ns=int(source.max_skew * 1_000_000_000),
        limit=DELTA_BYTES,
        dlq_payload=source.dlq_payload,
        earliest=None if process.earliest is None else nanoseconds(process.earliest),
        raw_resources=process.raw_resources,
        person=process.person,
    )


def ingest_app(
    settings: Settings, source: Source, key: bytes, folder: Path, metrics: Metrics | None = None
) -> tuple[App, Ingest]:
    """Make the Faust application of an ingest worker, and the worker.

    Parameters
    ----------
    settings, source
        Configuration of the process and of its source.
    key
        The pseudonym key.
    folder
        Folder of Faust's own files.
    metrics
        Receives counts, if the process serves metrics.
    """
    process = settings.process.name
    member = source.client.group_instance_id
    app = application(
        process,
        "ingest",
        source,
        folder,
        FetchTransport,
        stream_buffer_maxsize=WAITING,
        consumer_group_instance_id=member,
    )
    worker = Ingest(app, process, source, delta_writer(settings, source, key), metrics)
    events = app.topic(*source.topics, key_serializer="raw", value_serializer="raw", allow_empty=True)

    @app.agent(events, name="ingest", supervisor_strategy=CrashingSupervisor)
    async def take(stream: Any) -> None:
        async for fetch in stream.noack().events():
            await worker.batch(fetch.message)

    @app.timer(interval=source.heartbeat)  # type: ignore[untyped-decorator]
    async def report() -> None:
        await worker.report()

    offer_health(app, settings.health_port, worker.probe)
    # Faust passes `signal=` by name, which its own type hints do not allow.
    app.on_partitions_assigned.connect(worker.signals)  # type: ignore[arg-type]
    return app, worker
