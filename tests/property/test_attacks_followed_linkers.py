"""The exact attacks, followed from earlier release to earlier release, are what each pair gives alone.

Random series: cases join, grow, are hidden, change their sensitive value and leave; releases are written again by
erasure. Values, background knowledge, groups and witnesses must be equal, and every answer must have come the way that
is tested.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from models.attacks import shared_pairs, totals
from models.attacks.linkability import LEAST
from models.attacks.linker import BaseLinker, base_linkers, scratch_for
from models.attacks.obstacles import evident_obstacles, obstacles
from models.attacks.pairs import ReleasePair
from models.attacks.search import Minimum
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import knowledge_of
from stream.release.audits.comparison import Comparison
from tests.property.test_attacks_against import Series, fresh

NS = (0, 1, 2)


def compared_with(candidate: ReleaseRecord, earlier: list[ReleaseRecord]) -> Comparison:
    """The candidate and earlier releases; background knowledge is about activities."""
    return Comparison(candidate, earlier, NS[-1], knowledge_of(candidate.carries, ("activity",)))


def alone(compared: Comparison, one: ReleaseRecord, length: int, minimum: Minimum) -> list[Any]:
    """The answers of one pair by itself."""
    audit = compared.alone_with(one, length, NS, "exact", minimum)
    return [result.json() for result in audit.run().results]


def without_witness(rows: list[Any]) -> list[Any]:
    """Of several witnesses the first in the order of variants is named, and that depends on what was numbered first."""
    return [{key: value for key, value in row.items() if key != "witness"} for row in rows]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counters of each way of the computation: a linker existed, a witness was evident, the pair was computed alone."""
    counted: Counter[str] = Counter()
    evident, unlinkable = shared_pairs.evident_obstacles, shared_pairs._unlinkable

    def noted(given: ReleasePair, base: BaseLinker) -> Any:
        found = evident(given, base)
        counted["not evident" if found is None else "evident"] += 1
        return found

    def without(ns: Any, *given: Any) -> Any:
        counted["linker"] += len(NS) - len(ns)
        return unlinkable(ns, *given)

    monkeypatch.setattr(shared_pairs, "evident_obstacles", noted)
    monkeypatch.setattr(shared_pairs, "_unlinkable", without)
    return counted


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("block", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("minimum", ["realisable", "all", "common"])
# 0 has sensitive values, 3 has times.
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3]
)
def test_what_is_followed_equals_each_pair_alone(
    length: int, block: int, minimum: Minimum, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without sensitive values, with times that knowledge is not about, where cases leave or are hidden."""
    monkeypatch.setattr(shared_pairs, "BLOCK", block)
    rng = random.Random(f"{length}{block}{minimum}{seed}")
    series, kept = Series(rng, values=seed % 2 == 0, timed=seed == 3), list[ReleaseRecord]()
    hidden, leaves = rng.choice([(0.0, 0.0), (0.05, 0.0), (0.1, 0.1)])
    for number in range(1, 8):
        series.grow(rng.randint(1, 25))
        if rng.random() < 0.2:
            kept = [fresh(one) for one in kept]
        for _attempt in range(rng.choice([1, 1, 2])):
            candidate = series.release(number, hidden=hidden, leaves=leaves)
            compared = compared_with(candidate, kept)
            found = compared.followed(length, NS, minimum)
            assert (found is None) == (len(kept) < 2)
            for one, results in zip(kept, found or [], strict=found is not None):
                rows = [result.json() for result in results]
                assert rows == alone(compared, one, length, minimum)
                copy = fresh(one)
                own = alone(compared_with(fresh(candidate), [copy]), copy, length, minimum)
                assert without_witness(rows) == without_witness(own)
        kept.append(candidate)
        if rng.random() < 0.2:
            gone = {rng.choice(list(series.cases))}
            series.erased |= gone
            kept = [release_record.without_cases(one, gone) if gone & set(one.log.case_ids) else one for one in kept]


def test_all_ways_are_gone(ways: Counter[str]) -> None:
    """Records that are hidden again in every release have no link, and others are shared by too many."""
    rng, records = random.Random(8), list[ReleaseRecord]()
    series = Series(rng, values=True)
    for number in range(1, 12):
        series.grow(15)
        records.append(series.release(number, hidden=0.0 if number % 2 else 0.05, leaves=0.0))
        compared_with(records[-1], records[:-1]).followed(2, NS, "realisable")
    assert min(ways["linker"], ways["evident"], ways["not evident"]) > 0, ways


@pytest.mark.parametrize("seed", range(20))
def test_an_evident_witness_is_that_of_every_linker(seed: int) -> None:
    """Linkers built over rows in random order: the first row that any of them leaves is the one that is named."""
    rng = random.Random(seed)
    series = Series(rng, values=seed % 2 == 0)
    series.grow(40)
    earlier = series.release(1, hidden=0.0, leaves=0.0)
    series.grow(10)
    candidate = series.release(2, hidden=0.1, leaves=0.1)
    audit = compared_with(candidate, [earlier]).alone_with(earlier, 1, NS, "exact", "realisable")
    for base in base_linkers(audit.pair, audit.linkable, NS):
        if base.exists:
            continue
        wanted = obstacles(audit.pair, base, None, NS[-1])
        found = evident_obstacles(audit.pair, base)
        start, _, _, least = base.linkable.runs
        value, left = audit.pair.earlier.value, base.excess > 0
        rows = [int(np.flatnonzero((value == own) & left)[0]) for own in np.unique(value[left])]
        bare = [not (least[start[row] : start[row + 1]] & LEAST <= base.n).any() for row in rows]
        if found is None:
            continue
        assert found == wanted
        assert all(bare)


def test_one_earlier_release_is_counted_by_itself() -> None:
    """There is nothing to follow."""
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2)]
    assert compared_with(records[1], records[:1]).followed(2, NS, "realisable") is None


def test_too_many_candidates_are_counted_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table, nothing to follow."""
    monkeypatch.setattr(totals, "MOST_COLUMNS", 3)
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2, 3)]
    assert compared_with(records[2], records[:2]).followed(2, NS, "realisable") is None


