"""Cohorts through the whole release life: the gate on every attack passes, and events are all accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.attacks.correspondence import anonymity
from models.attacks.pairs import join_releases, next_occurrences
from models.attacks.true_linker import true_counts
from stream.config.settings import Settings
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.comparison import partners, simple
from stream.release.gate import worst_anonymity
from stream.run.replay import Replay, ReplayOutcome
from tests.replay.test_replay_logs import accounted

K = 20
GATE = {"min_ka": K, "min_fa": K, "min_ca": K, "min_ba": K}
END = ["Release A", "Release B", "Release C", "Release D", "Release E"]


def settings(mechanism: dict[str, Any], gate: dict[str, Any]) -> Settings:
    """Sepsis at every 210 cases, complete when released from hospital or silent for a month."""
    process = {
        "name": "sepsis",
        "sensitive": ["Diagnose"],
        "completion": {"end_activities": END, "inactivity": "30d"},
    }
    publication = {
        "name": "research",
        "window": {"new_cases": 210},
        "mechanism": {"L": 2, "K": K, "C": 0.5, **mechanism},
        "audit": {"bk_length": 2, "n": [0, 1], "risk": False, "utility": False},
        "gate": gate,
    }
    return Settings.model_validate({"process": process, "publication": [publication]})


@pytest.fixture(scope="module")
def cohorts(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReplayOutcome, Replay]:
    replay = Replay(settings({"kind": "tlkc-cohorts"}, GATE), tmp_path_factory.mktemp("cohorts"))
    return replay.run(read_log(logs / "sepsis.xes.gz")), replay


def test_every_cut_is_published_under_all_bounds(cohorts: tuple[ReplayOutcome, Replay]) -> None:
    """With bounds on KA, FA, CA and BA no cut is withheld, where plain TLKC falls."""
    outcome, _ = cohorts
    assert not outcome.withheld
    assert len(outcome.decisions) == 5
    for _, decision in outcome.decisions:
        found = decision.audit["anonymity"]
        assert (found["status"], found["time_basis"], found["linker"]) == ("ok", "first_published", "identity")
        assert len(found["cohorts"]) == decision.sequence


def test_plain_tlkc_falls_on_the_same_cuts(logs: Path, tmp_path: Path) -> None:
    """The attack that cohorts withstand is real: re-anonymizing everything leaves fewer than K cases."""
    loaded = settings({"kind": "tlkc"}, {**GATE, "on_violation": "warn"})
    outcome = Replay(loaded, tmp_path / "out").run(read_log(logs / "sepsis.xes.gz"))
    worst = [worst_anonymity(decision.audit["anonymity"], "ba") for _, decision in outcome.decisions[1:]]
    assert min(value for value in worst if value is not None) < K


def _behind(earlier: ReleaseRecord, later: ReleaseRecord, bk: list[Any] | None, n: int, name: str) -> int:
    """Return how many real cases match the background knowledge."""
    assert bk is not None
    given = join_releases(simple(earlier), simple(later))
    return true_counts(given, next_occurrences(given), partners(earlier, later), bk, n)[name]


def test_a_case_keeps_its_value_when_the_event_that_bore_it_goes(
    cohorts: tuple[ReplayOutcome, Replay], logs: Path
) -> None:
    """Diagnose is on one event of a case; suppression may take it, and the value was bounded all the same."""
    _, replay = cohorts
    log = read_log(logs / "sepsis.xes.gz")
    names = map(replay.service.pseudonyms.case, log.case_ids)
    known = dict(zip(names, log.case_values("Diagnose").decode(), strict=True))
    last = replay.service.pipelines["research"].earlier[-1].log
    shown = dict(zip(last.case_ids, last.case_values("Diagnose").decode(), strict=True))
    assert shown == {case: known[case] for case in shown}


def test_the_exact_attacker_finds_nothing_on_what_was_sealed(cohorts: tuple[ReplayOutcome, Replay]) -> None:
    """Every pair of sealed releases, as read back, attacked by the product's own exact search: K, or no real case is
    behind what it finds (docs/fcb-safe.md)."""
    _, replay = cohorts
    records = replay.service.pipelines["research"].earlier
    for later in range(1, len(records)):
        for earlier in range(later):
            answer = anonymity(simple(records[earlier]), simple(records[later]), bk_length=2, n=(0, 1))
            for one in answer.results:
                assert one.linker == "exists"
                for name in ("fa", "ca", "ba"):
                    if (value := one.values[name]) is not None and value < K:
                        assert _behind(records[earlier], records[later], one.worst[name], one.n, name) == 0


def test_all_events_are_accounted_for(cohorts: tuple[ReplayOutcome, Replay]) -> None:
    """Open cases and the queue are pending; late events of published cases are suppressed, and counted."""
    outcome, _ = cohorts
    assert accounted(outcome)
    late = [decision.audit["late_lost"] for _, decision in outcome.decisions]
    assert late == sorted(late)
    assert late[-1] > 0


def test_local_cohorts_of_sepsis_keep_what_they_should(logs: Path, tmp_path: Path) -> None:
    """The safe default on Sepsis: every cut leaves under all bounds, .93 of all events, every activity of 5 % of the
    cases; nothing waits at the end. With queues that were all or nothing: .909, without Admission IC and Release B."""
    log = read_log(logs / "sepsis.xes.gz")
    mechanism = {"kind": "tlkc-cohorts", "suppression": "local", "L": 2, "K": K, "C": 0.5}
    publication = {
        "name": "research",
        "window": {"new_cases": 105},
        "mechanism": mechanism,
        "audit": {"bk_length": 2, "n": [0, 1], "risk": False, "utility": False},
        "gate": GATE,
    }
    process = {"name": "sepsis", "sensitive": ["Diagnose"], "completion": {"log_end": True}}
    settings = Settings.model_validate({"process": process, "publication": [publication]})
    replay = Replay(settings, tmp_path / "out")
    outcome = replay.run(log, final=True)
    assert not outcome.withheld
    last = outcome.decisions[-1][1].audit
    assert last["counts"]["released"] >= 0.93 * log.n_events
    assert last["counts"]["pending"] == 0
    holders = {name: sum(name in trace for trace in log.traces()) for name in log.activity.values}
    often = {name for name, count in holders.items() if count >= 0.05 * log.n_cases}
    assert often <= set(replay.service.pipelines["research"].earlier[-1].log.activity.values)
    for _, decision in outcome.decisions:
        assert (worst_anonymity(decision.audit["anonymity"], "ka") or 0) >= K
