"""`veilstream advise --noise`: what epsilon buys on public or older data, and the refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors import write_log
from models.errors import InputError
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.run import noise_advice
from stream.run.noise_advice import (
    FigureSpread,
    NoiseCurve,
    NoisePoint,
    noise_curves,
    recommendation,
    refuse_same_log,
)

MINUTE = 60_000_000_000


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a table is cut, whatever width the terminal of the tests has."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epsilons and two runs, far enough apart that noise cannot exchange them.

    At 4 one release in 250 has a step that no case took, and with it an error that excludes the epsilon. At 40 no error
    of 250 releases was above .0003.
    """
    monkeypatch.setattr(noise_advice, "EPSILONS", ("0.001", "40"))
    monkeypatch.setattr(noise_advice, "RUNS", 2)


def _log(traces: Sequence[Sequence[str]], first_case: int = 0) -> EventLog:
    """One case a trace, one event a minute, one case an hour."""
    ids, names, times = [], [], []
    for case, trace in enumerate(traces, start=first_case):
        for place, name in enumerate(trace):
            ids.append(f"c{case}")
            names.append(name)
            times.append((60 * case + place) * MINUTE)
    return EventLog.from_events(ids, names, times, unit="ns")


def _hospital(cases: int = 2_000) -> EventLog:
    ways = [("register", "test", "leave"), ("register", "leave"), ("register", "test", "test", "leave")]
    return _log([ways[case % 3] for case in range(cases)])


def _point(
    epsilon: str, similarity: float, error: float, *, worst_error: float | None = None, empty: int = 0
) -> NoisePoint:
    return NoisePoint(
        epsilon,
        FigureSpread(similarity, similarity, similarity),
        FigureSpread(error, error, error if worst_error is None else worst_error),
        empty,
        3.0,
    )


@pytest.fixture(scope="module")
def hospital_curves() -> list[NoiseCurve]:
    """What two epsilons buy on 2,000 cases of three variants."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_advice, "EPSILONS", ("0.001", "40"))
        patch.setattr(noise_advice, "RUNS", 5)
        return list(noise_curves(_hospital()))


def test_a_larger_epsilon_buys_a_better_release(hospital_curves: list[NoiseCurve]) -> None:
    """At .001 hardly any of 2,000 cases is seen through the noise; at 40 nearly everything is.

    At .001 a release in sixteen is not empty, with an error of .35 and more: all five are so once in a million times.
    """
    curves = hospital_curves
    assert [curve.labels for curve in curves] == ["declared", "selected", "of released variants"]
    for curve in curves:
        little, much = curve.points
        assert little.dfg_error.mean > 0.3 > 0.1 > much.dfg_error.mean
        assert little.similarity.mean < much.similarity.mean
        assert much.similarity.least <= much.similarity.mean <= much.similarity.most
        assert (much.empty, much.activities) == (0, 3.0)
        assert curve.recommended == "40"
        assert "at 0.001 " in curve.reason


def test_more_cases_of_a_person_cost_utility(hospital_curves: list[NoiseCurve], short: None) -> None:
    """The noise is for all cases of a person: with 1,000 it is of the size of the counts. With 100 it is a tenth of
    them, which two runs do not always show."""
    costly = noise_curves(_hospital(), cases_per_person=1_000)
    for one, many in zip(hospital_curves, costly, strict=True):
        assert many.points[-1].dfg_error.mean > one.points[-1].dfg_error.mean


def test_an_epsilon_that_cannot_release_leaves_the_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1e-6 a variant would need more cases than any log has: 40 is measured, and the reason is given."""
    monkeypatch.setattr(noise_advice, "EPSILONS", ("0.000001", "40"))
    monkeypatch.setattr(noise_advice, "RUNS", 2)
    for curve in noise_curves(_hospital()):
        assert [point.epsilon for point in curve.points] == ["40"]
        assert curve.recommended == "40"
        assert "epsilon is too small" in curve.refused["0.000001"]
        assert "at 0.000001 no release is possible: epsilon is too small" in curve.reason
        assert curve.as_json()["refused"] == curve.refused


