"""Faust application 2: from ordered deltas to releases. One member is active, the others stand by.

Faust decides who is active (the group assigns the one partition of the delta topic to one member) and brings the
records. `ActiveCoordinator` holds the state and does the durable steps in a thread of its own, so that a long build
never stops the heartbeats. Records are acknowledged behind the checkpoint before the last one.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from connectors.kafka.topics import topic
from models.errors import TakenOverError, UnavailableError, shortage
from stream.daemon.broker_contact import BrokerContact, no_contact
from stream.daemon.delta_topic import DeltaRecord
from stream.daemon.faust_app import App, CrashingSupervisor, application, offer_health
from stream.daemon.faust_consumer import TP, SeekingTransport, leader_epoch
from stream.daemon.health import STUCK_SECONDS, ProgressCheck, faulty_state, patience
from stream.daemon.state_machine import ActiveCoordinator, CoordinatorContext
from stream.daemon.status import StatusFile
from stream.daemon.unreadable import unreadable_partitions
from stream.ledger.folder import FolderLockedError
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import unreadable

log = logging.getLogger("veilstream")

TAKE, WITHIN = 100, 0.1
"""Delta records hold up to 500 events each; an incomplete batch waits a tenth of a second."""

LOCK_SECONDS = 30.0
"""How long a successor waits for the folder of the one before it on the same host."""


class Coordinator:
    """A member of the coordinator's group: standby until the partition is given to it."""

    def __init__(self, app: App, host: CoordinatorContext) -> None:
        self.app, self.host = app, host
        self.partition = TP(topic(host.settings.process.name, "delta"), 0)
        self.engine: ActiveCoordinator | None = None
        self.state = "starting"
        session = host.source.session_timeout
        self.check = ProgressCheck(patience(session, host.source.heartbeat), asleep=session)
        report = no_contact if host.watch is None else host.watch.metrics.contact
        self.contact = BrokerContact(host.source, [self.partition.topic], host.source.heartbeat, report)
        self.status = StatusFile(host.output, host.source.heartbeat)
        self.status.contact = self.contact
        self._since = self._heard = 0.0
        self._looking = False
        self._pending: deque[Any] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordinator")
        self._stopping = threading.Event()
        self.signals = self._signalled
        """The agent that Faust calls: it keeps only a weak reference."""

    # membership

    def assigned(self, partitions: set[TP]) -> None:
        """Handle an assignment of partitions.

        A coordinator that loses its partition ends: its state would fall behind, and its folder is locked.
        """
        self._pending.clear()
        mine = self.partition in partitions
        if not mine and self.engine is not None:
            self.state = "lost"
            raise TakenOverError("another coordinator is active now: this process ends, start it again as a standby")
        if self.engine is None:
            self.state = "starting" if mine else "standby"
            log.info("coordinator is %s", "active" if mine else "standing by")
        if mine and self.engine is None:
            self.app.add_future(self._run(self._active))

    async def _signalled(self, _app: Any, partitions: Any, **_: Any) -> None:
        self.assigned(partitions)

    async def batch(self, events: Sequence[Any]) -> None:
        """Fold one batch of records, durably; then acknowledge what may be acknowledged."""
        generation = int(self.app.consumer_generation_id)
        current = [event for event in events if event.message.generation_id == generation]
        if not current:
            return
        records = [(event.message.offset, event.message.value, leader_epoch(event.message)) for event in current]
        self._heard = current[-1].message.timestamp
        await self._run(self._fold, records)
        for event in current:
            event.message.value = None  # the state has it; only the offset is still needed
        if int(self.app.consumer_generation_id) == generation:
            self._pending.extend(current)
            self._acknowledge()

    def _fold(self, records: Sequence[DeltaRecord]) -> None:
        engine = self._active()
        if not self._known_delta(engine):
            return
        engine.catch_up(records[0][0], self._stopping.is_set)
        engine.apply(records, self._stopping.is_set)
        engine.service.publish_due()  # ticks come with every heartbeat, so none waits longer than that
        self.state = "gap" if engine.fold.gap else "active"
        self.status.write(engine.standing, self.state)
        if self.host.watch is not None:
            self.host.watch.folded(engine.fold, heard=self._heard)
            self.host.watch.saved(engine.saved)

    def _active(self) -> ActiveCoordinator:
        if self.engine is None:
            self.engine = _open(self.host, self._stopping.is_set)
            if self.host.watch is not None:
                self.host.watch.opened(self.engine.service)
            log.info("coordinator: state at delta offset %d", self.engine.position)
            # Before the first batch: the source may be silent for hours, and operators ask at once.
            self.status.write(self.engine.standing, "gap" if self.engine.fold.gap else "active")
        self.state = "gap" if self.engine.fold.gap else "active"
        return self.engine

    def _acknowledge(self) -> None:
        bound = self.engine.acknowledged() if self.engine is not None else -1
        consumer: Any = self.app.consumer
        while self._pending and self._pending[0].message.offset <= bound:
            consumer.acknowledge([self._pending.popleft().message])

    async def _run(self, work: Callable[..., object], *arguments: Any) -> None:
        """Run a step in the one thread.

        Its time is measured from its own start, since it may wait for the step before it.
        """

        def timed() -> None:
            self._since = time.monotonic()
            try:
                work(*arguments)
            except OSError as error:
                # A full disk is an expected end in one line; Faust logs every other error with its stack.
                raise shortage(error) or error from error
            except sqlite3.Error as error:
                raise unreadable(OperatorLayout(self.host.output).ledger, error) from error
            finally:
                self._since = 0.0

        await asyncio.get_running_loop().run_in_executor(self._thread, timed)

    def _busy(self) -> float:
        return time.monotonic() - self._since if self._since else 0.0

    def move(self) -> None:
        """Report progress; a timer of the event loop calls this.

        A step may take minutes; a rebalance or a blocked event loop may not.
        """
        busy = self._busy()
        if busy < STUCK_SECONDS and not self.app.rebalancing:
            self.check.moved()
        if self.host.watch is not None:
            self.host.watch.metrics.unreadable(len(unreadable_partitions.partitions))
        if self.engine is not None:
            self.status.alive(self.state, round(busy, 3))
        if self.engine is not None and not self._busy() and not self._looking and not self.app.rebalancing:
            self._looking = True
            self.app.add_future(self._run(self._look))

    def _look(self) -> None:
        """Check the delta topic while no records come: it may have been deleted or replaced."""
        try:
            if self.engine is not None:
                self._known_delta(self.engine, whole=True)
        finally:
            self._looking = False

    def _known_delta(self, engine: ActiveCoordinator, *, whole: bool = False) -> bool:
        """Wait until the broker confirms that the delta topic is the one that is folded.

        While the broker is away this waits, as the consumer does. False if a stop was requested first.
        """
        while not self._stopping.is_set():
            try:
                engine.check_delta(whole=whole)
                return True
            except UnavailableError as error:
                log.warning("%s; asking again", error)
                self._stopping.wait(1.0)
        return False

    def probe(self) -> Mapping[str, Any]:
        """Return what the health endpoints report."""
        busy = self._busy()
        return {
            "role": "coordinator",
            "state": faulty_state(self.contact) or self.state,
            "busy_seconds": round(busy, 3),
            "broker_contact_seconds": round(self.contact.seconds, 1),
            "unreadable": unreadable_partitions.places,
        }

    # the end

    def close(self) -> None:
        """Wait for the current step, save the state and release all resources."""
        self._stopping.set()
        self._thread.shutdown(wait=True)
        engine, self.engine = self.engine, None
        if engine is None:
            return
        try:
            if self.state in ("active", "gap"):
                engine.save_last()
            self.status.alive("stopped", 0.0)
        finally:
            engine.close()


