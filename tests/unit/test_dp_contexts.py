"""The context model of dp-synthetic against its definition over tuples of labels, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dp.noise import simulated
from models.dp.synthesis import contexts
from models.dp.synthesis.contexts import ContextLevel, Model, VariantSteps
from models.errors import BoundError, InputError
from tests.oracles.dp import context_of
from tests.unit.known_noise import EqualNoise

measure = partial(contexts.measure, weigh=contexts.step_weights)

Context = tuple[int, ...]


UNIT = 2**16


TENTHS = Fraction(15, 10), Fraction(3)
"""Scales below which a cell counts as 0, and scales that the shorter context weighs (semantics/dp-series.md)."""


def key_of(context: Sequence[int], labels: int) -> int:
    """A context as a number: its labels are the digits, the last label the lowest."""
    key = 0
    for label in context:
        key = key * (labels + 1) + label
    return key


def level_of(cells: dict[Context, list[int]], scale: float, labels: int) -> ContextLevel:
    """A level from its cells by context."""
    keys = sorted(key_of(context, labels) for context in cells)
    order = len(next(iter(cells)))
    rows = [cells[context_of(key, order, labels)] for key in keys]
    return ContextLevel(np.asarray(keys, dtype=np.int64), np.asarray(rows, dtype=np.int64), np.full(len(keys), scale))


def random_levels(labels: int, orders: int, scale: float, seed: int) -> list[dict[Context, list[int]]]:
    """Noisy cells; each level opens some contexts whose shorter one is open."""
    rng = np.random.default_rng(seed)
    opened: list[Context] = [(label,) for label in range(labels + 1)]
    found = []
    for _ in range(orders):
        rows = rng.integers(-round(2 * scale), round(6 * scale) + 2, size=(len(opened), labels + 1))
        found.append({context: row.tolist() for context, row in zip(opened, rows, strict=True)})
        longer = [(first, *rest) for first in range(labels + 1) for rest in opened if labels not in rest]
        opened = [one for place, one in enumerate(longer) if place == 0 or rng.random() < 0.7]
    return found


def by_definition(levels: Sequence[dict[Context, list[int]]], scale: Fraction, labels: int) -> dict[Context, list]:
    """Chances after each open context. Cells below 1.5 scales are 0, no cell exceeds that of its shorter context, and
    the shorter context's chances weigh 3 scales; after nothing at all the case ends."""
    kept: dict[Context, list[Fraction]] = {}
    chances: dict[Context, list[Fraction]] = {}
    for order, level in enumerate(levels, start=1):
        for context, row in level.items():
            cells = [Fraction(n) if n >= TENTHS[0] * scale else Fraction(0) for n in row]
            if order == 1:
                total = sum(cells)
                end = [Fraction(label == labels) for label in range(labels + 1)]
                chances[context] = [one / total for one in cells] if total else end
            else:
                cells = [min(one, limit) for one, limit in zip(cells, kept[context[1:]], strict=True)]
                weight, total = TENTHS[1] * scale, sum(cells)
                chances[context] = [
                    (one + weight * shorter) / (total + weight)
                    for one, shorter in zip(cells, chances[context[1:]], strict=True)
                ]
            kept[context] = cells
    return chances


@pytest.mark.parametrize(("labels", "orders", "scale"), [(2, 1, 4.0), (2, 3, 4.0), (3, 2, 0.5), (1, 4, 10.0)])
def test_a_model_is_what_its_noisy_cells_say(labels: int, orders: int, scale: float) -> None:
    """Every chance of every context, whatever the cells; each row adds up to 1."""
    for seed in range(8):
        levels = random_levels(labels, orders, scale, seed)
        if seed == 0:
            levels[0][0,] = [-5] * (labels + 1)  # after it nothing is above the noise
        expected = by_definition(levels, Fraction(scale), labels)
        model = Model.of([level_of(level, scale, labels) for level in levels])
        assert model.chances.sum(axis=1) == pytest.approx(1.0)
        for order, (keys, first) in enumerate(zip(model.contexts, model.rows, strict=True), start=1):
            assert len(keys) == len(levels[order - 1])
            for place, key in enumerate(keys.tolist()):
                row = model.chances[first + place]
                assert row.tolist() == pytest.approx([float(one) for one in expected[context_of(key, order, labels)]])


