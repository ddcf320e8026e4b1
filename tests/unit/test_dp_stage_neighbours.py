"""Neighbouring logs for the audit of each stage of dp-synthetic: how they differ, and what a run of each shows."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.dp import noise, zcdp
from models.dp.budget import Charge
from models.dp.synthesis import contexts, labels, neighbours
from models.dp.synthesis.neighbours import stage_pairs
from models.dp.synthesis.times import PublicTimeBounds
from models.dp.synthetic import StageBudget
from models.eventlog import EventLog
from tests.unit.known_noise import EqualNoise

EPSILON, DELTA = Fraction(100), Fraction(1, 100)


HOUR, DAY = 3_600_000, 86_400_000


UNIT = 2**16


Shown = set[Hashable]


def shown(stage: str, noise: int = 0, epsilon: Fraction = EPSILON) -> tuple[Shown, Shown, list[tuple[float, int]]]:
    """Return the output of a run on each of the two logs, and the noise that the first one drew."""
    source = EqualNoise(noise, seed=4)
    (found,) = stage_pairs(epsilon, DELTA, source, only=[stage])
    one = list(found.pair.run_one())
    asked = list(source.asked)
    other = list(found.pair.run_other())
    assert source.asked[len(asked) :][0][0] == asked[0][0]
    return set(one), set(other), asked


def around(name: Hashable, value: int, scale: float, near: int = 0) -> Shown:
    """From two scales below a number to four above it, by half scales, and whether it is 0: where the value is."""
    found: Shown = {(name, "is 0")} if value == 0 else set()
    for halves in range(-4, 9):
        bound = near + round(halves * scale / 2)
        found.add((name, "at least" if value >= bound else "below", bound))
    return found


def test_each_stage_has_its_neighbours_and_its_claim() -> None:
    """All of epsilon each, and delta where the stage selects; one unit of the claim apart."""
    found = stage_pairs(Fraction(2), DELTA)
    with_delta, pure = Charge(Fraction(2), DELTA), Charge(Fraction(2))
    assert [(one.pair.name, one.claim) for one in found] == [
        ("stage labels: a label of one person", with_delta),
        ("stage labels: a label of one person with many cases", with_delta),
        ("stage labels: many labels of one person in one case", with_delta),
        ("stage labels: a case of many labels that others nearly show", with_delta),
        ("stage variants: a variant of one person", with_delta),
        ("stage variants: a case of a frequent variant", with_delta),
        ("stages variants and model: a case that decides which cases the model sees", with_delta),
        ("preview: a case that decides whether variants are counted", with_delta),
        ("stage model: a trace longer than any", with_delta),
        ("stage weights: the only case near a candidate", pure),
        ("stage weights: a case near a frequent candidate", pure),
        ("stage times: a step longer than any", with_delta),
        ("stage times: a person with many cases of one long step", with_delta),
        ("stage times: many long steps in one case", with_delta),
    ]
    assert {one.pair.steps for one in found} == {1}
    assert [one.pair.name[:12] for one in stage_pairs(Fraction(2), DELTA, only=["times", "label"])] == [
        "stage labels", "stage times:",
    ]  # fmt: skip


def test_a_budget_has_what_is_named() -> None:
    """Nothing else draws, and nothing else selects."""
    none = Fraction(0)
    assert neighbours._budget() == StageBudget(none, none, none, none, none, none, none, none)
    timed = neighbours._budget(times=Fraction(3), delta=DELTA)
    assert timed == StageBudget(none, none, none, none, Fraction(3), none, none, DELTA)
    named = neighbours._budget(variants=Fraction(1), model=Fraction(2), delta=DELTA)
    assert named == StageBudget(none, Fraction(1), Fraction(2), none, none, none, DELTA / 2, DELTA / 2)
    assert neighbours._budget(model=Fraction(2), delta=DELTA).delta_composed == DELTA


def test_without_a_source_the_cryptographic_one_is_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with one that one alone."""
    draw_gaussian = noise.NoiseSource.gaussian
    asked: list[tuple[bool, float, int]] = []

    def recorded(source: noise.NoiseSource, scale: float, size: int) -> np.ndarray:
        asked.append((source.private, scale, size))
        return draw_gaussian(source, scale, size)

    monkeypatch.setattr(noise.NoiseSource, "gaussian", recorded)
    (found,) = stage_pairs(EPSILON, DELTA, only=["counts"])
    list(found.pair.run_one())
    assert asked == [(True, gaussian(EPSILON), 1)]
    (found,) = stage_pairs(EPSILON, DELTA, noise.simulated(1), only=["counts"])
    list(found.pair.run_one())
    assert asked == [(True, gaussian(EPSILON), 1), (False, gaussian(EPSILON), 1)]


