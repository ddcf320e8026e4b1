"""The audit `leakage`: what applies, what is counted, what is asked before noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import ValidationError

from models.dp.budget import Charge
from models.eventlog import EventLog
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits import audits
from stream.release.audits.leakage import Leakage
from stream.release.contract import Applicability, AuditContext, Build, Exposure, Mechanism
from stream.release.gate import GatePolicy
from stream.release.pipeline import section_of

TENTH = Charge(Fraction(1, 10))
TRACES = [("abca", 1), ("acba", 1), ("bcab", 1), ("cabc", 1), ("aabbc", 1), ("ccbba", 1)]


class Noisy(Mechanism):
    """A mechanism that spends a given epsilon."""

    reads_data_in_gate: ClassVar[bool] = False
    kind: Literal["noisy"] = "noisy"
    spends: Charge = TENTH

    def charge(self) -> Charge:
        return self.spends

    def promise(self) -> Mapping[str, Any]:
        return {}

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        return build(exposure.log)


def build(log: EventLog, **more: Any) -> Build:
    return Build(log=log, origin=np.full(log.n_cases, -1, dtype=np.int64), carries=("activity",), **more)


def context(charges: list[Charge], previous: Mapping[str, Any] | None = None, **more: Any) -> AuditContext:
    log = EventLog.from_traces(TRACES[: len(charges) + 3])
    return AuditContext(
        candidate=ReleaseRecord(len(charges), log, ("activity",), "minutes", ()),
        earlier=(),
        build=build(log, **more),
        exposure=Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0),
        mechanism=Noisy(spends=charges[-1]),
        charges=charges,
        counts={},
        previous_audit=previous or {},
    )


def series(audit: Leakage, n: int) -> Mapping[str, Any]:
    """n sealed releases, the state going through JSON each time."""
    result: Mapping[str, Any] = {}
    for i in range(1, n + 1):
        previous = {"leakage": json.loads(json.dumps(result))} if result else {}
        result = audit.measure(context([TENTH] * i, previous), {})
    return result


def test_it_joins_by_its_file() -> None:
    """The registry finds it, on by default, with the parameters of its own table."""
    found = {audit.name: audit for audit in audits({"leakage": {"states": "suffix-1", "window": 3}})}
    assert found["leakage"] == Leakage(states="last", window=3)
    assert "leakage" in {audit.name for audit in audits({})}
    with pytest.raises(ValidationError):
        Leakage(window=0)


def test_prefix_states_give_the_sum_of_e_under_replacement() -> None:
    """Three releases at a tenth: e_i = 0.2, and every TPL is exactly 0.6; the state is carried from audit to audit."""
    result = series(Leakage(), 3)
    assert result["epsilon"] == [0.2, 0.2, 0.2]
    assert [row["tpl"] for row in result["releases"]] == [0.6, 0.6, 0.6]
    assert (result["max_tpl"], result["sum_epsilon"]) == (0.6, 0.6)
    assert result["extreme"] == {"backward": True, "forward": True}
    assert set(result["witness"]) == {"backward", "forward"}
    assert result["relation"] == "replacement"


def test_coarser_states_leak_less_than_composition() -> None:
    """By last activity and a wide window the chain mixes: TPL stays below the sum, and above one release's e."""
    result = series(Leakage(states="last", window=3, scenario="uncertain"), 4)
    assert 0.2 < result["max_tpl"] < result["sum_epsilon"] == 0.8


def test_charges_of_withheld_attempts_count_with_the_next_release() -> None:
    """Two charges before the first sealed release: its e is both."""
    result = Leakage().measure(context([TENTH, TENTH]), {})
    assert result["epsilon"] == [0.4]


def test_delta_leaves_only_composition() -> None:
    """(eps, delta) releases get sums and no curves: 2 eps, and (1 + e^eps) delta, each."""
    charge = Charge(Fraction(1, 10), Fraction(1, 10**6))
    result = Leakage().measure(context([charge, charge]), {})
    assert result["method"] == "composition"
    assert "releases" not in result
    assert result["max_tpl"] == result["sum_epsilon"] == pytest.approx(0.4)
    assert result["sum_delta"] == pytest.approx(2e-6 * (1 + np.exp(0.1)), rel=1e-12)


def test_mechanisms_without_epsilon_get_a_reason_instead_of_a_number() -> None:
    """No charge, or a mechanism that says that leakage means nothing for it."""
    none = Leakage().measure(context([Charge()]), {})
    assert (none["status"], set(none)) == ("not_applicable", {"status", "reason"})
    own = Applicability("not_applicable", "guessing advantage")
    assert section_of(Leakage(), context([TENTH], applies={"leakage": own}), {})["reason"] == "guessing advantage"


@pytest.mark.parametrize(("spent", "refused"), [(0, False), (4, False), (5, True)])
def test_before_noise_asks_whether_the_bound_would_break(spent: int, refused: bool) -> None:
    """max_tpl = 1 and 0.2 a release under replacement: the fifth fits exactly, the sixth does not."""
    facts = {"policy": GatePolicy(max_tpl=1), "charges": [TENTH] * spent, "audits": {}}
    assert bool(Leakage().before_noise(facts, TENTH)) == refused
    assert Leakage().before_noise({**facts, "policy": GatePolicy()}, TENTH) == []
    assert Leakage().before_noise(facts, Charge()) == []


def test_before_noise_goes_on_from_the_chain_of_the_last_audit() -> None:
    """If the chain mixes, the compared value is its TPL with one extreme step more, not the sum of all e."""
    audit = Leakage(states="last", window=3, scenario="uncertain")
    last = series(audit, 4)
    facts = {"charges": [TENTH] * 4, "audits": {"leakage": last}}
    just = Fraction(last["max_tpl"]) + Fraction(2, 10)
    assert just < 1
    assert audit.before_noise({**facts, "policy": GatePolicy(max_tpl=just + Fraction(1, 10**9))}, TENTH) == []
    assert audit.before_noise({**facts, "policy": GatePolicy(max_tpl=Fraction(last["max_tpl"]))}, TENTH)
