"""Series of dp-variants with noise that the test sets: thresholds, scales, and published figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from models.dp import series
from models.dp.accumulation import Shape
from models.dp.noise import NoiseSource
from models.dp.series import Accumulated, check_variants, release_variants
from models.dp.strict import Terms
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from tests.oracles.dp import tail, tails

Noise = Callable[[int], int]
"""Noise of the n-th call for noise that draws any."""


class NoisePerCall(NoiseSource):
    """The noise that is given, call by call; notes every scale and size."""

    __slots__ = ("asked", "noise")

    def __init__(self, noise: Noise = lambda call: 0) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(1))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "noise", noise)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        if size:
            self.asked.append((scale, size))
        return np.full(size, self.noise(len(self.asked)) if size else 0, dtype=np.int64)


def _log(**cases: int) -> EventLog:
    return EventLog.from_traces([(variant, None) for variant, n in cases.items() for _ in range(n)])


def _counts(log: EventLog | None) -> dict[str, int]:
    assert log is not None
    return dict(Counter("".join(trace) for trace in log.traces()))


def own_threshold(epsilon: float, delta: float, person: int) -> int:
    """The least noisy count of a single release: however a person's cases divide over variants that nobody else has,
    some of them passes with chance at most delta. Noise is of scale c / epsilon."""
    each = epsilon / person
    parts = [[person], [1] * person, *([part, person - part] for part in range(1, person))]
    for least in range(2, 10_000):
        if least > person - 1 and all(sum(tail(each, least - one) for one in part) <= delta for part in parts):
            return least
    raise AssertionError


def whole_threshold(scale: float, draws: int, delta: Fraction, person: int) -> int:
    """The least noisy count of the accumulated log: the smallest k + 1 >= 2 with c P[c + noise >= k + 1] <= delta."""
    bound = Decimal(delta.numerator) / Decimal(delta.denominator) / person
    chances = tails(scale, draws, 40 + round(40 * scale))
    return max(next(t for t, chance in enumerate(chances) if chance <= bound) + person, 2)


@pytest.mark.parametrize(("shape", "person"), [(Shape(), 1), (Shape(), 3), (Shape(2, 3), 1), (Shape(3, 2), 2)], ids=str)
def test_a_release_has_the_variants_that_reach_its_threshold(shape: Shape, person: int) -> None:
    """Noise of c L / epsilon, a threshold at epsilon / L and half of delta; one case fewer, and it is left out."""
    terms = Terms.of(2, "1e-3", person)
    least = own_threshold(2 / shape.levels, 0.5e-3, person)
    source = NoisePerCall()
    found = release_variants(
        _log(a=least, ab=least - 1, abc=least + 7), terms=terms, shape=shape, number=1, draw=source
    )
    assert _counts(found.release.log) == {"a": least, "abc": least + 7}
    assert (found.release.threshold, found.release.terms, found.release.private) == (least, terms, False)
    assert found.release.operator["variants"] == {"in": 3, "out": 2}
    assert found.release.operator["cases"] == {"in": 3 * least + 6, "covered": 2 * least + 7, "out": 2 * least + 7}
    assert source.asked == [(person * shape.levels / 2, 3)]


@pytest.mark.parametrize("horizon", [None, 6])
@pytest.mark.parametrize(("levels", "arity", "person"), [(1, 0, 1), (1, 0, 2), (2, 2, 1)])
def test_an_accumulated_log_has_the_variants_that_reach_its_threshold(
    levels: int, arity: int, person: int, horizon: int | None
) -> None:
    """As many draws as the count holds, and this release's part of the other half of delta; what it says of itself is
    what an outsider would compute."""
    shape, terms = Shape(levels, arity, horizon), Terms.of(1, "1e-2", person)
    state = None
    scale, half = float(person * levels), Fraction(1, 200)
    for number in range(1, 4):
        delta = half / 6 if horizon else half / (number * (number + 1))
        draws = sum(shape.digits(number))
        least = whole_threshold(scale, draws, delta, person)
        # Two cases in each release but the last, which brings the count to the threshold, or to one below it.
        before = 2 * (number - 1)
        log = _log(ab=least - before, ac=least - before - 1)
        released = release_variants(log, terms=terms, shape=shape, number=number, state=state, draw=NoisePerCall())
        assert _counts(released.log) == {"ab": least}
        assert released.public == {
            "how": "tree" if levels > 1 else "sum", "since": 1, "levels": levels, "arity": arity or None,
            "horizon": horizon, "noise": {"draws": draws, "scale": scale}, "status": "ok", "threshold": least,
        }  # fmt: skip
        state = release_variants(
            _log(ab=2, ac=2), terms=terms, shape=shape, number=number, state=state, draw=NoisePerCall()
        ).state


def test_a_variant_that_a_release_does_not_have_is_not_of_it() -> None:
    """It gets noise like the others, for the count over everything; noise alone never shows it in a release. One case
    and enough noise do."""
    terms, shape = Terms.of(1, "1e-3"), Shape()
    first = release_variants(_log(ab=1, cd=40), terms=terms, shape=shape, number=1, draw=NoisePerCall())
    loud = NoisePerCall(lambda call: 1000)
    second = release_variants(_log(ef=1), terms=terms, shape=shape, number=2, state=first.state, draw=loud)
    assert _counts(second.release.log) == {"ef": 1001}
    assert second.release.operator["variants"] == {"in": 1, "out": 1}
    assert _counts(second.log) == {"ab": 1001, "cd": 1040, "ef": 2001}, "the new one has noise of release 1 as well"


def test_a_variant_found_late_is_noised_for_every_node_before() -> None:
    """As if it had been looked at from the beginning; so do the shapes of all counts agree."""
    terms, shape = Terms.of(1, "1e-3"), Shape(2, 3)
    state, sizes = None, []
    for number, log in enumerate([_log(ab=3), _log(ab=1), _log(ab=1), _log(ab=1), _log(ab=2, cd=2, ef=1)], start=1):
        source = NoisePerCall()
        found = release_variants(log, terms=terms, shape=shape, number=number, state=state, draw=source)
        state = found.state
        sizes.append([size for _, size in source.asked])
        assert {scale for scale, _ in source.asked} == {2.0}
    assert sizes == [[1], [1], [1, 1], [1], [1 * 2, 1 * 2, 3]], "of releases 1 to 3 the node, and release 4"
    assert found.state["counts"]["noises"] == [[2, 2, 2], [1, 1, 1]]


def test_too_many_events_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release up to the limit leaves, one event more does not; an accumulated log reports it and costs no release."""
    terms, shape = Terms.of(1, "1e-3"), Shape()

    def run(number: int, state: object = None) -> Accumulated:
        return release_variants(
            _log(abc=50, ab=50), terms=terms, shape=shape, number=number, state=state, draw=NoisePerCall()  # type: ignore[arg-type]
        )  # fmt: skip

    monkeypatch.setattr(series, "MAX_EVENTS", 250)
    first = run(1)
    assert first.release.log.n_events == 250
    assert first.log is not None
    assert first.log.n_events == 250
    second = run(2, first.state)
    assert (second.log, second.public["status"]) == (None, "too large")
    assert "threshold" not in second.public
    assert second.release.log.n_events == 250
    monkeypatch.setattr(series, "MAX_EVENTS", 249)
    with pytest.raises(BoundError, match="too many events"):
        run(1)


