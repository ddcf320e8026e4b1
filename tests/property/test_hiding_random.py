"""Hiding events of single cases on random streams: safe by counting, shown events stay, and only as much as asked."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from models.anonymize.hiding import Hiding, Mode, Target, within
from models.anonymize.repair import repaired
from models.anonymize.shown import ShownItems
from models.anonymize.tlkc import SuppressionOptions, TlkcProblem
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError
from models.eventlog import EventLog
from models.knowledge import Knowledge, Structure
from tests.oracles import publishing

LETTERS, K, LENGTH = "abc", 3, 2
Traces = dict[str, tuple[str, ...]]


def traces(log: EventLog) -> Traces:
    return dict(zip(log.case_ids, log.traces(), strict=True))


def chain(seed: int, mode: Mode, structure: Structure = "seq") -> Iterator[tuple[Traces, Traces, list[Traces]]]:
    """(what a cut exposes, what leaves, the releases before it), where something can leave."""
    shown, releases = ShownItems(), list[Traces]()
    for exposure in publishing.stream(np.random.default_rng(seed), 30, LETTERS, 4):
        problem = TlkcProblem(exposure.log, Knowledge(structure), TlkcBounds.of(LENGTH, K, 1), {})
        targets = [Target(None, K, LENGTH), *(Target(place, K, LENGTH) for place in range(len(releases)))]
        try:
            log = repaired(problem, shown, targets, SuppressionOptions(capping=False), gone=(), mode=mode).log
        except BoundError:
            continue
        yield traces(exposure.log), traces(log), list(releases)
        shown.add(log.case_ids, log.starts, log.activity)
        releases.append(traces(log))


def matching(release: Traces, bk: tuple[str, ...]) -> set[str]:
    return {case for case, trace in release.items() if publishing.contains(trace, bk)}


@pytest.mark.parametrize("structure", ["seq", "set", "mult"])
@pytest.mark.parametrize("mode", ["events", "items"])
def test_no_attack_on_any_earlier_release_leaves_fewer_than_K(mode: Mode, structure: Structure) -> None:
    """KA, FA = CA and BA with the real partners, n = 0, by counting every knowledge: 0 or at least K."""
    shortened = 0
    for seed in range(15):
        for exposed, released, earlier in chain(seed, mode, structure):
            shortened += released != exposed and bool(earlier)
            for bk in publishing.knowledge(LETTERS, LENGTH):
                later = matching(released, bk)
                counts = [len(later)]
                for one in earlier:
                    counts += [len(later & matching(one, bk)), len(later - one.keys())]
                assert all(count == 0 or count >= K for count in counts), (seed, bk, counts)
    assert shortened > 10


def test_what_was_shown_stays_unless_its_item_goes_everywhere() -> None:
    """A case never loses a shown event alone, and some cases do lose events alone."""
    alone = 0
    for seed in range(15):
        for exposed, released, earlier in chain(seed, "events"):
            left = Counter(name for trace in released.values() for name in trace)
            for case, trace in exposed.items():
                now = Counter(released.get(case, ()))
                alone += any(left[name] and now[name] < count for name, count in Counter(trace).items())
                for name in LETTERS:
                    most = max((one.get(case, ()).count(name) for one in earlier), default=0)
                    assert not left[name] or now[name] >= most, (seed, case, name)
    assert alone > 10


def test_by_items_every_case_keeps_all_of_an_item_or_none() -> None:
    for seed in range(15):
        for exposed, released, _ in chain(seed, "items"):
            left = {name for trace in released.values() for name in trace}
            assert released == {
                case: kept for case, trace in exposed.items() if (kept := tuple(name for name in trace if name in left))
            }


def test_two_new_cases_lose_the_rare_event_and_the_old_ones_keep_it() -> None:
    """Five cases with x were shown, two more come: the two wait with their x, until five of them are new."""

    def log(x: int, cases: int) -> EventLog:
        return EventLog.from_traces([("abx" if case < 5 or case >= cases - x else "ab", None) for case in range(cases)])

    shown, options = ShownItems(), SuppressionOptions(capping=False)
    for x, cases, kept in ((0, 12, 5), (2, 18, 5), (5, 21, 10)):
        one = log(x, cases)
        problem = TlkcProblem(one, Knowledge("seq"), TlkcBounds.of(2, 5, 1), {})
        result = repaired(problem, shown, [Target(0, 5, 2)][: len(shown.members.T)], options, gone=(), mode="events")
        assert sum("x" in trace for trace in result.log.traces()) == kept
        assert result.details["hidden"] == {"events": 5 + x - kept, "cases": 5 + x - kept}
        if x == 0:
            shown.add(result.log.case_ids, result.log.starts, result.log.activity)


def test_shown_is_what_the_releases_held() -> None:
    """Groups and counts against the releases themselves; a record that is no one case belongs to nobody."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        shown, releases = ShownItems(), list[Traces]()
        for _ in range(int(generator.integers(1, 5))):
            cases = [f"c{case}" for case in np.flatnonzero(generator.random(8) < 0.6)] or ["c0"]
            held: Traces = {case: tuple(generator.choice(list(LETTERS), 4).tolist()) for case in cases}
            log = EventLog.from_traces([(trace, None) for trace in [*held.values(), ("a",)]])
            shown.add([*held, ""], log.starts, log.activity)
            releases.append(held)
        names = [f"c{case}" for case in range(10)]
        members = shown.members[shown.groups(names)]
        assert members.tolist() == [[name in one for one in releases] for name in names]
        case, item = np.divmod(np.arange(len(names) * 4), 4)
        most: list[Any] = [
            max(one.get(name, ()).count(letter) for one in releases)
            for name, letter in itertools.product(names, [*LETTERS, "never"])
        ]
        assert shown.events(names, [*LETTERS, "never"], case, item).tolist() == most


def test_exposed_is_what_counting_finds() -> None:
    """Every knowledge that 1..K-1 cases outside a release match contains one that is found, and the first is found."""
    for seed in range(15):
        exposure = publishing.stream(np.random.default_rng(seed), 20, LETTERS, 1)[-1]
        log, shown = exposure.log, ShownItems()
        first = log.select_cases(np.arange(log.n_cases) % 3 > 0)
        shown.add(first.case_ids, first.starts, first.activity)
        problem = TlkcProblem(log, Knowledge("seq"), TlkcBounds.of(3, K, 1), {})
        hiding = Hiding(problem, shown, [Target(0, K, 3)], "events")
        found = hiding._exposed(np.ones(log.n_events, dtype=np.bool_), hiding.of_some, hiding.outside)
        given = {problem.seen.decode(bk) for bk in found}
        outside = {case: trace for case, trace in traces(log).items() if case not in first.case_ids}
        short = {bk for bk in publishing.knowledge(LETTERS, 3) if 0 < len(matching(outside, bk)) < K}
        assert given <= short
        assert all(any(within(one, bk) for one in given) for bk in short)
