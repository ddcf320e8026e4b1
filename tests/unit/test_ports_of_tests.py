"""Ports that tests give to processes: chosen once, kept until the test process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.ports import free_ports

DRAW = "from tests.ports import free_ports; import sys; print(*free_ports(400)); sys.stdout.flush(); sys.stdin.read()"


def test_no_port_is_drawn_twice() -> None:
    """Neither at once nor later: a broker that draws its ports in two steps never has one of them twice."""
    drawn = [port for _ in range(20) for port in free_ports(3)]
    assert len(set(drawn)) == 60


def test_processes_are_given_different_ports() -> None:
    """Also those that draw at the same time, and before anything listens."""
    command = [sys.executable, "-c", DRAW]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    try:
        drawn = [port for process in processes if process.stdout for port in process.stdout.readline().split()]
    finally:
        for process in processes:
            process.communicate()
    assert len(drawn) == len(set(drawn)) == 1200


def test_no_outgoing_connection_is_given_one() -> None:
    """The system gives those a port of a range of its own, at any moment between the draw and the use."""
    begin = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < begin for port in free_ports(50))
