"""Share of events that the safe default keeps: cohorts by local suppression on a log, cut whenever a tenth of its cases
is complete.

Run `python -m benchmarks.defaults [LOG ...]` (names of the shared logs; all of them without). K = 20, seq, ac, L = 2,
C = .5, a case is complete after its last event, a last cut at the log's end. JSON, one entry a log: `kept` and `plain`
(one release by plain `local` of the whole log) as shares of all events, `published` and `withheld` cuts with the cases
that waited and why, `waits` in windows from the first cut at which a case was complete (median, mean), `missing`:
activities of at least 5 % of the cases that no release shows, `minimality`: sets below K by cohort, CPU `seconds`.
`--times` as the mechanism's.

`--verdicts` replays the default itself instead, with a cut at the log's end: the verdict and the exit code of
`veilstream replay LOG --final`, `kept`, cuts, and the same without a bound on minimality (`unbounded`): the difference
is what the bound costs. It takes made-up logs in the shape of public ones too (`benchmarks/_shapes.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._shapes import closed_problems_like, helpdesk_like, receipt_like, recruiting_like
from connectors import read_log
from models.errors import BoundError
from models.eventlog import EventLog
from models.utility.discovery import Method, discovery_quality
from stream.config.settings import Process, Publication, Settings
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Cut
from stream.fold.rules import FoldRules, PublicationRules
from stream.release.contract import Exposure
from stream.release.mechanisms.cohorts import TlkcCohorts
from stream.release.mechanisms.tlkc import Tlkc
from stream.run import presets
from stream.run.log_source import records_from_log
from stream.run.replay import Replay
from tests.oracles.series import smallest

LOGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sepsis": ("sepsis.xes.gz", ("Diagnose",)),
    "sepsis-plain": ("sepsis.xes.gz", ()),
    "urineweginfectie": ("urineweginfectie.xes.gz", ()),
    "bpic2012-app": ("bpic2012-app.xes.gz", ()),
    "bpic2013-incidents": ("bpic2013-incidents.xes.gz", ()),
    "bpic2012": ("bpic2012.xes.gz", ()),
    "ccc19": ("ccc19.xes.gz", ()),
}
SHAPES: dict[str, Callable[[], EventLog]] = {
    "receipt-like": receipt_like,
    "recruiting-like": recruiting_like,
    "closed-problems-like": closed_problems_like,
    "helpdesk-like": helpdesk_like,
}
BOUNDS: dict[str, Any] = {"suppression": "local", "K": 20, "L": 2, "C": 0.5}
OFTEN = 0.05


def exposures(log: EventLog, sensitive: tuple[str, ...]) -> Iterator[Exposure]:
    """Yield the exposure of each cut, by the fold."""
    window = read_window(presets.window(log))
    fold = Fold(FoldRules((PublicationRules("cuts", window),), log_end=True, embedded=True))

    def cuts() -> Iterator[Cut]:
        for position, record in records_from_log(log, attributes=sensitive, log_end=True):
            yield from fold.apply(position, record)
        yield from fold.finish(final=True, holding=["cuts"])

    for cut in cuts():
        projection = fold.exposed(cut)
        yield Exposure(projection.log, projection.complete, sensitive, cut.time_ns, last=cut.trigger == "final")
        fold.decided(cut, released=True)


def measure(log: EventLog, sensitive: tuple[str, ...], mechanism: TlkcCohorts, arguments: argparse.Namespace) -> Any:
    """Measure one log."""
    started = time.process_time()
    memory, build = None, None
    ready: dict[str, int] = {}
    out: dict[str, int] = {}
    withheld, minimality = [], []
    series: list[dict[str, tuple[str, ...]]] = []
    for number, exposure in enumerate(exposures(log, sensitive)):
        waiting = [name for name, done in zip(exposure.log.case_ids, exposure.complete, strict=True) if done]
        for name in waiting:
            ready.setdefault(name, number)
        try:
            build = mechanism.build(exposure, memory)
        except BoundError as error:
            withheld.append(
                {"cut": number + 1, "waiting": len([1 for n in waiting if n not in out]), "why": str(error)}
            )
            continue
        memory = build.memory
        minimality.append(build.operator.get("minimality", {}).get("below_k"))
        names = [exposure.log.case_ids[case] for case in build.origin.tolist()]
        for name in names:
            out.setdefault(name, number)
        series.append(dict(zip(names, build.log.traces(), strict=True)))
    cohorts = time.process_time() - started
    full_log = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), sensitive, 0)
    plain = Tlkc(**BOUNDS).build(full_log).log.n_events / log.n_events
    waits = [out[name] - ready[name] for name in out]
    shown = set(build.log.activity.values) if build else set[str]()
    holders = {name: sum(name in set(trace) for trace in log.traces()) for name in log.activity.values}
    kept = build.log.n_events / log.n_events if build else 0.0
    more: dict[str, Any] = {}
    if arguments.attacks:
        more["attacks"] = {f"n = {n}": smallest(series, 2, n) for n in (0, 1)}
    if arguments.discovery and build:
        more["discovery"] = discovery(log, build.log, arguments.discovery)
    return {
        "kept": kept,
        "plain": plain,
        "of_plain": kept / plain,
        "published": len(minimality),
        "withheld": withheld,
        "waits": {"median": float(np.median(waits)), "mean": float(np.mean(waits))} if waits else None,
        "missing": sorted(name for name, n in holders.items() if n >= OFTEN * log.n_cases and name not in shown),
        "minimality": minimality,
        "seconds": cohorts,
        **more,
    }


def verdict(log: EventLog, sensitive: tuple[str, ...], *, bounded: bool) -> dict[str, Any]:
    """Return the exit code and verdict of `veilstream replay LOG --final`; without the bound on minimality if `bounded`
    is false.
    """
    settings = presets.with_default(Settings(process=Process(sensitive=sensitive)), log)
    if not bounded:
        (default,) = settings.publication
        table = default.model_dump()
        table["gate"]["max_minimality"] = None
        # A copy would keep the mechanism that was made with the bound.
        settings = settings.model_copy(update={"publication": (Publication.model_validate(table),)})
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        outcome = Replay(settings, Path(folder)).run(log, final=True)
    (verdict,) = outcome.verdicts()
    sealed = [decision.audit for _, decision in outcome.decisions if decision.status == "sealed"]
    return {
        "verdict": verdict.verdict,
        "exit_code": outcome.exit_code,
        "kept": sealed[-1]["counts"]["released"] / log.n_events if sealed else 0.0,
        "released": verdict.released,
        "withheld": verdict.withheld,
        "waiting": verdict.waiting,
        "sentence": verdict.sentence,
        "rules": verdict.rules,
        "seconds": time.process_time() - started,
    }


def verdicts(names: list[str], folder: Path) -> dict[str, Any]:
    """Return the verdicts with and without the bound, by log."""
    results = {}
    for name in names:
        sensitive: tuple[str, ...] = ()
        if name in SHAPES:
            log = SHAPES[name]()
        else:
            file, sensitive = LOGS[name]
            log = read_log(folder / file)
        unbounded = verdict(log, sensitive, bounded=False)
        results[name] = {**verdict(log, sensitive, bounded=True), "unbounded": unbounded}
    return results


def discovery(log: EventLog, released: EventLog, method: Method) -> dict[str, Any]:
    """Return the quality of the discovered model of the release, and that of the source."""
    quality = {"released": discovery_quality(log, released, method), "source": discovery_quality(log, log, method)}
    return {name: {"fitness": measured.fitness, "precision": measured.precision} for name, measured in quality.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", choices=[[], *LOGS, *SHAPES], help="names of shared logs")
    parser.add_argument("--times", choices=("ordinal", "microaggregated"), default="ordinal")
    parser.add_argument("--patience", type=int, default=TlkcCohorts().patience)
    parser.add_argument("--attacks", action="store_true")
    parser.add_argument("--discovery", choices=("replay", "alignment"))
    parser.add_argument("--json", action="store_true", help="as without: all is JSON")
    parser.add_argument("--verdicts", action="store_true", help="what the default ends with")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    if arguments.verdicts:
        print(json.dumps(verdicts(arguments.logs or [*LOGS, *SHAPES], folder), indent=1))
        return
    mechanism = TlkcCohorts(**BOUNDS, max_minimality=0, times=arguments.times, patience=arguments.patience)
    results = {}
    for name in arguments.logs or LOGS:
        if name in SHAPES:
            parser.error(f"{name} is for --verdicts")
        file, sensitive = LOGS[name]
        results[name] = measure(read_log(folder / file), sensitive, mechanism, arguments)
    print(json.dumps({**BOUNDS, "parts": presets.RELEASES, "patience": arguments.patience, "logs": results}, indent=1))


if __name__ == "__main__":
    main()
