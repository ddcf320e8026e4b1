"""Topics: what veilstream needs, created by admin and never by the broker on demand, and checked before a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connectors.kafka.faults import explained
from connectors.kafka.source import Source
from models.errors import InputError

KINDS = ("delta", "ledger", "releases", "released-events", "dlq")
FOR_EVER = -1
KEEPING = ("cleanup.policy", "retention.ms", "retention.bytes")


@dataclass(frozen=True, slots=True)
class Plan:
    """A topic as it should be; None leaves a setting to the broker. `irreplaceable`: it must not lose a record."""

    name: str
    partitions: int | None
    config: Mapping[str, str] = field(default_factory=dict)
    irreplaceable: bool = False


class Problem(NamedTuple):
    """One thing that is not as it should be. `fatal`: with it the daemon would lose the order or the ledger."""

    text: str
    fatal: bool


def topic(process: str, kind: str) -> str:
    """`veilstream.<process>.<kind>`."""
    return f"veilstream.{process}.{kind}"


def plans(process: str, source: Source) -> list[Plan]:
    """The five topics of a process. `delta` and `ledger` are total orders: exactly one partition each."""
    retention = {
        "delta": int(source.delta_retention * 1000),
        "ledger": FOR_EVER,
        "releases": FOR_EVER,
        "released-events": int(source.released_retention * 1000),
        "dlq": int(source.delta_retention * 1000),
    }
    return [Plan(topic(process, kind), 1, _config(retention[kind], source), kind == "ledger") for kind in KINDS]


def _config(retention_ms: int, source: Source) -> dict[str, str]:
    config = {"cleanup.policy": "delete", "retention.ms": str(retention_ms), "retention.bytes": "-1"}
    # A broker refuses records that are stamped an hour ahead of it: a host whose clock is set wrongly would stop.
    config["message.timestamp.type"] = "LogAppendTime"
    if source.min_isr is not None:
        config["min.insync.replicas"] = str(source.min_isr)
    return config


@contextmanager
def admin(source: Source, timeout: float = 20.0) -> Iterator[Any]:
    """A kafka-python admin client; a broker that is away or refuses us is one clear line."""
    from kafka.admin import KafkaAdminClient

    with explained(source):
        client = KafkaAdminClient(
            bootstrap_servers=source.servers,
            client_id="veilstream-admin",
            request_timeout_ms=int(timeout * 1000),
            bootstrap_timeout_ms=int(timeout * 1000),
            **source.security.kafka_python(),
        )
        try:
            yield client
        finally:
            client.close()


def create(client: Any, wanted: Sequence[Plan], source: Source) -> list[str]:
    """Create what is missing; the names created. What exists is never changed (`check` says what differs)."""
    from kafka.admin import NewTopic

    present = set(client.list_topics())
    missing = [plan for plan in wanted if plan.name not in present]
    new = [
        NewTopic(plan.name, plan.partitions or -1, source.replication, topic_configs=dict(plan.config))
        for plan in missing
    ]
    if new:
        client.create_topics(new, wait_for_metadata=True)
    return [plan.name for plan in missing]


def check(client: Any, wanted: Sequence[Plan]) -> list[Problem]:
    """What is wrong: a missing topic, another number of partitions, another retention."""
    present = set(client.list_topics())
    problems = [
        Problem(f"topic {plan.name}: missing; run `veilstream topics create`", fatal=True)
        for plan in wanted
        if plan.name not in present
    ]
    there = [plan for plan in wanted if plan.name in present]
    if there:
        counts, configs = partitions(client, [plan.name for plan in there]), _configs(client, there)
        for plan in there:
            problems += _differences(plan, counts[plan.name], configs.get(plan.name, {}))
    return problems


def _differences(plan: Plan, count: int, config: Mapping[str, str]) -> Iterator[Problem]:
    if plan.partitions is not None and count != plan.partitions:
        yield Problem(
            f"topic {plan.name}: {count} partitions, must be {plan.partitions}: records would have no total order; "
            "delete it and run `veilstream topics create`",
            fatal=True,
        )
    for key, value in plan.config.items():
        if key in config and config[key] != value:
            fatal = plan.irreplaceable and key in KEEPING
            yield Problem(f"topic {plan.name}: {key} = {config[key]}, must be {value}", fatal)


def partitions(client: Any, names: Sequence[str]) -> dict[str, int]:
    """Number of partitions of each topic; InputError names a missing one."""
    if not names:
        return {}
    found: dict[str, int] = {}
    for entry in client.describe_topics(list(names)):
        found[entry["name"]] = len(entry["partitions"])
    for name in names:
        if not found.get(name):
            raise InputError(
                f"topic {name}: missing on the broker; run `veilstream topics create`, or correct the name"
            )
    return found


def require(source: Source, names: Sequence[str]) -> None:
    """InputError where one of the topics is missing: a producer would wait for it for a minute, and then take the
    broker for one that is away."""
    with admin(source) as client:
        partitions(client, names)


def set_group_back(client: Any, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set a consumer group to an offset of each (topic, partition); InputError while it has members."""
    from kafka import TopicPartition
    from kafka.errors import NoError
    from kafka.structs import OffsetAndMetadata

    wanted = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
    refused = [error for error in client.alter_group_offsets(group, wanted).values() if error is not NoError]
    if refused:
        raise InputError(f"the ingest group cannot be set back ({refused[0].__name__}): stop its workers first")


def _configs(client: Any, wanted: Sequence[Plan]) -> dict[str, dict[str, str]]:
    from kafka.admin import ConfigResource, ConfigResourceType

    resources = [ConfigResource(ConfigResourceType.TOPIC, plan.name, dict.fromkeys(plan.config)) for plan in wanted]
    answer = client.describe_configs(resources, config_filter="all")
    return {
        name: {key: str(item["value"]) for key, item in items.items()}
        for by_name in answer.values()
        for name, items in by_name.items()
    }
