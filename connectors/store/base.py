"""The store of releases: a local folder, or any fsspec URL.

Layout: `<root>/public/<publication>/release-000012/`. A release becomes visible at once or not at all:

* In a local folder, the files are written into `.000012.<uuid>.tmp` next to the releases. Each file and the directory
  are fsynced, and `commit` renames the directory to its final name. The rename refuses an existing target
  (`renameat2` with RENAME_NOREPLACE); `os.rename` would replace an empty directory. Then the parent is fsynced.
* On an object store there is no rename. `prepare` keeps the files in a local staging folder; `commit` creates each
  object exclusively (fsspec's mode "create": a conditional put where the store has one) and `manifest.json` last: a
  release exists if and only if its manifest does. A successor on another host does not have the staging folder: it
  burns the number. So `commit` and `resume` call `check_fence` before the first object and again before the manifest.
  A host that is paused between that check and the arrival of the manifest is not found.
  File systems that ignore the mode are protected by the check for the manifest before the upload only; two
  coordinators that lost their fence could then both pass it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from connectors.files import FileOps, Writer, bytes_writer
from models.errors import InputError, RefusedError, TakenOverError

PUBLIC = "public"
"""Folder of the publications, in an output folder or at the URL of a store."""

MANIFEST = "manifest.json"
HELD = "held"
"""Folder of a publication, in the operator's part, with the files of releases that a person has not yet approved."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RELEASE = re.compile(r"release-(\d{6,})")
_TEMPORARY = re.compile(r"\.(\d{6,})\.[0-9a-f]{32}\.tmp")


