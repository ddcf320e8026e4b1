"""One cut's way where publications, clocks, charges and repairs meet: what is written down, and what is asked."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from models.attacks import linkability
from models.errors import RefusedError
from models.eventlog import Column, EventLog
from stream.ledger import release_record
from stream.ledger.folder import EndedBuild, StartedBuild
from stream.ledger.layout import OperatorLayout
from stream.release import pipeline, public_files
from stream.release.audits import comparison
from stream.release.contract import Attempt, Exposure
from stream.release.failpoints import Failpoint, Faults
from stream.release.schedule import RealClock, ReleaseClock, SimulatedClock
from stream.run.service import ProcessContext, ReleaseService
from tests.entries import body_of, entry
from tests.unit.test_pipeline_rules import DP, IDENTITY, _attempt, _public, _service, _settings

COHORTS = {
    "kind": "tlkc-cohorts", "knowledge": "seq", "attribute": "ac", "L": 1, "K": 2, "C": 1, "suppression": "local",
}  # fmt: skip
TLKC = {"kind": "tlkc", "knowledge": "seq", "attribute": "ac", "L": 1, "K": 1, "C": 1}
HOUR = 3_600_000_000_000


def _operator(folder: Path, number: int, name: str = "p") -> Path:
    return folder / "out" / "operator" / name / f"{number:06d}"


def test_the_operators_copy_names_the_source_cases(tmp_path: Path) -> None:
    """Every case by the id of the one it is an instance of, the first one too; a record that is not a person has
    none."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY}, {"mechanism": DP})) as service:
        attempt = _attempt(traces=("ab", "ac", "ad"))
        service.pipelines["p"].attempt(attempt)
        service.pipelines["q"].attempt(_attempt("q@1.0.0"))
    found = release_record.read(_operator(tmp_path, 1) / "variants.parquet")
    assert sorted(found.log.case_ids) == sorted(attempt.exposure.log.case_ids)
    assert set(release_record.read(_operator(tmp_path, 1, "q") / "variants.parquet").log.case_ids) == {""}


@pytest.mark.parametrize(
    ("mechanism", "window", "clock", "moment", "said"),
    [
        (IDENTITY, {"every": "1d", "time": "wall"}, SimulatedClock(), None, True),
        (IDENTITY, {"every": "1d", "time": "event"}, SimulatedClock(), None, False),
        (IDENTITY, {"manual": True}, SimulatedClock(), None, False),
        (IDENTITY, {"every": "1d", "time": "wall"}, None, None, False),
        (DP, {"manual": True}, SimulatedClock(), 48 * HOUR, True),
        (DP, {"manual": True}, SimulatedClock(), None, False),
    ],
)
def test_a_clock_that_was_simulated_is_said(
    tmp_path: Path, mechanism: dict[str, Any], window: dict[str, Any], clock: ReleaseClock | None, moment: int | None,
    said: bool,
) -> None:  # fmt: skip
    """No moment that a recipient sees comes from the machine: windows of wall time, and fixed delays."""
    table = {"mechanism": mechanism, "window": window}
    if "every" in window:
        table["start"] = "2024-01-01T00:00:00Z"
    with closing(
        ReleaseService(_settings(table), tmp_path / "out", context=ProcessContext(clock=clock or RealClock()))
    ) as service:
        assert service.pipelines["p"].attempt(_attempt(moment=moment)).status == "sealed"
    assert (_public(tmp_path, 1).get("clock") == "simulated") is said


def test_a_release_that_waits_has_its_moment_in_the_seal(tmp_path: Path) -> None:
    """So that a start after a crash publishes it then; one that is published at once has none. The audience appears
    there too, where the series is one of an audience."""
    settings = _settings({"mechanism": DP}, {"mechanism": IDENTITY})
    with closing(ReleaseService(settings, tmp_path / "out", context=ProcessContext(clock=SimulatedClock()))) as service:
        service.pipelines["p"].attempt(_attempt(moment=48 * HOUR))
        service.pipelines["q"].attempt(_attempt("q@1.0.0"))
        paid, plain = (body_of(one) for one in service.ledger.entries() if one.kind == "seal")
    assert paid["publish_at"] == 48 * HOUR + 15 * 60 * 1_000_000_000
    assert "publish_at" not in plain
    assert "audience" not in paid
    assert plain["audience"] == "everyone"


