"""Lower bounds of the epsilon of each program, on small neighbouring logs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from benchmarks.field.tools import ALONE, PeerError, Tool, Traces, ask, released, travas
from models.dp import strict, synthetic
from models.dp.audit import NeighbourPair, audit
from models.errors import BoundError
from models.eventlog import EventLog

SLOW = {"pm4py PRIPEL on Laplace": 20, "dp-synthetic (ours)": 10}
"""Key by which the runs of an audit are divided."""
ALPHA = 0.01
AUDIT_RUNS = 6000
AUDIT_DELTA = 1e-3

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
"""Two logs each, and the number of cases in which they differ (a changed case is one removed and one added)."""


def guarantees(tool: Tool, epsilon: float = 1.0) -> list[dict[str, Any]]:
    """Lower bounds of the epsilon of a tool at the parameter 1 on neighbouring logs, as `audit-epsilon` finds them."""
    rows = []
    for name, (first, second, steps) in NEIGHBOURS.items():
        timed = name == "a time of one case"
        if timed != (tool.peer == "pripel"):  # its variants are those of its query
            continue
        runs = AUDIT_RUNS // SLOW.get(tool.name, 1)
        try:
            pair = NeighbourPair(
                name, _outcomes(tool, first, epsilon, runs), _outcomes(tool, second, epsilon, runs), steps
            )
            claimed = 0.0 if "delta" not in tool.claim else AUDIT_DELTA
            outcome = audit(pair, runs, delta=claimed, alpha=ALPHA / len(NEIGHBOURS))
        except PeerError as error:
            rows.append({"pair": name, "note": str(error)})
            continue
        alone = _support_differs(tool, first, second, epsilon, runs, claimed)
        rows.append(
            {"pair": name, "epsilon": outcome.epsilon / steps, "witness": outcome.witness, "runs": runs, **alone}
        )
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
    answer = ask(peer, json.loads(scene), epsilon, 4, runs=runs, pruning=math.ceil(ALONE / epsilon))
    runs_of_it: list[Any] = answer["runs"]
    return runs_of_it


def _small(tool: Tool, log: EventLog, epsilon: float) -> Traces:
    """A release of a small log, with a delta that runs can see."""
    terms = {"epsilon": repr(epsilon), "delta_dp": repr(AUDIT_DELTA)}
    if tool.name == "TraVaS":
        return travas(log, epsilon, AUDIT_DELTA)
    if tool.name.startswith("dp-variants"):
        return released(strict.release_variants(log, **terms).log)
    if tool.name.startswith("dp-synthetic"):
        design = synthetic.Design(activities=("A", "B", "C", "D", "X"), sample=200, candidates=20)
        return released(synthetic.release_synthetic(log, **terms, design=design).log)
    try:
        return tool.release(log, epsilon)[0]
    except BoundError:
        return Traces()


def _seen(release: list[Any]) -> Iterator[Any]:
    """Events of a release: presence of variants, counts near the true ones, and long durations."""
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


def _support_differs(
    tool: Tool, first: Scene, second: Scene, epsilon: float, runs: int, delta: float
) -> dict[str, Any]:
    """Whether an activity that only one log has, or a duration, leaves at all: no finite epsilon then."""
    if tool.peer in ("laplace", "sacofa", "pripel") or not tool.claims:
        here = Counter(event for release in _releases(tool, second, epsilon, runs) for event in set(_seen(release)))
        alone = [(n, e) for e, n in here.items() if _impossible(e, first)]
        if alone:
            return {"unbounded": True, "how": f"{max(alone)[1]!r} in {max(alone)[0] / runs:.1%} of the releases"}
    return {"unbounded": False, "how": ""}


def _impossible(event: Any, scene: Scene) -> bool:
    """An event that cannot be on a log: an activity that it lacks, or a duration."""
    if event[0] == "variant":
        return "X" in event[1] and not any(name == "X" for case in scene for name, _ in case)
    return event[0].startswith("a case takes") and all(case[-1][1] < 20 * 86_400 for case in scene)
