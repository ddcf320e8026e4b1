"""Faust application 2: from ordered deltas to releases. One member is active, all others are standbys.

The consumer group assigns the single partition of the delta topic to one member, which becomes the active coordinator.
Faust delivers the records to it. `ActiveCoordinator` holds the state and does the durable steps in two threads: one
folds, the other builds. So a long build delays neither the heartbeats nor the fold. Offsets are acknowledged up to the
previous checkpoint, not the last one: if the last checkpoint is damaged, the records behind the previous one are still
delivered again.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from connectors.kafka.lineage import LogClient
from connectors.kafka.topics import topic
from models.errors import TakenOverError, UnavailableError, shortage
from stream.daemon.broker_contact import BrokerContact, no_contact
from stream.daemon.delta_topic import DeltaRecord, LostDeltasError
from stream.daemon.faust_app import App, CrashingSupervisor, application, offer_health
from stream.daemon.faust_consumer import TP, SeekingTransport, leader_epoch
from stream.daemon.health import ProgressCheck, faulty_state, patience
from stream.daemon.state_machine import ActiveCoordinator, CoordinatorContext
from stream.daemon.status import BuildStatus, Status, StatusFile, end_text
from stream.daemon.status_topic import StatusTopic
from stream.daemon.unreadable import unreadable_partitions
from stream.ledger.folder import EndedBuild, FolderLockedError
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import unreadable

log = logging.getLogger("veilstream")

BATCH_RECORDS = 100
"""Delta records in a batch. Each holds up to 500 events."""

WAITING_RECORDS = 2 * BATCH_RECORDS
"""Delta records that may wait in memory: the next batch, and the one behind it. With Faust's default of 4,096
records of up to 512 kB, a fold that is slower than ingest would need 2 GB."""

BATCH_SECONDS = 0.1
"""Time for which an incomplete batch waits for further records."""

LOCK_SECONDS = 30.0
"""Longest wait of a successor for its predecessor on the same host to release the lock of the folder."""


class Coordinator:
    """A member of the coordinator's group, which is a standby until the partition is assigned to it."""

    def __init__(self, app: App, host: CoordinatorContext) -> None:
        self.app, self.host = app, host
        self.partition = TP(topic(host.settings.process.name, "delta"), 0)
        self._dlq = topic(host.settings.process.name, "dlq")
        self.engine: ActiveCoordinator | None = None
        self.state = "starting"
        session = host.source.session_timeout
        self.check = ProgressCheck(patience(session, host.source.heartbeat), asleep=session)
        report = no_contact if host.watch is None else host.watch.metrics.contact
        topics, interval = [self.partition.topic], host.source.heartbeat
        self.contact = BrokerContact(host.source, topics, interval, report, self._measure_lag)
        self.status = StatusFile(host.output, interval)
        self.status.contact = self.contact
        self.status_topic = StatusTopic(host.settings.process.name, host.source)
        self.status.publish = self._publish_status
        # When the current step began, by the monotonic clock; 0 between two steps.
        self._step_started = 0.0
        # Time of the last record by the broker's clock, for the metric of the lag.
        self._last_record_at = 0.0
        # Seconds that a step or a build takes at most.
        self._longest_step = host.settings.longest_build_seconds
        # The cut whose build was logged as slow.
        self._logged_slow_cut = ""
        # Whether the status topic shows a start of this process: then it must show its end, too.
        self._start_is_shown = False
        # Whether a check of a silent delta topic is queued already.
        self._check_queued = False
        # Messages that are folded and not acknowledged yet, by their offsets; their values are dropped.
        self._pending: deque[Any] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordinator")
        self._stopping = threading.Event()
        # Faust keeps only a weak reference to the receiver of a signal. This attribute keeps the method alive.
        self.signals = self._signalled

    # membership

    def assigned(self, partitions: set[TP]) -> None:
        """Handle an assignment of partitions.

        Raises
        ------
        TakenOverError
            If the active coordinator loses its partition. The process must end, since its state would fall behind,
            and its lock on the folder would keep the successor out.
        """
        # Offsets of the previous assignment may no longer be acknowledged.
        self._pending.clear()
        is_assigned = self.partition in partitions
        if self.engine is not None:
            if not is_assigned:
                self.state = "lost"
                raise TakenOverError(
                    "another coordinator is active now: this process ends, start it again as a standby"
                )
            return
        if is_assigned:
            self.state = "starting"
            log.info("coordinator is active")
            self.status_topic.start()
            self._start_is_shown = True
            self.app.add_future(self._run(self._active))
        else:
            self.state = "standby"
            log.info("coordinator is on standby")

    async def _signalled(self, _app: Any, partitions: Any, **_: Any) -> None:
        if self.host.watch is not None:
            self.host.watch.metrics.rebalanced()
        self.assigned(partitions)

    async def batch(self, events: Sequence[Any]) -> None:
        """Fold one batch of records, durably, and acknowledge the offsets behind which the state is safe."""
        generation = int(self.app.consumer_generation_id)
        # Events of an earlier generation are delivered again, to the present owner of the partition.
        current = [event for event in events if event.message.generation_id == generation]
        if not current:
            return
        records = []
        for event in current:
            message = event.message
            records.append((message.offset, message.value, leader_epoch(message)))
        self._last_record_at = current[-1].message.timestamp
        await self._run(self._fold, records)
        messages = [event.message for event in current]
        for message in messages:
            message.value = None  # only the offset is still needed, and for long: until a gap or a build ends
        # The fold may have taken minutes, and the group may have been rebalanced meanwhile.
        if int(self.app.consumer_generation_id) == generation:
            self._pending.extend(messages)
            self._acknowledge()

    def _fold(self, records: Sequence[DeltaRecord]) -> None:
        engine = self._active()
        if not self._confirm_delta(engine):
            return
        first_offset = records[0][0]
        engine.catch_up(first_offset, self._stopping.is_set)
        engine.apply(records, self._stopping.is_set)
        # Ticks arrive with every heartbeat, so no release is published later than a heartbeat after its time, or after
        # the end of a build: until then the build uses the ledger.
        if not engine.fold.awaits_decision:
            engine.service.publish_due()
        self._update_state(engine)
        self.status.write(engine.snapshot, self.state)
        if self.host.watch is not None:
            self.host.watch.folded(engine.fold, last_record_at=self._last_record_at)
            self.host.watch.saved(engine.saved)

    def _active(self) -> ActiveCoordinator:
        """Return the active coordinator, opened at the first call."""
        if self.engine is not None:
            self._update_state(self.engine)
            return self.engine
        engine = _open(self.host, self._stopping.is_set)
        self.engine = engine
        if self.host.watch is not None:
            self.host.watch.opened(engine.service)
        log.info("coordinator: state at delta offset %d", engine.position)
        self._update_state(engine)
        # Before the first batch: the source may be silent for hours, and an operator needs to see the state now.
        self.status.write(engine.snapshot, self.state)
        return engine

    def _update_state(self, engine: ActiveCoordinator) -> None:
        self.state = "gap" if engine.fold.gap else "active"

    def _acknowledge(self) -> None:
        if self.engine is None:
            return
        last_offset = self.engine.acknowledged()
        consumer: Any = self.app.consumer
        while self._pending and self._pending[0].offset <= last_offset:
            consumer.acknowledge([self._pending.popleft()])

    async def _run(self, step: Callable[..., object], *arguments: Any) -> None:
        """Run a step in the coordinator's thread, after the steps that were queued before it."""

        def timed() -> None:
            # Measured here and not by the caller, since the step may have waited for the one before it.
            self._step_started = time.monotonic()
            try:
                with self._explained_errors():
                    step(*arguments)
            finally:
                self._step_started = 0.0

        await asyncio.get_running_loop().run_in_executor(self._thread, timed)

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        """Replace errors of the disk and of the ledger by what an operator can do."""
        try:
            yield
        except OSError as error:
            # A full disk is an expected end in one line; Faust logs every other error with its stack.
            raise shortage(error, str(self.host.output)) or error from error
        except sqlite3.Error as error:
            raise unreadable(OperatorLayout(self.host.output).ledger, error) from error

    def _step_seconds(self) -> float:
        """Return the seconds that the current step has taken; 0 between two steps."""
        started = self._step_started  # read once: the other thread may reset it
        return time.monotonic() - started if started else 0.0

    @property
    def _building(self) -> BuildStatus | None:
        engine = self.engine
        return None if engine is None else engine.building

    def _busy_seconds(self) -> float:
        """Return the seconds that the current step, or the build beside it, has taken; 0 if there is neither."""
        building = self._building
        build_seconds = 0.0 if building is None else building["seconds"]
        return max(self._step_seconds(), build_seconds)

    def heartbeat(self) -> None:
        """Report progress, update the status file and check a silent delta topic.

        A timer of the event loop calls this. A step may take minutes and still counts as progress; a rebalance or a
        blocked event loop does not.
        """
        busy = self._busy_seconds()
        if busy < self._longest_step and not self.app.rebalancing:
            self.check.moved()
        if self.host.watch is not None:
            self.host.watch.metrics.unreadable(len(unreadable_partitions.partitions))
        if self.engine is None:
            return
        building = self._building
        self._log_slow_build(building)
        self._end_long_build(building)
        self.status.alive(self.state, round(busy, 3), building)
        if not self._step_seconds() and not self._check_queued and not self.app.rebalancing:
            self._check_queued = True
            self.app.add_future(self._run(self._check_silent_delta))

    def _log_slow_build(self, building: BuildStatus | None) -> None:
        """Log once that a build takes longer than anything else may take without progress."""
        if building is None or building["seconds"] < self.check.seconds:
            return
        if building["cut"] == self._logged_slow_cut:
            return
        self._logged_slow_cut = building["cut"]
        log.warning(
            "cut %s: its build has taken %.0f s; records are folded meanwhile, and acknowledged after its end; after "
            "%.0f s (longest_build) this process ends, and the next start withholds the cut",
            building["cut"],
            building["seconds"],
            self._longest_step,
        )

    def _end_long_build(self, building: BuildStatus | None) -> None:
        """End the process if a build takes longer than `longest_build`: a thread cannot be ended alone.

        The cut is noted first. The next start withholds it instead of building it again (`Pipeline.attempt`), so one
        build that never ends does not stop the other publications.
        """
        if building is None or self.engine is None or building["seconds"] < self._longest_step:
            return
        ended = EndedBuild(building["cut"], building["seconds"], self._longest_step)
        self.engine.service.folder.note_ended_build(ended)
        self.check.end(
            "cut %s: its build has taken %.0f s, and longest_build allows %.0f s: this process ends, and the next "
            "start withholds the cut",
            ended.cut,
            ended.seconds,
            ended.allowed,
        )

    def _check_silent_delta(self) -> None:
        """Check the delta topic while no records arrive: it may have been deleted or replaced.

        A build that has ended is taken here too.
        """
        try:
            if self.engine is not None and self._confirm_delta(self.engine, compare_end=True):
                self.engine.save_decided()
        finally:
            self._check_queued = False

    def _publish_status(self, status: Status) -> None:
        self.status_topic.write({**status, "process": self.host.settings.process.name})

    def _measure_lag(self, client: LogClient) -> None:
        """Measure how many records wait: in the source topics, in the delta topic, and as dead letters.

        A standby folds none, and measures nothing. The thread of the broker contact calls this: during a build of
        minutes the lag is seen to grow.
        """
        engine = self.engine
        if engine is None:
            return
        delta, dlq = (self.partition.topic, self.partition.partition), (self._dlq, 0)
        places = [delta, dlq, *self.host.sources]
        begins, ends = client.begins(places), client.ends(places)
        # Read after the ends were asked for, so that a difference is never more than the lag was.
        folded = engine.delta.anchor.offset(engine.position)
        delta_lag = max(0, ends[delta] - folded - 1)
        source_lag = {}
        for topic_name, number in self.host.sources:
            partition = engine.fold.state.partitions.get((topic_name, number))
            # Records that retention took before they were read wait no longer.
            position = begins[topic_name, number] if partition is None else partition.hwm + 1
            position = max(position, begins[topic_name, number])
            source_lag[f"{topic_name}/{number}"] = max(0, ends[topic_name, number] - position)
        self.status.lag = {"source": source_lag, "delta": delta_lag, "dead_letters": ends[dlq] - begins[dlq]}
        if self.host.watch is not None:
            self.host.watch.metrics.delta_lag(delta_lag)

    def _confirm_delta(self, engine: ActiveCoordinator, *, compare_end: bool = False) -> bool:
        """Wait until the broker confirms that the delta topic is the one that is folded.

        Returns False if a stop was requested before the broker answered.

        Raises
        ------
        LostDeltasError
            If it is another one. The status file shows the gap from then on, also after the end of this process:
            `veilstream gap` reads which topic was lost, and where, from it.
        """
        while not self._stopping.is_set():
            try:
                engine.check_delta(compare_end=compare_end)
                return True
            except LostDeltasError:
                self.status.write(engine.snapshot, "gap")
                raise
            except UnavailableError as error:
                log.warning("%s; asking again", error)
                self._stopping.wait(1.0)
        return False

    def probe(self) -> Mapping[str, Any]:
        """Return the body of the health endpoints."""
        busy = self._busy_seconds()
        return {
            "role": "coordinator",
            "state": faulty_state(self.contact) or self.state,
            "busy_seconds": round(busy, 3),
            "broker_contact_seconds": round(self.contact.seconds, 1),
            "unreadable": unreadable_partitions.places,
        }

    # the end

    def close(self, reason: BaseException | None = None) -> None:
        """Wait for the current step, save the state and release all resources.

        Parameters
        ----------
        reason
            What ends the process. None if somebody stopped it. The status keeps it.
        """
        self._stopping.set()
        self._thread.shutdown(wait=True)
        engine, self.engine = self.engine, None
        if engine is None:
            self._close_unopened(reason)
            return
        if engine.building is not None:
            # It may be cut off now, and the process is not killed because of it.
            engine.service.folder.forget_started_build()
        try:
            if self.state in ("active", "gap"):
                with self._explained_errors():
                    engine.save_last()
            self.status.stopped("" if reason is None else end_text(reason))
        finally:
            self.status_topic.close()
            engine.close()

    def _close_unopened(self, reason: BaseException | None) -> None:
        """End without an open state: a start that failed, or a standby.

        The topic belongs to the active coordinator, which a standby does not disturb.
        """
        if not self._start_is_shown:
            self.status.publish = None
        if reason is not None:
            self.status.stopped(end_text(reason))
        if self._start_is_shown:
            self.status_topic.failed("it was stopped" if reason is None else end_text(reason))
        self.status_topic.close()