def test_the_chain_names_the_last_one_and_counts_all(tmp_path: Path) -> None:
    """Digest and number of the last release, and how many numbers the process has sealed; a release whose manifest may
    not depend on data counts those elsewhere that were paid for."""
    settings = _settings({"mechanism": IDENTITY}, {"mechanism": DP}, {"mechanism": DP})
    with closing(ReleaseService(settings, tmp_path / "out", context=ProcessContext(clock=SimulatedClock()))) as service:
        for name, number in (("p", 1), ("p", 2), ("q", 1), ("r", 1), ("r", 2), ("p", 3), ("q", 2)):
            assert service.pipelines[name].attempt(_attempt(f"{name}@{number}.0.0")).sequence == number

    def digest(name: str, number: int) -> str:
        path = tmp_path / "out" / "public" / name / f"release-{number:06d}" / "manifest.json"
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert [_public(tmp_path, number)["chain"]["releases"] for number in (1, 2, 3)] == [1, 2, 6]
    assert [_public(tmp_path, number, "q")["chain"]["releases"] for number in (1, 2)] == [1, 4]
    assert [_public(tmp_path, number, "r")["chain"]["releases"] for number in (1, 2)] == [2, 3]
    assert [_public(tmp_path, number)["previous"] for number in (1, 2, 3)] == [None, 1, 2]
    before = [None, digest("p", 1), digest("p", 2)]
    assert [_public(tmp_path, number)["chain"]["previous_manifest"] for number in (1, 2, 3)] == before


def test_a_pipeline_by_itself_has_nothing_elsewhere(tmp_path: Path) -> None:
    """Neither charges nor numbers of other publications, until a service passes them."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        one = service.pipelines["p"]
        alone = pipeline.Pipeline(one.spec, one.ledger, one.store, one.folder, one.pseudonyms, one.audience)
        assert [alone.ledger.view.sealed_elsewhere("p", charged=charged) for charged in (True, False)] == [0, 0]
        assert alone.gaps_accepted == 0


def test_each_stage_has_its_own_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that continues by one second a look, every stage takes one."""
    looks = iter(range(5, 100))
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(monotonic=lambda: float(next(looks)), time=time.time))
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        seconds = service.pipelines["p"].attempt(_attempt()).audit["seconds"]
    assert set(seconds) >= {"build", "anonymity", "files", "read_back"}
    assert set(seconds.values()) == {1.0}


def test_a_pseudonym_of_the_fold_is_the_name_that_is_hidden(tmp_path: Path) -> None:
    """A release shows a pseudonym of the fold's one; what the fold holds as a name is named so first."""
    inner = "r-0123456789abcdef"
    log = EventLog.from_events(["1", "2"], ["a", "a"], np.asarray([0, 0]), resource=[inner, "Anna"], unit="ns")
    table = {"mechanism": {"kind": "identity", "knowledge": "set", "attribute": "re"}, "formats": ["csv"]}
    with _service(tmp_path, _settings(table, process={"name": "ward"})) as service:
        exposure = Exposure(log, np.ones(2, dtype=np.bool_), (), 0)
        service.pipelines["p"].attempt(Attempt("p@1.0.0", "manual", 0, exposure, {}))
        names = service.pseudonyms
    released = read_log(tmp_path / "out/public/p/release-000001/log.csv.gz")
    assert set(released.resource.values) == {
        names.resource(inner, "ward"),
        names.resource(names.resource("Anna"), "ward"),
    }


