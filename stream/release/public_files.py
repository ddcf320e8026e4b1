"""The public files of a release: the log as recipients get it, how it is written, and read back before the seal.

The log has fresh ids, no order of arrival, and ordinal or protected times.

A promise is one about bytes. Each file is read by the reader that any log is read with, and what the mechanism promises
is checked on the log that was read. A promise that a format, a writer or a reader would break is found before anybody
sees the file.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from connectors import write_log
from connectors.files import Writer, bytes_writer
from connectors.logs import read_back
from models.chance import Chance, in_random_order
from models.content_free import content_free
from models.errors import InputError, NoEventsError
from models.eventlog import MISSING, Column, EventLog, Ints, place_in_run
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.manifest import public_parameters, reading_notes
from stream.release.public_view import OTHER
from stream.values.duration import SECOND
from stream.values.paged import HEAP, ColumnFiles, ColumnPlace, moved, parts_of

FILES = {"xes": "log.xes.gz", "csv": "log.csv.gz", "parquet": "log.parquet"}
"""Name of the released log, by format."""


def accumulated_name(name: str) -> str:
    """Return the name of the accumulated log of a released log: `accumulated.xes.gz` for `log.xes.gz`."""
    return name.replace("log.", "accumulated.", 1)


def public_log(build: Build) -> EventLog:
    """Return the log as recipients get it."""
    return shuffled(build)[0]


def shuffled(build: Build, pages: ColumnFiles | None = None) -> tuple[EventLog, Ints]:
    """Return the log as recipients get it, and the case of the build that each of its cases is.

    Cases come in random order under fresh random ids (a cryptographic source: the order of arrival and a stable id
    would both link releases). The log has only what the build carries and the attributes that it shows. Without
    `activity`, the event is named by its resource; without a protected time, events bear ordinal times, since readers
    need a time column.

    Parameters
    ----------
    build
        Build of the release, with its attributes.
    pages
        Files for the columns of the log; in the heap if not given.

    Returns
    -------
    EventLog, int64[released cases]
    """
    order = np.asarray(in_random_order(range(build.log.n_cases), Chance().below), dtype=np.int64)
    if pages is None:
        log = carried(build).select_cases(order)
    else:
        parts = (carried(replace(build, log=part)) for part in parts_of(build.log, order))
        log = pages.joined(parts, build.log.n_events)
    row = np.arange(log.n_events, dtype=np.int64)
    drawn = secrets.token_hex(8 * log.n_cases)
    ids = tuple(drawn[at : at + 16] for at in range(0, 16 * log.n_cases, 16))
    attributes = {name: column.take(order) for name, column in build.attributes.items()}
    return replace(log, case_ids=ids, row=row, case_attributes=attributes), order


def carried(build: Build) -> EventLog:
    """Return the cases of a build as they leave.

    They are in their own order, under their own ids and without attributes.
    """
    log = build.log
    hidden = Column(np.full(log.n_events, -1, dtype=np.int32), ())
    resource = log.resource if "resource" in build.carries else hidden
    activity = log.activity if "activity" in build.carries else _named_by(resource)
    time = log.time
    if build.time_basis == "ordinal":
        time = place_in_run(log.starts) * SECOND
    return EventLog(
        case_ids=log.case_ids,
        starts=log.starts,
        activity=activity,
        time=time,
        resource=resource,
        row=np.arange(log.n_events, dtype=np.int64),
    )


def _named_by(resource: Column) -> Column:
    codes = np.where(resource.codes < 0, len(resource.values), resource.codes).astype(np.int32)
    unknown = "unknown"
    while unknown in resource.values:  # one who is called so is somebody
        unknown = f"({unknown})"
    return Column(codes, (*resource.values, unknown))


def writers(
    formats: Sequence[str],
    released: EventLog,
    build: Build,
    mechanism: Mechanism,
) -> dict[str, Writer]:
    """Return a writer for each file of the release, by file name.

    These are the released log and, if releases add up, the log over everything published so far; or the files of a
    release without a log.

    Parameters
    ----------
    formats
        Keys of `FILES`.
    released
        The log as recipients get it (`shuffled`).
    build, mechanism
        Give the header of the files: operations, and notes for readers.
    """
    if build.files is not None:
        return {name: bytes_writer(content) for name, content in build.files.items()}
    by_name = _writers_of_log(formats, released, build, mechanism)
    if build.accumulated is not None:
        all_so_far = replace(build, log=build.accumulated, time_basis="ordinal", attributes={})
        accumulated, _ = shuffled(all_so_far)
        for name, writer in _writers_of_log(formats, accumulated, all_so_far, mechanism).items():
            by_name[accumulated_name(name)] = writer
    return by_name


def _writers_of_log(
    formats: Sequence[str], released: EventLog, build: Build, mechanism: Mechanism
) -> dict[str, Writer]:
    privacy = privacy_header(mechanism, build)

    def write(path: Path) -> None:
        write_log(released, path, privacy=privacy, time_basis=build.time_basis)

    return {FILES[name]: write for name in formats}


def privacy_header(mechanism: Mechanism, build: Build) -> Mapping[str, Any]:
    """Return the header of a released file: the operations, and notes for its readers."""
    return {
        "mechanism": mechanism.kind,
        "parameters": public_parameters(mechanism, tuple(build.attributes)),
        "time_basis": build.time_basis,
        "reading": reading_notes(build),
    }


def faults(
    folder: Path,
    formats: Sequence[str],
    build: Build,
    mechanism: Mechanism,
    exposure: Exposure,
    candidate: ReleaseRecord,
    sources: Mapping[str, int],
    place: ColumnPlace = HEAP,
) -> list[str]:
    """Return why the files must not leave: one cannot be read, lacks events, or breaks the promise.

    Lines name the format and counts, nothing of the data. A bound that was already broken before the file was written,
    because erasure or retention took cases away, is not a fault of the bytes.

    Parameters
    ----------
    folder
        Folder in which the files of the release are prepared.
    formats
        Keys of `FILES`.
    build, mechanism, exposure
        The build, and what it was made from. Values that do not leave are those of the build; values that leave are
        counted as the file shows them, too.
    candidate
        The release as audits see it.
    sources
        Case of the build by released case id.
    place
        Where the columns of the log that is read stay.
    """
    if build.files is not None:
        return mechanism.broken_files(folder, build.files)
    check = _ReadBackCheck(build, mechanism, exposure, candidate, sources)
    lines = []
    for name in formats:
        faults_of_file = check.faults(folder / FILES[name], place)
        lines += [f"read back from {FILES[name]}: {fault}" for fault in faults_of_file]
    if build.accumulated is not None:
        lines += accumulated_faults(folder, formats, build.accumulated)
    return lines


def accumulated_faults(folder: Path, formats: Sequence[str], log: EventLog) -> list[str]:
    """Return why the files of the accumulated log must not leave: what is read is not what was written.

    Parameters
    ----------
    folder
        The prepared folder of the release.
    formats
        Keys of `FILES`.
    log
        The log that was written.
    """
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


@content_free()
@dataclass(frozen=True, slots=True)
class _ReadBackCheck:
    """The checks of a released log that was read back from its file.

    1. The log has what the build has: as many cases and events, its case ids, and its sensitive attributes.
    2. The promise holds with the values of the build, whatever the file shows of them.
    3. The promise holds with the sensitive values that the file shows.

    The attributes are the parameters of `faults`.
    """

    build: Build
    mechanism: Mechanism
    exposure: Exposure
    candidate: ReleaseRecord
    sources: Mapping[str, int]

    def faults(self, path: Path, place: ColumnPlace) -> list[str]:
        """Return why a file must not leave. `place`: where the columns of the log that is read stay."""
        try:
            log = moved(read_back(path), place)
        except NoEventsError:
            return [] if not self.build.log.n_events else ["no event"]
        except InputError as error:
            return [f"it cannot be read ({type(error).__name__})"]
        difference = self._difference(log)
        if difference is not None:
            return [difference]
        with_shown_values = self._with_shown_values(log)
        broken = self.mechanism.broken(self._with_built_values(log), self.exposure)
        if self._shown_sensitive:
            # The file shows classes: no class is to be formed of classes again.
            of_classes = self.mechanism
            if hasattr(self.mechanism, "bins"):
                of_classes = self.mechanism.model_copy(update={"bins": {}})
            exposure = replace(self.exposure, sensitive=self._shown_sensitive, public=())
            broken += of_classes.broken(with_shown_values, exposure)
        if broken and self.build.weakened:
            # Erasure or retention may have broken the same bounds before the file was written.
            built = self.candidate.showing(self.candidate.log)
            if broken == self.mechanism.broken(built, self.exposure):
                return []
        return broken

    def _difference(self, log: EventLog) -> str | None:
        """Return what the log lacks of the build, or has beyond it; None if it has the same."""
        cases, events = _n_filled(self.build.log), self.build.log.n_events
        if (_n_filled(log), log.n_events) != (cases, events):
            return f"{_n_filled(log)} cases and {log.n_events} events, not {cases} and {events}"
        if not set(log.case_ids) <= self.sources.keys():
            return "a case id that was not given"
        for name in self._shown_sensitive:
            # A file in which no case shows a value may lack the attribute, as an XES file does.
            has_values = bool(np.any(self.build.attributes[name].codes != MISSING))
            if has_values and not _has_attribute(log, name):
                return f"the attribute {name!r} is not in it"
        return None

    @property
    def _shown_sensitive(self) -> tuple[str, ...]:
        """The sensitive attributes that the release shows, as classes."""
        return tuple(name for name in self.exposure.sensitive if name in self.build.attributes)

    def _with_built_values(self, log: EventLog) -> ReleaseRecord:
        """Return the log that was read, each case with the values that the build has of it."""
        case_of_build = np.asarray([self.sources[name] for name in log.case_ids], dtype=np.int64)
        built = self.candidate.log
        linked = [name for name in self.exposure.linked if name in built.case_attributes]
        values = {name: built.case_values(name).take(case_of_build) for name in linked}
        return self.candidate.showing(log.with_columns(case=values, event={}))

    def _with_shown_values(self, log: EventLog) -> ReleaseRecord:
        """Return the log that was read, with the sensitive values that it shows; `other` is no value."""
        classes = {}
        for name in self._shown_sensitive:
            shown = log.case_values(name).decode() if _has_attribute(log, name) else [None] * log.n_cases
            classes[name] = Column.encode(None if value == OTHER else value for value in shown)
        return self.candidate.showing(log.with_columns(case=classes, event={}))


def _has_attribute(log: EventLog, name: str) -> bool:
    return name in log.case_attributes or name in log.event_attributes


def _n_filled(log: EventLog) -> int:
    """Return how many cases have events."""
    return int(np.count_nonzero(log.lengths))
