"""Bugs, planted on purpose: a verifier that does not see them is not a verifier."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any


def skip_high_water_mark() -> None:
    """Repeated source offsets count again."""
    from stream.fold.state import State

    stage = State.stage

    def staged(self: Any, record: Any, start: int, partition: Any, _before: int, left_out: Any) -> Any:
        partition.hwm = -1
        return stage(self, record, start, partition, -1, left_out)

    State.stage = staged  # type: ignore[method-assign]


def acknowledge_before_durable() -> None:
    """Source events are acknowledged and committed before their deltas are sent; then the process dies."""
    import asyncio

    from stream.daemon.ingest import Ingest
    from tests.kafka.driver import die

    async def batch(self: Any, fetch: Any) -> None:
        self.app.consumer.acknowledge([fetch])
        await asyncio.sleep(3)
        die()

    Ingest.batch = batch  # type: ignore[method-assign]


def acknowledge_early() -> None:
    """Source events are acknowledged and committed a while before their deltas are sent. The process lives on: only
    one that dies in between loses something."""
    import asyncio

    from stream.daemon.ingest import Ingest

    batch = Ingest.batch

    async def early(self: Any, fetch: Any) -> None:
        self.app.consumer.acknowledge([fetch])
        await asyncio.sleep(2)
        await batch(self, fetch)

    Ingest.batch = early  # type: ignore[method-assign]


def draw_again() -> None:
    """A decided cut is decided again after a restart."""
    from stream.release.pipeline import Pipeline

    Pipeline.decided = lambda self, cut: None  # type: ignore[method-assign]


def drop_dead_letters() -> None:
    """Bad records are covered, and reported to nobody."""
    from stream.daemon.ingest import Ingest

    send = Ingest._send

    async def nothing() -> Any:
        import asyncio

        future = asyncio.get_running_loop().create_future()
        future.set_result(SimpleNamespace(timestamp=time.time_ns() // 1_000_000))  # as if the broker had it
        return future

    def sent(self: Any, name: str, value: bytes) -> Any:
        return nothing() if name == self.dlq else send(self, name, value)

    Ingest._send = sent  # type: ignore[method-assign]


def charge_late() -> None:
    """The charge of a draw is written when the release is out."""
    from stream.daemon.kafka_ledger import TopicLedger

    append, held = TopicLedger.append, []

    def appended(self: Any, entry: Any) -> Any:
        if entry.kind == "charge":
            held.append(entry)
            return entry
        valid_entry = append(self, entry)
        if entry.kind == "seal":
            while held:
                append(self, held.pop())
        return valid_entry

    TopicLedger.append = appended  # type: ignore[method-assign]


def forget_charge() -> None:
    """The charge of a draw is known to the process, and in no ledger."""
    from stream.daemon.kafka_ledger import TopicLedger

    append = TopicLedger.append

    def appended(self: Any, entry: Any) -> Any:
        if entry.kind == "charge":
            self.view.take(entry)
            return entry
        return append(self, entry)

    TopicLedger.append = appended  # type: ignore[method-assign]


def rename_first() -> None:
    """The bytes get their number before the seal; the process dies between the two."""
    from stream.release.pipeline import Pipeline
    from tests.kafka.driver import die

    def append_seal(self: Any, written: Any) -> Any:
        self.store.commit(written.prepared, written.number)
        die()

    Pipeline._append_seal = append_seal  # type: ignore[method-assign]


def cut_twice() -> None:
    """Every cut is decided under two names."""
    from dataclasses import replace

    from stream.run.service import ReleaseService

    decide = ReleaseService.decide_attempt

    def decided(self: Any, publication: str, attempt: Any) -> Any:
        self.pipelines[publication].attempt(replace(attempt, cut=attempt.cut + "b"))
        return decide(self, publication, attempt)

    ReleaseService.decide_attempt = decided  # type: ignore[method-assign]


BUGS = {
    "skip_high_water_mark": skip_high_water_mark,
    "acknowledge_before_durable": acknowledge_before_durable,
    "acknowledge_early": acknowledge_early,
    "draw_again": draw_again,
    "drop_dead_letters": drop_dead_letters,
    "charge_late": charge_late,
    "forget_charge": forget_charge,
    "rename_first": rename_first,
    "cut_twice": cut_twice,
}