def test_a_cell_counts_from_one_and_a_half_scales_on() -> None:
    """At it, and not one unit below; a cell of one unit counts as well where the noise is small enough."""
    model = Model.of([level_of({(0,): [6, 5, 18], (1,): [5, 5, 5], (2,): [0, 6, 0]}, 4.0, 2)])
    assert model.chances.tolist() == [[0.25, 0, 0.75], [0, 0, 1], [0, 1, 0]]
    small = Model.of([level_of({(0,): [1, 0], (1,): [0, 1]}, 0.5, 1)])
    assert small.chances.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(("labels", "orders"), [(3, 1), (2, 2), (1, 3), (2, 3)])
def test_contexts_open_where_the_noisy_count_and_the_shorter_context_say(labels: int, orders: int) -> None:
    """From 1.5 scales on, for labels but never for the end, and only where the context without its first label is open:
    of the last level, whatever the first one holds."""
    scale = 4.0
    for seed in range(6):
        levels = random_levels(labels, orders, scale, seed)
        for row in levels[-1].values():
            row[seed % (labels + 1)] = 6  # just enough
            row[(seed + 1) % (labels + 1)] = 5  # just not
        opened = {
            (*context, label)
            for context, row in levels[-1].items()
            for label in range(labels)
            if row[label] >= 6 and (*context, label)[1:] in levels[-1]
        }
        found = contexts._next_contexts([level_of(level, scale, labels) for level in levels]).tolist()
        assert found == sorted(key_of(context, labels) for context in opened)


def drawn_by_hand(
    levels: Sequence[dict[Context, list[int]]], scale: float, labels: int, longest: int, words: list[np.ndarray]
) -> dict[Context, int]:
    """Step by step, each trace with the word that it was given: the label at that place of the chances after the
    longest open context."""
    chances = by_definition(levels, Fraction(scale), labels)
    live: list[list[int]] = [[] for _ in range(len(words[0]))]
    traces = list(live)
    for place in range(longest):
        going = []
        for trace, word in zip(live, words[place].tolist() if live else [], strict=True):
            before = [labels, *trace]
            context = next(
                tuple(before[-order:])
                for order in range(min(len(levels), len(before)), 0, -1)
                if tuple(before[-order:]) in levels[order - 1]
            )
            point, label = Fraction(word >> 11, 2**53), 0
            while label < labels and point >= sum(chances[context][: label + 1]):
                label += 1
            if label < labels:
                trace.append(label)
                going.append(trace)
        live = going
    found: dict[Context, int] = {}
    for trace in traces:
        found[tuple(trace)] = found.get(tuple(trace), 0) + 1
    return found


@pytest.mark.parametrize(("labels", "orders", "longest"), [(2, 1, 5), (2, 2, 7), (2, 3, 6), (3, 4, 9), (1, 2, 1)])
def test_traces_are_drawn_after_the_longest_open_context(labels: int, orders: int, longest: int) -> None:
    """The start counts as a label, and a trace is in no context that is longer than it; they come in the order of their
    first appearance, none longer than the public length."""
    for seed in range(5):
        levels = random_levels(labels, orders, 4.0, seed)
        source = EqualNoise(seed=seed)
        model = Model.of([level_of(level, 4.0, labels) for level in levels])
        found = model.sample(40, longest, source)
        expected = drawn_by_hand(levels, 4.0, labels, longest, source.drawn_words)
        assert list(found.items()) == list(expected.items())
        assert max(map(len, found)) <= longest
        assert sum(found.values()) == 40


def test_where_every_context_is_open_short_traces_are_in_short_ones() -> None:
    """No trace begins as if labels had come before its start, though contexts of these labels are open."""
    many, start = 10**6, 2
    first = {(start,): [many, 0, 0], (0,): [0, many, many], (1,): [0, 0, many]}
    pairs = {one: [0, 0, many] for one in itertools.product(range(3), repeat=2)} | {(start, 0): [0, many, 0]}
    triples = {one: [0, 0, many] for one in itertools.product(range(3), repeat=3)}
    model = Model.of([level_of(level, 1.0, 2) for level in (first, pairs, triples)])
    found = model.sample(50, 4, EqualNoise(seed=3))
    assert found == {(0, 1): 50}


