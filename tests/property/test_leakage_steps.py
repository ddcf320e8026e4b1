"""The step AL(alpha), correlations and series against slow oracles, on random input."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.dp.budget import positive
from models.leakage.accumulation import TemporalLeakage, batch, leakage_step, reference
from models.leakage.automaton import TransitionSystem
from models.leakage.budget import allocate
from models.leakage.correlations import correlation, steps
from models.leakage.states import END, START, StateFunction
from models.leakage.steps import LeakageStep, step
from tests.conftest import examples, random_inputs
from tests.oracles import leakage as oracle
from tests.oracles.automaton import Automaton

ALPHAS = (0.001, 0.01, 0.1, 1.0, 5.0)


def random_matrix(rng: np.random.Generator, n: int, m: int, sparse: bool = False) -> np.ndarray[Any, Any]:
    matrix = rng.dirichlet(np.full(m, rng.choice([0.3, 1.0, 5.0])), size=n)
    if sparse:
        matrix *= rng.random((n, m)) < 0.6
        matrix[np.arange(n), rng.integers(0, m, n)] += 0.1
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


@st.composite
def matrices(draw: st.DrawFn, rows: int = 4) -> np.ndarray[Any, Any]:
    """Small stochastic matrices, with zeros and repeated values."""
    n, m = draw(st.integers(1, rows)), draw(st.integers(1, 5))
    weights = np.array([[draw(st.integers(0, 4)) for _ in range(m)] for _ in range(n)], dtype=float)
    weights[weights.sum(axis=1) == 0, 0] = 1
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Small logs with partial and complete traces, artificial events included."""
    traces = draw(st.lists(st.text("abc", max_size=4), min_size=1, max_size=5))
    ended = draw(st.lists(st.booleans(), min_size=len(traces), max_size=len(traces)))
    return [(START, *trace, *([END] if end else [])) for trace, end in zip(traces, ended, strict=True)]


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Fraction], list[LeakageStep], list[LeakageStep]]:
    """Budgets of a series and the steps between its releases, extreme ones among them."""
    epsilon = [Fraction(draw(st.integers(1, 200)), 100) for _ in range(draw(st.integers(1, 7)))]
    square = matrices(rows=3)
    pairs = [(step(draw(square)), step(draw(square))) for _ in epsilon[1:]]
    return epsilon, [b for b, _ in pairs], [f for _, f in pairs]


def system_of(log: list[tuple[str, ...]], states: str = "prefix") -> TransitionSystem:
    automaton = Automaton(StateFunction.parse(states))
    for number, trace in enumerate(log):
        automaton.begin(str(number))
        for activity in trace[1:]:
            if activity == END:
                automaton.end(str(number))
            else:
                automaton.observe(str(number), activity)
    return automaton.system()


def rows_of(one: LeakageStep) -> Any:
    """The matrix for the oracle: None if the step keeps everything, one row if it keeps nothing."""
    return None if one.extreme else [[1.0]] if one.rows is None else one.rows


def series(epsilon: list[Fraction], backward: list[LeakageStep], forward: list[LeakageStep]) -> TemporalLeakage:
    leakage = TemporalLeakage()
    for i, e in enumerate(epsilon):
        leakage.release(e, *((backward[i - 1], forward[i - 1]) if i else ()))
    return leakage


@pytest.mark.parametrize("part", range(random_inputs(30)))
def test_three_thousand_matrices_agree_with_the_linear_program(part: int) -> None:
    """AL of 3,000 random stochastic matrices is the optimum of the linear fractional program."""
    rng = np.random.default_rng(part)
    drawn = [random_matrix(rng, int(rng.integers(2, 4)), int(rng.integers(2, 6)), i % 3 == 0) for i in range(100)]
    alphas = [float(rng.choice(ALPHAS)) for _ in drawn]
    expected = oracle.by_linear_programs(drawn, alphas)
    assert [leakage_step(m, a) for m, a in zip(drawn, alphas, strict=True)] == pytest.approx(
        expected, rel=1e-7, abs=1e-12
    )


@examples(50)
@given(matrices(), st.sampled_from(ALPHAS))
def test_step_is_the_best_set_of_columns(matrix: np.ndarray[Any, Any], alpha: float) -> None:
    """AL is the maximum over all pairs and all sets; the points alone give the same function."""
    expected = oracle.by_subsets(matrix.tolist(), alpha)
    assert leakage_step(matrix, alpha) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert step(matrix).complete()(alpha) == pytest.approx(expected, rel=1e-9, abs=1e-13)


@examples(50)
@given(matrices(), st.floats(0, 900))
def test_step_never_raises_leakage_and_keeps_it_only_where_extreme(matrix: np.ndarray[Any, Any], alpha: float) -> None:
    """0 <= AL(alpha) <= alpha for any alpha, and AL is the identity iff two rows share no column."""
    value = leakage_step(matrix, alpha)
    assert 0 <= value <= alpha
    disjoint = any(not np.any((q > 0) & (d > 0)) for q in matrix for d in matrix)
    assert step(matrix).extreme == disjoint
    if disjoint:
        assert value == alpha


