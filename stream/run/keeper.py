"""Saves the state of a fold: as a change of the last one if that is known, else whole."""

from __future__ import annotations

import time
from dataclasses import replace

from stream.fold.fold import Fold
from stream.fold.snapshot import Marks, StateChange
from stream.ledger.checkpoints import Checkpoints, SavedChange, SavedState


class StateKeeper:
    """Writes the checkpoints of one process.

    Saved whole are the first two states of a process, so that what an earlier one left goes from both generations; two
    in a row where cases left or rules changed, for the same reason; and where the last whole one is older than `oldest`
    (seconds), so that a damaged generation costs no more than that.
    """

    def __init__(self, checkpoints: Checkpoints, oldest: float = float("inf")) -> None:
        self._checkpoints, self._oldest = checkpoints, oldest
        self._marks: Marks | None = None
        self._again, self._whole_at = True, time.monotonic()

    def save(self, fold: Fold, saved: SavedState, *, whole: bool = False) -> None:
        """Save a fold between two records.

        Parameters
        ----------
        fold
            The fold.
        saved
            The rest of the state. Its `fold` is not read.
        whole
            Whether to save the whole state, so that the newest generation keeps no earlier change of it.
        """
        change = None if whole else self._change(fold)
        is_comparable = self._marks is not None and self._marks.comparable(fold.rules, fold.state)
        self._marks = None  # until it is saved: after a failure the next one is whole
        if change is None:
            self._again = not is_comparable
            self._checkpoints.save(replace(saved, fold=fold.snapshot()).encode())
            self._whole_at = time.monotonic()
        else:
            position = -1 if saved.position is None else saved.position
            body = SavedChange(change.patches, saved.ledger, position, saved.epoch)
            self._checkpoints.append(body.encode(), change.grown)
        self._marks = fold.marks()

    def _change(self, fold: Fold) -> StateChange | None:
        due = self._again or not self._checkpoints.extensible or time.monotonic() - self._whole_at > self._oldest
        return None if due or self._marks is None else fold.changes(self._marks)
