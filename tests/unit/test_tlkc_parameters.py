"""Bad input, classes of sensitive values, and earlier models as special cases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.anonymize import violations
from models.anonymize.sensitive import InfeasibleError, class_columns, quartile_classes, refuse_infeasible
from models.anonymize.suppression import Weights, algorithm_2
from models.anonymize.tlkc import TlkcProblem, anonymize, violation_in
from models.anonymize.values import coarser_unit
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError, InputError
from models.eventlog import Column, EventLog
from models.knowledge import Knowledge

LOG = EventLog.from_traces([("ab", "x"), ("ab", "y"), ("a", "x"), ("b", "y")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"L": 0}, "L = 0"),
        ({"K": 0}, "K = 0"),
        ({"C": 0}, "C = 0"),
        ({"C": 1.5}, "C = 1.5"),
        ({"C": float("nan")}, "C = nan"),
        ({"suppression": "none"}, "suppression"),
        ({"algorithm": 3}, "algorithm"),
        ({"theta": 0}, "theta"),
        ({"alpha": 0.7}, "alpha"),
        ({"effort": -1}, "effort"),
        ({"seed": -1}, "seed"),
        ({"effort": 5}, 'effort is of suppression = "local"'),
        ({"sensitive": ["shoe size"]}, "shoe size"),
        ({"attribute": "re"}, "no resource"),
        ({"sensitive": ["sensitive"], "bins": {"sensitive": [1.0]}}, "not numeric"),
        ({"bins": {"age": [1.0]}}, "age"),
    ],
)
def test_bad_input_names_the_parameter(given: dict[str, Any], message: str) -> None:
    """Each bad parameter is an InputError that names it."""
    with pytest.raises(InputError, match=message):
        anonymize(LOG, **{"L": 1, "K": 1, "C": 1, **given})


def test_infeasible_bounds_are_refused_with_their_numbers() -> None:
    """K above the cases, C below the largest share, C below one over the number of values."""
    with pytest.raises(InfeasibleError, match="K = 5 is infeasible: the log has 4 cases"):
        anonymize(LOG, L=1, K=5, C=1)
    with pytest.raises(InfeasibleError, match=r"sensitive has 2 values.*0\.5000"):
        anonymize(LOG, L=1, K=1, C=0.49, sensitive=["sensitive"])
    classes = {"s": Column.encode(["p", "p", "q", None])}
    with pytest.raises(InfeasibleError, match=r"one value of s belongs to 2 of 4 cases"):
        refuse_infeasible(4, classes, TlkcBounds.of(1, 1, 0.4))
    refuse_infeasible(4, classes, TlkcBounds.of(1, 1, 0.5))


def test_too_many_candidates_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of three activities that all cases have: more of them survive than the search may hold."""
    monkeypatch.setattr(violations, "MAX_CANDIDATES", 2)
    log = EventLog.from_traces([("abc", None)] * 4)
    with pytest.raises(InputError, match="more than 2 candidates of size 2 have 2 cases: raise K or lower L"):
        anonymize(log, L=3, K=2, C=1)


def test_an_empty_release_is_no_success() -> None:
    """All items suppressed: a broken bound, with the number of cases."""
    with pytest.raises(BoundError, match="all 4 cases would be suppressed"):
        anonymize(EventLog.from_traces([(trace, "x") for trace in "abcd"]), L=1, K=2, C=1)


def test_the_share_is_compared_exactly() -> None:
    """One of three is not above a third, and is above 0.3333."""
    classes = {"s": Column.encode(["p", "q", "r"])}
    log = EventLog.from_traces([("a", None)] * 3)
    for C, violating in ((Fraction(1, 3), 0), ("0.3333", 1), ("0.3334", 0)):
        problem = TlkcProblem(log, Knowledge("set", "ac"), TlkcBounds.of(1, 1, C), classes)
        assert len(problem.candidates) == violating


@pytest.mark.parametrize("suppression", ["exact", "local"])
def test_a_share_of_sixteen_digits_bounds_thousands_of_cases(suppression: Any) -> None:
    """Half of the 2,000 cases with b have one value: above a third, however long the third is written."""
    cases = [("ab", "x")] * 1000 + [("ab", "y")] * 500 + [("ab", "z")] * 500 + [("a", value) for value in "yzwv" * 1000]
    log = EventLog.from_traces(cases)
    for C in ("0.333", 1 / 3, Fraction(1, 3)):
        result = anonymize(log, L=1, K=2, C=C, sensitive=["sensitive"], suppression=suppression)
        assert (result.events, result.suppressed) == (6000, ("b",))
    problem = TlkcProblem(log, Knowledge(), TlkcBounds.of(1, 2, 1 / 3), {"s": log.case_values("sensitive")})
    found = violation_in(problem, np.ones(log.n_events, dtype=np.bool_))
    assert (found.candidate, found.support, found.worst) == (("b",), 2000, 1000)


