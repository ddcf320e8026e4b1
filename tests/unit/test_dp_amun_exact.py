"""Amun with noise that the test chooses: what is counted for the operator, and what the times become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from models.dp import amun
from models.dp.annotation import annotate
from models.dp.sampling import sample_cases
from models.dp.timestamps import LATTICE
from models.errors import BoundError
from models.eventlog import EventLog
from tests.unit.test_dp_exact import DAY, Scripted, _log


class _Chosen(Scripted):
    """Noise of the counts as written, and of the times in steps of the lattice (0 beyond those that are written)."""

    __slots__ = ()

    def laplace_each(self, scales: np.ndarray, which: np.ndarray) -> np.ndarray:
        return np.asarray([*self.of_times, *[0] * len(which)][: len(which)], dtype=np.int64)


def _released(log: EventLog, steps: Sequence[int] = (), **keys: object) -> list[tuple[str, list[float]]]:
    """Released cases as (trace, days), in the order of the release; the counts have no noise."""
    released = amun.release(log, delta=0.3, draw=_Chosen(0, steps), **{"variant": "sampling", **keys}).log  # type: ignore[arg-type]
    days = (released.time / (DAY * 1_000_000)).tolist()
    return [
        ("".join(trace), days[begin:end])
        for trace, begin, end in zip(released.traces(), released.starts[:-1], released.starts[1:], strict=True)
    ]


def test_what_the_operator_is_told() -> None:
    """Six variants with a transition each: a and e stay, b and c lose every case, d gets three copies and f one."""
    counted = {"a": (1, 0), "b": (1, -1), "c": (3, -3), "d": (1, 3), "e": (2, 0), "f": (1, 1)}
    log = _log(*((name, (0,)) for name, (cases, _) in counted.items() for _ in range(cases)))
    result = amun.release(log, delta=0.3, variant="sampling", draw=_Chosen([more for _, more in counted.values()]))
    assert [sum(trace == (name,) for trace in result.log.traces()) for name in counted] == [1, 0, 0, 4, 2, 2]
    told = dict(result.operator)
    assert {key: told[key] for key in list(told)[:9]} == {
        "cases": 9,
        "cases_filtered": 0,
        "cases_deleted": 4,
        "cases_copied": 2,
        "variants_lost": 2,
        "singletons_released": 3,
        "largest_number_of_copies": 4,
        "events_without_time_noise": 9,
        "events_released": 9,
    }
    assert told["dafsa"] == {"states": 2, "transitions": 6}


def test_what_a_case_would_spend_were_variants_public() -> None:
    """The epsilons of the longest trace's counts and of the times of the case that has most of them."""
    log = _log(("abc", (0, 5, 9)), ("abc", (DAY * 9, DAY * 10, DAY * 11)), ("ab", (DAY * 30, DAY * 30 + 60_000)))
    result = amun.release(log, delta=0.3, variant="sampling", draw=_Chosen(0))
    by_case = [sum(result.epsilon_times[begin:end]) for begin, end in ((0, 3), (3, 6), (6, 8))]
    assert len(set(by_case)) > 1
    total = 3 * result.epsilon_counts + max(by_case)
    assert result.operator["epsilon_total_if_variants_were_public"] == pytest.approx(total, rel=1e-12)
    assert result.operator["advantage_if_variants_were_public"] == pytest.approx(math.tanh(total / 4), rel=1e-12)
    assert result.operator["mean_epsilon_times"] == pytest.approx(sum(by_case) / 8, rel=1e-12)


