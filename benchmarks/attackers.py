"""Assess the mechanisms of this program and the peers of the field page under one attacker, compared with Anonymeter.

`python -m benchmarks.attackers [--log sepsis] [--tool NAME] [--results FILE]` releases both halves of each log with
each tool, and attacks each release with the other half as control (`models.disclosure.assessment.assess_twice`).
`--planted` measures the power on a planted leak, compared with Anonymeter on flattened features.
`--page` prints the tables of docs/what-attackers-get.md from the results.

Logs are read by activity and order alone, since most tools release no times: all tools face one attacker, who knows
three activities in order, and one who knows six. PRIPEL is assessed with its times as well, against an attacker who
knows the hours since the start of a case. Peers of pm4py run in the interpreter VEILSTREAM_FIELD_PYTHON (extra
`field`), Anonymeter in VEILSTREAM_ANONYMETER_PYTHON (`pip install anonymeter`, 1.1.0), both as shipped. Without them
their rows say "not installed".
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.disclosure import FOLDER, SHARE, activities_of, thirds
from benchmarks.field.tools import ALONE, LENGTH, TOOLS, PeerError, ask, cases, log_of
from connectors import read_log
from models.disclosure.assessment import Attackers, HalvedLog, assess, assess_twice
from models.disclosure.intervals import newcombe
from models.disclosure.material import Profile, pooled
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.release.contract import Exposure
from stream.release.held_out import halves
from stream.release.public_files import public_log
from stream.release.single import mechanism_of

LOGS = ("sepsis", "bpic2013-incidents", "bpic2012")
EPSILON = 1.0
NAME = "default"

OURS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "tlkc (L 2, K 20)": ("tlkc", {"L": 2, "K": 20}),
    "tlkc-cohorts (L 2, K 20)": ("tlkc-cohorts", {"L": 2, "K": 20}),
    "lcs-start (L 2, K 20)": ("lcs-start", {"L": 2, "K": 20}),
    "baseline-1 (K 20)": ("baseline-1", {"K": 20}),
    "baseline-2 (K 20)": ("baseline-2", {"K": 20}),
    "amun (delta .2)": ("amun", {"delta": "0.2"}),
    "dp-variants (epsilon 1)": ("dp-variants", {"epsilon": "1", "delta_dp": "1e-6"}),
    "dp-log (epsilon 1)": ("dp-log", {"epsilon": "1", "delta_dp": "1e-6"}),
    "dp-synthetic (epsilon 1)": ("dp-synthetic", {"epsilon": "1", "delta_dp": "1e-6"}),
    "plain pseudonyms": ("identity", {}),
}
PEERS = ("pm4py Laplace", "pm4py SaCoFa", "pm4py PRIPEL on Laplace", "PRETSA, K = 10 (ours)")
CONTROL = "control: all variants, each once"
TIMED = ("plain pseudonyms, with times", "pm4py PRIPEL on Laplace, with its times")
"""Tools that are attacked by somebody who knows hours since the start of a case as well."""


def releaser(tool: str) -> Callable[[EventLog], EventLog]:
    """Return what releases a log."""
    if tool in OURS:
        kind, parameters = OURS[tool]
        mechanism = mechanism_of(kind, parameters)

        def ours(log: EventLog) -> EventLog:
            exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), int(log.time.max()), last=True)
            return public_log(mechanism.build(exposure))

        return ours
    chosen = next(candidate for candidate in TOOLS if candidate.name == tool)

    def peer(log: EventLog) -> EventLog:
        traces, _ = chosen.release(log, EPSILON)
        return log_of(traces)

    return peer


def pripel_with_times(log: EventLog) -> EventLog:
    """Return a release of PRIPEL with the times that it released."""
    answer = ask("pripel", cases(log), EPSILON, LENGTH, runs=1, pruning=math.ceil(ALONE / EPSILON), times=True)
    ids, names, moments = [], [], []
    for number, case in enumerate(answer["runs"][0]):
        for name, seconds in case:
            ids.append(f"r{number}")
            names.append(name)
            moments.append(datetime.fromtimestamp(seconds, UTC))
    return EventLog.from_events(ids, names, moments, None, {})


def measured(log: EventLog, tool: str, divisions: int) -> dict[str, Any]:
    """Assess one tool on both halves of a log; `note` says why not."""
    begin = time.process_time()
    if tool in TIMED:
        release = pripel_with_times if "PRIPEL" in tool else (lambda half: half)
        first = Profile(knowledge=Knowledge("rel", T="hours"), name=NAME)
    else:
        release = releaser(tool)
        first = Profile(name=NAME)
    attackers = Attackers([first, first.stronger(())])
    divided = []
    try:
        for number in range(divisions):
            numbers = halves(log.n_cases, number)
            parts = tuple(log.select_cases(some) for some in numbers)
            released = tuple(release(part) for part in parts)
            divided.append(HalvedLog(numbers, (parts[0], parts[1]), (released[0], released[1])))
        found = assess_twice(divided, attackers)
    except (PeerError, BoundError, InputError) as error:
        return {"note": str(error)}
    return {"cpu": time.process_time() - begin, **found.json()}


def flat(log: EventLog) -> list[dict[str, Any]]:
    """Return the features of each case that Anonymeter attacks: first ten activities, length, duration, counts."""
    names = [str(name) for name in log.activity.values]
    codes = log.activity.codes
    rows = []
    for begin, end in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True):
        case = codes[begin:end]
        row: dict[str, Any] = {}
        for place in range(10):
            row[f"activity {place + 1}"] = names[int(case[place])] if place < len(case) else ""
        row["length"] = len(case)
        row["duration"] = float(log.time[end - 1] - log.time[begin]) / 1e9 if end > begin else 0.0
        counted = np.bincount(case, minlength=len(names))
        for name, count in zip(names, counted.tolist(), strict=True):
            row[f"count {name}"] = count
        rows.append(row)
    return rows


def anonymeter(original: EventLog, released: EventLog, control: EventLog, seed: int) -> dict[str, Any]:
    """Return what Anonymeter sees on the flattened features; `note` if it is not installed or fails."""
    python = os.environ.get("VEILSTREAM_ANONYMETER_PYTHON")
    if python is None:
        return {"note": "not installed"}
    columns = sorted(
        {name for log in (original, released, control) for name in flat(log.select_cases(np.asarray([0])))[0]}
    )
    tables = {}
    for name, log in (("original", original), ("released", released), ("control", control)):
        rows = flat(log)
        tables[name] = [{column: row.get(column, 0) for column in columns} for row in rows]
    script = Path(__file__).parent / "field" / "anonymeter_peer.py"
    asked = json.dumps({**tables, "seed": seed})
    done = subprocess.run([python, str(script)], input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"note": (done.stderr.strip().splitlines() or ["killed"])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def planted(log: EventLog, runs: int, share: int, first_seed: int) -> dict[str, Any]:
    """Return how often a planted leak, and a release that cannot leak, are seen: here and by Anonymeter.

    `pairs` counts the runs of the planted leak by who saw it, and `difference` is that of the two shares with its 95 %
    interval (Newcombe, as if the runs of both were independent, which makes it wider).
    """
    pairs: Counter[str] = Counter()
    seen: dict[str, Counter[str]] = {"veilstream": Counter(), "Anonymeter": Counter()}
    cpu: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    first = Profile(name=NAME)
    profiles = [first, first.stronger(())]
    for run in range(runs):
        rng = np.random.default_rng(first_seed + run)
        original, control, released = thirds(log, rng)
        leaked = rng.choice(original.n_cases, size=max(1, original.n_cases // share), replace=False)
        leaking = pooled([released, original.select_cases(np.sort(leaked))])
        for kind, release in (("independent", released), ("planted", leaking)):
            begin = time.process_time()
            result = assess(original, release, control, Attackers(profiles, seed=run))
            cpu["veilstream"] += time.process_time() - begin  # type: ignore[assignment]
            is_seen = any(profile.seen for profile in result.results)
            seen["veilstream"][kind] += is_seen
            answer = anonymeter(original, release, control, run)
            if "note" in answer:
                notes[answer["note"]] += 1
                continue
            cpu["Anonymeter"] += answer["cpu"]
            seen["Anonymeter"][kind] += answer["seen"]
            seen["Anonymeter"][f"{kind}, single tests"] += answer["seen_single"]
            if kind == "planted":
                pairs[_seen_by(is_seen, answer["seen"])] += 1
    compared = pairs.total()
    difference = None
    if compared:
        rates = [(pairs["both"] + pairs[name]) / compared for name in ("veilstream alone", "Anonymeter alone")]
        difference = [rates[0] - rates[1], *newcombe(rates[0], compared, rates[1], compared)]
    return {
        "runs": runs,
        "first_seed": first_seed,
        "pairs": dict(pairs),
        "difference": difference,
        "cases_each": log.n_cases // 3,
        "share": 1 / share,
        "seen": {name: dict(counter) for name, counter in seen.items()},
        "cpu_each": {name: total / (2 * runs) for name, total in cpu.items()},
        "notes": dict(notes),
    }


def _seen_by(veilstream: bool, anonymeter: bool) -> str:
    if veilstream and anonymeter:
        return "both"
    if veilstream:
        return "veilstream alone"
    return "Anonymeter alone" if anonymeter else "neither"


def _line(result: Mapping[str, Any], name: str) -> str:
    if "note" in result:
        return f"| {name} | not assessed: {result['note']} | | | | | |"
    cells = []
    default, stronger = result["profiles"]
    for attack in ("singling out", "linkability", "inference", "membership", "reconstruction"):
        risks = [
            (measure["risk"], measure)
            for profile in (default, stronger)
            for measure in profile["measures"]
            if measure["attack"] == attack and measure.get("risk") is not None
        ]
        if not risks:
            cells.append("not run")
            continue
        seen = [pair for pair in risks if pair[1]["seen"]]
        risk, worst = max(seen or risks, key=lambda pair: pair[0])
        mark = "**" if worst["seen"] else ""
        cells.append(f"{mark}{risk:.2f}{mark} ({worst['low']:.2f} to {worst['high']:.2f})")
    flagged = "yes" if any("**" in cell for cell in cells) else "no"
    return f"| {name} | {' | '.join(cells)} | {flagged} |"


def page(results: Mapping[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = []
    for name in LOGS:
        rows = [(key.split("|")[1], value) for key, value in results.items() if key.split("|")[0] == name]
        if not rows:
            continue
        lines += [
            f"### {name}",
            "",
            "| tool | singling out | linkability | inference | membership | reconstruction | flagged |",
        ]
        lines.append("| --- | --- | --- | --- | --- | --- | --- |")
        lines += [_line(value, tool) for tool, value in rows]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure what was asked for; results are kept by log and tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", action="append", choices=LOGS)
    parser.add_argument("--tool", action="append")
    parser.add_argument("--divisions", type=int, default=2)
    parser.add_argument("--planted", type=int, default=0, metavar="RUNS")
    parser.add_argument("--first-seed", type=int, default=1000, help="of the first division (--planted)")
    parser.add_argument("--share", type=int, default=SHARE, help="one of so many cases is leaked")
    parser.add_argument("--cases", type=int, default=0, help="at most so many random cases of the log (--planted)")
    parser.add_argument("--page", action="store_true", help="measure nothing: the tables of the results")
    parser.add_argument("--json", action="store_true", help="accepted for all benchmarks; the output is JSON")
    parser.add_argument("--results", type=Path, default=Path("out/attackers.json"))
    asked = parser.parse_args()
    kept: dict[str, Any] = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    if asked.page:
        print(page(kept))
        return
    for name in asked.log or LOGS[:1]:
        log = read_log(FOLDER / f"{name}.xes.gz")
        if asked.planted:
            if asked.cases and log.n_cases > asked.cases:
                chosen = np.random.default_rng(0).choice(log.n_cases, size=asked.cases, replace=False)
                log = log.select_cases(np.sort(chosen))
            results = {f"planted {name} 1/{asked.share}": planted(log, asked.planted, asked.share, asked.first_seed)}
            print(json.dumps(results, indent=1))
            continue
        plain = activities_of(log)
        for tool in asked.tool or (*OURS, *PEERS, CONTROL, *TIMED):
            kept[f"{name}|{tool}"] = measured(log if tool in TIMED else plain, tool, asked.divisions)
            cpu = kept[f"{name}|{tool}"].get("cpu", kept[f"{name}|{tool}"].get("note"))
            print(name, tool, cpu, file=sys.stderr, flush=True)
            asked.results.parent.mkdir(parents=True, exist_ok=True)
            asked.results.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    if not asked.planted:
        print(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
