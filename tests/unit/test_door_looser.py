"""A configuration that protects less than the last release did: who is warned, and what needs an approval again."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from models.eventlog import EventLog
from stream.commands import execute
from stream.config.settings import Settings
from stream.operator.console.releases import queue
from stream.operator.history import LOOSER, read
from stream.operator.report.data import collect
from stream.release.approval import PersonDecision
from stream.release.contract import Attempt, Exposure
from stream.release.looser import looser_mechanism
from tests.unit.test_pipeline_rules import DP, QUIET, _attempt, _service, _settings

TERMS = {"kind": "tlkc", "L": 2, "K": 20, "C": 0.5}


def _publication(K: int, bound: int | None, approval: str = "none") -> Settings:
    gate = {} if bound is None else {"min_ka": bound}
    return _settings({"mechanism": {**TERMS, "K": K}, "gate": gate, "approval": approval, "hold": "supersede"})


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_looser_configuration_is_reported_until_it_has_released(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each start says it, `check-config -o` before it, and the next release keeps it; then it is the former one."""
    with _service(tmp_path, _publication(20, 20)) as service:
        assert service.decide_attempt("p", _attempt()).status == "sealed"
    assert _warnings(caplog) == []
    sentence = "p: looser than its last release: K is 5 (20 at release 1); gate.min_ka is 5 (20 at release 1)"
    looser = _publication(5, 5)
    file = tmp_path / "looser.toml"
    file.write_text(tomli_w.dumps(looser.written()), encoding="utf-8")
    assert execute(["check-config", str(file), "-o", str(tmp_path / "out"), "--json"]) == 0
    assert sentence in json.loads(capsys.readouterr().out)["warnings"]
    for _start in range(2):
        caplog.clear()
        with _service(tmp_path, looser):
            assert _warnings(caplog) == [sentence]
    with _service(tmp_path, looser) as service:
        decision = service.decide_attempt("p", _attempt("p@2.0.0"))
        assert decision.audit["looser"] == ["K is 5 (20 at release 1)", "gate.min_ka is 5 (20 at release 1)"]
        assert "looser" not in service.decide_attempt("p", _attempt("p@3.0.0")).audit
    caplog.clear()
    with _service(tmp_path, looser) as service:
        assert "looser" not in service.decide_attempt("p", _attempt("p@4.0.0")).audit
    assert _warnings(caplog) == []
    reasons = [row["reasons"] for row in read(tmp_path / "out").rows]
    expected = [f"{LOOSER} K is 5 (20 at release 1)", f"{LOOSER} gate.min_ka is 5 (20 at release 1)"]
    assert reasons == [[], expected, [], []]
    attempts = collect(tmp_path / "out")["publications"][0]["attempts"]
    assert not any(row["warned"] for row in attempts)  # the gate warned of nothing
    page = tmp_path / "statement.md"
    assert execute(["statement", str(tmp_path / "out"), "p", "-o", str(page)]) == 0
    said = "Release 2 protects less than the one before it: K is 5 (20 in release 1)."
    assert page.read_text(encoding="utf-8").count(said) == 1


