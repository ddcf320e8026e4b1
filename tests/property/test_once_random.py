"""Each case once: over random streams no case is in two cuts, nobody's cases move another's, and a cap is a cap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Config, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.conftest import examples
from tests.oracles.fold_runs import S

HOUR = 3_600 * S
Events = list[tuple[int, int, int, str]]
"""(hour of arrival, case, hours between event and arrival, activity)."""

EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(0, 9), st.sampled_from("abz")), max_size=40
)
HOURS = 60


def rules(*, most: int | None = None, retention: int | None = None) -> FoldRules:
    window = read_window({"every": "6h", "time": "wall"})
    own = PublicationRules("p", window, start=0, private=True, once=True, most_cases=most)
    return FoldRules((own,), end_activities=("z",), inactivity=5 * HOUR, retention=retention, person="who")


def person(case: int) -> str | None:
    """Of cases 0, 1, 2: p0; of 3, 4: p1; of 5 nobody known; of 6 herself."""
    return [*["p0"] * 3, *["p1"] * 2, None, "p2"][case]


def records(events: Events, *, without: str | None = None) -> Iterator[AnyRecord]:
    """Events by the hour in which they arrive, and a tick each hour."""
    kept = [one for one in sorted(events) if without is None or person(one[1]) != without]
    last = -1
    for hour in range(HOURS):
        rows = []
        for arrival, case, lag, activity in kept:
            if arrival == hour:
                whose = person(case)
                given = None if whose is None else {"case": {"who": whose}}
                rows.append(Row(last + 1 + len(rows), f"c{case}", activity, max(hour - lag, 0) * HOUR, None, given))
        if rows:
            yield Delta(src="s", p=0, prev=last, last=last + len(rows), n=len(rows), key="k", rows=rows)
            last += len(rows)
        yield Tick(at=(hour + 1) * HOUR)


def cuts(fold: Fold, stream: Iterator[AnyRecord], *, snapshots: bool = False) -> list[tuple[int, dict[str, tuple]]]:
    """(time, trace by case) of each cut; with `snapshots` the state goes through its bytes after every record."""
    found = []
    for position, record in enumerate(stream):
        for cut in fold.apply(position, record):
            log = fold.exposed(cut).log
            assert "who" not in log.case_attributes, "a person was exposed"
            found.append((cut.time_ns, dict(zip(log.case_ids, map(tuple, log.traces()), strict=True))))
            book = fold.accounting("p")
            assert book["seen"] == book["exposed"] + book["pending"] + book["late"]
            fold.decided(cut, released=True)
        if snapshots:
            fold = Fold.restore(fold.snapshot())
    return found


@examples(60)
@given(EVENTS, st.sampled_from([None, HOUR, 12 * HOUR]))
def test_no_case_is_in_two_cuts(events: Events, retention: int | None) -> None:
    """Also where events come late, after silence, or after the case has left the state; and a restart changes
    nothing."""
    found = cuts(Fold(rules(retention=retention)), records(events))
    times = Counter(case for _, traces in found for case in traces)
    assert all(number == 1 for number in times.values())
    assert [time for time, _ in found] == [hour * HOUR for hour in range(6, HOURS + 1, 6)]
    assert found == cuts(Fold(rules(retention=retention)), records(events), snapshots=True)


@examples(50)
@given(EVENTS, st.sampled_from([None, 1, 2]), st.sampled_from(["p0", "p1", "p2"]))
def test_one_person_moves_nobody_else(events: Events, most: int | None, who: str) -> None:
    """The cuts without her are the cuts with her, less her cases: as many, at the same moments, everybody else where
    they were. That is what parallel composition rests on."""
    with_her = cuts(Fold(rules(most=most)), records(events))
    without = cuts(Fold(rules(most=most)), records(events, without=who))
    hers = {f"c{case}" for case in range(7) if person(case) == who}
    left = [(time, {case: trace for case, trace in traces.items() if case not in hers}) for time, traces in with_her]
    assert left == without


@examples(50)
@given(EVENTS, st.integers(1, 2), st.sampled_from([None, HOUR]))
def test_a_person_has_no_more_cases_than_the_cap(events: Events, most: int, retention: int | None) -> None:
    """Over all cuts together, whatever retention took away meanwhile; a case of nobody known is never exposed."""
    found = cuts(Fold(rules(most=most, retention=retention)), records(events), snapshots=True)
    times = Counter(person(int(case[1:])) for _, traces in found for case in traces)
    assert all(number <= most for number in times.values())
    assert None not in times


def one(case: int, hour: int, *activities: str) -> Events:
    return [(hour, case, 0, activity) for activity in activities]


@pytest.mark.parametrize("most", [None, 1])
def test_what_comes_to_a_case_after_its_cut_is_lost(most: int | None) -> None:
    """It is counted, once; and the case does not come back though it completes again."""
    fold = Fold(rules(most=most))
    counted = []
    for position, record in enumerate(records([*one(0, 1, "a", "z"), *one(0, 8, "b", "z"), *one(0, 20, "z")])):
        for cut in fold.apply(position, record):
            counted.append((fold.exposed(cut).log.n_cases, cut.counts["late_lost"], cut.counts["late"]))
            fold.decided(cut, released=True)
    assert counted[:4] == [(1, 0, 0), (0, 2, 2), (0, 0, 2), (0, 1, 3)]


def test_the_first_cases_of_a_person_count() -> None:
    """By when each began, also where the other completed in the same window before it."""
    events = [*one(1, 2, "b", "z"), *one(0, 1, "a"), *one(0, 3, "z"), *one(2, 9, "z")]
    found = cuts(Fold(rules(most=1)), records(events))
    assert [traces for _, traces in found[:3]] == [{"c0": ("a", "z")}, {}, {}]


def test_a_later_rule_does_not_release_again_what_another_released() -> None:
    """A publication that showed everything so far, and counts each case once from now on: cases of before are over."""
    every = FoldRules(
        (PublicationRules("p", read_window({"every": "6h", "time": "wall"}), start=0, private=True),),
        end_activities=("z",),
        person="who",
    )
    stream = list(records([*one(0, 1, "a"), *one(0, 8, "z"), *one(1, 8, "z")]))
    place = 9  # after the first cut
    stream.insert(place, Config(body=rules().to_mapping()))
    found = cuts(Fold(every), iter(stream))
    assert [sorted(traces) for _, traces in found[:3]] == [["c0"], ["c1"], []]
