"""Stage 4, times: noisy histograms over public bins of how long steps and cases take, and of when cases start.

All histograms are blocks of one vector of whole numbers, in units of 1 / UNIT, which gets discrete Gaussian noise once:

* steps: a cell for every pair "a directly followed by b" of the released traces (public by then) and every bin of
  durations. Each step of a case weighs min(1, W / n), where n is the L2 norm of the case's own cells, each step as 1;
* throughput: the time from the first event of a case to its last one. Each case has one weight, divided among
  the cells from its bin on (`throughput_weights`): sums of many bins, which a quantile is read off, then have
  less noise;
* starts, if a public range is declared: each case has one weight in one week of the range, and in one of the 168 hours
  of that week.

The squares of the blocks' weights are parts of N^2 that add up to it (`BLOCKS`), all rounded down; N is `case_norm`. So
a case changes the vector by at most N in L2 however many steps it has, and however long they take; c cases of one
person by at most N c (triangle inequality). Noise of scale s on *every* cell, also the empty ones, makes the stage
(N c)^2 / (2 s^2)-zCDP (Canonne, Kamath and Steinke 2020, theorem 4). The caller chooses s by the part of the times in
the rho of all Gaussian stages (`models.dp.synthetic`).

Why L2: for Laplace noise the weights of a case must add up to a bound. With a bound of 3 each of 19 different steps
weighs .16; here it weighs .9, and all Gaussian stages share one rho. Why the norm of cells, not of pairs: a case that
takes a step several times, quickly and slowly, then weighs more, and medians are nearer to those of single steps
(docs/decisions/091).

Durations are cut to `max_duration`, throughput times to `REACH` times that, starts to the range. All that follows reads
the noisy cells and the released traces only (`synthesis.drawn_times`).

Not guaranteed: that a median is near to the truth. `NoisyTimes.step_noise` shows which pairs are too rare
for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from models.content_free import content_free
from models.dp.annotation import MAX_BOUND_MS, MILLISECOND, check_starts
from models.dp.factorization import power_series
from models.dp.noise import NoiseSource
from models.dp.synthesis.contexts import UNIT
from models.errors import InputError
from models.eventlog import EventLog, Floats, Ints

SECOND = 1_000
HOUR = 3_600 * SECOND
WEEK = 168 * HOUR
HOURS_OF_WEEK = 168

STEP_BINS = 20
"""Bins of durations from a second on. Each carries the whole noise: 48 of them find fewer medians than 20, in which
a median is interpolated."""

THROUGHPUT_BINS = 80
"""Bins of throughput times from a second on. Sums of them have little noise, so that many are affordable:
with 40 the .9 quantile of BPIC 2012 is off by .13, not .04, since it is interpolated in a bin
(docs/decisions/140)."""

REACH = 16
"""Throughput times are counted up to so many times the longest step: a case has many steps, and some of them are longer
than a step may be (.9 of the cases of Sepsis take up to 93 days, one of its steps at most 30 in a release)."""

MOST_CELLS = 30_000_000

NORM = Fraction(3, 2)
"""Largest sum of a case in all histograms, in L2 and in multiples of `case_weight`. A case is in more cells of pairs
and durations than of pairs. With 1, medians follow the steps of short cases more; with 2, noise hides rare pairs."""

BLOCKS = {"steps": Fraction(3, 4), "throughput": Fraction(1, 4)}
"""Parts of the square of a case's weight; they add up to 1."""

BLOCKS_WITH_STARTS = {
    "steps": Fraction(1, 2),
    "throughput": Fraction(1, 4),
    "weeks": Fraction(1, 8),
    "hours": Fraction(1, 8),
}


