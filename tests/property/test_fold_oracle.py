"""The fold against the slow oracle, cut for cut and projected log for projected log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold import Oracle
from tests.oracles.fold_runs import S, deltas, in_order, run

WINDOWS = [
    {"new_cases": 2},
    {"new_events": 4},
    {"completed_cases": 2},
    {"every": "5s", "time": "event"},
    {"every": "5s", "time": "event", "allowed_lateness": "2s"},
    {"every": "7s", "time": "wall"},
    {"new_events": 5, "every": "9s", "time": "wall"},
    {"events_per_case": {"x": 2}},
    {"events_per_case": {"x": 2, "fraction": 0.5, "max_wait": "6s"}},
    {"events_per_case": {"x": 2, "mode": "up_to", "max_wait": "4s"}},
    {"new_cases": 2, "events_per_case": {"x": 2}},
    {"new_events": 3, "events_per_case": {"x": 1, "mode": "up_to"}},
    {"every": "5s", "events_per_case": {"x": 2}},
    {"new_events": 3, "min_interval": "5s"},
    {"new_events": 3, "min_new_cases": 2},
    {"every": "5s", "min_new_cases": 1},
    {"every": "4s", "time": "wall", "min_interval": "6s", "skip_if_unchanged": True},
    {"every": "3s", "skip_if_unchanged": True},
    {"new_cases": 1, "skip_if_unchanged": True, "events_per_case": {"x": 2}},
    {"new_events": 3, "first": {"until": "1970-01-01T00:00:06Z"}},
    {"every": "5s", "first": {"until": "1970-01-01T00:00:06Z"}},
    {"new_cases": 1, "skip_if_unchanged": True, "first": {"until": "1970-01-01T00:00:06Z"}},
    {"every": "5s", "min_new_cases": 2, "first": {"until": "1970-01-01T00:00:06Z"}},
    {"every": "5s", "first": {"new_cases": 2}},
    {"new_cases": 1, "first": {"new_cases": 3}, "events_per_case": {"x": 1}},
    {"manual": True},
]


def of_a_configuration(made):
    """Whether check-config accepts the window.

    It refuses `events_per_case` alone for dp releases: the events say which cases are ready, ticks alone say which are
    complete, and one row could fire forever.
    """
    window, *_, private = made
    return not (private and window.only_events_per_case)


publications = st.lists(
    st.builds(
        lambda window, late, start, private: (read_window(window), late, start, private),
        st.sampled_from(WINDOWS),
        st.sampled_from(["next_release", "drop", "dlq"]),
        st.sampled_from([None, None, 0, 3 * S, 11 * S]),
        st.booleans(),
    ).filter(of_a_configuration),
    min_size=1,
    max_size=3,
).map(lambda made: tuple(PublicationRules(f"p{i}", *one) for i, one in enumerate(made)))


def rules(embedded):
    return st.builds(
        lambda pubs, ends, silence, together: FoldRules(
            pubs, ends, None if silence is None else silence * S, together, embedded=embedded
        ),
        publications,
        st.sampled_from([(), ("z",)]),
        st.sampled_from([None, 3, 8]),
        st.sampled_from([(), ("a", "b")]),
    )


event = st.tuples(st.integers(0, 4), st.sampled_from("abz"), st.integers(0, 4), st.booleans())


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=3)


@examples(250)
@given(rules(True), st.lists(event, max_size=40).map(in_order), sizes)
def test_embedded_cuts_and_logs_equal_the_oracle(made, rows, batch):
    """One partition in order, every trigger: the fold and the event-by-event oracle cut alike, for any batching."""
    oracle = Oracle(made)
    for row in rows:
        oracle.event(("log", 0), row)
    assert run(Fold(made), deltas("log", rows, batch)) == oracle.cuts


stream = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("AB"), event, st.integers(-6, 3)),
        st.tuples(st.just("tick"), st.integers(0, 5), st.none()),
    ),
    max_size=40,
)


def interleaved(items):
    """Two partitions in any order of time, and ticks that only advance: (source, row) or ("tick", at)."""
    clock, wall, offsets = {"A": 5, "B": 5}, 0, {"A": 0, "B": 0}
    for source, what, jump in items:
        if source == "tick":
            wall += what
            yield "tick", wall * S
            continue
        case, activity, gap, end = what
        clock[source] += gap
        time = max(0, clock[source] + (jump if jump < -3 else 0)) * S
        yield source, Row(offsets[source], f"c{case}", activity, time, None, None, None, end and activity == "b")
        offsets[source] += 1


@examples(250)
@given(rules(False), stream.map(lambda items: list(interleaved(items))), st.integers(1, 5))
def test_partitions_ticks_and_late_events_equal_the_oracle(made, items, batch):
    """Two partitions, times that go back, wall ticks: the fold and the oracle cut alike, duplicates thrown in."""
    oracle, records, seen = Oracle(made), [], {"A": [], "B": []}
    for source, what in items:
        if source == "tick":
            oracle.tick(what)
            records.append((len(records), Tick(at=what)))
            continue
        oracle.event((source, 0), what)
        # each record repeats up to `batch - 1` rows before the new one
        seen[source].append(what)
        rows = seen[source][-batch:]
        records.append((len(records), Delta(src=source, p=0, prev=-1, last=what.offset, n=len(rows), rows=rows)))
    assert run(Fold(made), records) == oracle.cuts
