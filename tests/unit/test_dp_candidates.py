"""Candidates of dp-synthetic against definitions: the nearest one, the noise of cells, and chosen representatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest

from models.dp.synthesis import candidates
from models.dp.synthesis.table import VariantCounts
from models.dp.synthetic import Design
from models.errors import InputError
from models.eventlog import EventLog
from tests.oracles.dp import distance
from tests.unit.known_noise import NoisePerKey

Variant = tuple[int, ...]


def _variants(rng: np.random.Generator, size: int, labels: int = 4, longest: int = 7) -> list[Variant]:
    found: dict[Variant, None] = {}
    while len(found) < size:
        found[tuple(rng.integers(0, labels, rng.integers(0, longest + 1)).tolist())] = None
    return list(found)


@pytest.mark.parametrize("chunk", [1, 3, 7, 2000])
def test_a_variant_goes_to_its_nearest_candidate(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the nearest ones; however many are compared at once."""
    monkeypatch.setattr(candidates, "CHUNK", chunk)
    rng = np.random.default_rng(5)
    for _ in range(6):
        variants, there = _variants(rng, 7), _variants(rng, 5)
        expected = [
            min(range(len(there)), key=lambda place: (distance(variant, there[place]), place)) for variant in variants
        ]
        found = candidates.nearest(variants, there)
        assert found.dtype == np.int64
        assert found.tolist() == expected
    assert candidates.nearest([], [(1,)]).tolist() == []


def test_the_place_of_a_variant_does_not_depend_on_the_others() -> None:
    """Else one case could move another one to another cell. Lengths have many ratios at which a cutoff just
    holds."""
    rng = np.random.default_rng(11)
    variants = [(int(rng.integers(2)),) * n for n in range(1, 41)] + _variants(rng, 60, labels=3, longest=40)
    there = [(1,) * n for n in (40, 3, 8, 24, 16, 12, 9, 6, 33)] + _variants(rng, 30, labels=3, longest=40)
    together = candidates.nearest(variants, there).tolist()
    assert together == [candidates.nearest([variant], there).tolist()[0] for variant in variants]
    exact = [min(range(len(there)), key=lambda place: (distance(variant, there[place]), place)) for variant in variants]
    assert together == exact


def test_only_candidates_of_like_length_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of ten and eleven letters within .2: at most a letter beyond 8 to 13 (7 to 15), then the longer one
    within .3 (7 to 17) and .4 (6 to 20), then all. A variant with a candidate at just .2 is not compared again,
    and empty ones are so the last time only."""
    compared = []
    real = candidates.distances

    def recorded(rows: Sequence[str], columns: Sequence[str], cutoff: float) -> np.ndarray:
        compared.append(([len(row) for row in rows], [len(column) for column in columns], cutoff))
        return real(rows, columns, cutoff=cutoff)

    monkeypatch.setattr(candidates, "distances", recorded)
    monkeypatch.setattr(candidates, "CHUNK", 2)
    of_length = [(5,) * n for n in (6, 7, 15, 16, 30)]
    there = [*of_length[:2], (0,) * 8 + (2, 2), *of_length[2:]]
    assert candidates.nearest([(), (1,) * 11, (0,) * 10, ()], there).tolist() == [0, 0, 2, 0]
    every_length = [6, 7, 10, 15, 16, 30]
    assert compared == [
        ([10, 11], [7, 10, 15], 0.2),
        ([11], [7, 10, 15, 16], 0.3),
        ([11], [6, 7, 10, 15, 16], 0.4),
        ([0, 0], every_length, 1.0),
        ([11], every_length, 1.0),
    ]


def test_a_variant_that_is_a_candidate_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is nearest to itself, the first time that it is listed."""
    compared = []
    real = candidates.distances

    def recorded(rows: Sequence[str], columns: Sequence[str], cutoff: float) -> np.ndarray:
        compared.extend(rows)
        return real(rows, columns, cutoff=cutoff)

    monkeypatch.setattr(candidates, "distances", recorded)
    there = [(0, 1), (1, 1), (0, 1), ()]
    assert candidates.nearest([(0, 1), (1,), (), (1, 1)], there).tolist() == [0, 0, 3, 1]
    assert set(compared) == set(candidates._texts([(1,)]))


def test_small_cells_are_dropped_as_the_page_says() -> None:
    """docs/synthetic.md: below two scales of the noise, and below one for logs of few variants."""
    assert (candidates.DROP, candidates.LOW_DROP) == (2.0, 1.0)