def test_a_stricter_configuration_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A larger K protects more."""
    with _service(tmp_path, _publication(20, 20)) as service:
        service.decide_attempt("p", _attempt())
    with _service(tmp_path, _publication(30, 30)) as service:
        assert "looser" not in service.decide_attempt("p", _attempt("p@2.0.0")).audit
    assert _warnings(caplog) == []


def test_a_held_release_shows_its_looser_terms(tmp_path: Path) -> None:
    """Who decides on it sees them in the list of releases, also of one that takes the place of another held one."""
    with _service(tmp_path, _publication(20, 20, "required")) as service:
        service.decide_attempt("p", _attempt())
        service.rule(PersonDecision("p", 1, "approve", "Ann", "fine"))
    for number in (2, 3):
        with _service(tmp_path, _publication(5, None, "required")) as service:
            assert service.decide_attempt("p", _attempt(f"p@{number}.0.0")).status == "held"
        held = read(tmp_path / "out").rows[-1]
        assert (held["sequence"], held["status"]) == (number, "held")
        assert held["reasons"][1:] == [
            f"{LOOSER} K is 5 (20 at release 1)",
            f"{LOOSER} gate.min_ka is not set (20 at release 1)",
        ]
    (shown,) = queue(tmp_path / "out")
    line = "K is 5 (20 at release 1); gate.min_ka is not set (20 at release 1)"
    assert ("Looser than the release before", line) in shown.facts
    with _service(tmp_path, _publication(5, None, "required")) as service:
        service.rule(PersonDecision("p", 3, "approve", "Ann", "agreed"))
        assert "looser" not in service.decide_attempt("p", _attempt("p@4.0.0")).audit


def test_an_approval_that_is_dropped_is_needed_once_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next release is held, also after a restart and a rejection; an approved one ends it."""
    with _service(tmp_path, _publication(20, 20, "required")) as service:
        service.decide_attempt("p", _attempt())
        service.rule(PersonDecision("p", 1, "approve", "Ann", "fine"))
    dropped = _publication(20, 20)
    with _service(tmp_path, dropped) as service:
        assert service.decide_attempt("p", _attempt("p@2.0.0")).status == "held"
        service.rule(PersonDecision("p", 2, "reject", "Ann", "why was the approval dropped?"))
        assert service.decide_attempt("p", _attempt("p@3.0.0")).status == "held"
    assert "the next release is held once more" in _warnings(caplog)[-1]
    with _service(tmp_path, dropped) as service:
        service.rule(PersonDecision("p", 3, "approve", "Ann", "agreed"))
        assert service.decide_attempt("p", _attempt("p@4.0.0")).status == "sealed"
    caplog.clear()
    with _service(tmp_path, dropped) as service:
        assert service.decide_attempt("p", _attempt("p@5.0.0")).status == "sealed"
    assert _warnings(caplog) == []


def test_a_sensitive_attribute_that_is_no_longer_one_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C stays, and bounds its values no more: all cases of a group may share one."""

    def settings(*names: str, C: float = 0.5) -> Settings:
        return _settings({"mechanism": {**TERMS, "C": C}}, process={"sensitive": list(names)})

    traces = [("ab", "flu"), ("ab", "cold"), ("ab", "cough")] * 60
    log = EventLog.from_traces(traces, "ill")
    exposure = replace(_attempt().exposure, log=log, complete=np.ones(180, dtype=np.bool_), sensitive=("ill",))
    with _service(tmp_path, settings("ill", "age")) as service:
        decision = service.decide_attempt("p", replace(_attempt(), exposure=exposure))
        assert (decision.status, decision.audit["bounded"]) == ("sealed", ["ill", "age"])
    assert _warnings(caplog) == []
    with _service(tmp_path, settings("age")) as service:
        sentences = ["values of ill are not bounded by C (they were at release 1)"]
        assert _warnings(caplog) == [f"p: looser than its last release: {sentences[0]}"]
        assert service.decide_attempt("p", _attempt("p@2.0.0")).audit["looser"] == sentences
    caplog.clear()
    with _service(tmp_path, settings("age", "ill", C=1)) as service:
        assert _warnings(caplog) == ["p: looser than its last release: C is 1.0 (0.5 at release 2)"]
        assert "bounded" not in service.decide_attempt("p", _attempt("p@3.0.0")).audit


@pytest.mark.parametrize(
    ("parameters", "former", "sentences"),
    [
        ({"L": 1}, {"L": 2}, ["L is 1 (2 before)"]),
        ({"cases_per_person": 1}, {"cases_per_person": 3}, ["cases_per_person is 1 (3 before)"]),
        ({"C": 0.9}, {"C": 0.5}, ["C is 0.9 (0.5 before)"]),
        ({"epsilon": "1/3"}, {"epsilon": 0.25}, ["epsilon is 1/3 (0.25 before)"]),
        ({"epsilon": 0.25}, {"epsilon": "1/3"}, []),
        ({"delta_dp": 1e-05}, {"delta_dp": 1e-06}, ["delta_dp is 1e-05 (1e-06 before)"]),
        ({"rho": 0.2, "epsilon": None}, {"rho": 0.1, "epsilon": None}, ["rho is 0.2 (0.1 before)"]),
        (
            {"knowledge": "mult", "also": ["set"]},
            {"knowledge": "seq", "also": ["mult", "set"]},
            ["knowledge seq is not promised any more (it was before)"],
        ),
        ({"knowledge": "seq", "also": ["mult", "set"]}, {"knowledge": "set", "also": []}, []),
    ],
)
def test_each_looser_term_is_named(parameters: dict[str, Any], former: dict[str, Any], sentences: list[str]) -> None:
    """A parameter that protects less is named with both values; one that protects more is not."""
    now, earlier = ({"kind": "k", "parameters": values} for values in (parameters, former))
    assert looser_mechanism(now, earlier, "before") == sentences


def test_another_kind_of_mechanism_is_named_alone() -> None:
    """Its parameters have other meanings."""
    now, earlier = ({"kind": kind, "parameters": {"K": K}} for kind, K in (("identity", 1), ("tlkc", 20)))
    assert looser_mechanism(now, earlier, "before") == ["the mechanism is identity (tlkc before)"]


def test_a_gate_that_only_warns_from_now_on_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No bound is lower, and each may be broken."""

    def settings(action: str) -> Settings:
        return _settings({"mechanism": TERMS, "gate": {"min_ka": 20, "on_violation": action}})

    with _service(tmp_path, settings("warn")) as service:
        service.decide_attempt("p", _attempt())
    with _service(tmp_path, settings("withhold")) as service:
        assert "looser" not in service.decide_attempt("p", _attempt("p@2.0.0")).audit
    assert _warnings(caplog) == []
    with _service(tmp_path, settings("warn")):
        assert _warnings(caplog) == [
            "p: looser than its last release: a broken bound only warns, gate.on_violation is warn "
            "(withhold at release 2)"
        ]


