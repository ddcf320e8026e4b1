"""FCB-safe publishing: events that cohorts and repair keep, and anonymity under attacks, over every pair of releases.

Run `python -m benchmarks.fcb --json` (`--quick`: without the attacks). K = 20, seq L = 2, C = 0.5. A log is cut after
every tenth (twentieth, ...) part of its cases has started; the last cut is the end of the log. Complete: on Sepsis the
last event is a Release A-E or 30 days old; on BPIC-2012-App declined, cancelled, or activated and approved and
registered. Cuts and completion are the fold's. AMOUNT_REQ: inclusive
quartile classes of the whole log, fixed, for cohorts; of each release for re-anonymization, as `tlkc` has it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from models.anonymize.hiding import Mode, Target
from models.anonymize.sensitive import quartile_classes
from models.anonymize.tlkc import Suppression
from models.attacks.correspondence import anonymity
from models.attacks.pairs import join_releases, next_occurrences
from models.attacks.true_linker import true_counts, true_linker
from models.errors import BoundError, InputError
from models.eventlog import Column, EventLog
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Cut
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.comparison import partners, simple
from stream.release.contract import Build, Exposure
from stream.release.mechanisms.cohorts import TlkcCohorts
from stream.release.mechanisms.tlkc import Tlkc
from stream.release.repair import shown
from stream.run.log_source import records_from_log

DAY = 86_400_000_000_000
K, L, DEEPEST = 20, 2, 3
MEASURES = ("fa", "ca", "ba")


@dataclass(frozen=True)
class Source:
    """A log, its sensitive attribute, its rules of completion, and the sensitive values that cohorts see."""

    log: EventLog
    sensitive: str
    completion: dict[str, Any]
    classes: EventLog

    def exposures(self, step: int, log: EventLog) -> Iterator[Exposure]:
        """Yield the exposure of each cut: everything up to the start of the next `step` cases, at last all."""
        window = PublicationRules("cuts", read_window({"new_cases": step}))
        fold = Fold(FoldRules((window,), embedded=True, **self.completion))
        for cut in self._cuts(fold, log):
            if cut.trigger == "final" or cut.ordinal * step < log.n_cases:
                projection = fold.exposed(cut)
                yield Exposure(projection.log, projection.complete, (self.sensitive,), cut.time_ns)
            fold.decided(cut, released=True)

    def _cuts(self, fold: Fold, log: EventLog) -> Iterator[Cut]:
        for position, record in records_from_log(log, attributes=(self.sensitive,)):
            yield from fold.apply(position, record)
        yield from fold.finish(final=True)


@dataclass
class Series:
    """One publication: its releases in order, and the cuts that gave none."""

    records: list[ReleaseRecord] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    withheld: int = 0
    waits: list[float] = field(default_factory=list)
    dropped: int = 0
    """Most cases of a cut that lost every event."""

    def add(self, build: Build, exposure: Exposure) -> ReleaseRecord:
        ids = tuple(exposure.log.case_ids[case] for case in build.origin)
        self.records.append(
            ReleaseRecord(
                len(self.records) + 1, replace(build.log, case_ids=ids), build.carries, build.T, exposure.sensitive
            )
        )
        self.events.append(build.log.n_events)
        self.dropped = max(self.dropped, build.cases_dropped)
        return self.records[-1]

    @property
    def published(self) -> str:
        return f"{len(self.records)} of {len(self.records) + self.withheld}"


def sepsis(folder: Path) -> Source:
    log = read_log(folder / "sepsis.xes.gz")
    releases = tuple(name for name in log.activity.values if name.startswith("Release"))
    return Source(log, "Diagnose", {"end_activities": releases, "inactivity": 30 * DAY}, log)


def bpic2012_app(folder: Path) -> Source:
    log = read_log(folder / "bpic2012-app.xes.gz")
    raw = log.case_values("AMOUNT_REQ")
    amount = Column(raw.codes, tuple(float(value) for value in raw.values))
    numeric = log.with_columns(case={"AMOUNT_REQ": amount}, event={})
    classes = log.with_columns(case={"AMOUNT_REQ": quartile_classes(amount)}, event={})
    completion = {
        "end_activities": ("A_DECLINED", "A_CANCELLED"),
        "end_all": ("A_ACTIVATED", "A_APPROVED", "A_REGISTERED"),
    }
    return Source(numeric, "AMOUNT_REQ", completion, classes)


def cohorts(source: Source, step: int) -> Series:
    """`tlkc-cohorts` with its defaults."""
    series, memory = Series(), None
    counted_cases: set[str] = set()
    for exposure in source.exposures(step, source.classes):
        try:
            build = TlkcCohorts().build(exposure, memory)
        except BoundError:
            series.withheld += 1
            continue
        memory = build.memory
        record = series.add(build, exposure)
        starts = dict(zip(exposure.log.case_ids, exposure.log.time[exposure.log.starts[:-1]].tolist(), strict=True))
        series.waits += [
            (exposure.time_ns - starts[name]) / DAY for name in record.log.case_ids if name not in counted_cases
        ]
        counted_cases.update(record.log.case_ids)
    return series


def plain(source: Source, step: int) -> Series:
    """`tlkc`: everything anonymized again at each cut."""
    series = Series()
    for exposure in source.exposures(step, source.log):
        try:
            series.add(Tlkc().build(exposure), exposure)
        except (BoundError, InputError):
            series.withheld += 1
    return series


def repaired(source: Source, step: int, mode: Mode, way: Suppression) -> tuple[Series, int]:
    """`tlkc` with the first try of `repair` at n = 0 against every earlier release, and the unrepaired events of the
    same cuts. No case is held back."""
    series, unrepaired, mechanism = Series(), 0, Tlkc(repair_by=mode, suppression=way)
    for exposure in source.exposures(step, source.log):
        wanted = [Target(place, K, L) for place in range(len(series.records))]
        try:
            before = mechanism.build(exposure).log.n_events
            series.add(mechanism.repair(exposure, shown(series.records), wanted, ()), exposure)
        except (BoundError, InputError):
            series.withheld += 1
            continue
        unrepaired += before
    return series, unrepaired


def attacked(series: Series, deepest: int, *, exact: bool) -> dict[str, Any]:
    """Least FA, CA, BA over all pairs of releases and n = 0..deepest, |bk| <= L + n: true linker, and exact search.

    Exact values below K are listed separately if the real partners count 0 at that background knowledge: nobody can be
    the victim there. Elsewhere the exact value is never below the true one, since the real linker is valid.
    """
    ways = ("true", "exact", "exact_without_victim")
    least: dict[str, dict[str, int | None]] = {way: dict.fromkeys(MEASURES) for way in ways}
    fallen: set[int] = set()
    for place, later in enumerate(series.records):
        for earlier in series.records[:place]:
            partner = partners(earlier, later)
            for n in range(deepest + 1):
                knowledge: dict[str, Any] = {"bk_length": L + n, "n": (n,)}
                attacks = {"true": true_linker(simple(earlier), simple(later), partner, **knowledge).results[0]}
                if exact and np.all(partner >= 0):
                    attacks["exact"] = anonymity(simple(earlier), simple(later), **knowledge).results[0]
                for way, attack in attacks.items():
                    for name in MEASURES:
                        value, counted = attack.values[name], way
                        if value is None:
                            continue
                        if way == "exact" and value < K and not _real(earlier, later, attack, name, n):
                            counted = "exact_without_victim"
                        old = least[counted][name]
                        least[counted][name] = value if old is None else min(old, value)
                        if counted != "exact_without_victim" and value < K:
                            fallen.add(later.sequence)
    return {**least, "releases_below_k": len(fallen)}


def counted(source: Source, series: Series) -> dict[str, int]:
    """Least FA = CA and BA of the real partners, n = 0, by counting each knowledge of one or two activities over all
    pairs of releases: nothing of the attacker's code, and fast enough for many releases."""
    rank = {name: row for row, name in enumerate(source.log.case_ids)}
    code = {name: place for place, name in enumerate(source.log.activity.values)}
    shows, inside = [], []
    least = dict.fromkeys(("fa", "ba"), source.log.n_cases)
    for later in series.records:
        now = np.zeros((len(rank), len(code) * (len(code) + 1)), dtype=np.bool_)
        for name, trace in zip(later.log.case_ids, later.log.traces(), strict=True):
            codes = [code[activity] for activity in trace]
            pairs = [len(code) * (1 + first) + then for first, then in combinations(codes, 2)]
            now[rank[name], codes + pairs] = True
        for before, cases in zip(shows, inside, strict=True):
            for measure, counts in (("fa", (before & now).sum(axis=0)), ("ba", now[~cases].sum(axis=0))):
                least[measure] = min(least[measure], int(counts[counts > 0].min(initial=len(rank))))
        shows.append(now)
        inside.append(np.isin(source.log.case_ids, later.log.case_ids))
    return least


