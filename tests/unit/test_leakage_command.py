"""`veilstream leakage`: stable JSON, exit codes, the figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute

ROWS = ["case,activity,time", *(f"{c},{a},2024-01-0{d}T00:00:00Z" for c in "xyz" for d, a in enumerate("abcab", 1))]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    path.write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    return str(path)


COLUMNS = ["--columns", "case=case,activity=activity,time=time"]


def result(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert execute(["leakage", *arguments, *COLUMNS, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_json_has_the_documented_shape(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The keys that stay, and the values of sequential composition."""
    found = result(capfd, log, "--split", "0.1", "--releases", "3", "--epsilon", "0.1")
    assert found["epsilon"] == [0.1, 0.1, 0.1]
    assert [(r["release"], r["bpl"], r["fpl"], r["tpl"]) for r in found["releases"]] == [
        (1, 0.1, 0.3, 0.3),
        (2, 0.2, 0.2, 0.3),
        (3, 0.3, 0.1, 0.3),
    ]
    assert (found["max_tpl"], found["sum_epsilon"]) == (0.3, 0.3)
    assert found["extreme"] == {"backward": True, "forward": True}
    assert isinstance(found["states"], int)


def test_one_release_shows_whether_the_next_step_forgets(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """By last activity and wide windows the chain mixes, also if there is one release alone; prefixes do not."""
    one = [log, "--split", "0.1", "--releases", "1", "--window", "8"]
    assert result(capfd, *one, "--states", "last")["extreme"] == {"backward": False, "forward": False}
    assert result(capfd, *one, "--window", "1")["extreme"] == {"backward": True, "forward": True}


def test_several_windows_and_chains(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One result a window; every chain has its curves."""
    found = result(capfd, log, "--window", "1..2", "--states", "last", "--attribute", "resource", "--split", "0.1")
    assert [entry["window"] for entry in found["windows"]] == [1, 2]
    assert set(found["windows"][0]["chains"]) == {"activity", "resource"}


def test_delta_gives_sums_and_no_curves(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """AL proves nothing beyond pure epsilon."""
    found = result(capfd, log, "--split", "0.1", "--releases", "2", "--delta-dp", "0.001")
    assert (found["method"], found["sum_delta"], found["releases"][0]["tpl"]) == ("composition", 0.002, None)


def test_a_bound_gives_budgets_and_exit_code_3_where_it_breaks(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Five releases at 0.01 keep 0.05 and break 0.04."""
    assert result(capfd, log, "--split", "0.1", "--bound", "0.05")["bound"]["unknown_horizon"] == 0
    assert execute(["leakage", log, *COLUMNS, "--split", "0.1", "--bound", "0.04"]) == 3
    assert "bound 0.04" in capfd.readouterr().err


@pytest.mark.parametrize("bound", ["0.04", "0.05", "0.2"])
def test_budgets_as_printed_keep_the_bound(log: str, capfd: pytest.CaptureFixture[str], bound: str) -> None:
    """A third of 0.04 is cut, not rounded up: what JSON and table say, given back as --epsilon, keeps 0.04 exactly."""
    asked = [log, "--split", "0.1", "--releases", "3", "--bound", bound]
    found = result(capfd, *asked, "--epsilon", "0.001")["bound"]
    assert sum(found["known_horizon"]) == pytest.approx(float(bound), rel=1e-12)
    assert execute(["leakage", *asked, *COLUMNS, "--epsilon", ",".join(map(str, found["known_horizon"]))]) == 0
    printed = " ".join(capfd.readouterr().out.split()).rpartition("forever; ")[2].partition(" for ")[0]
    assert execute(["leakage", *asked, *COLUMNS, "--epsilon", printed]) == 0


def test_budgets_are_for_every_chain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The last activity mixes within five events; the ward distinguishes every event, so only a finite total is
    safe."""
    path = tmp_path / "wards.csv"
    rows = [f"{row},{ward}" for row, ward in zip(ROWS[1:], "pqrst" * 3, strict=True)]
    path.write_text("\n".join([f"{ROWS[0]},ward", *rows]) + "\n", encoding="utf-8")
    asked = [str(path), "--split", "0.1", "--window", "5", "--states", "last", "--bound", "0.04"]
    alone, both = (result(capfd, *asked, *more)["bound"] for more in ([], ["--attribute", "ward"]))
    assert (alone["unknown_horizon"] > 0, both["unknown_horizon"]) == (True, 0)
    assert all(e <= other for e, other in zip(both["known_horizon"], alone["known_horizon"], strict=True))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_figure_is_drawn(log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], suffix: str) -> None:
    """--plot writes a file of the kind its suffix says, and the table still is on stdout."""
    figure = tmp_path / f"figure{suffix}"
    assert execute(["leakage", log, *COLUMNS, "--split", "0.1", "--window", "1,2", "--plot", str(figure)]) == 0
    assert figure.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    assert "TPL" in capfd.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--epsilon", ""],
        ["--window", "0"],
        ["--window", "x"],
        ["--split", "1"],
        ["--states", "bag"],
        ["--end-activities", "zzz"],
        ["--plot", "figure.doc"],
        ["--delta-dp", "-1"],
        ["--bound", "inf"],
        ["--releases", "-3"],
        ["--method", "reference", "--states", "set"],
        ["--method", "reference", "--bound", "0.05"],
        ["--delta-dp", "1"],
        ["--delta-dp", "nan"],
        ["--delta-dp", "0.1", "--plot", "figure.png"],
        ["--plot", "nowhere/figure.png"],
        ["--window", "99999999999999999999"],
        ["--seed", "-1"],
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    log: str, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Nothing on stdout, one line on stderr."""
    assert execute(["leakage", log, *COLUMNS, *arguments]) == 2
    captured = capfd.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.out == ""
