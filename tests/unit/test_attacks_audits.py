"""The audits `anonymity` and `series` on small releases: status, numbers, and what does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.errors import InputError, RefusedError
from models.eventlog import EventLog
from stream.config.settings import Publication
from stream.ledger.release_record import ReleaseRecord
from stream.release import gate
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.audits.series import SeriesAudit
from stream.release.contract import Applicability, AuditContext, Build, Exposure
from stream.release.gate import GatePolicy
from stream.release.mechanisms.identity import Identity
from stream.release.pipeline import section_of


def after_audit(policy: GatePolicy, audit: Mapping[str, Any]) -> list[str]:
    """Return the reasons of the gate as people read them."""
    return [reason.text for reason in gate.after_audit(policy, audit)]


TRACES = [("ab", "X"), ("ab", "X"), ("ac", "Y"), ("abc", "X"), ("ab", "X")]


def record(sequence: int, cases: int) -> ReleaseRecord:
    """The release of the first cases, as they are."""
    log = EventLog.from_traces(TRACES[:cases], "S")
    return ReleaseRecord(sequence, log, ("activity",), "minutes", ("S",))


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


def test_the_least_n_of_no_linker_is_not_searched() -> None:
    """The field stays in its place; it is null, since the search can take longer than the rest of the audit."""
    asked = context(3, 3)
    shortened = EventLog.from_traces([("b", "X"), ("ab", "X"), ("ac", "Y")], "S")
    candidate = asked.candidate.showing(shortened)
    asked = replace(asked, candidate=candidate, build=replace(asked.build, log=shortened))
    row = CorrespondenceAudit(n=(0,)).measure(asked, {})["results"][0]["results"][0]
    assert (row["linker"], row["least_n"]) == ("none", None)
    assert [obstacle["least_n"] for obstacle in row["witness"]] == [None]


def test_a_dropped_case_leaves_only_the_real_partners() -> None:
    """A case that is gone makes linkers meaningless: results are null and the surviving cases are counted."""
    found = CorrespondenceAudit(n=(0,)).measure(context(5, 4), {})
    assert (found["status"], found["results"]) == ("cases_dropped", None)
    assert found["true_linker"][0]["survivors"] == 4


def test_late_insertions_are_not_incremental() -> None:
    """Late events break append-only growth: no exact number is given."""
    found = CorrespondenceAudit().measure(context(3, 4, late=1), {})
    assert (found["status"], found["append_only"], found["results"]) == ("not_incremental", False, None)


def test_late_insertions_of_a_release_between_are_not_incremental_either() -> None:
    """Release 2 took in a late event: what release 3 shows of the cases of release 1 did not only grow."""
    asked = context(3, 4, 5)
    asked.earlier[1].audit = {"counts": {"non_append_insertions": 1}}
    found = CorrespondenceAudit(n=(0,)).measure(asked, {})
    assert (found["status"], found["append_only"], found["results"]) == ("not_incremental", False, None)
    last = CorrespondenceAudit(n=(0,), against="last").measure(asked, {})
    assert (last["status"], last["append_only"]) == ("ok", True)


def test_releases_that_carry_other_things_are_not_compared() -> None:
    """A mechanism that was changed between releases: no number can be given, so nothing leaves."""
    asked = context(3, 4)
    asked.earlier[0].carries = ("activity", "relative_time")
    with pytest.raises(RefusedError, match="release 1 carries activity, relative_time in minutes, this one activity"):
        CorrespondenceAudit(n=(0,)).measure(asked, {})


@pytest.mark.parametrize("keys", [{"against": 0}, {"against": -1}, {"bk_on": ["colour"]}, {"bk_on": []}, {"n": []}])
def test_keys_out_of_range_are_refused_when_the_file_is_read(keys: dict[str, Any]) -> None:
    """`against = 0` once meant all, `against = -1` all but the first."""
    with pytest.raises(ValidationError):
        CorrespondenceAudit(**keys)


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        ({"leakage": {"window": 0}}, r"audit\.leakage\.window: "),
        ({"leakage": "last"}, r"audit\.leakage: must be a table of its keys"),
        ({"series": 3}, r"audit\.series: must be a table of its keys"),
        ({"bk_length": 0}, r"audit\.bk_length: "),
    ],
)
def test_a_fault_names_its_table_and_key(audit: dict[str, Any], message: str) -> None:
    """Also where a value replaces a table: it was once taken for `true`."""
    table = {"name": "p", "window": {"new_cases": 9}, "mechanism": {"kind": "identity"}, "audit": audit}
    with pytest.raises(InputError, match=message):
        Publication.model_validate(table)


def test_background_knowledge_of_what_is_not_carried_is_refused() -> None:
    """The releases hold no resources, so nothing can be said about an adversary who knows them."""
    with pytest.raises(InputError, match=r"audit\.bk_on: the releases do not carry resource"):
        CorrespondenceAudit(bk_on=("resource",)).measure(context(3, 4), {})


def test_a_gate_takes_realisable_minima_only() -> None:
    """The least of `all` is 0 if no case can be the victim; a gate passes over it, so it would pass everything."""
    table = {"name": "p", "window": {"new_cases": 9}, "mechanism": {"kind": "identity"}, "audit": {"minimum": "all"}}
    assert Publication.model_validate(table).audit == {"minimum": "all"}
    with pytest.raises(InputError, match=r'audit\.minimum = "all" is for reports'):
        Publication.model_validate({**table, "gate": {"min_fa": 2}})


def test_mechanisms_without_persons_get_no_number() -> None:
    """If records are not persons, status and reason replace numbers."""
    applies = Applicability("not_applicable", "no persons")
    found = section_of(CorrespondenceAudit(), context(3, 4, applies=applies), {})
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
    """If a pair does not fit the model, the series does not fit either."""
    asked = context(5, 4)
    pairs = CorrespondenceAudit(n=(0,)).measure(asked, {})
    assert SeriesAudit().measure(asked, {"anonymity": pairs})["status"] == "cases_dropped"
    assert SeriesAudit().measure(asked, {})["status"] == "not_applicable"


def test_every_pair_of_a_series_must_fit() -> None:
    """`against = "last"` looks at one pair; release 2, which had dropped a case, is in the series all the same."""
    asked = context(3, 4, 5)
    asked.earlier[0].audit = {"counts": {"suppressed_cases": 1}}
    pairs = CorrespondenceAudit(n=(0,), against="last").measure(asked, {})
    assert pairs["status"] == "ok"
    assert SeriesAudit().measure(asked, {"anonymity": pairs})["status"] == "cases_dropped"


def test_a_series_without_a_linker_does_not_pass() -> None:
    """Pairs that no linker joins are left out of the numbers; a bound on the rest alone would say nothing of them."""
    log = EventLog.from_traces([("ba", value) for _, value in TRACES], "S")
    asked = context(3, 4, 5)
    asked = replace(asked, candidate=ReleaseRecord(9, log, ("activity",), "minutes", ("S",)))
    asked.earlier[1].sequence = 8
    for removed, passed in ((0, False), (1, True)):
        given = replace(asked, build=replace(asked.build, n_actual=removed))
        pairs = CorrespondenceAudit(n=(0,)).measure(given, {})
        found = SeriesAudit().measure(given, {"anonymity": {**pairs, "status": "ok"}})
        reasons = after_audit(GatePolicy(min_series=1), {"series": found})
        assert reasons == (
            [] if passed else ["series: no linker joins releases 1 and 9 at n = 0: its premise does not hold"]
        )
