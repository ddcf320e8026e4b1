"""Directly-follows graphs of two logs side by side: handover, bottlenecks, distances of edge weights.

Sources: tlkc-privacy-extended-2021, Def. 6 (directly follows), section 6.3.1 (F_sn, P_sn), section 6.4 (bottlenecks,
F_dfg, P_dfg); differentially-private-release-2023, Table 6 (earth mover's distance of frequencies and times).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Column, EventLog, Floats, Ints, place_in_run
from models.keys import BLOCK, KeyTotals
from models.variants import of_events

Edge = tuple[object, object]

HOURS_PER_MONTH = 720.0
"""Table 6 counts months of 30 days."""
NANOSECONDS_PER_HOUR = 3_600_000_000_000


@content_free()
@dataclass(frozen=True, slots=True)
class DirectlyFollowsGraph:
    """A directly-follows graph.

    Attributes
    ----------
    nodes
        Names in use.
    count
        How often each edge was taken.
    hours
        Hours that each edge took in all.
    """

    nodes: frozenset[object]
    count: Mapping[Edge, int]
    hours: Mapping[Edge, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Fitness and precision of a graph or model, and their harmonic mean."""

    fitness: float
    precision: float

    @property
    def f1(self) -> float:
        """Harmonic mean; 0 if both are."""
        total = self.fitness + self.precision
        return 2 * self.fitness * self.precision / total if total else 0.0

    def as_json(self) -> dict[str, float]:
        """Return the three figures under their stable names."""
        return {"fitness": self.fitness, "precision": self.precision, "f1": self.f1}


def directly_follows(
    log: EventLog, attribute: Literal["activity", "resource"] = "activity", cases: Ints | None = None
) -> DirectlyFollowsGraph:
    """Return the directly-follows graph over activities or resources (handover of work), Def. 6.

    An event without a resource breaks the chain: nobody is known to have handed over.

    Parameters
    ----------
    cases : int64[C], optional
        Number of cases that each case represents; by default one.

    Raises
    ------
    InputError
        If there is no resource at all.
    """
    column = log.activity if attribute == "activity" else log.resource
    if attribute == "resource" and np.all(column.codes < 0):
        raise InputError("the log has no resource, so there is no handover of work")
    return _graph(log, column, of_events(cases, log.starts))


def _pairs(log: EventLog, codes: npt.NDArray[np.int32]) -> Iterator[Ints]:
    """Events that are directly followed by another of their case, both with a value; some at a time."""
    follows = np.ones(max(log.n_events - 1, 0), dtype=bool)
    inner = log.starts[1:-1]
    follows[inner[(inner > 0) & (inner < log.n_events)] - 1] = False
    for begin in range(0, len(follows), BLOCK):
        is_followed = follows[begin : begin + BLOCK]
        end = begin + len(is_followed)
        has_value = codes[begin : end + 1] >= 0
        yield begin + np.flatnonzero(is_followed & has_value[:-1] & has_value[1:])


