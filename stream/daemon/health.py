"""`/healthz` and `/readyz` on loopback, and the check that ends a process without progress."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from stream.daemon.broker_contact import BrokerContact
from stream.daemon.unreadable import unreadable_partitions
from stream.release.schedule import LONGEST_BUILD
from stream.values.duration import SECOND

log = logging.getLogger("veilstream")

LEAST_SECONDS = 60.0
SESSIONS = 10
"""A rebalance may take some session timeouts, one for each member that ended during it."""

EXIT_CODE = 1

TASKS = Path("/proc/self/task")
"""Linux: a folder for each thread, whose `schedstat` holds nanoseconds on a CPU, and waiting for one."""


def patience(session_timeout: float, heartbeat: float) -> float:
    """Return the seconds without progress after which a process counts as stuck."""
    return max(LEAST_SECONDS, SESSIONS * session_timeout, 3 * heartbeat)


class ProgressCheck:
    """Ends the process when it makes no progress; its service manager starts it again.

    Faust and its client wait without a limit in many places (a rebalance, a lookup, a commit). A crash is always safe
    here and a blocked process never is: nothing is acknowledged before it is durable.

    Code that makes progress, or has nothing to do, calls `moved`. A thread of its own checks, since an event loop can
    block too.

    Parameters
    ----------
    seconds
        Without progress for so long, the process ends.
    end
        Called with the exit code to end the process.
    asleep
        A process that was stopped for so many seconds (neither busy nor waiting for a CPU) ends as soon as it runs
        again, before it joins its group: another process has its place by then, and would lose it. None: it continues.
    """

    def __init__(
        self,
        seconds: float,
        end: Callable[[int], None] = os._exit,
        asleep: float | None = None,
    ) -> None:
        self.seconds, self.asleep = seconds, asleep
        self._end = end
        self._moved = time.monotonic()
        self._done = threading.Event()

    def moved(self) -> None:
        """Report progress, or that there is nothing to do."""
        self._moved = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last move."""
        return time.monotonic() - self._moved

    def watch(self) -> None:
        """Start the check; `stop` ends it."""
        self.moved()
        threading.Thread(target=self._watch, name="progress", daemon=True).start()

    def stop(self) -> None:
        """End the check: the process is stopping."""
        self._done.set()

    def _watch(self) -> None:
        waited, looked, worked = _waited(), time.monotonic(), time.process_time()
        while not self._done.wait(min(1.0, self.seconds / 4)):
            # The waits are read on both sides of the clock: this thread may lose its CPU between two lines, and what
            # the clock counts as time must not be missing from the waits, now or at the next look.
            before = _waited()
            still, busy = time.monotonic() - looked, time.process_time() - worked
            behind = _waited()
            waits = [seconds - waited.get(thread, 0.0) for thread, seconds in behind.items()]
            starved = max(waits, default=0.0)
            looked, worked, waited = looked + still, worked + busy, before
            if self.asleep is not None and still - busy - starved > self.asleep:
                self.end("paused for %.0f s; another coordinator has taken over, or may have: this process ends", still)
                return
            if self.idle_seconds > self.seconds:
                self.end("no progress for %.0f s: this process ends, to be started again", self.idle_seconds)
                return

    def end(self, message: str, *arguments: object) -> None:
        """Log why, and end the process at once: for what cannot be stopped in another way.

        Parameters
        ----------
        message, arguments
            The line of the log, as `logging` formats it.
        """
        log.error(message, *arguments)
        logging.shutdown()
        self._end(EXIT_CODE)


def _waited() -> dict[str, float]:
    """Return the seconds that each thread has waited for a CPU; empty if the kernel does not count them.

    A process that waits for a CPU is not asleep: it still sends heartbeats when it gets one. A stopped or paused
    process waits for nothing.
    """
    seconds_of_thread = {}
    for counts in TASKS.glob("*/schedstat"):
        try:
            seconds_of_thread[counts.parent.name] = int(counts.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            continue  # the thread ended meanwhile
    return seconds_of_thread


HOST = "127.0.0.1"
READY = ("active", "standby", "ingesting")
"""A standby is ready: it does its task. A gap is not: nothing is released until an operator decides."""

STUCK_SECONDS = LONGEST_BUILD / SECOND
"""A step that takes longer than this has hung, unless `longest_build` allows the steps of a coordinator more."""


def faulty_state(contact: BrokerContact) -> str | None:
    """Return the state of a process that runs and cannot do its work.

    The result is None if nothing is known to hinder it.
    """
    if contact.away:
        return "broker away"
    return "unreadable" if unreadable_partitions.partitions else None


Probe = Callable[[], Mapping[str, Any]]
"""{"role", "state", "busy_seconds": duration of the current step so far, ...}; no content of any record."""


async def serve(port: int, probe: Probe, longest_step: float = STUCK_SECONDS) -> web.AppRunner:
    """Start the endpoints; the caller cleans the runner up.

    Parameters
    ----------
    port
        Port on loopback; 0: any free one.
    probe
        Returns what the endpoints answer.
    longest_step
        Seconds that a step of a live process takes at most.
    """

    async def alive(_request: web.Request) -> web.Response:
        state = probe()
        return _answer(state, ok=float(state.get("busy_seconds") or 0.0) < longest_step)

    async def ready(_request: web.Request) -> web.Response:
        state = probe()
        return _answer(state, ok=state["state"] in READY)

    application = web.Application()
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", ready)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    return runner


def serve_refusal(port: int | None, role: str, code: int) -> None:
    """Serve the endpoints of a process that refused to start and waits.

    They report that it is alive and not ready, from a thread of their own.
    """
    if port is None:
        return
    body = msgspec.json.encode({"role": role, "state": "refused", "exit_code": code})

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response({"/healthz": 200, "/readyz": 503}.get(self.path, 404))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: probes come all the time."""

    try:
        server = ThreadingHTTPServer((HOST, port), Refusal)
    except OSError:
        return  # that the port is taken may be what was refused
    threading.Thread(target=server.serve_forever, name="refusal", daemon=True).start()


def _answer(state: Mapping[str, Any], *, ok: bool) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(dict(state)), status=200 if ok else 503, content_type="application/json"
    )
