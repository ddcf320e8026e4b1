"""The auditor: its figures by hand, its neighbouring logs, and its verdicts on right mechanisms and planted bugs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from models.dp import amun, audit, counts, noise, strict
from models.dp.audit import (
    EVENTS,
    SURE,
    Finding,
    NeighbourPair,
    group_delta,
    lower_bound,
    power,
    seen_epsilon,
    upper_bound,
)
from models.dp.counts import NoisyCounts
from models.dp.neighbours import DURATIONS, HOUR, Stage, count_pairs, observed, pairs
from models.errors import BoundError, InputError
from models.eventlog import EventLog

EPSILON, DELTA = 1, 0.01


ALPHA = 1e-3
"""Chance that an audit of a right mechanism refutes it (the seeds are fixed, so this is decided once)."""


class _Half(noise.NoiseSource):
    """Planted bug: half the scale."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return super().laplace(scale / 2, size)


class _NoTimes(noise.NoiseSource):
    """Planted bug: epsilon forgotten on one attribute, the times."""

    def laplace(self, scale: float, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64) if scale > 1e6 else super().laplace(scale, size)


def _source(kind: type[noise.NoiseSource] = noise.NoiseSource) -> noise.NoiseSource:
    return kind(np.random.default_rng(11))


def _variants(source: noise.NoiseSource) -> Callable[[EventLog], EventLog]:
    return lambda log: strict.release_variants(log, epsilon=EPSILON, delta_dp=DELTA, draw=source).log


def _times(source: noise.NoiseSource) -> Callable[[EventLog], EventLog]:
    return lambda log: strict.release_log(log, epsilon=EPSILON, delta_dp=DELTA, draw=source).log


def _audit(
    run: Callable[[EventLog], EventLog], name: str, runs: int, *, rule: bool = False
) -> tuple[audit.Finding, int]:
    pair = next(pair for pair in pairs(run, rule=rule) if pair.name == name)
    delta = 0.0 if rule else audit.group_delta(EPSILON, DELTA, pair.steps)
    return audit.audit(pair, runs, delta=delta, alpha=ALPHA), pair.steps


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        pytest.param("a case added", 500, marks=pytest.mark.slow),
        ("a case of a new variant added", 500),
        pytest.param("an event changed", 500, marks=pytest.mark.slow),
        ("a time shifted", 500),
    ],
)
def test_strict_log_stays_below_its_claim(name: str, runs: int) -> None:
    """No neighbouring pair refutes dp-log."""
    finding, steps = _audit(_times(_source()), name, runs)
    assert not finding.refutes(EPSILON, steps)


def test_strict_variants_stay_below_and_come_near() -> None:
    """dp-variants is not refuted, and the auditor sees a good part of its epsilon: it is not blind."""
    finding, steps = _audit(_variants(_source()), "a case added", 1000)
    assert not finding.refutes(EPSILON, steps)
    assert finding.epsilon > 0.4


def test_half_the_scale_is_caught() -> None:
    """Planted bug 1: noise of half the scale spends 2 epsilon, and the audit reports it."""
    finding, steps = _audit(_variants(_source(_Half)), "a case added", 1000)
    assert finding.refutes(EPSILON, steps)
    assert finding.epsilon < 2 * EPSILON + 0.05


def test_forgotten_attribute_is_caught() -> None:
    """Planted bug 2: times without noise."""
    finding, steps = _audit(_times(_source(_NoTimes)), "a time shifted", 600)
    assert finding.refutes(EPSILON, steps)
    assert "takes" in finding.witness


