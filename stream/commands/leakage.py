"""`veilstream leakage LOG`: temporal privacy leakage of the papers' simulated releases of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.reading import Reading
from models.errors import BoundError, InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, or_dash, progress, tables

if TYPE_CHECKING:
    from models.leakage.experiment import SimulationOutcome, SimulationSettings
    from models.leakage.report import LeakageDocument

PANEL = "Measure"


@dataclass(frozen=True, slots=True)
class SimulatedReleases:
    """The simulated releases, and the loss that each may have."""

    scenario: Annotated[str, typer.Option(help="certain: exactly WINDOW events a case; uncertain: up to.")] = "certain"
    window: Annotated[str, typer.Option(metavar="X", help="Events a case and release: 2, or 1..4, or 1,2,8.")] = "1"
    epsilon: Annotated[str, typer.Option(metavar="E[,E..]", help="Epsilon of every release, or of each (nats).")] = (
        "0.01"
    )
    releases: Annotated[int, typer.Option(help="Most releases. [default: 5, or as many as there are e]")] = 0
    split: Annotated[float, typer.Option(help="Part of the events that fixes the first release.")] = 0.5


@dataclass(frozen=True, slots=True)
class Correlations:
    """The adversary's knowledge of how cases continue."""

    states: Annotated[str, typer.Option(help="prefix, last, suffix-K, set or multiset.")] = "prefix"
    method: Annotated[str, typer.Option(help="definition, or reference (the authors' program).")] = "definition"
    attribute: Annotated[list[str] | None, typer.Option(help="Event attribute as a further chain; repeatable.")] = None
    least_cases: Annotated[int, typer.Option(help="Transitions of fewer cases are not a correlation.")] = 1
    complete_only: Annotated[bool, typer.Option("--complete-only", help="Only complete traces correlate.")] = False
    end_activities: Annotated[
        str, typer.Option(metavar="A[,B]", help="Activity that completes a case; else the log's end.")
    ] = ""
    newest: Annotated[bool, typer.Option("--newest", help="The newest automaton for every step.")] = False


@options.grouped
def command(
    log: options.Log,
    simulated: SimulatedReleases = SimulatedReleases(),
    correlations: Correlations = Correlations(),
    delta_dp: Annotated[float, typer.Option(help="delta of each release; above 0 only composition holds.")] = 0.0,
    bound: Annotated[
        str, typer.Option(metavar="ALPHA", help="Bound on TPL: budgets that keep it; exit 3 if broken.")
    ] = "",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw BPL, FPL and TPL (png, pdf, svg).")] = None,
    seed: options.Seed = 0,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    json: options.Json = False,
) -> None:
    """Compute the leakage of all noised releases of a growing log together, in nats (BPL, FPL and TPL)."""
    from models.leakage.report import broken_bound, document, terms

    delta, alpha = terms(delta_dp, bound, correlations.method)
    if plot is not None:
        _check_plot(plot, delta)
    settings = _settings(simulated, correlations, seed)
    outcomes = _simulate(log, reading, settings)
    results = [document(each, outcome, delta, alpha) for each, outcome in zip(settings, outcomes, strict=True)]
    if plot is not None:
        from stream.commands._plot import draw_leakage

        draw_leakage(plot, log.name, results)
    if json:
        emit_json(results[0] if len(results) == 1 else {"windows": results})
    else:
        _print(results)
    broken = broken_bound(settings, outcomes, delta, alpha)
    if broken is not None:
        raise BoundError(broken)


def _settings(
    simulated: SimulatedReleases,
    correlations: Correlations,
    seed: int,
) -> list[SimulationSettings]:
    """Return one simulation for each window."""
    from models.leakage.report import simulations

    return simulations(
        options.integers(simulated.window, "--window"),
        options.split(simulated.epsilon),
        scenario=simulated.scenario,
        releases=simulated.releases,
        split=simulated.split,
        states=correlations.states,
        method=correlations.method,
        attributes=correlations.attribute or [],
        least_cases=correlations.least_cases,
        complete_only=correlations.complete_only,
        end_activities=options.split(correlations.end_activities),
        newest=correlations.newest,
        seed=seed,
    )


def _check_plot(path: Path, delta: Fraction) -> None:
    """Warn before the simulation, which can take a long time."""
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


def _print(results: Sequence[LeakageDocument]) -> None:
    from models.leakage.report import WHAT_E_IS, budget_sentence

    for result in results:
        title = "{scenario}, window {window}, states {abstraction} ({states}), method {method}".format(**result)
        table = grid("release", "events", "complete", "incomplete", "BPL", "FPL", "TPL", title=title)
        for row in result["releases"]:
            cells = (row["release"], row["events"], row["complete"], row["incomplete"])
            figures = (row["bpl"], row["fpl"], row["tpl"])
            curves = [or_dash(figure, ".6f") for figure in figures]
            table.add_row(*map(str, cells), *curves)
        tables().print(table)
        tables().print(f"max TPL {result['max_tpl']:.6f}, sum of e {result['sum_epsilon']:.6f}; {WHAT_E_IS}")
        if "bound" in result:
            tables().print(budget_sentence(result["bound"]))
