"""dp-model: the counts of a process map, (epsilon, delta_dp)-differentially private as a whole release.

Unit, neighbours and adversary are those of `models.dp.synthetic`. The whole account goes to what a map shows. Stages:

0. Labels, unless `activities` declares them: stage 0 of dp-synthetic.
1. Cases: how many the window has. It is the re-weighting of dp-synthetic over a list of one trace, which is the nearest
   one to every case; discrete Laplace noise.
2. Frequent variants: stage 1 of dp-synthetic, if the noisy number of cases is `CASES_A_THRESHOLD` times its threshold.
   Otherwise hardly a variant could reach it, and stages 3 and 4 have the part of this stage.
3. Norms: how many of the cases whose variant stage 2 did not give have an L2 norm of steps in each of a few ranges
   (`measure_norms`); discrete Gaussian noise. It is measured only if the most that one case adds to the steps (B,
   `case_weight`) may depend on it: if B is not declared, and the number of cases and the number of labels ask for more
   than the least one (`usual_case_weight`).
4. Steps: how often each label follows each, with start and end: the first level of dp-synthetic's context model over
   the same cases; discrete Gaussian noise, in proportion to B. It is declared, or follows from the noisy numbers of
   stages 1 to 3 (`case_weight_by_norms`). Norms have `PART_OF_NORMS` of the rho of steps.
5. Times, where bounds are declared: the noisy histograms of dp-synthetic (`models.dp.synthesis.times`) over the pairs
   of the map, with a B that is declared or follows from that of the steps (`usual_time_weight`). Medians are read off
   their shapes (`models.dp.synthesis.drawn_times`).

Composition is that of dp-synthetic (`models.dp.synthetic.StageBudget`). The rhos of norms and of steps add up to that
of the steps of a release without norms. The scales of stages 4 and 5 depend on the outputs of earlier stages, but the
pairs of distributions that dominate them do not: sensitivity and scale grow alike. The budget counts the least B of
both, whose discrete noise has the largest loss, so the composition holds for every B (Zhu, Dong and Wang 2022, theorem
10, asks for a dominating pair that is the same for every earlier output). A release that counts no variants has a pair
of no larger distance (`StageBudget.without_variants`).

After the noise, counts are fitted (`models.dp.synthesis.fitting`): the frequent variants, and traces that are drawn
from a model of the noisy steps (`_drawn`), get numbers of cases that agree with the noisy steps and with the noisy
number of cases. Their steps are the counts of the map: what enters an activity leaves it, and steps beyond B of a case,
which the noisy level lacks, are there as far as traces of the same steps have them. It is post-processing.

Not guaranteed: that a count is near the true one. `StepCounts` states what its intervals cover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp.noise import NoiseSource, or_secure, scale_for
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, drawn_times, times
from models.dp.synthesis.fitting import FAITH, Cells, fitted, follows
from models.dp.synthesis.flows import thinned, thinned_by_labels
from models.dp.synthesis.spreading import Spread
from models.dp.synthesis.table import Variant, VariantCounts
from models.dp.synthesis.times import PublicTimeBounds
from models.dp.synthetic import Design, Shares, StageBudget, chosen_labels, frequent_variants, over_labels
from models.dp.zcdp import scale_of
from models.eventlog import EventLog, Floats, Ints

COVERAGE = 0.95
"""Of the intervals of a release, before they are rounded outwards to whole numbers."""

USUAL_LEAST, MOST_CASE_WEIGHT = 3, 24
"""Range of B by the number of cases. With less than 3 most logs lose half of their steps; beyond 24 only the noise
grows."""

LEAST_CASE_WEIGHT = 2
"""Least B by the norms of cases if a variant is frequent. No B that a release chooses is less."""

LEAST_WITHOUT_VARIANTS = 4
"""Least B by the norms of cases if no variant is frequent. Drawn traces have repeated steps that the cases need not
have. If B is near the norm of the cases, it weighs such traces less, so that they fit the level as well as the cases
do: the DFG error of a log of two variants of norm 2 is .039 at B = 2, .016 at 3 and .013 at 4."""

LEAST_TIME_WEIGHT, MOST_TIME_WEIGHT = 2, 3
"""Range of the B of the histograms of times (`usual_time_weight`). At 3 medians of short cases are wrong more often, at
2 those of long ones: .60 and .67 of the pairs of BPIC 2012 applications at epsilon .3 are right, .81 and .68 of those
of BPIC 2013 at 1."""

WEIGHT_FACTOR = 1.5
"""B of a log with as many cases as labels times deviations of the noise. Chosen on three public logs: at 1.2 BPIC 2012
at epsilon 1 has a DFG error of .044, not .037, and Sepsis one of .092, not .100."""

MISSING_DEVIATION = 0.5
"""Deviation of the steps that the level lacks, as a part of their estimate: a convention. Without it intervals cover
.83 of the true steps of BPIC 2012 at epsilon 1 and .91 of those of BPIC 2013, with it .95 of both."""

CASES_A_THRESHOLD = 4
"""Variants are counted if the noisy number of cases is at least so many thresholds: the most frequent variant of a log
seldom has more than a quarter of its cases. Sepsis at epsilon .1 has 1,050 cases and a threshold of 864."""

PRICE_OF_OTHERS = 1.3
"""Factor of the price (`thinned`) if the level has no cases of frequent variants. What other cases have in few steps
is mostly noise: at 1 the DFG error of BPIC 2012 at epsilon .1 is .113, not .107."""

NORM_ENDS = (2, 3, 4, 6, 8, 12, 16, 24)
"""Upper ends of the ranges of norms; the last range has all larger ones. Up to the least B no case is capped."""

NORMS = (2.0, 2.5, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0, 32.0)
"""A norm of each range."""

PART_OF_NORMS = Fraction(1, 24)
"""Part of the rho of steps for norms: steps have noise that is wider by a fiftieth then."""

STEPS_OF_NORM = 1.3
"""A case of norm m is taken for one of m to this power steps. They are m if all its steps are equal, and m squared if
all are different."""

NOISE_OF_WEIGHT = 13.0
"""Steps that a bound may leave out for one deviation less of the noise of each label (`case_weight_by_norms`). Chosen
on five public logs at three epsilons."""

POOL = 5_000
"""Draws of the model that get numbers of cases. With 2,000 the DFG error at epsilon 1 is .0832, not .0823 (Sepsis), and
.0339, not .0334 (BPIC 2012). With 20,000 both are within .0002, and the fit takes longer."""

MUCH_LEFT_OUT = 0.5
"""Part of the steps that B leaves out from which a second model is built of numbers of steps (`_drawn`)."""

FAITH_OF_OTHERS = 0.03
"""Weight of the prior in the fit (`models.dp.synthesis.fitting`) if the level has no cases of frequent variants. Drawn
traces represent the other cases less well than all cases: with `FAITH` that error is .111, and a sixth of all steps is
missing, not an eighth."""


def usual_shares(*, labels: bool, times: bool = False) -> Shares:
    """Return the shares of epsilon by stage; they read no data.

    A twentieth goes to the cases, another to frequent variants, another to labels if they are selected, and half to
    times if they are released.

    Parameters
    ----------
    labels
        Whether labels are selected.
    times
        Whether times are released.
    """
    twentieth = Fraction(1, 20)
    selected = twentieth * int(labels)
    timed = Fraction(1, 2) * int(times)
    steps = 1 - 2 * twentieth - selected - timed
    return Shares(labels=selected, variants=twentieth, model=steps, weights=twentieth, times=timed)


def map_design(
    *,
    activities: tuple[str, ...] | None = None,
    other: str | None = None,
    max_labels: int = 64,
    case_weight: int | None = None,
    max_length: int = 200,
    sample: int = 20_000,
    bounds: PublicTimeBounds | None = None,
) -> Design:
    """Return the public parameters of a map as the stages of dp-synthetic take them.

    Parameters
    ----------
    activities, other, max_labels, max_length, sample, bounds
        As in `models.dp.synthetic.Design`.
    case_weight
        The declared B, of steps and of times. If None, the design has the least one, and noisy numbers decide.
    """
    return Design(
        activities=activities,
        other=other,
        max_labels=max_labels,
        order=1,
        case_weight=LEAST_CASE_WEIGHT if case_weight is None else case_weight,
        max_length=max_length,
        sample=sample,
        bounds=bounds,
        shares=usual_shares(labels=activities is None, times=bounds is not None),
    )


@dataclass(frozen=True, slots=True)
class NoisyNumber:
    """A noisy number with its interval.

    Attributes
    ----------
    count
        The noisy number.
    low, high
        Ends of an interval that covers the true number with chance `COVERAGE`.
    """

    count: int
    low: int
    high: int


@content_free()
@dataclass(frozen=True, slots=True)
class NoisyNorms:
    """Noisy numbers of cases by the norm of their steps.

    Attributes
    ----------
    cases : float64[len(NORMS)]
        Noisy cases of each range.
    deviation
        Standard deviation of the noise of one number.
    """

    cases: Floats
    deviation: float

    def steps(self) -> Floats:
        """Return the estimated steps of the cases of each range, float64[len(NORMS)].

        Numbers below two deviations count as 0: otherwise noise alone would make a few long cases, which weigh much.
        """
        cases = np.where(self.cases >= 2 * self.deviation, self.cases, 0.0)
        return np.asarray(cases * np.asarray(NORMS) ** STEPS_OF_NORM)

    def left_out(self, bounds: Ints) -> Floats:
        """Return the estimated steps that each bound leaves out: 1 - B / m of those of a case of norm m above B.

        Parameters
        ----------
        bounds
            int64[B], values of B.

        Returns
        -------
        Floats
            float64[B].
        """
        return np.asarray(self.steps() @ np.maximum(1 - bounds / np.asarray(NORMS)[:, None], 0))


@content_free("case_weight")
@dataclass(frozen=True, slots=True)
class NoisyStages:
    """The outputs of stages 1 to 4, which all that follows reads instead of the log.

    Attributes
    ----------
    cases, cases_deviation
        Number of cases, and the standard deviation of its noise.
    variants, variants_deviation
        Noisy counts of the frequent variants, and the standard deviation of the noise of one. None are counted if the
        log has too few cases.
    level
        Noisy steps of all other cases.
    case_weight
        The most that one case added to the level in L2 (B).
    left_out
        Estimated part of the steps of these cases that B leaves out; 0 if no norms were counted.
    """

    cases: NoisyNumber
    cases_deviation: float
    variants: Mapping[Variant, int]
    variants_deviation: float
    level: contexts.ContextLevel
    case_weight: int
    left_out: float = 0.0


@content_free("labels", "case_weight")
@dataclass(frozen=True, slots=True)
class StepCounts:
    """Counts of a process map. Row and column A are the start and the end of cases.

    Attributes
    ----------
    labels
        A labels, sorted.
    cases
        Number of cases, as noise left it.
    case_weight
        The most that one case added to the noisy level, in L2 (B).
    counts : int64[A + 1, A + 1]
        Steps from each label to each, consistent: each row adds up to what its column does.
    low, high : int64[A + 1, A + 1]
        Intervals of the steps. If no case is capped, they cover the true steps with chance `COVERAGE` at least. A step
        of a variant whose true count is below the threshold is an exception: such a variant is counted only if its
        noisy count is too large, which takes up to half of 1 - `COVERAGE` from that chance. Of a case whose steps have
        an L2 norm above B the level has a part. So the interval also holds one that is stretched by what the fitted
        traces lack in the level, and widened as if that were known within `MISSING_DEVIATION`: an estimate, without a
        chance.
    deviation : float
        Standard deviation of the noise of a step of the level, before it is stretched.
    traces
        Cases of each fitted trace, whose steps are the counts. They are not cases of the log; a release shows their
        steps, and a model of them.
    """

    labels: tuple[str, ...]
    cases: NoisyNumber
    case_weight: int
    counts: Ints
    low: Ints
    high: Ints
    deviation: float
    traces: Mapping[Variant, int]


@dataclass(frozen=True, slots=True)
class NoisyMedian:
    """Median of the durations of a pair in milliseconds, with its interval.

    Attributes
    ----------
    is_readable
        Whether the steps of the pair weigh at least `READABLE` deviations of the noise; otherwise the median is mostly
        that of other pairs.
    """

    median: int
    low: int
    high: int
    is_readable: bool


@content_free()
@dataclass(frozen=True, slots=True)
class MapTimes:
    """Times of a process map, in milliseconds.

    Attributes
    ----------
    steps
        Median of each pair of places of labels.
    throughput, throughput_90
        Median and .9 quantile of the time from the first event of a case to its last one.
    """

    steps: Mapping[tuple[int, int], NoisyMedian]
    throughput: int
    throughput_90: int


@content_free("terms", "private")
@dataclass(frozen=True, slots=True)
class MapRelease:
    """A process map as the mechanism gives it.

    Attributes
    ----------
    terms
        The privacy that it spends.
    private
        False if the noise was seeded.
    selected_labels
        Labels that may leave.
    operator
        Read off raw data, never to be published.
    times
        None if no bounds of times are declared.
    """

    steps: StepCounts
    terms: Terms
    private: bool
    selected_labels: tuple[str, ...]
    operator: dict[str, Any]
    times: MapTimes | None = None


def release_map(
    log: EventLog,
    *,
    epsilon: Any,
    delta_dp: Any,
    design: Design,
    adapt_weight: bool = True,
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
    kept_labels: tuple[str, ...] | None = None,
) -> MapRelease:
    """Release the counts of a process map (dp-model).

    Parameters
    ----------
    design
        Public parameters (`map_design`).
    adapt_weight
        Whether B follows from the noisy number of cases; otherwise it is that of the design.
    kept_labels : optional
        Labels that an earlier release of the series selected: this one selects none.
    """
    draw = or_secure(draw)
    terms = Terms.of(epsilon, delta_dp, cases_per_person)
    budget = StageBudget.of(terms, design)
    return map_within(log, terms, budget, design, draw, adapt_weight=adapt_weight, kept_labels=kept_labels)


def map_within(
    log: EventLog,
    terms: Terms,
    budget: StageBudget,
    design: Design,
    source: NoiseSource,
    *,
    adapt_weight: bool = True,
    kept_labels: tuple[str, ...] | None = None,
) -> MapRelease:
    """Release the counts of a process map within a budget.

    Parameters
    ----------
    log
        The true cases.
    terms
        The privacy that the map spends, for its documents.
    budget
        The epsilon of each stage, as for a first release.
    design, adapt_weight, kept_labels
        As `release_map` takes them.
    source
        Source of the noise.
    """
    if design.activities is None and kept_labels is not None:
        budget = budget.after_labels()
    may_leave = chosen_labels(log, design, budget, terms, source, kept_labels=kept_labels)
    kept, table = over_labels(log, may_leave, design)
    alphabet = table.alphabet
    noisy = noisy_stages(table, design, budget, terms, source, adapt_weight=adapt_weight)
    steps = consistent_steps(noisy, alphabet, design, source)
    times_of_map = None
    if design.bounds is not None:
        of_times = design
        if adapt_weight:
            of_times = replace(design, case_weight=usual_time_weight(noisy.case_weight))
        times_of_map = measure_times(kept, steps, design.bounds, budget, terms, of_times, source)
    n_events = log.n_events
    dropped = n_events - kept.n_events
    operator = {
        "cases": {"in": int(table.counts.sum()), "out": noisy.cases.count},
        "labels": {"may_leave": len(alphabet), "dropped_events": dropped},
        "warnings": _warnings(n_events, dropped, alphabet, noisy.cases.count),
    }
    return MapRelease(steps, terms, source.private, may_leave, operator, times_of_map)


def noisy_stages(
    table: VariantCounts,
    design: Design,
    budget: StageBudget,
    terms: Terms,
    source: NoiseSource,
    *,
    adapt_weight: bool = True,
) -> NoisyStages:
    """Return the noisy numbers of a map: of cases, of frequent variants, and of steps (stages 1 to 4).

    Parameters
    ----------
    table
        The variants of all true cases.
    design, budget, terms
        Public parameters, epsilon of each stage, and privacy of the map.
    source
        Source of the noise.
    adapt_weight
        As `release_map` takes it.
    """
    cases = count_cases(table, budget, terms, source)
    used = budget_after_cases(cases.count, budget, terms)
    variants = frequent_variants(table, used, terms, source)
    rho, case_weight, left_out = used.rho("model"), design.case_weight, 0.0
    if adapt_weight:
        case_weight = usual_case_weight(cases.count, len(table.alphabet), rho, terms)
    least = LEAST_CASE_WEIGHT if variants else LEAST_WITHOUT_VARIANTS
    if adapt_weight and case_weight > least:
        norms = measure_norms(table, variants, rho * PART_OF_NORMS, terms, source)
        rho -= rho * PART_OF_NORMS
        case_weight = min(case_weight, case_weight_by_norms(norms, least, len(table.alphabet), rho, terms))
        left_out = _part_left_out(norms, case_weight)
    level = measure_steps(table, variants, rho, terms, replace(design, case_weight=case_weight), source)
    variants_deviation = used.frequent(terms).scale if used.variants else 0.0
    return NoisyStages(
        cases, cases_deviation(budget, terms), variants, variants_deviation, level, case_weight, left_out
    )


def budget_after_cases(cases: int, budget: StageBudget, terms: Terms) -> StageBudget:
    """Return the budget of the stages after the noisy number of cases, which decides whether variants are counted.

    Parameters
    ----------
    cases
        Noisy number of cases.
    budget, terms
        The epsilon of each stage, and the privacy of the map.
    """
    if budget.variants and cases < CASES_A_THRESHOLD * budget.frequent(terms).threshold:
        return budget.without_variants()
    return budget


def count_cases(table: VariantCounts, budget: StageBudget, terms: Terms, draw: NoiseSource) -> NoisyNumber:
    """Return the noisy number of cases (stage 1).

    The interval is that of discrete Laplace noise, which is nearer to 0 than its scale times ln(1 / .05) with chance
    `COVERAGE` at least. A number below two scales counts as 0 (`models.dp.synthesis.candidates`).

    Parameters
    ----------
    table
        The variants and their counts.
    budget
        Epsilon by stage.
    terms
        The promise, and the most cases of one person.
    draw
        Source of the noise.
    """
    epsilon = epsilon_of_cases(budget)
    scale = scale_for(terms.cases_per_person, epsilon)
    count = int(candidates.reweigh(table, [()], epsilon, draw, terms.cases_per_person)[0])
    margin = math.ceil(scale * math.log(1 / (1 - COVERAGE)))
    return NoisyNumber(count, max(count - margin, 0), count + margin)


def epsilon_of_cases(budget: StageBudget) -> Fraction:
    """Return the epsilon of the number of cases, which has the part of the weights.

    Parameters
    ----------
    budget
        Epsilon by stage.
    """
    return budget.weights * budget.gain


def cases_deviation(budget: StageBudget, terms: Terms) -> float:
    """Return the standard deviation of the noise of the number of cases.

    Parameters
    ----------
    budget
        Epsilon by stage.
    terms
        The promise, and the most cases of one person.
    """
    return scale_for(terms.cases_per_person, epsilon_of_cases(budget)) * contexts.LAPLACE


def usual_case_weight(cases: int, labels: int, rho: Fraction, terms: Terms) -> int:
    """Return B, the most that one case may add to the noisy level in L2, for cases of all norms.

    The error of long cases falls with B and does not depend on the number of cases. The error of the noise is in
    proportion to B, to its deviation and to the number of labels, and falls with the number of cases. Their sum is
    least near the square root of cases / (deviation * labels).

    Parameters
    ----------
    cases
        Noisy number of cases. Like the other parameters it is public, so B reads no data.
    labels
        Number of labels of the map.
    rho
        The rho of the steps.
    terms
        The privacy of the map.
    """
    usual = WEIGHT_FACTOR * math.sqrt(cases / (_unit_deviation(rho, terms) * max(labels, 1)))
    return min(max(round(usual), USUAL_LEAST), MOST_CASE_WEIGHT)


def usual_time_weight(case_weight: int) -> int:
    """Return the B of the histograms of times, half of that of the steps within its range.

    Parameters
    ----------
    case_weight
        The B of the steps. It follows from noisy numbers, so this B reads no data.
    """
    return min(max(case_weight // 2, LEAST_TIME_WEIGHT), MOST_TIME_WEIGHT)


def measure_norms(
    table: VariantCounts, frequent: Mapping[Variant, int], rho: Fraction, terms: Terms, draw: NoiseSource
) -> NoisyNorms:
    """Return how many cases whose variant is not frequent have a norm in each range (stage 3).

    Each case is in one range, so c cases change the numbers by at most c in L2.

    Parameters
    ----------
    table
        The variants of all true cases, and their counts.
    frequent
        The variants of stage 2, whose cases are left out.
    rho
        The rho of the numbers.
    terms
        The promise, and the most cases of one person.
    draw
        Source of the noise.
    """
    other_variants, counts = table.without(frequent)
    cases = np.zeros(len(NORMS), dtype=np.int64)
    np.add.at(cases, _ranges_of_norms(other_variants, len(table.alphabet)), counts)

    # In the unit of the level, so that rounding to whole numbers takes nothing from the privacy.
    scale = scale_of(rho, contexts.UNIT * terms.cases_per_person)
    noisy = cases * contexts.UNIT + draw.gaussian(scale, len(cases))
    return NoisyNorms(noisy / contexts.UNIT, scale / contexts.UNIT)


def _ranges_of_norms(traces: Sequence[Variant], labels: int) -> Ints:
    """Return the place of the range that the norm of each trace is in, int64[traces]."""
    return np.searchsorted(NORM_ENDS, contexts.VariantSteps.of(traces, labels).norms())


def case_weight_by_norms(norms: NoisyNorms, least: int, labels: int, rho: Fraction, terms: Terms) -> int:
    """Return the B with the least estimated error of the steps, for cases of noisy norms.

    The steps that B leaves out grow as B falls (`NoisyNorms.left_out`), and the noise is in proportion to B.

    Parameters
    ----------
    norms
        Noisy cases of each range of norms.
    least
        The least B.
    labels
        Number of labels of the map.
    rho
        The rho of the steps.
    terms
        The privacy of the map.
    """
    bounds = np.arange(least, MOST_CASE_WEIGHT + 1)
    noise = NOISE_OF_WEIGHT * _unit_deviation(rho, terms) * labels * bounds
    return int(bounds[np.argmin(norms.left_out(bounds) + noise)])


def _part_left_out(norms: NoisyNorms, case_weight: int) -> float:
    """Return the estimated part of the steps that B leaves out, of cases whose variant is not frequent."""
    steps = float(norms.steps().sum())
    return norms.left_out(np.asarray([case_weight])).item() / steps if steps else 0.0


def _unit_deviation(rho: Fraction, terms: Terms) -> float:
    """Return the standard deviation of the noise of a step with B = 1."""
    return terms.cases_per_person / math.sqrt(2.0 * float(rho))


def measure_steps(
    table: VariantCounts,
    frequent: Mapping[Variant, int],
    rho: Fraction,
    terms: Terms,
    design: Design,
    draw: NoiseSource,
) -> contexts.ContextLevel:
    """Return the noisy first level over all cases whose variant is not frequent (stage 4).

    Parameters
    ----------
    table
        The variants of all true cases, and their counts.
    frequent
        The variants of stage 2, whose cases are left out.
    rho
        The rho of the steps.
    terms
        The promise, and the most cases of one person.
    design
        Design of the model, of which the weight of a case is used.
    draw
        Source of the noise.
    """
    other_variants, counts = table.without(frequent)
    (level,) = contexts.measure(
        other_variants,
        counts,
        len(table.alphabet),
        [rho],
        design.case_weight,
        draw,
        terms.cases_per_person,
        weigh=contexts.step_weights,
    )
    return level


def measure_times(
    log: EventLog,
    steps: StepCounts,
    bounds: PublicTimeBounds,
    budget: StageBudget,
    terms: Terms,
    design: Design,
    draw: NoiseSource,
) -> MapTimes:
    """Return noisy medians of the pairs of a map, and of the throughput time (stage 5).

    Parameters
    ----------
    log
        The true cases, with labels of the map only.
    steps
        Noisy counts, whose pairs are timed.
    bounds
        Public bounds of times.
    budget, terms
        The epsilon of each stage, and the privacy of the map.
    design
        Public parameters, of which `case_weight` is the B of the histograms.
    draw
        Source of the noise.
    """
    n_labels = len(steps.labels)
    traces = list(steps.traces.items())
    pairs = drawn_times.pairs_of(traces, n_labels)
    norm = design.times_norm
    scale = budget.times_scale(terms, design)
    noisy = times.measure(log, steps.labels, pairs, bounds, norm, scale, draw)
    weighted = drawn_times.weighted_steps(traces, pairs, n_labels, bounds, norm)
    shapes = drawn_times.pair_shapes(noisy, weighted, n_labels)
    medians = {}
    for pair, shape, weight in zip(pairs.tolist(), shapes, weighted.tolist(), strict=True):
        is_readable = weight >= drawn_times.READABLE * noisy.step_noise
        step = divmod(pair, n_labels)
        medians[step] = _median(shape, weight, noisy.step_noise, bounds, is_readable=is_readable)
    n_bins = len(noisy.throughput)
    equal = np.full(n_bins, 1.0 / n_bins)
    throughput = drawn_times.throughput_shape(noisy, float(steps.cases.count), equal)
    middle, late = drawn_times.quantiles(throughput, bounds.throughput_edges, np.asarray([0.5, 0.9])).tolist()
    return MapTimes(medians, middle, late)


def _median(
    shape: Floats,
    weight: float,
    noise: float,
    bounds: PublicTimeBounds,
    *,
    is_readable: bool,
) -> NoisyMedian:
    """Return the median of a shape. Its interval is that of the share below the median, by the noise alone.

    The share below a time is a sum of k noisy cells divided by the sum of all K. At one half its variance is
    (k / 4 + (K - k) / 4) (noise / weight)^2.
    """
    deviation = noise * math.sqrt(len(shape) / 4) / weight if weight > 0 else math.inf
    margin = min(NormalDist().inv_cdf((1 + COVERAGE) / 2) * deviation, 0.5)
    at = np.asarray([0.5, 0.5 - margin, 0.5 + margin])
    median, low, high = drawn_times.quantiles(shape, bounds.step_edges, at).tolist()
    return NoisyMedian(median, low, high, is_readable)


def consistent_steps(noisy: NoisyStages, alphabet: tuple[str, ...], design: Design, draw: NoiseSource) -> StepCounts:
    """Return counts of steps that agree with each other, and their intervals.

    Only noisy numbers are read.

    Parameters
    ----------
    noisy
        The outputs of stages 1 to 4.
    alphabet
        The A labels of the map.
    design
        Public parameters, of which the number and the length of drawn traces are used.
    draw
        Source of the random choices.
    """
    traces, numbers = _fitted_traces(noisy, design, draw)
    counts = _step_cells(traces, numbers, len(alphabet))
    low, high = _intervals(noisy, traces, numbers)
    whole_numbers = np.rint(counts).astype(np.int64)
    return StepCounts(
        alphabet,
        noisy.cases,
        noisy.case_weight,
        whole_numbers,
        np.minimum(low, whole_numbers),
        np.maximum(high, whole_numbers),
        _step_deviation(noisy.level),
        dict(zip(traces, numbers.tolist(), strict=True)),
    )


def _intervals(noisy: NoisyStages, traces: Sequence[Variant], numbers: Ints) -> tuple[Ints, Ints]:
    """Return the ends of the intervals of steps, int64[A + 1, A + 1] each.

    The steps of a frequent variant are its noisy count times those of one case. The other steps are those of the noisy
    level, as far as it has them: fitted traces show how many steps a unit of weight is. They may have capped cases
    though the log has none, so an interval always holds that of the level as it was measured too.
    """
    level = noisy.level
    is_other = np.asarray([trace not in noisy.variants for trace in traces], dtype=np.bool_)
    others = [trace for trace in traces if trace not in noisy.variants]
    of_others = _step_cells(others, numbers[is_other], level.labels)
    in_level = _step_cells(others, numbers[is_other], level.labels, noisy.case_weight)
    # A pair that no fitted trace has may be one of capped cases too: it has the mean stretch.
    mean_stretch = of_others.sum() / in_level.sum() if others else 1.0
    stretch = np.divide(of_others, in_level, out=np.full_like(of_others, mean_stretch), where=in_level > 0)

    of_variants = np.zeros(level.cells.shape)
    squares = np.zeros(level.cells.shape)
    for variant, cases in noisy.variants.items():
        of_case = _step_cells([variant], np.ones(1), level.labels)
        of_variants += cases * of_case
        squares += of_case**2

    quantile = NormalDist().inv_cdf((1 + COVERAGE) / 2)
    variants_deviation = noisy.variants_deviation * np.sqrt(squares)
    in_full = level.cells / contexts.UNIT
    measured = in_full + of_variants
    noise = quantile * np.hypot(_step_deviation(level), variants_deviation)

    missing_deviation = MISSING_DEVIATION * (of_others - in_level)
    deviation = np.hypot(np.hypot(_step_deviation(level) * stretch, missing_deviation), variants_deviation)
    stretched = in_full * stretch + of_variants
    margin = quantile * deviation

    low = np.minimum(stretched - margin, measured - noise)
    high = np.maximum(stretched + margin, measured + noise)
    return np.floor(np.maximum(low, 0.0)).astype(np.int64), np.ceil(high).astype(np.int64)


def _step_deviation(level: contexts.ContextLevel) -> float:
    """Return the standard deviation of the noise of a cell, in steps of weight 1."""
    return float(level.scale[0]) * contexts.LAPLACE / contexts.UNIT


def _fitted_traces(noisy: NoisyStages, design: Design, draw: NoiseSource) -> tuple[list[Variant], Ints]:
    """Return traces with whole numbers of cases that fit the noisy steps and the noisy number of cases."""
    drawn, other_cases = _drawn(noisy, design, draw)
    near = _with_variants(Spread.like_drawn(drawn, other_cases, draw, POOL), noisy.variants)
    steps = follows(near, noisy.level, noisy.case_weight, contexts.step_weights, noisy.variants)
    faith = FAITH_OF_OTHERS if noisy.variants else FAITH
    numbers = fitted(near.cases, [steps, _number_of_cases(near, noisy.cases, noisy.cases_deviation)], faith)
    whole_numbers = near.whole_cases(numbers, draw)
    traces = [trace for trace, _ in whole_numbers]
    cases_of_trace = np.asarray([number for _, number in whole_numbers], dtype=np.int64)
    return traces, cases_of_trace


def _drawn(noisy: NoisyStages, design: Design, draw: NoiseSource) -> tuple[dict[Variant, int], float]:
    """Draw traces like the cases of the noisy level, and estimate how many these cases are.

    The level holds weights of steps, which the model takes for numbers of steps. Where B leaves out much, long cases
    have less than their part of these weights. The traces drawn first show how many steps a unit of weight is in each
    cell, and a second model is built of numbers of steps.

    Returns
    -------
    drawn : dict of Variant to int
        How often each trace was drawn.
    cases : float
        Number of cases.
    """
    level, case_weight = noisy.level, noisy.case_weight
    first = thinned(level, PRICE_OF_OTHERS) if noisy.variants else thinned_by_labels(level)
    drawn = contexts.Model.of([first]).sample(design.sample, design.max_length, draw)
    if noisy.variants and noisy.left_out >= MUCH_LEFT_OUT:
        ratios = contexts.step_ratios(level, 1, drawn, case_weight, contexts.step_weights)
        in_steps = thinned(level, PRICE_OF_OTHERS, ratios)
        drawn = contexts.Model.of([in_steps]).sample(design.sample, design.max_length, draw)
    return drawn, contexts.cases(first, drawn, case_weight, contexts.step_weights)


def _with_variants(near: Spread, variants: Mapping[Variant, int]) -> Spread:
    """Return a spread of one cell with the frequent variants, each with its noisy count.

    The level has no case of them, so a drawn trace that equals one is left out. A variant without a label has no place
    in a map.
    """
    cases = {trace: n for trace, n in zip(near.traces, near.cases.tolist(), strict=True) if trace not in variants}
    cases |= {variant: float(n) for variant, n in variants.items() if variant}
    return Spread(tuple(cases), np.zeros(len(cases), dtype=np.int64), np.asarray(list(cases.values())))


def _number_of_cases(near: Spread, cases: NoisyNumber, deviation: float) -> Cells:
    """Return the number of cases as a cell of which every trace is a part."""
    from scipy.sparse import csr_array

    every_trace = csr_array(np.ones((1, len(near.traces))))
    return Cells(every_trace, np.asarray([float(cases.count)]), np.asarray([deviation]))


def _step_cells(traces: Sequence[Variant], numbers: Ints | Floats, labels: int, bound: int | None = None) -> Floats:
    """Return the steps of so many cases of each trace, float64[A + 1, A + 1].

    Parameters
    ----------
    traces, numbers
        Traces, and the cases of each.
    labels
        Number of labels, A.
    bound
        The B of a level. If given, each step has its weight in that level; otherwise it counts 1.
    """
    steps = contexts.VariantSteps.of(traces, labels)
    weights = np.ones(len(steps.variant))
    if bound is not None:
        weights = contexts.step_weights(steps, bound, 1) / contexts.UNIT
    cells = np.zeros((labels + 1, labels + 1), dtype=np.float64)
    np.add.at(cells, (steps.before, steps.after), numbers[steps.variant] * weights)
    return cells


def _warnings(n_events: int, dropped: int, alphabet: Sequence[str], noisy_cases: int) -> list[str]:
    """Return what the operator should know of a map: dropped events, and too few cases."""
    if n_events and dropped == n_events:
        return ["no event of the log has a label that may leave: declare activities, or raise epsilon"]
    warnings = []
    if dropped:
        warnings.append(
            f"{dropped} of {n_events} events have labels that are not declared or not frequent enough, and were "
            f"dropped: {len(alphabet)} labels may leave"
        )
    if not noisy_cases:
        warnings.append(
            "the noisy number of cases is 0: the counts of this map are mostly noise; raise epsilon, or release larger "
            "windows"
        )
    return warnings
