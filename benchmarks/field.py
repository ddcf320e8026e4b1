"""The field, side by side: differentially private release of variants by other programs and by ours, on public logs.

Run `python -m benchmarks.field` (`make papers` does): docs/papers/field.md. `--log`, `--epsilon`, `--tool` compute a
part and keep it in `--results`; `--page` writes the page from what is there. Every figure is of that file.

Peers of pm4py run as shipped in an interpreter of their own (VEILSTREAM_FIELD_PYTHON; extra `field`), within `LIMIT`
CPU seconds; without it their rows say so. TraVaS is written from its publication (`travas`). All logs are read by
activity alone. Means over `ROUNDS` releases, fewer where a peer has no time for more; own noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.papers.page import ROOT, cell, held
from models.anonymize.baselines import pretsa
from models.dp import strict, synthetic
from models.dp.audit import Pair, audit
from models.errors import BoundError, VeilstreamError
from models.eventlog import EventLog
from models.utility.discovery import discovery_quality
from models.utility.similarity import likeness

LOGS = ("sepsis", "bpic2013-incidents", "bpic2012")
EPSILONS = (1.0, 0.1)
DELTA = 1e-6
ROUNDS = 3
LIMIT = 60
"""CPU seconds that one release of a peer may take; the figure of a model half of it."""
LENGTH = 20
"""Longest prefix of the trace-variant queries (their k): a public number, the same for all logs."""
ALONE = 3
"""Their pruning p, in scales of noise: with less the tree of prefixes that noise alone fills grows without an end."""
AUDIT_RUNS = 6000
SLOW = {"pm4py PRIPEL on Laplace": 20, "dp-synthetic (ours)": 10}
"""By what the runs of an audit are divided."""
AUDIT_DELTA = 1e-3
ALPHA = 0.01
DOCS = ROOT / "docs" / "papers" / "field.md"
RESULTS = ROOT / "out" / "field.json"

Traces = Counter[tuple[str, ...]]


class PeerError(Exception):
    """A peer gave no release: why."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One way to release variants. `release`: (log, epsilon) to the released traces and CPU seconds; `claim`: what its
    authors say at a parameter epsilon; `peer`: of another program."""

    name: str
    claim: str
    release: Callable[[EventLog, float], tuple[Traces, float]]
    peer: str = ""


def travas(log: EventLog, epsilon: float, delta: float = DELTA) -> Traces:
    """TraVaS, single query (Rafiei, Wangelik and van der Aalst 2022, "TraVaS: Differentially private trace variant
    selection for process mining", doi 10.1007/978-3-031-27815-0_9): noise of a symmetric geometric distribution
    truncated to [-k, k] on each count, and the variants above k leave. In floats, as published."""
    success = 1 - math.exp(-epsilon)
    k = math.ceil(math.log((math.exp(epsilon) + 2 * delta - 1) / ((math.exp(epsilon) + 1) * delta)) / epsilon)
    places = np.arange(-k, k + 1)
    chances = (1 - success) ** np.abs(places)
    counts = Counter(log.traces())
    noise = np.random.default_rng().choice(places, size=len(counts), p=chances / chances.sum())
    noisy = ((variant, count + int(more)) for (variant, count), more in zip(counts.items(), noise, strict=True))
    return Counter({variant: count for variant, count in noisy if count > k})


def _timed(run: Callable[[EventLog, float], Traces]) -> Callable[[EventLog, float], tuple[Traces, float]]:
    def release(log: EventLog, epsilon: float) -> tuple[Traces, float]:
        begin = time.process_time()
        found = run(log, epsilon)
        return found, time.process_time() - begin

    return release


def _peer(tool: str, *, paid: bool = False) -> Callable[[EventLog, float], tuple[Traces, float]]:
    """`paid`: epsilon divided by the levels of the tree, so that all of them together spend it."""

    def release(log: EventLog, epsilon: float) -> tuple[Traces, float]:
        each = epsilon / LENGTH if paid else epsilon
        answer = ask(tool, cases(log), each, LENGTH, runs=1, pruning=math.ceil(ALONE / each))
        return Counter({tuple(variant): count for variant, count, _ in answer["runs"][0]}), answer["cpu"]

    return release


def ask(
    tool: str, log: Sequence[Any], epsilon: float, length: int, *, runs: int, pruning: int, limit: int = LIMIT
) -> dict[str, Any]:
    """What a program of pm4py answers. PeerError: it is not installed, fails, or takes more than `limit` CPU s."""
    python = os.environ.get("VEILSTREAM_FIELD_PYTHON", sys.executable)
    asked = {"tool": tool, "epsilon": epsilon, "k": length, "p": pruning, "runs": runs, "cases": log, "limit": limit}
    script = Path(__file__).with_name("field_peer.py")
    try:
        done = subprocess.run(
            [python, str(script)], input=json.dumps(asked), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise PeerError("not installed") from None
    if done.returncode == -signal.SIGXCPU:
        raise PeerError(f"more than {limit} CPU s")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        missing = "ModuleNotFoundError" in last or "cannot import name" in last
        raise PeerError("not installed" if missing else last[:80])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cases(log: EventLog) -> list[list[list[Any]]]:
    """Cases as lists of [activity, seconds]."""
    names, seconds = [str(name) for name in log.activity.decode()], (log.time // 1_000_000_000).tolist()
    rows = [[name, moment] for name, moment in zip(names, seconds, strict=True)]
    return [rows[a:b] for a, b in zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True)]


def _variants(log: EventLog, epsilon: float) -> Traces:
    return _of(strict.release_variants(log, epsilon=repr(epsilon), delta_dp=repr(DELTA)).log)


def _synthetic(log: EventLog, epsilon: float) -> Traces:
    design = synthetic.Design(activities=tuple(map(str, log.activity.values)))
    return _of(synthetic.release_synthetic(log, epsilon=repr(epsilon), delta_dp=repr(DELTA), design=design).log)


def _pretsa(log: EventLog, epsilon: float) -> Traces:
    result = pretsa(log, 10)
    return _of(result.source.select_events(result.kept))


def _support(log: EventLog, epsilon: float) -> Traces:
    return Counter(dict.fromkeys(log.traces(), 1))


def _of(log: EventLog) -> Traces:
    return Counter(tuple(map(str, trace)) for trace in log.traces())


TOOLS = (
    Tool("pm4py Laplace", "epsilon", _peer("laplace"), "laplace"),
    Tool("pm4py Laplace, epsilon over its levels", "epsilon", _peer("laplace", paid=True)),
    Tool("pm4py SaCoFa", "epsilon", _peer("sacofa"), "sacofa"),
    Tool("pm4py PRIPEL on Laplace", "epsilon", _peer("pripel"), "pripel"),
    Tool("TraVaS", "(epsilon, delta)", _timed(travas)),
    Tool("PRETSA, K = 10 (ours)", "none (K)", _timed(_pretsa)),
    Tool("control: all variants, each once", "none", _timed(_support)),
    Tool("dp-variants (ours)", "(epsilon, delta)", _timed(_variants)),
    Tool("dp-synthetic (ours)", "(epsilon, delta)", _timed(_synthetic)),
)
"""In the order of the page."""


# likeness


def measured(log: EventLog, tool: Tool, epsilon: float, *, model: bool) -> dict[str, Any]:
    """Means over the releases that the tool had time for."""
    rows: list[dict[str, float]] = []
    true, begin, note, last = Counter(log.traces()), _spent(), "", Traces()
    for _ in range(ROUNDS if tool.name not in ("PRETSA, K = 10 (ours)", "control: all variants, each once") else 1):
        if rows and _spent() - begin > LIMIT / 2:
            break
        try:
            last, cpu = tool.release(log, epsilon)
        except (PeerError, VeilstreamError) as error:
            note = str(error)
            break
        released = EventLog.from_traces([(v, None) for v, count in last.items() for _ in range(count) if v])
        found = likeness(log, released) if released.n_cases else None
        rows.append(
            {
                "similarity": 0.0 if found is None else found.similarity,
                "dfg_error": 1.0 if found is None else found.dfg_error,
                "covered": sum(true[v] for v in last) / log.n_cases,
                "true": sum(v in true for v in last),
                "invented": sum(v not in true for v in last),
                "cpu": cpu,
            }
        )
    result: dict[str, Any] = {key: fmean(row[key] for row in rows) for key in rows[0]} if rows else {}
    if model and rows:
        result["f1"] = _f1(log, last)
    return {"rounds": len(rows), "note": note, **result}


def _spent() -> float:
    """CPU seconds of this process and of the programs that it asked."""
    return sum(os.times()[:4])


def _f1(log: EventLog, released: Traces) -> float | None:
    """F1 of fitness (by token replay) and precision on the log of the model of the last release; None: no time."""
    made = EventLog.from_traces([(v, None) for v, count in released.items() for _ in range(count) if v])
    if not made.n_cases:
        return 0.0
    try:
        with _Within(LIMIT // 2):
            found = discovery_quality(log, made, "replay")
    except TimeoutError:
        return None
    both = found.fitness + found.precision
    return 2 * found.fitness * found.precision / both if both else 0.0


class _Within:
    """A limit of CPU seconds for a block: TimeoutError."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def stop(signum: int, frame: FrameType | None) -> None:
            raise TimeoutError

        self.before = signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self.before)


