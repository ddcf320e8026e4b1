"""Slow, obvious counterparts of models.dp, written from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from tests.oracles.utility import levenshtein


def right_languages(variants: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """States and transitions of the minimal automaton: distinct sets of suffixes of prefixes (Myhill-Nerode)."""
    prefixes = {variant[:i] for variant in variants for i in range(len(variant) + 1)} | {()}
    language = {
        prefix: frozenset(variant[len(prefix) :] for variant in variants if variant[: len(prefix)] == prefix)
        for prefix in prefixes
    }
    transitions = {(language[prefix[:-1]], prefix[-1]) for prefix in prefixes if prefix}
    return len(set(language.values())), len(transitions)


def window_share(values: Sequence[int], value: int, precision: int) -> Fraction:
    """Share of the group within [value - precision, value + precision] (equation 1, closed window)."""
    return Fraction(sum(1 for other in values if abs(other - value) <= precision), len(values))


def tail(epsilon: float, least: int) -> float:
    """P(Z >= least) of discrete Laplace noise by summing its definition, P(z) ~ exp(-epsilon |z|)."""
    from math import exp

    reach = int(60 / epsilon) + abs(least) + 10
    total = sum(exp(-epsilon * abs(z)) for z in range(-reach, reach + 1))
    return sum(exp(-epsilon * abs(z)) for z in range(least, reach + 1)) / total


@cache
def tails(scale: float, draws: int, most: int) -> list[Decimal]:
    """P[sum of so many discrete Laplace draws >= t] for t = 0 .. most, in 60 digits.

    A draw is the difference of two geometric numbers, so the sum is one of two negative binomial ones."""
    with localcontext() as context:
        context.prec = 60
        a = (Decimal(-1) / Decimal(scale)).exp()
        mass = [(1 - a) ** draws]
        for k in range(1, 3 * most + 40 * math.ceil(scale)):
            mass.append(mass[-1] * a * (draws + k - 1) / k)
        beyond = [Decimal(0)]
        for one in reversed(mass):
            beyond.append(beyond[-1] + one)
        beyond.reverse()
        return [sum((beyond[t + y] * mass[y] for y in range(len(mass) - t)), Decimal(0)) for t in range(most + 1)]


def distance(one: Sequence[int], other: Sequence[int]) -> Fraction:
    """Levenshtein distance over the longer length; 0 of nothing and nothing."""
    return Fraction(levenshtein(tuple(map(str, one)), tuple(map(str, other))), max(len(one), len(other), 1))


def context_of(key: int, order: int, labels: int) -> tuple[int, ...]:
    """The labels of a context whose key has them as digits, the last one the lowest."""
    found = []
    for _ in range(order):
        key, label = divmod(key, labels + 1)
        found.append(label)
    return tuple(reversed(found))


def active(intervals: Sequence[tuple[int, int]], moment: int) -> int:
    """Intervals that contain the moment."""
    return sum(1 for begin, end in intervals if begin <= moment <= end)


def discrete_laplace(scale: Fraction, word: Callable[[], int]) -> int:
    """Canonne, Kamath and Steinke (2020), algorithms 1 and 2, in whole numbers of any size, from 64-bit words."""
    t, s = scale.numerator, scale.denominator
    while t < 2**52:  # the fraction with 53 binary digits above, as floats have them
        t, s = 2 * t, 2 * s

    def below(bound: int) -> int:
        while True:
            ticket = word()
            if ticket < (2**64 - 1) // bound * bound:
                return ticket % bound

    def coin(numerator: int) -> bool:  # of chance exp(-numerator / t)
        runs = 1
        while (runs == 1 or below(runs) == 0) and (numerator == t or below(t) < numerator):
            runs += 1
        return runs % 2 == 1

    while True:
        u = below(t)
        while not coin(u):
            u = below(t)
        v = 0
        while coin(t):
            v += 1
        size, negative = (u + t * v) // s, below(2) == 1
        if size or not negative:
            return -size if negative else size


def posterior(prior: Any, epsilon: Any) -> Any:
    """Proposition A.1 (equation 6) with range r = 1: the bound on the probability of a right guess after release."""
    return 1.0 / (1.0 + np.exp(-np.asarray(epsilon)) * (1.0 - prior) / prior)