def test_whose_releases_stand_in_the_way(tmp_path: Path) -> None:
    """A message names the publication that another mechanism released for: this one, or one of the same audience."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        service.pipelines["p"].attempt(_attempt())
    for name, whose in (("p", "the releases of p were"), ("q", "the releases of p to the same audience were")):
        with _service(tmp_path, _settings({"name": name, "mechanism": COHORTS})) as service:
            found = service.pipelines[name].attempt(_attempt(f"{name}@2.0.0"))
        assert found.reasons == [f"{whose} made by identity; give tlkc-cohorts its own publication"]
    with _service(tmp_path, _settings({"name": "r", "mechanism": IDENTITY})) as service:  # remembers nothing of others
        assert service.pipelines["r"].attempt(_attempt("r@1.0.0")).status == "sealed"


def test_a_memory_from_before_audiences_belongs_to_who_left_it(tmp_path: Path) -> None:
    """Cohorts that nobody is said to show are those of the publication whose release remembers them."""
    with _service(tmp_path, _settings({"mechanism": COHORTS})) as service:
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
    path = _operator(tmp_path, 1) / "memory.json"
    memory = json.loads(path.read_text(encoding="utf-8"))
    for cohort in memory["cohorts"]:
        assert cohort.pop("shown") == ["p"]
    path.write_text(json.dumps(memory), encoding="utf-8")
    with _service(tmp_path, _settings({"mechanism": COHORTS}, {"mechanism": COHORTS})) as service:
        assert service.pipelines["q"].attempt(_attempt("q@1.0.0")).status == "sealed"
    after = json.loads((_operator(tmp_path, 1, "q") / "memory.json").read_text(encoding="utf-8"))
    assert "p" in after["cohorts"][0]["shown"]


@pytest.mark.parametrize("kind", ["tlkc", "dp-variants"])
def test_an_attribute_that_names_single_cases_is_refused(tmp_path: Path, kind: str) -> None:
    """The cut is withheld with the way out. A dp release shows no attribute: a refusal would reveal something about the
    data."""
    log = EventLog.from_traces([("ab", None)] * 200)
    log = log.with_columns(case={"phone": Column.encode(str(number) for number in range(200))}, event={})
    attempt = Attempt("p@1.0.0", "manual", 0, Exposure(log, np.ones(200, dtype=np.bool_), ("phone",), 0), {})
    mechanism = TLKC if kind == "tlkc" else DP
    with _service(tmp_path, _settings({"mechanism": mechanism})) as service:
        found = service.pipelines["p"].attempt(attempt)
    if kind == "tlkc":
        assert found.status == "withheld"
        assert "attribute 'phone' has 200 values in 200 cases" in found.reasons[0]
    else:
        assert found.status == "sealed"


def test_bytes_that_break_the_promise_never_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that loses a case: the cut is withheld with the fault, and the files are put aside, not published."""

    def losing(log: EventLog, path: Path, **more: Any) -> None:
        write_log(log.select_cases(np.arange(log.n_cases - 1)), path, **more)

    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        with monkeypatch.context() as patch:
            patch.setattr(public_files, "write_log", losing)
            found = service.pipelines["p"].attempt(_attempt())
        fault = "read back from log.xes.gz: 199 cases and 398 events, not 200 and 400"
        assert (found.status, found.reasons) == ("withheld", [fault])
        assert found.audit["gate"] == {"decision": "withheld", "reasons": [fault]}
        assert list((tmp_path / "out" / "public" / "p").iterdir()) == []
        assert len(list((tmp_path / "out").rglob("quarantine/p/*"))) == 1
        assert service.pipelines["p"].attempt(_attempt("p@2.0.0")).sequence == 1


def test_a_number_that_was_lost_leaves_nothing_in_public(tmp_path: Path) -> None:
    """The loser's files are put aside."""

    def race(name: str) -> None:
        if name == "files_written":
            service.ledger.append(entry("seal", publication="p", cut="p@9.0.0", sequence=1, owner="other"))

    with _service(tmp_path, _settings({"mechanism": IDENTITY}), race) as service:
        with pytest.raises(RefusedError, match="sealed by another process"):
            service.pipelines["p"].attempt(_attempt())
        assert list((tmp_path / "out" / "public" / "p").iterdir()) == []
        assert len(list((tmp_path / "out").rglob("quarantine/p/*"))) == 1