def test_labels_are_characters_of_their_own() -> None:
    """One valid character each, also beyond the surrogates, and no two labels the same."""
    labels = [*range(300), *range(0xD700, 0xE100), 0x10000, 0x10F7FE]
    texts = candidates._texts([(label,) for label in labels])
    assert [len(text) for text in texts] == [1] * len(labels)
    assert len(set(texts)) == len(labels)
    assert "".join(texts) == "".join(texts).encode("utf-8").decode("utf-8")
    assert candidates._texts([(3, 0xD7FF, 3), (), (0xD7FF,)]) == [
        texts[3] + texts[labels.index(0xD7FF)] + texts[3],
        "",
        texts[labels.index(0xD7FF)],
    ]
    edge = [(0xD7FE,), (0xD7FF,), (0xD800,)]
    assert candidates.nearest(edge, edge).tolist() == [0, 1, 2]


def _table(**cases: int) -> VariantCounts:
    return VariantCounts.of(
        EventLog.from_traces([(trace, None) for trace, n in cases.items() for _ in range(n)]), "abcd"
    )


@pytest.mark.parametrize(("person", "epsilon"), [(1, Fraction(1, 2)), (3, Fraction(1))])
def test_cells_get_noise_and_small_ones_are_dropped(person: int, epsilon: Fraction) -> None:
    """Every candidate's cell, also the empty one, at scale c / epsilon; what reaches two scales stays, less is 0."""
    scale = int(person / epsilon)
    table = _table(ab=10, abb=5, cd=4, cdd=8, d=1)
    there = [(0, 1), (2, 3), (0, 0, 0, 0), (3,)]
    noise = [-15 + 2 * scale, -12 + 2 * scale - 1, 2 * scale, -5]
    source = NoisePerKey(noise)
    found = candidates.reweigh(table, there, epsilon, source, person)
    assert found.tolist() == [2 * scale, 0, 2 * scale, 0]
    assert found.dtype == np.int64
    assert source.asked == [(float(scale), 4)]


def test_cells_are_dropped_below_so_many_scales_as_are_asked_for() -> None:
    """One scale keeps what two would drop."""
    cells = candidates.reweigh(
        _table(ab=10, cd=3), [(0, 1), (2, 3), (9,)], Fraction(1, 10), NoisePerKey([0, 7, 9]), drop=1.0
    )
    assert cells.tolist() == [10, 10, 0]


def test_one_case_a_person_unless_said() -> None:
    """And what is not dropped is the cell's number of cases."""
    source = NoisePerKey()
    assert candidates.reweigh(_table(ab=10, cd=3, c=1), [(0, 1), (2, 3)], Fraction(1, 2), source).tolist() == [10, 4]
    assert source.asked == [(2.0, 2)]


def test_without_candidates_nothing_is_drawn() -> None:
    """No cell, no noise."""
    source = NoisePerKey()
    assert candidates.reweigh(_table(ab=3), [], Fraction(1), source).tolist() == []
    assert source.asked == []


def greedy(weights: Mapping[Variant, Fraction], taken: Sequence[Variant], most: int) -> tuple[list[Variant], Fraction]:
    """One after another the variant that lessens the weighted distance to what is there the most (at first 1 to
    nothing), the first of equal ones; and by how much two ever differed at least, where they did."""
    ranked = sorted(weights, key=lambda variant: -weights[variant])
    best = {one: min((distance(one, other) for other in taken), default=Fraction(1)) for one in weights}
    chosen: list[Variant] = []
    closest = Fraction(1)
    while len(chosen) < most:
        gains = {
            place: sum(n * max(best[one] - distance(one, ranked[place]), Fraction(0)) for one, n in weights.items())
            for place in range(len(ranked))
            if ranked[place] not in chosen
        }
        place = max(gains, key=lambda one: (gains[one], -one))
        closest = min([closest, *(gains[place] - gain for gain in gains.values() if gain != gains[place])])
        chosen.append(ranked[place])
        best = {one: min(best[one], distance(one, ranked[place])) for one in weights}
    return chosen, closest


