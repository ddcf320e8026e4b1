"""52 weekly releases of 1/52, a third of them withheld: every page and every gate states the exact account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.dp.account import loss
from models.dp.budget import format_amount
from models.dp.spending import Spending
from models.dp.zcdp import PURE
from models.eventlog import EventLog
from stream.config import sources
from stream.config.settings import Settings
from stream.ledger.entries import ChargeEntry, SealEntry, WithheldEntry
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import SqliteLedger
from stream.ledger.view import Account, LedgerView
from stream.operator.dossier.evidence import collect as dossier_evidence
from stream.operator.history import ledger_view, read_from
from stream.operator.report.data import collect as report_data
from stream.operator.report.statement import markdown, releases_of, statement
from stream.operator.verify import verify
from stream.release import gate
from stream.release.contract import Attempt, Exposure
from stream.release.documents import AuditDocument
from stream.release.gate import GatePolicy
from stream.release.reason import Reason
from stream.release.schedule import SimulatedClock
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.service import ProcessContext, ReleaseService
from tests.oracles.privacy_loss import ball, precision, reference

WEEKS = 52
EACH = Fraction(1, WEEKS)
DELTA = Fraction(5, 10**7)
CONFIG = (
    '[process]\nname = "weekly"\n\n[[publication]]\nname = "p"\nwindow = { manual = true }\n'
    "audit = { risk = false, utility = false, leakage = false }\n"
    f'mechanism = {{ kind = "dp-variants", epsilon = "1/{WEEKS}", delta_dp = "5e-7" }}\n'
    'gate = { max_epsilon = "0.57" }\n'
)


def settings(folder: Path) -> Settings:
    """The configuration of the series."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "weekly.toml"
    config.write_text(CONFIG)
    return sources.load(config)


def attempt(week: int) -> Attempt:
    """The cut of a week: many equal cases."""
    log = EventLog.from_traces([("ab", None)] * 2000)
    return Attempt(f"p@{week}.0.0", "manual", 0, Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0), {})


def run(folder: Path, weeks: int) -> tuple[list[str], Metrics]:
    """So many cuts of which every third is refused after its noise was drawn; the decisions, and the metrics."""
    chosen, metrics = settings(folder), Metrics("weekly")
    watch = MetricsObserver(chosen, metrics)
    service = ReleaseService(chosen, folder / "out", context=ProcessContext(clock=SimulatedClock()), watch=watch)
    try:
        watch.opened(service)
        pipeline, decided = service.pipelines["p"], []
        for week in range(weeks):
            decision = pipeline.attempt(attempt(week))
            watch.decided("p", decision, pipeline.spent.charge, 0.0)
            decided.append(decision.status)
    finally:
        service.close()
    return decided, metrics


@pytest.fixture(autouse=True)
def two_hundred_bits() -> Iterator[None]:
    """Compute references in balls of 200 bits."""
    with precision(200):
        yield


@contextmanager
def every_third_is_refused() -> Iterator[None]:
    """A bound that reads the release refuses cuts 2, 5, 8, ..."""
    audited = iter(range(10**6))

    def refuse(_policy: GatePolicy, _audit: AuditDocument) -> list[Reason]:
        return [Reason("mechanism", "refused by the test")] if next(audited) % 3 == 1 else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "after_audit", refuse)
        yield


@dataclass(frozen=True)
class Year:
    """A series of 52 weeks, and a 53rd that the budget has no room for."""

    folder: Path
    decided: list[str]
    metrics: Metrics


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    """The series is run once: no test changes it."""
    folder = tmp_path_factory.mktemp("year")
    with every_third_is_refused():
        return Year(folder, *run(folder, WEEKS + 1))


