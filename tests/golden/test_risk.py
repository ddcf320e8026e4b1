"""Uniqueness of the Sepsis log against the golden vectors and the paper's figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors import read_log
from models.eventlog import EventLog
from models.risk.uniqueness import case_uniqueness, trace_uniqueness
from tests.conftest import golden

PROJECTIONS = {
    "A_sec": ("A", "seconds"),
    "A_hour": ("A", "hours"),
    "A_day_floor": ("A", "days"),
    "B": ("B", "seconds"),
    "C": ("C", "seconds"),
    "D": ("D", "seconds"),
    "E": ("E", "seconds"),
}
ROUNDING = 5e-5
DRAWS = 20
RARE = 4e-4
"""Where no golden draw saw a unique case its sd is 0; 20 draws of a true share of 1.5e-4 (exact for C, m = 1, by hand:
three one-case points in traces of 11, 29 and 32 events) still see none in 1 of 20 tries, and up to 4e-4 in 1 of 200."""


@pytest.fixture(scope="module")
def sepsis(logs: Path) -> EventLog:
    return read_log(logs / "sepsis.xes.gz")


@pytest.mark.logs
@pytest.mark.parametrize("key", PROJECTIONS)
def test_joint_semantics_is_within_three_sd(sepsis: EventLog, key: str) -> None:
    """Every projection and amount of knowledge is within 3 sd of the golden mean."""
    projection, resolution = PROJECTIONS[key]
    vectors = golden("risk_sepsis.json")["joint"][key]
    amounts = [name.removeprefix("m=") for name in vectors]
    found = trace_uniqueness(sepsis, projection, amounts, resolution=resolution, draws=DRAWS, seed=2020)
    assert len(found.points) == len(vectors) == 13
    for point, (mean, sd) in zip(found.points, vectors.values(), strict=True):
        assert point.unique_mean == pytest.approx(mean, abs=max(3 * sd + ROUNDING, RARE if mean == 0 else 0))


@pytest.mark.logs
def test_per_column_semantics_gives_the_papers_figures(sepsis: EventLog) -> None:
    """31 % and 70 % by day, 37 % for B, 9 % for D on 1,049 cases: the paper's program, reproduced."""
    days = trace_uniqueness(sepsis, "A", [4, "all"], resolution="days", semantics="per-column")
    assert days.cases == 1049
    assert days.points[0].unique_mean == pytest.approx(0.3005, abs=3 * 0.0101)
    assert days.points[1].unique_mean == pytest.approx(0.7083, abs=ROUNDING)
    vectors = golden("risk_sepsis.json")["code_1049_without_case_NA"]
    for projection in "BCDE":
        found = trace_uniqueness(sepsis, projection, "all", semantics="per-column")
        assert found.points[0].unique_mean == pytest.approx(vectors[projection], abs=1e-9)


@pytest.mark.logs
def test_age_alone_singles_nobody_out(sepsis: EventLog) -> None:
    """Projection F of Sepsis: the hospital grouped ages by at least ten people."""
    assert case_uniqueness(sepsis, ["Age"]) == golden("risk_sepsis.json")["joint"]["F_U_case_age"] == 0.0
    found = trace_uniqueness(sepsis, "F")
    assert (found.case_uniqueness, found.case_attributes, found.points) == (0.0, ("Age",), ())
