"""The identity of a log behind a topic's name: the topic's id, the begin of each leader epoch, the end of the log.

A topic that was deleted and created again has another id. A log that lost its tail (an unclean restart, an unclean
leader) gives the lost offsets again, under a later leader epoch. If an epoch that is later than the one of a record
begins at or before that record, the record is not in the log any more. Kafka's own replicas find their divergence in
this way (KIP-101, KIP-320).
"""

from __future__ import annotations

import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from connectors.kafka.source import Source
from models.errors import UnavailableError

Place = tuple[str, int]
"""(topic, partition number)."""

MOST_EPOCHS: Final = 64
"""Of one log, asked for one by one from the last. A log that had more leaders since a reader stopped is cut before its
real place of divergence, and found to diverge all the same."""

PATIENCE_SECONDS: Final = 10.0
"""Longest wait for the leader of a partition, and for an answer of a broker: an election takes seconds. Callers that
can wait longer ask again."""

_HEAD = struct.Struct(">qiib")
"""Begin of a record batch: base offset, length of the bytes after both, partition leader epoch, magic."""

_FRAME, _FORMAT = 12, 2


@dataclass(frozen=True, slots=True)
class Leader:
    """The metadata of a partition.

    Attributes
    ----------
    topic
        Id of its topic, "" before Kafka 2.8.
    epoch
        Leader epoch.
    node
        Id of the leading node.
    """

    topic: str
    epoch: int
    node: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """One log.

    Parameters
    ----------
    topic
        Id of the topic.
    epochs
        (leader epoch, its first offset), rising. Epoch 0 is absent if there are later ones: no epoch precedes it whose
        records it could have replaced.
    end
        Offset behind the last record; None if the broker does not report it.
    """

    topic: str
    epochs: tuple[tuple[int, int], ...]
    end: int | None

    @property
    def epoch(self) -> int:
        """The epoch of its leader; -1 if the broker does not report it."""
        return self.epochs[-1][0] if self.epochs else -1


def leader_epochs(data: bytes) -> Iterator[int]:
    """Yield the leader epoch of each record batch of a fetch response, -1 in formats that have none.

    Parameters
    ----------
    data
        Record batches as the broker sends them. The last one may be cut off behind its head.
    """
    place = 0
    while place + _HEAD.size <= len(data):
        _, length, epoch, magic = _HEAD.unpack_from(data, place)
        yield epoch if magic >= _FORMAT else -1
        place += _FRAME + length


