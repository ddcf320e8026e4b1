"""Faults that are ordered from outside while a process runs: it looks for its order at each named point.

An order is the file `<folder>/<pid>.json`, written and removed by the test:
`{"at": POINT, "do": "kill"|"stop"}` ends or stops the process at the named point, once; `{"errno": N}` makes each
operation on the disk fail, `{"slow": SECONDS}` makes it take longer; `{"clock": SECONDS}` sets its wall clock forward
or back.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from connectors.files import FileOps

DISK = ("write", "fsync", "rename_noreplace", "replace")

_ORDERING = threading.Lock()

LOOK_SECONDS = 0.1
"""The clock is asked far more often than the order changes."""


def order(folder: Path, pid: int, **orders: Any) -> None:
    """Give a process a further order."""
    with _ORDERING:
        _write(folder, pid, {**_read(folder / f"{pid}.json"), **orders})


def withdraw(folder: Path, pid: int, *names: str) -> None:
    """Take orders back; the process may have executed and removed them itself."""
    with _ORDERING:
        remaining = {name: value for name, value in _read(folder / f"{pid}.json").items() if name not in names}
        _write(folder, pid, remaining)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content


def _write(folder: Path, pid: int, orders: dict[str, Any]) -> None:
    temporary = folder / f".{pid}"
    temporary.write_text(json.dumps(orders))
    temporary.replace(folder / f"{pid}.json")


class Armed:
    """A process that obeys the orders in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}.json"
        self._clock, self._looked = 0.0, 0.0

    def at(self, point: str) -> None:
        """Kill or stop the process at a named point, if that was ordered. This is the hook of the point."""
        ordered = _read(self._path)
        if ordered.get("at") == point:
            self._path.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGSTOP if ordered.get("do") == "stop" else signal.SIGKILL)

    def arm_disk(self) -> None:
        """Arm every `FileOps` of this process."""
        for name in DISK:
            setattr(FileOps, name, self._obeying(getattr(FileOps, name)))

    def _obeying(self, operation: Callable[..., None]) -> Callable[..., None]:
        def obeying(*arguments: Any) -> None:
            ordered = _read(self._path)
            time.sleep(ordered.get("slow", 0.0))
            if code := ordered.get("errno", 0):
                raise OSError(code, os.strerror(code), str(arguments[1]))
            operation(*arguments)

        return obeying

    def arm_clock(self) -> None:
        """`time.time` and `time.time_ns` of this process obey; the monotonic clock continues, as a real one does."""
        seconds, nanoseconds = time.time, time.time_ns
        time.time = lambda: seconds() + self._offset()
        time.time_ns = lambda: nanoseconds() + int(self._offset() * 1e9)

    def _offset(self) -> float:
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked, self._clock = now, float(_read(self._path).get("clock", 0.0))
        return self._clock


NO_SPACE, BAD_DISK = errno.ENOSPC, errno.EIO
