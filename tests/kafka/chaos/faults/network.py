"""Faults of the network and of the broker."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.kafka.chaos.kinds import Draw, kind, pick
from tests.kafka.chaos.world import HOSTS, World


@contextmanager
def _network(world: World, hosts: Sequence[str], verb: str, *arguments: float) -> Iterator[None]:
    proxies = [world.broker.proxies[host] for host in hosts]
    for proxy in proxies:
        getattr(proxy, verb)(*arguments)
    yield
    for proxy in proxies:
        proxy.heal()


@kind("cut-host", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "cut"):
        time.sleep(draw.seconds)


@kind("stall-host", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "stall"):
        time.sleep(draw.seconds)


@kind("cut-both-hosts", weight=1)
def _(world: World, draw: Draw) -> None:
    with _network(world, HOSTS, "cut"):
        time.sleep(draw.seconds)


@kind("slow-network")
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "slow", 0.02 + 0.2 * draw.v):
        time.sleep(draw.seconds + 2)


@kind("reset-connections", weight=3)
def _(world: World, draw: Draw) -> None:
    with _network(world, [pick(HOSTS, draw.u)], "reset"):
        pass


@kind("kill-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.kill()
        time.sleep(draw.seconds / 2)
        world.broker.start()


@kind("restart-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.stop()
        time.sleep(draw.seconds / 2)
        world.broker.start()


@kind("pause-broker")
def _(world: World, draw: Draw) -> None:
    with world.lock:
        world.broker.signal(signal.SIGSTOP)
        time.sleep(draw.seconds)
        world.broker.signal(signal.SIGCONT)
