"""Leakage of simulated releases as `veilstream leakage` documents it: settings from plain values, figures, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import Any, TypedDict, cast

from models.dp.budget import positive
from models.errors import InputError
from models.leakage.accumulation import composition
from models.leakage.budget import allocate, geometric
from models.leakage.correlations import Scenario
from models.leakage.experiment import Method, SimulationOutcome, SimulationSettings
from models.leakage.states import StateFunction

WHAT_E_IS = "e is under replacement of a case's state (mechanisms with Laplace noise of scale 1/eps: e = 2 eps)"


class Curves(TypedDict, total=False):
    """Leakage of one release, null where only composition holds; of the main chain with the basis of its step."""

    release: int
    bpl: float | None
    fpl: float | None
    tpl: float | None
    states: int
    complete: int
    incomplete: int
    events: int


class AllocationDocument(TypedDict):
    """Budgets that keep TPL at or under `alpha`: forever, for so many releases, and halving."""

    alpha: float
    unknown_horizon: float
    known_horizon: list[float]
    geometric: list[float]


class LeakageDocument(TypedDict, total=False):
    """The documented JSON of one simulation."""

    scenario: str
    window: int
    abstraction: str
    method: str
    relation: str
    epsilon: list[float]
    releases: list[Curves]
    max_tpl: float
    sum_epsilon: float
    states: int
    extreme: Mapping[str, bool]
    chains: Mapping[str, list[Curves]]
    bound: AllocationDocument


def simulations(
    windows: Sequence[int],
    epsilon: Sequence[Any],
    *,
    scenario: str = "certain",
    releases: int = 0,
    split: float = 0.5,
    states: str = "prefix",
    method: str = "definition",
    attributes: Sequence[str] = (),
    least_cases: int = 1,
    complete_only: bool = False,
    end_activities: Sequence[str] = (),
    newest: bool = False,
    seed: int = 0,
) -> list[SimulationSettings]:
    """Return the settings of one simulation for each window.

    Parameters
    ----------
    windows
        Events of a case and release.
    epsilon
        Budget of every release, or of each: texts or numbers.
    releases
        Most releases; 0: as many as there are budgets, and 5 for one budget.

    The others are those of `models.leakage.experiment.SimulationSettings`; `states` is the name of a state function.

    Raises
    ------
    InputError
        No budget or no window, or a value that no simulation has.
    """
    budgets = [positive(part) for part in epsilon]
    if not budgets or not windows:
        raise InputError("epsilon and window each need a value")
    if releases == 0:
        releases = len(budgets) if len(budgets) > 1 else 5
    # Names of scenarios and methods are checked by the settings themselves.
    first = SimulationSettings(
        scenario=cast(Scenario, scenario),
        window=windows[0],
        epsilon=budgets,
        releases=releases,
        split=split,
        states=StateFunction.parse(states),
        method=cast(Method, method),
        seed=seed,
        newest=newest,
        least_cases=least_cases,
        complete_only=complete_only,
        end_activities=end_activities,
        attributes=attributes,
    )
    return [replace(first, window=window) for window in windows]


def terms(delta_dp: Any, bound: Any, method: str) -> tuple[Fraction, Fraction | None]:
    """Return the delta of each release (0: pure epsilon) and the bound on TPL (None: no bound), exact.

    Parameters
    ----------
    delta_dp
        Delta of each release, as a number is written; 0 for pure epsilon.
    bound
        Bound on TPL. None or an empty text: no bound.
    method
        "definition", or "reference" for the curves of the authors' program.

    Returns
    -------
    delta
        0 if the releases are of pure epsilon.
    alpha
        None without a bound.

    Raises
    ------
    InputError
        A value out of its range, or a bound on the curves of the authors' program.
    """
    alpha = None if bound is None or bound == "" else positive(bound, "bound")
    if alpha is not None and method == "reference":
        raise InputError("bound is for method definition: the curves of the authors' program bound nothing")
    if delta_dp == 0:
        return Fraction(0), alpha
    delta = positive(delta_dp, "delta_dp")
    if delta >= 1:
        raise InputError(f"delta_dp {float(delta):g} is a chance: from 0 to below 1")
    return delta, alpha


def document(
    settings: SimulationSettings, outcome: SimulationOutcome, delta: Fraction, alpha: Fraction | None
) -> LeakageDocument:
    """Return the documented JSON of one simulation: curves of the activities, and further chains.

    Parameters
    ----------
    settings, outcome
        One simulation.
    delta
        Delta of each release. Above 0 there are sums in place of curves, which would claim what is not proved.
    alpha
        Bound on TPL; None if there is none.
    """
    result = _of_curves(settings, outcome, alpha)
    if delta:
        for row in result["releases"]:
            row["bpl"] = row["fpl"] = row["tpl"] = None
        result.pop("chains", None)
        result.pop("bound", None)
        result.update(cast(LeakageDocument, composition([(e, delta) for e in outcome.epsilon])))
    return result


def _of_curves(
    settings: SimulationSettings,
    outcome: SimulationOutcome,
    alpha: Fraction | None,
) -> LeakageDocument:
    """Return the documented JSON of releases without delta."""
    main = outcome.chains["activity"]
    # A single release has no step behind it: then the next one, on its automaton, is reported.
    steps = main.extreme or [(main.last[0].extreme, main.last[1].extreme)]
    result: LeakageDocument = {
        "scenario": settings.scenario,
        "window": settings.window,
        "abstraction": str(settings.states),
        "method": settings.method,
        "relation": "replacement",
        "epsilon": [float(e) for e in outcome.epsilon],
        "releases": [
            {
                **row,
                "states": main.states[i],
                "complete": outcome.complete[i],
                "incomplete": outcome.incomplete[i],
                "events": outcome.events[i],
            }
            for i, row in enumerate(_curves(main))
        ],
        "max_tpl": float(outcome.max_tpl()),
        "sum_epsilon": float(sum(outcome.epsilon)),
        "states": main.states[-1],
        "extreme": {
            "backward": all(backward for backward, _ in steps),
            "forward": all(forward for _, forward in steps),
        },
    }
    if settings.attributes:
        result["chains"] = {name: _curves(chain) for name, chain in outcome.chains.items()}
    if alpha is not None:
        newest_steps = [chain.last for chain in outcome.chains.values()]
        result["bound"] = _allocation(newest_steps, alpha, len(outcome.epsilon))
    return result


def _curves(chain: Any) -> list[Curves]:
    return [
        {"release": i, "bpl": float(b), "fpl": float(f), "tpl": float(t)}
        for i, (b, f, t) in enumerate(zip(chain.bpl, chain.fpl, chain.tpl, strict=True), start=1)
    ]


def _allocation(last: Sequence[tuple[Any, Any]], alpha: Fraction, releases: int) -> AllocationDocument:
    """Return budgets that keep TPL of every chain at or under `alpha` while the newest correlations stay.

    The correlations are AL_B and AL_F of the newest automaton, by chain. The result is the least budget of all chains,
    since less epsilon never leaks more.
    """
    allocations = [allocate(*steps, alpha) for steps in last]
    budgets_by_release = zip(*(allocation.series(releases) for allocation in allocations), strict=True)
    return {
        "alpha": float(alpha),
        "unknown_horizon": _down(min(allocation.constant for allocation in allocations)),
        "known_horizon": [_down(min(budgets)) for budgets in budgets_by_release],
        "geometric": [_down(geometric(alpha, Fraction(1, 2), i)) for i in range(1, releases + 1)],
    }


def _down(budget: Fraction, digits: int = 15) -> float:
    """Return the budget in decimal digits, cut and never rounded up.

    As written, it keeps the bound to the last digit.
    """
    cut = Context(prec=digits, rounding=ROUND_DOWN)
    return float(cut.divide(Decimal(budget.numerator), Decimal(budget.denominator)))


def budget_sentence(bound: AllocationDocument) -> str:
    """Return the budgets that keep the bound, as a sentence.

    Parameters
    ----------
    bound
        Budgets for one bound on TPL.
    """
    each = [f"{_down(Fraction(e), 6):g}" for e in (bound["unknown_horizon"], *bound["known_horizon"])]
    constant = "no constant one lasts forever"
    if bound["unknown_horizon"]:
        constant = f"{each[0]} in every release, while the correlations stay as they are"
    return f"budgets for TPL <= {bound['alpha']:g}: {constant}; {', '.join(each[1:])} for {len(each) - 1} releases"


def broken_bound(
    settings: Sequence[SimulationSettings],
    outcomes: Sequence[SimulationOutcome],
    delta: Fraction,
    alpha: Fraction | None,
) -> str | None:
    """Return a sentence on the windows at which TPL passes the bound; None if it holds, or there is none.

    It is compared exactly, since the double next to 0.05 is above 0.05.

    Parameters
    ----------
    settings, outcomes
        Settings and outcome of each simulated window.
    delta
        Delta of each release. Above 0, the sum of epsilon is compared.
    alpha
        Bound on TPL, if there is one.
    """
    if alpha is None:
        return None
    reached = [sum(outcome.epsilon) if delta else outcome.max_tpl() for outcome in outcomes]
    broken = [each.window for each, value in zip(settings, reached, strict=True) if value > alpha]
    if not broken:
        return None
    return f"TPL passes the bound {float(alpha):g} at window {', '.join(map(str, broken))}"