def test_a_build_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    """Withheld; what the operator would have kept of it is gone, the files are put aside."""
    clock = SimulatedClock(monotonic=iter([0, 10**18]).__next__)
    with closing(
        ReleaseService(_settings({"mechanism": DP}), tmp_path / "out", context=ProcessContext(clock=clock))
    ) as service:
        found = service.pipelines["p"].attempt(_attempt(moment=48 * HOUR))
        assert (found.status, found.reasons) == ("withheld", ["the build took longer than publish_after allows"])
        assert [entry.kind for entry in service.ledger.entries() if entry.kind != "note"] == ["charge", "withheld"]
    assert list((tmp_path / "out" / "public" / "p").iterdir()) == []
    assert list((tmp_path / "out" / "operator" / "p").iterdir()) == []
    assert len(list((tmp_path / "out").rglob("quarantine/p/*"))) == 1


def test_the_build_because_of_which_a_process_ended_is_withheld_once(tmp_path: Path) -> None:
    """Before anything is charged; every other cut is built, and the decision stays when the record is gone."""
    with closing(
        ReleaseService(_settings({"mechanism": DP}), tmp_path / "out", context=ProcessContext(clock=SimulatedClock()))
    ) as service:
        service.folder.note_ended_build(EndedBuild("p@1.0.0", 901.5, 900.0))
        one = service.pipelines["p"]
        assert one.attempt(_attempt("p@0.0.0", moment=48 * HOUR)).status == "sealed"
        assert service.folder.ended_build() is not None
        found = one.attempt(_attempt("p@1.0.0", moment=48 * HOUR))
        reason = "the build took longer than longest_build allows (900 s): the process was ended after 902 s"
        assert (found.status, found.reasons) == ("withheld", [reason])
        assert service.folder.ended_build() is None
        again = one.attempt(_attempt("p@1.0.0", moment=48 * HOUR))
        assert (again.status, again.reasons) == ("withheld", [reason])
        assert one.attempt(_attempt("p@2.0.0", moment=48 * HOUR)).status == "sealed"
        charged = [entry.cut for entry in service.ledger.entries() if entry.kind == "charge"]
        assert charged == ["p@0.0.0", "p@2.0.0"]


