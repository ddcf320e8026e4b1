"""Data utility: the distance between traces and the transport between variants."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from models.errors import InputError, VeilstreamError
from models.eventlog import EventLog
from models.utility.distance import data_utility, data_utility_at_least, distances, earth_movers_distance
from models.utility.transport import DENSE, least_cost, least_cost_over


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def test_the_same_variants_are_full_utility_whatever_their_names_order() -> None:
    """Order of cases and of codes means nothing."""
    assert data_utility(_log("ab", "ba", "ab"), _log("ba", "ab", "ab")) == 1.0


def test_nothing_in_common_is_no_utility() -> None:
    """Every event of every trace must be replaced."""
    assert data_utility(_log("ab", "a"), _log("cd")) == 0.0


def test_by_hand() -> None:
    """Half of the mass moves from abc to ab at 1/3, the other half stays."""
    assert data_utility(_log("abc", "ab"), _log("ab")) == pytest.approx(1 - 0.5 / 3)


def test_passing_mass_on_can_beat_leaving_it_in_place() -> None:
    """ab, aba -> aba, ba: the distance is not a metric, and moving both costs 2/3 where staying costs 1 (halved)."""
    assert data_utility(_log("ab", "aba"), _log("aba", "ba")) == pytest.approx(1 - (1 / 3 + 1 / 3) / 2)


def test_distance_divides_by_the_longer() -> None:
    """kitten and sitting: three edits of seven; empty against empty is 0, against something 1."""
    found = distances(["kitten", ""], ["sitting", ""])
    assert found == pytest.approx(np.asarray([[3 / 7, 1.0], [1.0, 0.0]]))


def test_distances_beyond_a_cutoff_are_one() -> None:
    """kitten is 3/7 from sitting and 1 from xyz; a distance that equals the cutoff is kept."""
    words = (["kitten"], ["sitting", "xyz", "kitten"])
    assert distances(*words, cutoff=3 / 7).tolist() == [[3 / 7, 1.0, 0.0]]
    assert distances(*words, cutoff=0.42).tolist() == [[1.0, 1.0, 0.0]]
    assert distances(["ab"], ["cb"], cutoff=0.1).tolist() == [[1.0]]


def test_perspectives() -> None:
    """Resources alone may agree where activities do not; relative times may differ where both agree."""
    one = EventLog.from_events(["1", "1"], ["a", "b"], np.asarray([0, 0]), ["r", "r"], unit="ns")
    two = EventLog.from_events(["1", "1"], ["a", "c"], np.asarray([0, 60_000_000_000]), ["r", "r"], unit="ns")
    assert data_utility(one, two, ("resource",)) == 1.0
    assert data_utility(one, two) == 0.5
    assert data_utility(one, two, ("resource", "relative_time")) == 0.5


def test_empty_logs_have_no_utility_to_speak_of() -> None:
    """A release without cases is named, not rated."""
    with pytest.raises(InputError, match="at least one case"):
        data_utility(_log("a"), EventLog.from_traces([]))


def test_the_bound_follows_each_case_and_drops_what_has_no_origin() -> None:
    """Cases 1 and 3 of three remain, shortened: never above the exact utility, exact if nothing better exists."""
    original, released = _log("abc", "xyz", "ab"), _log("ab", "ab")
    exact = data_utility(original, released)
    bound = data_utility_at_least(original, released, np.asarray([0, 2]))
    assert bound <= exact + 1e-12
    assert bound == pytest.approx(exact)
    assert data_utility_at_least(original, released, np.asarray([-1, -1])) <= exact + 1e-12


def test_weights_of_a_sample_need_not_be_whole() -> None:
    """Half of the mass moves from "a" to "b", also where the weights are below 1."""
    first = Counter({"a": 0.5, "b": 0.5})
    second = Counter({"a": 0.0, "b": 1.0})
    assert earth_movers_distance(first, second) == pytest.approx(0.5)  # type: ignore[arg-type]
    thirds = Counter({"a": 4 / 3, "b": 2 / 3})
    assert earth_movers_distance(thirds, Counter({"a": 1, "b": 1})) == pytest.approx(1 / 6)  # type: ignore[arg-type]


def test_a_chain_of_nodes_needs_no_simplex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row i may send to columns i and i + 1, and the masses leave one plan: two of three to i, one to i + 1."""
    monkeypatch.setattr("models.utility.transport.solve", None)
    nodes = 5_000
    rows = np.repeat(np.arange(nodes), 2)
    columns = rows + np.tile([0, 1], nodes)
    supply, demand = np.full(nodes, 3), np.full(nodes + 1, 3)
    demand[0], demand[-1] = 2, 1
    cost = np.tile([0.25, 1.0], nodes)
    assert least_cost_over(supply, demand, (rows, columns), cost) == pytest.approx((2 * 0.25 + 1.0) / 3)


@pytest.mark.parametrize("demand", [[1, 2], [3, 0], [0, 3]])
def test_arcs_over_which_no_plan_exists_are_refused(demand: list[int]) -> None:
    """Row 0 reaches column 0 alone, and row 1 column 1 alone: only masses 2 and 1 fit."""
    ends = np.asarray([0, 1]), np.asarray([0, 1])
    with pytest.raises(VeilstreamError, match="no plan over its arcs"):
        least_cost_over(np.asarray([2, 1]), np.asarray(demand), ends, np.asarray([1.0, 1.0]))


def test_priced_arcs_reach_the_optimum_of_the_whole_problem() -> None:
    """150 x 140 masses with random costs, solved over priced arcs, against the dense linear program's optimum."""
    import ot

    rng = np.random.default_rng(5)
    cost = rng.random((150, 140))
    here, there = rng.dirichlet(np.ones(150)), rng.dirichlet(np.ones(140))
    assert cost.size > DENSE
    assert least_cost(here, there, cost) == pytest.approx(float(ot.emd2(here, there, cost)), abs=1e-8)


def test_ties_and_equal_costs_do_not_stall_the_pricing() -> None:
    """Constant costs, and masses whose corners meet: the cost is the constant."""
    masses = np.full(120, 1 / 120)
    assert least_cost(masses, masses, np.full((120, 120), 0.25)) == pytest.approx(0.25)
