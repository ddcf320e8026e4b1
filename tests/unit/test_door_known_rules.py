"""Local suppression that also holds against somebody who knows its rules: they are public, so every recipient does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from models.anonymize.local import default_priority, suppress
from models.anonymize.local_model import SafeState, projected
from models.anonymize.tlkc import SuppressionOptions, anonymize
from models.anonymize.view import TraceView, view
from models.anonymize.violations import TlkcBounds
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.config.publication import Publication
from tests.oracles.tlkc import holds

RARE_ORDER = [("ab", "x")] * 4 + [("ba", "x")]
"""One case of `ba` comes out as `a`: somebody who knows that a and b occur once each knows whose it is."""


def seen_of(traces: Sequence[tuple[str, str]]) -> TraceView:
    log = EventLog.from_traces([(tuple(trace), value) for trace, value in traces])
    return view(log, Knowledge("seq"), {})


def left_in(trace: Sequence[int], state: SafeState) -> tuple[int, ...]:
    """The rule of local suppression, by its words: events enter by priority, and one that completes a ban stays out."""
    order = sorted(range(len(trace)), key=lambda place: (state.priority[trace[place]], place))
    kept: set[int] = set()
    for place in order:
        entered = [trace[one] for one in sorted({*kept, place})]
        if not any(holds(entered, ban) for ban in state.bans.candidates):
            kept.add(place)
    return tuple(trace[place] for place in sorted(kept))


def could_have_been(released: tuple[int, ...], candidate: Sequence[int], state: SafeState, once: Any) -> bool:
    """Whether some source with the candidate leaves this trace by the rules: more events of it, at any places."""
    for size in range(len(candidate) + 1):
        for added in itertools.combinations(candidate, size):
            for gaps in itertools.combinations_with_replacement(range(len(released) + 1), size):
                source = list(released)
                for gap, item in sorted(zip(gaps, added, strict=True), key=lambda one: -one[0]):
                    source.insert(gap, item)
                twice = any(once[item] and source.count(item) > 1 for item in set(source))
                if not twice and holds(source, candidate) and left_in(source, state) == released:
                    return True
    return False


def narrowed_by_reading(seen: TraceView, state: SafeState, K: int) -> list[tuple[int, ...]]:
    """Pairs that some source case has and 1 to K - 1 released cases can be of, counted by trying every source."""
    released = projected(seen, state.kept)
    traces = [tuple(released.codes[a:b].tolist()) for a, b in itertools.pairwise(released.starts)]
    sources = [seen.codes[a:b].tolist() for a, b in itertools.pairwise(seen.starts)]
    once = [all(source.count(item) < 2 for source in sources) for item in range(len(seen.alphabet))]
    found = []
    for pair in itertools.product(range(len(seen.alphabet)), repeat=2):
        if any(holds(source, pair) for source in sources):
            shown = [trace and could_have_been(trace, pair, state, once) for trace in traces]
            many = sum(int(weight) for weight, possible in zip(seen.weight, shown, strict=True) if possible)
            if 0 < many < K:
                found.append(pair)
    return found


def state_of(seen: TraceView, K: int, most: int | None) -> SafeState:
    return suppress(seen, TlkcBounds.of(2, K, 1), [], max_minimality=most)[0]


def test_a_reader_of_the_rules_narrows_nobody_down_where_that_was_asked_for() -> None:
    """Without the bound the one case of `ba` is known; with it three cases or none are possible for every pair."""
    seen = seen_of(RARE_ORDER)
    assert narrowed_by_reading(seen, state_of(seen, 3, None), 3) == [(1, 0)]
    assert narrowed_by_reading(seen, state_of(seen, 3, 0), 3) == []


def usual_with_exceptions(seed: int) -> TraceView:
    """Thirty cases of `abcd`, few of them with two neighbours exchanged: an exception is soon a single case."""
    generator = np.random.default_rng(seed)
    traces = []
    for _ in range(30):
        trace = list("abcd")
        if generator.random() < 0.2:
            place = int(generator.integers(3))
            trace[place], trace[place + 1] = trace[place + 1], trace[place]
        traces.append(("".join(trace), "x"))
    return seen_of(traces)


@pytest.mark.parametrize("seed", range(8))
def test_no_reader_narrows_anybody_down_on_random_logs(seed: int) -> None:
    """By a count that tries every source and shares nothing with the audit."""
    seen = usual_with_exceptions(seed)
    assert narrowed_by_reading(seen, state_of(seen, 4, 0), 4) == []


def test_the_random_logs_above_need_the_bound() -> None:
    """Else the test above could not fail."""
    logs = [usual_with_exceptions(seed) for seed in range(8)]
    needing = [seen for seen in logs if narrowed_by_reading(seen, state_of(seen, 4, None), 4)]
    assert len(needing) >= 3


def test_a_case_that_lost_every_event_is_no_possible_one() -> None:
    """It is not in the release. Two cases of `b` lose it, so that nobody can take them for the one of `ba`."""
    from models.anonymize.local_model import Bans, Reach
    from models.anonymize.minimality import audit

    seen = seen_of([("ab", "x"), ("ba", "x"), ("b", "x"), ("b", "x")])
    codes = {item: code for code, item in enumerate(seen.alphabet)}
    b = next(code for item, code in codes.items() if "b" in str(item))
    kept = seen.codes != b
    reach, bans = Reach(seen), Bans.of([(b,)])
    state = SafeState(default_priority(seen, []), bans, reach.numbers(bans), kept, int(kept.sum()), 1)
    found = audit(reach, TlkcBounds.of(2, 3, 1), state)
    assert found.least == 2


def test_the_bound_of_the_gate_is_what_the_mechanism_aims_at() -> None:
    """Users set it once. A bound of its own in the mechanism is kept."""
    table = {"name": "p", "window": {"new_cases": 20}, "gate": {"max_minimality": 0}}
    local = {"kind": "tlkc-cohorts", "suppression": "local"}
    aiming = Publication.model_validate({**table, "mechanism": local})
    assert aiming.build_mechanism.model_dump()["max_minimality"] == 0
    own = Publication.model_validate({**table, "mechanism": {**local, "max_minimality": 3}})
    assert own.build_mechanism.model_dump()["max_minimality"] == 3


def test_whole_items_have_no_such_rules() -> None:
    """Asked of another suppression it is refused when the file is read."""
    with pytest.raises(InputError, match="max_minimality needs suppression"):
        SuppressionOptions(suppression="exact", max_minimality=0)


def test_more_is_suppressed_only_where_the_bound_needs_it() -> None:
    """A log in which nothing is narrowed down comes out the same."""
    log = EventLog.from_traces([(("a", "b"), "x")] * 6)
    plain, bounded = (
        anonymize(log, L=2, K=3, suppression="local", max_minimality=most).kept.tolist() for most in (None, 0)
    )
    assert plain == bounded
