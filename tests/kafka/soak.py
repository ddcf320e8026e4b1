"""`make soak`: the daemon under a steady stream, and whether its memory and file descriptors stay flat.

Ingest and coordinator take in cases that begin, end and leave by retention, and release them every ten seconds, each
release audited against all before it, and every fifteen with noise.
Figures go to standard output as JSON; exit 1 where something grew. Flat means, from the end of the warm-up to the end:

* file descriptors and threads: no more than SLACK above;
* resident memory: below NOISE_BYTES + BYTES_PER_EVENT for each event in between. The design lets only two things
  grow: the 16 byte tombstone of a case that left and the audit record of each release, about 40 bytes an event here; an
  event that is kept by mistake costs over 500.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stream.daemon.status import read_status
from tests.kafka.broker import shared_broker
from tests.kafka.site import AnyProcess, Site, publication

SLACK = 3
NOISE_BYTES = 6_000_000
"""Change that allocator and interpreter cause between two measurements."""
BYTES_PER_EVENT = 100
WARM_UP, LONGEST_WARM_UP = 0.3, 300.0
"""Share of the run, and seconds at most, before anything is compared: imports, compiled caches, the first releases."""

PROCESS = 'retention = "20s"\ncompletion = { end_activities = ["close"] }\n'
AUDITED = (
    'mechanism = { kind = "identity" }\n'
    'audit = { anonymity = true, series = true, against = "all", leakage = false, risk = false, utility = false }\n'
)
"""Every release is held against all before it."""
NOISY = (
    'mechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-2 }\n'
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
    'publish_after = "4s"\n'
)
STEPS = ("register", "check", "decide", "pay", "close")


@dataclass
class Watched:
    """Samples of one process: (seconds, resident bytes, descriptors, threads)."""

    process: AnyProcess
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)

    def look(self, at: float) -> None:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        values = dict(line.split(":", 1) for line in status.splitlines())
        resident = int(values["VmRSS"].split()[0]) * 1024
        descriptors = sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())
        self.samples.append((at, resident, descriptors, int(values["Threads"])))

    def figures(self, begin: float, end: float) -> dict[str, list[int]]:
        """Return the medians of the first and of the last fifth of [begin, end]."""
        span = (end - begin) / 5
        early = [one for one in self.samples if begin <= one[0] <= begin + span]
        late = [one for one in self.samples if end - span <= one[0] <= end]
        return {
            name: [int(statistics.median(one[column] for one in part)) for part in (early, late)]
            for column, name in ((1, "resident_bytes"), (2, "descriptors"), (3, "threads"))
        }


def problems(name: str, figures: dict[str, list[int]], events: int) -> list[str]:
    """Return the growth of one process while it took `events` events."""
    allowed = {"resident_bytes": NOISE_BYTES + BYTES_PER_EVENT * events, "descriptors": SLACK, "threads": SLACK}
    return [
        f"{name}: {what} grew from {figures[what][0]} to {figures[what][1]}, {bound} are allowed"
        for what, bound in allowed.items()
        if figures[what][1] - figures[what][0] > bound
    ]


class Pump:
    """Sends `rate` events a second, each case on its own partition, until it is stopped."""

    def __init__(self, one: Site, rate: float) -> None:
        from kafka import KafkaProducer

        self.sent, self._rate, self._topic = 0, rate, one.topic
        self._producer = KafkaProducer(bootstrap_servers=one.bootstrap, acks="all", linger_ms=20)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begin = time.monotonic()
        for block in itertools.count():
            for step, place in itertools.product(STEPS, range(10)):  # ten cases at once
                if self._stop.wait(max(0.0, begin + self.sent / self._rate - time.monotonic())):
                    return
                body = {"case:concept:name": f"case-{block}-{place}", "concept:name": step}
                body["time:timestamp"] = datetime.now(UTC).isoformat()
                self._producer.send(self._topic, json.dumps(body).encode(), partition=place % 2)
                self.sent += 1

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        self._producer.close(timeout=30)
        return self.sent


def taken(one: Site) -> int:
    """Source records that the coordinator's state holds or has held."""
    status = read_status(one.output())
    return 0 if status is None else sum(part["last"] + 1 for part in status["partitions"])


def soak(minutes: float, rate: float, folder: Path) -> dict[str, Any]:
    """Run once; return the figures, and what is wrong with them under "problems"."""
    publications = publication("plain", '{ every = "10s", time = "event" }', AUDITED)
    publications += publication("noisy", '{ every = "15s", time = "wall" }', NOISY)
    one = Site(
        shared_broker().bootstrap, f"soak{uuid.uuid4().hex[:8]}", folder, publications, process=PROCESS, partitions=2
    )
    try:
        watched = {role: Watched(one.start(role)) for role in ("ingest", "coordinator")}
        one.wait(lambda: "coordinator is active" in one.logs(), "an active coordinator", 120)
        pump, begin, span = Pump(one, rate), time.monotonic(), minutes * 60
        warm, at_warm = min(WARM_UP * span, LONGEST_WARM_UP), 0
        while (now := time.monotonic() - begin) < span:
            for each in watched.values():
                each.look(now)
            at_warm = at_warm or (pump.sent if now > warm else 0)
            time.sleep(min(2.0, span / 60))
        sent = pump.stop()
        one.wait(lambda: taken(one) >= sent, "the fold of everything that was sent", 120)
        codes = one.stop()
    finally:
        one.close()
    found = {name: each.figures(warm, span) for name, each in watched.items()}
    wrong = [line for name, each in found.items() for line in problems(name, each, sent - at_warm)]
    releases = len(one.ledger("published"))
    wrong += [f"a process ended with {code}" for code in codes if code] + ["nothing was released"] * (releases < 3)
    return {"minutes": minutes, "events": sent, "releases": releases, "processes": found, "problems": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = soak(options.minutes, options.rate, Path(folder))
    print(json.dumps(figures, indent=2))
    return 1 if figures["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