def test_a_model_with_a_level_missing_is_a_fault() -> None:
    """Not a model of fewer levels."""
    model = Model.of([level_of(level, 4.0, 2) for level in random_levels(2, 3, 4.0, 1)])
    with pytest.raises(ValueError, match="shorter"):
        replace(model, rows=model.rows[:2]).sample(3, 4, EqualNoise(seed=3))


def test_steps_and_keys_by_hand() -> None:
    """Every step of every case with what is before it; the empty case ends at once."""
    variants = [(1, 0), (), (2, 2, 1), ()]
    steps = VariantSteps.of(variants, 3)
    start = end = 3
    assert steps.after.tolist() == [1, 0, end, end, 2, 2, 1, end, end]
    assert steps.before.tolist() == [start, 1, 0, start, start, 2, 2, 1, start]
    assert steps.place.tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 0]
    assert steps.variant.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3]
    for order in (1, 2, 3):
        keys, whole = steps.keys(order)
        seen = [[start, *variant][: place + 1] for variant in variants for place in range(len(variant) + 1)]
        assert whole.tolist() == [len(before) >= order for before in seen]
        for key, before, enough in zip(keys.tolist(), seen, whole.tolist(), strict=True):
            assert not enough or key == key_of(before[-order:], 3)
    none = VariantSteps.of([], 3)
    assert len(none.after) == len(none.before) == len(none.place) == len(none.variant) == 0


def test_weights_of_steps() -> None:
    """1 where a case has no more steps than B, else B by its steps, rounded down to whole units of 2^-16."""
    for bound in (1, 3, 4):
        for length in range(60):
            exact = min(Fraction(1), Fraction(bound, length + 1))
            each = contexts.case_weights(VariantSteps.of([(0,) * length], 1), bound, 1).tolist()
            weight = each[0]
            assert each == [weight] * (length + 1)
            assert weight <= exact * UNIT < weight + 1
            assert weight * (length + 1) <= bound * UNIT


def norm_of(variant: Context, labels: int, order: int) -> int:
    """Square of the L2 norm of the cells of a level that one case fills, each step as 1."""
    whole = [labels, *variant, labels]
    steps = [tuple(whole[place - order : place + 1]) for place in range(order, len(whole))]
    return sum(steps.count(step) ** 2 for step in set(steps))


def test_weights_of_cases() -> None:
    """1 where the cells of a case are B together in L2 at most, else as much as makes them so, rounded down; longer
    contexts make no norm larger."""
    rng = np.random.default_rng(11)
    variants = [(), (0,), (0,) * 400, (0, 1) * 200, *(tuple(rng.integers(0, 3, n).tolist()) for n in range(40))]
    for bound in (1, 2, 3, 7):
        steps = VariantSteps.of(variants, 3)
        weights = contexts.step_weights(steps, bound, 2)[steps.place == 0].tolist()
        assert len(weights) == len(variants)
        for variant, weight in zip(variants, weights, strict=True):
            square = norm_of(variant, 3, 1)
            assert weight**2 * square <= (bound * UNIT) ** 2
            assert weight == UNIT or (weight + 1) ** 2 * square > (bound * UNIT) ** 2
            assert all(norm_of(variant, 3, order) <= square for order in (2, 3))
    assert contexts.step_weights(VariantSteps.of([], 3), 1, 1).tolist() == []


class _Noted(EqualNoise):
    """Noise of 600 in each cell of the first draw, 1,200 of the second, and so on."""

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        super().gaussian(scale, size)
        return np.full(size, 600 * len(self.asked), dtype=np.int64)


VARIANTS: list[tuple[int, ...]] = [(0, 1, 0), (1,)]
COUNTS = np.asarray([50, 7])