# the guarantee that is kept

Scene = list[list[tuple[str, int]]]
"""A small log: cases of (activity, seconds)."""


def _case(trace: str, step: int = 3600) -> list[tuple[str, int]]:
    return [(name, place * step) for place, name in enumerate(trace)]


BASE: Scene = [_case("AB") for _ in range(40)] + [_case("CD") for _ in range(40)]

NEIGHBOURS: Mapping[str, tuple[Scene, Scene, int]] = {
    "a case added": (BASE, [*BASE, _case("AB")], 1),
    "a case with an activity of its own": (BASE, [*BASE, _case("AX")], 1),
    "a case that joins two known activities": (BASE, [*BASE, _case("ABD")], 1),
    "a time of one case": ([*BASE, _case("AB")], [*BASE, _case("AB", 40 * 86_400)], 2),
}
"""Two logs each, and how many cases lie between them (one that changed is one removed and one added)."""


def guarantees(tool: Tool, epsilon: float = 1.0) -> list[dict[str, Any]]:
    """Lower bounds of the epsilon of a tool at the parameter 1 on neighbouring logs, as `audit-epsilon` finds them."""
    rows = []
    for name, (one, other, steps) in NEIGHBOURS.items():
        timed = name == "a time of one case"
        if timed != (tool.peer == "pripel"):  # its variants are those of its query
            continue
        runs = AUDIT_RUNS // SLOW.get(tool.name, 1)
        try:
            pair = Pair(name, _outcomes(tool, one, epsilon, runs), _outcomes(tool, other, epsilon, runs), steps)
            claimed = 0.0 if "delta" not in tool.claim else AUDIT_DELTA
            found = audit(pair, runs, delta=claimed, alpha=ALPHA / len(NEIGHBOURS))
        except PeerError as error:
            rows.append({"pair": name, "note": str(error)})
            continue
        alone = _support_differs(tool, one, other, epsilon, runs, claimed)
        rows.append({"pair": name, "epsilon": found.epsilon / steps, "witness": found.witness, "runs": runs, **alone})
    return rows


