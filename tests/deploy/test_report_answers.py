"""The questions that a report begins with: each answer against audits and ledger, not against the page's code."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from models.dp.budget import Charge
from stream.commands import execute
from stream.ledger.entries import (
    BurnedEntry,
    Entry,
    ErasedBody,
    ErasedEntry,
    NoteBody,
    NoteEntry,
    PublishedEntry,
    SealBody,
    SealEntry,
    charge_entry,
)
from stream.ledger.view import LedgerView
from stream.operator.report import data
from stream.operator.report.document import AttemptRow
from stream.operator.report.plots import PlotSeries, bars
from stream.operator.spending import affordable_releases, budget_by_now
from stream.release.documents import AuditDocument


def page_of(folder: Path, tmp_path: Path, *more: str) -> str:
    """The report as text."""
    assert execute(["report", str(folder), "-o", str(tmp_path / "r.html"), *more]) == 0
    return (tmp_path / "r.html").read_text()


def section(page: str, name: str) -> str:
    """One question, from its heading to the next."""
    return page.split(f'<h2 id="_{name}">')[1].partition("<h2")[0]


def test_the_questions_stand_in_order_before_any_detail(hospital: Path, tmp_path: Path) -> None:
    """Safe, budget, cost, happened; then the details of every publication, and the words of the page."""
    heads = re.findall(r"<h2[^>]*>([^<]+)</h2>", page_of(hospital, tmp_path))
    assert heads == [
        "Is it safe?",
        "What is left of the budget, and until when?",
        "What did it cost the analysts?",
        "What happened?",
        "Details: publication research",
        "Details: publication amun",
        "Words of this page",
    ]


def test_the_worst_number_appears_with_release_and_adversary(
    hospital: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """BA of the answer is the least that any audit of a release holds, and both releases of the attack are named."""
    assert execute(["report", str(hospital), "--json"]) == 0
    data = json.loads(capfd.readouterr().out)
    (research,) = [one for one in data["publications"] if one["name"] == "research"]
    audits = [json.loads(path.read_text()) for path in sorted(hospital.glob("operator/research/*/audit.json"))]
    true = [
        (row["ba"], str(audit["sequence"]), str(row["earlier"]))
        for audit in audits
        for row in audit["anonymity"].get("true_linker") or []
        if row["ba"]
    ]
    (ba,) = [row for row in research["safe"]["worst"] if row["measure"] == "BA"]
    assert ba["value"] <= min(value for value, _, _ in true)
    assert ba["bound"] == 15
    for minimum in research["safe"]["series"]:
        (row,) = [row for row in audits[-1]["series"]["results"] if row["n"] == minimum["n"]]
        numbers_left = [row[attack] for attack in ("fa", "ca", "ba", "bf", "bc")]
        assert minimum["left"] == min(number for number in numbers_left if number is not None)
        assert minimum["violated"] == (row.get("assumption") == "violated")
    assert research["safe"]["series_bound"] is None
    assert f"holds releases {ba['against']} and {ba['release']} and looks for a person who is new" in ba["sentence"]
    assert ba["sentence"] in section(page_of(hospital, tmp_path), "safe")


def test_without_noise_the_budget_says_why_there_is_none(hospital: Path, tmp_path: Path) -> None:
    """Neither TLKC nor Amun spends epsilon: a sentence appears there, and no meter."""
    answer = section(page_of(hospital, tmp_path), "budget")
    assert "No budget" in answer
    assert "none spends epsilon" in answer
    assert 'class="meter"' not in answer


def test_a_spent_budget_says_that_nothing_more_leaves(sepsis: Path, tmp_path: Path) -> None:
    """Four releases of 0.1 under a limit of 0.4; and TPL is next to epsilon with its reason, once."""
    answer = section(page_of(sepsis, tmp_path), "budget")
    assert "Epsilon 0.4 is spent, of at most 0.4 (charges added up)." in answer
    assert "so no further release can leave" in answer
    assert answer.count("temporal privacy leakage (TPL)") == 1


def attempt(number: int, day: str, **more: Any) -> AttemptRow:
    """A release of that day."""
    row = {"label": str(number), "time": f"{day}T00:00:00+00:00", "status": "published", "reasons": [], "cases": 3}
    return cast(AttemptRow, {**row, "warned": False, "repaired": False, **more})


PACE = [attempt(1, "2025-01-01"), attempt(2, "2025-01-11"), attempt(3, "2025-01-21")]


@pytest.mark.parametrize(
    ("limit", "process", "left", "more", "until"),
    [
        (3.0, None, 1.5, 3, "2025-02-20"),
        (3.0, 2.0, 0.5, 1, "2025-01-31"),  # the process has spent as much, and has less left
        (1.6, None, 0.1, 0, "2025-01-21"),
        (None, None, None, None, None),
        (None, 2.5, 1.0, 2, "2025-02-10"),
    ],
)
def test_until_when_the_budget_lasts(
    limit: float | None, process: float | None, left: float | None, more: int | None, until: str | None
) -> None:
    """Releases of 0.5 every ten days, three of them so far; the tighter of both limits counts."""
    view = LedgerView(charge_entry("p", f"cut {number}", Charge(Fraction(1, 2))) for number in range(3))
    body: dict[str, Any] = {"epsilon": 0.5, "delta": 0.0, "spent": {"epsilon": 1.0, "delta": 0.0}, "limit": limit}
    if process is not None:
        body["process"] = {"spent": body["spent"], "limit": {"epsilon": process, "delta": None}}
    document = cast(AuditDocument, {"budget": body})
    by_now = budget_by_now(document, view, view.account("p"))
    found = data.budget_answer(PACE, by_now, affordable_releases(document, view, view.account("p")))
    assert found is not None
    assert (found["spent"], found["rule"]) == (1.5, "sum")  # the last manifest was sealed before the third charge
    assert found["left"] == (None if left is None else pytest.approx(left))
    assert found["releases_left"] == more
    assert (found["last_paid"] or "")[:10] == (until or "")


def test_one_release_has_no_pace() -> None:
    """The number of further releases is shown, and no day."""
    body: Any = {"epsilon": 0.5, "delta": 0.0, "spent": {"epsilon": 0.5, "delta": 0.0}, "limit": 2.0}
    found = data.budget_answer(PACE[:1], body, 3)
    assert found is not None
    assert (found["releases_left"], found["last_paid"]) == (3, None)


def test_a_budget_that_lasts_longer_than_calendars_has_no_last_day() -> None:
    """A hundred million days: more than any forecast of the gate, but a pace may be slow."""
    body: Any = {"epsilon": 0.5, "delta": 0.0, "spent": {"epsilon": 0.5, "delta": 0.0}, "limit": 2.0}
    found = data.budget_answer(PACE, body, 10**7)
    assert found is not None
    assert (found["releases_left"], found["last_paid"]) == (10**7, None)


@pytest.mark.parametrize(("limit", "more"), [(1 / 3, 0), (4 / 9, 1), (2.0, 15)])
def test_a_limit_that_a_document_rounds_is_the_limit_that_was_set(limit: float, more: int) -> None:
    """1/3 pays for three charges of 1/9, though the float below 1/3 does not."""
    view = LedgerView(charge_entry("p", f"cut {number}", Charge(Fraction(1, 9))) for number in range(3))
    body: Any = {"epsilon": 1 / 9, "delta": 0.0, "spent": {"epsilon": 1 / 3, "delta": 0.0}, "limit": limit}
    assert affordable_releases(cast(AuditDocument, {"budget": body}), view, view.account("p")) == more


def test_what_happened_is_the_ledger(hospital: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every attempt once, in order; what was withheld with its reasons; what did not happen is said too."""
    assert execute(["releases", str(hospital), "--json"]) == 0
    ledger = json.loads(capfd.readouterr().out)["attempts"]
    assert execute(["report", str(hospital), "--json"]) == 0
    happened = json.loads(capfd.readouterr().out)["happened"]
    assert [(row["publication"], row["time"]) for row in happened] == [
        (row["publication"], row["time"] or None) for row in ledger
    ]
    refused = ["; ".join(row["reasons"]) for row in ledger if row["status"] == "withheld"]
    assert refused
    assert [row["why"] for row in happened if row["what"] == "withheld"] == refused
    answer = section(page_of(hospital, tmp_path), "happened")
    assert "Nothing was erased, no gap was accepted." in answer


