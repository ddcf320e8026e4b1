"""Ports for processes under test. A port that is chosen and closed can be taken before it is used; these are not."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LEAST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Linux: the ports that an outgoing connection, or a listener that asks for port 0, may be given."""

_reserved: dict[int, int] = {}
"""Port -> descriptor of its lock, which this process holds until it ends."""


def free_ports(count: int) -> list[int]:
    """Return ports in a row, no one twice, that nobody listens on and no other test process is given.

    They are below the range that the system gives to outgoing connections, and each is locked by a file for as long as
    this process lives.
    """
    first = random.randrange(LEAST, _end())
    for begin in (*range(first, _end() - count), *range(LEAST, first)):
        ports = list(range(begin, begin + count))
        if all(_reserve(port) for port in ports):
            return ports
    raise RuntimeError("no free port is left for tests")


def _end() -> int:
    """First port that outgoing connections may take."""
    return int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768


def _reserve(port: int) -> bool:
    if port in _reserved:
        return False
    folder = Path(tempfile.gettempdir()) / f"veilstream-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    _reserved[port] = lock
    return True
