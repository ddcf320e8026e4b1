"""Strict mode: log releases that are (epsilon, delta_dp)-differentially private as a whole.

Unit: one person, with at most `cases_per_person` cases. Neighbours: logs with and without that person's cases
(unbounded). Adversary: knows all other cases, the code and the parameters, and has any computing power.

* `release_variants` (dp-variants): noisy counts of variants above a threshold (`models.dp.counts`).
* `release_gaussian` (dp-variants with `rho`): the same with discrete Gaussian noise, for zCDP (`models.dp.zcdp`).
* `release_log` (dp-log): the same with a part of epsilon; the rest noises times. Given the released counts, one more
  case changes one row of times of one variant (a default row in its place, or another case in the random choice), by
  at most the public range in each value. A row has at most `max_events` values that hold data; each gets discrete
  Laplace noise, in milliseconds, of its range * values * cases_per_person / epsilon_times. Counts and times compose to
  epsilon. Everything after the noise (clamping, order, fresh ids) reads the noisy values only.

Not guaranteed: activity labels and parameters are public, so nothing hides them. Bounds chosen by looking at the data
void the promise. Cases of one person beyond the declared cap count as further persons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp import zcdp
from models.dp.annotation import MAX_BOUND_MS, MAX_TIME_MS, MILLISECOND, check_starts, sorted_alphabet
from models.dp.budget import exact, positive, probability
from models.dp.counts import NoisyCounts, release_counts, rule_of, threshold
from models.dp.noise import NoiseSource, checked_scale, or_secure, scale_for
from models.dp.zcdp import Gaussian
from models.errors import BoundError, InputError
from models.eventlog import Column, EventLog, Ints, SimpleLog, starts_of

MAX_THRESHOLD = 100_000
"""A threshold above it (epsilon near 0) releases noise alone, in logs that fill the memory: refused before the draw."""

MAX_EVENTS = 50_000_000
"""Most events of a release; the noisy counts decide, so the refusal reveals no more than the release would."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Public bounds of times, never read off the data.

    Attributes
    ----------
    duration
        Longest time between two events of a case, in milliseconds; longer ones are cut to it.
    start
        First and last moment of case starts, in milliseconds since 1970-01-01. None: starts are not
        released (all at 0).
    max_events
        Times of a case beyond so many values are replaced by the default, half of their bound.
    """

    duration: int = 30 * 86_400_000
    start: tuple[int, int] | None = None
    max_events: int = 20

    def __post_init__(self) -> None:
        """Check the bounds; InputError names the bound that cannot be one."""
        if not 0 < self.duration < MAX_BOUND_MS:
            raise InputError("max_duration must be between a millisecond and 35 years")
        check_starts(self.start)
        if self.max_events < 1:
            raise InputError("max_events must be at least 1")

    def check(self, epsilon: Fraction) -> None:
        """Refuse bounds under which the noise of times would not fit 64 bits, or would be 0.

        It is called before anything is drawn.

        Parameters
        ----------
        epsilon
            Epsilon of the times of a case.

        Raises
        ------
        InputError
            If noise cannot have one of the scales.
        """
        ranges = (self.duration, *([self.start[1] - self.start[0]] if self.start else []))
        checked_scale(scale_for(max(ranges), epsilon / self.max_events))
        checked_scale(scale_for(min(ranges), epsilon))


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms that a strict release promises.

    Attributes
    ----------
    epsilon, delta_dp : Fraction
        Exact.
    cases_per_person : int
        The most cases that one person may have.
    rho : Fraction
        Of Gaussian noise (models.dp.zcdp); epsilon is then 0.
    """

    epsilon: Fraction
    delta_dp: Fraction
    cases_per_person: int = 1
    rho: Fraction = Fraction(0)

    @classmethod
    def of(cls, epsilon: Any, delta_dp: Any, cases_per_person: int = 1) -> Terms:
        """Check the terms of a release.

        Parameters
        ----------
        epsilon, delta_dp
            The promise, as numbers are written.
        cases_per_person
            Most cases of one person.

        Raises
        ------
        InputError
            If one of them is out of its range; the message names it.
        """
        if isinstance(cases_per_person, bool) or not isinstance(cases_per_person, int) or cases_per_person < 1:
            raise InputError("cases_per_person must be a whole number of at least 1")
        return cls(positive(epsilon), probability(delta_dp), cases_per_person)


