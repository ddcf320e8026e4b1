"""`[source]`: where events come from, and how the topics beside them are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from connectors.kafka.formats import TYPES, Format
from connectors.kafka.mapping import EventMapping, Unit
from connectors.kafka.registry import RegistryOptions
from connectors.kafka.security import Security

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
LEAST_RETENTION = 3600.0
"""A step of a release may take 15 minutes, in which nothing is folded, and a checkpoint is at most a minute older."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Source(BaseModel):
    """The daemon's side of Kafka. Durations are seconds here, `7d` in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    topics: tuple[str, ...] = Field(min_length=1)
    bootstrap: str = "localhost:9092"
    security: Security = Security()
    format: Format = "auto"
    """auto: CloudEvents where a record says that it is one (header or content), plain JSON otherwise. avro, protobuf,
    json-schema: Confluent's wire format, and need `source.registry`. debezium: table changes as JSON, or in any of the
    three where `source.registry` is set."""
    registry: RegistryOptions | None = None
    """The schema registry."""
    reader_schema: Path | None = None
    """Avro: a file with the reader's schema, whose defaults and aliases apply. By default records are read as they were
    written."""
    time_unit: Unit | None = None
    """Of event times that are numbers (since 1970)."""
    mapping: tuple[EventMapping, ...] = ()
    """From records to events: needed for debezium, possible for every other format."""
    snapshots: Literal["skip", "take"] = "skip"
    """Debezium: what becomes of the rows of a snapshot (op r): not when something happened, but that it is so."""
    event_id: str | None = None
    """Field that names an event, for dropping producers' duplicates; `ce:id` takes the id of a CloudEvent."""
    end: str | None = None
    """Boolean field that is true on the last event of a case."""
    max_skew: float = 300.0
    """An event later than broker time plus this goes to the dlq: one event from 2099 would close every window."""
    heartbeat: float = 5.0
    """An idle partition and the wall clock are reported this often."""
    session_timeout: float = 10.0
    """A dead member is noticed after this long, and a takeover costs about twice of it."""
    delta_retention: float = 7 * 86400.0
    """How long the delta topic is kept: at least an hour (twice the age of a checkpoint behind the longest build), at
    most the erasure promise."""
    released_retention: float = 7 * 86400.0
    replication: int = Field(default=-1, ge=-1)
    """-1: the broker's default."""
    min_isr: int | None = Field(default=None, ge=1)
    released_events: bool = True
    """Stream the events of every release to `released-events`, beside the manifest on `releases`."""
    dlq_payload: bool = False
    """Keep the bytes of unusable records in the dlq. Off: they may hold persons' data that nothing protects there."""

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
        for number, one in enumerate(self.mapping, 1):
            self._mapping(number, one)
        return self

    def _mapping(self, number: int, one: EventMapping) -> None:
        """ValueError where a mapping asks for what its format does not have."""
        if self.format != "debezium":
            asked = [name for name in ("table", "op", "column") if getattr(one, name)]
            if asked:
                raise ValueError(f'mapping {number}: {asked[0]} is for format = "debezium"; use where and paths')
            if one.time is None:
                raise ValueError(f"mapping {number}: time is missing (the path of the event time)")
        if unknown := sorted(set(one.topic) - set(self.topics)):
            raise ValueError(f"mapping {number}: topic {unknown[0]!r} is none of source.topics")
        if len(set(one.names)) < len(one.names):
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
