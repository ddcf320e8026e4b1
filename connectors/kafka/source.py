"""`[source]`: the origin of events, and the retention of the topics of the daemon."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from connectors.kafka.client_properties import ClientProperties
from connectors.kafka.formats import TYPES, Format
from connectors.kafka.mapping import EventMapping, Unit
from connectors.kafka.registry import RegistryOptions
from connectors.kafka.security import Security

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
LEAST_RETENTION = 3600.0
"""A step of a release may take 15 minutes, in which nothing is folded, and a checkpoint is at most a minute older."""

MOST_SESSION = 90.0
"""Faust's own limit: with a longer session than its requests may take, it ends at the start."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Source(BaseModel):
    """The daemon's side of Kafka. Durations are seconds here, `7d` in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    topics: tuple[str, ...] = Field(min_length=1)
    """The topics of the information system that are read. Choose those whose records are events of this process."""
    bootstrap: str = "localhost:9092"
    """Brokers as host:port, several by comma. Set it when the broker runs on another host than the daemon, as it
    nearly always does."""
    security: Security = Security()
    """TLS and credentials: see [source.security]. Set it when the broker asks for TLS or for a password, as every
    broker outside of a laptop should."""
    client: ClientProperties = ClientProperties()
    """Properties of the Kafka clients that read: see [source.client]. Set it when brokers are in several zones, or
    fetches must be larger or fewer than the client's defaults make them."""
    format: Format = "auto"
    """Format of the records (docs/sources.md). `auto`: CloudEvents if a record declares it, else plain
    JSON. `avro`, `protobuf`, `json-schema` need `source.registry`; `debezium` is JSON, or one of these with
    a registry. Set it when the topic holds binary records or changes of a database."""
    registry: RegistryOptions | None = None
    """The schema registry: see [source.registry]. Set it when records refer to their schema by its id."""
    reader_schema: Path | None = None
    """Avro: a file with the reader's schema, whose defaults and aliases apply. By default records are read as they
    were written. Set it when producers write several versions of a schema with different names of fields."""
    time_unit: Unit | None = None
    """Unit of event times that are numbers since 1970. Set it when producers write epoch milliseconds or the like
    instead of texts with a zone."""
    mapping: tuple[EventMapping, ...] = ()
    """From records to events: see [[source.mapping]]. Set it when a record is a change of a table (`debezium`), or
    nests the case, activity and time."""
    snapshots: Literal["skip", "take"] = "skip"
    """Debezium: whether the rows of a snapshot (op r) are events. They say that a row exists, not when something
    happened. Set it when rows that are older than the connector must appear in the log."""
    event_id: str | None = None
    """Field that names an event (`ce:id`: the id of a CloudEvent); a repeat is dropped within its case. Stored as
    a pseudonym. Set it when producers may send an event twice."""
    end: str | None = None
    """Boolean field that is true on the last event of a case. Set it when the information system itself marks the end
    of a case."""
    max_skew: float = 300.0
    """An event later than the broker's clock (the record's stamp with `LogAppendTime`, else the moment of reading)
    plus this goes to the dlq (`future`): one event from 2099 would close every window. Set it when producers'
    clocks run ahead by more than five minutes, or planned events carry future times."""
    heartbeat: float = 5.0
    """Interval of reports about idle partitions and the broker's clock. Set it when windows of a few seconds must close
    although a topic is silent."""
    session_timeout: float = 10.0
    """A dead member is noticed after this, and a takeover takes about twice as long. Set it when pauses of a busy host
    trigger takeovers (longer), or a standby must take over sooner (shorter)."""
    delta_retention: float = 7 * 86400.0
    """Retention of delta topic and dlq: at least an hour (twice the age of a checkpoint behind the longest build),
    at most the erasure promise. Set it when the erasure promise is shorter than a week, or a host may be away for
    longer."""
    released_retention: float = 7 * 86400.0
    """Retention of the topic `released-events`. Set it when recipients read its events less often than once a week."""
    replication: int = Field(default=-1, ge=-1)
    """Replicas of the topics that `veilstream topics create` makes; -1 takes the broker's default. Set it when the
    broker's default is one replica and the loss of a disk must not lose the ledger."""
    min_isr: int | None = Field(default=None, ge=1)
    """Replicas that must confirm a record of these topics; by default as the broker says. Set it when `replication` is
    3 and a confirmed charge must survive the loss of a broker: 2."""
    released_events: bool = True
    """Stream the events of every release to `released-events`, in addition to the manifest on `releases`. Set it when
    recipients read files alone: `false` saves the broker a copy of every release."""
    dlq_payload: bool = False
    """Keep the bytes of unusable records in the dlq. They may hold persons' data that nothing protects there. Set it
    when you must repair bad records and the source topic no longer has them."""

    @field_validator("max_skew", "heartbeat", "session_timeout", "delta_retention", "released_retention", mode="before")
    @classmethod
    def _duration(cls, value: object) -> object:
        return _seconds(value) if isinstance(value, str) else value

    @field_validator("max_skew", "heartbeat", "session_timeout", "delta_retention", "released_retention")
    @classmethod
    def _positive(cls, value: float) -> float:
        if not 0 < value < float("inf"):
            raise ValueError("must be above zero")
        return value

    @field_validator("session_timeout")
    @classmethod
    def _answered(cls, value: float) -> float:
        if value > MOST_SESSION:
            raise ValueError("must be 90s or less, the longest time that the client waits for an answer")
        return value

    @field_validator("delta_retention")
    @classmethod
    def _kept(cls, value: float) -> float:
        if value < LEAST_RETENTION:
            raise ValueError("must be an hour or more: a host that takes over reads the deltas behind a checkpoint")
        return value

    @field_validator("bootstrap", mode="before")
    @classmethod
    def _joined(cls, value: object) -> object:
        return ",".join(value) if isinstance(value, list) else value

    @field_validator("bootstrap")
    @classmethod
    def _hosts(cls, value: str) -> str:
        for part in value.split(","):
            host, _, port = part.strip().rpartition(":")
            if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError("use host:port with a port from 1 to 65535, several by comma")
        return value

    @model_validator(mode="after")
    def _topics(self) -> Self:
        for topic in self.topics:
            if not TOPIC.fullmatch(topic):
                raise ValueError(f"topics: {topic!r} is not a topic name")
        if len(set(self.topics)) != len(self.topics):
            raise ValueError("topics: one appears twice")
        return self

    @model_validator(mode="after")
    def _formats(self) -> Self:
        if self.format in TYPES and self.registry is None:
            raise ValueError(f'format = "{self.format}" needs [source.registry] with its url')
        if self.registry is not None and self.format not in (*TYPES, "debezium"):
            raise ValueError(
                f'registry is set, but format = "{self.format}" reads plain JSON; use avro, protobuf, json-schema or '
                "debezium"
            )
        if self.time_unit is not None and not self.mapping and self.format in ("auto", "cloudevents"):
            raise ValueError('time_unit needs another format, such as "json": the times of CloudEvents are texts')
        if self.reader_schema is not None and self.format != "avro":
            raise ValueError('reader_schema is for format = "avro"')
        if self.format == "debezium" and not self.mapping:
            raise ValueError('format = "debezium" needs at least one [[source.mapping]]: what is an event of a change?')
        if self.mapping and (self.event_id or self.end):
            raise ValueError("with [[source.mapping]], set event_id and end in each mapping")
        for number, mapping in enumerate(self.mapping, 1):
            self._mapping(number, mapping)
        return self

    def _mapping(self, number: int, mapping: EventMapping) -> None:
        """Refuse a mapping that needs a field that its format does not have."""
        if self.format != "debezium":
            debezium_keys = [name for name in ("table", "op", "column") if getattr(mapping, name)]
            if debezium_keys:
                raise ValueError(
                    f'mapping {number}: {debezium_keys[0]} is for format = "debezium"; use where and paths'
                )
            if mapping.time is None:
                raise ValueError(f"mapping {number}: time is missing (the path of the event time)")
        if unknown := sorted(set(mapping.topic) - set(self.topics)):
            raise ValueError(f"mapping {number}: topic {unknown[0]!r} is none of source.topics")
        if len(set(mapping.names)) < len(mapping.names):
            raise ValueError(f"mapping {number}: an attribute appears twice, as X and as case:X; keep one")

    @property
    def kept(self) -> tuple[str, ...]:
        """The attributes that the mappings give."""
        return tuple(dict.fromkeys(name for mapping in self.mapping for name in mapping.names))

    @property
    def servers(self) -> list[str]:
        """The addresses of `bootstrap`."""
        return [part.strip() for part in self.bootstrap.split(",")]


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)\s*(s|m|h|d|w)", text.strip())
    if match is None:
        raise ValueError("use a duration such as 30s, 10m, 1h, 7d or 2w")
    return float(int(match[1]) * _UNITS[match[2]])
