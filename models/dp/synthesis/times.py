"""Stage 4, times: how long each step takes, and when cases start, from noisy histograms over public bins.

* Durations: for every pair "a directly followed by b" of the released traces (public by then) a histogram over
  logarithmic bins up to `max_duration`. A case of n pairs counts in each with weight min(1, B / n), so with B at most
  in all, as in the context model: noise of scale B c / epsilon_d in every cell, also the empty ones. The result is
  smoothed over neighbouring bins (`_spreading`): post-processing, which reads noisy cells alone.
* Starts, if a public range is declared: each case counts once in a histogram of weeks of the range, and once in one
  of the 168 hours of its week; noise of scale c / epsilon_s in every cell of each.

Durations are cut to `max_duration`, starts to the range. A time is drawn from the noisy histogram, and evenly within
its bin: post-processing. The epsilon of the stage is the sum of its parts: two thirds for durations and a sixth for
each histogram of starts, or all of it for durations.

Not guaranteed: that times of one case fit together. Each step is drawn by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.annotation import MAX_TIME_MS, MILLISECOND
from models.dp.noise import NoiseSource, scale_for
from models.dp.synthesis.contexts import UNIT, case_weight
from models.dp.synthesis.table import Variant
from models.errors import InputError
from models.eventlog import EventLog, Ints

SECOND = 1_000
HOUR = 3_600 * SECOND
WEEK = 168 * HOUR

MAX_BOUND_MS = 1 << 40
"""35 years: a public bound of times beyond it is a mistake."""

DROP = 3.0
"""Cells below so many scales of the noise count as 0. Of the 43 bins up to 30 days 1.5 lets five empty ones through in
every pair, more than most pairs hold; 3 lets one."""

DROP_FIRST = 2.0
"""Of the bin below a second: one bin a pair, so an empty one comes through in one pair of fifteen."""

SETTLED = 500.0
"""A pair of so many scales in all is not smoothed: its bins are far above the noise, and smoothing would only widen
them."""

PER_DOUBLING = 2
"""Bins between a duration and its double: a bin's middle is within a fifth of all its durations."""