def _cases(log: EventLog) -> list[tuple[str, list[int]]]:
    bounds = zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True)
    return [("".join(trace), log.time[a:b].tolist()) for trace, (a, b) in zip(log.traces(), bounds, strict=True)]


def test_a_log_differs_by_the_victim_alone() -> None:
    """Cases of A B that take an hour, one an hour; the victim's last, with its own steps."""
    hour = HOUR * 10**6
    common = [("AB", [number * hour, (number + 1) * hour]) for number in range(200)]
    assert sorted(_cases(neighbours._log()), key=lambda case: case[1]) == common
    long = neighbours._log("ACB", took=5 * HOUR)
    assert sorted(_cases(long), key=lambda case: case[1]) == [*common, ("ACB", [200 * hour, 205 * hour, 210 * hour])]
    short = neighbours._log("CC", common=3)
    assert sorted(_cases(short), key=lambda case: case[1]) == [*common[:3], ("CC", [3 * hour, 4 * hour])]


LABEL_SCALE = zcdp.scale_of(zcdp.rho_of(EPSILON, DELTA / 2), UNIT)
PRIVATE = "a label that nobody else has"


def _how_many(labels: int) -> Shown:
    return {("labels, at least" if labels >= number else "labels, fewer than", number) for number in range(0, 64, 4)}


def test_a_label_of_one_person() -> None:
    """X is in one log alone, and shows where its noisy weight passes; A and B weigh 141 cases each."""
    one, other, asked = shown("label")
    assert one == other == {("label", "A"), ("label", "B")} | _how_many(2)
    assert asked == [(LABEL_SCALE, 2)]
    loud = shown("label", 9 * UNIT)
    assert loud[1] - loud[0] == {("label", "X"), PRIVATE}
    assert shown("label", -300 * UNIT)[:2] == (_how_many(0), _how_many(0))


def test_a_label_of_one_person_with_many_cases() -> None:
    """Three cases, with noise for three."""
    _, other, asked = shown("label of many", 9 * UNIT)
    assert ("label", "X") in other
    assert asked == [(zcdp.scale_of(zcdp.rho_of(EPSILON, DELTA / 2), 3 * UNIT), 2)]


def test_many_labels_of_one_person_in_one_case() -> None:
    """64 labels, an eighth of a case each."""
    one, other, asked = shown("labels at once", 9 * UNIT)
    many = {("label", f"L{number}") for number in range(64)}
    assert one == {("label", "A"), ("label", "B")} | _how_many(2)
    assert other == one - _how_many(2) | many | {PRIVATE} | _how_many(66)
    assert asked == [(LABEL_SCALE, 2)]


