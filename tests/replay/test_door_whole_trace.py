"""The success of somebody who knows a whole trace is measured, and stated with the promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import membership as benchmark
from models.eventlog import EventLog
from stream.commands import execute
from stream.release import membership

ROOT = Path(__file__).resolve().parents[2]


def log_of(variants: int, cases: int) -> EventLog:
    """So many variants, dealt out in turn: with as many as cases, each person has a trace of their own."""
    traces = [[f"a{(k % variants) // 16}", f"b{(k % variants) % 16}", "end"] for k in range(cases)]
    return EventLog.from_traces([(trace, None) for trace in traces])


def test_a_release_of_everything_reveals_who_is_a_member() -> None:
    """Negative control: every trace is unique and released as it is."""
    found = benchmark.measure(log_of(120, 120), {"kind": "identity"}, 3)
    assert found["auc"] == 1.0
    assert found["unique_unchanged"] == 1.0


def test_traces_that_everybody_has_reveal_nothing() -> None:
    """Positive control: members and others have the same two variants."""
    found = benchmark.measure(log_of(2, 120), {"kind": "identity"}, 3)
    assert found["auc"] == 0.5
    assert found["interval"] == [0.5, 0.5]


def test_halves_are_disjoint_and_cover_the_log() -> None:
    log = log_of(9, 31)
    members, others = benchmark.halves(log, 4)
    assert set(members.case_ids).isdisjoint(others.case_ids)
    assert {*members.case_ids, *others.case_ids} == set(log.case_ids)
    assert members.n_cases == 15


def test_scores_by_hand() -> None:
    """abc was released; abd is one of three letters off, xyz has none in common."""
    assert benchmark.scores([("a", "b", "c"), ("a", "b", "d"), ("x", "y", "z")], [("a", "b", "c")]) == pytest.approx(
        [1, 2 / 3, 0]
    )
    assert benchmark.scores([("a",)], []).tolist() == [0]


@pytest.mark.parametrize(
    ("table", "given"),
    [
        ("kind = 'identity'", True),
        ("kind = 'tlkc', K = 20, L = 2, C = 1, suppression = 'local'", True),
        ("kind = 'tlkc-cohorts', K = 20, L = 2, C = 1, suppression = 'local'", True),
        ("kind = 'pretsa', K = 20", False),
    ],
)
def test_the_statement_gives_the_figure_of_its_mechanism(tmp_path: Path, table: str, given: bool) -> None:
    """Under "Not promised", with log, split and interval; nothing if no figure was measured."""
    config = tmp_path / "v.toml"
    config.write_text(
        "[process]\nname = 'hospital'\n[process.completion]\nlog_end = true\n[[publication]]\nname = 'p'\n"
        f"window = {{ new_cases = 1500 }}\nmechanism = {{ {table} }}\n"
        "audit = { bk_length = 1, risk = false, utility = false }\n",
        encoding="utf-8",
    )
    out = tmp_path / "out"
    source = ROOT / "examples" / "hospital.xes.gz"
    assert execute(["replay", str(source), "-c", str(config), "-o", str(out), "--final"]) in (0, 3)
    page = tmp_path / "page.md"
    assert execute(["statement", str(out), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8").partition("Not promised")[2]
    assert ("whole trace" in text) is given
    if given:
        assert "not on this one" in text
        assert "95 % interval" in text


def test_advise_gives_the_figure_of_each_candidate(capfd: pytest.CaptureFixture[str]) -> None:
    source = ROOT / "examples" / "hospital.xes.gz"
    assert execute(["advise", str(source), "--sensitive", "diagnosis", "--json"]) in (0, 3)
    rows = json.loads(capfd.readouterr().out)["candidates"]
    cohorts = [row for row in rows if row["mechanism"]["kind"] == "tlkc-cohorts"]
    cohorts = [row for row in cohorts if row["mechanism"].get("suppression") == "local"]
    assert cohorts
    for row in cohorts:
        assert 0.5 < row["whole_trace_auc"]["low"] < row["whole_trace_auc"]["auc"] < row["whole_trace_auc"]["high"]


def test_every_figure_is_in_the_limitations() -> None:
    """One place has the table; the pages repeat it."""
    page = (ROOT / "docs" / "limitations.md").read_text(encoding="utf-8")
    for figure in membership.MEASURED.values():
        assert f"| {figure.auc:.3f} |".replace("0.", ".") in page
