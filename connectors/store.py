"""Where releases lie: a folder, or any fsspec URL.

Layout: `<root>/public/<publication>/release-000012/`. A release becomes visible at once or not at all:

* in a local folder its files are written into `.000012.<uuid>.tmp` beside it, each file and the directory are
  fsynced, and `commit` renames the directory onto its final name. The rename refuses an existing target
  (`renameat2` with RENAME_NOREPLACE); `os.rename` would replace an empty directory. Then the parent is fsynced.
* on an object store there is no rename. `prepare` keeps the files in a local staging folder; `commit` creates each
  object exclusively (fsspec's mode "create": a conditional put where the store has one) and `manifest.json` last: a
  release exists if and only if its manifest does. File systems that ignore the mode are protected by the check for
  the manifest before the upload only; two coordinators that lost their fence could then both pass it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from models.errors import InputError, RefusedError

MANIFEST = "manifest.json"
Writer = Callable[[Path], None]
"""Writes one file of a release at the path it is given."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RELEASE = re.compile(r"release-(\d{6,})")
_TEMPORARY = re.compile(r"\.(\d{6,})\.[0-9a-f]{32}\.tmp")


def release_name(sequence: int) -> str:
    """`release-000012`."""
    return f"release-{sequence:06d}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release whose bytes are durable and which nobody can see yet.

    `files` are `{"path", "sha256", "bytes"}` of everything but the manifest, which lists them itself.
    """

    publication: str
    candidate: int
    tmp: Path
    files: tuple[Mapping[str, Any], ...]
    manifest_sha256: str

    @property
    def name(self) -> str:
        """Name of the temporary folder: with it `resume` finds the bytes after a crash."""
        return self.tmp.name


class FileOps:
    """The steps that touch the disk, one method each, so that a test can make any of them fail or die there."""

    def write(self, path: Path, writer: Writer) -> None:
        """Let `writer` write the file."""
        writer(path)

    def fsync(self, path: Path) -> None:
        """Make a file's bytes, or a directory's entries, durable."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename a directory; FileExistsError when the target exists, even as an empty directory."""
        if not _renameat2(source, target):
            _rename_claimed(source, target)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file over another, at once."""
        os.replace(source, target)

    def free_bytes(self, path: Path) -> int:
        """Space left for an ordinary user on the file system of `path`."""
        return shutil.disk_usage(path).free


def _renameat2(source: Path, target: Path) -> bool:
    """Rename by renameat2(RENAME_NOREPLACE); False where the system or its file system does not know it."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    here, noreplace = -100, 1  # AT_FDCWD, RENAME_NOREPLACE of linux/fs.h
    if call(here, os.fsencode(source), here, os.fsencode(target), noreplace) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))


def _rename_claimed(source: Path, target: Path) -> None:
    """The fallback for file systems without RENAME_NOREPLACE (some network file systems, other systems).

    `<target>.lock` is created exclusively first, so that of several veilstreams one goes on; it then sees whether
    the target exists. Not covered: a foreign program that creates the target in between, and only as an empty
    directory. A crash in between leaves the lock, which then refuses: remove it by hand after a look at the ledger.
    """
    lock = target.with_name(f".{target.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise RefusedError(
            f"{lock}: another process is just publishing this, or died over it; "
            "look at the ledger (veilstream releases), then remove the file"
        ) from None
    try:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.rename(source, target)
    finally:
        lock.unlink()


class Store(Protocol):
    """What the release pipeline asks of the place where releases lie (see LocalStore for each)."""

    def prepare(
        self, publication: str, candidate: int, files: Mapping[str, Writer], manifest: Mapping[str, Any]
    ) -> Prepared: ...
    def commit(self, prepared: Prepared, sequence: int) -> str: ...
    def resume(self, publication: str, sequence: int, temporary: str, manifest_sha256: str) -> bool: ...
    def location(self, publication: str, sequence: int) -> str: ...
    def exists(self, publication: str, sequence: int) -> bool: ...
    def releases(self, publication: str) -> list[int]: ...
    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]: ...
    def manifest_sha256(self, publication: str, sequence: int) -> str: ...
    def quarantine(self, prepared: Prepared) -> Path: ...
    def leftovers(self, publication: str) -> list[Path]: ...
    def clear_leftovers(self, publication: str) -> None: ...
    def free_bytes(self) -> int | None: ...


