"""Points between two durable steps at which a crash can happen; a hook is called at each (fault injection)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from connectors.files import FileOps


class Failpoint(StrEnum):
    """A point that was just passed, in the order of a release; those behind `published` are in no release."""

    OPENED = "opened"
    CHARGED = "charged"
    BUILT = "built"
    FILES_WRITTEN = "files_written"
    SEALED = "sealed"
    RENAMED = "renamed"
    PUBLISHED = "published"
    HELD = "held"
    """The operator's files of a held release have their number."""
    APPROVED = "approved"
    """The approval is in the ledger; the bytes are still the operator's."""
    MOVED = "moved"
    """The bytes of an approved release left the operator's folder, and nobody can see them yet."""
    REJECTED = "rejected"
    """The rejection is in the ledger; the bytes are still there."""
    DROPPED = "dropped"
    """The bytes of a rejected release are gone."""
    WITHHELD = "withheld"
    ARCHIVED = "archived"
    """A segment of the archive was written; the state that no longer has its events was not saved."""
    CHECKPOINTED = "checkpointed"
    """The state of a replay was saved."""
    CHECKPOINT = "checkpoint"
    """The daemon saved its state; nothing is acknowledged yet."""


BOUNDARIES = (
    Failpoint.OPENED,
    Failpoint.CHARGED,
    Failpoint.BUILT,
    Failpoint.FILES_WRITTEN,
    Failpoint.SEALED,
    Failpoint.RENAMED,
    Failpoint.PUBLISHED,
)
"""Those of a release that leaves, in order."""

Hook = Callable[[Failpoint], None]


def nothing(_point: Failpoint) -> None:
    """Do nothing: the hook of a process in which no crash is injected."""


@dataclass(frozen=True)
class Faults:
    """Faults that tests inject into a process; none by default.

    Attributes
    ----------
    at
        Called at each durable step. It may end the process there, as a crash does.
    ops
        File operations of the store and of the operator's folder; None for those of the system.
    """

    at: Hook = nothing
    ops: FileOps | None = None
