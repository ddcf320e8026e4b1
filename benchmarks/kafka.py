"""The daemon against bare Faust: `python -m benchmarks.kafka --json` (needs Java and Maven, or VEILSTREAM_KAFKA).

* ingest: events a second beside a Faust agent that only takes raw bytes and acknowledges, with the same take and
  acknowledgement settings, in interleaved pairs; CPU seconds of the worker from its first batch to its last;
* fold: events a CPU second of the coordinator's fold over the recorded delta topic, decoding included;
* cut to published: from the operator's `release` to the record on the releases topic, for a log of Sepsis' size.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


# workers, each a process of its own


class Meter:
    """Counts events; at the last one it prints what they cost and ends the process."""

    def __init__(self, total: int) -> None:
        self.total, self.seen = total, 0
        self.begin: tuple[float, float] | None = None

    def first(self) -> None:
        self.begin = self.begin or (time.monotonic(), time.process_time())

    def count(self, events: int) -> None:
        self.seen += events
        if self.seen < self.total or self.begin is None:
            return
        wall, cpu = time.monotonic() - self.begin[0], time.process_time() - self.begin[1]
        print(json.dumps({"events": self.seen, "wall": wall, "cpu": cpu}), flush=True)
        self.begin = None
        os.kill(os.getpid(), signal.SIGTERM)


def work(kind: str, config: str, output: str, total: int) -> None:
    """One worker in a consumer group of its own: `bare` acknowledges, `ingest` is the daemon's."""
    from stream.daemon import start
    from stream.daemon.faust_app import CrashingSupervisor, application, run
    from stream.daemon.ingest import TAKE, WITHIN, Ingest
    from stream.daemon.ingest_app import ingest_app

    settings, source = start.daemon_settings(Path(config))
    meter = Meter(total)
    if kind == "ingest":
        _measure(Ingest, meter)
        key = start.pseudonym_key(settings, Path(output))
        app, _ = ingest_app(settings, source, key, Path(output) / "faust")
    else:
        app = application(settings.process.name, "bare", source, Path(output) / "bare")
        topic = app.topic(*source.topics, key_serializer="raw", value_serializer="raw", allow_empty=True)

        @app.agent(topic, name="bare", supervisor_strategy=CrashingSupervisor)
        async def take(stream: Any) -> None:
            async for batch in stream.noack_take(TAKE, within=WITHIN):
                meter.first()
                for event in batch:
                    event.ack()
                meter.count(len(batch))

    run(app)


def _measure(ingest: Any, meter: Meter) -> None:
    """From the first batch taken to the last event acknowledged: what is sent and not durable does not count."""
    batch: Callable[[Any, Sequence[Any]], Awaitable[None]] = ingest.batch
    acknowledge: Callable[[Any, Any, Mapping[Any, Sequence[Any]]], Awaitable[None]] = ingest.acknowledge

    async def taken(self: Any, events: Sequence[Any]) -> None:
        meter.first()
        await batch(self, events)

    async def acknowledged(self: Any, sent: Any, by_partition: Mapping[Any, Sequence[Any]]) -> None:
        await acknowledge(self, sent, by_partition)
        meter.count(sum(map(len, by_partition.values())))

    ingest.batch, ingest.acknowledge = taken, acknowledged


# the bench


CONFIG = """\
key = "{key}"
[process]
name = "{name}"
sensitive = ["Diagnose"]
[source]
topics = ["{name}.events"]
bootstrap = "{bootstrap}"
[[publication]]
name = "research"
window = {{ manual = true }}
[publication.mechanism]
kind = "tlkc"
knowledge = "seq"
attribute = "ac"
T = "minutes"
L = 2
K = 20
C = 0.5
suppression = "exact"
"""


