"""The operator's folder: ledger, key, checkpoints and per-release audits; one process at a time.

DIR/public/<publication>/release-000012/       what recipients get (or a store elsewhere)
DIR/operator/ledger.sqlite, key, checkpoints/, <publication>/000012/{audit.json, variants.parquet, memory.json}
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import uuid
from pathlib import Path
from typing import IO, Any

import msgspec

from connectors.files import FileOps, Writer, bytes_writer
from connectors.store.base import PUBLIC, digest
from models.errors import InputError, RefusedError, kind_of, shortage
from stream.ledger.layout import KEY, OPERATOR, OperatorLayout

KEY_BYTES = 32

DIGESTS = "digests.json"
"""File next to them: {file name: [sha256]}. While a file is rewritten, it lists the old and the new digest."""

BUILDING = ".cut-"
"""Begins the name of a folder with the cases of a cut, while an engine builds it."""

UNFINISHED = ".new"
"""Suffix of a file that is being written; one that a crash left is removed at the next start."""


class FolderLockedError(RefusedError):
    """Another process has the operator's folder."""


def ledger_in(output: Path, writer: str = "a replay or daemon") -> Path:
    """Return the ledger's file of an output folder; InputError if there is none."""
    path = OperatorLayout(output).ledger
    if not output.exists():
        raise InputError(f"{output}: there is no such folder; give the output folder of {writer}")
    if not path.is_file():
        raise InputError(f"{output}: no operator/ledger.sqlite here; give the output folder of {writer}")
    return path


class EndedBuild(msgspec.Struct, frozen=True):
    """A build that took too long.

    Attributes
    ----------
    cut
        The cut that was built.
    seconds
        How long its build had taken.
    allowed
        How long it may take (`longest_build`).
    """

    cut: str
    seconds: float
    allowed: float


class StartedBuild(msgspec.Struct, frozen=True):
    """A build that has begun, and did not come to an end.

    Attributes
    ----------
    cut
        The cut that was built.
    starts
        How many processes in a row have begun it.
    """

    cut: str
    starts: int


