"""Data utility and graphs on random logs against the obvious oracles."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.eventlog import EventLog
from models.utility.distance import KeptDistances, data_utility, data_utility_at_least
from models.utility.graphs import directly_follows, edge_distance
from models.utility.transport import least_cost_over
from tests.conftest import examples
from tests.oracles import utility as oracle

HOUR = 3_600_000_000_000
TRACES = st.lists(st.text("abc", max_size=6), min_size=1, max_size=7)


def _log(traces: list[str]) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


@examples(150)
@given(TRACES, TRACES)
def test_data_utility_is_the_linear_programs_optimum(original: list[str], released: list[str]) -> None:
    """The transport over variants, its distances from the recurrence, solved as a linear program."""
    assert data_utility(_log(original), _log(released)) == pytest.approx(
        oracle.data_utility(original, released), abs=1e-8
    )


@examples(60)
@given(st.lists(st.tuples(TRACES, TRACES), min_size=1, max_size=5), st.sampled_from([4, 1_000_000]))
def test_distances_that_go_along_a_series_are_those_that_are_computed(
    cuts: list[tuple[list[str], list[str]]], most: int
) -> None:
    """Variants that come, go and come again, items first seen late, and more of them than there are letters."""
    kept = KeptDistances()
    with mock.patch("models.utility.distance.MOST_LETTERS", most):
        for original, released in cuts:
            assert data_utility(_log(original), _log(released), kept=kept) == data_utility(
                _log(original), _log(released)
            )


@examples(150)
@given(TRACES, st.data())
def test_the_bound_is_a_bound(original: list[str], data: st.DataObject) -> None:
    """The bound never exceeds the exact utility, for every removal."""
    origin = data.draw(st.lists(st.integers(-1, len(original) - 1), min_size=1, max_size=6))
    released = [data.draw(st.text("abc", max_size=4)) if case < 0 else original[case][::2] for case in origin]
    exact = data_utility(_log(original), _log(released))
    assert data_utility_at_least(_log(original), _log(released), np.asarray(origin)) <= exact + 1e-9


@examples(200)
@given(st.data())
def test_forced_moves_and_the_simplex_reach_the_optimum_over_the_arcs(data: st.DataObject) -> None:
    """The least cost over some arcs only, chains among them, against a linear program over the same arcs."""
    rows, columns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    every_arc = [(row, column) for row in range(rows) for column in range(columns)]
    chain = [(min(step // 2, rows - 1), min((step + 1) // 2, columns - 1)) for step in range(2 * max(rows, columns))]
    chosen = data.draw(st.lists(st.sampled_from(every_arc), max_size=12))
    arcs = sorted({*chain, *chosen})
    # Masses that some flow over the arcs moves: each node of the chain sends or gets at least one.
    flow = np.zeros((rows, columns), dtype=np.int64)
    for arc in arcs:
        flow[arc] = data.draw(st.integers(1 if arc in chain else 0, 5))
    supply, demand = flow.sum(axis=1), flow.sum(axis=0)
    cost = np.asarray([data.draw(st.integers(0, 8)) / 8 for _ in arcs])
    ends = np.asarray(arcs, dtype=np.int64)
    found = least_cost_over(supply, demand, (ends[:, 0], ends[:, 1]), cost)
    assert found == pytest.approx(oracle.least_cost_over(supply, demand, arcs, cost), abs=1e-8)


@examples(200)
@given(TRACES)
def test_edges_are_counted_once_each(traces: list[str]) -> None:
    """The vectorised graph counts what the loop counts."""
    assert Counter(directly_follows(_log(traces)).count) == oracle.directly_follows(traces)


def _spaced(traces: list[str], hours: int) -> EventLog:
    """Return a log whose events are so many hours apart."""
    case = [str(number) for number, trace in enumerate(traces) for _ in trace]
    time = [position * hours * HOUR for trace in traces for position in range(len(trace))]
    return EventLog.from_events(case, list("".join(traces)), np.asarray(time, dtype=np.int64), unit="ns")


@examples(100)
@given(TRACES, TRACES)
def test_the_distance_of_edge_weights_is_wassersteins(original: list[str], released: list[str]) -> None:
    """The paper's distance, of the two lists of weights over the union of edges, as scipy computes it."""
    from scipy.stats import wasserstein_distance

    here, there = directly_follows(_spaced(original, 1)), directly_follows(_spaced(released, 3))
    edges = sorted({*here.count, *there.count}, key=str)
    found = edge_distance(here, there)
    if not edges:
        assert found.emd_frequency == 0
        return
    counts = [[graph.count.get(edge, 0) for edge in edges] for graph in (here, there)]
    hours = [[graph.hours.get(edge, 0) for edge in edges] for graph in (here, there)]
    assert found.emd_frequency == pytest.approx(wasserstein_distance(*counts), abs=1e-9)
    assert found.emd_time_months * 720 == pytest.approx(wasserstein_distance(*hours), abs=1e-9)
