"""TLKC-privacy against the golden vectors: 52 logs by 12 kinds of knowledge, and the paper's worked example."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize.suppression import algorithm_1, algorithm_2, cases_with
from models.anonymize.tlkc import maximal_frequent
from models.anonymize.view import TraceView, view_of_items
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.eventlog import Column
from tests.conftest import golden
from tests.oracles import tlkc as oracle

LOGS = golden("tlkc.json")["logs"]
TABLE3 = golden("tlkc_table3.json")
PERSPECTIVES = {"ac": (0,), "re": (1,), "ar": (0, 1)}


def _item(event: list[Any], structure: str, attribute: str) -> Any:
    parts = (*PERSPECTIVES[attribute], 2) if structure == "rel" else PERSPECTIVES[attribute]
    return event[parts[0]] if len(parts) == 1 else tuple(event[part] for part in parts)


def _cases(log: dict[str, Any], structure: str, attribute: str) -> list[oracle.Case]:
    return [([_item(event, structure, attribute) for event in case["trace"]], case["sens"]) for case in log["cases"]]


def _view(cases: list[oracle.Case], structure: Any) -> TraceView:
    starts = np.concatenate(([0], np.cumsum([len(items) for items, _ in cases]))).astype(np.int64)
    column = Column.encode(item for items, _ in cases for item in items)
    names = list(cases[0][1])
    return view_of_items(starts, column, structure, {n: Column.encode(sens[n] for _, sens in cases) for n in names})


def _plain(value: Any) -> Any:
    return tuple(_plain(part) for part in value) if isinstance(value, list) else value


def _single(item: list[Any]) -> Any:
    """The vectors write an item of one part as a list of one."""
    return item[0] if len(item) == 1 else tuple(item)


@pytest.mark.parametrize("key", sorted(LOGS[0]["expected"]))
def test_violating_sets_and_algorithm_2(key: str) -> None:
    """Minimal violating sets, the count of violating sets and Algorithm 2's suppression are as in the vectors."""
    structure, attribute = key.split("/")
    for log in LOGS:
        cases, expected = _cases(log, structure, attribute), log["expected"][key]
        view = _view(cases, structure)
        found = minimal_violations(view, TlkcBounds.of(log["L"], log["K"], log["C"]))
        assert {view.decode(candidate) for candidate in found.candidates()} == set(map(_plain, expected["mvt"]))
        bad = oracle.violating(cases, structure, log["L"], log["K"], Fraction(str(log["C"])))
        assert len(bad) == expected["n_violating"]
        assert (len(found) == 0) == expected["satisfies"]
        chosen = algorithm_2(found.candidates(), cases_with(view), view.n_cases)
        assert [view.alphabet[code] for code in chosen] == [_single(item) for item in expected["alg2_suppression"]]
        gone = {view.alphabet[code] for code in chosen}
        assert sum(item not in gone for items, _ in cases for item in items) == expected["alg2_events_left"]


def _table3(label: str) -> list[oracle.Case]:
    def parse(text: str) -> tuple[Any, ...]:
        activity, resource, time = text.strip("()").split(",")
        return activity, resource, int(time)

    cases = [([parse(t) for t in row["trace"]], {"Disease": row["disease"]}) for row in TABLE3["input"]]
    if label == "variant_case5_disease_new":
        cases[4] = (cases[4][0], {"Disease": "new"})
    return cases


def _printed(items: tuple[Any, ...]) -> list[str]:
    return [f"({activity},{resource},{time})" for activity, resource, time in items]


@pytest.mark.parametrize("label", ["literal", "variant_case5_disease_new"])
def test_worked_example(label: str) -> None:
    """Table 3, as printed and with the mended value: violating and frequent sets, Algorithm 1, removed events."""
    parameters, expected = TABLE3["parameters"], TABLE3[label]
    cases = _table3(label)
    view = _view(cases, "rel")
    found = minimal_violations(view, TlkcBounds.of(parameters["L"], parameters["K"], parameters["C"])).candidates()
    assert sorted(_printed(view.decode(c)) for c in found) == sorted(entry["cand"] for entry in expected["MVT"])
    frequent = maximal_frequent(view, parameters["theta"])
    assert sorted(_printed(view.decode(c)) for c in frequent) == sorted(entry["trace"] for entry in expected["MFT"])
    chosen = algorithm_1(found, frequent, len(view.alphabet))
    assert _printed(view.decode(chosen)) == expected["suppression"]
    left = {
        str(n + 1): [p for p in _printed(items) if p not in expected["suppression"]]
        for n, (items, _) in enumerate(cases)
    }
    assert left == expected["anonymized"]


def test_worked_example_by_algorithm_2() -> None:
    """Table 3 as printed, alpha = beta = 1/2."""
    view = _view(_table3("literal"), "rel")
    found = minimal_violations(view, TlkcBounds.of(2, 2, 0.5)).candidates()
    chosen = algorithm_2(found, cases_with(view), view.n_cases)
    assert _printed(view.decode(chosen)) == TABLE3["algorithm2_alpha_beta_half"]["suppression"]