@content_free("log", "terms", "private")
@dataclass(frozen=True, slots=True)
class StrictRelease:
    """A release of strict mode.

    Attributes
    ----------
    log : EventLog
        Released cases with fresh random ids. It may be empty: no variant reached the threshold.
    terms : Terms
        The privacy that it spends.
    private : bool
        False if the noise was seeded.
    operator : mapping
        Read off raw data, never to be published.
    labels : tuple of str
        Labels that may leave, if the mechanism chooses them.
    facts : mapping
        Facts for the manifest, read off noisy numbers only.
    """

    log: EventLog
    terms: Terms
    threshold: int
    private: bool
    operator: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def release_variants(
    log: EventLog,
    *,
    epsilon: Any,
    delta_dp: Any,
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
    cases: Ints | None = None,
) -> StrictRelease:
    """Release a log whose variants have noisy frequencies (dp-variants).

    The log has no times: they are ordinal, one event a second.

    Parameters
    ----------
    cases : int64[C], optional
        Number of cases that each case of `log` represents (a table of variants); by default one each.
    """
    draw = or_secure(draw)
    terms = Terms.of(epsilon, delta_dp, cases_per_person)
    simple = SimpleLog.from_log(log, cases=cases)
    true = _true_counts(simple)
    noisy = _noisy_counts(simple, true, terms, terms.epsilon, draw)
    rows = ordinal_rows((simple.variants[variant], count) for variant, count in _pairs(noisy))
    released = _as_log(simple, noisy, rows, draw)
    return StrictRelease(released, terms, noisy.threshold, draw.private, coverage(true, noisy))


def release_log(
    log: EventLog,
    *,
    epsilon: Any,
    delta_dp: Any,
    bounds: TimeBounds | None = None,
    time_share: Any = Fraction(1, 2),
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
) -> StrictRelease:
    """Release a dp-log: variants with noisy frequencies, and noisy times.

    Parameters
    ----------
    log
        The true cases.
    epsilon, delta_dp
        The privacy of the release.
    bounds
        Public bounds of the times; the default ones if not given.
    time_share
        Part of epsilon that the times get, between 0 and 1. The frequencies get the rest.
    cases_per_person
        Most cases of one person.
    draw
        Source of the noise; the cryptographic one if not given.
    """
    draw = or_secure(draw)
    terms = Terms.of(epsilon, delta_dp, cases_per_person)
    share = exact(time_share, "time_share")
    if not 0 < share < 1:
        raise InputError("time_share must be strictly between 0 and 1; use dp-variants for counts alone")
    limits = bounds or TimeBounds()
    epsilon_times = terms.epsilon * share / cases_per_person
    limits.check(epsilon_times)
    simple = SimpleLog.from_log(log)
    true = _true_counts(simple)
    noisy = _noisy_counts(simple, true, terms, terms.epsilon * (1 - share), draw)
    times = _Times(log, simple, limits, epsilon_times, draw)
    rows = [times.noised(variant, count) for variant, count in _pairs(noisy)]
    released = _as_log(simple, noisy, rows, draw)
    return StrictRelease(released, terms, noisy.threshold, draw.private, coverage(true, noisy))


def release_gaussian(
    log: EventLog,
    *,
    rho: Any,
    delta_dp: Any,
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
    cases: Ints | None = None,
) -> StrictRelease:
    """Release variants as `release_variants` does, with discrete Gaussian noise.

    The release is delta_dp-approximately rho-zCDP (models.dp.zcdp).

    Parameters
    ----------
    log, cases_per_person, draw, cases
        As `release_variants` takes them.
    rho, delta_dp
        The privacy of the release.
    """
    draw = or_secure(draw)
    terms = gaussian(rho, delta_dp, cases_per_person)
    simple = SimpleLog.from_log(log, cases=cases)
    true = _true_counts(simple)
    noisy = terms.counts(true, draw)
    _refuse_too_many(simple, noisy)
    rows = ordinal_rows((simple.variants[variant], count) for variant, count in _pairs(noisy))
    kept = Terms(Fraction(0), terms.delta_dp, cases_per_person, terms.rho)
    released = _as_log(simple, noisy, rows, draw)
    return StrictRelease(released, kept, noisy.threshold, draw.private, coverage(true, noisy))


def gaussian(rho: Any, delta_dp: Any, cases_per_person: int = 1) -> Gaussian:
    """Return terms of Gaussian noise under which a log can be released.

    Parameters
    ----------
    rho
        Parameter of zCDP, as a number is written.
    delta_dp
        Probability with which the promise may fail.
    cases_per_person
        Most cases of one person.

    Raises
    ------
    InputError
        If one of them is out of its range, or no variant could ever leave.
    """
    terms = zcdp.checked(rho, delta_dp, cases_per_person)
    if terms.threshold > MAX_THRESHOLD:
        raise InputError(f"rho is too small: a variant would need {terms.threshold} cases to be released")
    return terms