def test_starts_are_pressed_together_by_equation_4() -> None:
    """Starts 10 days apart, noised to 20 days: all times by 10 / (2 * 30); without noise by a quarter; or left."""
    log = _log(("ab", (3 * DAY, 4 * DAY)), ("ab", (13 * DAY, 15 * DAY)))
    half = LATTICE // 2  # half of a range: 5 days of the starts, 12 hours of the steps
    pressed = _released(log, (-half, 0, half, 0))
    assert [trace for trace, _ in pressed] == ["ab", "ab"]
    expected = [3 - 5 / 6, 3 - 5 / 6 + 1 / 6, 3 + 15 / 6, 3 + 15 / 6 + 2 / 6]
    assert [day for _, days in pressed for day in days] == pytest.approx(expected, abs=1e-4)
    still = [day for _, days in _released(log) for day in days]
    assert still == pytest.approx([3, 3.25, 5.5, 6], abs=1e-4)
    alone = [day for _, days in _released(log, (-half, 0, half, 0), compression="none") for day in days]
    assert alone == pytest.approx([-2, -1, 18, 20], abs=1e-4)


def test_ties_of_time_come_in_the_order_that_was_drawn() -> None:
    """Never in that of the source: here the reverse."""
    assert [trace for trace, _ in _released(_log(("a", (0,)), ("b", (0,)), ("c", (0,))))] == ["c", "b", "a"]


def test_the_filter_takes_what_reaches_one() -> None:
    """A prior of a half is risky from delta = 1/2 on; designs without a filter keep every case."""
    log = _log(("ab", (0, 0)), ("ab", (9 * DAY, 9 * DAY + 60_000)))
    annotated = annotate(log)
    with pytest.raises(BoundError, match="all 2 cases"):
        amun.filtered(annotated, amun.AmunSettings(0.5, "filtering"))
    assert amun.filtered(annotated, amun.AmunSettings(0.49, "filtering"))[1].tolist() == [True, True]
    for design in ("sampling", "oversampling"):
        assert amun.filtered(annotated, amun.AmunSettings(0.9, design))[1].tolist() == [True, True]  # type: ignore[arg-type]


def test_what_the_filter_takes_is_counted() -> None:
    """Nine steps of one minute and one of ninety: the nine go, and the operator is told."""
    steps = [1] * 9 + [90]
    log = _log(*(("ab", (day * DAY, day * DAY + step * 60_000)) for day, step in enumerate(steps)))
    result = amun.release(log, delta=0.2, variant="filtering", draw=_Chosen(0))
    assert (result.operator["cases"], result.operator["cases_filtered"], result.log.n_cases) == (10, 9, 1)
    assert result.origin.tolist() == [9]


def test_words_that_would_favour_a_case_are_passed_over() -> None:
    """Of three cases the word 2^64 - 1 would be one more for the first; the next word says which case is copied."""

    class Words(_Chosen):
        __slots__ = ()

        def words(self, size: int) -> np.ndarray:
            return np.asarray([2**64 - 1, 1, *[0] * size], dtype=np.uint64)

        def weighted_order(self, weights: np.ndarray) -> np.ndarray:
            return np.arange(len(weights), dtype=np.int64)

    annotated = annotate(_log(("a", (0,)), ("a", (1,)), ("a", (2,))))
    sampled = sample_cases(annotated.dafsa, annotated.variant_of_case, np.asarray([1]), Words())
    assert sampled.copies.tolist() == [1, 2, 1]


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 0.8, 0.9])
def test_the_scale_of_counts_is_rounded_up(delta: float) -> None:
    """Never less noise than 1 / eps_d, however the division rounds."""
    draw = _Chosen(0)
    result = amun.release(_log(("a", (0,))), delta=delta, variant="oversampling", draw=draw)
    assert Fraction(draw.asked[0]) * Fraction(result.epsilon_counts) >= 1


def test_the_epsilon_of_counts_is_shared_by_releases_and_cases() -> None:
    """By the product of both."""
    whole = amun.AmunSettings(0.3).epsilon_counts
    assert amun.AmunSettings(0.3, releases=4, cases_per_person=2).epsilon_counts == pytest.approx(whole / 8)


def test_no_event_has_a_resource() -> None:
    """The code that readers and writers take for none."""
    assert amun.release(_log(("ab", (0, 1))), delta=0.3, variant="oversampling").log.resource.codes.max() == -1
    assert amun.release(_log(("ab", (0, 1))), delta=0.3, variant="oversampling").log.resource.codes.min() == -1
