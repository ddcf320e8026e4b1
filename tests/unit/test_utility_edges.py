"""Distances of edges as the paper on Amun takes them, the matched ones, requirement R1, and cases over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.eventlog import EventLog
from models.utility.graphs import directly_follows, edge_distance
from models.utility.variants import VariantChanges, active_cases, moments_of, variant_changes

HOUR = 3_600_000_000_000
TRACES = st.lists(st.text("abc", max_size=5), min_size=1, max_size=8)


def _log(traces: list[str], step: int = HOUR) -> EventLog:
    case = [str(number) for number, trace in enumerate(traces) for _ in trace]
    time = [position * step for trace in traces for position in range(len(trace))]
    return EventLog.from_events(
        case, [name for trace in traces for name in trace], np.asarray(time, dtype=np.int64), unit="ns"
    )


def test_edges_by_hand() -> None:
    """Counts and hours of each directly-follows pair; no edge from one case to the next."""
    graph = directly_follows(_log(["aba", "b", "ab"], 2 * HOUR))
    assert graph.count == {("a", "b"): 2, ("b", "a"): 1}
    assert graph.hours == {("a", "b"): 4.0, ("b", "a"): 2.0}


@settings(deadline=None)
@given(TRACES, TRACES)
def test_unmatched_distance_is_wasserstein(one: list[str], two: list[str]) -> None:
    """The paper's distance is scipy's Wasserstein distance of the two lists of edge values over the union of edges."""
    from scipy.stats import wasserstein_distance

    u, v = directly_follows(_log(one)), directly_follows(_log(two, 3 * HOUR))
    names = sorted({*u.count, *v.count}, key=str)
    found = edge_distance(u, v)
    if not names:
        assert found.emd_frequency == 0
        return
    for here, there, value, unit in (
        (u.count, v.count, found.emd_frequency, 1),
        (u.hours, v.hours, found.emd_time_months, 720),
    ):
        lists = [[weights.get(name, 0) for name in names] for weights in (here, there)]
        assert value * unit == pytest.approx(wasserstein_distance(*lists), abs=1e-9)


def test_matched_distance_sees_what_the_unmatched_misses() -> None:
    """Two graphs with the same list of counts on different edges: distance 0 unmatched, not matched."""
    found = edge_distance(directly_follows(_log(["ab", "ab", "bc"])), directly_follows(_log(["ab", "bc", "bc"])))
    assert found.emd_frequency == 0
    assert found.mae_frequency == 1


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
