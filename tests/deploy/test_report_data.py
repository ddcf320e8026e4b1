"""Sentences of the report, compared with the files that it reads; and sentences that it must not contain."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.commands import execute
from stream.operator.report import figures
from stream.operator.report.data import ItemNames
from stream.operator.report.plots import PlotSeries, bars, lines, swatch
from tests.conftest import ROOT

ACTIVITIES = re.compile(rb'key="concept:name" value="([^"]+)"')


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The --json of a report."""
    assert execute(["report", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def by_name(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in data["publications"]}


def released_activities(folder: Path) -> set[str]:
    """Activities of the last TLKC release, read from its public file (case ids of releases look like none of them)."""
    last = max((folder / "public" / "research").iterdir())
    raw = gzip.decompress((last / "log.xes.gz").read_bytes())
    events = re.findall(rb"<event>.*?</event>", raw, re.S)
    return {match.group(1).decode() for event in events if (match := ACTIVITIES.search(event))}


def test_figures_are_those_of_the_audits(hospital: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """KA and every FA, CA, BA by n on the page equal audit.json of the release."""
    shown = by_name(document(capfd, str(hospital)))["research"]
    assert any(entry["pairs"] for entry in shown["anonymity"])
    for entry in shown["anonymity"]:
        if not entry["label"].isdigit():
            continue
        path = hospital / "operator" / "research" / f"{int(entry['label']):06d}" / "audit.json"
        audit = json.loads(path.read_text())["anonymity"]
        assert entry["ka"] == audit["ka"]
        columns = itemgetter("n", "fa", "ca", "ba")
        shown_pairs = [list(map(columns, pair["results"])) for pair in entry["pairs"]]
        audited_pairs = [list(map(columns, pair["results"])) for pair in audit["results"] or []]
        assert shown_pairs == audited_pairs


def test_withheld_attempts_stand_with_their_reasons(hospital: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An attempt that the gate refused is a row of its own and never silent."""
    assert execute(["releases", str(hospital), "--json"]) == 0
    ledger = json.loads(capfd.readouterr().out)["attempts"]
    refused = [row["reasons"] for row in ledger if row["publication"] == "research" and row["status"] == "withheld"]
    shown = by_name(document(capfd, str(hospital)))["research"]["attempts"]
    assert refused
    assert [row["reasons"] for row in shown if row["label"].startswith("w")] == refused


def test_a_release_that_broke_a_bound_is_marked(
    sepsis: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A gate that only warns lets a release out: it is counted and marked, in the overview too."""
    rows = by_name(document(capfd, str(sepsis)))["research"]["attempts"]
    warned = [row["label"] for row in rows if row["reasons"]]
    assert warned
    assert [row["label"] for row in rows if row["warned"]] == warned
    assert execute(["report", str(sepsis), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    assert f"<td>{len(rows)} published, {len(warned)} warned</td>" in text
    assert text.count("<td>published, warned</td>") == len(warned)


def test_a_measure_that_does_not_apply_is_no_number(hospital: Path, tmp_path: Path) -> None:
    """Amun spends no epsilon and counts no persons: the page states it with the reason, without a plot of zeros."""
    page = tmp_path / "report.html"
    assert execute(["report", str(hospital), "-o", str(page)]) == 0
    amun = page.read_text().split('<article id="amun"')[1].split("</article>")[0]
    anonymity = amun.split("<h3>Anonymity")[1].split("<h3>")[0]
    leakage = amun.split("<h3>Temporal leakage")[1].split("<h3>")[0]
    assert "Not applicable" in anonymity
    assert "matching sets count no persons" in anonymity
    assert "there is no epsilon to add up" in leakage
    assert "<svg" not in anonymity + leakage


def test_names_are_numbers_where_asked(hospital: Path, tmp_path: Path) -> None:
    """The operator reads activities by name; with --hide-values no released activity is on the page."""
    names = released_activities(hospital)
    assert len(names) > 3
    for flag, expected in ((), True), (("--hide-values",), False):
        page = tmp_path / f"{expected}.html"
        assert execute(["report", str(hospital), "-o", str(page), *flag]) == 0
        text = page.read_text()
        assert any(name in text for name in names) is expected


def strings(value: Any) -> set[str]:
    """Every text of a document, as value."""
    if isinstance(value, dict):
        return set().union(*map(strings, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(strings, value), set())
    return {value} if isinstance(value, str) else set()


def test_nothing_of_the_log_is_in_the_data_where_names_are_hidden(
    hospital: Path, sepsis: Path, logs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With --hide-values no activity, resource, sensitive value or case of the source is a text of the data."""
    for folder, source, sensitive in (
        (hospital, ROOT / "examples" / "hospital.xes.gz", "diagnosis"),
        (sepsis, logs / "sepsis.xes.gz", "Diagnose"),
    ):
        log = read_log(source)
        secret = {str(value) for column in (log.activity, log.resource) for value in column.values}
        secret |= {str(value) for value in log.case_values(sensitive).values} | set(log.case_ids)
        secret -= {*"ABCDEF", "KA", "FA", "CA", "BA"}  # names of projections and measures, too
        for flag in ((), ("--hide-values",)):
            said = strings(document(capfd, str(folder), *flag))
            assert bool(said & secret) is not bool(flag), said & secret


def test_a_new_page_is_for_its_owner_only(hospital: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It holds what was measured on source data: mode 0600; a place that cannot be written is one line and exit 2."""
    page = tmp_path / "report.html"
    assert execute(["report", str(hospital), "-o", str(page)]) == 0
    assert page.stat().st_mode & 0o777 == 0o600
    folder = tmp_path / "folder.html"
    folder.mkdir()
    for wrong in (folder, tmp_path / "none" / "report.html"):
        assert execute(["report", str(hospital), "-o", str(wrong)]) == 2
        assert f"{wrong}: cannot be written" in capfd.readouterr().err


@pytest.mark.parametrize("damaged", ["research/000001/audit.json", "comparison.json"])
def test_a_damaged_document_is_named(
    damaged: str, hospital: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line with the file, and exit 2."""
    other = shutil.copytree(hospital, tmp_path / "other")
    path = other / "operator" / damaged
    path.write_bytes(path.read_bytes()[:-20])
    assert execute(["report", str(other), "-o", str(tmp_path / "r.html")]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert f"{path}: cannot be read" in said


def test_a_release_whose_files_are_gone_is_not_called_unreleased(hospital: Path, tmp_path: Path) -> None:
    """Without its audit the promise is that of the manifest; without both the page says what is missing."""
    other = shutil.copytree(hospital, tmp_path / "other")
    shutil.rmtree(other / "operator" / "research")
    assert execute(["report", str(other), "-o", str(tmp_path / "r.html")]) == 0
    research = (tmp_path / "r.html").read_text().split('<article id="research"')[1].split("</article>")[0]
    assert "<dt>Promised</dt><dd>Whatever somebody knows of a case, up to 2 items" in research
    shutil.rmtree(other / "public")
    assert execute(["report", str(other), "-o", str(tmp_path / "r.html")]) == 0
    assert "The files of the last release are not in this folder." in (tmp_path / "r.html").read_text()
    assert "Nothing was released" not in (tmp_path / "r.html").read_text()


def test_ids_of_the_page_are_no_names_of_publications(hospital: Path, tmp_path: Path) -> None:
    """A publication may be called `overview`: every id appears once, those of the page have an underscore."""
    page = tmp_path / "report.html"
    assert execute(["report", str(hospital), "-o", str(page)]) == 0
    ids = re.findall(r' id="([^"]+)"', page.read_text())
    assert len(set(ids)) == len(ids)
    assert {name for name in ids if "_" not in name} == {"research", "amun"}


def test_the_page_is_one_file(hospital: Path, tmp_path: Path) -> None:
    """No script, no address of another host, no reference to another file."""
    page = tmp_path / "report.html"
    assert execute(["report", str(hospital), "-o", str(page)]) == 0
    text = page.read_text()
    assert "<script" not in text
    assert re.findall(r"https?://", text) == []
    assert set(re.findall(r'(?:src|href)="([^"#][^"]*)"', text)) == {"data:,"}


def test_a_folder_that_is_none_of_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line and exit 2 for a folder without a ledger, and where no page is asked for."""
    assert execute(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 2
    assert "no operator/ledger.sqlite" in capfd.readouterr().err
    assert execute(["report", str(tmp_path)]) == 2
    assert "-o FILE.html" in capfd.readouterr().err


def test_budget_lists_every_charge(sepsis: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Four charges of 0.1 reach the limit of 0.4; refused attempts before any noise are not charged."""
    budget = by_name(document(capfd, str(sepsis)))["statistics"]["budget"]
    assert [(one["epsilon"], one["became"]) for one in budget["charges"]] == [(0.1, "released")] * 4
    assert budget["limit"] == pytest.approx(0.4)
    assert budget["spent"]["epsilon"] == pytest.approx(0.4)


def plots(page: str) -> dict[str, str]:
    """Title -> figure, of one page or part of it; of equal titles the last."""
    found = re.findall(r"<figure>(.*?)</figure>", page, re.S)
    return {re.findall(r"<figcaption>(.*?)</figcaption>", one)[0]: one for one in found}


def test_bounds_of_the_gate_are_drawn(hospital: Path, sepsis: Path, tmp_path: Path) -> None:
    """min_ba and max_epsilon are a line and are in the legend, min_ba also where a pair is shown by n; where no bound
    is set there is no line."""
    pages = {}
    for folder in (hospital, sepsis):
        assert execute(["report", str(folder), "-o", str(tmp_path / "r.html")]) == 0
        pages[folder] = (tmp_path / "r.html").read_text()
    of_hospital, of_sepsis = plots(pages[hospital]), plots(pages[sepsis])
    attacks = of_hospital["Anonymity before and after attacks"]
    pairs = [figure for title, figure in of_hospital.items() if re.match(r"Release \d+ against", title)]
    assert pairs
    for figure in (attacks, *pairs):
        assert figure.count("<title>bound of BA: 15</title>") == 1
        assert "</svg>bound of BA: 15</li>" in figure
    assert "</svg>bound of KA: 2</li>" in of_sepsis["Anonymity before and after attacks"]
    assert "<title>limit: 0.4</title>" in of_sepsis["Epsilon by charge"]
    assert 'class="bound"' not in of_hospital["Utility by release"] + of_sepsis["Leakage by composition"]


def test_every_bound_has_its_plot() -> None:
    """max_tpl in the leakage, max_uniqueness and min_utility in theirs; the sum of epsilon is not a bound."""
    bounds = {"max_tpl": 1.5, "max_uniqueness": 0.25, "min_utility": 0.5}
    chain = {"status": "ok", "sum_epsilon": 2.0, "releases": [{"release": 1, "bpl": 0.1, "fpl": 0.2, "tpl": 0.3}]}
    risk = {"status": "ok", "label": "1", "worst": 0.1, "release": [{"m": 1, "unique_mean": 0.1}]}
    utility = {"status": "ok", "label": "1", "data_utility": 0.9}
    shown = {"bounds": bounds, "leakage": chain, "risk": [risk], "utility": [utility]}
    leaked, unique, useful = figures.leakage(shown), figures.uniqueness(shown), figures.utility(shown)
    assert leaked is not None
    assert useful is not None
    assert leaked.legend[-2:] == (("bound of the gate: 1.5", "bound"), ("sum of epsilon: 2", "bound reference"))
    assert [one.legend[-1] for one in unique] == [("bound of the gate: 0.25", "bound")] * 2
    assert useful.legend[-1] == ("bound of the gate: 0.5", "bound")
    composed = figures.leakage({**shown, "leakage": {"status": "ok", "sum_epsilon": 0.4, "epsilon": [0.2, 0.2]}})
    assert composed is not None
    assert composed.legend[-1] == ("bound of the gate: 1.5", "bound")


def test_comparison_is_shown(hospital: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The result of `replay --compare` is a table and plots; a comparison of other publications is not shown."""
    rows = json.loads((hospital / "operator" / "comparison.json").read_text())
    assert document(capfd, str(hospital))["comparison"] == rows
    assert execute(["report", str(hospital), "-o", str(tmp_path / "r.html")]) == 0
    section = (tmp_path / "r.html").read_text().split('<h3 id="_comparison">')[1].split("</section>")[0]
    assert {"Cases left by attacks", "Kept, useful, held back"} <= set(plots(section))
    research = section.split('<a href="#research">')[1].split("</tr>")[0]
    ((kept, useful),) = [(row["events_kept"], row["utility"]) for row in rows if row["publication"] == "research"]
    assert f">{kept:.4g}</td>" in research
    assert f">{useful:.4g}</td>" in research
    other = shutil.copytree(hospital, tmp_path / "other")
    (other / "operator" / "comparison.json").write_text(json.dumps(rows[:1]))
    assert document(capfd, str(other))["comparison"] == []


def test_source_graph_counts_the_source(sepsis: Path, logs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--source draws the graph of the given log: ER Registration starts every one of the 1,050 cases of Sepsis."""
    source = ["--source", str(logs / "sepsis.xes.gz"), "--show-values"]
    graph = by_name(document(capfd, str(sepsis), *source))["research"]["graphs"][0]
    counts = {node["name"]: node["count"] for node in graph["nodes"]}
    assert graph["title"] == "Source log"
    assert counts["ER Registration"] == 1050
    assert sum(counts.values()) == 15214


def test_a_gap_is_not_drawn_as_zero() -> None:
    """A missing value breaks the line in two and is a dot, not a bar, among bars."""
    series = [PlotSeries("KA", [3, 2, None, 5, 4], 0)]
    labels = ["1", "2", "3", "4", "5"]
    line, bar = lines("t", labels, series, "cases"), bars("t", labels, series, "cases")
    assert line.count("<polyline") == 2
    assert line.count('class="mark') == 4
    assert bar.count('class="mark') == 4
    assert bar.count('class="none"') == 1


def test_axes_and_signs_say_what_is_drawn() -> None:
    """Both axes have their names; the legend shows a line with its own marker, a bar as a box, a bound without mark."""
    drawn = lines("t", ["1"], [PlotSeries("KA", [3], 1)], "cases, least", across="release")
    assert re.findall(r'class="unit"[^>]*>([^<]+)<', drawn) == ["cases, least", "release"]
    assert swatch("line s1").count('class="mark s1"') == swatch("line s1").count('class="line s1"') == 1
    assert swatch("s1").count("<rect") == 1
    assert "mark" not in swatch("bound reference")


def test_labels_of_plots_are_escaped() -> None:
    """A name from the log cannot become markup."""
    drawn = lines("<b>&", ["<i>"], [PlotSeries('"><script>', [1.0], 0)], "<u>")
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    assert "<i>" not in drawn


def test_numbers_of_names_are_stable() -> None:
    """Numbers follow sorted names; composed items get numbers of their own."""
    names = ItemNames(["b", "a"], shown=False)
    assert names.labels(["a", "b", ["a", 3], "b"]) == ["#1", "#2", "#3", "#2"]
    assert ItemNames([], shown=True).label(["a", 3]) == "a 3"
