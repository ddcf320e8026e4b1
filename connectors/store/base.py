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

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

from connectors.files import FileOps, Writer
from models.errors import InputError, RefusedError, TakenOverError

MANIFEST = "manifest.json"
HELD = "held"
"""Folder of a publication, in the operator's part, with the files of releases that a person has not yet approved."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RELEASE = re.compile(r"release-(\d{6,})")
_TEMPORARY = re.compile(r"\.(\d{6,})\.[0-9a-f]{32}\.tmp")


def release_name(sequence: int) -> str:
    """`release-000012`."""
    return f"release-{sequence:06d}"


class FileEntry(TypedDict):
    """One file of a release, as manifest and ledger list it."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release whose bytes are durable and which nobody can see yet.

    `moment` (ns): when its files shall say that they were written; None: as it was. `files`:
    everything but the manifest, which lists them itself.
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


class Store(Protocol):
    """What the release pipeline asks of the place where releases lie (see LocalStore for each)."""

    def prepare(
        self,
        publication: str,
        candidate: int,
        files: Mapping[str, Writer],
        manifest: Mapping[str, Any],
        *,
        held: bool = False,
    ) -> Prepared: ...
    def commit(self, prepared: Prepared, sequence: int) -> str: ...
    def resume(
        self, publication: str, sequence: int, temporary: str, manifest_sha256: str, moment: int | None = None
    ) -> bool: ...
    def holds(self, publication: str, temporary: str, manifest_sha256: str) -> bool: ...
    def keeps(self, publication: str, temporary: str, manifest_sha256: str | None = None) -> bool: ...
    def keep(self, publication: str, temporary: str, files: Mapping[str, bytes]) -> None: ...
    def let_go(self, publication: str, temporary: str) -> None: ...
    def drop(self, publication: str, temporary: str) -> None: ...
    def location(self, publication: str, sequence: int) -> str: ...
    def exists(self, publication: str, sequence: int) -> bool: ...
    def releases(self, publication: str) -> list[int]: ...
    def publications(self) -> list[str]: ...
    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]: ...
    def manifest_sha256(self, publication: str, sequence: int) -> str: ...
    def quarantine(self, prepared: Prepared) -> Path: ...
    def leftovers(self, publication: str) -> list[Path]: ...
    def clear_leftovers(self, publication: str, keep: Collection[str] = ()) -> None: ...
    def free_bytes(self) -> int | None: ...


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

    On any error nothing of them stays; OSError of the disk passes through. TakenOverError if the temporary folder was
    taken away meanwhile.
    """
    make_durable_folder(folder, ops)
    tmp = folder / f".{candidate:06d}.{uuid.uuid4().hex}.tmp"
    tmp.mkdir(mode=0o700)  # it may wait here for its moment, in a folder that recipients read
    try:
        listed = tuple(_write_durably(tmp / check_name(name), writer, ops) for name, writer in files.items())
        body = encoded({**manifest, "files": listed})
        own = _write_durably(tmp / MANIFEST, lambda path: _write_bytes(path, body), ops)
        ops.fsync(tmp)
        ops.fsync(folder)
    except (OSError, InputError):
        check_unfinished(tmp)  # first: without its folder, every step fails in its own words
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    return Prepared(publication, candidate, tmp, listed, own["sha256"])


def check_unfinished(tmp: Path) -> None:
    """Check that the folder of an unfinished release is still where it was made.

    A coordinator that takes over sets the unfinished releases of a shared store aside, or finishes those that are
    sealed. The process that made the folder was stopped meanwhile (SIGSTOP, a paused machine), and may not know it yet.

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


def make_durable_folder(folder: Path, ops: FileOps) -> None:
    """Make a folder and those above it, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        ops.fsync(path.parent)


def _write_durably(path: Path, writer: Writer, ops: FileOps) -> FileEntry:
    ops.write(path, writer)
    ops.fsync(path)
    return {"path": path.name, "sha256": digest(path), "bytes": path.stat().st_size}


def _write_bytes(path: Path, body: bytes) -> None:
    path.write_bytes(body)


def encoded(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as it stands in its file."""
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


def refused(target: str) -> RefusedError:
    """Error for a release number that already exists."""
    return RefusedError(
        f"{target} exists already; a release number is never published twice. "
        "Compare it with the ledger (veilstream releases) before going on"
    )


def release_number(name: str) -> int | None:
    """12 of `release-000012`, None of any other name."""
    match = _RELEASE.fullmatch(name)
    return int(match[1]) if match else None


def names_only(found: Iterable[str]) -> list[str]:
    """Those that can be names of publications, sorted."""
    return sorted(name for name in found if _NAME.fullmatch(name))


def folder_names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []


def leftovers_in(folder: Path) -> list[Path]:
    """The temporary release folders inside `folder`."""
    return [folder / name for name in sorted(folder_names(folder)) if _TEMPORARY.fullmatch(name)]


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
