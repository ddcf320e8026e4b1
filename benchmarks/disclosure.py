"""Rate at which an assessment detects a planted leak, and at which it accuses a release that cannot leak.

The log is cut into three random parts: original, control, and a third part that is released as it is. Nothing of that
release depends on the original, so whatever is seen is a false accusation. For the planted leak, 5 % of the cases of
the original are added to it word for word. In the third kind the release is original and control together, word for
word: the control was drawn from what was released, so nothing distinguishes the two, and nobody may be accused.

`planted_without_times` is the planted leak in a release that shows activities in their order and no times. The
command does not claim to see it: `would_see_without_times` is the least leak that it prints for whole traces.

`--controls` prints controls whose answer is known without the code, of each of the five attacks its strongest measure:
a release that is the original (near 1, as far as the attacker can ask), and one of another process (the third part
with its activities renamed at random; 0 within the interval). A release that is the original is also the ceiling of
what somebody of this knowledge can reach with any release, and `unlike_others` is the share of the people whose case
differs from all others by the times that are known: no predicate singles out anybody else. `membership_areas` is
another one: the mean area of each score for the release that depends on nobody, which is .5 if the score is fair, with
the standard error over the divisions.

`python -m benchmarks.disclosure [--runs 40] [--first-seed 1000] [--log sepsis.xes.gz] [--controls] --json`; logs from
VEILSTREAM_LOGS, else from `../shared/logs` next to the checkout. Reach (semantics of disclosure): a planted leak seen
in 95 of 100 runs, a false accusation in at most 5 of 100; Sepsis in 60 CPU s, BPIC 2012 in 600.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from models.disclosure.assessment import ATTACKS, Assessment, Attackers, Measure, assess
from models.disclosure.material import Material, Profile, pooled
from models.eventlog import Column, EventLog
from models.knowledge import NANOSECONDS, Knowledge, Unit

FOLDER = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
SHARE = 20
"""One of so many cases of the original is leaked."""


def thirds(log: EventLog, rng: np.random.Generator) -> list[EventLog]:
    """Return original, control and the part that is released."""
    return [log.select_cases(np.sort(part)) for part in np.array_split(rng.permutation(log.n_cases), 3)]


def seen(assessment: Assessment) -> list[str]:
    """Return the attacks that saw a leak."""
    return [f"{measure.attack}: {measure.how}" for result in assessment.results for measure in result.seen]


def renamed(log: EventLog, rng: np.random.Generator) -> EventLog:
    """Return a log of another process: each activity under the name of another one."""
    names = np.asarray(log.activity.values, dtype=np.object_)
    shift = rng.permutation(len(names))
    return replace(log, activity=Column(log.activity.codes, tuple(names[shift])))


def activities_of(log: EventLog) -> EventLog:
    """Return a log with its activities in order and nothing else."""
    return EventLog.from_traces([(trace, None) for trace in log.traces()])


def unlike_others(original: EventLog, control: EventLog, profile: Profile) -> float:
    """Return the share of the original's cases that differ from all others by all that this kind of knowledge shows."""
    material = Material.of(original, control, original, profile)
    rows, other_rows, _ = material.rows(material.traces)
    cases_of_row = np.bincount(np.concatenate((rows, other_rows)))
    return float((cases_of_row[rows] == 1).mean())


def controls(log: EventLog, sensitive: Sequence[str], runs: int, first_seed: int, unit: Unit) -> dict[str, Any]:
    """Return the answers of controls that are known without the code.

    Attackers know eight activities with their times: fewer would leave it open whether the attack failed or the
    attacker could not ask.
    """
    profile = Profile(8, Knowledge("rel", T=unit), name=f"knows {unit}")
    unlike: list[float] = []
    near_one: dict[str, list[dict[str, Any]]] = defaultdict(list)
    excluding = intervals = accused = 0
    begin = time.process_time()
    for run in range(runs):
        rng = np.random.default_rng(first_seed + run)
        original, control, third = thirds(log, rng)
        attackers = Attackers([profile], sensitive, seed=run)
        unlike.append(unlike_others(original, control, profile))
        for attack, measure in strongest(assess(original, original, control, attackers)).items():
            near_one[attack].append({"how": measure.how, "risk": measure.risk.risk if measure.risk else None})
        (other_process,) = assess(original, renamed(third, rng), control, attackers).results
        accused += bool(other_process.seen)
        for measure in other_process.measures:
            risk = measure.risk
            if risk is not None and risk.low is not None and risk.high is not None:
                intervals += 1
                excluding += not risk.low <= 0 <= risk.high
    return {
        "runs": runs,
        "first_seed": first_seed,
        "cases_each": log.n_cases // 3,
        "attacker": profile.sentence(),
        "unlike_others": float(np.mean(unlike)),
        "release_is_the_original": {
            attack: {
                "strongest": Counter(entry["how"] for entry in entries).most_common(1)[0][0],
                "least_risk": min(entry["risk"] for entry in entries),
                "mean_risk": float(np.mean([entry["risk"] for entry in entries])),
            }
            for attack, entries in near_one.items()
        },
        "another_process": {"accused": accused, "intervals": intervals, "without_0": excluding},
        "cpu_seconds": time.process_time() - begin,
    }


