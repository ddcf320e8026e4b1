"""The engine of a name, over a data set."""

from __future__ import annotations

from pathlib import Path

from connectors.reading import Reading
from models.errors import InputError
from stream.engine.contract import KINDS, Engine


def open_engine(kind: str, path: Path, reading: Reading, work: Path, memory: str | None = None) -> Engine:
    """The engine over the data set at `path`. `work`: a folder for what does not fit into memory. InputError for an
    unknown kind, for `memory` where nothing keeps to it, and for a data set that the engine cannot read."""
    if kind not in KINDS:
        raise InputError(f"--engine {kind!r} is not one of {', '.join(KINDS)}")
    if kind == "embedded":
        from stream.engine.embedded import Embedded

        if memory is not None:
            raise InputError("--memory: the embedded engine holds the log as it is; --engine duckdb keeps to a limit")
        return Embedded(path, reading)
    from stream.engine.source import opened

    source = opened(path, reading)
    if kind == "duckdb":
        from stream.engine.duckdb import DuckDb

        return DuckDb(source, work, memory)
    from stream.engine.spark import Spark

    return Spark(source, work, memory)
