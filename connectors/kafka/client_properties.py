"""`[source.client]`: properties of the Kafka client that an operator may set, and those that the daemon must decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DECIDED: Mapping[str, str] = {
    "isolation_level": "all readers must see the same records, so only committed ones are read",
    "enable_auto_commit": "a source record is acknowledged when its events are durable; an earlier commit loses them",
    "auto_commit_interval_ms": "a source record is acknowledged when its events are durable, and not by a clock",
    "auto_offset_reset": "a partition without a position is read from its begin; elsewhere events are skipped unseen",
    "group_id": "the group has the name of process and role, so that two processes never share positions",
    "partition_assignment_strategy": "the oldest coordinator must keep the partition when a standby joins",
    "max_poll_records": "the daemon bounds its batches itself",
    "max_poll_interval_ms": "a build may take longer than any interval; the progress check watches the daemon",
    "check_crcs": "a damaged batch must stop its partition, and not become events",
    "enable_idempotence": "a record that is sent twice would be folded twice",
    "transactional_id": "the name fences a former coordinator",
    "acks": "a record counts as sent when all replicas have it",
    "retries": "a record that is given up would be lost",
    "client_id": "the names of members decide which coordinator is active",
    "session_timeout_ms": "set source.session_timeout",
    "heartbeat_interval_ms": "it follows from source.session_timeout",
    "bootstrap_servers": "set source.bootstrap",
    "security_protocol": "set source.security.protocol",
    "sasl_mechanism": "set source.security.mechanism",
}
"""Properties that no configuration changes, each with the reason that its error states."""


class ClientProperties(BaseModel):
    """Properties of the Kafka clients that read source and delta topics.

    They are named as in Kafka's documentation, with dots or with underscores: `fetch.min.bytes`, `fetch_min_bytes`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    client_rack: str | None = Field(default=None, min_length=1)
    """Zone of this host, as `broker.rack` names it: records are then read from a replica in the zone. Set it when
    traffic between zones is billed or slow, and the brokers have `replica.selector.class` set."""
    group_instance_id: str | None = None
    """Name of this ingest worker, its own for each worker of a process (static membership): a worker that is started
    again within `source.session_timeout` gets its partitions back, and the others do not stop. Best from
    VEILSTREAM_SOURCE__CLIENT__GROUP_INSTANCE_ID. Set it when workers are restarted one by one, as an upgrade does it,
    and each restart stops intake."""
    fetch_min_bytes: int | None = Field(default=None, ge=1)
    """Bytes for which a broker waits before it answers a fetch. Set it when many small fetches load the brokers, and
    releases may come later by `fetch_max_wait_ms`."""
    fetch_max_wait_ms: int | None = Field(default=None, ge=1, le=30_000)
    """Longest wait of a broker for `fetch_min_bytes`. Set it when `fetch_min_bytes` is set, and events must reach
    a release within a given time."""
    fetch_max_bytes: int | None = Field(default=None, ge=1)
    """Most bytes of the answer to a fetch. Set it when a worker with many partitions needs more memory than it has."""
    max_partition_fetch_bytes: int | None = Field(default=None, ge=1)
    """Most bytes of one partition in the answer to a fetch. Set it when one partition has a long backlog and the
    network is far (higher), or when memory is short (lower)."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, body: Any) -> Any:
        """Read dotted names, and refuse a property that does not exist or that the daemon decides."""
        if not isinstance(body, Mapping):
            return body
        properties: dict[str, Any] = {}
        for name, value in _flat(body):
            if name in DECIDED:
                raise ValueError(f"{name} cannot be changed: {DECIDED[name]}")
            if name not in cls.model_fields:
                raise ValueError(f"{name}: no property that can be set here; use {', '.join(cls.model_fields)}")
            if name in properties:
                raise ValueError(f"{name} is set twice, with dots and with underscores; keep one")
            properties[name] = value
        return properties

    @field_validator("group_instance_id")
    @classmethod
    def _instance(cls, value: str | None) -> str | None:
        # The rule of Kafka's own clients; a broker refuses other names only after a worker has started.
        if value is not None and (value in (".", "..") or not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value)):
            raise ValueError("use 1 to 249 letters, digits, dots, dashes and underscores, and neither . nor ..")
        return value

    def reading(self) -> dict[str, Any]:
        """Return the properties that are set, as keyword arguments of a consumer.

        The member's name is not among them: only ingest workers are static members. The assignor gives the delta
        topic to the coordinator with the first name, which contains the time of its start; static names would hand
        the topic over whenever a standby with an earlier name joins.
        """
        return self.model_dump(exclude_none=True, exclude={"group_instance_id"})


def _flat(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each property with underscores. TOML reads `fetch.min.bytes = 1` as tables in tables."""
    for key, value in body.items():
        name = prefix + str(key).replace(".", "_")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}_")
        else:
            yield name, value
