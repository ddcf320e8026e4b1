"""Each rule of the gate at the value where it begins to refuse, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from models.dp.budget import Charge
from models.dp.spending import ReleaseCharge, Spending
from models.errors import InputError
from stream.release import gate
from stream.release.contract import Mechanism
from stream.release.gate import GatePolicy, refuse_impossible, worst_anonymity
from stream.release.mechanisms import mechanism
from stream.release.reason import Reason


def after_audit(policy: GatePolicy, audit: Mapping[str, Any]) -> list[str]:
    """Return the reasons of the gate as people read them."""
    return [reason.text for reason in gate.after_audit(policy, audit)]


def before_noise(policy: GatePolicy, spent: Charge, asked: Charge, leakage: Sequence[Reason] = ()) -> list[str]:
    """Return the reasons of the gate before any noise, as people read them."""
    before = Spending(earlier=spent)
    after = before.with_release(ReleaseCharge(asked))
    return [reason.text for reason in gate.before_noise(policy, before, after, leakage)]


def _mechanism(kind: str) -> Mechanism:
    tables: dict[str, dict[str, Any]] = {
        "dp-variants": {"epsilon": 1, "delta_dp": "1e-6"},
        "rho": {"kind": "dp-variants", "rho": "1/100", "delta_dp": "1e-6"},
        "amun": {"delta": 0.3},
        "identity": {},
        "tlkc": {"knowledge": "seq", "attribute": "ac", "L": 2, "K": 2, "C": 0.5},
    }
    return mechanism({"kind": kind, **tables[kind]})


@pytest.mark.parametrize(
    ("key", "least", "below"),
    [
        ("min_ka", 1, 0),
        ("min_fa", 1, 0),
        ("min_ca", 1, 0),
        ("min_ba", 1, 0),
        ("min_series", 1, 0),
        ("max_uniqueness", 0, -0.01),
        ("min_utility", 0, -0.01),
        ("max_delta", 0, "-0.1"),
        ("max_minimality", 0, -1),
    ],
)
def test_the_least_bound(key: str, least: Any, below: Any) -> None:
    """A bound of one case, no uniqueness, no utility or no delta can be asked; nothing below it."""
    assert getattr(GatePolicy(**{key: least}), key) == least
    with pytest.raises(ValidationError):
        GatePolicy(**{key: below})


@pytest.mark.parametrize(
    ("key", "most", "above"),
    [
        *((key, 2**31 - 1, 2**31) for key in ("min_ka", "min_fa", "min_ca", "min_ba", "min_series")),
        ("max_uniqueness", 1, 1.01),
        ("min_utility", 1, 1.01),
    ],
)
def test_the_largest_bound(key: str, most: Any, above: Any) -> None:
    """Cases are coded in 31 bits; a share is at most 1."""
    assert getattr(GatePolicy(**{key: most}), key) == most
    with pytest.raises(ValidationError):
        GatePolicy(**{key: above})


def test_budgets_are_above_zero_and_delta_below_one() -> None:
    """A budget of 0 would release nothing, a delta of 1 would promise nothing."""
    for table in ({"max_tpl": 0}, {"max_epsilon": 0}, {"max_delta": 1}):
        with pytest.raises(ValidationError):
            GatePolicy(**table)
    assert GatePolicy(max_delta="0.999").max_delta == Fraction(999, 1000)
    assert GatePolicy(max_epsilon="0.001").max_epsilon == Fraction(1, 1000)


def test_what_is_not_said_is_strict() -> None:
    """Without keys nothing is bounded, violations withhold, attempts are not charged and cuts are not a public fact."""
    policy = GatePolicy()
    assert (policy.bounds, policy.anonymity_bounds) == ({}, {})
    assert (policy.on_violation, policy.charge_withheld, policy.public_cut) == ("withhold", False, False)
    with pytest.raises(ValidationError):
        GatePolicy(min_kaa=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        GatePolicy(max_uniqueness=float("nan"))
    with pytest.raises(ValidationError):
        policy.min_ka = 3  # type: ignore[misc]


def test_bounds_by_their_keys() -> None:
    """Every bound that is set, 0 too, by its own key; switches are not bounds."""
    policy = GatePolicy(min_ka=4, min_ba=2, max_tpl="1/2", max_delta=0, min_utility=0, charge_withheld=True)
    assert policy.bounds == {"min_ka": 4, "min_ba": 2, "max_tpl": 0.5, "max_delta": 0, "min_utility": 0}
    assert policy.anonymity_bounds == {"ka": 4, "ba": 2}


@pytest.mark.parametrize(
    ("kind", "table", "message"),
    [
        ("dp-variants", {"max_uniqueness": 0.1}, "charge_withheld = true"),
        ("dp-variants", {"min_ka": 2}, "gate|KA"),
        ("dp-variants", {"min_ka": 2, "charge_withheld": True}, "KA, FA, CA, BA"),
        ("dp-variants", {"min_series": 2, "charge_withheld": True}, "KA, FA, CA, BA and series"),
        ("dp-variants", {"min_utility": 0.5, "max_minimality": 1}, "gate.max_minimality reads raw data"),
        ("dp-variants", {"max_uniqueness": 0.1}, "gate.max_uniqueness reads the release"),
        ("amun", {"max_uniqueness": 0.1}, "no epsilon with which a withheld attempt could be paid for"),
        ("amun", {"max_uniqueness": 0.1, "charge_withheld": True}, "remove it: it spends no epsilon"),
        ("dp-variants", {"on_violation": "repair"}, "repair"),
        ("identity", {"on_violation": "repair"}, "repair"),
        ("identity", {"max_epsilon": 1}, "spends epsilon, not identity"),
        ("identity", {"max_delta": 0}, "spends epsilon, not identity"),
        ("identity", {"max_tpl": 1}, "spends epsilon, not identity"),
        ("tlkc", {"max_tpl": 1}, "spends epsilon, not tlkc"),
        ("amun", {"max_epsilon": 1}, "spends epsilon, not amun"),
        ("rho", {"max_tpl": 1}, "max_tpl bounds pure epsilon"),
    ],
)
def test_policies_that_mean_nothing(kind: str, table: dict[str, Any], message: str) -> None:
    """A bound that cannot be asked of a mechanism is refused, with the publication's name."""
    with pytest.raises(InputError, match=message) as refusal:
        refuse_impossible(GatePolicy(**table), _mechanism(kind), "publication 'p'")
    assert str(refusal.value).startswith("publication 'p': ")


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("dp-variants", {}),
        ("dp-variants", {"max_epsilon": 1, "max_delta": 0, "max_tpl": 1}),
        ("dp-variants", {"max_uniqueness": 0.1, "charge_withheld": True}),
        ("rho", {}),
        ("rho", {"max_epsilon": 1, "max_delta": 0}),
        ("identity", {"min_ka": 2, "min_series": 2, "max_uniqueness": 0.5, "min_utility": 0.5}),
        ("tlkc", {"min_ka": 2, "on_violation": "repair"}),
        ("tlkc", {"on_violation": "warn"}),
        ("amun", {}),
    ],
)
def test_policies_that_mean_something(kind: str, table: dict[str, Any]) -> None:
    """Possible policies are not refused."""
    refuse_impossible(GatePolicy(**table), _mechanism(kind), "p")