def test_a_weak_first_level_is_measured_again() -> None:
    """With all that the longer contexts would have had: the noise is that of both rhos at once, and nothing else of the
    model is drawn."""
    rhos = [Fraction(1, 100), Fraction(2, 100), Fraction(3, 100)]
    seen: list[ContextLevel] = []

    def weak(level: ContextLevel, of_levels: Sequence[Fraction]) -> list[Fraction]:
        seen.append(level)
        return [sum(of_levels[1:], start=Fraction(0))]

    source = _Noted()
    (level,) = measure(VARIANTS, COUNTS, 2, rhos, 3, source, 2, weak)
    scales = [6 * UNIT / (2 * rho) ** 0.5 for rho in (Fraction(1, 100), Fraction(5, 100))]
    assert [scale for scale, _ in source.asked] == pytest.approx(scales)
    assert [size for _, size in source.asked] == [9, 9]
    true = measure(VARIANTS, COUNTS, 2, rhos[:1], 3, EqualNoise(seed=3), 2)[0]
    assert len(seen) == 1
    assert (seen[0].cells - true.cells == 600).all()
    assert (level.cells - true.cells == 600 / 6 + 1200 * 5 / 6).all()
    whole = 6 * UNIT / (2 * Fraction(6, 100)) ** 0.5
    assert level.scale.tolist() == pytest.approx([whole / 2**0.5] * 3)
    # The only level has nothing to divide.
    assert len(measure(VARIANTS, COUNTS, 2, rhos[:1], 3, EqualNoise(seed=3), 2, weak)) == 1
    assert len(seen) == 1


def test_what_is_left_of_the_rhos_is_divided_as_the_rule_says() -> None:
    """A part for the first level again and a part for contexts of two labels, or nothing for the first level."""
    rhos = [Fraction(1, 100), Fraction(2, 100), Fraction(3, 100)]
    source = _Noted()
    measured = measure(
        VARIANTS, COUNTS, 2, rhos, 3, source, 2, lambda level, of_levels: [Fraction(4, 100), Fraction(1, 100)]
    )
    assert len(measured) == 2
    scales = [6 * UNIT / (2 * rho) ** 0.5 for rho in (Fraction(1, 100), Fraction(4, 100), Fraction(1, 100))]
    assert [scale for scale, _ in source.asked] == pytest.approx(scales)
    assert measured[0].scale.tolist() == pytest.approx([6 * UNIT / (2 * 0.05) ** 0.5 / 2**0.5] * 3)
    assert measured[1].scale.tolist() == pytest.approx([scales[2] / 2**0.5] * len(measured[1].contexts))

    source = EqualNoise(seed=3)
    all_levels = measure(
        VARIANTS, COUNTS, 2, rhos, 3, source, 2, lambda level, of_levels: [Fraction(0), *of_levels[1:]]
    )
    assert len(all_levels) == 3
    assert [scale for scale, _ in source.asked] == pytest.approx([6 * UNIT / (2 * rho) ** 0.5 for rho in rhos])


def test_two_measurements_weigh_as_their_rhos() -> None:
    """Nine times the rho has a third of the noise, and nine tenths of the mean, in each row."""
    keys = np.arange(2, dtype=np.int64)
    one = ContextLevel(keys, np.asarray([[10, -20], [30, 0]]), np.asarray([3.0, 4.0]))
    other = ContextLevel(keys, np.asarray([[110, 80], [30, 8]]), np.asarray([1.0, 4.0]))
    both = contexts.together(one, other)
    assert both.contexts.tolist() == [0, 1]
    assert both.cells.tolist() == [[100, 70], [30, 4]]
    assert both.scale.tolist() == pytest.approx([0.9**0.5, 8**0.5])


def test_a_level_without_counted_variants_is_that_of_the_other_cases() -> None:
    """All cases less some of them, by the number that is counted; nothing is taken away if none is counted.

    A step that the counted variant repeats weighs as in the first level.
    """
    rho = [Fraction(10**6)]
    weigh = contexts.root_weights
    variants: list[tuple[int, ...]] = [(0, 0, 0, 1), (1,)]
    (of_all,) = contexts.measure(variants, COUNTS, 2, rho, 3, EqualNoise(seed=3), weigh=weigh)
    (of_others,) = contexts.measure(variants[1:], COUNTS[1:], 2, rho, 3, EqualNoise(seed=3), weigh=weigh)
    left = contexts.without_counted(of_all, {variants[0]: int(COUNTS[0])}, 3, weigh)
    assert left.cells.tolist() == of_others.cells.tolist()
    assert left.scale.tolist() == of_all.scale.tolist()
    assert contexts.without_counted(of_all, {}, 3, weigh) is of_all


