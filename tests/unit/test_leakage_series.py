"""Series of releases: how much work, what is kept, budgets, bad numbers."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from models.dp.budget import positive
from models.errors import InputError, RefusedError
from models.leakage.accumulation import TemporalLeakage, composition, leakage_step, under_replacement
from models.leakage.budget import allocate, geometric
from models.leakage.persistence import from_state, to_state
from models.leakage.steps import EXTREME, LeakageStep, step

E = Fraction(1, 10)


def mixing(rng: np.random.Generator) -> LeakageStep:
    return LeakageStep(rows=rng.dirichlet(np.full(4, 3.0), size=4))


def test_a_thousand_releases_of_a_mixing_chain_cost_few_steps() -> None:
    """A chain with its own correlations at every step: the backward sweep stops where values no longer change."""
    rng = np.random.default_rng(3)
    leakage = TemporalLeakage()
    for _ in range(1000):
        leakage.release(E, mixing(rng), mixing(rng))
    assert leakage.evaluations < 40_000
    assert leakage.n == 1000


def test_a_repeated_step_is_evaluated_once_a_value() -> None:
    """One chain for a thousand releases asks for the same values again; they are remembered."""
    rng = np.random.default_rng(4)
    backward, forward, leakage = mixing(rng), mixing(rng), TemporalLeakage()
    for _ in range(1000):
        leakage.release(E, backward, forward)
    assert leakage.evaluations < 300


def test_state_goes_through_json_and_goes_on() -> None:
    """A restart in the middle of a series of mixed steps changes no value."""
    rng = np.random.default_rng(5)
    extreme = LeakageStep(points=[EXTREME])
    pairs = [(mixing(rng), extreme if i % 3 else mixing(rng)) for i in range(12)]
    straight, resumed = TemporalLeakage(), TemporalLeakage()
    for pair in pairs:
        straight.release(E, *pair)
        resumed.release(E, *pair)
        resumed = from_state(json.loads(json.dumps(to_state(resumed))))
    assert [float(v) for v in resumed.tpl()] == pytest.approx([float(v) for v in straight.tpl()], rel=1e-9)
    assert resumed.epsilon == straight.epsilon
    assert resumed.backward_extreme == straight.backward_extreme


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"bpl": []},
        {"forward": []},
        {"lead": None},
        {"forward": [[["x", 0]]]},
        {"bpl": ["1/0", 1]},
        {"v": None},
    ]
    + [{"epsilon": None}, {"epsilon": ["x", "1/10"]}, {"backward_extreme": 1}],
)
def test_a_foreign_or_broken_state_is_refused(change: dict[str, object]) -> None:
    """Another version, or lists that do not fit each other."""
    leakage = TemporalLeakage()
    leakage.release(E)
    leakage.release(E, LeakageStep(points=[EXTREME]), LeakageStep(points=[EXTREME]))
    with pytest.raises(RefusedError):
        from_state({**to_state(leakage), **change})


def test_sparse_and_dense_rows_agree() -> None:
    """One answer for a dense matrix, its sparse form, and a sparse form with explicit zeros and unsorted entries."""
    dense = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    untidy = sparse.coo_matrix(
        ([0.5, 0.25, 0.25, 0.5, 0.5, 0.5, 0.3, 0.2, 0.0], ([0, 0, 0, 1, 1, 2, 2, 2, 0], [1, 0, 0, 2, 1, 2, 1, 0, 2]))
    )
    assert leakage_step(untidy, 0.7) == pytest.approx(leakage_step(dense, 0.7), rel=1e-12)
    assert leakage_step(sparse.csr_matrix(dense), 0.7) == leakage_step(dense, 0.7)


@pytest.mark.parametrize("rows", [[[0.5, 0.4]], [[1.5, -0.5]], [[float("nan"), 1.0]], [[0.0, 0.0]]])
def test_rows_that_are_no_distribution_are_refused(rows: list[list[float]]) -> None:
    """Sums other than 1, negative and undefined probabilities."""
    with pytest.raises(InputError, match="correlation"):
        leakage_step(rows, 1.0)


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_alpha_must_be_a_leakage(alpha: float) -> None:
    """Finite and not negative."""
    with pytest.raises(InputError, match="alpha"):
        leakage_step([[1.0]], alpha)


@pytest.mark.parametrize("value", [0, -1, "nan", "inf", "-inf", "", "x", "1e999999999", float("nan"), "0.0"])
def test_epsilon_must_be_positive_and_finite(value: object) -> None:
    """Also where writing the number out would fill the memory."""
    with pytest.raises(InputError, match=r"epsilon must|epsilon is too large"):
        positive(value)  # type: ignore[arg-type]


def test_epsilon_is_the_decimal_that_was_written() -> None:
    """0.1 is a tenth, and three of them are exactly 0.3; replacement counts twice."""
    assert 3 * positive(0.1) == positive("0.3")
    assert under_replacement(positive("0.1")) == Fraction(1, 5)


def test_a_release_after_the_first_needs_its_correlations() -> None:
    """Forgetting them would silently count as independence."""
    leakage = TemporalLeakage()
    leakage.release(E)
    with pytest.raises(ValueError, match="correlations"):
        leakage.release(E)


def test_composition_adds_epsilon_and_delta() -> None:
    """(0.1, 1e-6) five times."""
    found = composition([(E, Fraction(1, 10**6))] * 5)
    assert (found["sum_epsilon"], found["sum_delta"], found["max_tpl"]) == (0.5, 5e-6, 0.5)


def test_an_extreme_chain_allows_only_a_finite_total() -> None:
    """No constant budget lasts forever; alpha / T does for T releases, and a geometric series never spends more."""
    extreme = LeakageStep(points=[EXTREME])
    found = allocate(extreme, extreme, Fraction(1))
    assert found.constant == 0
    assert found.series(4) == [Fraction(1, 4)] * 4
    spent = sum(geometric(Fraction(1), Fraction(1, 2), i) for i in range(1, 200))
    assert 1 - Fraction(1, 2**190) < spent < 1


def test_matrices_that_cannot_be_decided_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More overlapping states than can be compared: the message says how many there are."""
    from models.leakage import steps

    monkeypatch.setattr(steps, "MOST_ROWS", 3)
    with pytest.raises(InputError, match="of 5 states"):
        step(np.random.default_rng(0).dirichlet(np.ones(3), size=5))


def test_a_state_with_rounded_numbers_is_read_as_a_little_more() -> None:
    """Earlier programs kept floats, rounded to the nearest: what is read is never below them; the series continues."""
    rng = np.random.default_rng(6)
    leakage = TemporalLeakage()
    for _ in range(4):
        leakage.release(E, mixing(rng), mixing(rng))
    state = to_state(leakage)
    old = {
        **state,
        "bpl": [state["bpl"][0], *(float(Fraction(value)) for value in state["bpl"][1:])],
        "fpl_before": [float(Fraction(value)) for value in state["fpl_before"]],
        "lead": float(Fraction(state["lead"])),
    }
    found = from_state(json.loads(json.dumps(old)))
    for read, kept in zip((*found.bpl, *found.before), (*old["bpl"], *old["fpl_before"]), strict=True):
        assert 0 <= read - Fraction(kept) <= Fraction(1, 10**13)
    assert leakage.max_tpl() <= found.max_tpl() <= leakage.max_tpl() + Fraction(1, 10**12)
    found.release(E, mixing(rng), mixing(rng))
    assert found.n == 5
