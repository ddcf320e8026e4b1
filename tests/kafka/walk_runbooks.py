"""`make runbooks`: the pages whose alerts need minutes, walked with the rules as they are shipped, on a real broker.

Each fault is made, its alert fires in a real Prometheus, the commands of its page are run, what the page says is done,
and the alert clears. Nothing is shortened: all of it takes an hour and a half and hardly any CPU (not in CI). The
checkpoints are on a file system of four megabytes, which only root can mount; without root that walk is left out.
Standard output is JSON: for each alert the second at which the fault began, it fired, it was mended, it cleared. Exit 1
where one did not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

import faust

from tests.deploy.expressions import RULES
from tests.deploy.prometheus import Prometheus
from tests.kafka.broker import shared_broker
from tests.kafka.site import IDENTITY, AnyProcess, Site, publication
from tests.kafka.test_daemon_scrape import events
from tests.ports import free_ports

WITHIN = 5400.0
"""Seconds until an alert that neither fires nor clears is given up."""
WAITING = 40_000
"""Source records that wait for the worker; the rule asks for more than 10,000 during five minutes."""
QUOTA = 4_000
"""Bytes a second that the worker may read meanwhile: some twenty records."""
SMALL = "4m"
DISK = "checkpoints"

NOISY = (
    "start = 2024-01-01T00:00:00Z\n"
    'mechanism = {{ kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }}\n'
    "audit = {{ leakage = false }}\n"
    "gate = {{ max_epsilon = {limit} }}\n"
    'publish_after = "4s"\n'
)


def publications(limit: float) -> str:
    """One that releases every twenty seconds, and one whose budget is for `limit` / .1 hours."""
    return publication("research", '{ every = "20s", time = "wall" }', IDENTITY) + publication(
        "statistics", '{ every = "1h", time = "wall" }', NOISY.format(limit=limit)
    )


@dataclass
class Walk:
    """The life of one alert, in seconds since the begin."""

    alert: str
    fault: str
    mend: str
    began: float = 0.0
    fired: float | None = None
    mended: float | None = None
    cleared: float | None = None
    looked: list[str] = field(default_factory=list)


class World:
    """A daemon whose coordinator is started again whenever it ends, as a service manager does it."""

    def __init__(self, folder: Path) -> None:
        self.broker = shared_broker()
        name, options = f"walk{time.time_ns():x}", {"top": "checkpoint_every = 1000"}
        with redirect_stdout(sys.stderr):  # standard output is the JSON alone
            self.site = Site(self.broker.bootstrap, name, folder, publications(1.0), partitions=2, **options)
        self.ports = dict(zip(("ingest", "coordinator"), free_ports(2), strict=True))
        targets = [f"127.0.0.1:{port}" for port in self.ports.values()]
        self.prometheus = Prometheus(folder / "prometheus", targets, RULES)
        self.begin = time.monotonic()
        self.walks: list[Walk] = []
        self.wanted = {"ingest": True, "coordinator": True}
        self.running: dict[str, AnyProcess] = {}
        self.lives = dict.fromkeys(self.ports, 0)
        self.over = threading.Event()
        self.fed = 0
        self.keeper = threading.Thread(target=self._keep)
        self.feeder = threading.Thread(target=self._feed)
        self.keeper.start()
        self.feeder.start()

    def _keep(self) -> None:
        """Restart the process, as systemd does with `Restart=always` and `RestartSec=5`."""
        while not self.over.wait(1):
            for role, wanted in self.wanted.items():
                process = self.running.get(role)
                if wanted and (process is None or process.poll() is not None):
                    if process is not None and self.over.wait(5):
                        return
                    self.running[role] = self.site.start(role, VEILSTREAM_METRICS__PORT=str(self.ports[role]))
                    self.lives[role] += 1

    def _feed(self) -> None:
        """Send a new case every two seconds."""
        while not self.over.wait(2):
            self.site.send(events(self.fed % 2, self.fed, 1), self.fed % 2)
            self.fed += 1

    def now(self) -> float:
        return round(time.monotonic() - self.begin, 1)

    def end(self, role: str, number: int = signal.SIGTERM) -> None:
        """End a process; it stays away if it is not wanted."""
        self.running[role].send_signal(number)
        self.running[role].wait(240)

    def look(self, *command: str) -> str:
        """Run a command of a page as the operator types it; return its exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "stream.commands", *command], cwd=self.site.tree, capture_output=True, text=True
        )
        return f"{command[0]}: exit {done.returncode}: {(done.stdout or done.stderr).strip()[:300]}"

    def until(self, what: str, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not check():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not happen")
            time.sleep(2)

    @contextmanager
    def walk(self, alert: str, fault: str, mend: str) -> Iterator[Walk]:
        """Wait until the alert of a fault fires, and look at status and releases; the block mends the fault."""
        one = Walk(alert, fault, mend, began=self.now())
        self.walks.append(one)
        self.until(f"{alert} firing", lambda: f"Veilstream{alert}" in self.prometheus.firing())
        one.fired = self.now()
        self.say(f"{alert} fires")
        one.looked += [
            self.look("status", "-o", str(self.site.output())),
            self.look("releases", str(self.site.output())),
        ]
        yield one
        one.mended = self.now()
        self.say(f"{alert}: mended")

    def clears(self) -> None:
        """Wait until no alert fires any more."""

        def clear() -> bool:
            firing = self.prometheus.firing()
            for one in self.walks:
                if one.cleared is None and f"Veilstream{one.alert}" not in firing:
                    one.cleared = self.now()
                    self.say(f"{one.alert} is clear")
            return all(one.cleared is not None for one in self.walks)

        self.until("the alerts clearing", clear)

    def say(self, line: str) -> None:
        print(f"{self.now():8.1f} s  {line}", file=sys.stderr, flush=True)

    def close(self) -> None:
        self.over.set()
        self.keeper.join()
        self.feeder.join()
        self.site.close()
        self.prometheus.close()


def live(world: World) -> None:
    """Walk one fault after the other, each mended before the next one begins."""
    site = world.site
    orders = ("-c", str(site.config))
    world.until(
        "releases", lambda: (world.prometheus.value('veilstream_releases_total{publication="research"}') or 0) > 2
    )

    full(world) if os.geteuid() == 0 else killed(world)

    with world.walk("BudgetEndsSoon", "a budget for ten hourly releases", "its limit raised, for three weeks"):
        site.config.write_text(site.config.read_text().replace("max_epsilon = 1.0", "max_epsilon = 100.0"))
        world.end("coordinator")  # the service manager starts it with the new limit

    world.look("pause", "research", *orders)
    with world.walk("NoRelease", "a publication paused and forgotten", "veilstream resume") as one:
        one.looked.append(world.look("resume", "research", *orders))

    world.broker.throttle(f"faust-{faust.__version__}", QUOTA)
    site.send([value for case in range(WAITING // 4) for value in events(0, 10_000 + case, 1)], 0)
    with world.walk(
        "IngestLag", f"{WAITING} records, and a worker that reads {QUOTA} bytes a second", "no quota"
    ) as one:
        one.looked.append(world.look("topics", "check", *orders))
        world.broker.throttle(f"faust-{faust.__version__}", None)

    world.wanted["ingest"] = False
    world.end("ingest")
    with world.walk("DeltaLag", "no ingest worker runs", "it runs again"):
        world.wanted["ingest"] = True

    world.clears()


def full(world: World) -> None:
    """Fill the disk of the checkpoints: the coordinator ends at each save, is started again, and two alerts fire."""
    folder = world.site.output() / "operator" / DISK
    filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT, 0o600)
    with suppress(OSError):
        while True:
            os.write(filler, b"0" * 4096)
    os.close(filler)
    with world.walk("RestartLoop", "a disk without space: it ends at each save", "space is made") as first:
        with world.walk("OldCheckpoint", "no space for the checkpoints", "space is made") as one:
            one.looked.append(subprocess.run(["df", "-h", str(folder)], capture_output=True, text=True).stdout)
            (folder / "filler").unlink()
        logs = sorted(world.site.folder.glob("coordinator-*.log"))
        first.looked.append(logs[-2].read_text()[-300:])


def killed(world: World) -> None:
    """Kill the process, as the kernel does without memory."""
    for _ in range(4):
        world.end("coordinator", signal.SIGKILL)
        life = world.lives["coordinator"]
        world.until("the next life", lambda life=life: world.lives["coordinator"] > life)
        world.until("it folds", lambda: bool(world.prometheus.value("veilstream_coordinator_active")))
    with world.walk("RestartLoop", "killed four times within minutes", "it is not killed any more"):
        pass


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a file system for the checkpoints, if this user may."""
    if os.geteuid() != 0:
        yield
        return
    folder.mkdir(parents=True, mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=0700", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def main() -> int:
    """Walk the runbooks, and print what was seen."""
    folder = Path(tempfile.mkdtemp(prefix="veilstream-walk-"))
    (folder / "a" / "operator").mkdir(parents=True, mode=0o700)
    with small_disk(folder / "a" / "operator" / DISK):
        world = World(folder)
        try:
            live(world)
        except (TimeoutError, AssertionError) as error:
            world.say(str(error))
        finally:
            world.close()
    print(json.dumps({"rules": RULES.name, "walks": [vars(one) for one in world.walks]}, indent=2))
    return 0 if world.walks and all(one.cleared for one in world.walks) else 1


if __name__ == "__main__":
    sys.exit(main())
