"""Leakage of the papers' simulated releases of a log: settings in, curves out.

Source: temporal-privacy-leakage-2022, section 5 (Figures 4 and 5), section 6 for the options. Method `definition`
follows the paper's definitions; `reference` its authors' program, for prefix states only (`accumulation.reference`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.errors import InputError, check_choice
from models.eventlog import Column, EventLog, Ints
from models.leakage.accumulation import TemporalLeakage, batch, reference
from models.leakage.automaton import TransitionSystem
from models.leakage.correlations import Scenario, check, steps
from models.leakage.simulation import ended_cases, first_release, lockstep, paths, transition_system
from models.leakage.states import StateFunction
from models.leakage.steps import Leakage, LeakageStep

Method = Literal["definition", "reference"]


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings of a simulation.

    Attributes
    ----------
    scenario
        "certain" (S1) or "uncertain" (S2).
    window
        Events of each case that a release adds at most.
    epsilon
        One budget for every release, or one for each; under replacement, exact.
    releases
        Number of releases.
    split
        Share of the events before the split; the first release has these.
    states
        Rule by which states follow from events.
    method
        "definition", or "reference" for the curves of the authors' program.
    seed
        Seed of the simulation.
    newest
        Whether every step uses the automaton of the newest release in place of its own release's.
    least_cases
        Cases that a transition needs to be a correlation.
    complete_only
        Whether only complete traces count.
    end_activities
        Activities that complete a case. None of them: the log's end does.
    attributes
        Event attributes (or `resource`) whose values form further chains in addition to the activities.
    """

    scenario: Scenario = "certain"
    window: int = 1
    epsilon: Sequence[Fraction] = (Fraction(1, 100),)
    releases: int = 5
    split: float = 0.5
    states: StateFunction = StateFunction()  # noqa: RUF009 - frozen, so one instance serves all
    method: Method = "definition"
    seed: int = 0
    newest: bool = False
    least_cases: int = 1
    complete_only: bool = False
    end_activities: Sequence[str] = ()
    attributes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the setting; InputError names the parameter that is wrong."""
        check(self.scenario, self.window)
        check_choice("method =", self.method, get_args(Method))
        if self.method == "reference" and not (self.states.tree and not self.attributes and not self.newest):
            raise InputError("method reference repeats the authors' program, which knows prefix states of activities")
        if self.least_cases < 1:
            raise InputError(f"least_cases = {self.least_cases}: at least 1 case makes a correlation")
        if self.releases < 1:
            raise InputError(f"releases = {self.releases}: at least 1 is needed")
        if len(self.epsilon) not in (1, self.releases):
            raise InputError(f"{len(self.epsilon)} values of epsilon for {self.releases} releases; give 1 or as many")

    def budgets(self, n: int) -> list[Fraction]:
        """Return e_1 .. e_n.

        Parameters
        ----------
        n
            Number of releases.
        """
        if len(self.epsilon) == 1:
            return [self.epsilon[0]] * n
        return list(self.epsilon[:n])


@content_free()
@dataclass(frozen=True, slots=True)
class ChainCurves:
    """Curves of one chain, one entry a release.

    Attributes
    ----------
    states
        Number of states of each release's automaton.
    extreme
        (backward, forward) of each step.
    last
        AL_B and AL_F of the newest automaton.
    """

    bpl: Sequence[Leakage]
    fpl: Sequence[Leakage]
    tpl: Sequence[Leakage]
    states: Sequence[int]
    extreme: Sequence[tuple[bool, bool]]
    last: tuple[LeakageStep, LeakageStep]


@content_free("epsilon")
@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The result of a simulation.

    Attributes
    ----------
    epsilon
        Budget of each release.
    chains
        Curves by chain, `activity` first.
    complete, incomplete, events
        Numbers of complete and incomplete cases and of events that each release showed.
    """

    epsilon: Sequence[Fraction]
    chains: Mapping[str, ChainCurves]
    complete: Sequence[int]
    incomplete: Sequence[int]
    events: Sequence[int]

    def max_tpl(self) -> Leakage:
        """Return the largest TPL over releases and chains."""
        return max(value for chain in self.chains.values() for value in chain.tpl)