def _outcomes(tool: Tool, scene: Scene, epsilon: float, runs: int) -> Callable[[], Iterator[Any]]:
    drawn = iter(_releases(tool, scene, epsilon, runs))
    return lambda: _seen(next(drawn))


def _releases(tool: Tool, scene: Scene, epsilon: float, runs: int) -> Iterator[list[Any]]:
    """Releases of a small log: [variant, count, durations]."""
    if tool.peer:
        yield from _asked(tool.peer, json.dumps(scene), epsilon, runs)
        return
    log = EventLog.from_traces([(tuple(name for name, _ in case), None) for case in scene])
    for _ in range(runs):
        yield [[variant, count, []] for variant, count in _small(tool, log, epsilon).items()]


@cache
def _asked(peer: str, scene: str, epsilon: float, runs: int) -> list[Any]:
    """One answer a log: which pair it is looked at in does not change its draws."""
    found = ask(peer, json.loads(scene), epsilon, 4, runs=runs, pruning=math.ceil(ALONE / epsilon))
    runs_of_it: list[Any] = found["runs"]
    return runs_of_it


def _small(tool: Tool, log: EventLog, epsilon: float) -> Traces:
    """A release of a small log, with a delta that runs can see."""
    terms = {"epsilon": repr(epsilon), "delta_dp": repr(AUDIT_DELTA)}
    if tool.name == "TraVaS":
        return travas(log, epsilon, AUDIT_DELTA)
    if tool.name.startswith("dp-variants"):
        return _of(strict.release_variants(log, **terms).log)
    if tool.name.startswith("dp-synthetic"):
        design = synthetic.Design(activities=("A", "B", "C", "D", "X"), sample=200, candidates=20)
        return _of(synthetic.release_synthetic(log, **terms, design=design).log)
    try:
        return tool.release(log, epsilon)[0]
    except BoundError:
        return Traces()


