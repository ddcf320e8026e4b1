"""An auditor of epsilon: runs a mechanism on neighbouring logs and bounds epsilon from below by its observations.

For an (e, d)-DP mechanism and any event S of its output, P[M(L) in S] <= exp(e) P[M(L') in S] + d. So with a lower
confidence bound p of the first and an upper one q of the second (Clopper and Pearson 1934), e >= ln((p - d) / q). The
events are chosen on the first half of the runs and counted on the second, which keeps the bound honest; over all events
and both directions the error is at most `alpha` (Bonferroni). A bound above the claim refutes the claim; one below it
proves nothing.

Support: some events cannot happen on L' by the rule of the mechanism, such as a variant that the log does not have. If
such an event happens on L with a probability above d, no finite epsilon holds, and the audit reports `unbounded`.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from models.errors import InputError

Observe = Callable[[], Iterable[Hashable]]
"""One run of a mechanism: the events that happened in its output."""

Many = Callable[[int], Counter[Hashable]]
"""So many runs of a mechanism at once: how often each event happened."""

EVENTS = 20
"""Events that an audit chooses on its first half and counts on its second."""

NO_CLAIM = 1.0 - 1e-12
"""A delta at which nothing can be refuted."""

Possible = Callable[[Hashable], bool]
"""Whether an event can happen at all on a log, by the mechanism's own rule."""


@dataclass(frozen=True, slots=True)
class NeighbourPair:
    """Two neighbouring logs, as runs of a mechanism.

    Attributes
    ----------
    name : str
        Name of the difference of the logs.
    steps : int
        Number of changes of the unit of the claim (add or remove) between them. A changed event is a removal and an
        addition: 2.
    """

    name: str
    run_one: Observe
    run_other: Observe
    steps: int = 1
    possible_one: Possible | None = None
    possible_other: Possible | None = None
    many_one: Many | None = None
    many_other: Many | None = None
    """Draws runs in bulk, if possible: used instead of `run_one` and `run_other`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The strongest evidence found.

    Attributes
    ----------
    epsilon : float
        Lower bound at confidence 1 - alpha; 0 if nothing was found.
    unbounded : bool
        Whether an event of positive probability (beyond delta) is impossible on the other log.
    witness
        The event that gives the bound.
    """

    pair: str
    epsilon: float
    unbounded: bool
    witness: str
    runs: int

    def refutes(self, claimed: float, steps: int = 1) -> bool:
        """Return whether the finding contradicts a claim of epsilon per step.

        Parameters
        ----------
        claimed
            The claimed epsilon.
        steps
            Steps of the neighbouring relation between the two inputs.
        """
        return self.unbounded or self.epsilon > claimed * steps


def group_delta(epsilon: float, delta: float, steps: int) -> float:
    """Return delta over `steps` changes of an (epsilon, delta)-DP mechanism.

    It is delta (1 + e^epsilon + ... + e^((steps - 1) epsilon)), below 1: the definition applied `steps` times.
    A smaller delta could refute a correct mechanism.

    Parameters
    ----------
    epsilon, delta
        The claim for one step.
    steps
        Changes between the two inputs.
    """
    if steps == 1 or not delta:
        return delta
    if epsilon > 700:  # e^epsilon is not a float: the claim over several steps bounds nothing
        return NO_CLAIM
    return min(delta * sum(math.exp(step * epsilon) for step in range(steps)), NO_CLAIM)


def lower_bound(hits: int, runs: int, alpha: float) -> float:
    """Return the lower end of the Clopper-Pearson interval of a probability.

    It is the probability under which `hits` or more of `runs` have chance alpha.

    Parameters
    ----------
    hits, runs
        Runs with the event, of all runs.
    alpha
        Chance with which the bound is above the true probability.
    """
    from scipy.special import betaincinv

    return float(betaincinv(hits, runs - hits + 1, alpha)) if hits else 0.0


def upper_bound(hits: int, runs: int, alpha: float) -> float:
    """Return the upper end of the Clopper-Pearson interval of a probability.

    It is the probability under which `hits` or fewer of `runs` have chance alpha.

    Parameters
    ----------
    hits, runs
        Runs with the event, of all runs.
    alpha
        Chance with which the bound is below the true probability.
    """
    from scipy.special import betaincinv

    return float(betaincinv(hits + 1, runs - hits, 1.0 - alpha)) if hits < runs else 1.0