def run(log: EventLog, settings: SimulationSettings) -> SimulationOutcome:
    """Simulate the releases of a log, and account for their leakage.

    Parameters
    ----------
    log
        The log.
    settings
        Split, window, releases, states and budgets of the simulation.

    Raises
    ------
    InputError
        If the settings leave nothing to release.
    """
    ended = ended_cases(log, settings.end_activities)
    if settings.complete_only and not ended.any():
        raise InputError("complete traces only: no case of the log ends with an end activity")
    first = first_release(log, settings.split, ended)
    full = (log.lengths + 1 + ended).astype(np.int64)
    rng = np.random.default_rng(settings.seed)
    shown = list(lockstep(first, full, settings.scenario, settings.window, settings.releases, rng))
    budgets = settings.budgets(len(shown))
    complete, incomplete, events = [], [], []
    for states in shown:
        is_complete = (states == full) & ended
        complete.append(int(is_complete.sum()))
        incomplete.append(int(((states > 0) & ~is_complete).sum()))
        # The first state is that before all events, and a complete case has one more at its end.
        events.append(int(np.maximum(states - 1 - is_complete, 0).sum()))
    chains = {}
    for name, items in _items(log, settings):
        chains[name] = _chain(log, ended, shown, budgets, settings, items)
    return SimulationOutcome(budgets, chains, complete, incomplete, events)


def _items(log: EventLog, settings: SimulationSettings) -> list[tuple[str, Column]]:
    columns = {"resource": log.resource, "org:resource": log.resource, **log.event_attributes}
    unknown = [name for name in settings.attributes if name not in columns]
    if unknown:
        raise InputError(f"event attribute {unknown[0]!r} is not in the log; it has {', '.join(sorted(columns))}")
    return [("activity", log.activity), *((name, columns[name]) for name in settings.attributes)]


def _chain(
    log: EventLog,
    ended: npt.NDArray[np.bool_],
    shown: Sequence[Ints],
    budgets: Sequence[Fraction],
    settings: SimulationSettings,
    items: Column,
) -> ChainCurves:
    state_paths = paths(log, settings.states, ended, items)
    systems = [
        transition_system(
            state_paths, events_shown, least_cases=settings.least_cases, complete_only=settings.complete_only
        )
        for events_shown in shown
    ]
    if settings.newest:
        systems = [systems[-1]] * len(systems)
    pairs = [steps(system, settings.scenario, settings.window) for system in systems]
    bpl, fpl, tpl = _curves(budgets, pairs, systems, settings)
    return ChainCurves(
        bpl=bpl,
        fpl=fpl,
        tpl=tpl,
        states=[len(system.states) for system in systems],
        extreme=[(backward.extreme, forward.extreme) for backward, forward in pairs[1:]],
        last=pairs[-1],
    )


def _curves(
    budgets: Sequence[Fraction],
    pairs: Sequence[tuple[LeakageStep, LeakageStep]],
    systems: Sequence[TransitionSystem],
    settings: SimulationSettings,
) -> tuple[Sequence[Leakage], Sequence[Leakage], Sequence[Leakage]]:
    if settings.method == "reference":
        lengths = [min(settings.window, system.depth) for system in systems[1:]]
        return reference(budgets, None if settings.scenario == "certain" else lengths)
    if settings.newest:
        backward_steps = [backward for backward, _ in pairs[1:]]
        forward_steps = [forward for _, forward in pairs[1:]]
        return batch(budgets, backward_steps, forward_steps)
    leakage = TemporalLeakage()
    for e, (backward, forward) in zip(budgets, pairs, strict=True):
        leakage.release(e, backward, forward)
    return leakage.bpl, leakage.fpl(), leakage.tpl()