def test_a_tiny_log_gets_no_recommendation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one case nothing passes a threshold, but with the probability delta: the empty releases are counted, and no
    epsilon is recommended.

    With declared activities a run in ten is not empty, and fewer than half of those are near the log. Two runs are
    both near once in hundreds of times, six once in fifty million.
    """
    monkeypatch.setattr(noise_advice, "EPSILONS", ("0.001", "4"))
    monkeypatch.setattr(noise_advice, "RUNS", 6)
    monkeypatch.setattr(noise_advice, "DELTA_DP", "1e-12")
    curves = noise_curves(_log([("a", "b")]))
    assert [curve.recommended for curve in curves] == [None] * 3
    variants = curves[-1]
    assert [point.empty for point in variants.points] == [6, 6]
    assert [point.similarity.mean for point in variants.points] == [0.0, 0.0]
    assert "no epsilon up to 4 is good enough: at 4 6 of" in variants.reason


def test_a_log_without_cases_is_refused() -> None:
    """There is nothing to measure on."""
    with pytest.raises(InputError, match="no case to measure on"):
        noise_curves(_log([]))


def test_a_mechanism_that_cannot_release_the_log_leaves_the_others(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason is in the place of its points."""
    measure = noise_advice._point

    def only_variants(log: EventLog, tried: Any, *arguments: Any) -> NoisePoint:
        if tried.kind == "dp-synthetic":
            raise InputError("too many labels")
        return measure(log, tried, *arguments)

    monkeypatch.setattr(noise_advice, "_point", only_variants)
    declared, selected, variants = noise_curves(_hospital())
    assert (declared.points, declared.recommended, declared.reason) == ((), None, "too many labels")
    assert not selected.points
    assert variants.recommended == "40"


def test_the_least_epsilon_that_is_nearly_as_good_is_recommended() -> None:
    """.5 is within .05 of the best figures, .2 is not."""
    points = [_point("0.2", 0.80, 0.20), _point("0.5", 0.92, 0.07), _point("1", 0.94, 0.04), _point("2", 0.96, 0.03)]
    chosen, reason = recommendation(points)
    assert chosen == "0.5"
    assert "similarity 0.920 (best 0.960)" in reason
    assert "at 0.2 similarity 0.800 is more than 0.05 below that at 2 (0.960)" in reason


@pytest.mark.parametrize(
    ("middle", "why"),
    [
        (_point("0.5", 0.95, 0.03, empty=1), "1 of 5 releases are empty"),
        (_point("0.5", 0.95, 0.03, worst_error=0.3), "a run has a DFG error of 0.300, above 0.25"),
        (_point("0.5", 0.90, 0.03), "similarity 0.900 is more than 0.05 below"),
        (_point("0.5", 0.95, 0.09), "DFG error 0.090 is more than 0.05 above that at 1 (0.030)"),
    ],
)
def test_each_obstacle_alone_excludes_an_epsilon_and_all_smaller_ones(middle: NoisePoint, why: str) -> None:
    """A smaller epsilon that happened to do better is not recommended either: its figures are luck."""
    chosen, reason = recommendation([_point("0.2", 0.96, 0.03), middle, _point("1", 0.96, 0.03)])
    assert chosen == "1"
    assert f"at 0.5 {why}" in reason


def test_nothing_is_recommended_if_the_largest_epsilon_is_not_good_enough() -> None:
    """The reason names the largest epsilon."""
    chosen, reason = recommendation([_point("1", 0.5, 0.4), _point("2", 0.6, 0.3)])
    assert chosen is None
    assert reason == "no epsilon up to 2 is good enough: at 2 a run has a DFG error of 0.300, above 0.25"


def test_if_every_epsilon_is_good_the_least_is_recommended_and_less_may_do() -> None:
    """The reason does not claim that a smaller one was measured."""
    chosen, reason = recommendation([_point("0.1", 0.99, 0.01), _point("1", 0.99, 0.01)])
    assert chosen == "0.1"
    assert reason.endswith("it is the least that was measured, and less may do")


def test_the_same_cases_are_found_if_they_continue(tmp_path: Path) -> None:
    """An older export has the beginning of a case; the later one the whole of it. Cases of other times pass."""
    older, later = tmp_path / "older.csv", tmp_path / "later.csv"
    older.write_text("a")
    later.write_text("b")
    begun = _log([("register",), ("register",)])
    with pytest.raises(InputError, match=r"2 cases of .* are also in ") as error:
        refuse_same_log(older, later, (begun, _log([("register", "leave")] * 2)))
    assert "c0" not in str(error.value)
    refuse_same_log(older, later, (begun, _log([("register", "leave")] * 2, first_case=2)))


def test_the_same_bytes_are_refused_under_another_name(tmp_path: Path) -> None:
    """A copy of the log that will be released is that log, also if it has no case."""
    paths = [tmp_path / name for name in ("older.csv", "later.csv")]
    for path in paths:
        path.write_text("the same")
    with pytest.raises(InputError, match="is the log that will be released"):
        refuse_same_log(paths[0], paths[1], (_log([]), _log([])))


