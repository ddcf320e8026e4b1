"""A release every so many cases, each audited exactly against all earlier ones: the cost of each cut.

`python -m benchmarks.cuts [--cuts N] [--log FILE] [--cases 100] [--first N] [--json]`. The log is BPIC 2012 (131 cuts
of 100 new cases) by default; `--one-by-one` is Sepsis, whose last 200 cases come one a release. Plain TLKC-privacy is
published although the gate may refuse it (`warn`), so that every cut is a release that all later ones are compared
with. The process measures itself: CPU seconds of all cuts, of each tenth of them and of the last, the seconds of each
stage, the exponent with which a cut's cost grows with its number, and the slope: CPU seconds that each further
release adds to a cut, with its standard error. A cut also grows with the log, so `anonymity_slope` is that of the
audit that looks back at all releases, alone.

`--increments` measures releases as increments instead (issue 40): the default publication (cohorts of completed cases,
with all audits) with `release = "increment"` and a window of `--cases` completed cases, over a log of `--cuts` such
windows of cases of 2 to 18 events. Printed as JSON: CPU seconds of each cut by stage, resident memory after it, and
the ratio of the last three cuts to the three around the tenth, by stage. The target is a ratio of 1.3. With `--once`
each case is in one release instead (`cases = "completed"`). `--profile` prints the functions with the most CPU time of
the last cut.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import math
import os
import pstats
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.many_activities import drawn_log
from benchmarks.years_in_memory import resident
from connectors.logs import read_log
from stream.config.settings import Completion, Process, Settings
from stream.release.audits.anonymity import CorrespondenceAudit
from stream.release.contract import Decision
from stream.release.pipeline import Pipeline
from stream.run import presets
from stream.run.replay import Replay

ROOT = Path(__file__).resolve().parent.parent
TARGET = {"cpu": 150.0, "last": 2.5}
TARGET_OF_INCREMENTS = {"ratio": 1.3}
PARTS_OF_A_CUT = ("_build", "_audit", "_judge", "_write", "_seal", "_rename", "announce")
"""Functions of the pipeline whose CPU seconds `--increments` prints."""
ACTIVITIES = 20
EVENTS_OF_CASE = 10


class Timed(Replay):
    """A replay that notes the CPU seconds at which each cut was decided, and ends after `most` of them."""

    def __init__(self, settings: Settings, output: Path, most: int) -> None:
        super().__init__(settings, output)
        self.most, self.spent, self.decisions = most, [], []  # type: int, list[float], list[Decision]
        self._decide = self.service.decide
        self.service.decide = self._timed  # type: ignore[method-assign]

    def _timed(self, *arguments: Any) -> Decision:
        if len(self.decisions) == self.most:
            raise EnoughError
        began = time.process_time()
        decision = self._decide(*arguments)
        self.spent.append(time.process_time() - began)
        self.decisions.append(decision)
        return decision


class TimedParts(Timed):
    """A replay that also notes the CPU seconds of the parts of each cut, and profiles the last one."""

    def __init__(self, settings: Settings, output: Path, most: int, profiler: cProfile.Profile | None) -> None:
        super().__init__(settings, output, most)
        self.rows: list[dict[str, float]] = []
        self._profiler = profiler

    def _timed(self, *arguments: Any) -> Decision:
        is_last = len(self.decisions) == self.most - 1
        seconds_of_parts: dict[str, float] = {}
        with parts_measured(self.service.pipelines["research"], seconds_of_parts):
            if self._profiler is not None and is_last:
                self._profiler.enable()
            decision = super()._timed(*arguments)
            if self._profiler is not None:
                self._profiler.disable()
        self.rows.append(row_of_cut(decision, self.spent[-1], seconds_of_parts))
        print(f"cut {len(self.rows)}: {self.spent[-1]:.2f} CPU s", file=sys.stderr, flush=True)
        return decision


class EnoughError(Exception):
    """End of a replay: the last cut to measure is decided."""


def settings(cases: int, sensitive: Sequence[str] = (), first: int | None = None) -> Settings:
    """Plain TLKC, a cut every so many new cases, exact audits against all earlier releases. `first`: new cases of the
    first cut, if different."""
    window = {"new_cases": cases} if first is None else {"new_cases": cases, "first": {"new_cases": first}}
    share = 0.5 if sensitive else 1.0
    return Settings.model_validate(
        {
            "process": {"name": "cuts", "sensitive": list(sensitive)},
            "publication": [
                {
                    "name": "research",
                    "window": window,
                    "mechanism": {
                        "kind": "tlkc", "knowledge": "seq", "attribute": "ac", "L": 2, "K": 20, "C": share,
                    },
                    "audit": {"bk_length": 2, "n": [0, 1], "method": "exact", "against": "all"},
                    "gate": {"min_ka": 1, "on_violation": "warn"},
                }
            ],
        }
    )  # fmt: skip


def measure(
    log: Path, cases: int, most: int, sensitive: Sequence[str] = (), first: int | None = None
) -> dict[str, Any]:
    """Measure the cuts of one log."""
    began = time.process_time()
    source = read_log(log)
    reading = time.process_time() - began
    seconds_of_audits: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        replay = Timed(settings(cases, sensitive, first), Path(folder) / "out", most)
        with contextlib.suppress(EnoughError), looking_back(seconds_of_audits):
            replay.run(source)
    stages: Counter[str] = Counter()
    for decision in replay.decisions:
        stages.update(decision.audit.get("seconds") or {})
    spent = replay.spent
    tenth = max(1, len(spent) // 10)
    last_stages = replay.decisions[-1].audit.get("seconds") or {}
    return {
        "log": log.name,
        "cuts": len(spent),
        "sealed": sum(decision.status == "sealed" for decision in replay.decisions),
        "cpu": round(time.process_time() - began, 1),
        "reading": round(reading, 2),
        "cuts_cpu": round(sum(spent), 1),
        "last": round(spent[-1], 2),
        "each": [round(seconds, 3) for seconds in spent],
        "tenths": [round(sum(spent[at : at + tenth]), 2) for at in range(0, len(spent), tenth)],
        "stages": {name: round(seconds, 1) for name, seconds in stages.most_common()},
        "last_stages": {name: round(seconds, 3) for name, seconds in last_stages.items()},
        "exponent": exponent(spent),
        "slope": slope(spent[1:]),
        "anonymity_slope": slope(seconds_of_audits[1:]),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": [round(average, 1) for average in os.getloadavg()],
    }


@contextlib.contextmanager
def looking_back(spent: list[float]) -> Iterator[None]:
    """Note the CPU seconds of each audit `anonymity`."""
    measured = CorrespondenceAudit.measure

    def timed(*call_arguments: Any) -> Any:
        began = time.process_time()
        result = measured(*call_arguments)
        spent.append(time.process_time() - began)
        return result

    CorrespondenceAudit.measure = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        CorrespondenceAudit.measure = measured  # type: ignore[method-assign]


def measure_increments(cuts: int, cases: int, activities: int, *, once: bool, profile: bool) -> dict[str, Any]:
    """Measure a series of increments of constant size, or of releases that show each case once."""
    events = cuts * cases * EVENTS_OF_CASE
    log = drawn_log(events, activities, "zipf")
    bounds = presets.bounds(log, ())
    mechanism = {"kind": "tlkc-cohorts", **bounds, "suppression": "local"}
    publication = presets.publication(
        "research", {"completed_cases": cases}, mechanism, presets.series_gate(presets.K, local=True)
    ).model_copy(update={"cases": "completed"} if once else {"release": "increment"})
    settings_of_series = Settings(process=Process(completion=Completion(log_end=True)), publication=(publication,))

    profiler = cProfile.Profile(time.process_time) if profile else None
    # The pipeline's own stages are then in CPU seconds as well.
    clock = SimpleNamespace(monotonic=time.process_time)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, mock.patch("stream.release.pipeline.time", clock):
        replay = TimedParts(settings_of_series, Path(folder) / "out", cuts, profiler)
        with contextlib.suppress(EnoughError):
            replay.run(log, final=True)
    if profiler is not None:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(60)
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumtime").print_stats(90)
    return {
        "cuts": len(replay.rows),
        "cases": cases,
        "activities": activities,
        "once": once,
        "cpu": round(time.process_time() - began, 1),
        "ratio": ratios_of_last(replay.rows),
        "each": [{name: round(value, 3) for name, value in row.items()} for row in replay.rows],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": [round(average, 1) for average in os.getloadavg()],
        "target": TARGET_OF_INCREMENTS,
    }


def row_of_cut(decision: Decision, cpu: float, seconds_of_parts: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of one cut: its cases, the memory after it, and CPU seconds in all, by part and by stage."""
    row = {
        "released_cases": (decision.audit.get("counts") or {}).get("released_cases", 0),
        "resident_mb": resident() >> 20,
        "cpu": cpu,
    }
    for name, seconds in seconds_of_parts.items():
        row[f"part {name.strip('_')}"] = seconds
    for name, seconds in (decision.audit.get("seconds") or {}).items():
        row[f"stage {name}"] = seconds
    return row