def test_erasures_gaps_and_lost_numbers_are_lines_of_their_own() -> None:
    """In the order of the ledger; a number that a crash took is said once."""
    body = SealBody(files=(), manifest="0", temporary="t", operator="o")
    entries: list[Entry] = [
        SealEntry(publication="a", cut="1", sequence=1, body=body),
        PublishedEntry(publication="a", cut="1", sequence=1),
        NoteEntry(publication="", body=NoteBody(gap=40)),
        SealEntry(publication="a", cut="2", sequence=2, body=body),
        BurnedEntry(publication="a", cut="2", sequence=2),
        ErasedEntry(publication="a", body=ErasedBody(cases=2, releases=(1,))),
        ErasedEntry(publication="a", body=ErasedBody(cases=3, known=1)),
    ]
    attempts = [attempt(1, "2025-01-01"), attempt(2, "2025-01-02", status="burned")]
    rows = data.happened(LedgerView(entries).history, {"a": attempts})
    assert [row["what"] for row in rows] == ["released", "gap accepted", "number lost", *["erasure"] * 2]
    assert rows[-2]["why"] == "2 cases erased; held by release 1"
    assert rows[-1]["why"] == "1 of 3 cases known here, and erased; in no release"


def test_a_repaired_release_is_no_warning() -> None:
    """Its bounds hold: the reasons are of before, and the line reports it."""
    body = SealBody(files=(), manifest="0", temporary="t", operator="o")
    seal = SealEntry(publication="a", cut="1", sequence=1, body=body)
    repaired = attempt(1, "2025-01-01", repaired=True, reasons=["ba: 16 is below 20"])
    (row,) = data.happened([seal], {"a": [repaired]})
    assert (row["what"], row["why"]) == (
        "released after a repair",
        "more events were removed, since ba: 16 is below 20",
    )


def test_the_cost_names_what_is_missing(hospital: Path, tmp_path: Path) -> None:
    """Kept, by activity, from the audit of the last release; an activity that is gone is named."""
    path = sorted(hospital.glob("operator/research/*/audit.json"))[-1]
    loss = json.loads(path.read_text())["loss"]
    answer = section(page_of(hospital, tmp_path), "cost")
    assert f"keeps {100 * loss['kept']:.3g} % of the events" in answer
    for row in loss["activities"]:
        assert f'<th scope="row">{row["activity"]}</th>' in answer


def test_compared_figures_have_one_axis() -> None:
    """Small bars next to tall ones: with the values of both given, the numbers of the axes are equal."""

    def ticks(value: float, among: tuple[float, ...] = ()) -> list[str]:
        drawn = bars("t", ["0"], [PlotSeries("BA", [value], 0)], "cases", among=among)
        return re.findall(r'text-anchor="end">([^<]+)<', drawn)

    assert ticks(5, (5, 400)) == ticks(400, (5, 400))
    assert ticks(5) != ticks(400)
