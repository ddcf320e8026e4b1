"""The audits `risk` and `utility` on releases small enough to see."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from models.eventlog import EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits import risk
from stream.release.audits.risk import Risk
from stream.release.audits.utility import Utility
from stream.release.contract import Applicability, AuditContext, Build, Exposure
from stream.release.mechanisms.identity import Identity
from stream.release.pipeline import section_of

HOUR = 3_600_000_000_000


def _source(cases: int = 4) -> EventLog:
    traces = ["abc", "abc", "abd", "ab", "xyz"][:cases]
    return EventLog.from_traces([(trace, "flu") for trace in traces], "S")


def _context(source: EventLog, build: Build | None = None, earlier: tuple[ReleaseRecord, ...] = ()) -> AuditContext:
    exposure = Exposure(source, np.ones(source.n_cases, dtype=bool), ("S",), 0)
    build = build or Identity().build(exposure)
    candidate = ReleaseRecord(len(earlier) + 1, build.log, build.carries, build.T, ("S",))
    return AuditContext(candidate, earlier, build, exposure, Identity(), (), {})


def _without_d(source: EventLog) -> Build:
    kept = source.activity.codes != source.activity.values.index("d")
    return Build(source.select_events(kept), np.arange(source.n_cases), ("activity",))


def test_the_release_is_measured_next_to_the_source() -> None:
    """abd is the one unique case of four; without d it is none, and a survivor of neither."""
    source = _source()
    found = Risk(points=("all",)).measure(_context(source), {})
    assert (found["status"], found["worst"]) == ("ok", 0.25)
    assert found["singletons"] == {"source": 2, "release": 2, "surviving": 2}
    assert [row["unique_mean"] for row in found["source"] if row["projection"] == "E"] == [0.25]
    after = Risk(points=("all",)).measure(_context(source, _without_d(source)), {})
    assert after["worst"] == 0.0
    assert after["singletons"]["surviving"] == 0
    assert [row["unique_mean"] for row in after["source"] if row["projection"] == "E"] == [0.25]


def test_worst_is_the_highest_of_all_amounts() -> None:
    """The gate reads one number: the most unique amount of knowledge."""
    found = Risk(points=(1, 2, "all"), draws=3).measure(_context(_source(5)), {})
    assert found["worst"] == max(row["unique_mean"] for row in found["release"]) > 0


def test_relative_times_are_points_where_they_are_carried() -> None:
    """Two equal traces of different pace are alike by activity and unique once the release carries times."""
    source = EventLog.from_events(["1", "1", "2", "2"], list("abab"), np.asarray([0, HOUR, 0, 3 * HOUR]), unit="ns")
    exposure = Exposure(source, np.ones(2, dtype=bool), (), 0)
    for knowledge, expected in (("seq", 0.0), ("rel", 1.0)):
        build = Identity(knowledge=knowledge).build(exposure)  # type: ignore[arg-type]
        found = Risk(points=("all",), source=False).measure(_context(source, build), {})
        assert found["worst"] == expected


def test_the_sources_index_is_handed_on_and_follows_the_growth() -> None:
    """The second release takes over the first one's index; its figures are those of a fresh one."""
    first = _context(_source(3))
    Risk().measure(first, {})
    handed = [first.candidate.cache[key] for key in first.candidate.cache]
    second = _context(_source(5), earlier=(first.candidate,))
    found = Risk().measure(second, {})
    assert [second.candidate.cache[key] for key in second.candidate.cache] == handed
    assert found == Risk().measure(_context(_source(5)), {})


def test_of_a_large_log_no_index_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release that grows beyond the bound gives up the index of the one before; its figures are a fresh one's."""
    first = _context(_source(3))
    Risk().measure(first, {})
    assert first.candidate.cache
    monkeypatch.setattr(risk, "FOLLOWED", _source(3).n_events)
    second = _context(_source(5), earlier=(first.candidate,))
    found = Risk().measure(second, {})
    assert (first.candidate.cache, second.candidate.cache) == ({}, {})
    assert found == Risk().measure(_context(_source(5)), {})


def test_a_withheld_candidate_does_not_take_the_index_with_it() -> None:
    """Two attempts after one release, the first of them withheld: the second does not code the whole source again."""
    first = _context(_source(3))
    Risk().measure(first, {})
    handed = dict(first.candidate.cache)
    for cases in (4, 5):
        attempt = _context(_source(cases), earlier=(first.candidate,))
        found = Risk().measure(attempt, {})
        assert attempt.candidate.cache == handed
    assert found == Risk().measure(_context(_source(5)), {})


def test_a_projection_the_source_cannot_give_is_marked() -> None:
    """No event attributes: projection C appears there without a number."""
    found = Risk(projections=("C",)).measure(_context(_source()), {})
    assert [row["status"] for row in found["source"]] == ["not available"]


def test_mechanisms_may_say_that_a_measure_does_not_apply() -> None:
    """The reason of the mechanism appears instead of any number, in both audits."""
    source = _source()
    build = _without_d(source)
    for audit in (Risk(), Utility()):
        applies = {audit.name: Applicability("not_applicable", "because")}
        deaf = Build(build.log, build.origin, build.carries, applies=applies)
        assert section_of(audit, _context(source, deaf), {}) == {"status": "not_applicable", "reason": "because"}


@pytest.mark.parametrize("points", [(0,), ("0%",), ("some",)])
def test_bad_points_are_refused_when_the_configuration_is_read(points: tuple[int | str, ...]) -> None:
    """m = 0 does not wait for the first cut."""
    from models.errors import InputError

    with pytest.raises((ValidationError, InputError)):
        Risk(points=points)


def test_utility_of_a_release_that_lost_an_activity() -> None:
    """One of four traces loses one of three events; ordinal times are not compared."""
    source = _source()
    found = Utility().measure(_context(source, _without_d(source)), {})
    assert found["data_utility"] == pytest.approx(1 - 0.25 / 3)
    assert (found["status"], found["exact"]) == ("ok", True)
    assert found["dfg"]["precision"] == 1.0
    assert found["dfg"]["fitness"] == pytest.approx(6 / 7)
    assert found["emd_time_months"] is found["bottlenecks"] is found["handover"] is found["discovery"] is None
    assert found["mining"]["sentences"][-1].endswith("in the release no times")
    assert found["mining"]["dfg_error"] == pytest.approx(2 / 15)  # start and end count as activities


def test_beyond_the_bound_utility_is_a_lower_bound_and_is_marked() -> None:
    """With one pair allowed the bound is taken; here it meets the exact value."""
    source = _source()
    found = Utility(most_pairs=1).measure(_context(source, _without_d(source)), {})
    assert found["exact"] is False
    assert found["data_utility"] == pytest.approx(1 - 0.25 / 3)


def test_an_empty_release_has_no_figures_and_no_utility() -> None:
    """Nothing published: risk is not measured, utility is 0 so that a floor on it holds."""
    source = _source()
    nothing = Build(source.select_cases(np.asarray([], dtype=np.int64)), np.asarray([], dtype=np.int64), ("activity",))
    assert Risk().measure(_context(source, nothing), {})["status"] == "not_measured"
    assert Utility().measure(_context(source, nothing), {})["data_utility"] == 0.0
