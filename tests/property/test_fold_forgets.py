"""Events of released cases are dropped, and nothing that a cut shows or counts depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import PropertyMock, patch

from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold import completion
from stream.fold.fold import Fold
from stream.fold.forgotten import DIGEST_BYTES, DigestSet
from stream.fold.records import AnyRecord, Delta, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold_runs import S, cases_that_leave, shown
from tests.property.test_fold_changes import Kept, lively_step, records

ALWAYS, NEVER = 1 << 40, -1
"""Values of `FORGET_SHARE`: drop after each decision, and only when the fold must (erasure, retention, new rules)."""

WALL = [
    {"every": "6s", "time": "wall"},
    {"every": "3s", "time": "wall", "min_interval": "5s"},
    {"new_events": 4},
    {"new_cases": 2},
    {"manual": True},
    {"every": "4s", "time": "wall", "skip_if_unchanged": True},
]
COUNTING = [{"completed_cases": 1}, {"completed_cases": 3}, {"completed_cases": 2, "min_interval": "4s"}]


def _publications(windows: list[dict[str, Any]]) -> st.SearchStrategy[tuple[PublicationRules, ...]]:
    publication = st.tuples(
        st.sampled_from(windows),
        st.sampled_from(["next_release", "drop", "dlq"]),
        st.sampled_from([None, 1]),
        st.booleans(),
    )
    return st.lists(publication, min_size=1, max_size=2).map(
        lambda made: tuple(
            PublicationRules(
                f"p{number}",
                read_window(window),
                late,
                start=0 if "every" in window else None,
                private=not waits,
                once=True,
                most_cases=None if waits else most,
                waits=waits,
            )
            for number, (window, late, most, waits) in enumerate(made)
        )
    )


def _rules(windows: list[dict[str, Any]], retention: st.SearchStrategy[int | None]) -> st.SearchStrategy[FoldRules]:
    return st.builds(
        lambda publications, ends, together, silence, keep: FoldRules(
            publications, ends, silence, together, retention=keep, person="who"
        ),
        _publications(windows),
        st.sampled_from([(), ("z",)]),
        st.sampled_from([(), ("a", "b")]),
        st.sampled_from([None, 3 * S, 8 * S]),
        retention,
    )


any_retention = st.sampled_from([None, None, 2 * S, 9 * S])
events_and_time = lively_step("delta", "tick")
streams = st.lists(lively_step(), min_size=10, max_size=50)


@contextmanager
def share(value: int) -> Iterator[None]:
    """Use another share of droppable events."""
    with patch.object(completion, "FORGET_SHARE", value):
        yield


def observed(fold: Fold, position: int, record: AnyRecord) -> list[Any]:
    """Everything that a record brings: cuts with content and counts, dead letters, deadline and accounting."""
    found: list[Any] = []
    for cut in fold.apply(position, record):
        projection = fold.exposed(cut)
        found.append((cut.id, cut.ordinal, dict(cut.counts), dict(cut.accumulated), shown(cut, projection)))
        fold.decided(cut, released=cut.ordinal % 3 != 0, shown=cases_that_leave(cut, projection))
    found += [list(fold.dead_letters), fold.next_deadline()]
    fold.dead_letters.clear()
    for name in fold.publications:
        accounting = fold.accounting(name)
        assert accounting["seen"] == accounting["exposed"] + accounting["pending"] + accounting["late"]
        del accounting["cases"]  # cases in memory
        found.append(accounting)
    return found


@examples(150)
@given(
    _rules([*WALL, *COUNTING], any_retention),
    st.tuples(*[_rules([*WALL, *COUNTING], any_retention)] * 2),
    streams,
    st.integers(0, 50),
)
def test_when_events_are_dropped_changes_nothing(
    made: FoldRules, other: tuple[FoldRules, FoldRules], steps: list[Any], stop: int
) -> None:
    """After each decision, or as late as possible: the same cuts, counts, dead letters and deadlines. Late events,
    repeated ids, gaps, erasures, retention and new rules between; and a restart of one of both folds."""
    eager, lazy = Fold(made), Fold(made)
    for position, record in enumerate(records(steps, other)):
        with share(ALWAYS):
            of_eager = observed(eager, position, record)
        with share(NEVER):
            of_lazy = observed(lazy, position, record)
        assert of_eager == of_lazy
        if position == stop:
            eager = Fold.restore(eager.snapshot())


@examples(120)
@given(_rules(WALL, st.none()), st.lists(events_and_time, min_size=10, max_size=50))
def test_a_fold_that_forgets_equals_one_that_keeps_everything(made: FoldRules, steps: list[Any]) -> None:
    """Without a trigger that counts completions: cuts and counts are those of a fold that knows no settled case."""
    steps = [_without_ids(one) for one in steps]
    forgetting, keeping = Fold(made), Fold(made)
    for position, record in enumerate(records(steps, (made, made))):
        with share(ALWAYS):
            of_forgetting = observed(forgetting, position, record)
        with patch.object(FoldRules, "forgets", new_callable=PropertyMock, return_value=False):
            assert of_forgetting == observed(keeping, position, record)


def _without_ids(one: tuple[str, Any, Any]) -> tuple[str, Any, Any]:
    """Without event ids: an event of a released case that is sent again counts as late here, and as repeated there."""
    kind, what, more = one
    if kind != "delta":
        return one
    return kind, what, [{**row, "id": None} for row in more]


@examples(120)
@given(_rules([*WALL, *COUNTING], any_retention), streams, st.integers(0, 50))
def test_a_restart_changes_nothing(made: FoldRules, steps: list[Any], stop: int) -> None:
    """With the usual share, whatever was dropped: the same observations, and in the end the same bytes."""
    undisturbed, restarted = Fold(made), Fold(made)
    for position, record in enumerate(records(steps, (made, made))):
        assert observed(undisturbed, position, record) == observed(restarted, position, record)
        if position == stop:
            restarted = Fold.restore(restarted.snapshot())
    assert restarted.snapshot() == undisturbed.snapshot()


@examples(80)
@given(_rules([*WALL, *COUNTING], any_retention), streams, st.lists(st.booleans(), min_size=50))
def test_changes_of_a_forgetting_state_are_the_state(made: FoldRules, steps: list[Any], saved: list[bool]) -> None:
    """A base and its changes, byte for byte, though rows leave at every decision."""
    fold, kept = Fold(made), Kept()
    with share(ALWAYS):
        for position, record in enumerate(records(steps, (made, made))):
            observed(fold, position, record)
            if saved[position % len(saved)]:
                kept.save(fold)
                assert kept.whole() == fold.snapshot()


@examples(80)
@given(
    _rules([{"new_cases": 2}, {"new_events": 3}, *COUNTING], st.none()),
    st.lists(lively_step(), min_size=4, max_size=12),
    st.data(),
)
def test_how_events_are_divided_into_records_changes_nothing(
    made: FoldRules, steps: list[Any], data: st.DataObject
) -> None:
    """One partition, one record for all rows, or any other division: the same cuts, and the same repeated rows."""
    rows = [
        row
        for one in records([one for one in steps if one[0] == "delta" and one[1] == 0], (made, made))
        for row in one.rows
    ]
    end = data.draw(st.integers(0, len(rows)))
    found = []
    for size in (max(1, len(rows)), 1, max(1, end)):
        fold, cuts = Fold(made), []
        list(fold.apply(0, Tick(at=S)))
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            last = part[0].offset - 1
            delta = Delta(src="s", p=0, prev=last, last=part[-1].offset, n=len(part), rows=part)
            for cut in fold.apply(begin + 1, delta):
                projection = fold.exposed(cut)
                cuts.append((cut.ordinal, dict(cut.counts), shown(cut, projection)))
                fold.decided(cut, released=True, shown=cases_that_leave(cut, projection))
        accounting = fold.accounting("p0")
        del accounting["cases"]
        found.append((cuts, accounting))
    assert found[0] == found[1] == found[2]


digests = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES) | st.integers(0, 3).map(
    lambda number: b"same..eq" + bytes(7) + bytes([number])
)


@examples(100)
@given(st.lists(st.tuples(st.booleans(), st.lists(digests, max_size=6)), max_size=8), st.lists(digests, max_size=6))
def test_a_set_of_digests_is_a_set(changes: list[tuple[bool, list[bytes]]], asked: list[bytes]) -> None:
    """Adding and removing in any order, digests with equal first halves too; its bytes are sorted and read back."""
    expected, compact = set[bytes](), DigestSet()
    for add, some in changes:
        if add:
            expected.update(some)
            compact.update(some)
        else:
            expected.difference_update(some)
            compact.difference_update(some)
    asked = [*asked, *expected]
    assert len(compact) == len(expected)
    assert compact.contains(asked).tolist() == [one in expected for one in asked]
    assert compact.to_bytes() == b"".join(sorted(expected))
    assert DigestSet(compact.to_bytes()).to_bytes() == compact.to_bytes()
