"""Requirement R1, and cases over time."""

from __future__ import annotations

import numpy as np

from models.eventlog import EventLog
from models.utility.variants import VariantChanges, active_cases, moments_of, variant_changes

HOUR = 3_600_000_000_000


def _log(traces: list[str], step: int = HOUR) -> EventLog:
    case = [str(number) for number, trace in enumerate(traces) for _ in trace]
    time = [position * step for trace in traces for position in range(len(trace))]
    return EventLog.from_events(
        case, [name for trace in traces for name in trace], np.asarray(time, dtype=np.int64), unit="ns"
    )


def test_r1() -> None:
    """Lost variants are counted and allowed, new ones break R1."""
    before = _log(["ab", "ba", "c"])
    assert variant_changes(before, _log(["ab", "ab"])) == VariantChanges(2, 0, True)
    assert variant_changes(before, _log(["ab", "bb"])) == VariantChanges(2, 1, False)


def test_active_cases_over_time() -> None:
    """Cases of 2, 1 and 0 hours, all from the begin: at a quarter of an hour two run, at an hour and a half one."""
    log = _log(["aaa", "aa", "a"])
    assert active_cases(log, np.asarray([0, HOUR // 4, HOUR + HOUR // 2, 3 * HOUR])).tolist() == [3, 2, 1, 0]
    assert moments_of(log, 2).tolist() == [HOUR // 2, HOUR + HOUR // 2]
    assert moments_of(_log([""])).tolist() == []
