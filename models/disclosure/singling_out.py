"""Singling out: predicates that the attacker writes from the release, and that exactly one person satisfies.

Cohen and Nissim (2020): a predicate that each person satisfies with probability 1/n is satisfied by exactly one of n in
37 % of all cases, without any release. Therefore only predicates of a probability below 1/(10 n) count, and each is
tried on the control as well.

The unit is the person. Predicates are not independent draws: many of them isolate the same person, whether or not that
person is in the release. A person is singled out if some record exists of which most predicates are satisfied by this
person and by nobody else in original and control together. *Most*, because an attacker who may try many predicates
of a record isolates somebody by chance with one of them. *Together*, because somebody in the original with a twin in
the control (or in both) is evidence for neither, and because the people who are singled out are then the same ones
however original and control are divided. Without a leak, each of them is as likely in the original as any other case
is: their number in the original is hypergeometric, and the test is exact
(`models.disclosure.intervals.compared_exactly`). It assumes nothing about predicates or records.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from models.anonymize.local_model import Bans
from models.disclosure.intervals import AttackRisk, Successes, TargetResults, against_guess, compared_exactly
from models.disclosure.material import Material, drawn
from models.eventlog import Floats, Ints

TRIES = 6
"""Predicates that are written for each target."""

HEAVIEST = 0.1
"""Largest expected number of the n cases that satisfy a predicate by chance."""


@dataclass(frozen=True, slots=True)
class SinglingOut:
    """Result of the attack.

    Parameters
    ----------
    risk
        Share of the people who are singled out; None if the release has no predicate that counts.
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
    """Write predicates from the release, and count the people whom they single out.

    Somebody is singled out if most of the predicates that were written from one record fit this person alone.

    Parameters
    ----------
    material
        Original, control and release in one coding.
    targets
        `TRIES` times as many predicates are written. All cases are attacked.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws records and items.

    Notes
    -----
    The probability of a predicate comes from a chain that is fitted to the release: the share of the cases that have
    the first item, times the share of those that have the second one later, and so on. It is a guess. If it is too
    small, predicates count that many cases satisfy: they fail on the original and on the control alike.

    An item or pair that one record alone shows is much rarer than one record in all: it was found in the record that
    the predicate is about. Good and Turing's estimate is used for it (`_expected_cases`).

    Of a control that is larger than the original, as many cases are drawn: among more people fewer are isolated.
    """
    predicates = _written(material, TRIES * targets, rng)
    probability = _probabilities(material, predicates)
    eligible = np.flatnonzero(probability * material.n_original < HEAVIEST)
    if not len(eligible):
        return SinglingOut(None, len(predicates))
    counting = [predicates[number] for number in eligible.tolist()]
    record = np.asarray([predicate.row for predicate in counting], dtype=np.int64)
    original, control, _ = material.rows(material.traces)
    control_cases = drawn(len(control), len(original), rng)
    is_alone = _singled_out(material, counting, record, np.concatenate((original, control[control_cases])))
    records = len(np.unique(record))
    within, outside = np.split(is_alone.astype(np.float64), [len(original)])
    if not len(control_cases):
        by_chance = _one_of(material.n_original, probability[eligible])
        _, place, written = np.unique(record, return_inverse=True, return_counts=True)
        expected = float((np.bincount(place, weights=by_chance) / written).sum())
        guess = min(expected / len(original), 1.0)
        return SinglingOut(against_guess(float(within.sum()), len(original), guess), len(predicates))
    evidence = TargetResults(
        Successes(np.arange(len(original)), within),
        Successes(control_cases, outside),
        reach=min(records / len(original), 1.0),
    )
    return SinglingOut(compared_exactly(evidence, measures), len(predicates))


def _one_of(n: int, probability: Floats) -> Floats:
    """Probability that exactly one of n independent cases satisfies each predicate."""
    log_of_no_other = (n - 1) * np.log1p(-np.minimum(probability, 0.5))
    return np.asarray(n * probability * np.exp(log_of_no_other))


def _singled_out(
    material: Material, predicates: list[_Predicate], record: Ints, row_of_case: Ints
) -> npt.NDArray[np.bool_]:
    """Return which cases satisfy more than half of the predicates of some record, each alone among all cases.

    Parameters
    ----------
    predicates
        P predicates, each of some items and of the attributes of a row.
    record
        int64[P], record that each was written from.
    row_of_case
        int64[C], row of `material.traces` of each case.
    """
    weight = np.bincount(row_of_case, minlength=len(material.traces.weight))
    predicates_of_record = Counter(record.tolist())
    isolations: Counter[tuple[int, int]] = Counter()
    rows_of_predicate = rows_with(material, [predicate.items for predicate in predicates])
    for predicate, rows in zip(predicates, rows_of_predicate, strict=True):
        fitting = rows[material.same_attributes(predicate.row, rows)]
        if weight[fitting].sum() == 1:
            (isolated,) = fitting[weight[fitting] == 1].tolist()
            isolations[predicate.row, isolated] += 1
    is_alone = np.zeros(len(weight), dtype=np.bool_)
    for (origin, isolated), times in isolations.items():
        if 2 * times > predicates_of_record[origin]:
            is_alone[isolated] = True
    return np.asarray(is_alone[row_of_case])


