"""Microaggregated times: what each published time represents, what it keeps, and who bears it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from connectors import read_log
from models.anonymize.microaggregation import microaggregated, microaggregated_after, runs
from models.errors import InputError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger.folder import compact_json
from stream.release.contract import Exposure
from stream.release.gate import worst_anonymity
from stream.release.mechanisms import cohorts
from stream.release.mechanisms.cohorts import TlkcCohorts
from stream.release.mechanisms.tlkc import Tlkc
from stream.run.replay import Replay

MINUTE = 60_000_000_000
STEP = 1_000
Passed = dict[tuple[str, str], list[tuple[str, int]]]


def below(seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    return lambda n: int(generator.integers(n))


def timed(log: EventLog, time: Any) -> Passed:
    """(case, elapsed time) by directly-follows pair."""
    found: Passed = defaultdict(list)
    activity = log.activity.decode()
    for case, a, b in zip(log.case_ids, log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True):
        names = activity[a:b]
        for place, pair in enumerate(itertools.pairwise(names)):
            found[pair].append((case, int(time[a + place + 1] - time[a + place])))
    return found


def random_log(seed: int, cases: int = 60) -> EventLog:
    generator = np.random.default_rng(seed)
    owner, names, times = [], [], []
    for case in range(cases):
        clock = int(generator.integers(10**6)) * 1_000_000_000
        for _ in range(int(generator.integers(1, 8))):
            owner.append(f"c{case}")
            names.append("abc"[int(generator.integers(3))])
            times.append(clock)
            clock += int(generator.exponential(1e13))
    return EventLog.from_events(owner, names, np.asarray(times), unit="ns")


@pytest.mark.parametrize("seed", range(30))
def test_runs_cover_everything_and_hold_k_cases(seed: int) -> None:
    """Runs follow one another without a gap, and each holds at least K distinct cases though a case comes twice."""
    generator = np.random.default_rng(seed)
    size, K = int(generator.integers(5, 60)), int(generator.integers(1, 6))
    values = sorted(generator.integers(100, size=size).tolist())
    case = generator.integers(K + 10, size=size).tolist()
    if len(set(case)) < K:
        return
    found = runs(values, case, K)
    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])]
    assert found[-1][1] == size
    assert all(len(set(case[first:last])) >= K for first, last in found)


def test_runs_begin_where_a_value_is_farthest_from_the_rest() -> None:
    """MDAV in one dimension, by hand: 100 is farthest from the mean, then 0 .. 2."""
    assert runs([0, 1, 2, 50, 51, 52, 98, 99, 100], list("abcdefghi"), 3) == [(0, 3), (3, 6), (6, 9)]
    assert runs([0, 0, 1, 10, 11, 12], list("aabcde"), 2) == [(0, 4), (4, 6)]


@pytest.mark.parametrize("seed", range(10))
def test_every_time_is_a_mean_of_at_least_k_cases(seed: int) -> None:
    """Starts: each published value at least K times. Elapsed times of a pair of K cases: at least K times as well."""
    log, K = random_log(seed), 5
    time = microaggregated(log, K, "minutes", below(seed))
    starts = Counter(time[log.starts[:-1]].tolist())
    assert min(starts.values()) >= K
    assert all(start % MINUTE == 0 for start in starts)
    true, published = timed(log, log.time), timed(log, time)
    for pair, bearers in true.items():
        values = Counter(value for _, value in published[pair])
        if len({case for case, _ in bearers}) >= K:
            assert min(values.values()) >= K


@pytest.mark.parametrize("seed", range(10))
def test_sums_by_pair_are_kept_but_for_rounding(seed: int) -> None:
    """Half a microsecond a bearer, no more; and no time goes backwards."""
    log, K = random_log(seed), 5
    true, published = timed(log, log.time), timed(log, microaggregated(log, K, "minutes", below(seed)))
    for pair, bearers in true.items():
        assert all(value >= 0 for _, value in published[pair])
        if len({case for case, _ in bearers}) >= K:
            difference = sum(value for _, value in published[pair]) - sum(value for _, value in bearers)
            assert abs(difference) <= len(bearers) * STEP / 2


def one_among_twenty(hours: int) -> EventLog:
    """Twenty cases go a -> b in one hour, one goes c -> b in so many."""
    owner = [f"c{case}" for case in range(21) for _ in "ab"]
    times = [0, 1] * 20 + [0, hours]
    return EventLog.from_events(owner, list("ab") * 20 + list("cb"), np.asarray(times) * 60 * MINUTE, unit="ns")


def test_a_rare_pair_reveals_no_time_of_its_own() -> None:
    """It takes what is published of the other times to its second activity. A mean of all 21 times to b would be
    (20 h + x) / 21, and x could be read off it, since 20 h is public."""
    for hours in (0, 22, 44):
        published = timed(log := one_among_twenty(hours), microaggregated(log, 20, "hours", below()))
        assert [value for _, value in published["c", "b"]] == [60 * MINUTE]
        assert {value for _, value in published["a", "b"]} == {60 * MINUTE}


def test_a_single_step_reveals_nothing() -> None:
    """Twenty-five cases, one of which has a second event: no mean is of K cases, so its time is none."""
    owner, hours = [f"c{case}" for case in range(25)], [0] * 25
    log = EventLog.from_events([*owner, "c0"], ["a"] * 25 + ["b"], np.asarray([*hours, 7]) * 60 * MINUTE, unit="ns")
    assert [value for _, value in timed(log, microaggregated(log, 20, "hours", below()))["a", "b"]] == [0]


def test_rare_pairs_to_one_activity_stand_for_one_another() -> None:
    """Ten cases go a -> b in 1 h, ten c -> b in 3 h: together they are K cases, and their mean is reported."""
    owner = [f"c{case}" for case in range(20) for _ in "ab"]
    hours = [hour for case in range(20) for hour in (0, 1 if case < 10 else 3)]
    log = EventLog.from_events(owner, list("ab") * 10 + list("cb") * 10, np.asarray(hours) * 60 * MINUTE, unit="ns")
    published = timed(log, microaggregated(log, 20, "hours", below()))
    assert {value for pair in published.values() for _, value in pair} == {2 * 60 * MINUTE}


@pytest.mark.parametrize("seed", range(10))
def test_cohorts_pay_what_they_owe(seed: int) -> None:
    """Of each pair, shown and owed is the truth after every cohort; nothing is owed if K cases have been reported, and
    fewer than K cases are not reported. So the sums of a pair are right as soon as nothing of it is pending."""
    K, logs = 5, [random_log(100 * seed + part, 12) for part in range(5)]
    pending: dict[Any, Any] = {}
    shown, true, events = Counter[Any](), Counter[Any](), Counter[Any]()
    exact = 0
    for log in logs:
        time, pending = microaggregated_after(log, K, "minutes", below(seed), pending)
        for total, times in ((true, log.time), (shown, time)):
            for pair, values in timed(log, times).items():
                total[pair] += sum(value for _, value in values)
                events[pair] += len(values)
                assert all(value >= 0 for _, value in values)
        for pair, one in pending.items():
            assert abs(true[pair] - shown[pair] - one.owed) <= events[pair] * STEP
            assert one.cases < K or one.owed < 0
            exact += one.cases == 0
    assert exact >= 8


@pytest.mark.parametrize("seed", range(10))
def test_what_is_not_released_changes_nothing(seed: int) -> None:
    """Other times of the cases that are pending in the end: the same bytes were published, from the first cohort on.
    Pending times can be reported later, so they must not be reported now."""
    K, parts = 5, [random_log(100 * seed + part, 8) for part in range(3)]

    def publish(logs: list[EventLog]) -> tuple[list[list[int]], list[dict[Any, Any]]]:
        times, states, pending = [], [], dict[Any, Any]()
        for log in logs:
            time, pending = microaggregated_after(log, K, "minutes", below(seed), pending)
            times.append(time.tolist())
            states.append(pending)
        return times, states

    times, states = publish(parts)
    # By pair that still hides some cases at the end: the first release after which it always hid some.
    hidden: dict[Any, int] = {}
    for pair in states[-1]:
        if states[-1][pair].cases and all(pair in state for state in states):
            without = [release for release, state in enumerate(states) if not state[pair].cases]
            hidden[pair] = max(without, default=-1) + 1
    others = [slowed(log, {pair for pair, first in hidden.items() if first <= k}) for k, log in enumerate(parts)]
    assert publish(others)[0] == times
    assert hidden


def slowed(log: EventLog, pairs: set[Any]) -> EventLog:
    """The log with an hour more at each step of some pairs."""
    activity, time = log.activity.decode(), log.time.copy()
    for a, b in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True):
        for place in range(a + 1, b):
            if (activity[place - 1], activity[place]) in pairs:
                time[place:b] += 60 * MINUTE
    return replace(log, time=time)


def test_a_rare_pair_of_cohorts_is_released_once_k_cases_have_it() -> None:
    """Three cohorts of 20 cases; eight of each go a -> b in an hour. The third cohort makes them K = 20 and pays for
    the others: 24 hours on its eight events, and the mean over all is one hour."""
    pending: dict[Any, Any] = {}
    found = []
    for part in range(3):
        owner = [f"{part}-{case}" for case in range(20) for _ in "ab"]
        hours = [hour for case in range(20) for hour in (0, 1 if case < 8 else 5)]
        log = EventLog.from_events(owner, list("ab") * 8 + list("cd") * 12, np.asarray(hours) * 60 * MINUTE, unit="ns")
        time, pending = microaggregated_after(log, 20, "minutes", below(), pending)
        found += [value / (60 * MINUTE) for _, value in timed(log, time)["a", "b"]]
    assert found == [0] * 16 + [3] * 8
    assert pending["a", "b"].cases == 0


def test_an_erased_case_leaves_nothing_pending_of_its_pairs() -> None:
    """A pending time may be that of the erased case alone."""
    log = random_log(3, 40)
    mechanism = TlkcCohorts(K=5, C=1, suppression="local", effort=1, times="microaggregated")
    built = mechanism.build(Exposure(log, np.ones(40, dtype=np.bool_), (), 0))
    memory = msgspec.json.decode(compact_json(built.memory))  # as it is kept
    memory["pending"] = [["a", "b", 1, 1, 77, None], ["z", "z", 1, 1, 7, None]]
    traces = zip(built.log.case_ids, built.log.traces(), strict=True)
    case = next(name for name, trace in traces if "ab" in "".join(trace))
    left = TlkcCohorts.forget(memory, [case])["pending"]
    assert [tuple(one) for one in left] == [("a", "b", 0, 0, 0, None), ("z", "z", 1, 1, 7, None)]


def test_times_are_dealt_out_regardless_of_their_case() -> None:
    """Forty cases, half quick: over 400 deals each case shows the slow mean half of the time, within 5 sigma."""
    owner = [f"c{case}" for case in range(40) for _ in "ab"]
    hours = [hour for case in range(40) for hour in (0, 1 if case < 20 else 9)]
    log = EventLog.from_events(owner, list("ab") * 40, np.asarray(hours) * 60 * MINUTE, unit="ns")
    draw, slow = below(3), np.zeros(40)
    for _ in range(400):
        slow += np.diff(microaggregated(log, 20, "minutes", draw).reshape(40, 2))[:, 0] == 9 * 60 * MINUTE
    assert np.abs(slow - 200).max() < 5 * 10


def test_fewer_cases_than_k_have_no_times() -> None:
    """Nothing could represent K cases."""
    with pytest.raises(ValueError, match="3 cases"):
        microaggregated(random_log(0, 3), 5, "minutes", below())


@pytest.mark.parametrize("wrong", [{"knowledge": "rel"}, {"attribute": "re"}], ids=str)
def test_times_need_activities_and_no_times_of_their_own(wrong: dict[str, str]) -> None:
    """Refused when the file is read."""
    with pytest.raises(InputError, match="microaggregated"):
        Tlkc(times="microaggregated", **wrong)


@pytest.mark.parametrize("name", ["sepsis", "bpic2012"])
def test_the_performance_map_is_that_of_the_released_log(logs: Path, name: str) -> None:
    """Mean by directly-follows pair of at least K cases: within 1 % of the true mean of the same released events."""
    log = read_log(logs / f"{name}.xes.gz")
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    parameters: dict[str, Any] = {"suppression": "local", "K": 20, "L": 2}
    plain, release = Tlkc(**parameters).build(exposure), Tlkc(times="microaggregated", **parameters).build(exposure)
    assert plain.log.traces() == release.log.traces()
    assert release.time_basis == "microaggregated"
    true, published = timed(plain.log, plain.log.time), timed(release.log, release.log.time)
    compared = 0
    for pair, bearers in true.items():
        mean = sum(value for _, value in bearers) / len(bearers)
        if len({case for case, _ in bearers}) >= 20 and mean:
            compared += 1
            assert sum(value for _, value in published[pair]) / len(bearers) == pytest.approx(mean, rel=0.01)
    assert compared >= 40


def test_the_performance_map_of_cohorts_holds_where_nothing_is_pending(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sepsis in ten cohorts: every pair of which nothing is pending has its true mean within 1 %, and these are nine
    tenths of all steps of pairs of K released cases. Pending values come from fewer than K cases, so nothing reveals
    them."""
    true: Passed = defaultdict(list)

    def watched(log: EventLog, *rest: Any, **more: Any) -> Any:
        for pair, values in timed(log, log.time).items():
            true[pair] += values
        return microaggregated_after(log, *rest, **more)

    monkeypatch.setattr(cohorts, "microaggregated_after", watched)
    log = read_log(logs / "sepsis.xes.gz")
    mechanism = TlkcCohorts(K=20, C=1, suppression="local", effort=1, times="microaggregated")
    memory, build = None, None
    for cases in range(105, 1051, 105):
        part = log.select_cases(np.arange(cases))
        build = mechanism.build(Exposure(part, np.ones(cases, dtype=np.bool_), (), 0, last=cases == 1050), memory)
        memory = build.memory
    assert build is not None
    published = timed(build.log, build.log.time)
    pending = {(a, b): rest[0] for a, b, *rest in build.memory["pending"]}
    steps, close = 0, 0
    for pair, bearers in true.items():
        mean = sum(value for _, value in bearers) / len(bearers)
        if len({case for case, _ in bearers}) < 20 or not mean:
            continue
        steps += len(bearers)
        near = sum(value for _, value in published[pair]) / len(bearers) == pytest.approx(mean, rel=0.01)
        close += near * len(bearers)
        assert near or pending[pair] > 0
    assert close / steps >= 0.9