def test_epsilon_delta_and_tpl_each_have_their_limit() -> None:
    """Each is closed: what reaches its limit passes, what passes it gives one reason with all three numbers."""
    asked = Charge(Fraction(1, 10), Fraction(1, 100))
    spent = Charge(Fraction(4, 10), Fraction(4, 100))
    whole = GatePolicy(max_epsilon=Fraction(1, 2), max_delta=Fraction(5, 100), max_tpl=Fraction(1))
    assert before_noise(whole, spent, asked) == []
    assert before_noise(GatePolicy(max_epsilon=Fraction(49, 100)), spent, asked) == [
        "epsilon: spent 0.4, with this release 0.5, limit 0.49"
    ]
    assert before_noise(GatePolicy(max_delta=Fraction(49, 1000)), spent, asked) == [
        "delta: spent 0.04, with this release 0.05, limit 0.049"
    ]
    assert before_noise(GatePolicy(max_tpl=Fraction(99, 100)), spent, asked) == ["tpl: composition gives 1, bound 0.99"]
    assert before_noise(GatePolicy(max_delta=0), Charge(), Charge(Fraction(1))) == []


def test_reasons_of_the_leakage_audit_stand_and_replace_the_plain_sum() -> None:
    """The reason of the audit before the noise comes first; composition is not repeated."""
    much = Charge(Fraction(9))
    policy = GatePolicy(max_tpl=Fraction(1), max_epsilon=Fraction(1))
    assert before_noise(policy, much, much, [Reason("tpl", "tpl: 5 is above 1")]) == [
        "tpl: 5 is above 1",
        "epsilon: spent 9, with this release 18, limit 1",
    ]


