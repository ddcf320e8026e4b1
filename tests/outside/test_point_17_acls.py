"""An administrator grants what docs/daemon.md of c16efcb asked for, which lacks DESCRIBE_CONFIGS."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.secure import PASSWORD
from tests.kafka.site import IDENTITY, Site, publication
from tests.outside.brokers import AuthorizingBroker, authorizing_broker, process_name, set_topic

__all__ = ["authorizing_broker"]

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

HOUR_MS = "3600000"


def _grant_as_documented(broker: AuthorizingBroker, process: str) -> None:
    """Read and describe the source topics; read, write and describe the process's own; its groups and ids."""
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourceType,
    )

    prefixes = [
        (ResourceType.TOPIC, f"{process}.", (ACLOperation.READ, ACLOperation.DESCRIBE)),
        (ResourceType.TOPIC, f"veilstream.{process}.", (ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE)),
        (ResourceType.GROUP, f"veilstream.{process}", (ACLOperation.READ, ACLOperation.DESCRIBE)),
        (ResourceType.TRANSACTIONAL_ID, f"veilstream.{process}.", (ACLOperation.WRITE, ACLOperation.DESCRIBE)),
    ]
    acls = [
        ACL(
            "User:daemon",
            "*",
            operation,
            ACLPermissionType.ALLOW,
            ResourcePattern(resource, prefix, ACLResourcePatternType.PREFIXED),
        )
        for resource, prefix, operations in prefixes
        for operation in operations
    ]
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_acls(acls)
    finally:
        admin.close()


@pytest.fixture
def site(authorizing_broker: AuthorizingBroker, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "password").write_text(PASSWORD)
    security = {
        "protocol": "sasl_ssl",
        "mechanism": "SCRAM-SHA-512",
        "ca_file": f"{authorizing_broker.folder}/ca.pem",
        "username": "daemon",
        "password_file": f"{tmp_path}/password",
    }
    lines = "\n".join(f'{key} = "{value}"' for key, value in security.items())
    process = Site(
        authorizing_broker.sasl_bootstrap,
        process_name(),
        tmp_path,
        publication("plain", "{ new_cases = 5 }", IDENTITY),
        source=f"[source.security]\n{lines}",
        topics=False,
    )
    yield process
    process.close()


def _create_topics(site: Site, broker: AuthorizingBroker) -> None:
    """As the administrator, over the plain listener."""
    config = site.folder / "administrator.toml"
    text = site.config.read_text().replace(broker.sasl_bootstrap, broker.bootstrap)
    config.write_text(text.partition("[source.security]")[0] + "[[publication]]" + text.partition("[[publication]]")[2])
    subprocess.run(
        [sys.executable, "-m", "stream.commands", "topics", "create", "-c", str(config), "--source-partitions", "1"],
        cwd=site.tree,
        env={**os.environ, "PYTHONPATH": str(site.tree)},
        check=True,
        timeout=300,
    )


def test_a_coordinator_does_not_start_over_a_ledger_that_forgets(
    authorizing_broker: AuthorizingBroker, site: Site
) -> None:
    """Budgets and numbers live in the ledger topic: with a retention of one hour they are forgotten."""
    _create_topics(site, authorizing_broker)
    _grant_as_documented(authorizing_broker, site.name)
    set_topic(authorizing_broker.bootstrap, f"veilstream.{site.name}.ledger", "retention.ms", HOUR_MS)
    coordinator = site.start("coordinator")

    def decided() -> bool:
        return coordinator.poll() is not None or "coordinator is active" in site.logs()

    _wait(decided)
    assert coordinator.poll() in (1, 2), f"the coordinator is active: {site.logs()[-2000:]}"
    assert "cannot be read: the broker does not allow it" in site.logs()


def _wait(condition: object) -> None:
    """Until it holds. A site's own wait would ask the broker without a password."""
    assert callable(condition)
    while not condition():
        time.sleep(0.5)
