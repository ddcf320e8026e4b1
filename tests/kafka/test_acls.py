"""A broker that allows what its ACLs say: those that `veilstream topics acls` prints suffice, and fewer are noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka import scenario
from tests.kafka.secure import PASSWORD, ROLES, GuardedBroker, guarded_broker
from tests.kafka.site import IDENTITY, AnyProcess, Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

HOUR = 3_600_000


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    broker = guarded_broker()
    yield broker
    broker.close()


@pytest.fixture
def one(guarded: GuardedBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A process whose commands run as the operator, and that may do nothing yet."""
    (tmp_path / "password").write_text(PASSWORD)
    security = {"protocol": "sasl_ssl", "mechanism": "SCRAM-SHA-512", "ca_file": f"{guarded.folder}/ca.pem"}
    security["password_file"] = f"{tmp_path}/password"
    lines = "\n".join(f'{key} = "{value}"' for key, value in security.items())
    monkeypatch.setenv("VEILSTREAM_SOURCE__BOOTSTRAP", guarded.sasl_bootstrap)
    monkeypatch.setenv("VEILSTREAM_SOURCE__SECURITY__USERNAME", "operator")
    site = Site(
        guarded.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ manual = true }", IDENTITY),
        source=f"[source.security]\n{lines}",
        topics=False,
    )
    yield site
    site.close()


def _start(one: Site, role: str) -> AnyProcess:
    """A daemon process under the principal of its role."""
    return one.start(role, VEILSTREAM_SOURCE__SECURITY__USERNAME=role)


def _allow(guarded: GuardedBroker, one: Site, *roles: str) -> None:
    """As an administrator does: run the printed lines, against the administrator's listener."""
    for role in roles:
        text = one.command("topics", "acls", "-c", str(one.config), "--role", role, "--principal", f"User:{role}")
        for line in text.splitlines():
            if not line.startswith("#"):
                guarded.kafka_acls(line.replace(guarded.sasl_bootstrap, guarded.bootstrap))