def _budgeted(epsilon: str | None, delta: str | None = None) -> Settings:
    limits = {"max_epsilon": epsilon, "max_delta": delta}
    budget = {name: limit for name, limit in limits.items() if limit is not None}
    return _settings({"mechanism": DP}, process={"budget": budget})


def test_a_raised_budget_of_the_process_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A person was promised the former limit over all publications; a lower or equal one is no news."""
    with _service(tmp_path, _budgeted("1", "0.002")) as service:
        assert service.decide_attempt("p", _attempt()).status == "sealed"
    for silent in (_budgeted("1", "0.002"), _budgeted("0.75", "0.002")):
        with _service(tmp_path, silent):
            assert _warnings(caplog) == []
    with _service(tmp_path, _budgeted("3")) as service:
        sentences = [
            "process.budget.max_epsilon is 3 (1 at release 1)",
            "process.budget.max_delta is not set (0.002 at release 1)",
        ]
        assert _warnings(caplog) == [f"p: looser than its last release: {'; '.join(sentences)}"]
        assert service.decide_attempt("p", _attempt("p@2.0.0")).audit["looser"] == sentences
        assert "looser" not in service.decide_attempt("p", _attempt("p@3.0.0")).audit


def test_a_bound_over_fewer_n_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The gate uses the least value over all n; more of them ask for more."""

    def settings(*n: int) -> Settings:
        return _settings({"mechanism": TERMS, "gate": {"min_ka": 5}, "audit": {**QUIET, "bk_length": 2, "n": list(n)}})

    with _service(tmp_path, settings(0)) as service:
        service.decide_attempt("p", _attempt())
    with _service(tmp_path, settings(0, 1)) as service:
        service.decide_attempt("p", _attempt("p@2.0.0"))
    assert _warnings(caplog) == []
    with _service(tmp_path, settings(0)):
        assert _warnings(caplog) == ["p: looser than its last release: audit.n lacks 1 (measured at release 2)"]


