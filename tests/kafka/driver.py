"""The daemon with a fault planted: `python -m tests.kafka.driver ROLE CONFIG OUTPUT [BOUNDARY:N | batch:N | ...]`.

At the N-th time that the named point is reached the process kills itself as kill -9 would. `armed FOLDER`: it takes its
orders from there while it runs (`stream.testing.armed`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """Stop this process until SIGCONT, as a virtual machine is paused."""
    os.kill(os.getpid(), signal.SIGSTOP)


def doze() -> None:
    """Sleep as long as a slow build takes."""
    time.sleep(600)


def hold() -> None:
    """Wait while a file `hold` exists next to the configuration: a build that takes as long as the test wants."""
    path = Path(sys.argv[2]).with_name("hold")
    while path.exists():
        time.sleep(0.05)


def counter(fault: str) -> Callable[[str], None]:
    """A hook that dies at the N-th call with the fault's name; `stop`, `sleep` or `hold` before it: see above."""
    ends = {"stop ": freeze, "sleep ": doze, "hold ": hold}
    verb = next((verb for verb in ends if fault.startswith(verb)), "")
    name, _, number = fault.removeprefix(verb).partition(":")
    left, end = int(number or 1), ends.get(verb, die)

    def at(point: str) -> None:
        nonlocal left
        if point == name:
            left -= 1
            if left == 0:
                end()

    return at


def widen_rebalance() -> None:
    """Keep a fetch open across a slow rebalance: both can happen, here they do.

    No fetch ends while a file `hold` exists next to the configuration.
    """
    import asyncio

    from faust.tables.recovery import Recovery
    from faust.transport.consumer import Consumer

    wait, resume = Consumer._wait_next_records, Recovery._resume_streams
    hold = Path(sys.argv[2]).with_name("hold")

    async def late(self, generation_id=0):  # type: ignore[no-untyped-def]
        while hold.exists():
            await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)  # what was sent comes with the open fetch
        await resume(self, generation_id)

    Consumer._wait_next_records = lambda self, _timeout: wait(self, 60.0)
    Recovery._resume_streams = late


def shorten_patience() -> None:
    from stream.daemon import health

    health.LEAST_SECONDS, health.SESSIONS = 10.0, 0


def leave_the_hole() -> None:
    """Use the consumer as Faust has it: positions that were never committed are not sought back."""
    from faust.transport.drivers import aiokafka

    from stream.daemon.faust_consumer import SeekingThread

    shorten_patience()

    SeekingThread.seek_to_committed = aiokafka.AIOKafkaConsumerThread.seek_to_committed


def hang() -> None:
    """Stop the consumer's thread at the first record, while the process and its event loop continue."""
    from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

    shorten_patience()
    AIOKafkaConsumerThread._fetch_records = lambda *_arguments, **_options: time.sleep(3600)


def not_know_topics() -> None:
    """Hide the topic in the metadata for some seconds, as a broker does that has just come back."""
    from aiokafka.cluster import ClusterMetadata

    known, begin = ClusterMetadata.partitions_for_topic, 0.0

    def partitions_for_topic(self, topic):  # type: ignore[no-untyped-def]
        nonlocal begin
        begin = begin or time.monotonic()
        return None if time.monotonic() - begin < 15.0 else known(self, topic)

    ClusterMetadata.partitions_for_topic = partitions_for_topic


def resume_late() -> None:
    """Delay the end of a rebalance, between its seek and the moment at which the flow is resumed.

    If the flow lets them, records are fetched meanwhile: a broker that answers slowly has the same effect.
    """
    import asyncio

    from faust.transport.consumer import Consumer

    from stream.daemon import coordinator

    coordinator.BATCH_RECORDS = 10_000  # as where records come slowly: a batch ends by its time, the next record waits
    seek = Consumer.perform_seek

    async def late(self):  # type: ignore[no-untyped-def]
        await seek(self)
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline and not any(queue.qsize() > 2 for queue in self.app.flow_control._queues):
            await asyncio.sleep(0.01)

    Consumer.perform_seek = late


def keep_in_hand() -> None:
    """Let a rebalance come while two batches are in hand: one is sent, and the broker is asked about the next one.

    Both wait until the group has a new generation.
    """
    import asyncio
    from collections.abc import Mapping

    from stream.daemon.ingest import Ingest

    acknowledge, check_logs = Ingest.acknowledge, Ingest._check_logs

    async def next_generation(self):  # type: ignore[no-untyped-def]
        present = self.app.consumer_generation_id
        while self.app.consumer_generation_id == present:
            await asyncio.sleep(0.01)
        Ingest.acknowledge, Ingest._check_logs = acknowledge, check_logs

    async def acknowledge_late(self, sent, fetch):  # type: ignore[no-untyped-def]
        await next_generation(self)
        await acknowledge(self, sent, fetch)

    async def check_late(self, partitions):  # type: ignore[no-untyped-def]
        is_batch = isinstance(partitions, Mapping) and bool(partitions)  # and not a report
        if is_batch and self._previous_batch is not None:
            print("two batches are in hand", flush=True)
            await next_generation(self)
        await check_logs(self, partitions)

    Ingest.acknowledge, Ingest._check_logs = acknowledge_late, check_late


