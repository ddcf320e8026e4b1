"""Gain of making noisy counts fit each other: steps of dp-synthetic on the same noisy answers.

Run `python -m benchmarks.fits --json`. Means over `--rounds` draws from the cryptographic source, delta_dp 1e-6,
activities declared, defaults otherwise. `first level`: total variation between the relative frequencies of the true and
of the noisy first level, where cells below 1.5 scales are 0 (`dropped`), and where what enters a label leaves it
(`balanced`). Similarity and DFG error of the release of candidates alone where the model is of either level
(`candidates, dropped` and `candidates, balanced`), with their cases spread (`spread`), fitted to the weights and the
first level (`fitted to the first level`), and to all levels (`fitted`: the release). `order`: 1 and 2. Logs: the folder
VEILSTREAM_LOGS.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from connectors import read_log
from models.dp.noise import SECURE, NoiseSource, scale_for
from models.dp.strict import Terms
from models.dp.synthesis import candidates, contexts
from models.dp.synthesis.fitting import fit, follows, nearby
from models.dp.synthesis.flows import thinned
from models.dp.synthesis.spreading import Spread, pool_size
from models.dp.synthesis.table import Variant, VariantCounts
from models.dp.synthetic import (
    CASES_A_CELL,
    ONE_LEVEL_PRICE,
    PRICE,
    SMALL,
    SMALL_EPSILON_POOL,
    Design,
    StageBudget,
    variants_and_model,
    weight_of_prior,
)
from models.utility.similarity import similarity
from tests.oracles.utility import dfg_error

LOGS = ("sepsis", "bpic2012", "bpic2013-incidents", "bpic2012-app", "urineweginfectie")
ROOT = Path(__file__).resolve().parent.parent
DROP = 1.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", action="append", choices=LOGS, help="only this log; repeatable")
    parser.add_argument("--epsilon", action="append", help="only this epsilon; repeatable")
    parser.add_argument("--order", action="append", type=int, help="only this order; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    results: dict[str, Any] = {}
    for name in arguments.log or LOGS:
        log = read_log(folder / f"{name}.xes.gz")
        table = VariantCounts.of(log, sorted(map(str, log.activity.values)))
        for epsilon in arguments.epsilon or ("1", "0.1"):
            for order in arguments.order or (1, 2):
                rounds = [_round(table, epsilon, order) for _ in range(arguments.rounds)]
                means = {}
                for step in rounds[0]:
                    figures_of_rounds = zip(*(figures[step] for figures in rounds), strict=True)
                    means[step] = [round(fmean(figures), 4) for figures in figures_of_rounds]
                results[f"{name}, epsilon {epsilon}, order {order}"] = means
    print(json.dumps(results, indent=1))


def _round(table: VariantCounts, epsilon: str, order: int) -> dict[str, tuple[float, ...]]:
    """The figures of one draw of stages 1 and 2, and of one of stage 3 for each model."""
    source, terms = SECURE, Terms.of(epsilon, "1e-6")
    design = Design(activities=table.alphabet, order=order)
    budget = StageBudget.of(terms, design)
    frequent, levels = variants_and_model(table, design, budget, terms, source)
    is_small = terms.epsilon < SMALL
    balanced_level = thinned(levels[0], ONE_LEVEL_PRICE if is_small and len(levels) == 1 else PRICE)
    firsts = {"dropped": _dropped(levels[0]), "balanced": balanced_level}
    rows: dict[str, tuple[float, ...]] = {}
    for name, first in firsts.items():
        rows[f"first level, {name}"] = (_level_error(table, frequent, first, design),)
        drawn = contexts.Model.of([first, *levels[1:]]).sample(design.sample, design.max_length, source)
        listed, counts = _weights(table, frequent, first, drawn, design, budget, source)
        noise = scale_for(1, budget.pure("weights"))
        shown = [(variant, n) for variant, n in zip(listed, counts.tolist(), strict=True) if n and variant]
        rows[f"candidates, {name}"] = _near(table, shown)
    pool = pool_size(drawn)
    if is_small:
        pool = min(pool, SMALL_EPSILON_POOL)
    near = Spread.of(shown, listed, drawn, source, frequent, pool)
    rows["spread"] = _near(table, near.whole_cases(near.cases, source))
    cells = [nearby(near, counts, np.full(len(counts), noise))]
    for level_order, level in enumerate(levels, start=1):
        cells.append(follows(near, level, design.case_weight, contexts.root_weights, frequent, level_order))
    rows["fitted to the first level"] = _near(table, fit(near, cells[:2], source))
    rows["fitted"] = _near(table, fit(near, cells, source, weight_of_prior(noise)))
    return rows


def _dropped(level: contexts.ContextLevel) -> contexts.ContextLevel:
    cells = np.where(level.cells >= DROP * level.scale[:, None], level.cells, 0)
    return replace(level, cells=cells, scale=np.zeros(len(level.scale)))


def _weights(
    table: VariantCounts,
    frequent: dict[Variant, int],
    first: contexts.ContextLevel,
    drawn: dict[Variant, int],
    design: Design,
    budget: StageBudget,
    source: NoiseSource,
) -> tuple[list[Variant], Any]:
    """Stage 3 with the candidates of a sample."""
    cases = sum(frequent.values()) + contexts.cases(first, drawn, design.case_weight, contexts.root_weights)
    most = min(design.candidates, max(int(cases / (CASES_A_CELL * scale_for(1, budget.pure("weights")))), 1))
    listed = [*frequent, *candidates.representative(drawn, list(frequent), most)]
    return listed, candidates.reweigh(table, listed, budget.pure("weights"), source)


def _level_error(
    table: VariantCounts, frequent: dict[Variant, int], level: contexts.ContextLevel, design: Design
) -> float:
    """Total variation of relative frequencies; 1 for a level of nothing."""
    variants, counts = table.without(frequent)
    steps = contexts.VariantSteps.of(variants, len(table.alphabet))
    weights = contexts.root_weights(steps, design.case_weight, 1) * counts[steps.variant]
    true = contexts.true_cells(steps, weights, level.contexts, 1)
    if not level.cells.any():
        return 1.0
    return float(0.5 * np.abs(true / true.sum() - level.cells / level.cells.sum()).sum())


def _near(table: VariantCounts, shown: list[tuple[Variant, int]]) -> tuple[float, float]:
    """Similarity and DFG error."""
    true = Counter(dict(zip(table.variants, table.counts.tolist(), strict=True)))
    released = Counter(dict(shown))
    if not released:
        return 0.0, 1.0
    return similarity(true, released), dfg_error(true, released)


if __name__ == "__main__":
    main()
