"""Engines: where tables of variants are counted and plans applied. A plan is made in one process (models.variants)."""

from __future__ import annotations

from pathlib import Path

from connectors.reading import Reading
from models.errors import InputError, check_choice
from stream.engine.contract import KINDS, Engine

__all__ = ["KINDS", "Engine", "open_engine"]


def open_engine(kind: str, path: Path, reading: Reading, work: Path, memory: str | None = None) -> Engine:
    """Open a data set with the engine of a name.

    Parameters
    ----------
    kind
        One of `KINDS`.
    path
        The data set: a file, folder, pattern or URL.
    reading
        How its rows are read.
    work
        A folder for data that does not fit into memory; the caller removes it.
    memory
        Most that the engine may use, such as `2GB`.

    Returns
    -------
    Engine
        To be closed by the caller.

    Raises
    ------
    InputError
        For an unknown kind, for `memory` with an engine that keeps no limit, and for a data set that the engine
        cannot read.
    """
    check_choice("--engine", kind, KINDS)
    # Engines are imported when they are opened: their libraries are extras, and heavy.
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
