"""Figure of `veilstream risk`: uniqueness by amount of knowledge, one line a projection (Figure 1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stream.commands._plot import new_figure, save

if TYPE_CHECKING:
    from models.risk.uniqueness import Uniqueness


def draw(path: Path, name: str, found: Sequence[Uniqueness]) -> None:
    """Write the figure; projections without points are left out. InputError for a file that cannot be written."""
    figure = new_figure(6, 4)
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
    save(figure, path)
