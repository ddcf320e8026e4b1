"""Guessing advantage: the equations and their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp import guessing
from models.errors import InputError
from tests.oracles.dp import posterior

DELTAS = st.floats(0.01, 0.98)


@settings(deadline=None)
@given(DELTAS, st.floats(0.001, 0.999))
def test_equation_3_gives_the_advantage_asked_for(delta: float, prior: float) -> None:
    """At eps_t the posterior exceeds the prior by exactly delta; risky priors get the worst-case epsilon."""
    epsilon = float(guessing.epsilon_of_times(np.asarray([prior]), delta)[0])
    if prior + delta >= 1:
        assert epsilon == pytest.approx(guessing.epsilon_of_counts(delta), rel=1e-9)
    elif prior + delta < 1 - 1e-9:
        assert float(posterior(prior, epsilon)) - prior == pytest.approx(delta, abs=1e-9)


@settings(deadline=None)
@given(DELTAS, st.floats(0.001, 0.999))
def test_worst_case_prior_needs_least_epsilon(delta: float, prior: float) -> None:
    """No prior asks for more noise than (1 - delta) / 2."""
    epsilon = float(guessing.epsilon_of_times(np.asarray([prior]), delta)[0])
    assert epsilon >= guessing.epsilon_of_counts(delta) * (1 - 1e-9)


@settings(deadline=None)
@given(DELTAS)
def test_inverse(delta: float) -> None:
    """tanh(eps_d / 4) is delta again."""
    assert guessing.worst_case_advantage(guessing.epsilon_of_counts(delta)) == pytest.approx(delta, abs=1e-12)


@settings(deadline=None)
@given(st.floats(0.01, 0.95))
def test_oversampling_solves_equation_9(delta: float) -> None:
    """The closed form of proposition A.6 satisfies exp(-e) tanh(e/4) + 1 - exp(-e) = delta."""
    e = guessing.epsilon_of_oversampling(delta)
    assert math.exp(-e) * math.tanh(e / 4) + 1 - math.exp(-e) == pytest.approx(delta, abs=1e-9)
    assert e < guessing.epsilon_of_counts(delta)


def _mean_advantage_of_copies(epsilon: float, prior: float) -> float:
    """An adversary distinguishes counts c and c + 1 by c + |z|, z discrete Laplace at epsilon: the chance given to the
    truth, on average over z, less its prior, for the truth that gains more. Summed from the definition."""
    step = math.exp(-epsilon)
    chance = [(1 - step) / (1 + step) * (2 * step**m if m else 1.0) for m in range(int(60 / epsilon))]
    below, above = [*chance, 0.0], [0.0, *chance]  # of each output c, c + 1, ...
    gained = []
    for truth, other in ((below, above), (above, below)):
        posteriors = (p * prior * p / (prior * p + (1 - prior) * q) for p, q in zip(truth, other, strict=True) if p)
        gained.append(sum(posteriors) - prior)
    return max(gained)


@pytest.mark.parametrize("delta", [0.05, 0.2, 0.3, 0.4, 0.6])
def test_copies_alone_keep_the_advantage_on_average(delta: float) -> None:
    """Noise that is whole and only adds: at the epsilon of proposition A.6 the mean advantage stays below delta, at
    every prior; at the epsilon of counts, which the authors' program uses, it does not (negative control). Some outputs
    reveal everything: c itself, if z = 0 (the bound is a mean, and the promise reports it)."""
    priors = np.linspace(0.02, 0.98, 49)
    assert max(_mean_advantage_of_copies(guessing.epsilon_of_oversampling(delta), prior) for prior in priors) <= delta
    assert max(_mean_advantage_of_copies(guessing.epsilon_of_counts(delta), prior) for prior in priors) > delta


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.1, math.nan, math.inf, 1e-300, 5e-324, True])
def test_delta_out_of_range(delta: float) -> None:
    """Thresholds outside (0, 1), NaN and subnormals are bad input."""
    for function in (guessing.epsilon_of_counts, guessing.epsilon_of_oversampling):
        with pytest.raises(InputError, match="delta"):
            function(delta)


def test_advantages_at_their_edges() -> None:
    """From a billionth to a billionth below 1, both of them, and only numbers."""
    for delta in (1e-9, 1 - 1e-9, 0.5):
        assert guessing.checked_delta(delta) == delta
    for delta in (0, 0.0, 1, 1.0, -0.5, 1.5, True, False, "0.5", None, math.nan):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            guessing.checked_delta(delta)  # type: ignore[arg-type]
    for delta in (math.nextafter(1e-9, 0), math.nextafter(1 - 1e-9, 1)):
        with pytest.raises(InputError, match="too close to 0 or 1"):
            guessing.checked_delta(delta)


def test_priors_at_their_edges() -> None:
    """A prior of 1 counts as risky and gets the worst case; 0 and above 1 are none; delta is checked here too."""
    worst = guessing.epsilon_of_counts(0.2)
    found = guessing.epsilon_of_times(np.asarray([1.0, 0.8, 0.9, 0.4]), 0.2)
    assert found == pytest.approx([worst] * 4)  # 0.8 + 0.2 is 1, 0.4 is the worst prior itself
    for bad in (0.0, -0.1, 1.1, 1.5, math.nan):
        with pytest.raises(InputError, match=r"\(0, 1\]"):
            guessing.epsilon_of_times(np.asarray([0.5, bad]), 0.2)
    with pytest.raises(InputError, match="delta"):
        guessing.epsilon_of_times(np.asarray([0.5]), 0.0)
    below = guessing.epsilon_of_times(np.asarray([0.7]), 0.2)[0]
    assert below == pytest.approx(math.log((1 - 0.7) * 0.9 / (0.7 * (1 - 0.2 - 0.7))))
