"""The papers' releases of a log, and the figures that the papers print."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from connectors import read_log
from models.errors import InputError
from models.eventlog import Column, EventLog
from models.leakage import correlations
from models.leakage.correlations import Correlation, correlation, steps
from models.leakage.experiment import SimulationSettings, run
from models.leakage.simulation import ended_cases, first_release, lockstep, paths, transition_system
from models.leakage.states import StateFunction
from models.leakage.steps import leakage_step
from tests.conftest import golden
from tests.oracles.automaton import Automaton

FILES = {"sepsis": "sepsis", "bpic2012a": "bpic2012-app", "bpic2013": "bpic2013-incidents"}
TABLE_2 = {"sepsis": (7290, 442, 84), "bpic2013": (21705, 0, 2271), "bpic2012a": (29227, 5849, 690)}
PUBLISHED_S2 = {1: 0.01, 2: 0.014904, 3: 0.019304, 4: 0.022958}
E = Fraction(1, 100)


@pytest.fixture(scope="module")
def paper_logs(logs: Path) -> dict[str, EventLog]:
    return {name: read_log(logs / f"{file}.xes.gz") for name, file in FILES.items()}


def small() -> EventLog:
    return EventLog.from_traces([("abc", 1), ("ab", 1), ("b", 1)])


@pytest.mark.logs
@pytest.mark.parametrize("name", FILES)
def test_first_release_is_table_2_of_the_paper(paper_logs: dict[str, EventLog], name: str) -> None:
    """Events, complete and incomplete traces of the initial part."""
    outcome = run(paper_logs[name], SimulationSettings(releases=1))
    assert (outcome.events[0], outcome.complete[0], outcome.incomplete[0]) == TABLE_2[name]


@pytest.mark.logs
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("scenario", ["certain", "uncertain"])
def test_prefix_states_compose_sequentially(paper_logs: dict[str, EventLog], name: str, scenario: Any) -> None:
    """By definition every TPL is exactly the sum of e, for windows 1 to 4, on every log of the paper."""
    for x in (1, 2, 3, 4):
        outcome = run(paper_logs[name], SimulationSettings(scenario=scenario, window=x))
        chain = outcome.chains["activity"]
        n = 4 if (name, scenario, x) == ("bpic2012a", "certain", 4) else 5  # no open case after release 4
        assert set(chain.tpl) == {n * E}
        assert list(chain.bpl) == [(i + 1) * E for i in range(n)]
        assert list(chain.fpl) == [(n - i) * E for i in range(n)]


@pytest.mark.logs
@pytest.mark.parametrize("x", [1, 2, 3, 4])
def test_reference_reproduces_the_published_curves(paper_logs: dict[str, EventLog], x: int) -> None:
    """Figures 4 and 5: S1 BPL = FPL = k e and TPL = (2k - 1) e; S2 BPL of BPIC-2012-App at release 5."""
    log = paper_logs["bpic2012a"]
    certain = run(log, SimulationSettings(window=x, method="reference")).chains["activity"]
    n = len(certain.bpl)
    assert certain.bpl == pytest.approx([0.01 * k for k in range(1, n + 1)])
    assert certain.fpl == certain.bpl
    assert certain.tpl == pytest.approx([0.01 * (2 * k - 1) for k in range(1, n + 1)])
    uncertain = run(log, SimulationSettings(scenario="uncertain", window=x, method="reference")).chains["activity"]
    assert uncertain.bpl[4] == pytest.approx(PUBLISHED_S2[x], abs=5e-7)
    assert uncertain.fpl == pytest.approx([0.01 * k for k in range(1, 6)])


def merged(found: Correlation) -> Any:
    """The rows without the empty prefix (state 0), its column added to that of the state after the start (state 1)."""
    rows = found.rows.tocsc()
    return scipy.sparse.hstack([rows[:, :1] + rows[:, 1:2], rows[:, 2:]]).tocsr()[1:]


@pytest.mark.logs
@pytest.mark.parametrize("name", FILES)
def test_coarser_states_forget(paper_logs: dict[str, EventLog], name: str) -> None:
    """AL(0.01)/0.01 by last activity and by set, forwards and backwards, to the printed decimals. The vectors merge the
    empty prefix with the state after the start: so does `merged` here, and never does the program give less."""
    log = paper_logs[name]
    for vector in golden("leakage_states.json"):
        if vector["log"] != name:
            continue
        states = StateFunction.parse("last" if vector["abstraction"] == "last1" else vector["abstraction"])
        found = paths(log, states, ended_cases(log))
        system = transition_system(found, found.full)
        assert len(system.states) == vector["states"] + 1
        for label, scenario in (("S1", "certain"), ("S2", "uncertain")):
            backward, forward = steps(system, scenario, vector["x"])  # type: ignore[arg-type]
            for direction, found_step in (("backward", backward), ("forward", forward)):
                expected = vector["AL(0.01)/0.01"][f"{direction[0].upper()}_{label}"][0]
                rows = merged(correlation(system, direction, scenario, vector["x"]))  # type: ignore[arg-type]
                assert leakage_step(rows, 0.01) / 0.01 == pytest.approx(expected, abs=6e-5)
                assert found_step(0.01) / 0.01 >= expected - 6e-5


@pytest.mark.logs
@pytest.mark.parametrize("states", ["prefix", "last", "set", "multiset", "suffix-2"])
def test_paths_and_the_incremental_automaton_agree(paper_logs: dict[str, EventLog], states: str) -> None:
    """The automaton grown event by event has the digest of the one built from arrays."""
    log, function = paper_logs["sepsis"], StateFunction.parse(states)
    automaton = Automaton(function)
    for case, trace in zip(log.case_ids, log.traces(), strict=True):
        automaton.begin(case)
        for activity in trace:
            automaton.observe(case, activity)
        automaton.end(case)
        automaton.end(case)
    found = paths(log, function, ended_cases(log))
    assert automaton.system().digest() == transition_system(found, found.full).digest()


def test_certain_releases_advance_all_cases_by_the_window() -> None:
    """Start and end count as events; a case not started starts in the second release; the last release is full."""
    log = small()
    shown = list(lockstep(np.array([2, 0, 0]), np.array([5, 4, 3]), "certain", 2, 9, np.random.default_rng(0)))
    assert [s.tolist() for s in shown] == [[2, 0, 0], [4, 2, 2], [5, 4, 3]]
    assert first_release(log, 0.0, ended_cases(log)).tolist() == [2, 2, 3]


def test_uncertain_releases_draw_one_number_for_all_cases() -> None:
    """Up to x events, the same for every case, reproducible by seed."""
    draw = [
        [
            s.tolist()
            for s in lockstep(np.array([1, 1]), np.array([40, 50]), "uncertain", 3, 6, np.random.default_rng(7))
        ]
        for _ in range(2)
    ]
    assert draw[0] == draw[1]
    grown = np.diff(np.array(draw[0]), axis=0)
    assert (grown[:, 0] == grown[:, 1]).all()
    assert set(grown[:, 0]) <= {0, 1, 2, 3}
    assert len(set(grown[:, 0])) > 1


def test_options_thin_the_automaton() -> None:
    """Least cases per transition, complete traces only, and the newest automaton each change what is counted."""
    log = EventLog.from_traces([("ab", 1), ("ab", 1), ("ac", 1)])
    found = paths(log, StateFunction(), np.array([True, True, False]))
    assert len(transition_system(found, found.full).states) == 6
    assert len(transition_system(found, found.full, least_cases=2).states) == 5
    assert len(transition_system(found, found.full, complete_only=True).states) == 5
    newest = run(log, SimulationSettings(split=0.0, window=3, newest=True, releases=2))
    assert newest.chains["activity"].states[0] == newest.chains["activity"].states[-1]


def test_rare_transitions_left_out_can_raise_the_figure_too() -> None:
    """Two kinds of cases that share nothing but their rare end: without it nothing of theirs overlaps any more."""
    log = EventLog.from_traces([("a" * 9, 1), ("a" * 9, 1), ("b" * 9, 1), ("b" * 9, 1)])
    last = StateFunction.parse("last")
    found = [
        run(
            log, SimulationSettings(window=5, split=0.0, releases=3, states=last, newest=True, least_cases=least)
        ).max_tpl()
        for least in (1, 3)
    ]
    assert found[0] < 0.025
    assert found[1] == 3 * E


def test_event_attributes_are_chains_of_their_own() -> None:
    """A further chain over an attribute that says more than the activity raises the largest TPL."""
    log = EventLog.from_traces([("aaaa", 1), ("aaaa", 1)])
    log = log.with_columns(event={"ward": Column.encode(["w", "x", "y", "z", "z", "y", "x", "w"])})
    plain = SimulationSettings(split=0.0, window=9, releases=2, states=StateFunction.parse("last"))
    both = SimulationSettings(split=0.0, window=9, releases=2, states=StateFunction.parse("last"), attributes=["ward"])
    assert set(run(log, both).chains) == {"activity", "ward"}
    assert run(log, plain).max_tpl() <= run(log, both).max_tpl()


def test_end_activities_decide_completeness() -> None:
    """A case is complete where it ends with an end activity; an unknown one is an error that names no content."""
    log = small()
    assert ended_cases(log, ["c"]).tolist() == [True, False, False]
    with pytest.raises(InputError, match="1 of 2 end activities"):
        ended_cases(log, ["c", "secret"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window = 0"),
        ({"scenario": "maybe"}, "scenario"),
        ({"releases": 0}, "releases = 0"),
        ({"epsilon": (E, E)}, "2 values of epsilon for 5"),
        ({"least_cases": 0}, "least_cases"),
        ({"method": "guess"}, "method"),
        ({"method": "reference", "attributes": ("ward",)}, "reference"),
        ({"split": 1.0}, "no continuous part"),
        ({"split": float("nan")}, "no continuous part"),
        ({"split": 0.4}, "every event is before"),
        ({"attributes": ("ward",)}, "'ward' is not in the log"),
    ],
)
def test_settings_that_mean_nothing_are_refused(change: dict[str, Any], message: str) -> None:
    """One clear line each."""
    with pytest.raises(InputError, match=message):
        run(small(), SimulationSettings(**change))


@pytest.mark.parametrize("states", ["prefix", "last", "suffix-2", "set", "multiset"])
def test_activities_named_like_the_artificial_events_are_activities(states: str) -> None:
    """A hostile log that names its activities by the signs of start and end neither ends a case nor the program."""
    strange, plain = (EventLog.from_traces([(trace, 1), (trace[::-1], 1)]) for trace in ("a\u25a0\u25b6\\", "abcd"))
    settings = SimulationSettings(split=0.0, releases=3, window=2, states=StateFunction.parse(states))
    one, other = (run(log, settings).chains["activity"] for log in (strange, plain))
    assert (one.tpl, one.states, one.extreme) == (other.tpl, other.states, other.extreme)
    automaton = Automaton(StateFunction.parse(states))
    for activity in "\u25a0\u25b6":
        automaton.observe("1", activity)
    automaton.end("1")
    assert len(automaton.system().states) > 2


def test_complete_only_needs_a_complete_case() -> None:
    """No case ends with an end activity: nothing could be counted."""
    with pytest.raises(InputError, match="complete traces only"):
        run(small(), SimulationSettings(split=0.0, complete_only=True, end_activities=("a",)))


def test_states_that_explode_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Correlations beyond the limits say how many states there are."""
    monkeypatch.setattr(correlations, "MOST_ENTRIES", 3)
    found = paths(small(), StateFunction.parse("last"), np.ones(3, dtype=np.bool_))
    system = transition_system(found, found.full)
    with pytest.raises(InputError, match="of 6 states"):
        steps(system, "certain", 2)


@pytest.mark.parametrize("text", ["", "suffix-0", "suffix-", "suffix--1", "Prefix", "bag"])
def test_unknown_state_functions_are_refused(text: str) -> None:
    """The message lists what there is."""
    with pytest.raises(InputError, match="suffix-K"):
        StateFunction.parse(text)
