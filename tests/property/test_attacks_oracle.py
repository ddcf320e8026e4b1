"""The correspondence attacks against enumeration of all linkers, and what must hold of every pair of releases."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.attacks.candidates import candidate_values, cracks_by_value
from models.attacks.correspondence import AttackQuestion, PairAttack, anonymity, enumerated_minima, every_candidate
from models.attacks.linkability import Edges, edges
from models.attacks.linker import base_linkers
from models.attacks.pairs import ReleasePair, encode, join_releases
from models.attacks.true_linker import true_linker
from models.eventlog import EventLog, SimpleLog
from tests.conftest import examples
from tests.oracles import attacks as oracle

ALPHABET = "ab"
TRACES = st.text(ALPHABET, min_size=0, max_size=3)
RELAXED = examples(60)


def simple(records: list[oracle.Record]) -> SimpleLog:
    return SimpleLog.from_log(EventLog.from_traces([(tuple(t), v) for t, v in records]), ("sensitive",))


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[oracle.Record], list[oracle.Record]]:
    """Two small releases; the later one has at least as many records."""
    records = st.tuples(TRACES, st.sampled_from(["X", None]))
    earlier = draw(st.lists(records, min_size=1, max_size=3))
    grown = [(trace + draw(st.text(ALPHABET, max_size=2)), own) for trace, own in earlier]
    return earlier, grown + draw(st.lists(records, max_size=2))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_random_pairs_agree_with_all_linkers(seed: int) -> None:
    """On 2,000 random pairs M, B and the existence of a linker are those of the enumeration of all linkers."""
    rng = random.Random(seed)

    def trace() -> str:
        return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 3)))

    for _ in range(500):
        earlier = [(trace(), rng.choice("XXY")) for _ in range(rng.randint(1, 4))]
        later = [(trace() if rng.random() < 0.5 else s + trace(), v) for s, v in earlier]
        later += [(trace(), rng.choice("XXY")) for _ in range(rng.randint(0, 2))]
        n, bk = rng.randint(0, 2), "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 3)))
        joined = join_releases(simple(earlier), simple(later), foreign=True)
        audit = PairAttack(joined, len(bk), [n], "exact", "realisable")
        (base,) = base_linkers(joined, audit.linkable, [n])
        expected = oracle.cracks(earlier, later, bk, n, ALPHABET)
        assert base.exists == (expected is not None)
        if expected:
            code = encode(joined, [a if a in joined.alphabet else "*" for a in bk])
            found = candidate_values(audit.valuer(base), code)
            assert tuple(found[name] for name in ("ms1", "ms2", "f", "c", "b")) == expected


@RELAXED
@given(releases(), st.integers(0, 2))
def test_minima_agree_with_all_linkers(logs: tuple[list[oracle.Record], list[oracle.Record]], n: int) -> None:
    """Branch and bound finds the least realisable values of the enumeration."""
    earlier, later = logs
    letters = "".join(sorted({letter for trace, _ in earlier + later for letter in trace}))
    if not letters:
        return
    expected = oracle.least(earlier, later, 3, n, letters)
    (found,) = anonymity(simple(earlier), simple(later), bk_length=3, n=[n]).results
    if expected is None:
        assert found.linker == "none"
        assert set(found.values.values()) == {None}
    else:
        assert {name: found.values[name] for name in expected} == expected


@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_search_misses_no_candidate(n: int) -> None:
    """On 60 pairs of up to 60 records, least values are those of the list of every candidate, and so is their bk."""
    rng = random.Random(n)
    letters = "abcd"
    for _ in range(60):
        base = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 5))) for _ in range(rng.randint(5, 12))]
        earlier = [(trace, rng.choice("XXY")) for trace in base for _ in range(rng.randint(1, 5))]
        later = [(trace + rng.choice(["", "", *letters]), own) for trace, own in earlier]
        later += [(rng.choice(base), "X") for _ in range(rng.randint(0, 6))]
        logs = simple(earlier), simple(later)
        (found,) = anonymity(*logs, bk_length=4, n=[n]).results
        rows = {
            tuple(symbols[code] for code in bk if code >= 0): values.tolist()
            for _, symbols, codes, listed in every_candidate(AttackQuestion(bk_length=4, n=[n]), *logs)
            for bk, values in zip(codes.tolist(), listed, strict=True)
        }
        for name, left in LEFT.items():
            least = min((value for row in rows.values() if (value := left(row)) >= 1), default=None)
            assert found.values[name] == least
            assert least is None or left(rows[tuple(found.worst[name])]) == least


LEFT: dict[str, Callable[[list[int]], int]] = {
    "ka1": lambda row: row[0],
    "ka2": lambda row: row[1],
    "fa": lambda row: row[0] - row[2],
    "ca": lambda row: row[1] - row[3],
    "ba": lambda row: row[1] - row[4],
}
"""Remaining cases, by (ms1, ms2, F, C, B)."""


@RELAXED
@given(TRACES, TRACES, st.integers(0, 3))
def test_closed_form_of_linkability(s1: str, s2: str, n: int) -> None:
    """The closed form says linkable exactly where some originals are prefixes of each other (Def. 9)."""
    assert (oracle.least_n(s1, s2) <= n) == oracle.linkable(s1, s2, n, ALPHABET)


MANY_LETTERS = "".join(map(chr, range(0x100, 0x100 + 150)))
"""More letters than a word has bits."""


@pytest.mark.parametrize(
    ("longest", "cap", "letters"),
    [
        (8, 3, "abc"),
        (70, 2, "abc"),
        (70, 60, "abc"),
        (150, 20, "abc"),
        (200, 127, "abc"),
        (5, 1, MANY_LETTERS),
        (12, 4, MANY_LETTERS),
    ],
)
def test_every_linkable_pair_is_listed_with_its_least_n(longest: int, cap: int, letters: str) -> None:
    """The bit-parallel lists hold the pairs of the plain dynamic programme within cap, also where traces fill several
    words and share long beginnings; they mark the subsequences, and no two runs could be one."""
    rng = random.Random(longest + cap)
    stems = ["".join(rng.choice(letters) for _ in range(longest)) for _ in range(12 if len(letters) > 64 else 3)]

    def trace() -> str:
        stem = rng.choice(stems)[: rng.randint(0, longest)]
        return "".join(letter for letter in stem if rng.random() > rng.choice([0, 0.02, 0.3])) + rng.choice(letters) * 2

    logs = [[(trace(), rng.choice("XY")) for _ in range(size)] for size in (25, 30)]
    joined = join_releases(*(simple(records) for records in logs))
    found = edges(joined, cap)
    words = ["".join(joined.items[code] for code in joined.linked.items[a:b]) for a, b in pairwise(joined.linked.start)]
    wanted = {}
    for i, (one, value1) in enumerate(zip(joined.earlier.linked, joined.earlier.value, strict=True)):
        for j, (other, value2) in enumerate(zip(joined.later.linked, joined.later.value, strict=True)):
            if value1 == value2 and (least := oracle.least_n(words[one], words[other])) <= cap:
                wanted[i, j] = least + 128 * oracle.embeds(words[one], words[other])
    rows, later, listed = (column.tolist() for column in found.links())
    assert dict(zip(zip(rows, later, strict=True), listed, strict=True)) == wanted
    assert len(rows) == len(wanted)
    assert _are_longest(found, joined)


def _are_longest(found: Edges, joined: ReleasePair) -> bool:
    """Whether each run holds rows, in one sensitive value, and neighbours in a row differ in their least n."""
    start, begin, end, least = found.runs
    value = joined.later.value
    holds_rows = bool((begin < end).all() and (value[begin] == value[end - 1]).all())
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    touches = (row[:-1] == row[1:]) & (end[:-1] == begin[1:])
    ascends = (row[:-1] != row[1:]) | (end[:-1] <= begin[1:])
    return holds_rows and bool(ascends.all() and (least[:-1][touches] != least[1:][touches]).all())


@RELAXED
@given(releases(), st.integers(0, 2), st.text(ALPHABET, min_size=1, max_size=3), st.sampled_from(ALPHABET))
def test_bounds_of_exact(logs: tuple[list[oracle.Record], list[oracle.Record]], n: int, bk: str, more: str) -> None:
    """FA = CA; 0 <= BA <= |L2| - |L1|; no value grows with bk; `sound` never cracks more; values add up."""
    joined = join_releases(simple(logs[0]), simple(logs[1]), foreign=True)
    audits = {kind: PairAttack(joined, 4, [n], kind, "all") for kind in ("exact", "sound")}  # type: ignore[arg-type]
    (base,) = base_linkers(joined, audits["exact"].linkable, [n])
    if not base.exists:
        return
    codes = [encode(joined, [a if a in joined.alphabet else "*" for a in text]) for text in (bk, bk + more)]
    found, longer = (candidate_values(audits["exact"].valuer(base), code) for code in codes)
    sound = candidate_values(audits["sound"].valuer(base), codes[0])
    assert found["fa"] == found["ca"]
    assert 0 <= found["ba"] <= len(logs[1]) - len(logs[0])
    assert all(longer[name] <= found[name] for name in ("ms1", "ms2", "fa", "ca", "ba"))
    assert all(sound[name] <= found[name] for name in ("f", "c", "b"))
    parts = cracks_by_value(audits["exact"].valuer(base), codes[0]).sum(axis=0)
    assert parts.tolist() == [found["f"], found["c"], found["b"]]


@RELAXED
@given(releases(), st.integers(0, 2))
@example(([("ab", "X")], [("ab", "X"), ("cb", "X")]), 0)
def test_all_takes_what_matches_in_one_release(logs: tuple[list[oracle.Record], list[oracle.Record]], n: int) -> None:
    """`all` is the least over every bk with a case in one of the releases, so never above `realisable`, by search and
    by list; `common` is the least over those with cases in both."""
    letters = "".join(sorted({letter for trace, _ in logs[0] + logs[1] for letter in trace}))
    rows = [
        found
        for size in (1, 2)
        for bk in product(letters, repeat=size)
        if (found := oracle.cracks(*logs, "".join(bk), n, letters)) is not None
    ]
    found = {
        minimum: anonymity(simple(logs[0]), simple(logs[1]), bk_length=2, n=[n], minimum=minimum).results[0]
        for minimum in ("realisable", "all", "common")
    }
    if not rows:
        return
    for name in ("fa", "ca", "ba"):
        left = LEFT[name]
        assert found["all"].values[name] == min((left(row) for row in rows if row[0] or row[1]), default=None)
        assert found["common"].values[name] == min((left(row) for row in rows if row[0] and row[1]), default=None)
        least = found["realisable"].values[name]
        assert least is None or found["all"].values[name] <= least
    given = join_releases(simple(logs[0]), simple(logs[1]))
    audit = PairAttack(given, 2, [n], "exact", "all")
    (base,) = base_linkers(given, audit.linkable, [n])
    best, _ = enumerated_minima(audit.valuer(base), 2, "all")
    assert [int(v) for v in best[4:]] == [found["all"].values[name] for name in ("fa", "ca", "ba")]


@RELAXED
@given(releases(), st.integers(0, 2))
@example(([("ba", "X"), ("aaaa", "Y")], [("a", "X"), ("aaa", "Y")]), 1)
def test_proportions_are_of_one_background_knowledge(
    logs: tuple[list[oracle.Record], list[oracle.Record]], n: int
) -> None:
    """fc, cc and bc are the cracked share of the matching set of the bk that `worst` names."""
    letters = "".join(sorted({letter for trace, _ in logs[0] + logs[1] for letter in trace}))
    row = anonymity(simple(logs[0]), simple(logs[1]), bk_length=2, n=[n]).results[0].json()
    for name, own, crack in (("fa", 0, 2), ("ca", 1, 3), ("ba", 1, 4)):
        if row["worst"][name] is None:
            assert row[f"{name[0]}c"] is None
            continue
        found = oracle.cracks(*logs, "".join(row["worst"][name]), n, letters)
        assert found is not None
        assert 0 <= row[f"{name[0]}c"] < 1
        assert row[f"{name[0]}c"] == pytest.approx(found[crack] / found[own])


@RELAXED
@given(releases(), st.integers(0, 3))
def test_true_linker_is_never_above_exact(logs: tuple[list[oracle.Record], list[oracle.Record]], n: int) -> None:
    """With the real partners known an adversary keeps at most what every linker keeps (later = earlier, grown)."""
    earlier, later = simple(logs[0]), simple(logs[1])
    exact = anonymity(earlier, later, bk_length=2, n=[n], minimum="all").results[0]
    real = true_linker(earlier, later, np.arange(len(logs[0])), bk_length=2, n=[n], minimum="all").results[0]
    for name in ("fa", "ca", "ba"):
        theirs, ours = real.values[name], exact.values[name]
        assert (theirs is None) == (ours is None)
        assert theirs is None or ours is None or theirs <= ours
