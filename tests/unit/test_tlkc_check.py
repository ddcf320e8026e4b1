"""The independent checker: it catches what is planted, and its verdict decides whether a release exists."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize import tlkc
from models.anonymize.check import first_violation
from models.anonymize.result import Anonymized
from models.anonymize.tlkc import TlkcProblem
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError
from models.eventlog import Column, EventLog
from models.knowledge import Knowledge, items

HALF = Fraction(1, 2)


def _safe() -> list[tuple[str, str]]:
    """Twelve cases in which every candidate of two items has at least four cases and half of them a value at most."""
    return [("abc", "x"), ("abc", "y"), ("ab", "x"), ("ab", "y"), ("c", "x"), ("c", "y")] * 2


def _found(cases: list[tuple[str, str | None]], structure: str, L: int = 2, K: int = 4, C: Fraction = HALF) -> Any:
    log = EventLog.from_traces(cases)
    return first_violation(log.starts, log.activity, structure, [log.case_values("sensitive")], L, K, C)


@pytest.mark.parametrize("structure", ["set", "mult", "seq"])
def test_a_safe_log_passes(structure: str) -> None:
    """Nothing is found if nothing is wrong."""
    assert _found(_safe(), structure) is None


def test_planted_rare_pair() -> None:
    """A pair that only one case has, of items that are frequent alone."""
    found = _found([*_safe(), ("ca", "z")], "seq")
    assert (found.candidate, found.support) == (("c", "a"), 1)


def test_planted_share() -> None:
    """A candidate with enough cases, but one value in more than half of them."""
    extra = [("d", "x"), ("d", "x"), ("d", "x"), ("d", None), ("ab", None), ("ab", None)]
    found = _found([*_safe(), *extra], "set")
    assert (found.candidate, found.support, found.worst) == (("d",), 4, 3)


def test_planted_repetition() -> None:
    """A multiplicity that few cases have is seen under mult, and does not count under set."""
    cases = [*_safe(), ("aab", "x"), ("aab", "y")]
    assert _found(cases, "mult").candidate == ("a", "a")
    assert _found(cases, "set") is None


def test_planted_deep_violation() -> None:
    """A violation that only three items together show is beyond L = 2 and within L = 3."""
    cases = [(trace, value) for trace in ("ab", "bc", "ac") for value in ("x", "y") for _ in range(3)]
    cases += [("abc", "x"), ("abc", "y")]
    assert _found(cases, "seq") is None
    assert _found(cases, "seq", L=3).candidate == ("a", "b", "c")


def test_the_whole_log_counts() -> None:
    """The empty candidate of Def. 14: each item may be fine while the whole log is not."""
    cases = [("a", "x"), ("a", "x"), ("ab", "y"), ("ab", "y"), ("b", "x"), ("b", "x")]
    found = _found(cases, "seq", L=1)
    assert found.candidate == ()
    assert (found.support, found.worst) == (6, 4)


def test_a_missing_value_counts_as_a_case_only() -> None:
    """Three cases without a value dilute the share of the fourth."""
    assert _found([("a", "x"), ("a", None), ("a", None), ("a", None)], "seq", K=4, C=Fraction(1, 4)) is None
    assert _found([("a", "x"), ("a", None), ("a", None), ("a", "x")], "seq", K=4, C=Fraction(1, 4)).worst == 2


def test_each_attribute_is_bounded_separately() -> None:
    """A second attribute with one value breaks what the first one keeps."""
    log = EventLog.from_traces([("a", "x"), ("a", "y")] * 3)
    one = Column.encode(["p"] * 6)
    assert first_violation(log.starts, log.activity, "seq", [log.case_values("sensitive")], 1, 2, HALF) is None
    assert first_violation(log.starts, log.activity, "seq", [log.case_values("sensitive"), one], 1, 2, HALF) is not None


def test_a_wrong_search_never_becomes_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the search would let a violation through, the verdict stops the release."""
    log = EventLog.from_traces([*_safe(), ("ca", "x")])
    problem = TlkcProblem(log, Knowledge("seq", "ac"), TlkcBounds.of(2, 4, 1), {})
    monkeypatch.setattr(tlkc, "_caps", lambda *_: ({}, []))
    with pytest.raises(BoundError, match="a violating set of 2 items"):
        problem.solve(tlkc.SuppressionOptions())


def test_relative_times_keep_the_source_anchor() -> None:
    """After its first event is gone, a case's times still count from where the case began."""
    minute = 60_000_000_000
    log = EventLog.from_events(
        ["1", "1", "2", "2", "3", "3", "3"],
        ["a", "b", "a", "b", "z", "a", "b"],
        np.asarray([0, 5, 0, 5, 0, 1, 6]) * minute,
        unit="ns",
    )
    result = tlkc.anonymize(log, L=1, K=2, C=1, knowledge="rel", T="minutes")
    assert result.log.traces() == [("a", "b"), ("a", "b")]
    kept = np.asarray([False] * 5 + [True] * 2)
    assert Anonymized(log, kept, Knowledge("rel")).items.decode() == [("a", 1), ("b", 6)]
    assert Anonymized(log, kept, Knowledge("rel")).relative_ns.tolist() == [minute, 6 * minute]
    assert items(log, Knowledge("rel")).decode()[-2:] == [("a", 1), ("b", 6)]