def _open(host: CoordinatorContext, stopped: Callable[[], bool]) -> ActiveCoordinator:
    """Open the state, and wait for a process that still holds the lock of the folder.

    Raises
    ------
    UnavailableError
        If the lock is still held after `LOCK_SECONDS`: the other process hangs, or was paused. The service manager
        starts this process again, and it waits again until the other one has ended. A refusal would be final, and no
        coordinator would be left.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return ActiveCoordinator(host)
        except FolderLockedError as locked:
            if stopped() or time.monotonic() > deadline:
                raise UnavailableError(
                    f"{locked}; it hangs, or does not end: this process ends, to be started again; end the one that "
                    f"has {OperatorLayout(host.output).lock} open"
                ) from None
            time.sleep(0.5)


def coordinator_app(host: CoordinatorContext, folder: Path) -> tuple[App, Coordinator]:
    """Make the Faust application and its coordinator.

    Parameters
    ----------
    host
        Configuration, broker and output folder.
    folder
        The folder of Faust's own files.
    """
    process = host.settings.process.name
    # The assignor gives the partition to the first name in alphabetical order. With the time of the start in the name,
    # the oldest member keeps the partition when a standby joins.
    name = f"veilstream-coordinator-{time.time_ns():020d}"
    app = application(
        process,
        "coordinator",
        host.source,
        folder,
        SeekingTransport,
        broker_client_id=name,
        stream_buffer_maxsize=WAITING_RECORDS,
    )
    coordinator = Coordinator(app, host)
    deltas = app.topic(topic(process, "delta"), key_serializer="raw", value_serializer="raw", allow_empty=True)

    @app.agent(deltas, name="coordinator", supervisor_strategy=CrashingSupervisor)
    async def take(stream: Any) -> None:
        async for batch in stream.noack_take(BATCH_RECORDS, within=BATCH_SECONDS):
            await coordinator.batch(batch)

    @app.timer(interval=host.source.heartbeat)  # type: ignore[untyped-decorator]
    async def heartbeat() -> None:
        coordinator.heartbeat()

    offer_health(app, host.settings.health_port, coordinator.probe, host.settings.longest_build_seconds)
    # Faust passes `signal=` by name, which its own type hints do not allow.
    app.on_partitions_assigned.connect(coordinator.signals)  # type: ignore[arg-type]
    return app, coordinator
