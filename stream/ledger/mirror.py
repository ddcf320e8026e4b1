"""The mirror: a replica of the operator's files in a store that both hosts reach, for failover.

It is in the configured store under `operator/<process>/`, next to `public/` and never in it:

* `<publication>/<name>`: audit, variants and memory of one release, put there before its seal and named by the seal
  itself, so that readers of the ledger find it; an unsealed one is removed at the next start;
* `checkpoints/0` and `/1`: the newest states, in turn; a damaged one leaves the other.

Everything is sealed (`stream.ledger.envelope`). The ledger topic decides what is valid; the mirror only keeps bytes.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from connectors.files import FileOps, bytes_writer
from connectors.store.blobs import Blobs, open_blobs
from models.errors import RefusedError
from stream.fold.message_parts import Binary, encoded_parts
from stream.fold.snapshot import STATE_VERSION
from stream.ledger.checkpoints import FORMAT as CHECKPOINT
from stream.ledger.checkpoints import opened
from stream.ledger.envelope import Damaged, Keys, seal, sealed_parts, unseal
from stream.ledger.folder import OperatorFolder, rewrite
from stream.ledger.layout import OPERATOR_FILES, mirror_name, mirror_root, mirror_slot
from stream.ledger.view import Account
from stream.values.memory import Bytes

log = logging.getLogger("veilstream")

RELEASE = "veilstream-release-mirror"
VERSION = 1
SLOTS = 2
MARK = "mirrored"
"""In a release's folder: what of it is in the mirror (a digest). Lost or old, it is mirrored again."""


def open_mirror(
    store: str | None,
    process: str,
    keys: Keys,
    output: Path,
    ops: FileOps | None = None,
) -> Mirror | None:
    """Return the mirror in the configured store, if there can be one.

    An object store is not private: without a storage key no file of the operator is written there.

    Parameters
    ----------
    store, process
        Configured store, and name of the process.
    keys
        Storage keys.
    output
        Output folder of the process.
    ops
        File operations, for tests of crashes.

    Returns
    -------
    Mirror or None
        None without a store, for an object store without a storage key, and if the store is the output folder itself.
    """
    if store is None or Path(store.removeprefix("file://")).resolve() == output.resolve():
        return None
    blobs = open_blobs(store, mirror_root(process), ops)
    if not blobs.private and keys.current is None:
        log.warning(
            "store %s: no mirror, since without checkpoint_key it would not be encrypted; "
            "another host cannot take over after a release",
            store,
        )
        return None
    return Mirror(blobs, keys, ops)


class MirrorSlot(msgspec.Struct, array_like=True):
    """A checkpoint in the mirror: the higher position is the newer one."""

    position: int
    state: memoryview


