"""Uniqueness on logs small enough to see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.errors import InputError
from models.eventlog import Column, EventLog
from models.risk.index import TraceIndex
from models.risk.points import KnownColumns, by_resource, default_case_attributes, default_event_attributes
from models.risk.uniqueness import (
    case_uniqueness,
    checked,
    greedy_points,
    known_points,
    singleton_variants,
    trace_uniqueness,
)

DAY = 86_400_000_000_000
HOUR = 3_600_000_000_000


def _log() -> EventLog:
    return EventLog.from_events(
        ["1", "1", "2", "2", "3", "3", "3"],
        ["a", "b", "a", "b", "a", "a", "c"],
        np.asarray([0, 1, DAY, DAY + 1, 2, 3, 4]),
        resource=["r", "s", "r", "r", "t", "t", "t"],
        case_attributes={"age": {"1": 26, "2": 78, "3": 26}, "sex": {"1": "m", "2": "f", "3": "f"}},
        event_attributes={"ward": ["x", "x", "y", "y", "x", "x", "y"], "lab": [1, None, None, None, None, None, None]},
        unit="ns",
    )


def test_case_uniqueness_counts_combinations_that_occur_once() -> None:
    """Table 2 of the paper: sex alone singles out one of three, sex and age together all."""
    assert case_uniqueness(_log(), ["sex"]) == pytest.approx(1 / 3)
    assert case_uniqueness(_log(), ["age"]) == pytest.approx(1 / 3)
    assert case_uniqueness(_log(), ["sex", "age"]) == 1.0


def test_multiplicity_singles_out() -> None:
    """Two a's are known of case 3 only; a set of activities would not distinguish it."""
    log = EventLog.from_traces([("ab", None), ("aab", None), ("ab", None)])
    assert trace_uniqueness(log, "E", "all").points[0].unique_mean == pytest.approx(1 / 3)


def test_contained_is_not_unique_even_when_no_trace_is_equal() -> None:
    """A case whose points another, longer case has too is not a unique case."""
    log = EventLog.from_traces([("ab", None), ("abc", None)])
    assert trace_uniqueness(log, "E", "all").points[0].unique_mean == 0.5


@pytest.mark.parametrize(("projection", "expected"), [("A", 1.0), ("B", 1.0), ("C", 2 / 3), ("D", 1.0), ("E", 1 / 3)])
def test_projections_see_their_columns(projection: str, expected: float) -> None:
    """With all points: E sees case 3 alone; C identifies 1 and 3 by resource and ward, and 2; attributes identify
    all."""
    found = trace_uniqueness(_log(), projection, "all", event_attributes=["ward"])  # type: ignore[arg-type]
    assert found.points[0].unique_mean == pytest.approx(1.0 if projection == "C" else expected)


