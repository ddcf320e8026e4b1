"""Series of dp-synthetic with noise that the test sets: accumulated counts, kept candidates, and releases."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.dp.accumulation import Shape
from models.dp.factorization import Factorization
from models.dp.noise import NoiseSource
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts, series, times
from models.dp.synthesis.series import release_synthetic
from models.dp.synthesis.table import VariantCounts
from models.dp.synthetic import Design, Shares
from models.dp.zcdp import rho_of, scale_of
from models.errors import InputError
from models.eventlog import EventLog
from tests.oracles.dp import context_of, distance

UNIT = 2**16


NONE = Fraction(0)


HALVES = Shares(NONE, NONE, Fraction(1, 2), Fraction(1, 2), NONE)


Variant = tuple[int, ...]


class SeriesNoise(NoiseSource):
    """The same noise for everything, 0 without; seeded words; a permutation backwards where asked for."""

    __slots__ = ("asked", "backwards", "noise", "words_asked")

    def __init__(self, noise: int = 0, *, backwards: bool = False) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(9))
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "words_asked", [])
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "backwards", backwards)

    def laplace(self, scale: float, size: int) -> np.ndarray:
        if size:
            self.asked.append((scale, size))
        return np.full(size, self.noise, dtype=np.int64)

    def words(self, size: int) -> np.ndarray:
        self.words_asked.append(size)
        return super().words(size)

    def permutation(self, size: int) -> np.ndarray:
        return np.arange(size, dtype=np.int64)[::-1] if self.backwards else super().permutation(size)


def _log(**cases: int) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace, n in cases.items() for _ in range(n)])


def _counts(log: EventLog | None) -> dict[str, int]:
    assert log is not None
    return dict(Counter("".join(trace) for trace in log.traces()))


def _design(**changed: Any) -> Design:
    usual = {"activities": ("b", "a", "c"), "shares": HALVES, "case_weight": 3, "sample": 200, "candidates": 6}
    return Design(**(usual | changed))


def test_what_cannot_add_up_is_refused() -> None:
    """Selected labels or variants, and noise that would not fit: before anything is drawn."""
    terms, shape = Terms.of(1, "0.1"), Shape()
    series.check(terms, _design(), shape)
    selected = Shares(NONE, Fraction(1, 4), Fraction(1, 2), Fraction(1, 4), NONE)
    for design, said in (
        (_design(activities=None), "declare activities"),
        (_design(shares=selected), "shares.variants must be 0"),
    ):
        with pytest.raises(InputError, match=said):
            series.check(terms, design, shape)
        with pytest.raises(InputError, match=said):
            release_synthetic(_log(ab=1), terms=terms, design=design, shape=shape, number=1, draw=SeriesNoise())
    tiny = Terms.of(Fraction(3 * UNIT * 2 * 2, 2**56) * Fraction(3, 2), "0.1")
    series.check(tiny, _design(), shape)
    with pytest.raises(InputError, match="does not fit"):
        series.check(tiny, _design(), Shape(2, 3))


@pytest.mark.parametrize("person", [1, 2])
@pytest.mark.parametrize("shape", [Shape(), Shape(2, 2)], ids=str)
def test_every_cell_of_every_level_is_noised_with_its_part(shape: Shape, person: int) -> None:
    """Scale B c L k / epsilon of the model's levels, c L / epsilon of the weights; every cell of the open contexts and
    every candidate, also if nobody is; the nodes of a tree in the releases that end them."""
    terms, design, state = Terms.of(8, "0.1", person), _design(), None
    model, weights = 3 * UNIT * person * shape.levels * 2 / 4, person * shape.levels / 4
    for number in range(1, 5):
        source = SeriesNoise()
        found = release_synthetic(
            _log(ab=300, abc=200), terms=terms, design=design, shape=shape, number=number, state=state, draw=source
        )
        state = found.state
        draws = 1 + (shape.levels == 2 and number % 2 == 0)
        cells = [len(opened) * 4 for opened in state["opened"]]
        assert cells[0] == 16
        assert cells[1] >= 4
        expected = [(model, cells[0])] * draws + [(model, cells[1])] * draws + [(weights, len(state["traces"]))] * draws
        assert source.asked == expected
        assert not found.release.private
        assert (found.release.terms, found.release.threshold) == (terms, 0)


def by_hand(
    releases: Sequence[Mapping[str, int]], order: int, bound: int, scale: float
) -> list[dict[Variant, tuple[int, list[int]]]]:
    """By level: each open context, since when, and its cells over all releases from then on (a sum, without noise).

    A level opens what the one above says by then: cells of 2 scales of as many draws as the context was counted for.
    """
    levels: list[dict[Variant, tuple[int, list[int]]]] = [{} for _ in range(order)]
    for number, release in enumerate(releases, start=1):
        for level in range(order):
            if level == 0:
                wanted = [(label,) for label in range(4)]
            else:
                above = levels[level - 1]
                wanted = [
                    (*context, label)
                    for context, (since, cells) in above.items()
                    for label in range(3)
                    if cells[label] >= 2 * scale * math.sqrt(number - since + 1) and (*context, label)[1:] in above
                ]
            for context in wanted:
                levels[level].setdefault(context, (number, [0] * 4))
            for trace, n in release.items():
                whole = [3, *("abc".index(label) for label in trace), 3]
                weight = min(UNIT, UNIT * bound // (len(trace) + 1)) * n
                for place in range(level + 1, len(whole)):
                    before = tuple(whole[place - level - 1 : place])
                    if before in levels[level]:
                        levels[level][before][1][whole[place]] += weight
    return levels


@pytest.mark.parametrize("order", [1, 2, 3])
def test_cells_add_up_from_the_opening_of_their_context(order: int) -> None:
    """A context is opened once the counts over all releases so far are high enough, and stays."""
    rng = np.random.default_rng(order)
    names = ["ab", "abc", "ba", "cab", "acab", "", "bbcc"]
    releases = [{name: int(rng.integers(0, 9)) for name in names} for _ in range(5)]
    terms = Terms.of(2 * 3 * order, "0.1")  # a scale of 1 case
    state: Any = None
    for number, release in enumerate(releases, start=1):
        found = release_synthetic(
            _log(**release), terms=terms, design=_design(order=order), shape=Shape(), number=number, state=state,
            draw=SeriesNoise(),
        )  # fmt: skip
        state = found.state
        expected = by_hand(releases[:number], order, 3, float(UNIT))
        for level in range(order):
            opened = [context_of(key, level + 1, 3) for key in state["opened"][level]]
            assert len(opened) == len(set(opened))
            sums = np.asarray(state["cells"][level]["sums"]).reshape(len(opened), 4).tolist()
            noises = np.asarray(state["cells"][level]["noises"]).reshape(len(opened), 4).tolist()
            since = [number - row[0] + 1 for row in noises]
            assert dict(zip(opened, zip(since, sums, strict=True), strict=True)) == expected[level]
    if order > 1:
        assert len({since for since, _ in expected[1].values()}) > 1, "some contexts were opened later than others"


def _series(
    design: Design,
    shape: Shape,
    scale: float = 4.0,
    state: Mapping[str, Any] | None = None,
    number: int = 1,
    model: float = UNIT,
) -> Any:
    return series._NoisyCounts.continued_from(state, ("a", "b", "c"), 3, design, shape, (model, scale), number)


def _filled(design: Design, traces: Sequence[Variant], totals: Sequence[int], draws: Sequence[int]) -> Any:
    """A series that has measured 90 cases of 36 variants, with candidates that were counted before."""
    one = _series(design, Shape(), model=UNIT / 2)  # cells of two cases are above the noise
    many = ["".join(trace) for size in (2, 3) for trace in itertools.product("abc", repeat=size)]
    log = _log(**{trace: 2 + (place % 2) for place, trace in enumerate(many)})
    assert log.n_cases == 90
    one.measure(VariantCounts.of(log, "abc"), 1, SeriesNoise())
    one.traces = list(traces)
    one.weights.extend(list(traces), SeriesNoise(), backlog=False)
    one.weights.sums[0], one.weights.noises[0] = totals, draws
    one.weights.nodes[0] = max(draws, default=0)
    return one


def test_candidates_that_do_not_rise_above_their_noise_are_given_up() -> None:
    """After three releases, where the count over all of them is below its standard of noise, scale times the root of
    the draws; given ones stay."""
    design = _design(given=(("c", "c"),), candidates=1)
    traces = [(0,), (1,), (2,), (0, 0), (1, 1), (2, 2)]
    one = _filled(design, traces, [8, 7, 7, 6, 5, -90], [4, 4, 3, 3, 2, 9])
    one.refill(SeriesNoise())
    assert one.traces == [(0,), (2,), (1, 1), (2, 2)]  # 8 >= 4 * 2, 7 >= 4 * sqrt(3), not yet three, given
    assert one.weights.keys == one.traces
    assert one.weights.total.tolist() == [8, 7, 5, -90]


def test_others_take_their_place() -> None:
    """Given traces first, each once; then representatives of the model so far, as many as the cases allow for the noise
    of a count over all releases: one for each two scales."""
    for draws, each in (([], 4.0), ([3] * 2, 4.0 * 2)):
        traces = [(0,), (1,)][: len(draws)]
        one = _filled(_design(given=(("c",), ("a",), ("c",)), candidates=1000), traces, [50] * len(draws), draws)
        one.refill(SeriesNoise())
        begun = traces + [trace for trace in ((2,), (0,)) if trace not in traces]
        assert one.traces[: len(begun)] == begun
        assert len(set(one.traces)) == len(one.traces)
        assert sum(one.drawn.values()) == 200
        cases = contexts.cases(one._level(1), one.drawn, 3, contexts.case_weights)
        assert cases == pytest.approx(90, rel=0.1)
        most = int(cases / (2 * each))
        assert len(one.drawn) > 20 > most > len(begun)
        fresh = candidates.representative(one.drawn, begun, most - len(begun))
        assert one.traces[len(begun) :] == fresh
        assert one.weights.keys == one.traces
        assert one.weights.draws.tolist() == draws + [0] * (len(one.traces) - len(draws))
    limited = _filled(_design(candidates=2, given=(("c",), ("b",), ("a",))), [], [], [])
    limited.refill(SeriesNoise())
    assert limited.traces == [(2,), (1,), (0,)]
    few = _series(_design(), Shape(), scale=10.0**6)
    few.measure(VariantCounts.of(_log(ab=90, abc=80, c=70), "abc"), 1, SeriesNoise())
    few.refill(SeriesNoise())
    assert len(few.traces) == 1


def test_candidates_are_counted_by_their_nearest_cases() -> None:
    """True counts of this release, noised; without candidates nobody."""
    one = _filled(_design(), [(0, 1), (2,)], [5, 6], [1, 1])
    table = VariantCounts.of(_log(ab=7, abb=2, c=4, cc=1), "abc")
    assert one.weigh(table, 1, SeriesNoise(10)).tolist() == [9 + 10, 5 + 10]
    assert one.weights.total.tolist() == [5 + 19, 6 + 15]
    none = _series(_design(), Shape())
    assert none.weigh(table, 1, SeriesNoise()).tolist() == []


def test_what_is_released_of_cells() -> None:
    """From two scales of a count's own noise on, and from one case on; never the empty trace."""
    traces = [(0,), (1,), (2,), (0, 1), (), (1, 2)]
    counts, draws = np.asarray([12, 11, 8, 7, 99, 25]), np.asarray([4, 4, 1, 1, 1, 16])
    assert series._rows(traces, counts, 3.0 * np.sqrt(draws)) == [((0,), 12), ((2,), 8), ((0, 1), 7), ((1, 2), 25)]
    assert series._rows(traces, counts, 3.25 * np.sqrt(draws)) == [((2,), 8), ((0, 1), 7)]
    small = series._rows([(0,), (1,), (2,)], np.asarray([0, 1, -1]), np.full(3, 0.1))
    assert small == [((1,), 1)]


