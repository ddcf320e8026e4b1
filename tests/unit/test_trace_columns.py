"""Measures that count on columns say what the same measures say on traces that are spelt out."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from models.eventlog import MISSING, Column, EventLog
from models.risk.uniqueness import singleton_variants
from models.utility.loss import loss
from models.utility.similarity import dfg_error
from tests.oracles import utility as oracle


def _pair(seed: int, missing: float = 0.1) -> tuple[EventLog, EventLog]:
    """Two logs with labels of their own, in other orders; empty cases, and events without an activity."""
    rng = random.Random(seed)
    logs = []
    for labels in ("abcd", "dbxa"):
        cases = [([rng.choice(labels) for _ in range(rng.randint(0, 4))], None) for _ in range(rng.randint(5, 20))]
        log = EventLog.from_traces([(["a"], None), *cases])
        hidden = np.asarray([rng.random() < missing for _ in range(log.n_events)], dtype=np.bool_)
        codes = np.where(hidden, -1, log.activity.codes).astype(np.int32)
        logs.append(replace(log, activity=Column(codes, log.activity.values)))
    return logs[0], logs[1]


@pytest.mark.parametrize("seed", range(30))
def test_keys_of_traces_are_equal_where_traces_are(seed: int) -> None:
    """Within a log and between two that code their labels differently."""
    one, two = _pair(seed)
    labels: dict[str, int] = {}
    keys = [*one.trace_keys(labels), *two.trace_keys(labels)]
    traces = [*one.traces(), *two.traces()]
    assert len(set(zip(keys, traces, strict=True))) == len(set(keys)) == len(set(traces))


@pytest.mark.parametrize("seed", range(30))
def test_measures_on_columns_equal_those_on_traces(seed: int) -> None:
    """Variants of one case, and the error of directly-follows frequencies."""
    one, two = _pair(seed)
    before, after = one.traces(), two.traces()
    labels: dict[str, int] = {}
    singletons = (singleton_variants(log, labels) for log in (one, two))
    for keys, traces in zip(singletons, (before, after), strict=True):
        alone = {trace for trace, count in Counter(traces).items() if count == 1}
        assert keys == {
            np.asarray([labels.get(name, MISSING) for name in trace], dtype=np.int32).tobytes() for trace in alone
        }
    assert dfg_error(one, two) == pytest.approx(oracle.dfg_error(Counter(before), Counter(after)), abs=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_loss_on_columns_equals_that_on_traces(seed: int) -> None:
    """Variants, variants kept, and cases as they were."""
    one, two = _pair(seed, missing=0)
    before, after = one.traces(), two.traces()
    origin = np.asarray([number % one.n_cases for number in range(two.n_cases)], dtype=np.int64)
    found = loss(one, two, origin)
    assert (found.variants_in, found.variants_kept) == (len(set(before)), len(set(before) & set(after)))
    same = sum(before[case] == trace for case, trace in zip(origin.tolist(), after, strict=True))
    assert found.cases_as_they_were == same / len(before)