@dataclass(frozen=True, slots=True)
class PublicTimeBounds:
    """Public bounds of times, in milliseconds.

    Attributes
    ----------
    duration : int
        The longest step.
    start : (int, int) or None
        First and last moment of case starts since 1970-01-01. None: starts are not released, every case begins at 0.
    """

    duration: int
    start: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check the bounds; InputError names the bound that cannot be one."""
        if not SECOND <= self.duration < MAX_BOUND_MS:
            raise InputError("max_duration must be between a second and 35 years")
        check_starts(self.start)

    @property
    def step_edges(self) -> Ints:
        """Edges of the bins of durations, int64[bins + 1]."""
        return log_edges(self.duration, STEP_BINS)

    @property
    def throughput_edges(self) -> Ints:
        """Edges of the bins of throughput times, int64[bins + 1]."""
        return log_edges(self.duration * REACH, THROUGHPUT_BINS)

    @property
    def range(self) -> tuple[int, int]:
        """First and last moment of starts; 0 and 0 if none leave."""
        return self.start or (0, 0)

    @property
    def weeks(self) -> int:
        """Weeks of the range of starts, the last one counted in full."""
        first, last = self.range
        return (last - first) // WEEK + 1

    @property
    def blocks(self) -> dict[str, Fraction]:
        """Histograms that are released, each with its part of the square of a case's weight."""
        return BLOCKS if self.start is None else BLOCKS_WITH_STARTS


def log_edges(longest: int, bins: int) -> Ints:
    """Return the edges of logarithmic bins in milliseconds.

    The first bin holds everything below a second; the others go up to `longest` in equal ratios. Bins that whole
    milliseconds cannot distinguish are joined.

    Returns
    -------
    int64[bins + 2]
        Increasing. A time t is in the bin i with edges[i] <= t < edges[i + 1]; the last edge belongs to the last bin.
    """
    ratios = (longest / SECOND) ** (np.arange(bins + 1) / bins)
    rounded = np.round(SECOND * ratios).astype(np.int64)
    rounded[-1] = longest
    return np.concatenate(([0], np.unique(rounded)))


@content_free()
@dataclass(frozen=True, slots=True)
class NoisyTimes:
    """Noisy histograms of the times of a log, in steps or cases.

    Attributes
    ----------
    pairs : int64[P]
        Sorted keys of the pairs of labels: a * labels + b.
    steps : float64[P, bins]
        Weighted steps of each pair by duration.
    throughput : float64[cells]
        Cells of throughput times, as many as bins.
    throughput_weights : float64[cells, bins]
        What a case of each bin of throughput times adds to each cell.
    weeks, hours : float64[weeks], float64[168]
        Cases by start; both empty if starts are not released.
    step_noise, throughput_noise, start_noise : float
        Deviation of the noise in each cell of the three; `start_noise` is 0 without starts.
    """

    pairs: Ints
    steps: Floats
    throughput: Floats
    throughput_weights: Floats
    weeks: Floats
    hours: Floats
    step_noise: float
    throughput_noise: float
    start_noise: float

    @property
    def cases_noise(self) -> float:
        """Largest deviation of the noise in a number of cases up to some throughput time."""
        sums_of_cells = np.cumsum(np.linalg.inv(self.throughput_weights), axis=0)
        return self.throughput_noise * float(np.linalg.norm(sums_of_cells, axis=1).max())


