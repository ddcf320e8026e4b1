"""Which delta topic the state was folded from, and where its offsets stand among the positions of the fold.

A position names cuts, and the ledger remembers cuts for ever: a topic that was created again, or lost its tail, gives
offsets a second time, and a cut at one of them would be taken for one that was charged and sealed. So positions go on
where the state ended, and an anchor in the ledger says from which offset of which topic on.
"""

from __future__ import annotations

from connectors.kafka.lineage import Lineage
from models.errors import RefusedError
from stream.fold.records import lost_from
from stream.ledger.entries import DeltaAnchor, NoteBody, NoteEntry
from stream.ledger.sqlite import Ledger


class Anchor(DeltaAnchor, frozen=True):
    """What the ledger keeps of the delta topic, with what follows from it."""

    def position(self, offset: int) -> int:
        return self.base + offset

    def offset(self, position: int) -> int:
        return position - self.base

    @property
    def begin(self) -> int:
        """Position of its first record."""
        return self.base + self.first

    def lost_from(self, lineage: Lineage, position: int, epoch: int) -> int | None:
        """First offset at which the topic differs from the one that was folded up to `position` (that record had leader
        epoch `epoch`); None where it is the same topic."""
        if self.log and lineage.topic and self.log != lineage.topic:
            return 0
        return lost_from(lineage.epochs, lineage.end, epoch, self.offset(position))


class LostDeltasError(RefusedError):
    """The delta topic is not the one that the state was folded from. `lost`: the first offset at which they differ."""

    def __init__(self, topic: str, lineage: Lineage, anchor: Anchor, position: int, lost: int) -> None:
        self.lineage, self.lost = lineage, lost
        what = "lost what it had from there on" if self._same(anchor) else "was deleted and created again"
        super().__init__(
            f"{topic}: the state was folded up to position {position}, the topic {what} (offset {lost}): deltas that "
            "nobody folded are gone; nothing is released until `veilstream gap rewind|accept`"
        )

    def _same(self, anchor: Anchor) -> bool:
        return not anchor.log or anchor.log == self.lineage.topic


def anchors(ledger: Ledger) -> list[Anchor]:
    """Return every anchor in the ledger, in order."""
    notes = (entry.body.delta for entry in ledger.entries() if isinstance(entry, NoteEntry))
    return [Anchor(found.log, found.base, found.first) for found in notes if found is not None]


def note(anchor: Anchor) -> NoteEntry:
    """The ledger entry of an anchor."""
    return NoteEntry(publication="", body=NoteBody(delta=anchor))
