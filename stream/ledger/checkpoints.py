"""The fold's state on disk: a whole state, and the changes since; the generation before is kept.

A generation is a whole state and a log of the changes behind it, so that a checkpoint costs what came since the one
before. When the log is `LONGEST` times as long as the state has become, or the caller asks for it, the state is written
whole again: aside, made durable, renamed. The log has the digest of its whole state in its name
(`stream.ledger.change_log`), so no crash between two renames can join what does not belong together.

`stream.ledger.envelope` describes the files. The order of the operations on files makes it durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from connectors.files import FileOps
from models.errors import RefusedError
from stream.fold.message_parts import Binary, encoded_parts
from stream.fold.snapshot import STATE_VERSION, merged, readable
from stream.ledger import change_log
from stream.ledger.envelope import Damaged, Keys, Protection, Unencrypted, header_of, sealed_parts, unseal
from stream.ledger.folder import make_private
from stream.values.memory import Bytes, gathered

# The content of a checkpoint.
#
# Two layouts exist on disk, and both are still written: a replay writes a map without a position (the
# fold contains it), a daemon an array with one. The first byte distinguishes them: MessagePack tags maps
# and arrays.

Layout = Literal["replay", "daemon"]

_TAGS: dict[int, Layout] = {0x8: "replay", 0x9: "daemon"}
"""First four bits of a short map and of a short array."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The content of a checkpoint.

    * `fold`: `Fold.snapshot`; `position`: of its last record (None: the fold contains it);
    * `ledger`: the length of the ledger, which detects an older ledger;
    * `epoch`: leader epoch of that record (-1: unknown, in states from before version 0.2, and in a replay).
    """

    layout: Layout
    fold: Bytes
    ledger: int
    position: int | None = None
    epoch: int = -1

    def encode(self) -> bytes:
        """Return the bytes of a checkpoint."""
        return b"".join(self.parts([self.fold]))

    def parts(self, fold: Sequence[Bytes]) -> list[Bytes]:
        """Return the bytes of a checkpoint in parts; the parts of a fold's snapshot take the place of `fold`."""
        if self.layout == "replay":
            return encoded_parts({"entries": self.ledger, "fold": Binary(fold)})
        position = -1 if self.position is None else self.position
        return encoded_parts([Binary(fold), position, self.ledger, self.epoch])

    def after(self, changes: Iterable[Bytes]) -> SavedState:
        """Return the state after these changes (`SavedChange.encode`), in order.

        Each change is taken when the one before is applied. The fold of this state is released (`merged`).
        """
        last: SavedChange | None = None

        def patches() -> Iterator[bytes]:
            nonlocal last
            for change in changes:
                last = msgspec.msgpack.decode(change, type=SavedChange)
                yield last.fold

        fold = merged(self.fold, patches())
        if last is None:
            return replace(self, fold=fold)
        position = None if self.layout == "replay" else last.position
        return replace(self, fold=fold, ledger=last.ledger, position=position, epoch=last.epoch)

    @classmethod
    def decode(cls, raw: Bytes) -> SavedState:
        """Return the state that `encode` wrote. Its fold is a view of `raw`.

        Raises
        ------
        RefusedError
            For bytes of neither layout.
        """
        layout = _TAGS.get(raw[0] >> 4) if raw else None
        try:
            if layout == "replay":
                replay = msgspec.msgpack.decode(raw, type=_OfReplay)
                return cls(layout, replay.fold, replay.entries)
            if layout == "daemon":
                daemon = msgspec.msgpack.decode(raw, type=_OfDaemon)
                return cls(layout, daemon.state, daemon.ledger, daemon.position, daemon.epoch)
        except msgspec.DecodeError:
            pass
        raise RefusedError("the checkpoint cannot be read: these bytes are not a saved state")


class SavedChange(msgspec.Struct, array_like=True, frozen=True):
    """The changes since the checkpoint before: of the fold (`Fold.changes`), and the present values of all else."""

    fold: bytes
    ledger: int
    position: int = -1
    epoch: int = -1

    def encode(self) -> bytes:
        """Return the bytes of a change."""
        return msgspec.msgpack.encode(self)


class _OfReplay(msgspec.Struct, frozen=True):
    entries: int
    fold: memoryview


class _OfDaemon(msgspec.Struct, array_like=True, frozen=True):
    state: memoryview
    position: int
    ledger: int
    epoch: int = -1


