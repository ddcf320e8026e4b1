"""The account: epsilon and delta of everything that a ledger has charged.

Charges add up: releases that are (e_i, d_i)-DP are together (sum e_i, sum d_i)-DP. No series of releases is as bad as
that, since outcomes are rarely the worst for all of them. The account composes the noise that was drawn exactly
(models.dp.privacy_loss), upwards, and states the sums only if nothing better is proven.

**One release.** Thresholds and the ends of truncated noise have a chance delta of their own, t in all. But for that
chance the release is dominated by a pair: Gaussian noise by a Gaussian pair, every other stage, epsilon_s-DP, by
randomized response. Every (epsilon_s, t)-DP output is a function of randomized response with one more outcome, of
chance t, that shows everything (Kairouz, Oh and Viswanath 2015, section 3). So this holds for truncated noise as well
as for thresholds, and for a release of which only (epsilon, delta) is known: t is its whole delta then.

**n releases with equal noise.** Their pairs multiply, also if what a release asks depends on what earlier ones gave, as
long as the noise does not (Zhu, Dong and Wang 2022, theorem 10). All outcomes that show everything have chance n t
at most, so the releases are (e, n t + d)-DP for every e and d with d >= delta(e) of the composed pairs. d is the delta
of one release, `delta_dp` of the publication, paid once however many releases there are.

**A configuration that changes.** Releases with equal noise are a stretch. Its noise is fixed when it begins, so the
argument holds for each, given all before it. The stretches add up (Rogers, Roth, Ullman and Vadhan 2016: a filter on
sums of epsilon and delta holds for any adaptive choice). But the *number* of releases of a
stretch that has ended may have been chosen by looking at them: an operator may lower epsilon after a release that
shows much, and then epsilon(n) is computed for an n that is not fixed. So a stretch that has ended, after n releases,
is composed at the delta d / (n (n + 1)). For every number k that the stretch could have had, let F_k be
E[max(0, 1 - exp(e_k - L_k))] of the loss L_k of its first k releases, at the epsilon e_k of that delta. F_k is at most
d / (k (k + 1)), and these add up to d over all k: whichever way the end was chosen, the part of the stretch beyond its
epsilon has an expectation of at most d. The next stretch, given the past, is (e', d')-DP, so both are
(e_n + e', d + d')-DP. The current stretch is stated for the number of its releases, as every release states it.

**Several publications** of a process add up: one may begin, or change, after looking at another. They are released in
turn, so this is concurrent composition of interactive mechanisms, for which sums hold (Vadhan and Zhang 2023). So do
publications for one audience (pooled): their releases are in one ledger, each in the series of its own publication.

**Persons.** Sensitivities count all cases that one person may have in a release (`cases_per_person`), so a unit is a
person with so many cases in each window. If each case is in one release (`cases = "completed"`), a person with k of c
cases in a release takes part with k / c of what its noise covers, and all releases together cost the largest of them,
however many (stream.release.once). The account takes that charge as it is; accumulated logs are part of it.

**rho** (`accounting = "zcdp"`) adds up as rho: that holds for any adaptive choice, and is near to exact for Gaussian
noise alone.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from models.dp.budget import Charge, Draw
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.spending import NOTHING, Spending, Stretch
from models.dp.zcdp import Accounting
from models.errors import InputError

Rule = Literal["sum", "composed", "parts", "largest", "zcdp"]
"""How an epsilon was computed: charges added up; all releases composed exactly; stretches composed by themselves and
added up; the largest charge, if each case is in one release; rho added up and converted."""

RULE_TEXTS: Mapping[Rule, str] = {
    "sum": "charges added up",
    "composed": "exact composition of all releases",
    "parts": "exact composition of each part of the series, parts added up",
    "largest": "largest charge, as each case is in one release",
    "zcdp": "rho added up, then converted",
}
"""Texts for people: the rule by which an epsilon was computed."""

LEAST_GAIN = Fraction(1, 100)
"""Part of epsilon from which a stretch is composed. Less is not worth the delta of one more release: two Laplace
releases would gain a millionth."""

MOST_RELEASES = 1_000_000
"""Longer stretches count by their sums: floats do not hold the probabilities of their losses well enough."""

AGREEMENT = Fraction(1, 100)
"""Noise of a charge that would allow an epsilon smaller by this part does not agree with the charge: the gain of exact
composition is rounded by a tenth of it."""


class AccountedLoss(NamedTuple):
    """Epsilon and delta of a spending, and how they were computed."""

    charge: Charge
    rule: Rule


def loss(accounting: Accounting, spending: Spending, max_delta: Fraction | None = None) -> AccountedLoss:
    """Return the epsilon and delta of everything that was charged.

    Parameters
    ----------
    accounting
        How the charges of the ledger are added up.
    spending
        Charges of one publication, or of all of a process.
    max_delta
        Limit of delta, if there is one: no epsilon is lowered by a delta beyond it.

    Returns
    -------
    AccountedLoss
        It is never below the true loss. Epsilon is never above the sum of all charges, delta only by that of one
        release in each stretch.
    """
    summed = spending.summed
    if accounting.kind == "zcdp":
        return AccountedLoss(accounting.loss(summed), "zcdp")
    stretches = [(stretch, True) for stretch in spending.ended]
    stretches += [(stretch, False) for stretch in spending.current]
    savings = [_saving(stretch, has_ended) for stretch, has_ended in stretches]
    chosen = [saving for saving in savings if saving.epsilon]
    # Savings that need no more delta come first, since no limit of delta excludes them; then the largest.
    # The order of the publications decides nothing: gate, manifest and `verify` compute the same numbers.
    chosen.sort(key=lambda saving: (saving.delta < 0, -saving.epsilon, -saving.delta))
    total = summed
    is_composed = False
    for saving in chosen:
        less = total - saving
        if saving.delta >= 0 or (less.delta < 1 and (max_delta is None or less.delta <= max_delta)):
            total = less
            is_composed = True
    is_alone = len(stretches) == 1 and NOTHING == spending.earlier == spending.disjoint
    rule: Rule = "sum"
    if is_composed:
        rule = "composed" if is_alone else "parts"
    elif not stretches and spending.disjoint != NOTHING == spending.earlier:
        rule = "largest"
    return AccountedLoss(Charge(total.epsilon, min(total.delta, Fraction(1))), rule)


def _saving(stretch: Stretch, has_ended: bool) -> Charge:
    """Return by how much the composition of a stretch is below its sums; nothing if that is hardly any epsilon.

    Its delta is below 0 if the composition needs more delta than the sums have.
    """
    saving = stretch.summed - loss_of_stretch(stretch, has_ended)
    return saving if saving.epsilon >= stretch.summed.epsilon * LEAST_GAIN else NOTHING


@lru_cache(maxsize=4096)
def loss_of_stretch(stretch: Stretch, has_ended: bool) -> Charge:
    """Return the epsilon and the delta of a composed stretch.

    The delta is the sum of those of the draws, and the delta of one release.

    Parameters
    ----------
    stretch
        Releases with equal noise.
    has_ended
        Whether another stretch followed: its number of releases is not a constant then.

    Returns
    -------
    Charge
        The sums, if nothing better is known.
    """
    number, release = stretch.number, stretch.charge
    draws = stretch.draws if agrees(release, stretch.draws) else ()
    if not draws and release.epsilon:
        draws = (Draw("pure", Fraction(1), release.epsilon, release.delta),)
    if number == 1 or number > MOST_RELEASES or not draws or not release.delta:
        return stretch.summed
    at_delta = release.delta
    if has_ended:
        at_delta = release.delta / (number * (number + 1))
    epsilon = composed(draws, number).epsilon(at_delta)
    return Charge(epsilon, number * threshold_delta(draws) + release.delta)


def composed(draws: tuple[Draw, ...], number: int = 1) -> Composition:
    """Return the privacy loss of releases with equal noise, without the deltas of the draws.

    Parameters
    ----------
    draws
        The noise of one release.
    number
        Number of releases with this noise.

    Raises
    ------
    InputError
        If Gaussian noise has too small a scale for its pair.
    """
    distance = Fraction(0)
    pure: Counter[Fraction] = Counter()
    for draw in draws:
        times = number * draw.times
        if draw.kind == "gaussian":
            distance += times * gaussian_distance(draw.scale, draw.sensitivity)
        else:
            pure[draw.epsilon] += times
    return Composition(distance, tuple(sorted(pure.items())))


def threshold_delta(draws: tuple[Draw, ...]) -> Fraction:
    """Return the chance with which one of the draws of a release shows more than its scale says.

    Parameters
    ----------
    draws
        Draws of one release.
    """
    return sum((draw.delta * draw.times for draw in draws), Fraction(0))


@lru_cache(maxsize=1024)
def agrees(charge: Charge, draws: tuple[Draw, ...]) -> bool:
    """Return whether the noise of a release is what its charge paid for; draws that are not stated agree.

    A ledger keeps both, and each follows from the other. Noise that is wider than its charge would lower every later
    account; narrower noise was not paid for.

    Parameters
    ----------
    charge
        Epsilon, delta and rho that the ledger keeps for the release.
    draws
        Draws of its noise.
    """
    if not draws:
        return True
    delta_left = charge.delta - threshold_delta(draws)
    if delta_left < 0:
        return False
    if charge.rho:
        return delta_left == 0 and _agrees_in_rho(charge.rho, draws)
    try:
        composition = composed(draws)
    except InputError:
        return False
    if not composition.distance:
        total = sum((epsilon * times for epsilon, times in composition.pure), Fraction(0))
        return charge.epsilon * (1 - AGREEMENT) <= total <= charge.epsilon
    allowed = float(delta_left)
    least = charge.epsilon * (1 - AGREEMENT)
    return composition.delta(charge.epsilon) <= allowed < composition.delta(least)


def _agrees_in_rho(rho: Fraction, draws: tuple[Draw, ...]) -> bool:
    """Return whether Gaussian draws have this rho: the sum of sensitivity^2 / (2 scale^2), which rounds down."""
    if any(draw.kind != "gaussian" for draw in draws):
        return False
    drawn = sum((draw.times * draw.epsilon**2 / 2 for draw in draws), Fraction(0))
    return rho * (1 - AGREEMENT) <= drawn <= rho
