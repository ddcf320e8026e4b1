"""Random logs: uniqueness and utility of a table of variants are those of the log."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.eventlog import Column, EventLog
from models.knowledge import Knowledge
from models.risk.points import Projection
from models.risk.uniqueness import trace_uniqueness, variant_uniqueness
from models.utility.distance import data_utility
from models.utility.graphs import directly_follows, handover
from models.utility.similarity import dfg_error, likeness
from models.variants import VariantTable, variant_table

CASES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["r", "s", None])), min_size=1, max_size=4),
        st.sampled_from(["x", "y", None]),
    ),
    min_size=1,
    max_size=12,
)


def log_of(cases: list[tuple[list[tuple[str, str | None]], str | None]]) -> EventLog:
    """Cases of (activity, resource), with one attribute; the first event has a resource."""
    events = [event for trace, _ in cases for event in trace]
    starts = np.concatenate(([0], np.cumsum([len(trace) for trace, _ in cases]))).astype(np.int64)
    actors = ["r", *(actor for _, actor in events[1:])]
    return EventLog(
        case_ids=tuple(map(str, range(len(cases)))),
        starts=starts,
        activity=Column.encode(name for name, _ in events),
        time=np.zeros(len(events), dtype=np.int64),
        resource=Column.encode(actors),
        row=np.arange(len(events), dtype=np.int64),
        case_attributes={"kind": Column.encode(kind for _, kind in cases)},
    )


def table_of(log: EventLog) -> VariantTable:
    """Counted by activities, resources and the attribute."""
    return variant_table(log, Knowledge("seq", "ar"), {"kind": log.case_values("kind")})[0]


@given(CASES, st.sampled_from(["B", "C", "D", "E", "F"]))
def test_uniqueness_where_all_points_are_known(cases: list, projection: Projection) -> None:
    """Also the combinations of attributes that occur once."""
    log = log_of(cases)
    wanted = trace_uniqueness(log, projection, "all", event_attributes=["resource"], case_attributes=["kind"], draws=1)
    found = variant_uniqueness(table_of(log), projection, "all", ["kind"], draws=1)
    assert [one.unique_mean for one in found.points] == pytest.approx([one.unique_mean for one in wanted.points])
    assert found.case_uniqueness == pytest.approx(wanted.case_uniqueness)
    assert (found.cases, found.status) == (wanted.cases, wanted.status)


def test_random_points_have_the_distribution_of_the_log() -> None:
    """Of abc (once), abd (twice) one random point singles out only c: the mean of 1/3 (which case) x 1/3 (which point),
    whose deviation over 4,000 draws is .0025; 5 of them are .0125."""
    log = log_of([([(name, None) for name in trace], "x") for trace in ("abc", "abd", "abd")])
    found = variant_uniqueness(table_of(log), "E", 1, draws=4000, seed=5)
    assert found.points[0].unique_mean == pytest.approx(1 / 9, abs=0.0125)


@given(CASES, CASES)
def test_utility(first: list, second: list) -> None:
    """Graphs, distances and likeness, by the counts of the variants."""
    here, there = log_of(first), log_of(second)
    tables = table_of(here), table_of(there)
    logs, counts = [table.log for table in tables], (tables[0].count, tables[1].count)
    assert data_utility(*logs, cases=counts) == pytest.approx(data_utility(here, there))
    for log, table in zip((here, there), tables, strict=True):
        wanted = directly_follows(log)
        found = directly_follows(table.log, cases=table.count)
        assert (found.nodes, found.count) == (wanted.nodes, wanted.count)
    assert handover(*logs, counts) == handover(here, there)
    assert likeness(*logs, cases=counts).similarity == pytest.approx(likeness(here, there).similarity)
    assert dfg_error(*logs, counts) == pytest.approx(dfg_error(here, there))
