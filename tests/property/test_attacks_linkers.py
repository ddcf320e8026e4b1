"""Linkers on larger random pairs against the maximum flow of scipy: how many records find a partner, from which n."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from models.attacks.correspondence import anonymity
from models.attacks.linkability import LEAST, edges
from models.attacks.linker import base_linkers
from models.attacks.pairs import ReleasePair, join_releases
from models.eventlog import EventLog, SimpleLog

MOST_N = 12
LETTERS = "abcdef"


def simple(records: list[tuple[str, str]]) -> SimpleLog:
    return SimpleLog.from_log(EventLog.from_traces([(tuple(trace), value) for trace, value in records]), ("sensitive",))


def releases(rng: random.Random) -> tuple[SimpleLog, SimpleLog]:
    """Traces that grew and lost some of their events since, so that linkers begin to exist at some n."""
    size = rng.randint(20, 120)
    earlier = [("".join(rng.choices(LETTERS, k=rng.randint(1, MOST_N))), rng.choice("XXXY")) for _ in range(size)]
    lost = rng.choice([0.05, 0.2, 0.5])
    later = [("".join(a for a in trace if rng.random() > lost), value) for trace, value in earlier]
    later += [("".join(rng.choices(LETTERS, k=rng.randint(1, 4))), rng.choice("XY")) for _ in range(rng.randint(0, 9))]
    return simple(earlier), simple(later)


def most_placed(
    given: ReleasePair, n: int, value: int | None = None, outside: npt.NDArray[np.bool_] | None = None
) -> int:
    """The most records of the earlier release (of one sensitive value) with a partner of their own: a maximum flow.

    `outside`: bool[later rows], rows whose records may be partners; by default all.
    """
    rows, later, least = edges(given, n).links()
    rows1, rows2 = len(given.earlier.count), len(given.later.count)
    own = given.earlier.count * (given.earlier.value == value if value is not None else 1)
    source, sink = rows1 + rows2, rows1 + rows2 + 1
    matrix = np.zeros((sink + 1, sink + 1), dtype=np.int32)
    matrix[source, :rows1] = own
    matrix[rows1:source, sink] = given.later.count if outside is None else given.later.count * outside
    within = (least & LEAST) <= n
    matrix[rows[within], rows1 + later[within]] = given.earlier.n_cases
    return int(maximum_flow(csr_array(matrix), source, sink).flow_value)


@pytest.mark.parametrize("seed", range(3))
def test_as_many_records_are_placed_as_a_maximum_flow_places(seed: int) -> None:
    """For each n in turn, from the linker of the n before; and what is linked keeps to counts and to links."""
    rng = random.Random(seed)
    exists = set()
    for _ in range(15):
        given = join_releases(*releases(rng))
        linkable = edges(given, 4)
        for base in base_linkers(given, linkable, range(5)):
            assert given.earlier.n_cases - base.unplaced == most_placed(given, base.n)
            exists.add(base.exists)
            links = base.links()
            rows, later, least_ns = (column.tolist() for column in linkable.links())
            least = {(i, j): n & LEAST for i, j, n in zip(rows, later, least_ns, strict=True)}
            assert all(least[i, j] <= base.n for i, j, _ in links.tolist())
            sent = np.bincount(links[:, 0], weights=links[:, 2], minlength=len(given.earlier.count))
            taken = np.bincount(links[:, 1], weights=links[:, 2], minlength=len(given.later.count))
            assert np.array_equal(sent + base.excess, given.earlier.count)
            assert np.array_equal(taken + base.linker.free, given.later.count)
    assert exists == {True, False}


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1))])
def test_as_many_records_become_free_as_a_maximum_flow_leaves(seed: int) -> None:
    """For small and large matching sets; a smaller `enough` ends the search early, and `undo` takes all moves back.

    Seed 2 has pairs that need a second search.
    """
    rng = random.Random(seed)
    moves = 0
    for _ in range(15):
        given = join_releases(*releases(rng))
        n_rows = len(given.later.count)
        for base in base_linkers(given, edges(given, 4), range(5)):
            if not base.exists:
                continue
            links, free = sorted(base.links().tolist()), base.linker.free.copy()
            for share in (0.05, 0.3, 0.9):
                inside = np.asarray([rng.random() < share for _ in range(n_rows)], dtype=np.bool_)
                ms2 = int(given.later.count[inside].sum())
                most_free = ms2 - given.earlier.n_cases + most_placed(given, base.n, outside=~inside)

                assert base.most_free(inside, ms2) == most_free
                sent = np.bincount(base.links()[:, 1], weights=base.links()[:, 2], minlength=n_rows)
                assert np.array_equal(sent + base.linker.free, given.later.count)
                assert int(base.linker.free[inside].sum()) == most_free
                moves += most_free - int(free[inside].sum())
                base.undo()

                enough = max(1, most_free // 2)
                assert base.most_free(inside, enough) >= min(enough, most_free)
                base.undo()
                assert sorted(base.links().tolist()) == links
                assert np.array_equal(base.linker.free, free)
    assert moves > 50


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_least_n_is_the_first_that_places_all(seed: int) -> None:
    """Also where the audit asks for several n at once; and the witness of each value is short of partners."""
    rng = random.Random(seed)
    found: set[int | None] = set()
    for _ in range(15):
        logs = releases(rng)
        given = join_releases(*logs)
        for result in anonymity(*logs, bk_length=1, n=[0, 1, 3]).results:
            for own in result.obstacles:
                assert own.earlier > own.later
                value = given.values.index(own.value)
                records = int(given.earlier.count[given.earlier.value == value].sum())
                enough = (n for n in range(MOST_N + 1) if most_placed(given, n, value) == records)
                assert own.least_n == next(enough, None)
                assert own.least_n is None or own.least_n > result.n
                found.add(own.least_n)
    assert len(found) > 4
