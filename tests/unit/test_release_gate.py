"""The gate: least values, both ways of counting, and bounds that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import Charge
from models.errors import InputError
from stream.release import gate
from stream.release.gate import GatePolicy, refuse_impossible, worst_anonymity
from stream.release.mechanisms import mechanism
from stream.release.mechanisms.identity import Identity
from stream.release.reason import Reason, texts


def after_audit(policy: GatePolicy, audit: Mapping[str, Any]) -> list[str]:
    """What the gate says to people."""
    return texts(gate.after_audit(policy, audit))


def before_noise(policy: GatePolicy, spent: Charge, asked: Charge, leakage: Sequence[Reason] = ()) -> list[str]:
    """What the gate says to people, before any noise."""
    return texts(gate.before_noise(policy, spent, asked, leakage))


def _audit(fa: int | None, true_fa: int, linker: str = "exists", **row: Any) -> dict[str, Any]:
    pair = {"earlier": 1, "results": [{"n": 0, "linker": linker, "fa": fa, "ca": fa, "ba": 9, **row}]}
    true = [{"earlier": 1, "fa": true_fa, "ca": true_fa, "ba": 9}]
    return {"anonymity": {"status": "ok", "ka": 25, "results": [pair], "true_linker": true}}


def test_the_smaller_of_search_and_true_linker_decides() -> None:
    """Neither way of counting can hide what the other shows."""
    assert worst_anonymity(_audit(30, 20)["anonymity"], "fa") == 20
    assert worst_anonymity(_audit(7, 20)["anonymity"], "fa") == 7


def test_behind_a_true_zero_there_is_no_victim() -> None:
    """Where the true linker counts nobody, the exact value is not used."""
    assert worst_anonymity(_audit(3, 0)["anonymity"], "fa") is None


def test_a_bound_that_breaks_gives_a_reason() -> None:
    """min_fa = 20 refuses 19 and passes 20."""
    policy = GatePolicy(min_fa=20)
    assert after_audit(policy, _audit(19, 25)) == ["fa: 19 is below 20"]
    assert after_audit(policy, _audit(20, 25)) == []


def test_no_linker_is_a_broken_premise() -> None:
    """Linker none withholds, unless n does not cover what was removed (then it is reported only)."""
    policy = GatePolicy(min_fa=2)
    assert "no linker" in after_audit(policy, _audit(None, 25, "none"))[0]
    assert after_audit(policy, _audit(None, 25, "none", assumption="violated")) == []


def test_the_first_release_is_gated_on_ka() -> None:
    """There is nothing to link with, so only KA can refuse."""
    first = {"anonymity": {"status": "ok", "ka": 3, "results": [], "true_linker": []}}
    assert after_audit(GatePolicy(min_ka=4, min_fa=4), first) == ["ka: 3 is below 4"]


def test_the_budget_is_exact_and_closed() -> None:
    """Ten tenths fit into one, the eleventh does not."""
    policy, tenth = GatePolicy(max_epsilon=Fraction(1)), Charge(Fraction(1, 10))
    assert before_noise(policy, Charge(Fraction(9, 10)), tenth) == []
    assert before_noise(policy, Charge(Fraction(1)), tenth) == ["epsilon: spent 1, asked 0.1, limit 1"]


def test_tpl_before_noise_is_plain_composition() -> None:
    """Also where the audit's chain mixes and would allow more: what the gate says then never depends on data."""
    policy, tenth = GatePolicy(max_tpl=Fraction(1)), Charge(Fraction(1, 10))
    assert before_noise(policy, Charge(Fraction(4, 10)), tenth, leakage=[]) == []
    assert before_noise(policy, Charge(Fraction(5, 10)), tenth, leakage=[]) == ["tpl: composition gives 1.2, bound 1"]


def test_a_measure_that_was_not_made_does_not_pass() -> None:
    """A uniqueness bound without a measured uniqueness is refused."""
    assert "not measured" in after_audit(GatePolicy(max_uniqueness=0.1), {})[0]
    assert "not measured" in after_audit(GatePolicy(min_ka=2), {})[0]


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


def test_a_gate_on_noisy_output_needs_every_attempt_to_be_paid_for() -> None:
    """A withheld attempt is an output too. dp-variants pays for it; amun spends nothing it could be paid with."""
    bound = GatePolicy(max_uniqueness=0.1)
    paid = bound.model_copy(update={"charge_withheld": True})
    strict = mechanism({"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6})
    amun = mechanism({"kind": "amun", "delta": 0.3, "releases": 3})
    with pytest.raises(InputError, match="charge_withheld = true"):
        refuse_impossible(bound, strict, "p")
    refuse_impossible(paid, strict, "p")
    for policy in (bound, paid):
        with pytest.raises(InputError, match="remove it: it spends no epsilon"):
            refuse_impossible(policy, amun, "p")
    refuse_impossible(GatePolicy(), amun, "p")


def test_an_epsilon_bound_needs_a_mechanism_that_spends() -> None:
    """max_epsilon on identity is a configuration error."""
    with pytest.raises(InputError, match="spends epsilon"):
        refuse_impossible(GatePolicy(max_epsilon=Fraction(1)), Identity(), "publication 'p'")
