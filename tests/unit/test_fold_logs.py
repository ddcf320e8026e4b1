"""The fold on real logs, against a loop over the sorted events."""

from __future__ import annotations

import numpy as np
import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.log_source import log_facts, records_from_log
from tests.oracles.fold import Oracle
from tests.oracles.fold_runs import run

DAY = 86_400_000_000_000


@pytest.fixture(scope="module")
def sepsis(logs):
    return read_log(logs / "sepsis.xes.gz")


def sorted_events(log):
    """(time, file row, case, activity), by time and then file row."""
    names = log.activity.decode()
    owner = log.case_of_event
    return sorted((int(log.time[i]), int(log.row[i]), log.case_ids[owner[i]], names[i]) for i in range(log.n_events))


def expected(log, window):
    """Cut points by a plain loop: number of events exposed at each cut."""
    cuts, seen, fresh, count = [], set(), 0, 0
    end = None
    for rank, (time, _, case, _) in enumerate(sorted_events(log)):
        if window.every is not None:
            end = (time // window.every + 1) * window.every if end is None else end
            while time >= end:
                cuts.append(rank)
                end += window.every
        fresh += case not in seen
        seen.add(case)
        count += 1
        if (window.new_cases and fresh >= window.new_cases) or (window.new_events and count >= window.new_events):
            cuts.append(rank + 1)
            fresh = count = 0
    return cuts


@pytest.mark.parametrize("table", [{"new_cases": 100}, {"new_events": 999}, {"every": "30d"}])
@pytest.mark.parametrize("batch", [1000, 13])
def test_sepsis_cuts_are_those_of_a_plain_loop(sepsis, table, batch):
    """Cut points and traces on a real log; 100 new cases give 10 cuts, and the size of records moves none."""
    window = read_window(table)
    fold = Fold(FoldRules((PublicationRules("p", window),), embedded=True))
    cuts = run(fold, records_from_log(sepsis, batch=batch))
    counts = expected(sepsis, window)
    assert [sum(len(trace) for trace in cut[3].values()) for cut in cuts] == counts
    assert table != {"new_cases": 100} or len(cuts) == 10
    events = sorted_events(sepsis)
    for cut, count in list(zip(cuts, counts, strict=True))[::4]:
        traces = {}
        for time, _, case, activity in events[:count]:
            traces.setdefault(case, []).append((activity, time))
        assert cut[3] == {case: tuple(trace) for case, trace in traces.items()}


def test_every_event_of_the_log_is_somewhere(sepsis):
    """After `finish(final=True)` a plain window has exposed the whole log, once."""
    fold = Fold(FoldRules((PublicationRules("p", read_window({"new_cases": 100})),), embedded=True))
    run(fold, records_from_log(sepsis, attributes=("Diagnose",)))
    (cut,) = [cut for cut in fold.finish(final=True) if not _log_then_decide(fold, cut, sepsis)]
    assert (cut.trigger, cut.ordinal) == ("final", 11)
    assert fold.accounting("p")["pending"] == 0


def _log_then_decide(fold, cut, log):
    shown = fold.exposed(cut).log
    assert sorted(shown.traces()) == sorted(log.traces())
    assert sorted(zip(shown.case_ids, map(str, shown.case_values("Diagnose").decode()), strict=True)) == sorted(
        zip(log.case_ids, map(str, log.case_values("Diagnose").decode()), strict=True)
    )
    fold.decided(cut, released=True)


@pytest.mark.parametrize(
    ("kind", "value", "events"),
    [("events_fraction", 0.25, 3804), ("cases_fraction", 0.1, None), ("new_cases", 105, None)],
)
def test_fractions_of_the_log_shape_the_first_release(sepsis, kind, value, events):
    """A quarter of the events (rounded up), a tenth of the 1,050 cases: cut right after the event that brings it."""
    window = read_window({"manual": True, "first": {kind: value}})
    fold = Fold(FoldRules((PublicationRules("p", window),), embedded=True), log_facts(sepsis))
    ((_, trigger, _, traces, _, _),) = run(fold, records_from_log(sepsis))
    assert trigger == "first"
    assert sum(map(len, traces.values())) == events if events else len(traces) == 105


@pytest.mark.parametrize(
    "table",
    [
        {"completed_cases": 5},
        {"events_per_case": {"x": 5, "fraction": 0.5, "max_wait": "3d"}},
        {"new_cases": 4, "events_per_case": {"x": 3, "mode": "up_to"}},
        {"every": "2d", "time": "wall", "min_new_cases": 2},
    ],
)
def test_a_small_real_log_equals_the_oracle(logs, table):
    """The first 300 events of ccc19 in order of time: cut for cut, log for log."""
    log = read_log(logs / "ccc19.xes.gz")
    first = np.zeros(log.n_events, dtype=bool)
    first[np.lexsort((log.row, log.time))[:300]] = True
    log = log.select_events(first, drop_empty=True)
    rules = FoldRules((PublicationRules("p", read_window(table)),), inactivity=2 * DAY, embedded=True)
    records = list(records_from_log(log, log_end=True, batch=50))
    oracle = Oracle(rules)
    for _, record in records:
        for row in record.rows:
            oracle.event(("log", 0), row)
    cuts = run(Fold(rules), records)
    assert cuts == oracle.cuts
    assert cuts


def test_rows_of_a_log_are_made_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay holds one batch of rows and not all of them; batches of any size give the same rows, also around cases
    without events."""
    log = EventLog.from_traces([(list("abc"), None), ([], None), (list("ab"), None), ([], None)] * 3)
    made = []
    monkeypatch.setattr("stream.run.log_source.Row", lambda *values: made.append(values) or values)
    records = records_from_log(log, batch=4, log_end=True)
    for number in (4, 8, 12, 15):
        next(records)
        assert len(made) == number
    in_parts = list(made)
    made.clear()
    list(records_from_log(log, batch=1000, log_end=True))
    assert made == in_parts
    assert [row[0] for row in made] == list(range(15))
    assert {(row[1], row[2]) for row in made if row[-1]} == {
        (log.case_ids[case], trace[-1]) for case, trace in enumerate(log.traces()) if trace
    }
