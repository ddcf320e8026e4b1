"""Prior guessing probability: how well a time is known before the release.

Source: differentially-private-release-2023, definition 3.6 and equation 1, P_k = F(t_k + p r) - F(t_k - p r), per
group of relative times. Two readings, since the text and its tables differ (docs/dp.md):

* `closed-window` (default): equation 1 as meant, the share of the group within [t - p, t + p]; times in whole seconds
  with p = 10 s, case starts in whole days with p = 1 day;
* `paper-tables`: what reproduces Tables 2 and 3: whole minutes, p = 10, window (max(t - p, least of the group), t + p],
  so that the mass at the least value is lost (where most steps are instant this keeps the filter from dropping every
  case; it also gives the paper's average epsilons on Urineweginfectie within 2 %); case starts in whole days since the
  start of the log, window (t - 1/max, t + 1/max], which comes from a precision of 1/max^2 on normalised days.

A group with a single value has no distribution to learn from: the worst case (1 - delta) / 2 (equation 2).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from models.dp.annotation import AnnotatedLog
from models.dp.guessing import worst_case_prior
from models.errors import check_choice
from models.eventlog import Floats, Ints

Prior = Literal["closed-window", "paper-tables"]

SECOND = 1_000
MINUTE = 60_000
DAY = 86_400_000
PRECISION_SECONDS = 10
"""Section 3.3: a guess of a relative time is right within 10 seconds (of a case start: within a day)."""

PRECISION_MINUTES = 10
"""The value that the printed tables used instead."""


def prior_probabilities(annotated: AnnotatedLog, delta: float, prior: Prior = "closed-window") -> Floats:
    """Return P_k of every event, float64[E], in (0, 1].

    Parameters
    ----------
    annotated
        The log with its automaton.
    delta
        Guessing advantage, between 0 and 1.
    prior
        How values near that of an event are counted.

    Raises
    ------
    InputError
        If the prior is unknown.
    """
    check_choice("prior =", prior, get_args(Prior))
    window = _closed_window if prior == "closed-window" else _paper_tables
    probabilities = np.empty(len(annotated.relative), dtype=np.float64)
    for mask, starts in ((annotated.first, True), (~annotated.first, False)):
        if mask.any():
            probabilities[mask] = window(annotated.group[mask], annotated.relative[mask], starts, delta)
    return probabilities


def _closed_window(group: Ints, relative: Ints, starts: bool, delta: float) -> Floats:
    values, precision = (relative // DAY, 1) if starts else (relative // SECOND, PRECISION_SECONDS)
    share = _share(group, values, values - precision - 1, values + precision)
    return np.where(_constant(group, values), worst_case_prior(delta), share)


def _paper_tables(group: Ints, relative: Ints, starts: bool, delta: float) -> Floats:
    if starts:
        days = relative // DAY
        values = days * int(days.max())  # in units of 1/max days, so that the precision of 1/max is one unit
        share = _share(group, values, values - 1, values + 1) if values.any() else np.ones(len(values))
        return np.where(_constant(group, days), worst_case_prior(delta), share)
    values = relative // MINUTE
    least, _ = group_extent(group, values)
    share = _share(group, values, np.maximum(values - PRECISION_MINUTES, least), values + PRECISION_MINUTES)
    # The window may have lost even the value itself; nobody guesses worse than by one share of the group.
    share = np.maximum(share, 1.0 / np.bincount(group)[group])
    return np.where(_constant(group, values), worst_case_prior(delta), share)


def _share(group: Ints, values: Ints, above: Ints, up_to: Ints) -> Floats:
    """Share of each value's group that is in (above, up_to]."""
    low = int(min(values.min(), above.min()))
    width = int(max(values.max(), up_to.max())) - low + 1
    keys = group * width - low
    order = np.argsort(keys + values)  # in this order the windows ascend too, so that each search is near the last one
    ordered, base = (keys + values)[order], keys[order]
    inside = np.searchsorted(ordered, base + up_to[order], side="right")
    inside -= np.searchsorted(ordered, base + above[order], side="right")
    share = np.empty(len(values), dtype=np.float64)
    share[order] = inside
    return share / np.bincount(group)[group]


def group_extent(group: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Return the least value and the range (largest - least) of each event's group, both int64[E].

    Groups are numbered from 0.

    Parameters
    ----------
    group
        int64[E], group of each event.
    values
        int64[E], value of each event.

    Returns
    -------
    least, extent
        int64[E] each.
    """
    size = int(group.max(initial=-1)) + 1
    least = np.full(size, np.iinfo(np.int64).max)
    largest = np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(least, group, values)
    np.maximum.at(largest, group, values)
    return least[group], largest[group] - least[group]


def _constant(group: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    return np.asarray(group_extent(group, values)[1] == 0)