def _refused(one: Site, role: str, code: int) -> str:
    """Return the error of a daemon that ends at its start with an exit code, under the principal of its role."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VEILSTREAM_SOURCE__SECURITY__USERNAME", role)
        run = ("run", "--role", role, "-c", str(one.config), "-o", str(one.output(role)))
        return one.command(*run, expect=code)


def _forbid(guarded: GuardedBroker, role: str, operation: str, topic: str) -> None:
    words = f"--remove --allow-principal User:{role} --operation {operation} --topic {topic}"
    guarded.kafka_acls(f"kafka-acls.sh --bootstrap-server {guarded.bootstrap} {words}")


def _keep_for_an_hour(one: Site, topic: str) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": str(HOUR)})])
    finally:
        admin.close()


def test_the_printed_permissions_suffice(guarded: GuardedBroker, one: Site, tmp_path: Path) -> None:
    """Topics are made and checked, events come in, a release leaves, a bad record is set aside, and the group of
    ingest is set back: each role under a principal of its own."""
    _allow(guarded, one, *ROLES)
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    one.command("topics", "check", "-c", str(one.config))
    values = scenario.events(cases=10)
    ingest, coordinator = _start(one, "ingest"), _start(one, "coordinator")
    one.send(values, 0)
    one.wait(lambda: one.covered() == len(values), "every event")
    one.command("release", "-c", str(one.config))
    one.wait(lambda: len(one.json("releases")) == 1, "a release")
    assert len(one.json("released-events")) > 0
    assert len(one.json("dlq")) == len(scenario.BAD)
    log = tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\n1,a,2024-01-01T00:00:00Z\n")
    one.command("publish", str(log), "-c", str(one.config))
    one.wait(lambda: one.covered() == len(values) + 1, "the published event")
    assert one.stop(ingest, coordinator) == [0, 0]
    ingest, coordinator = _start(one, "ingest"), _start(one, "coordinator")  # from what the topics hold
    one.command("release", "-c", str(one.config))
    one.wait(lambda: len(one.json("releases")) == 2, "a release after a restart")
    assert one.stop(ingest, coordinator) == [0, 0]
    assert "2 records were sent again" in one.command("dlq", "replay", "-c", str(one.config), "--reason", "not_json")
    assert "uthorization" not in one.logs()


def test_a_ledger_that_would_be_forgotten_is_found_or_the_start_is_refused(guarded: GuardedBroker, one: Site) -> None:
    """The ledger keeps an hour. With the printed permissions both roles refuse it as a wrong configuration (2). Without
    DESCRIBE_CONFIGS nobody could see that: the start and `topics check` say that they may not look (1)."""
    _allow(guarded, one, *ROLES)
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    ledger = f"veilstream.{one.name}.ledger"
    _keep_for_an_hour(one, ledger)
    for role in ("ingest", "coordinator"):
        assert f"topic {ledger}: retention.ms = {HOUR}, must be -1" in _refused(one, role, 2)
    for role in ROLES:
        _forbid(guarded, role, "DescribeConfigs", ledger)
    unread = f"topic {ledger}: its configuration"
    for role in ("ingest", "coordinator"):
        assert unread in _refused(one, role, 1)
    shown = one.command("topics", "check", "-c", str(one.config), "--json", expect=1, stdout=True)
    assert unread in shown
    assert "veilstream topics acls" in shown


def test_an_operator_learns_from_the_check_what_cannot_be_read(guarded: GuardedBroker, one: Site) -> None:
    """`status --bootstrap`, `dlq list` and `release --wait` would show nothing. To write is not asked for: only some
    operators publish. A topic that does not exist yet is missing, and not forbidden."""
    _allow(guarded, one, "operator")
    check = ("topics", "check", "-c", str(one.config), "--json")
    missing = one.command(*check, expect=1, stdout=True)
    assert "missing; run" in missing
    assert "cannot be" not in missing
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    _forbid(guarded, "operator", "Write", one.topic)
    one.command(*check)
    dlq = f"veilstream.{one.name}.dlq"
    _forbid(guarded, "operator", "Read", dlq)
    (problem,) = json.loads(one.command(*check, expect=1, stdout=True))["problems"]
    assert problem.startswith(f"topic {dlq}: cannot be read: the broker does not allow it")
    _forbid(guarded, "operator", "DescribeConfigs", dlq)
    (problem,) = json.loads(one.command(*check, expect=1, stdout=True))["problems"]
    assert problem.startswith(f"topic {dlq}: its configuration")


def test_a_topic_that_we_may_not_see_is_not_called_missing(guarded: GuardedBroker, one: Site) -> None:
    """Not allowed is 1, and names the permission; nobody is sent to create a topic that exists."""
    _allow(guarded, one, "operator")
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    error = _refused(one, "ingest", 1)
    assert f"topic {one.topic}: cannot be described: the broker does not allow it" in error
    assert "missing" not in error


@pytest.mark.parametrize(
    ("role", "operations", "resource", "line"),
    [
        (
            "ingest",
            "Read Describe",
            "--group veilstream.{name}.ingest",
            "group veilstream.{name}.ingest: cannot be joined: ",
        ),
        ("ingest", "Read", "--topic {name}.events", "topic {name}.events: cannot be read: "),
        ("coordinator", "Write", "--topic veilstream.{name}.releases", "topic veilstream.{name}.releases: cannot be "),
        ("coordinator", "Write", "--transactional-id veilstream.{name}.ledger", "stops: transactional id: the broker "),
    ],
)
def test_a_start_without_a_permission_says_which(
    guarded: GuardedBroker, one: Site, role: str, operations: str, resource: str, line: str
) -> None:
    """A client waits without a word for a group that it may not join, and was ended after a minute for no progress."""
    _allow(guarded, one, *ROLES)
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    for operation in operations.split():
        words = f"--remove --allow-principal User:{role} --operation {operation} {resource.format(name=one.name)}"
        guarded.kafka_acls(f"kafka-acls.sh --bootstrap-server {guarded.bootstrap} {words}")
    assert line.format(name=one.name) in _refused(one, role, 1)