FORMAT = "veilstream-checkpoint"
CURRENT = change_log.NAME
PREVIOUS, TEMPORARY = f"{CURRENT}.previous", f"{CURRENT}.tmp"

LONGEST = 2
"""A start reads the whole state and the log: at most three times the state. Changes that make the state grow as much as
they are long never reach it, so what is written follows what came."""


def _write(path: Path, state: Sequence[Bytes], keys: Keys) -> None:
    with path.open("wb") as file:
        file.writelines(sealed_parts(state, keys, FORMAT, STATE_VERSION))
    make_private(path)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
    make_private(path)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state read back.

    `state`: in scratch memory, which `Fold.restore` releases while it reads it; `generation`: 0 the newest,
    1 the one before; `warning`: why it is not the newest state, or "".
    """

    state: memoryview
    generation: int
    warning: str


@dataclass(frozen=True, slots=True)
class Newest:
    """Bytes of the newest generation, and when (seconds since 1970) it was last written."""

    size: int
    saved: float


@dataclass(frozen=True, slots=True)
class StateGeneration:
    """A generation that could be opened.

    `state`: after its changes; `version`, `protection`: of the whole state; `fault`: why not all of its changes could
    be read, or "".
    """

    state: memoryview
    version: int
    protection: Protection
    fault: str


@dataclass(frozen=True, slots=True)
class _Log:
    """The log that this process may write to.

    `state`, `size`: bytes of the state (by now, at least) and of the log; `link`: named by the next change as the one
    before it.
    """

    path: Path
    link: bytes
    state: int
    size: int = 0


class Checkpoints:
    """The checkpoints of one process in one folder (which exists). `keys`: one key of 32 bytes, several, or None."""

    def __init__(self, folder: Path, keys: Keys | bytes | None = None, ops: FileOps | None = None) -> None:
        self.folder = folder
        self.keys = keys if isinstance(keys, Keys) else Keys(keys)
        self._ops = ops or FileOps()
        self._log: _Log | None = None
        self._seen: tuple[int, Path | None] | None = None
        """The log of a checkpoint that an earlier process wrote, by the time of that file."""
        self._spoiled = False
        """The newest whole state cannot be read: it must not take the place of the one before."""

    def save(self, *state: Bytes) -> None:
        """Make a state the newest generation. A whole generation stays in the folder, even after a failure.

        Parameters
        ----------
        state
            The bytes of `SavedState`, in one or several parts. They are written one after the other.

        Raises
        ------
        OSError
            With what failed.
        """
        # Until the new state is durable, no change may be appended: a failed save is repeated as a whole.
        self._log = None
        temporary, current = self.folder / TEMPORARY, self.folder / CURRENT
        self._ops.write(temporary, partial(_write, state=state, keys=self.keys))
        self._ops.fsync(temporary)
        with temporary.open("rb") as file:
            link = change_log.link_in(file)
            size = file.tell()
        # A crash between the two renames leaves the state before under the name that `load` tries second.
        if current.exists() and not self._spoiled:
            self._ops.replace(current, self.folder / PREVIOUS)
        self._ops.replace(temporary, current)
        self._ops.fsync(self.folder)
        self._spoiled = False
        fresh = change_log.log_path(current, link)
        self._sweep({self._log_of(PREVIOUS)} - {fresh})
        self._log = _Log(fresh, link, size)

    @property
    def extensible(self) -> bool:
        """Whether a change can be appended.

        This process must have written the newest generation, nothing failed since, and the log is shorter than
        `LONGEST` states.
        """
        return self._log is not None and self._log.size < LONGEST * self._log.state

    def append(self, change: bytes, grown: int = 0) -> None:
        """Make a change (`SavedChange.encode`) of the newest state durable. Only while `extensible`.

        After a failure the state before it stays, and the next one must be saved whole. `grown`: bytes by which the
        state grew.
        """
        # It is set again at the end: after a failure the file may end with half a frame, and nothing is appended to it.
        log, self._log = self._log, None
        if log is None:
            raise ValueError("there is no checkpoint of this process to append to")
        frame, link = change_log.framed(change, self.keys, log.link)
        self._ops.write(log.path, partial(_append, data=frame))
        self._ops.fsync(log.path)
        if not log.size:
            # The first change made the file, and its name has to be durable as well.
            self._ops.fsync(self.folder)
        self._log = _Log(log.path, link, log.state + grown, log.size + len(frame))

    def sweep(self) -> None:
        """Remove the logs of checkpoints that are no longer here."""
        self._sweep({self._log_of(CURRENT), self._log_of(PREVIOUS)})

    def _sweep(self, kept: set[Path | None]) -> None:
        gone = [path for path in change_log.logs(self.folder) if path not in kept]
        for path in gone:
            self._ops.remove(path)
        if gone:
            self._ops.fsync(self.folder)

    def _log_of(self, name: str) -> Path | None:
        path = self.folder / name
        if not path.exists():
            return None
        with path.open("rb") as file:
            return change_log.log_path(path, change_log.link_in(file))

    def newest(self) -> Newest | None:
        """Return size and time of the newest generation, if anything was saved."""
        try:
            whole_state = (self.folder / CURRENT).stat()
        except FileNotFoundError:
            return None
        if self._log is None and (self._seen is None or self._seen[0] != whole_state.st_mtime_ns):
            self._seen = whole_state.st_mtime_ns, self._log_of(CURRENT)
        path = None
        if self._log is not None:
            path = self._log.path
        elif self._seen is not None:
            path = self._seen[1]
        if path is None or not path.exists():
            return Newest(whole_state.st_size, whole_state.st_mtime)
        log = path.stat()
        return Newest(whole_state.st_size + log.st_size, log.st_mtime)

    def load(self) -> Loaded | None:
        """Return the newest readable state, if there ever was one.

        Raises
        ------
        RefusedError
            If none can be read; the message names every file and its fault.
        """
        faults: list[str] = []
        is_plain = False
        for generation, name in enumerate((CURRENT, PREVIOUS)):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                generation_read = generation_at(path, self.keys)
            except Damaged as damage:
                self._spoiled = self._spoiled or generation == 0
                is_plain = is_plain or isinstance(damage, Unencrypted)
                faults.append(f"{path}: {damage}")
                continue
            if generation and not faults:
                faults.append(f"{self.folder / CURRENT}: is missing")
            faults += [generation_read.fault] if generation_read.fault else []
            return Loaded(generation_read.state, generation, "; ".join(faults))
        if is_plain:
            raise RefusedError(
                f"no checkpoint can be read ({'; '.join(faults)}): if the key was set after these files were written, "
                "run `veilstream migrate`, which encrypts them; else somebody has replaced them: restore a backup of "
                "the folder"
            )
        if faults:
            raise RefusedError(
                f"no checkpoint can be read ({'; '.join(faults)}): move these files away and start again, everything "
                "is then folded from the begin (a daemon: from its mirror or its delta topic); else restore a backup "
                "of the folder"
            )
        return None


def generation_at(path: Path, keys: Keys, *, plain_too: bool = False) -> StateGeneration:
    """Return the whole state in a file with the changes in its log.

    Parameters
    ----------
    path
        The file of the whole state.
    keys
        Keys that encrypt files of the operator; without a current one nothing is encrypted.
    plain_too
        Whether plain bytes are accepted though there is a key.

    Raises
    ------
    Damaged
        If it cannot be read.
    RefusedError
        As `opened`.
    """
    with path.open("rb") as file:
        link = change_log.link_in(file)
        state, version, protection = opened(file, keys, str(path), plain_too=plain_too)
    log = change_log.log_path(path, link)
    changes = change_log.ChangeReader(log, keys, link, plain_too=plain_too)
    if log.exists():
        saved = SavedState.decode(state).after(changes)
        state = gathered(saved.parts([saved.fold]))
    return StateGeneration(state, version, protection, changes.fault)


def opened(
    file: BinaryIO,
    keys: Keys,
    place: str,
    *,
    plain_too: bool = False,
) -> tuple[memoryview, int, Protection]:
    """Return a sealed whole state: its bytes, its version, and its protection.

    Parameters
    ----------
    file
        The file.
    keys
        Keys that encrypt files of the operator; without a current one nothing is encrypted.
    place
        Name of the file, for messages.
    plain_too
        Whether a state that is not encrypted is accepted though there is a key.

    Raises
    ------
    Damaged
        If it cannot be read.
    RefusedError
        For a version that this program does not read. The generation before is not used instead: it may be older
        than decisions that are durable.
    """
    version = header_of(file, FORMAT).version
    if not readable(version):
        age = "newer" if version > STATE_VERSION else "older"
        raise RefusedError(f"{place} has state version {version}, {age} than {STATE_VERSION}, this program's")
    unsealed = unseal(file, keys, FORMAT, plain_too=plain_too)
    return unsealed.body, unsealed.version, unsealed.protection
