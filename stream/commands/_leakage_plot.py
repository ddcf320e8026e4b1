"""Figures 4 and 5 of temporal-privacy-leakage-2022 for any log: BPL, FPL and TPL by release, one panel a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stream.commands._plot import new_figure, save

STYLES = {"bpl": ("BPL", "o-"), "fpl": ("FPL", "s--"), "tpl": ("TPL", "^:")}
PANEL_INCHES = 3.2
HEADROOM = 1.05


def draw(path: Path, name: str, results: Sequence[Mapping[str, Any]]) -> None:
    """Write the curves of `results` (the JSON of each window) to `path`."""
    figure = new_figure(PANEL_INCHES * len(results), PANEL_INCHES)
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, result in zip(panels, results, strict=True):
        _panel(panel, result)
    highest = max([*(r["sum_epsilon"] for r in results), *(row["tpl"] for r in results for row in r["releases"])])
    panels[0].set_ylim(0, HEADROOM * highest)
    panels[0].set_ylabel("leakage (nats)")
    panels[0].legend()
    scenario = {"certain": "S1, exactly", "uncertain": "S2, up to"}[results[0]["scenario"]]
    figure.suptitle(f"{name}: {scenario} x events a case, states {results[0]['abstraction']}, {results[0]['method']}")
    save(figure, path)


def _panel(panel: Any, result: Mapping[str, Any]) -> None:
    rows = result["releases"]
    for key, (label, style) in STYLES.items():
        panel.plot([row["release"] for row in rows], [row[key] for row in rows], style, label=label, fillstyle="none")
    panel.axhline(result["sum_epsilon"], color="grey", linewidth=0.8)
    panel.set_title(f"x = {result['window']}")
    panel.set_xlabel("release")
    panel.set_xticks([row["release"] for row in rows])
