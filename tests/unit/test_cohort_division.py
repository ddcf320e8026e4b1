"""Cases of a queue that leave as a cohort, cases that wait, and queues that cannot leave."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from models.errors import BoundError
from models.eventlog import EventLog
from stream.ledger.folder import compact_json
from stream.release.contract import Build, Exposure
from stream.release.mechanisms.cohorts import TlkcCohorts

K = 20


def exposure(traces: list[str], values: str = "pq", *, last: bool = False) -> Exposure:
    """Completed cases; the same traces first, as a stream that grows."""
    log = EventLog.from_traces([(trace, values[case % len(values)]) for case, trace in enumerate(traces)], "S")
    return Exposure(log, np.ones(len(traces), dtype=np.bool_), ("S",), 0, last=last)


def publish(mechanism: TlkcCohorts, cuts: list[list[str]], *, last: bool = False) -> list[Build]:
    """A release a cut; a cut that is withheld raises."""
    memory, seen, builds = None, list[str](), list[Build]()
    for number, more in enumerate(cuts, start=1):
        seen += more
        builds.append(mechanism.build(exposure(seen, last=last and number == len(cuts)), memory))
        memory = msgspec.json.decode(compact_json(builds[-1].memory))
    return builds


def local(**parameters: Any) -> TlkcCohorts:
    return TlkcCohorts(**{"K": K, "suppression": "local", **parameters})


def window(rare: int = 8) -> list[str]:
    """Forty cases, of which `rare` have an activity that the others lack."""
    return ["abxc"] * rare + ["abc"] * (40 - rare)


def test_a_rare_activity_leaves_once_enough_cases_have_it() -> None:
    """Eight of each forty cases have x, K is 20: they wait, and leave together. Without patience x is always lost."""
    waits = publish(local(), [window()] * 4)
    assert any("x" in build.log.activity.values for build in waits)
    assert all("x" not in build.log.activity.values for build in publish(local(patience=0), [window()] * 4))


def test_what_waits_is_pending_and_comes_out_whole() -> None:
    """A case that waits is held, not suppressed, and later shows every event."""
    builds = publish(local(), [window()] * 3)
    assert builds[0].held == (8, 32)
    shown = Counter("".join(trace) for build in builds[-1:] for trace in build.log.traces())
    assert shown == {"abc": 96, "abxc": 24}


def test_nobody_waits_longer_than_asked() -> None:
    """Too few ever have x: after `patience` releases they leave without it."""
    builds = publish(local(patience=2), [window(1)] * 5)
    waiting = builds[-1].memory["waiting"]
    assert all(releases <= 2 for releases in waiting.values())
    first = [case for case in builds[-1].origin if case == 0]
    assert first == [0]


def test_an_activity_of_five_percent_is_shown_in_the_end() -> None:
    """Two of each forty cases have x, K is 20: they wait for one another longer than others, and are shown with it."""
    builds = publish(local(), [window(2)] * 12, last=True)
    shown = sum("x" in trace for trace in builds[-1].log.traces())
    assert shown >= K
    assert max(build.held[0] for build in builds) <= 24


def test_what_nobody_has_seen_yet_is_shown_when_the_log_ends() -> None:
    """Twenty of 200 cases have x, half after a, half after b. The last cut is the last chance to show x, and shows
    neither a nor b with it: if frequent activities entered first, x would be lost."""
    (build,) = publish(local(), [["a"] * 90 + ["b"] * 90 + ["ax"] * 10 + ["bx"] * 10], last=True)
    assert Counter(map("".join, build.log.traces())) == {"a": 90, "b": 90, "x": 20}


def test_nobody_waits_for_an_activity_of_one_value() -> None:
    """Eight of each forty cases have x, and all of them one value: no waiting makes that C = .5, so they leave."""
    seen: list[str] = []
    values, memory = "", None
    for cut in range(7):
        seen, values = seen + window(), values + "p" * 8 + "q" * 16 + "r" * 16
        build = local().build(exposure(seen, values), memory)
        memory = build.memory
        if cut >= 3:
            assert build.held == (0, 0)


def test_at_the_end_of_the_log_nobody_waits() -> None:
    """The last cut publishes what it can."""
    builds = publish(local(), [window()] * 2, last=True)
    assert builds[0].held[0] == 8
    assert builds[1].held == (0, 0)


def test_at_most_two_fifths_of_the_newcomers_wait() -> None:
    """The median case leaves at its first cut, whatever its activities."""
    generator = np.random.default_rng(5)
    seen: list[str] = []
    memory = None
    for _ in range(5):
        seen += ["z" + "".join(generator.choice(list("abcdefgh"), 6)) for _ in range(100)]
        before = len(seen) - 100
        build = local().build(exposure(seen, "pqrst"), memory)
        memory = build.memory
        fresh = sum(1 for case in build.origin if case >= before)
        assert fresh >= 60


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_of_three_k_leaves_whatever_its_traces(seed: int) -> None:
    """Sixty cases that share activities by halves: something of them is always published."""
    generator = np.random.default_rng(seed)
    traces = ["".join(letter for letter in "abcdefghij" if generator.random() < 0.5) or "a" for _ in range(3 * K)]
    assert local().build(exposure(traces, "pqrst")).log.n_cases >= K


def test_a_class_that_is_too_frequent_is_named_as_the_cause() -> None:
    """97 of 100 cases have one value: no K cases can leave, and it is not for want of cases."""
    for mechanism in (local(), TlkcCohorts(K=K)):
        with pytest.raises(
            BoundError, match=r"of the 100 completed cases that wait .* 97 % have one value of S: C = 0\.5"
        ):
            mechanism.build(exposure(["abc"] * 100, "p" * 97 + "qrs"))


def test_too_few_cases_are_reported_as_such() -> None:
    """Nine cases cannot be a cohort of twenty."""
    for mechanism in (local(), TlkcCohorts(K=K)):
        with pytest.raises(BoundError, match="9 completed cases wait, and a cohort needs at least K = 20"):
            mechanism.build(exposure(["abc"] * 9))


def test_cases_that_have_nothing_in_common_are_reported_as_such() -> None:
    """Forty cases, no activity of which twenty have."""
    with pytest.raises(BoundError, match="in common"):
        local().build(exposure([letter * 2 for letter in "abcdefghijklmnopqrst"] * 2))


def test_cases_that_share_only_with_their_own_value_are_reported_as_such() -> None:
    """Each activity belongs to one value: without C they could leave."""
    with pytest.raises(BoundError, match=r"too many have one value of S for C = 0\.5"):
        local().build(exposure(["ab", "cd"] * 40))


def test_an_erased_case_waits_no_more() -> None:
    """The memory names waiting cases; erasure takes them out."""
    memory = msgspec.json.decode(compact_json(publish(local(), [window()])[0].memory))
    name = next(iter(memory["waiting"]))
    assert name not in TlkcCohorts.forget(memory, [name])["waiting"]


def test_a_memory_without_waiting_cases_is_read() -> None:
    """Written by a version whose queues were all or nothing."""
    memory = msgspec.json.decode(compact_json(publish(local(), [window()])[0].memory))  # as it is kept
    before = {key: value for key, value in memory.items() if key != "waiting"}
    assert local().build(exposure(window() * 2), before).log.n_cases == 64


def test_the_same_queue_is_divided_the_same_way() -> None:
    """A replay divides a queue as the daemon does."""
    generator = np.random.default_rng(1)
    traces = ["".join(generator.choice(list("abcdefgh"), 6)) for _ in range(120)]
    one, two = (local().build(exposure(traces, "pqrst")) for _ in range(2))
    assert one.origin.tolist() == two.origin.tolist()
    assert one.log.traces() == two.log.traces()
