"""Membership attack by an adversary who knows the whole trace of a person.

Run `python -m benchmarks.membership [LOG ...]` (a file, or a name in VEILSTREAM_LOGS; sepsis without). JSON, one entry
a log and mechanism.

* Adversary: knows all activities of a person in their order, no times, and holds the releases. Guesses whether the
  person is in the log that was released. Score of a person: 1 - the least normalised Levenshtein distance between the
  person's trace and a released trace, so 1 if the whole trace was released.
* Split: the cases of the log are shuffled and halved. One half (members) is released, the other (non-members) is not.
  `--splits` times, each with a seed of its own.
* `auc`: chance that a member scores higher than a non-member (ties count half), mean over the splits; .5 is guessing.
  `interval`: 95 % by Student's t over the splits. It covers the split and the mechanism's draws, not the choice of log.
* `unique_unchanged`: share of the members with a trace of their own (in the members) whose whole trace was released.

Measured on a public log: what a mechanism leaves of the user's own log can be more or less.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from connectors import read_log
from models.errors import BoundError
from models.eventlog import EventLog
from models.utility.distance import distances
from stream.release.contract import Exposure
from stream.release.mechanisms import mechanism

GROUPS = {"L": 2, "K": 20, "C": 1.0}
MECHANISMS: Mapping[str, Mapping[str, Any]] = {
    "identity": {"kind": "identity"},
    "tlkc (local)": {"kind": "tlkc", "suppression": "local", **GROUPS},
    "tlkc (exact)": {"kind": "tlkc", "suppression": "exact", **GROUPS},
    "tlkc-cohorts (local, the default)": {"kind": "tlkc-cohorts", "suppression": "local", **GROUPS},
    "dp-synthetic (epsilon 1)": {"kind": "dp-synthetic", "epsilon": 1, "delta_dp": 1e-6},
}
CUTS = 10
"""Releases of a series of cohorts; every other mechanism releases the members at once."""


def released(members: EventLog, table: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The traces that a mechanism releases of the members; of a series of cohorts those of its last release."""
    chosen = mechanism(table)
    cuts = CUTS if chosen.remembers else 1
    memory, traces = None, list[tuple[str, ...]]()
    for number in range(1, cuts + 1):
        so_far = members.select_cases(np.arange(members.n_cases * number // cuts))
        complete = np.ones(so_far.n_cases, dtype=np.bool_)
        exposure = Exposure(so_far, complete, (), int(so_far.time.max()), publication="p", last=number == cuts)
        try:
            build = chosen.build(exposure, memory)
        except BoundError:  # the queue waits; the next release shows it
            continue
        memory = build.memory
        traces = [tuple(trace) for trace in build.log.traces() if trace]
    return traces


def scores(traces: Sequence[tuple[str, ...]], shown: Sequence[tuple[str, ...]]) -> np.ndarray[Any, Any]:
    """float64[asked]: 1 - the least normalised Levenshtein distance to a released trace; 0 if nothing was released."""
    letters: dict[str, str] = {}

    def text(trace: tuple[str, ...]) -> str:
        return "".join(letters.setdefault(name, chr(0x4E00 + len(letters))) for name in trace)

    rows = sorted({text(trace) for trace in traces})
    columns = sorted({text(trace) for trace in shown})
    if not columns:
        return np.zeros(len(traces))
    nearest = dict(zip(rows, distances(rows, columns).min(axis=1).tolist(), strict=True))
    return np.asarray([1 - nearest[text(trace)] for trace in traces])


def area(members: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> float:
    """Area under the ROC curve, by Mann and Whitney."""
    statistic = stats.mannwhitneyu(members, others).statistic
    return float(statistic) / (len(members) * len(others))


def halves(log: EventLog, seed: int) -> tuple[EventLog, EventLog]:
    """Members and non-members, each in the order of the log."""
    order = np.random.default_rng(seed).permutation(log.n_cases)
    half = log.n_cases // 2
    return log.select_cases(np.sort(order[:half])), log.select_cases(np.sort(order[half:]))


def measure(log: EventLog, table: Mapping[str, Any], splits: int) -> dict[str, Any]:
    """AUC of one mechanism with its interval."""
    areas, unchanged = [], []
    for seed in range(splits):
        members, others = halves(log, seed)
        inside = [tuple(trace) for trace in members.traces()]
        outside = [tuple(trace) for trace in others.traces()]
        shown = released(members, table)
        areas.append(area(scores(inside, shown), scores(outside, shown)))
        counts, traces_shown = Counter(inside), set(shown)
        unique = [trace for trace, count in counts.items() if count == 1]
        unchanged.append(sum(trace in traces_shown for trace in unique) / max(1, len(unique)))
    mean, sd = float(np.mean(areas)), float(np.std(areas, ddof=1))
    reach = float(stats.t.ppf(0.975, splits - 1)) * sd / splits**0.5
    return {
        "auc": round(mean, 4),
        "interval": [round(mean - reach, 4), round(mean + reach, 4)],
        "splits": [round(split, 4) for split in areas],
        "unique_unchanged": round(float(np.mean(unchanged)), 4),
    }


def main() -> None:
    """Print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", default=["sepsis"])
    parser.add_argument("--splits", type=int, default=5, help="at least 2")
    parser.add_argument("--json", action="store_true", help="as always: nothing else is printed")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    results: dict[str, Any] = {}
    for name in arguments.logs:
        path = Path(name) if Path(name).is_file() else folder / f"{name}.xes.gz"
        log = read_log(path)
        cases = {"members": log.n_cases // 2, "others": log.n_cases - log.n_cases // 2}
        tables = {**MECHANISMS}
        labels = sorted(str(value) for value in log.activity.values)
        tables["dp-synthetic (epsilon 1, declared activities)"] = {
            **MECHANISMS["dp-synthetic (epsilon 1)"],
            "activities": tuple(labels),
        }
        results[path.name] = {
            **cases,
            "mechanisms": {title: measure(log, table, arguments.splits) for title, table in tables.items()},
        }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