class FileEntry(TypedDict):
    """One file of a release, as manifest and ledger list it.

    Attributes
    ----------
    path
        Name of the file in the release.
    sha256
        Digest of its content, hexadecimal.
    bytes
        Its size.
    """

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release whose bytes are durable and not yet visible.

    Parameters
    ----------
    publication
        Name of the publication.
    candidate
        Number that the release may get.
    tmp
        Its temporary folder.
    files
        All files but the manifest, which lists them itself.
    manifest_sha256
        Digest of the manifest, hexadecimal.
    moment
        Modification time that the visible files get, in ns since 1970-01-01 UTC. If None, they keep their own.
    """

    publication: str
    candidate: int
    tmp: Path
    files: tuple[FileEntry, ...]
    manifest_sha256: str
    moment: int | None = None

    @property
    def name(self) -> str:
        """Name of the temporary folder: with it `resume` finds the bytes after a crash."""
        return self.tmp.name


FenceCheck = Callable[[], None]
"""Raises TakenOverError if another coordinator has taken over this process."""


def no_fence() -> None:
    """Check nothing: one process alone uses the store."""


class Store(ABC):
    """A place for releases. Unsealed releases wait in a local folder, for every kind of place.

    A release waits in one of two folders: in the operator's folder while a person has to approve it (held), or in the
    staging folder from which `commit` and `resume` publish it.

    Attributes
    ----------
    ops
        The steps that touch the disk.
    private
        The operator's folder, with held releases and quarantined bytes.
    """

    __slots__ = ()

    ops: FileOps
    private: Path

    @abstractmethod
    def staging_folder(self, publication: str) -> Path:
        """Return the local folder in which unsealed releases of a publication are written.

        Parameters
        ----------
        publication
            Name of the publication.
        """

    @abstractmethod
    def location(self, publication: str, sequence: int) -> str:
        """Return the folder or URL of a release, whether it exists or not.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.
        """

    @abstractmethod
    def _make_visible(
        self, folder: Path, publication: str, sequence: int, moment: int | None, check_fence: FenceCheck
    ) -> None:
        """Publish the durable files of a folder under a number, as `commit` describes."""

    def commit(self, prepared: Prepared, sequence: int, *, check_fence: FenceCheck = no_fence) -> str:
        """Make a release visible under its number, and return its location.

        An object store calls `check_fence` before the first object and again before the manifest. A local store does
        not: there a successor takes the temporary folder away, so that the rename fails.

        Parameters
        ----------
        prepared
            The unfinished release.
        sequence
            Its number.
        check_fence
            Raises an error if another coordinator has taken over.

        Raises
        ------
        RefusedError
            The number already exists.
        TakenOverError
            Another coordinator has moved the unfinished release away.
        """
        self._make_visible(prepared.tmp, prepared.publication, sequence, prepared.moment, check_fence)
        return self.location(prepared.publication, sequence)

    def resume(
        self,
        publication: str,
        sequence: int,
        temporary: str,
        manifest_sha256: str,
        moment: int | None = None,
        *,
        check_fence: FenceCheck = no_fence,
    ) -> bool:
        """Finish a commit that was interrupted or had to wait.

        Parameters
        ----------
        publication, sequence
            Publication and number of the release.
        temporary
            Name of its folder before the commit.
        manifest_sha256
            Sealed digest of its manifest.
        moment
            Time (ns) at which it becomes visible, if that is fixed.
        check_fence
            Raises TakenOverError if another process has taken over.

        Returns
        -------
        bool
            False if the staged bytes are gone or differ from the sealed ones.
        """
        if not self.has_staged_bytes(publication, temporary, manifest_sha256):
            return False
        folder = self.staging_folder(publication) / temporary
        self._make_visible(folder, publication, sequence, moment, check_fence)
        return True

    @abstractmethod
    def exists(self, publication: str, sequence: int) -> bool:
        """Return whether the number of a release is taken.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.
        """

    @abstractmethod
    def releases(self, publication: str) -> list[int]:
        """Return the numbers of the visible releases, ascending.

        Parameters
        ----------
        publication
            Name of the publication.
        """

    @abstractmethod
    def publications(self) -> list[str]:
        """Return the names of all publications in the store, of any process."""

    @abstractmethod
    def file_bytes(self, publication: str, sequence: int, name: str) -> bytes:
        """Return a file of a visible release.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.
        name
            Name of the file.

        Raises
        ------
        InputError
            If it is missing.
        """

    def manifest_bytes(self, publication: str, sequence: int) -> bytes:
        """Return `manifest.json` of a release.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.

        Raises
        ------
        InputError
            If it is missing.
        """
        return self.file_bytes(publication, sequence, MANIFEST)

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Return the space left in the folder that takes new releases, in bytes."""

    def held_folder(self, publication: str) -> Path:
        """Return the operator's folder of releases that a person has not yet approved.

        Parameters
        ----------
        publication
            Name of the publication.
        """
        return self.private / check_name(publication) / HELD

    def prepare(
        self,
        publication: str,
        candidate: int,
        files: Mapping[str, Writer],
        manifest: Mapping[str, Any],
        *,
        held: bool = False,
    ) -> Prepared:
        """Write the files of a release, then its manifest, durably.

        Parameters
        ----------
        publication, candidate
            The publication, and the number that the release may get.
        files
            File name to writer, in the order of writing.
        manifest
            The manifest; the list of files is added.
        held
            Write into the operator's folder, where the release stays until `move_to_staging`.
        """
        folder = self.held_folder(publication) if held else self.staging_folder(publication)
        return _write_release(folder, publication, candidate, files, manifest, self.ops)

    def has_held_bytes(self, publication: str, temporary: str, manifest_sha256: str | None = None) -> bool:
        """Return whether a held release is in the operator's folder.

        Parameters
        ----------
        publication, temporary
            Name of the publication, and of the release's folder.
        manifest_sha256
            SHA-256 of the sealed manifest: all bytes must be as they were sealed. None: any of them count.
        """
        folder = self.held_folder(publication) / temporary
        return folder.exists() if manifest_sha256 is None else _is_sealed(folder, manifest_sha256)

    def has_staged_bytes(self, publication: str, temporary: str, manifest_sha256: str) -> bool:
        """Return whether a sealed release is in the staging folder, with all bytes as they were sealed.

        Parameters
        ----------
        publication, temporary
            Name of the publication, and of the release's folder.
        manifest_sha256
            SHA-256 of the sealed manifest.
        """
        return _is_sealed(self.staging_folder(publication) / temporary, manifest_sha256)

    def put_held(self, publication: str, temporary: str, files: Mapping[str, bytes]) -> None:
        """Write the files of a held release that this host lacks, durably.

        Parameters
        ----------
        publication, temporary
            Name of the publication, and of the release's folder.
        files
            Bytes of each file, by its name.
        """
        folder = self.held_folder(publication) / temporary
        # An existing folder is incomplete or damaged: the caller has compared it with the seal.
        shutil.rmtree(folder, ignore_errors=True)
        _make_durable_folder(folder.parent, self.ops)
        folder.mkdir(mode=0o700)
        for name, body in files.items():
            self.ops.write(folder / check_name(name), bytes_writer(body))
            self.ops.fsync(folder / name)
        self.ops.fsync(folder)
        self.ops.fsync(folder.parent)

    def move_to_staging(self, publication: str, temporary: str) -> None:
        """Move a held release to the staging folder. Do nothing if that happened before.

        Parameters
        ----------
        publication, temporary
            Name of the publication, and of the release's folder.
        """
        source = self.held_folder(publication) / temporary
        target = self.staging_folder(publication) / temporary
        if not source.exists():
            return
        _make_durable_folder(target.parent, self.ops)
        # The target can only be a copy that a crash cut off: the source still exists.
        shutil.rmtree(target, ignore_errors=True)
        try:
            self.ops.rename_noreplace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # The recipients' folder is on another file system.
            self._copy(source, target)
            shutil.rmtree(source)
        self.ops.fsync(target.parent)
        self.ops.fsync(source.parent)

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir(mode=0o700)
        for file in source.iterdir():
            self.ops.write(target / file.name, partial(shutil.copyfile, file))
            self.ops.fsync(target / file.name)
        self.ops.fsync(target)
        self.ops.fsync(target.parent)

    def drop_held(self, publication: str, temporary: str) -> None:
        """Delete the bytes of a held release that is never published.

        Parameters
        ----------
        publication, temporary
            Name of the publication, and of the release's folder.
        """
        folder = self.held_folder(publication) / temporary
        if folder.exists():
            shutil.rmtree(folder)
            # Rejected bytes must not be here again after a power failure.
            self.ops.fsync(folder.parent)

    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]:
        """Return the manifest of a release.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.

        Raises
        ------
        InputError
            If it is missing, or no JSON object.
        """
        return parse_manifest(self.manifest_bytes(publication, sequence), self.location(publication, sequence))

    def manifest_sha256(self, publication: str, sequence: int) -> str:
        """Return the SHA-256 of `manifest.json` as stored, hexadecimal.

        Parameters
        ----------
        publication, sequence
            Name of the publication, and number of the release.

        Raises
        ------
        InputError
            If it is missing.
        """
        return hashlib.sha256(self.manifest_bytes(publication, sequence)).hexdigest()

    def quarantine(self, prepared: Prepared) -> Path:
        """Move a release that lost its number into quarantine, and return its new folder.

        Parameters
        ----------
        prepared
            The release, which is written and not committed.
        """
        return _set_aside(prepared.tmp, self.private / "quarantine" / prepared.publication, self.ops)

    def leftovers(self, publication: str) -> list[Path]:
        """Return the temporary folders of unsealed releases, lowest candidate first.

        Parameters
        ----------
        publication
            Name of the publication.
        """
        return _leftovers_in(self.staging_folder(publication))

    def clear_leftovers(self, publication: str, keep: Collection[str] = ()) -> None:
        """Move all leftovers into quarantine, except those named in `keep`.

        They are not deleted: they were never visible, and an operator may have to find out why they exist.

        Parameters
        ----------
        publication
            Name of the publication.
        keep
            Names of temporary folders.
        """
        held_leftovers = _leftovers_in(self.held_folder(publication))
        for tmp in [*self.leftovers(publication), *held_leftovers]:
            if tmp.name not in keep:
                _set_aside(tmp, self.private / "quarantine" / publication, self.ops)


