"""Fault injection: a source that aborts, a clock that the test advances, a disk that fills, an fsync that fails."""

from __future__ import annotations

import errno
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.files import FileOps, Writer


class Aborted(BaseException):
    """A simulated crash: no code under test may catch it."""


ABORT: Any = object()
"""Marks in a list of inputs where the source breaks off."""


def source(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items up to the ABORT sentinel, and raise `Aborted` there."""
    for item in items:
        if item is ABORT:
            raise Aborted
        yield item


def at_nth(name: str, nth: int, act: Callable[[], None]) -> Callable[[str], None]:
    """Return a hook for named boundaries that acts when `name` is passed for the n-th time (from 1)."""
    passed = 0

    def hook(passing: str) -> None:
        nonlocal passed
        passed += passing == name
        if passing == name and passed == nth:
            act()

    return hook


def abort() -> None:
    """Raise `Aborted`."""
    raise Aborted


def kill() -> None:
    """Send SIGKILL to this process: no handler runs, no buffer is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


class WatchedDisk(FileOps, ABC):
    """A disk that calls `before` with each operation."""

    @abstractmethod
    def before(self, operation: str, path: Path) -> None:
        """Handle an operation (write, fsync, rename, replace) before it is carried out. It may raise instead."""

    def write(self, path: Path, writer: Writer) -> None:
        """Write a file."""
        self.before("write", path)
        super().write(path, writer)

    def fsync(self, path: Path) -> None:
        """Sync a file or a folder."""
        self.before("fsync", path)
        super().fsync(path)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename without replacing."""
        self.before("rename", target)
        super().rename_noreplace(source, target)

    def replace(self, source: Path, target: Path) -> None:
        """Replace a file."""
        self.before("replace", target)
        super().replace(source, target)


@dataclass
class FaultyDisk(WatchedDisk):
    """A disk whose n-th operation (write, fsync, rename, replace; from 1) fails: with an errno, or by `act`.

    `only` restricts which operations count. After a full disk nothing can be written until `full` is set False.
    """

    nth: int
    code: int = errno.ENOSPC
    only: frozenset[str] = frozenset({"write", "fsync", "rename", "replace"})
    act: Callable[[], None] | None = None
    lasting: bool = False
    seen: list[str] = field(default_factory=list)

    def before(self, operation: str, path: Path) -> None:
        """Fail if this is the operation."""
        if operation not in self.only:
            return
        self.seen.append(operation)
        if len(self.seen) == self.nth or (self.lasting and len(self.seen) > self.nth):
            if self.act is not None:
                self.act()
            raise OSError(self.code, os.strerror(self.code), str(path))
