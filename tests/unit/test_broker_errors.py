"""Errors of a Kafka client that pass with time, and those of the configuration."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from aiokafka import errors as aiokafka_errors
from kafka import errors

from connectors.kafka import topics
from connectors.kafka.faults import FailedConnections, explained, fault, may_pass, not_allowed, of_the_client, too_large
from connectors.kafka.source import Source
from connectors.kafka.topics import TopicPlan, check, check_permissions, plans, set_group_back
from models.errors import InputError, UnavailableError, VeilstreamError
from stream.commands import execute
from stream.daemon import faust_consumer
from stream.daemon.partition_reader import poll_records

SOURCE = Source(topics=("events",), bootstrap="127.0.0.1:9092")


@pytest.mark.parametrize(
    "error",
    [
        errors.KafkaConnectionError,
        errors.KafkaTimeoutError,
        errors.UnknownBrokerIdError,
        errors.NodeNotReadyError,
        errors.NotLeaderForPartitionError,
    ],
)
def test_a_broker_that_is_just_starting_again_is_away(error: type[errors.KafkaError]) -> None:
    """Exit code 1: a service manager starts the process again. With 2 it would stay down for good."""
    assert fault(error(), SOURCE).exit_code == 1


@pytest.mark.parametrize(
    "error",
    [errors.SaslAuthenticationFailedError, errors.UnknownTopicOrPartitionError],
)
def test_what_a_person_has_to_mend_is_no_matter_of_time(error: type[errors.KafkaError]) -> None:
    assert fault(error(), SOURCE).exit_code == 2


def test_a_missing_permission_is_neither_a_missing_topic_nor_a_fault_of_the_configuration() -> None:
    """Granting the permission repairs the broker: the process is started again and continues."""
    refused = fault(errors.TopicAuthorizationFailedError(), SOURCE)
    assert refused.exit_code == 1
    assert "topic: the broker does not allow it" in str(refused)


def test_a_transaction_that_fails_states_the_error_of_its_request() -> None:
    """`dlq replay` without Write on the source topic ended with "KafkaError", as if the configuration was wrong."""
    text = "Cannot perform send because at least one previous request has failed with errors."
    refused = fault(errors.KafkaError(text, errors.TopicAuthorizationFailedError({"p.events"})), SOURCE)
    assert refused.exit_code == 1
    assert str(refused) == f"broker {SOURCE.bootstrap}: {not_allowed(errors.TopicAuthorizationFailedError('p.events'))}"
    assert fault(errors.KafkaError(text, errors.KafkaTimeoutError()), SOURCE).exit_code == 1
    assert fault(errors.KafkaError(text), SOURCE).exit_code == 2


def test_a_topic_that_may_not_be_read_is_named() -> None:
    """A command that reads several topics would leave open which permission is missing."""

    def refuse(timeout_ms: int) -> None:
        raise errors.TopicAuthorizationFailedError

    consumer = SimpleNamespace(poll=refuse)
    with pytest.raises(
        VeilstreamError, match=r"topic p\.status: cannot be read: the broker does not allow it"
    ) as raised:
        poll_records(consumer, SimpleNamespace(topic="p.status"))
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (aiokafka_errors.TopicAuthorizationFailedError("p.events"), "topic p.events: "),
        (errors.TopicAuthorizationFailedError({"p.ledger", "p.delta"}), "topic p.delta, p.ledger: "),
        (aiokafka_errors.GroupAuthorizationFailedError("p.ingest"), "group p.ingest: "),
        (errors.TransactionalIdAuthorizationFailedError(), "transactional id: "),
        (aiokafka_errors.TransactionalIdAuthorizationFailed(), "transactional id: "),
        (errors.TopicAuthorizationFailedError("Vera has a cold"), "topic: "),
        (errors.TopicAuthorizationFailedError(7), "topic: "),
    ],
)
def test_a_missing_permission_names_its_resource_and_the_way_out(error: Exception, place: str) -> None:
    """The clients name topics and groups in their errors; other texts of an error are not shown."""
    line = "the broker does not allow it; `veilstream topics acls` prints the permissions that are needed"
    assert str(not_allowed(error)) == place + line


def test_only_a_missing_permission_is_one() -> None:
    assert not_allowed(errors.KafkaTimeoutError("p.events")) is None


class _Guarded:
    """An admin client of a broker that allows some operations on each topic and group."""

    def __init__(self, topics: dict[str, Any], group: object) -> None:
        self.topics, self.group = topics, group

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        everything = ["READ", "WRITE"]
        return [{"name": name, "authorized_operations": self.topics.get(name, everything)} for name in names]

    def describe_groups(self, names: list[str]) -> dict[str, Any]:
        if isinstance(self.group, Exception):
            raise self.group
        return dict.fromkeys(names, self.group)


JOINED = {"authorized_operations": ["READ", "DESCRIBE"], "error": None}


@pytest.mark.parametrize(
    ("role", "topics", "group", "problems"),
    [
        ("ingest", {}, JOINED, []),
        ("ingest", {"events": None}, {"authorized_operations": None, "error": "[Error 69] not found"}, []),
        ("ingest", {}, errors.CoordinatorNotAvailableError(), []),
        ("ingest", {"events": ["DESCRIBE"]}, JOINED, [("topic events: cannot be read", True)]),
        ("ingest", {"veilstream.p.dlq": []}, JOINED, [("topic veilstream.p.dlq: cannot be written", False)]),
        ("ingest", {"veilstream.p.delta": ["READ"]}, JOINED, [("topic veilstream.p.delta: cannot be written", True)]),
        (
            "ingest",
            {},
            JOINED | {"authorized_operations": ["DESCRIBE"]},
            [("group veilstream.p.ingest: cannot be joined", True)],
        ),
        ("ingest", {}, errors.GroupAuthorizationFailedError(), [("group veilstream.p.ingest: cannot be joined", True)]),
        (
            "ingest",
            {},
            {"authorized_operations": None, "error": str(errors.GroupAuthorizationFailedError())},
            [("group veilstream.p.ingest: cannot be joined", True)],
        ),
        (
            "coordinator",
            {"veilstream.p.releases": [], "veilstream.p.released-events": [], "events": []},
            JOINED,
            [
                ("topic veilstream.p.releases: cannot be written", True),
                ("topic veilstream.p.released-events: cannot be written", False),
            ],
        ),
    ],
    ids=[
        "all",
        "nothing-reported",
        "young-broker",
        "source",
        "dlq",
        "delta",
        "group",
        "no-group",
        "no-look",
        "releases",
    ],
)
def test_a_start_names_what_the_broker_does_not_let_a_role_do(
    role: Literal["ingest", "coordinator"], topics: dict[str, Any], group: object, problems: list[tuple[str, bool]]
) -> None:
    """A permission that is always needed is fatal; a letter or a stream of events may never be written."""
    found = check_permissions(_Guarded(topics, group), "p", SOURCE, role)
    assert [(problem.text.split(": the broker does not allow it; ")[0], problem.fatal) for problem in found] == problems
    assert all(problem.forbidden == problem.fatal for problem in found)


def test_the_check_names_a_hidden_topic_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that may not be seen may not be read either: two lines would look like two faults."""
    names = {kind: f"veilstream.p.{kind}" for kind in ("ledger", "dlq", "status", "delta")}
    hidden, unread = {names["dlq"], names["status"]}, {names["delta"]}

    class Admin(_Guarded):
        def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            return [
                {**entry, "error_code": 29 if entry["name"] in hidden else 0, "partitions": [0]}
                for entry in super().describe_topics(names)
            ]

        def describe_configs(self, resources: Any, **_: Any) -> dict[str, Any]:
            planned = {plan.name: plan.config for plan in plans("p", SOURCE)}
            settings = {resource.name: planned.get(resource.name, {}) for resource in resources}
            settings[names["ledger"]] = {**settings[names["ledger"]], "retention.ms": "5"}
            values = {name: {"compression.type": "producer", **config} for name, config in settings.items()}
            return {"topic": {name: {key: {"value": config[key]} for key in config} for name, config in values.items()}}

    admin = Admin({name: [] for name in (*hidden, *unread, names["ledger"])}, JOINED)
    monkeypatch.setattr(topics, "admin", lambda source: nullcontext(admin))
    path = tmp_path / "veilstream.toml"
    path.write_text(
        '[process]\nname = "p"\n[source]\ntopics = ["events"]\n[[publication]]\nname = "r"\n'
        'window = { manual = true }\nmechanism = { kind = "identity" }\n',
        encoding="utf-8",
    )
    assert execute(["topics", "check", "-c", str(path), "--json"]) == 1
    problems = [problem.split("; ")[0] for problem in json.loads(capsys.readouterr().out)["problems"]]
    assert sorted(problems) == [
        "topic veilstream.p.delta: cannot be read: the broker does not allow it",
        "topic veilstream.p.dlq: cannot be described: the broker does not allow it",
        "topic veilstream.p.ledger: cannot be read: the broker does not allow it",
        "topic veilstream.p.ledger: retention.ms = 5, must be -1",
        "topic veilstream.p.status: cannot be described: the broker does not allow it",
    ]


