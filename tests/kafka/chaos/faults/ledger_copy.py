"""Faults of a coordinator's own copy of the ledger."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.kafka.chaos.kinds import ALARM_SECONDS, Draw, Finding, kind
from tests.kafka.chaos.orders import status
from tests.kafka.chaos.world import HOSTS, World, entries_of
from tests.patience import patient_time

START_SECONDS = 600.0
"""How long a coordinator may take to start. At a load of 24 on two cores its first line came after more than 90 s;
what is judged is that it speaks, not when."""


@kind("ledger-copy-lacks-rows", "it is compared with the topic at the start and rebuilt aloud", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        damaged = []
        for host in HOSTS:
            path = _copy(world, host)
            if path.exists():
                with closing(sqlite3.connect(path)) as db, db:
                    if db.execute("DELETE FROM entries WHERE id % 3 = ?", (int(3 * draw.u),)).rowcount:
                        damaged.append(host)
                world.site.damaged[host] = entries_of(path)
        before = _rebuilt(world)
        begin = time.time()
    deadline = patient_time() + START_SECONDS
    while patient_time() < deadline:
        active = {host for host in HOSTS if _active_since(world, host, begin)}
        if _rebuilt(world) > before or (active and not active & set(damaged)):
            return
        if active:  # it has opened the ledger, and said nothing
            raise Finding(f"silent: the coordinator of {active} did not say that its copy of the ledger lacked rows")
        time.sleep(0.5)
    raise Finding(f"hung: no coordinator was active within {START_SECONDS:g} s")


def _copy(world: World, host: str) -> Path:
    return world.site.output(host) / "operator" / "ledger.sqlite"


def _rebuilt(world: World) -> int:
    """Return how often a coordinator logged that it made its copy of the ledger again."""
    logs = (path.read_text(errors="replace") for path in world.folder.glob("coordinator-*.log"))
    return sum(text.count("it is rebuilt from the topic") for text in logs)


def _active_since(world: World, host: str, begin: float) -> bool:
    reported = status(world, host)
    return bool(reported.get("at", 0.0) > begin and reported.get("state") == "active")


@kind("ledger-copy-is-garbage", "it is rebuilt from the topic aloud, or refused (exit 4)", place="last")
def _(world: World, draw: Draw) -> None:
    """Damage the copies; after the alarm remove them, as the operator does: all of them is in the topic."""
    with world.down(world.of("coordinator")):
        there = [host for host in HOSTS if _copy(world, host).exists()]
        for host in there:
            path = _copy(world, host)
            # A killed coordinator leaves its newest pages in the write-ahead log, where they hide damage to the file.
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            data = bytearray(path.read_bytes())
            for place in range(100 + int(3000 * draw.u), len(data), 97):
                data[place] ^= 0x55
            path.write_bytes(data)
        before = _rebuilt(world)
        begin = time.time()
    deadline = patient_time() + ALARM_SECONDS
    while patient_time() < deadline:
        refusals = [unit.refusal or "" for unit in world.of("coordinator")]
        active = [host for host in HOSTS if _active_since(world, host, begin)]
        refused = any(text.startswith("exit 4") and "ledger.sqlite" in text for text in refusals)
        if refused or _rebuilt(world) > before or (active and not set(active) & set(there)):
            break
        time.sleep(0.5)
    else:
        raise Finding(
            f"silent: nothing said within {ALARM_SECONDS:g} s that a copy of the ledger is garbage: {refusals}"
        )
    with world.down(world.of("coordinator")):
        for host in there:
            for path in _copy(world, host).parent.glob("ledger.sqlite*"):
                path.unlink()