def _write_release(
    folder: Path,
    publication: str,
    candidate: int,
    files: Mapping[str, Writer],
    manifest: Mapping[str, Any],
    ops: FileOps,
) -> Prepared:
    """Write files and manifest durably into a new `.<candidate>.<uuid>.tmp` inside `folder`.

    After an error nothing of them remains; OSError of the disk passes through. TakenOverError if the temporary folder
    was moved away meanwhile.
    """
    _make_durable_folder(folder, ops)
    tmp = folder / f".{candidate:06d}.{uuid.uuid4().hex}.tmp"
    # Only the operator may look into it: it can wait here for its moment, in a folder that recipients read.
    tmp.mkdir(mode=0o700)
    try:
        listed = tuple(_write_durably(tmp / check_name(name), writer, ops) for name, writer in files.items())
        # The manifest is written last: a folder that has one has all its files.
        body = encode_manifest({**manifest, "files": listed})
        manifest_entry = _write_durably(tmp / MANIFEST, bytes_writer(body), ops)
        ops.fsync(tmp)
        ops.fsync(folder)
    except (OSError, InputError):
        # First, because without its folder every step fails with a message of its own.
        check_unfinished(tmp)
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    return Prepared(publication, candidate, tmp, listed, manifest_entry["sha256"])


def check_unfinished(tmp: Path) -> None:
    """Check that the folder of an unfinished release still exists in its place.

    A coordinator that takes over sets the unfinished releases of a shared store aside, or finishes those that are
    sealed. The process that made the folder was stopped meanwhile (SIGSTOP, a paused machine), and may not know it yet.

    Parameters
    ----------
    tmp
        The folder.

    Raises
    ------
    TakenOverError
        If the folder is gone.
    """
    if not tmp.exists():
        raise TakenOverError(
            f"{tmp}: the unfinished release is gone: another coordinator has taken over this process and its store; "
            "this one ends, start it again as a standby"
        )


