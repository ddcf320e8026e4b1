"""Series in which each case counts once: 24 weekly and 260 releases of BPIC 2012 at a total epsilon of 1.

Run `python -m benchmarks.series --json`. Each case is in the release of the window in which its last event is; noise
from the cryptographic source, delta_dp 1e-6. `accumulated`: the log over all releases, compared with the last one;
`last`: the last release against its own cases. `release_noise`: deviation of the noise of its counts, in that of
independent noise for the same promise; `step_noise`: that of its counts of steps, in steps. `covered`: share of all
cases whose variant is in the accumulated log. `whole`: the last of 24 releases of everything so far at a total epsilon
of 1. `spent`: epsilon by the composition that the ledger uses.

Reach (issue 21): weekly, accumulated: similarity >= .72, DFG error <= .20; 260 releases: covered >= .45; spent 1.
Reach (issue 39), `dp-synthetic, factorized`: accumulated DFG error <= .12 weekly, <= .15 at 260 releases, and
release_noise <= 1.3. Log: the folder VEILSTREAM_LOGS.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from connectors import read_log
from models.dp import series, strict
from models.dp.accumulation import Shape
from models.dp.budget import Charge, parallel
from models.dp.factorization import Factorization
from models.dp.strict import Terms
from models.dp.synthesis import contexts
from models.dp.synthesis import series as synthetic_series
from models.dp.synthetic import Design, Shares
from models.eventlog import EventLog
from models.utility.similarity import likeness

ROOT = Path(__file__).resolve().parent.parent
TERMS = Terms.of("1", "1e-6")
CASE_WEIGHT = 20
"""Of the context model with independent noise: the mean length of a case, as somebody who knows the process would
declare it. With correlated noise steps are weighed in L2, and the default is used."""

Step = Callable[[EventLog, int, Any], series.Accumulated]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--releases", type=int, action="append", help="only this number of releases; repeatable")
    parser.add_argument("--kind", action="append", help='only this row, such as "dp-synthetic, factorized"; repeatable')
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    log = read_log(folder / "bpic2012.xes.gz")
    results = measure(log, arguments.releases or [24, 260], arguments.rounds, arguments.kind)
    print(json.dumps(results, indent=2))


def measure(log: EventLog, releases: list[int], rounds: int, kinds: list[str] | None = None) -> dict[str, Any]:
    """Return all figures by number of releases; only rows named in `kinds` if it is given."""
    results: dict[str, Any] = {}
    for number in releases:
        parts = windows(log, number)
        rows: dict[str, Any] = {}
        for name, step in _steps(log, number).items():
            if kinds is None or name in kinds:
                rows[name] = _mean([_run(log, parts, step) for _ in range(rounds)])
        if kinds is None or "whole" in kinds:
            rows["whole"] = _mean([_whole(log, number) for _ in range(rounds)])
        results[str(number)] = rows
    return results


def windows(log: EventLog, releases: int) -> list[EventLog]:
    """Return the cases by the window of their last event; all windows have the same length."""
    ends = log.time[log.starts[1:] - 1]
    place = (ends - ends.min()) * releases // (ends.max() - ends.min() + 1)
    return [log.select_cases(np.flatnonzero(place == window)) for window in range(releases)]


def _steps(log: EventLog, releases: int) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for how in ("sum", "tree"):
        shape = Shape.of(how, releases)  # type: ignore[arg-type]
        steps[f"dp-variants, {how} ({shape.levels} levels)"] = _variants(shape)
    design = Design(
        activities=tuple(map(str, log.activity.values)), case_weight=CASE_WEIGHT, shares=Shares.adding_up(times=False)
    )
    if releases <= 60:
        steps["dp-synthetic, sum"] = _synthetic(design, Shape.of("sum", releases))
    factorized = replace(design, case_weight=Design().case_weight)
    steps["dp-synthetic, factorized"] = _synthetic(factorized, Shape.of("factorized", releases))
    return steps


def _variants(shape: Shape) -> Step:
    return lambda log, number, state: series.release_variants(log, terms=TERMS, shape=shape, number=number, state=state)


def _synthetic(design: Design, shape: Shape) -> Step:
    return lambda log, number, state: synthetic_series.release_synthetic(
        log, terms=TERMS, design=design, shape=shape, number=number, state=state
    )


def _run(log: EventLog, parts: list[EventLog], step: Step) -> dict[str, float]:
    """Release one series."""
    state, charges, begun, last = None, [], time.process_time(), None
    for number, part in enumerate(parts, start=1):
        last = step(part, number, state)
        state = last.state
        charges.append(Charge(last.release.terms.epsilon, last.release.terms.delta_dp))
    seconds = time.process_time() - begun
    assert last is not None
    assert last.log is not None
    return {
        **{f"accumulated_{name}": value for name, value in _shown(log, last.log).items()},
        **{f"last_{name}": value for name, value in _shown(parts[-1], last.release.log).items()},
        **_release_noise(last),
        "spent": float(parallel(charges).epsilon),
        "cpu": seconds,
    }


def _release_noise(last: series.Accumulated) -> dict[str, float]:
    """Noise of the last release of a correlated series, by the manifest and by the matrix."""
    if last.public["how"] != "factorized":
        return {}
    factorization = Factorization.of(last.public["horizon"])
    independent = last.state["weights"]["scale"] / factorization.sensitivity
    steps = last.state["cells"][0]["scale"] / last.state["weights"]["scale"] / contexts.UNIT
    release = last.public["noise"]["release"]
    return {"release_noise": release / independent, "step_noise": release * steps}


def _whole(log: EventLog, releases: int) -> dict[str, float]:
    """Release everything so far at the last of the releases, with its part of epsilon and delta."""
    each = {"epsilon": Fraction(1, releases), "delta_dp": TERMS.delta_dp / releases}
    released = strict.release_variants(log, **each).log
    return {**_shown(log, released), "spent": float(sum((each["epsilon"] for _ in range(releases)), Fraction(0)))}


def _shown(log: EventLog, released: EventLog) -> dict[str, float]:
    figures, released_traces = likeness(log, released), set(released.traces())
    covered = sum(trace in released_traces for trace in log.traces()) / log.n_cases
    return {
        "similarity": figures.similarity,
        "dfg_error": figures.dfg_error,
        "covered": covered,
        "variants": len(released_traces),
    }


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each figure, and the worst value of those of accumulated logs."""
    figures = {name: fmean(row[name] for row in rows) for name in rows[0]}
    worst_of = {"accumulated_similarity": min, "accumulated_dfg_error": max, "accumulated_covered": min}
    for name, worst in worst_of.items():
        if name in rows[0]:
            figures[f"{name}_worst"] = worst(row[name] for row in rows)
    return {name: round(value, 4) for name, value in figures.items()}


if __name__ == "__main__":
    main()
