"""A log into a topic: events in order of time, cases by key, so that the order inside a case survives partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from connectors.kafka.faults import explained, fault
from connectors.kafka.source import Source
from connectors.kafka.topics import require
from models.eventlog import EventLog

SECOND = 1_000_000_000

BATCH_BYTES = 262_144
"""Bytes of a record batch if no caller waits for single events: a request for each event costs fifty times the event.
Below the broker's usual limit of 1 MiB."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of `publish_log`.

    Attributes
    ----------
    events
        Number of events that were sent.
    partitions
        Number of events by partition.
    seconds
        Time that it took.
    """

    events: int
    partitions: dict[int, int]
    seconds: float


def source_events(log: EventLog, columns: Mapping[str, str]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield time (ns), key and value of every event, by time; ties keep their order in the file.

    Case attributes are repeated on each event.

    Parameters
    ----------
    log
        The log.
    columns
        Names of the fields for case, activity, time and resource.

    Yields
    ------
    time
        Nanoseconds since 1970-01-01 UTC.
    key
        Case id in UTF-8.
    value
        The event as a JSON object.
    """
    order = np.lexsort((log.row, log.time))
    owners = log.case_of_event[order]
    activity, resource = log.activity.decode(), log.resource.decode()
    cases = {f"case:{name}": column.decode() for name, column in log.case_attributes.items()}
    events = {name: column.decode() for name, column in log.event_attributes.items()}
    for event, owner in zip(order.tolist(), owners.tolist(), strict=True):
        body = {name: values[owner] for name, values in cases.items() if values[owner] is not None}
        body |= {name: values[event] for name, values in events.items() if values[event] is not None}
        body[columns["case"]] = log.case_ids[owner]
        body[columns["activity"]] = activity[event]
        body[columns["time"]] = timestamp(int(log.time[event]))
        if resource[event] is not None:
            body[columns["resource"]] = resource[event]
        yield int(log.time[event]), log.case_ids[owner].encode(), msgspec.json.encode(body, enc_hook=_json_form)


def timestamp(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, with as many digits as it has.

    Parameters
    ----------
    time_ns
        Nanoseconds since 1970-01-01 UTC.
    """
    seconds, nanoseconds = divmod(time_ns, SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if nanoseconds:
        text = f"{text}.{nanoseconds:09d}".rstrip("0")
    return f"{text}Z"


def _json_form(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def publish_log(
    log: EventLog,
    source: Source,
    topic: str,
    columns: Mapping[str, str],
    *,
    speed: float | None = None,
    on_progress: Callable[[int], None] = lambda _done: None,
) -> Sent:
    """Send every event of a log, and wait until the broker has acknowledged all.

    Parameters
    ----------
    log
        The events.
    source
        Configuration of the broker.
    topic
        Topic that receives the events.
    columns
        The names of case, activity, time and resource in the records.
    speed
        Follow event time, this many times faster. None: at once.
    on_progress
        Called with the number of events sent.

    Raises
    ------
    InputError
        If an event is refused, or the topic is missing.
    UnavailableError
        If no broker answers.
    """
    require(source, [topic])
    started = time.monotonic()
    events = source_events(log, columns)
    if speed is None:
        counts = asyncio.run(_send_at_once(events, source, topic, on_progress))
    else:
        first = int(log.time.min()) if log.n_events else 0

        def due(event_time: int) -> float:
            return (event_time - first) / SECOND / speed

        counts = _send_in_time(events, source, topic, on_progress, due)
    return Sent(log.n_events, counts, time.monotonic() - started)


async def _send_at_once(
    events: Iterable[tuple[int, bytes, bytes]], source: Source, topic: str, on_progress: Callable[[int], None]
) -> dict[int, int]:
    """Send events in record batches that are filled here; return how many went to each partition."""
    from aiokafka import AIOKafkaProducer, errors
    from aiokafka.partitioner import murmur2

    counts: dict[int, int] = {}
    client = AIOKafkaProducer(
        bootstrap_servers=source.servers,
        enable_idempotence=True,
        max_batch_size=BATCH_BYTES,
        **source.security.aiokafka(),
    )
    try:
        await client.start()
        try:
            places = sorted(await client.partitions_for(topic))
            partitions: dict[bytes, int] = {}
            filling: dict[int, Any] = {}
            pending = []
            for done, (_, key, value) in enumerate(events, start=1):
                partition = partitions.get(key)
                if partition is None:
                    # The partition that the Java client and kafka-python choose for the key: the events of a case
                    # stay in one partition, whichever client sends them.
                    partition = partitions[key] = places[(murmur2(key) & 0x7FFFFFFF) % len(places)]
                # `append` returns None if the batch has no room for the record.
                batch = filling.get(partition)
                if batch is None or batch.append(timestamp=None, key=key, value=value) is None:
                    if batch is not None:
                        pending.append(await client.send_batch(batch, topic, partition=partition))
                    batch = filling[partition] = client.create_batch()
                    batch.append(timestamp=None, key=key, value=value)
                counts[partition] = counts.get(partition, 0) + 1
                if done % 1000 == 0:
                    on_progress(done)
            for partition, batch in filling.items():
                pending.append(await client.send_batch(batch, topic, partition=partition))
            await asyncio.gather(*pending)
        finally:
            await client.stop()
    except errors.KafkaError as error:
        raise fault(_as_kafka_python(error), source) from None
    return counts


def _as_kafka_python(error: Exception) -> Exception:
    """Return the same error in the classes of the other client, which share their names: one place explains both."""
    from kafka import errors

    kind = getattr(errors, type(error).__name__, errors.KafkaError)
    translated: Exception = kind() if issubclass(kind, errors.KafkaError) else errors.KafkaError()
    return translated


def _send_in_time(
    events: Iterable[tuple[int, bytes, bytes]],
    source: Source,
    topic: str,
    on_progress: Callable[[int], None],
    due: Callable[[int], float],
) -> dict[int, int]:
    """Send each event at its moment (`due`: seconds from now, by event time in ns); return counts by partition."""
    started = time.monotonic()
    counts: dict[int, int] = {}
    with explained(source), producer(source) as client:
        pending = []
        for done, (event_time, key, value) in enumerate(events, start=1):
            _wait(started, due(event_time))
            pending.append(client.send(topic, value, key=key))
            if done % 1000 == 0:
                on_progress(done)
        client.flush()
        for future in pending:
            partition = future.get(timeout=30).partition
            counts[partition] = counts.get(partition, 0) + 1
    return counts


def _wait(started: float, due: float) -> None:
    time.sleep(max(0.0, started + due - time.monotonic()))


class producer:  # noqa: N801 - a context manager, used like a function
    """A kafka-python producer that waits for all replicas and is closed at the end.

    Parameters
    ----------
    source
        Configuration of the broker.
    """

    def __init__(self, source: Source, **settings: Any) -> None:
        self._source, self._settings = source, settings

    def __enter__(self) -> Any:
        """Open the client."""
        from kafka import KafkaProducer

        settings = {"acks": "all", "linger_ms": 20, "max_request_size": 1_048_576, **self._settings}
        self._client = KafkaProducer(
            bootstrap_servers=self._source.servers, **self._source.security.kafka_python(), **settings
        )
        return self._client

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self._client.close(timeout=30)
