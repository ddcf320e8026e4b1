"""Baseline-1: whole variants, dropped below K."""

from __future__ import annotations

import pytest

from models.anonymize.baselines import baseline_1
from models.errors import BoundError, InputError
from models.eventlog import EventLog


def _log() -> EventLog:
    return EventLog.from_traces([("ab", "x"), ("abc", "y"), ("ab", "z"), ("c", "x"), ("abc", "x"), ("ab", "x")])


def test_rare_variants_leave_with_all_their_events() -> None:
    """Variants below K go whole, the others stay untouched."""
    result = baseline_1(_log(), 3)
    assert result.log.traces() == [("a", "b")] * 3
    assert result.origin.tolist() == [0, 2, 5]
    assert result.dropped.tolist() == [1, 3, 4]
    assert result.n_actual == 0
    assert result.satisfied


def test_nothing_left_is_no_success() -> None:
    """A K above every variant count is a broken bound."""
    with pytest.raises(BoundError, match="all 6 cases"):
        baseline_1(_log(), 4)


def test_k_must_be_positive() -> None:
    """K = 0 is bad input."""
    with pytest.raises(InputError, match="K = 0"):
        baseline_1(_log(), 0)