def audit(
    pair: NeighbourPair,
    runs: int,
    *,
    delta: float = 0.0,
    alpha: float = 0.01,
    events: int = EVENTS,
) -> Finding:
    """Bound epsilon from below by runs on two neighbouring logs.

    Half of the runs choose the events that differ most between the two logs. The other half count them, so that the
    choice does not bias the bound.

    Parameters
    ----------
    pair
        The two logs, as functions that run the mechanism on them.
    runs
        Runs on each of the two logs, 20 at least.
    delta
        The delta of the claim over all steps of the pair.
    alpha
        Chance that a bound is above the true epsilon, over all chosen events together.
    events
        Most events that are chosen.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    if runs < 20 or not 0.0 <= delta < 1.0 or not 0.0 < alpha < 1.0:
        raise InputError("an audit needs at least 20 runs, delta_dp in [0, 1) and alpha in (0, 1)")
    half = runs // 2

    def counted() -> tuple[Counter[Hashable], Counter[Hashable]]:
        return _counted(pair.run_one, pair.many_one, half), _counted(pair.run_other, pair.many_other, half)

    chosen = _candidates(*counted(), half, delta, events)
    first, other = counted()
    error = alpha / max(4 * len(chosen), 1)
    best = Finding(pair.name, 0.0, False, "", runs)
    for event, forward in chosen:
        first_counts, second_counts = (first, other) if forward else (other, first)
        possible = pair.possible_other if forward else pair.possible_one
        likely = lower_bound(first_counts[event], half, error) - delta
        if likely <= 0.0:
            continue
        if possible is not None and not possible(event):
            return Finding(pair.name, math.inf, True, _shown(event), runs)
        bound = math.log(likely / upper_bound(second_counts[event], half, error))
        if bound > best.epsilon:
            best = Finding(pair.name, bound, False, _shown(event), runs)
    return best


@dataclass(frozen=True, slots=True)
class Power:
    """Detection limits of an audit.

    Attributes
    ----------
    epsilon : float
        The largest bound that it can report: that of an event which always happens on one log and never on the other.
    probability : float or None
        Least share of runs in which an event that never happens on the other log must be seen to refute the claim. None
        if even always is too seldom.
    """

    epsilon: float
    probability: float | None


def power(
    runs: int,
    claimed: float,
    *,
    delta: float = 0.0,
    alpha: float = 0.01,
    events: int = EVENTS,
    steps: int = 1,
) -> Power:
    """Return the power of `audit` against a claim.

    Parameters
    ----------
    runs, alpha, events
        As `audit` takes them.
    claimed
        The claimed epsilon of one step.
    delta
        The claimed delta of all steps together.
    steps
        Changes between the two logs.
    """
    half = runs // 2
    error = alpha / (4 * events)

    def bound(hits: int) -> float:
        likely = lower_bound(hits, half, error) - delta
        return math.log(likely / upper_bound(0, half, error)) if likely > 0.0 else -math.inf

    enough = next((hits for hits in range(half + 1) if bound(hits) > claimed * steps), None)
    return Power(max(bound(half), 0.0), None if enough is None else enough / half)


SURE = 0.95
"""Probability with which an excess must be seen to be stated."""

FINEST = 1e-6
"""Excesses are distinguished in steps of so much."""


def seen_epsilon(
    runs: int,
    claimed: float,
    *,
    delta: float = 0.0,
    alpha: float = 0.01,
    events: int = EVENTS,
    steps: int = 1,
) -> float | None:
    """Return the least true epsilon of a step with which `audit` refutes a claim, with probability `SURE`.

    The excess of the result over the claim is the least fault that the audit detects.

    Parameters
    ----------
    runs, alpha, events
        As `audit` takes them.
    claimed
        The claimed epsilon of one step.
    delta
        The claimed delta of all steps together.
    steps
        Changes between the two logs.

    Returns
    -------
    float or None
        None if so many runs refute the claim at no epsilon.

    Notes
    -----
    The result is that of a mechanism whose noise is discrete Laplace noise. Take the event "at least n" of a count that
    is n on one log and n - 1 on the other. With a = e^(-epsilon steps) its probability is 1 / (1 + a) on the first log
    and a / (1 + a) on the other. No event of such a mechanism reveals more at so few runs. It is assumed that the first
    half of the runs chooses this event, which fails only if `events` others reveal as much. Each of the two counts may
    be off with probability (1 - SURE) / 2.
    """
    from scipy.special import expit
    from scipy.stats import binom

    half, error, rare = runs // 2, alpha / (4 * events), (1.0 - SURE) / 2.0

    def refuted(epsilon: float) -> bool:
        chance_with_other = float(expit(-epsilon * steps))
        least = int(binom.ppf(rare, half, 1.0 - chance_with_other))
        most = int(binom.ppf(1.0 - rare, half, chance_with_other))
        likely = lower_bound(least, half, error) - delta
        return likely > 0.0 and math.log(likely / upper_bound(most, half, error)) > claimed * steps

    if not refuted(math.inf):
        return None
    parts_above = bisect_left(range(sys.maxsize), True, key=lambda n: refuted(claimed + FINEST * n))
    return claimed + FINEST * parts_above


BULK = 100_000
"""Runs that are drawn at once."""


def _counted(observe: Observe, many: Many | None, runs: int) -> Counter[Hashable]:
    seen: Counter[Hashable] = Counter()
    if many is not None:
        for begin in range(0, runs, BULK):
            seen.update(many(min(BULK, runs - begin)))
        return seen
    for _ in range(runs):
        seen.update(set(observe()))
    return seen


def _candidates(
    first: Counter[Hashable], other: Counter[Hashable], runs: int, delta: float, events: int
) -> list[tuple[Hashable, bool]]:
    """Return the events with the largest plausible ratio, and the direction in which it is large."""

    def score(event: Hashable, counts: Counter[Hashable], counts_with_other: Counter[Hashable]) -> float:
        likely = lower_bound(counts[event], runs, 0.05) - delta
        if likely <= 0.0:
            return -math.inf
        return math.log(likely / upper_bound(counts_with_other[event], runs, 0.05))

    scored = [(score(e, first, other), repr(e), e, True) for e in first]
    scored += [(score(e, other, first), repr(e), e, False) for e in other]
    scored.sort(key=lambda row: row[:2], reverse=True)
    return [(event, forward) for _, _, event, forward in scored[:events]]


def _shown(event: Any) -> str:
    return event if isinstance(event, str) else repr(event)