@examples(50)
@given(logs(), st.integers(1, 4), st.sampled_from(["certain", "uncertain"]))
def test_correlations_equal_the_walks(log: list[tuple[str, ...]], x: int, scenario: Any) -> None:
    """Sparse rows of both directions equal the walks counted in fractions, and each row sums to 1."""
    system = system_of(log)
    for direction in ("forward", "backward"):
        found = correlation(system, direction, scenario, x)  # type: ignore[arg-type]
        names = [tuple(system.space.label(s)) for s in range(len(system.space))]
        rows = {
            names[s]: {names[c]: p for c, p in zip(found.columns, row, strict=True) if p}
            for s, row in zip(found.states, found.rows.toarray(), strict=True)
        }
        expected = getattr(oracle, direction)(log, scenario, x)
        assert rows == {s: pytest.approx({c: float(p) for c, p in row.items()}) for s, row in expected.items()}


@examples(50)
@given(logs(), st.integers(1, 7), st.sampled_from(["certain", "uncertain"]), st.sampled_from(ALPHAS))
def test_a_tree_needs_only_its_depth_and_leaves(
    log: list[tuple[str, ...]], x: int, scenario: Any, alpha: float
) -> None:
    """The closed form for prefix automata equals the step of the explicit rows, and its witness is disjoint."""
    for found, rows in zip(
        steps(system_of(log), scenario, x),
        (oracle.backward(log, scenario, x), oracle.forward(log, scenario, x)),
        strict=True,
    ):
        assert found(alpha) == pytest.approx(
            leakage_step(oracle.dense(rows), alpha) if rows else 0, rel=1e-12, abs=1e-15
        )
        assert found.extreme == (found.witness is not None)
        if found.witness:
            space = system_of(log).space
            first, second = (rows[tuple(space.label(state))] for state in found.witness)
            assert not set(first) & set(second)


def set_state(prefix: tuple[str, ...]) -> object:
    """`prefix`, END or a set of activities: the empty prefix is a state of its own, so is the one after the start."""
    return prefix if not prefix else END if prefix[-1] == END else frozenset(prefix)


def last_state(prefix: tuple[str, ...]) -> object:
    return prefix[-1:]


COARSE = {"set": set_state, "last": last_state}


@examples(40)
@given(logs(), st.sampled_from(list(COARSE)), st.sampled_from(["certain", "uncertain"]), st.integers(1, 4))
@example([(START, "a", "a", "b"), (START, "b", "a")], "last", "uncertain", 2)
def test_coarse_states_begin_with_the_empty_prefix(
    log: list[tuple[str, ...]], states: str, scenario: Any, x: int
) -> None:
    """AL_B and AL_F by last activity and by set are those of a chain written out prefix by prefix, in fractions."""
    for direction, found in zip(("backward", "forward"), steps(system_of(log, states), scenario, x), strict=True):
        rows = oracle.coarse(log, COARSE[states], direction, scenario, x)
        for alpha in (0.01, 1.0):
            assert float(found(alpha)) == pytest.approx(leakage_step(np.array(rows), alpha), rel=1e-9, abs=1e-12)


@examples(50)
@given(logs(), logs(), st.sampled_from(["prefix", "last", "suffix-2", "set", "multiset"]))
def test_the_automaton_is_the_same_in_any_order(first: Any, second: Any, states: str) -> None:
    """Digest, states and counts do not depend on the order in which cases arrive."""
    one, other = system_of(first + second, states), system_of(second + first, states)
    assert one.digest() == other.digest()
    assert (len(one.states), one.cases) == (len(other.states), other.cases)
    assert sorted(one.into().tolist()) == sorted(other.into().tolist())
    assert one.digest() != system_of(first, states).digest()


@examples(50)
@given(chains())
def test_on_line_equals_batch(chain: tuple[list[Fraction], list[LeakageStep], list[LeakageStep]]) -> None:
    """Release by release gives the values of the recursions over the whole series."""
    leakage = series(*chain)
    bpl, fpl, tpl = batch(*chain)
    assert leakage.bpl == bpl
    assert [float(v) for v in leakage.fpl()] == pytest.approx([float(v) for v in fpl], rel=1e-12)
    assert [float(v) for v in leakage.tpl()] == pytest.approx([float(v) for v in tpl], rel=1e-12)
    assert float(leakage.max_tpl()) == pytest.approx(max(float(v) for v in tpl), rel=1e-12)