def test_the_accumulated_log_is_fitted_to_the_cells_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noise that each count has over all releases; a candidate below two scales of it counts as no case."""
    seen, compute = [], series.nearby

    def noted(near: Any, counts: np.ndarray, noise: np.ndarray) -> Any:
        seen.append((near.traces, counts.tolist(), noise.tolist()))
        return compute(near, counts, noise)

    monkeypatch.setattr(series, "nearby", noted)
    one = _filled(_design(), [(0, 1), (2,), (1,)], [50, 15, -20], [1, 4, 4])
    log, _ = one.accumulated(SeriesNoise())
    assert set(_counts(log)) == {"ab"}
    assert seen == [(((0, 1),), [50, 0, 0], [4.0, 8.0, 8.0])]


GIVEN = (("a", "b"), ("c",))


def test_both_logs_of_a_series() -> None:
    """The release has its own cells, the accumulated log those of all releases, which noise of two scales would hide
    in one; times are ordinal; the operator is informed what went in and out."""
    terms = Terms.of(1, "0.1")  # weights at a scale of 2
    design, state = _design(given=GIVEN, candidates=2, order=1), None
    own, whole = [], []
    for number in range(1, 4):
        found = release_synthetic(
            _log(ab=30, cx=3, x=1),
            terms=terms,
            design=design,
            shape=Shape(),
            number=number,
            state=state,
            draw=SeriesNoise(),
        )
        state = found.state
        own.append(_counts(found.release.log))
        total = _counts(found.log)
        whole.append(sum(total.values()))
        assert found.release.operator == {
            "cases": {"in": 34, "out": sum(own[-1].values())},
            "labels": {"may_leave": 3, "dropped_events": 4},
            "candidates": 2,
            "warnings": ["4 of 67 events have labels that are not declared"],
        }
        assert found.public == {
            "how": "sum", "since": 1, "levels": 1, "arity": None, "horizon": None,
            "noise": {"draws": number, "scale": 2.0}, "status": "ok",
        }  # fmt: skip
        for log in (found.release.log, found.log):
            assert log is not None
            for a, b in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True):
                assert log.time[a:b].tolist() == [place * 10**9 for place in range(b - a)]
    assert distance((), (0, 1)) == distance((), (2,)), "an empty case goes to the first of the nearest"
    assert own == [{"ab": 31}] * 3
    assert whole == [31, 62 + 6, 93 + 9]
    clean = release_synthetic(_log(ab=30), terms=terms, design=design, shape=Shape(), number=1, draw=SeriesNoise())
    assert clean.release.operator["warnings"] == []


def test_labels_of_given_traces_follow_the_declared_ones() -> None:
    """In order, however many; the declared ones as well."""
    many = tuple(f"label {number}" for number in range(30))
    design = _design(activities=tuple(f"name {number}" for number in range(30)), given=(many,), order=1)
    found = release_synthetic(
        _log(a=1), terms=Terms.of(9, "0.1"), design=design, shape=Shape(), number=1, draw=SeriesNoise()
    )
    assert found.state["made"][0] == [*sorted(design.activities or ()), *sorted(many)]


def test_times_leave_with_the_release() -> None:
    """At the rho of their share of epsilon, once: no accumulated log has them."""
    shares = Shares(NONE, NONE, Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))
    design = _design(given=GIVEN, candidates=2, order=1, shares=shares, bounds=times.PublicTimeBounds(3_000))
    log = EventLog.from_events(
        [str(n // 2) for n in range(2_000)], ["a", "b"] * 1_000,
        np.asarray([n % 2 * 1_500 for n in range(2_000)], dtype=np.int64) * 10**6,
        unit="ns",
    )  # fmt: skip
    source = GaussianNoise()
    found = release_synthetic(log, terms=Terms.of(8, "0.1", 2), design=design, shape=Shape(), number=1, draw=source)
    bins = len(design.bounds.step_edges) - 1 + len(design.bounds.throughput_edges) - 1
    assert source.asked[-1] == (scale_of(rho_of(Fraction(4), Fraction(1, 10)), 9 * UNIT), bins)
    took = (found.release.log.time[1::2] - found.release.log.time[::2]) // 10**6
    assert np.mean((took >= 1_400) & (took <= 1_600)) > 0.95
    assert found.release.facts["throughput_seconds"]["median"] in (1, 2)
    assert found.log is not None
    assert set(np.diff(found.log.time[:2]).tolist()) == {10**9}


def test_too_many_events_leave_nothing_but_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release beyond the limit is empty, not withheld; an accumulated log beyond it reports it."""
    terms = Terms.of(100, "0.1")
    design = _design(given=(("a", "b"),), candidates=1, order=1, sample=1, max_length=2)

    def run(number: int, state: Any = None) -> Any:
        return release_synthetic(
            _log(ab=100), terms=terms, design=design, shape=Shape(), number=number, state=state, draw=SeriesNoise()
        )

    monkeypatch.setattr(series, "MAX_EVENTS", 200)
    first = run(1)
    assert _counts(first.release.log) == {"ab": 100}
    assert _counts(first.log) == {"ab": 100}
    second = run(2, first.state)
    assert _counts(second.release.log) == {"ab": 100}
    assert (second.log, second.public["status"]) == (None, "too large")
    monkeypatch.setattr(series, "MAX_EVENTS", 199)
    again = run(1)
    assert again.release.log.n_cases == 0
    assert again.release.operator["cases"] == {"in": 100, "out": 0}
    assert again.log is None
    assert again.state["weights"]["sums"] == [[100]]


