"""Uniqueness of the Sepsis log against the golden vectors and the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from connectors import read_log
from models.eventlog import EventLog
from models.risk.index import TraceIndex
from models.risk.points import view
from models.risk.uniqueness import case_uniqueness, checked, measure, trace_uniqueness
from tests.conftest import golden
from tests.oracles.risk import unique_chances

DAY = 86_400_000_000_000
PROJECTIONS = {
    "A_sec": ("A", "seconds"),
    "A_hour": ("A", "hours"),
    "A_day_floor": ("A", "days"),
    "A_day_ceil": ("A", "days"),
    "B": ("B", "seconds"),
    "C": ("C", "seconds"),
    "D": ("D", "seconds"),
    "E": ("E", "seconds"),
}
ROUNDING = 5e-5
DRAWS = 20
THREE_SD = math.erfc(3 / math.sqrt(2))
"""Chance of a normal value beyond 3 sd on either side, 0.0027: the level of every comparison here."""


@pytest.fixture(scope="module")
def sepsis(logs: Path) -> EventLog:
    return read_log(logs / "sepsis.xes.gz")


def _seen(log: EventLog, key: str) -> EventLog:
    """The log under a golden key: rounding a day up is rounding down a day (less a nanosecond) later."""
    return replace(log, time=log.time + DAY - 1) if key == "A_day_ceil" else log


def _measured(log: EventLog, key: str, amounts: Sequence[str]) -> list[float]:
    projection, resolution = PROJECTIONS[key]
    found = trace_uniqueness(_seen(log, key), projection, amounts, resolution=resolution, draws=DRAWS, seed=2020)  # type: ignore[arg-type]
    return [point.unique_mean for point in found.points]


def _chances(log: EventLog, key: str, m: int) -> tuple[float, ...]:
    """The exact chance of each case to be singled out by m of its points: the oracle on plain tuples."""
    projection, resolution = PROJECTIONS[key]
    columns: list[Sequence[Hashable]] = [log.activity.codes.tolist()]
    if projection == "A":
        assert log.offset is not None
        clock = log.time + log.offset.astype(np.int64) * 60_000_000_000
        tick = {"seconds": 10**9, "hours": 3600 * 10**9, "days": DAY}[resolution]
        columns.append((-(-clock // tick) if key == "A_day_ceil" else clock // tick).tolist())
    if projection in "BC":
        columns.append(log.event_attributes["org:group"].codes.tolist())
    points: list[Hashable] = list(zip(*columns, strict=True))
    cases = list(zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True))
    ages = log.event_attributes["Age"].codes
    groups = [int(ages[begin:end].max()) if projection in "BD" else None for begin, end in cases]
    return tuple(unique_chances([points[begin:end] for begin, end in cases], groups, m))


def _total_chance(chances: Sequence[float], total: int) -> float:
    """Chance of a total of unique cases over DRAWS draws that is at least as far out as `total`, two-sided, exact.

    Cases draw independently, so the total is a sum of binomials: their distributions are convolved.
    """
    law = np.ones(1)
    for chance in chances:
        if chance > 0:
            one = [math.comb(DRAWS, k) * chance**k * (1 - chance) ** (DRAWS - k) for k in range(DRAWS + 1)]
            law = np.convolve(law, one)
    return min(1.0, 2 * min(float(law[: total + 1].sum()), float(law[total:].sum())))


@pytest.mark.logs
@pytest.mark.parametrize("key", PROJECTIONS)
def test_joint_semantics_is_within_three_sd(sepsis: EventLog, key: str) -> None:
    """Every projection and amount of knowledge is within 3 golden sd of the golden mean, literally.

    One of the 104 points is left to the next two tests: C at m = 1, where no golden draw saw a unique case. An sd of
    0 there is no spread of the sampler but that of a sample without a success.
    """
    vectors = golden("risk_sepsis.json")["joint"][key]
    found = _measured(sepsis, key, [name.removeprefix("m=") for name in vectors])
    assert len(found) == len(vectors) == 13
    for mine, (name, (mean, sd)) in zip(found, vectors.items(), strict=True):
        if (key, name) != ("C", "m=1"):
            assert mine == pytest.approx(mean, abs=3 * sd + ROUNDING), name


@pytest.mark.logs
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("key", PROJECTIONS)
def test_means_are_within_three_exact_sd_of_the_exact_mean(sepsis: EventLog, key: str, m: int) -> None:
    """Golden means and ours are draws of the law that enumeration gives, C at m = 1 included.

    For one and two points all choices are enumerated, which gives each case's exact chance p of being unique. Cases
    draw independently: the mean of 20 draws has expectation mean(p) and sd sqrt(sum p (1 - p)) / cases / sqrt(20), a
    band 4.5 times narrower than that of the test above. If fewer than 20 uniques are expected in all, the total is
    far from normal, and its exact two-sided chance is taken instead, at the same level (0.0027).
    """
    chances = np.asarray(_chances(sepsis, key, m))
    expected = float(chances.mean())
    sd = math.sqrt(float(np.sum(chances * (1 - chances)))) / len(chances) / math.sqrt(DRAWS)
    for mean, rounding in (
        (golden("risk_sepsis.json")["joint"][key][f"m={m}"][0], ROUNDING),
        (_measured(sepsis, key, [str(m)])[0], 0),
    ):
        if chances.sum() * DRAWS >= 20:
            assert mean == pytest.approx(expected, abs=3 * sd + rounding)
        else:  # a golden 0.0 represents no case at all: a single one in 20 draws would show in its sd (0.0002)
            assert _total_chance(chances.tolist(), round(mean * len(chances) * DRAWS)) >= THREE_SD


@pytest.mark.logs
def test_no_unique_case_in_twenty_draws_is_what_c_at_one_point_often_gives(sepsis: EventLog) -> None:
    """The golden 0 with sd 0 of C at m = 1 is not another value than ours, but one of its likelier draws.

    Three cases have a point that nobody else has: 1 of 11, of 29 and of 32 points. The exact mean is 1.49e-4, and 20
    draws see none with chance (10/11 * 28/29 * 31/32)^20 = 0.039. Of 200 runs of 20 draws by our sampler as many see
    none as that chance says (exact binomial, level 0.0027): 8 are expected, none or 18 would not pass.
    """
    chances = np.asarray(_chances(sepsis, "C", 1))
    assert sorted(round(1 / chance) for chance in chances[chances > 0]) == [11, 29, 32]
    none = float(np.prod(1 - chances) ** DRAWS)
    assert none == pytest.approx((10 / 11 * 28 / 29 * 31 / 32) ** DRAWS)
    index = TraceIndex.build(sepsis, view("C", ["org:group"], [], "seconds"))
    rng, one = np.random.default_rng(0), np.ones(sepsis.n_cases, dtype=np.int64)
    runs = 200
    empty = sum(not any(index.unique(one, rng).any() for _ in range(DRAWS)) for _ in range(runs))
    assert binomtest(empty, runs, none).pvalue >= THREE_SD
    assert max(binomtest(other, runs, none).pvalue for other in (0, 18)) < THREE_SD


@pytest.mark.logs
@pytest.mark.parametrize("key", ["A_sec", "A_day_ceil", "B", "C", "D", "E"])
def test_per_column_semantics_is_within_three_sd(sepsis: EventLog, key: str) -> None:
    """Each column matched on its own and the last event of every trace lost, on all 1,050 cases: within 3 golden sd."""
    vectors = golden("risk_sepsis.json")["code"][f"{key}|droplast=True"]
    projection, resolution = PROJECTIONS[key]
    last = np.zeros(sepsis.n_events, dtype=bool)
    last[sepsis.starts[1:] - 1] = True
    seen = view(projection, ["org:group"], ["Age"], resolution)  # type: ignore[arg-type]
    index = TraceIndex.build(_seen(sepsis.select_events(~last), key), seen, joint=False)
    amounts = [checked(name.removeprefix("m=")) for name in vectors]
    found = measure(index, amounts, DRAWS, np.random.default_rng(2020))
    for mine, (name, (mean, sd)) in zip(found, vectors.items(), strict=True):
        assert mine.unique_mean == pytest.approx(mean, abs=3 * sd + ROUNDING), name


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