def test_an_L_beyond_every_trace_is_that_of_the_longest() -> None:
    """It costs nothing and means the whole trace."""
    everything = anonymize(LOG, L=10**21, K=2, C=1)
    assert everything.kept.tolist() == anonymize(LOG, L=2, K=2, C=1).kept.tolist()


def test_weights_of_sixteen_digits_choose_as_exact_fractions_do() -> None:
    """alpha and beta with a long denominator: the order is that of near ones with a short denominator."""
    candidates: list[tuple[int, ...]] = [(0,), (0, 1), (1, 2), (2, 3)]
    cases = np.asarray([900, 2000, 700, 50])
    long, short = (
        algorithm_2(candidates, cases, 3000, Weights(Fraction(alpha), 1 - Fraction(alpha)))
        for alpha in ("0.3333333333333333", "0.333")
    )
    assert long == short


def test_quartiles_have_inclusive_ties() -> None:
    """Values at the quartiles are low and high, so that the middle stays small."""
    column = Column.encode([1, 2, 2, 3, 4, 5, 5, 9, None])
    assert quartile_classes(column).decode() == ["low", "low", "low", "middle", "middle", "high", "high", "high", None]


def test_given_bins_are_upper_edges() -> None:
    """A value belongs to the first edge that it does not exceed."""
    log = EventLog.from_traces([("a", value) for value in (1, 10, 11, 20, 21, None)], sensitive="age")
    classes = class_columns(log, ["age"], {"age": [10, 20]})["age"]
    assert classes.decode() == ["<= 10", "<= 10", "<= 20", "<= 20", "> 20", None]
    with pytest.raises(InputError, match="do not ascend"):
        class_columns(log, ["age"], {"age": [20, 10]})


def test_l_diversity_asks_for_l_values_in_every_group() -> None:
    """A group of two values is 2-diverse and not 3-diverse, whatever its size."""
    values_of_trace = {"ab": "xyz", "b": "xyz", "ac": "xyxy"}
    cases = [(trace, value) for trace, values in values_of_trace.items() for value in values]
    log = EventLog.from_traces(cases)
    classes = {"sensitive": log.case_values("sensitive")}
    three = TlkcProblem(log, Knowledge("set", "ac"), TlkcBounds.of(2, 3, Fraction(1, 3)), classes)
    two = TlkcProblem(log, Knowledge("set", "ac"), TlkcBounds.of(2, 2, Fraction(1, 2)), classes)
    assert {three.seen.decode(candidate) for candidate in three.candidates} == {("a",), ("c",)}
    assert two.candidates == []


def test_a_unit_finer_than_the_log_is_seen() -> None:
    """Times whole hours apart are too coarse for minutes, not for hours; one odd minute changes that."""
    hour = 3_600_000_000_000
    times = np.asarray([0, hour, 5 * hour])
    log = EventLog.from_events(["1", "1", "2"], ["a", "b", "a"], times, unit="ns")
    assert coarser_unit(log, "minutes") == "hours"
    assert coarser_unit(log, "hours") is None
    odd = EventLog.from_events(["1", "1", "2"], ["a", "b", "a"], times + np.asarray([0, hour // 60, 0]), unit="ns")
    assert coarser_unit(odd, "minutes") is None
    assert coarser_unit(odd, "seconds") == "minutes"


@pytest.mark.parametrize("kind", ["tlkc", "tlkc-cohorts", "lcs-start"])
def test_a_promise_omits_sensitive_values_that_nothing_bounds(kind: str) -> None:
    """C = 1 is the bound of every share: a sentence on it would sound like a promise."""
    from stream.release.mechanisms import mechanism

    said = [mechanism({"kind": kind, "L": 2, "K": 5, "C": C}).promise()["guaranteed"] for C in (1.0, 0.5)]
    assert ["sensitive" in sentence for sentence in said] == [False, True]
    assert "more than 0.5 of" in said[1]
