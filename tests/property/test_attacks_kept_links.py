"""Links that go from release to release equal those listed from scratch."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from models.attacks import linkability
from models.attacks.linkability import Edges, KeptLinks, Runs
from models.attacks.numbering import Numbering
from models.attacks.shared_pairs import NumberedRelease, SharedPairs
from models.errors import InputError
from models.eventlog import EventLog, Ints, SimpleLog
from tests.oracles.attacks import least_n

CAP = 2


@pytest.mark.parametrize("seed", range(40))
def test_links_equal_those_from_scratch_over_random_series(seed: int) -> None:
    """Classes come, go, come back and change their order; nothing is listed that was known."""
    rng = random.Random(seed)
    relation = {(a, b): rng.randint(0, 5) for a in range(30) for b in range(30)}
    kept, before = KeptLinks(), set[tuple[int, int]]()
    one: list[int] = []
    two: list[int] = []
    for _ in range(12):
        one, two = (_changed(rng, keys) for keys in (one, two))
        asked = set[tuple[int, int]]()
        listed = partial(_asked, one, two, relation, asked)
        found = kept.move_on(np.asarray(one, dtype=np.int64), np.asarray(two, dtype=np.int64), listed)
        links = zip(*(column.tolist() for column in Edges(*found, CAP).links()), strict=True)
        assert list(links) == [
            (i, j, relation[a, b]) for i, a in enumerate(one) for j, b in enumerate(two) if relation[a, b] <= CAP
        ]
        joined = zip(found[2][:-1], found[1][1:], found[3][:-1], found[3][1:], strict=True)
        first_runs = set(found[0].tolist())
        for run, (end, begin, least, next_least) in enumerate(joined, 1):
            assert run in first_runs or end < begin or least != next_least  # no two runs could be one
        now = {(a, b) for a in one for b in two}
        assert asked == now - before
        before = now


def _asked(
    one: list[int], two: list[int], relation: dict[tuple[int, int], int], asked: set[tuple[int, int]], rows: Ints,
    others: Ints,
) -> Runs:  # fmt: skip
    own, other = [one[row] for row in rows], [two[row] for row in others]
    asked.update((a, b) for a in own for b in other)
    return _listed(own, other, relation)


def _changed(rng: random.Random, keys: list[int]) -> list[int]:
    now = [key for key in keys if rng.random() < 0.9]
    now += [key for key in rng.sample(range(30), rng.randint(0, 6)) if key not in now]
    if rng.random() < 0.3:
        rng.shuffle(now)
    return now


def _listed(one: list[int], two: list[int], relation: dict[tuple[int, int], int]) -> Runs:
    """Links by definition, each as a run of its own."""
    rows = [[(at, relation[a, b]) for at, b in enumerate(two) if relation[a, b] <= CAP] for a in one]
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    flat = [link for row in rows for link in row]
    later = np.asarray([at for at, _ in flat], dtype=np.int32)
    return start, later, later + np.int32(1), np.asarray([n for _, n in flat], dtype=np.uint8)


@pytest.mark.parametrize("seed", range(15))
def test_links_of_a_series_equal_the_plain_dynamic_programme(seed: int) -> None:
    """Real releases under one numbering, each compared with all before it; values come in another order each time."""
    rng = random.Random(seed)
    cases: list[tuple[str, str | None]] = []
    numbering, known = Numbering(), list[NumberedRelease]()
    for _ in range(5):
        cases = [(trace + rng.choice(["", "", "a", "b", "c"]), value) for trace, value in cases]
        cases = [case for case in cases if rng.random() < 0.95]
        cases += [
            ("".join(rng.choices("abcd", k=rng.randint(1, 4))), rng.choice(["x", "y", None]))
            for _ in range(rng.randint(2, 8))
        ]
        rng.shuffle(cases)
        log = SimpleLog.from_log(EventLog.from_traces(cases, "s"), ("s",))
        later = NumberedRelease(log, numbering.number(log, [""] * log.n_cases))
        against = SharedPairs(numbering, later, known, CAP)
        for one in known:
            given, _ = against.pair(one)
            words = [
                "".join(given.items[code] for code in given.linked.items[a:b])
                for a, b in pairwise(given.linked.start.tolist())
            ]
            rows, others, least = against.edges(one, given).links()
            found = {(i, j): n & 127 for i, j, n in zip(rows.tolist(), others.tolist(), least.tolist(), strict=True)}
            assert found == {
                (i, j): number
                for i, (u, v) in enumerate(zip(given.earlier.linked, given.earlier.value, strict=True))
                for j, (w, x) in enumerate(zip(given.later.linked, given.later.value, strict=True))
                if v == x and (number := least_n(words[u], words[w])) <= CAP
            }
        known.append(later)


def test_more_links_than_fit_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier results stay as they were, and each pair then lists its own links."""
    relation = {(a, b): 0 for a in range(4) for b in range(4)}
    kept = KeptLinks()
    few, many = np.arange(2), np.arange(4)
    kept.move_on(few, few, lambda one, two: _listed(one.tolist(), two.tolist(), relation))
    monkeypatch.setattr(linkability, "MOST_RUNS", 3)
    with pytest.raises(InputError):
        kept.move_on(many, many, lambda one, two: _listed(one.tolist(), two.tolist(), relation))
    rows, later, _ = Edges(*kept.runs, CAP).links()
    assert (kept.earlier.tolist(), rows.tolist(), later.tolist()) == ([0, 1], [0, 0, 1, 1], [0, 1, 0, 1])
