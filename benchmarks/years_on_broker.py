"""Memory of a daemon over a year of events from a broker, whose cases are each released once.

`python -m benchmarks.years_on_broker [--events 1000000] [--kills 0]` (needs Java and Maven, or VEILSTREAM_KAFKA). The
events are those of `benchmarks.years_in_memory --released`, in order of time, sent to the source topic as fast as the
broker takes them. An ingest worker and a coordinator are processes of their own. Two publications have
`cases = "completed"` and are cut each week of event time: the default kind (cohorts, with all audits and the bounds of
a replay) and `dp-variants`. `--kills` kills the coordinator so many times without a warning, evenly over the events; it
starts again at once.

Printed: resident memory of the coordinator after each twentieth of the events, and its peak, the program included; of
a start after the last event, the peak and the memory afterwards, and the seconds until its first status; checkpoint,
releases by publication, and cases of the cohorts in them; wall seconds of each release of the cohorts; CPU seconds of
coordinator and ingest; the wall time. On a loaded machine memory compares, and seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.years_in_memory import year_of_events
from stream.daemon.status import read_status
from stream.ledger.layout import AUDIT, OperatorLayout
from stream.run import presets

ROOT = Path(__file__).resolve().parent.parent
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WEEKLY = """\
cases = "completed"
start = "2024-01-01T00:00:00Z"
window = { every = "7d", time = "event" }
formats = ["parquet"]"""

CONFIG = """\
key = "{key}"
[process]
name = "{name}"
completion = {{ end_activities = ["end"], inactivity = "30d" }}
[source]
topics = ["{name}.events"]
bootstrap = "{bootstrap}"
[[publication]]
name = "research"
{weekly}
mechanism = {{ kind = "tlkc-cohorts", L = 2, K = {k}, C = 1.0, suppression = "local" }}
gate = {gate}
[[publication]]
name = "statistics"
{weekly}
mechanism = {{ kind = "dp-variants", epsilon = 1.0, delta_dp = 1e-6 }}
gate = {{ public_cut = true }}
publish_after = "10s"
"""
SETTLED = 20.0
"""Seconds after a start until its memory counts as steady."""


class Run:
    """One process name on one broker, with a year of events in its source topic."""

    def __init__(self, bootstrap: str, folder: Path, n_events: int) -> None:
        self.name = f"years-{uuid.uuid4().hex[:8]}"
        self.bootstrap, self.folder, self.n_events = bootstrap, folder, n_events
        self.output, self.config = folder / "out", folder / "years.toml"
        gate = ", ".join(f"{key} = {value}" for key, value in presets.series_gate(presets.K, local=True).items())
        terms = {
            "name": self.name,
            "bootstrap": bootstrap,
            "key": secrets.token_hex(32),
            "k": presets.K,
            "weekly": WEEKLY,
        }
        self.config.write_text(CONFIG.format(**terms, gate=f"{{ {gate} }}"))
        command = [sys.executable, "-m", "stream.commands", "topics", "create", "-c", str(self.config)]
        subprocess.run([*command, "--source-partitions", "1"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.peaks: list[int] = []

    def start(self, role: str) -> subprocess.Popen[bytes]:
        """Start a process of the daemon."""
        log = (self.folder / f"{role}.log").open("ab")
        command = [sys.executable, "-m", "stream.commands", "run", "-c", str(self.config), "-o", str(self.output)]
        return subprocess.Popen([*command, "--role", role], cwd=ROOT, stdout=log, stderr=log)

    def send(self) -> None:
        """Send the events, in order of time, to the one partition of the source topic."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50, "compression.type": "lz4"})
        for at, case, activity in year_of_events(self.n_events, drawn=True):
            moment = EPOCH + timedelta(microseconds=at // 1000)
            event = {"case:concept:name": case, "concept:name": activity, "time:timestamp": moment.isoformat()}
            body = json.dumps(event)
            while True:
                try:
                    producer.produce(f"{self.name}.events", body, partition=0)
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.1)
        producer.flush()

    @property
    def seen(self) -> int:
        """Events that the coordinator has folded."""
        status = read_status(self.output)
        return 0 if status is None else status.get("publications", {}).get("research", {}).get("seen", 0)

    def follow(self, n_kills: int) -> tuple[list[int], subprocess.Popen[bytes]]:
        """Run the coordinator to the last event; return its resident memory after each twentieth, and the process."""
        coordinator, resident = self.start("coordinator"), list[int]()
        killed = 0
        while (seen := self.seen) < self.n_events:
            if coordinator.poll() is not None:
                raise SystemExit((self.folder / "coordinator.log").read_text()[-3000:])
            if (twentieth := seen * 20 // self.n_events) > len(resident):
                resident += [memory(coordinator.pid, "VmRSS")] * (twentieth - len(resident))
                print(f"{seen:,} events, {resident[-1] >> 20} MB", file=sys.stderr, flush=True)
            if seen * (n_kills + 1) // self.n_events > killed:
                self.peaks.append(memory(coordinator.pid, "VmHWM"))
                coordinator.kill()
                coordinator.wait()
                coordinator, killed = self.start("coordinator"), killed + 1
            time.sleep(0.5)
        return resident, coordinator

    def restart(self) -> dict[str, float]:
        """Start the coordinator again; return memory and seconds."""
        before = time.time()
        coordinator = self.start("coordinator")
        while (status := read_status(self.output)) is None or status["at"] < before or status["state"] == "stopped":
            time.sleep(0.1)
        seconds = time.time() - before
        time.sleep(SETTLED)
        peak, steady = memory(coordinator.pid, "VmHWM"), memory(coordinator.pid, "VmRSS")
        stop(coordinator)
        return {
            "seconds_to_first_status": round(seconds, 1),
            "peak_resident_bytes": peak,
            "steady_resident_bytes": steady,
            "ratio": round(peak / steady, 2),
        }

    def measure(self, n_kills: int) -> dict[str, Any]:
        """Run the daemon over all events, and return the figures."""
        begin = time.monotonic()
        sending = threading.Thread(target=self.send)
        sending.start()
        ingest = self.start("ingest")
        resident, coordinator = self.follow(n_kills)
        sending.join()
        while (status := read_status(self.output)) is None or status.get("building") is not None:
            time.sleep(0.5)
        seconds = time.monotonic() - begin
        self.peaks.append(memory(coordinator.pid, "VmHWM"))
        cpu = {"ingest": cpu_seconds(ingest.pid), "coordinator": cpu_seconds(coordinator.pid)}
        stop(coordinator)
        restart = self.restart()
        stop(ingest)
        checkpoint = OperatorLayout(self.output).checkpoints
        return {
            "events": self.n_events,
            "kills": n_kills,
            "resident_bytes": resident,
            "peak_resident_bytes": max(self.peaks),
            "restart": restart,
            "checkpoint_bytes": sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file()),
            **self.releases(),
            "seconds_of_cohorts": self.costs(),
            "cpu_seconds_of_last_life": cpu,
            "seconds": round(seconds),
            "load": os.getloadavg()[0],
        }

    def releases(self) -> dict[str, Any]:
        """Return the number of decisions by publication and status, and of the cases in releases of the cohorts."""
        command = [sys.executable, "-m", "stream.commands", "releases", str(self.output), "--json"]
        printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        attempts = json.loads(printed)["attempts"]
        decisions = Counter(f"{attempt['publication']}: {attempt['status']}" for attempt in attempts)
        cases = sum(attempt["cases"] or 0 for attempt in attempts if attempt["publication"] == "research")
        return {"decisions": dict(decisions), "cases_of_cohorts": cases}

    def costs(self) -> list[float]:
        """Return the wall seconds of each release of the cohorts: build, audits, files and reading back."""
        audits = sorted(OperatorLayout(self.output).publication("research").glob(f"*/{AUDIT}"))
        return [round(sum(json.loads(audit.read_bytes())["seconds"].values()), 1) for audit in audits]


def memory(pid: int, what: str) -> int:
    """Return a figure of the memory of a process, in bytes: `VmRSS` (now) or `VmHWM` (at most)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"the process {pid} has ended")


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process of the daemon as an operator does."""
    process.send_signal(signal.SIGTERM)
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=0, help="how often the coordinator is killed")
    options = parser.parse_args()
    from tests.kafka.broker import shared_broker

    with tempfile.TemporaryDirectory() as folder:
        run = Run(shared_broker().bootstrap, Path(folder), options.events)
        print(json.dumps(run.measure(options.kills), indent=2))


if __name__ == "__main__":
    main()