def test_the_origin_of_the_log_must_be_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is neither public nor older is refused with the reason, before the log is read."""
    assert veilstream(["advise", str(tmp_path / "absent.csv"), "--noise", "own"]) == 2
    shown = capsys.readouterr().err
    assert "choosing epsilon on the log that will be released leaks" in shown
    assert "not public or older" in shown


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--noise", "older", "--K", "4"], "--K cannot be used with --noise"),
        (["--noise", "older", "-o", "out.toml"], "-o cannot be used with --noise"),
        (["--to-release", "log.csv"], "need --noise"),
        (["--cases-per-person", "2"], "need --noise"),
    ],
)
def test_options_of_the_other_measurement_are_refused(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is ignored silently."""
    assert veilstream(["advise", str(tmp_path / "absent.csv"), *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_messy_export_is_measured_as_it_is_read(
    short: None, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Semicolons, a Windows code page, local times, a damaged row, an empty activity and numbers as names."""
    rows = ["Fall;Schritt;Zeit"]
    for case in range(300):
        rows += [f"{case};Prüfung;0{1 + case % 9}.03.2024 10:00", f"{case};42;0{1 + case % 9}.03.2024 11:00"]
    rows += ["300;Prüfung;gestern", "301;;05.03.2024 10:00"]
    path = tmp_path / "export.csv"
    path.write_bytes("\r\n".join(rows).encode("cp1252"))
    columns = "case=Fall,activity=Schritt,time=Zeit"
    flags = ["--columns", columns, "--timezone", "Europe/Berlin", "--separator", "semicolon",
             "--encoding", "cp1252", "--time-format", "day-first", "--skip-bad-rows"]  # fmt: skip
    assert veilstream(["advise", str(path), "--noise", "older", "--json", *flags]) == 0
    body: dict[str, Any] = json.loads(capfdbinary.readouterr().out)
    assert (body["data"], body["checked"], body["runs"]) == ("older", False, 2)
    assert "leaks" in body["warning"]
    assert set(body["measures"]) == {"similarity", "dfg_error", "empty", "activities"}
    declared = body["curves"][0]
    assert [point["epsilon"] for point in declared["points"]] == ["0.001", "40"]
    # Both names are text in the release too, so that the best release of the number 42 is like the log.
    assert declared["points"][1]["similarity"]["mean"] > 0.9
    assert all(math.isfinite(point["dfg_error"]["most"]) for point in declared["points"])


def test_markup_in_names_is_text_in_table_and_figure(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brackets, tags and formulas in activities and in the name of the file change neither the table nor the figure."""
    path = tmp_path / "older [red]$\\frac{$ <b>.csv"
    write_log(_log([("[bold]a[/bold]", "<script>", "$x_{$")] * 300), path)
    figure = tmp_path / "curve.svg"
    assert veilstream(["advise", str(path), "--noise", "public", "--plot", str(figure)]) == 0
    shown = capsys.readouterr().out
    assert "older [red]$\\frac{$ <b>.csv: 300 cases, 2 releases at each epsilon" in shown
    assert "You declared it public; nothing was checked" in shown
    assert "recommended for dp-synthetic, activities declared: epsilon 40" in shown
    assert "<b>" not in figure.read_text(encoding="utf-8")


def test_a_log_that_shares_cases_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2; a log of other cases is measured, and the check is named."""
    older, later = tmp_path / "older.csv", tmp_path / "later.csv"
    write_log(_log([("a", "b")] * 4), older)
    write_log(_log([("a", "b")] * 4, first_case=3), later)
    assert veilstream(["advise", str(older), "--noise", "older", "--to-release", str(later)]) == 2
    assert "1 cases of" in capsys.readouterr().err


def test_nothing_to_recommend_ends_with_3_and_names_the_check(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `advise` without a proposal does. The figures are given: noise on a tiny log is exact now and then."""

    def poor(log: EventLog, tried: Any, epsilon: str, *arguments: Any) -> NoisePoint:
        return _point(epsilon, similarity=0.5, error=0.4)

    monkeypatch.setattr(noise_advice, "_point", poor)
    older, later = tmp_path / "older.csv", tmp_path / "later.csv"
    write_log(_log([("a", "b")] * 3), older)
    write_log(_log([("a", "b")] * 3, first_case=3), later)
    assert veilstream(["advise", str(older), "--noise", "older", "--to-release", str(later)]) == 3
    shown = capsys.readouterr().out
    assert "no case of it is in later.csv" in shown
    assert shown.count("nothing: no epsilon up to 40 is good enough") == 3
