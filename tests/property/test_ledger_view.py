"""The facts that a ledger keeps entry by entry are those of all its entries, by an independent reading."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from models.dp.budget import Charge
from stream.ledger.entries import Entry
from stream.ledger.sqlite import SqliteLedger
from stream.ledger.view import LedgerView
from tests.conftest import examples
from tests.entries import entry
from tests.oracles import ledger as oracle

NAMES, CUTS, NUMBERS = ("p", "q"), ("a", "b", "c"), (1, 2, 3, 4)


@st.composite
def charges(draw: st.DrawFn) -> dict[str, Any]:
    conversion_delta, tail = draw(st.integers(0, 2)), draw(st.integers(0, 1))
    body: dict[str, Any] = {
        "epsilon": f"{draw(st.integers(0, 5))}/3",
        "delta": f"{conversion_delta + tail}/1000",
    }
    body |= draw(st.sampled_from(({}, {"scope": "cases"}, {"rho": "1/50", "tail": f"{tail}/1000"})))
    return {"kind": "charge", "body": {**body, "redraw": draw(st.integers(0, 2))}}


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Any entry, also one that no program would append: a ruling before its seal, a seal of a refused cut."""
    decisions = st.sampled_from(("approved", "rejected", "superseded", "refused"))
    made: dict[str, Any] = draw(
        st.one_of(
            charges(),
            st.builds(lambda held: {"kind": "seal", "body": {"held_at": held}}, st.sampled_from((None, 5))),
            st.builds(lambda number: {"kind": "withheld", "waits_for": number}, st.sampled_from((0, 0, 2))),
            st.just({"kind": "burned"}),
            st.builds(
                lambda to: {"kind": "approval", "body": {"decision": to, "by": "Ann", "why": "so", "at": 1}}, decisions
            ),
            st.just({"kind": "published"}),
            st.builds(
                lambda stone: {"kind": "erased", "body": {"tombstones": [stone], "releases": [1]}},
                st.sampled_from(("00", "11")),
            ),
            st.builds(lambda at: {"kind": "note", "body": {"first_seen": at}}, st.integers(0, 3)),
            st.builds(lambda at: {"kind": "note", "body": {"gap": at}}, st.integers(0, 3)),
            st.builds(lambda base: {"kind": "note", "body": {"delta": {"log": "t", "base": base}}}, st.integers(0, 3)),
            st.builds(lambda log: {"kind": "note", "body": {"log": log}}, st.sampled_from(("log", "other"))),
        )
    )
    if made["kind"] == "note" and not {"first_seen", "gap"} & made["body"].keys():
        return entry(publication="", **made)  # of the process itself
    name, cut, number = (draw(st.sampled_from(choices)) for choices in (NAMES, CUTS, NUMBERS))
    cut = f"{name}/{cut}"  # as the fold names cuts: no two publications share one
    if made["kind"] in ("note", "erased"):
        return entry(publication=name, **made)
    return entry(publication=name, cut=cut, sequence=number, **made)


def exact(charge: Charge) -> oracle.Exact:
    return charge.epsilon, charge.delta, charge.rho


def facts(view: LedgerView) -> dict[str, Any]:
    """Every fact of a view, to compare two of them."""
    accounts = {name: view.account(name) for name in NAMES}
    return {
        "accounts": [vars(account) for account in accounts.values()],
        "spent": view.spending.summed,
        "order": (list(view.seals), list(view.releases), view.history),
        "notes": (view.first_seen, view.tombstones, view.accounting_kinds, view.held),
        "process": (view.delta_anchors, view.claim, view.made_by_daemon),
    }


@examples(120)
@given(st.lists(entries(), max_size=14), st.integers(0, 14))
def test_a_ledger_keeps_its_view_up_to_date(appended: list[Entry], asked_after: int) -> None:
    """Whenever the view was asked for first, it is that of the entries in the file."""
    with TemporaryDirectory() as folder, closing(SqliteLedger(Path(folder) / "ledger.sqlite", "demo")) as ledger:
        for place, one in enumerate(appended):
            if place == asked_after:
                assert ledger.view is ledger.view
            ledger.append(one)
        stored = list(ledger.entries())
        assert facts(ledger.view) == facts(LedgerView(stored)) == facts(LedgerView(appended))