def test_a_record_of_an_ended_build_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """The cut is built again, and noted again if it takes too long."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        OperatorLayout(tmp_path / "out").ended_build.write_bytes(b"{")
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"


def _daemons(folder: Path, mechanism: Any, at: Any = lambda _point: None) -> ReleaseService:
    """The service of a daemon."""
    return ReleaseService(
        _settings({"mechanism": mechanism}), folder / "out", faults=Faults(at), context=ProcessContext(intake="records")
    )


def _killed_in_a_build(folder: Path, attempt: Attempt) -> int:
    """Decide an attempt in a process that is killed at the end of its build; return how the process ended."""

    def die(point: str) -> None:
        if point == Failpoint.BUILT:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            _daemons(folder, IDENTITY, die).pipelines["p"].attempt(attempt)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_build_that_was_killed_twice_is_withheld(tmp_path: Path) -> None:
    """The third start withholds the cut and names its size; the next cut is built, and the decision stays."""
    attempt = _attempt("p@1.0.0")
    assert [_killed_in_a_build(tmp_path, attempt) for _ in range(2)] == [-signal.SIGKILL] * 2
    log = attempt.exposure.log
    with closing(_daemons(tmp_path, IDENTITY)) as service:
        one = service.pipelines["p"]
        found = one.attempt(attempt)
        assert found.status == "withheld"
        reason = f"was killed 2 times while it built this cut ({log.n_cases} cases, {log.n_events} events)"
        assert reason in found.reasons[0]
        assert "too little memory" in found.reasons[0]
        assert one.attempt(attempt).reasons == found.reasons
        assert one.attempt(_attempt("p@2.0.0")).status == "sealed"
        assert service.folder.started_build() is None


def test_one_kill_during_a_build_withholds_nothing(tmp_path: Path) -> None:
    """It can have another cause. A finished build clears the count, and so does a build of another cut."""
    assert _killed_in_a_build(tmp_path, _attempt("p@1.0.0")) == -signal.SIGKILL
    assert _killed_in_a_build(tmp_path, _attempt("p@2.0.0")) == -signal.SIGKILL
    with closing(_daemons(tmp_path, IDENTITY)) as service:
        assert service.folder.started_build() == StartedBuild("p@2.0.0", 1)
        one = service.pipelines["p"]
        assert [one.attempt(_attempt(f"p@{cut}.0.0")).status for cut in (1, 2)] == ["sealed", "sealed"]
        assert service.folder.started_build() is None


@pytest.mark.parametrize(("error", "is_counted"), [(RefusedError("no"), False), (MemoryError(), True)])
def test_an_error_of_a_build_is_no_kill(tmp_path: Path, error: Exception, is_counted: bool) -> None:
    """A process that ends in order is started again without a limit, unless it had too little memory."""

    def fail(point: str) -> None:
        if point == Failpoint.BUILT:
            raise error

    with closing(_daemons(tmp_path, IDENTITY, fail)) as service:
        with pytest.raises(type(error)):
            service.pipelines["p"].attempt(_attempt("p@1.0.0"))
        assert service.folder.started_build() == (StartedBuild("p@1.0.0", 1) if is_counted else None)


def test_a_replay_counts_no_kills(tmp_path: Path) -> None:
    """A person starts it again, with more memory: its releases are those of a replay that was not killed."""
    seen = []

    def look(point: str) -> None:
        if point == Failpoint.BUILT:
            seen.append(OperatorLayout(tmp_path / "out").started_build.exists())

    settings = _settings({"mechanism": IDENTITY})
    with closing(
        ReleaseService(settings, tmp_path / "out", faults=Faults(look), context=ProcessContext(intake="rows"))
    ) as service:
        service.pipelines["p"].attempt(_attempt("p@1.0.0"))
    assert seen == [False]


def test_a_record_of_a_started_build_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """The count begins again."""
    with closing(_daemons(tmp_path, IDENTITY)) as service:
        OperatorLayout(tmp_path / "out").started_build.write_bytes(b"{")
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
        assert not OperatorLayout(tmp_path / "out").started_build.exists()


def test_an_audit_that_needs_too_much_room_withholds_its_cut_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names the audit and what to ask for; other publications and the next cut go on."""
    audited = {"mechanism": IDENTITY, "audit": {"n": [0], "method": "exact"}}
    with _service(tmp_path, _settings(audited, {"mechanism": DP})) as service:
        one = service.pipelines["p"]
        assert one.attempt(_attempt(traces=("ab", "ac", "ab"))).status == "sealed"
        with monkeypatch.context() as small:
            small.setattr(linkability, "MOST_RUNS", 0)
            withheld = one.attempt(_attempt("p@2.0.0", traces=("ab", "ac", "ab", "ac")))
        assert (withheld.status, [reason.code for reason in withheld.because]) == ("withheld", ["premise"])
        assert withheld.reasons[0].startswith(
            "anonymity: not measured (with n = 0 the links between records have over 0 runs"
        )
        assert service.pipelines["q"].attempt(_attempt("q@1.0.0")).status == "sealed"
        assert one.attempt(_attempt("p@3.0.0", traces=("ab", "ac", "ab", "ac"))).sequence == 2


