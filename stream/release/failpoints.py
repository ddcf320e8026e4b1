"""Where a crash can fall between two durable steps: a hook is called at each of them (fault injection)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """A point that was just passed, in the order of a release; the last three are beside it."""

    OPENED = "opened"
    CHARGED = "charged"
    BUILT = "built"
    FILES_WRITTEN = "files_written"
    SEALED = "sealed"
    RENAMED = "renamed"
    PUBLISHED = "published"
    WITHHELD = "withheld"
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
    """The hook of a process in which nothing is injected."""