def test_behind_the_horizon_there_is_no_accumulated_log() -> None:
    """Its delta is spent; releases continue, and the state with them."""
    terms, shape, state = Terms.of(1, "1e-3"), Shape.of("sum", 2), None
    for number in (1, 2, 3):
        found = release_variants(_log(ab=60), terms=terms, shape=shape, number=number, state=state, draw=NoisePerCall())
        state = found.state
        assert _counts(found.release.log) == {"ab": 60}
        assert (found.log is None) == (number > 2)
        assert found.public["status"].split(":")[0] == ("ok" if number <= 2 else "ended")
        assert ("threshold" in found.public) == (number <= 2)
    assert found.public["noise"] == {"draws": 3, "scale": 1.0}
    assert found.state["counts"]["sums"] == [[180]]


def test_labels_may_come_in_any_order() -> None:
    """Counts of a variant represent its labels, whatever other labels a release has and in which order."""
    terms, shape, state = Terms.of(1, "1e-3"), Shape(), None
    for number, log in enumerate([_log(xy=30, b=2), _log(ab=25, xy=3), _log(yx=40, ab=5)], start=1):
        found = release_variants(log, terms=terms, shape=shape, number=number, state=state, draw=NoisePerCall())
        state = found.state
    assert _counts(found.release.log) == {"yx": 40}
    assert _counts(found.log) == {"xy": 33, "ab": 30, "yx": 40}
    assert all(np.diff(found.log.time[a:b]).tolist() == [10**9] for a, b in pairwise(found.log.starts.tolist()))  # type: ignore[union-attr]


def test_what_could_not_be_drawn_is_refused_at_once() -> None:
    """A first threshold above 100,000 at epsilon / L and half of delta, as the release would refuse it."""
    for levels in (1, 2):
        shape = Shape(levels, 2 if levels > 1 else 0)
        needed = math.log(1 / (0.5e-6 * 2)) * levels / 100_000  # (1 + a) is nearly 2
        check_variants(Terms.of(needed * 1.01, "1e-6"), shape)
        for refused in (
            lambda terms, shape=shape: check_variants(terms, shape),
            lambda terms, shape=shape: release_variants(
                _log(ab=1), terms=terms, shape=shape, number=1, draw=NoisePerCall()
            ),
        ):
            with pytest.raises(InputError, match="epsilon is too small"):
                refused(Terms.of(needed * 0.99, "1e-6"))
    with pytest.raises(InputError, match="epsilon is too small"):
        check_variants(Terms.of(math.log(1e6) / 100_000 * 1.2, "1e-6", 2), Shape())
