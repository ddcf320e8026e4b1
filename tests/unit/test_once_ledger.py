"""Charges of a series in which each case counts once: the largest is spent, exactly, and under its own terms alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp.budget import Charge, parallel
from models.dp.spending import ReleaseCharge
from models.errors import RefusedError
from stream.ledger.entries import ChargeBody, ChargeEntry, charge_entry, read_entry, write_entry
from stream.ledger.sqlite import SqliteLedger
from stream.ledger.view import LedgerView
from stream.release.once import OncePerCase, refuse_other_terms
from stream.release.verdict import verdicts
from tests.conftest import examples

TENTH, THIRD = Fraction(1, 10), Fraction(1, 3)
DELTA = Fraction(1, 10**6)


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite", "demo")


def once_entry(cut: str, epsilon: Fraction, delta: Fraction = DELTA, redraw: int = 0) -> ChargeEntry:
    return OncePerCase(1, False).with_terms(charge_entry("p", cut, Charge(epsilon, delta), redraw))


def test_the_largest_charge_is_spent(ledger: SqliteLedger) -> None:
    """Of 260 releases at a tenth, a tenth; a larger one later is what is spent then; the ledger on disk says the
    same."""
    account = ledger.view.account("p")
    for number in range(260):
        ledger.append(once_entry(f"c{number}", TENTH))
    assert account.spending.summed == Charge(TENTH, DELTA)
    ledger.append(once_entry("more", THIRD, DELTA / 2))
    assert account.spending.summed == Charge(THIRD, DELTA)
    assert LedgerView(ledger.entries()).account("p").spending.summed == account.spending.summed


def test_charges_of_other_releases_add_to_it(ledger: SqliteLedger) -> None:
    """A case can be in every release of before, and in one of these."""
    account = ledger.view.account("p")
    ledger.append(charge_entry("p", "a", Charge(TENTH, DELTA)))
    ledger.append(once_entry("b", THIRD))
    ledger.append(charge_entry("p", "c", Charge(TENTH, DELTA)))
    ledger.append(once_entry("d", TENTH))
    assert account.spending.summed == Charge(2 * TENTH + THIRD, 3 * DELTA)


def test_what_a_draw_adds(ledger: SqliteLedger) -> None:
    """All of the first charge, nothing of the second, the difference of a larger one; a sequential one all of it. A
    draw that a crashed attempt paid for is asked for again, and counts once."""
    account = ledger.view.account("p")
    asked = Charge(TENTH, DELTA)

    def sums(cut: str, charge: Charge, *, once: bool) -> tuple[Charge, Charge]:
        before, after = account.spending_with(cut, ReleaseCharge(charge, is_disjoint=once))
        return before.summed, after.summed

    assert sums("a", asked, once=True) == (Charge(), asked)
    ledger.append(once_entry("a", TENTH))
    assert sums("a", asked, once=True) == (Charge(), asked)
    assert sums("b", asked, once=True) == (asked, asked)
    assert sums("b", Charge(THIRD, DELTA), once=True) == (asked, Charge(THIRD, DELTA))
    assert sums("b", asked, once=False) == (asked, asked + asked)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(1, 5), st.integers(0, 3)), max_size=12),
    st.integers(0, 5),
    st.booleans(),
)
def test_sums_kept_up_to_date_are_those_of_all_charges(
    charged: list[tuple[int, bool, int, int]], cut: int, once: bool
) -> None:
    """For charges in any order, also repeated ones, the sums are those of adding all charges up again."""

    def together(bodies: Mapping[int, ChargeBody]) -> Charge:
        alone = sum((one.charge for one in bodies.values() if not one.scope), Charge())
        return alone + parallel(one.charge for one in bodies.values() if one.scope)

    with TemporaryDirectory() as folder, closing(SqliteLedger(Path(folder) / "ledger.sqlite", "demo")) as ledger:
        account, first = ledger.view.account("p"), {}
        for number, apart, tenths, deltas in charged:
            made = Charge(tenths * TENTH, deltas * DELTA)
            entry = (
                once_entry(f"c{number}", made.epsilon, made.delta) if apart else charge_entry("p", f"c{number}", made)
            )
            ledger.append(entry)
            first.setdefault(number, entry.body)
        assert account.spending.summed == LedgerView(ledger.entries()).account("p").spending.summed == together(first)
        asked = Charge(2 * TENTH, DELTA)
        others = {number: body for number, body in first.items() if number != cut}
        draw = once_entry("c", asked.epsilon, asked.delta) if once else charge_entry("p", "c", asked)
        before, after = account.spending_with(f"c{cut}", draw.body.release_charge)
        assert before.summed == together(others)
        assert after.summed == together({**others, -1: draw.body})


def test_an_older_program_adds_up_what_it_does_not_know() -> None:
    """It over-counts, and never under-counts: scope and terms are keys that it ignores. Charges of before have none."""
    line = write_entry(once_entry("a", TENTH))
    assert b'"scope":"cases"' in line
    assert b'"cases_per_person":1' in line
    assert b"enforced" not in line
    enforced = OncePerCase(1, True).with_terms(charge_entry("p", "a", Charge(TENTH, DELTA)))
    assert b'"enforced":true' in write_entry(enforced)
    assert b'"epsilon":"1/10"' in line
    assert read_entry(line) == once_entry("a", TENTH)
    assert b"scope" not in write_entry(charge_entry("p", "a", Charge(TENTH, DELTA)))


@pytest.mark.parametrize("now", [OncePerCase(2, False), OncePerCase(1, True)])
def test_the_terms_are_declared_for_life(now: OncePerCase) -> None:
    """With another number of cases, or a cap that comes later, what was promised before would not hold."""
    bodies = [once_entry("a", TENTH).body]
    refuse_other_terms("p", OncePerCase(1, False), bodies)
    refuse_other_terms("p", None, bodies)
    refuse_other_terms("p", now, [charge_entry("p", "a", Charge(TENTH, DELTA)).body])
    with pytest.raises(RefusedError, match="declared for the life of a publication"):
        refuse_other_terms("p", now, bodies)


def test_parallel_composition_takes_each_maximum() -> None:
    """Of epsilon and of delta by themselves; of nothing, nothing."""
    assert parallel([Charge(TENTH, DELTA), Charge(THIRD, Fraction(0))]) == Charge(THIRD, DELTA)
    assert parallel([]) == Charge()


def test_the_verdict_says_what_all_releases_are_together() -> None:
    """Without a limit too: the loss does not grow. Next to one that shows the same cases it is void, as always."""
    body = {"epsilon": 1.0, "delta": 1e-6, "spent": {"epsilon": 1.0, "delta": 1e-6}, "limit": None, "scope": "cases"}
    audit: Any = {"sequence": 1, "budget": body, "bounds": {}, "gate": {"decision": "passed", "reasons": []}}
    (found,) = verdicts({"p": [audit, audit]}, {})
    assert found.verdict == "SAFE"
    assert "all releases together are (1, 1e-06)-differentially private" in found.sentence
    plain: Any = {"sequence": 1, "bounds": {}, "budget": None, "anonymity": {}, "gate": {}}
    assert verdicts({"p": [audit], "q": [plain]}, {})[0].verdict == "DP VOID"