def _seen(release: list[Any]) -> Iterator[Any]:
    """Events of a release: variants that are there or not, counts near the true ones, and long durations."""
    counts: Traces = Counter({tuple(variant): count for variant, count, _ in release})
    for variant, count in counts.items():
        yield "variant", variant
        for bound in range(36, 46):
            yield ("at least" if count >= bound else "fewer than", variant, bound)
            if count == bound:
                yield "exactly", variant, bound
    for trace in (("A", "B"), ("C", "D"), ("A", "B", "D"), ("A", "X")):
        if trace not in counts:
            yield "no variant", trace
    if any(took > 20 * 86_400 for _, _, durations in release for took in durations):
        yield ("a case takes more than 20 days",)


def _support_differs(tool: Tool, one: Scene, other: Scene, epsilon: float, runs: int, delta: float) -> dict[str, Any]:
    """Whether an activity that only one log has, or a duration, leaves at all: no finite epsilon then."""
    if tool.peer in ("laplace", "sacofa", "pripel") or tool.claim.startswith("none"):
        here = Counter(event for release in _releases(tool, other, epsilon, runs) for event in set(_seen(release)))
        alone = [(n, e) for e, n in here.items() if _impossible(e, one)]
        if alone:
            return {"unbounded": True, "how": f"{max(alone)[1]!r} in {max(alone)[0] / runs:.1%} of the releases"}
    return {"unbounded": False, "how": ""}


def _impossible(event: Any, scene: Scene) -> bool:
    """An event that cannot be on a log: an activity that it lacks, or a duration."""
    if event[0] == "variant":
        return "X" in event[1] and not any(name == "X" for case in scene for name, _ in case)
    return event[0].startswith("a case takes") and all(case[-1][1] < 20 * 86_400 for case in scene)


# page


def page(results: Mapping[str, Any]) -> str:
    """The page, from the results alone."""
    lines = [
        "# The field, side by side",
        "",
        "Generated by `python -m benchmarks.field` (`make papers`); do not edit.",
        "",
        ABOUT,
        "",
    ]
    for log in LOGS:
        for epsilon in EPSILONS:
            lines += [f"## {log}, epsilon {epsilon:g}, delta 1e-6", "", *_table(results, log, epsilon), ""]
    lines += ["## The guarantee that is kept", "", KEPT, "", *_kept(results), "", NOTES, ""]
    lines += ["## Who is nearer than dp-synthetic", "", NEARER, "", *_nearer(results), ""]
    return "\n".join(lines)


HEAD = (
    "program",
    "releases",
    "similarity",
    "DFG error",
    "covered cases",
    "true variants",
    "invented",
    "F1 of the model",
    "CPU s",
)
KEYS = ("rounds", "similarity", "dfg_error", "covered", "true", "invented", "f1", "cpu")


