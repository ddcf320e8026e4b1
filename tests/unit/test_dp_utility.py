"""Utility of dp releases: the paper's distances, the matched ones, and requirement R1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.utility import edges, graph_distance, variant_changes
from models.eventlog import EventLog

HOUR = 3_600_000_000_000
TRACES = st.lists(st.text("abc", max_size=5), min_size=1, max_size=8)


def _log(traces: list[str], step: int = HOUR) -> EventLog:
    case = [str(number) for number, trace in enumerate(traces) for _ in trace]
    time = [position * step for trace in traces for position in range(len(trace))]
    return EventLog.from_events(case, [name for trace in traces for name in trace], np.asarray(time, dtype=np.int64))


def test_edges_by_hand() -> None:
    """Counts and hours of each directly-follows pair; no edge from one case to the next."""
    assert edges(_log(["aba", "b", "ab"], 2 * HOUR)) == {("a", "b"): (2, 4.0), ("b", "a"): (1, 2.0)}


@settings(deadline=None)
@given(TRACES, TRACES)
def test_unmatched_distance_is_wasserstein(one: list[str], two: list[str]) -> None:
    """The paper's distance is scipy's Wasserstein distance of the two lists of edge values over the union of edges."""
    from scipy.stats import wasserstein_distance

    before, after = _log(one), _log(two, 3 * HOUR)
    u, v = edges(before), edges(after)
    names = sorted({*u, *v})
    found = graph_distance(before, after)
    if not names:
        assert found.emd_frequency == 0
        return
    for place, value, unit in ((0, found.emd_frequency, 1), (1, found.emd_time_months, 720)):
        lists = [[graph.get(name, (0, 0.0))[place] for name in names] for graph in (u, v)]
        assert value * unit == pytest.approx(wasserstein_distance(*lists), abs=1e-9)


def test_matched_distance_sees_what_the_unmatched_misses() -> None:
    """Two graphs with the same list of counts on different edges: distance 0 unmatched, not matched."""
    found = graph_distance(_log(["ab", "ab", "bc"]), _log(["ab", "bc", "bc"]))
    assert found.emd_frequency == 0
    assert found.matched_frequency == 1


def test_r1() -> None:
    """Lost variants are counted and allowed, new ones break R1."""
    before = _log(["ab", "ba", "c"])
    assert variant_changes(before, _log(["ab", "ab"])) == {"lost": 2, "new": 0, "r1": True}
    assert variant_changes(before, _log(["ab", "bb"])) == {"lost": 2, "new": 1, "r1": False}