def test_a_series_goes_on_from_its_state_alone() -> None:
    """The state is JSON, and gives back the series; one of another design, shape or noise begins again."""
    design, shape = _design(given=GIVEN), Shape(2, 2)
    one = _series(design, shape, number=3)
    assert (one.weights.since, [cells.since for cells in one.cells]) == (3, [3, 3])
    for number in (3, 4, 5):
        one.measure(VariantCounts.of(_log(ab=40, abc=30), "abc"), number, SeriesNoise())
        one.refill(SeriesNoise())
        one.weigh(VariantCounts.of(_log(ab=40, abc=30), "abc"), number, SeriesNoise())
    state = one.state()
    again = _series(design, shape, state=state, number=6)
    assert again.state() == state
    assert again.weights.keys == again.traces == one.traces
    assert [cells.keys for cells in again.cells] == [cells.keys for cells in one.cells]
    for changed in (
        _series(_design(order=1), shape, state=state, number=6),
        _series(_design(case_weight=4), shape, state=state, number=6),
        _series(design, Shape(2, 3), state=state, number=6),
        _series(design, shape, scale=5.0, state=state, number=6),
        series._NoisyCounts.continued_from(state, ("a", "b", "c"), 3, design, shape, (UNIT * 2.0, 4.0), 6),
        series._NoisyCounts.continued_from(state, ("a", "b", "c"), 2, design, shape, (float(UNIT), 4.0), 6),
        series._NoisyCounts.continued_from(state, ("a", "b", "d"), 3, design, shape, (float(UNIT), 4.0), 6),
    ):
        assert (changed.traces, [list(opened) for opened in changed.opened]) == ([], [[]] * changed.design.order)
        assert {cells.since for cells in (*changed.cells, changed.weights)} == {6}


