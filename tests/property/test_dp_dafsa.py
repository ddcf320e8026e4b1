"""The automaton against Myhill-Nerode, the priors and active cases against counting by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dp.annotation import annotate
from models.dp.dafsa import minimal_dafsa
from models.dp.priors import DAY, SECOND, prior_probabilities
from models.eventlog import EventLog
from models.utility.variants import active_cases
from tests.oracles.dp import active, right_languages, window_share

WORDS = st.lists(st.lists(st.integers(0, 2), max_size=5).map(tuple), min_size=1, max_size=12, unique=True)
LOGS = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=3), st.lists(st.integers(0, 40 * SECOND), min_size=3, max_size=3)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)  # the first call compiles
@given(WORDS)
def test_minimal_and_exact(variants: list[tuple[int, ...]]) -> None:
    """States and transitions are as few as the right languages allow, and every path spells its variant."""
    automaton = minimal_dafsa(variants)
    assert (automaton.n_states, automaton.n_transitions) == right_languages(variants)
    for number, variant in enumerate(variants):
        path = automaton.path[automaton.starts[number] : automaton.starts[number + 1]]
        state = 0
        for transition in path:
            assert automaton.source[transition] == state
            state = automaton.target[transition]
        assert tuple(automaton.label[path].tolist()) == variant
        assert automaton.final[state]


def _log(cases: list[tuple[str, list[int]]]) -> EventLog:
    case, activity, time = [], [], []
    for number, (trace, steps) in enumerate(cases):
        moment = steps[0] * 3000
        for name, step in zip(trace, steps, strict=False):
            moment += step
            case.append(str(number))
            activity.append(name)
            time.append(moment * 1_000_000)
    return EventLog.from_events(case, activity, np.asarray(time, dtype=np.int64), unit="ns")


@settings(deadline=None)  # the first call compiles
@given(LOGS)
def test_closed_window_prior(cases: list[tuple[str, list[int]]]) -> None:
    """P_k is the share of the group in the closed window, by counting."""
    annotated = annotate(_log(cases))
    priors = prior_probabilities(annotated, 0.3)
    for event in range(len(priors)):
        group = np.flatnonzero(annotated.group == annotated.group[event])
        unit, precision = (DAY, 1) if annotated.first[event] else (SECOND, 10)
        values = [int(value) // unit for value in annotated.relative[group]]
        expected = window_share(values, int(annotated.relative[event]) // unit, precision)
        if len(set(values)) == 1:
            assert priors[event] == 0.35
        else:
            assert abs(priors[event] - float(expected)) < 1e-12


@settings(deadline=None)  # the first call compiles
@given(LOGS, st.integers(0, 40 * SECOND * 3000))
def test_active_cases(cases: list[tuple[str, list[int]]], moment: int) -> None:
    """Cases that run at a moment, by looking at each."""
    log = _log(cases)
    spans = [(int(log.time[a]), int(log.time[b - 1])) for a, b in zip(log.starts[:-1], log.starts[1:], strict=True)]
    moments = [moment * 1_000_000, *(edge for span in spans for edge in span)]
    counted = active_cases(log, np.asarray(moments, dtype=np.int64))
    assert counted.tolist() == [active(spans, at) for at in moments]