@examples(50)
@given(chains())
def test_tpl_is_between_epsilon_and_composition_and_never_falls(
    chain: tuple[list[Fraction], list[LeakageStep], list[LeakageStep]],
) -> None:
    """e_i <= TPL_i <= the sum of e; a further release never lowers an earlier TPL; a preview changes nothing."""
    epsilon, backward, forward = chain
    leakage, earlier = TemporalLeakage(), [0.0]
    for i, e in enumerate(epsilon):
        pair = (backward[i - 1], forward[i - 1]) if i else (None, None)
        expected = leakage.preview(e, *pair)
        assert leakage.n == i
        leakage.release(e, *pair)
        assert leakage.max_tpl() == expected
        now = [float(v) for v in leakage.tpl()]
        assert all(a <= b + 1e-12 for a, b in zip(earlier, now, strict=False))
        assert all(float(e) - 1e-12 <= v <= leakage.sum_epsilon + 1e-12 for e, v in zip(epsilon, now, strict=False))
        earlier = now


@examples(50)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_extreme_steps_compose_exactly(cents: list[int]) -> None:
    """If all steps are extreme, every TPL is the sum of e as an exact fraction, and no step is evaluated."""
    epsilon = [Fraction(c, 100) for c in cents]
    same = step([[1, 0], [0, 1]])
    leakage = series(epsilon, [same] * (len(epsilon) - 1), [same] * (len(epsilon) - 1))
    assert set(leakage.tpl()) == {sum(epsilon)}
    assert leakage.max_tpl() == sum(epsilon)
    assert leakage.evaluations == 0


SIXTHS = [np.array(rows) / 6 for rows in ([[1.0, 5], [2, 4]], [[2.0, 4], [3, 3]])]
FIFTHS = [np.array(rows) / 5 for rows in ([[1.0, 4], [1, 4]], [[2.0, 3], [4, 1]])]


@examples(30)
@given(matrices(), matrices(), st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(3)]), st.integers(1, 8))
@example(*SIXTHS, Fraction(1, 10), 2)
@example(*FIFTHS, Fraction(1, 10), 5)
def test_budgets_keep_their_bound(backward: Any, forward: Any, alpha: Fraction, T: int) -> None:
    """No series of the allocation passes alpha; a known horizon uses it up at every release."""
    b, f = step(backward), step(forward)
    found = allocate(b, f, alpha)
    known = series(found.series(T), [b] * (T - 1), [f] * (T - 1))
    assert known.max_tpl() <= alpha
    if found.constant > 0:
        assert [float(v) for v in known.tpl()] == pytest.approx([float(alpha)] * T, rel=1e-9)
        constant = series([found.constant] * (4 * T), [b] * (4 * T - 1), [f] * (4 * T - 1))
        assert constant.max_tpl() <= alpha


@pytest.mark.parametrize(("backward", "forward"), [SIXTHS, FIFTHS])
@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_a_chain_that_forgets_gets_a_budget_for_ever(backward: Any, forward: Any, alpha: Fraction) -> None:
    """Rounding costs only the last digits of the budget, and not the whole budget."""
    found = allocate(step(backward), step(forward), alpha)
    assert 0 < found.constant <= min(found.first, found.last) <= alpha
    assert alpha * (1 - Fraction(1, 10**9)) <= found.first + found.last - found.constant <= alpha


@examples(30)
@given(chains())
@example(([Fraction(1, 10)] * 4, [step(FIFTHS[1])] * 3, [step(FIFTHS[1])] * 3))
def test_no_leakage_is_below_the_true_one(chain: tuple[list[Fraction], list[LeakageStep], list[LeakageStep]]) -> None:
    """BPL, FPL and TPL are at least what forty digits give, and above it by rounding alone, release after release."""
    epsilon, backward, forward = chain
    leakage, most = TemporalLeakage(), sum(epsilon)
    for n in range(1, len(epsilon) + 1):
        leakage.release(epsilon[n - 1], *((backward[n - 2], forward[n - 2]) if n > 1 else ()))
        curves = oracle.exact_series(epsilon[:n], *([rows_of(one) for one in side] for side in (backward, forward)))
        for found, true in zip((leakage.bpl, leakage.fpl(), leakage.tpl()), curves, strict=True):
            assert all(0 <= a - b <= most * Fraction(1, 10**12) for a, b in zip(found, true, strict=True))
        assert leakage.max_tpl() == max(leakage.tpl())


@examples(50)
@given(logs(), st.integers(1, 6), st.sampled_from([0.01, 1.0]))
def test_reference_repeats_the_authors_rule(log: list[tuple[str, ...]], x: int, alpha: float) -> None:
    """The closed form of the reference equals the authors' rule on the rows of the automaton."""
    e = positive(alpha)
    bpl, _, _ = reference([e, e], [min(x, system_of(log).depth)])
    assert bpl[1] - alpha == pytest.approx(oracle.reference_step(log, x, alpha), rel=1e-12, abs=1e-14)
