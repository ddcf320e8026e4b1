"""`dp-model` as a mechanism: keys, refusals, what it promises, and what a build holds."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.dp.account import agrees
from models.dp.budget import Charge
from models.errors import InputError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release.contract import Exposure
from stream.release.map_files import FILES
from stream.release.mechanisms import mechanism
from stream.release.single import exposure_of

TERMS: dict[str, Any] = {"kind": "dp-model", "epsilon": 5, "delta_dp": 1e-3}
CLEAR = TERMS | {"delta_dp": 1e-9}
"""A label of a single case leaves with a chance below 1e-11, and those of hundreds of cases always."""
LOG = EventLog.from_traces([*[("abc", None)] * 300, *[("acb", None)] * 200, ("axc", None)])


def exposure(log: EventLog = LOG, number: int = 1) -> Exposure:
    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0, number=number)


def configuration(**keys: Any) -> dict[str, Any]:
    publication = {
        "name": "maps",
        "start": "2024-01-01T00:00:00Z",
        "window": {"every": "1d", "time": "wall"},
        "mechanism": TERMS,
        **keys,
    }
    return {"process": {"name": "p"}, "publication": [publication]}


def test_a_build_holds_no_case_and_no_event() -> None:
    """Neither in its files nor for later audits."""
    build = mechanism(TERMS | {"activities": ["a", "b", "c"]}).build(exposure())
    assert build.log.n_cases == 0
    assert len(build.origin) == 0
    assert build.n_actual is None
    assert build.files is not None
    assert set(build.files) == set(FILES)
    assert {name: applies.status for name, applies in build.applies.items()} == dict.fromkeys(
        ("anonymity", "risk", "utility", "loss"), "not_applicable"
    )
    names = {row["name"] for row in json.loads(build.files["dfg.json"])["activities"]}
    assert names == {"a", "b", "c"}


def test_public_facts_are_not_read_off_the_data() -> None:
    """The manifest of neighbouring logs has the same facts."""
    kind = mechanism(TERMS | {"activities": ["a", "b", "c"]})
    fewer = EventLog.from_traces([("abc", None)] * 10)
    assert kind.build(exposure()).public == kind.build(exposure(fewer)).public
    facts = kind.build(exposure()).public
    assert facts["shares_used"] == {"labels": 0.0, "cases": 0.05, "variants": 0.05, "steps": 0.9}
    assert facts == {"shares_used": facts["shares_used"], "threshold": kind.budget().frequent(kind.terms()).threshold}
    selecting = mechanism(TERMS)
    assert selecting.build(exposure(fewer)).public.keys() == facts.keys() | {"label_threshold", "labels_selected"}


def test_the_first_release_selects_the_labels_of_a_series() -> None:
    """The next one keeps them, and its manifest names the release that selected them."""
    kind = mechanism(CLEAR)
    first = kind.build(exposure(number=3))
    assert first.memory == {"labels": {"labels": ["a", "b", "c"], "release": 3}}
    other = EventLog.from_traces([("aq", None)] * 500)
    second = kind.build(exposure(other, number=4), first.memory)
    assert second.public["labels_selected"] == {"release": 3}
    assert second.memory == first.memory
    assert second.files is not None
    assert b'"q"' not in second.files["dfg.json"]


def test_a_release_without_labels_decides_nothing_for_later_ones() -> None:
    none = mechanism(CLEAR).build(exposure(EventLog.from_traces([("a", None)])))
    assert none.memory is None
    assert none.operator["warnings"]


def test_charge_and_noise_agree() -> None:
    """The ledger keeps noise that costs the charge, no less; also without declared labels."""
    for more in ({}, {"activities": ["a"]}, {"cases_per_person": 3}):
        kind = mechanism(TERMS | {"epsilon": 1, "delta_dp": "1e-6"} | more)
        assert kind.charge() == Charge(Fraction(1), Fraction(1, 10**6))
        assert kind.draws()
        assert agrees(kind.charge(), kind.draws())


def test_the_promise_names_what_it_covers() -> None:
    """And that steps may be invented."""
    promise = mechanism(TERMS | {"epsilon": "0.5", "cases_per_person": 2}).promise()
    assert promise["guaranteed"].startswith(
        "the released counts, their intervals and the model, and the choice of the activities: "
        "P[M(L) in S] <= exp(0.5) P[M(L') in S] + 0.001 for every set S of releases"
    )
    assert promise["to_whom"] == "every person with at most 2 cases in the log"
    assert promise["not_guaranteed"].startswith("a step of the map or of the model may be one that no case took")
    declared = mechanism(TERMS | {"activities": ["a"]}).promise()["guaranteed"]
    assert declared.startswith("the released counts, their intervals and the model: ")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"formats": ["csv"]}, "formats is about released logs, and dp-model has none; remove it"),
        ({"assess": True}, "assess is about released logs"),
        ({"release_attributes": ["age"]}, "release_attributes is about released logs"),
        ({"cases": "completed", "accumulate": "sum"}, "do not add up"),
    ],
)
def test_keys_about_logs_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, ValidationError), match=message):
        Settings.model_validate(configuration(**keys))


def test_a_series_of_completed_cases_is_accepted() -> None:
    """All numbers are counts of cases, so that one charge pays for the series."""
    settings = Settings.model_validate(configuration(cases="completed"))
    assert settings.publication[0].build_mechanism.counts_cases


def test_one_file_cannot_hold_a_map() -> None:
    """`anonymize` writes one log."""
    with pytest.raises(InputError, match="dp-model releases no log, so one file cannot hold it; replay"):
        exposure_of(LOG, (), (), mechanism(TERMS))


def test_an_engine_cannot_write_a_map() -> None:
    with pytest.raises(InputError, match="replay the log with a configuration and --engine embedded"):
        mechanism(TERMS).variants_by()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"case_weight": 0},
        {"activities": []},
        {"activities": ["a"], "other": "a"},
        {"max_duration": "1ms"},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((InputError, ValidationError)):
        mechanism(TERMS | wrong)


def test_what_check_config_says() -> None:
    """Of a large delta, and of labels that are selected."""
    selecting = mechanism(TERMS | {"delta_dp": "0.01"}).check({})
    assert selecting[0] == "delta_dp = 0.01 is large: keep it well below 1 / number of persons"
    assert selecting[1].startswith("labels are selected: one leaves if about ")
    assert mechanism(TERMS | {"activities": ["a"]}).check({}) == []


def test_a_declared_case_weight_is_used() -> None:
    build = mechanism(TERMS | {"activities": ["a", "b", "c"], "case_weight": 7}).build(exposure())
    assert build.files is not None
    assert json.loads(build.files["dfg.json"])["case_weight"] == 7


def test_times_leave_only_if_asked_for() -> None:
    """With a public bound: in the counts, the shares and the promise."""
    kind = mechanism(TERMS | {"activities": ["a", "b", "c"], "max_duration": "1d"})
    build = kind.build(exposure())
    assert build.files is not None
    assert "throughput_seconds" in json.loads(build.files["dfg.json"])
    shares = {"labels": 0.0, "cases": 0.05, "variants": 0.05, "steps": 0.4, "times": 0.5}
    assert build.public["shares_used"] == shares
    assert kind.promise()["guaranteed"].startswith("the released counts, all times, their intervals and the model: ")
    assert agrees(kind.charge(), kind.draws())
