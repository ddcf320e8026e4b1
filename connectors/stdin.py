"""A log from standard input (`-`).

It is kept in a file while it is read, since readers look twice. Its first bytes show the kind of log.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import InputError

NAME = "standard input"


@contextmanager
def spooled() -> Iterator[Path]:
    """Yield a file with the bytes of standard input, named by its kind.

    Errors name standard input instead of the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stdin"
        with file.open("wb") as target:
            shutil.copyfileobj(sys.stdin.buffer, target)
        named = file.rename(file.with_name(f"stdin{_suffix(file)}"))
        try:
            yield named
        except InputError as error:
            raise type(error)(str(error).replace(str(named), NAME)) from error


def _suffix(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(4096)
    if head.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(file) as unpacked:
                return f"{_kind(unpacked.read(4096))}.gz"
        except (EOFError, OSError, zlib.error):
            return ".csv.gz"  # its reader reports the fault
    return _kind(head)


def _kind(head: bytes) -> str:
    bare = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(b"SQLite format 3\0"):
        return ".sqlite"
    if bare.startswith(b"{"):
        return ".json"
    if bare.startswith((b"<", b"\xff\xfe<", b"\xfe\xff\0<")):
        return ".xes" if b"<log" in head or b"l\0o\0g" in head or b"object-types" not in head else ".xml"
    return ".csv"
