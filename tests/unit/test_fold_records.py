"""The fold record by record: duplicates, gaps, keys, commands, ticks, cases that leave."""

from __future__ import annotations

import pytest

from models.errors import InputError, RefusedError
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Command, Config, Delta, Heartbeat, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from tests.oracles.fold_runs import S


def fold_of(*windows, **more):
    """A fold with publications a, b, ... of these windows."""
    late = more.pop("late", "next_release")
    pubs = tuple(PublicationRules("abc"[i], read_window(one), late) for i, one in enumerate(windows))
    return Fold(FoldRules(pubs, **more))


def row(offset, case="c", time=None, activity="x", **more):
    return Row(offset, case, activity, (offset if time is None else time) * S, **more)


def delta(*rows, prev=None, src="A", key=""):
    prev = rows[0].offset - 1 if prev is None else prev
    return Delta(src=src, p=0, prev=prev, last=rows[-1].offset, n=len(rows), rows=list(rows), key=key)


def feed(fold, *records):
    """(cut id, trigger, exposed traces as lengths by case) of each cut; positions follow the fold."""
    found = []
    for record in records:
        for cut in fold.apply(fold.position + 1, record):
            log = fold.exposed(cut).log
            found.append((cut.id, cut.trigger, dict(zip(log.case_ids, log.lengths.tolist(), strict=True))))
            fold.decided(cut, released=True)
    return found


def test_a_cut_comes_right_after_the_event_that_brings_the_case():
    """new_cases = 2 cuts at the row of the second unseen case, in the middle of a record."""
    fold = fold_of({"new_cases": 2})
    assert feed(fold, delta(row(0), row(1), row(2, "d"), row(3))) == [("a/0/2/0", "new_cases", {"c": 2, "d": 1})]
    assert fold.accounting("a")["pending"] == 1


def test_a_cut_comes_at_the_row_that_completes_enough_cases():
    """completed_cases = 2 cuts at the second end, not at the first, and counts from 0 behind the cut."""
    fold = fold_of({"completed_cases": 2}, end_activities=("end",))
    rows = (row(0), row(1, "d"), row(2, activity="end"), row(3, "d", activity="end"))
    more = (row(4, "e", activity="end"), row(5, "f"), row(6, "f", activity="end"))
    assert feed(fold, delta(*rows, *more)) == [
        ("a/0/3/0", "completed_cases", {"c": 2, "d": 2}),
        ("a/0/6/0", "completed_cases", {"c": 2, "d": 2, "e": 1, "f": 2}),
    ]


def test_a_cut_comes_when_every_unfinished_case_has_enough_events():
    """events_per_case = 2 cuts when the last case has two more events: first at row 3, then at row 7."""
    fold = fold_of({"events_per_case": 2})
    rows = [row(offset, "cd"[offset % 2]) for offset in range(8)]
    assert feed(fold, delta(*rows)) == [
        ("a/0/3/0", "events_per_case", {"c": 2, "d": 2}),
        ("a/0/7/0", "events_per_case", {"c": 4, "d": 4}),
    ]


def test_ready_cases_are_counted_only_if_they_alone_bring_a_cut():
    """With another trigger next to events_per_case the numbers would be part of the state, and nobody reads them."""
    fold = fold_of({"completed_cases": 9}, {"new_cases": 9, "events_per_case": 2}, {"events_per_case": 3})
    feed(fold, delta(row(0), row(1)))
    counted = {name: counters.unfinished for name, counters in fold.publications.items()}
    assert counted == {"a": 0, "b": 0, "c": 1}


def test_publications_at_one_event_are_ordered_by_name():
    """Two publications that cut at the same event: by name, each with its own window state."""
    fold = fold_of({"new_events": 2}, {"new_events": 1})
    assert [cut[0] for cut in feed(fold, delta(row(0), row(1)))] == ["b/0/0/0", "a/0/1/0", "b/0/1/0"]


def test_repeated_offsets_change_nothing():
    """Rows at or below the high-water mark are dropped and counted."""
    fold = fold_of({"new_events": 3})
    assert feed(
        fold, delta(row(0), row(1)), delta(row(0), row(1), prev=-1), delta(row(0), row(1), row(2), prev=-1)
    ) == [("a/2/2/0", "new_events", {"c": 3})]
    assert fold.accounting("a")["duplicates"] == 4