def test_a_state_with_a_part_missing_is_a_fault() -> None:
    """Nothing continues with fewer levels or counts than it had."""
    one = _series(_design(), Shape())
    one.measure(VariantCounts.of(_log(ab=40), "abc"), 1, SeriesNoise())
    state = one.state()
    with pytest.raises(ValueError, match="longer"):
        _series(_design(), Shape(), state={**state, "cells": state["cells"][:1]}, number=2)
    with pytest.raises(ValueError, match="longer"):
        series._rows([(0,)], np.asarray([5, 6]), np.ones(2))


def test_a_context_opens_where_the_noise_of_its_own_draws_says() -> None:
    """The level so far: contexts in the order of their keys, cells and noise of each from its own opening on."""
    one = _series(_design(order=2), Shape())
    one.opened = [[3, 0], [3 * 4 + 0, 2]]
    for order, draws in ((0, [4, 9]), (1, [1, 16])):
        one.cells[order].extend(series._flat(one.opened[order], 3), SeriesNoise(), backlog=False)
        one.cells[order].sums[0] = np.arange(8)
        one.cells[order].noises[0] = np.repeat(draws, 4)
    first, second = one._level(1), one._level(2)
    assert first.contexts.tolist() == [0, 3]
    assert first.cells.tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]
    assert first.scale.tolist() == [3.0 * UNIT, 2.0 * UNIT]
    assert second.contexts.tolist() == [2, 12]
    assert second.scale.tolist() == [4.0 * UNIT, 1.0 * UNIT]
    assert series._flat([5, 2], 2) == [(5, 0), (5, 1), (5, 2), (2, 0), (2, 1), (2, 2)]


