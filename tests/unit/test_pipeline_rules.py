"""One cut's way, step by step: what each step does, in which order, and what stops it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.dp.budget import Charge
from models.errors import BoundError, InputError, RefusedError, UnavailableError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger.sqlite import Ledger, SqliteLedger
from stream.release.contract import Attempt, Decision, Exposure
from stream.release.failpoints import BOUNDARIES, Faults
from stream.release.mechanisms.identity import Identity
from stream.release.pipeline import Publisher
from stream.run.service import ProcessContext, ReleaseService
from stream.testing.faults import Aborted, abort, at_nth
from tests.entries import body_of, entry

QUIET = {"risk": False, "utility": False}
IDENTITY = {"kind": "identity"}
DP = {"kind": "dp-variants", "epsilon": "0.5", "delta_dp": "0.001"}


def _settings(*publications: dict[str, Any], **more: Any) -> Settings:
    tables = [{"window": {"manual": True}, "audit": QUIET, **one} for one in publications]
    for table, name in zip(tables, "pqr", strict=False):
        table.setdefault("name", name)
    return Settings.model_validate({"publication": tables, "min_free_bytes": 0, **more})


@contextmanager
def _service(
    folder: Path, settings: Settings, at: Callable[[str], None] = lambda _: None, publish: Any = None
) -> Iterator[ReleaseService]:
    def open_ledger(path: Path, process: str) -> tuple[Ledger, Publisher | None]:
        return SqliteLedger(path, process), publish

    service = ReleaseService(
        settings, folder / "out", faults=Faults(at), context=ProcessContext(open_ledger=open_ledger)
    )
    try:
        yield service
    finally:
        service.close()


def _attempt(cut: str = "p@1.0.0", traces: tuple[str, ...] = ("ab",) * 200, **more: Any) -> Attempt:
    log = EventLog.from_traces([(tuple(trace), None) for trace in traces])
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    fields = {"trigger": "manual", "time_ns": 0, "counts": {"pending": 3, "seen": 403}, **more}
    return Attempt(cut, exposure=exposure, **fields)


def _public(folder: Path, number: int, name: str = "p") -> dict[str, Any]:
    path = folder / "out" / "public" / name / f"release-{number:06d}" / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _kinds(service: ReleaseService) -> list[str]:
    return [entry.kind for entry in service.ledger.entries()]


def test_the_steps_in_their_order(tmp_path: Path) -> None:
    """Each boundary is passed once, in order; the ledger has the seal before the announcement."""
    passed: list[str] = []
    published: list[tuple[str, int, str]] = []

    def publish(name: str, number: int, manifest: Any, folder: str) -> None:
        assert manifest["sequence"] == number
        published.append((name, number, folder))
        assert (Path(folder.removeprefix("file://")) / "manifest.json").exists()

    with _service(tmp_path, _settings({"mechanism": IDENTITY}), passed.append, publish) as service:
        decision = service.pipelines["p"].attempt(_attempt())
        assert (decision.status, decision.sequence, decision.cut) == ("sealed", 1, "p@1.0.0")
        assert passed == list(BOUNDARIES)
        assert _kinds(service) == ["seal", "published"]
        assert [one[:2] for one in published] == [("p", 1)]
        assert service.pipelines["p"].attempt(_attempt("p@2.0.0")).sequence == 2
    first, second = _public(tmp_path, 1), _public(tmp_path, 2)
    assert (first["sequence"], first["previous"], second["sequence"], second["previous"]) == (1, None, 2, 1)
    assert "gaps_accepted" not in first


def test_a_charge_is_committed_before_the_draw_and_nothing_else_is(tmp_path: Path) -> None:
    """A crash just after the charge leaves it in the ledger and no release; a mechanism that spends nothing leaves
    nothing at all."""
    for name, mechanism, kinds in (("dp", DP, ["charge"]), ("plain", IDENTITY, [])):
        folder = tmp_path / name
        folder.mkdir()
        with (
            _service(folder, _settings({"mechanism": mechanism}), at_nth("charged", 1, abort)) as service,
            pytest.raises(Aborted),
        ):
            service.pipelines["p"].attempt(_attempt())
        with _service(folder, _settings({"mechanism": mechanism})) as service:
            assert [kind for kind in _kinds(service) if kind != "note"] == kinds


def test_a_decided_cut_is_answered_and_not_decided_again(tmp_path: Path) -> None:
    """Sealed and withheld alike, also by the next process; the ledger does not grow, and no hook is passed."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY, "gate": {"min_ka": 300}})) as service:
        refused = service.pipelines["p"].attempt(_attempt("p@1.0.0"))
        sealed = service.pipelines["p"].attempt(_attempt("p@2.0.0", ("ab",) * 300))
        before = service.ledger.count()
    assert (refused.status, refused.reasons) == ("withheld", ["ka: 200 is below 300"])
    passed: list[str] = []
    with _service(tmp_path, _settings({"mechanism": IDENTITY, "gate": {"min_ka": 300}}), passed.append) as service:
        passed.clear()
        again = service.pipelines["p"].attempt(_attempt("p@1.0.0", ("ab",) * 300))
        assert (again.status, again.reasons, again.sequence) == ("withheld", refused.reasons, 0)
        assert again.audit["counts"] == {"pending": 3, "seen": 403}
        other = service.pipelines["p"].attempt(_attempt("p@2.0.0"))
        assert (other.status, other.sequence) == ("sealed", 1)
        assert other.audit["counts"] == {
            "pending": 3, "seen": 403, "exposed": 600, "released": 600, "released_cases": 300,
            "suppressed_events": 0, "suppressed_cases": 0,
        }  # fmt: skip
        assert (other.audit["cut"], other.audit["files"]) == (sealed.audit["cut"], sealed.audit["files"])
        assert (service.ledger.count(), passed) == (before, [])
        assert service.pipelines["p"].decided("p@3.0.0") is None


