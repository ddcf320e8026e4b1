"""Selection of labels in dp-synthetic against its definition, and the table of variants that all stages read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp.synthesis import labels
from models.dp.synthesis.table import VariantCounts, only
from models.errors import InputError
from models.eventlog import EventLog
from tests.unit.known_noise import NoisePerKey


def _log(*traces: str) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def divisions(places: int, most: int) -> Iterator[list[int]]:
    """Yield the divisions of the q c places of one person over new labels, none with more than c."""
    if not places:
        yield []
        return
    for first in range(min(places, most), 0, -1):
        for rest in divisions(places - first, first):
            yield [first, *rest]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3, 2), Fraction(9), Fraction(40)])
@pytest.mark.parametrize(("q", "c"), [(1, 1), (1, 4), (4, 1), (3, 2), (2, 3), (8, 3)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 50), Fraction(9, 10)])
def test_the_threshold_is_the_least_that_keeps_delta(epsilon: Fraction, q: int, c: int, delta: Fraction) -> None:
    """Of all divisions of a person's cases over labels that nobody else has; never below what one label's cases are."""
    a = exp(-float(epsilon) / (q * c))

    def worst(least: int) -> float:
        return max(sum(a ** (least - part) / (1 + a) for part in parts) for parts in divisions(q * c, c))

    least = labels.threshold(epsilon, delta, q, c)
    assert least >= c
    assert worst(least) <= delta * (1 + 1e-9)
    assert least == c or worst(least - 1) > delta
    assert labels.threshold(epsilon, delta, q) == labels.threshold(epsilon, delta, q, 1)


@pytest.mark.parametrize(("epsilon", "together"), [(Fraction(1, 3), False), (Fraction(40), True)])
def test_a_tie_counts_as_above_delta(epsilon: Fraction, together: bool) -> None:
    """Here delta is above the cost of a threshold by a part in 10^40 at most, so no digit of the arithmetic decides the
    comparison. Two parts are enough.
    """
    q, c, least = 2, 3, 30
    with localcontext() as context:
        context.prec = 100
        a = (-Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / (q * c)).exp()
        costs = [q * a ** (least - c) / (1 + a), q * c * a ** (least - 1) / (1 + a)]
        assert costs[together] < costs[not together]
        near, enough = (Fraction(max(costs) * (1 + Decimal(part) / 10**40)) for part in ("0.5", "2"))
    assert labels.threshold(epsilon, near, q, c) == least + 1
    assert labels.threshold(epsilon, enough, q, c) == least


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "c"),
    [(0, Fraction(1, 2), 1, 1), (-1, Fraction(1, 2), 1, 1), (1, 0, 1, 1), (1, Fraction(-1, 2), 1, 1), (1, 1, 1, 1),
     (1, Fraction(3, 2), 1, 1), (1, Fraction(1, 2), 0, 1), (1, Fraction(1, 2), 1, 0)],
)  # fmt: skip
def test_labels_without_noise_or_delta_are_refused(epsilon: int, delta: Fraction, q: int, c: int) -> None:
    """No threshold keeps them."""
    with pytest.raises(InputError, match="labels need epsilon > 0"):
        labels.threshold(Fraction(epsilon), Fraction(delta), q, c)


def test_labels_leave_from_the_threshold_on() -> None:
    """The noisy count decides, and is the count with the noise added; labels that no case has are not looked at."""
    least = labels.threshold(Fraction(24), Fraction(1, 100), 3, 2)  # no noise with an end has less
    table = VariantCounts.of(_log(*["a"] * (least - 1), *["b"] * (least - 2), *["d"] * (least + 9), "e"), "abcdef")
    source = NoisePerKey([1, 1, -10, least - 1])
    assert labels.select(table, Fraction(24), Fraction(1, 100), 3, source, 2) == ("a", "e")
    assert source.asked == [(3 * 2 / 24, 4)]
    alone = NoisePerKey()
    assert labels.select(table, Fraction(24), Fraction(1, 100), 3, alone) == tuple(
        name
        for name, n in zip("abde", (least - 1, least - 2, least + 9, 1), strict=True)
        if n >= labels.threshold(Fraction(24), Fraction(1, 100), 3, 1)
    )
    assert alone.asked == [(3 / 24, 4)]


@pytest.mark.parametrize("q", [1, 2, 3, 9])
def test_a_case_counts_for_each_of_its_first_distinct_labels(q: int) -> None:
    """Once each, in the order in which the case has them."""
    traces = ["abacd", "dda", "", "ccbaca", "abacd", "e"]
    expected: Counter[str] = Counter()
    for trace in traces:
        expected.update(list(dict.fromkeys(trace))[:q])
    table = VariantCounts.of(_log(*traces), "abcdef")
    found = labels.first_labels(table, q)
    assert found.dtype == np.int64
    assert dict(zip("abcdef", found.tolist(), strict=True)) == {name: expected[name] for name in "abcdef"}


def test_a_table_whose_counts_do_not_fit_is_a_fault() -> None:
    """Not a table of fewer cases."""
    with pytest.raises(ValueError, match="longer"):
        labels.first_labels(VariantCounts(("a",), ((0,),), np.asarray([1, 2])), 1)


def test_a_table_has_every_case_once() -> None:
    """By its labels, as places in the alphabet: the public one, or that of the log in order."""
    traces = ["ba", "ab", "ba", "", "bab", "", "ba"]
    for alphabet, names in (("bxa", ("b", "x", "a")), (None, ("a", "b"))):
        table = VariantCounts.of(_log(*traces), alphabet)
        assert table.alphabet == names
        assert len(set(table.variants)) == len(table.variants)
        spelled = {
            "".join(names[label] for label in variant): n
            for variant, n in zip(table.variants, table.counts.tolist(), strict=True)
        }
        assert spelled == {"ba": 3, "ab": 1, "": 2, "bab": 1}
        taken = {tuple(names.index(label) for label in "ba"), ()}
        rest, counts = table.without(taken)
        assert dict(zip(rest, counts.tolist(), strict=True)) == {
            variant: n for variant, n in zip(table.variants, table.counts.tolist(), strict=True) if variant not in taken
        }
        assert len(rest) == 2
        assert table.without(table.variants)[1].tolist() == []


def test_labels_of_a_log_are_in_order() -> None:
    """However many."""
    names = [f"label {number}" for number in range(50)]
    log = EventLog.from_events(["1"] * 50, names, np.arange(50, dtype=np.int64), unit="ns")
    assert VariantCounts.of(log).alphabet == tuple(sorted(names))


def test_only_wanted_labels_stay() -> None:
    """Events without an activity go too; every case stays."""
    log = EventLog.from_events(
        ["1", "1", "2", "2", "3"],
        ["a", "x", None, "b", "x"],  # type: ignore[list-item]
        np.arange(5, dtype=np.int64),
        unit="ns",
    )
    kept = only(log, iter(["b", "a", "never"]))
    assert kept.n_cases == 3
    assert sorted(kept.traces()) == [(), ("a",), ("b",)]


TRACE = st.lists(st.integers(0, 3), max_size=40).map(tuple)


@given(st.lists(TRACE, min_size=1, max_size=6), TRACE, st.integers(1, 4))
def test_a_case_counts_for_first_labels_only(cases: list[tuple[int, ...]], more: tuple[int, ...], q: int) -> None:
    """One case more changes at most q counts of labels, each by one."""
    names = tuple("ABCD")
    before, after = (
        labels.first_labels(VariantCounts.of(_log(*("".join(names[i] for i in case) for case in log)), names), q)
        for log in (cases, [*cases, more])
    )
    assert (after - before).max() <= 1
    assert (after - before).min() >= 0
    assert (after - before).sum() == min(q, len(set(more)))