def _would_see(assessment: Assessment, how: str) -> float:
    """Return the least leak that the first attacker's measure would have seen; 1 if it would have seen none."""
    measure = next(measure for measure in assessment.results[0].measures if measure.how == how)
    if measure.risk is None or measure.risk.power is None:
        return 1.0
    return measure.risk.power


def strongest(assessment: Assessment) -> dict[str, Measure]:
    """Return the measure of each attack that has the largest risk."""
    best: dict[str, Measure] = {}
    for attack in ATTACKS:
        run = [
            measure
            for result in assessment.results
            for measure in result.measures
            if measure.attack == attack and measure.risk is not None and measure.risk.risk is not None
        ]
        if run:
            best[attack] = max(run, key=_risk_of)
    return best


def _risk_of(measure: Measure) -> float:
    return measure.risk.risk or 0.0 if measure.risk is not None else 0.0


RELEASES = ("independent", "planted", "control_was_released", "planted_without_times")
"""Releases of one division: other cases, these with some of the original, all attacked cases, the second one again
without times."""


def divisions(log: EventLog, runs: int, first_seed: int) -> dict[str, Any]:
    """Return how often releases are accused, over random divisions of a log into original, control and others."""
    default = Profile(name="default")
    profiles = [default, default.stronger(())]
    counted: dict[str, Counter[str]] = {kind: Counter() for kind in RELEASES}
    runs_with: Counter[str] = Counter()
    areas: dict[str, list[float]] = defaultdict(list)
    seen_from: list[float] = []
    seconds: list[float] = []
    for run in range(runs):
        rng = np.random.default_rng(first_seed + run)
        original, control, released = thirds(log, rng)
        leaked = rng.choice(original.n_cases, size=original.n_cases // SHARE, replace=False)
        planted = pooled([released, original.select_cases(np.sort(leaked))])
        everybody = pooled([original, control])
        without_times = activities_of(planted)
        for kind, release in zip(RELEASES, (released, planted, everybody, without_times), strict=True):
            begin = time.process_time()
            assessment = assess(original, release, control, Attackers(profiles, seed=first_seed + run))
            attacks = seen(assessment)
            if kind == "independent":
                for measure in assessment.results[0].measures:
                    if measure.attack == "membership" and measure.risk is not None:
                        areas[measure.how].append(measure.risk.rate)
            if kind == "planted_without_times":
                seen_from.append(_would_see(assessment, "traces of one case"))
            seconds.append(time.process_time() - begin)
            counted[kind].update(set(attacks))
            runs_with[kind] += bool(attacks)
    return {
        "cases_each": log.n_cases // 3,
        "runs": runs,
        "first_seed": first_seed,
        "accused": runs_with["independent"],
        "planted_seen": runs_with["planted"],
        "accused_where_the_control_was_released": runs_with["control_was_released"],
        "planted_seen_without_times": runs_with["planted_without_times"],
        "would_see_without_times": {"least": min(seen_from), "median": float(np.median(seen_from))},
        "by_attack": {kind: dict(counter.most_common()) for kind, counter in counted.items()},
        "membership_areas": {
            how: {"mean": float(np.mean(each)), "error": float(np.std(each) / math.sqrt(len(each)))}
            for how, each in areas.items()
        },
        "cpu_seconds_each": float(np.median(seconds)),
    }


def main() -> None:
    """Print the shares as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="sepsis.xes.gz")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=1000, help="of the first division; the next ones follow")
    parser.add_argument("--json", action="store_true", help="accepted for all benchmarks; the output is JSON")
    parser.add_argument("--controls", action="store_true", help="controls whose answer is known")
    parser.add_argument("--unit", default="hours", choices=NANOSECONDS, help="of the known times (--controls)")
    parser.add_argument(
        "--sensitive", action="append", default=[], help="case attributes that are guessed (--controls)"
    )
    arguments = parser.parse_args()
    log = read_log(FOLDER / arguments.log)
    if arguments.controls:
        answers = controls(log, arguments.sensitive, arguments.runs, arguments.first_seed, arguments.unit)
        print(json.dumps(answers, indent=2))
        return
    result = divisions(log, arguments.runs, arguments.first_seed)
    print(json.dumps({"log": arguments.log, **result}, indent=2))


if __name__ == "__main__":
    main()
