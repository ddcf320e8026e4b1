"""Saves the state of a fold: as changes of the last saved state if these are known, else in full."""

from __future__ import annotations

import time

from stream.fold.fold import Fold
from stream.fold.snapshot import Marks, StateChange
from stream.ledger.archive import Archive
from stream.ledger.checkpoints import Checkpoints, SavedChange, SavedState


class StateKeeper:
    """Writes the checkpoints of one process.

    The first two states of a process are saved in full, so that both generations lose the states of earlier processes.
    For the same reason, two in a row are saved in full if cases were erased, left by retention, or rules changed. After
    released cases were forgotten, one is. So is every state if the last full one is older than `oldest` (seconds): a
    damaged generation then costs no more than that.

    Events that the fold dropped go to the `archive` before a state without them is saved.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        oldest: float = float("inf"),
        archive: Archive | None = None,
    ) -> None:
        self._checkpoints, self._oldest, self._archive = checkpoints, oldest, archive
        self._marks: Marks | None = None
        self._next_in_full, self._saved_in_full_at = True, time.monotonic()

    def save(self, fold: Fold, saved: SavedState, *, in_full: bool = False) -> None:
        """Save a fold between two records.

        Parameters
        ----------
        fold
            Fold between two records, without an undecided cut.
        saved
            The rest of the state. Its `fold` is not read.
        in_full
            Whether to save the state in full, so that the newest generation contains no earlier change.
        """
        self._write_archive(fold)
        change = None if in_full else self._change(fold)
        may_remain = self._marks is not None and self._marks.may_remain(fold.rules, fold.state)
        self._marks = None  # until it is saved: after a failure the next one is saved in full
        if change is None:
            self._next_in_full = not may_remain
            self._checkpoints.save(*saved.parts(fold.snapshot_parts()))
            self._saved_in_full_at = time.monotonic()
        else:
            position = -1 if saved.position is None else saved.position
            body = SavedChange(change.patches, saved.ledger, position, saved.epoch)
            self._checkpoints.append(body.encode(), change.grown)
        self._marks = fold.marks()

    def _write_archive(self, fold: Fold) -> None:
        """Write dropped events, and remove those whose time in the archive is over by the clock of the fold."""
        if self._archive is None:
            if fold.dropped:
                raise ValueError("the fold drops events for an archive, and there is none")
            return
        self._archive.write(fold.dropped, fold.now)
        fold.dropped.clear()
        self._archive.expire(fold.now)

    def _change(self, fold: Fold) -> StateChange | None:
        """Return what changed since the last saved state; None if the state must be saved in full."""
        if self._marks is None or self._next_in_full or not self._checkpoints.extensible:
            return None
        if time.monotonic() - self._saved_in_full_at > self._oldest:
            return None
        return fold.changes(self._marks)