def _pair(earlier: int, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"earlier": earlier, "results": [{"n": n, "linker": "exists", **row} for n, row in enumerate(rows)]}


def test_the_worst_over_releases_n_and_ways_of_counting() -> None:
    """The least of all, whichever release, n or way of counting it comes from."""
    anonymity = {
        "status": "ok",
        "ka": 8,
        "results": [_pair(1, {"fa": 9}, {"fa": 7}), _pair(2, {"fa": 6}, {"fa": 12})],
        "true_linker": [{"earlier": 1, "fa": 11}, {"earlier": 2, "fa": 10}],
    }
    assert worst_anonymity(anonymity, "fa") == 6
    assert worst_anonymity(anonymity, "ka") == 8
    assert worst_anonymity(anonymity, "ba") is None
    anonymity["true_linker"][1]["fa"] = 5  # type: ignore[index]
    assert worst_anonymity(anonymity, "fa") == 5
    anonymity["true_linker"][1]["fa"] = 0  # type: ignore[index]
    assert worst_anonymity(anonymity, "fa") == 7  # nobody is behind the pair with release 2
    assert worst_anonymity({}, "fa") is None
    assert worst_anonymity({}, "ka") is None
    assert worst_anonymity({"ka": 0}, "ka") == 0


def test_a_pair_that_was_not_counted_truly_still_counts() -> None:
    """Only a true 0 lifts an exact value, since no victim is behind it; a count that was not made does not."""
    nobody = {"results": [_pair(1, {"fa": 3})], "true_linker": [{"earlier": 1, "fa": 0}]}
    assert worst_anonymity(nobody, "fa") is None
    anonymity = {"results": [_pair(1, {"fa": 3})], "true_linker": [{"earlier": 1, "fa": None}]}
    assert worst_anonymity(anonymity, "fa") == 3
    assert worst_anonymity({"results": [_pair(1, {"fa": 3})]}, "fa") == 3


@pytest.mark.parametrize(
    ("row", "worst"),
    [
        ({"fa": 3}, 3),
        ({"fa": 3, "linker": "none"}, None),
        ({"fa": 3, "assumption": "violated"}, None),
        ({"fa": 3, "assumption": "holds"}, 3),
        ({"fa": 3, "behind": {"fa": 0}}, None),
        ({"fa": 3, "behind": {"fa": 1}}, 3),
        ({"fa": 3, "behind": {"ca": 0}}, 3),
        ({"fa": 3, "behind": None}, 3),
    ],
)
def test_which_rows_hold(row: dict[str, Any], worst: int | None) -> None:
    """A row counts where a linker exists, n covers what was removed, and a real case is behind the value asked for."""
    assert worst_anonymity({"results": [_pair(1, row)]}, "fa") == worst


def test_every_measure_has_its_reason() -> None:
    """KA, FA, CA and BA below their bounds, each by its own name and value; at the bound there is none."""
    row = {"fa": 2, "ca": 3, "ba": 4}
    audit = {"anonymity": {"status": "ok", "ka": 1, "results": [_pair(1, row)]}}
    assert after_audit(GatePolicy(min_ka=2, min_fa=3, min_ca=4, min_ba=5), audit) == [
        "ka: 1 is below 2",
        "fa: 2 is below 3",
        "ca: 3 is below 4",
        "ba: 4 is below 5",
    ]
    assert after_audit(GatePolicy(min_ka=1, min_fa=2, min_ca=3, min_ba=4), audit) == []


def test_the_first_release_is_gated_on_ka() -> None:
    """There is nothing to link with, so only KA can refuse."""
    first = {"anonymity": {"status": "ok", "ka": 3, "results": [], "true_linker": []}}
    assert after_audit(GatePolicy(min_ka=4, min_fa=4), first) == ["ka: 3 is below 4"]


def test_minimality_is_bounded_where_local_suppression_is_asked_for() -> None:
    """At most so many sets below K; not measured does not pass; without `local` the bound is refused."""
    policy = GatePolicy(max_minimality=2)
    assert after_audit(policy, {"minimality": {"below_k": 2}}) == []
    assert after_audit(policy, {"minimality": {"below_k": 3}}) == [
        "minimality: 3 sets of items leave fewer than K cases, limit 2"
    ]
    assert "not measured" in after_audit(policy, {})[0]
    refuse_impossible(policy, mechanism({"kind": "tlkc-cohorts", "suppression": "local"}), "p")
    with pytest.raises(InputError, match="local"):
        refuse_impossible(policy, mechanism({"kind": "tlkc-cohorts"}), "p")