def test_an_attribute_that_is_released_from_now_on_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each case shows more than at the releases that a person has looked at."""

    def settings(*names: str) -> Settings:
        publication = {"mechanism": TERMS, "release_attributes": list(names)}
        return _settings(publication, process={"attributes": {"public": ["ward"]}})

    with _service(tmp_path, settings()) as service:
        service.decide_attempt("p", _attempt())
    assert _warnings(caplog) == []
    with _service(tmp_path, settings("ward")):
        assert _warnings(caplog) == [
            "p: looser than its last release: ward is released with the cases (it was not at release 1)"
        ]


RESOURCES = {"kind": "identity", "knowledge": "set", "attribute": "ar"}
TIMES = {"kind": "identity", "knowledge": "rel"}


@pytest.mark.parametrize(
    ("former", "now", "sentences"),
    [
        ({}, {"process": {"raw_resources": True}}, ["resources leave as names (pseudonyms at release 1)"]),
        ({"process": {"raw_resources": True}}, {}, []),
        (
            {"mechanism": {**RESOURCES, "attribute": "ac"}},
            {"process": {"raw_resources": True}},
            ["resources leave (they did not at release 1)"],
        ),
        ({}, {"mechanism": {**RESOURCES, "attribute": "ac"}}, []),
        (
            {"process": {"resource_roles": {"nurse": ["Ann"]}}, "resources": "roles"},
            {"resources": "pseudonyms"},
            ["resources leave as pseudonyms (roles at release 1)"],
        ),
        ({"mechanism": {**TIMES, "T": "hours"}}, {"mechanism": TIMES}, ["times are in minutes (hours at release 1)"]),
        ({"mechanism": TIMES}, {"mechanism": {**TIMES, "T": "days"}}, []),
        (
            {"mechanism": TERMS},
            {"mechanism": {**TERMS, "times": "microaggregated"}},
            ["times leave (they did not at release 1)"],
        ),
    ],
)
def test_what_a_release_shows_in_addition_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, former: dict[str, Any], now: dict[str, Any], sentences: list[str]
) -> None:
    """The names of employees left after releases with pseudonyms, and no start, audit or statement said so."""

    def settings(process: dict[str, Any] | None = None, **publication: Any) -> Settings:
        return _settings({"mechanism": RESOURCES, "formats": ["csv"], **publication}, process=process or {})

    cases = [str(case) for case in range(200)]
    log = EventLog.from_events(cases, ["a"] * 200, np.zeros(200, dtype=np.int64), resource=["Ann"] * 200, unit="ns")
    exposure = Exposure(log, np.ones(200, dtype=np.bool_), (), 0, roles=("nurse",) if "resources" in former else None)
    with _service(tmp_path, settings(**former)) as service:
        assert service.decide_attempt("p", Attempt("p@1.0.0", "manual", 0, exposure, {})).status == "sealed"
    caplog.clear()
    expected = [f"p: looser than its last release: {sentence}" for sentence in sentences]
    with _service(tmp_path, settings(**now)):
        assert _warnings(caplog) == expected


def _cohorts(**terms: Any) -> Settings:
    # Without a bound of the gate: what follows is about the terms of the mechanism alone.
    return _settings({"mechanism": {"kind": "tlkc-cohorts", "L": 2, "K": 20, "suppression": "local", **terms}})


@pytest.mark.parametrize("terms", [{"K": 30}, {"L": 3}, {"alphabet": "common"}], ids=lambda terms: next(iter(terms)))
def test_a_start_says_that_a_series_cannot_continue_under_other_terms(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], terms: dict[str, Any]
) -> None:
    """A stricter K, too: each cut is withheld, the first perhaps a week after the start."""
    with _service(tmp_path, _cohorts()) as service:
        assert service.decide_attempt("p", _attempt()).status == "sealed"
    former = {"K": "K = 20", "L": "L = 2", "alphabet": "alphabet = 'per-cohort'"}[next(iter(terms))]
    warning = f"p: its releases promise {former}, and a series keeps these terms: with others each release is withheld"
    other = _cohorts(**terms)
    file = tmp_path / "other.toml"
    file.write_text(tomli_w.dumps(other.written()), encoding="utf-8")
    assert execute(["check-config", str(file), "-o", str(tmp_path / "out"), "--json"]) == 0
    assert any(line.startswith(warning) for line in json.loads(capsys.readouterr().out)["warnings"])
    with _service(tmp_path, other) as service:
        assert [line.startswith(warning) for line in _warnings(caplog)] == [True]
        decision = service.decide_attempt("p", _attempt("p@2.0.0", ("abc",) * 400))
        assert decision.status == "withheld"
        assert former in decision.reasons[0]


def test_a_start_is_silent_about_terms_that_a_series_may_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """How long cases wait is no promise; and other kinds of mechanisms continue under other terms."""
    with _service(tmp_path, _cohorts()) as service:
        service.decide_attempt("p", _attempt())
    with _service(tmp_path, _cohorts(patience=9)):
        assert _warnings(caplog) == []