def test_a_client_s_error_is_raised_as_ours_and_others_pass() -> None:
    """Users of a client need none of its error classes."""
    with pytest.raises(UnavailableError, match="no broker answers us"), explained(SOURCE):
        raise errors.KafkaConnectionError()
    with pytest.raises(KeyError), explained(SOURCE):
        raise KeyError("ours")


def test_what_the_publisher_asks_of_an_error() -> None:
    """A record too large is reported without its events; a broker that is away ends the process; a fault of our own is
    no error of the client."""
    asked = (of_the_client, may_pass, too_large)
    assert [ask(errors.MessageSizeTooLargeError()) for ask in asked] == [True, False, True]
    assert [ask(errors.NotLeaderForPartitionError()) for ask in asked] == [True, True, False]
    assert [ask(ValueError()) for ask in asked] == [False, False, False]


class _Group:
    """An admin client whose group has members, or none."""

    def __init__(self, answer: object) -> None:
        self.answer, self.set = answer, {}

    def alter_group_offsets(self, group: str, offsets: dict[Any, Any]) -> dict[Any, Any]:
        self.set = {(group, *place): asked.offset for place, asked in offsets.items()}
        return dict.fromkeys(offsets, self.answer)


def test_a_group_is_set_back_while_it_has_no_members() -> None:
    """The broker says it for each partition; the first refusal is reported."""
    idle, busy = _Group(errors.NoError), _Group(errors.UnknownMemberIdError)
    set_group_back(idle, "group", {("events", 0): 7, ("events", 1): 9})
    assert idle.set == {("group", "events", 0): 7, ("group", "events", 1): 9}
    with pytest.raises(InputError, match=r"cannot be set back \(UnknownMemberIdError\)"):
        set_group_back(busy, "group", {("events", 0): 7})


