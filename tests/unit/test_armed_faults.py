"""The fault kit's own parts: a proxy that partitions, and a process that takes orders while it runs."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.testing.armed import order, withdraw
from stream.testing.proxy import Proxy
from tests.conftest import ROOT

PATIENCE = 60.0


def _echo(server: socket.socket) -> None:
    while True:
        try:
            one, _ = server.accept()
        except OSError:
            return
        with one:
            try:
                while data := one.recv(1000):
                    one.sendall(data)
            except OSError:
                continue


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that gives back what it gets, one connection after the other."""
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_echo, args=(server,))
    thread.start()
    one = Proxy()
    one.start("127.0.0.1", server.getsockname()[1])
    yield one
    one.close()
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def _connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def test_a_whole_network_passes_everything_on(proxy: Proxy) -> None:
    """A network passes all bytes, slowed or not."""
    with _connected(proxy) as one:
        for _ in range(2):
            one.sendall(b"there and back")
            assert one.recv(1000) == b"there and back"
            proxy.slow(0.01)


def test_a_cut_network_ends_connections_and_refuses_new_ones(proxy: Proxy) -> None:
    """Both ends see that the other is gone; healed, a new connection is whole."""
    with _connected(proxy) as one:
        one.sendall(b"before")
        assert one.recv(1000) == b"before"
        proxy.cut()
        assert _ended(one)
    with _connected(proxy) as two:
        assert _ended(two)
    proxy.heal()
    with _connected(proxy) as three:
        three.sendall(b"after")
        assert three.recv(1000) == b"after"


def _ended(one: socket.socket) -> bool:
    try:
        return one.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_a_stalled_network_holds_every_byte_and_gives_it_on_when_it_heals(proxy: Proxy) -> None:
    """As packets that are dropped, and sent again: late, and not lost."""
    with _connected(proxy) as one:
        one.sendall(b"before")
        assert one.recv(1000) == b"before"
        proxy.stall()
        one.sendall(b"held")
        one.settimeout(0.3)
        with pytest.raises(TimeoutError):
            one.recv(1000)
        proxy.heal()
        one.settimeout(PATIENCE)
        assert one.recv(1000) == b"held"


OBEYING = """
import sys, time
from pathlib import Path
from connectors.files import FileOps
from stream.testing.armed import Armed

armed = Armed(Path(sys.argv[1]))
armed.arm_disk()
armed.arm_clock()
for line in sys.stdin:
    verb, rest = line.split()
    if verb == "at":
        armed.at(rest)
        print("passed", flush=True)
    elif verb == "clock":
        print(time.time(), flush=True)
    else:
        try:
            FileOps().fsync(Path(rest))
            print("durable", flush=True)
        except OSError as error:
            print(error.errno, flush=True)
"""


def test_a_running_process_takes_its_orders(tmp_path: Path) -> None:
    """A disk that is full for a while, a clock that jumps, and an end at the named point and at no other."""
    process = subprocess.Popen(
        [sys.executable, "-c", OBEYING, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(line: str) -> str:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    with process:
        try:
            assert ask(f"fsync {tmp_path}") == "durable"
            order(tmp_path, process.pid, errno=errno.ENOSPC, clock=-86_400)
            assert ask(f"fsync {tmp_path}") == str(errno.ENOSPC)
            time.sleep(0.2)  # the clock looks at its orders every tenth of a second
            assert float(ask("clock now")) < time.time() - 80_000
            withdraw(tmp_path, process.pid, "errno")
            assert ask(f"fsync {tmp_path}") == "durable"
            order(tmp_path, process.pid, at="sealed")
            assert ask("at charged") == "passed"
            assert ask("at sealed") == ""
            assert process.wait(PATIENCE) == -signal.SIGKILL
        finally:
            process.kill()