def measure(
    log: EventLog,
    alphabet: Sequence[str],
    pairs: Ints,
    bounds: PublicTimeBounds,
    norm: int,
    scale: float,
    draw: NoiseSource,
) -> NoisyTimes:
    """Measure the times of a log: (norm * c)^2 / (2 scale^2)-zCDP for a person with c cases.

    Parameters
    ----------
    log
        The true cases, with labels of the alphabet only.
    pairs : int64[P]
        Sorted keys of the pairs whose durations are counted; public.
    norm
        The most that one case adds to all histograms together, in L2 and in units of 1 / UNIT (`case_norm`).
    scale
        Scale of the noise, in units of 1 / UNIT.
    """
    n_bins = len(bounds.step_edges) - 1
    if len(pairs) * n_bins + bounds.weeks > MOST_CELLS:
        raise InputError(f"{len(pairs)} directly-follows pairs have too many bins of durations: declare fewer labels")
    sizes = {"steps": len(pairs) * n_bins, "throughput": len(bounds.throughput_edges) - 1}
    if bounds.start is not None:
        sizes |= {"weeks": bounds.weeks, "hours": HOURS_OF_WEEK}

    # One vector of all histograms gets its noise at once; then it is divided again.
    true = true_cells(log, alphabet, pairs, bounds, norm)
    true_numbers = np.concatenate([true[name].ravel() for name in sizes])
    noisy = (true_numbers + draw.gaussian(scale, len(true_numbers))).astype(np.float64)
    parts = np.split(noisy, np.cumsum(list(sizes.values()))[:-1])
    blocks = dict(zip(sizes, parts, strict=True))
    case_units = {name: block_weight(bounds.blocks[name], norm) for name in sizes if name != "steps"}
    start_unit = case_units.get("weeks", 1)
    of_case = throughput_weights(sizes["throughput"], case_units["throughput"])
    nothing = np.zeros(0)
    return NoisyTimes(
        pairs=pairs,
        steps=blocks["steps"].reshape(len(pairs), n_bins) / UNIT,
        throughput=blocks["throughput"] / case_units["throughput"],
        throughput_weights=of_case / case_units["throughput"],
        weeks=blocks.get("weeks", nothing) / start_unit,
        hours=blocks.get("hours", nothing) / start_unit,
        step_noise=scale / UNIT,
        throughput_noise=scale / case_units["throughput"],
        start_noise=scale / start_unit if bounds.start is not None else 0.0,
    )


def true_cells(
    log: EventLog, alphabet: Sequence[str], pairs: Ints, bounds: PublicTimeBounds, norm: int
) -> dict[str, Ints]:
    """Return the histograms without noise, by name, in units of 1 / UNIT.

    Parameters
    ----------
    log, alphabet, pairs, bounds
        As `measure` takes them.
    norm
        The most that one case adds to all histograms together, in L2.
    """
    cases = _throughput_cases(log, bounds)
    cells = {
        "steps": _step_cells(log, _codes(log, alphabet), len(alphabet), pairs, bounds, norm),
        "throughput": throughput_weights(len(cases), block_weight(bounds.blocks["throughput"], norm)) @ cases,
    }
    if bounds.start is not None:
        weeks, hours = _starts(log, bounds)
        cells["weeks"] = weeks * block_weight(bounds.blocks["weeks"], norm)
        cells["hours"] = hours * block_weight(bounds.blocks["hours"], norm)
    return cells


def case_norm(case_weight: int) -> int:
    """Return the most that one case adds to all histograms together, in L2 and in units of 1 / UNIT."""
    return math.floor(NORM * case_weight * UNIT)


def block_weight(part: Fraction, norm: int) -> int:
    """Return the most that a case adds to a block with this part of the square, in units of 1 / UNIT."""
    return math.isqrt(math.floor(norm**2 * part))


