"""The audits `anonymity` and `series` on small releases: status, numbers, and what does not apply."""

from __future__ import annotations

import numpy as np

from models.eventlog import EventLog
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.audits.series import SeriesAudit
from stream.release.contract import Applicability, AuditContext, Build, Exposure, Record
from stream.release.mechanisms.identity import Identity

TRACES = [("ab", "X"), ("ab", "X"), ("ac", "Y"), ("abc", "X"), ("ab", "X")]


def record(sequence: int, cases: int) -> Record:
    """The release of the first cases, as they stand."""
    log = EventLog.from_traces(TRACES[:cases], "S")
    return Record(sequence, log, ("activity",), "minutes", ("S",))


def context(*sizes: int, applies: Applicability | None = None, late: int = 0) -> AuditContext:
    """Releases of growing size, the last one the candidate."""
    *earlier, candidate = (record(place, size) for place, size in enumerate(sizes, start=1))
    exposure = Exposure(candidate.log, np.ones(candidate.log.n_cases, dtype=bool), ("S",), 0)
    marks = {"anonymity": applies} if applies else {}
    build = Build(candidate.log, np.arange(candidate.log.n_cases), ("activity",), applies=marks)
    counts = {"non_append_insertions": late}
    return AuditContext(candidate, earlier, build, exposure, Identity(), (), counts)


def test_every_earlier_release_is_a_pair() -> None:
    """The third release is measured against the first and the second, by linkers and by real partners."""
    found = CorrespondenceAudit(n=(0,)).measure(context(3, 4, 5), {})
    assert (found["status"], found["append_only"], found["ka"]) == ("ok", True, 1)
    assert [pair["earlier"] for pair in found["results"]] == [1, 2]
    assert [pair["results"][0]["ba"] for pair in found["results"]] == [1, 1]
    assert [real["ba"] for real in found["true_linker"]] == [1, 1]


def test_a_dropped_case_leaves_only_the_real_partners() -> None:
    """A case that is gone makes linkers meaningless: results are null and the surviving cases are counted."""
    found = CorrespondenceAudit(n=(0,)).measure(context(5, 4), {})
    assert (found["status"], found["results"]) == ("cases_dropped", None)
    assert found["true_linker"][0]["survivors"] == 4


def test_late_insertions_are_not_incremental() -> None:
    """Late events break append-only growth: no exact number is given."""
    found = CorrespondenceAudit().measure(context(3, 4, late=1), {})
    assert (found["status"], found["append_only"], found["results"]) == ("not_incremental", False, None)


def test_mechanisms_without_persons_get_no_number() -> None:
    """Where records are not persons, status and reason stand in place of numbers."""
    found = CorrespondenceAudit().measure(context(3, 4, applies=Applicability("not_applicable", "no persons")), {})
    assert (found["status"], found["reason"]) == ("not_applicable", "no persons")
    assert (found["results"], found["true_linker"], found["ka"]) == (None, None, None)


def test_series_begins_with_the_third_release() -> None:
    """Two releases are a pair; three are a series, whose worst is at most the worst pair's."""
    for sizes in ((3, 4), (3, 4, 5)):
        asked = context(*sizes)
        pairs = CorrespondenceAudit(n=(0,)).measure(asked, {})
        found = SeriesAudit().measure(asked, {"anonymity": pairs})
        assert found["status"] == "ok"
        assert (found["results"] is None) == (len(sizes) == 2)
    assert found["worst"] <= min(row["results"][0]["ba"] for row in pairs["results"])
    assert found["releases"] == [1, 2, 3]


def test_series_needs_pairs_that_fit() -> None:
    """Where a pair does not fit the model, neither does the series."""
    asked = context(5, 4)
    pairs = CorrespondenceAudit(n=(0,)).measure(asked, {})
    assert SeriesAudit().measure(asked, {"anonymity": pairs})["status"] == "cases_dropped"
    assert SeriesAudit().measure(asked, {})["status"] == "not_applicable"
