"""Durable writes: steps that touch the disk, and a rename that replaces nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from models.errors import RefusedError

Writer = Callable[[Path], None]
"""Writes one file of a release at the path it is given."""


def bytes_writer(content: bytes) -> Writer:
    """Return a writer of a file with this content.

    Parameters
    ----------
    content
        The bytes.
    """

    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


class FileOps:
    """The steps that touch the disk, one method each.

    A test can make any of them fail.
    """

    def write(self, path: Path, writer: Writer) -> None:
        """Let `writer` write the file.

        Parameters
        ----------
        path
            The file.
        writer
            Called with the path.
        """
        writer(path)

    def fsync(self, path: Path) -> None:
        """Make a file's bytes, or a directory's entries, durable.

        Parameters
        ----------
        path
            The file or directory.

        Raises
        ------
        OSError
            Errors of the disk pass through.
        """
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename_noreplace(self, source: Path, target: Path) -> None:
        """Rename a directory, unless the target exists.

        Parameters
        ----------
        source, target
            Directories on one file system.

        Raises
        ------
        FileExistsError
            If the target exists, even as an empty directory.
        """
        if not _renameat2(source, target):
            _rename_claimed(source, target)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file over another, at once.

        Parameters
        ----------
        source, target
            Files on one file system.
        """
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file.

        Parameters
        ----------
        path
            The file.
        """
        os.unlink(path)

    def stamp(self, path: Path, moment: int) -> None:
        """Set the access and modification time of a file or directory.

        Parameters
        ----------
        path
            The file or directory.
        moment
            ns since 1970-01-01 UTC.
        """
        os.utime(path, ns=(moment, moment))

    def free_bytes(self, path: Path) -> int:
        """Return the space left for an ordinary user on the file system of `path`, in bytes.

        Parameters
        ----------
        path
            A file or directory that exists.
        """
        return shutil.disk_usage(path).free


def _renameat2(source: Path, target: Path) -> bool:
    """Rename by renameat2(RENAME_NOREPLACE); False if the system or its file system does not support it."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    current_folder, noreplace = -100, 1  # AT_FDCWD, RENAME_NOREPLACE of linux/fs.h
    if call(current_folder, os.fsencode(source), current_folder, os.fsencode(target), noreplace) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))


def _rename_claimed(source: Path, target: Path) -> None:
    """Rename on file systems without RENAME_NOREPLACE (some network file systems, other systems).

    `<target>.lock` is created exclusively first, so that only one of several processes continues; it then checks
    whether the target exists. Not covered: a foreign program that creates the target in between, and only as an empty
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
