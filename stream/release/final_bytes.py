"""The files of a release, read back before its seal: the promise is one about bytes.

Each file is read by the reader that any log is read with, and what the mechanism promises is checked on what was read.
So a promise that a format, a writer or a reader would break is found before anybody sees the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from connectors.logs import read_back
from models.errors import InputError, NoEventsError
from models.eventlog import Column, EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.release.audit_document import FILES, beside
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.public_view import OTHER


def faults(
    folder: Path,
    formats: Sequence[str],
    build: Build,
    mechanism: Mechanism,
    exposure: Exposure,
    candidate: ReleaseRecord,
    sources: Mapping[str, int],
) -> list[str]:
    """Why the files must not leave, one line each: a file that cannot be read, lacks events, or breaks the promise.

    `sources`: case of the build by released case id. Sensitive values that do not leave are those of the build; what
    leaves of them is counted as it stands in the file, too. Lines name the format and counts. What cases that erasure
    or retention took away have left below a bound was so before it was written: that is the build's to say, not a fault
    of the bytes.
    """
    found = []
    for name in formats:
        found += [
            f"read back from {FILES[name]}: {fault}"
            for fault in _of(folder / FILES[name], build, candidate, mechanism, exposure, sources)
        ]
    return found


def accumulated_faults(folder: Path, formats: Sequence[str], build: Build) -> list[str]:
    """The same of the log over everything published so far: what was written is what is read."""
    log, found = build.accumulated, list[str]()
    if log is None:
        return []
    for name in formats:
        path = folder / beside(FILES[name])
        try:
            read = read_back(path)
            there = Counter(read.traces())
        except NoEventsError:
            there = Counter()
        except InputError as error:
            found.append(f"read back from {path.name}: it cannot be read ({type(error).__name__})")
            continue
        if there != Counter(trace for trace in log.traces() if trace):
            found.append(f"read back from {path.name}: its traces are not those that were written")
    return found


def _of(
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
    cases, events = int(np.count_nonzero(build.log.lengths)), build.log.n_events
    if (_cases(log), log.n_events) != (cases, events):
        return [f"{_cases(log)} cases and {log.n_events} events, not {cases} and {events}"]
    if not set(log.case_ids) <= sources.keys():
        return ["a case id that was not given"]
    cases_of = np.asarray([sources[name] for name in log.case_ids], dtype=np.int64)
    held = [name for name in exposure.linked if name in candidate.log.case_attributes]
    own = {name: candidate.log.case_values(name).take(cases_of) for name in held}
    broken = mechanism.broken(candidate.showing(log.with_columns(case=own, event={})), exposure)
    broken += _released_values(log, build, candidate, mechanism, exposure)
    if broken and build.weakened and broken == mechanism.broken(candidate.showing(candidate.log), exposure):
        return []
    return broken


def _released_values(
    log: EventLog, build: Build, candidate: ReleaseRecord, mechanism: Mechanism, exposure: Exposure
) -> list[str]:
    """The bounds on the sensitive values as the file shows them; `other` is no value. They are classes by now."""
    names = tuple(name for name in exposure.sensitive if name in build.attributes)
    if not names:
        return []
    values = {name: Column.encode(None if v == OTHER else v for v in log.case_values(name).decode()) for name in names}
    seen = mechanism.model_copy(update={"bins": {}}) if hasattr(mechanism, "bins") else mechanism
    record = candidate.showing(log.with_columns(case=values, event={}))
    return seen.broken(record, replace(exposure, sensitive=names, public=()))


def _cases(log: EventLog) -> int:
    return int(np.count_nonzero(log.lengths))
