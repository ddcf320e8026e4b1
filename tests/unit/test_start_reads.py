"""Files of earlier releases that a start reads: those that an audit compares, and of noisy releases only the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Attempt, Exposure
from stream.run.service import ReleaseService

NOISE = {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-6}


def _settings(mechanism: dict[str, Any], **audit: Any) -> Settings:
    gate = {"public_cut": True} if mechanism is NOISE else {}
    audits = {"risk": False, "utility": False, **audit}
    table = {"name": "p", "window": {"manual": True}, "mechanism": mechanism, "audit": audits, "gate": gate}
    return Settings.model_validate({"publication": [table]})


@pytest.mark.parametrize(
    ("mechanism", "audit", "read"),
    [
        (NOISE, {}, [4]),
        ({"kind": "identity"}, {"bk_length": 1, "against": 2, "series": False}, [3, 4]),
        ({"kind": "identity"}, {"bk_length": 1, "series": False}, [1, 2, 3, 4]),
    ],
    ids=["noise", "the last two", "all"],
)
def test_a_start_reads_what_is_looked_back_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: dict[str, Any], audit: dict[str, Any], read: list[int]
) -> None:
    """With noise nothing is compared, whatever the audit says: a start read every release that there ever was."""
    chosen = _settings(mechanism, **audit)
    log = EventLog.from_traces([(("a", "b"), None)] * 30)
    service = ReleaseService(chosen, tmp_path)
    for number in range(1, 5):
        exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
        decision = service.pipelines["p"].attempt(Attempt(f"p/{number}/0/0", "manual", 0, exposure, {}))
        assert decision.status == "sealed", decision.because
    service.close()
    seen, real = [], release_record.read

    def reading(path: Path) -> ReleaseRecord:
        seen.append(int(path.parent.name))
        return real(path)

    monkeypatch.setattr(release_record, "read", reading)
    ReleaseService(chosen, tmp_path).close()
    assert seen == read
