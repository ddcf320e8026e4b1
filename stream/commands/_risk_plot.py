"""Figure of `veilstream risk`: uniqueness by amount of knowledge, one line a projection (Figure 1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import InputError

if TYPE_CHECKING:
    from models.risk.uniqueness import Uniqueness

KINDS = (".png", ".pdf", ".svg")


def draw(path: Path, name: str, found: Sequence[Uniqueness]) -> None:
    """Write the figure; projections without points are left out. InputError for a kind of file that is unknown or a
    file that cannot be written."""
    if path.suffix.lower() not in KINDS:
        raise InputError(f"--plot {path}: the suffix is none of {', '.join(KINDS)}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for each in found:
        if each.points:
            means = [point.unique_mean for point in each.points]
            spread = [point.unique_sd for point in each.points]
            labels = [str(point.m) for point in each.points]
            axes.errorbar(labels, means, yerr=spread, marker="o", capsize=3, label=each.projection)
    axes.set(xlabel="points known", ylabel=f"share of unique {found[0].unit}s", ylim=(-0.02, 1.02), title=name)
    if any(each.points for each in found):
        axes.legend(title="projection")
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"--plot {path}: cannot be written ({error.strerror})") from error