def test_a_repeated_event_id_of_a_case_counts_once():
    """A producer's duplicate under a new offset is dropped; the same id in another case is another event."""
    fold = fold_of({"manual": True})
    feed(
        fold,
        delta(row(0, event_id="e"), row(1, event_id="e"), row(2, "d", event_id="e")),
        delta(row(3, event_id="e"), row(4, event_id="f")),
    )
    assert (fold.accounting("a")["seen"], fold.accounting("a")["duplicates"]) == (3, 2)
    again = Fold.restore(fold.snapshot())
    feed(again, delta(row(5, event_id="f")))
    assert again.accounting("a")["seen"] == 3


def test_another_pseudonym_key_is_not_counted():
    """Rows under another key would show one person as two: they are left out and counted."""
    fold = fold_of({"new_cases": 2})
    assert feed(fold, delta(row(0), key="k1"), delta(row(1, "d"), key="k2"), delta(row(2, "d"), key="k1")) == [
        ("a/2/0/0", "new_cases", {"c": 1, "d": 1})
    ]
    assert fold.accounting("a")["foreign"] == 1


def test_a_gap_stops_releasing_until_it_is_accepted():
    """prev above the mark: nothing is released; `gap accept` takes what was held and continues."""
    fold = fold_of({"new_events": 2})
    assert feed(fold, delta(row(0)), delta(row(5), row(6), prev=4)) == []
    assert fold.gap
    assert feed(fold, delta(row(0), src="B"), Command(name="release")) == []
    fold = Fold.restore(fold.snapshot())
    assert feed(fold, Command(name="gap", arguments={"action": "accept", "src": "A", "p": 0})) == [
        ("a/4/0/0", "new_events", {"c": 4})
    ]
    assert not fold.gap


def test_a_gap_closes_when_the_missing_offsets_come():
    """After `gap rewind` the offsets are read again, and nothing is lost or doubled."""
    fold = fold_of({"new_events": 4})
    feed(fold, delta(row(0)), delta(row(3), prev=2))
    assert feed(fold, Command(name="gap", arguments={"action": "rewind"})) == []
    assert feed(fold, delta(row(1), row(2)), delta(row(3))) == [("a/4/0/0", "new_events", {"c": 4})]


def test_what_was_held_follows_when_the_gap_fills_by_itself():
    """A record behind the gap is taken as soon as its predecessor has come."""
    fold = fold_of({"new_events": 3})
    feed(fold, delta(row(0)), delta(row(2), prev=1))
    assert feed(fold, delta(row(1))) == [("a/2/0/0", "new_events", {"c": 3})]


def test_a_partition_that_never_reported_holds_a_window_open():
    """The recorded source set: no event-time window closes before B has reported or is idle."""
    fold = fold_of({"every": "10s", "idle_timeout": "5s"}, sources=(("A", 0), ("B", 0)))
    assert feed(fold, Tick(at=0), delta(row(0, time=1), row(1, time=25))) == []
    assert feed(fold, Heartbeat(src="B", p=0, at=1 * S), Tick(at=5 * S)) == []
    cuts = feed(fold, Tick(at=6 * S))
    # A is idle since 0 too: the clock of ticks would not close what A's own events have not passed
    assert [(cut[0], cut[2]) for cut in cuts] == [("a/4/0/0", {"c": 1}), ("a/4/0/1", {"c": 1})]


def test_heartbeats_do_not_postpone_idleness():
    """A partition that keeps saying "nothing new" becomes idle all the same."""
    fold = fold_of({"every": "10s", "idle_timeout": "5s"}, sources=(("A", 0), ("B", 0)))
    beats = [Heartbeat(src="B", p=0, at=at * S) for at in range(1, 5)]
    assert feed(fold, *beats, delta(row(0, time=1), row(1, time=15))) == []
    assert [cut[0] for cut in feed(fold, Heartbeat(src="B", p=0, at=6 * S))] == ["a/5/0/0"]


def test_a_window_closes_without_a_further_event():
    """All partitions idle: ticks alone close the window."""
    fold = fold_of({"every": "10s", "idle_timeout": "5s"})
    assert feed(fold, Tick(at=2 * S), delta(row(0, time=3))) == []
    assert fold.next_deadline() == 10 * S
    assert feed(fold, Tick(at=9 * S)) == []
    assert feed(fold, Tick(at=11 * S)) == [("a/3/0/0", "every", {"c": 1})]


def test_several_elapsed_windows_give_several_cuts_at_one_record():
    """Each exposes only events before its own end."""
    fold = fold_of({"every": "10s"})
    assert feed(fold, delta(row(0, time=5), row(1, time=15), row(2, time=31))) == [
        ("a/0/1/0", "every", {"c": 1}),
        ("a/0/2/0", "every", {"c": 2}),
        ("a/0/2/1", "every", {"c": 2}),
    ]


