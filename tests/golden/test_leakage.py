"""Leakage against the golden vectors (made by slow programs from the definitions, see README.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import positive
from models.leakage.accumulation import TemporalLeakage, leakage_step
from models.leakage.automaton import TransitionSystem
from models.leakage.budget import allocate
from models.leakage.correlations import Correlation, correlation, steps
from models.leakage.states import END, StateFunction
from models.leakage.steps import step
from tests.conftest import golden
from tests.oracles.automaton import Automaton

LEAKAGE = golden("leakage.json")
SEQUENCES = golden("leakage_sequences.json")
BUDGETS = golden("leakage_budget.json")
TABLES = [(log["name"], name) for log in LEAKAGE["logs"] for name in log["tables"] if not name.endswith("_paper")]


def automaton(log: list[list[str]]) -> TransitionSystem:
    """The prefix automaton of traces written with their artificial start and end."""
    result = Automaton(StateFunction())
    for number, trace in enumerate(log):
        result.begin(str(number))
        for activity in trace[1:]:
            if activity == END:
                result.end(str(number))
            else:
                result.observe(str(number), activity)
    return result.system()


def table(found: Correlation, system: TransitionSystem) -> dict[str, dict[str, float]]:
    """{state: {state: probability}} in the vectors' spelling."""
    names = ["".join(system.space.label(s)) or "<>" for s in range(len(system.space))]
    dense = found.rows.toarray()
    return {
        names[s]: {names[c]: p for c, p in zip(found.columns, row, strict=True) if p}
        for s, row in zip(found.states, dense, strict=True)
    }


def approx(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("number", range(len(LEAKAGE["matrices"])))
def test_step_of_a_matrix_agrees_with_brute_force(number: int) -> None:
    """AL of every vector, its exactness flag, and AL from the points alone."""
    vector = LEAKAGE["matrices"][number]
    assert leakage_step(vector["M"], vector["alpha"]) == approx(vector["AL"])
    found = step(vector["M"])
    assert found.extreme == vector["has_disjoint_rows"]
    assert found.complete()(vector["alpha"]) == approx(vector["AL"])


@pytest.mark.parametrize(("log", "name"), TABLES)
def test_correlations_are_the_printed_tables(log: str, name: str) -> None:
    """Every row of every corrected correlation, forwards and backwards, S1 and S2, windows 1 to 3."""
    vector = next(entry for entry in LEAKAGE["logs"] if entry["name"] == log)
    direction, scenario, x, _ = name.split("_")
    system = automaton(vector["log"])
    found = correlation(
        system,
        "forward" if direction == "F" else "backward",
        "certain" if scenario == "S1" else "uncertain",
        int(x[1:]),
    )
    expected = {s: {c: float(Fraction(p)) for c, p in row.items()} for s, row in vector["tables"][name].items()}
    assert {s: approx(row) for s, row in expected.items()} == table(found, system)
    leak = vector["leak"][name]["AL"] or {}
    backward, forward = steps(system, "certain" if scenario == "S1" else "uncertain", int(x[1:]))
    for alpha, value in leak.items():
        assert leakage_step(found.rows, float(alpha)) == approx(value)
        assert (forward if direction == "F" else backward)(float(alpha)) == approx(value)


def test_figure_2_of_the_paper() -> None:
    """Pr(S3), the rows of S1 and the example probabilities of section 4.4."""
    vector, expected = LEAKAGE["logs"][0], LEAKAGE["fig2"]
    system = automaton(vector["log"])
    names = ["".join(system.space.label(int(s))) for s in system.states]
    visits = dict(zip(names, (Fraction(int(c), system.cases) for c in system.into()), strict=True))
    assert visits["▶d"] == Fraction(expected["Pr(S3)=2/4"])
    certain = table(correlation(system, "forward", "certain", 2), system)
    assert certain["▶a"]["▶abc"] == float(Fraction(expected["cert x=2 Pr(S5|S1)=1/2"]))
    uncertain = table(correlation(system, "forward", "uncertain", 2), system)
    assert uncertain["▶a"] == approx({s: float(Fraction(p)) for s, p in expected["unc x=2 row S1"].items()})


@pytest.mark.parametrize("number", range(len(SEQUENCES["random_sequences"])))
def test_a_series_with_given_correlations(number: int) -> None:
    """BPL, FPL and TPL of random chains that change from step to step."""
    vector = SEQUENCES["random_sequences"][number]
    leakage = TemporalLeakage()
    for i, e in enumerate(vector["eps"]):
        leakage.release(positive(e), *((step(vector["B"][i]), step(vector["F"][i - 1])) if i else ()))
    assert [float(v) for v in leakage.bpl] == approx(vector["BPL"])
    assert [float(v) for v in leakage.fpl()] == approx(vector["FPL"])
    assert [float(v) for v in leakage.tpl()] == approx(vector["TPL"])


@pytest.mark.parametrize("number", range(len(SEQUENCES["S2_sequences"])))
def test_a_series_of_growing_logs(number: int) -> None:
    """Four growing logs under S2, each step from the automaton of its own release."""
    vector = SEQUENCES["S2_sequences"][number]
    leakage = TemporalLeakage()
    for log, e in zip(SEQUENCES["logs"], vector["eps"], strict=True):
        leakage.release(positive(e), *steps(automaton(log), "uncertain", vector["x"]))
    assert [float(v) for v in leakage.bpl] == approx(vector["BPL"])
    assert [float(v) for v in leakage.fpl()] == approx(vector["FPL"])
    assert [float(v) for v in leakage.tpl()] == approx(vector["TPL"])
    assert float(leakage.sum_epsilon) == vector["sum_eps"]


def test_an_identity_chain_composes_sequentially() -> None:
    """If the next state is the last one, every TPL is exactly the sum of all epsilon."""
    vector = SEQUENCES["identity_chain"]
    same = step([[1, 0], [0, 1]])
    leakage = TemporalLeakage()
    for e in vector["eps"]:
        leakage.release(positive(e), same, same)
    assert [float(v) for v in leakage.tpl()] == approx(vector["exact_TPL"])
    assert set(leakage.tpl()) == {Fraction(6, 10)}


@pytest.mark.parametrize("number", range(len(BUDGETS)))
def test_budgets_that_keep_a_bound(number: int) -> None:
    """The constant budget of an unknown horizon, the three budgets of a known one, and the TPL they give."""
    vector = BUDGETS[number]
    backward, forward = (step([list(row.values()) for row in vector[side].values()]) for side in "BF")
    found = allocate(backward, forward, positive(vector["alpha"]))
    assert float(found.constant) == approx(vector["alg2_eps"])
    series = found.series(vector["T"])
    assert [float(e) for e in series] == approx(vector["alg3_eps"])
    leakage = TemporalLeakage()
    for e in series:
        leakage.release(e, backward, forward)
    assert [float(v) for v in leakage.tpl()] == approx(vector["alg3_TPL"])
    assert leakage.max_tpl() <= found.alpha
