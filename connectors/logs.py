"""Read and write a log by the suffix of its file.

The reader of each kind is imported when it is used.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.case_ids import doubts, doubts_of_source
from connectors.columns import ColumnNames
from connectors.folders import one_after_another, parts
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import EventLog

SUFFIXES = (".xes", ".xes.gz", ".csv", ".csv.gz", ".parquet")
"""Suffixes that are written and read."""
READ = (*SUFFIXES, ".tsv", ".tsv.gz", ".json", ".jsonocel", ".sqlite", ".xml", ".xmlocel")
"""Suffixes that are read; the last five are object-centric logs (OCEL 2.0)."""
STDIN = "-"

_KINDS = {
    **dict.fromkeys((".tsv",), ".csv"),
    **dict.fromkeys((".json", ".jsonocel", ".sqlite", ".xml", ".xmlocel"), ".ocel"),
}

_INSTEAD = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet: save its sheet as CSV (UTF-8)"),
    **dict.fromkeys((".zip", ".7z", ".rar", ".tar", ".tgz", ".tar.gz"), "an archive: unpack it"),
    **dict.fromkeys((".txt", ".dat"), "if it is a table with a header, name it .csv (or .tsv)"),
    **dict.fromkeys((".jsonl", ".ndjson"), "JSON lines: write them as CSV or Parquet"),
}
"""Advice for files that are not a log."""


def suffix_of(path: Path) -> str:
    """Return the one of `SUFFIXES` that a file has.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        If it has none.
    """
    return _suffix(path, SUFFIXES)


def _suffix(path: Path, suffixes: Sequence[str]) -> str:
    for suffix in suffixes:
        if path.name.lower().endswith(suffix):
            return suffix.removesuffix(".gz")
    hints = [hint for suffix, hint in _INSTEAD.items() if suffixes is READ and path.name.lower().endswith(suffix)]
    hint = f" ({hints[0]})" if hints else ""
    raise InputError(f"{path}: unknown kind of log{hint}; use one of {', '.join(suffixes)}")


def kind_of_log(path: Path) -> str:
    """Return the kind of a file: .xes, .csv, .parquet or .ocel.

    For a folder it is the kind of all its files.

    Parameters
    ----------
    path
        A file or a folder.

    Raises
    ------
    InputError
        It is none of these, or the folder holds several kinds.
    """
    if path.is_dir():
        kinds = {kind_of_log(file) for file in parts(path, READ)}
        if len(kinds) != 1:
            contents = "several kinds of logs" if kinds else f"no log ({', '.join(READ)})"
            raise InputError(f"{path}: the folder holds {contents}; name one file, or a folder of one kind")
        kind = kinds.pop()
        if kind == ".ocel":
            raise InputError(
                f"{path}: only files of object-centric logs are in the folder, and each is a log of its own; name one "
                f"file, or a folder of files of one other kind ({', '.join(SUFFIXES)}, .tsv)"
            )
        return kind
    suffix = _suffix(path, READ)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return _KINDS.get(suffix, suffix)


def read_log(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
    *,
    unit: str | None = None,
    reading: Reading | None = None,
) -> EventLog:
    """Read the event log of a file, a folder or standard input.

    Each case is in time order, ties in file order. Attributes are kept under their names in the file; `case:X` of
    flat files is the case attribute `X`.

    Parameters
    ----------
    path
        The file, or a folder of files of one kind, or `-` for standard input.
    columns
        Part of the log (case, activity, time, resource, lifecycle) to column name. XES names are the default, and the
        headers of common exports are known (`connectors.columns`).
    timezone
        IANA name of the zone of times that have none. If not set, such a time is an InputError.
    unit
        ns, us, ms or s: the unit in which the time column counts since 1970-01-01 UTC (CSV and Parquet).
    reading
        The same settings and more (`connectors.reading`). The other parameters take precedence.

    Raises
    ------
    InputError
        The log cannot be read. The message names file and line, or trace and event, never content.
    """
    settings = reading or Reading()
    parameters: dict[str, Any] = {"columns": columns, "timezone": timezone, "unit": unit}
    settings = replace(settings, **{name: value for name, value in parameters.items() if value is not None})
    settings, bad = settings.collecting(str(path))
    if str(path) == STDIN:
        from connectors.stdin import NAME, spooled

        with spooled() as file:
            log = _read(file, settings)
            bad.renamed(str(file), NAME)
    else:
        log = _read(Path(path), settings)
    # Before `--lifecycle` leaves out events: these were read.
    bad.readable = log.n_events
    if bad and settings.on_bad_rows is None:
        settings.say(bad.report())
    elif bad and settings.on_bad_rows is not None:
        settings.on_bad_rows(bad)
    sentences = doubts(log)
    if declared_times(Path(path)) is None:  # no release, whose times may be coarse
        sentences += doubts_of_source(log)
    for sentence in sentences:
        settings.say(f"{path}: {sentence}")
    return _of_transitions(log, settings)


def _of_transitions(log: EventLog, reading: Reading) -> EventLog:
    from connectors.lifecycle import counted_twice, has_starts_and_completes, of_log

    column = ColumnNames.of(reading.columns).lifecycle
    if reading.lifecycle is not None:
        return of_log(log, reading.lifecycle, column, reading.say)
    if has_starts_and_completes(log, column):
        reading.say(counted_twice(column, len(log.event_attributes[column].values)))
    return log


def _read(path: Path, reading: Reading) -> EventLog:
    kind = kind_of_log(path)
    if kind == ".xes":
        logs = [_read_xes(file, reading) for file in parts(path, SUFFIXES)]
        if len(logs) == 1:
            return logs[0]
        return one_after_another(logs, path)
    if kind == ".ocel":
        from connectors import ocel

        return ocel.read(path, reading)
    if kind == ".csv":
        from connectors import csv

        return csv.read(path, reading)
    from connectors import parquet

    return parquet.read(path, reading)


def _read_xes(path: Path, reading: Reading) -> EventLog:
    from connectors import xes

    bad = reading.bad_rows if reading.leaves_out else None
    if reading.timezone is None:
        return xes.read(path, reading.columns, None, bad, say=reading.say)
    import numpy as np

    from connectors.time_columns import report_clock_changes

    clock_times = array("q")
    log = xes.read(path, reading.columns, reading.timezone, bad, clock_times, reading.say)
    # Two clocks in one log may differ, and then events of a case change their order.
    n_without, n_with = len(clock_times), log.n_events - len(clock_times)
    if n_without and n_with > 0:
        reading.say(
            f"{path}: {n_with} of the times have a zone and {n_without} have none, which are read in {reading.timezone}"
        )
    if reading.on_clock_changes is None:
        return log
    shown = np.asarray(clock_times, dtype=np.int64).astype("datetime64[ns]")
    report_clock_changes(shown, np.ones(len(shown), dtype=np.int64), reading)
    return log


def read_released(path: Path, reading: Reading) -> EventLog:
    """Read a log that may be a release of the log that `reading` describes.

    Releases have the column names of XES and times with a zone, so the statements about the original need not fit them.

    Parameters
    ----------
    path
        The log.
    reading
        Statements of the user about the original. They are tried first.

    Raises
    ------
    InputError
        If neither these statements nor those of a release fit; the error is that of the former.
    """
    try:
        return read_log(path, reading=reading)
    except InputError as error:
        try:
            return read_log(path, reading=Reading(say=reading.say))
        except InputError:
            raise error from None


def read_back(path: Path) -> EventLog:
    """Return the log of a file that `write_log` has just written.

    Parameters
    ----------
    path
        The file.
    """
    if suffix_of(path) == ".xes":
        from connectors import xes

        log = xes.quickly(path, ColumnNames.of(None))
        return log or xes.read_generally(path, ColumnNames.of(None))
    return read_log(path)


_HEAD = 1 << 16
"""Bytes of an XES file in which the header of a release ends: it lists parameters and a few sentences."""


def declared_times(path: Path) -> str | None:
    """Return the meaning of a release's times (`time_basis` of `write_log`).

    None if the file does not state it: CSV has no place for it, and other programs do not write it.

    Parameters
    ----------
    path
        The log.
    """
    if not path.is_file():
        return None
    suffix = _suffix(path, READ)
    if suffix == ".xes":
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rb") as stream:
            match = re.search(rb'key="privacy:time_basis" value="([a-z]+)"', stream.read(_HEAD))
        return match[1].decode() if match else None
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        about = (pq.read_schema(path).metadata or {}).get(b"privacy")
        return json.loads(about).get("time_basis") if about else None
    return None


def has_no_event(path: Path) -> bool:
    """Return whether a log that `write_log` wrote has no event; a file that is gone or damaged counts as one that has.

    It stops at the first event.

    Parameters
    ----------
    path
        The file.
    """
    suffix = suffix_of(path)
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            return bool(pq.read_metadata(path).num_rows == 0)
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rb") as stream:
            if suffix == ".csv":
                next(stream, b"")  # the header
                return next(stream, None) is None
            return not any(b"<event>" in line for line in stream)
    except (OSError, EOFError, ValueError, zlib.error):
        return False


def write_log(
    log: EventLog,
    path: str | Path,
    *,
    privacy: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    time_basis: str | None = None,
    durations: bool = False,
) -> None:
    """Write the log in the format of the path's suffix.

    Case, activity and times are written under XES names. An existing file is replaced when all is written. Cases
    without events appear in XES only.

    Parameters
    ----------
    log, path
        The log, and the file.
    privacy
        The operations that were applied, one mapping each: log-level `privacy:anonymizations` of XES, schema metadata
        of Parquet. CSV has no place for it.
    time_basis
        The meaning of the times (ordinal, relative, noised, ...), kept in the same places.
    durations
        Write times since the start of their case as durations (CSV, Parquet).
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix == ".xes":
        if durations:
            raise InputError(f"{path}: XES has no durations; write .csv or .parquet")
        from connectors import xes_write

        xes_write.write(log, path, privacy, time_basis)
    elif suffix == ".csv":
        from connectors import csv

        csv.write(log, path, durations=durations)
    else:
        from connectors import parquet

        named = {"anonymizations": privacy, "time_basis": time_basis}
        parquet.write(log, path, {key: value for key, value in named.items() if value}, durations=durations)