def test_a_case_of_many_labels_that_others_nearly_show() -> None:
    """64 labels, each of as many cases as leave it below the threshold; the victim adds an eighth of a case to each."""
    (near,) = stage_pairs(EPSILON, DELTA, EqualNoise(), only=["near labels"])
    rule = labels.LabelRule(zcdp.rho_of(EPSILON, DELTA / 2), DELTA / 2, 64)
    missing = rule.threshold - rule.threshold // UNIT * UNIT
    many = {("label", f"L{number}") for number in range(64)}
    assert set(near.pair.run_one()) == set(near.pair.run_other()) == _how_many(0)
    one, other, asked = shown("near labels", missing - UNIT // 8)
    assert one == _how_many(0)
    assert other == many | {PRIVATE} | _how_many(64)
    assert asked == [(LABEL_SCALE, 64)]


def test_labels_that_a_log_does_not_have_cannot_leave() -> None:
    """The audit then needs no count of runs: that they leave at all refutes any epsilon beyond delta."""
    found = {stage.pair.name: stage.pair for stage in stage_pairs(EPSILON, DELTA, EqualNoise())}
    for name, label in (
        ("a label of one person", "X"), ("a label of one person with many cases", "X"),
        ("many labels of one person in one case", "L3"),
    ):  # fmt: skip
        pair = found[f"stage labels: {name}"]
        assert pair.possible_one is not None
        assert pair.possible_other is not None
        for event in (("label", label), PRIVATE):
            assert not pair.possible_one(event)
            assert pair.possible_other(event)
        for event in (("label", "A"), ("labels, at least", 4)):
            assert pair.possible_one(event)
            assert pair.possible_other(event)
    assert found["stage weights: a case near a frequent candidate"].possible_one is None


def gaussian(epsilon: Fraction, parts: int = 1, sensitivity: int = 1, delta: Fraction = DELTA / 2) -> float:
    """Scale of the noise of a stage that has so many parts of the rho of epsilon."""
    return zcdp.scale_of(zcdp.rho_of(epsilon, delta) / parts, sensitivity)


def test_variants() -> None:
    """A C is in one log alone; of A B one has a case more. Counts are distinguished near 200."""
    scale = gaussian(Fraction(4))
    for noise_ in (0, -3, 4):
        one, other, asked = shown("variants", noise_, Fraction(4))
        expected = {("variant", (0, 1))} | around((0, 1), 200 + noise_, scale, 200)
        assert one == expected
        assert other == expected | (
            {("variant", (0, 2))} | around((0, 2), 1 + noise_, scale, 200) if noise_ == 4 else set()
        )
        assert asked == [(scale, 1)]
        one, other, _ = shown("counts", noise_, Fraction(4))
        assert one == expected
        assert other == {("variant", (0, 1))} | around((0, 1), 201 + noise_, scale, 200)


def test_a_case_that_tips_the_scale() -> None:
    """With it the variant is taken and the model sees no case; without it, it sees all but one."""
    epsilon = Fraction(8)
    (found,) = stage_pairs(epsilon, DELTA, EqualNoise(seed=4), only=["taken"])
    one, other, asked = shown("taken", epsilon=epsilon)
    common = zcdp.threshold(gaussian(epsilon, 2), DELTA / 2) - 1
    drawn = gaussian(epsilon, 2, 3 * UNIT)
    scale = drawn / 2**0.5
    weight = common * 3 * UNIT // 2  # a case of three steps weighs as one of four
    assert one == {"left"} | {("left", event) for event in around("A then B", weight, scale, weight)}
    assert other == {"taken"} | {("taken", event) for event in around("A then B", 0, scale, 0)}
    assert asked == [(gaussian(epsilon, 2), 1), (drawn, 16)]
    assert found.claim == Charge(epsilon, DELTA)


def test_a_trace_longer_than_any() -> None:
    """200 steps from A to C and 199 back of 401, so each weighs about a hundredth and the last one .15; its cells, and
    the context that it may open."""
    one, other, asked = shown("model")
    drawn = gaussian(EPSILON, 2, 3 * UNIT, DELTA)
    scale = drawn / 2**0.5
    there, back, last = (int(UNIT * 3 / (401 * repeats) ** 0.5) for repeats in (200, 199, 1))
    assert asked[0] == (drawn, 16)
    none: Shown = set()
    for cell in ((0, 2), (2, 0), (2, 3)):
        none |= around(cell, 0, scale)
    assert one == none
    assert other == (
        around((0, 2), 200 * there, scale)
        | around((2, 0), 199 * back, scale)
        | around((2, 3), last, scale)
        | {"A C is open"}
        | around("A C then A", 199 * back, scale)
    )


def test_a_case_that_decides_whether_variants_are_counted() -> None:
    """Without noise in the preview one case of A B more is enough: variants are counted, and the noise of the first
    level is another one. The model has three quarters of the Gaussian rho, and a 24th of that is the preview's."""
    whole = zcdp.rho_of(EPSILON, DELTA / 2)  # the threshold of variants has the other half of delta
    one, other, asked = shown("preview")
    preview, again = (zcdp.scale_of(rho, 3 * UNIT) for rho in (whole * 3 / 4 / 24, whole * (1 - Fraction(3, 4) / 24)))
    assert asked == [(preview, 16), (again, 16)]
    least = neighbours._Preview.of(EPSILON, DELTA, noise.simulated(1)).least_cases
    in_scales = least * 3 / 2 * UNIT / (preview / 2**0.5)
    assert 1 + math.log(4) / 2**0.5 <= in_scales < 1 + math.log(4) / 2**0.5 + 3 / 2 * UNIT / (preview / 2**0.5)
    ((without_levels, without_scale),) = [event for event in one if isinstance(event[0], int)]  # type: ignore[index]
    assert (without_levels, without_scale) == (1, round(zcdp.scale_of(whole, 3 * UNIT) / 2**0.5))
    ((_, with_scale),) = [event for event in other if isinstance(event[0], int)]  # type: ignore[index]
    assert with_scale > without_scale


def test_the_longest_trace_has_400_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C two hundred times over, in one log alone, in addition to the cases that both have."""
    seen, measure = [], contexts.measure

    def noted(variants: Any, counts: Any, *others: Any, **more: Any) -> Any:
        seen.append(dict(zip(variants, counts.tolist(), strict=True)))
        return measure(variants, counts, *others, **more)

    monkeypatch.setattr(contexts, "measure", noted)
    shown("model")
    assert seen == [{(0, 1): 200}, {(0, 1): 200, (0, 2) * 200: 1}]


def test_cases_near_a_candidate() -> None:
    """The only one of C C, or one more of A B, at the noise of a case."""
    one, other, asked = shown("weights", epsilon=Fraction(4))
    assert one == around("C C", 0, 0.25) | around("A B", 200, 0.25, 200)
    assert other == around("C C", 1, 0.25) | around("A B", 200, 0.25, 200)
    assert asked == [(0.25, 2)]
    one, other, _ = shown("nearest", epsilon=Fraction(4))
    assert one == around("C C", 0, 0.25) | around("A B", 200, 0.25, 200)
    assert other == around("C C", 0, 0.25) | around("A B", 201, 0.25, 200)


def test_all_that_the_longest_trace_adds() -> None:
    """As much as its cells may be together in L2, to within what rounding leaves, and at the edge of a bucket of its
    own. It has 401 steps: from A to C 200, back 199, the first and the last."""
    cells = {(0, 2): 200, (2, 0): 199, (2, 3): 1, (3, 0): 1}
    filled = {cell: steps * int(UNIT * 3 / (401 * steps) ** 0.5) for cell, steps in cells.items()}
    assert (3 * UNIT) ** 2 * 0.99 < sum(weight**2 for weight in filled.values()) <= (3 * UNIT) ** 2
    _, other, _ = shown("model")
    scale = gaussian(EPSILON, 2, 3 * UNIT, DELTA) / 2**0.5
    for cell in ((0, 2), (2, 0), (2, 3)):
        for halves in range(-4, 9):
            bound = round(halves * scale / 2)
            assert (cell, "at least" if filled[cell] >= bound else "below", bound) in other


def test_which_cases_are_near_a_candidate() -> None:
    """A C and C B are as near to A B as to C C, and go to the first; B C and C A share a place with C C alone."""
    log = EventLog.from_traces([(trace, None) for trace in ["AC"] * 100 + ["CB"] * 100 + ["CA", "BC"]])
    found = set(neighbours._Weights(Fraction(4), EqualNoise(seed=4))(log))
    assert found == around("A B", 200, 0.25, 200) | around("C C", 2, 0.25)


@pytest.mark.parametrize(
    ("stage", "person", "steps", "spans"),
    [
        ("times", 1, [29 * DAY], [29 * DAY]),
        ("times of many", 3, [29 * DAY] * 3, [29 * DAY] * 3),
        ("many times", 1, [29 * DAY] * 200, [399 * 29 * DAY]),
    ],
)
def test_steps_longer_than_any(stage: str, person: int, steps: list[int], spans: list[int]) -> None:
    """29 days where all others take an hour, under a bound of 30 and B = 1: the cells of the longest steps and of cases
    of 29 days, and both together, with noise for the person's cases."""
    one, other, asked = shown(stage, epsilon=Fraction(4))
    scale = zcdp.scale_of(zcdp.rho_of(Fraction(4), DELTA), UNIT * person * 3 // 2)
    assert asked == [(scale, 21 + 81)]
    assert one == around("long steps", 0, scale) | around("long cases", 0, scale) | around(
        "long steps and cases", 0, scale
    )
    # Three quarters of the square of 3 / 2 for steps, of which one weighs 1 at most; a quarter for the case.
    n_steps = len(steps) // person
    long_steps = person * n_steps * min(UNIT, int(UNIT * 1.5 * (3 / 4) ** 0.5 / n_steps))
    unit = UNIT * 3 // 4
    direction = _direction_of_long_cases()
    length = float(np.linalg.norm(direction))
    long_cases = round(sum(unit * float(_cells_of_case(span) @ direction) / length for span in spans))
    together = round((long_steps * UNIT + long_cases * unit * length) / math.hypot(UNIT, unit * length))
    expected = around("long steps", long_steps, scale) | around("long cases", long_cases, scale)
    assert other == expected | around("long steps and cases", together, scale)
    if spans[0] == 29 * DAY:
        assert together > 3 / 4 * 1.5 * UNIT * person, "three quarters of what a person may change"


def _cells_of_case(span: int) -> np.ndarray:
    """What a case of this throughput time adds to 81 cells, in parts of its weight."""
    series = np.asarray([math.comb(2 * k, k) / 4**k for k in range(81)])
    edges = PublicTimeBounds(30 * DAY).throughput_edges.tolist()
    first = max(place for place, edge in enumerate(edges[:-1]) if edge <= span)
    return np.concatenate((np.zeros(first), series[: 81 - first])) / np.linalg.norm(series)


def _direction_of_long_cases() -> np.ndarray:
    """The part of the cells of a case of 29 days that is orthogonal to those of cases of less than two
    days."""
    edges = PublicTimeBounds(30 * DAY).throughput_edges.tolist()
    shorter, _ = np.linalg.qr(np.asarray([_cells_of_case(edge) for edge in edges[:-1] if edge < 2 * DAY]).T)
    own = _cells_of_case(29 * DAY)
    return own - shorter @ (shorter.T @ own)
