"""Singling out: predicates that the attacker writes from the release, and that exactly one person satisfies.

Cohen and Nissim (2020): a predicate that each person satisfies with probability 1/n is satisfied by exactly one of n in
37 % of all cases, without any release. Therefore only predicates of a probability below 1/(10 n) count, and each is
tried on the control as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from models.anonymize.local_model import flat
from models.disclosure.intervals import AttackRisk, Floats, Successes, TargetResults, against_guess, compared
from models.disclosure.material import Material
from models.eventlog import Ints

TRIES = 6
"""Predicates that are written for each that is wanted: the rarest of them are used."""

HEAVIEST = 0.1
"""Largest expected number of the n cases that satisfy a predicate by chance."""


@dataclass(frozen=True, slots=True)
class SinglingOut:
    """Result of the attack.

    Parameters
    ----------
    risk
        Share of the predicates that exactly one case satisfies; None if the release has none that counts.
    written
        Number of distinct predicates that were written, before those that are too likely were left out.
    """

    risk: AttackRisk | None
    written: int


@dataclass(frozen=True, slots=True)
class _Predicate:
    """Known items in trace order, and a row of the release that has them, for its attributes."""

    items: tuple[int, ...]
    row: int


def singling_out(material: Material, targets: int, measures: int, rng: np.random.Generator) -> SinglingOut:
    """Write predicates from the release, the rarest first, and count those that exactly one case satisfies.

    Parameters
    ----------
    material
        The logs.
    targets
        Number of predicates, at most.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws records and items.

    Notes
    -----
    The probability of a predicate comes from a chain that is fitted to the release: the share of the cases that have
    the first item, times the share of those that have the second one later, and so on. It is a guess. If it is too
    small, predicates count that many cases satisfy: they fail on the original and on the control alike.

    If the control has at least as many cases as the original, the rate of the control is the probability that exactly
    one of as many random cases of it satisfies the predicate. If it has fewer, both rates are for as many cases as the
    control has.
    """
    predicates = _written(material, TRIES * targets, rng)
    containing = _Containing(material, predicates)
    probability = _probabilities(material, predicates)
    eligible = np.flatnonzero(probability * material.n_original < HEAVIEST)
    if not len(eligible):
        return SinglingOut(None, len(predicates))
    original, control, released = (containing.counts(cases) for cases in material.rows(material.traces))
    order = eligible[np.lexsort((probability[eligible], released[eligible]))][:targets]
    if not material.n_control:
        by_chance = _one_of(material.n_original, probability[order])
        return SinglingOut(
            against_guess(float((original[order] == 1).sum()), len(order), float(by_chance.mean())),
            len(predicates),
        )
    size = min(material.n_original, material.n_control)
    successes = exactly_one(original[order], material.n_original, size)
    by_chance = exactly_one(control[order], material.n_control, size)
    # Predicates of one record tend to single out the same person, so they count as one target.
    record = np.asarray([predicates[number].row for number in order.tolist()], dtype=np.int64)
    evidence = TargetResults(Successes(record, successes), Successes(record, by_chance), by_case=False)
    return SinglingOut(compared(evidence, measures), len(predicates))


def _one_of(n: int, probability: Floats) -> Floats:
    """Probability that exactly one of n independent cases satisfies each predicate."""
    return np.asarray(n * probability * np.exp((n - 1) * np.log1p(-np.minimum(probability, 0.5))))


def exactly_one(satisfied: Ints, cases: int, size: int) -> Floats:
    """Return the probability that exactly one of `size` random cases satisfies each predicate.

    Parameters
    ----------
    satisfied
        int64[P], cases that satisfy each predicate.
    cases
        Number of cases, of which `size` are drawn without replacement.

    Examples
    --------
    >>> exactly_one(np.array([0, 1, 2]), 4, 4).tolist()
    [0.0, 1.0, 0.0]
    >>> exactly_one(np.array([2]), 4, 2).round(3).tolist()
    [0.667]
    """

    def log_choose(n: Floats, k: float) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    others = (cases - satisfied).astype(np.float64)
    possible = (satisfied > 0) & (others >= size - 1)
    chance = np.zeros(len(satisfied))
    ways = log_choose(others[possible], size - 1.0) - log_choose(np.asarray([float(cases)]), float(size))
    chance[possible] = satisfied[possible] * np.exp(ways)
    return np.minimum(chance, 1.0)


def _written(material: Material, wanted: int, rng: np.random.Generator) -> list[_Predicate]:
    """Write predicates from random records: half of them from any items, half from the items rarest in the release."""
    view, weight = material.traces, material.released_weight
    shown = np.flatnonzero((weight > 0) & (np.diff(view.starts) > 0))
    frequency = np.bincount(view.codes, np.repeat(weight, np.diff(view.starts)), minlength=len(view.alphabet))
    records = rng.choice(shown, size=wanted, p=weight[shown] / weight[shown].sum())
    written: dict[_Predicate, None] = {}
    for number, row in enumerate(records.tolist()):
        trace = material.trace(row)
        m = min(material.profile.m, len(trace))
        if number % 2:
            places = rng.choice(len(trace), size=m, replace=False)
        else:
            ties = rng.random(len(trace))
            places = np.lexsort((ties, frequency[trace]))[:m]
        written[_Predicate(tuple(trace[np.sort(places)].tolist()), row)] = None
    return list(written)


class _Containing:
    """The rows that satisfy each predicate."""

    def __init__(self, material: Material, predicates: list[_Predicate]) -> None:
        self._size = len(material.traces.weight)
        self._rows = []
        rows_of_predicate = rows_with(material, [predicate.items for predicate in predicates])
        for predicate, rows in zip(predicates, rows_of_predicate, strict=True):
            self._rows.append(rows[material.same_attributes(predicate.row, rows)])

    def counts(self, row_of_case: Ints) -> Ints:
        """Return how many cases satisfy each predicate, int64[P]."""
        weight = np.bincount(row_of_case, minlength=self._size)
        return np.asarray([weight[rows].sum() for rows in self._rows], dtype=np.int64)


def rows_with(material: Material, candidates: list[tuple[int, ...]]) -> list[Ints]:
    """Return the rows of `traces` that contain each candidate as a subsequence."""
    from models.anonymize.local_kernels import containing

    ends, rows = containing(material.traces.starts, material.traces.codes, *flat(candidates))
    return np.split(rows, ends[:-1])


def _probabilities(material: Material, predicates: list[_Predicate]) -> Floats:
    """Return the probability of each predicate by the chain of its items in the release."""
    weight = material.released_weight.astype(np.float64)
    wanted: dict[tuple[int, ...], None] = {}
    for predicate in predicates:
        wanted.update(dict.fromkeys((item,) for item in predicate.items))
        wanted.update(dict.fromkeys(zip(predicate.items, predicate.items[1:], strict=False)))
    candidates = list(wanted)
    cases = dict(zip(candidates, (weight[rows].sum() for rows in rows_with(material, candidates)), strict=True))
    everybody = weight.sum()
    alike: dict[bytes, float] = {}
    result = np.empty(len(predicates))
    for number, predicate in enumerate(predicates):
        factors = [cases[predicate.items[:1]] / everybody]
        for before, after in zip(predicate.items, predicate.items[1:], strict=False):
            factors.append(cases[before, after] / cases[before,])
        key = material.traces.values[:, predicate.row].tobytes()
        if key not in alike:
            same = material.same_attributes(predicate.row, np.arange(len(weight)))
            alike[key] = float(weight[same].sum() / everybody)
        result[number] = math.prod(factors) * alike[key]
    return result