def manifests(folder: Path) -> list[dict[str, Any]]:
    """The manifests of all releases, in order."""
    paths = sorted(folder.glob("out/public/p/release-*/manifest.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def refuted_manifests(folder: Path) -> list[tuple[int, float]]:
    """Manifests whose epsilon the charges before them refute: by balls of 200 bits, from the entries of the ledger.

    A charge is one entry, whatever became of its attempt. Nothing here uses a view or an account.
    """
    ledger = SqliteLedger(OperatorLayout(folder / "out").ledger, "weekly")
    entries = list(ledger.entries())
    ledger.close()
    charged, stated = 0, {body["sequence"]: body["budget"]["spent"] for body in manifests(folder)}
    refuted = []
    for entry in entries:
        charged += isinstance(entry, ChargeEntry)
        if isinstance(entry, SealEntry):
            spent = stated[entry.sequence]
            own_delta = Fraction(repr(spent["delta"])) - charged * DELTA
            allowed = ball(max(own_delta, Fraction(0)))
            if reference(Fraction(0), [EACH] * charged, Fraction(repr(spent["epsilon"]))) > allowed:
                refuted.append((entry.sequence, spent["epsilon"]))
    return refuted


def test_every_page_states_the_exact_account(year: Year) -> None:
    """Gate, manifests, metrics, verify, report, statement, dossier and verdict: the same epsilon, delta and rule."""
    assert year.decided.count("sealed") == 35
    assert year.decided.count("withheld") == 18
    assert refuted_manifests(year.folder) == []

    out = year.folder / "out"
    last = manifests(year.folder)[-1]["budget"]
    epsilon, delta = last["spent"]["epsilon"], last["spent"]["delta"]
    assert 0.567 < epsilon <= 0.57
    assert delta == pytest.approx(float(53 * DELTA))
    assert last["process"]["spent"] == last["spent"]
    assert last["spent"]["rule"] == "composed"

    def exported(name: str) -> float | None:
        return year.metrics.registry.get_sample_value(f"veilstream_{name}", {"process": "weekly", "publication": "p"})

    assert exported("budget_spent_epsilon") == pytest.approx(epsilon)
    assert exported("budget_spent_delta") == pytest.approx(delta)
    assert exported("budget_left_releases") == 0
    checked = verify(out)
    assert checked.holds, checked.problems
    assert [(row.epsilon, row.delta, row.rule) for row in checked.publications] == [(epsilon, delta, "composed")]
    (report,) = report_data(out)["publications"]
    assert report["left"]["spent"] == epsilon
    assert (report["left"]["rule"], report["left"]["releases_left"]) == ("composed", 0)
    assert report["budget"]["course"][-1] == {"charges": WEEKS, "epsilon": epsilon}
    assert report["budget"]["spent"] == last["spent"]
    evidence = dossier_evidence(out, "p")
    assert evidence.budget["spent"] == last["spent"]
    assert evidence.left == report["left"]
    text = markdown(statement(releases_of(out, "p", None), alone=False))
    assert f"epsilon {format_amount(epsilon, 6)} (of at most 0.57), delta {format_amount(delta, 6)}" in text
    assert "exact composition of all releases" in text
    (verdict,) = read_from(out, ledger_view(out)).verdicts()
    assert f"{format_amount(epsilon, 6)} spent of 0.57" in verdict.line()


def test_the_gate_refuses_by_the_account_and_states_its_numbers(year: Year) -> None:
    """Week 53 would be above the limit. By sums, week 30 would have been."""
    assert year.decided[:30].count("sealed") == 20
    view = ledger_view(year.folder / "out")
    (refusal,) = [
        entry
        for entry in view.history
        if isinstance(entry, WithheldEntry) and entry.body.reasons[0].startswith("epsilon:")
    ]
    assert refusal.cut == f"p@{WEEKS}.0.0"
    assert refusal.body.reasons == [
        f"epsilon: spent 0.568321, with this release {_reached(view):g}, limit 0.57",
    ]
    assert len(view.account("p").charges) == WEEKS


def _reached(view: LedgerView) -> float:
    release = view.account("p").last_charge
    assert release is not None
    return float(loss(PURE, view.account("p").spending.with_release(release)).charge.epsilon)


def test_an_account_that_forgets_withheld_charges_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: noise of an attempt that was withheld does not count. The reference refutes its manifests."""
    take_withheld = Account._take_withheld

    def forget(self: Account, entry: WithheldEntry) -> None:
        take_withheld(self, entry)
        self.spending = Spending()
        for charge in self.charge_entries.values():
            if charge.cut not in self.withheld:
                self.spending = self.spending.with_release(charge.body.release_charge)

    with monkeypatch.context() as planted, every_third_is_refused():
        planted.setattr(Account, "_take_withheld", forget)
        decided, _ = run(tmp_path, 30)
    assert decided.count("withheld") == 10
    assert refuted_manifests(tmp_path)
    problems = {problem.kind for problem in verify(tmp_path / "out").problems}
    assert "budget" in problems
