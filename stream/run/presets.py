"""Publications that are ready to use: what `replay` does without a configuration, what `advise` and `--compare` try.

The default is the one that is safe over a series of releases: cohorts of completed cases, shortened case by case
(`local`), with a bound of K on each of KA, FA, CA and BA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np

from models.anonymize.cohorts import SMALL_QUEUE
from models.anonymize.sensitive import is_numeric
from models.eventlog import EventLog
from stream.config.settings import Completion, Process, Publication, Settings
from stream.release.gate import GatePolicy

RELEASES = 10
"""Windows of a replay: enough to see what a series gives away, few enough to wait for."""

K, L, C = 20, 2, 0.5
"""Bounds of the default: K cases match what is known, of at most L events, and a value has at most C of them."""

AUDIT: Mapping[str, Any] = {"bk_length": 2, "n": [0, 1]}


def bounds(log: EventLog, sensitive: Sequence[str], least: int = K, share: float = C) -> dict[str, Any]:
    """Return parameters of a TLKC mechanism for a log. Times leave as means if the log has any.

    Parameters
    ----------
    log
        The log.
    sensitive
        Sensitive attributes. Without one no share is bounded.
    least, share
        K and C.
    """
    highest = share if sensitive else 1.0
    table: dict[str, Any] = {"knowledge": "seq", "attribute": "ac", "L": L, "K": least, "C": highest}
    if log.n_events and log.time.min() < log.time.max():
        table["times"] = "microaggregated"
    edges = grid_edges(log, sensitive)
    return {**table, "bins": edges} if edges else table


def series_gate(least: int, *, local: bool = False) -> dict[str, int]:
    """Return a bound on every attack over the series; for `local` also against readers of its public rules."""
    gate = {"min_ka": least, "min_fa": least, "min_ca": least, "min_ba": least}
    return {**gate, "max_minimality": 0} if local else gate


def window(log: EventLog, least: int = K) -> dict[str, Any]:
    """Return a window of a tenth of the cases, counted when they complete, since cohorts release completed cases.

    It brings at least `least` cases. A few cases that are left at the end of the log would be no cohort: the window is
    made longer until none are left, or enough.
    """
    smallest = _tenth(log, least)
    enough = SMALL_QUEUE * least
    for size in range(smallest, 2 * smallest):
        cases_left = log.n_cases % size
        if cases_left == 0 or cases_left >= enough:
            return {"completed_cases": size}
    return {"completed_cases": smallest}


def growing_window(log: EventLog, least: int = K) -> dict[str, Any]:
    """Return a window of a tenth of the cases, counted when they start, for releases that also show open cases.

    It brings at least `least` cases: BA counts new cases, and cannot reach the bound with fewer.
    """
    return {"new_cases": _tenth(log, least)}


def _tenth(log: EventLog, least: int) -> int:
    return max(least, log.n_cases // RELEASES)


def publication(
    name: str, cuts: Mapping[str, Any], mechanism: Mapping[str, Any], gate: Mapping[str, Any]
) -> Publication:
    """Return a publication with the usual audit.

    Parameters
    ----------
    name
        Name of the publication.
    cuts, mechanism, gate
        The tables `window`, `mechanism` and `gate` of the configuration.
    """
    return Publication(
        name=name, window=dict(cuts), mechanism=dict(mechanism), audit=dict(AUDIT), gate=GatePolicy(**gate)
    )


def default_publication(log: EventLog, sensitive: Sequence[str] = ()) -> Publication:
    """Return the publication of `replay` without a configuration."""
    mechanism = {"kind": "tlkc-cohorts", **bounds(log, sensitive), "suppression": "local"}
    return publication("research", window(log), mechanism, series_gate(K, local=True))


def with_completion(process: Process) -> Process:
    """Return the process, with cases complete at their last event if it has no other rule (replay only)."""
    if process.completion != Completion():
        return process
    return process.model_copy(update={"completion": Completion(log_end=True)})


def with_default(settings: Settings, log: EventLog) -> Settings:
    """Return the settings with the default publication."""
    publication = default_publication(log, settings.process.sensitive)
    process = with_completion(settings.process)
    return settings.model_copy(update={"publication": (publication,), "process": process})


def grid_edges(log: EventLog, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return class edges of numeric sensitive attributes, near their quartiles, on a public grid.

    Cohorts need edges that do not move from release to release. The grid points are the multiples of 1, 2 or 5 times a
    power of ten; its step is the largest of these that a quarter of the distance between the quartiles holds. So no
    edge is a value or a mean of values of the log: the chosen grid point shows only between which two points a quartile
    of all cases is (docs/decisions/030-public-edges.md).

    Parameters
    ----------
    log
        The whole log of a replay.
    names
        The sensitive attributes; those that are not numeric, or not in the log, are left out.
    """
    edges = {}
    for name in names:
        if name not in log.case_attributes and name not in log.event_attributes:
            continue  # reported by the check of the configuration against the log
        column = log.case_values(name)
        if is_numeric(column):
            numbers = np.asarray(column.values, dtype=np.float64)
            low, high = np.quantile(numbers[column.codes[column.codes >= 0]], [0.25, 0.75])
            edges[name] = _on_grid(float(low), float(high))
    return edges


def _on_grid(low: float, high: float) -> tuple[float, ...]:
    """Return grid points from the first quartile on and below the third, so that outer classes hold a quarter each."""
    lower, upper = Decimal(repr(low)), Decimal(repr(high))
    # If the quartiles are equal, their size decides how fine the grid is.
    step = _grid_step((upper - lower) / 4 or abs(lower) / 4 or Decimal(4) / 4)
    first = (lower / step).to_integral_value(ROUND_CEILING)
    last = (upper / step).to_integral_value(ROUND_CEILING) - 1
    return tuple(float(place * step) for place in sorted({first, last}))


def _grid_step(length: Decimal) -> Decimal:
    """Return the largest of 1, 2 and 5 times a power of ten that is not longer than `length`."""
    decade = Decimal(1).scaleb(length.adjusted())
    return max(decade * factor for factor in (1, 2, 5) if decade * factor <= length)
