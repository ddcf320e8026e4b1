"""Delta of composed stages by the definitions, in balls of chosen precision that hold the true value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute in balls of so many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(number: Fraction | float) -> arb:
    """Return a ball around an exact number."""
    exact = Fraction(number)
    return arb(fmpq(exact.numerator, exact.denominator))


def pure_losses(epsilons: list[Fraction]) -> dict[Fraction, arb]:
    """Losses of randomized responses and their probabilities, by the definition."""
    losses = {Fraction(0): arb(1)}
    for epsilon in epsilons:
        higher = 1 / (1 + (-ball(epsilon)).exp())
        following: dict[Fraction, arb] = {}
        for loss, weight in losses.items():
            for sign, chance in ((1, higher), (-1, 1 - higher)):
                following[loss + sign * epsilon] = following.get(loss + sign * epsilon, arb(0)) + weight * chance
        losses = following
    return losses


def gaussian_delta(distance: Fraction, epsilon: arb) -> arb:
    """Return delta of N(0, 1) against N(m, 1), m^2 = distance (Balle and Wang 2018, theorem 8)."""
    m = ball(distance).sqrt()

    def phi(z: arb) -> arb:
        return (-z / arb(2).sqrt()).erfc() / 2

    return phi(m / 2 - epsilon / m) - epsilon.exp() * phi(-m / 2 - epsilon / m)


def reference(distance: Fraction, pure: list[Fraction], epsilon: Fraction) -> arb:
    """Return delta of all stages together, by the definition."""
    total = arb(0)
    for loss, weight in pure_losses(pure).items():
        if distance:
            total += weight * gaussian_delta(distance, ball(epsilon - loss))
        elif loss > epsilon:
            total += weight * (1 - ball(epsilon - loss).exp())
    return total
