"""Risk of an attack against its control: difference, interval, and the least leak that a run would have seen.

The risk is the share of the targets that the release gives away beyond what works without it:

    risk = (rate_O - rate_C) / (1 - rate_C)

Sources: Wilson 1927 for one rate; Newcombe 1998 (method 10) for the difference of two, also of the same cases; Donner
and Zou 2012 for the quotient, from the limits of its parts; Korn and Graubard 1998 for the effective number of targets
if several draws were made for each; Fisher 1935 for the exact test; DeLong, DeLong and Clarke-Pearson 1988 for the area
under the ROC curve, and Obuchowski 1997 if targets belong together. An interval covers the sampling of targets and not
the choice of the attack: somebody with a better attack may learn more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import beta, hypergeom, norm, rankdata

from models.content_free import content_free
from models.eventlog import Floats, Ints

LEVEL = 0.95
"""Coverage of the intervals that are shown."""

SEEN = 0.95
"""Share of the runs in which a leak as large as the power would have been seen."""

FEWEST = 5
"""Successes and failures (expected) below which the spread among targets is not known well enough to rely on it."""


@content_free("draws")
@dataclass(frozen=True, slots=True)
class Successes:
    """Success of an attack on each of its targets.

    Parameters
    ----------
    unit
        int64[N], number of the case.
    share
        float64[N], share of the draws of each target in which the attack succeeded.
    draws
        Independent draws (of known items, or of ties) for each target.
    """

    unit: Ints
    share: Floats
    draws: int = 1

    @property
    def rate(self) -> float:
        """Mean over all targets."""
        return float(self.share.mean())

    @property
    def effective(self) -> float:
        """Number of targets of one draw each whose rate would be known as well.

        The variance of the rate is that among units. Targets of one unit count together; draws of one target cannot
        make it better known than as many independent targets.
        """
        n = len(self.share)
        distinct, unit = np.unique(self.unit, return_inverse=True)
        groups = len(distinct)
        binomial = self.rate * (1 - self.rate)
        if groups < 2 or binomial * groups < FEWEST:
            return float(groups)
        residual = np.bincount(unit, weights=self.share - self.rate)
        variance = float((residual**2).sum()) / n**2 * groups / (groups - 1)
        most = float(n * self.draws)
        return most if variance <= binomial / most else binomial / variance


@content_free()
@dataclass(frozen=True, slots=True)
class TargetResults:
    """The single results that a risk was made from, so that two runs on the same cases can be put together.

    Parameters
    ----------
    original, control
        Success on cases of the original, and on those outside. For an area: the share of the cases outside that score
        lower, and the share of the members that score higher.
    reach
        Largest rate that the attack can have, if everything is released word for word: a release with three
        identifying records singles out three people at most, and a trace that two people have is evidence for neither.
    """

    original: Successes
    control: Successes
    reach: float = 1.0


@dataclass(frozen=True, slots=True)
class AttackRisk:
    """Risk of one attack with its interval.

    Parameters
    ----------
    rate, control
        Share of successful targets of the original, and without the release. `control` is None if there is nothing to
        compare with; then there is no risk either.
    targets, control_targets
        Number of attacked cases of each; `control_targets` is 0 if `control` is a best guess.
    risk, low, high
        Risk and its 95 % interval.
    clear
        Whether the lower bound stays above 0 with an interval that holds for all measures of an assessment together;
        False without a control.
    power
        Least leak, as a share of the people, that would have been `clear` in 95 of 100 runs like this one; None if
        none would have been. Against a best guess, no risk is clear; then it is the least one whose interval would have
        ended above 0.
    evidence
        Results by target, if the attack kept them.
    """

    rate: float
    control: float | None
    targets: int
    control_targets: int
    risk: float | None
    low: float | None
    high: float | None
    clear: bool
    power: float | None
    evidence: TargetResults | None = field(default=None, repr=False, compare=False)

    @property
    def half_width(self) -> float | None:
        """Half of the width of the interval of the risk."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def json(self) -> Mapping[str, Any]:
        """Return the figures under their public names."""
        names = ("rate", "control", "targets", "control_targets", "risk", "low", "high", "half_width", "power")
        return {name: getattr(self, name) for name in names}