def _real(earlier: ReleaseRecord, later: ReleaseRecord, result: Any, name: str, n: int) -> bool:
    pair = join_releases(simple(earlier), simple(later))
    return true_counts(pair, next_occurrences(pair), partners(earlier, later), result.worst[name], n)[name] > 0


def measure(
    source: Source, step: int, targets: dict[str, Any], mode: Mode, way: Suppression, *, attacks: bool
) -> dict[str, Any]:
    """Measure cohorts, re-anonymization and repair on the same cuts, with the targets."""
    body: dict[str, Any] = {"cuts": -(-source.log.n_cases // step)}
    again = plain(source, step)
    if "cohorts" in targets:
        ours = cohorts(source, step)
        body["cohorts"] = {
            "published": ours.published,
            "share_of_plain": ours.events[-1] / again.events[-1],
            "median_wait_days": float(np.median(ours.waits)),
            "target": targets["cohorts"],
        }
        if attacks:
            body["cohorts"]["attacks"] = attacked(ours, DEEPEST, exact=True)
    started = time.process_time()
    mended, unrepaired = repaired(source, step, mode, way)
    body["repair"] = {
        "by": mode,
        "suppression": way,
        "kept_of_all": mended.events[-1] / source.log.n_events,
        "seconds": time.process_time() - started,
        "published": mended.published,
        "share_summed": sum(mended.events) / unrepaired,
        "cases_dropped": mended.dropped,
        "share_last": mended.events[-1] / again.events[-1],
        "target": targets["repair"],
    }
    if attacks:
        body["repair"]["counted"] = counted(source, mended)
    if attacks and body["cuts"] <= 20:
        body["repair"]["attacks"] = attacked(mended, 0, exact=False)
        body["plain"] = {"published": again.published, "attacks": attacked(again, 0, exact=False)}
    return body


PLAN: Sequence[tuple[str, int, dict[str, Any]]] = (
    ("sepsis", 105, {
        "cohorts": {"published": "10 of 10", "share_of_plain": 0.85, "median_wait_days": 40},
        "repair": {"published": "10 of 10", "share_summed": 0.75},
    }),
    ("sepsis", 53, {
        "cohorts": {"published": "20 of 20", "share_of_plain": 0.78},
        "repair": {"published": "20 of 20", "share_summed": 0.68},
    }),
    ("bpic2012-app", 1309, {
        "cohorts": {"published": "10 of 10", "share_of_plain": 0.92},
        "repair": {},
    }),
    ("bpic2012-app", 655, {
        "cohorts": {"published": "20 of 20", "share_of_plain": 0.88, "median_wait_days": 15},
        "repair": {"published": "20 of 20", "share_summed": 0.99},
    }),
    ("bpic2012-app", 100, {"repair": {"published": "125 of 131", "share_summed": 0.88}}),
)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--quick", action="store_true", help="what is kept, without the attacks")
    parser.add_argument("--log", choices=("sepsis", "bpic2012-app"), help="one log only")
    parser.add_argument("--repair-by", choices=("events", "items"), default="events", help="tlkc's option")
    parser.add_argument("--suppression", choices=("exact", "local"), default="exact", help="of the repaired events")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    sources = {"sepsis": sepsis, "bpic2012-app": bpic2012_app}
    loaded = {name: make(folder) for name, make in sources.items() if arguments.log in (None, name)}
    results = []
    for name, step, targets in PLAN:
        if name in loaded:
            started = time.process_time()
            result = measure(
                loaded[name], step, targets, arguments.repair_by, arguments.suppression, attacks=not arguments.quick
            )
            results.append({"log": name, "cut_every_cases": step, **result, "seconds": time.process_time() - started})
    print(json.dumps({"K": K, "L": L, "C": 0.5, "n": list(range(DEEPEST + 1)), "results": results}, indent=1))


if __name__ == "__main__":
    main()