def _table(results: Mapping[str, Any], log: str, epsilon: float) -> list[str]:
    rows = []
    for tool in TOOLS:
        found = results.get(_key(log, epsilon, tool))
        if found is None:
            rows.append([tool.name, "not run", *[""] * 7])
        elif not found["rounds"]:
            rows.append([tool.name, f"none: {found['note']}", *[""] * 7])
        else:
            whole = ("rounds", "true", "invented")
            shown = [round(found[key]) if key in whole else found.get(key) for key in KEYS]
            rows.append([tool.name, *shown])
    return _markdown(HEAD, rows)


def _kept(results: Mapping[str, Any]) -> list[str]:
    rows = []
    for tool in TOOLS:
        for row in results.get(f"guarantee {tool.name}", []):
            if "note" in row:
                rows.append([tool.name, tool.claim, row["pair"], f"not run: {row['note']}", "", ""])
                continue
            bound = "no epsilon" if row["unbounded"] else f">= {row['epsilon']:.2f}"
            claims = not tool.claim.startswith("none")
            broken = row["unbounded"] or (claims and row["epsilon"] > 1)
            verdict = ("refuted" if broken else "not refuted") if claims else "no claim"
            rows.append([tool.name, tool.claim, row["pair"], bound, verdict, row["how"] or row["witness"]])
    return _markdown(("program", "claim", "neighbours", "epsilon is", "claim of 1", "seen by"), rows)


OURS = "dp-synthetic (ours)"


def _nearer(results: Mapping[str, Any]) -> list[str]:
    """By log and epsilon: who claims an epsilon, is not refuted and is nearer on no measure, and who is on some."""
    rows = []
    for log in LOGS:
        for epsilon in EPSILONS:
            ours = results.get(_key(log, epsilon, _tool(OURS)))
            if ours is None or not ours["rounds"]:
                continue
            beaten, nearer = [], []
            for tool in TOOLS:
                found = results.get(_key(log, epsilon, tool))
                if tool.name == OURS or found is None or not found["rounds"]:
                    continue
                better, claim = _better(found, ours), _claim(results, tool)
                if better:
                    nearer.append(f"{tool.name}: {better} ({claim})")
                elif claim == "not refuted":
                    beaten.append(tool.name)
            rows.append([log, epsilon, ", ".join(beaten) or "none", "; ".join(nearer) or "none"])
    return _markdown(("log", "epsilon", "not refuted, and nearer on no measure", "nearer on some measure"), rows)


def _tool(name: str) -> Tool:
    return next(tool for tool in TOOLS if tool.name == name)