def test_representatives_are_chosen_one_after_another() -> None:
    """The greedy choice, recomputed each time, of those that are not taken; all of them if there are no more."""
    rng = np.random.default_rng(11)
    for most in (1, 2, 4, 6):
        for taken in ([], [(0, 1, 2)], [(1, 1), (2, 2, 2, 2)]):
            drawn = {variant: int(n) for variant, n in zip(_variants(rng, 9), rng.integers(1, 90, 9), strict=True)}
            drawn |= dict.fromkeys(taken[:1], 500)
            rest = {variant: Fraction(n) for variant, n in drawn.items() if variant not in taken}
            expected, closest = greedy(rest, taken, most)
            assert closest > Fraction(1, 10**6), "choose another seed: floats could not distinguish these"
            assert candidates.representative(drawn, taken, most) == expected
            everything = candidates.representative(drawn, taken, 50)
            assert sorted(everything) == sorted(rest)
    assert candidates.representative({(0,): 5}, [], 0) == []
    assert candidates.representative({(0,): 5}, [(0,)], 3) == []


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_the_choice_goes_on_from_the_first_representatives(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all variants are among the first ones, the choice is the greedy one, however many are chosen first."""
    monkeypatch.setattr(candidates, "PART_OF_FIRST", part)
    rng = np.random.default_rng(5)
    for most in (2, 5, 8):
        drawn = {variant: int(n) for variant, n in zip(_variants(rng, 12), rng.integers(1, 90, 12), strict=True)}
        expected, closest = greedy({variant: Fraction(n) for variant, n in drawn.items()}, [], most)
        assert closest > Fraction(1, 10**6), "choose another seed: floats could not distinguish these"
        assert candidates.representative(drawn, [], most) == expected


def test_the_first_representatives_are_found_among_the_most_frequent_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent variant is alone; five others are near each other. Chosen among two variants, with their
    own cases only, it is the first one. The next one is then the one in the middle of the others."""
    drawn = {(0, 0, 0, 0): 9, (1, 1, 1, 1): 8, (1, 1, 1, 2): 7, (1, 1, 2, 1): 7, (1, 2, 1, 1): 7, (2, 1, 1, 1): 7}
    assert candidates.representative(drawn, [], 2) == [(1, 1, 1, 1), (0, 0, 0, 0)]
    monkeypatch.setattr(candidates, "FIRST", 2)
    monkeypatch.setattr(candidates, "PART_OF_FIRST", 0.5)
    assert candidates.representative(drawn, [], 2) == [(0, 0, 0, 0), (1, 1, 1, 1)]


def test_no_more_representatives_are_chosen_first_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design may ask for more than the first variants; each representative is chosen once."""
    monkeypatch.setattr(candidates, "FIRST", 3)
    drawn = dict.fromkeys(_variants(np.random.default_rng(3), 40), 1)
    chosen = candidates.representative(drawn, [], 30)
    assert len(set(chosen)) == len(chosen) == 30


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 100])
def test_distances_below_the_limit_of_a_text_are_computed(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that equal it may be 1 instead: they bring no text nearer. Limits are ratios at which a length just
    counts, and 0 and 1."""
    monkeypatch.setattr(candidates, "CHUNK", chunk)
    rng = np.random.default_rng(17)
    variants = list(dict.fromkeys(_variants(rng, 120, labels=3, longest=70)))
    texts = candidates._texts(variants)
    limits = rng.choice([0.0, 0.1, 0.2, 0.25, 1 / 3, 0.4, 0.5, 1.0], len(texts))
    order, between = candidates._compared(texts, texts[:40], limits)
    assert sorted(order.tolist()) == list(range(len(texts)))
    for row in range(40):
        for column, place in enumerate(order.tolist()):
            exact = distance(variants[row], variants[place])
            if exact < limits[place] - 1e-9:
                assert between[row, column] == pytest.approx(float(exact), abs=1e-6)
            else:
                assert between[row, column] >= limits[place] - 1e-6


def test_of_equal_representatives_the_more_frequent_then_the_first_drawn() -> None:
    """Four traces with nothing in common: each reaches itself alone."""
    drawn = {(0,): 4, (1,): 7, (2,): 7, (3,): 1}
    assert candidates.representative(drawn, [], 3) == [(1,), (2,), (0,)]


def test_a_design_has_no_more_candidates_than_the_pool() -> None:
    """As many as are compared: two thousand at small epsilon."""
    assert len(candidates._pool({(place,): 1 for place in range(3_000)}, candidates.POOL)[0]) == 2_000
    assert Design(candidates=2_000).candidates == 2_000
    with pytest.raises(InputError, match="between 1 and 2000"):
        Design(candidates=2_001)


def test_few_representatives_are_found_among_more_variants() -> None:
    """Two million comparisons, within 2,000 and 4,000 variants."""
    found = [candidates.pool_size(most) for most in (1, 500, 501, 800, 1_000, 2_000)]
    assert found == [4_000, 4_000, 3_992, 2_500, 2_000, 2_000]


@pytest.mark.parametrize("pool", [4, 5, 6, 9])
def test_the_less_frequent_half_of_the_pool_represents_the_others(pool: int) -> None:
    """The most frequent half weighs as it was drawn; the others of the pool share, in their proportion, what they and
    all that is left out weigh. Of equal frequency the first drawn come first."""
    times = [3, 1, 8, 1, 2, 3, 1, 6, 1]
    drawn = {(place,): n for place, n in enumerate(times)}
    order = [(2,), (7,), (0,), (5,), (4,), (1,), (3,), (6,), (8,)]
    ranked, weights = candidates._pool(drawn, pool)
    assert ranked == order[:pool]
    exact = [Fraction(drawn[variant]) for variant in order[:pool]]
    if pool < len(drawn):
        half = pool // 2
        left = sum(times) - sum(exact[:half])
        exact = exact[:half] + [n * left / sum(exact[half:]) for n in exact[half:]]
    assert weights.tolist() == pytest.approx([float(n) for n in exact])
    assert float(weights.sum()) == pytest.approx(sum(times))


def test_representatives_are_chosen_among_the_pool_that_is_asked_for() -> None:
    """The less frequent variant is in a pool of two, and not in one of one."""
    drawn = {(0,): 5, (0, 1): 4, (2, 3, 2): 3}
    assert candidates.representative(drawn, [(0,)], 1, 1) == [(0, 1)]
    assert candidates.representative(drawn, [(0,)], 1, 2) == [(2, 3, 2)]


def test_nearest_by_hand() -> None:
    """Normalised Levenshtein: abc is 1/3 from abd and 1/2 from abcdef; ties go to the first."""
    assert candidates.nearest([(0, 1, 2)], [(0, 1, 2, 3, 4, 5), (0, 1, 3)]).tolist() == [1]
    assert candidates.nearest([(0,), ()], [(1,), (2,)]).tolist() == [0, 0]


@pytest.mark.parametrize("cutoffs", [(1.0,), (0.0, 1.0), (0.25, 1.0), (0.2, 0.4, 1.0), (0.25, 0.5, 0.75, 1.0)])
def test_the_nearest_candidate_is_found_however_far_it_is(
    cutoffs: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances of 1/4, 2/4, 3/4 and 1 from the nearest of two candidates, and two ties; the second candidate is nearer
    to all but the last ones. Small distances are looked for first."""
    monkeypatch.setattr(candidates, "CUTOFFS", cutoffs)
    variants = [(1, 1, 1, 0), (1, 1, 0, 0), (1, 0, 0, 0), (2, 2, 2, 2), (3, 3, 1, 1)]
    assert candidates.nearest(variants, [(3, 3, 3, 3), (1, 1, 1, 1)]).tolist() == [1, 1, 1, 0, 0]


def test_representatives_are_among_the_frequent_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rare variant is half of a distance from both others, which are at 1 from each other: it is chosen
    if it may be. As many variants may be chosen as are asked for."""
    drawn = {(1, 3): 3, (4, 2): 3, (1, 2): 1}
    monkeypatch.setattr(candidates, "FREQUENT", 3)
    assert candidates.representative(drawn, [], 1) == [(1, 2)]
    monkeypatch.setattr(candidates, "FREQUENT", 1)
    assert candidates.representative(drawn, [], 1) == [(1, 3)]
    assert candidates.representative(drawn, [], 2) == [(1, 3), (4, 2)]


def test_representatives_are_spread() -> None:
    """The first one is nearest to the most; the next one comes from what it does not reach; none is taken already."""
    drawn = {(0, 1, 2, 3): 50, (0, 1, 2): 30, (7, 7, 7, 7): 20, (8, 8): 1}
    assert candidates.representative(drawn, [], 2) == [(0, 1, 2, 3), (7, 7, 7, 7)]
    assert candidates.representative(drawn, [(0, 1, 2, 3)], 1) == [(7, 7, 7, 7)]
