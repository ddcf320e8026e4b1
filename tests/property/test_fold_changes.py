"""Changes since a saved state, applied to that state, give the present state: byte for byte, over random streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Config, Delta, Heartbeat, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.fold.snapshot import Marks, merged
from tests.conftest import examples
from tests.oracles.fold_runs import S
from tests.property.test_fold_oracle import WINDOWS, of_a_configuration

PARTITIONS = [("s", 0), ("s", 1), ("t", 0)]
ONCE = PublicationRules("once", read_window({"every": "6s", "time": "wall"}), start=0, private=True, once=True)
CAPPED = PublicationRules(
    "capped", read_window({"every": "4s", "time": "wall"}), start=0, private=True, once=True, most_cases=1
)

values = st.one_of(st.none(), st.integers(-3, 3), st.booleans(), st.sampled_from(["x", "y", [1], 1 << 70, 0.5]))
row = st.fixed_dictionaries(
    {
        "case": st.integers(0, 6),
        "activity": st.sampled_from("abcz"),
        "at": st.integers(-4, 3),
        "resource": st.sampled_from([None, "r1", "r2"]),
        "who": st.sampled_from([None, "p0", "p1"]),
        "of": st.sampled_from(["case", "event"]),
        "name": st.sampled_from(["k", "l"]),
        "value": values,
        "id": st.one_of(st.none(), st.integers(0, 12)),
        "end": st.booleans(),
    }
)
step = st.one_of(
    st.tuples(st.just("delta"), st.integers(0, 2), st.lists(row, max_size=6)),
    st.tuples(st.just("delta"), st.integers(0, 2), st.lists(row, max_size=6)),
    st.tuples(st.just("delta"), st.integers(0, 2), st.lists(row, max_size=6)),
    st.tuples(st.just("tick"), st.integers(0, 9), st.none()),
    st.tuples(st.just("lost"), st.integers(0, 2), st.none()),
    st.tuples(st.just("idle"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("command"), st.sampled_from(["release", "pause", "resume", "accept", "rewind"]), st.none()),
    st.tuples(st.just("erase"), st.integers(0, 8), st.none()),
    st.tuples(st.just("config"), st.integers(0, 1), st.none()),
)


LIVELY: list[tuple[int, str, st.SearchStrategy[Any], st.SearchStrategy[Any]]] = [
    (8, "delta", st.integers(0, 2), st.lists(row, min_size=1, max_size=6)),
    (5, "tick", st.integers(0, 9), st.none()),
    (3, "command", st.sampled_from(["release", "resume", "accept"]), st.none()),
    (1, "command", st.sampled_from(["pause", "rewind"]), st.none()),
    (1, "lost", st.integers(0, 2), st.none()),
    (1, "idle", st.integers(0, 2), st.booleans()),
    (1, "erase", st.integers(0, 8), st.none()),
    (1, "config", st.integers(0, 1), st.none()),
]
"""How often a kind of step comes, and what it has. Most gaps and pauses end soon. After few steps of `step` a gap is
open, and then nothing is released, so few of its streams release a case and go on."""


def lively_step(*kinds: str) -> st.SearchStrategy[Any]:
    """A step of a stream that goes on releasing; `kinds`: of these kinds alone. None are filtered out afterwards."""
    return st.one_of(
        *(
            st.tuples(st.just(kind), subject, more)
            for times, kind, subject, more in LIVELY
            if not kinds or kind in kinds
            for _ in range(times)
        )
    )


publications = st.lists(
    st.builds(
        lambda window, late, private: (read_window(window), late, None, private),
        st.sampled_from(WINDOWS),
        st.sampled_from(["next_release", "drop", "dlq"]),
        st.booleans(),
    ).filter(of_a_configuration),
    max_size=2,
).map(lambda made: tuple(PublicationRules(f"p{i}", *one) for i, one in enumerate(made)))
rules = st.builds(
    lambda some, once, ends, together, silence, retention: FoldRules(
        (*some, *once), ends, silence, together, retention=retention, person="who"
    ),
    publications,
    st.sampled_from([(), (ONCE,), (CAPPED,)]),
    st.sampled_from([(), ("z",)]),
    st.sampled_from([(), ("a", "b")]),
    st.sampled_from([None, 3 * S, 8 * S]),
    st.sampled_from([None, None, None, 5 * S]),
)


def records(steps: list[Any], other: tuple[FoldRules, FoldRules]) -> Iterator[AnyRecord]:
    """The steps as records: times about the wall clock, offsets rising in each partition."""
    wall, last = 10, dict.fromkeys(PARTITIONS, -1)
    for kind, what, more in steps:
        name = PARTITIONS[what] if kind in ("delta", "lost", "idle") else PARTITIONS[0]
        if kind == "delta":
            rows = [_row(last[name] + 1 + i, one, wall) for i, one in enumerate(more)]
            yield Delta(src=name[0], p=name[1], prev=last[name], last=last[name] + len(rows), n=len(rows), rows=rows)
            last[name] += len(rows)
        elif kind == "lost":
            last[name] += 2
        elif kind == "idle":
            yield Heartbeat(src=name[0], p=name[1], at=wall * S, last=last[name] if more else None)
        elif kind == "tick":
            wall += what
            yield Tick(at=wall * S)
        elif kind == "erase":
            yield Command(name="erase", arguments={"cases": [f"c{what}"]})
        elif kind == "config":
            yield Config(body=other[what].to_mapping())
        elif what in ("accept", "rewind"):
            yield Command(name="gap", arguments={"action": what})
        else:
            yield Command(name=what)


def _row(offset: int, one: dict[str, Any], wall: int) -> Row:
    given: dict[str, dict[str, Any]] = {one["of"]: {one["name"]: one["value"]}}
    if one["who"] is not None:
        given.setdefault("case", {})["who"] = one["who"]
    time, name = max(0, wall + one["at"]) * S, None if one["id"] is None else f"e{one['id']}"
    return Row(offset, f"c{one['case']}", one["activity"], time, one["resource"], given, name, one["end"])


class Kept:
    """A state as a base and changes; `n_changes`: number of all changes that were written."""

    def __init__(self) -> None:
        self.base, self.log, self.n_changes = b"", list[bytes](), 0
        self.marks: Marks | None = None

    def save(self, fold: Fold) -> None:
        change = None if self.marks is None else fold.changes(self.marks)
        if change is None:
            self.base, self.log = fold.snapshot(), []
        else:
            self.log.append(change.patches)
            self.n_changes += 1
        self.marks = fold.marks()

    def whole(self) -> bytes:
        return merged(self.base, self.log)


@examples(150)
@given(rules, st.tuples(rules, rules), st.lists(st.tuples(step, st.booleans()), max_size=40), st.data())
def test_a_base_and_its_changes_are_the_state(
    made: FoldRules, other: tuple[FoldRules, FoldRules], steps: list[Any], data: st.DataObject
) -> None:
    """Cuts, late events, gaps, erasures, retention, new rules, attributes, event ids: anything between two saves;
    and a fold that is restored from them continues as the one that was saved."""
    fold, kept = Fold(made), Kept()
    saved = [flag for _, flag in steps]
    for position, record in enumerate(records([one for one, _ in steps], other)):
        for cut in fold.apply(position, record):
            fold.decided(cut, released=data.draw(st.booleans()))
        if saved[position]:
            kept.save(fold)
            assert kept.whole() == fold.snapshot()
            if data.draw(st.integers(0, 9)) == 0:
                fold = Fold.restore(kept.whole())
                kept.marks = None


def test_a_change_holds_what_came_and_not_what_is_there() -> None:
    """A hundred times as large a state, the same change: no more bytes. (The rules guarantee a change to
    report.)"""
    sizes = []
    for before in (100, 10_000):
        window = read_window({"manual": True})
        fold, kept = Fold(FoldRules((PublicationRules("p", window),), person="who")), Kept()
        _fold(fold, 0, before)
        kept.save(fold)
        _fold(fold, before, before + 50)
        list(fold.apply(before + 60, Command(name="pause")))
        kept.save(fold)
        assert kept.whole() == fold.snapshot()
        assert kept.n_changes == 1
        sizes.append(len(kept.log[0]))
    assert sizes[1] < 1.2 * sizes[0]  # longer names, wider offsets


def _fold(fold: Fold, begin: int, end: int) -> None:
    rows = [
        Row(i, f"case{i // 5}", "ab"[i % 2], i * S, f"r{i % 3}", {"event": {"n": i}, "case": {"who": "me"}}, f"e{i}")
        for i in range(begin, end)
    ]
    list(fold.apply(begin, Delta(src="s", p=0, prev=begin - 1, last=end - 1, n=len(rows), rows=rows)))
