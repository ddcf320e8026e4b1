"""Baseline-2 and PRETSA_case: cases are shortened to traces, or prefixes, that K cases share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from models.anonymize import baselines
from models.anonymize.baselines import baseline_1, baseline_2, leftmost, pretsa
from models.errors import BoundError
from models.eventlog import EventLog
from tests.conftest import golden

TABLE3 = golden("tlkc_table3.json")


def _table3() -> EventLog:
    return EventLog.from_traces([(row["trace"], row["disease"]) for row in TABLE3["input"]])


def _random(generator: np.random.Generator) -> EventLog:
    cases = int(generator.integers(3, 15))
    return EventLog.from_traces(
        [("".join(generator.choice(list("abc"), int(generator.integers(1, 6)))), None) for _ in range(cases)]
    )


def _is_subtrace(short: Any, long: Any) -> bool:
    rest = iter(long)
    return all(item in rest for item in short)


def test_the_example_loses_no_more_than_the_published_table() -> None:
    """Table 3 at K = 2: Table 4 removes 12 events, 10 are possible."""
    result = baseline_2(_table3(), 2)
    assert result.satisfied
    lost = _table3().n_events - result.events
    assert TABLE3["baseline2"]["optimal_by_set_partition"]["2"]["events_removed"] <= lost <= 12


def test_frequent_variants_stay_as_they_are() -> None:
    """Only violating variants are mapped, onto the trace that is already shared."""
    log = EventLog.from_traces([("ab", None)] * 3 + [("acb", None), ("abd", None)])
    result = baseline_2(log, 3)
    assert result.log.traces() == [("a", "b")] * 5
    assert result.n_actual == 1


def test_a_result_that_the_count_refuses_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the mapping would leave a trace alone, the check from scratch stops the release."""
    log = EventLog.from_traces([("ab", None)] * 3 + [("acb", None)])
    monkeypatch.setattr(baselines, "_grouped", lambda traces, *_: traces)
    with pytest.raises(BoundError, match="not released"):
        baseline_2(log, 2)


def test_a_K_beyond_64_bits_is_more_than_there_are_cases() -> None:
    """All cases would go, by every method."""
    for method in (baseline_1, baseline_2, pretsa):
        with pytest.raises(BoundError, match="all 4 cases"):
            method(EventLog.from_traces([("ab", None)] * 4), 10**21)


def test_nothing_in_common_is_dropped() -> None:
    """A variant with no event in common with any other goes; alone it is not a release."""
    result = baseline_2(EventLog.from_traces([("ab", None)] * 2 + [("c", None)]), 2)
    assert (result.origin.tolist(), result.dropped.tolist()) == ([0, 1], [2])
    with pytest.raises(BoundError, match="all 2 cases"):
        baseline_2(EventLog.from_traces([("a", None), ("b", None)]), 2)


def test_random_logs_are_k_anonymous_by_removal_only() -> None:
    """Counted from scratch: traces (Baseline-2) and prefixes (PRETSA_case) are shared by K cases."""
    generator = np.random.default_rng(1)
    released = Counter[str]()
    for _ in range(150):
        log, K = _random(generator), int(generator.integers(2, 5))
        for method in (baseline_2, pretsa):
            try:
                result = method(log, K)
            except BoundError:
                continue
            released[method.__name__] += 1
            traces = result.log.traces()
            source = log.traces()
            assert all(_is_subtrace(t, source[c]) for t, c in zip(traces, result.origin, strict=True))
            units = [t if method is baseline_2 else t[:n] for t in traces for n in range(1, len(t) + 1)]
            if method is baseline_2:
                units = list(traces)
            assert min(Counter(units).values()) >= K
            assert result.satisfied
    assert min(released.values()) > 80


def test_pretsa_cuts_where_a_prefix_is_rare() -> None:
    """The case that continues alone is cut back to the shared prefix, the others keep everything."""
    log = EventLog.from_traces([("abc", None)] * 2 + [("abd", None)])
    assert pretsa(log, 2).log.traces() == [("a", "b", "c")] * 2 + [("a", "b")]


def test_pretsa_jumps_over_a_rare_event() -> None:
    """The most similar path is found by leaving out the rare event, not only by cutting after it."""
    log = EventLog.from_traces([("abc", None)] * 2 + [("axbc", None)])
    assert pretsa(log, 2).log.traces() == [("a", "b", "c")] * 3


def test_pretsa_counts_again_after_moving_cases() -> None:
    """Moving a case may leave its old prefix short of K: the tree is cut until it is stable."""
    log = EventLog.from_traces([("ab", None), ("ab", None), ("acd", None), ("ced", None), ("cd", None), ("cd", None)])
    result = pretsa(log, 2)
    prefixes = Counter(trace[:n] for trace in result.log.traces() for n in range(1, len(trace) + 1))
    assert min(prefixes.values()) >= 2
    assert result.satisfied


def test_leftmost_match() -> None:
    """The first events that spell a subtrace are chosen."""
    assert leftmost((1, 2, 1, 2), (1, 2)).tolist() == [True, True, False, False]
    assert leftmost((2, 1, 3), (1, 3)).tolist() == [False, True, True]


@pytest.mark.logs
def test_sepsis_order_of_the_baselines(logs: Path) -> None:
    """K = 20: mapping keeps many times more than dropping (335 events in 81 cases)."""
    log = read_log(logs / "sepsis.xes.gz")
    for method in (baseline_2, pretsa):
        result = method(log, 20)
        assert result.satisfied
        assert result.events > 5_000