def test_a_linker_that_moved_places_every_record_it_can() -> None:
    """After each move the linker holds the records of that release, each at most once, and only linkable ones."""
    rng, records = random.Random(4), list[ReleaseRecord]()
    series = Series(rng, values=True)
    for number in range(1, 7):
        series.grow(20)
        records.append(series.release(number, hidden=0.05, leaves=0.05))
    against = compared_with(records[-1], records[:-1]).against
    assert against is not None
    numberings = [against.shared_classes(against.earlier[2:]), against.shared_classes(against.earlier[:3])]
    wholes = [(numberings[place < 2], against.pair_among(numberings[place < 2], against.earlier[place])[0])
              for place in range(4, -1, -1)]  # fmt: skip
    (followed,) = shared_pairs.FollowedLinker.each(wholes[0][1], numberings[0], [1], 10**4)
    for together, given in wholes:
        scratch = scratch_for(len(given.earlier.count), len(given.later.count))
        base, linkable = followed.move_to(given, together, scratch), together.linkable
        links = base.links()
        placed = np.bincount(links[:, 0], links[:, 2], len(given.earlier.count)).astype(np.int64)
        taken = np.bincount(links[:, 1], links[:, 2], len(given.later.count)).astype(np.int64)
        assert (placed + base.excess == given.earlier.count).all()
        assert (taken + base.linker.free == given.later.count).all()
        assert (base.linker.free >= 0).all()
        rows, later, least_ns = (column.tolist() for column in linkable.links())
        least = {(i, j): n & LEAST for i, j, n in zip(rows, later, least_ns, strict=True)}
        for i, j, _ in links.tolist():
            assert least[i, j] <= 1
            assert given.earlier.value[i] == given.later.value[j]
        (scratch_built,) = base_linkers(given, linkable, [1])
        assert base.unplaced == scratch_built.unplaced == int(base.excess.sum())
