"""AttackRisk of an attack beside its control: difference, interval, and the least leak that a run would have seen.

AttackRisk is the share of the targets that the release gives away beyond what works without it:

    risk = (rate_O - rate_C) / (1 - rate_C)

Sources: Wilson 1927 for one rate; Newcombe 1998 (method 10) for the difference of two; DeLong, DeLong and
Clarke-Pearson 1988 for the area under the ROC curve. An interval covers the sampling of targets and not the choice of
the attack: somebody with a better attack may learn more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, rankdata

LEVEL = 0.95
"""Coverage of the intervals that are shown."""

SEEN = 0.95
"""Share of the runs in which a leak as large as the power would have been seen."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AttackRisk:
    """AttackRisk of one attack with its interval.

    Parameters
    ----------
    rate, control
        Share of successful targets of the original, and without the release. `control` is None if there is nothing to
        compare with; then there is no risk either.
    targets, control_targets
        Number of attacked cases of each; `control_targets` is 0 if `control` is a best guess.
    risk, low, high
        AttackRisk and its 95 % interval.
    clear
        Whether the lower bound stays above 0 with an interval that holds for all measures of an assessment together;
        False without a control.
    power
        Least risk that this run would have seen in 95 of 100 cases; None if it could have seen none.
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


def wilson(rate: float, targets: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's interval of a rate.

    Examples
    --------
    >>> low, high = wilson(0.0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    z = float(norm.ppf(0.5 + level / 2))
    denominator = 1 + z * z / targets
    centre = (rate + z * z / (2 * targets)) / denominator
    half = z * math.sqrt(rate * (1 - rate) / targets + z * z / (4 * targets * targets)) / denominator
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe(first: float, n_first: float, second: float, n_second: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Newcombe's interval of the difference of two independent rates.

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
    below = math.hypot(first - low1, high2 - second)
    above = math.hypot(high1 - first, second - low2)
    return difference - below, difference + above


def against_control(
    successes: float, targets: int, control_successes: float, controls: int, measures: int
) -> AttackRisk:
    """Return the risk of an attack that was also run on cases of the control.

    Parameters
    ----------
    successes, control_successes
        Successes among the targets; a sum of probabilities if a success is an expectation.
    targets, controls
        Number of attacked cases, at least one each.
    measures
        Number of measures of the assessment, for `AttackRisk.clear` (Bonferroni).
    """
    rate, control = successes / targets, control_successes / controls
    if control >= 1.0:
        return AttackRisk(rate, control, targets, controls, None, None, None, clear=False, power=None)
    scale = 1 - control
    low, high = newcombe(rate, targets, control, controls)
    low_together, _ = newcombe(rate, targets, control, controls, 1 - (1 - LEVEL) / measures)
    return AttackRisk(
        rate,
        control,
        targets,
        controls,
        risk=(rate - control) / scale,
        low=low / scale,
        high=min(1.0, high / scale),
        clear=low_together > 0,
        power=_power(control, targets, controls),
    )


def against_guess(successes: float, targets: int, guess: float) -> AttackRisk:
    """Return the risk of an attack beside the best guess without the release, a rate that is known exactly.

    It is never `clear`: what works on everybody, in the log or not, is above a guess as well.
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
        power=_power(guess, targets, None),
    )


def rate_alone(successes: float, targets: int) -> AttackRisk:
    """Return a rate that nothing can be compared with."""
    return AttackRisk(successes / targets, None, targets, 0, None, None, None, clear=False, power=None)


def _power(control: float, targets: int, controls: int | None) -> float | None:
    """Return the least risk whose interval lies above 0 in 95 of 100 runs, by bisection on the rate.

    The lower bound varies as the difference of the rates does: at its mean it must be 1.64 standard errors above 0.
    That is rough below five successes. The control rate is therefore taken as at least three successes of its targets,
    the upper bound that no success at all leaves.
    """
    base = max(control, 3 / (controls or targets))
    if base >= 1.0:
        return None
    z = float(norm.ppf(SEEN))

    def is_seen(rate: float) -> bool:
        if controls is None:
            spread = math.sqrt(rate * (1 - rate) / targets)
            return wilson(rate, targets)[0] - base > z * spread
        spread = math.sqrt(rate * (1 - rate) / targets + base * (1 - base) / controls)
        return newcombe(rate, targets, base, controls)[0] > z * spread

    if not is_seen(1.0):
        return None
    below, above = base, 1.0
    for _ in range(30):
        middle = (below + above) / 2
        below, above = (below, middle) if is_seen(middle) else (middle, above)
    return (above - base) / (1 - base)


def area_under_curve(members: Floats, others: Floats, measures: int) -> AttackRisk:
    """Return the area under the ROC curve as a rate beside .5, with DeLong's interval.

    Parameters
    ----------
    members, others
        Score of each target that was in the log, and of each that was not; higher means "was in it". At least two
        of each.
    measures
        As for `against_control`.

    Examples
    --------
    >>> area_under_curve(np.array([2.0, 3.0]), np.array([0.0, 1.0]), 1).rate
    1.0
    """
    n_members, n_others = len(members), len(others)
    everything = rankdata(np.concatenate((members, others)))
    # Share of the others below each member, and of the members above each other; ties count half.
    share_below = (everything[:n_members] - rankdata(members)) / n_others
    share_above = 1 - (everything[n_members:] - rankdata(others)) / n_members
    area = float(share_below.mean())
    variance = float(share_below.var(ddof=1) / n_members + share_above.var(ddof=1) / n_others)
    # Without any spread DeLong's variance is 0: that of scores without information is used.
    null_variance = (n_members + n_others + 1) / (12 * n_members * n_others)
    error = math.sqrt(variance if variance > 0 else null_variance)
    z = float(norm.ppf(0.5 + LEVEL / 2))
    z_together = float(norm.ppf(1 - (1 - LEVEL) / measures / 2))
    power = 2 * (z + float(norm.ppf(SEEN))) * math.sqrt(null_variance)
    return AttackRisk(
        area,
        0.5,
        n_members,
        n_others,
        risk=2 * area - 1,
        low=max(-1.0, 2 * (area - z * error) - 1),
        high=min(1.0, 2 * (area + z * error) - 1),
        clear=area - z_together * error > 0.5,
        power=power if power < 1 else None,
    )


def targets_needed(half_width: float) -> int:
    """Return how many targets give a rate near .5 an interval of at most this half-width.

    Examples
    --------
    >>> targets_needed(0.03)
    1068
    """
    z = float(norm.ppf(0.5 + LEVEL / 2))
    return math.ceil(z * z / 4 / half_width**2)