def _graph(log: EventLog, column: Column, weight: Ints | None) -> DirectlyFollowsGraph:
    codes, size = column.codes, max(len(column.values), 1)
    edges = KeyTotals(size * size)
    for first in _pairs(log, codes):
        edge = codes[first].astype(np.int64) * size + codes[first + 1]
        hours_of_edge = (log.time[first + 1] - log.time[first]) / NANOSECONDS_PER_HOUR
        edges.add(edge, None if weight is None else weight[first], hours_of_edge)
    edge_codes, counts, hours = edges.totals()
    names = [(column.values[edge // size], column.values[edge % size]) for edge in edge_codes.tolist()]
    is_used = np.zeros(size + 1, dtype=np.bool_)
    is_used[codes] = True  # a missing value is the place behind the last one
    used_codes = np.flatnonzero(is_used[:-1]).tolist()
    return DirectlyFollowsGraph(
        frozenset(column.values[code] for code in used_codes),
        dict(zip(names, counts.tolist(), strict=True)),
        dict(zip(names, hours.tolist(), strict=True)),
    )


def agreement(original: DirectlyFollowsGraph, released: DirectlyFollowsGraph) -> Agreement:
    """Return fitness and precision of the released graph.

    Fitness: occurrences in the release of edges that the original has, over all occurrences in the original (as
    printed: a release with more cases than its original can pass 1). Precision: of the pairs of the original's
    nodes that are not an edge there, the share that is none in the release either; 1 if every pair is an edge.

    Parameters
    ----------
    original, released
        The two graphs, over the same names of activities or resources.

    References
    ----------
    tlkc-privacy-extended-2021, sections 6.3.1 (F_sn, P_sn) and 6.4 (F_dfg, P_dfg).
    """
    total = sum(original.count.values())
    kept = sum(count for edge, count in released.count.items() if edge in original.count)
    absent = len(original.nodes) ** 2 - len(original.count)
    invented = sum(edge not in original.count and original.nodes.issuperset(edge) for edge in released.count)
    fitness = kept / total if total else 1.0
    precision = (absent - invented) / absent if absent else 1.0
    return Agreement(fitness, precision)


def handover(
    original: EventLog, released: EventLog, cases: tuple[Ints | None, Ints | None] = (None, None)
) -> Agreement | None:
    """Return F_sn and P_sn of section 6.3.1: fitness and precision of the handover of work.

    Parameters
    ----------
    original, released
        The two logs.
    cases
        int64[C] of each log, how many cases each of its cases represents; None: one each.

    Returns
    -------
    Agreement or None
        None if either log has no resource, or if no name of the release is one of the original's: nobody
        can match pseudonyms here.
    """
    if not same_names(original, released):
        return None
    original_cases, released_cases = cases
    original_graph = directly_follows(original, "resource", original_cases)
    released_graph = directly_follows(released, "resource", released_cases)
    return agreement(original_graph, released_graph)


def same_names(original: EventLog, released: EventLog) -> bool:
    """Return whether some resource of the release bears a name that the original knows.

    Parameters
    ----------
    original, released
        The log and its release.
    """
    original_names, released_names = (set(log.resource.decode()) - {None} for log in (original, released))
    return not original_names.isdisjoint(released_names)


@dataclass(frozen=True, slots=True)
class EdgeDistance:
    """Distances between the edge weights of two graphs (union of edges, 0 if one lacks it).

    Attributes
    ----------
    emd_frequency, emd_time_months
        Wasserstein distance of the two lists of weights, which does not match edge with edge (as in Table
        6): of counts, and of months (720 hours).
    mae_frequency, mae_time_months
        Mean absolute difference edge by edge, of the same.
    """

    emd_frequency: float
    emd_time_months: float
    mae_frequency: float
    mae_time_months: float


def edge_distance(original: DirectlyFollowsGraph, released: DirectlyFollowsGraph) -> EdgeDistance:
    """Compare the edges of two graphs as Table 6 of differentially-private-release-2023 does.

    The weights of edges are their counts, and the months (720 hours) that they take together.

    Parameters
    ----------
    original, released
        Directly-follows graphs of the log and of its release.
    """
    # In any order: the sums below are exact. To sort the edges of a thousand activities is one call of a second, during
    # which no other thread of a daemon runs.
    edges = [*original.count, *(edge for edge in released.count if edge not in original.count)]
    original_weights, released_weights = (_weights(graph.count, edges) for graph in (original, released))
    original_months, released_months = (
        _weights(graph.hours, edges) / HOURS_PER_MONTH for graph in (original, released)
    )
    return EdgeDistance(
        emd_frequency=_wasserstein(original_weights, released_weights),
        emd_time_months=_wasserstein(original_months, released_months),
        mae_frequency=_mean_error(original_weights, released_weights),
        mae_time_months=_mean_error(original_months, released_months),
    )


def _weights(values: Mapping[Edge, float], edges: list[Edge]) -> Floats:
    return np.asarray([values.get(edge, 0.0) for edge in edges], dtype=np.float64)


def _wasserstein(first: Floats, second: Floats) -> float:
    # Two equally long lists of equal weights: the optimal plan pairs them in sorted order.
    return _mean_error(np.sort(first), np.sort(second))


def _mean_error(first: Floats, second: Floats) -> float:
    return math.fsum(np.abs(first - second)) / len(first) if len(first) else 0.0


SLOWEST = 5
"""Slowest edges of each log that `bottlenecks` compares."""


@dataclass(frozen=True, slots=True)
class Bottlenecks:
    """Mean hours of the edges of a source and of its release.

    The source is projected on the activities of the release.

    Attributes
    ----------
    edges_original, edges_released, edges_shared
        Number of edges of either graph, and of those in both.
    rank_correlation
        Spearman's correlation of the mean hours of shared edges. None below three edges, and without variation.
    top, of
        Of so many (`of`, at most 5) slowest edges of the source, `top` are among as many slowest ones of the release.
    """

    edges_original: int
    edges_released: int
    edges_shared: int
    rank_correlation: float | None
    top: int
    of: int


def bottlenecks(original: EventLog, released: EventLog) -> Bottlenecks:
    """Compare mean durations of edges (section 6.4).

    The original is projected on the activities that the release has, and both graphs are annotated with the mean
    duration of each edge. It is meaningless if the release carries no times: the caller decides.

    Parameters
    ----------
    original, released
        The two logs.
    """
    original_means = _means(directly_follows(project(original, released)))
    released_means = _means(directly_follows(released))
    shared = sorted(original_means.keys() & released_means.keys(), key=repr)
    slow_in_original = _slowest(original_means)
    slow_in_both = slow_in_original & _slowest(released_means)
    means_of_both = [(original_means[edge], released_means[edge]) for edge in shared]
    pairs = np.asarray(means_of_both, dtype=np.float64).reshape(-1, 2)
    return Bottlenecks(
        edges_original=len(original_means),
        edges_released=len(released_means),
        edges_shared=len(shared),
        rank_correlation=_spearman(pairs),
        top=len(slow_in_both),
        of=len(slow_in_original),
    )


def ordinal(log: EventLog) -> bool:
    """Return whether times are only the place in the trace.

    Releases without protected times write them as 1970-01-01 plus one second an event. They carry no durations.

    Parameters
    ----------
    log
        A release.
    """
    return bool(np.array_equal(log.time, place_in_run(log.starts) * 1_000_000_000))


def project(original: EventLog, released: EventLog) -> EventLog:
    """Return the original's events whose activity the release has.

    Parameters
    ----------
    original, released
        The log and its release. Cases without such an event are left out.
    """
    used = {released.activity.values[code] for code in np.unique(released.activity.codes)}
    is_used = np.asarray([value in used for value in original.activity.values], dtype=bool)
    return original.select_events(is_used[original.activity.codes], drop_empty=True)


def _means(graph: DirectlyFollowsGraph) -> dict[Edge, float]:
    return {edge: graph.hours[edge] / count for edge, count in graph.count.items()}


def _slowest(means: Mapping[Edge, float]) -> set[Edge]:
    return set(sorted(means, key=lambda edge: (-means[edge], repr(edge)))[:SLOWEST])


def _spearman(pairs: Floats) -> float | None:
    # As `scipy.stats.spearmanr` computes it, but the import of scipy.stats takes .3 CPU seconds of every replay.
    if len(pairs) < 3 or np.any(np.ptp(pairs, axis=0) == 0):
        return None
    first_ranks, second_ranks = _ranks(pairs[:, 0]), _ranks(pairs[:, 1])
    return float(np.corrcoef(first_ranks, second_ranks)[1, 0])


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    _, group_of_value, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    mean_rank = last_rank - (counts - 1) / 2
    ranks: Floats = mean_rank[group_of_value]
    return ranks