@examples(300)
@given(st.lists(entries(), max_size=18))
def test_the_facts_are_those_of_all_entries(given_entries: list[Entry]) -> None:
    """Each fact, computed from the whole list each time."""
    view = LedgerView(given_entries)
    assert list(view.releases) == oracle.exist(given_entries)
    assert view.tombstones == {stone for one in oracle.of(given_entries, "erased") for stone in one.body.tombstones}
    assert view.attempts == [one for one in oracle.that_count(given_entries) if one.kind in ("seal", "withheld")]
    assert view.decisions == oracle.of(given_entries, "approval")
    assert view.first_seen == oracle.first_seen(given_entries)
    assert view.delta_anchors == [one.body.delta for one in oracle.notes(given_entries) if one.body.delta]
    assert (view.claim, view.made_by_daemon) == oracle.owner(given_entries)
    assert view.is_unused == (not oracle.of(given_entries, "charge") and not oracle.of(given_entries, "seal"))
    for name in NAMES:
        account = view.account(name)
        others = [one for one in given_entries if one.publication != name]
        assert exact(account.spending.summed) == oracle.spent(given_entries, name)
        assert exact(view.spending_elsewhere(name).summed) == oracle.spent_by_all(others)
        assert view.sealed_elsewhere(name) == len(oracle.of(others, "seal"))
        assert account.first_seen == oracle.first_seen(given_entries).get(name)
        assert account.gaps == {one.body.gap for one in oracle.notes(given_entries, name) if one.body.gap is not None}
        assert account.accounting == oracle.accounting(given_entries, name)
        assert account.released_numbers == oracle.numbers_in(given_entries, name, "sealed", "published")
        assert account.held == oracle.numbers_in(given_entries, name, "held")
        assert account.rejected == set(oracle.numbers_in(given_entries, name, "rejected", "superseded"))
        assert account.streak == oracle.streak(given_entries, name)
        assert account.unfinished == {
            f"{name}/{cut}" for cut in CUTS if oracle.open_cut(given_entries, name, f"{name}/{cut}")
        }
        for charge in oracle.of(given_entries, "charge", name):
            expected = oracle.outcome(given_entries, name, charge.cut, charge.body.redraw)
            assert account.outcome(charge) == expected
        for seal in oracle.of(given_entries, "seal", name):
            number = seal.sequence
            assert account.state(number) == oracle.state(given_entries, name, number)
            totals = account.at_seal[number]
            sums = exact(totals.spending.summed), exact(totals.process_spending.summed)
            counted = (*sums, totals.process_seals, totals.charged_seals)
            assert counted == oracle.at_seal(given_entries, name, number)
            later = oracle.since(given_entries, name, number)
            assert view.erased_since(name, number) == {
                stone for one in later if one.kind == "erased" for stone in one.body.tombstones
            }


@examples(200)
@given(st.lists(entries(), max_size=12), st.sampled_from(CUTS), st.booleans())
def test_a_next_draw_costs_what_it_adds_to_all_others(given_entries: list[Entry], cut: str, once: bool) -> None:
    """Before it: every charge but the one that a crashed attempt of the same draw left."""
    cut = f"p/{cut}"
    account = LedgerView(given_entries).account("p")
    redraw = oracle.redraws(given_entries, "p", cut)
    others = [
        one
        for one in given_entries
        if not (one.kind == "charge" and one.cut == cut and getattr(one.body, "redraw", 0) == redraw)
    ]
    body = {"epsilon": "1/2", "delta": "1/7", "redraw": redraw, **({"scope": "cases"} if once else {})}
    draw = entry("charge", "p", cut=cut, body=body)
    before, after = account.spending_with(cut, draw.body.release_charge)  # type: ignore[union-attr]
    assert exact(before.summed) == oracle.spent(others, "p")
    assert exact(after.summed) == oracle.spent([*others, draw], "p")


def test_releases_that_left_since_a_seal() -> None:
    """Of every publication, in the order in which they left: at the seal, or at the approval of a held release. A
    release that is held, rejected or burned has not left; earlier releases do not count."""

    def seal(name: str, number: int, held: bool = False) -> Entry:
        body = {"held_at": 5} if held else {}
        return entry("seal", publication=name, cut=f"{name}/{number}", sequence=number, body=body)

    def ruling(name: str, number: int, decision: str) -> Entry:
        body = {"decision": decision, "by": "Ann", "why": "so", "at": 1}
        return entry("approval", publication=name, sequence=number, body=body)

    view = LedgerView(
        [
            seal("q", 1),
            seal("q", 2, held=True),
            seal("p", 1, held=True),
            seal("q", 3),
            seal("q", 4, held=True),
            ruling("q", 2, "approved"),
            seal("q", 5, held=True),
            ruling("q", 5, "rejected"),
            ruling("q", 4, "refused"),
            seal("p", 2),
            seal("q", 6),
            entry("burned", publication="q", cut="q/6", sequence=6),
            entry("erased", publication="q", body={"tombstones": ["00"], "releases": [3]}),
        ]
    )
    view.take(entry("erased", publication="q", body={"cases": 3, "known": 0, "tombstones": ["01", "02", "03"]}))
    assert view.account("q").erased == 1  # the entry before is of a version that did not state how many were known
    assert view.released_since("p", 1) == [("q", 3), ("q", 2), ("p", 2)]
    assert view.released_since("q", 5) == [("p", 2)]
    assert view.released_since("q", 6) == view.released_since("p", 7) == []