def test_an_earlier_first_level_counts_as_much_as_its_noise_allows() -> None:
    """It is averaged with the first level, before the rest is divided; only the new one draws."""
    earlier = measure(VARIANTS, COUNTS, 2, [Fraction(1, 100)], 3, EqualNoise(600, seed=3), 2)[0]
    source, seen = EqualNoise(seed=3), []

    def rest(level: ContextLevel, rhos: Sequence[Fraction]) -> list[Fraction]:
        seen.append(level)
        return [Fraction(0)]

    (level,) = measure(VARIANTS, COUNTS, 2, [Fraction(2, 100), Fraction(1)], 3, source, 2, rest, earlier=earlier)
    true = measure(VARIANTS, COUNTS, 2, [Fraction(2, 100)], 3, EqualNoise(seed=3), 2)[0]
    assert (level.cells - true.cells == 200).all()
    assert level.scale.tolist() == pytest.approx([6 * UNIT / (2 * 0.03) ** 0.5 / 2**0.5] * 3)
    assert seen[0].cells.tolist() == level.cells.tolist()
    assert len(source.asked) == 1


def test_a_long_level_of_too_many_cells_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rho is not spent; as many cells as the limit are measured, and shorter levels have another limit."""
    rhos = [Fraction(10**6)] * 3
    sizes = [size for _, size in _asked(rhos)]
    assert len(sizes) == 3
    monkeypatch.setattr(contexts, "MOST_LONG_CELLS", sizes[2])
    assert [size for _, size in _asked(rhos)] == sizes
    monkeypatch.setattr(contexts, "MOST_LONG_CELLS", sizes[2] - 1)
    assert [size for _, size in _asked(rhos)] == sizes[:2]
    monkeypatch.setattr(contexts, "MOST_LONG_CELLS", 0)
    assert [size for _, size in _asked(rhos)] == sizes[:2]


def _asked(rhos: Sequence[Fraction]) -> list[tuple[float, int]]:
    """Return scale and size of each draw of a model."""
    source = EqualNoise(seed=3)
    levels = measure(VARIANTS, COUNTS, 2, rhos, 3, source)
    assert len(levels) == len(source.asked)
    return source.asked


def test_levels_hold_the_weights_of_the_cases() -> None:
    """Cells of each level by the definition, (B c)^2 / (2 scale^2) = rho; every open context has noise in every
    cell."""
    variants, counts = [(0, 1, 0, 1, 1), (1,), ()], np.asarray([50, 7, 11])
    source = EqualNoise(seed=3)
    each = [Fraction(10**6), Fraction(10**5), Fraction(10**4)]
    levels = measure(variants, counts, 2, each, 3, source)
    assert [scale for scale, _ in source.asked] == pytest.approx([3 * UNIT / (2 * float(rho)) ** 0.5 for rho in each])
    assert [size for _, size in source.asked] == [len(level.contexts) * 3 for level in levels]
    expected: list[dict[tuple[Context, int], int]] = [{}, {}, {}]
    for variant, count in zip(variants, counts.tolist(), strict=True):
        weight = min(UNIT, int(UNIT * 3 / norm_of(variant, 2, 1) ** 0.5)) * count
        whole = [2, *variant, 2]
        for place in range(1, len(whole)):
            for order in range(1, min(place, 3) + 1):
                cell = (tuple(whole[place - order : place]), whole[place])
                expected[order - 1][cell] = expected[order - 1].get(cell, 0) + weight
    for order, (level, scale) in enumerate(zip(levels, source.asked, strict=True), start=1):
        there = {
            (context_of(int(level.contexts[row]), order, 2), label): int(n)
            for (row, label), n in np.ndenumerate(level.cells)
            if n
        }
        assert there == expected[order - 1]
        assert level.scale.tolist() == pytest.approx([scale[0] / 2**0.5] * len(level.contexts))
    assert len(levels[0].contexts) == 3
    empty = EqualNoise(seed=3)
    nobody = measure([], np.zeros(0, dtype=np.int64), 2, [Fraction(1)], 3, empty, 5)
    assert nobody[0].cells.tolist() == [[0] * 3] * 3
    assert empty.asked == [(pytest.approx(3 * UNIT * 5.0 / 2**0.5), 9)]


@pytest.mark.parametrize(("order", "most"), [(2, 2_097_151), (3, 55_108), (4, 6_208)])
def test_contexts_that_no_number_holds_are_refused(order: int, most: int) -> None:
    """Keys of contexts with the label that follows are below 2^63; what fits may still have too many cells."""
    assert most ** (order + 1) < 2**63 <= (most + 1) ** (order + 1)
    nobody = np.zeros(0, dtype=np.int64)
    with pytest.raises(BoundError, match=f"level 1 of the context model has {most * most} cells"):
        measure([], nobody, most - 1, [Fraction(1)] * order, 1, EqualNoise(seed=3))
    with pytest.raises(InputError, match=f"order {order} over {most} labels does not fit"):
        measure([], nobody, most, [Fraction(1)] * order, 1, EqualNoise(seed=3))


def test_as_many_cells_as_the_limit_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more: the refusal names the level, and reads the noisy counts alone."""
    variants, counts = [(0, 1, 2)], np.asarray([500])
    monkeypatch.setattr(contexts, "MOST_CELLS", 16)
    first = measure(variants, counts, 3, [Fraction(10**5)], 4, EqualNoise(seed=3))
    assert first[0].cells.size == 16
    with pytest.raises(BoundError, match="level 1 of the context model has 25 cells"):
        measure(variants, counts, 4, [Fraction(10**5)], 4, EqualNoise(seed=3))
    source = EqualNoise(seed=3)
    monkeypatch.setattr(contexts, "MOST_CELLS", 25)
    with pytest.raises(BoundError, match="level 2 of the context model has 30 cells"):
        measure([(0, 1, 2, 3, 2, 1)], counts, 4, [Fraction(10**5)] * 2, 9, source)
    assert source.asked == [(pytest.approx(9 * UNIT / (2 * 10**5) ** 0.5), 25)]


