"""The parts of the fold by themselves: each is whole when made, and owns its state."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from stream.config.window import read_window
from stream.fold.completion import Completions
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.state import CASE_COLUMNS, Partition
from stream.fold.triggers import NEVER, Clocks, TriggerClock
from tests.conftest import ROOT

S = 1_000_000_000
PLAIN = FoldRules(())
EMBEDDED = FoldRules((), embedded=True)


def partition(latest: int | None, active: int | None) -> Partition:
    return Partition(0, latest=latest, active=active)


@pytest.mark.parametrize(
    ("partitions", "idle_timeout", "watermark"),
    [
        ([partition(7 * S, 9 * S), partition(5 * S, 9 * S)], None, 5 * S),
        ([partition(7 * S, 9 * S), partition(5 * S, 2 * S)], 8 * S, 7 * S),
        ([partition(7 * S, S), partition(5 * S, S)], 8 * S, 10 * S),
        ([partition(7 * S, 9 * S), partition(None, None)], None, None),
        ([partition(7 * S, 9 * S), partition(None, 9 * S)], None, 7 * S),
    ],
    ids=["the least", "one is idle", "all are idle", "one was never heard of", "one reported and had no event"],
)
def test_the_watermark(partitions: list[Partition], idle_timeout: int | None, watermark: int | None) -> None:
    """The least event time of the partitions that are not idle, at 10 s."""
    clocks = Clocks(PLAIN, {("s", number): one for number, one in enumerate(partitions)}, 10 * S)
    assert clocks.read(idle_timeout) == TriggerClock(10 * S, watermark)


def test_a_clock_never_goes_back() -> None:
    """By ticks; and where event time is the clock, partitions go with it."""
    one = partition(3 * S, None)
    clocks = Clocks(PLAIN, {("s", 0): one})
    clocks.reach(5 * S)
    clocks.reach(4 * S)
    assert (clocks.now, one.latest, clocks.arrival) == (5 * S, 3 * S, 5 * S)
    embedded = Clocks(EMBEDDED, {("s", 0): one})
    embedded.reach(5 * S)
    embedded.reach(4 * S)
    assert (embedded.now, one.latest, embedded.arrival) == (5 * S, 5 * S, None)


def test_a_bound_passes_when_the_silent_partition_becomes_idle() -> None:
    """Ten seconds after it was heard; never without a timeout."""
    clocks = Clocks(PLAIN, {("s", 0): partition(20 * S, 9 * S), ("s", 1): partition(2 * S, 8 * S)}, 9 * S)
    assert clocks.passes(15 * S, 10 * S) == 18 * S
    assert clocks.passes(15 * S, None) == NEVER
    assert Clocks(EMBEDDED, {}, 9 * S).passes(15 * S, None) == 15 * S


def test_cases_complete_by_silence_one_after_the_other() -> None:
    """In order of their deadlines, and only where a trigger counts completions."""
    from stream.fold.state import ColumnTable

    counting = FoldRules((PublicationRules("p", read_window({"completed_cases": 5})),), inactivity=10 * S)
    cases = ColumnTable(CASE_COLUMNS)
    cases.stage({"last": [3 * S, S, 9 * S], "arrival": [3 * S, S, 9 * S]}, 3)
    cases.size = 3
    clocks = Clocks(counting, {}, 9 * S)
    found, completions = [], Completions(counting, cases, clocks)
    assert completions.next_deadline() == 11 * S
    clocks.tick(13 * S)
    while (case := completions.next_by_clock()) is not None:
        completions.close(case)
        found.append(case)
    assert found == [1, 0]
    assert cases["closed"].tolist() == [True, True, False]
    lazy = Completions(FoldRules((), inactivity=10 * S), cases, clocks)
    assert (lazy.next_by_clock(), lazy.next_deadline()) == (None, NEVER)
    assert np.array_equal(lazy.complete(TriggerClock(13 * S, None)), [True, True, False])


def test_no_part_inherits_another() -> None:
    """The fold owns its parts: no class of the room has a base class that is in the room, records aside."""
    classes = [
        (path.name, node)
        for path in sorted((ROOT / "stream" / "fold").glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    names = {node.name for _, node in classes}
    inherited = {
        (file, node.name, base.id)
        for file, node in classes
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in names
    }
    assert {one for one in inherited if one[0] != "records.py"} == {("state.py", "ActorCodes", "Codes")}
