"""The programs that are compared: peers of pm4py in an interpreter of their own, TraVaS as published, and ours."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from models.anonymize.baselines import pretsa
from models.dp import strict, synthetic
from models.eventlog import EventLog

DELTA = 1e-6
LIMIT = 60
"""CPU seconds that one release of a peer may take; the figure of a model half of it."""
LENGTH = 20
"""Longest prefix of the trace-variant queries (their k): a public number, the same for all logs."""
ALONE = 3
"""Their pruning p, in scales of noise: with less the tree of prefixes that noise alone fills grows without an end."""

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

    @property
    def claims(self) -> bool:
        """Whether it claims an epsilon at all."""
        return not self.claim.startswith("none")


def travas(log: EventLog, epsilon: float, delta: float = DELTA) -> Traces:
    """TraVaS, single query (Rafiei, Wangelik and van der Aalst 2022, "TraVaS: Differentially private trace variant
    selection for process mining", doi 10.1007/978-3-031-27815-0_9): noise of a symmetric geometric distribution
    truncated to [-k, k] on each count, and the variants above k leave. In floats, as published."""
    success = 1 - math.exp(-epsilon)
    e = math.exp(epsilon)
    k = math.ceil(math.log((e + 2 * delta - 1) / ((e + 1) * delta)) / epsilon)
    places = np.arange(-k, k + 1)
    chances = (1 - success) ** np.abs(places)
    counts = Counter(log.traces())
    noise = np.random.default_rng().choice(places, size=len(counts), p=chances / chances.sum())
    noisy = ((variant, count + int(more)) for (variant, count), more in zip(counts.items(), noise, strict=True))
    return Counter({variant: count for variant, count in noisy if count > k})


def _timed(run: Callable[[EventLog, float], Traces]) -> Callable[[EventLog, float], tuple[Traces, float]]:
    def release(log: EventLog, epsilon: float) -> tuple[Traces, float]:
        begin = time.process_time()
        result = run(log, epsilon)
        return result, time.process_time() - begin

    return release


def _peer(tool: str, *, paid: bool = False) -> Callable[[EventLog, float], tuple[Traces, float]]:
    """`paid`: epsilon divided by the levels of the tree, so that all of them together spend it."""

    def release(log: EventLog, epsilon: float) -> tuple[Traces, float]:
        each = epsilon / LENGTH if paid else epsilon
        answer = ask(tool, cases(log), each, LENGTH, runs=1, pruning=math.ceil(ALONE / each))
        return Counter({tuple(variant): count for variant, count, _ in answer["runs"][0]}), answer["cpu"]

    return release


def ask(
    tool: str,
    log: Sequence[Any],
    epsilon: float,
    length: int,
    *,
    runs: int,
    pruning: int,
    limit: int = LIMIT,
    times: bool = False,
) -> dict[str, Any]:
    """Return the answer of a program of pm4py. PeerError: not installed, failed, or more than `limit` CPU s."""
    question = {"tool": tool, "epsilon": epsilon, "k": length, "p": pruning, "runs": runs, "cases": log, "times": times}
    return ask_peer(os.environ.get("VEILSTREAM_FIELD_PYTHON", sys.executable), "peer.py", question, limit)


def ask_peer(python: str, script: str, question: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the answer of a script of this folder, run by another interpreter within `limit` CPU seconds.

    Raises
    ------
    PeerError
        If it is not installed, failed, or took longer.
    """
    path = Path(__file__).with_name(script)
    asked = json.dumps(question | {"limit": limit})
    try:
        done = subprocess.run([python, str(path)], input=asked, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PeerError("not installed") from None
    if done.returncode == -signal.SIGXCPU:
        raise PeerError(f"more than {limit} CPU s")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        missing = "ModuleNotFoundError" in last or "cannot import name" in last
        raise PeerError("not installed" if missing else last[:80])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def log_of(traces: Traces) -> EventLog:
    """Return released variants with their counts as a log."""
    return EventLog.from_traces([(trace, None) for trace, count in traces.items() for _ in range(count) if trace])


def cases(log: EventLog) -> list[list[list[Any]]]:
    """Cases as lists of [activity, seconds]."""
    names, seconds = [str(name) for name in log.activity.decode()], (log.time // 1_000_000_000).tolist()
    rows = [[name, moment] for name, moment in zip(names, seconds, strict=True)]
    return [rows[begin:end] for begin, end in pairwise(log.starts.tolist())]


def _variants(log: EventLog, epsilon: float) -> Traces:
    return released(strict.release_variants(log, epsilon=repr(epsilon), delta_dp=repr(DELTA)).log)


def _synthetic(log: EventLog, epsilon: float) -> Traces:
    design = synthetic.Design(activities=tuple(map(str, log.activity.values)))
    return released(synthetic.release_synthetic(log, epsilon=repr(epsilon), delta_dp=repr(DELTA), design=design).log)


def _pretsa(log: EventLog, epsilon: float) -> Traces:
    result = pretsa(log, 10)
    return released(result.source.select_events(result.kept))


def _support(log: EventLog, epsilon: float) -> Traces:
    return Counter(dict.fromkeys(log.traces(), 1))


def released(log: EventLog) -> Traces:
    """The variants of a release, with their counts."""
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
