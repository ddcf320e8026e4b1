"""A file system of fsspec whose clients' errors are ours: one line each, and whether a later try may go well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from models.errors import InputError, UnavailableError, VeilstreamError

_ANSWERS = (FileNotFoundError, FileExistsError)
"""What a store says of an object: its caller knows what that means."""


_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"}
"""Without folders: there `makedirs` makes the bucket where a name is misspelt, and asks for rights that need not be."""


class ReachedFileSystem:
    """Calls go to the file system as they are. What its client raises becomes UnavailableError (the network, the store:
    a later try may go well, and the client has tried several times) or InputError (what is not allowed). Each client
    has exceptions of its own, which are no OSError: s3fs lets those of botocore through."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        if not callable(found):
            return found

        def called(*given: Any, **options: Any) -> Any:
            with reaching(self._where(given)):
                return found(*given, **options)

        return called

    def _where(self, given: tuple[Any, ...]) -> str:
        path = next((str(one) for one in given if isinstance(one, str)), "")
        return str(self._fs.unstrip_protocol(path)) if path else str(self._fs.protocol)


@contextmanager
def reaching(where: str) -> Iterator[None]:
    """Errors of a client become ours; for files that are open, too, which read later."""
    try:
        yield
    except (VeilstreamError, *_ANSWERS):
        raise
    except Exception as error:  # whatever client stands behind fsspec
        raise _ours(where, error) from error


def make_folder(fs: Any, path: str) -> None:
    """Make a folder where the file system has such."""
    kinds = fs.protocol
    if not _BUCKETS & ({kinds} if isinstance(kinds, str) else set(kinds)):
        fs.makedirs(path, exist_ok=True)


def _ours(where: str, error: Exception) -> Exception:
    """The error as one of ours; itself where it is a fault of the program."""
    name = type(error).__name__
    if isinstance(error, PermissionError):
        return InputError(f"{where}: the store does not allow this ({name}); look at its credentials and rights")
    if isinstance(error, OSError) or type(error).__module__ != "builtins":
        return UnavailableError(
            f"{where}: the store does not answer ({name}); what is sealed waits here and is uploaded by the next start"
        )
    return error