def least_count(epsilon: Fraction, delta_dp: Fraction, cases_per_person: int = 1) -> int:
    """Return the least noisy count that a variant is released with.

    Parameters
    ----------
    epsilon
        The part of epsilon that the counts get.
    delta_dp, cases_per_person
        As in `Terms`.

    Raises
    ------
    InputError
        If no log could be released: the noise would not fit 64 bits or be 0, or the count is above MAX_THRESHOLD.
    """
    least = threshold(epsilon, delta_dp, cases_per_person)
    if least > MAX_THRESHOLD:
        raise InputError(f"epsilon is too small: a variant would need {least} cases to be released")
    checked_scale(scale_for(cases_per_person, epsilon))
    return least


def released_from(epsilon: Fraction, delta_dp: Fraction, cases_per_person: int = 1) -> int:
    """Return the least noisy count that a variant of one release leaves with.

    It may be below `least_count`, whose noise has no end.

    Parameters
    ----------
    epsilon, delta_dp
        The promise of the release.
    cases_per_person
        Most cases of one person.

    Raises
    ------
    InputError
        As `least_count`.
    """
    least_count(epsilon, delta_dp, cases_per_person)
    return rule_of(epsilon, delta_dp, cases_per_person).least


def _noisy_counts(
    simple: SimpleLog,
    true: Ints,
    terms: Terms,
    epsilon: Fraction,
    draw: NoiseSource,
) -> NoisyCounts:
    least_count(epsilon, terms.delta_dp, terms.cases_per_person)
    noisy = release_counts(true, epsilon, terms.delta_dp, draw, terms.cases_per_person)
    _refuse_too_many(simple, noisy)
    return noisy


def _refuse_too_many(simple: SimpleLog, noisy: NoisyCounts) -> None:
    events = sum(len(simple.variants[variant]) * count for variant, count in _pairs(noisy))
    if events > MAX_EVENTS:
        raise BoundError(f"the noisy counts add up to {events} events: raise epsilon (rho) or lower delta_dp")


def coverage(true: Ints, noisy: NoisyCounts) -> dict[str, Any]:
    """Measure the share of the log that the released variants represent.

    It uses raw data, so only the operator may see it.

    Parameters
    ----------
    true
        int64[variants], exact cases of each variant.
    noisy
        The released variants, by their place among all, with their counts.

    Returns
    -------
    dict
        Numbers of variants and cases, the shares that are covered, the threshold, and warnings. Shares are
        None for an empty log.
    """
    total, variants = int(true.sum()), int((true > 0).sum())
    covered = int(true[noisy.variants].sum())
    document: dict[str, Any] = {
        "variants": {"in": variants, "out": len(noisy.variants)},
        "cases": {"in": total, "covered": covered, "out": int(noisy.counts.sum())},
        "coverage_variants": len(noisy.variants) / variants if variants else None,
        "coverage_cases": covered / total if total else None,
        "threshold": noisy.threshold,
        "warnings": [],
    }
    if total and covered < total / 2:
        document["warnings"].append(
            f"low coverage: the released variants represent {covered} of {total} cases "
            f"({len(noisy.variants)} of {variants} variants reach the threshold of {noisy.threshold})"
        )
    return document


