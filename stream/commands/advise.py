"""`veilstream advise LOG`: replay candidate settings and propose a configuration, or show what epsilon buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, fitted, grid, or_dash, progress, tables
from stream.release import membership

if TYPE_CHECKING:
    from rich.console import Console

    from stream.config.settings import Settings
    from stream.release.membership import MembershipFigure
    from stream.run.advise import CandidateTrial
    from stream.run.noise_advice import NoiseCurve

PANEL = "Publish"
OF_NOISE = "Epsilon"

MOST_LISTED = 3
"""Things that a row of the table names as lost; more would widen it beyond a terminal."""


@dataclass(frozen=True, slots=True)
class NoiseOptions:
    """Options of the measurement of epsilon."""

    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            metavar="DATA",
            help="Show what epsilon buys. DATA says what LOG is: public, or older than the data to be released.",
            rich_help_panel=OF_NOISE,
        ),
    ] = None
    to_release: Annotated[
        Path | None,
        typer.Option(
            "--to-release",
            metavar="LOG2",
            help="With --noise: the log that will be released; refused if LOG has one of its cases.",
            rich_help_panel=OF_NOISE,
        ),
    ] = None
    cases_per_person: Annotated[
        int,
        typer.Option(
            "--cases-per-person",
            min=1,
            help="With --noise: cases of one person that the promise covers.",
            rich_help_panel=OF_NOISE,
        ),
    ] = 1


@options.grouped
def command(
    log: options.Log,
    K: Annotated[int, typer.Option("--K", min=2, help="Least number of cases that must match.")] = 20,
    C: Annotated[float, typer.Option("--C", min=0, max=1, help="Largest share of a sensitive value.")] = 0.5,
    goal: Annotated[str, typer.Option("--goal", help="utility, safety or timeliness.")] = "utility",
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw events kept against waiting, or with --noise utility by epsilon."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the proposal there (TOML).")] = None,
    sensitive: options.Sensitive = "",
    noise: NoiseOptions = NoiseOptions(),
    reading: Reading = Reading(),  # noqa: B008 - frozen
    json: options.Json = False,
) -> int:
    """Try several settings on a log and propose a configuration.

    It is the one that holds over all releases and keeps most; those that release at every cut come first. Exit 3 if
    no candidate holds without a withheld cut. With --noise, show the utility of noisy releases by epsilon instead;
    exit 3 if no epsilon is good enough.
    """
    if noise.noise is not None:
        unused = {
            "--K": K != 20, "--C": C != 0.5, "--goal": goal != "utility", "-o": output is not None,
            "--sensitive": bool(sensitive),
        }  # fmt: skip
        set_in_vain = [name for name, is_set in unused.items() if is_set]
        return _advise_noise(log, noise, plot, reading, set_in_vain, json=json)
    if noise != NoiseOptions():
        raise InputError("--to-release and --cases-per-person need --noise public or --noise older")
    import tempfile

    from connectors import read_log
    from stream.commands._plot import check, draw_advice
    from stream.ledger.folder import ignored_by_git
    from stream.run import advise as proposal
    from stream.run.replay import check_against

    if output is not None and not output.absolute().parent.is_dir():
        raise InputError(f"{output}: its folder does not exist")
    if goal not in proposal.GOALS:
        raise InputError(f"--goal {goal!r} is not one of {', '.join(proposal.GOALS)}")
    if plot is not None:
        check(plot)
    settings = _settings_of(reading, sensitive)
    with progress() as bar, tempfile.TemporaryDirectory() as folder:
        events = read_log(log, reading=reading)
        check_against(settings, events)
        total = len(proposal.candidates(events, K, settings.process.sensitive, C))
        task = bar.add_task("replaying", total=total)
        trials, best = proposal.propose(
            events, settings, K, Path(folder), lambda _name: bar.advance(task), C=C, goal=goal
        )
    best_left = proposal.frontier(trials)
    near = None if best is not None else proposal.nearest(trials, K)
    if plot is not None:
        draw_advice(plot, log.name, trials, best_left)
    text = "" if best is None else proposal.as_toml(settings, best.candidate.publication)
    if output is not None and text:
        ignored_by_git(output.absolute().parent, output.name)
        output.write_text(text, encoding="utf-8")
    name = None if best is None else best.candidate.publication.name
    if json:
        frontier = [trial.candidate.publication.name for trial in best_left]
        body = {
            "candidates": [candidate_row(trial) for trial in trials],
            "frontier": frontier,
            "proposed": name,
            "nearest": None if near is None else candidate_row(near),
            "configuration": text or None,
        }
        emit_json(body)
    else:
        _show(trials, best_left, best, text, near)
    return 0 if best is not None else 3


def _settings_of(reading: Reading, sensitive: str) -> Settings:
    """Return the settings of all candidates. The log is complete, so each of its cases is."""
    from stream.config.settings import Columns, Completion, LogFile, Process, Settings

    process = Process(
        sensitive=tuple(options.split_attributes(sensitive)),
        columns=Columns(**(reading.columns or {})),
        timezone=reading.timezone,
        lifecycle=reading.lifecycle,
        completion=Completion(log_end=True),
    )
    return Settings(process=process, file=LogFile.of(reading))


def _advise_noise(
    log: Path, options_: NoiseOptions, plot: Path | None, reading: Reading, unused: list[str], *, json: bool
) -> int:
    """Measure what each epsilon buys, print and draw it; return the exit code."""
    from connectors import read_log
    from stream.commands._plot import check, draw_noise
    from stream.run import noise_advice

    if options_.noise not in noise_advice.ORIGINS:
        raise InputError(
            f"--noise {options_.noise!r} is not public or older: {noise_advice.SAME_LOG}. Measure on public "
            "data, or on older data without the people of the release"
        )
    if unused:
        raise InputError(f"{', '.join(unused)} cannot be used with --noise, which proposes an epsilon only")
    if plot is not None:
        check(plot)
    events = read_log(log, reading=reading)
    if options_.to_release is not None:
        later = read_log(options_.to_release, reading=reading)
        noise_advice.refuse_same_log(log, options_.to_release, (events, later))
    with progress() as bar:
        task = bar.add_task("releasing", total=noise_advice.total_runs(events))
        curves = noise_advice.noise_curves(events, options_.cases_per_person, lambda: bar.advance(task))
    if plot is not None:
        draw_noise(plot, log.name, curves)
    if json:
        emit_json(
            {
                "data": options_.noise,
                "checked": options_.to_release is not None,
                "warning": f"{noise_advice.SAME_LOG}; {NOT_PROTECTED}",
                "cases": events.n_cases,
                "runs": noise_advice.RUNS,
                "delta_dp": noise_advice.DELTA_DP,
                "cases_per_person": options_.cases_per_person,
                "measures": noise_advice.MEASURES,
                "curves": [curve.as_json() for curve in curves],
            }
        )
    else:
        _show_noise(log.name, options_, events.n_cases, curves)
    return 0 if any(curve.recommended for curve in curves) else 3


NOT_PROTECTED = (
    "people of the measured log are not protected: these figures are computed from it without noise, so do not publish "
    "them unless the log is public"
)


def _show_noise(name: str, options_: NoiseOptions, cases: int, curves: list[NoiseCurve]) -> None:
    from stream.run import noise_advice

    console = tables()
    console.print(
        f"Do not use {name} if it is the log that will be released: {noise_advice.SAME_LOG}. You declared it "
        f"{options_.noise}; " + _how_checked(options_),
        markup=False,
    )
    console.print(
        f"{name}: {cases} cases, {noise_advice.RUNS} releases at each epsilon, delta_dp {noise_advice.DELTA_DP}, "
        f"cases_per_person {options_.cases_per_person}",
        markup=False,
    )
    for curve in curves:
        table = grid(
            "epsilon", "similarity", "least", "most", "DFG error", "least", "most", "empty", "activities",
            title=curve.name,
        )  # fmt: skip
        for epsilon in curve.refused:
            table.add_row(epsilon, *["-"] * 6, "no release", "-")
        for point in curve.points:
            figures = []
            for spread in (point.similarity, point.dfg_error):
                figures += [f"{value:.3f}" for value in (spread.mean, spread.least, spread.most)]
            empty = f"{point.empty}/{noise_advice.RUNS}"
            table.add_row(point.epsilon, *figures, empty, f"{point.activities:.1f}")
        console.print(fitted(table))
    for measure, meaning in noise_advice.MEASURES.items():
        console.print(f"{measure}: {meaning}", markup=False)
    console.print("least, most: extremes over the releases of one epsilon")
    for curve in curves:
        chosen = "nothing" if curve.recommended is None else f"epsilon {curve.recommended}"
        console.print(f"recommended for {curve.name}: {chosen}: {curve.reason}", markup=False)
    console.print(
        "The figures are for one release of so many cases: smaller releases need a larger epsilon. Releases that "
        "contain the same people add up: divide your total by their number. Declare activities only if they are public."
    )
    console.print(NOT_PROTECTED[0].upper() + NOT_PROTECTED[1:] + ".")


def _how_checked(options_: NoiseOptions) -> str:
    if options_.to_release is None:
        return "nothing was checked (--to-release compares it with the log that will be released)."
    return f"no case of it is in {options_.to_release.name} under the same identifier, start and first activity."


def candidate_row(trial: CandidateTrial) -> Mapping[str, Any]:
    """Return a trial as `advise --json` prints it.

    Parameters
    ----------
    trial
        A candidate that was tried.
    """
    publication, risk = trial.candidate.publication, _membership_risk(trial)
    return {
        "name": publication.name,
        "for": trial.candidate.why,
        "window": publication.window,
        "mechanism": publication.mechanism,
        "gate": publication.gate.model_dump(exclude_defaults=True),
        "releases": trial.releases,
        "withheld": trial.withheld,
        "waiting": trial.waiting,
        "kept": trial.kept,
        "wait_days": trial.wait_days,
        "loses": list(trial.loses),
        **trial.data,
        "worst": trial.worst,
        "holds": trial.holds,
        "verdict": trial.verdict,
        "reasons": [trial.refused] if trial.refused else list(trial.reasons),
        "whole_trace_auc": None if risk is None else {"auc": risk.auc, "low": risk.low, "high": risk.high},
    }


def _membership_risk(trial: CandidateTrial) -> MembershipFigure | None:
    """Return the measured risk if an adversary knows a whole trace; None for kinds without a measure."""
    return membership.measured({"suppression": "exact", **trial.candidate.publication.mechanism})


def _show(
    trials: list[CandidateTrial],
    best_left: list[CandidateTrial],
    best: CandidateTrial | None,
    text: str,
    near: CandidateTrial | None,
) -> None:
    console = tables()
    table = grid("candidate", "holds", "cuts", "kept", "wait", "KA", "FA", "CA", "BA", "loses", word_columns=2)
    table.columns[-1].justify = "left"
    for trial in trials:
        worst = map(or_dash, trial.worst.values())
        table.add_row(trial.candidate.publication.name, _holds(trial), *_numbers(trial), *worst, _loses(trial))
    console.print(fitted(table))
    console.print(
        "holds: where the bounds hold: in the whole series, within a budget of epsilon (budget), in each release "
        "alone, or in the series only against people who do not know the rules (limited); cuts: released of all; "
        "kept: share of the events that the last release keeps; wait: median days from the end of a case to its "
        "release; KA to BA: least over all releases; loses: missing activities that at least 5 % of the cases have"
    )
    for trial in trials:
        why = trial.refused or "; ".join(trial.reasons)
        if why:
            console.print(f"{trial.candidate.publication.name}: {why}", markup=False)
    of_whole_traces = []
    for trial in trials:
        risk = _membership_risk(trial)
        if risk is not None:
            of_whole_traces.append(f"{trial.candidate.publication.name} {risk.words()}")
    if of_whole_traces:
        console.print(
            "somebody who knows a person's whole trace guesses whether the person is in the log (AUC, .5 is guessing; "
            f"95 % interval over {membership.SPLITS} halves of {membership.LOG}, not of this log): "
            + ", ".join(dict.fromkeys(of_whole_traces)),
            markup=False,
        )
    if best_left:
        points = []
        for trial in best_left:
            name = trial.candidate.publication.name
            points.append(f"{name} ({trial.kept:.3f}, {trial.wait_days:.1f} d)")
        console.print(f"most kept for each wait: {', '.join(points)}", markup=False)
    if best is None:
        _show_nearest(console, near)
    else:
        _show_proposed(console, best, text)


def _show_nearest(console: Console, near: CandidateTrial | None) -> None:
    """Print why nothing is proposed."""
    console.print("no candidate holds over the series without a withheld cut: nothing is proposed")
    if near is None:
        return
    why = "; ".join(near.reasons)
    console.print(
        f"nearest: {near.candidate.publication.name}; cuts that released nothing: {near.unreleased}: {why}",
        markup=False,
    )
    if not near.withheld:
        least = near.candidate.least
        console.print(f"the log has too few cases for K = {least}: give a longer log or a smaller --K")


def _show_proposed(console: Console, best: CandidateTrial, text: str) -> None:
    """Print the proposal and its configuration, with what differs from the table in daily use."""
    from stream.run.advise import NAME

    console.print(f"proposed: {best.candidate.publication.name}, as publication {NAME}")
    if best.waiting:
        cuts = best.releases + best.waiting
        console.print(
            f"{best.waiting} of {cuts} cuts waited for more cases, and no candidate released at every cut of this log. "
            "Cases that wait leave with a later release, if enough cases follow. A longer log, a window of more cases "
            "or a smaller --K avoids it"
        )
    if "[process.completion]" in text:
        console.print(
            "Expect less than this table: in it, all cases are complete when the log ends. In daily use the program "
            "waits until a case is over, as the configuration below says"
        )
    console.print()
    console.print(text, markup=False, soft_wrap=True)


def _holds(trial: CandidateTrial) -> str:
    if not trial.holds:
        return "no"
    if trial.candidate.publication.gate.max_epsilon is not None:
        return "budget"
    if not trial.series:
        return "alone"
    return "limited" if trial.verdict == "LIMITED" else "series"


def _numbers(trial: CandidateTrial) -> list[str]:
    cuts = trial.releases + trial.unreleased
    return [f"{trial.releases}/{cuts}", or_dash(trial.kept, ".3f"), or_dash(trial.wait_days, ".1f")]


def _loses(trial: CandidateTrial) -> str:
    listed = ", ".join(trial.loses[:MOST_LISTED])
    unlisted = len(trial.loses) - MOST_LISTED
    return f"{listed} and {unlisted} more" if unlisted > 0 else listed
