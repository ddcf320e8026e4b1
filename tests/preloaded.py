"""Processes of the program that are forked from one which has imported it: tests of daemons and crashes start hundreds.

A start of the daemon takes more than two seconds of CPU time, and nearly all of it imports modules. A server imports
them once, and forks for each process. Such a process differs from `python -m MODULE` in two ways: its command line is
that of the server, and its hashes of strings have the seed of the server. Two servers with random seeds take turns, so
that processes still disagree on the order of a set: what depends on it must not reach a release.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release import audits, mechanisms
from stream.run.replay import Replay
from tests.conftest import ROOT

SERVERS = 2
LONGEST_ORDER = 1 << 17
MODULES = (
    "connectors.xes",
    "connectors.xes_lines",
    "connectors.xes_write",
    "faust.app.router",
    "faust.assignor.partition_assignor",
    "faust.tables.manager",
    "numba.cpython.unicode",
    "numba.np.arraymath",
    "numba.np.npyimpl",
    "opendp.prelude",
    "pandas",
    "pyarrow.parquet",
    "rapidfuzz.distance",
    "rapidfuzz.process",
    "scipy.spatial",
    "scipy.special",
    "stream.commands.gap",
    "stream.daemon.coordinator",
    "stream.daemon.faust_app",
    "stream.daemon.ingest",
    "stream.daemon.logs",
    "stream.daemon.roles",
    "stream.daemon.start",
    "stream.daemon.state_machine",
    "stream.daemon.tracing",
    "stream.run.observer",
    "stream.run.replay",
    "stream.testing.armed",
    "stream.testing.killer",
)
"""Imports of the daemon, its commands and a replay until they end; kinds of mechanisms and audits come with them."""


class PreloadedProcess:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: int, words: Sequence[str]) -> None:
        self.pid = pid
        self.args = list(words)
        self.returncode: int | None = None
        self._status = status
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        with self._reading:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                code = os.read(self._status, 16)
                assert code, "the server of processes has ended"
                os.close(self._status)
                self.returncode = int(code)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code. subprocess.TimeoutExpired if it takes longer."""
        begin = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - begin > timeout:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.05)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """A process that has imported the program, and forks when it is asked."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.preloaded", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "random"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End the server. Processes that it forked go on."""
        self._orders.close()
        self._process.wait()

    def start(self, order: Mapping[str, Any], streams: Sequence[int]) -> PreloadedProcess:
        status, theirs = os.pipe()
        try:
            with self._asking:
                socket.send_fds(self._orders, [json.dumps(order).encode()], [*streams, theirs])
                pid = int(self._orders.recv(16))
        finally:
            os.close(theirs)
        return PreloadedProcess(pid, status, [order["module"], *order["arguments"]])


@functools.cache
def _servers() -> itertools.cycle[_Server]:
    return itertools.cycle([_Server() for _ in range(SERVERS)])


def start(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    stdin: IO[Any],
    stdout: IO[Any],
    stderr: IO[Any],
    folder: Path = ROOT,
) -> PreloadedProcess:
    """Run `python -m MODULE ARGUMENTS...` of this checkout, in a process that has imported the program.

    Parameters
    ----------
    module, arguments
        As on the command line.
    env
        All environment variables of the process.
    stdin, stdout, stderr
        Open files, which stay the caller's to close.
    folder
        The working directory of the process.
    """
    order = {"module": module, "arguments": list(arguments), "env": dict(env), "folder": str(folder)}
    return next(_servers()).start(order, [stdin.fileno(), stdout.fileno(), stderr.fileno()])


def _serve(orders: socket.socket) -> dict[str, Any]:
    """Fork for each order, and report how each process ends. Returns in the new process, with its order."""
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not orders:
                    pid, status = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with suppress(BrokenPipeError):  # the tests have ended
                        os.write(status, str(code).encode())
                    os.close(status)
                    continue
                message, fds, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 4)
                if not message:
                    sys.exit(0)
                *streams, status = fds
                pid = os.fork()
                if not pid:
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                    for left in (*fds, *(status for _, status in running.values()), *running):
                        os.close(left)
                    orders.close()
                    return json.loads(message)
                for stream in streams:
                    os.close(stream)
                process = os.pidfd_open(pid)
                running[process] = pid, status
                selector.register(process, selectors.EVENT_READ)
                orders.send(str(pid).encode())


def load_kernels() -> None:
    """Load the kernels of a release and its audits, by a replay: a process that is forked later has them.

    They are two thirds of the CPU time of a crashing replay. No noise is drawn here: the processes would share the
    state of a generator.
    """
    names = [f"case{number}" for number in range(30) for _ in range(3)]
    activities = [activity for number in range(30) for activity in ("a", "bc"[number % 2], "d")]
    ill = {f"case{number}": ("flu", "cold")[number % 3 == 0] for number in range(30)}
    times = np.arange(len(names)) * 60_000_000_000
    log = EventLog.from_events(names, activities, times, case_attributes={"ill": ill}, unit="ns")
    publication = {"name": "plain", "window": {"new_cases": 10}, "mechanism": {"kind": "identity"}}
    process = {"name": "preloaded", "sensitive": ["ill"]}
    settings = Settings.model_validate({"process": process, "publication": [publication]})
    with tempfile.TemporaryDirectory() as folder:
        Replay(settings, Path(folder)).run(log)


def _main(orders: int) -> None:
    for module in MODULES:
        import_module(module)
    mechanisms.kinds()
    audits.kinds()
    load_kernels()
    order = _serve(socket.socket(fileno=orders))
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["folder"])
    sys.argv[1:] = order["arguments"]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