class _Times:
    """Rows of times by variant: [start, duration, duration, ...] in milliseconds, clipped to the public bounds."""

    def __init__(
        self, log: EventLog, simple: SimpleLog, bounds: TimeBounds, epsilon: Fraction, draw: NoiseSource
    ) -> None:
        self.log, self.bounds, self.epsilon, self.draw = log, bounds, epsilon, draw
        variant_of_case = simple.variant[simple.row_of_case]
        self.cases = np.argsort(variant_of_case, kind="stable")
        self.begins = np.searchsorted(variant_of_case[self.cases], np.arange(len(simple.variants) + 1))
        self.lengths = [len(variant) for variant in simple.variants]

    def noised(self, variant: int, count: int) -> Ints:
        """Return noisy times in nanoseconds of `count` released cases, int64[count, length]."""
        low, high = self._ranges(self.lengths[variant])
        chosen = self._chosen(variant, count)
        rows = np.tile((low + high) // 2, (count, 1))  # the public default row
        rows[: len(chosen)] = self._true_rows(chosen, low, high)
        data = self._columns_with_data(low, high)
        if len(data):
            each = self.epsilon / len(data)
            for column in data.tolist():
                scale = scale_for(int(high[column] - low[column]), each)
                rows[:, column] += self.draw.laplace(scale, count)
        rows[:, data] = np.clip(rows[:, data], low[data], high[data])
        return np.asarray(np.minimum(np.cumsum(rows, axis=1), MAX_TIME_MS) * MILLISECOND, dtype=np.int64)

    def _ranges(self, length: int) -> tuple[Ints, Ints]:
        low = np.zeros(length, dtype=np.int64)
        high = np.full(length, self.bounds.duration, dtype=np.int64)
        if length:
            low[0], high[0] = self.bounds.start or (0, 0)
        return low, high

    def _columns_with_data(self, low: Ints, high: Ints) -> Ints:
        return np.flatnonzero(high > low)[: self.bounds.max_events]

    def _chosen(self, variant: int, count: int) -> Ints:
        """At most `count` cases of the variant, a uniform choice (surplus is dropped at random)."""
        cases = self.cases[self.begins[variant] : self.begins[variant + 1]]
        return cases[self.draw.permutation(len(cases))[:count]]

    def _true_rows(self, cases: Ints, low: Ints, high: Ints) -> Ints:
        if not len(low):
            return np.zeros((len(cases), 0), dtype=np.int64)
        stamps = self.log.time[self.log.starts[cases][:, None] + np.arange(len(low))] // MILLISECOND
        rows = np.diff(stamps, axis=1, prepend=0)
        rows = np.clip(rows, low, high)
        beyond = np.setdiff1d(np.arange(len(low)), self._columns_with_data(low, high))
        rows[:, beyond] = ((low + high) // 2)[beyond]
        return np.asarray(rows, dtype=np.int64)


def _true_counts(simple: SimpleLog) -> Ints:
    return np.bincount(simple.variant, weights=simple.count, minlength=len(simple.variants)).astype(np.int64)


def _pairs(noisy: NoisyCounts) -> list[tuple[int, int]]:
    return list(zip(noisy.variants.tolist(), noisy.counts.tolist(), strict=True))


def ordinal_rows(counted: Iterable[tuple[Sized, int]]) -> list[Ints]:
    """Return times for released cases that have none: one event a second, in nanoseconds.

    Parameters
    ----------
    counted
        The variants, and the number of cases of each.

    Returns
    -------
    list of Ints
        int64[cases, length] for each variant.
    """
    rows = []
    for variant, count in counted:
        times = np.arange(len(variant), dtype=np.int64) * 1_000_000_000
        rows.append(np.tile(times, (count, 1)))
    return rows


def _as_log(simple: SimpleLog, noisy: NoisyCounts, rows: list[Ints], draw: NoiseSource) -> EventLog:
    released_variants = [simple.variants[variant] for variant in noisy.variants.tolist()]
    return assembled(simple.alphabet, released_variants, rows, draw)


def assembled(
    alphabet: Sequence[str], variants: Sequence[Sequence[int]], rows: Sequence[Ints], draw: NoiseSource
) -> EventLog:
    """Return released cases as a log under fresh ids, in order of start, ties at random.

    Parameters
    ----------
    rows : list of int64[cases, length]
        Times in nanoseconds of the cases of each of `variants`, whose labels are places in `alphabet`.
    """
    names, rank = sorted_alphabet(tuple(alphabet))
    # Each list begins with an empty array, so that a release without variants has arrays of the right kind.
    lengths_of = [np.zeros(0, dtype=np.int64)]
    labels_of = [np.zeros(0, dtype=np.int32)]
    times_of = [np.zeros(0, dtype=np.int64)]
    for variant, times_of_cases in zip(variants, rows, strict=True):
        cases, length = times_of_cases.shape
        lengths_of.append(np.full(cases, length))
        labels_of.append(np.tile(rank[np.asarray(variant, dtype=np.int64)], cases))
        times_of.append(times_of_cases.ravel())
    lengths = np.concatenate(lengths_of)
    times = np.concatenate(times_of)
    starts = starts_of(lengths)
    released = EventLog(
        case_ids=draw.identifiers(len(lengths)),
        starts=starts,
        activity=Column(np.concatenate(labels_of), names),
        time=times,
        resource=Column(np.full(len(times), -1, dtype=np.int32), ()),
        row=np.argsort(np.argsort(times, kind="stable"), kind="stable").astype(np.int64),
    )
    first = np.where(lengths > 0, np.append(times, 0)[starts[:-1]], 0)
    shuffled = draw.permutation(len(lengths))
    return released.select_cases(shuffled[np.argsort(first[shuffled], kind="stable")])
