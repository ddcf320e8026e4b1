"""`advise` and the default are one: the candidate that is the default has its window, mechanism, audit and gate."""

from __future__ import annotations

import numpy as np
import pytest

from models.eventlog import EventLog
from stream.run.advise import candidates
from stream.run.presets import default_publication


def _log(cases: int) -> EventLog:
    """Two events a case; a sensitive word and a sensitive number."""
    owner = np.repeat(np.arange(cases), 2)
    ids = [f"c{case}" for case in range(cases)]
    values = {
        "illness": {name: "flu" if place % 2 else "cold" for place, name in enumerate(ids)},
        "age": {name: 20 + place % 50 for place, name in enumerate(ids)},
    }
    names, times = ["register", "leave"] * cases, np.arange(2 * cases) * 1_000_000_000
    return EventLog.from_events([f"c{case}" for case in owner], names, times, case_attributes=values, unit="ns")


@pytest.mark.parametrize("cases", [40, 1000])
@pytest.mark.parametrize("sensitive", [(), ("illness",), ("age", "illness")])
def test_one_candidate_is_the_default(cases: int, sensitive: tuple[str, ...]) -> None:
    """Its name apart: so what is proposed is what the default gives if nothing better exists."""
    log = _log(cases)
    (same,) = [one.publication for one in candidates(log, 20, sensitive) if one.publication.name == "cohorts-local-20"]
    default = default_publication(log, sensitive)
    assert same.model_copy(update={"name": default.name}) == default


def test_times_leave_as_means_where_the_log_has_any() -> None:
    """Of replay, and of every setting that advise compares; a log whose events are all of one moment has none."""
    log = _log(40)
    assert default_publication(log).mechanism["times"] == "microaggregated"
    kinds = [one.publication.mechanism for one in candidates(log, 20, ()) if one.least]
    assert {table["times"] for table in kinds} == {"microaggregated"}
    still = EventLog.from_events(["a", "b"], ["x", "x"], np.zeros(2, dtype=np.int64), unit="ns")
    assert "times" not in default_publication(still).mechanism
