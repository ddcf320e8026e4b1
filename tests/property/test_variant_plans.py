"""Random small logs: a mechanism builds the same release on the table of variants as on the log itself."""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from models import variants
from models.anonymize.sensitive import class_columns
from models.dp import strict, synthetic
from models.dp.noise import simulated
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from models.keys import case_blocks
from models.knowledge import NANOSECONDS, items
from models.variants import GONE, VariantPlan, VariantTable, variant_table
from stream.release import single
from stream.release.contract import Exposure, Mechanism
from stream.release.public_files import carried
from tests.conftest import random_inputs

LOGS = max(random_inputs(20), 5)
"""Of each kind of mechanism. Of fewer than five some kinds release none."""
KINDS: list[dict[str, Any]] = [
    *(
        {"kind": "tlkc", "knowledge": structure, "attribute": attribute, "suppression": suppression}
        for structure in ("set", "mult", "seq", "rel")
        for attribute in ("ac", "re", "ar")
        for suppression in ("greedy", "exact", "local")
    ),
    {"kind": "tlkc", "suppression": "greedy", "algorithm": 1, "theta": 0.3},
    {"kind": "tlkc", "suppression": "local", "effort": 3},
    {"kind": "baseline-1"},
    {"kind": "baseline-2"},
    {"kind": "pretsa"},
    {"kind": "identity", "knowledge": "rel", "attribute": "ar"},
]


def random_log(generator: np.random.Generator) -> EventLog:
    """A few cases over a few items, with equal times, missing resources and missing sensitive values."""
    owner, names, times, actors = [], [], [], []
    cases = int(generator.integers(6, 30))
    for case in range(cases):
        for _ in range(int(generator.integers(1, 6))):
            owner.append(str(case))
            names.append("abcd"[int(generator.integers(4))])
            times.append(int(generator.integers(0, 3)) * 45_000_000_000)
            actors.append(["x", "y", None][int(generator.integers(3))])
    values = {
        "disease": {str(case): [None, "p", "q", "r"][int(generator.integers(4))] for case in range(cases)},
        "age": {str(case): int(generator.integers(20, 60)) for case in range(cases)},
    }
    actors[0] = "x"
    return EventLog.from_events(owner, names, np.asarray(times), actors, values, unit="ns")


def tabled(log: EventLog, mechanism: Mechanism, sensitive: tuple[str, ...]) -> tuple[VariantTable, Exposure, Any]:
    """The table, as a mechanism takes it, and the row of each case."""
    bins = getattr(mechanism, "bins", {})
    table, row = variant_table(log, mechanism.variants_by(), class_columns(log, sensitive, bins))
    ones = np.ones(table.log.n_cases, dtype=np.bool_)
    return table, Exposure(table.log, ones, sensitive, 0, cases=table.count), row


def shown(log: EventLog, classes: list[Any]) -> Counter[Any]:
    """Released traces with the class of their case, as a multiset."""
    parts = list(zip(log.activity.decode(), log.resource.decode(), log.time.tolist(), strict=True))
    traces = [tuple(parts[a:b]) for a, b in itertools.pairwise(log.starts.tolist())]
    return Counter(zip(traces, classes, strict=True))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(str(value) for value in kind.values()))
def test_build_on_the_table_is_the_build_on_the_log(kind: dict[str, Any]) -> None:
    """The same traces with the same classes as a multiset, the same findings, or the same refusal."""
    generator = np.random.default_rng(zlib.crc32(str(kind).encode()))
    built = 0
    for _ in range(LOGS):
        log = random_log(generator)
        own = {"K": int(generator.integers(2, 5))} if kind["kind"] != "identity" else {}
        if kind["kind"] == "tlkc":
            own |= {"L": int(generator.integers(1, 4)), "C": [0.6, 0.8, 1.0][int(generator.integers(3))]}
        mechanism = single.mechanism_of(kind["kind"], {**kind, **own})
        sensitive = ("disease", "age")
        whole = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), sensitive, 0)
        _, counted, row = tabled(log, mechanism, sensitive)
        try:
            expected = mechanism.build(whole)
        except (BoundError, InputError) as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                mechanism.build(counted)
            continue
        built += 1
        build = mechanism.build(counted)
        classes = class_columns(log, sensitive)
        joint = list(zip(*(classes[name].decode() for name in sensitive), strict=True))
        wanted = shown(carried(expected), [joint[case] for case in expected.origin])
        plan = VariantPlan.of(carried(build), build.origin, counted.cases)
        assert plan.cases == expected.log.n_cases
        assert plan.events == expected.log.n_events
        trace = plan.assigned(row, generator.permutation(len(row)))
        leaving = np.flatnonzero(trace != GONE)
        applied = plan.traces.select_cases(trace[leaving])
        assert shown(applied, [joint[case] for case in leaving]) == wanted
        assert leaving.tolist() == expected.origin.tolist()
        for name in ("n_actual", "cases_dropped", "public", "operator", "carries", "time_basis"):
            assert getattr(build, name) == getattr(expected, name), name
    assert built


