"""The daemon against a bare client: `python -m benchmarks.kafka --json` (needs Java and Maven, or VEILSTREAM_KAFKA).

CPU seconds of each process, from its first batch to its last acknowledgement, in interleaved pairs. The load comes from
a process that is not measured.

* ingest: a worker compared with a bare aiokafka consumer that does `json.loads` of each record, and with a bare
  consumer of confluent-kafka (librdkafka, in C) that decodes each record by msgspec; ratios of events a CPU second;
* two workers: CPU seconds of one on four partitions over those of the busier of two;
* end to end: ingest and coordinator together (no cut) compared with the bare consumer;
* publish: `publish_log` compared with a bare aiokafka producer that does `json.dumps` of each event;
* latency: from the acknowledgement of a produced event to the end of its fold, at `--rate` events a second;
* fold: events a CPU second of the coordinator's fold over the recorded delta topic, decoding included;
* builds: the same latency at `--rate` while a release is built that takes minutes (`--build-events` events of 1,000
  activities that are all alike), its highest value second by second, and how long the build took;
* cut to published: from the operator's `release` to the record on the releases topic, for a log of Sepsis' size.
"""

from __future__ import annotations

import argparse
import asyncio
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
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connectors.kafka.source import Source
    from stream.config.settings import Settings
    from stream.fold.records import AnyRecord

ROOT = Path(__file__).resolve().parent.parent


# workers, each a process of its own


class Meter:
    """The work of a worker, printed when it ends. It ends by itself if the number of events is given."""

    def __init__(self, total: int) -> None:
        self.total, self.events, self.wall, self.cpu = total, 0, 0.0, 0.0
        self.begin: tuple[float, float] | None = None

    def first(self) -> None:
        self.begin = self.begin or (time.monotonic(), time.process_time())

    def count(self, events: int) -> None:
        assert self.begin is not None
        self.events += events
        self.wall, self.cpu = time.monotonic() - self.begin[0], time.process_time() - self.begin[1]
        if 0 < self.total <= self.events:
            self.total = 0
            os.kill(os.getpid(), signal.SIGTERM)

    def report(self) -> None:
        print(json.dumps({"events": self.events, "wall": self.wall, "cpu": self.cpu}), flush=True)


def work(kind: str, config: str, output: str, total: int) -> None:
    """Run one worker: `bare`, `confluent` and `bare-publish` are clients alone, the others are the daemon's."""
    from stream.daemon import start

    settings, source = start.daemon_settings(Path(config))
    meter = Meter(total)
    if kind == "bare":
        asyncio.run(_consume(source, settings.process.name, meter))
    elif kind == "confluent":
        _consume_confluent(source, settings.process.name, meter)
    elif kind == "bare-publish":
        asyncio.run(_produce(source, Path(output), total, meter))
    elif kind == "publish":
        _publish(source, Path(output), total, meter)
    elif kind == "ingest":
        _ingest(settings, source, Path(output), meter)
    else:
        _coordinate(Path(config), Path(output), meter)
    meter.report()


async def _consume(source: Source, name: str, meter: Meter) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        *source.topics,
        bootstrap_servers=source.servers,
        group_id=f"veilstream.{name}.bare",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    while meter.events < meter.total:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            meter.first()
            for record in records:
                json.loads(record.value)
            meter.events += len(records)
    meter.total = 0
    meter.count(0)
    await consumer.stop()


def _consume_confluent(source: Source, name: str, meter: Meter) -> None:
    import msgspec
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": ",".join(source.servers),
        "group.id": f"veilstream.{name}.confluent",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer, decode = Consumer(settings), msgspec.json.Decoder().decode
    consumer.subscribe(list(source.topics))
    while meter.events < meter.total:
        records = consumer.consume(10_000, timeout=0.5)
        if not records:
            continue
        meter.first()
        for record in records:
            decode(record.value())
        meter.events += len(records)
    meter.total = 0
    meter.count(0)
    consumer.close()