class OperatorFolder:
    """`DIR/operator`, opened for writing and locked for as long as this object lives."""

    def __init__(self, output: Path, ops: FileOps | None = None) -> None:
        self.output, self.ops = output, ops or FileOps()
        self.layout = OperatorLayout(output)
        self.path = self.layout.root
        _refuse_foreign(output)
        _refuse_links(output)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            os.chmod(self.path, 0o700)
            ignored_by_git(output)
            self._lock: IO[str] = self.layout.lock.open("a")
        except OSError as error:
            # With code 2 a container waits for a person, also after the disk can be written again.
            raise shortage(error, str(output)) or InputError(
                f"{output}: cannot be written ({error.strerror})"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise FolderLockedError(f"{output}: another veilstream process is using this folder") from None
        for leftover in self.path.rglob(f"*{UNFINISHED}"):
            leftover.unlink()
        for cases in self.path.glob(f"{BUILDING}*.tmp"):  # raw, of a run that was killed while an engine built
            shutil.rmtree(cases)
        for lock in self.path.glob(f"{BUILDING}*.lock"):
            lock.unlink()
        self._restrict()

    def _restrict(self) -> None:
        """Give files and folders of earlier versions, or of a copy, the modes of new ones.

        The folder itself keeps others out. A file that is copied or moved out of it takes its own mode along.
        """
        for parent, folders, files in os.walk(self.path):
            for name in folders:
                make_private(Path(parent) / name)
            for name in files:
                # The key may be a secret that the host mounts for a group.
                if name != KEY:
                    make_private(Path(parent) / name)

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.close()

    def keep_configuration(self, body: dict[str, Any]) -> None:
        """Record the configuration of the folder, for commands that get only the folder."""
        path, content = self.layout.configuration, json_bytes(body)
        if not path.is_file() or path.read_bytes() != content:
            replace_with(self.ops, path, bytes_writer(content))

    def note_ended_build(self, ended: EndedBuild) -> None:
        """Record, durably, the build because of which this process ends."""
        replace_with(self.ops, self.layout.ended_build, bytes_writer(msgspec.json.encode(ended)))

    def note_started_build(self, started: StartedBuild) -> None:
        """Record, durably, that a build begins."""
        replace_with(self.ops, self.layout.started_build, bytes_writer(msgspec.json.encode(started)))

    def started_build(self) -> StartedBuild | None:
        """Return the build during which an earlier process was killed; None if there is none."""
        try:
            return msgspec.json.decode(self.layout.started_build.read_bytes(), type=StartedBuild)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None  # of an unreadable one: the count begins again

    def forget_started_build(self) -> None:
        """Forget the build: it came to an end, or this process stops for another reason."""
        self.layout.started_build.unlink(missing_ok=True)

    def ended_build(self) -> EndedBuild | None:
        """Return the build because of which an earlier process has ended; None if there is none, or it is decided."""
        try:
            return msgspec.json.decode(self.layout.ended_build.read_bytes(), type=EndedBuild)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None  # of an unreadable one: the build begins again, and is noted again if it takes too long

    def forget_ended_build(self) -> None:
        """Remove the record: the cut is decided."""
        self.layout.ended_build.unlink(missing_ok=True)

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self.layout.ledger

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.layout.checkpoints

    def key(self) -> bytes:
        """Return the pseudonym key: made on first use (0600), and in no backup of public data.

        Raises
        ------
        RefusedError
            If the folder was used before and its key is missing.
        """
        path = self.layout.key
        if not path.exists():
            refuse_lost_key(self.layout)
            create_key(path)
        return read_key(path)

    def release(self, publication: str, sequence: int) -> Path:
        """Return the folder of one release."""
        return self.layout.release(publication, sequence)

    def prepare(self, publication: str, files: dict[str, Writer]) -> Path:
        """Write the operator's files of a candidate into a fresh temporary folder and make them durable."""
        folder = self.path / publication / f".{uuid.uuid4().hex}.tmp"
        folder.mkdir(parents=True)
        make_private(folder.parent)
        make_private(folder)
        for name, write in files.items():
            self.ops.write(folder / name, write)
            make_private(folder / name)
            self.ops.fsync(folder / name)
        if DIGESTS not in files:  # a copy from the mirror brings those of the host that wrote the files
            digests = {name: [digest(folder / name)] for name in files}
            self.ops.write(folder / DIGESTS, write_json(digests))
            make_private(folder / DIGESTS)
            self.ops.fsync(folder / DIGESTS)
        self.ops.fsync(folder)
        self.ops.fsync(folder.parent)
        self.ops.fsync(self.path)
        return folder

    def commit(self, temporary: str, publication: str, sequence: int) -> None:
        """Give a prepared folder its number (after the seal). Does nothing when that was done before."""
        source, target = self.path / publication / temporary, self.release(publication, sequence)
        if not source.exists():
            return
        try:
            self.ops.rename_noreplace(source, target)
        except FileExistsError:
            raise RefusedError(f"{target}: already exists, and so does an unfinished one of the same release") from None
        self.ops.fsync(target.parent)

    def discard(self, publication: str) -> None:
        """Remove temporary folders of attempts that were never sealed (they hold what was not published)."""
        for folder in (self.path / publication).glob(".*.tmp"):
            shutil.rmtree(folder)


def make_private(path: Path) -> None:
    """Let only the owner read a file (0600) or enter a folder (0700), for every umask.

    Links, and files of another owner (a mounted secret), stay as they are.
    """
    if path.is_symlink() or not path.exists():
        return
    mode = 0o700 if path.is_dir() else 0o600
    with contextlib.suppress(PermissionError):
        if stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)


def ignored_by_git(folder: Path, name: str | None = None) -> None:
    """Keep what is written to a folder out of a checkout that the folder is in.

    A `.gitignore` that exists stays as it is. A folder that cannot be written gets none.

    Parameters
    ----------
    folder
        The folder that gets a `.gitignore`.
    name
        The file that will be written. A folder that holds other files has that file ignored alone: they are the
        user's. Without a name the folder is ours, and all of it is ignored.
    """
    with contextlib.suppress(OSError):
        rule = f"/{name}" if name is not None and any(folder.iterdir()) else "*"
        with (folder / ".gitignore").open("x", encoding="utf-8") as file:
            file.write(f"{rule}\n")


def replace_with(ops: FileOps, path: Path, write: Writer) -> None:
    """Replace the content of a file, durably and at once."""
    temporary = path.with_name(path.name + UNFINISHED)
    ops.write(temporary, write)
    make_private(temporary)
    ops.fsync(temporary)
    ops.replace(temporary, path)
    ops.fsync(path.parent)