def _make_durable_folder(folder: Path, ops: FileOps) -> None:
    """Make a folder and those above it, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        ops.fsync(path.parent)


def _write_durably(path: Path, writer: Writer, ops: FileOps) -> FileEntry:
    ops.write(path, writer)
    ops.fsync(path)
    return {"path": path.name, "sha256": digest(path), "bytes": path.stat().st_size}


def check_name(name: str) -> str:
    """Return a name that a folder or file can have.

    Raises
    ------
    InputError
        The name has slashes, a leading dot or other characters that are not allowed.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name!r}: use letters, digits, dot, dash and underscore only")
    return name


def release_name(sequence: int) -> str:
    """Return the name of a release's folder, such as `release-000012`.

    Parameters
    ----------
    sequence
        Number of the release.
    """
    return f"release-{sequence:06d}"


def local_release(output: Path, publication: str, sequence: int) -> Path:
    """Return the folder of a release in a local output folder.

    Parameters
    ----------
    output
        The output folder.
    publication, sequence
        Name of the publication, and number of the release.
    """
    return output / PUBLIC / publication / release_name(sequence)


def release_number(name: str) -> int | None:
    """Return 12 for `release-000012`, and None for any other name.

    Parameters
    ----------
    name
        Name of a folder.
    """
    match = _RELEASE.fullmatch(name)
    return int(match[1]) if match else None


def release_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the releases among folders, ascending.

    Parameters
    ----------
    names
        Names of folders. Those of no release are left out.
    """
    numbers = map(release_number, names)
    return sorted(number for number in numbers if number)


def publication_names(names: Iterable[str]) -> list[str]:
    """Return the names that publications can have, sorted.

    Parameters
    ----------
    names
        Names of folders.
    """
    return sorted(name for name in names if _NAME.fullmatch(name))


def folder_names(folder: Path) -> list[str]:
    """Return the names of the folders inside a folder; none if it does not exist."""
    if not folder.is_dir():
        return []
    return [entry.name for entry in folder.iterdir() if entry.is_dir()]


def _leftovers_in(folder: Path) -> list[Path]:
    """Return the temporary release folders inside a folder."""
    return [folder / name for name in sorted(folder_names(folder)) if _TEMPORARY.fullmatch(name)]


def _is_sealed(folder: Path, manifest_sha256: str) -> bool:
    """Return whether a temporary folder holds exactly the files that its sealed manifest lists."""
    manifest = folder / MANIFEST
    if not _TEMPORARY.fullmatch(folder.name) or not manifest.is_file():
        return False
    if digest(manifest) != manifest_sha256:
        return False
    for file in parse_manifest(manifest.read_bytes(), str(manifest))["files"]:
        path = folder / file["path"]
        if not path.is_file() or digest(path) != file["sha256"]:
            return False
    return True


def _set_aside(tmp: Path, quarantine: Path, ops: FileOps) -> Path:
    """Move an unsealed release into the quarantine folder, out of the public tree."""
    quarantine.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = quarantine / tmp.name.lstrip(".")
    ops.rename_noreplace(tmp, target)
    ops.fsync(quarantine)
    return target


def number_taken(target: str) -> RefusedError:
    """Return the error for a release number that already exists.

    Parameters
    ----------
    target
        Place of the release.
    """
    return RefusedError(
        f"{target} exists already; a release number is never published twice. "
        "Compare it with the ledger (veilstream releases) before continuing"
    )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal.

    Parameters
    ----------
    path
        The file.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def encode_manifest(manifest: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest's file.

    Parameters
    ----------
    manifest
        The document of the manifest.
    """
    import msgspec

    return msgspec.json.format(msgspec.json.encode(manifest, enc_hook=_json_form), indent=2) + b"\n"


def _json_form(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a manifest cannot hold {type(value).__name__}")


def parse_manifest(data: bytes, place: str) -> dict[str, Any]:
    """Return the JSON object of a manifest.

    Parameters
    ----------
    data
        Bytes of the file.
    place
        Its place, which messages name.

    Raises
    ------
    InputError
        If it is no JSON object.
    """
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise InputError(f"{place}: the manifest is not JSON; the release is damaged") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{place}: the manifest is not a JSON object; the release is damaged")
    return manifest
