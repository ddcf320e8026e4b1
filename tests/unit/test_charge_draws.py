"""The noise that a charge pays for is in the ledger: exactly, without content, and readable by earlier programs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from models.dp.account import agrees, loss
from models.dp.budget import Charge, Draw, covers
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.spending import ReleaseCharge, Spending
from models.dp.zcdp import PURE
from models.errors import InputError
from stream.commands.verify import command as verify_command
from stream.ledger.entries import ChargeBody, ChargeEntry, DrawBody, charge_entry, read_entry, write_entry
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import SqliteLedger
from stream.ledger.view import LedgerView
from stream.operator.verify import verify
from stream.release.contract import Mechanism
from stream.release.mechanisms.dp_log import DpLog
from stream.release.mechanisms.dp_synthetic import DpSynthetic
from stream.release.mechanisms.dp_variants import DpVariants
from tests.entries import entry

DELTA = Fraction(1, 1_000_000)

MECHANISMS = [
    DpVariants(epsilon=Fraction(1, 52), delta_dp=DELTA),
    DpVariants(epsilon=Fraction(1), delta_dp=DELTA, cases_per_person=3),
    DpLog(epsilon=Fraction(1), delta_dp=DELTA, time_share=Fraction(1, 3)),
    DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA),
    DpSynthetic(epsilon=Fraction(1, 10), delta_dp=DELTA, activities=("a", "b"), cases_per_person=2),
    DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA, max_duration="1d"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.kind)
def test_the_noise_of_a_release_keeps_its_epsilon_and_delta(mechanism: Mechanism) -> None:
    """Composed by its own definition, it is the promise of the release, and not far from it."""
    charge, draws = mechanism.charge(), mechanism.draws()
    thresholds = sum(draw.delta * draw.times for draw in draws)
    gaussian = [draw for draw in draws if draw.kind == "gaussian"]
    distances = [gaussian_distance(float(draw.scale), int(draw.sensitivity)) for draw in gaussian]
    composition = Composition.of(distances, [draw.epsilon for draw in draws if draw.kind != "gaussian"])
    assert thresholds <= charge.delta
    left = float(charge.delta - thresholds)
    if gaussian:
        assert composition.delta(charge.epsilon) <= left
        assert composition.delta(charge.epsilon * Fraction(9, 10)) > left
    else:
        total = sum((epsilon * number for epsilon, number in composition.pure), Fraction(0))
        assert float(total) == pytest.approx(float(charge.epsilon), abs=1e-12)
        assert total <= charge.epsilon


def test_releases_after_the_selection_of_labels_draw_no_less_noise_than_the_ledger_says() -> None:
    """One entry represents both: its privacy loss is the larger one."""
    mechanism = DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA)
    kept = mechanism.draws()
    budget, terms, design = mechanism.budget(), mechanism.terms(), mechanism.design()
    assert kept in (budget.draws(terms, design), budget.after_labels().draws(terms, design))
    distance = _distance(kept)
    assert distance >= _distance(budget.draws(terms, design))
    assert distance >= _distance(budget.after_labels().draws(terms, design))


def _distance(draws: tuple[Draw, ...]) -> Fraction:
    gaussian = [draw for draw in draws if draw.kind == "gaussian"]
    return sum((gaussian_distance(float(draw.scale), int(draw.sensitivity)) for draw in gaussian), Fraction(0))


def test_noise_that_has_no_exact_loss_is_not_stated() -> None:
    """A scale of at most 3 has no Gaussian pair: the promise of the release counts."""
    assert DpSynthetic(epsilon=Fraction(40), delta_dp=DELTA, activities=("a",)).draws() == ()


def test_an_entry_returns_exactly_the_noise_that_was_drawn() -> None:
    """No float in between: fractions come back as they were."""
    draws = (
        Draw("gaussian", Fraction(7130412523435329, 4294967296), Fraction(196608), Fraction(1, 10**7)),
        Draw("pure", Fraction(1), Fraction(9729, 20480), times=4),
    )
    entry = charge_entry("p", "a", Charge(Fraction(1), DELTA), draws=draws)
    line = write_entry(entry)
    read = read_entry(line)
    assert read == entry
    assert tuple(draw.draw for draw in read.body.draws) == draws
    assert b'"scale":"7130412523435329/4294967296"' in line
    assert b'"times":4' in line


def test_earlier_entries_have_no_draws_and_earlier_programs_ignore_them() -> None:
    """An earlier program decodes the fields that it knows."""

    class EarlierBody(msgspec.Struct, frozen=True):
        epsilon: str
        delta: str

    earlier = charge_entry("p", "a", Charge(Fraction(1), DELTA))
    assert b"draws" not in write_entry(earlier)
    assert msgspec.json.decode(b'{"epsilon":"1","delta":"1/9"}', type=ChargeBody).draws == ()
    body = charge_entry("p", "a", Charge(Fraction(1), DELTA), draws=(Draw("pure", Fraction(1), Fraction(1)),)).body
    assert msgspec.json.decode(msgspec.json.encode(body), type=EarlierBody) == EarlierBody("1", "1/1000000")


LAPLACE_TIMES = (
    b'{"kind":"charge","publication":"p","cut":"a","body":{"epsilon":"1","delta":"1/1000000","draws":['
    b'{"kind":"gaussian","scale":"3330746550516367/140737488355328","sensitivity":"1","delta":"1/10000000"},'
    b'{"kind":"gaussian","scale":"2498059912887275/1073741824","sensitivity":"196608","delta":"0"},'
    b'{"kind":"pure","scale":"1","sensitivity":"67977/204800","delta":"0"},'
    b'{"kind":"pure","scale":"1","sensitivity":"3237/10240","delta":"0"}]}}'
)
"""Charge of `dp-synthetic` with times, as commit c7002bae wrote it: times had Laplace noise, a draw of their own."""


def test_charges_for_times_with_laplace_noise_are_read() -> None:
    """Their noise agrees with them and is composed; it does not pay for a release with Gaussian times."""
    earlier = read_entry(LAPLACE_TIMES)
    draws = earlier.body.noise
    charge = Charge(Fraction(1), DELTA)
    assert [draw.kind for draw in draws] == ["gaussian", "gaussian", "pure", "pure"]
    assert agrees(charge, draws)
    assert loss(PURE, Spending().with_charge(charge, draws, 52)).charge.epsilon < 30
    mechanism = DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA, max_duration="1d")
    assert mechanism.charge() == charge
    assert not covers(draws, mechanism.draws())


def test_times_are_a_gaussian_draw_of_the_account() -> None:
    """With labels, variants and the model; a case adds half more to the times than to a level of the model."""
    draws = DpSynthetic(epsilon=Fraction(1), delta_dp=DELTA, activities=("a",), max_duration="1d").draws()
    assert [draw.kind for draw in draws] == ["gaussian", "gaussian", "gaussian", "pure"]
    _, model, timed, _ = draws
    assert timed.sensitivity == model.sensitivity * 3 / 2
    assert timed.delta == 0


@pytest.mark.parametrize(
    "numbers", [(0, 1, 0, 1), (1, 0, 0, 1), (1, 1, 1, 1), (1, 1, 0, 0), (-1, 1, 0, 1), (1, 1, -1, 1)]
)
def test_numbers_that_no_noise_has_are_refused(numbers: tuple[int, int, int, int]) -> None:
    """A scale, a sensitivity and a number above 0, and a delta below 1."""
    scale, sensitivity, delta, times = numbers
    with pytest.raises(InputError, match="a draw needs"):
        Draw("laplace", Fraction(scale), Fraction(sensitivity), Fraction(delta), times)


PAID = Draw("laplace", Fraction(10), Fraction(2), Fraction(1, 100), 2)
NORMAL = Draw("gaussian", Fraction(10), Fraction(2))


@pytest.mark.parametrize(
    ("asked", "paid_for"),
    [
        (PAID, True),
        (replace(PAID, kind="truncated"), True),
        (replace(PAID, scale=Fraction(11)), True),
        (replace(PAID, scale=Fraction(9)), False),
        (replace(PAID, sensitivity=Fraction(1)), True),
        (replace(PAID, sensitivity=Fraction(3)), False),
        (replace(PAID, delta=Fraction(1, 200)), True),
        (replace(PAID, delta=Fraction(1, 50)), False),
        (replace(PAID, times=1), True),
        (replace(PAID, times=3), False),
        (NORMAL, False),
    ],
)
def test_a_charge_pays_for_wider_noise_only(asked: Draw, paid_for: bool) -> None:
    """The noise of a crashed attempt, and that of the next attempt under a changed configuration."""
    assert covers([PAID], [asked]) is paid_for


def test_gaussian_noise_of_a_smaller_scale_is_not_paid_for() -> None:
    """Its privacy loss is larger even if the ratio is the same."""
    assert covers([NORMAL], [NORMAL])
    assert covers([NORMAL], [Draw("gaussian", Fraction(20), Fraction(4))])
    assert not covers([NORMAL], [Draw("gaussian", Fraction(5), Fraction(1))])
    assert not covers([NORMAL], [PAID])


def test_other_numbers_of_draws_are_not_paid_for_and_unknown_noise_pays_for_all() -> None:
    """Entries of earlier programs state no noise: their epsilon and delta cover what the mechanism promises."""
    assert not covers([PAID], [PAID, PAID])
    assert not covers([PAID, PAID], [PAID])
    assert covers([], [PAID, NORMAL])
    assert not covers([PAID], [])


# the ledger


def charged(cut: str, mechanism: Mechanism, redraw: int = 0) -> ChargeEntry:
    """The entry of a charge."""
    return charge_entry("p", cut, mechanism.charge(), redraw, draws=mechanism.draws())


def test_the_view_keeps_every_charge_with_its_noise() -> None:
    """Withheld and burned attempts count like releases: their noise was, or may have been, drawn."""
    mechanism = MECHANISMS[0]
    entries = [
        charged("a", mechanism),
        entry("withheld", publication="p", cut="a"),
        charged("b", mechanism),
        entry("seal", publication="p", cut="b", sequence=1),
        entry("burned", publication="p", cut="b", sequence=1),
        charged("b", mechanism, redraw=1),
        charged("b", mechanism, redraw=1),
        charge_entry("q", "c", Charge(Fraction(1), DELTA)),
    ]
    view = LedgerView(entries)
    account = view.account("p")
    assert account.spending == Spending().with_charge(mechanism.charge(), mechanism.draws(), 3)
    elsewhere = Spending().with_charge(Charge(Fraction(1), DELTA))
    assert view.spending_elsewhere("p") == elsewhere
    assert view.spending == account.spending.together(elsewhere)


def test_a_next_draw_is_added_and_a_paid_one_is_not_counted_twice() -> None:
    """With and without the charge that a crashed attempt of the same cut left, in either scope."""
    mechanism = MECHANISMS[0]
    account = LedgerView([charged("a", mechanism), charged("b", mechanism)]).account("p")
    charge, draws = mechanism.charge(), mechanism.draws()
    alone, both = Spending().with_charge(charge, draws), Spending().with_charge(charge, draws, 2)
    release, disjoint = ReleaseCharge(charge, draws), ReleaseCharge(charge, draws, is_disjoint=True)
    assert account.last_charge == release
    assert account.spending_with("c", release) == (both, both.with_charge(charge, draws))
    assert account.spending_with("a", release) == (alone, both)
    assert account.spending_with("c", ReleaseCharge(Charge())) == (both, both)
    assert account.spending_with("c", disjoint) == (both, both.with_disjoint(charge))


def test_charges_of_disjoint_cases_are_no_stretch() -> None:
    """The largest one counts, with any noise."""
    first = charged("a", MECHANISMS[0])
    body = msgspec.structs.replace(first.body, scope="cases")
    view = LedgerView([msgspec.structs.replace(first, body=body)])
    assert view.account("p").spending == Spending().with_disjoint(MECHANISMS[0].charge())


def test_totals_at_a_seal_keep_the_noise() -> None:
    """The figures of a manifest can be computed again."""
    entries = [
        charged("a", MECHANISMS[0]),
        entry("seal", publication="p", cut="a", sequence=1),
        charged("b", MECHANISMS[0]),
    ]
    account = LedgerView(entries).account("p")
    at_seal = Spending().with_charge(MECHANISMS[0].charge(), MECHANISMS[0].draws())
    assert account.at_seal[1].spending == account.at_seal[1].process_spending == at_seal
    assert account.spending != at_seal


WRONG = {
    "wider": {"scale": "53"},
    "narrower": {"scale": "51"},
    "no scale": {"scale": "0"},
    "no number": {"scale": "x"},
    "no fraction": {"sensitivity": "1/0"},
    "repeated": {"times": 2},
    "a larger threshold": {"delta": "1/100"},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_verify_names_noise_that_does_not_agree_with_its_charge(tmp_path: Path, change: dict[str, Any]) -> None:
    """An entry that was edited or damaged; the account counts its epsilon and delta."""
    right = charged("a", MECHANISMS[0])
    draws = (msgspec.structs.replace(right.body.draws[0], **change),)
    wrong = msgspec.structs.replace(right, cut="b", body=msgspec.structs.replace(right.body, draws=draws))
    path = OperatorLayout(tmp_path).ledger
    path.parent.mkdir(parents=True)
    ledger = SqliteLedger(path, "demo")
    ledger.append(right)
    assert verify(tmp_path).holds
    ledger.append(wrong)
    ledger.close()
    (problem,) = verify(tmp_path).problems
    assert (problem.kind, problem.publication) == ("ledger", "p")
    assert "cut b states noise" in problem.text
    assert "restore the ledger" in problem.text


def test_verify_accepts_every_mechanism_and_charges_without_noise(tmp_path: Path) -> None:
    """Of this program and of earlier ones, and of rho."""
    path = OperatorLayout(tmp_path).ledger
    path.parent.mkdir(parents=True)
    ledger = SqliteLedger(path, "demo")
    for place, mechanism in enumerate(MECHANISMS):
        ledger.append(charged(str(place), mechanism))
    ledger.append(charge_entry("p", "earlier", Charge(Fraction(1), DELTA)))
    ledger.close()
    assert verify(tmp_path).holds


def test_a_body_of_a_draw_is_parsed_once() -> None:
    """Ten thousand entries of one configuration share their draws."""
    first, second = charged("a", MECHANISMS[0]).body, charged("b", MECHANISMS[0]).body
    assert first.noise is second.noise
    damaged = msgspec.structs.replace(first, draws=(DrawBody(kind="pure", scale="0", sensitivity="1"),))
    assert (damaged.noise, damaged.has_damaged_draws) == ((), True)
    assert not first.has_damaged_draws
    assert not ChargeBody(epsilon="1", delta="0").has_damaged_draws


def test_verify_states_the_exact_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """52 weekly releases of 1/52, some of them withheld: every one of them counts."""
    mechanism = DpVariants(epsilon=Fraction(1, 52), delta_dp="5e-7")
    path = OperatorLayout(tmp_path).ledger
    path.parent.mkdir(parents=True)
    ledger = SqliteLedger(path, "demo")
    for week in range(52):
        ledger.append(charged(f"week {week}", mechanism))
        if week % 3 == 0:
            ledger.append(entry("withheld", publication="p", cut=f"week {week}"))
    ledger.close()
    (publication,) = verify(tmp_path).publications
    assert publication.rule == "composed"
    assert 0.567 < publication.epsilon <= 0.57
    assert publication.delta == 53 * 5e-7
    # An account that forgets what was withheld says less.
    published = Spending().with_charge(mechanism.charge(), mechanism.draws(), 34)
    assert loss(PURE, published).charge.epsilon < 0.5
    verify_command(tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    assert "0.568321" in printed
    assert "note: epsilon and delta of p: exact composition of all releases" in printed


def test_verify_states_no_rule_without_charges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A publication of groups spends nothing."""
    path = OperatorLayout(tmp_path).ledger
    path.parent.mkdir(parents=True)
    ledger = SqliteLedger(path, "demo")
    ledger.append(entry("withheld", publication="p", cut="a"))
    ledger.close()
    (publication,) = verify(tmp_path).publications
    assert (publication.epsilon, publication.delta) == (0, 0)
    verify_command(tmp_path)
    assert "epsilon" not in capsys.readouterr().out
