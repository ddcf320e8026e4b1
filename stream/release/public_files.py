"""The public files of a release: how they are written, and read back before the seal.

A promise is one about bytes. Each file is read by the reader that any log is read with, and what the mechanism promises
is checked on the log that was read. A promise that a format, a writer or a reader would break is found before anybody
sees the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from connectors import write_log
from connectors.files import Writer
from connectors.logs import read_back
from models.errors import InputError, NoEventsError
from models.eventlog import Column, EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.manifest import public_parameters, reading_notes
from stream.release.public_view import OTHER, shuffled

FILES = {"xes": "log.xes.gz", "csv": "log.csv.gz", "parquet": "log.parquet"}
"""Name of the released log, by format."""


def accumulated_name(name: str) -> str:
    """Return the name of the accumulated log beside a released log: `accumulated.xes.gz` beside `log.xes.gz`."""
    return name.replace("log.", "accumulated.", 1)


def writers(formats: Sequence[str], released: EventLog, build: Build, mechanism: Mechanism) -> dict[str, Writer]:
    """Return a writer for each file of the release, by file name.

    Parameters
    ----------
    formats
        Keys of `FILES`.
    released
        The log as recipients get it (`stream.release.public_view.shuffled`).
    build, mechanism
        Give the header of the files: what was done, and what a reader has to know.
    """
    privacy = {
        "mechanism": mechanism.kind,
        "parameters": public_parameters(mechanism, tuple(build.attributes)),
        "time_basis": build.time_basis,
        "reading": reading_notes(build),
    }

    def write(path: Path) -> None:
        write_log(released, path, privacy=privacy, time_basis=build.time_basis)

    return {FILES[name]: write for name in formats}


def accumulated_writers(formats: Sequence[str], build: Build, mechanism: Mechanism) -> dict[str, Writer]:
    """Return a writer for each file of the log over everything published so far; empty if there is no such log."""
    if build.accumulated is None:
        return {}
    all_so_far = replace(build, log=build.accumulated, time_basis="ordinal", attributes={})
    released, _ = shuffled(all_so_far)
    by_name = writers(formats, released, all_so_far, mechanism)
    return {accumulated_name(name): writer for name, writer in by_name.items()}


def faults(
    folder: Path,
    formats: Sequence[str],
    build: Build,
    mechanism: Mechanism,
    exposure: Exposure,
    candidate: ReleaseRecord,
    sources: Mapping[str, int],
) -> list[str]:
    """Return why the files must not leave: one cannot be read, lacks events, or breaks the promise.

    Lines name the format and counts, nothing of the data. A bound that was already broken before the file was written,
    because erasure or retention took cases away, is no fault of the bytes.

    Parameters
    ----------
    folder
        Where the files are.
    formats
        Keys of `FILES`.
    build, mechanism, exposure
        The build, and what it was made from. Values that do not leave are those of the build; values that leave are
        counted as the file shows them, too.
    candidate
        The release as audits see it.
    sources
        Case of the build by released case id.
    """
    lines = []
    for name in formats:
        path = folder / FILES[name]
        faults_of_file = _faults_of(path, build, candidate, mechanism, exposure, sources)
        lines += [f"read back from {FILES[name]}: {fault}" for fault in faults_of_file]
    return lines


def accumulated_faults(folder: Path, formats: Sequence[str], build: Build) -> list[str]:
    """Return why the files of the accumulated log must not leave: what is read is not what was written."""
    log = build.accumulated
    if log is None:
        return []
    lines = []
    written = Counter(trace for trace in log.traces() if trace)
    for name in formats:
        path = folder / accumulated_name(FILES[name])
        try:
            read = Counter(read_back(path).traces())
        except NoEventsError:
            read = Counter()
        except InputError as error:
            lines.append(f"read back from {path.name}: it cannot be read ({type(error).__name__})")
            continue
        if read != written:
            lines.append(f"read back from {path.name}: its traces are not those that were written")
    return lines


def _faults_of(
    path: Path,
    build: Build,
    candidate: ReleaseRecord,
    mechanism: Mechanism,
    exposure: Exposure,
    sources: Mapping[str, int],
) -> list[str]:
    try:
        log = read_back(path)
    except NoEventsError:
        return [] if not build.log.n_events else ["no event"]
    except InputError as error:
        return [f"it cannot be read ({type(error).__name__})"]
    cases, events = _n_filled(build.log), build.log.n_events
    if (_n_filled(log), log.n_events) != (cases, events):
        return [f"{_n_filled(log)} cases and {log.n_events} events, not {cases} and {events}"]
    if not set(log.case_ids) <= sources.keys():
        return ["a case id that was not given"]
    case_of_build = np.asarray([sources[name] for name in log.case_ids], dtype=np.int64)
    names = [name for name in exposure.linked if name in candidate.log.case_attributes]
    values = {name: candidate.log.case_values(name).take(case_of_build) for name in names}
    broken = mechanism.broken(candidate.showing(log.with_columns(case=values, event={})), exposure)
    broken += _faults_of_values(log, build, candidate, mechanism, exposure)
    if broken and build.weakened and broken == mechanism.broken(candidate.showing(candidate.log), exposure):
        return []
    return broken


def _faults_of_values(
    log: EventLog, build: Build, candidate: ReleaseRecord, mechanism: Mechanism, exposure: Exposure
) -> list[str]:
    """Check the bounds on the sensitive values as the file shows them: classes by now, and `other` is no value."""
    names = tuple(name for name in exposure.sensitive if name in build.attributes)
    if not names:
        return []
    values = {}
    for name in names:
        shown = log.case_values(name).decode()
        values[name] = Column.encode(None if value == OTHER else value for value in shown)
    # Values in the file are classes already: no class is to be formed of them again.
    of_classes = mechanism.model_copy(update={"bins": {}}) if hasattr(mechanism, "bins") else mechanism
    record = candidate.showing(log.with_columns(case=values, event={}))
    return of_classes.broken(record, replace(exposure, sensitive=names, public=()))


def _n_filled(log: EventLog) -> int:
    """Return how many cases have events."""
    return int(np.count_nonzero(log.lengths))
