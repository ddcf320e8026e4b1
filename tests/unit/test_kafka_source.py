"""`[source]` and the topics, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from connectors.kafka.source import Source
from connectors.kafka.topics import KINDS, TopicPlan, _differences, plans, topic


@pytest.mark.parametrize("bootstrap", ["a:9092", "a:1,b:65535", "[::1]:9092", ["a:1", "b:2"]])
def test_brokers_are_host_and_port(bootstrap: Any) -> None:
    """One or several, also as a list."""
    assert all(":" in server for server in Source.model_validate({"topics": ["t"], "bootstrap": bootstrap}).servers)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        *(("bootstrap", value, "host:port") for value in ("a", "a:", ":92", "a:0", "a:65536", "a:nine", "a:²", "a:1,")),
        ("delta_retention", "59m", "an hour or more"),
        ("heartbeat", "0s", "above zero"),
        ("session_timeout", "2m", "90s or less"),
        ("topics", ["a", "a"], "appears twice"),
        ("topics", ["a b"], "is not a topic name"),
        ("topics", [], "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(key: str, value: Any, line: str) -> None:
    """Bad configuration is found before a broker is asked, and is not a broker that is away."""
    with pytest.raises(ValidationError, match=line):
        Source.model_validate({"topics": ["t"], key: value})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "status"])
@pytest.mark.parametrize(("key", "value"), [("retention.ms", "60000"), ("cleanup.policy", "compact")])
def test_only_a_ledger_that_would_lose_records_stops_the_daemon(kind: str, key: str, value: str) -> None:
    """Another retention is said; of the ledger it is refused, since what it loses nobody can bring back. A process
    may be named after such a fault."""
    wanted = {plan.name: plan for plan in plans("missing-partitions", Source(topics=("t",)))}
    plan: TopicPlan = wanted[topic("missing-partitions", kind)]
    (problem,) = _differences(plan, 1, {**plan.config, key: value})
    assert problem.fatal == (kind == "ledger")
    assert f"{key} = {value}" in problem.text
    (problem,) = _differences(plan, 2, plan.config)
    assert problem.fatal
