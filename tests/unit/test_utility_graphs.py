"""Directly-follows graphs side by side."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.eventlog import EventLog
from models.utility.graphs import (
    Agreement,
    agreement,
    bottlenecks,
    directly_follows,
    edge_distance,
    handover,
)

HOUR = 3_600_000_000_000


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def test_edges_stay_within_a_case() -> None:
    """The last event of a case is not followed by the first of the next; empty cases change nothing."""
    graph = directly_follows(_log("ab", "", "ba", "aab"))
    assert dict(graph.count) == {("a", "b"): 2, ("b", "a"): 1, ("a", "a"): 1}
    assert graph.nodes == {"a", "b"}


def test_hours_of_edges() -> None:
    """The time of a directly-follows pair is added up over its occurrences."""
    times = np.asarray([0, 2, 4, 0, 0, 2]) * HOUR
    graph = directly_follows(EventLog.from_events(list("111233"), list("ababab"), times, unit="ns"))
    assert graph.count == {("a", "b"): 2, ("b", "a"): 1}
    assert graph.hours == {("a", "b"): 4.0, ("b", "a"): 2.0}


def test_fitness_and_precision_as_printed() -> None:
    """Original ab x2, bc; release ab, ca: fitness 1 of 3; of 9 - 2 pairs that are not an edge, ca appears: 6 of 7."""
    found = agreement(directly_follows(_log("ab", "ab", "bc")), directly_follows(_log("ab", "ca")))
    assert (found.fitness, found.precision) == (pytest.approx(1 / 3), pytest.approx(6 / 7))
    assert found.f1 == pytest.approx(2 * (1 / 3) * (6 / 7) / (1 / 3 + 6 / 7))


def test_extra_occurrences_can_pass_one() -> None:
    """As printed, a release that repeats cases has a fitness above 1."""
    assert agreement(directly_follows(_log("ab")), directly_follows(_log("ab", "ab"))).fitness == 2.0


def test_new_activities_are_outside_the_universe_of_precision() -> None:
    """Pairs with an activity that the original lacks are not among the original's pairs."""
    assert agreement(directly_follows(_log("ab")), directly_follows(_log("xy"))).precision == 1.0


def test_a_complete_graph_has_nothing_to_invent() -> None:
    """No absent pair, precision 1; no edge, fitness 1; both 0 gives F1 0."""
    assert agreement(directly_follows(_log("aa")), directly_follows(_log("a"))) == Agreement(0.0, 1.0)
    assert agreement(directly_follows(_log("a")), directly_follows(_log("a"))).fitness == 1.0
    assert Agreement(0.0, 0.0).f1 == 0.0


def test_handover_breaks_where_the_resource_is_missing() -> None:
    """r - nobody - s is not a handover from r to s."""
    log = EventLog.from_events(["1"] * 4, list("abcd"), np.arange(4), ["r", None, "s", "r"], unit="ns")
    assert dict(directly_follows(log, "resource").count) == {("s", "r"): 1}
    assert handover(log, log) == Agreement(1.0, 1.0)
    assert handover(log, _log("ab")) is None
    with pytest.raises(InputError, match="handover"):
        directly_follows(_log("ab"), "resource")


def test_pseudonyms_are_no_handovers_that_were_lost() -> None:
    """Renamed resources cannot be compared: no figure. A resource that is missing is one."""
    here = EventLog.from_events(["1"] * 3, list("abc"), np.arange(3), ["r", "s", "r"], unit="ns")
    renamed = EventLog.from_events(["1"] * 3, list("abc"), np.arange(3), ["r-1", "r-2", "r-1"], unit="ns")
    fewer = EventLog.from_events(["1"] * 2, list("ab"), np.arange(2), ["r", None], unit="ns")
    assert handover(here, renamed) is None
    assert handover(here, fewer) == Agreement(0.0, 1.0)


