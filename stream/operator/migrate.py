"""Migration of files on disk to this program's versions and to the configured storage key.

A program reads the versions N and N - 1 of a state and writes N, so a migration is never needed to start; it ends the
time in which two versions, or two storage keys, are in use. `plan` reads and changes nothing; `migrate` also writes,
and needs the operator's folder to itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from connectors.files import bytes_writer
from models.errors import RefusedError
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.fold.snapshot import STATE_VERSION
from stream.ledger import archive, mirror, release_record, sqlite
from stream.ledger import checkpoints as checkpoint
from stream.ledger.checkpoints import SavedState
from stream.ledger.envelope import Damaged, Keys, Protection, seal, unseal
from stream.ledger.folder import OperatorFolder, ledger_in, replace_with
from stream.ledger.layout import ARCHIVE, CHECKPOINTS, VARIANTS, OperatorLayout
from stream.ledger.view import LedgerView
from stream.release.audit_document import SHARED
from stream.run.service import archive_of, mirror_of

Sealed = tuple[memoryview, int, Protection]


@dataclass(frozen=True, slots=True)
class Item:
    """One file that a migration looks at.

    Attributes
    ----------
    version, newest
        Its version, and the one that this program writes.
    protection, wanted
        The key that it is sealed with, and the configured one.
    problem
        Why it cannot be migrated; empty if it can.
    """

    name: str
    version: int | None
    newest: int
    protection: Protection | None = None
    wanted: Protection | None = None
    problem: str = ""
    note: str = ""
    """Why it is kept as it is, though not of the newest version."""

    @property
    def action(self) -> str:
        """`refuse`, `rewrite` or `keep`."""
        if self.problem:
            return "refuse"
        if self.note:
            return "keep"
        if self.version != self.newest or self.protection != self.wanted:
            return "rewrite"
        return "keep"

    def json(self) -> Mapping[str, Any]:
        """Return the item as it is printed by `--json`."""
        return {**asdict(self), "action": self.action}


@dataclass(frozen=True, slots=True)
class _Step:
    item: Item
    rewrite: Callable[[], None]


def plan(settings: Settings, output: Path) -> list[Item]:
    """List the files and what would be done with each; InputError if there is no ledger."""
    return [step.item for step in _steps(settings, output)]


def migrate(settings: Settings, output: Path) -> list[Item]:
    """Rewrite what `plan` lists, and return the items as they were.

    Raises
    ------
    RefusedError
        If an item cannot be used, or a daemon or replay has the folder. Nothing is written then.
    """
    ledger_in(output)
    folder = OperatorFolder(output)
    try:
        # All files are read before the first is written: one that cannot be used is reported while nothing has changed.
        steps = list(_steps(settings, output, folder))
        for step in steps:
            if step.item.problem:
                raise RefusedError(f"{step.item.name}: {step.item.problem}; nothing was migrated")
        for step in steps:
            if step.item.action == "rewrite":
                step.rewrite()
        checkpoint.Checkpoints(folder.checkpoints).sweep()  # what was rewritten holds the changes behind it
    finally:
        folder.close()
    return [step.item for step in steps]


def _steps(settings: Settings, output: Path, folder: OperatorFolder | None = None) -> Iterator[_Step]:
    ledger_in(output)
    layout, keys = OperatorLayout(output), settings.storage_keys
    yield _only_read(_ledger(layout.ledger))
    yield from _series(settings, layout.ledger)
    for path in sorted(layout.root.glob(f"*/*/{VARIANTS}")):
        yield _only_read(_variants(path))
    for name in (checkpoint.PREVIOUS, checkpoint.CURRENT):  # what is left by a crash in between opens with both keys
        path = layout.checkpoints / name
        if path.exists():
            yield _generation(path, keys, partial(_replace, folder, path))
    yield from _archived(archive_of(settings, output, None), keys)
    place = mirror_of(settings, output)
    if place is not None:
        yield from _mirrored(place, settings, keys)
        yield from _archived(archive_of(settings, output, place), keys)


def _archived(place: archive.Archive, keys: Keys) -> Iterator[_Step]:
    for name in place.blobs.names(ARCHIVE):
        read = partial(_segment, place, name)
        item, _ = _opened(f"{place.blobs.location}/{name}", archive.VERSION, keys, read)
        yield _Step(item, partial(_rewrite_segment, place, name))


def _segment(place: archive.Archive, name: str) -> Sealed:
    return _sealed(place.blobs.get(name) or b"", place.keys, archive.FORMAT, archive.VERSION)


def _rewrite_segment(place: archive.Archive, name: str) -> None:
    """Read a segment once more and write it: all bodies of an archive together can be larger than the memory."""
    body, _, _ = _segment(place, name)
    place.blobs.put(name, seal(body, place.keys, archive.FORMAT, archive.VERSION))


def _replace(folder: OperatorFolder | None, path: Path, data: bytes) -> None:
    if folder is None:
        raise RefusedError("a plan writes nothing")
    replace_with(folder.ops, path, bytes_writer(data))


def _mirrored(place: mirror.Mirror, settings: Settings, keys: Keys) -> Iterator[_Step]:
    for name in place.blobs.names(CHECKPOINTS):
        location = f"{place.blobs.location}/{name}"
        write = partial(place.blobs.put, name)
        yield _checkpoint(location, place.blobs.get(name) or b"", keys, write, _renewed_slot)
    for publication in settings.publication:
        for name in place.blobs.names(publication.name):
            location = f"{place.blobs.location}/{name}"
            read = partial(_sealed, place.blobs.get(name) or b"", keys, mirror.RELEASE, mirror.VERSION)
            item, body = _opened(location, mirror.VERSION, keys, read)
            yield _Step(item, partial(_put_release, place, name, body))


def _put_release(place: mirror.Mirror, name: str, body: memoryview) -> None:
    place.blobs.put(name, seal(body, place.keys, mirror.RELEASE, mirror.VERSION))


def _sealed(sealed: bytes, keys: Keys, format_name: str, newest: int) -> Sealed:
    unsealed = unseal(io.BytesIO(sealed), keys, format_name, plain_too=True)
    if unsealed.version > newest:
        raise Damaged(f"has version {unsealed.version}, newer than {newest}, this program's")
    return unsealed.body, unsealed.version, unsealed.protection


def _generation(path: Path, keys: Keys, write: Callable[[bytes], None]) -> _Step:
    """Return a whole state with the changes of its log; a rewritten state contains them."""

    def read() -> Sealed:
        generation = checkpoint.generation_at(path, keys, plain_too=True)
        if generation.fault:
            raise Damaged(f"has a log that cannot be read to its end ({generation.fault})")
        return generation.state, generation.version, generation.protection

    item, state = _opened(str(path), STATE_VERSION, keys, read)
    return _Step(item, lambda: write(seal(renewed(state), keys, checkpoint.FORMAT, STATE_VERSION)))


def _checkpoint(
    location: str,
    data: bytes,
    keys: Keys,
    write: Callable[[bytes], None],
    renew: Callable[[memoryview], bytes],
) -> _Step:
    read = partial(checkpoint.opened, io.BytesIO(data), keys, location, plain_too=True)
    item, state = _opened(location, STATE_VERSION, keys, read)
    return _Step(item, lambda: write(seal(renew(state), keys, checkpoint.FORMAT, STATE_VERSION)))


def _opened(location: str, newest: int, keys: Keys, read: Callable[[], Sealed]) -> tuple[Item, memoryview]:
    configured: Protection = "plain" if keys.current is None else "current"
    try:
        body, version, protection = read()
    except (Damaged, RefusedError) as problem:
        return Item(location, None, newest, None, configured, str(problem)), memoryview(b"")
    return Item(location, version, newest, protection, configured), body


def renewed(state: memoryview) -> bytes:
    """Return a saved state (the daemon's or a replay's) with the fold in it as this program writes it."""
    saved = SavedState.decode(state)
    return b"".join(saved.parts(Fold.restore(saved.fold).snapshot_parts()))


def _renewed_slot(body: memoryview) -> bytes:
    slot = msgspec.msgpack.decode(body, type=mirror.MirrorSlot)
    return msgspec.msgpack.encode(mirror.MirrorSlot(slot.position, memoryview(renewed(slot.state))))


def _only_read(item: Item) -> _Step:
    """Read what has one version so far, so that a later version is reported before anything is written."""

    def rewrite() -> None:
        raise RefusedError(f"{item.name}: version {item.version} is older than any that this program knows")

    return _Step(item, rewrite)


def _ledger(path: Path) -> Item:
    try:
        version = sqlite.version_of(path)
    except RefusedError as error:
        return Item(str(path), None, sqlite.VERSION, problem=str(error))
    return Item(str(path), version, sqlite.VERSION, problem=_newer(version, sqlite.VERSION))


def _series(settings: Settings, path: Path) -> Iterator[_Step]:
    """List running series whose resources are named as they began.

    They are reported and never changed: if a person changes the name between two releases, the series and its
    audits break.
    """
    view = _readable_view(path)
    for publication in settings.publication:
        account = view.account(publication.name)
        if not settings.process.raw_resources and account.resource_form == "key":
            yield _only_read(Item(f"resource pseudonyms of publication {publication.name}", 1, 2, note=SHARED))


def _readable_view(path: Path) -> LedgerView:
    try:
        return sqlite.read_view(path)
    except RefusedError:  # `_ledger` reports it
        return LedgerView()


def _variants(path: Path) -> Item:
    import pyarrow as pa
    import pyarrow.parquet as pq

    newest = int(release_record.VERSION)
    try:
        version = int((pq.read_schema(path).metadata or {})[b"veilstream"])
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        return Item(str(path), None, newest, problem=f"cannot be read ({type(error).__name__})")
    return Item(str(path), version, newest, problem=_newer(version, newest))


def _newer(version: int, newest: int) -> str:
    return f"has version {version}, newer than {newest}, this program's" if version > newest else ""
