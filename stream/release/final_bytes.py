"""The files of a release, read back before its seal: the promise is one about bytes.

Each file is read by the reader that any log is read with, and what the mechanism promises is checked on what was read.
So a promise that a format, a writer or a reader would break is found before anybody sees the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from connectors.logs import read_back
from models.errors import InputError, NoEventsError
from models.eventlog import EventLog
from stream.release.audit_document import FILES
from stream.release.contract import Build, Exposure, Mechanism
from stream.storage.release_record import Record


def faults(
    folder: Path, formats: Sequence[str], build: Build, mechanism: Mechanism, exposure: Exposure, candidate: Record
) -> list[str]:
    """Why the files must not leave, one line each: a file that cannot be read, lacks events, or breaks the promise.

    Lines name the format and counts. What cases that erasure or retention took away have left below a bound was so
    before it was written: that is the build's to say, not a fault of the bytes.
    """
    found = []
    for name in formats:
        found += [
            f"read back from {FILES[name]}: {fault}"
            for fault in _of(folder / FILES[name], build, candidate, mechanism, exposure)
        ]
    return found


def _of(path: Path, build: Build, candidate: Record, mechanism: Mechanism, exposure: Exposure) -> list[str]:
    try:
        log = read_back(path)
    except NoEventsError:
        return [] if not build.log.n_events else ["no event"]
    except InputError as error:
        return [f"it cannot be read ({type(error).__name__})"]
    cases, events = int(np.count_nonzero(build.log.lengths)), build.log.n_events
    if (_cases(log), log.n_events) != (cases, events):
        return [f"{_cases(log)} cases and {log.n_events} events, not {cases} and {events}"]
    broken = mechanism.broken(replace(candidate, log=log, cache={}), exposure)
    if broken and build.weakened and broken == mechanism.broken(replace(candidate, cache={}), exposure):
        return []
    return broken


def _cases(log: EventLog) -> int:
    return int(np.count_nonzero(log.lengths))
