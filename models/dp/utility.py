"""What a dp release still says: distances between directly-follows graphs, requirement R1, active cases over time.

Source: differentially-private-release-2023, section 4.1 (equation 5) and figure 3. All of it reads the raw log: it is
for the operator, never to be published beside a dp release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.eventlog import EventLog, Ints

MONTH_HOURS = 720.0
"""The paper gives time distances in months; 30 days reproduce its scale."""

NANOSECONDS_AN_HOUR = 3.6e12

Edges = dict[tuple[Any, Any], tuple[int, float]]


@dataclass(frozen=True, slots=True)
class GraphDistance:
    """`emd_*`: Wasserstein distance of the two lists of edge values, not matched by edge (as the paper measures);
    `matched_*`: mean absolute error edge by edge. Frequencies in cases' steps, times in months."""

    emd_frequency: float
    emd_time_months: float
    matched_frequency: float
    matched_time_months: float


def edges(log: EventLog) -> Edges:
    """Directly-follows graph: (activity, activity) -> (count, sum of hours between the two)."""
    later = np.ones(log.n_events, dtype=np.bool_)
    later[log.starts[:-1][log.lengths > 0]] = False
    second = np.flatnonzero(later)
    width = max(len(log.activity.values), 1)
    pairs = log.activity.codes[second - 1].astype(np.int64) * width + log.activity.codes[second]
    hours = (log.time[second] - log.time[second - 1]) / NANOSECONDS_AN_HOUR
    distinct, member = np.unique(pairs, return_inverse=True)
    counts, sums = np.bincount(member), np.bincount(member, weights=hours)
    names = log.activity.values
    return {
        (names[pair // width], names[pair % width]): (int(count), float(total))
        for pair, count, total in zip(distinct.tolist(), counts, sums, strict=True)
    }


def graph_distance(original: EventLog, released: EventLog) -> GraphDistance:
    """Both distances, on the union of the edges (0 where an edge is missing)."""
    before, after = edges(original), edges(released)
    names = sorted({*before, *after}, key=str)
    if not names:
        return GraphDistance(0.0, 0.0, 0.0, 0.0)
    u = np.asarray([before.get(name, (0, 0.0)) for name in names], dtype=np.float64)
    v = np.asarray([after.get(name, (0, 0.0)) for name in names], dtype=np.float64)
    unmatched = np.abs(np.sort(u, axis=0) - np.sort(v, axis=0)).mean(axis=0)
    matched = np.abs(u - v).mean(axis=0)
    return GraphDistance(
        float(unmatched[0]), float(unmatched[1]) / MONTH_HOURS, float(matched[0]), float(matched[1]) / MONTH_HOURS
    )


def variant_changes(original: EventLog, released: EventLog) -> Mapping[str, Any]:
    """Variants lost and new, and whether requirement R1 (no new variant) holds."""
    before, after = set(original.traces()), set(released.traces())
    return {"lost": len(before - after), "new": len(after - before), "r1": after <= before}


def active_cases(log: EventLog, moments: Ints) -> npt.NDArray[np.int64]:
    """Cases that are running at each moment (nanoseconds), int64[len(moments)] (figure 3)."""
    filled = log.lengths > 0
    begins = np.sort(log.time[log.starts[:-1][filled]])
    ends = np.sort(log.time[log.starts[1:][filled] - 1])
    running = np.searchsorted(begins, moments, side="right") - np.searchsorted(ends, moments, side="left")
    return np.asarray(running, dtype=np.int64)