def _events(log: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Keys and bodies of the log's events, as an information system has them."""
    from connectors import read_log
    from connectors.columns import ColumnNames
    from connectors.kafka.producing import source_events

    events = read_log(log)
    columns = {
        "case": ColumnNames().case,
        "activity": ColumnNames().activity,
        "time": ColumnNames().time,
        "resource": ColumnNames().resource,
    }
    return [(key, json.loads(value)) for _, key, value in source_events(events, columns)]


async def _produce(source: Source, log: Path, repeat: int, meter: Meter) -> None:
    from aiokafka import AIOKafkaProducer

    events = _events(log) * repeat
    meter.total = 0
    producer = AIOKafkaProducer(bootstrap_servers=source.servers, acks="all", linger_ms=20)
    await producer.start()
    meter.first()
    pending = []
    for key, body in events:
        pending.append(await producer.send(source.topics[0], json.dumps(body).encode(), key=key))
    await asyncio.gather(*pending)
    meter.count(len(events))
    await producer.stop()


def _publish(source: Source, log: Path, repeat: int, meter: Meter) -> None:
    from connectors import read_log
    from connectors.columns import ColumnNames
    from connectors.kafka.producing import publish_log

    events = read_log(log)
    columns = {
        "case": ColumnNames().case,
        "activity": ColumnNames().activity,
        "time": ColumnNames().time,
        "resource": ColumnNames().resource,
    }
    meter.total = 0
    meter.first()
    for _ in range(repeat):
        meter.count(publish_log(events, source, source.topics[0], columns).events)


def _ingest(settings: Settings, source: Source, output: Path, meter: Meter) -> None:
    from stream.daemon import start
    from stream.daemon.faust_app import run
    from stream.daemon.ingest import Ingest, ingest_app

    batch, acknowledge = Ingest.batch, Ingest.acknowledge

    async def taken(self: Any, fetch: Any) -> None:
        meter.first()
        await batch(self, fetch)

    async def acknowledged(self: Any, sent: Any, fetch: Any) -> None:
        await acknowledge(self, sent, fetch)
        meter.count(sum(map(len, fetch.records.values())))

    Ingest.batch, Ingest.acknowledge = taken, acknowledged  # type: ignore[method-assign]
    key = start.pseudonym_key(settings, output)
    app, _ = ingest_app(settings, source, key, output / "faust")
    run(app)


def _coordinate(config: Path, output: Path, meter: Meter) -> None:
    """In addition to the meter, a line for each delta: partition, last offset, and when it was folded."""
    from stream.daemon import roles
    from stream.daemon.coordinator import Coordinator
    from stream.daemon.delta_topic import decode_record
    from stream.fold.records import Delta

    fold = Coordinator._fold

    def folded(self: Any, records: Any) -> None:
        events = any(b'"rows":[[' in (value or b"") for _, value, _ in records)  # ticks and heartbeats come before
        if events:
            meter.first()
        fold(self, records)
        if not events:
            return
        now = time.time()
        records_read = [decode_record(offset, value) for offset, value, _ in records] if meter.total < 0 else []
        for record in records_read:
            if isinstance(record, Delta):
                print(json.dumps({"p": record.p, "last": record.last, "at": now}), flush=True)
        meter.count(0)

    Coordinator._fold = folded  # type: ignore[method-assign]
    roles.run_coordinator(config, output)


# the bench


CONFIG = """\
key = "{key}"
[process]
name = "{name}"
{sensitive}
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
C = {confidence}
suppression = "{suppression}"
"""

HEAVY = {"sensitive": "", "confidence": 1, "suppression": "local"}
USUAL = {"sensitive": 'sensitive = ["Diagnose"]', "confidence": 0.5, "suppression": "exact"}
SAMPLE = 50
"""The latency of one event of so many is measured."""


class Bench:
    """One process name on one broker, with a log in its source topic."""

    def __init__(self, bootstrap: str, folder: Path, log: Path, repeat: int) -> None:
        self.bootstrap, self.folder, self.log = bootstrap, folder, log
        self.repeat = repeat
        self.printed: dict[int, IO[str]] = {}
        self.events = 0
        self.config = folder / "bench.toml"

    def prepare(self, terms: Mapping[str, Any] = USUAL) -> None:
        """Fresh names, topics and no events."""
        self.name = f"bench-{uuid.uuid4().hex[:8]}"
        names = {"name": self.name, "bootstrap": self.bootstrap, "key": secrets.token_hex(32)}
        self.config.write_text(CONFIG.format(**names, **terms))
        self.events = 0
        self.veilstream("topics", "create", "-c", str(self.config), "--source-partitions", "4")

    def send(self) -> dict[str, float]:
        """The log into the source topic, `repeat` times."""
        done = self.worker("publish", self.log, self.repeat)
        self.events += int(done["events"])
        return done

    def veilstream(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "stream.commands", *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    def start(self, kind: str, output: Path, total: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.kafka", "--worker", kind, str(self.config), str(output)]
        errors = (self.folder / f"{kind}.log").open("a")
        # A file, since a worker that prints a line for each delta would wait for a reader of its pipe.
        printed = (self.folder / f"{uuid.uuid4().hex}.printed").open("w+")
        process = subprocess.Popen([*command, str(total)], cwd=ROOT, stdout=printed, stderr=errors)
        self.printed[process.pid] = printed
        return process

    def worker(self, kind: str, output: Path, total: int) -> dict[str, float]:
        """Run one worker until it has done `total`."""
        return self.outcome(self.start(kind, output, total))[-1]

    def outcome(self, process: subprocess.Popen[bytes], *, stop: bool = False) -> list[dict[str, float]]:
        """The lines that a worker printed; `stop` ends it first."""
        if stop:
            process.terminate()
        process.wait(timeout=280)
        printed = self.printed.pop(process.pid)
        printed.seek(0)
        lines = [json.loads(line) for line in printed if line.startswith("{")]
        printed.close()
        if not lines:
            raise RuntimeError("".join(path.read_text()[-2000:] for path in self.folder.glob("*.log")))
        return lines

    def _rewind(self, role: str) -> None:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.delete_groups([f"veilstream.{self.name}.{role}"])
        admin.close()

    def compare(self, kind: str, clients: Sequence[str], rounds: int) -> dict[str, Any]:
        """Run a worker and bare clients in turn: the ratio of each round, and the median ratio to each client."""
        done: list[dict[str, dict[str, float]]] = []
        for number in range(rounds):
            runs = {}
            for variant in (kind, *clients) if number % 2 else (*clients, kind):
                if kind == "ingest":
                    runs[variant] = self.worker(variant, self.folder / f"round-{number}", self.events)
                    self._rewind(variant)
                else:
                    runs[variant] = self.worker(variant, self.log, self.repeat)
            done.append(runs)
            print(json.dumps(runs), file=sys.stderr, flush=True)
        speeds = [{who: run["events"] / run["cpu"] for who, run in runs.items()} for runs in done]
        result: dict[str, Any] = {
            "events": int(done[0][kind]["events"]),
            "events_per_cpu_second": {who: statistics.median(speed[who] for speed in speeds) for who in speeds[0]},
        }
        for client in clients:
            ratios = [speed[kind] / speed[client] for speed in speeds]
            result[f"to_{client}"] = {
                "ratios_cpu": ratios,
                "median_ratio_cpu": statistics.median(ratios),
                "ratios_wall": [runs[client]["wall"] / runs[kind]["wall"] for runs in done],
            }
        return result

    def together(self, kinds: Sequence[str]) -> list[dict[str, float]]:
        """Workers that are in their groups before the load comes, until all of it is covered (and folded)."""
        self.prepare()
        running = [self.start(kind, self.folder / f"{self.name}-{number}", 0) for number, kind in enumerate(kinds)]
        time.sleep(20)  # all have joined, and the group is at rest
        self.send()
        deadline = time.monotonic() + 120
        while self.covered() < self.events:
            if time.monotonic() > deadline:
                raise RuntimeError("the load was not taken: " + (self.folder / "ingest.log").read_text()[-2000:])
            time.sleep(0.5)
        time.sleep(3)  # the last is acknowledged and folded
        return [self.outcome(process, stop=True)[-1] for process in running]

    def covered(self) -> int:
        """Events in the delta topic."""
        from stream.fold.records import Delta

        return sum(record.n for record in self.records() if isinstance(record, Delta))

    def scaling(self, rounds: int) -> dict[str, Any]:
        """Two workers on four partitions against one."""
        pairs = []
        for _ in range(rounds):
            (alone,), two = self.together(["ingest"]), self.together(["ingest", "ingest"])
            pairs.append({"one": alone, "two": two})
            print(json.dumps({"two workers": pairs[-1]}), file=sys.stderr, flush=True)
        ratios = [pair["one"]["cpu"] / max(run["cpu"] for run in pair["two"]) for pair in pairs]
        return {"ratios_cpu": ratios, "median": statistics.median(ratios), "runs": pairs}

    def end_to_end(self, rounds: int) -> dict[str, Any]:
        """Ingest and coordinator at once, and the bare consumer on the same topic."""
        runs = []
        for _ in range(rounds):
            ingest, coordinator = self.together(["ingest", "coordinator"])
            bare = self.worker("bare", self.folder, self.events)
            cpu = ingest["cpu"] + coordinator["cpu"]
            speeds = {"bare": self.events / bare["cpu"], "ours": self.events / cpu}
            runs.append(speeds | {"ratio": speeds["ours"] / speeds["bare"], "coordinator_cpu": coordinator["cpu"]})
            print(json.dumps({"end to end": runs[-1]}), file=sys.stderr, flush=True)
        return {"runs": runs, "median_ratio_cpu": statistics.median(run["ratio"] for run in runs)}

    def latency(self, rate: int, seconds: int) -> dict[str, float]:
        """Seconds from the acknowledgement of an event to the end of its fold."""
        from connectors.kafka.producing import producer
        from connectors.kafka.source import Source

        self.prepare()
        kinds = [("ingest", 0), ("coordinator", -1)]
        running = [self.start(kind, self.folder / f"{self.name}-{kind}", total) for kind, total in kinds]
        time.sleep(20)
        body = {"case:concept:name": "c", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"}
        sent: dict[tuple[int, int], float] = {}
        with producer(Source(topics=("x",), bootstrap=self.bootstrap), linger_ms=0) as client:
            begin = time.monotonic()
            for number in range(rate * seconds):
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
                future = client.send(f"{self.name}.events", json.dumps(body).encode(), partition=number % 4)
                future.add_callback(lambda record: sent.setdefault((record.partition, record.offset), time.time()))
            client.flush()
        time.sleep(5)
        lines = [self.outcome(process, stop=True) for process in running][1]
        waits = sorted(wait for _, wait in _waits(sent, lines))
        return {"events": len(waits), "median": waits[len(waits) // 2], "p95": waits[len(waits) * 95 // 100]}

    def builds(self, rate: int, build_events: int) -> dict[str, Any]:
        """Seconds from the acknowledgement of an event to the end of its fold, from begin to end of a long build."""
        from benchmarks.many_activities import drawn_log
        from connectors import write_log

        self.prepare(HEAVY)
        write_log(drawn_log(build_events, 1000, "flat"), self.folder / "heavy.parquet")
        output = self.folder / f"{self.name}-coordinator"
        ingest = self.start("ingest", self.folder / f"{self.name}-ingest", 0)
        coordinator = self.start("coordinator", output, -1)
        time.sleep(20)
        n_events = int(self.worker("publish", self.folder / "heavy.parquet", 1)["events"])
        while self._status(output)["seen"] < n_events:
            time.sleep(1)
        self.veilstream("release", "-c", str(self.config))
        while self._status(output)["building"] is None:
            time.sleep(0.1)
        load = os.getloadavg()[0]
        sent, n_sent, seconds = self._send_while_building(rate, output)
        while self._status(output)["seen"] < n_events + n_sent:
            time.sleep(1)
        time.sleep(5)
        self.outcome(ingest, stop=True)
        waits = _waits(sent, self.outcome(coordinator, stop=True))
        worst = max(waits, key=lambda wait: wait[1])
        seconds_of_wait = sorted(wait for _, wait in waits)
        return {
            "rate": rate,
            "events_of_the_build": n_events,
            "events_sent": n_sent,
            "build_seconds": seconds,
            "load_at_the_begin": load,
            "sampled": len(waits),
            "median": seconds_of_wait[len(waits) // 2],
            "p99": seconds_of_wait[len(waits) * 99 // 100],
            "max": worst[1],
            "max_at_second": worst[0] - min(at for at, _ in waits),
        }

    def _status(self, output: Path) -> dict[str, Any]:
        """Events that the coordinator has folded, and its build."""
        from stream.daemon.status import read_status

        status = read_status(output)
        if status is None or "research" not in status.get("publications", {}):
            return {"seen": 0, "building": None}
        return {"seen": status["publications"]["research"]["seen"], "building": status.get("building")}

    def _send_while_building(self, rate: int, output: Path) -> tuple[dict[tuple[int, int], float], int, float]:
        """Send events at `rate` until the build ends.

        Returns when each sampled event was acknowledged, by partition and offset, the number of events, and the seconds
        of the build.
        """
        from confluent_kafka import Producer

        body = {"case:concept:name": "c", "concept:name": "activity 0001", "time:timestamp": "2024-01-01T00:00:00Z"}
        sent: dict[tuple[int, int], float] = {}

        def acknowledged(_: Any, message: Any) -> None:
            sent[message.partition(), message.offset()] = time.time()

        # In C: a producer in Python would need half of a core at 20,000 events a second.
        client = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        begin, n_sent, seconds = time.monotonic(), 0, 0.0
        while (build := self._status(output)["building"]) is not None:
            seconds = build["seconds"]
            for number in range(n_sent, n_sent + rate // 10):
                body["case:concept:name"] = f"later {number % 5000}"
                more = {"on_delivery": acknowledged} if number % SAMPLE == 0 else {}
                client.produce(f"{self.name}.events", json.dumps(body), partition=number % 4, **more)
            n_sent += rate // 10
            while (rest := begin + n_sent / rate - time.monotonic()) > 0:
                client.poll(rest)  # returns with the first acknowledgement
        client.flush()
        return sent, n_sent, seconds

    def records(self) -> list[AnyRecord]:
        """The recorded delta topic."""
        from stream.daemon.delta_topic import decode_record

        return [decode_record(offset, value) for offset, value in self.deltas()]

    def deltas(self) -> list[tuple[int, bytes]]:
        """The recorded delta topic, not decoded."""
        from connectors.kafka.source import Source
        from stream.daemon.delta_topic import DeltaReader

        reader = DeltaReader(self.name, Source(topics=("x",), bootstrap=self.bootstrap))
        try:
            return [(offset, value or b"") for offset, value, _epoch in reader.read(0, reader.end())]
        finally:
            reader.close()

    def fold(self) -> dict[str, float]:
        """Decode and fold the recorded deltas, as the coordinator does."""
        from stream.config.window import read_window
        from stream.daemon.delta_topic import decode_record
        from stream.fold.fold import Fold
        from stream.fold.rules import FoldRules, PublicationRules

        records = self.deltas()
        fold = Fold(FoldRules((PublicationRules("research", read_window({"manual": True})),)))
        begin = time.process_time()
        for offset, value in records:
            for cut in fold.apply(offset, decode_record(offset, value)):
                fold.decided(cut, released=True)
        seconds = time.process_time() - begin
        n_events = fold.accounting("research")["seen"]
        return {"events": n_events, "cpu": seconds, "events_per_cpu_second": n_events / seconds}

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


def _waits(sent: Mapping[tuple[int, int], float], lines: Sequence[Mapping[str, float]]) -> list[tuple[float, float]]:
    """Return when each event was acknowledged, and the seconds until the delta that covers it was folded."""
    deltas = defaultdict[float, list[tuple[float, float]]](list)
    for line in lines:
        if "last" in line:
            deltas[line["p"]].append((line["last"], line["at"]))
    for folded in deltas.values():
        folded.sort()
    waits = []
    for (partition, offset), at in sent.items():
        folded = deltas[partition]
        waits.append((at, folded[bisect_left(folded, (offset,))][1] - at))
    return waits


PARTS = ("ingest", "publish", "fold", "cut", "scaling", "end", "latency", "builds")
"""`builds` takes minutes and is measured only if it is named."""


def bench(options: argparse.Namespace, log: Path) -> dict[str, Any]:
    """The figures that are asked for, on one broker."""
    import warnings

    from tests.kafka.broker import shared_broker

    warnings.simplefilter("ignore")
    parts = options.part or PARTS[:-1]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(shared_broker().bootstrap, Path(folder), log, options.repeat)
        bench.prepare()
        bench.send()
        results: dict[str, Any] = {"log": log.name, "repeat": options.repeat, "load": os.getloadavg()}
        if "ingest" in parts or "fold" in parts or "cut" in parts:
            results["ingest"] = bench.compare("ingest", ("bare", "confluent"), options.pairs)
        if "fold" in parts:
            results["fold"] = bench.fold()
        if "cut" in parts:
            results["cut_to_published"] = bench.cut_to_published(4)
        if "publish" in parts:
            results["publish"] = bench.compare("publish", ("bare-publish",), options.pairs)
        if "scaling" in parts:
            results["two_workers"] = bench.scaling(options.rounds)
        if "end" in parts:
            results["end_to_end"] = bench.end_to_end(options.rounds)
        if "latency" in parts:
            results["latency_seconds"] = bench.latency(options.rate, 20)
        if "builds" in parts:
            results["builds"] = bench.builds(options.rate, options.build_events)
        return results | {"load_after": os.getloadavg()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON (the only form)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of two workers against one, and of end to end")
    parser.add_argument("--repeat", type=int, default=4, help="how often the log is published")
    parser.add_argument("--rate", type=int, default=200, help="events a second where latency is measured")
    parser.add_argument("--build-events", type=int, default=250_000, help="of the log whose build is long")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this figure; repeatable")
    parser.add_argument("--worker", nargs=4, metavar=("KIND", "CONFIG", "OUTPUT", "EVENTS"))
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    if options.worker:
        kind, config, output, total = options.worker
        work(kind, config, output, int(total))
        return
    logs = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    print(json.dumps(bench(options, options.log or logs / "sepsis.xes.gz"), indent=2))


if __name__ == "__main__":
    main()
