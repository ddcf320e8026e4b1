"""Figure of `veilstream advise`: events kept against waiting, one point a candidate, those worth choosing joined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stream.commands._plot import new_figure, save

if TYPE_CHECKING:
    from stream.run.advise import CandidateTrial


def draw(path: Path, name: str, trials: Sequence[CandidateTrial], best: Sequence[CandidateTrial]) -> None:
    """Write the figure; candidates that released no cases are left out."""
    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    for trial in trials:
        if trial.kept is None or trial.wait_days is None:
            continue
        over = trial.holds and trial.series
        axes.plot(trial.wait_days, trial.kept, "o" if over else "x", color="tab:blue" if over else "tab:grey")
        label = trial.candidate.publication.name
        axes.annotate(label, (trial.wait_days, trial.kept), textcoords="offset points", xytext=(5, 3), fontsize=7)
    if best:
        order = sorted(best, key=lambda trial: trial.wait_days or 0)
        axes.plot([one.wait_days for one in order], [one.kept for one in order], color="tab:blue", linewidth=0.8)
    axes.set(xlabel="median days from the end of a case to its release", ylabel="share of events kept", title=name)
    save(figure, path)
