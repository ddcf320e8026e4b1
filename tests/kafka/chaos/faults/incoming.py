"""Faults in the events that arrive."""

from __future__ import annotations

import json
import secrets

from tests.kafka.chaos.kinds import Draw, kind
from tests.kafka.chaos.orders import send, topic_of
from tests.kafka.chaos.world import PARTITIONS, World


@kind("burst")
def _(world: World, draw: Draw) -> None:
    world.pump.burst(50 + int(150 * draw.u))


POISON: tuple[bytes, ...] = (
    b"\x00" * 1000,
    b'{"case:concept:name": "x", "concept:name": null, "time:timestamp": "2024-01-01T00:00:00Z"}',
    b'{"case:concept:name": "x", "concept:name": "a", "time:timestamp": "2099-01-01T00:00:00Z"}',
    b'{"case:concept:name": "", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"}',
    b"[" * 100_000,
    b'"' + b"x" * 700_000 + b'"',
)


@kind("poison", "each bad record is in the dlq once or more, and nothing waits for it")
def _(world: World, draw: Draw) -> None:
    send(world, [(int(draw.u * PARTITIONS), value) for value in POISON])


@kind("large-integers", "the event is in the dlq; no checkpoint fails")
def _(world: World, draw: Draw) -> None:
    """Put integers that 64 bits do not hold into an attribute that is kept."""
    body = {"case:concept:name": f"big-{draw.u}", "concept:name": "big", "time:timestamp": "2024-01-01T00:00:00+00:00"}
    large = ({"case:amount": 2**200}, {"amount": -(2**90)}, {"amount": {"of": [2**63]}})
    send(world, [(0, json.dumps({**body, **one}).encode()) for one in large])


@kind("aborted-transaction", "what was aborted is no event")
def _(world: World, draw: Draw) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=world.site.bootstrap, transactional_id=f"chaos-{secrets.token_hex(4)}")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        body = {"case:concept:name": "aborted", "concept:name": "aborted", "time:timestamp": "2024-01-01T00:00:00Z"}
        producer.send(world.site.topic, json.dumps(body).encode(), partition=int(draw.u * PARTITIONS)).get(timeout=20)
        producer.abort_transaction()
    finally:
        producer.close(timeout=10)


@kind("repeated-deltas")
def _(world: World, draw: Draw) -> None:
    """Write recorded deltas to the topic once more, as a producer's retry across its own restart does."""
    deltas = [
        value for _, _, value in world.site.records(topic_of(world, "delta")) if value and b'"delta"' in value[:40]
    ]
    send(world, [(0, value) for value in deltas[int(draw.u * len(deltas)) :][:20]], topic_of(world, "delta"))
