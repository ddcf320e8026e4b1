"""Faults of processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Any

from tests.kafka.chaos.kinds import Draw, kind, pick
from tests.kafka.chaos.world import HOSTS, Unit, World

BOUNDARIES = ("opened", "charged", "built", "files_written", "sealed", "renamed", "published", "checkpoint")
INTAKE = ("taken", "sent")


def kill(units: Sequence[Unit], number: int = signal.SIGKILL) -> None:
    for unit in units:
        unit.send(number)


@kind("kill-ingest", weight=4)
def _(world: World, draw: Draw) -> None:
    kill([pick(world.of("ingest"), draw.u)])


@kind("kill-coordinator", weight=4)
def _(world: World, draw: Draw) -> None:
    kill([pick(world.of("coordinator"), draw.u)])


@kind("kill-host")
def _(world: World, draw: Draw) -> None:
    kill(world.of(host=pick(HOSTS, draw.u)))


@kind("kill-everything", weight=1)
def _(world: World, draw: Draw) -> None:
    kill(world.units)


@kind("terminate-ingest")
def _(world: World, draw: Draw) -> None:
    kill([pick(world.of("ingest"), draw.u)], signal.SIGTERM)


@kind("terminate-coordinator", weight=3)
def _(world: World, draw: Draw) -> None:
    kill([pick(world.of("coordinator"), draw.u)], signal.SIGTERM)


@kind("host-down-for-a-while")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of(host=pick(HOSTS, draw.u))):
        time.sleep(draw.seconds)


@kind("pause-ingest")
def _(world: World, draw: Draw) -> None:
    _pause([pick(world.of("ingest"), draw.u)], draw.seconds)


@kind("pause-coordinator", weight=3)
def _(world: World, draw: Draw) -> None:
    _pause([pick(world.of("coordinator"), draw.u)], draw.seconds)


@kind("pause-host", weight=1)
def _(world: World, draw: Draw) -> None:
    _pause(world.of(host=pick(HOSTS, draw.u)), draw.seconds)


def _pause(units: Sequence[Unit], seconds: float) -> None:
    kill(units, signal.SIGSTOP)
    time.sleep(seconds)
    kill(units, signal.SIGCONT)


@kind("die-at-a-boundary", weight=6)
def _(world: World, draw: Draw) -> None:
    order(world, world.of("coordinator"), draw, at=pick(BOUNDARIES, draw.u))


@kind("freeze-at-a-boundary", weight=3)
def _(world: World, draw: Draw) -> None:
    order(world, world.of("coordinator"), draw, at=pick(BOUNDARIES, draw.u), do="stop")
    kill(world.of("coordinator"), signal.SIGCONT)


@kind("ingest-dies-with-a-batch", weight=3)
def _(world: World, draw: Draw) -> None:
    order(world, [pick(world.of("ingest"), draw.v)], draw, at=pick(INTAKE, draw.u))


def order(world: World, units: Sequence[Unit], draw: Draw, **what: Any) -> None:
    """Give an order that lasts at least as long as events need to reach a cut."""
    pids = world.order(units, **what)
    time.sleep(draw.seconds + 2)
    world.withdraw(pids, *what)


@kind("more-workers-for-a-while")
def _(world: World, draw: Draw) -> None:
    """Add a worker for a while, and a second coordinator on the folder of the first."""
    more = Unit(world, pick(("ingest", "coordinator"), draw.u), pick(HOSTS, draw.v))
    time.sleep(draw.seconds + 3)
    more.stop()
    more.close()