def test_a_refusal_says_why_where_and_how_much(tmp_path: Path) -> None:
    """The ledger's entry holds reasons, the cut and its counts; the operator's answer also what was measured."""
    passed: list[str] = []
    settings = _settings({"mechanism": IDENTITY, "gate": {"min_ka": 300}})
    with _service(tmp_path, settings, passed.append) as service:
        attempt = _attempt(trigger="every", certain=False, vector={"s/0": 9})
        decision = service.pipelines["p"].attempt(attempt)
        (refusal,) = service.ledger.entries()
    assert passed == ["opened", "charged", "built", "withheld"]
    shown = {
        "cut": {"id": "p@1.0.0", "vector": {"s/0": 9}, "time": "1970-01-01T00:00:00.000+00:00"},
        "trigger": "every",
        "certain": False,
        "counts": {"pending": 3, "seen": 403},
    }
    assert (refusal.kind, refusal.cut, body_of(refusal)) == (
        "withheld", "p@1.0.0", {"reasons": ["ka: 200 is below 300"], "audit": shown},
    )  # fmt: skip
    assert decision.audit.items() >= shown.items()
    assert decision.audit["anonymity"]["ka"] == 200
    assert decision.audit["bounds"] == {"min_ka": 300.0}
    assert set(decision.audit["seconds"]) >= {"build", "anonymity"}
    assert not (tmp_path / "out" / "public" / "p").exists() or not list((tmp_path / "out/public/p").glob("release-*"))


