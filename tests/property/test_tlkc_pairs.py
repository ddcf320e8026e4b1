"""The table of pairs of items against the walk through parents, and both against a plain count."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from models.anonymize import violations
from models.anonymize.view import TraceView, view_of_items
from models.anonymize.violations import BELOW_K, TlkcBounds, minimal_violations, single_items
from models.eventlog import Column
from models.knowledge import Structure


def seen(rng: random.Random, structure: Structure, attributes: int) -> TraceView:
    """Some cases with repeated items, empty traces and missing classes."""
    traces = [[rng.choice("abcdef") for _ in range(rng.choice([0, 1, 3, 7]))] for _ in range(rng.randint(1, 40))]
    starts = np.concatenate(([0], np.cumsum([len(trace) for trace in traces]))).astype(np.int64)
    items = Column.encode(item for trace in traces for item in trace)
    classes = {
        f"s{number}": Column.encode(rng.choice(["x", "y", "z", None]) for _ in traces) for number in range(attributes)
    }
    return view_of_items(starts, items, structure, classes)


@pytest.mark.parametrize("structure", ["set", "mult", "seq"])
@pytest.mark.parametrize("attributes", [0, 1, 2])
def test_pairs_in_one_pass_are_those_of_the_walk(
    structure: Structure, attributes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supports, reasons, order and counts are the same for every L, with shares and without."""
    rng = random.Random(f"{structure}{attributes}")
    found = 0
    for _ in range(60):
        given = seen(rng, structure, attributes)
        bounds = TlkcBounds.of(rng.randint(1, 4), rng.randint(1, 6), Fraction(rng.randint(1, 4), 4))
        fast = minimal_violations(given, bounds)
        monkeypatch.setattr(violations, "CELLS", 0)
        slow = minimal_violations(given, bounds)
        monkeypatch.undo()
        assert (fast.surviving, fast.counted) == (slow.surviving, slow.counted)
        for one, other in zip(fast.levels, slow.levels, strict=True):
            assert one.candidates.tolist() == other.candidates.tolist()
            assert one.support.tolist() == other.support.tolist()
            assert one.reason.tolist() == other.reason.tolist()
            assert (one.candidates.dtype, one.support.dtype) == (other.candidates.dtype, other.support.dtype)
        found += len(fast.levels[-1]) if bounds.L > 1 else 0
    assert found


@pytest.mark.parametrize("attributes", [0, 1, 2])
def test_small_candidates_are_counted_as_a_reader_of_the_definition_counts_them(attributes: int) -> None:
    """Items alone, and minimal violating pairs, by going through all cases for each candidate (Def. 14-16)."""
    rng = random.Random(attributes)
    for _ in range(40):
        given = seen(rng, "seq", attributes)
        bounds = TlkcBounds.of(2, rng.randint(1, 6), Fraction(rng.randint(1, 4), 4))
        width = len(given.alphabet)
        wanted = {one: _wrong(given, one, bounds) for size in (1, 2) for one in product(range(width), repeat=size)}
        minimal = {
            one: reason
            for one, (support, reason) in wanted.items()
            if support and reason and (len(one) == 1 or not any(wanted[item,][1] for item in one))
        }
        found = minimal_violations(given, bounds)
        listed = {
            tuple(candidate): reason
            for level in found.levels
            for candidate, reason in zip(level.candidates.tolist(), level.reason.tolist(), strict=True)
        }
        assert listed == minimal
        supports = {item: wanted[item,][0] for item in range(width) if wanted[item,][0]}
        alone = single_items(given, bounds)
        assert dict(zip(alone.candidates[:, 0].tolist(), alone.support.tolist(), strict=True)) == supports


def _wrong(given: TraceView, candidate: tuple[int, ...], bounds: TlkcBounds) -> tuple[int, int]:
    """(cases that match, what is wrong: 0, 1 below K, 2 above C)."""
    rows = []
    for row in range(len(given.weight)):
        rest = iter(given.codes[given.starts[row] : given.starts[row + 1]].tolist())
        if all(item in rest for item in candidate):
            rows.append(row)
    support = int(given.weight[rows].sum())
    if support < bounds.K:
        return support, BELOW_K
    for value, names in zip(given.values, given.classes, strict=True):
        for code in range(len(names)):
            if sum(int(given.weight[row]) for row in rows if value[row] == code) > bounds.C * support:
                return support, 2
    return support, 0