def test_a_release_keeps_no_tables_of_its_comparison(tmp_path: Path) -> None:
    """They are as large as the releases that it was compared with, and only its own audits read them."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        one = service.pipelines["p"]
        for number in range(1, 4):
            one.attempt(_attempt(f"p@{number}.0.0"))
        assert len(one.earlier) == 3
        assert [record for record in one.earlier if comparison.COMPARISON in record.cache] == []


def test_audits_of_the_next_release_see_this_one(tmp_path: Path) -> None:
    """With what they ask of its audit, as the operator's folder has it."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        one = service.pipelines["p"]
        first = one.attempt(_attempt())
        assert [record.sequence for record in one.earlier] == [1]
        assert one.earlier[0].audit == {name: first.audit[name] for name in ("cut", "counts", "n_actual")}
        second = one.attempt(_attempt("p@2.0.0"))
        assert [record.sequence for record in one.earlier] == [1, 2]
        assert one.audience.last_audit("p") == one.audit_of(2)
        assert one.audit_of(2)["cut"] == second.audit["cut"] != first.audit["cut"]


def test_a_mirror_has_the_operators_files_before_the_seal(tmp_path: Path) -> None:
    """A host that takes over finds what the seal names."""
    mirrored: list[tuple[str, str, list[str]]] = []

    class Mirror:
        def put_release(self, publication: str, temporary: str, folder: Path) -> None:
            mirrored.append((publication, temporary, sorted(path.name for path in folder.iterdir())))
            assert [entry for entry in service.ledger.entries() if entry.kind == "seal"] == []

    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        service.pipelines["p"].mirror = Mirror()  # type: ignore[assignment]
        service.pipelines["p"].attempt(_attempt())
        (seal,) = (entry for entry in service.ledger.entries() if entry.kind == "seal")
    assert mirrored == [("p", seal.body.operator, ["audit.json", "digests.json", "memory.json", "variants.parquet"])]


RARE = ("ab",) * 6 + ("ac",)


def test_a_release_that_the_gate_refuses_is_repaired(tmp_path: Path) -> None:
    """One case is alone until c is gone: the audit reports it, with the reason that was; what passes needs none."""
    for traces, decision in (
        (RARE, {"decision": "repaired", "reasons": ["ka: 1 is below 2"]}),
        (("ab",) * 6, {"decision": "passed", "reasons": []}),
    ):
        folder = tmp_path / decision["decision"]  # type: ignore[operator]
        folder.mkdir()
        gate = {"min_ka": 2, "on_violation": "repair"}
        with _service(folder, _settings({"mechanism": TLKC, "gate": gate})) as service:
            found = service.pipelines["p"].attempt(_attempt(traces=traces))
        assert (found.status, found.audit["gate"]) == ("sealed", decision)
        assert ("repair" in _public(folder, 1)["mechanism"]) is (decision["decision"] == "repaired")


def test_nothing_is_repaired_that_was_not_asked_for(tmp_path: Path) -> None:
    """Under `withhold` the same release stays where it is."""
    with _service(tmp_path, _settings({"mechanism": TLKC, "gate": {"min_ka": 2}})) as service:
        assert service.pipelines["p"].attempt(_attempt(traces=RARE)).reasons == ["ka: 1 is below 2"]


def test_what_no_repair_can_help_is_withheld(tmp_path: Path) -> None:
    """More cases are asked for than there are; and where no audit looks at attacks there is nothing to repair by."""
    gate = {"min_ka": 9, "on_violation": "repair"}
    with _service(tmp_path, _settings({"mechanism": TLKC, "gate": gate})) as service:
        found = service.pipelines["p"].attempt(_attempt(traces=RARE))
        assert found.status == "withheld"
        assert any("repair" in reason for reason in found.reasons)
        assert "gate" not in found.audit
        one = service.pipelines["p"]
        one.spec = replace(one.spec, audits=[audit for audit in one.spec.audits if audit.name != "anonymity"])
        found = one.attempt(_attempt("p@2.0.0", RARE))
        assert found.reasons == ["anonymity: not measured, so its bounds are not shown"]
