"""Partitions whose next record batch cannot be decoded: each stops alone, the others continue, and it is tried again.

A client that raises at such a batch ends the process, which reads it again after its restart, forever; and the healthy
partitions of the process stop with it. Skipping the batch would lose events without a trace. Therefore the partition
waits until the batch can be read (the disk is repaired, another replica leads, the missing package is installed), or an
operator removes the batch from the log, which the fold then sees as a gap.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from connectors.kafka.lineage import Place

log = logging.getLogger("veilstream")

RETRY_SECONDS = 10.0
"""A stopped partition is fetched again this often. Each try costs one fetch; a longer wait delays the events of a
partition that was repaired."""


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """The place where a partition stopped, and the client's error. `failed_at`: by the monotonic clock."""

    offset: int
    cause: str
    failed_at: float

    def place(self, partition: Place) -> str:
        """Return the place as `topic/number at offset N`."""
        return f"{partition[0]}/{partition[1]} at offset {self.offset}"


class UnreadablePartitions:
    """The stopped partitions of this process. The consumer's thread writes, any thread reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped: dict[Place, UnreadableBatch] = {}
        self._logged: set[tuple[Place, int]] = set()
        """A batch is tried many times, and logged once."""

    def stop(self, partition: Place, offset: int, error: Exception) -> None:
        """Record that the batch at `offset` cannot be decoded."""
        cause = type(error).__name__
        with self._lock:
            self._stopped[partition] = UnreadableBatch(offset, cause, self._clock())
            new = (partition, offset) not in self._logged
            self._logged.add((partition, offset))
        if new:
            log.error(
                "%s/%d: the record batch at offset %d cannot be decoded (%s): this partition is stopped and tried "
                "again every %.0f s, the others continue; see docs/runbooks/VeilstreamUnreadableBatch.md",
                *(*partition, offset, cause, RETRY_SECONDS),
            )

    def read(self, partition: Place, last: int) -> None:
        """Record that records up to offset `last` were read: behind a stopped batch, it can be read again."""
        batch = self._stopped.get(partition)
        if batch is not None and last >= batch.offset:
            self.recovered(partition)

    def due(self) -> list[Place]:
        """Return the partitions to try again now."""
        now = self._clock()
        with self._lock:
            return [tp for tp, batch in self._stopped.items() if now - batch.failed_at >= RETRY_SECONDS]

    def recovered(self, partition: Place) -> None:
        """Record that a partition was read again without an error."""
        with self._lock:
            self._stopped.pop(partition, None)
        log.warning("%s/%d: can be decoded again and continues", *partition)

    def clear(self) -> None:
        """Clear the list: after a rebalance each partition is fetched from the position of its group."""
        with self._lock:
            self._stopped.clear()

    @property
    def partitions(self) -> set[Place]:
        """The partitions that are stopped now."""
        return set(self._stopped)

    @property
    def places(self) -> list[str]:
        """Each stopped partition as `topic/number at offset N`."""
        with self._lock:
            return [batch.place(partition) for partition, batch in sorted(self._stopped.items())]


unreadable_partitions = UnreadablePartitions()
"""Those of this process: the client makes its readers of record batches itself, and hands them nothing of ours."""