@pytest.mark.parametrize(
    ("gate", "decision"),
    [
        ({"min_ka": 200}, {"decision": "passed", "reasons": []}),
        ({"min_ka": 201, "on_violation": "warn"}, {"decision": "warned", "reasons": ["ka: 200 is below 201"]}),
        ({"min_ka": 200, "on_violation": "warn"}, {"decision": "passed", "reasons": []}),
    ],
)
def test_what_the_gate_decided_is_in_the_audit(tmp_path: Path, gate: Any, decision: Any) -> None:
    """Passed, or warned with its reasons; and the bounds."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY, "gate": gate})) as service:
        found = service.pipelines["p"].attempt(_attempt())
        assert (found.status, found.audit["gate"]) == ("sealed", decision)
        assert found.audit["bounds"] == {"min_ka": float(gate["min_ka"])}
        assert service.pipelines["p"].audit_of(1) == json.loads(json.dumps(found.audit))


def _spend(service: ReleaseService, name: str, times: int) -> list[Decision]:
    return [service.pipelines[name].attempt(_attempt(f"{name}@{number}.0.0")) for number in range(1, times + 1)]


def test_a_publication_spends_up_to_its_limit(tmp_path: Path) -> None:
    """Two releases of a half fit into one; the third is refused before any noise, and nothing more is charged."""
    with _service(tmp_path, _settings({"mechanism": DP, "gate": {"max_epsilon": 1}})) as service:
        found = _spend(service, "p", 3)
        assert [one.status for one in found] == ["sealed", "sealed", "withheld"]
        assert found[2].reasons == ["epsilon: spent 1, with this release 1.5, limit 1"]
        assert service.pipelines["p"].account.spending.summed == Charge(Fraction(1), Fraction(2, 1000))


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"max_epsilon": "1.5"}, "process budget epsilon: spent 1.5, with this release 2, limit 1.5"),
        ({"max_delta": "0.003"}, "process budget delta: spent 0.003, with this release 0.004, limit 0.003"),
    ],
)
def test_the_process_spends_up_to_its_limit(tmp_path: Path, budget: dict[str, str], reason: str) -> None:
    """Publications add up: three releases of both together fit, the fourth does not, whichever asks for it; a
    mechanism that spends nothing is not asked."""
    settings = _settings(
        {"mechanism": DP}, {"mechanism": DP}, {"mechanism": IDENTITY}, process={"name": "log", "budget": budget}
    )
    with _service(tmp_path, settings) as service:
        assert [one.status for one in (*_spend(service, "p", 2), *_spend(service, "q", 1))] == ["sealed"] * 3
        refused = [service.pipelines[name].attempt(_attempt(f"{name}@9.0.0")) for name in "pq"]
        assert [one.reasons for one in refused] == [[reason], [reason]]
        (limit,) = (Fraction(each) for each in budget.values())
        part = Fraction("0.5") if "max_epsilon" in budget else Fraction("0.001")
        for one in refused:
            assert [(each.code, each.bound, each.value) for each in one.because] == [
                ("process_budget", limit, limit + part)
            ]
        assert service.pipelines["r"].attempt(_attempt("r@1.0.0")).status == "sealed"


def test_a_crashed_attempt_pays_once(tmp_path: Path) -> None:
    """Its charge is reused by the retry, also at the very limit of the publication and of the process."""
    settings = _settings(
        {"mechanism": DP, "gate": {"max_epsilon": "0.5", "max_delta": "0.001"}},
        process={"name": "log", "budget": {"max_epsilon": "0.5", "max_delta": "0.001"}},
    )
    with _service(tmp_path, settings, at_nth("built", 1, abort)) as service, pytest.raises(Aborted):
        service.pipelines["p"].attempt(_attempt())
    with _service(tmp_path, settings) as service:
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
        assert service.pipelines["p"].account.spending.summed == Charge(Fraction(1, 2), Fraction(1, 1000))
        assert service.pipelines["p"].attempt(_attempt("p@2.0.0")).status == "withheld"


@pytest.mark.parametrize(("free", "fits"), [(None, True), (1000, True), (999, False), (0, False)])
def test_a_release_needs_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, fits: bool
) -> None:
    """As much as min_free_bytes says, where the store knows; else nothing is begun."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY}, min_free_bytes=1000)) as service:
        monkeypatch.setattr(type(service.store), "free_bytes", lambda _: free)
        if fits:
            assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
        else:
            message = f"{free} bytes are free, a release needs min_free_bytes = 1000"
            with pytest.raises(UnavailableError, match=message):
                service.pipelines["p"].attempt(_attempt())
            assert service.ledger.count() == 0


