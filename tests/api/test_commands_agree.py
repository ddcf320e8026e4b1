"""Functions and commands with the same options give the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import veilstream as vs
from connectors import read_log
from stream.commands import execute
from tests.api.conftest import variants


def printed(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Return the output of a command with --json."""
    capfd.readouterr()
    assert execute([*map(str, arguments), "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def printed_anyway(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The same, of a command that may end with 3."""
    capfd.readouterr()
    assert execute([*map(str, arguments), "--json"]) in (0, 3)
    return json.loads(capfd.readouterr().out)


def without_seconds(document: Any) -> Any:
    """The document as JSON has it, without what differs from run to run."""
    plain = json.loads(json.dumps(document))
    for part in (plain, *plain.get("projections", ())):
        part.pop("seconds", None)
    return plain


TLKC = ["--sensitive", "diagnosis", "--release-attributes", "diagnosis", "--K", 5, "--L", 2, "--C", "0.9"]


def test_anonymize(small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same document, variants and attributes; ids and order are drawn again each time."""
    target = tmp_path / "out.parquet"
    document = printed(capfd, "anonymize", small_file, "-o", target, *TLKC)
    release = vs.anonymize(small, sensitive="diagnosis", release_attributes="diagnosis", K=5, L=2, C="0.9")
    assert without_seconds(release.document) == without_seconds(document)
    assert variants(release.log) == sorted(read_log(target).traces())
    assert sorted(vs.read_log(target)["case:diagnosis"]) == sorted(release.log["case:diagnosis"])
    assert release.promise == document["promise"]


def test_attack(small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Pairs, series and named background knowledge."""
    release = vs.anonymize(small, K=5, L=2, C=1)
    path = tmp_path / "release.parquet"
    release.log.to_parquet(path)
    document = printed(
        capfd, "attack", path, small_file, small_file, "--n", "0..2", "--bk", "Registration,Triage", "--bk-length", 2
    )
    result = vs.attack(release, small, small, n=range(3), bk=[["Registration", "Triage"]], bk_length=2)
    assert without_seconds(result.document) == document
    assert list(result.to_dataframe()["releases"].unique()) == ["1, 2", "1, 3", "2, 3", "1..3"]


def test_leakage(small: pd.DataFrame, small_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Windows, budgets and a seed; a broken bound is reported and raises nothing."""
    document = printed(capfd, "leakage", small_file, "--scenario", "uncertain", "--window", "1,2", "--epsilon", "0.1",
                    "--releases", 3, "--seed", 4)  # fmt: skip
    result = vs.leakage(small, scenario="uncertain", window=[1, 2], epsilon=0.1, releases=3, seed=4)
    assert without_seconds(result.document) == document
    broken = vs.leakage(small, epsilon=0.1, releases=3, bound=0.05)
    assert broken.broken == ("TPL passes the bound 0.05 at window 1",)
    assert "broken: TPL passes the bound" in broken.summary()


def test_risk(small: pd.DataFrame, small_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All projections, by the same draws."""
    document = printed(
        capfd, "risk", small_file, "--points", "1,50%", "--draws", 3, "--seed", 7, "--resolution", "days"
    )
    result = vs.risk(small, points=[1, "50%"], draws=3, seed=7, resolution="days")
    assert without_seconds(result.document) == without_seconds(document)


def test_utility(small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every measure, the discovered model included."""
    release = vs.anonymize(small, K=5, L=2, C=1)
    path = tmp_path / "release.parquet"
    release.log.to_parquet(path)
    document = printed(capfd, "utility", small_file, path, "--fitness", "replay")
    assert without_seconds(vs.utility(small, release, fitness="replay").document) == document


def test_assess(small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same attacks and figures; the original is the control's neighbour in time."""
    cases = sorted(set(small["case:concept:name"]))
    is_inside = small["case:concept:name"].isin(cases[: len(cases) // 2])
    release = vs.anonymize(small[is_inside], K=3, L=2, C=1)
    paths = {name: tmp_path / f"{name}.parquet" for name in ("release", "original", "control")}
    release.log.to_parquet(paths["release"])
    small[is_inside].to_parquet(paths["original"])
    small[~is_inside].to_parquet(paths["control"])
    document = printed(
        capfd, "assess", paths["release"], "--original", paths["original"], "--control", paths["control"], "--m", 2
    )
    result = vs.assess(release.log, original=small[is_inside], control=small[~is_inside], m=2)
    assert json.loads(json.dumps(result.document["assessments"])) == document["assessments"]
    assert result.document["warnings"] == document["warnings"]
    promised = vs.assess(release, original=small[is_inside], control=small[~is_inside])
    assert list(promised.to_dataframe()["attacker"].unique()) == ["promised", "stronger"]


def test_assess_makes_a_release_of_half_the_log(
    small: pd.DataFrame, small_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--mechanism` and `--set`: the halves are drawn with the seed; a release of its own, or none, is refused."""
    document = printed(
        capfd, "assess", "--original", small_file, "--mechanism", "tlkc", "--set", "K=3", "--set", "C=1", "--seed", 5
    )
    result = vs.assess(original=small, mechanism={"kind": "tlkc", "K": 3, "C": 1}, seed=5)
    assert json.loads(json.dumps(result.document["assessments"])) == document["assessments"]
    with pytest.raises(vs.InputError, match="leave out releases and control"):
        vs.assess(small, original=small, mechanism="tlkc")
    with pytest.raises(vs.InputError, match="give the releases to assess"):
        vs.assess(original=small)
    with pytest.raises(vs.InputError, match="is not one of"):
        vs.assess(original=small, mechanism={"K": 3})


def test_replay_compares(
    small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The rows of `--compare`, and the file that the report reads; without it there are none."""
    document = printed_anyway(capfd, "replay", small_file, "--compare", "-o", tmp_path / "by-command")
    series = vs.replay(small, compare=True, output=tmp_path / "by-function")
    comparison = series.comparison
    assert comparison is not None
    rows = {row["publication"]: row for row in document["comparison"]}
    assert list(comparison["publication"]) == list(rows) == ["re-anonymize", "repair", "cohorts", "dp"]
    by_function = dict(zip(comparison["publication"], comparison["events_kept"], strict=True))
    assert by_function["cohorts"] == rows["cohorts"]["events_kept"]
    assert (tmp_path / "by-function" / "operator" / "comparison.json").is_file()
    assert "cohorts" in series.summary()
    assert vs.replay(small).comparison is None


def test_replay(small: pd.DataFrame, small_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Cuts, figures, verdicts and exit code; the folder is the one that was given."""
    document = printed(capfd, "replay", small_file, "--sensitive", "diagnosis", "-o", tmp_path / "by-command")
    series = vs.replay(small, sensitive="diagnosis", output=tmp_path / "by-function")
    assert series.folder == tmp_path / "by-function"
    assert series.exit_code == 0
    assert json.loads(json.dumps(series.document["verdicts"])) == document["verdicts"]
    figures = [(audit["counts"], audit["anonymity"]["results"]) for audit in document["releases"]]
    own = json.loads(json.dumps(series.document["releases"]))
    assert [(audit["counts"], audit["anonymity"]["results"]) for audit in own] == figures
    assert len(series.releases) == len(figures) > 1
    by_command = tmp_path / "by-command" / "public" / "research" / "release-000001" / "log.xes.gz"
    assert variants(series.releases[0].log) == sorted(trace for trace in read_log(by_command).traces() if trace)
