"""The main job on real logs: ten cuts, every event accounted for, releases that process-mining tools read."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.replay import measure
from connectors import read_log
from models.errors import InputError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release.failpoints import Faults
from stream.run.replay import Replay, ReplayOutcome, check_against
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import replay


def settings(**publication: Any) -> Settings:
    """One publication of Sepsis-like logs, identity by default."""
    body = {"name": "research", "window": {"new_cases": 100}, "mechanism": {"kind": "identity"}, **publication}
    return Settings.model_validate({"process": {"name": "sepsis", "sensitive": ["Diagnose"]}, "publication": [body]})


@pytest.fixture(scope="module")
def sepsis(logs: Path) -> EventLog:
    return read_log(logs / "sepsis.xes.gz")


def accounted(outcome: ReplayOutcome) -> bool:
    """seen = released + suppressed + pending + late at every cut, and after the last event."""
    for _, decision in outcome.decisions:
        counts = decision.audit["counts"]
        parts = counts["released"] + counts["suppressed_events"] + counts["pending"] + counts["late"]
        if counts["seen"] != parts:
            return False
    return all(
        tail["seen"] == tail["released"] + tail["suppressed"] + tail["pending"] + tail["late"]
        for tail in outcome.tail.values()
    )


def test_sepsis_gives_ten_cuts_and_one_for_the_rest(sepsis: EventLog, tmp_path: Path) -> None:
    """new_cases = 100 cuts 1,050 cases ten times; --final adds the last fifty."""
    outcome = Replay(settings(), tmp_path / "out").run(sepsis, final=True)
    assert [decision.sequence for _, decision in outcome.decisions] == list(range(1, 12))
    assert [decision.audit["counts"]["released_cases"] for _, decision in outcome.decisions][-2:] == [1000, 1050]
    assert accounted(outcome)
    assert outcome.tail["research"]["released"] == 15_214


def test_baseline_1_accounts_for_what_it_suppresses(sepsis: EventLog, tmp_path: Path) -> None:
    """Dropped variants are suppressed events, not lost ones."""
    outcome = Replay(settings(mechanism={"kind": "baseline-1", "K": 2}), tmp_path / "out").run(sepsis)
    assert accounted(outcome)
    assert all(decision.audit["counts"]["suppressed_events"] > 0 for _, decision in outcome.decisions)


def test_pm4py_reads_a_release_without_a_warning(sepsis: EventLog, tmp_path: Path) -> None:
    """Variants, directly-follows graph and inductive miner work on what recipients get."""
    outcome = Replay(settings(), tmp_path / "out").run(sepsis)
    path = tmp_path / "out" / "public" / "research" / "release-000010" / "log.xes.gz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pm4py
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pm4py.read_xes(str(path), variant="iterparse")
    counts = outcome.decisions[-1][1].audit["counts"]
    assert len(frame) == counts["released"]
    assert frame["case:concept:name"].nunique() == counts["released_cases"]
    dfg, starts, ends = pm4py.discover_dfg(frame)
    assert sum(starts.values()) == sum(ends.values()) == counts["released_cases"]
    assert sum(dfg.values()) == counts["released"] - counts["released_cases"]
    released = sorted(tuple(trace) for trace in read_log(path).traces())
    assert sum(pm4py.get_variants(frame).values()) == len(released)
    assert pm4py.discover_process_tree_inductive(frame) is not None


def test_manifest_lists_its_files_and_audit_stays_apart(sepsis: EventLog, tmp_path: Path) -> None:
    """Digests are those of the bytes; the public folder holds nothing but the log and its manifest."""
    import hashlib

    Replay(settings(formats=["xes", "csv", "parquet"]), tmp_path / "out").run(sepsis)
    folder = tmp_path / "out" / "public" / "research" / "release-000003"
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    assert sorted(path.name for path in folder.iterdir()) == [
        "log.csv.gz",
        "log.parquet",
        "log.xes.gz",
        "manifest.json",
    ]
    for file in manifest["files"]:
        data = (folder / file["path"]).read_bytes()
        assert (file["sha256"], file["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert (manifest["sequence"], manifest["previous"]) == (3, 2)


def test_a_window_that_would_cut_without_end_is_refused(sepsis: EventLog) -> None:
    """A window of a millisecond over a year and a half: 47 billion releases."""
    with pytest.raises(InputError, match=r"publication 'research': the log spans 4[0-9]{10} windows"):
        check_against(settings(window={"every": "1ms"}), sepsis)
    check_against(settings(window={"every": "1m"}), sepsis)


def test_speed_follows_event_time_and_a_run_that_goes_on_waits_for_the_rest_only(world: Path) -> None:
    """Twice as fast as it was: half the time between the first event and the last, or what of it is left."""
    waits: list[float] = []
    replay(world, world / "calm", speed=2.0, sleep=waits.append)
    times = np.sort(read_log(world / "log.xes").time) / 1e9
    assert sum(waits) == pytest.approx((times[-1] - times[0]) / 2)
    with pytest.raises(Aborted):
        replay(world, speed=2.0, sleep=lambda _seconds: None, at=at_nth("checkpointed", 3, abort))
    rest: list[float] = []
    replay(world, speed=2.0, sleep=rest.append)
    assert 0 < len(rest) < len(waits)
    assert sum(rest) == pytest.approx((times[-1] - times[-len(rest)]) / 2)


HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("values", "released"),
    [
        ((datetime(1980, 2, 29, tzinfo=UTC), datetime(1990, 1, 1, tzinfo=UTC)), {"1980-02-29T00:00:00+00:00"}),
        ((2**70, "old"), {str(2**70)}),
        ((math.inf, "old"), {"inf"}),
    ],
)
def test_a_sensitive_value_that_json_cannot_carry_is_the_same_in_every_release(
    tmp_path: Path, values: tuple[Any, Any], released: set[str]
) -> None:
    """Dates and the like are text from the start, as in the daemon: no audit finds that they changed on the way through
    state, variants and memory, also where the run was broken off."""
    cases = [f"c{number}" for number in range(30) for _ in "abc"]
    ill = {f"c{number}": values[number % 2] for number in range(30)}
    log = EventLog.from_events(cases, list("abc" * 30), np.arange(90) * HOUR, case_attributes={"ill": ill}, unit="ns")
    mechanism = {"kind": "tlkc-cohorts", "K": 3, "L": 2, "C": 1.0}
    audit = {"risk": False, "utility": False, "series": False}
    publication = {"name": "p", "window": {"new_cases": 10}, "mechanism": mechanism, "audit": audit}
    publication["release_attributes"] = ["ill"]
    process = {"name": "x", "sensitive": ["ill"], "completion": "log_end"}
    loaded = Settings.model_validate({"process": process, "publication": [publication]})
    with pytest.raises(Aborted):
        Replay(loaded, tmp_path / "out", faults=Faults(at_nth("checkpointed", 2, abort)), batch=30).run(log)
    outcome = Replay(loaded, tmp_path / "out").run(log)
    assert [one.audit["anonymity"]["status"] for _, one in outcome.decisions] == ["ok"] * 3
    for number in (1, 2, 3):
        file = tmp_path / "out" / "public" / "p" / f"release-00000{number}" / "log.xes.gz"
        found = {str(value) for value in read_log(file).case_attributes["ill"].values}
        assert released < found
        assert len(found) == 2


def test_a_large_log_is_replayed_whole_with_every_audit(logs: Path) -> None:
    """BPIC 2012 with nothing configured: each release audited against all before, every event accounted for.

    Of 13,087 cases ten windows of a tenth would leave 7, too few for a cohort. The window has 1,309 cases: nine
    releases, and 1,306 cases wait for `--final`.
    """
    found = measure(logs / "bpic2012.xes.gz", [], mine=False)
    assert found["releases"] == 9
    assert sum(found["tail"].values()) == 262_200
    assert found["read_by_pm4py"]["events"] == found["released"] > 200_000
    assert [one["earlier"] for one in found["true_linker"]] == list(range(1, 9))
    assert all(one[name] >= 1 for one in found["true_linker"] for name in ("fa", "ca", "ba"))