def step_weight(square: int, part: Fraction, norm: int) -> int:
    """Return the weight of each step of a case whose cells, each step as 1, have this sum of squares."""
    return min(UNIT, math.isqrt(math.floor(norm**2 * part) // square))


@lru_cache(maxsize=16)
def throughput_weights(n_bins: int, unit: int) -> Ints:
    """Return what a case of each bin adds to each cell of throughput times, int64[cells, bins].

    A case of bin j adds to the cells i >= j, in proportion to the coefficients c_(i - j) of 1 / sqrt(1 -
    z): 1, 1/2, 3/8 and so on. The square of the matrix of these numbers is that of running sums. So the
    noise of a sum of n bins grows with the logarithm of n, not with its root (Henzinger, Upadhyay and
    Upadhyay 2023). A case of a late bin adds to few cells, and more to each of them: a case of any bin adds
    `unit` in L2, and not more, since what it adds to a cell is rounded down.

    Parameters
    ----------
    n_bins
        Number of bins, and of cells.
    unit
        The most that a case adds to all cells together, in L2.
    """
    squares = [coefficient**2 for coefficient in power_series(Fraction(1, 2), n_bins)]
    weights = np.zeros((n_bins, n_bins), dtype=np.int64)
    for place in range(n_bins):
        of_bin = squares[: n_bins - place]
        all_cells = sum(of_bin)
        weights[place:, place] = [math.isqrt(math.floor(unit**2 * square / all_cells)) for square in of_bin]
    weights.flags.writeable = False  # all callers share it
    return weights


def _step_cells(log: EventLog, codes: Ints, n_labels: int, pairs: Ints, bounds: PublicTimeBounds, norm: int) -> Ints:
    """Return the weighted steps of each pair by duration, int64[P, bins]."""
    edges = bounds.step_edges
    n_bins = len(edges) - 1
    cells = np.zeros((len(pairs), n_bins), dtype=np.int64)
    if not len(pairs):
        return cells

    # All steps of the log, by the event that ends each; then those of counted pairs, with their cell.
    is_step = np.ones(log.n_events, dtype=np.bool_)
    is_step[log.starts[:-1][log.lengths > 0]] = False
    event = np.flatnonzero(is_step)
    duration = (log.time[event] - log.time[event - 1]) // MILLISECOND
    key = codes[event - 1] * n_labels + codes[event]
    row = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
    is_counted = pairs[row] == key
    cell = row[is_counted] * n_bins + _bin(duration[is_counted], edges)
    case = log.case_of_event[event][is_counted].astype(np.int64)

    # How often each case is in each cell: the vector of a case, of which the norm is taken.
    n_cells = cells.size
    own_cell, times_in_cell = np.unique(case * n_cells + cell, return_counts=True)
    owner = own_cell // n_cells
    squares = np.zeros(log.n_cases, dtype=np.int64)
    np.add.at(squares, owner, times_in_cell**2)

    # Cases with the same norm have one weight: it is computed once for each.
    distinct, place = np.unique(squares, return_inverse=True)
    weights = [step_weight(max(square, 1), bounds.blocks["steps"], norm) for square in distinct.tolist()]
    weight_of_case = np.asarray(weights, dtype=np.int64)[place]
    np.add.at(cells.reshape(-1), own_cell % n_cells, times_in_cell * weight_of_case[owner])
    return cells


def _throughput_cases(log: EventLog, bounds: PublicTimeBounds) -> Ints:
    """Count the cases with events by throughput time, int64[bins]."""
    has_events = log.lengths > 0
    first = log.time[log.starts[:-1][has_events]]
    last = log.time[log.starts[1:][has_events] - 1]
    edges = bounds.throughput_edges
    return np.bincount(_bin((last - first) // MILLISECOND, edges), minlength=len(edges) - 1)


def _starts(log: EventLog, bounds: PublicTimeBounds) -> tuple[Ints, Ints]:
    """Count the cases with events by week of the public range, and by hour of that week."""
    first, last = bounds.range
    start = np.clip(log.time[log.starts[:-1][log.lengths > 0]] // MILLISECOND, first, last) - first
    weeks = np.bincount(start // WEEK, minlength=bounds.weeks)
    return weeks, np.bincount(start % WEEK // HOUR, minlength=HOURS_OF_WEEK)


def _bin(milliseconds: Ints, edges: Ints) -> Ints:
    """Return the bin of each time. Times below 0 (clocks that disagree) and beyond the last edge are cut."""
    cut = np.clip(milliseconds, 0, edges[-1] - 1)
    return np.asarray(np.searchsorted(edges, cut, side="right") - 1, dtype=np.int64)


def _codes(log: EventLog, alphabet: Sequence[str]) -> Ints:
    """Return the place of the label of each event in the alphabet, int64[E]; below 0 for other labels."""
    place = {name: code for code, name in enumerate(alphabet)}
    missing = -(len(alphabet) ** 2) - 1  # a pair with a missing label has a negative key, which no pair has
    code_of_value = np.asarray([place.get(str(value), missing) for value in log.activity.values] + [missing])
    return code_of_value.astype(np.int64)[log.activity.codes]