@contextlib.contextmanager
def parts_measured(pipeline: Pipeline, seconds: dict[str, float]) -> Iterator[None]:
    """Add up the CPU seconds of each function of a pipeline in PARTS_OF_A_CUT, and of `Audience.append`."""

    def measured(name: str, function: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            begin = time.process_time()
            result = function(*arguments)
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - begin
            return result

        return timed

    with contextlib.ExitStack() as patches:
        for name in PARTS_OF_A_CUT:
            patches.enter_context(mock.patch.object(pipeline, name, measured(name, getattr(pipeline, name))))
        audience = pipeline.audience
        patches.enter_context(mock.patch.object(audience, "append", measured("append", audience.append)))
        yield


def ratios_of_last(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of the last three cuts over that of the three around the tenth, by stage."""
    ratios = {}
    for name in rows[-1]:
        tenth = sum(row.get(name, 0.0) for row in rows[8:11])
        last = sum(row.get(name, 0.0) for row in rows[-3:])
        if tenth > 0:
            ratios[name] = round(last / tenth, 2)
    return ratios


def exponent(spent: Sequence[float]) -> float | None:
    """Return the slope of log(cost) over log(number of the cut): the last half of the cuts against the half before."""
    quarter = len(spent) // 4
    if not quarter:
        return None
    early, late = spent[quarter : 2 * quarter], spent[-quarter:]
    middle = quarter * 1.5, len(spent) - quarter / 2
    return round(math.log(sum(late) / sum(early)) / math.log(middle[1] / middle[0]), 2)


def slope(spent: Sequence[float]) -> list[float] | None:
    """Least squares of the cost over the number of the cut, and the standard error. The log hardly grows where cases
    come one by one, so it is the cost of one more release to look back at."""
    if len(spent) < 3:
        return None
    coefficients, spread = np.polyfit(np.arange(len(spent)), spent, 1, cov=True)
    return [round(float(coefficients[0]), 6), round(math.sqrt(float(spread[0][0])), 6)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="another log than BPIC 2012")
    parser.add_argument("--increments", action="store_true", help="the default kind as increments, of a drawn log")
    parser.add_argument("--activities", type=int, default=ACTIVITIES, help="with --increments: activities of the log")
    parser.add_argument("--once", action="store_true", help="with --increments: each case in one release")
    parser.add_argument("--profile", action="store_true", help="with --increments: profile the last cut")
    parser.add_argument("--cases", type=int, default=100, help="new cases a cut")
    parser.add_argument("--first", type=int, help="new cases of the first cut, if different")
    parser.add_argument("--cuts", type=int, default=131, help="stop after so many cuts")
    parser.add_argument("--sensitive", default="", help="sensitive attributes, by comma")
    parser.add_argument("--one-by-one", action="store_true", help="200 releases of Sepsis, one new case each")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.increments:
        sizes = chosen.cuts, chosen.cases, chosen.activities
        measured = measure_increments(*sizes, once=chosen.once, profile=chosen.profile)
        print(json.dumps(measured))
        return
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    if chosen.one_by_one:
        parser.set_defaults(log=folder / "sepsis.xes.gz", cases=1, first=850, cuts=201, sensitive="Diagnose")
        chosen = parser.parse_args()
    log = chosen.log or folder / "bpic2012.xes.gz"
    names = [name for name in chosen.sensitive.split(",") if name]
    result = measure(log, chosen.cases, chosen.cuts, names, chosen.first) | {"target": TARGET}
    if chosen.json:
        print(json.dumps(result))
    print(
        f"{result['log']}: {result['cuts']} cuts, {result['cuts_cpu']} CPU s, the last {result['last']} s, "
        f"{result['peak_mb']} MB; {result['slope']} s (slope, error) a release more, "
        f"{result['anonymity_slope']} s of it in the audit `anonymity`",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
