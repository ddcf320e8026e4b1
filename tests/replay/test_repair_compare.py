"""Repair through the whole release life, and several publications side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.errors import InputError
from models.eventlog import Column, EventLog
from stream.config.settings import Settings
from stream.release.gate import GatePolicy, refuse_impossible, worst_anonymity
from stream.release.mechanisms.identity import Identity
from stream.release.mechanisms.tlkc import Tlkc
from stream.run.compare import COLUMNS, alternatives, cells, compare_publications
from stream.run.replay import Replay, ReplayOutcome

K = 4


@pytest.fixture(scope="module")
def log() -> EventLog:
    """Eighty cases over an hour each, one rare activity in some of them."""
    generator = np.random.default_rng(11)
    owner, names, times = [], [], []
    for case in range(80):
        for step, name in enumerate("ab" + "cde"[int(generator.integers(3))] + ("x" if case % 9 == 4 else "")):
            owner.append(f"c{case}")
            names.append(name)
            times.append((case * 20 + step * 15) * 60_000_000_000)
    values = {"S": {f"c{case}": "pqr"[case % 3] for case in range(80)}}
    return EventLog.from_events(owner, names, np.asarray(times), case_attributes=values, unit="ns")


@pytest.fixture(scope="module")
def compared(log: EventLog, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReplayOutcome, Replay]:
    publication = {
        "name": "research",
        "window": {"new_cases": 16},
        "mechanism": {"kind": "tlkc", "K": K, "C": 0.7},
        "audit": {"bk_length": 2, "n": [0], "risk": False},
    }
    table = {"process": {"name": "toy", "sensitive": ["S"]}, "publication": [publication]}
    replay = Replay(alternatives(Settings.model_validate(table), log), tmp_path_factory.mktemp("compare"))
    return replay.run(log), replay


def test_repair_and_cohorts_hold_where_anonymizing_again_falls(
    log: EventLog, compared: tuple[ReplayOutcome, Replay]
) -> None:
    """One table: the attack succeeds on plain TLKC only; cohorts make cases wait, repair costs events."""
    outcome, replay = compared
    rows = {row["publication"]: row for row in compare_publications(replay, outcome, log)}
    assert list(rows) == ["re-anonymize", "repair", "cohorts", "dp"]
    assert rows["re-anonymize"]["ba"] < K
    for name in ("repair", "cohorts"):
        assert rows[name]["releases"] >= 2
        assert all(rows[name][measure] is None or rows[name][measure] >= K for measure in ("ka", "fa", "ca", "ba"))
    assert rows["repair"]["events_kept"] < rows["re-anonymize"]["events_kept"]
    assert rows["cohorts"]["held"] > 0 == rows["repair"]["held"]
    assert rows["dp"]["ka"] is rows["dp"]["delay_days"] is None
    assert all(len(cells(row)) == len(COLUMNS) for row in rows.values())


def manifest(replay: Replay, publication: str, sequence: int) -> Any:
    folder = Path(replay.service.pipelines[publication].store.location(publication, sequence))
    return msgspec.json.decode((folder / "manifest.json").read_bytes())


def test_relative_times_are_compared_without_repair(log: EventLog) -> None:
    """A way that cannot be repaired is left out, and the other ways are still compared."""
    mechanism = {"kind": "tlkc", "knowledge": "rel", "K": K}
    table = {"publication": [{"name": "p", "window": {"new_cases": 16}, "mechanism": mechanism}]}
    found = alternatives(Settings.model_validate(table), log)
    assert [one.name for one in found.publication] == ["re-anonymize", "cohorts", "dp"]


def test_the_manifest_states_what_the_repair_cost(compared: tuple[ReplayOutcome, Replay]) -> None:
    """Events and cases lost beyond the unrepaired release, public; the decision and its reasons in the audit."""
    outcome, replay = compared
    repaired = [
        decision
        for name, decision in outcome.decisions
        if name == "repair" and (decision.audit.get("gate") or {}).get("decision") == "repaired"
    ]
    assert repaired
    for decision in repaired:
        public = manifest(replay, "repair", decision.sequence)
        cost = public["mechanism"]["repair"]
        assert cost["events"] > 0
        assert (cost["by"], cost["suppression"]) == ("events", "exact")
        assert cost["hidden"]["events"] >= cost["hidden"]["cases"] > 0
        bounds = {"ka": K, "fa": K, "ca": K, "ba": K, "bk_length": 2, "n": [0], "against": "all"}
        assert cost["bounds"] == bounds
        assert "rules of repair" in public["promise"]["not_guaranteed"]
        assert "since events were removed" in public["promise"]["not_guaranteed"]
        assert any("ba" in reason for reason in decision.audit["gate"]["reasons"])


def test_a_release_that_hides_no_event_of_one_case_promises_more(log: EventLog, tmp_path: Path) -> None:
    """Unrepaired, and repaired by items: what goes, goes in every case, and the manifest names no rule of hiding."""
    publication = {
        "name": "research",
        "window": {"new_cases": 16},
        "mechanism": {"kind": "tlkc", "K": K, "C": 0.7, "repair_by": "items", "suppression": "local"},
        "audit": {"bk_length": 2, "n": [0], "risk": False, "utility": False},
        "gate": {"min_ka": K, "min_ba": K, "on_violation": "repair"},
    }
    table = {"process": {"name": "toy", "sensitive": ["S"]}, "publication": [publication]}
    replay = Replay(Settings.model_validate(table), tmp_path / "out")
    outcome = replay.run(log)
    sealed = [one for _, one in outcome.decisions if one.status == "sealed"]
    repaired = [one for one in sealed if one.audit["gate"]["decision"] == "repaired"]
    passed = [one for one in sealed if one.audit["gate"]["decision"] == "passed"]
    assert repaired
    assert passed
    for one in repaired:
        public = manifest(replay, "research", one.sequence)
        assert public["mechanism"]["repair"]["by"] == "items"
        assert public["mechanism"]["repair"]["suppression"] == "exact"
        assert "rules of" not in public["promise"]["not_guaranteed"]
        assert "minimality" not in one.audit
    for one in passed:
        public = manifest(replay, "research", one.sequence)
        assert "repair" not in public["mechanism"]
        assert "rules of local suppression" in public["promise"]["not_guaranteed"]
        assert one.audit["minimality"].keys() == {"audited", "below_k", "least_cases"}


def test_utility_of_resources_is_measured_under_their_released_names(log: EventLog, tmp_path: Path) -> None:
    """Nothing is suppressed, so nothing is lost: pseudonyms are not loss, and a floor of utility does not withhold."""
    staffed = replace(log, resource=Column(log.activity.codes, tuple(f"staff {name}" for name in log.activity.values)))
    publication = {
        "name": "staff",
        "window": {"new_cases": 40},
        "mechanism": {"kind": "tlkc", "attribute": "re", "L": 1, "K": 2, "C": 1.0},
        "audit": {"risk": False, "anonymity": False},
        "gate": {"min_utility": 1.0},
    }
    replay = Replay(Settings.model_validate({"publication": [publication]}), tmp_path / "out")
    outcome = replay.run(staffed, final=True)
    (*_, (_, last)) = outcome.decisions
    assert last.status == "sealed"
    assert last.audit["utility"]["data_utility"] == 1.0
    assert last.audit["utility"]["handover"]["fitness"] == 1.0


def test_repair_is_refused_where_nothing_can_be_suppressed_further() -> None:
    """A configuration error, not a repair that never comes."""
    policy = GatePolicy(min_ba=4, on_violation="repair")
    refuse_impossible(policy, Tlkc(), "here")
    for mechanism in (Identity(), Tlkc(knowledge="rel")):
        with pytest.raises(InputError, match="suppress further"):
            refuse_impossible(policy, mechanism, "here")


def test_an_exact_minimum_without_a_real_case_behind_it_is_passed_over() -> None:
    """`behind` says how many real cases appear there: 0 is nobody, 1 is somebody."""
    for count, expected in ((0, 20), (1, 3)):
        row = {"n": 1, "linker": "exists", "ba": 3, "behind": {"ba": count}}
        found = {
            "results": [{"earlier": 1, "results": [row]}],
            "true_linker": [{"earlier": 1, "ba": 20}],
        }
        assert worst_anonymity(found, "ba") == expected