def test_a_cell_of_just_two_scales_opens_a_context() -> None:
    """Two cases where the scale is one: the contexts "start, a" and "a, b"; one case opens none."""
    for cases, opened in ((2, {3 * 4 + 0, 0 * 4 + 1}), (1, set())):
        one = _series(_design(order=2), Shape())
        one.measure(VariantCounts.of(_log(ab=cases), "abc"), 1, SeriesNoise())
        assert set(one.opened[1]) == opened


def test_candidates_come_from_all_levels_of_the_model() -> None:
    """The label before c determines what follows: with the first level alone "acb" would be drawn as well."""
    one = _series(_design(order=2), Shape(), model=1.0)
    one.measure(VariantCounts.of(_log(aca=40, bcb=40), "abc"), 1, SeriesNoise())
    one.refill(SeriesNoise())
    assert set(one.drawn) == {(0, 2, 0), (1, 2, 1)}


def test_too_many_cells_are_refused_by_noisy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the limit are drawn; one context more is refused with its level."""
    table = VariantCounts.of(_log(ab=500), "abc")
    monkeypatch.setattr(contexts, "MOST_CELLS", 16)
    _series(_design(order=2), Shape()).measure(table, 1, SeriesNoise())  # 2 contexts of two labels
    one = _series(_design(order=1), Shape())
    one.measure(table, 1, SeriesNoise())
    monkeypatch.setattr(contexts, "MOST_CELLS", 15)
    with pytest.raises(InputError, match="level 1 of the context model has too many cells"):
        _series(_design(order=1), Shape()).measure(table, 1, SeriesNoise())
    monkeypatch.setattr(contexts, "MOST_CELLS", 16)
    many = VariantCounts.of(_log(abcabacbc=500, ca=400, b=300, c=300), "abc")
    with pytest.raises(InputError, match="level 2 of the context model has too many cells"):
        _series(_design(order=2, case_weight=9), Shape()).measure(many, 1, SeriesNoise())
    one.measure(table, 2, SeriesNoise())
    assert len(one.opened[0]) == 4


def test_a_seeded_source_is_never_private() -> None:
    """Without a source the cryptographic one is drawn from."""
    found = release_synthetic(_log(ab=9), terms=Terms.of(9, "0.1"), design=_design(sample=5), shape=Shape(), number=1)
    assert found.release.private


def test_the_usual_order_of_a_series_goes_by_what_is_public() -> None:
    """A hundredth of epsilon for each declared label, each once, is enough for two."""
    assert series.usual_order(Fraction(1, 10), tuple("abcdefghij")) == 2
    assert series.usual_order(Fraction(1, 10), tuple("abcdefghijk")) == 1
    assert series.usual_order(Fraction(1, 10), tuple("abcdefghija")) == 2
    assert series.usual_order(Fraction(1, 1000), None) == 2
    assert series.usual_order(Fraction(1), [str(label) for label in range(101)]) == 1
    assert series.usual_order(Fraction(1), [str(label) for label in range(100)]) == 2


# correlated noise


FACTORIZED = Shape.of("factorized", 24)


class GaussianNoise(SeriesNoise):
    """Gaussian noise of 0, of which the scales are kept."""

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return np.zeros(size, dtype=np.int64)


def _factorized(log: EventLog, source: NoiseSource, *, number: int = 1, state: Any = None, **changed: Any) -> Any:
    terms = Terms.of(4, "0.01", changed.pop("person", 1))
    return release_synthetic(
        log, terms=terms, design=_design(**changed), shape=FACTORIZED, number=number, state=state, draw=source
    )


@pytest.mark.parametrize("person", [1, 3])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_all_draws_of_a_correlated_series_keep_its_terms(person: int, order: int, timed: bool) -> None:
    """The distances of all levels, of the weights and of the times, for a person of all cases in one window: no more
    than epsilon at delta, and nearly all of it."""
    shares = Shares(NONE, NONE, Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)) if timed else HALVES
    bounds = times.PublicTimeBounds(86_400_000) if timed else None
    source = GaussianNoise()
    found = _factorized(_log(ab=300, abc=200), source, person=person, order=order, shares=shares, bounds=bounds)
    gaussian = source.asked[: order + 1]
    assert [size for _, size in gaussian] == [
        *(len(opened) * 4 for opened in found.state["opened"]), len(found.state["traces"]),
    ]  # fmt: skip
    moved = Factorization.of(24).sensitivity * person
    distances = [gaussian_distance(scale, moved * 3 * UNIT) for scale, _ in gaussian[:-1]]
    distances.append(gaussian_distance(gaussian[-1][0], moved))
    part = distances[-1] / sum(distances)
    if timed:
        distances.append(gaussian_distance(source.asked[order + 1][0], person * 3 * UNIT * 3 // 2))
        assert float(distances[-1] / sum(distances)) == pytest.approx(1 / 4, rel=1e-3)
    spent = Composition.of(distances, []).delta(Fraction(4))
    assert 0.009 < spent <= 0.01
    assert float(part) == pytest.approx(1 / 3 if timed else 1 / 2, rel=1e-3)


def test_steps_of_a_correlated_series_are_weighed_in_l2() -> None:
    """A case of nine different steps weighs each as one, where its norm is the bound; the L1 weight is a third."""
    source = GaussianNoise()
    found = _factorized(_log(abcacbba=100), source, order=1)
    cells = np.asarray(found.state["cells"][0]["true"][0])
    assert set(cells.tolist()) == {0, 100 * UNIT}
    assert int((cells > 0).sum()) == 9


def test_a_correlated_series_goes_on_and_adds_up() -> None:
    """Without noise both logs are exact, over releases that lose a number."""
    state = None
    for number, cases in ((1, 100), (2, 50), (4, 70)):
        found = _factorized(_log(ab=cases), GaussianNoise(), number=number, state=state, given=(("a", "b"),), order=1)
        state = found.state
        assert _counts(found.release.log) == {"ab": cases}
    assert sum(_counts(found.log).values()) == 220
    assert found.public["how"] == "factorized"
    assert state["weights"]["numbers"] == [1, 2, 4]


def test_labels_are_selected_once() -> None:
    """The first release that selects some decides; one of rare labels leaves the choice to the next. Others are left
    out afterwards, however frequent."""
    selecting: dict[str, Any] = {"activities": None, "shares": Shares.adding_up(times=False, labels=True)}
    rule = series.label_rule(Terms.of(4, "0.01"), _design(**selecting))
    few = _factorized(_log(ab=rule.least_cases // 4), GaussianNoise(), **selecting)
    assert "labels" not in few.state
    assert few.release.log.n_cases == 0
    first = _factorized(_log(ab=4 * rule.least_cases), GaussianNoise(), number=2, state=few.state, **selecting)
    assert first.state["labels"] == {"labels": ["a", "b"], "release": 2}
    assert sum(_counts(first.release.log).values()) == 4 * rule.least_cases
    source = GaussianNoise()
    later = _factorized(_log(xy=9000, ab=300), source, number=3, state=first.state, **selecting)
    assert later.state["labels"] == first.state["labels"]
    assert rule.scale not in [scale for scale, _ in source.asked]
    assert {label for trace in _counts(later.release.log) for label in trace} <= {"a", "b"}


def test_the_label_rule_of_a_series_has_its_part() -> None:
    """With the other stages it spends the delta that its threshold leaves, which has a twentieth."""
    terms, shares = Terms.of(4, "0.01", 2), Shares.adding_up(times=False, labels=True)
    design = _design(activities=None, shares=shares, order=1)
    rule = series.label_rule(terms, design)
    assert (rule.delta, rule.cases_per_person, rule.max_labels) == (Fraction(1, 2000), 2, 64)
    level, weights = series._scales(terms, design, FACTORIZED)
    moved = 2 * Factorization.of(24).sensitivity
    distances = [
        gaussian_distance(rule.scale, rule.sensitivity),
        gaussian_distance(level, moved * 3 * UNIT),
        gaussian_distance(weights, moved),
    ]
    assert [float(one / sum(distances)) for one in distances] == pytest.approx([0.1, 0.6, 0.3], rel=1e-3)
    assert 0.0090 < Composition.of(distances, []).delta(Fraction(4)) <= 0.0095


def test_the_usual_shares_of_a_series() -> None:
    """A fifth for times; of the rest a tenth for labels if they are selected, which the model passes on."""
    assert Shares.adding_up(times=False) == Shares(NONE, NONE, Fraction(7, 10), Fraction(3, 10), NONE)
    assert Shares.adding_up(times=False, labels=True) == Shares(
        Fraction(1, 10), NONE, Fraction(6, 10), Fraction(3, 10), NONE
    )
    assert Shares.adding_up(times=True, labels=True) == Shares(
        Fraction(2, 25), NONE, Fraction(12, 25), Fraction(6, 25), Fraction(1, 5)
    )
