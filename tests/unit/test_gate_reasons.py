"""A gate's reasons: a code, the bound and the value with the sentence, so that nobody reads the sentence back."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from models.dp.budget import Charge
from models.dp.spending import Spending
from stream.release.contract import Decision
from stream.release.gate import GatePolicy, after_audit, before_noise
from stream.release.reason import Reason, of_record
from stream.run.exporter import Metrics


@pytest.mark.parametrize(
    ("gate", "audit", "expected"),
    [
        ({"min_fa": 4}, {"anonymity": {"true_linker": [{"earlier": 1, "fa": 3}]}}, ("fa", 4, 3)),
        ({"max_uniqueness": 0.25}, {"risk": {"worst": 0.5}}, ("uniqueness", 0.25, 0.5)),
        ({"max_uniqueness": 0.25}, {}, ("uniqueness", 0.25, None)),
        ({"min_utility": 0.9}, {"utility": {"data_utility": 0.5}}, ("utility", 0.9, 0.5)),
        ({"max_minimality": 2}, {"minimality": {"below_k": 3}}, ("mechanism", 2, 3)),
        ({"min_series": 2}, {"series": {"status": "ok", "worst": 1}}, ("series", 2, 1)),
        ({"min_ka": 2}, {}, ("premise", None, None)),
    ],
)
def test_a_reason_has_its_numbers(gate: dict[str, Any], audit: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Also if nothing was measured: then there is a bound and no value."""
    (reason,) = after_audit(GatePolicy(**gate), audit)
    assert (reason.code, reason.bound, reason.value) == expected


def test_reasons_before_noise_are_exact() -> None:
    """The numbers are fractions, not what the sentence rounds them to."""
    policy = GatePolicy(max_epsilon=Fraction(1, 3))
    before = Spending(earlier=Charge(Fraction(1, 3)))
    (reason,) = before_noise(policy, before, before.with_charge(Charge(Fraction(1, 7))))
    assert (reason.code, reason.bound, reason.value) == ("epsilon", Fraction(1, 3), Fraction(10, 21))


def test_metrics_count_codes_and_read_no_sentence() -> None:
    """A sentence that names another bound is counted by its code."""
    metrics = Metrics("tiny")
    metrics.configured("p", "identity", GatePolicy())
    metrics.decided("p", Decision("c", "withheld", because=[Reason("fa", "ka: 1 is below 2")]), 0.1)
    metrics.decided("p", Decision("d", "sealed", 1, because=[Reason("tpl", "ba: 1 is below 2")]), 0.1)

    def value(name: str, reason: str) -> float | None:
        labels = {"process": "tiny", "publication": "p", "reason": reason}
        return metrics.registry.get_sample_value(f"veilstream_{name}_reasons_total", labels)

    assert [value("withheld", code) for code in ("ka", "fa")] == [0, 1]
    assert [value("warned", code) for code in ("ba", "tpl")] == [0, 1]


def test_what_the_ledger_keeps_has_its_code_again() -> None:
    """The ledger holds sentences alone: every sentence of a gate gives the code with which it was made."""
    audit: dict[str, Any] = {
        "anonymity": {"status": "ok", "ka": 1, "results": [{"earlier": 1, "results": [{"linker": "none"}]}]},
        "series": {"status": "skipped"},
    }
    policy = GatePolicy(min_ka=2, min_series=2, max_uniqueness=0.5, max_minimality=1, min_utility=0.5)
    made = after_audit(policy, audit)
    assert len(made) == 6
    assert [of_record(reason.text).code for reason in made] == [reason.code for reason in made]
