"""A file system of fsspec with the error classes of this program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from models.errors import InputError, UnavailableError, VeilstreamError

_ANSWERS = (FileNotFoundError, FileExistsError)
"""Errors of a store about an object: its caller handles them."""


_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"}
"""Without folders: there `makedirs` makes the bucket where a name is misspelt, and asks for rights that need not be."""


class ReachedFileSystem:
    """A file system whose errors are UnavailableError or InputError.

    Calls go to the file system as they are. A failure of the network or of the store becomes UnavailableError (a
    later try may succeed; the client has tried several times). A denied request becomes InputError. A wrapper is
    necessary because each client has exceptions that are not OSError: s3fs lets those of botocore through.

    Parameters
    ----------
    fs
        The file system of fsspec.
    """

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the file system; a method reports its errors as above."""
        attribute = getattr(self._fs, name)
        if not callable(attribute):
            return attribute

        def called(*arguments: Any, **options: Any) -> Any:
            with reaching(self._location(arguments)):
                return attribute(*arguments, **options)

        return called

    def _location(self, arguments: tuple[Any, ...]) -> str:
        path = next((str(argument) for argument in arguments if isinstance(argument, str)), "")
        if path:
            return str(self._fs.unstrip_protocol(path))
        return str(self._fs.protocol)


def reached_at(url: str) -> tuple[Any, str]:
    """Return the file system of a store's URL, and the path in it.

    Parameters
    ----------
    url
        The URL, such as `s3://bucket/folder`.

    Raises
    ------
    InputError
        For a kind of store without a client.
    """
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise InputError(f"{url.partition('://')[0]}://: this kind of store cannot be opened ({error})") from error
    return ReachedFileSystem(fs), path


@contextmanager
def reaching(location: str) -> Iterator[None]:
    """Raise errors of a client as errors of this program.

    Use it also around files that are open: they read later.

    Parameters
    ----------
    location
        Place of the store, which messages name.
    """
    try:
        yield
    except (VeilstreamError, *_ANSWERS):
        raise
    except Exception as error:  # fsspec passes the errors of any client
        raise _ours(location, error) from error


def make_folder(fs: Any, path: str) -> None:
    """Make a folder, if the file system has folders.

    Parameters
    ----------
    fs
        File system of fsspec. Buckets have no folders.
    path
        Path in it.
    """
    kinds = fs.protocol
    if not _BUCKETS & ({kinds} if isinstance(kinds, str) else set(kinds)):
        fs.makedirs(path, exist_ok=True)


def _ours(location: str, error: Exception) -> Exception:
    """Return the error to raise; the error itself if it is a defect of the program."""
    name = type(error).__name__
    if isinstance(error, PermissionError):
        return InputError(f"{location}: the store does not allow this ({name}); look at its credentials and rights")
    if isinstance(error, OSError) or type(error).__module__ != "builtins":
        return UnavailableError(
            f"{location}: the store does not answer ({name}); "
            "what is sealed waits here and is uploaded by the next start"
        )
    return error
