"""`veilstream risk` and `veilstream utility` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream.commands import execute

ROWS = [("1", "a", 1, "r"), ("1", "b", 2, "s"), ("2", "a", 1, "r"), ("2", "b", 9, "r"), ("3", "a", 1, "s")]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    lines = ["case:concept:name,concept:name,time:timestamp,org:resource,case:age"]
    lines += [
        f"{case},{name},2020-01-0{day}T10:00:00+00:00,{who},{20 + int(case) % 2}" for case, name, day, who in ROWS
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_risk_json_of_one_projection(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The documented keys, and figures that can be read off the five events."""
    assert execute(["risk", log, "--projection", "E", "--points", "1,all", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert {"projection", "resolution", "points", "case_uniqueness", "population"} <= found.keys()
    assert found["points"][1] == {"m": "100%", "unique_mean": 0.0, "unique_sd": 0.0, "draws": 20}
    assert found["case_uniqueness"] == pytest.approx(1 / 3)
    assert found["population"] is None


@pytest.mark.parametrize("asked", ["org:resource", "resource", "org:resource,resource"])
def test_the_resource_is_known_by_its_name_in_the_file(log: str, asked: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`org:resource` is the resource column: the figures of the default, where it is the one event attribute."""
    given = []
    for more in ([], ["--event-attributes", asked]):
        assert execute(["risk", log, "--projection", "C", "--points", "1,all", "--json", *more]) == 0
        given.append(json.loads(capfd.readouterr().out))
    assert given[0]["event_attributes"] == given[1]["event_attributes"] == ["resource"]
    assert given[0]["points"] == given[1]["points"]
    assert given[0]["points"][1]["unique_mean"] > 0


def test_a_resource_column_of_another_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A resource column named by --columns can be named in --event-attributes; a log without resources has none."""
    path = tmp_path / "log.csv"
    path.write_text("c,a,t,who\n1,x,2020-01-01T10:00:00Z,p\n2,x,2020-01-02T10:00:00Z,q\n", encoding="utf-8")
    command = ["risk", str(path), "--projection", "C", "--points", "all", "--json", "--event-attributes", "who"]
    assert execute([*command, "--columns", "case=c,activity=a,time=t,resource=who"]) == 0
    assert json.loads(capfd.readouterr().out)["points"][0]["unique_mean"] == 1.0
    command[-1] = "org:resource"
    assert execute([*command, "--columns", "case=c,activity=a,time=t"]) == 2
    assert "no resource" in capfd.readouterr().err


def test_risk_json_of_all(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Six projections in order, each in the shape of one, with the population as well."""
    assert execute(["risk", log, "--population", "30", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [each["projection"] for each in found["projections"]] == list("ABCDEF")
    assert found["population"]["size"] == 30


def test_risk_table_marks_what_is_not_available(log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Resources have no case attributes: n/a and the reason, exit 0; the figure is written."""
    figure = tmp_path / "risk.svg"
    assert execute(["risk", log, "--unit", "resource", "--plot", str(figure)]) == 0
    out = capfd.readouterr().out
    assert "n/a" in out
    assert "projection D needs case attributes" in out
    assert figure.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--points", "0"], "points"),
        (["--projection", "Q"], "'Q'"),
        (["--population", "2"], "3 cases"),
        (["--population", "100000000000"], "400,000,000"),
        (["--seed", "-1"], "--seed"),
        (["--sensitive", "salary"], "salary"),
        (["--case-attributes", "salary"], "salary"),
        (["--event-attributes", "salary", "--projection", "C"], "salary"),
        (["--plot", "figure.doc"], ".png"),
        (["--unit", "resource", "--population", "9"], "case attributes"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    log: str, options: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bad values are named on stderr; nothing is on stdout."""
    assert execute(["risk", log, "--json", *options]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_utility_json(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A log against itself: everything is kept, in the documented keys."""
    assert execute(["utility", log, log, "--json"]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert found["data_utility"] == found["dfg"]["f1"] == found["handover"]["f1"] == 1.0
    assert found["discovery"].keys() >= {"fitness", "precision", "f1"}
    assert found["emd_frequency"] == found["emd_time_months"] == 0.0
    assert found["variants"] == {"lost": 0, "new": 0, "r1": True}
    running = found["active_cases"]
    assert running["original"] == running["released"]
    assert (running["original"][0], running["original"][-1]) == (2, 1)  # cases 1 and 2 on the first day, then case 2
    assert running["moments"][0] == "2020-01-01T14:48:00+00:00"  # a fortieth of eight days after ten o'clock
    assert err == ""


def test_ordinal_times_are_not_compared(log: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A release whose times are but places in the trace has no durations: null, and a line that reports it."""
    path = tmp_path / "released.csv"
    lines = ["case:concept:name,concept:name,time:timestamp"]
    lines += ["9,a,1970-01-01T00:00:00+00:00", "9,b,1970-01-01T00:00:01+00:00", "8,a,1970-01-01T00:00:00+00:00"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert execute(["utility", log, str(path), "--fitness", "none", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["emd_time_months"] is found["bottlenecks"] is found["active_cases"] is None
    assert found["variants"] == {"lost": 0, "new": 0, "r1": True}
    assert found["emd_frequency"] == 1.0
    assert execute(["utility", log, str(path), "--fitness", "none"]) == 0
    assert "the release carries none" in capfd.readouterr().out


def test_utility_table_and_bad_method(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A table for people; an unknown fitness method is exit 2."""
    assert execute(["utility", log, log, "--fitness", "none"]) == 0
    assert "data utility (activity): 1.0000" in capfd.readouterr().out
    assert execute(["utility", log, log, "--fitness", "guess"]) == 2
