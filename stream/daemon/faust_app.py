"""Create and run Faust applications with the settings that the daemon needs.

These are at-least-once delivery, no declared topics, no leader, no web server, and an end of the process on any
unexpected error. Faust carries transport, group membership and process life; the state is ours (docs/daemon.md).
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import faust
from mode.supervisors import CrashingSupervisor

from connectors.kafka.source import Source
from connectors.kafka.topics import group
from models.errors import InputError, VeilstreamError
from stream.daemon.health import STUCK_SECONDS, Probe, serve

__all__ = ["STOP_SECONDS", "App", "CrashingSupervisor", "LateEnd", "Why", "application", "offer_health", "run"]


App = faust.App

STOP_SECONDS = 20.0
"""A stop that was asked for takes at most this long, below the 30 s that Kubernetes gives. A release that is being
built and not sealed by then is dropped: its charge stays, and the next start builds it under the same number."""

Why = Callable[[], BaseException | None]


class LateEnd:
    """Ends this process some seconds after it is asked to, if it still runs then.

    Its thread is started with the process: if memory is short, none could be started at the moment of the stop, and the
    stop would be lost.
    """

    def __init__(self, seconds: float = STOP_SECONDS, *, end: Callable[[int], object] = os._exit) -> None:
        self._seconds, self._end = seconds, end
        self._asked = threading.Event()
        self._code = 0
        self._why: Why = lambda: None
        threading.Thread(target=self._run, name="late end", daemon=True).start()

    def ask(self, code: int, *, why: Why = lambda: None) -> None:
        """Begin to count, the first time.

        Parameters
        ----------
        code
            Exit code.
        why
            Returns the error that ended the work, if any. It decides the exit code, and is logged before this process
            ends: Faust would log it only after the stop.
        """
        if not self._asked.is_set():
            self._code, self._why = code, why
            self._asked.set()

    def _run(self) -> None:
        self._asked.wait()
        threading.Event().wait(self._seconds)
        reason = self._why()
        if isinstance(reason, VeilstreamError):
            log.error("stops: %s", reason)
        elif reason is not None:
            log.error("crashed: %s", type(reason).__name__)
        log.warning("the stop took too long: what was under way is dropped, the next start does it again")
        logging.shutdown()
        self._end(reason.exit_code if isinstance(reason, VeilstreamError) else self._code)


log = logging.getLogger("veilstream")

METADATA_MS = 10_000
"""A group that forms while a broker comes back may not know its topics yet and gives nobody anything: it looks again
this often, and not only after Faust's five minutes."""

PRODUCER_BATCH_BYTES = 900_000
"""As much as one delta may have. With less (Faust's 16 KiB) each delta is a produce request of its own, and the next
waits for its acknowledgement before it can even be handed over."""