def test_a_broker_that_fails_while_it_is_asked_for_a_record_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker waits for its progress check, and the consumer is closed."""
    closed = []

    class Away:
        def __init__(self, **_: object) -> None: ...

        def assign(self, _places: object) -> None:
            raise errors.KafkaConnectionError()

        def close(self, *, autocommit: bool) -> None:
            closed.append(autocommit)

    monkeypatch.setattr(faust_consumer, "KafkaConsumer", Away)
    with pytest.raises(TimeoutError, match="events/0: cannot be read at offset 3"):
        faust_consumer.first_record(SOURCE, faust_consumer.TP("events", 0), 3, 9)
    assert closed == [False]


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (
            [errors.KafkaConnectionError("refused"), errors.KafkaConnectionError("Handshake failed:\n[SSL] EOF")],
            "no broker answers us (KafkaTimeoutError), the last connection failed: Handshake failed: [SSL] EOF; check ",
        ),
        ([errors.KafkaTimeoutError("Vera's topic")], "no broker answers us (KafkaTimeoutError); check "),
        ([], "no broker answers us (KafkaTimeoutError); check "),
        (
            [errors.SaslAuthenticationFailedError("Vera"), errors.KafkaConnectionError("socket disconnected")],
            "broker 127.0.0.1:9092: refuses the credentials of source.security",
        ),
    ],
    ids=["last-connection", "no-connection", "nothing-logged", "wrong-password"],
)
def test_the_line_of_a_silent_broker_says_why_connections_failed(failed: list[errors.KafkaError], line: str) -> None:
    """The client raises a timeout, and only its log has the cause, earlier and among other lines."""

    def connect() -> None:
        client_log = logging.getLogger("kafka.net.manager")
        for error in failed:
            client_log.error("Connection failed: %s", error)
        client_log.error("Bootstrap failed")
        raise errors.KafkaTimeoutError("Unable to bootstrap")

    with pytest.raises(UnavailableError) as raised, explained(SOURCE):
        connect()
    assert line in str(raised.value)
    assert "Vera" not in str(raised.value)
    assert not any(isinstance(handler, FailedConnections) for handler in logging.getLogger("kafka").handlers)


@pytest.mark.parametrize("protocol", ["sasl_ssl", "ssl"])
def test_a_closed_connection_may_be_a_wrong_password(protocol: Literal["sasl_ssl", "ssl"]) -> None:
    """After a password was changed, the client mostly reports a closed connection: its log has no other cause."""
    login = {"mechanism": "SCRAM-SHA-512", "username": "vera", "password": "x"} if protocol == "sasl_ssl" else {}
    source = Source.model_validate({"topics": ["t"], "security": {"protocol": protocol, **login}})
    closed = errors.KafkaConnectionError("socket disconnected")
    said = str(fault(errors.KafkaTimeoutError(), source, closed))
    assert ("(as by a broker that refuses user or password); check " in said) == (protocol == "sasl_ssl")
    other = errors.KafkaConnectionError("Handshake failed")
    assert "password" not in str(fault(errors.KafkaTimeoutError(), source, other))


@pytest.mark.parametrize("error", [errors.MessageSizeTooLargeError(), aiokafka_errors.MessageSizeTooLargeError("42")])
def test_a_refused_size_names_the_setting(error: Exception) -> None:
    """Ingest ended with a stack and the name of a class, again at each start."""
    assert too_large(error)
    assert "max.message.bytes" in str(not_allowed(error))
    assert "max.message.bytes" in str(fault(error, SOURCE))
    assert fault(error, SOURCE).exit_code == 2


@pytest.mark.parametrize(("allowed", "lines"), [("1048588", 0), ("1048576", 0), ("1048575", 6), ("20000", 6)])
def test_a_topic_for_small_records_is_reported_before_a_large_one_comes(allowed: str, lines: int) -> None:
    """At each start, and by `topics check`: for our topics, and not for the sources, which others write."""
    planned = [*plans("p", SOURCE), TopicPlan("events", None)]

    class Admin:
        def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            return [{"name": name, "error_code": 0, "partitions": [0]} for name in names]

        def describe_configs(self, resources: Any, **_: Any) -> dict[str, Any]:
            values = {plan.name: {**plan.config, "compression.type": "producer"} for plan in planned}
            configs = {name: {**config, "max.message.bytes": allowed} for name, config in values.items()}
            return {
                "topic": {
                    name: {key: {"value": config[key]} for key in asked}
                    for resource in resources
                    for name, asked, config in [(resource.name, resource.configs, configs[resource.name])]
                }
            }

    problems = check(Admin(), planned)
    assert len(problems) == lines
    for problem in problems:
        assert problem.text.endswith(
            f": max.message.bytes = {allowed}, must be at least 1048576: larger records stop the daemon"
        )
        assert not problem.fatal