class Bench:
    """One process name on one broker, with a log in its source topic."""

    def __init__(self, bootstrap: str, folder: Path, log: Path, repeat: int) -> None:
        self.bootstrap, self.folder, self.log = bootstrap, folder, log
        self.repeat = repeat
        self.events = 0
        self.config = folder / "bench.toml"

    def prepare(self) -> None:
        """Fresh names, topics and events."""
        self.name = f"bench-{uuid.uuid4().hex[:8]}"
        self.config.write_text(CONFIG.format(name=self.name, bootstrap=self.bootstrap, key=secrets.token_hex(32)))
        self.veilstream("topics", "create", "-c", str(self.config), "--source-partitions", "4")
        for _ in range(self.repeat):
            told = json.loads(self.veilstream("publish", str(self.log), "-c", str(self.config), "--json"))
            self.events += int(told["events"])

    def veilstream(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "stream.commands", *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    def worker(self, kind: str, output: Path) -> dict[str, float]:
        """Run one worker over all events; the group starts from the begin each time."""
        command = [sys.executable, "-m", "benchmarks.kafka", "--worker", kind, str(self.config), str(output)]
        command.append(str(self.events))
        outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
        line = next(line for line in outcome.stdout.splitlines() if line.startswith("{"))
        self._rewind("bare" if kind == "bare" else "ingest")
        return dict(json.loads(line))

    def _rewind(self, role: str) -> None:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.delete_groups([f"veilstream.{self.name}.{role}"])
        admin.close()

    def ingest(self, pairs: int) -> dict[str, Any]:
        """Interleaved pairs: the ratio of each pair, and the median ratio."""
        found = []
        for pair in range(pairs):
            order = ("bare", "ingest") if pair % 2 else ("ingest", "bare")
            done = {kind: self.worker(kind, self.folder / f"pair-{pair}") for kind in order}
            found.append(done)
            print(json.dumps(done), file=sys.stderr, flush=True)
        ratios = [one["bare"]["cpu"] / one["ingest"]["cpu"] for one in found]
        walls = [one["bare"]["wall"] / one["ingest"]["wall"] for one in found]
        return {
            "events": self.events,
            "bare_events_per_cpu_second": statistics.median(self.events / one["bare"]["cpu"] for one in found),
            "ingest_events_per_cpu_second": statistics.median(self.events / one["ingest"]["cpu"] for one in found),
            "ratios_cpu": ratios,
            "ratios_wall": walls,
            "median_ratio_cpu": statistics.median(ratios),
            "median_ratio_wall": statistics.median(walls),
        }

    def deltas(self) -> list[tuple[int, bytes]]:
        """The recorded delta topic."""
        from connectors.kafka.source import Source
        from stream.daemon.delta_reader import DeltaReader

        reader = DeltaReader(self.name, Source(topics=("x",), bootstrap=self.bootstrap))
        try:
            return [(offset, value or b"") for offset, value in reader.read(0, reader.end())]
        finally:
            reader.close()

    def fold(self) -> dict[str, float]:
        """Decode and fold the recorded deltas, as the coordinator does."""
        from stream.config.window import window_of
        from stream.daemon.delta_records import decode_record
        from stream.fold.fold import Fold
        from stream.fold.rules import FoldRules, PublicationRules

        records = self.deltas()
        fold = Fold(FoldRules((PublicationRules("research", window_of({"manual": True})),)))
        begin = time.process_time()
        for offset, value in records:
            for cut in fold.apply(offset, decode_record(offset, value)):
                fold.decided(cut, released=True)
        seconds = time.process_time() - begin
        seen = fold.accounting("research")["seen"]
        return {"events": seen, "cpu": seconds, "events_per_cpu_second": seen / seconds}

    def cut_to_published(self, rounds: int) -> dict[str, Any]:
        """A coordinator with the whole log in its state; from `release` to the record on the releases topic."""
        command = [sys.executable, "-m", "stream.commands", "run", "--role", "coordinator", "-c", str(self.config)]
        with (self.folder / "coordinator.log").open("wb") as log:
            process = subprocess.Popen([*command, "-o", str(self.folder / "out")], cwd=ROOT, stdout=log, stderr=log)
        try:
            seconds = [self._release(number + 1) for number in range(rounds)]
        finally:
            process.kill()  # it may be in the middle of a build, and nothing of it is wanted any more
            process.wait()
        return {"seconds": seconds, "median": statistics.median(seconds[1:] or seconds)}

    def _release(self, number: int) -> float:
        from kafka import KafkaConsumer, TopicPartition

        from connectors.kafka.source import Source
        from stream.daemon.operator_commands import send
        from stream.daemon.start import daemon_settings
        from stream.fold.records import Command

        settings, source = daemon_settings(self.config)
        assert isinstance(source, Source)
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        part = TopicPartition(f"veilstream.{self.name}.releases", 0)
        consumer.assign([part])
        consumer.seek_to_end(part)
        consumer.position(part)
        begin = time.monotonic()
        send(settings, source, Command(name="release"))
        while not consumer.poll(timeout_ms=200):
            if time.monotonic() - begin > 120:
                raise RuntimeError(f"release {number} did not come: {(self.folder / 'coordinator.log').read_text()}")
        consumer.close(autocommit=False)
        return time.monotonic() - begin


def bench(pairs: int, log: Path, repeat: int) -> dict[str, Any]:
    """All three figures on one broker."""
    import warnings

    from tests.kafka.broker import shared_broker

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        one = Bench(shared_broker().bootstrap, Path(folder), log, repeat)
        one.prepare()
        ingest = one.ingest(pairs)
        return {"log": log.name, "ingest": ingest, "fold": one.fold(), "cut_to_published": one.cut_to_published(4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON (the only form)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=1, help="how often the log is published")
    parser.add_argument("--worker", nargs=4, metavar=("KIND", "CONFIG", "OUTPUT", "EVENTS"))
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    if options.worker:
        kind, config, output, total = options.worker
        work(kind, config, output, int(total))
        return
    logs = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    print(json.dumps(bench(options.pairs, options.log or logs / "sepsis.xes.gz", options.repeat), indent=2))


if __name__ == "__main__":
    main()
