"""Topics and permissions (ACLs) that a process needs.

An administrator creates the topics, never the broker on demand, and each start checks them.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

from connectors.kafka.faults import NOT_ALLOWED, explained
from connectors.kafka.source import Source
from models.errors import InputError, VeilstreamError

KINDS = ("delta", "ledger", "releases", "released-events", "dlq", "status")
FOR_EVER = -1
KEEPING = ("cleanup.policy", "retention.ms", "retention.bytes")
COMPRESSION = "compression.type"
RECORD_BYTES = "max.message.bytes"
LARGEST_RECORD = 1_048_576
"""Bytes of the largest record that the producers send (their `max_request_size`); Kafka's default allows it.

If a broker allows less, the first large delta ends ingest, or a large entry of the ledger the coordinator.
"""
CODECS = {
    "gzip": (),
    "snappy": ("cramjam", "snappy"),
    "lz4": ("cramjam", "lz4"),
    "zstd": ("cramjam", "zstandard"),
}
"""Codec of record batches -> the modules by which aiokafka (cramjam) and kafka-python decode it. With
`compression.type = producer` a topic may hold all of them."""

Role = Literal["ingest", "coordinator", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)

CHECKED = ("Describe", "DescribeConfigs")
"""Checks of a topic at each start: that it exists, its partitions, and how long it keeps its records."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic as it should be.

    Parameters
    ----------
    name
        Name of the topic.
    partitions
        Number of partitions; None leaves it to the broker.
    config
        Settings that it must have.
    irreplaceable
        Whether it must not lose a record.
    optional
        Whether the daemon works without it. Brokers that an earlier program prepared lack it.
    """

    name: str
    partitions: int | None
    config: Mapping[str, str] = field(default_factory=dict)
    irreplaceable: bool = False
    optional: bool = False


class TopicProblem(NamedTuple):
    """A property of a topic that is not as it should be.

    Parameters
    ----------
    text
        One line for people.
    fatal
        Whether the daemon would lose the order or the ledger with it.
    forbidden
        Whether the broker does not let us look. An administrator of the broker changes that, not the configuration.
    resource
        The topic or group that lacks a permission, also if the daemon works without it; empty for other problems.
    """

    text: str
    fatal: bool
    forbidden: bool = False
    resource: str = ""


def topic(process: str, kind: str) -> str:
    """Return the name of a topic, `veilstream.<process>.<kind>`.

    Parameters
    ----------
    process
        Name of the process.
    kind
        Kind of the topic, such as `delta` or `ledger`.
    """
    return f"veilstream.{process}.{kind}"


def group(process: str, role: str) -> str:
    """Return the consumer group of a role.

    It contains the name of the process, so two processes never share offsets.

    Parameters
    ----------
    process
        Name of the process.
    role
        Role of the consumer.
    """
    return f"veilstream.{process}.{role}"


def plans(process: str, source: Source) -> list[TopicPlan]:
    """Return the topics of a process. `delta` and `ledger` are total orders: exactly one partition each.

    `status` is compacted: it keeps the last status, however old.

    Parameters
    ----------
    process
        Name of the process.
    source
        Configuration of the broker, with retention in seconds.
    """
    retention = {
        "delta": int(source.delta_retention * 1000),
        "ledger": FOR_EVER,
        "releases": FOR_EVER,
        "released-events": int(source.released_retention * 1000),
        "dlq": int(source.delta_retention * 1000),
    }
    kept = [
        TopicPlan(topic(process, kind), 1, _config(time_ms, source), kind == "ledger")
        for kind, time_ms in retention.items()
    ]
    compacted = {**_common_config(source), "cleanup.policy": "compact"}
    return [*kept, TopicPlan(topic(process, "status"), 1, compacted, optional=True)]


def _config(retention_ms: int, source: Source) -> dict[str, str]:
    kept = {"cleanup.policy": "delete", "retention.ms": str(retention_ms), "retention.bytes": "-1"}
    return kept | _common_config(source)


def _common_config(source: Source) -> dict[str, str]:
    config = {}
    # A broker refuses records that are stamped an hour ahead of it: a host whose clock is set wrongly would stop.
    config["message.timestamp.type"] = "LogAppendTime"
    # As this program writes them, whatever the broker's default is: other readers need no codec then.
    config[COMPRESSION] = "producer"
    if source.min_isr is not None:
        config["min.insync.replicas"] = str(source.min_isr)
    return config


ADMIN_TIMEOUT_MS = 20_000
"""Wait for an answer of the broker. A broker that takes longer is reported as away."""


@contextmanager
def admin(source: Source) -> Iterator[Any]:
    """Open a kafka-python admin client; a broker that is away or refuses us is one clear line.

    Parameters
    ----------
    source
        Configuration of the broker.

    Raises
    ------
    UnavailableError, InputError
        As `connectors.kafka.faults.fault` makes them.
    """
    from kafka.admin import KafkaAdminClient

    with explained(source):
        client = KafkaAdminClient(
            bootstrap_servers=source.servers,
            client_id="veilstream-admin",
            request_timeout_ms=ADMIN_TIMEOUT_MS,
            bootstrap_timeout_ms=ADMIN_TIMEOUT_MS,
            **source.security.kafka_python(),
        )
        try:
            yield client
        finally:
            client.close()


def create(client: Any, planned_topics: Sequence[TopicPlan], source: Source) -> list[str]:
    """Create missing topics and return their names. Existing ones are never changed (`check` reports differences).

    Parameters
    ----------
    client
        The admin client.
    planned_topics
        The topics, with their partitions and settings.
    source
        The configuration of the source.
    """
    from kafka.admin import NewTopic

    counts = _counts(client, [plan.name for plan in planned_topics])
    missing = [plan for plan in planned_topics if counts[plan.name] is None]
    new = [
        NewTopic(plan.name, plan.partitions or -1, source.replication, topic_configs=dict(plan.config))
        for plan in missing
    ]
    if new:
        client.create_topics(new, wait_for_metadata=True)
    return [plan.name for plan in missing]


def check(client: Any, planned_topics: Sequence[TopicPlan]) -> list[TopicProblem]:
    """Return what is wrong: missing topics, other numbers of partitions or settings, and what we may not look at.

    A missing permission never counts as a passed check.

    Parameters
    ----------
    client
        An admin client.
    planned_topics
        Topics of the process.
    """
    problems: list[TopicProblem] = []
    counts: dict[str, int] = {}
    for plan in planned_topics:
        try:
            count = _counts(client, [plan.name])[plan.name]
        except VeilstreamError as error:
            is_needed = not plan.optional
            problems.append(TopicProblem(str(error), fatal=is_needed, forbidden=is_needed, resource=plan.name))
            continue
        if count is None:
            text = f"topic {plan.name}: missing; run `veilstream topics create`"
            problems.append(TopicProblem(text, fatal=not plan.optional))
        else:
            counts[plan.name] = count
    existing = [plan for plan in planned_topics if plan.name in counts]
    configs = _configs(client, existing) if existing else {}
    for plan in existing:
        config = configs.get(plan.name, {})
        unread = sorted({*plan.config, COMPRESSION} - config.keys())
        if unread:
            text = f"topic {plan.name}: its configuration ({', '.join(unread)}) cannot be read: {NOT_ALLOWED}"
            is_needed = not plan.optional
            problems.append(TopicProblem(text, fatal=is_needed, forbidden=is_needed, resource=plan.name))
        problems += _differences(plan, counts[plan.name], config)
    return problems


def _differences(plan: TopicPlan, count: int, config: Mapping[str, str]) -> Iterator[TopicProblem]:
    if plan.partitions is not None and count != plan.partitions:
        yield TopicProblem(
            f"topic {plan.name}: {count} partitions, must be {plan.partitions}: records would have no total order; "
            "delete it and run `veilstream topics create`",
            fatal=True,
        )
    yield from _undecodable(plan, config.get(COMPRESSION, "producer"))
    allowed_bytes = config.get(RECORD_BYTES, "")
    is_source = not plan.config  # others write it
    if not is_source and allowed_bytes.isdecimal() and int(allowed_bytes) < LARGEST_RECORD:
        # Records are smaller on a quiet day, so this does not end a daemon that works.
        required = f"must be at least {LARGEST_RECORD}: larger records stop the daemon"
        yield TopicProblem(f"topic {plan.name}: {RECORD_BYTES} = {allowed_bytes}, {required}", fatal=False)
    for key, value in plan.config.items():
        if key != COMPRESSION and key in config and config[key] != value:
            fatal = plan.irreplaceable and key in KEEPING
            yield TopicProblem(f"topic {plan.name}: {key} = {config[key]}, must be {value}", fatal)


def _undecodable(plan: TopicPlan, compression: str) -> Iterator[TopicProblem]:
    """Yield codecs that a topic may hold and this installation cannot decode. Fatal if it holds no other."""
    possible = CODECS if compression == "producer" else {compression} & CODECS.keys()
    lacking = [codec for codec in possible if codec not in decodable()]
    if lacking:
        yield TopicProblem(
            f"topic {plan.name}: {COMPRESSION} = {compression}, which this installation cannot decode "
            f"({', '.join(lacking)}); install veilstream with its dependencies: cramjam, lz4, python-snappy, zstandard",
            fatal=compression != "producer",
        )


def decodable() -> frozenset[str]:
    """Return the codecs that both clients of this installation can decode."""
    return frozenset(codec for codec, modules in CODECS.items() if all(map(find_spec, modules)))


def partitions(client: Any, names: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of each topic.

    Parameters
    ----------
    client
        An admin client.
    names
        Names of topics.

    Raises
    ------
    InputError
        If a topic is missing.
    VeilstreamError
        If the broker does not let us see one.
    """
    counts: dict[str, int] = {}
    for name, count in _counts(client, names).items():
        if count is None:
            raise InputError(
                f"topic {name}: missing on the broker; run `veilstream topics create`, or correct the name"
            )
        counts[name] = count
    return counts


