"""Create Faust applications with the settings that the daemon needs: at-least-once, no declared topics, no leader, no
web server, and an end of the process on any unexpected error.

Faust carries transport, group membership and process life; the state is ours (docs/daemon.md).
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faust
from mode.supervisors import CrashingSupervisor

from connectors.kafka.source import Source
from connectors.kafka.topics import group
from models.errors import InputError, VeilstreamError
from stream.daemon.faust_consumer import App
from stream.daemon.health import Probe, serve

__all__ = ["STOP_SECONDS", "CrashingSupervisor", "LateEnd", "Why", "application", "offer_health", "run"]


# A stop that takes too long is ended. The thread that does it is started with the process: where memory
# is short, none could be started at the moment of the stop, and the stop would be lost.


STOP_SECONDS = 20.0
"""A stop that was asked for takes at most this long, below the 30 s that Kubernetes gives. A release that is being
built and not sealed by then is dropped: its charge stands, and the next start builds it under the same number."""

Why = Callable[[], BaseException | None]


class LateEnd:
    """Ends this process some seconds after it is asked to, if it still runs then."""

    def __init__(self, seconds: float = STOP_SECONDS, *, end: Callable[[int], object] = os._exit) -> None:
        self._seconds, self._end = seconds, end
        self._asked = threading.Event()
        self._code = 0
        self._why: Why = lambda: None
        threading.Thread(target=self._run, name="late end", daemon=True).start()

    def ask(self, code: int, *, why: Why = lambda: None) -> None:
        """Begin to count, the first time. `why`: what ended the work, if anything did; the log would say it only after
        the stop, so it is said at the end, and gives the exit code."""
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


def application(process: str, role: str, source: Source, folder: Path, *, kind: type[App] = App, **more: Any) -> App:
    """Make a Faust app with the settings that docs/daemon.md explains. Its data folder is made here: Faust would make
    it 0755."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return kind(
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


def offer_health(app: faust.App, port: int | None, probe: Probe) -> None:
    """Serve /healthz and /readyz beside the app, where a port is configured."""
    if port is None:
        return

    @app.task  # type: ignore[untyped-decorator]
    async def health() -> None:
        try:
            runner = await serve(port, probe)
        except OSError as error:
            raise InputError(f"health_port {port}: {os.strerror(error.errno or 0)}; choose another port") from None
        log.info("health on port %s", [address[1] for address in runner.addresses])


def show_stacks() -> None:
    """On SIGUSR1, print the stack of every thread and task to stderr; code only, no content."""
    faulthandler.dump_traceback(all_threads=True)
    for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]  # of all loops, not of one
        if not task.done():
            task.print_stack(limit=4, file=sys.stderr)


class _Worker(faust.Worker):
    """A worker that leaves logging and standard output to us, and stops in bounded time."""

    late_end: LateEnd

    def _schedule_shutdown(self, number: signal.Signals) -> None:
        self.late_end.ask(0)  # first: what follows may fail where memory is short
        super()._schedule_shutdown(number)

    def _on_sigusr1(self) -> None:
        show_stacks()  # Faust's would print local variables: records

    def _on_sigusr2(self) -> None:
        """Faust's would wait in a debugger."""

    def _setup_logging(self) -> None:
        pass

    def _setproctitle(self, info: str, *, ident: str = "veilstream") -> None:
        pass


def run(app: faust.App, *services: Any, on_stop: Callable[[], None] = lambda: None) -> None:
    """Run until SIGTERM or SIGINT (returns) or a crash (raises what crashed it)."""
    worker = _Worker(app, *services, quiet=True, loglevel="WARNING")
    worker.late_end = LateEnd()
    worker.spinner = None  # it would write to our standard output
    loop = worker.loop
    reason: BaseException | None = None
    try:
        loop.run_until_complete(worker.start())
    except BaseException as error:  # noqa: BLE001 - whatever it was, the loop is shut down first and then it is raised
        reason = error
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if worker._signal_stop_time is None:
        worker.late_end.ask(1, why=lambda: worker.crash_reason or app.crash_reason or reason)
    try:
        worker.stop_and_shutdown()
    except BaseException as error:  # noqa: BLE001 - the worker raises its crash reason again while it closes the loop
        reason = reason or error
    on_stop()
    reason = worker.crash_reason or app.crash_reason or reason
    if reason is not None and not _asked(worker, reason):
        raise reason


def _asked(worker: Any, reason: BaseException) -> bool:
    """Whether the stop was asked for by a signal, and so what ends the waiting is no failure."""
    return worker._signal_stop_time is not None and isinstance(reason, asyncio.CancelledError | SystemExit)