def open_store(url: str | Path, ops: FileOps | None = None, private: Path | None = None) -> Store:
    """The store at a path, a `file://` URL or any other fsspec URL (`memory://`, `s3://bucket/prefix`).

    `private` is a local folder for what nobody may see: quarantined bytes, and on object stores the unsealed ones too.
    It defaults to `<root>/operator` of a local store, and to a temporary folder for an object store.
    The local folder is made. InputError when it cannot be made or written, or the URL's kind is unknown.
    """
    ops = ops or FileOps()
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        from connectors.objects import ObjectStore

        return ObjectStore(text, ops, private)
    root = Path(text.removeprefix("file://"))
    try:
        (root / "public").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot hold releases ({error.strerror}); choose another folder with -o") from error
    if not os.access(root / "public", os.W_OK | os.X_OK):
        raise InputError(f"{root}: is not writable; choose another folder with -o, or change its owner")
    return LocalStore(root, ops, private or root / "operator")


def check_name(name: str) -> str:
    """The name itself, when it can be that of a folder or file; InputError for slashes, leading dots and the like."""
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name!r}: use letters, digits, dot, dash and underscore only")
    return name


def write_release(
    folder: Path,
    publication: str,
    candidate: int,
    files: Mapping[str, Writer],
    manifest: Mapping[str, Any],
    ops: FileOps,
) -> Prepared:
    """Write files and manifest into a new `.<candidate>.<uuid>.tmp` inside `folder`, and make everything durable.

    On any error nothing of them stays; OSError of the disk passes through.
    """
    _make_durable_folder(folder, ops)
    tmp = folder / f".{candidate:06d}.{uuid.uuid4().hex}.tmp"
    tmp.mkdir()
    try:
        listed = tuple(_write_durably(tmp / check_name(name), writer, ops) for name, writer in files.items())
        body = _encoded({**manifest, "files": listed})
        own = _write_durably(tmp / MANIFEST, lambda path: _write_bytes(path, body), ops)
        ops.fsync(tmp)
        ops.fsync(folder)
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    return Prepared(publication, candidate, tmp, listed, str(own["sha256"]))


def _make_durable_folder(folder: Path, ops: FileOps) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        ops.fsync(path.parent)


def _write_durably(path: Path, writer: Writer, ops: FileOps) -> Mapping[str, Any]:
    ops.write(path, writer)
    ops.fsync(path)
    return {"path": path.name, "sha256": digest(path), "bytes": path.stat().st_size}


def _write_bytes(path: Path, body: bytes) -> None:
    path.write_bytes(body)


