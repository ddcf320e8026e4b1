"""Random small logs: what every suppression releases satisfies TLKC-privacy by the brute-force checker."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize import suppression
from models.anonymize.sensitive import InfeasibleError
from models.anonymize.tlkc import SuppressionOptions, TlkcProblem
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError
from models.eventlog import Column, EventLog
from models.knowledge import Attribute, Knowledge, items
from tests.conftest import random_inputs
from tests.oracles import tlkc as oracle

LOGS = random_inputs(1000)
ATTRIBUTES: tuple[Attribute, ...] = ("ac", "re", "ar")
METHODS: list[list[dict[str, Any]]] = [
    [{"suppression": "greedy"}, {"suppression": "greedy", "algorithm": 1, "theta": 0.3}],
    [{"suppression": "pruned"}],
    [{"suppression": "exact"}, {"suppression": "exact", "capping": False}],
    [{"suppression": "local"}] * 5 + [{"suppression": "local", "effort": 1}],
]
"""Four methods, the variants of each taking turns."""


def _random_problem(generator: np.random.Generator, structure: Any) -> TlkcProblem:
    """A log of a few cases over a few items, so that bounds of a few cases are both met and missed."""
    cases = int(generator.integers(4, 14))
    letters = "abcd"[: int(generator.integers(2, 5))]
    owner, names, times, actors = [], [], [], []
    for case in range(cases):
        for step in range(int(generator.integers(1, 6))):
            owner.append(str(case))
            names.append(letters[int(generator.integers(len(letters)))])
            times.append(int(generator.integers(0, 2)) * 60_000_000_000 + step)
            actors.append("xy"[int(generator.integers(2))])
    values: dict[str, dict[str, Any]] = {"disease": {}, "age": {}}
    for case in range(cases):
        values["disease"][str(case)] = [None, "p", "q", "r"][int(generator.integers(4))]
        values["age"][str(case)] = ["low", "high", "middle"][int(generator.integers(3))]
    log = EventLog.from_events(owner, names, np.asarray(times), actors, values, unit="ns")
    attributes = [("disease",), ("disease", "age")][int(generator.integers(2))]
    bounds = TlkcBounds.of(
        int(generator.integers(1, 5)),
        int(generator.integers(2, 5)),
        ["0.5", "0.6", "0.75", "1"][int(generator.integers(4))],
    )
    knowledge = Knowledge(structure, ATTRIBUTES[int(generator.integers(3))], "minutes")
    return TlkcProblem(log, knowledge, bounds, {name: log.case_values(name) for name in attributes})


def _cases(problem: TlkcProblem, kept: Any) -> list[oracle.Case]:
    """Return the input of the brute-force checker: items of the source (original time anchor) that stay, by case."""
    column = items(problem.log, problem.knowledge)
    classes = {name: classes.decode() for name, classes in problem.classes.items()}
    result: list[oracle.Case] = []
    for case in range(problem.log.n_cases):
        rows = [row for row in range(problem.log.starts[case], problem.log.starts[case + 1]) if kept[row]]
        if rows:
            result.append(
                ([column.values[column.codes[row]] for row in rows], {n: v[case] for n, v in classes.items()})
            )
    return result


@pytest.mark.parametrize(
    "structure", [*(pytest.param(structure, marks=pytest.mark.slow) for structure in ("set", "mult")), "seq", "rel"]
)
def test_every_release_satisfies_by_brute_force(structure: str) -> None:
    """Random logs of a type after each method: no violating candidate is left, and every outcome occurs."""
    generator = np.random.default_rng(20260101)
    outcomes: Counter[str] = Counter()
    for number in range(LOGS):
        problem = _random_problem(generator, structure)
        for variants in METHODS:
            outcomes[_outcome(problem, variants[number % len(variants)])] += 1
    assert outcomes["shortened"] > LOGS
    assert outcomes["untouched"] > LOGS // 20
    assert outcomes["InfeasibleError"] > LOGS // 20


def _outcome(problem: TlkcProblem, options: dict[str, Any]) -> str:
    try:
        result = problem.solve(SuppressionOptions(**options))
    except (BoundError, InfeasibleError) as error:
        return type(error).__name__
    bounds = problem.bounds
    assert result.satisfied
    assert oracle.satisfies(_cases(problem, result.kept), problem.knowledge.structure, bounds.L, bounds.K, bounds.C)
    return "untouched" if result.kept.all() else "shortened"


@pytest.mark.parametrize("structure", ["set", "mult", "seq", "rel"])
def test_methods_stand_in_their_order(structure: str) -> None:
    """On the same log exact keeps at least what pruned keeps, pruned at least what greedy keeps; exact is cheapest."""
    generator = np.random.default_rng(7)
    compared = 0
    while compared < 40:
        problem = _random_problem(generator, structure)
        try:
            kept = [
                problem.solve(SuppressionOptions(suppression=s, capping=False)).kept
                for s in ("greedy", "pruned", "exact")
            ]
        except (BoundError, InfeasibleError):
            continue
        assert kept[0].sum() <= kept[1].sum() <= kept[2].sum()
        source = _cases(problem, np.ones(problem.log.n_events, dtype=bool))
        bad = oracle.violating(source, structure, problem.bounds.L, problem.bounds.K, problem.bounds.C)
        least = oracle.cheapest(source, structure, oracle.minimal(bad)) if _alphabet(source) <= 8 else None
        assert least is None or problem.log.n_events - kept[2].sum() == least
        compared += 1


def test_capping_is_the_cheapest_there_is() -> None:
    """mult: of all ways to cap every item, exact loses the fewest events; sometimes fewer than by removing items."""
    generator = np.random.default_rng(23)
    compared = cheaper = 0
    while compared < 40:
        problem = _random_problem(generator, "mult")
        source = _cases(problem, np.ones(problem.log.n_events, dtype=bool))
        if _alphabet(source) > 6:
            continue
        try:
            capped, removed = (problem.solve(SuppressionOptions(capping=capping)) for capping in (True, False))
        except (BoundError, InfeasibleError):
            continue
        bad = oracle.violating(source, "mult", problem.bounds.L, problem.bounds.K, problem.bounds.C)
        lost = problem.log.n_events - capped.events
        assert lost == oracle.cheapest_caps(source, oracle.minimal(bad))
        cheaper += capped.events > removed.events
        compared += 1
    assert cheaper > 5


def test_exact_that_does_not_finish_is_pruned_and_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """If optimality is not proven in time, the release is as safe as any, and has the warning."""
    monkeypatch.setattr(suppression, "_solve", lambda *_: None)
    generator = np.random.default_rng(29)
    bounded = 0
    for _ in range(60):
        problem = _random_problem(generator, "seq")
        if _outcome(problem, {"suppression": "exact"}) not in ("shortened", "untouched"):
            continue
        result, pruned = (problem.solve(SuppressionOptions(suppression=method)) for method in ("exact", "pruned"))
        if result.bounded:
            bounded += 1
            assert "bound on work" in result.warnings[0]
            assert result.kept.tolist() == pruned.kept.tolist()
    assert bounded > 5


def _alphabet(cases: list[oracle.Case]) -> int:
    return len({item for items_, _ in cases for item in items_})


@pytest.mark.parametrize("structure", ["set", "mult", "seq", "rel"])
def test_search_finds_exactly_the_minimal_violating_candidates(structure: str) -> None:
    """The level-wise search and the enumeration of all candidates agree, C as a fraction."""
    generator = np.random.default_rng(11)
    for _ in range(60):
        problem = _random_problem(generator, structure)
        view, candidates = problem.seen, problem.candidates
        source = _cases(problem, np.ones(problem.log.n_events, dtype=bool))
        bounds = problem.bounds
        bad = oracle.violating(source, structure, bounds.L, bounds.K, Fraction(bounds.C))
        assert {view.decode(candidate) for candidate in candidates} == oracle.minimal(bad)


def test_equal_columns_give_the_same_release() -> None:
    """A sensitive attribute that repeats another binds nothing more."""
    generator = np.random.default_rng(3)
    for _ in range(30):
        problem = _random_problem(generator, "seq")
        one = {"disease": problem.classes["disease"]}
        twice = {**one, "copy": Column(one["disease"].codes, one["disease"].values)}
        results = []
        for classes in (one, twice):
            try:
                results.append(
                    TlkcProblem(problem.log, problem.knowledge, problem.bounds, classes)
                    .solve(SuppressionOptions())
                    .kept.tolist()
                )
            except (BoundError, InfeasibleError) as error:
                results.append(type(error).__name__)
        assert results[0] == results[1]
