"""Counts on the distinct traces of a log are those of its cases one by one, in every structure of knowledge.

Random logs, as cases and as tables of variants (cases that represent several), with up to two sensitive attributes.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest

from models.anonymize.suppression import _losses_by_event, losses
from models.anonymize.tlkc import _within
from models.anonymize.view import TraceView, view_of_items
from models.eventlog import Column, Ints
from models.knowledge import Structure

NONE = np.iinfo(np.int64).max
STRUCTURES = get_args(Structure)


def given(rng: random.Random) -> tuple[Ints, list[list[Any]], list[list[Any]], Ints | None]:
    """Starts, the items of each case (some without any), classes of each case by attribute, cases behind each."""
    traces = [
        [rng.choice(["a", "b", ("c", 1), 7]) for _ in range(rng.randint(0, 5))] for _ in range(rng.randint(1, 30))
    ]
    classes = [[rng.choice(["x", "y", None]) for _ in traces] for _ in range(rng.randint(0, 2))]
    case_weights = np.asarray([rng.randint(1, 4) for _ in traces], dtype=np.int64) if rng.random() < 0.5 else None
    return (
        np.concatenate(([0], np.cumsum([len(one) for one in traces]))).astype(np.int64),
        traces,
        classes,
        case_weights,
    )


def seen(rng: random.Random, structure: Structure) -> tuple[TraceView, list[list[Any]], list[list[Any]], Ints | None]:
    """A random log as a view, and what it was made of."""
    starts, traces, classes, case_weights = given(rng)
    column = Column.encode([item for trace in traces for item in trace])
    sensitive = {f"s{number}": Column.encode(one) for number, one in enumerate(classes)}
    return view_of_items(starts, column, structure, sensitive, case_weights), traces, classes, case_weights


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(30))
def test_rows_are_the_distinct_traces_with_their_classes(structure: Structure, seed: int) -> None:
    """In the order of their first cases, with every event in its place and every case counted."""
    view, traces, classes, case_weights = seen(random.Random(f"{structure}{seed}"), structure)
    rank = {item: code for code, item in enumerate(view.alphabet)}
    index: dict[Any, int] = {}
    weight: list[int] = []
    for case, trace in enumerate(traces):
        codes = [rank[item] for item in trace]
        if structure in ("set", "mult"):
            codes = sorted(set(codes) if structure == "set" else codes)
        key = (tuple(codes), tuple(one[case] for one in classes))
        row = index.setdefault(key, len(index))
        if row == len(weight):
            weight.append(0)
        weight[row] += 1 if case_weights is None else int(case_weights[case])
        assert view.row_of_case[case] == row
    rows = [tuple(view.codes[a:b].tolist()) for a, b in pairwise(view.starts.tolist())]
    values: list[tuple[Any, ...]] = [()] * len(rows)
    if classes:
        values = []
        for codes_of_row in view.values.T.tolist():
            pairs = zip(codes_of_row, view.classes, strict=True)
            values.append(tuple(None if code < 0 else names[code] for code, names in pairs))
    assert list(zip(rows, values, strict=True)) == list(index)
    assert view.weight.tolist() == weight
    assert [view.alphabet[code] for code in view.item_of_event.tolist()] == [item for one in traces for item in one]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(30))
def test_losses_are_those_of_each_event(structure: Structure, seed: int) -> None:
    """Row by row, and event by event."""
    view, traces, _, case_weights = seen(random.Random(f"{structure}{seed}"), structure)
    found = [one.tolist() for one in losses(view)]
    assert found == [one.tolist() for one in _losses_by_event(view)]
    weights = [1] * len(traces) if case_weights is None else case_weights.tolist()
    for item, own in zip(view.alphabet, found, strict=True):
        most = max(trace.count(item) for trace in traces)
        assert own == [sum(w for w, one in zip(weights, traces, strict=True) if one.count(item) >= t)
                       for t in range(1, most + 1)]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("caps", [(0, NONE), (0, 1, 2, NONE)])
def test_events_within_caps(seed: int, caps: tuple[int, ...]) -> None:
    """The first so many of each item in a case, whether items go whole or are capped."""
    rng = random.Random(seed)
    view, traces, _, _ = seen(rng, "mult")
    limit = np.asarray([rng.choice(caps) for _ in view.alphabet], dtype=np.int64)
    of = dict(zip(view.alphabet, limit.tolist(), strict=True))
    wanted = [one[:place].count(item) < of[item] for one in traces for place, item in enumerate(one)]
    assert _within(view, limit).tolist() == wanted
