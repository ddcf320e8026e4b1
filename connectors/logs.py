"""Reading and writing a log by the suffix of its file; the reader of each kind is imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from models.errors import InputError
from models.eventlog import EventLog

SUFFIXES = (".xes", ".xes.gz", ".csv", ".csv.gz", ".parquet")


def suffix_of(path: Path) -> str:
    """Which of `SUFFIXES` the file has; InputError when none."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix.removesuffix(".gz")
    raise InputError(f"{path}: unknown kind of log; use one of {', '.join(SUFFIXES)}")


def read_log(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    *,
    unit: str | None = None,
) -> EventLog:
    """The event log of a file, each case in time order (ties in file order).

    * `columns` maps case, activity, time, resource to column names; XES names are the defaults.
    * `timezone` (IANA name) is the zone of times that carry none; without it such a time is an InputError.
    * `unit` (ns, us, ms, s; CSV and Parquet) says that the time column counts since 1970-01-01 UTC.

    Attributes are kept under their names in the file; `case:X` of flat files is the case attribute `X`.
    InputError names file and line, or trace and event, never content.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if suffix == ".xes":
        from connectors import xes

        return xes.read(path, columns, timezone)
    if suffix == ".csv":
        from connectors import csv

        return csv.read(path, columns, timezone, unit=unit)
    from connectors import parquet

    return parquet.read(path, columns, timezone, unit=unit)


def read_back(path: Path) -> EventLog:
    """A file that `write_log` has just written, as `read_log` reads it; XES by a quicker way, where it can."""
    if suffix_of(path) == ".xes":
        from connectors import xes_lines

        found = xes_lines.read(path)
        if found is not None:
            return found
    return read_log(path)


def write_log(
    log: EventLog,
    path: str | Path,
    *,
    privacy: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    time_basis: str | None = None,
) -> None:
    """Write the log in the format of the path's suffix; an existing file is replaced when all is written.

    * `privacy` says what was done to the log, one mapping an operation: log-level `privacy:anonymizations` of XES,
      schema metadata of Parquet; CSV has no place for it.
    * `time_basis` (ordinal, relative, noised, ...) says what the times mean, kept in the same places.

    Case, activity and times are written under XES names. Cases without events appear in XES only.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix == ".xes":
        from connectors import xes_write

        xes_write.write(log, path, privacy, time_basis)
    elif suffix == ".csv":
        from connectors import csv

        csv.write(log, path)
    else:
        from connectors import parquet

        named = {"anonymizations": privacy, "time_basis": time_basis}
        parquet.write(log, path, {key: value for key, value in named.items() if value})
