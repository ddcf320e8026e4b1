"""Distance of the releases of each program from the log, by the measures of models.utility."""

from __future__ import annotations

import os
import signal
from collections import Counter
from statistics import fmean
from types import FrameType
from typing import Any

from benchmarks.field.tools import LIMIT, PeerError, Tool, Traces
from models.errors import VeilstreamError
from models.eventlog import EventLog
from models.utility.discovery import discovery_quality
from models.utility.similarity import likeness

ROUNDS = 3


def measured(log: EventLog, tool: Tool, epsilon: float, *, model: bool) -> dict[str, Any]:
    """Means over the releases that the tool had time for."""
    rows: list[dict[str, float]] = []
    true, begin, note, last = Counter(log.traces()), spent(), "", Traces()
    for _ in range(ROUNDS if tool.claims else 1):
        if rows and spent() - begin > LIMIT / 2:
            break
        try:
            last, cpu = tool.release(log, epsilon)
        except (PeerError, VeilstreamError) as error:
            note = str(error)
            break
        released = EventLog.from_traces([(v, None) for v, count in last.items() for _ in range(count) if v])
        figures = likeness(log, released) if released.n_cases else None
        rows.append(
            {
                "similarity": 0.0 if figures is None else figures.similarity,
                "dfg_error": 1.0 if figures is None else figures.dfg_error,
                "covered": sum(true[v] for v in last) / log.n_cases,
                "true": sum(v in true for v in last),
                "invented": sum(v not in true for v in last),
                "cpu": cpu,
            }
        )
    result: dict[str, Any] = {}
    if rows:
        result = {key: fmean(row[key] for row in rows) for key in rows[0]}
    if model and rows:
        result["f1"] = _f1(log, last)
    return {"rounds": len(rows), "note": note, **result}


def spent() -> float:
    """CPU seconds of this process and of the programs that it asked."""
    return sum(os.times()[:4])


def _f1(log: EventLog, released: Traces) -> float | None:
    """F1 of fitness (by token replay) and precision on the log of the model of the last release; None: no time."""
    made = EventLog.from_traces([(v, None) for v, count in released.items() for _ in range(count) if v])
    if not made.n_cases:
        return 0.0
    try:
        with CpuLimit(LIMIT // 2):
            quality = discovery_quality(log, made, "replay")
    except TimeoutError:
        return None
    both = quality.fitness + quality.precision
    return 2 * quality.fitness * quality.precision / both if both else 0.0


class CpuLimit:
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