def leave_out(*, always: bool) -> None:
    """Leave a delta of the first partition out of the records that the coordinator gets.

    It has neighbours in its batch: the coordinator reads what is missing before a batch as it does after a start. With
    `always`, its own reader does not return it either.
    """
    import json

    from stream.daemon.coordinator import Coordinator
    from stream.daemon.delta_topic import DeltaReader

    fold, read = Coordinator._fold, DeltaReader.read
    chosen: list[int] = []

    def is_it(offset, value, *, may_choose=True):  # type: ignore[no-untyped-def]
        record = json.loads(value)
        if may_choose and not chosen and record["t"] == "delta" and record["p"] == 0 and record["prev"] >= 0:
            chosen.append(offset)
        return chosen == [offset]

    def folding(self, records):  # type: ignore[no-untyped-def]
        kept, last = [], len(records) - 1
        for place, (offset, value, *_) in enumerate(records):
            if not is_it(offset, value, may_choose=0 < place < last):
                kept.append(records[place])
        if kept:
            fold(self, kept)

    Coordinator._fold = folding
    if always:
        DeltaReader.read = lambda self, *range: (one for one in read(self, *range) if not is_it(*one[:2]))


KINDS = {
    "deaf-once": (lambda: leave_out(always=False),),
    "deaf-always": (lambda: leave_out(always=True),),
    "late": (resume_late,),
    "blind": (not_know_topics,),
    "wide": (widen_rebalance,),
    "wide-hole": (widen_rebalance, leave_the_hole),
    "hang": (hang,),
    "in-hand": (keep_in_hand,),
}


def plant_in_ingest(fault: str) -> None:
    """`sent:N`: the deltas of batch N are with the broker, its events are not acknowledged; `taken:N`: neither.
    Others: see `KINDS`."""
    if fault in KINDS:
        for plant in KINDS[fault]:
            plant()
        return
    hook_ingest(counter(fault))


def hook_ingest(at: Callable[[str], None]) -> None:
    """`at("taken")` with each batch in hand, `at("sent")` before each acknowledgement of an event."""
    from stream.daemon import ingest

    write = ingest.Ingest._write

    def writing(self, tp, prev, records):  # type: ignore[no-untyped-def]
        at("taken")
        return write(self, tp, prev, records)

    ingest.Ingest._write = writing
    from stream.daemon.faust_consumer import FetchConsumer

    acknowledge = FetchConsumer.acknowledge

    def acking(self, fetches):  # type: ignore[no-untyped-def]
        for _event in range(sum(len(records) for fetch in fetches for records in fetch.records.values())):
            at("sent")
        acknowledge(self, fetches)

    FetchConsumer.acknowledge = acking


def set_clock(path: str) -> None:
    """Let the wall clock run as many seconds ahead as the file states, read each time.

    It is the clock of a host whose time was set by hand, or by a faulty time server. The clock of durations continues.
    """
    wall = time.time_ns

    def time_ns() -> int:
        return wall() + int(float(Path(path).read_text() or 0) * 1_000_000_000)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1_000_000_000


def obey(role: str, config: Path, output: Path, folder: Path) -> int:
    """Run the role under orders from `folder`."""
    from stream.daemon import roles
    from stream.testing.armed import Armed

    armed = Armed(folder)
    armed.arm_disk()
    armed.arm_clock()
    if role == "ingest":
        hook_ingest(armed.at)
        return roles.run_ingest(config, output)
    return roles.run_coordinator(config, output, armed.at)


def main(role: str, config: str, output: str, fault: str = "") -> int:
    from stream.daemon import logs, roles
    from stream.values.memory import give_back

    give_back()  # as the command does
    if clock := os.environ.get("TEST_CLOCK"):
        set_clock(clock)
    if limit := os.environ.get("TEST_DELTA_BYTES"):
        from stream.daemon import ingest

        ingest.DELTA_BYTES = int(limit)
    logs.configure()
    if fault.startswith("bug "):
        from tests.kafka.bugs import BUGS

        _, bug, *rest = fault.split(" ")
        BUGS[bug]()
        fault = " ".join(rest)
    if fault.startswith("armed "):
        return obey(role, Path(config), Path(output), Path(fault.removeprefix("armed ")))
    if role == "ingest":
        if fault:
            plant_in_ingest(fault)
        return roles.run_ingest(Path(config), Path(output))
    if fault in KINDS:
        for plant in KINDS[fault]:
            plant()
        fault = ""
    return roles.run_coordinator(Path(config), Path(output), counter(fault))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