def _written(material: Material, n_predicates: int, rng: np.random.Generator) -> list[_Predicate]:
    """Write predicates from random records: half of them from any items, half from the items rarest in the release."""
    view, weight = material.traces, material.released_weight
    frequency = np.bincount(view.codes, np.repeat(weight, np.diff(view.starts)), minlength=len(view.alphabet))
    row_of_record = material.released_cases.row_of_case
    # Sorted, since a release holds its cases in a random order: the same seed must give the same predicates.
    shown = np.sort(row_of_record[np.diff(view.starts)[row_of_record] > 0])
    # Each record is drawn equally often, but for one: a record that is never drawn could single out nobody.
    records = rng.permutation(np.resize(rng.permutation(shown), n_predicates))
    # Thousands of predicates are written from traces of a few items: lists are faster than arrays for these.
    items_of_row = {row: material.trace(row).tolist() for row in np.unique(shown).tolist()}
    frequencies: list[float] = frequency.tolist()
    written: dict[tuple[tuple[int, ...], int], None] = {}
    for number, row in enumerate(records.tolist()):
        trace = items_of_row[row]
        m = min(material.profile.m, len(trace))
        if number % 2:
            places = rng.choice(len(trace), size=m, replace=False).tolist()
        else:
            ties = rng.random(len(trace)).tolist()
            frequency_of_place = [frequencies[item] for item in trace]
            by_frequency = sorted(zip(frequency_of_place, ties, range(len(trace)), strict=True))
            places = [place for _, _, place in by_frequency[:m]]
        written[tuple([trace[place] for place in sorted(places)]), row] = None
    return [_Predicate(items, row) for items, row in written]


def rows_with(material: Material, candidates: list[tuple[int, ...]]) -> list[Ints]:
    """Return the rows of `traces` that contain each candidate as a subsequence.

    Parameters
    ----------
    material
        Original, control and release in one coding.
    candidates
        Item codes of each candidate.

    Returns
    -------
    list of Ints
        Row numbers by candidate.
    """
    from models.anonymize.local_kernels import containing

    if not candidates:
        return []
    asked = Bans.of(candidates)
    ends, rows = containing(material.traces.starts, material.traces.codes, asked.starts, asked.codes)
    return np.split(rows, ends[:-1])


def _probabilities(material: Material, predicates: list[_Predicate]) -> Floats:
    """Return the probability of each predicate by the chain of its items in the release."""
    weight = material.released_weight.astype(np.float64)
    singles: dict[tuple[int, ...], None] = {}
    pairs: dict[tuple[int, ...], None] = {}
    for predicate in predicates:
        singles.update(dict.fromkeys((item,) for item in predicate.items))
        pairs.update(dict.fromkeys(pairwise(predicate.items)))
    cases: dict[tuple[int, ...], float] = {}
    for candidates in (list(singles), list(pairs)):
        shown = np.asarray([weight[rows].sum() for rows in rows_with(material, candidates)])
        cases.update(zip(candidates, _expected_cases(shown).tolist(), strict=True))
    everybody = weight.sum()
    alike: dict[bytes, float] = {}
    result = np.empty(len(predicates))
    for number, predicate in enumerate(predicates):
        factors = [cases[predicate.items[:1]] / everybody]
        for before, after in pairwise(predicate.items):
            factors.append(min(cases[before, after] / cases[before,], 1.0))
        key = material.traces.values[:, predicate.row].tobytes()
        if key not in alike:
            same = material.same_attributes(predicate.row, np.arange(len(weight)))
            alike[key] = float(weight[same].sum() / everybody)
        result[number] = math.prod(factors) * alike[key]
    return result


def _expected_cases(shown: Floats) -> Floats:
    """Return in how many of as many other cases each item, or pair of items, is expected.

    One case of n does not show that an item has the probability 1/n: of a clock with seconds, nearly every time is
    shown by one case, and hardly any by a second one. Good and Turing estimate the probability of an item that one
    case shows as 2 N2 / (N1 n), where N1 items are shown by one case and N2 by two. One item more is counted as shown
    by two, so that few items do not make the estimate 0. Items that more cases show keep their share.

    Items are taken from the drawn predicates. Those that two cases show are drawn up to twice as often, so the estimate
    is too large rather than too small, and fewer predicates count.

    Parameters
    ----------
    shown
        float64[I], released cases that show each item.

    References
    ----------
    Good, The population frequencies of species and the estimation of population parameters, Biometrika 40, 1953.

    Examples
    --------
    Of nine items that one case shows, and one that two show: 2 (1 + 1) / (9 + 1).

    >>> _expected_cases(np.asarray([1.0] * 9 + [2.0, 30.0]))[[0, 9, 10]].tolist()
    [0.4, 2.0, 30.0]
    """
    in_one = int((shown == 1).sum())
    in_two = int((shown == 2).sum())
    expected_of_one = min(2 * (in_two + 1) / (in_one + 1), 1.0)
    return np.where(shown == 1, expected_of_one, shown)
