"""The page of the field: what it says is read off results, and its auditor sees what is wrong with a peer."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.field import __main__ as command
from benchmarks.field import guarantee, tools
from benchmarks.field.guarantee import ALPHA, AUDIT_DELTA, NEIGHBOURS
from benchmarks.field.likeness import measured
from benchmarks.field.page import page
from benchmarks.field.tools import TOOLS, PeerError, Tool, Traces
from models.dp.audit import NeighbourPair, audit
from models.eventlog import EventLog

RUNS = 3000


def bound(release: Tool, name: str) -> float:
    """The lower bound of epsilon on one pair of logs."""
    one, other, steps = NEIGHBOURS[name]
    pair = NeighbourPair(
        name, guarantee._outcomes(release, one, 1.0, RUNS), guarantee._outcomes(release, other, 1.0, RUNS), steps
    )
    return audit(pair, RUNS, delta=AUDIT_DELTA, alpha=ALPHA).epsilon / steps


def tool(name: str) -> Tool:
    (found,) = [one for one in TOOLS if one.name == name]
    return found


def test_travas_keeps_its_claim_and_half_its_noise_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published algorithm is not refuted; with the noise of three times the epsilon it is."""
    assert bound(tool("TraVaS"), "a case added") <= 1
    right = tools.travas
    monkeypatch.setattr(guarantee, "travas", lambda log, epsilon, delta: right(log, 3 * epsilon, delta))
    assert bound(tool("TraVaS"), "a case added") > 1


def test_travas_releases_counts_above_its_reach_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 1 and delta 1e-6 no variant of 14 cases or fewer shows fewer than 15, and one of 29 always leaves.

    The draws are seeded: in 200 others a single case would leave once in ten thousand runs of this test, as delta
    allows.
    """
    generator = np.random.default_rng(7)
    monkeypatch.setattr(np.random, "default_rng", lambda: generator)
    log = EventLog.from_traces([(("A",), None)] * 29 + [(("B",), None)] * 14 + [(("C",), None)])
    for _ in range(200):
        found = tools.travas(log, 1.0)
        assert all(count >= 15 for count in found.values())
        assert ("A",) in found
        assert ("C",) not in found


def test_the_control_shows_support_and_nothing_else() -> None:
    """Every variant, each once; an activity of one person's own shows, so no epsilon holds."""
    log = EventLog.from_traces([(("A",), None)] * 9 + [(("A", "B"), None)])
    assert tools._support(log, 1.0) == Counter({("A",): 1, ("A", "B"): 1})
    (row,) = [
        row
        for row in _guarantees(tool("control: all variants, each once"))
        if row["pair"] == "a case with an activity of its own"
    ]
    assert row["unbounded"]


def _guarantees(one: Tool) -> list[dict[str, object]]:
    runs, guarantee.AUDIT_RUNS = guarantee.AUDIT_RUNS, 200
    try:
        return guarantee.guarantees(one)
    finally:
        guarantee.AUDIT_RUNS = runs