MOST_CELLS = 30_000_000


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
        if self.start is not None and not 0 < self.start[1] - self.start[0] < MAX_BOUND_MS:
            raise InputError("the last start must be after the first, and by less than 35 years")
        if self.start is not None and (self.start[0] < -MAX_TIME_MS or self.start[1] > MAX_TIME_MS):
            raise InputError("the range of starts must be within the years 1678 to 2261")

    @property
    def edges(self) -> Ints:
        """Lower edges of the bins of durations: 0, one second, and then `PER_DOUBLING` a doubling."""
        doublings = np.log2(self.duration / SECOND)
        powers = np.arange(int(np.floor(doublings * PER_DOUBLING)) + 1) / PER_DOUBLING
        return np.concatenate(([0], np.round(SECOND * 2.0**powers))).astype(np.int64)

    @property
    def range(self) -> tuple[int, int]:
        """First and last moment of starts; 0 and 0 if none leave."""
        return self.start or (0, 0)

    def parts(self, epsilon: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        """Return the parts of the stage's epsilon for durations, weeks and hours."""
        if self.start is None:
            return epsilon, Fraction(0), Fraction(0)
        return epsilon * 2 / 3, epsilon / 6, epsilon / 6


def add(
    log: EventLog,
    alphabet: Sequence[str],
    released: Sequence[tuple[Variant, int]],
    bounds: PublicTimeBounds,
    epsilon: Fraction,
    bound: int,
    draw: NoiseSource,
    cases_per_person: int = 1,
) -> list[Ints]:
    """Add epsilon-DP times to the released traces.

    Parameters
    ----------
    log
        The true cases, with labels of the alphabet only.
    released
        For each: a variant (places in `alphabet`) and its cases.

    Returns
    -------
    list of int64[cases, length]
        Times in nanoseconds, one array for each of `released`.
    """
    durations, weeks, hours = bounds.parts(epsilon)
    pairs = _pairs(released, len(alphabet))
    codes = _codes(log, alphabet)
    scale = scale_for(bound * UNIT * cases_per_person, durations)
    if len(pairs) * len(bounds.edges) > MOST_CELLS:
        raise InputError(f"{len(pairs)} directly-follows pairs have too many bins of durations: shorten max_duration")
    cells = durations_of(log, codes, len(alphabet), pairs, bounds, bound)
    noisy = cells + draw.laplace(scale, cells.size).reshape(cells.shape)
    histogram = _Histogram.of(_smoothed(noisy, scale), bounds)
    starts = None
    if bounds.start is not None:
        true = starts_of(log, bounds)
        week, hour = (
            _chances(_noised(part[None, :], scale_for(cases_per_person, each), draw))[0]
            for part, each in zip(true, (weeks, hours), strict=True)
        )
        starts = (week, hour)
    return [_rows(variant, count, pairs, len(alphabet), histogram, bounds, starts, draw) for variant, count in released]


def durations_of(log: EventLog, codes: Ints, labels: int, pairs: Ints, bounds: PublicTimeBounds, bound: int) -> Ints:
    """int64[pairs, bins]: weighted steps of each pair by duration, in units of 1 / UNIT; at most B a case."""
    edges = bounds.edges
    lengths = log.lengths
    inner = np.ones(log.n_events, dtype=np.bool_)
    inner[log.starts[:-1][lengths > 0]] = False
    second = np.flatnonzero(inner)
    case = log.case_of_event[second]
    sizes, alike = np.unique(lengths, return_inverse=True)
    weights = np.asarray([case_weight(max(size - 2, 0), bound) for size in sizes.tolist()], dtype=np.int64)[alike]
    took = np.clip((log.time[second] - log.time[second - 1]) // MILLISECOND, 0, bounds.duration)
    key = codes[second - 1] * labels + codes[second]
    row = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
    cells = np.zeros((len(pairs), len(edges)), dtype=np.int64)
    if len(pairs):
        has_row = pairs[row] == key
        place = np.searchsorted(edges, took, side="right") - 1
        np.add.at(cells, (row[has_row], place[has_row]), weights[case[has_row]])
    return cells


def starts_of(log: EventLog, bounds: PublicTimeBounds) -> tuple[Ints, Ints]:
    """Cases by week of the public range, and by hour of that week; each case counts once in each."""
    first, last = bounds.range
    begun = np.clip(log.time[log.starts[:-1][log.lengths > 0]] // MILLISECOND, first, last) - first
    weeks = (last - first) // WEEK + 1
    return np.bincount(begun // WEEK, minlength=weeks), np.bincount(begun % WEEK // HOUR, minlength=168)


def _pairs(released: Sequence[tuple[Variant, int]], labels: int) -> Ints:
    pair_codes = {a * labels + b for variant, _ in released for a, b in itertools.pairwise(variant)}
    return np.asarray(sorted(pair_codes), dtype=np.int64)


def _codes(log: EventLog, alphabet: Sequence[str]) -> Ints:
    place = {name: code for code, name in enumerate(alphabet)}
    code_of_value = np.asarray([place.get(str(value), -1) for value in log.activity.values] + [-1], dtype=np.int64)
    return code_of_value[log.activity.codes]


def _noised(cells: Ints, scale: float, draw: NoiseSource) -> npt.NDArray[np.float64]:
    """Noise in every cell; those below `DROP` scales are 0."""
    noisy = cells + draw.laplace(scale, cells.size).reshape(cells.shape)
    return np.where(noisy >= DROP * scale, noisy, 0).astype(np.float64)


def _spreading(bins: int) -> npt.NDArray[np.float64]:
    """float64[bins, bins], each row adding up to 1: a third of a bin stays there, a third goes to each neighbour.

    Durations of a pair are close to each other on the logarithmic scale, noise is not. Below a second there is one bin,
    mostly steps of no time at all: it has no neighbour. Mass that would leave at an end stays.
    """
    spread = np.eye(bins)
    for place in range(1, bins):
        for other in {place - 1, place + 1} & set(range(1, bins)):
            spread[place, place] -= 1 / 3
            spread[place, other] = 1 / 3
    return spread


def _smoothed(noisy: Ints, scale: float) -> npt.NDArray[np.float64]:
    """Return noisy rows, smoothed unless they are `SETTLED`.

    A bin is then 0 if it is below `DROP` scales of the noise that is left in it.
    """
    spread = _spreading(noisy.shape[1])
    left = np.sqrt((spread**2).sum(axis=0))
    settled = noisy.sum(axis=1, keepdims=True) >= SETTLED * scale
    least = DROP * scale * np.where(settled, 1.0, left)
    least[:, 0] = DROP_FIRST * scale
    cells = np.where(settled, noisy, noisy @ spread)
    return np.asarray(np.where(cells >= least, cells, 0.0), dtype=np.float64)


def _chances(cells: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each row as chances; a row without any cell left is that of all rows together, and even without those."""
    together = cells.sum(axis=0) if cells.any() else np.ones(cells.shape[1])
    filled = np.where(cells.any(axis=1, keepdims=True), cells, together)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))


@content_free()
@dataclass(frozen=True, slots=True)
class _Histogram:
    """Histograms to draw from.

    Attributes
    ----------
    flat
        Cumulative probabilities of row r between r and r + 1.
    low, high
        First and last millisecond of each bin.
    """

    flat: npt.NDArray[np.float64]
    low: Ints
    high: Ints

    @classmethod
    def of(cls, cells: npt.NDArray[np.float64], bounds: PublicTimeBounds) -> _Histogram:
        low = bounds.edges
        high = np.append(low[1:] - 1, bounds.duration)
        high[0] = 0  # most durations below a second are 0: steps of one moment
        return cls(_flat(_chances(cells)), low, high)

    def sample(self, rows: Ints, draw: NoiseSource) -> Ints:
        """Draw a duration in milliseconds for each row."""
        place = _drawn(self.flat, rows, len(self.low), draw)
        return np.asarray(self.low[place] + _below(self.high[place] - self.low[place] + 1, draw))


def _flat(chances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    upper = np.minimum(np.cumsum(chances, axis=1), 1.0)  # rounding may pass 1, into the next row
    return np.asarray((upper + np.arange(len(upper))[:, None]).ravel())


def _drawn(flat: npt.NDArray[np.float64], rows: Ints, bins: int, draw: NoiseSource) -> Ints:
    uniform = (draw.words(len(rows)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    place = np.searchsorted(flat, rows + uniform, side="right") - rows * bins
    return np.asarray(np.minimum(place, bins - 1), dtype=np.int64)


def _below(bounds: Ints, draw: NoiseSource) -> Ints:
    """Draw an even number below each bound.

    It is off by at most 2^-20 of its probability, since the bounds are below 2^44.
    """
    return np.asarray(draw.words(len(bounds)) % bounds.astype(np.uint64), dtype=np.int64)


def _rows(
    variant: Variant,
    count: int,
    pairs: Ints,
    labels: int,
    histogram: _Histogram,
    bounds: PublicTimeBounds,
    starts: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None,
    draw: NoiseSource,
) -> Ints:
    keys = np.asarray([a * labels + b for a, b in itertools.pairwise(variant)], dtype=np.int64)
    times = np.zeros((count, len(variant)), dtype=np.int64)
    if len(keys):
        rows = np.tile(np.searchsorted(pairs, keys), count)
        times[:, 1:] = histogram.sample(rows, draw).reshape(count, len(keys))
    if starts is not None and len(variant):
        times[:, 0] = _begun(count, bounds, starts, draw)
    return np.asarray(np.minimum(np.cumsum(times, axis=1), MAX_TIME_MS) * MILLISECOND, dtype=np.int64)


def _begun(
    count: int,
    bounds: PublicTimeBounds,
    starts: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    draw: NoiseSource,
) -> Ints:
    first, last = bounds.range
    row = np.zeros(count, dtype=np.int64)
    week, hour = (_drawn(_flat(part[None, :]), row, len(part), draw) for part in starts)
    within = _below(np.full(count, HOUR, dtype=np.int64), draw)
    return np.asarray(np.minimum(first + week * WEEK + hour * HOUR + within, last))
