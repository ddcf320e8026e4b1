"""Anonymeter on flattened features of cases, run in an environment that has it (VEILSTREAM_ANONYMETER_PYTHON).

Reads a JSON object from standard input: tables `original`, `released` and `control` (each a list of rows of features)
and `seed`. Writes one: `seen` (a lower limit above 0 at a level for all attacks together), `seen_single` (at 95 % of
each attack alone), `risks`, and `cpu`. It imports nothing of veilstream.

Attacks, as the documentation of Anonymeter shows them: singling out by one attribute and by four, linkability between
the first ten activities and the other features, and inference of the fourth activity and of the length from all
others.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd


def main() -> None:
    """Answer one request."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    question = json.load(sys.stdin)
    tables = {name: pd.DataFrame(question[name]) for name in ("original", "released", "control")}
    np.random.seed(question["seed"])
    begin = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        evaluators = dict(_evaluators(tables, question["seed"]))
    level = 1 - 0.05 / len(evaluators)
    risks: dict[str, Any] = {}
    detected = seen_single = False
    for name, evaluator in evaluators.items():
        if isinstance(evaluator, str):
            risks[name] = evaluator
            continue
        single, together = evaluator.risk(confidence_level=0.95), evaluator.risk(confidence_level=level)
        risks[name] = {"risk": single.value, "low": single.ci[0], "high": single.ci[1]}
        seen_single |= bool(single.ci[0] > 0)
        detected |= bool(together.ci[0] > 0)
    json.dump(
        {"seen": detected, "seen_single": seen_single, "risks": risks, "cpu": time.process_time() - begin}, sys.stdout
    )


def _evaluators(tables: dict[str, pd.DataFrame], seed: int) -> Any:
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    ori, syn, control = tables["original"], tables["released"], tables["control"]
    attacks = min(500, len(ori), len(control))
    activities = [name for name in ori.columns if name.startswith("activity ")]
    others = [name for name in ori.columns if name not in activities]
    makers: dict[str, Any] = {}
    for mode, columns in (("univariate", 1), ("multivariate", 4)):

        def singling_out(mode: str = mode, columns: int = columns) -> Any:
            evaluator = SinglingOutEvaluator(
                ori=ori, syn=syn, control=control, n_attacks=attacks, n_cols=columns, max_attempts=100_000
            )
            return evaluator.evaluate(mode=mode)

        makers[f"singling out, {mode}"] = singling_out
    makers["linkability"] = lambda: LinkabilityEvaluator(
        ori=ori, syn=syn, control=control, n_attacks=attacks, aux_cols=(activities, others), n_neighbors=5
    ).evaluate(n_jobs=1)
    for secret, regression in (("activity 4", False), ("length", True)):
        makers[f"inference of {secret}"] = lambda secret=secret, regression=regression: InferenceEvaluator(
            ori=ori,
            syn=syn,
            control=control,
            aux_cols=[name for name in ori.columns if name != secret],
            secret=secret,
            regression=regression,
            n_attacks=attacks,
        ).evaluate(n_jobs=1)
    for name, make in makers.items():
        try:
            yield name, make()
        except Exception as error:  # noqa: BLE001 - a peer's own errors are its result
            yield name, f"{type(error).__name__}: {error}"[:200]


if __name__ == "__main__":
    main()
