"""A connection of duckdb, and its errors as one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError, VeilstreamError
from stream.engine.source import Source, is_url

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connected(source: Source, work: Path, memory: str | None) -> DuckDBPyConnection:
    """A connection that spills into `work` and fetches no extension from anywhere."""
    try:
        import duckdb
    except ImportError as error:
        raise InputError('--engine duckdb needs duckdb: install "veilstream[duckdb]"') from error
    spill = work / "spill"
    spill.mkdir(mode=0o700, exist_ok=True)
    settings: dict[str, Any] = {
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    if memory is not None:
        settings["memory_limit"] = memory
    try:
        connection = duckdb.connect(":memory:", config=settings)
    except duckdb.Error as error:
        raise InputError(f"--memory {memory}: not an amount of memory such as 2GB") from error
    if is_url(source.name):
        import fsspec

        connection.register_filesystem(fsspec.filesystem(source.name.partition("://")[0]))
    return connection


class Said:
    """Errors of duckdb as one clear line without content: its messages quote values."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import duckdb

        name = self._source.name
        if isinstance(error, duckdb.OutOfMemoryException):
            if "max_temp_directory_size" in str(error) or "No space left" in str(error):
                raise VeilstreamError(f"{name}: the disk is full; make room, or write elsewhere") from None
            raise VeilstreamError(f"{name}: more memory is needed than --memory allows; raise it") from None
        if isinstance(error, duckdb.IOException):
            raise VeilstreamError(f"{name}: cannot be read, or the disk is full ({type(error).__name__})") from None
        if isinstance(error, duckdb.Error):
            raise InputError(
                f"{name}: duckdb cannot read this ({type(error).__name__}); try --engine embedded, which says where"
            ) from None
