"""The paper's 200 settings of TLKC-privacy, four types each, and its figures on a log.

`python -m benchmarks.tlkc_grid -o FOLDER` writes grid.json and the figures; `--json` prints the numbers alone.
L 2-6, K 20-60, C 0.2-0.5, T hours and minutes (tlkc-privacy-extended-2021, section 6.1); only `rel` depends on T,
so the other types are computed once. Figures: events kept over the grid; data utility of the weak and the strong
setting by Algorithm 1 and 2, exact and local suppression (its Figure 6); quality of the discovered model, compared
with the baselines (its Figure 5). Settings that leave nothing or cannot hold are null, with the reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.tlkc import LOGS, SETTINGS, TYPES, price, read
from models.anonymize.baselines import baseline_1, baseline_2, pretsa
from models.anonymize.result import Anonymized
from models.anonymize.tlkc import anonymize
from models.errors import VeilstreamError
from models.eventlog import EventLog

L_, K_, C_ = (2, 3, 4, 5, 6), (20, 30, 40, 50, 60), (0.2, 0.3, 0.4, 0.5)
METHODS: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"suppression": "greedy", "algorithm": 1, "theta": 0.5},
    "Algorithm 2": {"suppression": "greedy"},
    "exact": {"suppression": "exact"},
    "local": {"suppression": "local"},
}
BASELINES: dict[str, Callable[[EventLog, int], Anonymized]] = {
    "baseline-1": baseline_1,
    "baseline-2": baseline_2,
    "pretsa": pretsa,
}


def main() -> None:
    """Run the grid; print it or draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", choices=sorted(LOGS), default="sepsis")
    parser.add_argument("--suppression", choices=("greedy", "pruned", "exact", "local"), default="exact")
    parser.add_argument("--fitness", choices=("replay", "alignment"), default="replay")
    parser.add_argument("--json", action="store_true", help="print the grid and draw nothing")
    parser.add_argument("-o", "--output", type=Path, default=Path("grid-out"))
    arguments = parser.parse_args()
    log, sensitive = read(arguments.log), LOGS[arguments.log]
    result: dict[str, Any] = {
        "log": arguments.log,
        "fitness": arguments.fitness,
        "grid": grid(log, sensitive, arguments.suppression),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    result["settings"] = settings(log, sensitive, arguments.fitness)
    result["baselines"] = {}
    for name, method in BASELINES.items():
        by_k = {str(K): _priced(log, partial(method, log, K), arguments.fitness) for K in (20, 60)}
        result["baselines"][name] = by_k
    result["original"] = _priced(log, lambda: baseline_1(log, 1), arguments.fitness)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "grid.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    draw(result, arguments.output)


def grid(log: EventLog, sensitive: list[str], suppression: Any) -> list[dict[str, Any]]:
    """Return the events kept in every setting, one row for each."""
    rows = []
    for knowledge, L, K, C in itertools.product(TYPES, L_, K_, C_):
        has_times = knowledge == "rel"
        for T in ("minutes", "hours") if has_times else ("minutes",):
            print(f"{knowledge} L={L} K={K} C={C} {T}", file=sys.stderr)
            row: dict[str, Any] = {"type": knowledge, "L": L, "K": K, "C": C, "T": T if has_times else "any"}
            try:
                released = anonymize(
                    log, L=L, K=K, C=C, T=T, sensitive=sensitive, knowledge=knowledge, suppression=suppression
                )
                row |= {"events": released.events, "satisfied": released.satisfied}
            except VeilstreamError as error:
                row |= {"events": None, "reason": str(error)}
            rows.append(row)
    return rows


def settings(log: EventLog, sensitive: list[str], fitness: Any) -> dict[str, Any]:
    """Return the price of the weak and the strong setting, by method and type."""
    prices: dict[str, Any] = {}
    for (name, bounds), (method, options), knowledge in itertools.product(SETTINGS.items(), METHODS.items(), TYPES):
        arguments = {**bounds, "T": "minutes", "sensitive": sensitive, "knowledge": knowledge, **options}
        of_method = prices.setdefault(name, {}).setdefault(method, {})
        of_method[knowledge] = _priced(log, partial(anonymize, log, **arguments), fitness)
    return prices


def _priced(log: EventLog, make: Callable[[], Anonymized], fitness: Any) -> dict[str, Any]:
    try:
        released = make()
    except VeilstreamError as error:
        return {"events": None, "reason": str(error)}
    return {"events": released.events, **price(log, released, (fitness,))}


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draw the figures as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    _draw_grid(result["grid"], folder / "events.png")
    _draw_utility(result["settings"], folder / "data-utility.png")
    _draw_quality(result, folder / "discovery.png")


def _draw_grid(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib import pyplot as plt

    columns = sorted({(TYPES.index(row["type"]), row["T"]) for row in rows})
    width = 3.2 * len(columns)
    figure, axes = plt.subplots(len(C_), len(columns), figsize=(width, 10), sharex=True, sharey=True)
    for (i, C), (j, (type_index, T)) in itertools.product(enumerate(C_), enumerate(columns)):
        knowledge = TYPES[type_index]
        for L in L_:
            setting = (knowledge, T, L, C)
            of_setting = [row for row in rows if (row["type"], row["T"], row["L"], row["C"]) == setting]
            axes[i][j].plot(K_, [row["events"] or 0 for row in of_setting], marker=".", label=f"L = {L}")
        title = knowledge if T == "any" else f"{knowledge} {T}"
        axes[i][j].set_title(f"{title}, C = {C}", fontsize=9)
    axes[0][0].legend(fontsize=7)
    figure.supxlabel("K")
    figure.supylabel("events kept")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_utility(settings_: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(settings_), figsize=(11, 4), sharey=True)
    for axis, (name, methods) in zip(axes, settings_.items(), strict=True):
        for k, (method, types) in enumerate(methods.items()):
            heights = [types[each].get("data_utility", 0) for each in TYPES]
            axis.bar([x + 0.2 * k for x in range(len(TYPES))], heights, 0.2, label=method)
        axis.set_xticks([x + 0.3 for x in range(len(TYPES))], TYPES)
        axis.set_title(f"{name} setting")
    axes[0].set_ylabel("data utility")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_quality(result: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(SETTINGS), figsize=(13, 4.5), sharey=True)
    for axis, (name, bounds) in zip(axes, SETTINGS.items(), strict=True):
        bars = {"original": result["original"]}
        bars |= {base: prices[str(bounds["K"])] for base, prices in result["baselines"].items()}
        for method in ("Algorithm 2", "exact", "local"):
            bars |= {f"{method} {each}": result["settings"][name][method][each] for each in TYPES}
        for k, measure in enumerate(("fitness", "precision")):
            heights = [entry.get("discovery", {}).get(result["fitness"], {}).get(measure, 0) for entry in bars.values()]
            axis.bar([x + 0.4 * k for x in range(len(bars))], heights, 0.4, label=measure)
        axis.set_xticks([x + 0.2 for x in range(len(bars))], list(bars), rotation=80, fontsize=7)
        axis.set_title(f"{name} setting")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
