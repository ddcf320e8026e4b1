"""Held releases and charges of rho, as entries and as an account reads them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from models.dp.budget import Charge
from models.dp.spending import ReleaseCharge
from models.dp.zcdp import Accounting, epsilon_of
from models.errors import RefusedError
from stream.ledger.entries import ApprovalBody, ChargeBody, charge_entry, key_of
from stream.ledger.sqlite import SqliteLedger, is_copy, refuse_other_accounting
from stream.ledger.view import LedgerView
from stream.release.reason import of_record, ruled
from tests.entries import Entry, entry

RHO = Charge(delta=Fraction(1, 10**6), rho=Fraction(1, 50))


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "ledger.sqlite", "demo")


def _seal(number: int, held: int | None = 7, publication: str = "p") -> Entry:
    body = {} if held is None else {"held_at": held}
    return entry("seal", publication=publication, cut=f"c{number}", sequence=number, body=body)


def _ruling(number: int, decision: str, publication: str = "p") -> Entry:
    body = {"decision": decision, "by": "Ann", "why": "because", "at": 9}
    return entry("approval", publication=publication, sequence=number, body=body)


def test_what_an_account_knows_of_held_releases(ledger: SqliteLedger) -> None:
    """Live and after a restart alike. A refused approval decides nothing; what is held or rejected does not count; a
    burned number is held no more."""
    account = ledger.view.account("p")
    for number in range(1, 8):
        ledger.append(_seal(number, None if number == 1 else number))
    for number, decision in ((3, "approved"), (4, "rejected"), (5, "superseded"), (6, "refused")):
        ledger.append(_ruling(number, decision))
    ledger.append(entry("burned", publication="p", cut="c7", sequence=7))
    for one in (account, LedgerView(ledger.entries()).account("p")):
        assert one.held == [2, 6]
        assert one.rejected == {4, 5}
        assert set(one.rulings) == {3, 4, 5}
        assert one.released_numbers == [1, 3]


def test_a_seal_that_is_folded_again_is_not_held_again(ledger: SqliteLedger) -> None:
    """Its decision, or the loss of its bytes, stays."""
    account = ledger.view.account("p")
    for number in (1, 2):
        ledger.append(_seal(number))
    ledger.append(_ruling(1, "approved"))
    ledger.append(entry("burned", publication="p", cut="c2", sequence=2))
    for number in (1, 2):
        ledger.append(_seal(number))
    assert account.held == []
    assert account.released_numbers == [1]


def test_the_streak_leaves_out_what_waits_for_a_person(ledger: SqliteLedger) -> None:
    """A cut that was refused because a release is held does not count as withheld by the gate."""
    account = ledger.view.account("p")
    ledger.append(entry("withheld", publication="p", cut="a", waits_for=3))
    assert account.streak == 0
    ledger.append(entry("withheld", publication="p", cut="b"))
    assert account.streak == 1


def test_the_seals_that_wait() -> None:
    """Of every publication, each once and in order: neither decided, nor burned, nor never held."""
    entries = [
        _seal(1, None), _seal(2), _seal(3), _seal(4), _seal(5), _seal(2), _seal(3, publication="q"), _seal(6, 0),
        _ruling(3, "approved"), _ruling(4, "refused"), entry("burned", publication="p", cut="c5", sequence=5),
    ]  # fmt: skip
    assert [(one.publication, one.sequence) for one in LedgerView(entries).held] == [
        ("p", 2),
        ("p", 4),
        ("q", 3),
        ("p", 6),
    ]


def test_one_decision_a_release_and_many_refusals() -> None:
    """The first decision stays; an approval that the gate did not let pass may come again."""
    keys = {decision: key_of(_ruling(4, decision)) for decision in ("approved", "rejected", "superseded", "refused")}
    assert keys["refused"] is None
    assert keys["approved"] == keys["rejected"] == keys["superseded"] == "approval/p/4"
    assert key_of(_ruling(5, "approved")) != keys["approved"]
    assert key_of(_ruling(4, "approved", "q")) != keys["approved"]


def test_a_charge_of_rho_says_both() -> None:
    """rho and the delta of thresholds exactly; with them the draw alone as epsilon and delta. A charge of
    epsilon has neither field."""
    adds = Accounting("zcdp", Fraction(1, 10**7))
    body = charge_entry("p", "a", RHO, 3, adds).body
    assert (body.rho, body.tail, body.redraw) == ("1/50", "1/1000000", 3)
    assert body.charge == RHO
    assert body.accounting == "zcdp"
    assert Fraction(body.epsilon) == epsilon_of(RHO.rho, adds.conversion_delta)
    assert Fraction(body.delta) == RHO.delta + adds.conversion_delta
    pure = charge_entry("p", "a", Charge(Fraction(1, 3), Fraction(1, 7))).body
    assert pure == ChargeBody(epsilon="1/3", delta="1/7")
    assert pure.accounting == "pure"


def test_a_ledger_adds_up_in_one_way() -> None:
    """rho next to epsilon is refused, whichever came first; other entries have no charge."""
    pure, rho = charge_entry("p", "a", Charge(Fraction(1))), charge_entry("p", "b", RHO, 0, Accounting("zcdp"))
    refuse_other_accounting("demo", "pure", LedgerView([_seal(1), pure]))
    refuse_other_accounting("demo", "zcdp", LedgerView([_seal(1), rho]))
    for kind, found in (("zcdp", pure), ("pure", rho)):
        with pytest.raises(RefusedError, match=f'now has "{kind}"'):
            refuse_other_accounting("demo", kind, LedgerView([_seal(1), found]))  # type: ignore[arg-type]


def test_an_account_adds_rho_up(ledger: SqliteLedger) -> None:
    """Exactly, and what a next draw adds too; a crashed attempt has paid for its cut."""
    account, adds = ledger.view.account("p"), Accounting("zcdp", Fraction(1, 10**7))
    for cut in ("a", "b"):
        ledger.append(charge_entry("p", cut, RHO, 0, adds))
    assert account.spending.summed == RHO.times(2)
    assert account.accounting == adds  # the delta of the conversion is what the entry has beyond that of thresholds
    for cut, sums in (("c", (RHO.times(2), RHO.times(3))), ("a", (RHO, RHO.times(2)))):
        before, after = account.spending_with(cut, ReleaseCharge(RHO))
        assert (before.summed, after.summed) == sums


def test_whether_a_ledger_is_a_copy(ledger: SqliteLedger) -> None:
    """One that a replay made is none; that of a daemon has a table for its place in the topic."""
    import sqlite3
    from contextlib import closing

    assert not is_copy(ledger.path)
    with closing(sqlite3.connect(ledger.path)) as db, db:
        db.execute("CREATE TABLE topic (place INTEGER)")
    assert is_copy(ledger.path)


def test_why_a_held_release_did_not_leave() -> None:
    """In words, and with the code of held releases."""
    reason = ruled(ApprovalBody(decision="rejected", by="Ann", why="too early", at=9))
    assert reason == "held: rejected by Ann: too early"
    assert of_record(reason).code == "held"
