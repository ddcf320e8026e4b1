"""Risk as what an attacker can know: artificial times are not knowledge, and true times are tried."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import write_log
from models.eventlog import EventLog
from models.risk.true_points import search_persons
from stream.commands import execute
from stream.config.settings import Settings
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.risk import Risk
from stream.release.contract import AuditContext, Build, Exposure
from stream.release.mechanisms.identity import Identity
from stream.release.mechanisms.tlkc import Tlkc
from stream.run.replay import Replay

HOUR = 3_600_000_000_000


def one_variant(cases: int = 200) -> EventLog:
    """Every case goes a -> b -> c; no two have the same times."""
    generator = np.random.default_rng(3)
    owner = [f"c{case}" for case in range(cases) for _ in "abc"]
    start = np.arange(cases) * 7 * HOUR
    steps = generator.integers(1, 1_000, size=(cases, 2)) * HOUR // 60
    times = np.stack([start, start + steps[:, 0], start + steps.sum(axis=1)], axis=1).ravel()
    return EventLog.from_events(owner, list("abc") * cases, times.astype("datetime64[ns]"))


def measured(log: EventLog, build: Build, **options: Any) -> Any:
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), int(log.time.max()))
    candidate = ReleaseRecord(1, build.log, build.carries, build.T, ())
    return Risk(source=False, **options).measure(AuditContext(candidate, (), build, exposure, Identity(), (), {}), {})


def microaggregated(log: EventLog) -> Build:
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), int(log.time.max()))
    build = Tlkc(K=5, times="microaggregated").build(exposure)
    return replace(build, carries=("activity", "relative_time"))  # as cohorts say it


def test_artificial_times_single_out_nobody() -> None:
    """All cases are alike but for times that were dealt out: no case is unique by what somebody can know. Counted as
    known, the dealt times would single out most cases: that is the upper limit."""
    log = one_variant()
    found = measured(log, microaggregated(log))
    assert found["basis"] == "knowable"
    assert found["worst"] == 0.0
    assert found["as_released"]["worst"] > 0.5


def test_true_times_find_nobody_among_artificial_ones() -> None:
    """Somebody who knows all true events to the minute, or to the day, finds hardly anybody. By chance one of 200
    records is right."""
    log = one_variant()
    for row in measured(log, microaggregated(log))["true_times"]:
        assert row["right"] <= 0.05
        assert row["right"] + row["wrong"] + row["several"] + row["none"] == pytest.approx(1)


def test_true_times_find_everybody_where_they_are_released() -> None:
    """Negative control: a release with the true times under the name of artificial ones is found out."""
    log = one_variant()
    build = replace(microaggregated(log), log=log)
    rows = {(row["times"], row["m"]): row for row in measured(log, build)["true_times"]}
    assert rows["minutes", "100%"]["right"] == 1.0
    assert rows[None, "100%"]["several"] == 1.0


def test_known_events_count_as_often_as_they_are_known() -> None:
    """aab is in one record, ab in two: who knows a twice finds the first. A removed event leaves no record."""
    log = EventLog.from_traces([("aab", None), ("ab", None), ("ab", None), ("abz", None)])
    released = log.select_events(np.asarray([value != "z" for value in log.activity.decode()]))
    found = search_persons(log, released, np.arange(4), ["100%"], None, np.random.default_rng(0))[0]
    assert (found.right, found.wrong, found.several, found.none) == (0.25, 0.0, 0.5, 0.25)


def test_a_record_that_is_no_case_is_search_persons_by_nobody() -> None:
    log = one_variant(4)
    assert search_persons(log, log, np.full(4, -1), [1], None, np.random.default_rng(0)) == []


def test_noised_times_still_count_as_known() -> None:
    """They are a record's own times: leaving them out would err on the unsafe side."""
    log = one_variant(20)
    build = Build(log, np.arange(20), ("activity",), time_basis="noised")
    found = measured(log, build)
    assert (found["basis"], found["worst"]) == ("as_released", 1.0)


def test_a_bound_on_uniqueness_does_not_withhold_for_artificial_times(tmp_path: Path) -> None:
    """max_uniqueness reads the same figure as the headline: the default mechanism can be bounded."""
    mechanism = {"kind": "tlkc-cohorts", "K": 5, "C": 1, "suppression": "local", "times": "microaggregated"}
    publication = {
        "name": "p",
        "window": {"new_cases": 50},
        "mechanism": mechanism,
        "audit": {"risk": True, "utility": False, "bk_length": 1},
        "gate": {"max_uniqueness": 0.1, "on_violation": "withhold"},
    }
    process = {"completion": {"log_end": True}}
    settings = Settings.model_validate({"process": process, "publication": [publication]})
    outcome = Replay(settings, tmp_path).run(one_variant(), final=True)
    assert "sealed" in [decision.status for _, decision in outcome.decisions]
    assert "uniqueness" not in [reason.code for _, decision in outcome.decisions for reason in decision.because]


@pytest.mark.parametrize("suffix", [".xes", ".xes.gz", ".parquet"])
@pytest.mark.parametrize(("basis", "noted"), [("microaggregated", True), ("noised", True), ("relative", False)])
def test_the_command_marks_artificial_times(
    tmp_path: Path, suffix: str, basis: str, noted: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """A release says what its times are; `risk` on it says what that makes of projection A, and of no other."""
    path = tmp_path / f"log{suffix}"
    write_log(one_variant(10), path, privacy={"mechanism": "tlkc"}, time_basis=basis)
    assert execute(["risk", str(path), "--points", "all", "--json"]) == 0
    notes = {one["projection"]: one["notes"] for one in json.loads(capfd.readouterr().out)["projections"]}
    assert any("upper limit" in note for note in notes["A"]) is noted
    assert notes["E"] == []


def test_a_log_without_metadata_of_times_gets_no_note(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    write_log(one_variant(10), path)
    assert execute(["risk", str(path), "--projection", "A", "--points", "all", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["notes"] == []