def test_a_peer_that_is_not_installed_is_a_marked_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether its Python lacks a module or is none."""
    log = EventLog.from_traces([(("A",), None)] * 9)
    for python in (str(tmp_path / "none"), sys.executable):
        monkeypatch.setenv("VEILSTREAM_FIELD_PYTHON", python)
        with pytest.raises(PeerError, match="not installed"):
            tools.ask("pripel", tools.cases(log), 1.0, 4, runs=1, pruning=3)
    found = measured(log, tool("pm4py PRIPEL on Laplace"), 1.0, model=False)
    assert found["rounds"] == 0
    assert found["note"] == "not installed"


def test_page_shows_what_the_results_hold() -> None:
    """A release, a peer without time, one that was not run, a claim that is refuted."""
    results = {
        "sepsis 1 TraVaS": {
            "rounds": 3, "note": "", "similarity": 0.4567, "dfg_error": 0.25, "covered": 0.5, "true": 3.0,
            "invented": 0.0, "cpu": 0.01, "f1": None,
        },
        "sepsis 1 pm4py SaCoFa": {"rounds": 0, "note": "more than 60 CPU s"},
        "guarantee pm4py Laplace": [
            {"pair": "a case added", "epsilon": 1.5, "witness": "w", "runs": 9, "unbounded": False, "how": ""},
            {"pair": "another", "epsilon": 0.0, "witness": "", "runs": 9, "unbounded": True, "how": "seen"},
        ],
        "guarantee TraVaS": [
            {"pair": "a case added", "epsilon": 0.9, "witness": "w", "runs": 9, "unbounded": False, "how": ""}
        ],
    }  # fmt: skip
    shown = page(results)
    assert "| TraVaS | 3 | 0.457 | 0.25 | 0.5 | 3 | 0 | - | 0.01 |" in shown
    assert "| pm4py SaCoFa | none: more than 60 CPU s |" in shown
    assert "| pm4py Laplace | not run |" in shown
    with_epsilon, _, without = shown.partition("## sepsis, without an epsilon")
    assert "PRETSA" not in with_epsilon.partition("## sepsis, epsilon 1")[2]
    assert "| PRETSA, K = 10 (ours) | not run |" in without
    assert "| pm4py Laplace | epsilon | a case added | >= 1.50 | refuted | w |" in shown
    assert "| pm4py Laplace | epsilon | another | no epsilon | refuted | seen |" in shown
    assert "| TraVaS | (epsilon, delta) | a case added | >= 0.90 | not refuted | w |" in shown


def test_page_says_who_is_nearer_and_what_became_of_the_claim() -> None:
    """By measure; a program that is equal is not nearer; one that failed or was not run is not named."""

    def found(similarity: float, dfg_error: float, rounds: int = 3) -> dict[str, object]:
        zeros = dict.fromkeys(("covered", "true", "invented", "cpu"), 0.0)
        return {"rounds": rounds, "note": "slow", "similarity": similarity, "dfg_error": dfg_error, **zeros}

    kept = {"pair": "a case added", "epsilon": 1.0, "witness": "w", "unbounded": False, "how": ""}
    results = {
        "sepsis 0.1 dp-synthetic (ours)": found(0.5, 0.5),
        "sepsis 0.1 pm4py Laplace": found(0.6, 0.5),
        "sepsis 0.1 pm4py Laplace, epsilon over its levels": found(0.5, 0.4),
        "sepsis 0.1 pm4py SaCoFa": found(0.6, 0.4),
        "sepsis 0.1 pm4py PRIPEL on Laplace": found(0.4, 0.6),
        "sepsis 0.1 TraVaS": found(0.5, 0.5),
        "sepsis 1 PRETSA, K = 10 (ours)": found(0.9, 0.1, rounds=0),
        "sepsis 1 control: all variants, each once": found(0.9, 0.9),
        "guarantee pm4py Laplace": [kept, kept | {"epsilon": 1.01}],
        "guarantee pm4py SaCoFa": [kept | {"unbounded": True, "epsilon": 0.0}],
        "guarantee pm4py PRIPEL on Laplace": [{"pair": "a case added", "note": "not installed"}],
        "guarantee TraVaS": [kept],
        "bpic2012 1 TraVaS": found(0.5, 0.5),
    }
    (section,) = page(results).split("## Programs nearer than dp-synthetic")[1:]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert rows == [
        "| sepsis | 0.1 | TraVaS | pm4py Laplace: similarity (refuted); pm4py Laplace, epsilon over its levels: "
        "DFG error (not audited); pm4py SaCoFa: both (refuted); control: all variants, each once: similarity "
        "(claims no epsilon) |"
    ]


def test_results_are_kept_one_by_one(tmp_path: Path) -> None:
    """So that a run that is stopped can continue."""
    path = tmp_path / "deep" / "results.json"
    command._keep(path, "one", {"rounds": 1})
    command._keep(path, "two", Traces())
    assert list(json.loads(path.read_text())) == ["one", "two"]