def rewrite(ops: FileOps, path: Path, write: Writer) -> None:
    """Replace one of the operator's files of a release, and keep its digest with it.

    Both digests are valid until the new file exists: a crash between two steps leaves nothing that looks damaged.

    Parameters
    ----------
    ops
        Operations on the disk.
    path
        The file.
    write
        Writes the new content to the path that it is called with.
    """
    temporary = path.with_name(path.name + UNFINISHED)
    ops.write(temporary, write)
    make_private(temporary)
    ops.fsync(temporary)
    after = digest(temporary)
    digests = read_digests(path.parent)
    before = digests.get(path.name, [])
    _keep_digests(ops, path.parent, {**digests, path.name: [*before, after]})
    ops.replace(temporary, path)
    ops.fsync(path.parent)
    _keep_digests(ops, path.parent, {**digests, path.name: [after]})


def _keep_digests(ops: FileOps, folder: Path, digests: dict[str, list[str]]) -> None:
    replace_with(ops, folder / DIGESTS, write_json(digests))


def read_digests(folder: Path) -> dict[str, list[str]]:
    """Return the digests of the operator's files of a release; empty for one of an earlier program."""
    try:
        return msgspec.json.decode((folder / DIGESTS).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _refuse_foreign(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: is a file, not a folder; choose another with -o")
    if not output.exists():
        return
    strangers = {entry.name for entry in output.iterdir()} - {PUBLIC, OPERATOR, ".gitignore"}
    if strangers and not OperatorLayout(output).ledger.exists():
        raise InputError(f"{output}: holds files that are not veilstream's; choose an empty folder with -o")


def _refuse_links(output: Path) -> None:
    """Refuse a folder of which a part is elsewhere by a symbolic link.

    Other users may be able to write there, and a backup would not contain it. The folder itself may be a link, and
    so may the key (secrets are mounted so).
    """
    if not output.is_dir():
        return
    home = output.resolve()
    folders = [output]
    for _level in range(3):  # public and operator, their publications, their releases
        below = [entry for folder in folders for entry in os.scandir(folder) if entry.name != KEY]
        for entry in below:
            if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(home):
                raise InputError(
                    f"{entry.path}: is a symbolic link out of {output}; move what it leads to here, or set `store`"
                )
        folders = [Path(entry.path) for entry in below if entry.is_dir(follow_symlinks=False)]


def refuse_writable(path: Path) -> None:
    """Refuse a secret that every user of the host can write: anybody who replaces the key can name every case.

    Members of its group may write it (Kubernetes gives a volume's files to a group). A missing file is reported by the
    reader.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & stat.S_IWOTH:
        raise InputError(f"{path}: every user can write it, so it is no secret; chmod 600, and make a new one")


def refuse_lost_key(layout: OperatorLayout) -> None:
    """Refuse a folder that has a ledger and no key file, before a new key is made.

    Under a new key everybody is somebody else: K would count a person twice, and an erasure would find
    nobody.
    """
    if layout.ledger.exists():
        raise RefusedError(
            f"{layout.key}: is missing, and the folder was used under a pseudonym key: restore the key from a backup, "
            "or give it with VEILSTREAM_KEY_FILE; a new one would make everybody somebody else"
        )


def create_key(path: Path) -> None:
    """Create a new random key, readable by its owner only; InputError if the file exists."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path}: already exists; a second key would make one person count as two") from None
    except OSError as error:
        raise shortage(error) or InputError(f"{path}: cannot be written ({error.strerror})") from None
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_key(path: Path) -> bytes:
    """Read the key of a key file (hex); InputError if it is missing, short, not hex, or every user can write it."""
    refuse_writable(path)
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise kind_of(error)(f"{path}: the key cannot be read ({error.strerror})") from None
    except (ValueError, UnicodeDecodeError):
        raise InputError(f"{path}: not a key file (64 hexadecimal digits)") from None
    if len(key) < KEY_BYTES:
        raise InputError(f"{path}: the key is shorter than {KEY_BYTES} bytes")
    return key


def write_json(value: Any) -> Writer:
    """Return a writer of one JSON document, indented for people."""
    return bytes_writer(json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Return a JSON document, indented for people."""
    return msgspec.json.format(compact_json(value), indent=2) + b"\n"


def write_compact(value: Any) -> Writer:
    """Return a writer of one JSON document that only programs read: long arrays would take a line an element."""
    return bytes_writer(compact_json(value))


def compact_json(value: Any) -> bytes:
    """Return a JSON document without blanks; arrays are lists in it."""
    return msgspec.json.encode(value, enc_hook=_json_form)


def _json_form(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
