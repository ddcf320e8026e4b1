"""Publications with a dp promise: what they show, and when, is nobody else's doing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Delta, Heartbeat, Row, Tick, without_cases
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold import Oracle
from tests.oracles.fold_runs import S, deltas, in_order, run
from tests.property.test_fold_equalities import records_of
from tests.property.test_fold_oracle import event, interleaved, sizes, stream

END = 210 * S
WALL = [
    {"every": "7s", "time": "wall"},
    {"every": "4s", "time": "wall", "min_interval": "6s"},
    {"every": "5s", "time": "wall", "first": {"until": "1970-01-01T00:00:06Z"}},
]
TUMBLING = [{"every": "5s"}, {"every": "5s", "allowed_lateness": "2s"}]


def private(windows):
    """Rules of one or two publications with a dp promise, their windows counted from a public moment."""
    publication = st.tuples(
        st.sampled_from(windows), st.sampled_from(["next_release", "drop"]), st.sampled_from([0, 3 * S, 11 * S])
    )
    return st.builds(
        lambda made, ends, silence, keep, embedded: FoldRules(
            tuple(
                PublicationRules(f"p{i}", read_window(window), late, start, private=True)
                for i, (window, late, start) in enumerate(made)
            ),
            ends,
            silence,
            retention=keep,
            embedded=embedded,
        ),
        st.lists(publication, min_size=1, max_size=2),
        st.sampled_from([(), ("z",)]),
        st.sampled_from([None, 3 * S, 8 * S]),
        st.sampled_from([None, 2 * S, 20 * S]),
        st.just(windows is TUMBLING),
    )


@examples(60)
@given(private(TUMBLING), st.lists(event, max_size=40).map(in_order), sizes)
def test_retention_by_a_simulated_clock_equals_the_oracle(made, rows, batch):
    """Cases leave a dp publication by their own last event, and what comes to them later stays away."""
    oracle = Oracle(made)
    for row in rows:
        oracle.event(("log", 0), row)
    oracle.tick(END)
    records = [*deltas("log", rows, batch), (len(rows), Tick(at=END))]
    assert run(Fold(made), records) == oracle.cuts


@examples(80)
@given(private(WALL), stream.map(lambda items: [*interleaved(items), ("tick", END)]), st.integers(0, 40))
def test_retention_by_ticks_equals_the_oracle(made, items, stop):
    """The same in the daemon: two partitions, times that go back, ticks, and a restart anywhere."""
    oracle = Oracle(made)
    for source, what in items:
        if source == "tick":
            oracle.tick(what)
        else:
            oracle.event((source, 0), what)
    first, records = Fold(made), list(records_of(items))
    before = run(first, records[:stop])
    assert before + run(Fold.restore(first.snapshot()), records[stop:]) == oracle.cuts


def moments_and_others(made, records, case):
    """Every cut's publication, trigger, window and moment, and what it shows of everybody but `case`."""
    fold, found = Fold(made), []
    for position, record in records:
        for cut in fold.apply(position, record):
            log = fold.exposed(cut).log
            traces = {
                name: tuple(zip(trace, log.time[a:b].tolist(), strict=True))
                for name, trace, a, b in zip(log.case_ids, log.traces(), log.starts[:-1], log.starts[1:], strict=True)
            }
            traces.pop(case, None)
            found.append((cut.publication, cut.trigger, cut.window, cut.time_ns, traces))
            fold.decided(cut, released=True)
    return found


jump = st.one_of(st.integers(-6, 3), st.sampled_from([-1000, 1000]))


@examples(100)
@given(
    private(WALL),
    stream.map(lambda items: [*interleaved(items), ("tick", END)]),
    st.lists(st.tuples(st.integers(0, 4), jump), max_size=3),
)
def test_a_person_moves_no_moment_and_nobody_else(made, items, far):
    """Wall windows: with and without one case, however far its events are in the past or the future, the same moments
    and the same log of all others. Two partitions; the case may be the only one of its partition."""
    records = []
    for position, record in records_of(items):
        records.append((position, record))
        if isinstance(record, Tick):
            records.append((position, Heartbeat(src="A", p=0, at=record.at)))
    offset = 1000
    for place, (where, when) in enumerate(far):
        row = Row(offset + place, "c0", "a", max(0, 50 + when) * S)
        extra = Delta(src="B", p=0, prev=-1, last=row.offset, n=1, rows=[row], wm=row.time_ns)
        records.insert(len(records) * where // 5, (0, extra))
    without = [(at, without_cases(one, ["c0"]) if isinstance(one, Delta) else one) for at, one in records]
    assert moments_and_others(made, records, "c0") == moments_and_others(made, without, "c0")


@examples(60)
@given(private(TUMBLING), st.lists(event, max_size=40).map(in_order), st.integers(0, 4))
def test_a_person_moves_no_moment_of_a_replay(made, rows, who):
    """Event-time windows of a replay that begins at `start` and ends at a given moment."""
    case = f"c{who}"
    rest = [row for row in rows if row.case != case]
    both = [
        moments_and_others(made, [*deltas("log", some, [7]), (len(rows), Tick(at=END))], case) for some in (rows, rest)
    ]
    assert both[0] == both[1]
    assert {(cut[0], cut[2][1]) for cut in both[0]} == {
        (one.name, end)
        for one in made.publications
        for end in range(one.start + 5 * S, END - one.window.allowed_lateness + 1, 5 * S)
    }
