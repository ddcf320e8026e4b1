"""One cut's way to a person: what is sealed and held, what waits behind it, and what is answered of it later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream.ledger.entries import SealEntry, WithheldEntry
from stream.release import recovery
from tests.unit.test_pipeline_rules import DP, IDENTITY, _attempt, _kinds, _service, _settings

HELD: dict[str, Any] = {"mechanism": IDENTITY, "approval": "required"}


def _visible(folder: Path) -> list[str]:
    public = folder / "out" / "public" / "p"
    return sorted(path.name for path in public.iterdir()) if public.is_dir() else []


@pytest.mark.parametrize("mechanism", [IDENTITY, DP], ids=["identity", "dp"])
def test_a_release_that_needs_an_approval_is_sealed_and_not_seen(tmp_path: Path, mechanism: dict[str, Any]) -> None:
    """The seal says since when; recipients see nothing, no audit looks back at it, and its audit is the operator's."""
    passed: list[str] = []
    with _service(tmp_path, _settings({**HELD, "mechanism": mechanism}), passed.append) as service:
        pipeline = service.pipelines["p"]
        decision = pipeline.attempt(_attempt())
        assert (decision.status, decision.sequence) == ("held", 1)
        assert passed[-1] == "held"
        assert not {"renamed", "published"} & set(passed)
        assert pipeline.account.held == [1]
        assert len(pipeline.earlier) == 0
        seal = next(entry for entry in service.ledger.entries() if isinstance(entry, SealEntry))
        assert seal.body.held_at is not None
        assert "published" not in _kinds(service)
    assert _visible(tmp_path) == []
    kept = json.loads((tmp_path / "out" / "operator" / "p" / "000001" / "audit.json").read_text(encoding="utf-8"))
    assert kept["sequence"] == 1


def test_without_approval_a_seal_was_never_held(tmp_path: Path) -> None:
    """And the release is there."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY})) as service:
        assert service.pipelines["p"].attempt(_attempt()).status == "sealed"
        seal = next(entry for entry in service.ledger.entries() if isinstance(entry, SealEntry))
        assert seal.body.held_at is None


def test_what_is_answered_of_a_held_release_and_of_a_rejected_one(tmp_path: Path) -> None:
    """The same cut again: held, then rejected with the reason; another process answers alike."""
    with _service(tmp_path, _settings(HELD)) as service:
        pipeline = service.pipelines["p"]
        first = pipeline.attempt(_attempt())
        again = pipeline.attempt(_attempt())
        assert (again.status, again.sequence, again.audit["cut"]) == ("held", 1, first.audit["cut"])
        recovery.reject(pipeline, 1, by="Ann", why="too early")
        refused = pipeline.attempt(_attempt())
        assert (refused.status, refused.sequence) == ("rejected", 1)
        assert refused.reasons == ["held: rejected by Ann: too early"]
        assert refused.audit["cut"] == first.audit["cut"]
    with _service(tmp_path, _settings(HELD)) as service:
        pipeline = service.pipelines["p"]
        refused = pipeline.attempt(_attempt())
        assert (refused.status, refused.reasons) == ("rejected", ["held: rejected by Ann: too early"])
        shutil.rmtree(pipeline.folder.release("p", 1))  # another host than the one that held it
        elsewhere = pipeline.attempt(_attempt())
        assert (elsewhere.status, elsewhere.reasons, elsewhere.audit) == ("rejected", refused.reasons, {})


def test_a_cut_behind_a_held_release_waits_where_it_shall(tmp_path: Path) -> None:
    """hold = "block": refused before any charge, with the number that waits, also in the ledger; after a decision the
    next cut continues."""
    settings = _settings({**HELD, "mechanism": DP, "hold": "block"})
    with _service(tmp_path, settings) as service:
        pipeline = service.pipelines["p"]
        assert pipeline.attempt(_attempt()).status == "held"
        spent = pipeline.account.spending.summed
        behind = pipeline.attempt(_attempt("p@2.0.0"))
        assert (behind.status, behind.sequence, behind.because[0].code) == ("withheld", 0, "held")
        assert behind.reasons == ["held: release 1 waits for a decision (veilstream approve or reject p 1)"]
        assert pipeline.account.spending.summed == spent
        entry = next(one for one in service.ledger.entries() if isinstance(one, WithheldEntry))
        assert entry.waits_for == 1
        assert pipeline.account.streak == 0
        recovery.reject(pipeline, 1, by="Ann", why="x")
        assert pipeline.attempt(_attempt("p@3.0.0")).status == "held"


@pytest.mark.parametrize("approval", ["required", "none"])
def test_a_mirror_has_the_bytes_of_a_held_release_before_the_seal(tmp_path: Path, approval: str) -> None:
    """Another host publishes those after an approval; a release that is held by nobody is not mirrored so."""
    mirrored: list[tuple[str, str]] = []

    class Mirror:
        def put_release(self, *_: Any) -> None:
            """The operator's files."""

        def put_held(self, publication: str, temporary: str, folder: Path) -> None:
            assert (folder / "manifest.json").is_file()
            assert "seal" not in _kinds(service)
            mirrored.append((publication, temporary))

    with _service(tmp_path, _settings({**HELD, "approval": approval})) as service:
        service.pipelines["p"].mirror = Mirror()  # type: ignore[assignment]
        service.pipelines["p"].attempt(_attempt())
        (seal,) = (entry for entry in service.ledger.entries() if isinstance(entry, SealEntry))
    assert mirrored == ([("p", seal.body.temporary)] if approval == "required" else [])


def test_of_several_held_releases_the_first_is_waited_for(tmp_path: Path) -> None:
    """hold = "supersede" leaves two where the process ends before the older one is set aside; under "block" the oldest
    is what a person has to decide on."""
    with _service(tmp_path, _settings({**HELD, "hold": "supersede"})) as service:
        pipeline = service.pipelines["p"]
        assert [pipeline.attempt(_attempt(cut)).sequence for cut in ("p@1.0.0", "p@2.0.0")] == [1, 2]
        assert pipeline.account.held == [1, 2]
    with _service(tmp_path, _settings({**HELD, "hold": "block"})) as service:
        behind = service.pipelines["p"].attempt(_attempt("p@3.0.0"))
        assert behind.reasons == ["held: release 1 waits for a decision (veilstream approve or reject p 1)"]
        entry = next(one for one in service.ledger.entries() if isinstance(one, WithheldEntry))
        assert entry.waits_for == 1


def test_a_refusal_of_the_gate_waits_for_nobody(tmp_path: Path) -> None:
    """No number of a held release is in its entry."""
    with _service(tmp_path, _settings({"mechanism": IDENTITY, "gate": {"min_ka": 300}})) as service:
        service.pipelines["p"].attempt(_attempt())
        entry = next(one for one in service.ledger.entries() if isinstance(one, WithheldEntry))
        assert entry.waits_for == 0