@lru_cache(maxsize=64)
def _normal(share: float) -> float:
    """Return the quantile of the normal distribution. The search for the power asks for the same ones many times."""
    return float(norm.ppf(share))


def wilson(rate: float, targets: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's interval of a rate.

    Parameters
    ----------
    rate
        Share of the targets, 0 to 1.
    targets
        Number of targets, above 0; a weighted number may be no integer.
    level
        Chance with which the interval holds the true rate, at least approximately.

    Examples
    --------
    >>> low, high = wilson(0.0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    z = _normal(0.5 + level / 2)
    denominator = 1 + z * z / targets
    centre = (rate + z * z / (2 * targets)) / denominator
    variance = rate * (1 - rate) / targets + z * z / (4 * targets * targets)
    half = z * math.sqrt(variance) / denominator
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe(
    first: float,
    n_first: float,
    second: float,
    n_second: float,
    level: float = LEVEL,
    correlation: float = 0.0,
) -> tuple[float, float]:
    """Return Newcombe's interval of the difference of two rates.

    Parameters
    ----------
    correlation
        Correlation of the two estimates: 0 for independent targets, else that of the same targets in both.

    Examples
    --------
    The example of the paper: 56 of 70 against 48 of 80.

    >>> low, high = newcombe(56 / 70, 70, 48 / 80, 80)
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    low1, high1 = wilson(first, n_first, level)
    low2, high2 = wilson(second, n_second, level)
    difference = first - second
    below = _together(first - low1, high2 - second, correlation)
    above = _together(high1 - first, second - low2, correlation)
    return difference - below, difference + above


def _together(first: float, second: float, correlation: float) -> float:
    """Return the distance of a limit of a difference, from those of its two parts."""
    return math.sqrt(max(0.0, first**2 + second**2 - 2 * correlation * first * second))


@dataclass(frozen=True, slots=True)
class _Rates:
    """Two rates with how well they are known: effective numbers of targets, and the correlation of the estimates."""

    first: float
    n_first: float
    second: float
    n_second: float
    correlation: float = 0.0

    def risk_interval(self) -> tuple[float, float]:
        """Return the interval of 1 - (1 - first) / (1 - second).

        The limits of the quotient R are those at which Newcombe's interval of (1 - first) - R (1 - second) ends at 0,
        so the lower limit of the risk is above 0 exactly if Newcombe's interval of the difference is.
        """
        low1, high1 = wilson(self.first, self.n_first)
        low2, high2 = wilson(self.second, self.n_second)
        failed, failed_control = 1 - self.first, 1 - self.second
        below = self._quotient(failed - (1 - high1), (1 - low2) - failed_control, upper=False)
        above = self._quotient((1 - low1) - failed, failed_control - (1 - high2), upper=True)
        if below is None:
            below = (1 - high1) / (1 - low2)
        low = -math.inf if above is None else 1 - above
        return low, 1 - max(below, 0.0)

    def _quotient(self, a: float, b: float, *, upper: bool) -> float | None:
        """Return the R at which (x - R y)^2 = a^2 - 2 c a R b + R^2 b^2; None if there is none on that side."""
        x, y = 1 - self.first, 1 - self.second
        square = y * y - b * b
        half = x * y - self.correlation * a * b
        root = half * half - square * (x * x - a * a)
        if square <= 1e-12 or root < 0:
            return None
        return (half + math.sqrt(root) if upper else half - math.sqrt(root)) / square


def compared(evidence: TargetResults, measures: int) -> AttackRisk:
    """Return the risk of an attack from its success on each target of the original and of the control.

    Parameters
    ----------
    evidence
        Success on each target.
    measures
        Number of measures of the assessment, for `AttackRisk.clear` (Bonferroni).
    """
    original, control = evidence.original, evidence.control
    rates = _Rates(original.rate, original.effective, control.rate, control.effective)
    return _risk(rates, len(original.share), len(control.share), measures, evidence)


def compared_exactly(evidence: TargetResults, measures: int) -> AttackRisk:
    """Return the risk of an attack that succeeds or fails, by an exact test.

    It needs an attack whose successes do not depend on which of the cases are the original. Without a leak, each
    success is then as likely in the original as any case is, so their number is hypergeometric (Fisher's exact test).
    The interval is that of `compared`. A leak is `clear` if the test rejects at the level that all measures share, and
    the interval is above 0 as well.

    The power is that of the test: the least rate with which 95 of 100 runs reach the fewest successes that it rejects,
    against a control with as many successes as its exact upper bound (of 95 %) allows. It is printed as a share of the
    people whose cases are released word for word, of whom the attack finds those within its reach (`_leak_of`).

    Parameters
    ----------
    evidence
        Shares of 0 and 1.
    measures
        As for `compared`.
    """
    approximate = compared(evidence, measures)
    if approximate.low is None:
        return approximate
    cases, controls = len(evidence.original.share), len(evidence.control.share)
    successes, by_chance = int(evidence.original.share.sum()), int(evidence.control.share.sum())
    level = (1 - LEVEL) / measures / 2
    is_rejected = _tail(successes, by_chance, cases, controls) <= level
    most_by_chance = math.ceil(controls * beta.ppf(SEEN, by_chance + 1, controls - by_chance))
    rejected = np.flatnonzero(_tail(np.arange(cases + 1), most_by_chance, cases, controls) <= level)
    power = None
    if len(rejected):
        fewest = int(rejected[0])
        rate = float(beta.ppf(SEEN, fewest, cases - fewest + 1))
        power = _leak_of(rate, by_chance / controls, evidence.reach)
    return replace(approximate, clear=bool(is_rejected) and approximate.low > 0, power=power)


def _leak_of(rate: float, control: float, reach: float) -> float | None:
    """Return the share of the people who must be given away for a rate; None if no share is enough.

    A leak of r gives away r of the people whom the attack can find at all: rate = control + r (reach - control).
    """
    if rate > reach or control >= reach:
        return None
    return (rate - control) / (reach - control)


def _tail(successes: int | Ints, by_chance: int, cases: int, controls: int) -> Floats:
    """Return the probability of at least so many successes in the original, if no case is likelier than another."""
    return np.asarray(hypergeom.sf(successes - 1, cases + controls, successes + by_chance, cases))


@content_free()
@dataclass(frozen=True, slots=True)
class BothWays:
    """A measure of two runs on one division of a log, in which original and control changed places.

    Parameters
    ----------
    risks
        The measure of either run.
    cases
        int64[C] each, numbers in the whole log of the cases of the first run's original, and of its control.
    """

    risks: tuple[AttackRisk, AttackRisk]
    cases: tuple[Ints, Ints]

    def runs(self) -> list[TargetResults]:
        """Return the results of both runs, with the numbers of cases in the whole log as units.

        The list is empty if a run kept no results.
        """
        first, second = self.risks[0].evidence, self.risks[1].evidence
        if first is None or second is None:
            return []
        numbered = []
        for run, (inside, outside) in ((first, self.cases), (second, self.cases[::-1])):
            original = replace(run.original, unit=inside[run.original.unit])
            control = replace(run.control, unit=outside[run.control.unit])
            numbered.append(TargetResults(original, control))
        return numbered


def crossed(divisions: Sequence[BothWays], measures: int) -> AttackRisk | None:
    """Return the risk over runs in which original and control changed places.

    Each case was attacked once in each division as a case of the release, and once as one outside. The
    reasons why a case is easy to guess are the same in both, so the difference is more precise than that of different
    cases.

    Parameters
    ----------
    divisions
        The same measure of several random divisions of one log.
    measures
        As for `compared`.

    Returns
    -------
    AttackRisk or None
        None if a run kept no results, or fewer than two cases were attacked both ways.
    """
    first, second = (risk.evidence for risk in divisions[0].risks)
    if first is None or second is None:
        return None
    totals: dict[str, Floats] = {}
    size = 1 + max(int(part.max(initial=0)) for part in divisions[0].cases)
    for name in ("inside", "outside", "inside centred", "outside centred", "times"):
        totals[name] = np.zeros(size)
    for division in divisions:
        runs = division.runs()
        for run, other in zip(runs, reversed(runs), strict=True):
            unit, at, at_other = np.intersect1d(run.original.unit, other.control.unit, return_indices=True)
            totals["times"][unit] += 1
            for name, share in (("inside", run.original.share[at]), ("outside", other.control.share[at_other])):
                totals[name][unit] += share
                totals[f"{name} centred"][unit] += share - share.mean()
    attacked = np.flatnonzero(totals["times"])
    if len(attacked) < 2:
        return None
    mean = {name: total[attacked] / totals["times"][attacked] for name, total in totals.items()}
    draws = first.original.draws * len(divisions)
    original, control = (Successes(attacked, mean[name], draws) for name in ("inside", "outside"))
    correlation = _correlation(mean["inside centred"], mean["outside centred"])
    rates = _Rates(original.rate, original.effective, control.rate, control.effective, correlation)
    risk = _risk(rates, len(attacked), len(attacked), measures, None)
    if risk.power is None:
        return risk
    seen_from = control.rate + risk.power * (1 - control.rate)
    return replace(risk, power=_leak_of(seen_from, control.rate, max(first.reach, second.reach)))


def _correlation(inside: Floats, outside: Floats) -> float:
    """Return the correlation of both results over the cases; 0 without any spread.

    A positive covariance is lowered by 1 / (2 n), Newcombe's continuity correction: that no case differs in n cases
    does not show that none could.

    Parameters
    ----------
    inside, outside
        float64[N], results of each case, less the mean of its release.
    """
    spread = math.sqrt(float((inside**2).mean()) * float((outside**2).mean()))
    if spread <= 0:
        return 0.0
    covariance = float((inside * outside).mean())
    if covariance > 0:
        covariance = max(covariance - 1 / (2 * len(inside)), 0.0)
    return max(-1.0, min(1.0, covariance / spread))


def _risk(
    rates: _Rates,
    targets: int,
    controls: int,
    measures: int,
    evidence: TargetResults | None,
) -> AttackRisk:
    rate, control = rates.first, rates.second
    if control >= 1.0:
        return AttackRisk(rate, control, targets, controls, None, None, None, clear=False, power=None)
    low, high = rates.risk_interval()
    # The level that holds for all measures together also decides the power: a leak below it is not called seen.
    together = 1 - (1 - LEVEL) / measures
    low_together, _ = newcombe(rate, rates.n_first, control, rates.n_second, together, rates.correlation)
    return AttackRisk(
        rate,
        control,
        targets,
        controls,
        risk=1 - (1 - rate) / (1 - control),
        low=max(low, -1.0),
        high=min(1.0, high),
        clear=low_together > 0 and low > 0,
        power=_power(rates, targets, controls, together),
        evidence=evidence,
    )


def against_guess(successes: float, targets: int, guess: float) -> AttackRisk:
    """Return the risk of an attack against the best guess without the release, an exactly known rate.

    It is never `clear`: what works on everybody, in the log or not, is above a guess as well.

    Parameters
    ----------
    successes
        Targets on which the attack worked; a part of a target counts as such.
    targets
        Number of attacked cases.
    guess
        Rate of the best guess, 0 to 1.
    """
    rate = successes / targets
    if guess >= 1.0:
        return AttackRisk(rate, guess, targets, 0, None, None, None, clear=False, power=None)
    low, high = wilson(rate, targets)
    scale = 1 - guess
    return AttackRisk(
        rate,
        guess,
        targets,
        0,
        risk=(rate - guess) / scale,
        low=(low - guess) / scale,
        high=(high - guess) / scale,
        clear=False,
        power=_power_beside_guess(targets, guess),
    )


def rate_alone(successes: float, targets: int) -> AttackRisk:
    """Return a rate that nothing can be compared with.

    Parameters
    ----------
    successes
        Targets on which the attack worked.
    targets
        Number of attacked cases.
    """
    return AttackRisk(successes / targets, None, targets, 0, None, None, None, clear=False, power=None)


def _power(rates: _Rates, targets: int, controls: int, level: float) -> float | None:
    """Return the least risk whose interval of a level is above 0 in 95 of 100 runs, by bisection.

    A leak of r gives away r of the cases for sure, and leaves the others as the control is. The rate is then
    p + r (1 - p), and if the results of cases have variance v without a leak, they have
    (1 - r) v + r (1 - r) (1 - p)^2 with it. Their covariance with the same cases outside is (1 - r) times what it was.

    The lower bound varies as the difference of the rates does: at its mean it must be 1.64 standard errors above 0.
    That is rough below five successes. The control rate is therefore taken as at least three successes of its targets,
    the upper bound that no success at all leaves.

    Parameters
    ----------
    rates
        Rates of the run; those of the control are used, and the correlation.
    targets, controls
        Number of attacked cases of each.
    level
        Level of the interval.
    """
    base = max(rates.second, 3 / rates.n_second)
    if base >= 1.0:
        return None
    control_error = math.sqrt(base * (1 - base) / rates.n_second)
    variance = controls * control_error**2
    _, high_of_control = wilson(base, rates.n_second, level)

    def is_seen(leak: float) -> bool:
        rate = base + leak * (1 - base)
        variance_with_leak = (1 - leak) * (variance + leak * (1 - base) ** 2)
        error = math.sqrt(variance_with_leak / targets)
        effective = float(targets)
        correlation = 0.0
        if error > 0:
            effective = rate * (1 - rate) / error**2
            correlation = rates.correlation * (1 - leak) * math.sqrt(variance / variance_with_leak)
        # The lower limit of `newcombe`. The limit of the control is the same for all leaks.
        low_of_leak, _ = wilson(rate, effective, level)
        low = rate - base - _together(rate - low_of_leak, high_of_control - base, correlation)
        return low > _normal(SEEN) * _together(error, control_error, correlation)

    return _least(is_seen)


def _power_beside_guess(targets: int, guess: float) -> float | None:
    """Return the least risk whose interval is above 0 in 95 of 100 runs, against an exactly known rate."""
    base = max(guess, 3 / targets)
    if base >= 1.0:
        return None

    def is_seen(leak: float) -> bool:
        rate = base + leak * (1 - base)
        error = math.sqrt(rate * (1 - rate) / targets)
        return wilson(rate, targets)[0] - base > _normal(SEEN) * error

    return _least(is_seen)


def _least(is_seen: Callable[[float], bool]) -> float | None:
    """Return the least leak that is seen, by bisection; None if not even one of all cases is."""
    if not is_seen(1.0):
        return None
    below, above = 0.0, 1.0
    for _ in range(30):
        middle = (below + above) / 2
        below, above = (below, middle) if is_seen(middle) else (middle, above)
    return above


def area_under_curve(
    members: Floats,
    nonmembers: Floats,
    measures: int,
    *,
    units: tuple[Ints, Ints] | None = None,
    groups: tuple[Ints, Ints] | None = None,
) -> AttackRisk:
    """Return the area under the ROC curve as a rate compared with .5, with DeLong's interval.

    Parameters
    ----------
    members, nonmembers
        Score of each target that was in the log, and of each that was not; higher means "was in it". At least two
        of each.
    measures
        As for `compared`.
    units
        Numbers of the cases, if the results are to be put together with another run (`crossed_area`).
    groups
        Numbers of groups of targets that belong together (they saw the same noise); None if all are independent.

    Examples
    --------
    >>> area_under_curve(np.array([2.0, 3.0]), np.array([0.0, 1.0]), 1).rate
    1.0
    """
    return _area_of_placements(*_placements(members, nonmembers), measures, units=units, groups=groups)


def area_over_folds(
    members: Sequence[Floats],
    nonmembers: Floats,
    fold: Ints,
    measures: int,
    *,
    units: tuple[Ints, Ints] | None = None,
) -> AttackRisk:
    """Return the area under the ROC curve if the others of each fold were scored by a model of their own.

    Parameters
    ----------
    members
        float64[N] for each fold, score of each target that was in the log, by the model of that fold.
    nonmembers
        float64[M], score of each target that was not, by the model of its fold.
    fold
        int64[M], fold of each of these. Folds without any are passed over.
    measures, units
        As for `area_under_curve`.

    Notes
    -----
    The area is the mean of those of the folds, weighted by their others. A member adds the weighted mean of what it
    adds in the folds (DeLong), so that its scores by several models are not taken for several members.
    """
    below = np.zeros(len(members[0]))
    above = np.empty(len(nonmembers))
    for number, scores in enumerate(members):
        is_scored = fold == number
        if is_scored.any():
            share_below, above[is_scored] = _placements(scores, nonmembers[is_scored])
            below += is_scored.mean() * share_below
    return _area_of_placements(below, above, measures, units=units, groups=None)


def _area_of_placements(
    share_below: Floats,
    share_above: Floats,
    measures: int,
    *,
    units: tuple[Ints, Ints] | None,
    groups: tuple[Ints, Ints] | None,
) -> AttackRisk:
    """Return the area from the share of the others below each member, and of the members above each other."""
    sizes = (len(share_below), len(share_above))
    area = float(share_below.mean())
    influence = [_influence(share_below), _influence(share_above)]
    if groups is None:
        variance = float(sum((part**2).sum() for part in influence))
    else:
        _, group = np.unique(np.concatenate(groups), return_inverse=True)
        variance = float((np.bincount(group, weights=np.concatenate(influence)) ** 2).sum())
    # Scores without information; also used if there is no spread at all, where DeLong's variance is 0.
    null_variance = (sum(sizes) + 1) / (12 * sizes[0] * sizes[1])
    evidence = None
    if units is not None:
        evidence = TargetResults(Successes(units[0], share_below), Successes(units[1], share_above))
    return _area(area, variance or null_variance, max(null_variance, variance), sizes, measures, evidence)


def crossed_area(divisions: Sequence[BothWays], measures: int) -> AttackRisk | None:
    """Return the area over runs in which original and control changed places (as `crossed`).

    Parameters
    ----------
    divisions
        The measure on each division of the log.
    measures
        How many measures share one level (`crossed`).

    Returns
    -------
    AttackRisk or None
        None if a run kept no results.
    """
    # Sum of the contributions of a case to all areas: as one within the release in a run, as one outside in the other.
    added: dict[int, float] = {}
    areas = []
    for division in divisions:
        runs = division.runs()
        if not runs:
            return None
        areas += [risk.rate for risk in division.risks]
        for run in runs:
            for side in (run.original, run.control):
                parts = _influence(side.share) / (2 * len(divisions))
                for unit, part in zip(side.unit.tolist(), parts.tolist(), strict=True):
                    added[unit] = added.get(unit, 0.0) + part
    # The area of n pairs cannot be known better than that one of them may be the other way round.
    least_variance = 1 / len(added) ** 2
    variance = max(sum(value**2 for value in added.values()), least_variance)
    area = sum(areas) / len(areas)
    return _area(area, variance, variance, (len(added), len(added)), measures, None)


def _placements(members: Floats, nonmembers: Floats) -> tuple[Floats, Floats]:
    """Return the share of the others below each member, and of the members above each other; ties count half."""
    ranks = rankdata(np.concatenate((members, nonmembers)))
    share_below = (ranks[: len(members)] - rankdata(members)) / len(nonmembers)
    share_above = 1 - (ranks[len(members) :] - rankdata(nonmembers)) / len(members)
    return share_below, share_above


def _influence(share: Floats) -> Floats:
    """Return what each target adds to the mean, so that the sum of squares is the variance of the mean."""
    n = len(share)
    return np.asarray((share - share.mean()) / n * math.sqrt(n / (n - 1)))


def _area(
    area: float,
    variance: float,
    power_variance: float,
    sizes: tuple[int, int],
    measures: int,
    evidence: TargetResults | None,
) -> AttackRisk:
    error = math.sqrt(variance)
    z = _normal(0.5 + LEVEL / 2)
    z_together = _normal(1 - (1 - LEVEL) / measures / 2)
    power = 2 * (z_together + _normal(SEEN)) * math.sqrt(power_variance)
    return AttackRisk(
        area,
        0.5,
        *sizes,
        risk=2 * area - 1,
        low=max(-1.0, 2 * (area - z * error) - 1),
        high=min(1.0, 2 * (area + z * error) - 1),
        clear=area - z_together * error > 0.5,
        power=power if power < 1 else None,
        evidence=evidence,
    )


def targets_needed(half_width: float) -> int:
    """Return how many targets give a rate near .5 an interval of at most this half-width.

    Parameters
    ----------
    half_width
        Half of the width of the interval, as a share.

    Examples
    --------
    >>> targets_needed(0.03)
    1068
    """
    z = _normal(0.5 + LEVEL / 2)
    return math.ceil(z * z / 4 / half_width**2)