class LogClient:
    """Ask a broker which logs its topics are, over one connection that is kept. Any thread may use it.

    Parameters
    ----------
    source
        Configuration of the broker.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._admin: Any = None
        self._lock = threading.Lock()

    def leaders(self, topics: Collection[str]) -> dict[Place, Leader]:
        """Return the leader of every partition of some topics; a topic that does not exist has none.

        Parameters
        ----------
        topics
            Names of topics.

        Raises
        ------
        UnavailableError, InputError
            As `connectors.kafka.faults.fault` makes them.
        """
        with self._lock:
            return self._leaders(topics)

    def begins(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the first offset that each partition still has.

        Parameters
        ----------
        places
            Topic and partition each.

        Raises
        ------
        UnavailableError, InputError
            As `leaders` raises them.
        """
        from kafka.admin import OffsetSpec

        return self._offsets(places, OffsetSpec.EARLIEST)

    def ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the offset behind the last record of each partition; markers of transactions have offsets too.

        Parameters
        ----------
        places
            Topic and partition each.

        Raises
        ------
        UnavailableError, InputError
            As `leaders` raises them.
        """
        from kafka.admin import OffsetSpec

        return self._offsets(places, OffsetSpec.LATEST)

    def lineages(self, places: Collection[Place]) -> dict[Place, Lineage]:
        """Return the logs of some partitions, without those that do not exist.

        Parameters
        ----------
        places
            Topic and partition each.

        Raises
        ------
        UnavailableError
            If a leader does not answer.
        """
        with self._lock:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                leaders = self._leaders({topic for topic, _ in places})
                existing = [(place, leaders[place]) for place in sorted(places) if place in leaders]
                lineages = self._run(partial(self._ask_lineages, existing))
                if None not in lineages.values():
                    return {place: lineage for place, lineage in lineages.items() if lineage is not None}
                if time.monotonic() > deadline:
                    silent = [f"{topic}/{number}" for (topic, number), lineage in lineages.items() if lineage is None]
                    raise UnavailableError(f"{', '.join(silent)}: no leader answers; check the brokers")
                time.sleep(0.2)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _offsets(self, places: Collection[Place], specification: Any) -> dict[Place, int]:
        from kafka import TopicPartition

        specifications = {TopicPartition(*place): specification for place in places}
        with self._lock:
            answers = self._run(lambda admin: admin.list_partition_offsets(specifications))
        return {(partition.topic, partition.partition): int(answer.offset) for partition, answer in answers.items()}

    def _run(self, question: Callable[[Any], Any]) -> Any:
        from kafka import errors

        from connectors.kafka.faults import failed_connections, fault

        deadline = time.monotonic() + PATIENCE_SECONDS
        with failed_connections() as connections:
            while True:
                try:
                    return question(self._connected())
                except errors.KafkaError as error:
                    self._close()  # the next question begins with a connection of its own
                    if not isinstance(error, errors.RetriableError):
                        raise fault(error, self._source, connections.last) from None
                    if time.monotonic() > deadline:
                        about = fault(error, self._source, connections.last)
                        raise UnavailableError(str(about)) from None
                time.sleep(0.2)

    def _connected(self) -> Any:
        from kafka.admin import KafkaAdminClient

        if self._admin is None:
            self._admin = KafkaAdminClient(
                bootstrap_servers=self._source.servers,
                client_id="veilstream-lineage",
                request_timeout_ms=int(PATIENCE_SECONDS * 1000),
                bootstrap_timeout_ms=int(PATIENCE_SECONDS * 1000),
                **self._source.security.kafka_python(),
            )
        return self._admin

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _leaders(self, topics: Collection[str]) -> dict[Place, Leader]:
        if not topics:
            return {}  # the client would take an empty list for all topics
        described = self._run(lambda admin: admin.describe_topics(sorted(topics)))
        leaders = {}
        for topic in described:
            for partition in topic["partitions"]:
                leaders[topic["name"], partition["partition_index"]] = Leader(
                    topic=_topic_id(topic.get("topic_id")),
                    epoch=_epoch(partition.get("leader_epoch")),
                    node=partition["leader_id"],
                )
        return leaders

    def _ask_lineages(
        self,
        places: Sequence[tuple[Place, Leader]],
        admin: Any,
    ) -> dict[Place, Lineage | None]:
        answers: dict[Place, Lineage | None] = admin._manager.run(self._lineages, places)
        return answers

    async def _lineages(self, places: Sequence[tuple[Place, Leader]]) -> dict[Place, Lineage | None]:
        """Return the logs; None for one whose leader is unknown, or is not the leader any more."""
        return {place: await self._lineage(place, leader) for place, leader in places}

    async def _lineage(self, place: Place, leader: Leader) -> Lineage | None:
        epoch_end = await self._end_of(place, leader, leader.epoch)
        if epoch_end is None:
            return None
        epoch, end = epoch_end
        if epoch < 0:  # a broker that keeps no epochs
            return Lineage(leader.topic, (), None)
        epochs: list[tuple[int, int]] = []
        while epoch > 0 and len(epochs) < MOST_EPOCHS:
            epoch_end = await self._end_of(place, leader, epoch - 1)
            if epoch_end is None:
                return None
            below, begin = epoch_end  # the epoch before ends where this one begins
            if epochs and begin == epochs[-1][1]:
                break  # the answer to an epoch before the first one repeats the question: this one never was
            epochs.append((epoch, begin))
            epoch = below
        if not epochs:
            epochs.append((0, 0))
        return Lineage(leader.topic, tuple(reversed(epochs)), end)

    async def _end_of(self, place: Place, leader: Leader, epoch: int) -> tuple[int, int] | None:
        """Return the last epoch up to `epoch` and its end; -1 for none. None: ask again, another leader."""
        from kafka import errors
        from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest as Request

        partition_request = Request.OffsetForLeaderTopic.OffsetForLeaderPartition(
            partition=place[1], current_leader_epoch=leader.epoch, leader_epoch=epoch
        )
        topic_request = Request.OffsetForLeaderTopic(topic=place[0], partitions=[partition_request])
        request = Request(replica_id=-1, topics=[topic_request])
        try:
            response = await self._admin._manager.send(request, node_id=leader.node)
        except errors.KafkaConnectionError:
            return None
        (answer,) = response.topics[0].partitions
        error = errors.for_code(answer.error_code)
        if error is errors.NoError:
            return _epoch(answer.leader_epoch), int(answer.end_offset)
        if issubclass(error, errors.RetriableError):  # the leader is another one now, or not ready
            return None
        raise error(f"{place[0]}/{place[1]}")


def _topic_id(text: str | None) -> str:
    """Return a topic id in hexadecimal; "" for none (the protocol's zero)."""
    if text is None:
        return ""
    identifier = uuid.UUID(str(text))
    return identifier.hex if identifier.int else ""


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else int(epoch)
