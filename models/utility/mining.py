"""Utility of a release for process mining, in terms that miners use.

Similarity, error of the directly-follows graph, the discovered model, and how long a case takes, before and after, in
days, hours, minutes or seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from models.eventlog import EventLog, Ints
from models.utility.similarity import dfg_error

UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 1.0))


@dataclass(frozen=True, slots=True)
class Mining:
    """Mining utility of a release.

    Attributes
    ----------
    log_similarity : float
        1 - earth mover's distance of variants (0..1).
    dfg_error : float
        Of directly-follows frequencies (`models.utility.similarity`).
    fitness, precision : float or None
        Of the source on the model discovered from the release; None if not asked for.
    throughput_before, throughput_after : float or None
        Median seconds from first to last event of a case in source and release; None if the release carries no
        times, or they were not read.
    """

    log_similarity: float
    dfg_error: float
    fitness: float | None
    precision: float | None
    throughput_before: float | None
    throughput_after: float | None

    def sentences(self) -> list[str]:
        """Return the sentences for people."""
        model = "discovered model: not measured"
        if self.fitness is not None and self.precision is not None:
            model = f"discovered model: fitness {self.fitness:.2f}, precision {self.precision:.2f}"
        before, after = _duration_text(self.throughput_before), _duration_text(self.throughput_after)
        return [
            f"relative log similarity {self.log_similarity:.2f}",
            f"directly-follows frequencies are off by {100 * self.dfg_error:.1f} %",
            model,
            f"median throughput time {before}, in the release {after}",
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the same names, times in seconds, and the sentences."""
        return {**asdict(self), "sentences": self.sentences()}


def mining(
    source: EventLog,
    released: EventLog,
    similarity: float,
    discovery: Mapping[str, Any] | None,
    *,
    timed: bool,
    cases: tuple[Ints | None, Ints | None] = (None, None),
) -> Mining:
    """Assemble the mining utility from measures.

    Parameters
    ----------
    discovery
        As returned by `discovery_quality`.
    timed : bool
        Whether the release has times.
    cases : optional
        Number of cases that each case of either log represents; by default one. Cases that represent several have no
        times.
    """
    discovered = discovery or {}
    return Mining(
        similarity,
        dfg_error(source, released, cases),
        discovered.get("fitness"),
        discovered.get("precision"),
        median_throughput(source) if cases[0] is None else None,
        median_throughput(released) if timed else None,
    )


def median_throughput(log: EventLog) -> float:
    """Return the median seconds from the first to the last event of a case; 0 for a log without events.

    Parameters
    ----------
    log
        The log. Cases without events do not count.
    """
    filled = np.flatnonzero(log.lengths > 0)
    if not len(filled):
        return 0.0
    first_time = log.time[log.starts[filled]]
    last_time = log.time[log.starts[filled + 1] - 1]
    return float(np.median(last_time - first_time)) / 1e9


def _duration_text(seconds: float | None) -> str:
    return "no times" if seconds is None else readable(seconds)


def readable(seconds: float) -> str:
    """Return `5.3 days` or `2.0 hours`: in the largest unit of which there is at least one.

    Parameters
    ----------
    seconds
        A length of time.
    """
    name, size = next((unit for unit in UNITS if abs(seconds) >= unit[1]), UNITS[-1])
    return f"{seconds / size:.1f} {name}"