def test_a_bound_that_a_mechanism_cannot_keep_withholds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is in the ledger and the next cut is tried; bad input of a plain mechanism ends the program."""

    def cannot(error: Exception) -> Callable[..., Any]:
        def build(*_: Any) -> Any:
            raise error

        return build

    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        with monkeypatch.context() as patch:
            patch.setattr(Identity, "build", cannot(BoundError("K = 9 cannot be kept")))
            refused = service.pipelines["p"].attempt(_attempt())
        assert (refused.status, refused.reasons) == ("withheld", ["K = 9 cannot be kept"])
        with monkeypatch.context() as patch:
            patch.setattr(Identity, "build", cannot(InputError("no such column")))
            with pytest.raises(InputError, match="no such column"):
                service.pipelines["p"].attempt(_attempt("p@2.0.0"))
        assert service.pipelines["p"].attempt(_attempt("p@2.0.0")).sequence == 1


def test_a_number_that_another_process_sealed_is_lost(tmp_path: Path) -> None:
    """The first seal is valid; the loser's bytes are put aside and never become visible."""
    service: ReleaseService

    def race(name: str) -> None:
        if name == "files_written":
            service.ledger.append(entry("seal", publication="p", cut="p@9.0.0", sequence=1, owner="other"))

    with _service(tmp_path, _settings({"mechanism": IDENTITY}), race) as service:
        with pytest.raises(RefusedError, match=r"release 1 of p was sealed by another process"):
            service.pipelines["p"].attempt(_attempt())
        assert not list((tmp_path / "out" / "public" / "p").glob("release-*"))
        assert "published" not in _kinds(service)


def test_a_memory_is_not_handed_to_another_mechanism(tmp_path: Path) -> None:
    """The memory of cohorts is of no use to other mechanisms, nor theirs to cohorts: each needs a publication of its
    own.
    """
    cohorts = {"kind": "tlkc-cohorts", "knowledge": "seq", "attribute": "ac", "L": 1, "K": 2, "C": 1}
    cohorts["suppression"] = "local"
    for number, (first, second) in enumerate(((cohorts, IDENTITY), (IDENTITY, cohorts))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with _service(folder, _settings({"mechanism": first})) as service:
            assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
        with _service(folder, _settings({"mechanism": second})) as service:
            found = service.pipelines["p"].attempt(_attempt("p@2.0.0"))
            assert found.status == "withheld"
            assert f"were made by {first['kind']}; give {second['kind']} its own publication" in found.reasons[0]
    tlkc = {**cohorts, "kind": "tlkc", "suppression": "greedy"}
    with _service(tmp_path / "0" / "plain", _settings({"mechanism": IDENTITY})) as service:
        service.pipelines["p"].attempt(_attempt())
    with _service(tmp_path / "0" / "plain", _settings({"mechanism": tlkc})) as service:
        assert service.pipelines["p"].attempt(_attempt("p@2.0.0")).status == "sealed"


def test_accepted_gaps_are_said(tmp_path: Path) -> None:
    """A release after `gap accept` says in its manifest how many there were."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        for position in (7, 9, 9):
            service.pipelines["p"].accept_gap(position, ["s/0: offsets 3 to 4 are missing"])
        service.pipelines["p"].attempt(_attempt())
    assert _public(tmp_path, 1)["gaps_accepted"] == 2
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:  # the ledger remembers them
        assert service.pipelines["p"].gaps_accepted == 2
        service.pipelines["p"].accept_gap(9, ["s/0: offsets 3 to 4 are missing"])
        assert service.pipelines["p"].gaps_accepted == 2


def test_resources_are_named_as_the_process_says(tmp_path: Path) -> None:
    """As pseudonyms by default, as they are where the operator asks for it."""
    log = EventLog.from_events(["1", "2"], ["a", "a"], np.asarray([0, 0]), resource=["Anna", "Anna"], unit="ns")
    exposure = Exposure(log, np.ones(2, dtype=np.bool_), (), 0)
    mechanism = {"kind": "identity", "knowledge": "set", "attribute": "re"}
    for raw in (False, True):
        folder = tmp_path / str(raw)
        folder.mkdir()
        settings = _settings(
            {"mechanism": mechanism, "formats": ["csv"]}, process={"name": "log", "raw_resources": raw}
        )
        with _service(folder, settings) as service:
            service.pipelines["p"].attempt(Attempt("p@1.0.0", "manual", 0, exposure, {}))
        from connectors import read_log

        released = read_log(folder / "out/public/p/release-000001/log.csv.gz")
        assert (released.resource.values == ("Anna",)) is raw
        assert len(released.resource.values) == 1