def test_cohorts_keep_the_times_they_showed() -> None:
    """In every later release a case has the times of its first one."""
    log = random_log(7, 120)
    mechanism = TlkcCohorts(K=5, C=1, suppression="local", effort=1, times="microaggregated")
    memory, shown = None, dict[str, list[int]]()
    for cases in (60, 90, 120):
        part = log.select_cases(np.arange(cases))
        build = mechanism.build(Exposure(part, np.ones(cases, dtype=np.bool_), (), 0), memory)
        memory = build.memory
        now = {
            part.case_ids[case]: build.log.time[a:b].tolist()
            for case, a, b in zip(build.origin, build.log.starts[:-1], build.log.starts[1:], strict=True)
        }
        assert shown.items() <= now.items()
        assert len(now) > len(shown)
        shown = now


def test_audits_link_on_times_and_find_no_more(tmp_path: Path) -> None:
    """The same stream with and without times: `linkable_on` names them, and FA, CA, BA stay at K or above."""
    log = random_log(11, 160)
    log = log.with_columns(case={"S": log.activity.take(log.starts[:-1])})
    process = {"completion": {"log_end": True}}
    least = {}
    for times in ("ordinal", "microaggregated"):
        mechanism = {"kind": "tlkc-cohorts", "K": 5, "C": 1, "suppression": "local", "effort": 1, "times": times}
        audit = {"bk_length": 2, "n": [0, 1], "risk": False, "utility": False}
        publication = {"name": "p", "window": {"new_cases": 40}, "mechanism": mechanism, "audit": audit}
        settings = Settings.model_validate({"process": process, "publication": [publication]})
        outcome = Replay(settings, tmp_path / times).run(log, final=True)
        audits = [decision.audit["anonymity"] for _, decision in outcome.decisions if decision.status == "sealed"]
        assert len(audits) >= 3
        assert audits[-1]["linkable_on"] == ["activity", *(["relative_time"] if times != "ordinal" else [])]
        assert audits[-1]["bk_on"] == ["activity"]
        least[times] = [
            min(value for one in audits if (value := worst_anonymity(one, name)) is not None)
            for name in ("ka", "fa", "ca", "ba")
        ]
    assert min(least["microaggregated"]) >= 5
    assert min(least["ordinal"]) >= 5