def test_late_events_follow_the_rule_of_the_publication():
    """Before the last window's end: exposed by the next release and counted as an insertion, or left out."""
    records = [delta(row(0, time=5), row(1, time=8), row(2, time=12), row(3, time=6), row(4, time=22))]
    fold = fold_of({"every": "10s"})
    counts = [dict(cut.counts) for cut in _decide(fold, records)]
    assert [(one["new_events"], one["non_append_insertions"], one["late_included"]) for one in counts] == [
        (2, 0, 0),
        (2, 1, 1),
    ]
    for late, letters in (("drop", []), ("dlq", [("A", 0, 3, "late for publication a")])):
        fold = fold_of({"every": "10s"}, late=late)
        counts = [dict(cut.counts) for cut in _decide(fold, records)]
        assert [(one["new_events"], one["late"]) for one in counts] == [(2, 0), (1, 1)]
        assert fold.dead_letters == letters


def _decide(fold, records, released=True):
    for position, record in enumerate(records):
        for cut in fold.apply(position, record):
            fold.decided(cut, released=released)
            yield cut


def test_a_withheld_attempt_changes_no_later_cut():
    """Decisions do not move cuts or exposure; what was withheld is counted until a release takes it along."""
    records = [delta(*(row(i, f"c{i}") for i in range(4)))]
    released = list(_decide(fold_of({"new_cases": 2}), records))
    withheld = list(_decide(fold_of({"new_cases": 2}), records, released=False))
    assert [(one.id, one.counts) for one in released] == [(one.id, one.counts) for one in withheld]
    assert [one.accumulated["new_cases"] for one in released] == [2, 2]
    assert [one.accumulated["new_cases"] for one in withheld] == [2, 4]


def test_the_fold_does_not_pass_an_open_cut():
    """An undecided cut refuses the next step and any snapshot."""
    fold = fold_of({"new_events": 1})
    cuts = fold.apply(0, delta(row(0), row(1)))
    next(cuts)
    with pytest.raises(RefusedError, match="a/0/0/0"):
        fold.snapshot()
    with pytest.raises(RefusedError, match="a/0/0/0"):
        next(cuts)


def test_pause_holds_the_cut_and_resume_takes_it():
    """A paused publication gathers; the trigger that held meanwhile fires at `resume`; others continue."""
    fold = fold_of({"new_events": 2}, {"new_events": 2})
    assert feed(fold, Command(name="pause", publication="a"), delta(row(0), row(1), row(2))) == [
        ("b/1/1/0", "new_events", {"c": 2})
    ]
    assert feed(fold, Command(name="release", publication="a")) == []
    assert feed(fold, Command(name="resume", publication="a")) == [("a/3/0/0", "new_events", {"c": 3})]


def test_release_cuts_now():
    """The manual trigger takes everything that is there."""
    fold = fold_of({"manual": True})
    assert feed(fold, delta(row(0), row(1)), Command(name="release")) == [("a/1/0/0", "manual", {"c": 2})]


@pytest.mark.parametrize("command", [Command(name="explode"), Command(name="release", publication="zz")])
def test_an_unknown_command_or_publication_is_named(command):
    """A typing error is not taken for consent."""
    with pytest.raises(InputError, match=r"explode|zz"):
        feed(fold_of({"manual": True}), command)


def test_an_erased_case_is_gone_and_does_not_come_back():
    """In no later log, not in the snapshot, and its replayed events are refused; the others continue."""
    fold = fold_of({"new_events": 2})
    person = row(0, "person-17", activity="rare", resource="only hers", attributes={"case": {"d": "value-17"}})
    feed(fold, delta(person, row(1)))
    feed(fold, Command(name="erase", arguments={"cases": ["person-17"]}))
    for trace_of_her in (b"person-17", b"rare", b"only hers", b"value-17"):
        assert trace_of_her not in fold.snapshot()
    fold = Fold.restore(fold.snapshot())
    assert feed(fold, delta(row(2, "person-17"), row(3), row(4))) == [("a/2/2/0", "new_events", {"c": 3})]
    book = fold.accounting("a")
    assert (book["removed_cases"], book["removed_events"], book["refused"]) == (1, 1, 1)


def test_an_erased_case_is_not_kept_behind_a_gap():
    """Records that wait behind a gap are in the snapshot too; their other events come when it is mended."""
    fold = fold_of({"new_events": 2})
    feed(fold, delta(row(5, "person-17", attributes={"case": {"d": "value-17"}}), row(6), prev=4))
    feed(fold, Command(name="erase", arguments={"cases": ["person-17"]}))
    assert fold.gap
    for trace_of_her in (b"person-17", b"value-17"):
        assert trace_of_her not in fold.snapshot()
    feed(fold, Command(name="gap", arguments={"action": "accept"}))
    assert not fold.gap
    assert feed(fold, delta(row(7), prev=6)) == [("a/3/0/0", "new_events", {"c": 2})]


