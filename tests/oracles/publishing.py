"""Random streams of cases cut into exposures, and what attacks leave by counting every background knowledge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from models.eventlog import EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure

Trace = tuple[str, ...]


def stream(generator: np.random.Generator, cases: int, letters: str, cuts: int) -> list[Exposure]:
    """Cases that start at random, grow, and are complete after their last event; one sensitive attribute S."""
    owner, names, times = [], [], []
    for case in range(cases):
        clock = int(generator.integers(100))
        for _ in range(int(generator.integers(1, 6))):
            owner.append(f"c{case}")
            names.append(letters[int(generator.integers(len(letters)))])
            times.append(clock)
            clock += int(generator.integers(1, 12))
    values = {"S": {f"c{case}": "pqr"[int(generator.integers(3))] for case in range(cases)}}
    log = EventLog.from_events(owner, names, np.asarray(times), case_attributes=values, unit="ns")
    ends = dict(zip(log.case_ids, log.time[log.starts[1:] - 1].tolist(), strict=True))
    return [_exposure(log, ends, int(moment)) for moment in np.linspace(25, 160, cuts)]


def _exposure(log: EventLog, ends: dict[str, int], moment: int) -> Exposure:
    seen = log.select_events(log.time <= moment, drop_empty=True)
    complete = np.asarray([ends[name] <= moment for name in seen.case_ids], dtype=np.bool_)
    return Exposure(seen, complete, ("S",), moment)


def record(build: Build, exposure: Exposure, sequence: int = 1) -> ReleaseRecord:
    """A build as audits see it."""
    ids = tuple(exposure.log.case_ids[case] for case in build.origin)
    log = EventLog(
        ids, build.log.starts, build.log.activity, build.log.time, build.log.resource, build.log.row,
        build.log.case_attributes,
    )  # fmt: skip
    return ReleaseRecord(sequence, log, build.carries, build.T, exposure.sensitive)


def traces(one: ReleaseRecord) -> dict[str, Trace]:
    """Trace by case."""
    return dict(zip(one.log.case_ids, one.log.traces(), strict=True))


def knowledge(letters: str, length: int) -> Iterator[Trace]:
    """Every sequence of 1..length letters."""
    for size in range(1, length + 1):
        yield from itertools.product(letters, repeat=size)


def contains(trace: Sequence[str], bk: Sequence[str]) -> bool:
    """Whether bk is a subsequence."""
    rest = iter(trace)
    return all(symbol in rest for symbol in bk)


def matches(trace: Sequence[str], bk: Sequence[str], n: int) -> bool:
    """Whether the trace lacks at most n symbols of bk (Theorem 1)."""
    size = max(0, len(bk) - n)
    return any(contains(trace, part) for part in itertools.combinations(bk, size))


def left(earlier: ReleaseRecord, later: ReleaseRecord, bk: Trace, n: int) -> tuple[int, int]:
    """(FA* = CA*, BA*): records whose partner matches too, and matching records that are nobody's partner."""
    before, after = traces(earlier), traces(later)
    ms1 = {case for case, trace in before.items() if matches(trace, bk, n)}
    ms2 = {case for case, trace in after.items() if matches(trace, bk, n)}
    return len(ms1 & ms2), len(ms2 - before.keys())
