"""Log what is wrong with a coordinator's input: gaps, a wall clock that was set back, events under another pseudonym
key. Each is logged once, when it begins."""

from __future__ import annotations

import logging

from stream.fold.fold import Fold
from stream.fold.intake import Partition

log = logging.getLogger("veilstream")

BEHIND_NS = 60 * 1_000_000_000
"""A wall clock that is this much behind the one of before was set back; less is the jitter of several workers."""


class Alarms:
    """Remembers which alarms were logged."""

    def __init__(self) -> None:
        self._behind = self._foreign = False
        # Source and partition of each gap that was logged: one may open beside another.
        self._gaps: set[tuple[str, int]] = set()

    def look(self, fold: Fold) -> None:
        """Log new gaps and foreign keys. Called after each record."""
        open_gaps = {key for key, partition in fold.state.partitions.items() if partition.gap} if fold.gap else set()
        new_gaps = [text for key in sorted(open_gaps - self._gaps) for text in gaps(fold, *key)]
        if new_gaps:
            log.error("gap: %s; nothing is released until `veilstream gap rewind|accept`", "; ".join(new_gaps))
        self._gaps = open_gaps
        if fold.state.foreign and not self._foreign:
            log.error("events under another pseudonym key come, and are rejected: give every worker the same key")
            self._foreign = True

    def tick(self, fold: Fold, at: int) -> None:
        """Log that the wall clock was set back. Called before each tick: the clock of the fold never goes back, so
        ticks have no effect until the wall clock has caught up."""
        now = fold.now
        behind = now is not None and at < now - (0 if self._behind else BEHIND_NS)
        if behind and not self._behind:
            log.error(
                "the wall clock was set back by %d s: what goes by the wall clock rests until it is where it was",
                ((now or 0) - at) // 1_000_000_000,
            )
        self._behind = behind


def gaps(fold: Fold, source_is: str | None = None, number_is: int | None = None) -> list[str]:
    """Describe each gap: source, partition and the missing offsets; of one source or partition only, where it is
    named."""
    return [
        f"{source}/{number}: {_text(partition)}"
        for (source, number), partition in fold.state.partitions.items()
        if partition.gap and source_is in (None, source) and number_is in (None, number)
    ]


def _text(partition: Partition) -> str:
    first, last = partition.missing or (0, 0)
    if partition.fault == "recreated":
        return "the topic was deleted and created again; what was not read of the one before is gone"
    if partition.fault == "truncated":
        return f"the log lost what it had from offset {first} on, and gives these offsets again"
    return f"offsets {first} to {last} are missing"