def _counts(client: Any, names: Sequence[str]) -> dict[str, int | None]:
    """Return the number of partitions of each topic, None for one that does not exist.

    VeilstreamError if the broker does not let us see one. The question names each topic: in a list of all, one that
    we may not see would look like a missing one.
    """
    from kafka import errors

    if not names:
        return {}
    counts: dict[str, int | None] = dict.fromkeys(names)
    for entry in client.describe_topics(list(names)):
        if errors.for_code(entry["error_code"]) is errors.TopicAuthorizationFailedError:
            raise VeilstreamError(f"topic {entry['name']}: cannot be described: {NOT_ALLOWED}")
        counts[entry["name"]] = len(entry["partitions"]) or None
    return counts


def require(source: Source, names: Sequence[str]) -> None:
    """Check that topics exist.

    A producer would wait for a missing topic for a minute, and then take the broker for one that is away.

    Parameters
    ----------
    source
        Configuration of the broker.
    names
        Names of topics.

    Raises
    ------
    InputError
        If one of the topics is missing.
    """
    with admin(source) as client:
        partitions(client, names)


def set_group_back(client: Any, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set a consumer group to an offset of each (topic, partition).

    Parameters
    ----------
    client
        An admin client.
    group
        Name of the consumer group.
    offsets
        Next offset to read, by topic and partition.

    Raises
    ------
    InputError
        If the group has members.
    """
    from kafka import TopicPartition
    from kafka.errors import NoError
    from kafka.structs import OffsetAndMetadata

    new_offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
    answers = client.alter_group_offsets(group, new_offsets)
    refused = [error for error in answers.values() if error is not NoError]
    if refused:
        raise InputError(f"the ingest group cannot be set back ({refused[0].__name__}): stop its workers first")


def _configs(client: Any, planned_topics: Sequence[TopicPlan]) -> dict[str, dict[str, str]]:
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = {plan.name: dict.fromkeys((*plan.config, COMPRESSION, RECORD_BYTES)) for plan in planned_topics}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, asked) for name, asked in keys.items()]
    answer = client.describe_configs(resources, config_filter="all")
    return {
        name: {key: str(item["value"]) for key, item in items.items()}
        for by_name in answer.values()
        for name, items in by_name.items()
    }


@dataclass(frozen=True, slots=True)
class Permission:
    """Operations on resources of one kind, in the words of kafka-acls.sh.

    Attributes
    ----------
    kind
        Kind of the resources.
    names
        Their names.
    operations
        Operations such as `Read` and `Write`.
    """

    kind: Literal["topic", "group", "transactional-id"]
    names: tuple[str, ...]
    operations: tuple[str, ...]

    def command(self, bootstrap: str, principal: str) -> str:
        """Return the command line of kafka-acls.sh that gives this permission.

        Parameters
        ----------
        bootstrap
            Addresses of the brokers.
        principal
            Principal that gets the permission, such as `User:veilstream`.
        """
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]
        for operation in self.operations:
            words += ["--operation", operation]
        for name in self.names:
            words += [f"--{self.kind}", name]
        return shlex.join(words)


def permissions(process: str, source: Source, role: Role) -> list[Permission]:
    """Return what a role needs.

    `ingest` reads the source topics; `coordinator` folds, releases and announces; `operator` creates and checks topics
    and sends commands (`veilstream topics`, `release`, `gap`, `publish`, ...).

    Parameters
    ----------
    process
        Name of the process.
    source
        Configuration of the broker.
    role
        The role.
    """
    permissions_of = {"ingest": _ingest, "coordinator": _coordinator, "operator": _operator}
    return list(permissions_of[role](process, source))


def _ingest(process: str, source: Source) -> Iterator[Permission]:
    yield Permission("topic", source.topics, ("Read", *CHECKED))
    # It reads the delta topic to find out whether a partition that lost its begin was known before.
    yield Permission("topic", (topic(process, "delta"),), ("Read", "Write", *CHECKED))
    yield Permission("topic", (topic(process, "dlq"),), ("Write", *CHECKED))
    yield Permission("topic", _names(process, "ledger", "releases", "released-events", "status"), CHECKED)
    yield Permission("group", (group(process, "ingest"),), ("Read", "Describe"))


def _coordinator(process: str, source: Source) -> Iterator[Permission]:
    yield Permission("topic", source.topics, CHECKED)
    yield Permission("topic", _names(process, "delta", "ledger"), ("Read", "Write", *CHECKED))
    yield Permission("topic", _names(process, "releases", "released-events", "dlq", "status"), ("Write", *CHECKED))
    yield Permission("group", (group(process, "coordinator"),), ("Read", "Describe"))
    # The ledger's transactions: opening them fences the previous coordinator.
    yield Permission("transactional-id", (topic(process, "ledger"),), ("Write", "Describe"))


def _operator(process: str, source: Source) -> Iterator[Permission]:
    # Read and the group: `gap rewind` sets the group of ingest back.
    yield Permission("topic", source.topics, ("Create", "Read", "Write", *CHECKED))
    yield Permission("topic", (topic(process, "delta"),), ("Create", "Read", "Write", *CHECKED))
    # Read: `release --wait` follows the ledger, and `status --bootstrap` reads the status.
    yield Permission("topic", _names(process, "ledger", "status"), ("Create", "Read", *CHECKED))
    yield Permission("topic", _names(process, "releases", "released-events"), ("Create", *CHECKED))
    # `dlq list` reads the letters; `dlq replay` sends records and its notes in one transaction.
    yield Permission("topic", (topic(process, "dlq"),), ("Create", "Read", "Write", *CHECKED))
    yield Permission("transactional-id", (topic(process, "dlq"),), ("Write", "Describe"))
    yield Permission("group", (group(process, "ingest"),), ("Read", "Describe"))


def _names(process: str, *kinds: str) -> tuple[str, ...]:
    """Return the names of some topics of the process, in the order of `KINDS`."""
    return tuple(topic(process, kind) for kind in KINDS if kind in kinds)


def check_permissions(client: Any, process: str, source: Source, role: Role) -> list[TopicProblem]:
    """Return the permissions to read, write and join that a role needs and does not have.

    Each costs nothing to ask for and much to miss: a client waits without a word for a group that it may not join, and
    a topic that it may not write ends the process at the first record, which can be weeks after the start. `check` asks
    for the other permissions.

    Parameters
    ----------
    client
        An admin client.
    process
        Name of the process.
    source
        Configuration of the broker.
    role
        The role.

    Returns
    -------
    list of TopicProblem
        Fatal ones are needed from the first minute. Empty on a broker that does not report what it allows.
    """
    problems: list[TopicProblem] = []
    for permission in permissions(process, source, role):
        operations = [operation for operation in permission.operations if operation in ("Read", "Write")]
        if permission.kind == "topic" and operations:
            allowed = _allowed_on_topics(client, permission.names)
        elif permission.kind == "group":
            allowed = {name: _allowed_on_group(client, name) for name in permission.names}
        else:  # Brokers do not report what they allow on a transactional id.
            continue
        for name, operation in product(permission.names, operations):
            allowed_operations = allowed.get(name)
            if allowed_operations is None or operation.upper() in allowed_operations:
                continue
            always = operation == "Read" or name in _always_written(process, role)
            verb = "joined" if permission.kind == "group" else {"Read": "read", "Write": "written"}[operation]
            text = f"{permission.kind} {name}: cannot be {verb}: {NOT_ALLOWED}"
            problems.append(TopicProblem(text, fatal=always, forbidden=always, resource=name))
    return problems


def _always_written(process: str, role: Role) -> tuple[str, ...]:
    """Return the topics that a role cannot do without; it writes to the others only in some situations."""
    kinds = {"ingest": ("delta",), "coordinator": ("ledger", "releases"), "operator": ()}[role]
    return _names(process, *kinds)


def _allowed_on_topics(client: Any, names: Sequence[str]) -> dict[str, Collection[str] | None]:
    """Return the operations (such as "READ") that the broker allows on each topic; None if it does not say so."""
    descriptions = client.describe_topics(list(names))
    return {topic["name"]: topic.get("authorized_operations") for topic in descriptions}


def _allowed_on_group(client: Any, name: str) -> Collection[str] | None:
    """Return the operations that the broker allows on a group; None if it does not say so.

    A group that does not exist yet has none, unless the broker does not even let us ask.
    """
    from kafka import errors

    try:
        described = client.describe_groups([name])[name]
    except errors.GroupAuthorizationFailedError:
        return ()
    except errors.KafkaError:
        return None  # Brokers that have just started do not know the group's coordinator yet; the client waits for it.
    if "GroupAuthorizationFailedError" in (described["error"] or ""):
        return ()
    allowed: Collection[str] | None = described.get("authorized_operations")
    return allowed


def acl_commands(needed_permissions: Sequence[Permission], source: Source, principal: str) -> list[str]:
    """Return the command lines of kafka-acls.sh, one for each permission.

    Parameters
    ----------
    needed_permissions
        Permissions of a role.
    source
        Configuration of the broker.
    principal
        Principal that gets them, such as `User:veilstream`.
    """
    return [permission.command(source.bootstrap, principal) for permission in needed_permissions]
