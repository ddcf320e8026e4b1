"""lcs-start: what all cases share comes first, and nothing leaves that the bounds do not allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from models.anonymize.lcs_start import common_subsequence, lcs_start
from models.errors import BoundError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.release.contract import Exposure
from stream.release.mechanisms.lcs_start import LcsStart
from tests.oracles.publishing import contains


def test_the_common_subsequence_is_longest_for_two_and_common_for_all() -> None:
    """Against enumeration of all subsequences, on random traces."""
    generator = np.random.default_rng(3)
    for _ in range(60):
        traces = [tuple(generator.integers(3, size=generator.integers(1, 6)).tolist()) for _ in range(3)]
        found = common_subsequence(traces[:2])
        parts = (part for size in range(6) for part in itertools.combinations(traces[0], size))
        assert len(found) == max(len(part) for part in parts if contains(traces[1], part))
        assert all(contains(trace, common_subsequence(traces)) for trace in traces)


def test_an_item_that_the_audit_forbids_stays_away() -> None:
    """Everything but d comes back when only d is forbidden."""
    log = EventLog.from_traces([("abd", None), ("abc", None), ("acb", None)])
    forbidden = log.activity.codes == log.activity.values.index("d")
    result = lcs_start(log, Knowledge(), lambda kept: not (kept & forbidden).any())
    assert result.kept.tolist() == (~forbidden).tolist()
    assert result.suppressed == ("d",)


def test_where_nothing_is_allowed_nothing_leaves() -> None:
    """BoundError, never an empty success."""
    log = EventLog.from_traces([("ab", None), ("ab", None)])
    with pytest.raises(BoundError, match="nothing is released"):
        lcs_start(log, Knowledge(), lambda _kept: False)


def test_the_mechanism_keeps_k_cases_inside_and_outside_earlier_releases() -> None:
    """Four ab and one abx: x stays away; in the next release what fewer than K new cases have stays away too."""
    cases = [("ab", "p"), ("ab", "q"), ("ab", "p"), ("ab", "q"), ("abx", "p")]
    first = Exposure(EventLog.from_traces(cases, "S"), np.ones(5, dtype=bool), ("S",), 0)
    one = LcsStart(K=3, C=0.7).build(first)
    assert set(one.log.activity.values) == {"a", "b"}
    more = EventLog.from_traces([*cases, ("ab", "p"), ("ab", "q"), ("b", "q")], "S")
    two = LcsStart(K=3, C=0.7).build(Exposure(more, np.ones(8, dtype=bool), ("S",), 1), one.memory)
    assert set(two.log.activity.values) == {"b"}
    assert LcsStart().forget(one.memory, ["1"]) == {"releases": [["2", "3", "4", "5"]]}