def _open(host: CoordinatorContext, stopped: Callable[[], bool]) -> ActiveCoordinator:
    """Open the state, and wait for a process that still holds the lock of the folder.

    Raises
    ------
    UnavailableError
        If the lock stays held: that process hangs, or is stopped. The service manager then starts this one again, which
        waits again, until somebody ends the other one. A refusal would be final, and nobody would take over.
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
    """Make the Faust application and its coordinator."""
    process = host.settings.process.name
    # The assignor gives the partition to the first name in order: who joined first keeps it when a standby comes.
    name = f"veilstream-coordinator-{time.time_ns():020d}"
    app = application(process, "coordinator", host.source, folder, SeekingTransport, broker_client_id=name)
    coordinator = Coordinator(app, host)
    deltas = app.topic(topic(process, "delta"), key_serializer="raw", value_serializer="raw", allow_empty=True)

    @app.agent(deltas, name="coordinator", supervisor_strategy=CrashingSupervisor)
    async def take(stream: Any) -> None:
        async for batch in stream.noack_take(TAKE, within=WITHIN):
            await coordinator.batch(batch)

    @app.timer(interval=host.source.heartbeat)  # type: ignore[untyped-decorator]
    async def move() -> None:
        coordinator.move()

    offer_health(app, host.settings.health_port, coordinator.probe)
    app.on_partitions_assigned.connect(coordinator.signals)  # type: ignore[arg-type]  # `signal` by name; we take all
    return app, coordinator