def _encoded(manifest: Mapping[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(manifest, enc_hook=_plain), indent=2) + b"\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a manifest cannot hold {type(value).__name__}")


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class LocalStore:
    """Releases in a folder of this machine; `private` takes quarantined bytes."""

    root: Path
    ops: FileOps
    private: Path

    def _folder(self, publication: str) -> Path:
        return self.root / "public" / check_name(publication)

    def _release(self, publication: str, sequence: int) -> Path:
        return self._folder(publication) / release_name(sequence)

    def location(self, publication: str, sequence: int) -> str:
        """The folder of a release, whether it exists or not."""
        return str(self._release(publication, sequence))

    def prepare(
        self, publication: str, candidate: int, files: Mapping[str, Writer], manifest: Mapping[str, Any]
    ) -> Prepared:
        """Write the files in the order given, then `manifest.json` (the manifest with the list of files), durably."""
        return write_release(self._folder(publication), publication, candidate, files, manifest, self.ops)

    def commit(self, prepared: Prepared, sequence: int) -> str:
        """Make the release visible under its number; RefusedError when that number is there already."""
        self._rename(prepared.tmp, self._release(prepared.publication, sequence))
        return self.location(prepared.publication, sequence)

    def _rename(self, source: Path, target: Path) -> None:
        try:
            self.ops.rename_noreplace(source, target)
        except FileExistsError as error:
            raise refused(str(target)) from error
        self.ops.fsync(target.parent)

    def resume(self, publication: str, sequence: int, temporary: str, manifest_sha256: str) -> bool:
        """Finish a commit that a crash cut off; False when the sealed bytes are gone or are not what was sealed."""
        source = self._folder(publication) / temporary
        if not is_sealed(source, manifest_sha256):
            return False
        self._rename(source, self._release(publication, sequence))
        return True

    def exists(self, publication: str, sequence: int) -> bool:
        """Whether the release's folder is there (a foreign folder of that name counts: it must not be hidden)."""
        return os.path.lexists(self._release(publication, sequence))

    def releases(self, publication: str) -> list[int]:
        """Numbers of the releases that are visible, ascending."""
        return sorted(number for name in _names(self._folder(publication)) if (number := release_number(name)))

    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]:
        """The manifest of a release; InputError when it is missing or no JSON object."""
        return parse_manifest(self._manifest(publication, sequence), self.location(publication, sequence))

    def manifest_sha256(self, publication: str, sequence: int) -> str:
        """SHA-256 of `manifest.json` as it lies there; InputError when it is missing."""
        return hashlib.sha256(self._manifest(publication, sequence)).hexdigest()

    def _manifest(self, publication: str, sequence: int) -> bytes:
        path = self._release(publication, sequence) / MANIFEST
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    def quarantine(self, prepared: Prepared) -> Path:
        """Set the bytes of a release that lost its number aside, in the private folder; where they lie now."""
        return set_aside(prepared.tmp, self.private / "quarantine" / prepared.publication, self.ops)

    def leftovers(self, publication: str) -> list[Path]:
        """Temporary folders of unsealed releases, lowest candidate first."""
        return leftovers_in(self._folder(publication))

    def clear_leftovers(self, publication: str) -> None:
        """Quarantine every leftover: nobody has seen them, and an operator may want to know why they are there."""
        for tmp in self.leftovers(publication):
            set_aside(tmp, self.private / "quarantine" / publication, self.ops)

    def free_bytes(self) -> int | None:
        """Space left where the releases lie."""
        return self.ops.free_bytes(self.root)


def refused(target: str) -> RefusedError:
    """The number of a release is there already."""
    return RefusedError(
        f"{target} exists already; a release number is never published twice. "
        "Compare it with the ledger (veilstream releases) before going on"
    )


def release_number(name: str) -> int | None:
    """12 of `release-000012`, None of any other name."""
    match = _RELEASE.fullmatch(name)
    return int(match[1]) if match else None


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []


def leftovers_in(folder: Path) -> list[Path]:
    """The temporary release folders inside `folder`."""
    return [folder / name for name in sorted(_names(folder)) if _TEMPORARY.fullmatch(name)]


def is_sealed(folder: Path, manifest_sha256: str) -> bool:
    """Whether a temporary folder holds exactly what its sealed manifest says."""
    manifest = folder / MANIFEST
    if not _TEMPORARY.fullmatch(folder.name) or not manifest.is_file() or digest(manifest) != manifest_sha256:
        return False
    listed = parse_manifest(manifest.read_bytes(), str(manifest))["files"]
    return all((folder / file["path"]).is_file() and digest(folder / file["path"]) == file["sha256"] for file in listed)


def set_aside(tmp: Path, quarantine: Path, ops: FileOps) -> Path:
    """Move an unsealed release into the quarantine folder, out of the public tree."""
    quarantine.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = quarantine / tmp.name.lstrip(".")
    ops.rename_noreplace(tmp, target)
    ops.fsync(quarantine)
    return target


def parse_manifest(data: bytes, where: str) -> dict[str, Any]:
    """The manifest's JSON object; InputError otherwise."""
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise InputError(f"{where}: the manifest is no JSON; the release is damaged") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{where}: the manifest is no JSON object; the release is damaged")
    return manifest
