"""Faults of disk, memory, file descriptors and clock."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from stream.testing.armed import BAD_DISK, NO_SPACE
from tests.kafka.chaos.faults.processes import order
from tests.kafka.chaos.kinds import Draw, kind, pick
from tests.kafka.chaos.world import HOSTS, Unit, World


@kind("disk-full", weight=3)
def _(world: World, draw: Draw) -> None:
    """Let the daemon's own writes fail with ENOSPC."""
    order(world, world.of("coordinator", pick(HOSTS, draw.u)), draw, errno=NO_SPACE)


@kind("disk-fails")
def _(world: World, draw: Draw) -> None:
    order(world, world.of("coordinator", pick(HOSTS, draw.u)), draw, errno=BAD_DISK)


@kind("disk-slow")
def _(world: World, draw: Draw) -> None:
    order(world, world.of("coordinator"), draw, slow=0.1 + 0.5 * draw.v)


@contextmanager
def _limited(units: Sequence[Unit], what: int, limit: Callable[[int], int]) -> Iterator[None]:
    """Set a limit of the kernel on running processes, and lift it afterwards."""
    before: dict[int, tuple[int, int]] = {}
    for unit in units:
        pid = unit.pid
        if pid is None:
            continue
        try:
            before[pid] = resource.prlimit(pid, what)
            resource.prlimit(pid, what, (limit(pid), before[pid][1]))
        except (ProcessLookupError, FileNotFoundError):
            before.pop(pid, None)
    yield
    for pid, pair in before.items():
        if any(unit.pid == pid for unit in units):
            try:
                resource.prlimit(pid, what, pair)
            except ProcessLookupError:
                continue


@kind("no-file-grows", weight=3)
def _(world: World, draw: Draw) -> None:
    """Limit the size of written files: SQLite, checkpoints, Parquet and temporary files alike."""
    with _limited(world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_FSIZE, lambda _: 8192 << int(4 * draw.v)):
        time.sleep(draw.seconds + 2)


@kind("no-more-descriptors")
def _(world: World, draw: Draw) -> None:
    """Limit open files to those that are open now, and a few more."""
    few = int(4 * draw.v)
    with _limited(
        world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_NOFILE, lambda pid: len(os.listdir(f"/proc/{pid}/fd")) + few
    ):
        time.sleep(draw.seconds + 2)


@kind("no-more-memory")
def _(world: World, draw: Draw) -> None:
    """Limit the address space to what is used now, and a little more."""

    def little(pid: int) -> int:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize() + int(8_000_000 * draw.v)

    with _limited(world.of(host=pick(HOSTS, draw.u)), resource.RLIMIT_AS, little):
        time.sleep(draw.seconds + 2)


@kind("clock-set", weight=2)
def _(world: World, draw: Draw) -> None:
    """Move the wall clock of a host by up to a day forth or back, and return it."""
    order(world, world.of(host=pick(HOSTS, draw.u)), draw, clock=(draw.v - 0.5) * 2 * 86_400)
