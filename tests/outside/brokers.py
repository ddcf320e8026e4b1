"""Processes on a broker, as an operator sets them up and as another system writes to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker, classpath, new_broker
from tests.kafka.secure import PASSWORD, SecureBroker
from tests.kafka.site import IDENTITY, Site, publication

AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"""
"""The plain listener, which the broker itself uses too, is the administrator's."""


class AuthorizingBroker(SecureBroker):
    """A principal may do what its ACLs say, and nothing else. `daemon` is a SCRAM user."""

    format_options = ("--add-scram", f"SCRAM-SHA-512=[name=daemon,password={PASSWORD}]")

    def _configure(self, port: int, controller: int, user: tuple[str, str] | None) -> None:
        super()._configure(port, controller, user)
        with Path(self._properties).open("a") as file:
            file.write(AUTHORIZER)


def process_name() -> str:
    """Return the name of a process that no other test has."""
    return f"t{uuid.uuid4().hex[:10]}"


def releases_every_five_cases(bootstrap: str, folder: Path, top: str = "") -> Site:
    """Return a process with its topics, which releases after each fifth new case."""
    return Site(bootstrap, process_name(), folder, publication("plain", "{ new_cases = 5 }", IDENTITY), top=top)


def events(cases: int) -> list[bytes]:
    """Return one JSON event for each case."""
    text = '{"case:concept:name": "case-%d", "concept:name": "admit", "time:timestamp": "2024-01-01T00:%02d:00Z"}'
    return [(text % (case, case)).encode() for case in range(cases)]


def set_topic(bootstrap: str, topic: str, key: str, value: str) -> None:
    """Set one configuration key of a topic, as an administrator does."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})])
    finally:
        admin.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that only the tests of one file use, and may stop."""
    started = new_broker()
    yield started
    started.close()


@pytest.fixture
def authorizing_broker() -> Iterator[AuthorizingBroker]:
    """A broker that checks permissions."""
    started = AuthorizingBroker(classpath()).started()
    yield started
    started.close()
