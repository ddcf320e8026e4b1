"""Private publications that cannot release: refused when read, or withheld, never the end of a process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.errors import InputError
from models.eventlog import EventLog
from stream.config import settings, sources
from stream.release.contract import Attempt, Decision, Exposure
from stream.run.service import ReleaseService

UNKNOWN = EventLog.from_events(["1", "1"], ["a", "b"], np.asarray([-(85 * 10**17), 17 * 10**17]), unit="ns")
"""A case that began in 1700, as a date that represents "unknown" says."""


def _settings(folder: Path, mechanism: str) -> settings.Settings:
    config = folder / "config.toml"
    config.write_text(
        '[[publication]]\nname = "p"\nwindow = { manual = true }\naudit = { risk = false, utility = false }\n'
        f"mechanism = {{ {mechanism} }}\n"
    )
    return sources.load(config)


def _decide(service: ReleaseService, cut: str, log: EventLog) -> Decision:
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    return service.pipelines["p"].attempt(Attempt(cut, "manual", 0, exposure, {}))


@pytest.mark.parametrize(
    ("log", "reason"), [(EventLog.from_traces([]), "no events"), (UNKNOWN, "more than 278 years")], ids=["empty", "old"]
)
def test_a_log_that_amun_cannot_release_is_withheld_and_the_next_is_not(
    tmp_path: Path, log: EventLog, reason: str
) -> None:
    """A window without events (a night, by the wall clock) used to end the daemon at that cut, at every new start."""
    service = ReleaseService(
        _settings(tmp_path, 'kind = "amun", delta = 0.3, variant = "oversampling"'), tmp_path / "out"
    )
    try:
        refused = _decide(service, "p@1.0.0", log)
        assert refused.status == "withheld"
        assert reason in refused.reasons[0]
        assert _decide(service, "p@2.0.0", EventLog.from_traces([("ab", None)] * 30)).status == "sealed"
    finally:
        service.close()


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ('kind = "dp-variants", epsilon = 1e-9, delta_dp = 1e-3', "epsilon is too small"),
        ('kind = "dp-variants", epsilon = 1e9, delta_dp = 1e-3', "lower epsilon"),
        ('kind = "dp-log", epsilon = 1e-4, delta_dp = 1e-3', "epsilon is too small"),
        (
            'kind = "dp-log", epsilon = 900, delta_dp = 1e-3, max_duration = "1ms", cases_per_person = 9',
            "",
        ),
        ('kind = "dp-log", epsilon = 9000, delta_dp = 1e-3, max_duration = "1ms"', "lower epsilon"),
        ('kind = "amun", delta = 1e-10', "too close to 0"),
        ('kind = "amun", delta = 1e-8, releases = 1000000000', ""),
        ('kind = "amun", delta = 1e-8, releases = 10000000000', "raise epsilon"),
    ],
)
def test_terms_that_no_log_could_be_released_under_are_refused_when_read(
    tmp_path: Path, mechanism: str, said: str
) -> None:
    """Not at the first cut, after its charge. Terms just inside the range of noise are read."""
    if said:
        with pytest.raises(InputError, match=said):
            _settings(tmp_path, mechanism)
    else:
        assert _settings(tmp_path, mechanism)
