"""Uniqueness: the risk table over all logs with the CPU time of each query.

A query is one draw for all cases. `python -m benchmarks.uniqueness --json`; logs from VEILSTREAM_LOGS, else from
`../shared/logs` next to the checkout (times without a zone count as UTC). Reach: Sepsis 5 ms, BPIC 2012 100 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from connectors import read_log
from models.errors import InputError
from models.eventlog import EventLog
from models.risk.index import TraceIndex
from models.risk.points import KnownColumns, Projection, default_case_attributes, default_event_attributes, view
from models.risk.uniqueness import Points, greedy_points, known_points

FOLDER = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
AMOUNTS: tuple[Points, ...] = (1, 4, 16, "10%", "50%", "90%", "100%")
REPEATS = 5


def cpu(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    begin = time.process_time()
    value = function()
    return time.process_time() - begin, value


def projection_row(log: EventLog, columns: KnownColumns) -> dict[str, Any]:
    """Measure one projection: time to build the index and to follow one more tenth, and each query's share and time."""
    TraceIndex.build(log, columns)
    build, index = cpu(lambda: TraceIndex.build(log, columns))
    rng = np.random.default_rng(0)
    queries = []
    for amount in AMOUNTS:
        take = known_points(index.lengths, amount)
        runs = [cpu(partial(index.unique, take, rng)) for _ in range(REPEATS)]
        queries.append(
            {
                "m": amount,
                "unique_mean": float(np.mean([unique.mean() for _, unique in runs])),
                "milliseconds": 1000 * min(seconds for seconds, _ in runs),
            }
        )
    greedy, _ = cpu(lambda: greedy_points(index))
    part = TraceIndex.build(log.select_cases(np.arange(log.n_cases * 8 // 10)), columns)
    part.update(log.select_cases(np.arange(log.n_cases * 9 // 10)))  # the first update also fills the dictionary
    follow, changed = cpu(lambda: part.update(log))
    return {
        "build_ms": 1000 * build,
        "follow_last_tenth_ms": 1000 * follow,
        "cases_coded": changed,
        "greedy_ms": 1000 * greedy,
        "queries": queries,
    }


def measure(path: Path) -> dict[str, Any]:
    """Return the table of one log."""
    log = read_log(path, timezone="UTC")
    events, cases = default_event_attributes(log), default_case_attributes(log)
    rows: dict[str, Any] = {}
    for projection in get_args(Projection)[:-1]:
        try:
            known_points = view(projection, events, cases, "seconds")
        except InputError as error:
            rows[projection] = {"status": "not available", "reason": str(error)}
            continue
        rows[projection] = projection_row(log, known_points)
    slowest = max(query["milliseconds"] for row in rows.values() for query in row.get("queries", []))
    return {
        "log": path.name,
        "cases": log.n_cases,
        "events": log.n_events,
        "event_attributes": list(events),
        "case_attributes": list(cases),
        "slowest_query_ms": slowest,
        "projections": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    results = [measure(path) for path in sorted((*FOLDER.glob("*.xes.gz"), *FOLDER.glob("*.csv")))]
    if arguments.json:
        print(json.dumps(results, indent=1))
        return
    for result in results:
        print(f"{result['log']}: {result['cases']} cases, slowest query {result['slowest_query_ms']:.1f} ms")
        for name, row in result["projections"].items():
            cells = [f"{query['m']}: {query['unique_mean']:.3f}" for query in row.get("queries", [])]
            print(f"  {name}  {'  '.join(cells) or row['status']}")


if __name__ == "__main__":
    main()
