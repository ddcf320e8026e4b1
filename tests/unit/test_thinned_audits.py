"""Audits of releases that were published long ago: what later ones say again goes, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.operator.history import audit, read
from stream.operator.verify import verify
from stream.release import audit_document
from stream.release.contract import Attempt, Exposure
from stream.run.service import ProcessContext, ReleaseService


def _settings() -> Settings:
    audits = {"anonymity": False, "series": False, "risk": False, "utility": False}
    return Settings.model_validate(
        {
            "publication": [
                {
                    "name": "p",
                    "window": {"manual": True},
                    "mechanism": {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-6},
                    "audit": audits,
                    "gate": {"public_cut": True, "max_epsilon": 100},
                    "publish_after": "1s",
                }
            ]
        }
    )


class _Then:
    """A clock at which every moment has come."""

    simulated = False

    def now(self) -> int:
        return 0

    def slot(self, moment: int | None, delay: int) -> None:
        return None

    def due(self, moment: int) -> bool:
        return True


def _released(folder: Path, chosen: Settings, numbers: range) -> None:
    log = EventLog.from_traces([(tuple("abc"), None)] * 40 + [(tuple("acb"), None)] * 40)
    service = ReleaseService(chosen, folder, context=ProcessContext(clock=_Then()))
    try:
        for number in numbers:
            exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
            decision = service.pipelines["p"].attempt(Attempt(f"p/{number}/0/0", "manual", 0, exposure, {}))
            assert decision.status == "sealed"
    finally:
        service.close()


def test_only_the_last_releases_list_the_whole_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every audit listed all releases before it: a gigabyte for ten thousand. The newest figures are those of a run
    that shortens nothing, also through a restart, and the folder verifies."""
    chosen = _settings()
    _released(tmp_path / "whole", chosen, range(1, 7))
    monkeypatch.setattr(audit_document, "KEPT_WHOLE", 2)
    for numbers in (range(1, 4), range(4, 7)):
        _released(tmp_path / "thin", chosen, numbers)
    kept = [len(audit(tmp_path / "thin", "p", number)["leakage"]["epsilon"]) for number in range(1, 7)]  # type: ignore[typeddict-item]
    assert kept == [1, 1, 1, 1, 5, 6]
    whole, thin = (audit(tmp_path / name, "p", 6)["leakage"] for name in ("whole", "thin"))
    assert thin == whole
    for number in range(1, 5):
        old, full = (audit(tmp_path / name, "p", number) for name in ("thin", "whole"))
        assert old["leakage"]["sum_epsilon"] == full["leakage"]["sum_epsilon"]
        assert {key for key in full if key != "leakage"} == {key for key in old if key != "leakage"}
    assert verify(tmp_path / "thin").holds
    assert [row["status"] for row in read(tmp_path / "thin").rows] == ["published"] * 6


def test_the_last_published_audit_is_never_shortened(tmp_path: Path) -> None:
    """The next audit continues from it; one of a number that was never published is not there to be shortened."""
    _released(tmp_path, _settings(), range(1, 4))
    before = [audit(tmp_path, "p", number) for number in (1, 2, 3)]
    service = ReleaseService(_settings(), tmp_path, context=ProcessContext(clock=_Then()))
    try:
        for number in (3, 4, -7):
            service.pipelines["p"].audience.thin("p", number)
        assert [audit(tmp_path, "p", number) for number in (1, 2, 3)] == before
        service.pipelines["p"].audience.thin("p", 2)
        assert audit(tmp_path, "p", 2) != before[1]
    finally:
        service.close()


def test_a_damaged_old_audit_stops_no_release(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The release behind it is out already; who reads the damaged one says that it is."""
    _released(tmp_path, _settings(), range(1, 4))
    (tmp_path / "operator" / "p" / "000002" / "audit.json").write_text("{")
    service = ReleaseService(_settings(), tmp_path, context=ProcessContext(clock=_Then()))
    try:
        service.pipelines["p"].audience.thin("p", 2)
    finally:
        service.close()
    assert "audit.json: cannot be read" in caplog.text
    assert (tmp_path / "operator" / "p" / "000002" / "audit.json").read_text() == "{"


def test_the_rows_of_a_chain_are_shortened_with_its_state() -> None:
    """Its own row stays, with the figures; what is short already, or measured nothing, is left as it is."""
    rows = [{"release": number, "bpl": 1.0, "fpl": 2.0, "tpl": 3.0} for number in (1, 2, 3)]
    chained: Any = {"releases": rows, "epsilon": [1, 1, 1], "max_tpl": 3.0, "state": {"bpl": []}}
    found = audit_document.thinned({"sequence": 3, "leakage": chained})
    assert found == {
        "sequence": 3,
        "leakage": {"releases": rows[-1:], "epsilon": [1], "max_tpl": 3.0, "series": "in later releases"},
    }
    assert audit_document.thinned(found) is None
    assert (
        audit_document.thinned({"leakage": {"status": "not_applicable", "reason": "the mechanism spends no epsilon"}})
        is None
    )
    assert audit_document.thinned({}) is None
