"""Memory of a coordinator over years of events whose cases are each released once.

`python -m benchmarks.years_in_memory [--events 1000000] [--kept | --released] [--archive] [--json]`. Cases of
ten events each arrive evenly over a year; a few hundred are open at a time, and a tenth of the cases gets one
event after its release. One publication with `cases = "completed"` is cut once a week. A checkpoint is saved
every `--checkpoint` events, as the daemon does. Each cut is projected, and its decision follows at once:
mechanism, audits and files are not part of this benchmark.

With `--released` each cut is released: the default kind (cohorts, with all audits and the bounds of a replay) and
`dp-variants`, both weekly and both with `cases = "completed"`, without a broker. Activities are drawn (20, by Zipf's
law), so that traces hardly repeat. Printed too: CPU seconds of each cut of the cohorts, those of the last three over
those around the tenth, and released cases and events.

With `--kept` a second publication shows everything again, so that no event may be dropped. With `--archive` dropped
events are written to an encrypted archive; its files and bytes are printed too.

Printed: rows and cases in the state; resident memory after each twentieth of the stream, and its peak;
bytes of the last checkpoint on disk, and of all that was written; how many states were saved whole; CPU
seconds of the fold and of the checkpoints. Then, of a new process that restores the checkpoint and saves
the state whole, as each start does: seconds, resident memory at its peak and in steady state, and their
ratio, after each of the two steps. Memory of the program itself is subtracted. CPU seconds compare between
runs on a loaded machine, the clock does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import Counted
from connectors.store.blobs import open_blobs
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Cut, Delta, PlainRow, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.archive import Archive
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.envelope import KEY_BYTES, Keys
from stream.release.schedule import SimulatedClock
from stream.run import presets
from stream.run.keeper import StateKeeper
from stream.run.service import ProcessContext, ReleaseService
from stream.values.memory import Bytes, give_back

DAY = 86_400_000_000_000
BEGIN = 19_723 * DAY
YEAR = 365 * DAY
EVENTS_OF_CASE = 10
CASE_DAYS = 2
RECORD_ROWS = 2_000
LATE_SHARE = 10
"""One case of this many has an event after its release."""

ACTIVITIES = 20
DRAWS = 1_000_003
"""Drawn activities before they repeat. It is prime, so no case gets the activities of an earlier one."""


class CountedCheckpoints(Checkpoints):
    """Checkpoints that count the states saved whole."""

    whole_saves = 0

    def save(self, *state: Bytes) -> None:
        """Count and save a whole state."""
        self.whole_saves += 1
        super().save(*state)


def rules(*, kept: bool) -> FoldRules:
    """Return the rules: a weekly publication of each case once, and with `kept` one that shows everything again."""
    week = read_window({"every": "7d", "time": "wall"})
    publications = [PublicationRules("once", week, start=BEGIN, private=True, once=True)]
    if kept:
        publications.append(PublicationRules("everything", week, start=BEGIN, private=True))
    return FoldRules(tuple(publications), end_activities=("end",), inactivity=30 * DAY, key="k")


def settings_of_releases() -> Settings:
    """Return a process whose two publications release each case once, every week."""
    weekly = {"cases": "completed", "start": "2024-01-01T00:00:00Z", "window": {"every": "7d", "time": "wall"}}
    cohorts = {"kind": "tlkc-cohorts", "L": 2, "K": presets.K, "C": 1.0, "suppression": "local"}
    gate = presets.series_gate(presets.K, local=True)
    noise = {"kind": "dp-variants", "epsilon": 1.0, "delta_dp": 1e-6}
    return Settings.model_validate(
        {
            "process": {"name": "years", "completion": {"end_activities": ["end"], "inactivity": "30d"}},
            "publication": [
                {**weekly, "name": "research", "mechanism": cohorts, "gate": gate, "formats": ["parquet"]},
                {**weekly, "name": "statistics", "mechanism": noise, "formats": ["parquet"]},
            ],
        }
    )


class Releases:
    """The service that releases each cut, and the cost of the cuts of the cohorts."""

    def __init__(self, folder: Path) -> None:
        self.service = ReleaseService(settings_of_releases(), folder, context=ProcessContext(clock=SimulatedClock()))
        self.cpu_of_cuts: list[float] = []
        self.cases, self.events, self.withheld = 0, 0, 0

    def rules(self) -> FoldRules:
        """Return the rules of its fold."""
        return replace(self.service.rules(embedded=False), key="k")

    def decide(self, fold: Fold, cut: Cut) -> None:
        """Release one cut."""
        begin = time.process_time()
        decision = self.service.decide(fold, cut)
        if cut.publication == "research":
            self.cpu_of_cuts.append(time.process_time() - begin)
            counts = decision.audit.get("counts") or {}
            self.cases += counts.get("released_cases") or 0
            self.events += counts.get("released") or 0
            print(f"cut {len(self.cpu_of_cuts)}: {self.cpu_of_cuts[-1]:.2f} CPU s", file=sys.stderr, flush=True)
        self.withheld += decision.status == "withheld"

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        around_tenth, last = sum(self.cpu_of_cuts[8:11]), sum(self.cpu_of_cuts[-3:])
        return {
            "released_cases": self.cases,
            "released_events": self.events,
            "withheld_cuts": self.withheld,
            "cpu_of_cuts": [round(seconds, 2) for seconds in self.cpu_of_cuts],
            "ratio_of_last": round(last / around_tenth, 2) if around_tenth else None,
        }


def records(n_events: int, *, drawn: bool = False) -> Iterator[tuple[int, AnyRecord]]:
    """Yield position and record: deltas in order of event time, and a tick at the time of the last event of each."""
    rows: list[PlainRow] = []
    position = 0
    for offset, (time_ns, case, activity) in enumerate(year_of_events(n_events, drawn=drawn)):
        rows.append((offset, case, activity, time_ns, f"r{offset % 50}", None, None, False))
        if len(rows) == RECORD_ROWS or offset == n_events - 1:
            first = rows[0][0]
            yield position, Delta(src="s", p=0, prev=first - 1, last=offset, n=len(rows), key="k", rows=rows)
            yield position + 1, Tick(at=time_ns)
            position, rows = position + 2, []


def year_of_events(n_events: int, *, drawn: bool) -> Iterator[tuple[int, str, str]]:
    """Yield time, case and activity of each event. With `drawn` activities are drawn, else 20 traces repeat.

    Events go through the open cases in turn: one case begins, and one ends, with every ten events.
    """
    n_cases = max(1, n_events // EVENTS_OF_CASE)
    n_open = max(1, n_cases * CASE_DAYS // 365)
    step = YEAR // n_events
    weights = 1 / np.arange(1, ACTIVITIES + 1)
    draws = np.random.default_rng(0).choice(ACTIVITIES, size=DRAWS, p=weights / weights.sum())
    drawn_activities = cycle([f"a{place}" for place in draws.tolist()])
    for number in range(n_events):
        block, place = divmod(number, n_open * EVENTS_OF_CASE)
        round_, member = divmod(place, n_open)
        case = block * n_open + member
        activity = next(drawn_activities) if drawn else f"a{(case * 7 + round_ * round_) % ACTIVITIES}"
        if round_ == EVENTS_OF_CASE - 1:
            activity = "end"
        weeks_earlier = 14 * n_open
        is_late = round_ == 5 and case >= weeks_earlier and case % LATE_SHARE == 0
        if is_late:  # in place of an event of this case
            case, activity = case - weeks_earlier, "late"
        yield BEGIN + number * step, hashlib.sha256(str(case).encode()).hexdigest()[:32], activity


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--checkpoint", type=int, default=20_000, help="events between two checkpoints")
    parser.add_argument("--kept", action="store_true", help="a second publication shows everything again")
    parser.add_argument("--released", action="store_true", help="each cut is released, with all audits")
    parser.add_argument("--archive", action="store_true", help="dropped events go to an archive")
    parser.add_argument("--restore", type=Path, help="only restore the checkpoint of this folder, and print its cost")
    arguments = parser.parse_args()
    if arguments.restore is not None:
        print(json.dumps(restored(arguments.restore)))
        return
    with tempfile.TemporaryDirectory() as folder:
        sizes = arguments.events, arguments.checkpoint
        releases = Releases(Path(folder) / "out") if arguments.released else None
        result = measure(Path(folder), *sizes, kept=arguments.kept, archived=arguments.archive, releases=releases)
        command = [sys.executable, "-m", "benchmarks.years_in_memory", "--restore", folder]
        result["restart"] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(json.dumps({**result, "load": round(os.getloadavg()[0], 1)}, indent=2))


def measure(
    folder: Path, n_events: int, checkpoint: int, *, kept: bool, archived: bool, releases: Releases | None = None
) -> dict[str, Any]:
    """Fold a year of events with checkpoints, and return its cost."""
    files = Counted()
    archive = Archive(open_blobs(folder, "operator"), Keys(bytes(KEY_BYTES)))
    folder = folder / "checkpoints"
    folder.mkdir()
    checkpoints = CountedCheckpoints(folder, ops=files)
    keeper = StateKeeper(checkpoints, archive=archive)
    give_back()
    fold_rules = rules(kept=kept) if releases is None else releases.rules()
    fold = Fold(replace(fold_rules, archive=archived))
    resident_before = resident()
    fold_cpu, save_cpu, release_cpu, released, since_save = 0.0, 0.0, 0.0, 0, 0
    resident_of_twentieths: list[int] = []
    for position, record in records(n_events, drawn=releases is not None):
        begin = time.process_time()
        for cut in fold.apply(position, record):
            if releases is not None:
                begin_of_cut = time.process_time()
                releases.decide(fold, cut)
                release_cpu += time.process_time() - begin_of_cut
                continue
            log = fold.exposed(cut).log
            released += log.n_cases if cut.publication == "once" else 0
            del log
            fold.decided(cut, released=True)
        fold_cpu += time.process_time() - begin
        if not isinstance(record, Delta):
            continue
        since_save += record.n
        if since_save >= checkpoint:
            begin = time.process_time()
            keeper.save(fold, SavedState("daemon", b"", 0, position))
            save_cpu += time.process_time() - begin
            since_save = 0
        if record.last * 20 // n_events > len(resident_of_twentieths):
            resident_of_twentieths.append(resident() - resident_before)
    keeper.save(fold, SavedState("daemon", b"", 0, position))
    newest = checkpoints.newest()
    return {
        "events": n_events,
        "kept": kept,
        "released_cases": released,
        **({} if releases is None else releases.as_json()),
        **(archive_sizes(archive) if archived else {}),
        "rows": fold.state.events.size,
        "cases": fold.state.cases.size,
        "forgotten_cases": len(fold.state.forgotten),
        "late": fold.accounting(fold_rules.publications[0].name)["late"],
        "resident_bytes": resident_of_twentieths,
        "peak_resident_bytes": peak_resident() - resident_before,
        "checkpoint_bytes": 0 if newest is None else newest.size,
        "whole_state_bytes": len(fold.snapshot()),
        "checkpoint_bytes_written": files.written,
        "whole_saves": checkpoints.whole_saves,
        "fold_cpu_seconds": round(fold_cpu - release_cpu, 2),
        "release_cpu_seconds": round(release_cpu, 2),
        "checkpoint_cpu_seconds": round(save_cpu, 2),
    }


def archive_sizes(archive: Archive) -> dict[str, Any]:
    """Return files, bytes, and bytes by event of an archive."""
    segments = [archive.blobs.get(segment.path) or b"" for segment in archive.segments()]
    n_bytes = sum(map(len, segments))
    n_events = sum(len(table) for table in archive.read(until=1 << 62))
    return {
        "archived_events": n_events,
        "archive_files": len(segments),
        "archive_bytes": n_bytes,
        "archive_bytes_per_event": round(n_bytes / max(1, n_events), 1),
    }


def restored(folder: Path) -> dict[str, Any]:
    """Restore the newest checkpoint of a folder, and save the state whole; return seconds and memory by step."""
    checkpoints = Checkpoints(folder / "checkpoints")
    give_back()
    before = resident()
    wall, cpu = time.monotonic(), time.process_time()
    loaded = checkpoints.load()
    if loaded is None:
        raise SystemExit(f"{folder} has no checkpoint")
    saved = SavedState.decode(loaded.state)
    del loaded
    fold = Fold.restore(saved.fold)
    position = saved.position
    del saved
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    after_restore = memory_above(before)
    keeper = StateKeeper(checkpoints)
    keeper.save(fold, SavedState("daemon", b"", 0, position))
    return {
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "restore": after_restore,
        "restore_and_first_checkpoint": memory_above(before),
        "rows": fold.state.events.size,
    }


def memory_above(before: int) -> dict[str, float]:
    """Return the peak and the present resident memory above `before` (bytes), and their ratio."""
    peak, steady = peak_resident() - before, resident() - before
    return {"peak_resident_bytes": peak, "steady_resident_bytes": steady, "ratio": round(peak / steady, 2)}


def peak_resident() -> int:
    """Return the peak of the resident memory of this process, in bytes.

    `ru_maxrss` is not it: a child process begins with the peak of its parent.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