def test_resolution_floors_on_the_clock_of_the_file() -> None:
    """23:30 and 00:30 UTC are two days in UTC and one day two hours further east."""
    log = EventLog.from_events(["1", "2"], ["a", "a"], np.asarray([DAY - HOUR // 2, DAY + HOUR // 2]), unit="ns")
    assert trace_uniqueness(log, "A", 1, resolution="days").points[0].unique_mean == 1.0
    east = replace(log, offset=np.asarray([120, 120], dtype=np.int32))
    assert trace_uniqueness(east, "A", 1, resolution="days").points[0].unique_mean == 0.0


def test_per_column_drops_the_last_event_and_case_na() -> None:
    """A value that only the last event has is lost, and the case named NA is not counted."""
    log = EventLog.from_events(["NA", "2", "2", "3", "3"], ["z", "a", "b", "a", "c"], np.arange(5), unit="ns")
    found = trace_uniqueness(log, "E", "all", semantics="per-column")
    assert (found.cases, found.points[0].unique_mean) == (2, 0.0)
    assert trace_uniqueness(log, "E", "all").points[0].unique_mean == 1.0


def test_per_column_forgets_which_values_were_together() -> None:
    """(a, x), (b, y) against (a, y), (b, x): distinguished by joint points, not column by column."""
    log = EventLog.from_events(
        ["1", "1", "2", "2"],
        ["a", "b", "a", "b"],
        np.arange(4),
        event_attributes={"w": ["x", "y", "y", "x"]},
        unit="ns",
    )
    seen = KnownColumns(("activity", "w"))
    shares = [TraceIndex.build(log, seen, joint=j).unique(log.lengths, np.random.default_rng(0)) for j in (True, False)]
    assert [share.mean() for share in shares] == [1.0, 0.0]


def test_missing_attributes_are_marked_not_raised() -> None:
    """A projection that the log cannot give is not available, with the reason, and has no numbers."""
    log = EventLog.from_events(["1", "2"], ["a", "b"], np.asarray([0, 1]), unit="ns")
    for projection in "BCDF":
        found = trace_uniqueness(log, projection, 1)  # type: ignore[arg-type]
        assert (found.status, found.points, found.case_uniqueness) == ("not available", (), None)
        assert "attributes" in found.reason


def test_defaults_take_what_is_always_recorded() -> None:
    """The sparse laboratory value is not an event attribute; sensitive values are not background knowledge."""
    assert default_event_attributes(_log()) == ("resource", "ward")
    assert default_case_attributes(_log(), ["age"]) == ("sex",)


def test_case_attributes_recorded_once_in_each_case_count_without_yes_and_no() -> None:
    """If no trace has attributes, those on one event of each case count; boolean flags do not."""
    log = EventLog.from_events(
        ["1", "1", "2", "2"],
        ["a", "b", "a", "b"],
        np.arange(4),
        event_attributes={
            "age": [26, None, 78, None],
            "flag": [True, None, False, None],
            "part": [1, None, None, None],
        },
        unit="ns",
    )
    assert default_case_attributes(log) == ("age",)


def test_resources_as_persons() -> None:
    """Each resource becomes one trace over all cases; events of nobody belong to nobody."""
    log = by_resource(replace(_log(), resource=Column.encode(["r", "s", "r", "r", "t", "t", None])))
    assert dict(zip(log.case_ids, log.traces(), strict=True)) == {"r": ("a", "a", "b"), "s": ("b",), "t": ("a", "a")}
    found = trace_uniqueness(_log(), "E", "all", unit="resource")
    assert (found.cases, found.points[0].unique_mean) == (3, pytest.approx(2 / 3))


def test_resources_need_a_resource() -> None:
    """Without a resource column the answer names it."""
    with pytest.raises(InputError, match="org:resource"):
        trace_uniqueness(EventLog.from_traces([("ab", None)]), "E", unit="resource")


def test_greedy_needs_fewer_points_than_chance() -> None:
    """One identifying event among nine common ones: greedy finds it at once, a random point seldom does."""
    log = EventLog.from_traces([("aaaaaaaaa" + letter, None) for letter in "bcdefgh"])
    assert greedy_points(TraceIndex.build(log, KnownColumns(("activity",)))).tolist() == [1] * 7
    assert trace_uniqueness(log, "E", 1, adversary="greedy").points[0].unique_mean == 1.0
    assert trace_uniqueness(log, "E", 1).points[0].unique_mean < 0.5


def test_greedy_sees_that_only_repetition_is_rare() -> None:
    """b is in every trace once; only the third a singles out, though the first a gains nothing."""
    log = EventLog.from_traces([("aaab", None), ("aab", None), ("aabb", None)])
    assert greedy_points(TraceIndex.build(log, KnownColumns(("activity",))))[0] == 3


def test_seeds_repeat_and_differ() -> None:
    """The same seed gives the same figures, another one others."""
    log = EventLog.from_traces([(f"ab{letter}", None) for letter in "cdefghijkl"])
    first, again, other = (
        trace_uniqueness(log, "E", 1, seed=seed, draws=50).points[0].unique_mean for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_shares_know_at_least_one_point_and_numbers_stop_at_the_trace() -> None:
    """10 % of 5 events is one point, of 25 two; a number beyond the trace is the trace; an empty trace has none."""
    lengths = np.asarray([0, 1, 5, 25])
    assert known_points(lengths, "10%").tolist() == [0, 1, 1, 2]
    assert known_points(lengths, 7).tolist() == [0, 1, 5, 7]


@pytest.mark.parametrize("amount", ["0", "-1", "0%", "101%", "x", "", "1.5", 0, "99999999999"])
def test_bad_amounts_of_knowledge(amount: str | int) -> None:
    """m = 0 and shares outside 1..100 % have no meaning, and the message says what has."""
    with pytest.raises(InputError, match="points"):
        checked(amount)


def test_beyond_every_trace_is_said() -> None:
    """An m that no trace reaches gives the figure of all points and a note with the longest length."""
    log = EventLog.from_traces([("ab", None), ("abc", None)])
    found = trace_uniqueness(log, "E", [2, 99])
    assert found.points[1].unique_mean == 0.5
    assert [note for note in found.notes if "99" in note and "3 events" in note] == list(found.notes)


@pytest.mark.parametrize(
    "options",
    [{"draws": 0}, {"semantics": "loose"}, {"unit": "group"}, {"adversary": "lazy"}, {"resolution": "weeks"}],
)
def test_bad_options_are_named(options: dict[str, str]) -> None:
    """Each option outside its values is refused by its name."""
    with pytest.raises(InputError, match=next(iter(options))):
        trace_uniqueness(EventLog.from_traces([("ab", None)]), "A", 1, **options)  # type: ignore[arg-type]


def test_unknown_projections_and_empty_logs_are_refused() -> None:
    """G is not a projection; nobody has no uniqueness."""
    with pytest.raises(InputError, match="'G'"):
        trace_uniqueness(EventLog.from_traces([("ab", None)]), "G")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no cases"):
        trace_uniqueness(EventLog.from_traces([]), "E")


def test_a_single_case_is_unique_and_empty_traces_are_not() -> None:
    """Alone in the log one is unique whatever is known; two cases without events cannot be distinguished."""
    assert trace_uniqueness(EventLog.from_traces([("ab", None)]), "E", 1).points[0].unique_mean == 1.0
    assert trace_uniqueness(EventLog.from_traces([("", None), ("", None)]), "E", 1).points[0].unique_mean == 0.0


def test_singleton_variants_are_those_of_one_case() -> None:
    """A variant that two cases have is none; order counts; logs that number activities together can be compared."""
    labels: dict[str, int] = {}
    log = EventLog.from_traces([("ab", None), ("ba", None), ("c", None), ("c", None)])
    other = EventLog.from_traces([("c", None), ("ba", None)])
    assert len(singleton_variants(log, labels)) == 2
    assert singleton_variants(log, labels) & singleton_variants(other, labels) == {
        np.asarray([labels["b"], labels["a"]], dtype=np.int32).tobytes()
    }


def test_an_update_touches_only_what_changed() -> None:
    """Appending one case to a log codes one case; the same log again codes none."""
    log = EventLog.from_traces([("ab", None), ("abc", None), ("b", None)])
    index = TraceIndex.build(log.select_cases(np.arange(2)), KnownColumns(("activity",)))
    assert index.update(log) == 1
    assert index.update(log) == 0


def test_a_final_index_follows_no_other_log() -> None:
    """It answers as any other, keeps nothing of what an update would be compared with, and reports it."""
    log = EventLog.from_traces([("ab", None), ("abc", None), ("b", None)])
    seen = KnownColumns(("activity",))
    one, other = TraceIndex.build(log, seen, final=True), TraceIndex.build(log, seen)
    answers = [index.unique(log.lengths, np.random.default_rng(0)).tolist() for index in (one, other)]
    assert answers[0] == answers[1]
    assert (one._raw, one._raw_cases) == ([], [])
    with pytest.raises(ValueError, match="final"):
        one.update(log)