def _better(found: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """On which measures: both, one by its name, or none."""
    similar, follows = found["similarity"] > ours["similarity"], found["dfg_error"] < ours["dfg_error"]
    if similar and follows:
        return "both"
    return "similarity" if similar else "DFG error" if follows else ""


def _claim(results: Mapping[str, Any], tool: Tool) -> str:
    """What became of a tool's claim of epsilon on the neighbours of the audits."""
    if tool.claim.startswith("none"):
        return "claims no epsilon"
    rows = [row for row in results.get(f"guarantee {tool.name}", []) if "note" not in row]
    if not rows:
        return "not audited"
    return "refuted" if any(row["unbounded"] or row["epsilon"] > 1 for row in rows) else "not refuted"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return ["| " + " | ".join(map(cell, line)) + " |" for line in (head, ["---"] * len(head), *rows)]


ABOUT = f"""\
Similarity and DFG error as in [synthetic.md](../synthetic.md): 1 - earth mover's distance of variants under the
normalised Levenshtein distance, and half the sum of differences of directly-follows frequencies. F1 of fitness
(token replay) and precision, on the true log, of the model that the inductive miner finds in the last release
(not on BPIC 2012, where replay takes minutes a model).
Covered cases: of variants that are in the release. Means of {ROUNDS} releases, fewer where a program needs more
than {LIMIT // 2} CPU s for them; none where one release takes more than {LIMIT} CPU s.

Trace-variant queries have prefixes of at most {LENGTH} activities and drop those below {ALONE} scales of noise:
with less, the prefixes that noise alone fills grow without an end. Read the figures beside the last section:
some of the programs do not keep what they claim. The control keeps nothing at all: a list of all variants, each
once, is more like a log of many variants than most releases. Likeness alone shows no protection."""

KEPT = f"""\
Each program that claims an epsilon, {AUDIT_RUNS} times (PRIPEL {AUDIT_RUNS // 20}, dp-synthetic {
    AUDIT_RUNS // 10
} times) at the parameter epsilon = 1, delta 1e-3 where it has one, on two small logs that differ in one
case: lower bounds of epsilon, found as `audit-epsilon` finds them (Clopper and Pearson, error {ALPHA} over
all pairs of a program; half of the runs choose what is looked at, half count it). `no epsilon`: the release
shows what the other log cannot show, which a claim without delta excludes. A bound below 1 refutes nothing
and proves nothing."""

NEARER = """\
Of the tables, beside the audits of the section before. A program that keeps no epsilon may be nearer for that
reason alone: it shows what nobody may show at that epsilon. `not audited`: the row was not looked at by itself."""

NOTES = f"""\
* **pm4py's Laplace** rounds noise by `int()`, towards 0: .63 of the counts are exact at epsilon 1. It
  draws noise of scale 1 / epsilon at each level of its tree, so a long case pays up to {LENGTH} times;
  the second row divides epsilon by the levels. It takes the activities of the log as public. Its `apply`
  fails (`importlib.util.find_loader` does not exist); `privatize_tracevariants` is what it calls.
* **SaCoFa** reads which activity follows which off the raw log, and no epsilon is paid for it.
* **PRIPEL** of pm4py sets a mechanism up for the times between events and never draws from it: they leave
  as they are.
* **TraVaS** keeps its claim up to floating point: its chances are floats, its generator is not
  cryptographic. Its optimizer chooses among several queries by their likeness to the log, which reads the
  log again; it is left out.
* **PRETSA** promises K cases a trace, and no epsilon. **The control** promises nothing.
* **dp-synthetic (ours)** takes the activities of the log as declared public, as Laplace does.
* **Ours** are audited further, with stages, series and pipeline, by `veilstream audit-epsilon`:
  600 runs of dp-synthetic here see gross faults alone."""


# running


def _key(log: str, epsilon: float, tool: Tool) -> str:
    return f"{log} {epsilon:g} {tool.name}"


def main() -> None:
    """Measure what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", action="append", choices=LOGS)
    parser.add_argument("--epsilon", action="append", type=float, choices=EPSILONS)
    parser.add_argument("--tool", action="append", type=int, help="number in the order of the page; repeatable")
    parser.add_argument("--guarantees", action="store_true", help="only what is kept, no likeness")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page from the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what the results have")
    asked = parser.parse_args()
    tools = [TOOLS[number] for number in asked.tool] if asked.tool is not None else list(TOOLS)
    part = asked.log or asked.epsilon or asked.tool is not None or asked.guarantees
    if not asked.page:
        have = json.loads(asked.results.read_text()) if asked.resume and asked.results.exists() else {}
        for key, measure in _measurements(asked, tools, all_of=not part):
            if key not in have:
                found = measure()
                print(key, json.dumps(found), file=sys.stderr, flush=True)
                _keep(asked.results, key, found)
    if asked.page or not part:
        DOCS.write_text(page(json.loads(asked.results.read_text())), encoding="utf-8")


def _measurements(asked: argparse.Namespace, tools: list[Tool], *, all_of: bool) -> Iterator[tuple[str, Any]]:
    """What there is to measure: the key of the result, and how to come by it."""
    if not asked.guarantees:
        for name in asked.log or LOGS:
            log = held(name)
            for tool in tools if log is not None else ():
                for epsilon in asked.epsilon or EPSILONS:
                    yield _key(name, epsilon, tool), partial(measured, log, tool, epsilon, model=name != "bpic2012")
    if asked.guarantees or all_of:
        for tool in tools:
            if "over its levels" not in tool.name and not tool.claim.startswith("none"):
                yield f"guarantee {tool.name}", partial(guarantees, tool)


def _keep(path: Path, key: str, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held_so_far = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held_so_far, key: found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