def test_edge_distances_by_hand() -> None:
    """Counts {ab: 3, bc: 1} against {ab: 1, ca: 3}: sorted lists 0 1 3 and 0 1 3 are equal, edge by edge 2 1 3."""
    found = edge_distance(directly_follows(_log("ab", "ab", "abc")), directly_follows(_log("ab", "ca", "ca", "ca")))
    assert found.emd_frequency == 0.0
    assert found.mae_frequency == pytest.approx(2.0)


def test_time_of_edges_is_in_months_of_720_hours() -> None:
    """One edge of 1,440 hours in all against one of 720: one month apart, and of hours, not of counts."""
    one = EventLog.from_events(["1", "1", "2", "2"], list("abab"), np.asarray([0, 720, 0, 720]) * HOUR, unit="ns")
    two = EventLog.from_events(["1", "1"], list("ab"), np.asarray([0, 720]) * HOUR, unit="ns")
    found = edge_distance(directly_follows(one), directly_follows(two))
    assert (found.emd_time_months, found.mae_time_months) == (pytest.approx(1.0), pytest.approx(1.0))
    assert found.emd_frequency == pytest.approx(1.0)


def test_bottlenecks_compare_on_the_activities_that_are_left() -> None:
    """b is suppressed: the original is projected on a, c, d first, so its edge ac takes both halves."""
    times = np.asarray([0, 1, 9, 10]) * HOUR
    original = EventLog.from_events(["1"] * 4, list("abcd"), times, unit="ns")
    released = original.select_events(np.asarray([True, False, True, True]))
    found = bottlenecks(original, released)
    assert (found.edges_original, found.edges_released, found.edges_shared) == (2, 2, 2)
    assert (found.top, found.of, found.rank_correlation) == (2, 2, None)


def test_bottlenecks_turned_around() -> None:
    """The slowest edge of three becomes the fastest and the reverse: rank correlation -1."""
    here = EventLog.from_events(["1"] * 4, list("abcd"), np.asarray([0, 1, 3, 6]) * HOUR, unit="ns")
    there = EventLog.from_events(["1"] * 4, list("abcd"), np.asarray([0, 3, 5, 6]) * HOUR, unit="ns")
    found = bottlenecks(here, there)
    assert (found.rank_correlation, found.top, found.of) == (pytest.approx(-1.0), 3, 3)


def test_bottlenecks_of_more_edges_than_are_compared() -> None:
    """Of six edges the slowest of the source is the fastest of the release: four of its five slowest are shared."""
    slowest_last = np.cumsum([0, 1, 2, 3, 4, 5, 6]) * HOUR
    slowest_first = np.cumsum([0, 2, 3, 4, 5, 6, 1]) * HOUR
    here = EventLog.from_events(["1"] * 7, list("abcdefg"), slowest_last, unit="ns")
    there = EventLog.from_events(["1"] * 7, list("abcdefg"), slowest_first, unit="ns")
    found = bottlenecks(here, there)
    assert (found.top, found.of) == (4, 5)


@pytest.mark.parametrize("seed", range(40))
def test_the_rank_correlation_is_that_of_scipy(seed: int) -> None:
    """To the last bit, with ties and without: audits of earlier releases have that number."""
    from scipy.stats import spearmanr

    rng = np.random.default_rng(seed)
    edges = int(rng.integers(3, 30))
    hours = rng.integers(1, rng.integers(3, 60), (2, edges))
    hours[:, :2] = [[1, 2], [2, 1]]
    case_ids = [str(case) for case in range(edges) for _ in "ab"]
    activities = [f"{item}{case:02}" for case in range(edges) for item in "ab"]
    logs = []
    for durations in hours:
        times = np.stack((np.zeros(edges, dtype=np.int64), durations * HOUR), axis=1).ravel()
        logs.append(EventLog.from_events(case_ids, activities, times, unit="ns"))
    correlation = bottlenecks(*logs).rank_correlation
    assert correlation == float(spearmanr(hours[0], hours[1]).statistic)
