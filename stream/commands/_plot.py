"""`--plot` of the commands `advise`, `leakage` and `risk`: one figure in a file, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.errors import InputError

if TYPE_CHECKING:
    from models.risk.uniqueness import Uniqueness
    from stream.run.advise import CandidateTrial
    from stream.run.noise_advice import NoiseCurve

KINDS = (".png", ".pdf", ".svg")

LEAKAGE_LINES = {"bpl": ("BPL", "o-"), "fpl": ("FPL", "s--"), "tpl": ("TPL", "^:")}

PANEL_INCHES = 3.2

HEADROOM = 1.05
"""Room above the highest curve, as a factor."""


def check(path: Path) -> None:
    """Refuse a `--plot` that cannot be drawn, before a measuring that takes its time.

    Parameters
    ----------
    path
        File of the figure.

    Raises
    ------
    InputError
        For an unknown kind of file, for a missing folder, and if matplotlib is not installed.
    """
    if path.suffix.lower() not in KINDS:
        raise InputError(f"--plot {path}: the suffix is none of {', '.join(KINDS)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--plot {path}: no such folder")
    _new_figure(1, 1)


def draw_advice(
    path: Path,
    name: str,
    trials: Sequence[CandidateTrial],
    best: Sequence[CandidateTrial],
) -> None:
    """Draw events kept against waiting, a point for each candidate that released cases; a line joins the best ones.

    Parameters
    ----------
    path
        File of the figure.
    name
        Name of the log, for the title.
    trials
        All candidates.
    best
        Candidates of which no other one keeps more and waits less.
    """
    figure = _new_figure(7, 4.5)
    axes = figure.subplots()
    for trial in trials:
        if trial.kept is None or trial.wait_days is None:
            continue
        holds_bounds = trial.holds and trial.series
        sign, colour = ("o", "tab:blue") if holds_bounds else ("x", "tab:grey")
        axes.plot(trial.wait_days, trial.kept, sign, color=colour)
        label = trial.candidate.publication.name
        axes.annotate(label, (trial.wait_days, trial.kept), textcoords="offset points", xytext=(5, 3), fontsize=7)
    if best:
        by_wait = sorted(best, key=lambda trial: trial.wait_days or 0)
        waits = [trial.wait_days for trial in by_wait]
        kept = [trial.kept for trial in by_wait]
        axes.plot(waits, kept, color="tab:blue", linewidth=0.8)
    axes.set(xlabel="median days from the end of a case to its release", ylabel="share of events kept")
    _title(axes, name)
    _save(figure, path)


def draw_noise(path: Path, name: str, curves: Sequence[NoiseCurve]) -> None:
    """Draw similarity and DFG error by epsilon, one line for each mechanism.

    Bars reach from the least to the largest figure of all runs; a ring marks the recommended epsilon.

    Parameters
    ----------
    path
        File of the figure.
    name
        Name of the log, for the title.
    curves
        Figures of each mechanism by epsilon.
    """
    figure = _new_figure(2 * PANEL_INCHES + 1, PANEL_INCHES + 0.8)
    panels = figure.subplots(1, 2, sharex=True)
    figures = (("similarity", "similarity"), ("dfg_error", "DFG error"))
    for panel, (measure, label) in zip(panels, figures, strict=True):
        for curve in curves:
            spreads = [getattr(point, measure) for point in curve.points]
            epsilons = [float(point.epsilon) for point in curve.points]
            means = [spread.mean for spread in spreads]
            # A mean of equal figures may differ from them in the last bit, and bars must not be negative.
            below = [max(spread.mean - spread.least, 0.0) for spread in spreads]
            above = [max(spread.most - spread.mean, 0.0) for spread in spreads]
            bars = panel.errorbar(epsilons, means, yerr=(below, above), marker=".", capsize=3, label=curve.name)
            for epsilon, mean, point in zip(epsilons, means, curve.points, strict=True):
                if point.epsilon == curve.recommended:
                    panel.plot(epsilon, mean, "o", markersize=11, fillstyle="none", color=bars[0].get_color())
        panel.set(xscale="log", xlabel="epsilon of one release", ylabel=label, ylim=(-0.02, 1.02))
    panels[1].legend(fontsize=7)
    figure.suptitle(name, parse_math=False)
    _save(figure, path)


def draw_leakage(path: Path, name: str, results: Sequence[Mapping[str, Any]]) -> None:
    """Draw BPL, FPL and TPL by release, one panel for each window.

    Parameters
    ----------
    path
        The file to write.
    name
        The log's name, for the title.
    results
        The JSON of each window.

    References
    ----------
    Figures 4 and 5 of temporal-privacy-leakage-2022.
    """
    figure = _new_figure(PANEL_INCHES * len(results), PANEL_INCHES)
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, result in zip(panels, results, strict=True):
        rows = result["releases"]
        releases = [row["release"] for row in rows]
        for key, (label, style) in LEAKAGE_LINES.items():
            panel.plot(releases, [row[key] for row in rows], style, label=label, fillstyle="none")
        panel.axhline(result["sum_epsilon"], color="grey", linewidth=0.8)
        panel.set_title(f"x = {result['window']}")
        panel.set_xlabel("release")
        panel.set_xticks(releases)
    sums = [result["sum_epsilon"] for result in results]
    totals = [row["tpl"] for result in results for row in result["releases"]]
    panels[0].set_ylim(0, HEADROOM * max([*sums, *totals]))
    panels[0].set_ylabel("leakage (nats)")
    panels[0].legend()
    first = results[0]
    scenario = {"certain": "S1, exactly", "uncertain": "S2, up to"}[first["scenario"]]
    title = f"{name}: {scenario} x events a case, states {first['abstraction']}, {first['method']}"
    figure.suptitle(title, parse_math=False)
    _save(figure, path)


def draw_uniqueness(path: Path, name: str, measured: Sequence[Uniqueness]) -> None:
    """Draw uniqueness by number of known points, one line for each projection that has points.

    Parameters
    ----------
    path
        File of the figure.
    name
        Name of the log, for the title.
    measured
        Uniqueness by projection, at least one.

    References
    ----------
    Figure 1 of reidentification-risk-2020.
    """
    figure = _new_figure(6, 4)
    axes = figure.subplots()
    drawn = [projection for projection in measured if projection.points]
    for projection in drawn:
        labels = [str(point.m) for point in projection.points]
        means = [point.unique_mean for point in projection.points]
        deviations = [point.unique_sd for point in projection.points]
        axes.errorbar(labels, means, yerr=deviations, marker="o", capsize=3, label=projection.projection)
    axes.set(xlabel="points known", ylabel=f"share of unique {measured[0].unit}s", ylim=(-0.02, 1.02))
    _title(axes, name)
    if drawn:
        axes.legend(title="projection")
    _save(figure, path)


def _new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("--plot needs matplotlib: install veilstream with the extra `plot`") from None
    return Figure(figsize=(width, height), layout="constrained")


def _title(axes: Any, name: str) -> None:
    """Set the name of a file as title: dollar signs in it are not formulas."""
    axes.set_title(name, parse_math=False)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"--plot {path}: cannot be written ({error.strerror})") from error