class Mirror:
    """The mirror of one process. Used by the active coordinator only, after it has fenced the one before."""

    def __init__(self, blobs: Blobs, keys: Keys, ops: FileOps | None = None) -> None:
        self.blobs, self.keys = blobs, keys
        self._ops = ops or FileOps()
        self._next = 0

    # releases

    def put_release(self, publication: str, temporary: str, folder: Path) -> None:
        """Mirror a prepared (or rewritten) release folder of the operator under the name that its seal bears."""
        files = _files(folder)
        body = msgspec.msgpack.encode(files)
        self.blobs.put(mirror_name(publication, temporary), seal(body, self.keys, RELEASE, VERSION))
        (folder / MARK).write_text(self._mark(files))

    def bring(self, publication: str, number: int, temporary: str, folder: OperatorFolder) -> bool:
        """Copy the operator's files of a release from the mirror, if this host has none.

        Parameters
        ----------
        publication, number
            Publication and number of the release.
        temporary
            Name of its files in the mirror, from its seal.
        folder
            The operator's folder.

        Returns
        -------
        bool
            False if the mirror has no such files either.
        """
        sealed = self.blobs.get(mirror_name(publication, temporary))
        if sealed is None:
            return False
        files = self._read(publication, number, sealed)
        prepared = folder.prepare(publication, {name: bytes_writer(data) for name, data in files.items()})
        # The mark states that the mirror has these files, so that `renew` does not upload them again.
        (prepared / MARK).write_text(self._mark(files))
        folder.commit(prepared.name, publication, number)
        return True

    def _read(self, publication: str, number: int, sealed: bytes) -> dict[str, bytes]:
        try:
            return msgspec.msgpack.decode(self._opened(sealed), type=dict[str, bytes])
        except (Damaged, msgspec.DecodeError) as damage:
            raise RefusedError(
                f"release {number} of {publication}: its file in the mirror {self.blobs.location} {damage}"
            ) from None

    def put_held(self, publication: str, temporary: str, folder: Path) -> None:
        """Mirror the files of a release that is held: a host that takes over can publish it."""
        body = msgspec.msgpack.encode(_files(folder))
        self.blobs.put(mirror_name(publication, temporary), seal(body, self.keys, RELEASE, VERSION))

    def held(self, publication: str, number: int, temporary: str) -> dict[str, bytes] | None:
        """Return the files of a held release, or None if the mirror has none."""
        sealed = self.blobs.get(mirror_name(publication, temporary))
        return None if sealed is None else self._read(publication, number, sealed)

    def drop(self, publication: str, temporary: str) -> None:
        """Remove what a seal named: its release was rejected, or its bytes are in the store."""
        self.blobs.delete(mirror_name(publication, temporary))

    def _opened(self, sealed: bytes) -> memoryview:
        unsealed = unseal(io.BytesIO(sealed), self.keys, RELEASE)
        if unsealed.version != VERSION:
            raise Damaged(f"has version {unsealed.version}, not {VERSION}")
        return unsealed.body

    def restore(self, name: str, account: Account, operator: OperatorFolder, *, required: bool) -> None:
        """Compare the mirror of one publication with its ledger, and put back what either side has lost.

        The marks of `renew` name the files that this host has mirrored once. Only the mirror itself has the names of
        the files that are still in it.

        Parameters
        ----------
        required : bool
            Whether every existing release must be here or there: a publication that releases no more may lack one,
            as long as nothing reads it.

        Raises
        ------
        RefusedError
            If neither this host nor the mirror has the files of a release. It is named.
        """
        present = set(self.blobs.names(name))
        restored = []
        for number in [*account.released_numbers, *account.held]:
            body = account.seals[number].body
            is_local = operator.release(name, number).exists()
            is_mirrored = mirror_name(name, body.operator) in present
            if not is_local and is_mirrored:
                self.bring(name, number, body.operator, operator)
            elif is_local and not is_mirrored:
                self.put_release(name, body.operator, operator.release(name, number))
                restored.append(number)
            elif not is_local and required:
                raise RefusedError(
                    f"release {number} of {name}: its files for the operator (audit, variants, memory) are neither in "
                    f"{operator.path} nor in the mirror {self.blobs.location}; restore a backup of the output folder "
                    "of the host that made it, or give the mirror back its file"
                )
        for number in account.held:
            temporary = account.seals[number].body.temporary
            folder = operator.layout.held(name, temporary)
            if folder.exists() and mirror_name(name, temporary) not in present:
                self.put_held(name, temporary, folder)
                restored.append(number)
        if restored:
            log.error(
                "the mirror %s had lost the files of %s of %s: they were put there again; find out who removed them",
                *(self.blobs.location, _releases(sorted(set(restored))), name),
            )

    def _bring_lost_files(self, name: str, number: int, temporary: str, folder: Path) -> None:
        """Put files back that this host has lost from the folder of a release, and the mirror has."""
        if all((folder / file).is_file() for file in OPERATOR_FILES):
            return
        sealed = self.blobs.get(mirror_name(name, temporary))
        kept = {} if sealed is None else self._read(name, number, sealed)
        lost = sorted(kept.keys() - _files(folder).keys())
        for file in lost:
            rewrite(self._ops, folder / file, bytes_writer(kept[file]))
        if lost:
            log.error(
                "release %d of %s: this host had lost %s; taken from the mirror %s",
                *(number, name, ", ".join(lost), self.blobs.location),
            )

    def renew(self, name: str, account: Account, operator: OperatorFolder) -> None:
        """Bring the mirror of one publication up to date with this host.

        Put what is new, rewritten or under another storage key; remove what no seal names.
        """
        for number in [*account.released_numbers, *account.held]:
            folder = operator.release(name, number)
            if not folder.exists():
                continue  # `restore` has reported it
            if _text(folder / MARK) != self._mark(_files(folder)):
                # First: a loss here must not become one there.
                self._bring_lost_files(name, number, account.seals[number].body.operator, folder)
                self.put_release(name, account.seals[number].body.operator, folder)
        self.prune(name, account)

    def prune(self, publication: str, account: Account) -> None:
        """Remove what no existing or held release names."""
        seals = account.seals
        needed_names = {
            mirror_name(publication, seals[number].body.operator)
            for number in (*account.released_numbers, *account.held)
        }
        needed_names |= {mirror_name(publication, seals[number].body.temporary) for number in account.held}
        for name in self.blobs.names(publication):
            if name not in needed_names:
                self.blobs.delete(name)

    def _mark(self, files: Mapping[str, bytes]) -> str:
        digest = hashlib.sha256(f"{self.blobs.location}\n{self.keys.id}\n".encode())
        for name, data in sorted(files.items()):
            digest.update(f"{name} {len(data)}\n".encode() + data)
        return digest.hexdigest()

    # checkpoints

    def save(self, position: int, *state: Bytes) -> None:
        """Replace the older of the two states.

        Parameters
        ----------
        position
            Position of its newest delta record.
        state
            The state, in one or several parts.
        """
        body = encoded_parts([position, Binary(state)])  # as MirrorSlot
        sealed = b"".join(sealed_parts(body, self.keys, CHECKPOINT, STATE_VERSION))
        # Two slots in turn: an upload that fails halfway damages the older state only.
        self.blobs.put(mirror_slot(self._next), sealed)
        self._next = (self._next + 1) % SLOTS

    def load(self) -> memoryview | None:
        """Return the newest state that can be read; None if there never was one.

        Raises
        ------
        RefusedError
            If no state can be read, or one is of another version.
        """
        faults = []
        newest: MirrorSlot | None = None  # the other one is freed before the next is read
        for number in range(SLOTS):
            name = mirror_slot(number)
            sealed = self.blobs.get(name)
            if sealed is None:
                continue
            try:
                body = opened(io.BytesIO(sealed), self.keys, f"{self.blobs.location}/{name}")[0]
                slot = msgspec.msgpack.decode(body, type=MirrorSlot)
            except (Damaged, msgspec.DecodeError) as damage:
                faults.append(f"{name}: {damage}")
                continue
            if newest is None or slot.position > newest.position:
                newest = slot
                self._next = (number + 1) % SLOTS
        if newest is not None:
            return newest.state
        if faults:
            raise RefusedError(f"mirror {self.blobs.location}: no checkpoint can be read ({'; '.join(faults)})")
        return None


def _releases(numbers: list[int]) -> str:
    """Return "release 1" or "releases 1, 2"."""
    word = "release" if len(numbers) == 1 else "releases"
    return f"{word} {', '.join(map(str, numbers))}"


def _files(folder: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != MARK)
    return {name: (folder / name).read_bytes() for name in names}


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
