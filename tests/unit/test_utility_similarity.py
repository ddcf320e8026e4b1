"""Relative log similarity and the error of directly-follows frequencies, by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from models.errors import InputError
from models.eventlog import EventLog
from models.utility import similarity as measures
from models.utility.similarity import dfg_error, likeness, similarity


def _variants(**counts: int) -> Counter[tuple[str, ...]]:
    return Counter({tuple(variant): count for variant, count in counts.items()})


def _log(**counts: int) -> EventLog:
    return EventLog.from_traces([(variant, None) for variant, count in counts.items() for _ in range(count)])


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ({"ab": 1}, {"ab": 7}, 1.0),
        ({"ab": 1, "ac": 1}, {"ab": 2}, 0.75),  # half of the mass moves by 1/2
        ({"abcd": 3, "x": 1}, {"abc": 4}, 1 - (3 / 4 * 1 / 4 + 1 / 4)),
        ({"ab": 1}, {"cd": 1}, 0.0),
    ],
)
def test_similarity_by_hand(here: dict[str, int], there: dict[str, int], expected: float) -> None:
    """1 minus the mass moved times the normalised Levenshtein distance."""
    assert similarity(_variants(**here), _variants(**there)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ({"ab": 1}, {"ab": 9}, 0.0),
        ({"ab": 1}, {"ac": 1}, 2 / 3),  # of three pairs each, (start, a) is common
        ({"a": 3}, {"a": 1, "ab": 1}, 0.4),  # 1/2, 1/2 against 2/5, 1/5, 1/5, 1/5
        ({"a": 1}, {"b": 1}, 1.0),
    ],
)
def test_dfg_error_by_hand(here: dict[str, int], there: dict[str, int], expected: float) -> None:
    """Half the sum of differences of relative frequencies; start and end are steps of their own."""
    assert dfg_error(_log(**here), _log(**there)) == pytest.approx(expected)


def test_start_and_end_are_no_labels() -> None:
    """Activities that are named like the start and the end are distinguished from them."""
    once, twice = (EventLog.from_traces([(["start"] * number, None)]) for number in (1, 2))
    assert dfg_error(once, twice) == pytest.approx(1 / 3)


def test_an_empty_release_has_nothing_in_common() -> None:
    """A release without cases: similarity 0, error 1. An original without any is not a question."""
    some, none = EventLog.from_traces([("ab", None)]), EventLog.from_traces([])
    found = likeness(some, none)
    assert (found.similarity, found.dfg_error) == (0.0, 1.0)
    assert (dfg_error(none, some), dfg_error(none, none)) == (1.0, 0.0)
    with pytest.raises(InputError, match="at least one case"):
        likeness(none, some)


def test_exact_up_to_the_bound_and_sampled_beyond() -> None:
    """A log is 1 to itself up to `most` variants a side; beyond, the two sides are sampled apart, and it is said."""
    log = EventLog.from_traces([("".join(chr(97 + (i >> bit & 1)) for bit in range(6)), None) for i in range(64)])
    exact, sampled = likeness(log, log, most=64), likeness(log, log, most=32)
    assert (exact.similarity, exact.exact) == (1.0, True)
    assert 0.4 < sampled.similarity < 1.0
    assert not sampled.exact
    assert sampled == likeness(log, log, most=32)


def test_a_sample_represents_the_whole() -> None:
    """The frequent half keeps its counts; the others of the sample together weigh what all others do."""
    import numpy as np

    counts = Counter({("a",): 50, ("b",): 40, ("c",): 3, ("d",): 2, ("e",): 1, ("f",): 4})
    chosen = dict(measures._sampled(counts, 4, np.random.default_rng(0)))
    assert (chosen[("a",)], chosen[("b",)]) == (50.0, 40.0)
    assert len(chosen) == 4
    assert sum(chosen.values()) == pytest.approx(100)


@pytest.mark.logs
def test_bpic2012_to_itself(logs) -> None:  # type: ignore[no-untyped-def]
    """The figure of the definition: 4,366 variants, sampled to 1,200 a side, are about .95 to themselves."""
    from connectors import read_log

    log = read_log(logs / "bpic2012.xes.gz")
    found = likeness(log, log)
    assert found.similarity == pytest.approx(0.948, abs=0.006)
    assert found.dfg_error == 0.0
