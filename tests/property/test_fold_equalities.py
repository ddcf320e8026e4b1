"""Batching, interleaving and restarts, which must not change a cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold_runs import S, in_order, run
from tests.property.test_fold_oracle import event, interleaved, rules, stream


def records_of(items):
    """The items of `interleaved` as one record each."""
    for position, (source, what) in enumerate(items):
        if source == "tick":
            yield position, Tick(at=what)
        else:
            before = what.offset - 1
            yield position, Delta(src=source, p=0, prev=before, last=what.offset, n=1, rows=[what])


@examples(120)
@given(rules(False), stream.map(lambda items: list(interleaved(items))), st.data())
def test_a_restart_at_any_record_changes_nothing(made, items, data):
    """Snapshot and restore at any record: the same cuts and, at the end, the same bytes as the undisturbed run."""
    records = list(records_of(items))
    stop = data.draw(st.integers(0, len(records)))
    undisturbed, first = Fold(made), Fold(made)
    expected = run(undisturbed, records)
    cuts = run(first, records[:stop])
    raw = first.snapshot()
    second = Fold.restore(raw)
    assert second.snapshot() == raw
    assert cuts + run(second, records[stop:]) == expected
    assert second.snapshot() == undisturbed.snapshot()


TUMBLING = [
    {"every": "5s"},
    {"every": "5s", "allowed_lateness": "2s"},
    {"every": "3s", "skip_if_unchanged": True},
    {"every": "5s", "min_new_cases": 2},
    {"every": "4s", "first": {"until": "1970-01-01T00:00:06Z"}},
]


@examples(120)
@given(
    st.sampled_from(TUMBLING),
    st.sampled_from([None, 4 * S]),
    st.lists(event, max_size=20).map(in_order),
    st.lists(event, max_size=20).map(in_order),
    st.data(),
)
def test_event_time_windows_do_not_see_how_partitions_interleave(window, silence, one, two, data):
    """Any interleaving that keeps each partition's order gives the same windows, logs, completions and counts."""
    made = FoldRules(
        (PublicationRules("p", read_window(window)),),
        end_activities=("z",),
        inactivity=silence,
        sources=(("A", 0), ("B", 0)),
    )
    # both partitions continue to the same moment, so that every window closes in every interleaving
    closing = [Row(len(rows), f"last {name}", "a", 200 * S) for name, rows in (("A", one), ("B", two))]
    queues = {"A": [*one, closing[0]], "B": [*two, closing[1]]}

    def cuts(order):
        left = {name: list(rows) for name, rows in queues.items()}
        items = [(name, left[name].pop(0)) for name in order]
        found = run(Fold(made), records_of(items))
        # how much is pending depends on what has arrived beyond the window: not part of a window's content
        return [(*cut[:5], {**cut[5], "pending": None}) for cut in found]

    names = ["A"] * len(queues["A"]) + ["B"] * len(queues["B"])
    assert cuts(data.draw(st.permutations(names))) == cuts(names)


RULES = [{"x": 1}, {"x": 2}, {"x": 3, "fraction": 0.5}, {"x": 2, "max_wait": "4s"}, {"x": 2, "mode": "up_to"}]


@examples(120)
@given(
    st.sampled_from(RULES),
    st.sampled_from([{}, {"new_cases": 1}, {"new_events": 3}]),
    st.lists(event, max_size=40).map(in_order),
)
def test_exposed_prefixes_grow_by_exactly_x_or_the_remainder(rule, other, rows):
    """events_per_case: prefixes of the true traces, each grown by x (or what is left), never shrunk, nothing lost."""
    window = read_window({"events_per_case": rule, **other})
    made = FoldRules((PublicationRules("p", window),), end_activities=("z",), inactivity=5 * S, embedded=True)
    fold = Fold(made)
    delta = Delta(src="log", p=0, prev=-1, last=len(rows) - 1, n=len(rows), rows=rows)
    shown = {}
    traces = {}
    for row in rows:
        traces.setdefault(row.case, []).append((row.activity, row.time_ns))
    for _, _, _, exposed, complete, counts in run(fold, [(0, delta)]):
        grown = 0
        for case, prefix in exposed.items():
            more = len(prefix) - shown.get(case, 0)
            assert list(prefix) == traces[case][: len(prefix)]
            if rule.get("mode") == "up_to":
                assert 0 <= more <= rule["x"]
            else:
                assert more in (0, rule["x"]) or (0 < more < rule["x"] and case in complete)
            grown += more
            shown[case] = len(prefix)
        assert set(shown) == set(exposed)
        assert grown == counts["new_events"]
    book = fold.accounting("p")
    assert book["seen"] == len(rows) == sum(shown.values()) + book["pending"]
