"""One peer of `benchmarks.field`, run in an environment that has what pm4py's privacy modules need (extra `field`).

Reads a JSON object from standard input: `tool` (laplace, sacofa, pripel), `epsilon`, `k`, `p`, `runs`, `limit` (CPU
seconds), and `cases`, each a list of [activity, seconds]. Writes one: `runs`, each a list of [variant, count, durations
in seconds] (with `times`, which PRIPEL alone knows, a list of cases as they came in), and `cpu`. It imports nothing of
veilstream, so it works where veilstream is not installed.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import io
import json
import resource
import sys
import time
import warnings
from collections import defaultdict
from typing import Any


def main() -> None:
    """Answer one request."""
    warnings.simplefilter("ignore")
    question = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (question["limit"], question["limit"] + 5))
    out, sys.stdout = sys.stdout, io.StringIO()  # pm4py greets
    with contextlib.redirect_stderr(io.StringIO()):
        tool = _tool(question)
        begin = time.process_time()
        runs = [tool() for _ in range(question["runs"])]
        cpu = time.process_time() - begin
    json.dump({"runs": runs, "cpu": cpu}, out)


def _tool(question: dict[str, Any]) -> Any:
    if question["tool"] == "pripel":
        # It needs this module of the extra `field`. Before pm4py, whose import takes seconds: it may be missing.
        importlib.import_module("diffprivlib")
    from pm4py.algo.anonymization.trace_variant_query.variants import laplace, sacofa

    # `apply` looks for a progress bar first, which fails in Laplace (importlib.util has no find_loader): call its inner
    # function.
    query = sacofa if question["tool"] == "sacofa" else laplace
    terms = (question["epsilon"], question["p"], question["k"], None)
    if question["tool"] != "pripel":
        source = _log(question["cases"])
        return lambda: _shown(query.privatize_tracevariants(source, *terms))
    from pm4py.algo.anonymization.pripel.variants import pripel
    from pm4py.objects.conversion.log import converter

    def run() -> list[Any]:
        source = _log(question["cases"])  # it writes into its argument
        frame = pripel.apply(
            source, laplace.privatize_tracevariants(_log(question["cases"]), *terms), question["epsilon"]
        )
        log = converter.apply(frame, variant=converter.Variants.TO_EVENT_LOG)
        return _timed(log) if question.get("times") else _shown(log)

    return run


def _log(cases: list[list[list[Any]]]) -> Any:
    from pm4py.objects.log import obj

    log = obj.EventLog()
    for number, case in enumerate(cases):
        trace = obj.Trace()
        trace.attributes["concept:name"] = str(number)
        for activity, seconds in case:
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            trace.append(obj.Event({"concept:name": activity, "time:timestamp": moment}))
        log.append(trace)
    return log


def _timed(log: Any) -> list[Any]:
    """Cases as lists of [activity, seconds]."""
    return [[[event["concept:name"], event["time:timestamp"].timestamp()] for event in trace] for trace in log]


def _shown(log: Any) -> list[Any]:
    """[variant, count, durations]."""
    times: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for trace in log:
        variant = tuple(event["concept:name"] for event in trace)
        moments = [event["time:timestamp"] for event in trace]
        times[variant].append((moments[-1] - moments[0]).total_seconds() if moments else 0.0)
    return [[list(variant), len(took), took] for variant, took in times.items()]


if __name__ == "__main__":
    main()
