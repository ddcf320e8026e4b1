"""The permissions (ACLs) that each role needs on the broker, and no more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from connectors.kafka.source import Source
from connectors.kafka.topics import KINDS, group, topic

Role = Literal["ingest", "coordinator", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)

CHECKED = ("Describe", "DescribeConfigs")
"""Checks of a topic at each start: that it exists, its partitions, and how long it keeps its records."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Operations on resources of one kind. `kind` and `operations` are words of kafka-acls.sh."""

    kind: Literal["topic", "group", "transactional-id"]
    names: tuple[str, ...]
    operations: tuple[str, ...]

    def command(self, bootstrap: str, principal: str) -> str:
        """Return the command line of kafka-acls.sh that gives this permission."""
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
    """
    return list({"ingest": _ingest, "coordinator": _coordinator, "operator": _operator}[role](process, source))


def _ingest(process: str, source: Source) -> Iterator[Permission]:
    yield Permission("topic", source.topics, ("Read", *CHECKED))
    # It reads the delta topic to find out whether a partition that lost its begin was known before.
    yield Permission("topic", (topic(process, "delta"),), ("Read", "Write", *CHECKED))
    yield Permission("topic", (topic(process, "dlq"),), ("Write", *CHECKED))
    yield Permission("topic", _own(process, "ledger", "releases", "released-events"), CHECKED)
    yield Permission("group", (group(process, "ingest"),), ("Read", "Describe"))


def _coordinator(process: str, source: Source) -> Iterator[Permission]:
    yield Permission("topic", source.topics, CHECKED)
    yield Permission("topic", _own(process, "delta", "ledger"), ("Read", "Write", *CHECKED))
    yield Permission("topic", _own(process, "releases", "released-events", "dlq"), ("Write", *CHECKED))
    yield Permission("group", (group(process, "coordinator"),), ("Read", "Describe"))
    # The ledger's transactions: whoever opens them fences the coordinator before.
    yield Permission("transactional-id", (topic(process, "ledger"),), ("Write", "Describe"))


def _operator(process: str, source: Source) -> Iterator[Permission]:
    # Read and the group: `gap rewind` sets the group of ingest back.
    yield Permission("topic", source.topics, ("Create", "Read", "Write", *CHECKED))
    yield Permission("topic", (topic(process, "delta"),), ("Create", "Read", "Write", *CHECKED))
    yield Permission("topic", _own(process, "ledger", "releases", "released-events", "dlq"), ("Create", *CHECKED))
    yield Permission("group", (group(process, "ingest"),), ("Read", "Describe"))


def _own(process: str, *kinds: str) -> tuple[str, ...]:
    """Names of some topics of the process, in the order of `KINDS`."""
    return tuple(topic(process, kind) for kind in KINDS if kind in kinds)


def commands(wanted: Sequence[Permission], source: Source, principal: str) -> list[str]:
    """Return the command lines of kafka-acls.sh, one for each permission."""
    return [permission.command(source.bootstrap, principal) for permission in wanted]