def test_missing_threshold_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug 3: variants released without a threshold, so a new variant gives its owner away."""
    monkeypatch.setattr(counts, "threshold", lambda *_: 1)
    finding, steps = _audit(_variants(_source()), "a case of a new variant added", 400)
    assert finding.refutes(EPSILON, steps)
    assert "('A', 'C')" in finding.witness


@pytest.mark.parametrize("design", [pytest.param("sampling", marks=pytest.mark.slow), "oversampling"])
def test_amun_is_unbounded(design: amun.Design) -> None:
    """Amun releases only variants that were there, so a new variant is impossible without its owner: no epsilon."""
    source = _source()
    finding, _ = _audit(
        lambda log: amun.release(log, delta=0.2, variant=design, draw=source).log,
        "a case of a new variant added",
        200,
        rule=True,
    )
    assert finding.unbounded
    assert finding.epsilon == math.inf
    assert finding.refutes(1e9)


def test_clopper_pearson() -> None:
    """The bounds are the exact binomial ones."""
    from scipy.stats import binom

    for hits, runs in ((0, 50), (3, 50), (50, 50)):
        low, high = audit.lower_bound(hits, runs, 0.01), audit.upper_bound(hits, runs, 0.01)
        assert low <= hits / runs <= high
        assert low == 0 if hits == 0 else binom.sf(hits - 1, runs, low) == pytest.approx(0.01)
        assert high == 1 if hits == runs else binom.cdf(hits, runs, high) == pytest.approx(0.01)


def test_coverage_of_the_bound() -> None:
    """A mechanism that does not depend on its input is refuted in no more than the stated share of audits."""
    random = np.random.default_rng(3)

    def coin() -> list[str]:
        return ["heads" if random.random() < 0.5 else "tails"]

    found = [audit.audit(audit.NeighbourPair("same", coin, coin), 200, alpha=0.05).epsilon > 0 for _ in range(100)]
    assert sum(found) <= 12  # 5 % asked; more than 12 of 100 has chance 0.001


def test_a_refusal_is_an_event() -> None:
    """A mechanism that refuses on one log and not on the other is distinguished by that."""

    def run(log: EventLog) -> EventLog:
        if ("A", "C") in log.traces():
            raise BoundError("nothing is left")
        return log

    pair = next(pair for pair in pairs(run) if pair.name == "a case of a new variant added")
    assert list(pair.run_other()) == ["nothing is released"]
    finding = audit.audit(pair, 100, alpha=ALPHA)
    assert finding.refutes(EPSILON)


def test_delta_grows_with_the_steps() -> None:
    """Two changes of an (e, d)-DP mechanism are (2 e, d + e^e d); never a delta of 1 or more, however large epsilon is.

    A mechanism that uses its delta on each of two steps is right, and only this delta does not refute it.
    """
    assert audit.group_delta(1, 0.01, 1) == 0.01
    assert audit.group_delta(1, 0.01, 2) == pytest.approx(0.01 + 0.01 * math.e)
    assert audit.group_delta(1, 0, 2) == 0
    assert audit.group_delta(800, 1e-9, 2) == audit.group_delta(5, 0.5, 2) < 1
    random = np.random.default_rng(5)
    first = 0.001
    second = math.e * first + 0.2
    third = math.e * second + 0.2  # each log is one step from the one before, and the step uses up (1, 0.2)

    def _output(chance: float) -> Callable[[], list[str]]:
        return lambda: ["shown" if random.random() < chance else "silent"]

    pair = audit.NeighbourPair("two steps", _output(first), _output(third), 2)
    one_step, two_steps = (
        audit.audit(pair, 4000, delta=delta, alpha=ALPHA).refutes(1, 2) for delta in (0.2, audit.group_delta(1, 0.2, 2))
    )
    assert one_step
    assert not two_steps


class Always:
    """A mechanism that always shows the same events, and counts how often it was run."""

    def __init__(self, *events: Hashable) -> None:
        self.events, self.runs = events, 0

    def __call__(self) -> Iterable[Hashable]:
        self.runs += 1
        return self.events


class Written:
    """A mechanism whose runs are written down: the events of each, in order."""

    def __init__(self, *runs: Iterable[Hashable]) -> None:
        self.runs = iter(runs)

    def __call__(self) -> Iterable[Hashable]:
        return next(self.runs)


def _bound(hits: int, others: int, half: int, error: float, delta: float = 0.0) -> float:
    return math.log((lower_bound(hits, half, error) - delta) / upper_bound(others, half, error))


def test_half_of_the_runs_choose_and_half_count() -> None:
    """Each log is run twice half of the runs; an odd one is left out."""
    one, other = Always("x"), Always("y")
    found = audit.audit(NeighbourPair("p", one, other), 41)
    assert (one.runs, other.runs, found.runs, found.pair) == (40, 40, 41, "p")


def test_the_bound_of_an_event_that_is_certain_and_never() -> None:
    """ln((p - delta) / q) at the Clopper-Pearson ends, alpha shared by both ends, both directions and all events."""
    found = audit.audit(NeighbourPair("p", Always("x"), Always()), 100, delta=0.1, alpha=0.04)
    assert found.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 4, 0.1))
    assert (found.unbounded, found.witness) == (False, "x")
    both = audit.audit(NeighbourPair("p", Always("x"), Always("y")), 100, alpha=0.04)
    assert both.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 8))
    backwards = audit.audit(NeighbourPair("p", Always(), Always(("y", 1))), 100, alpha=0.04)
    assert backwards.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 4))
    assert backwards.witness == "('y', 1)"


def test_no_more_events_than_asked_for_share_alpha() -> None:
    """The 20 most revealing ones by default."""
    many = Always(*(f"e{number}" for number in range(30)))
    found = audit.audit(NeighbourPair("p", many, Always()), 100, alpha=0.04)
    assert found.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 80))
    three = audit.audit(NeighbourPair("p", many, Always()), 100, alpha=0.04, events=3)
    assert three.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 12))


def test_the_event_with_the_largest_ratio_is_chosen() -> None:
    """By its plausible ratio on the first half, not by how often it comes."""
    one = Written(*[["often", "telling"]] * 60, *[["often"]] * 40, *[["often", "telling"]] * 60, *[["often"]] * 40)
    other = Written(*[["often"]] * 200)
    found = audit.audit(NeighbourPair("p", one, other), 200, alpha=0.04, events=1)
    assert found.witness == "telling"
    assert found.epsilon == pytest.approx(_bound(60, 0, 100, 0.04 / 4))


def test_events_are_counted_on_the_second_half_alone() -> None:
    """Events that appear on the first half only were luck, and bound nothing."""
    one = Written(*[["x"]] * 50, *[[]] * 50)
    found = audit.audit(NeighbourPair("p", one, Always()), 100)
    assert found == Finding("p", 0.0, False, "", 100)
    late = Written(*[[]] * 50, *[["x"]] * 50)
    assert audit.audit(NeighbourPair("p", late, Always()), 100).epsilon == 0


def test_the_best_of_all_events_is_reported() -> None:
    """The largest bound on the second half, whichever place its event had on the first."""
    first, second = [["a", "b"]] * 45 + [["a"]] * 5, [["a", "b"]] * 20 + [["b"]] * 30
    found = audit.audit(NeighbourPair("p", Written(*first, *second), Always()), 100, alpha=0.04)
    assert found.witness == "b"
    assert found.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 8))


def test_an_event_that_was_luck_does_not_end_the_search() -> None:
    """The first choice never comes again; the second one is counted all the same."""
    first, second = [["a", "b"]] * 45 + [["a"]] * 5, [["b"]] * 50
    assert audit.audit(NeighbourPair("p", Written(*first, *second), Always()), 100, alpha=0.04).witness == "b"


def test_what_delta_alone_allows_is_not_chosen() -> None:
    """20 of 50 against none is within a delta of .3, whatever the ratio; 50 against 10 is not."""
    one = Written(*[["a", "z"]] * 20, *[["a"]] * 30, *[["a", "z"]] * 20, *[["a"]] * 30)
    other = Written(*[["a"], [], [], [], []] * 20)
    found = audit.audit(NeighbourPair("p", one, other), 100, delta=0.3, alpha=0.04, events=1)
    assert found.witness == "a"
    assert found.epsilon == pytest.approx(_bound(50, 10, 50, 0.04 / 4, 0.3))


def test_equal_events_are_chosen_by_their_names() -> None:
    """The same audit chooses the same events in every process, though sets have no order."""
    found = audit.audit(NeighbourPair("p", Always(*"abcdefgh"), Always()), 100, events=1)
    assert found.witness == "h"


def test_many_runs_are_counted_in_parts() -> None:
    """Of 520,000 runs half choose and half count, each log for itself, 100,000 at most at once; none is run alone."""
    asked: list[int] = []

    def many(runs: int) -> Counter[Hashable]:
        asked.append(runs)
        return Counter({"yes": runs})

    alone = Always("alone")
    pair = NeighbourPair("p", alone, alone, many_one=many, many_other=lambda runs: Counter({"no": runs}))
    found = audit.audit(pair, 520_000)
    assert asked == [100_000, 100_000, 60_000] * 2
    assert alone.runs == 0
    assert found.epsilon == power(520_000, 1.0, events=2).epsilon


@pytest.mark.parametrize(
    ("runs", "claimed", "keys"),
    [
        (20_000, 1.0, {"delta": 0.01, "alpha": 0.001, "events": 2, "steps": 2}),
        (3001, 0.1, {"delta": 0.0, "alpha": 0.05, "events": 9, "steps": 1}),
        (2000, 1.0, {}),
    ],
)
def test_the_least_excess_that_is_seen(runs: int, claimed: float, keys: dict[str, Any]) -> None:
    """Within 2e-6: there the event that is reported as seldom as `SURE` allows, on both logs, refutes the claim, and
    below it does not; by the binomial distribution and by Clopper-Pearson intervals, as quantiles of a beta."""
    from scipy.stats import beta, binom

    terms = {"delta": 0.0, "alpha": 0.01, "events": EVENTS, "steps": 1, **keys}
    half, rare, error = runs // 2, (1 - SURE) / 2, terms["alpha"] / (4 * terms["events"])

    def bound(epsilon: float) -> float:
        below = 1 / (1 + math.exp(epsilon * terms["steps"]))
        hits = np.arange(half + 1)
        least = int(hits[binom.cdf(hits, half, 1 - below) >= rare][0])
        most = int(hits[binom.cdf(hits, half, below) >= 1 - rare][0])
        likely = beta.ppf(error, least, half - least + 1) - terms["delta"]
        return math.log(likely / beta.ppf(1 - error, most + 1, half - most))

    found = seen_epsilon(runs, claimed, **keys)
    assert found is not None
    assert bound(found + 2e-6) > claimed * terms["steps"] >= bound(found - 2e-6)


def test_too_few_runs_see_no_excess() -> None:
    """Not even of an event that always happens on one log and never on the other, where delta allows as much."""
    for delta in (0.0, 0.2, 0.9):
        assert seen_epsilon(20, 1.0, delta=delta) is None


def test_what_is_not_said_of_a_pair_and_of_power() -> None:
    """One step, delta 0, alpha 1 %, 20 events."""
    assert NeighbourPair("p", Always(), Always()).steps == 1
    assert power(100, 0.5) == power(100, 0.5, delta=0.0, alpha=0.01, events=20, steps=1)
    assert power(100, 0.5).epsilon == pytest.approx(_bound(50, 0, 50, 0.01 / 80))
    only_always = (_bound(49, 0, 50, 0.01 / 80) + _bound(50, 0, 50, 0.01 / 80)) / 2
    assert power(100, only_always).probability == 1.0


def test_an_event_counts_once_a_run() -> None:
    """However often one output shows it."""
    found = audit.audit(NeighbourPair("p", Written(*[["x", "x"], []] * 50), Always()), 100, alpha=0.04)
    assert found.epsilon == pytest.approx(_bound(25, 0, 50, 0.04 / 4))


def test_delta_is_taken_off_before_anything_is_said() -> None:
    """An event that delta alone allows bounds nothing and is not a proof of support, also where it never happens
    there."""
    never = NeighbourPair("p", Always("x"), Always(), 1, None, lambda _: False)
    assert not audit.audit(never, 100, delta=0.95).unbounded
    assert audit.audit(never, 100, delta=0.95).epsilon == 0
    assert audit.audit(never, 100, delta=0.5).unbounded


def test_support_is_asked_of_the_other_log() -> None:
    """An event of the first log must be possible on the second, and the reverse."""
    for one, other, possible_one, possible_other, unbounded in (
        ("x", None, lambda _: False, lambda _: True, False),
        ("x", None, lambda _: True, lambda _: False, True),
        (None, "x", lambda _: False, lambda _: True, True),
        (None, "x", lambda _: True, lambda _: False, False),
        (None, "x", None, None, False),
    ):
        runs = [Always() if event is None else Always(event) for event in (one, other)]
        found = audit.audit(NeighbourPair("p", *runs, 1, possible_one, possible_other), 60)
        assert found.unbounded is unbounded
        assert (found.epsilon == math.inf) is unbounded
        assert found.witness == "x"


def test_a_claim_is_refuted_above_it_only() -> None:
    """By more than the claim times the steps, or by support."""
    finding = Finding("p", 2.0, False, "x", 100)
    assert finding.refutes(1.9)
    assert not finding.refutes(2.0)
    assert not finding.refutes(1.0, 2)
    assert finding.refutes(0.9, 2)
    assert Finding("p", math.inf, True, "x", 100).refutes(1e300, 9)


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"runs": 20}, True),
        ({"runs": 19}, False),
        ({"runs": 20, "delta": 0.0}, True),
        ({"runs": 20, "delta": 0.999}, True),
        ({"runs": 20, "delta": 1.0}, False),
        ({"runs": 20, "delta": -0.001}, False),
        ({"runs": 20, "alpha": 0.0}, False),
        ({"runs": 20, "alpha": 1.0}, False),
        ({"runs": 20, "alpha": 0.999}, True),
    ],
)
def test_what_an_audit_needs(arguments: dict[str, float], fits: bool) -> None:
    """20 runs, delta in [0, 1), alpha strictly between 0 and 1."""
    pair = NeighbourPair("p", Always("x"), Always("x"))
    if fits:
        audit.audit(pair, **arguments)  # type: ignore[arg-type]
    else:
        with pytest.raises(InputError, match="an audit needs"):
            audit.audit(pair, **arguments)  # type: ignore[arg-type]


def test_delta_over_steps() -> None:
    """delta (1 + e^eps + e^2eps + ...), never as much as 1, and nothing at all where e^eps is not a float."""
    assert group_delta(0.5, 0.01, 3) == pytest.approx(0.01 * (1 + math.exp(0.5) + math.exp(1.0)))
    assert group_delta(700, 1e-320, 2) == pytest.approx(1e-320 * math.exp(700), rel=1e-3)
    assert group_delta(700.5, 1e-320, 2) == group_delta(5, 0.9, 2) == 1 - 1e-12
    assert (group_delta(900, 0.3, 1), group_delta(900, 0.0, 2)) == (0.3, 0.0)


def test_bounds_at_their_ends() -> None:
    """No hits bound nothing from below, all hits nothing from above; one hit is the root of its equation."""
    assert lower_bound(0, 10, 0.05) == 0
    assert upper_bound(10, 10, 0.05) == 1
    assert lower_bound(10, 10, 0.05) == pytest.approx(0.05 ** (1 / 10))
    assert upper_bound(0, 10, 0.05) == pytest.approx(1 - 0.05 ** (1 / 10))
    assert lower_bound(1, 10, 0.05) == pytest.approx(1 - 0.95 ** (1 / 10))
    assert upper_bound(9, 10, 0.05) == pytest.approx(0.95 ** (1 / 10))


def test_power_is_the_bound_of_what_is_certain() -> None:
    """By 20 events as an audit chooses them; its frequency is the least that refutes."""
    seen = power(100, 0.5, delta=0.02, alpha=0.04)
    assert seen.epsilon == pytest.approx(_bound(50, 0, 50, 0.04 / 80, 0.02))
    assert seen.probability is not None
    hits = round(seen.probability * 50)
    assert _bound(hits - 1, 0, 50, 0.04 / 80, 0.02) <= 0.5 < _bound(hits, 0, 50, 0.04 / 80, 0.02)
    two = power(100, 0.5, delta=0.02, alpha=0.04, steps=2)
    assert two.epsilon == seen.epsilon
    assert two.probability is not None
    assert two.probability > seen.probability
    assert power(100, seen.epsilon, delta=0.02, alpha=0.04).probability is None
    assert power(100, 0.5, delta=0.99, alpha=0.04) == audit.Power(0.0, None)


def test_the_log_of_the_stage() -> None:
    """Cases of A B an hour apart, an hour long; the last one is the victim."""
    log = Stage().log(3)
    assert log.traces() == [("A", "B")] * 3
    assert (log.time // (HOUR * 1_000_000)).tolist() == [0, 1, 1, 2, 2, 3]
    other = Stage(duration=2 * HOUR).log(2, last="AC", last_duration=5 * HOUR)
    assert other.traces() == [("A", "B"), ("A", "C")]
    assert (other.time // (HOUR * 1_000_000)).tolist() == [0, 2, 1, 6]
    assert Stage().log(1, last_duration=0).time.tolist() == [0, 0]
    assert (Stage().common, Stage().duration, Stage().longest) == (20, 3_600_000, 30 * 86_400_000)


def test_the_neighbours_of_the_stage() -> None:
    """A case more, a case of a new variant more, an event changed (two steps), a time shifted (two steps)."""
    seen: list[EventLog] = []

    def run(log: EventLog) -> EventLog:
        seen.append(log)
        return log

    staged = pairs(run, Stage(common=4))
    assert [(pair.name, pair.steps) for pair in staged] == [
        ("a case added", 1),
        ("a case of a new variant added", 1),
        ("an event changed", 2),
        ("a time shifted", 2),
    ]
    for pair in staged:
        list(pair.run_one())
        list(pair.run_other())
        assert (pair.possible_one, pair.possible_other) == (None, None)
    ab, ac = ("A", "B"), ("A", "C")
    traces = [log.traces() for log in seen]
    assert traces[0::2] == [[ab] * 4] * 4
    assert traces[1::2] == [[ab] * 5, [ab] * 4 + [ac], [ab] * 3 + [ac], [ab] * 4]
    assert (seen[7].time[-1] - seen[7].time[-2]) == 30 * 24 * HOUR * 1_000_000
    assert [pair.name for pair in pairs(run, times=False)] == [pair.name for pair in staged[:3]]
    assert list(pairs(run)[0].run_one()) == list(observed(Stage().log(20), 20))


def test_what_is_possible_where_only_variants_of_the_source_leave() -> None:
    """The rule speaks of variants: one that a log lacks is impossible there, anything else is possible."""
    staged = {pair.name: pair for pair in pairs(lambda log: log, Stage(common=4), rule=True)}
    changed = staged["an event changed"]
    assert changed.possible_one is not None
    assert changed.possible_other is not None
    new, old = ("variant", ("A", "C")), ("variant", ("A", "B"))
    assert [changed.possible_one(event) for event in (new, old)] == [False, True]
    assert [changed.possible_other(event) for event in (new, old)] == [True, True]
    assert changed.possible_one("nothing is released")
    assert changed.possible_one(("at least", ("A", "C"), 2))


def _events(*cases: tuple[str, int]) -> set[Hashable]:
    """Return the visible events of cases as (trace, hours between its events), 20 around."""
    case, activity, time = [], [], []
    for number, (trace, step) in enumerate(cases):
        case += [str(number)] * len(trace)
        activity += list(trace)
        time += [(number + step * place) * HOUR * 1_000_000 for place in range(len(trace))]
    return set(observed(EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns"), 20))


BOUNDS = (2, 3, 5, 14, 17, 19, 20, 21, 22, 23, 26, 29)


def test_counts_in_bulk_are_those_of_each_run() -> None:
    """Two variants, 20 cases common to both logs: the four logs, and every event of each run, counted one by one."""

    given: list[list[int]] = []

    def counting(true: np.ndarray) -> NoisyCounts:
        given.append(true[:2].tolist())
        noisy = true + np.arange(len(true)) // 2 % 25 - 12
        kept = np.flatnonzero((true > 0) & (noisy >= 3))
        return NoisyCounts(kept, noisy[kept], 3)

    def by_hand(true: tuple[int, int], runs: int) -> Counter[Hashable]:
        seen: Counter[Hashable] = Counter()
        for run in range(runs):
            for name, cases in zip(("variant 1", "variant 2"), true, strict=True):
                noisy = cases + run % 25 - 12
                if not cases or noisy < 3:
                    seen["no variant", name] += 1
                    continue
                seen["variant", name] += 1
                for bound in {*range(12, 30), 3, 4}:
                    seen["at least" if noisy >= bound else "fewer than", name, bound] += 1
                    seen["exactly", name, bound] += noisy == bound
        return +seen

    logs = {"a case added": (21, 0), "a case of a new variant added": (20, 1), "an event changed": (19, 1)}
    found = count_pairs(counting, 20)
    assert [(pair.name, pair.steps) for pair in found] == [*zip(logs, (1, 1, 2), strict=True)]
    for pair in found:
        assert pair.many_one is not None
        assert pair.many_other is not None
        assert pair.many_one(77) == by_hand((20, 0), 77)
        assert pair.many_other(77) == by_hand(logs[pair.name], 77)
        assert given[-2:] == [[20, 0], [*logs[pair.name]]]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 29, 40])
def test_counts_are_distinguished_near_zero_and_near_the_common_number(count: int) -> None:
    """At 2, 3, 5 and around the number of cases that variants have in the source: reached or not."""
    found = _events(*[("AB", 1)] * count)
    bounded = {event for event in found if isinstance(event, tuple) and len(event) == 3}
    assert bounded == {("at least" if count >= bound else "fewer than", ("A", "B"), bound) for bound in BOUNDS}
    assert ("variant", ("A", "B")) in found
    assert ("no variant", ("A", "C")) in found
    assert ("no variant", ("A", "B")) not in found


def test_variants_that_are_there_and_that_are_not() -> None:
    """Any variant is named; of A B and A C their absence too."""
    assert {event for event in _events(("AC", 1), ("XYZ", 1)) if event[0] in {"variant", "no variant"}} == {
        ("variant", ("A", "C")),
        ("variant", ("X", "Y", "Z")),
        ("no variant", ("A", "B")),
    }


def test_durations_are_distinguished_by_powers_of_two() -> None:
    """Hours 1, 2, 4 ... 32,768: all cases together, and the longest one; from its first event to its last."""
    assert tuple(bound // HOUR for bound in DURATIONS) == tuple(2**power for power in range(16))

    def expected(total: int, longest: int) -> Iterator[Hashable]:
        for bound in DURATIONS:
            yield ("times add up to at least" if total * HOUR >= bound else "times add up to less than", bound)
            yield ("the longest case takes at least" if longest * HOUR >= bound else "no case takes", bound)

    for cases, total, longest in (
        ([("AB", 8), ("ABB", 2)], 12, 8),
        ([("AB", 7)], 7, 7),
        ([("AB", 4), ("AB", 4)], 8, 4),
        ([("AB", 1), ("AB", 1)], 2, 1),
        ([("AB", 40_000)], 40_000, 40_000),
        ([("A", 5)], 0, 0),
    ):
        found = {event for event in _events(*cases) if "take" in event[0] or "times" in event[0]}
        assert found == set(expected(total, longest))


def test_a_release_without_cases_is_seen_as_one() -> None:
    """No variant, no time; and cases without events have no duration."""
    nothing = set(observed(EventLog.from_traces([]), 20))
    assert {("no variant", ("A", "B")), ("no variant", ("A", "C")), ("no case takes", HOUR)} <= nothing
    empty = set(observed(EventLog.from_traces([((), None), (("A", "B"), None)]), 20))
    assert ("variant", ()) in empty
    for traces in (((), ("A", "B")), (("A", "B"), ())):
        log = EventLog.from_traces([(trace, None) for trace in traces])
        times = [
            {event for event in observed(one, 20) if isinstance(event[1], int)} for one in (log, _without_empty(log))
        ]
        assert times[0] == times[1]
        assert times[0]


def _without_empty(log: EventLog) -> EventLog:
    return log.select_cases(np.flatnonzero(log.lengths > 0))