def application(
    process: str,
    role: str,
    source: Source,
    folder: Path,
    transport: type[Any],
    **more: Any,
) -> App:
    """Make a Faust application with the settings that docs/daemon.md explains.

    Parameters
    ----------
    process, role
        Name the consumer group.
    source
        Configuration of the broker.
    folder
        Data folder of the application. It is made here: Faust would make it 0755.
    transport
        Class of the consumer's transport: `SeekingTransport` or `FetchTransport`.
    **more
        Further settings of Faust.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    app = App(
        group(process, role),
        broker=[f"kafka://{server}" for server in source.servers],
        datadir=folder,
        autodiscover=False,
        processing_guarantee="at_least_once",
        topic_allow_declare=False,
        topic_disable_leader=True,
        broker_session_timeout=source.session_timeout,
        broker_heartbeat_interval=min(3.0, source.session_timeout / 3),
        broker_commit_interval=1,
        broker_max_poll_interval=3600,
        consumer_metadata_max_age_ms=METADATA_MS,
        producer_linger=0.02,
        producer_acks=-1,
        producer_max_batch_size=PRODUCER_BATCH_BYTES,
        web_enabled=False,
        web_tables_enabled=False,
        stream_wait_empty=False,
        worker_redirect_stdouts=False,
        **source.security.faust(),
        **more,
    )
    reader: Any = transport(app.conf.broker_consumer, app)
    reader.reading = source.client.reading()
    app.transport = reader
    return app


def offer_health(app: faust.App, port: int | None, probe: Probe, longest_step: float = STUCK_SECONDS) -> None:
    """Serve /healthz and /readyz of the application, if a port is configured.

    Parameters
    ----------
    app
        The application, whose event loop serves the endpoints.
    port
        The configured port; None if there is none.
    probe, longest_step
        As `stream.daemon.health.serve` takes them.
    """
    if port is None:
        return

    @app.task  # type: ignore[untyped-decorator]
    async def health() -> None:
        try:
            runner = await serve(port, probe, longest_step)
        except OSError as error:
            raise InputError(f"health_port {port}: {os.strerror(error.errno or 0)}; choose another port") from None
        log.info("health on port %s", [address[1] for address in runner.addresses])


def print_stacks(loops: Iterable[asyncio.AbstractEventLoop]) -> None:
    """Print the stack of every thread, and of every task of these loops, to stderr: code only, no content."""
    faulthandler.dump_traceback(all_threads=True)
    for loop in loops:
        for task in asyncio.all_tasks(loop):
            task.print_stack(limit=4, file=sys.stderr)


class DaemonWorker(faust.Worker):
    """A worker that leaves logging and the process title alone, and stops in bounded time."""

    def __init__(self, app: App, *services: Any) -> None:
        super().__init__(app, *services, quiet=True, override_logging=False)
        self.late_end = LateEnd()
        self.spinner = None  # it would write to our standard output
        self.asked_to_stop = False
        self._stop_task: asyncio.Future[Any] | None = None

    async def on_execute(self) -> None:
        """Do nothing; Faust would change the title of the process."""

    def install_signal_handlers(self) -> None:
        """Handle SIGTERM and SIGINT by a stop in bounded time, and SIGUSR1 by the stacks of threads and tasks.

        Faust's handlers would print local variables, which are records, and wait in a debugger.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            self.loop.add_signal_handler(number, self.request_stop)
        self.loop.add_signal_handler(signal.SIGUSR1, self._print_stacks)
        self.loop.add_signal_handler(signal.SIGUSR2, lambda: None)

    def request_stop(self) -> None:
        """Begin to stop, once."""
        self.late_end.ask(0)  # first: what follows may fail if memory is short
        if not self.asked_to_stop:
            self.asked_to_stop = True
            self._stop_task = asyncio.ensure_future(self.stop(), loop=self.loop)

    def ignore_stops(self) -> None:
        """Ignore further signals to stop. A second one would cut off the build that the stop waits for.

        The loop has to forget them before it is closed: closing it restores their default, which is to end the process.
        `run --role all` sends a second SIGTERM when the other role has ended.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            self.loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def finish(self) -> None:
        """Wait for a stop that was requested, stop what still runs, and close the event loop."""
        if self._stop_task is not None and not self._stop_task.done():
            self.loop.run_until_complete(self._stop_task)
        self.stop_and_shutdown()

    def _print_stacks(self) -> None:
        loops = [self.loop]
        if self.app.started:
            loops.append(self.app.consumer.thread_loop)  # type: ignore[attr-defined]  # ours, of faust_consumer
        print_stacks(loops)


OnStop = Callable[[BaseException | None], None]
"""Called with the error that ended the work, or None."""


def run(app: App, *services: Any, on_stop: OnStop = lambda _reason: None) -> None:
    """Run until SIGTERM or SIGINT (returns) or a crash (raises what crashed it).

    `on_stop` gets what crashed it, or None, before that is raised.
    """
    worker = DaemonWorker(app, *services)
    reason: BaseException | None = None
    try:
        worker.loop.run_until_complete(worker.start())
    except BaseException as error:  # noqa: BLE001 - whatever it was, the loop is shut down first and then it is raised
        reason = error
    worker.ignore_stops()
    if not worker.asked_to_stop:
        worker.late_end.ask(1, why=lambda: worker.crash_reason or app.crash_reason or reason)
    try:
        worker.finish()
    except BaseException as error:  # noqa: BLE001 - the worker raises its crash reason again while it closes the loop
        reason = reason or error
    reason = worker.crash_reason or app.crash_reason or reason
    # A requested stop cancels what waits: that is not a failure.
    if worker.asked_to_stop and isinstance(reason, asyncio.CancelledError | SystemExit):
        reason = None
    on_stop(reason)
    if reason is not None:
        raise reason