def test_keys_are_found_among_the_opened() -> None:
    """Place and presence of each key, before, between and behind the opened ones, and if none is open."""
    for opened in ([], [5], [0], [2, 3, 9]):
        row, found = contexts._rows(np.asarray(opened, dtype=np.int64), np.arange(12, dtype=np.int64))
        assert found.tolist() == [key in opened for key in range(12)]
        assert [opened[place] for place in row[found].tolist()] == opened
        assert len(row) == 12


def test_cases_are_estimated_from_what_begins() -> None:
    """Weights of the first steps over the mean weight of a drawn trace; noise below 0 counts as no case."""
    drawn = {(0,): 3, (0,) * 9: 1}  # with a bound of 2 a step of the first one weighs 1, one of the other a fifth
    mean = (3 * UNIT + UNIT // 5) / 4
    level = ContextLevel(np.arange(2), np.asarray([[7, 7], [5 * UNIT, UNIT]]), np.ones(2))
    assert contexts.cases(level, drawn, 2, contexts.case_weights) == pytest.approx(6 * UNIT / mean, rel=1e-12)
    below = ContextLevel(np.arange(2), np.asarray([[9, 9], [-8, 7]]), np.ones(2))
    assert contexts.cases(below, drawn, 2, contexts.case_weights) == 0.0


@pytest.mark.parametrize("order", [2, 3])
def test_no_context_reaches_into_the_case_before(order: int) -> None:
    """Of two cases, a and b, no step has two labels before it, the start included, but each case's last one; whatever
    contexts are open, what is counted are those."""
    steps, radix = VariantSteps.of([(0,), (1,)], 2), 3
    weights = np.full(4, 7, dtype=np.int64)
    cells = contexts.true_cells(steps, weights, np.arange(radix**order), order)
    found = {(int(key), int(label)): int(cells[key, label]) for key, label in np.argwhere(cells)}
    start, ends = 2, {(2 * radix + 0, 2): 7, (2 * radix + 1, 2): 7}
    assert steps.before.tolist() == [start, 0, start, 1]
    assert found == (ends if order == 2 else {})


class Lowest(EqualNoise):
    """The smallest word, always."""

    def words(self, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.uint64)


@pytest.mark.parametrize("labels", [8, 20, 38])
def test_chances_that_round_to_more_than_one_stay_in_their_row(labels: int) -> None:
    """The smallest word gives the first label, whatever the chances of the row before add up to."""
    chances = np.full((2, labels + 1), 1 / (labels + 1))
    assert np.cumsum(chances[0])[-1] > 1.0
    model = Model((np.asarray([labels - 1, labels]),), (0,), chances, labels)
    assert model.sample(5, 1, Lowest()) == {(0,): 5}


TRACE = st.lists(st.integers(0, 3), max_size=40).map(tuple)


@given(TRACE, st.integers(1, 6), st.integers(1, 3))
def test_a_case_weighs_at_most_b_on_every_level(trace: tuple[int, ...], bound: int, order: int) -> None:
    """However long a case is, what it adds to the cells of a level is at most B, in sum or in L2, by its weights."""
    opened = np.arange(5**order, dtype=np.int64)  # every context there can be
    steps = contexts.VariantSteps.of([trace], 4)
    cells = contexts.true_cells(steps, contexts.case_weights(steps, bound, order), opened, order)
    assert 0 <= cells.sum() <= bound * UNIT
    for weigh in (contexts.step_weights, contexts.root_weights):
        cells = contexts.true_cells(steps, weigh(steps, bound, order), opened, order)
        assert sum(cell**2 for cell in cells[cells > 0].tolist()) <= (bound * UNIT) ** 2


@given(st.lists(TRACE, max_size=4), st.integers(1, 3))
def test_repeats_are_the_steps_of_a_case_that_are_alike(traces: list[tuple[int, ...]], order: int) -> None:
    """Counted one by one: the last labels before a step (the start is one), and the label of the step."""
    expected = []
    for trace in traces:
        labels = (4, *trace, 4)
        # With fewer labels than the order before it, a step is like none that has them.
        seen = [(labels[max(0, place - order) : place], labels[place]) for place in range(1, len(labels))]
        expected += [seen.count(step) if len(step[0]) == order else None for step in seen]
    repeats = contexts.VariantSteps.of(traces, 4).repeats(order).tolist()
    assert len(repeats) == len(expected)
    assert all(want in (None, found) for want, found in zip(expected, repeats, strict=True))


def test_repeats_of_many_labels_are_counted_too() -> None:
    """With 2^15 labels and ends there are 2^60 steps with three labels before: 16 variants of them exceed
    64 bits."""
    trace = (32_765, 32_766) * 4
    steps = contexts.VariantSteps.of([trace] * 100, 2**15 - 1)
    assert steps.repeats(3).reshape(100, 9)[:, 2:].tolist() == [[1, 3, 2, 3, 2, 3, 1]] * 100


@given(st.lists(TRACE, min_size=2, max_size=4), st.integers(1, 3))
def test_the_weights_of_a_case_do_not_depend_on_other_cases(traces: list[tuple[int, ...]], order: int) -> None:
    """A trace has the same weights among others as alone: the bound of a person needs it."""
    for weigh in (contexts.case_weights, contexts.step_weights, contexts.root_weights):
        together = contexts.VariantSteps.of(traces, 4)
        weights = weigh(together, 3, order)
        for place, trace in enumerate(traces):
            alone = contexts.VariantSteps.of([trace], 4)
            has_all_labels = alone.place >= order - 1
            found = weights[together.variant == place][has_all_labels]
            assert found.tolist() == weigh(alone, 3, order)[has_all_labels].tolist()


@pytest.mark.parametrize("bound", [1, 3, 7])
def test_a_root_weight_is_as_large_as_its_bound_allows(bound: int) -> None:
    """B / sqrt(L n), rounded down, and L is 4 for a shorter case: by hand for four traces of one label."""
    traces = [(), (0,), (0, 0), (0,) * 8]  # 1, 2, 3 and 9 steps: the last case goes from 0 to 0 seven times
    weights = contexts.root_weights(contexts.VariantSteps.of(traces, 1), bound, 1).tolist()
    square = [4] * 6 + [9, *[63] * 7, 9]
    for weight, part in zip(weights, square, strict=True):
        assert weight**2 * part <= (bound * UNIT) ** 2 < (weight + 1) ** 2 * part


def test_roots_are_rounded_down_up_to_the_largest_bound() -> None:
    """B is at most 1,000: a square of less than 2^52. One below a square has the whole root before it."""
    largest = 1_000 * UNIT
    assert largest**2 < 2**52
    roots = np.asarray([1, 2, 3, 65_535, UNIT, largest - 1, largest])
    assert contexts._root(roots**2).tolist() == roots.tolist()
    assert contexts._root(roots**2 - 1).tolist() == (roots - 1).tolist()


def test_cases_are_estimated_by_the_weight_of_their_first_step() -> None:
    """A case of three equal labels takes four steps: the first one weighs B / 2, and each step between two of them B /
    sqrt(8)."""
    level = ContextLevel(np.arange(2), np.asarray([[7, 7], [5 * UNIT, UNIT]]), np.ones(2))
    assert contexts.cases(level, {(0, 0, 0): 4}, 2, contexts.root_weights) == pytest.approx(6.0, rel=1e-4)


def test_step_ratios_one_by_one() -> None:
    """The steps of the drawn traces by their weight, counted one by one, each with a twentieth of a mean cell."""
    traces = {(0, 0, 0): 12, (0, 1): 3, (1, 0, 1, 0, 1): 5, (): 2}
    number, weight = np.zeros((3, 3)), np.zeros((3, 3))
    for trace, times in traces.items():
        labels = [2, *trace, 2]
        steps = list(itertools.pairwise(labels))
        for step in steps:
            number[step] += times
            weight[step] += times * 3 / (max(len(steps), 4) * steps.count(step)) ** 0.5
    mean_ratio = number.sum() / weight.sum()
    little = 0.05 * weight.sum() / np.count_nonzero(weight)
    expected = (number / mean_ratio + little) / (weight + little)
    level = ContextLevel(np.arange(3), np.zeros((3, 3), dtype=np.int64), np.ones(3))
    found = contexts.step_ratios(level, 1, traces, 3, contexts.root_weights)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found[1, 1] == 1.0, "no trace goes from 1 to 1"


def test_step_ratios_have_bounds() -> None:
    """A long case repeats its step a hundred times, and many short ones have the other: at most 2, at least a half."""
    traces = {(0,) * 100: 10, (1,): 100}
    level = ContextLevel(np.arange(3), np.zeros((3, 3), dtype=np.int64), np.ones(3))
    ratios = contexts.step_ratios(level, 1, traces, 3, contexts.root_weights)
    assert (ratios.min(), ratios.max()) == (0.5, 2.0)


def test_step_ratios_bring_back_the_numbers_of_steps() -> None:
    """Of weights that a level holds for the same traces; up to a factor, and to twice the mean."""
    traces = {(0, 0, 0, 0, 1): 30, (0, 1): 20, (1,): 10}
    steps = contexts.VariantSteps.of(list(traces), 2)
    taken = np.asarray(list(traces.values()))[steps.variant]
    for order in (1, 2):
        opened = np.arange(3**order, dtype=np.int64)
        weights = contexts.root_weights(steps, 3, order)
        level = ContextLevel(opened, contexts.true_cells(steps, weights * taken, opened, order), np.ones(len(opened)))
        number = contexts.true_cells(steps, taken, opened, order)
        ratios = contexts.step_ratios(level, order, traces, 3, contexts.root_weights)
        found = level.cells * ratios
        assert ratios.min() >= 0.5
        assert ratios.max() <= 2.0
        # Nearer to the numbers than the weights are, relative to their sums.
        error = np.abs(found / found.sum() - number / number.sum()).sum()
        assert error < 0.25 * np.abs(level.cells / level.cells.sum() - number / number.sum()).sum()


def test_step_ratios_of_no_trace_are_one() -> None:
    level = ContextLevel(np.arange(3), np.ones((3, 3), dtype=np.int64), np.ones(3))
    none_like_it = contexts.step_ratios(replace(level, contexts=np.asarray([8])), 2, {(): 3}, 3, contexts.root_weights)
    assert none_like_it.tolist() == [[1.0, 1.0, 1.0]]


def test_a_model_without_noise_gives_its_traces() -> None:
    """Noise switched off, a model of order 2 gives back what is determined by two labels."""
    variants = [(0, 1, 2), (1, 0, 2, 2)]
    levels = measure(variants, np.asarray([700, 300]), 3, [Fraction(10**4)] * 2, 100, EqualNoise())
    drawn = contexts.Model.of(levels).sample(4000, 30, simulated(1))
    shares = {variant: n / 4000 for variant, n in drawn.items()}
    assert shares[0, 1, 2] == pytest.approx(0.7, abs=0.05)
    assert shares[1, 0, 2, 2] == pytest.approx(0.3, abs=0.05)
    assert max(map(len, drawn)) <= 30