def test_anonymity_that_does_not_apply_is_no_pass() -> None:
    """A bound on what was not measured is not shown; on what cannot be, the configuration is wrong."""
    assert after_audit(GatePolicy(min_ka=2), {"anonymity": None}) == [
        "anonymity: not measured, so its bounds are not shown"
    ]
    audit = {"anonymity": {"status": "not_applicable", "reason": "noise"}}
    with pytest.raises(InputError, match=r"does not apply to this mechanism \(noise\)"):
        after_audit(GatePolicy(min_ka=2), audit)
    assert after_audit(GatePolicy(), audit) == []
    assert after_audit(GatePolicy(), {}) == []


@pytest.mark.parametrize(
    ("status", "row", "reasons"),
    [
        ("ok", {"linker": "none"}, ["no linker to release 3: the audit's premise does not hold"]),
        ("ok", {"linker": "exists"}, []),
        ("ok", {"linker": "none", "assumption": "violated"}, []),
        ("cases_dropped", {"linker": "none"}, []),
        (None, {"linker": "none"}, []),
    ],
)
def test_a_missing_linker(status: str | None, row: dict[str, Any], reasons: list[str]) -> None:
    """It is a broken premise, once for each earlier release; not where cases were dropped and that was said."""
    rows = [{"n": 0, "linker": "exists"}, {"n": 1, **row}, {"n": 2, **row}]
    audit = {"anonymity": {"status": status, "ka": 9, "results": [{"earlier": 3, "results": rows}]}}
    assert after_audit(GatePolicy(min_ka=1), audit) == reasons


def test_ceilings_and_floors_are_closed() -> None:
    """Uniqueness at its bound and utility at its bound pass; beyond they give their numbers."""
    policy = GatePolicy(max_uniqueness=0.1, min_utility=0.8)
    assert after_audit(policy, {"risk": {"worst": 0.1}, "utility": {"data_utility": 0.8}}) == []
    assert after_audit(policy, {"risk": {"worst": 0.1001}, "utility": {"data_utility": 0.7999}}) == [
        "uniqueness: 0.1001 is above 0.1",
        "utility: 0.7999 is below 0.8",
    ]
    assert after_audit(policy, {"risk": None, "utility": {}}) == [
        "uniqueness: not measured, so the bound 0.1 is not shown",
        "utility: not measured, so the bound 0.8 is not shown",
    ]
    found = {"risk": {"worst": 1.0}, "utility": {"data_utility": 0.0}}
    assert after_audit(GatePolicy(), found) == []
    assert after_audit(GatePolicy(max_uniqueness=0, min_utility=1), {"risk": {"worst": 0.0}, "utility": {}}) == [
        "utility: not measured, so the bound 1 is not shown"
    ]


def test_the_series_is_asked_as_a_whole() -> None:
    """Measured and above its bound it passes, also where it begins later; not measured, too low, or with releases that
    nothing joins it does not."""
    policy = GatePolicy(min_series=3)

    def reasons(**series: Any) -> list[str]:
        return after_audit(policy, {"series": series})

    assert reasons(status="ok", worst=3) == []
    assert reasons(status="ok", worst=None) == []
    assert reasons(status="ok", worst=2) == ["series: 2 is below 3"]
    assert reasons(status="ok", worst=0) == ["series: 0 is below 3"]
    assert reasons(status="skipped", reason="too many", worst=9) == [
        "series: not measured (too many), so the bound 3 is not shown"
    ]
    assert reasons() == ["series: not measured (no audit), so the bound 3 is not shown"]
    row = {"n": 1, "without_linker": [(2, 3), (1, 2)]}
    found = {"status": "ok", "worst": 9, "releases": [4, 5, 7], "results": [row]}
    said = "series: no linker joins releases 5 and 7 at n = 1: its premise does not hold"
    assert reasons(**found) == [said]
    assert reasons(**{**found, "results": [{**row, "assumption": "violated"}]}) == []
    assert reasons(**{**found, "results": [{**row, "without_linker": []}]}) == []
    assert after_audit(GatePolicy(), {"series": found}) == []
    assert after_audit(GatePolicy(), {"series": {"status": "skipped"}}) == []