def test_erasing_an_unknown_case_refuses_its_later_events():
    """The order may come before the data."""
    fold = fold_of({"new_events": 1})
    assert feed(fold, Command(name="erase", arguments={"cases": ["x"]}), delta(row(0, "x"))) == []


def test_complete_cases_leave_after_their_retention():
    """A complete, exposed case leaves before the first cut past its retention; its late event is refused; the rest of
    the record is not disturbed."""
    fold = fold_of({"new_events": 2}, end_activities=("end",), retention=5 * S)
    old = [row(0, "old", 0), row(1, "old", 1, "end"), row(4, "old", 11)]
    cuts = feed(fold, delta(*old[:2], row(2, "c", 9), row(3, "d", 10), old[2], row(5, "e", 12)))
    assert [cut[2] for cut in cuts] == [{"old": 2}, {"c": 1, "d": 1}]
    assert fold.accounting("a")["refused"] == 1
    assert feed(fold, delta(row(6, "c", 13)))[0][2] == {"c": 2, "d": 1, "e": 1}


def test_a_restored_fold_counts_as_the_one_that_went_on_after_cases_left():
    """Cases that left at a command change no count of the next record: a replay from a snapshot must agree."""
    fold = fold_of({"new_events": 5}, end_activities=("end",), retention=5 * S)
    release = Command(name="release")
    feed(fold, delta(row(0, "old", 0), row(1, "old", 1, "end"), row(2, "c", 10)), release, release)
    assert fold.accounting("a")["removed_cases"] == 1
    restored = Fold.restore(fold.snapshot())
    fresh = [row(offset, "c", 8 + offset) for offset in (3, 4, 5, 6, 7)]
    repeated = row(7, "c", 15)
    cuts = [feed(one, delta(*fresh, repeated)) for one in (fold, restored)]
    assert cuts[0] == cuts[1]
    assert fold.accounting("a")["duplicates"] == 1
    assert fold.snapshot() == restored.snapshot()


def test_a_configuration_takes_effect_at_its_offset():
    """A config record changes windows from there on; what a publication has exposed stays exposed."""
    fold = fold_of({"new_events": 2})
    feed(fold, delta(row(0), row(1), row(2)))
    changed = FoldRules(
        (
            PublicationRules("a", read_window({"new_events": 3})),
            PublicationRules("b", read_window({"new_events": 1})),
        )
    )
    feed(fold, Config(body=changed.to_mapping()))
    cuts = [(cut.id, cut.counts["new_events"]) for cut in _decide(fold, [delta(row(3)), delta(row(4))])]
    assert cuts == [("b/0/0/0", 4), ("a/1/0/0", 3), ("b/1/0/0", 1)]


def test_a_configuration_under_another_key_is_refused():
    """One person would be two."""
    fold = fold_of({"manual": True})
    feed(fold, delta(row(0), key="k1"))
    with pytest.raises(RefusedError, match="key"):
        feed(fold, Config(body=FoldRules((), key="k2").to_mapping()))


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"\x81\xa7version\x63", b"\x81\xa7version\x00"])
def test_bytes_that_are_no_state_are_refused(raw):
    """Foreign, newer and older states: one clear error."""
    with pytest.raises(RefusedError, match="state of the fold"):
        Fold.restore(raw)


def test_attributes_are_those_of_the_exposed_part():
    """The sensitive value is the last non-null one among exposed events, in trace order."""
    fold = fold_of({"manual": True, "every": "10s"})
    said = [{"case": {"d": "flu"}}, {"event": {"t": 37.5}}, {"case": {"d": None}}, {"case": {"d": "sepsis"}}]
    rows = [row(i, time=t, attributes=one) for i, (t, one) in enumerate(zip([1, 2, 3, 12], said, strict=True))]
    logs = []
    for cut in fold.apply(0, delta(*rows)):
        logs.append(fold.exposed(cut).log)
        fold.decided(cut, released=True)
    for cut in fold.apply(1, Command(name="release")):
        logs.append(fold.exposed(cut).log)
        fold.decided(cut, released=True)
    assert [log.case_values("d").decode() for log in logs] == [["flu"], ["sepsis"]]
    assert logs[0].event_attributes["t"].decode() == [None, 37.5, None]