def test_noisy_counts_are_those_of_the_log() -> None:
    """With the same seed dp-variants releases the same counts of the same variants."""
    generator = np.random.default_rng(5)
    for seed in range(20):
        log = random_log(generator)
        table, _ = variant_table(
            log, single.mechanism_of("dp-variants", {"epsilon": 2, "delta_dp": 0.1}).variants_by(), {}
        )
        one = strict.release_variants(log, epsilon=2, delta_dp="0.3", draw=simulated(seed))
        other = strict.release_variants(table.log, epsilon=2, delta_dp="0.3", draw=simulated(seed), cases=table.count)
        assert Counter(one.log.traces()) == Counter(other.log.traces())
        assert one.operator == other.operator


def test_a_synthetic_log_is_that_of_the_log() -> None:
    """With the same seed dp-synthetic without times draws the same traces, and reports the same to the operator."""
    generator = np.random.default_rng(6)
    released = 0
    for seed in range(5):
        log = random_log(generator)
        table, _ = variant_table(
            log, single.mechanism_of("dp-synthetic", {"epsilon": 2, "delta_dp": 0.1}).variants_by(), {}
        )
        design = synthetic.Design(activities=("a", "b", "c") if seed % 2 else None, sample=200)
        given: dict[str, Any] = {"epsilon": 200, "delta_dp": "0.3", "design": design}
        one = synthetic.release_synthetic(log, draw=simulated(seed), **given)
        other = synthetic.release_synthetic(table.log, draw=simulated(seed), cases=table.count, **given)
        assert Counter(one.log.traces()) == Counter(other.log.traces())
        assert one.operator == other.operator
        released += one.log.n_cases
    assert released


def test_a_plan_that_parts_a_row_gives_each_part_its_cases() -> None:
    """Of five cases of a row two get one trace, two another, one none: in the order of what they drew."""
    traces = EventLog.from_traces([("ab", None), ("b", None)])
    plan = VariantPlan(traces, np.asarray([0, 0, 0, 1]), np.asarray([0, 1, GONE, 1]), np.asarray([2, 2, 1, 3]))
    row = np.asarray([1, 0, 0, 0, 0, 0, 1, 1])
    draw = np.asarray([7, 50, 10, 40, 20, 30, 5, 6])
    assert plan.assigned(row, draw).tolist() == [1, GONE, 0, 1, 0, 1, 1, 1]
    assert (plan.cases, plan.events) == (7, 9)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_plan_does_not_depend_on_the_size_of_its_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Traces are compared block by block: equal ones of two blocks are one trace, empty ones too."""
    monkeypatch.setattr(variants, "case_blocks", lambda starts: case_blocks(starts, size))
    log = EventLog.from_traces([(trace, None) for trace in ("", "ab", "b", "ab", "", "abc")])
    plan = VariantPlan.of(log, np.arange(6), np.asarray([1, 2, 3, 4, 5, 6]))
    assert ["".join(trace) for trace in plan.traces.traces()] == ["", "ab", "b", "abc"]
    assert plan.trace.tolist() == [0, 1, 2, 1, 0, 3]
    empty = VariantPlan.of(EventLog.from_traces([("", None), ("", None)]), np.arange(2), np.asarray([1, 2]))
    assert empty.traces.n_cases == 1
    assert empty.trace.tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["amun", "dp-log", "dp-synthetic", "tlkc-cohorts", "lcs-start"])
def test_a_kind_that_reads_more_of_a_case_says_which_engine_can(kind: str) -> None:
    """One line with the name of the engine."""
    given = {
        "amun": {"delta": "0.2"}, "dp-log": {"epsilon": 1, "delta_dp": 0.1},
        "dp-synthetic": {"epsilon": 1, "delta_dp": 0.1, "max_duration": "1d"}, "tlkc-cohorts": {}, "lcs-start": {},
    }  # fmt: skip
    with pytest.raises(InputError, match="--engine embedded"):
        single.mechanism_of(kind, given[kind]).variants_by()


def test_tlkc_that_reads_more_of_a_case_says_which_engine_can() -> None:
    """Means of times are not a plan on variants."""
    with pytest.raises(InputError, match="--engine embedded"):
        single.mechanism_of("tlkc", {"times": "microaggregated"}).variants_by()


def test_relative_times_stand_in_the_table() -> None:
    """An item of `rel` is anchored at the start of its case, in whole units."""
    knowledge = single.mechanism_of("tlkc", {"knowledge": "rel"}).variants_by()
    log = random_log(np.random.default_rng(1))
    table, row = variant_table(log, knowledge, {})
    own, source = items(table.log, knowledge).decode(), items(log, knowledge).decode()
    for case, place in enumerate(row.tolist()):
        a, b = table.log.starts[place : place + 2]
        assert own[a:b] == source[log.starts[case] : log.starts[case + 1]]
    assert not (table.log.time % NANOSECONDS[knowledge.T]).any()
