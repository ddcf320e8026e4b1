"""`veilstream leakage LOG`: temporal privacy leakage of the papers' simulated releases of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import typer

from connectors.reading import Reading
from models.errors import BoundError, InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, progress, tables

if TYPE_CHECKING:
    from models.leakage.experiment import SimulationOutcome, SimulationSettings

PANEL = "Measure"

WHAT_E_IS = "e is under replacement of a case's state (mechanisms with Laplace noise of scale 1/eps: e = 2 eps)"


class Curves(TypedDict, total=False):
    """Leakage of one release, null where only composition holds; of the main chain with what its step rests on."""

    release: int
    bpl: float | None
    fpl: float | None
    tpl: float | None
    states: int
    complete: int
    incomplete: int
    events: int


class AllocationDocument(TypedDict):
    """Budgets that keep TPL at or under `alpha`: for ever, for so many releases, and halving."""

    alpha: float
    unknown_horizon: float
    known_horizon: list[float]
    geometric: list[float]


class LeakageResult(TypedDict, total=False):
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


@dataclass(frozen=True, slots=True)
class SimulatedReleases:
    """Which releases are simulated, and what each may tell."""

    scenario: Annotated[str, typer.Option(help="certain: exactly WINDOW events a case; uncertain: up to.")] = "certain"
    window: Annotated[str, typer.Option(metavar="X", help="Events a case and release: 2, or 1..4, or 1,2,8.")] = "1"
    epsilon: Annotated[str, typer.Option(metavar="E[,E..]", help="Epsilon of every release, or of each (nats).")] = (
        "0.01"
    )
    releases: Annotated[int, typer.Option(help="Most releases. [default: 5, or as many as there are e]")] = 0
    split: Annotated[float, typer.Option(help="Part of the events that fixes the first release.")] = 0.5


@dataclass(frozen=True, slots=True)
class Correlations:
    """What the adversary knows of how cases go on."""

    states: Annotated[str, typer.Option(help="prefix, last, suffix-K, set or multiset.")] = "prefix"
    method: Annotated[str, typer.Option(help="definition, or reference (the authors' program).")] = "definition"
    attribute: Annotated[list[str] | None, typer.Option(help="Event attribute as a further chain; repeatable.")] = None
    least_cases: Annotated[int, typer.Option(help="Transitions of fewer cases are no correlation.")] = 1
    complete_only: Annotated[bool, typer.Option("--complete-only", help="Only complete traces correlate.")] = False
    end_activities: Annotated[str, typer.Option(metavar="A[,B]", help="What completes a case; else the log's end.")] = (
        ""
    )
    newest: Annotated[bool, typer.Option("--newest", help="The newest automaton for every step.")] = False


@options.grouped
def command(
    log: options.Log,
    simulated: SimulatedReleases = SimulatedReleases(),
    known: Correlations = Correlations(),
    delta_dp: Annotated[float, typer.Option(help="delta of each release; above 0 only composition holds.")] = 0.0,
    bound: Annotated[
        str, typer.Option(metavar="ALPHA", help="Bound on TPL: budgets that keep it; exit 3 if broken.")
    ] = "",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw BPL, FPL and TPL (png, pdf, svg).")] = None,
    seed: options.Seed = 0,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    json: options.Json = False,
) -> None:
    """Compute what noised releases of a growing log tell together, in nats (BPL, FPL and TPL)."""
    from models.leakage.accumulation import epsilon_of

    alpha = epsilon_of(bound, "--bound") if bound else None
    if alpha is not None and known.method == "reference":
        raise InputError("--bound is for method definition: the curves of the authors' program bound nothing")
    delta = _delta(delta_dp)
    if plot is not None:
        _check_plot(plot, delta)
    settings = _settings(simulated, known, seed)
    outcomes = _simulate(log, reading, settings)
    results = [_result(each, outcome, alpha) for each, outcome in zip(settings, outcomes, strict=True)]
    if delta:
        for result, outcome in zip(results, outcomes, strict=True):
            _compose(result, outcome.epsilon, delta)
    if plot is not None:
        from stream.commands._plot import draw_leakage

        draw_leakage(plot, log.name, results)
    if json:
        emit_json(results[0] if len(results) == 1 else {"windows": results})
    else:
        _print(results)
    _hold(settings, outcomes, delta > 0, alpha)


def _settings(simulated: SimulatedReleases, known: Correlations, seed: int) -> list[SimulationSettings]:
    """One simulation for each window."""
    from models.leakage.accumulation import epsilon_of
    from models.leakage.experiment import SimulationSettings
    from models.leakage.states import StateFunction

    budgets = [epsilon_of(part) for part in options.split(simulated.epsilon)]
    windows = options.integers(simulated.window, "--window")
    if not budgets or not windows:
        raise InputError("--epsilon and --window each need a value")
    one = SimulationSettings(
        scenario=simulated.scenario,  # type: ignore[arg-type] # checked inside
        window=windows[0],
        epsilon=budgets,
        releases=simulated.releases or (len(budgets) if len(budgets) > 1 else 5),
        split=simulated.split,
        states=StateFunction.parse(known.states),
        method=known.method,  # type: ignore[arg-type] # checked inside
        seed=seed,
        newest=known.newest,
        least_cases=known.least_cases,
        complete_only=known.complete_only,
        end_activities=options.split(known.end_activities),
        attributes=known.attribute or [],
    )
    return [replace(one, window=window) for window in windows]


def _delta(given: float) -> Fraction:
    """Return the delta of each release, exact; 0: pure epsilon."""
    from models.leakage.accumulation import epsilon_of

    if given == 0:
        return Fraction(0)
    delta = epsilon_of(given, "--delta-dp")
    if delta >= 1:
        raise InputError(f"--delta-dp {given:g} is a chance: from 0 to below 1")
    return delta


def _check_plot(path: Path, delta: Fraction) -> None:
    """Said before the simulation, which can take its time."""
    from stream.commands._plot import check

    if delta:
        raise InputError("--plot draws BPL, FPL and TPL, and --delta-dp leaves none: only composition holds")
    check(path)


def _simulate(log: Path, reading: Reading, settings: Sequence[SimulationSettings]) -> list[SimulationOutcome]:
    from connectors import read_log
    from models.leakage.experiment import run

    events = read_log(log, reading=reading)
    with progress() as bar:
        return [run(events, each) for each in bar.track(settings, description="simulating releases")]


def _result(settings: SimulationSettings, outcome: SimulationOutcome, alpha: Fraction | None) -> LeakageResult:
    """Return the documented JSON of one simulation: curves of the activity chain, with further chains beside them."""
    main = outcome.chains["activity"]
    # A single release has no step behind it: then the next one, on its automaton, is reported.
    steps = main.extreme or [(main.last[0].extreme, main.last[1].extreme)]
    result: LeakageResult = {
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
        result["bound"] = _allocation([chain.last for chain in outcome.chains.values()], alpha, len(outcome.epsilon))
    return result


def _compose(result: LeakageResult, epsilon: Sequence[Fraction], delta: Fraction) -> None:
    """(epsilon, delta)-dp releases: sums instead of curves, which would claim what is not proved."""
    from models.leakage.accumulation import composition

    for row in result["releases"]:
        row["bpl"] = row["fpl"] = row["tpl"] = None
    result.pop("chains", None)
    result.pop("bound", None)
    result.update(cast(LeakageResult, composition([(e, delta) for e in epsilon])))


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
    from models.leakage.budget import allocate, geometric

    found = [allocate(*steps, alpha) for steps in last]
    return {
        "alpha": float(alpha),
        "unknown_horizon": _down(min(one.constant for one in found)),
        "known_horizon": [_down(min(e)) for e in zip(*(one.series(releases) for one in found), strict=True)],
        "geometric": [_down(geometric(alpha, Fraction(1, 2), i)) for i in range(1, releases + 1)],
    }


def _down(budget: Fraction, digits: int = 15) -> float:
    """Return the budget in decimal digits, cut and never rounded up.

    As written, it keeps the bound to the last digit.
    """
    cut = Context(prec=digits, rounding=ROUND_DOWN)
    return float(cut.divide(Decimal(budget.numerator), Decimal(budget.denominator)))


def _print(results: Sequence[LeakageResult]) -> None:
    for result in results:
        title = "{scenario}, window {window}, states {abstraction} ({states}), method {method}".format(**result)
        table = grid("release", "events", "complete", "incomplete", "BPL", "FPL", "TPL", title=title)
        for row in result["releases"]:
            cells = (row["release"], row["events"], row["complete"], row["incomplete"])
            curves = (row["bpl"], row["fpl"], row["tpl"])
            table.add_row(*map(str, cells), *("-" if value is None else f"{value:.6f}" for value in curves))
        tables().print(table)
        tables().print(f"max TPL {result['max_tpl']:.6f}, sum of e {result['sum_epsilon']:.6f}; {WHAT_E_IS}")
        if "bound" in result:
            tables().print(_budgets(result["bound"]))


def _budgets(bound: AllocationDocument) -> str:
    each = [f"{_down(Fraction(e), 6):g}" for e in (bound["unknown_horizon"], *bound["known_horizon"])]
    constant = "no constant one lasts for ever"
    if bound["unknown_horizon"]:
        constant = f"{each[0]} in every release, while the correlations stay as they are"
    return f"budgets for TPL <= {bound['alpha']:g}: {constant}; {', '.join(each[1:])} for {len(each) - 1} releases"


def _hold(
    settings: Sequence[SimulationSettings],
    outcomes: Sequence[SimulationOutcome],
    composed: bool,
    alpha: Fraction | None,
) -> None:
    """BoundError where a bound breaks; compared exactly, since the double next to 0.05 is above 0.05."""
    if alpha is None:
        return
    reached = [sum(outcome.epsilon) if composed else outcome.max_tpl() for outcome in outcomes]
    broken = [each.window for each, value in zip(settings, reached, strict=True) if value > alpha]
    if broken:
        raise BoundError(f"TPL passes the bound {float(alpha):g} at window {', '.join(map(str, broken))}")
