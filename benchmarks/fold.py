"""Speed and size of the fold, embedded, decoding of the delta records included.

Run `python -m benchmarks.fold --json`; the log is bpic2012 of the log folder, else the bundled sample.
Rules: `new_cases` with events_per_case (S1) and completion on (DESIGN section 7). In `counting`, each completion
counts: for `completed_cases`, and for events_per_case alone.

`--lag SECONDS --rate EVENTS` measures another thing: how late records of 500 events are folded that come at this rate,
alone, and while a second thread builds and audits releases of the same log, as in the daemon. The builds are replays
with the default publication, one after the other, so the thread never rests. The folder of compiled kernels is
warmed before.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import statistics
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec

from connectors import read_log
from stream.config.window import read_window
from stream.fold.fold import Fold
from stream.fold.records import Delta
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.log_source import records_from_log

DAY = 86_400_000_000_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", type=Path, default=None)
    parser.add_argument("--batch", type=int, default=2000, help="rows a record (the limit of 512 KiB is about 4000)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lag", type=float, default=None, metavar="SECONDS", help="measure the lag during builds")
    parser.add_argument("--rate", type=int, default=20_000, help="events a second of --lag")
    arguments = parser.parse_args()
    if arguments.lag is not None:
        print(json.dumps(lag(arguments.log or default_log(), arguments.rate, arguments.lag), indent=2))
        return
    print(json.dumps(measure(arguments.log or default_log(), arguments.batch, arguments.rounds), indent=2))


def default_log() -> Path:
    """bpic2012 where the public logs are, else the bundled sample."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(os.environ.get("VEILSTREAM_LOGS", root.parent / "shared" / "logs"))
    chosen = folder / "bpic2012.xes.gz"
    return chosen if chosen.exists() else next(iter(sorted((root / "examples").glob("*.xes.gz"))))


def measure(path: Path, batch: int, rounds: int) -> dict[str, Any]:
    """CPU of the best round (the machine has other work), and the memory that the state holds at the end."""
    log = read_log(path)
    blobs = [
        (position, msgspec.json.encode(record))
        for position, record in records_from_log(log, batch=batch, pseudonym=name)
    ]
    decoder = msgspec.json.Decoder(Delta)
    name_of_log, events, cases = path.name, log.n_events, log.n_cases
    rules = rules_of(max(1, cases // 10))
    del log
    gc.collect()
    gc.freeze()  # objects made before the stream begins are not garbage
    decode = min(cpu(lambda: decode_all(decoder, blobs)) for _ in range(rounds))
    total = min(cpu(lambda: fold_all(rules, blobs)) for _ in range(rounds))
    counting = {
        key: min(cpu(lambda: fold_all(other, blobs)) for _ in range(rounds))  # noqa: B023
        for key, other in counting_rules(max(1, cases // 10)).items()
    }
    n_bytes = state_bytes(rules, blobs)
    return {
        "log": name_of_log,
        "events": events,
        "cases": cases,
        "batch": batch,
        "events_per_cpu_second": round(events / total),
        "counting": {key: round(events / seconds) for key, seconds in counting.items()},
        "decode_share": round(decode / total, 2),
        "state_bytes": n_bytes,
        "bytes_per_event_after_192_a_case": round((n_bytes - 192 * cases) / events, 1),
        "bytes_per_event_in_all": round(n_bytes / events, 1),
    }


RECORD_EVENTS = 500
"""Events of a delta record of ingest."""


def lag(path: Path, rate: int, seconds: float) -> dict[str, Any]:
    """Return how late records are folded, alone and during builds, and the load of the machine at the begin."""
    log = read_log(path)
    blobs = [
        (position, msgspec.json.encode(record))
        for position, record in records_from_log(log, batch=RECORD_EVENTS, pseudonym=name)
    ]
    replay(path)  # compiles what no earlier process compiled
    alone = lag_of(blobs, rate, seconds)
    ended, n_builds = threading.Event(), 0

    def build() -> None:
        nonlocal n_builds
        while not ended.is_set():
            replay(path)
            n_builds += 1

    building = threading.Thread(target=build)
    building.start()
    during = lag_of(blobs, rate, seconds)
    ended.set()
    building.join()
    return {
        "log": path.name,
        "rate": rate,
        "seconds": seconds,
        "load": os.getloadavg()[0],
        "alone": alone,
        "during_builds": {**during, "replays": n_builds},
    }


def lag_of(blobs: list[tuple[int, bytes]], rate: int, seconds: float) -> dict[str, float]:
    """Fold records that come at `rate` events a second; return the seconds from their moment to the end of their fold.

    After its last record the log is folded again, with an empty state.
    """
    rules, decoder = _rules({"manual": True}), msgspec.json.Decoder(Delta)
    fold, place, lags = Fold(rules), 0, list[float]()
    begin, used = time.monotonic(), time.thread_time()
    for number in range(int(rate * seconds / RECORD_EVENTS)):
        moment = begin + number * RECORD_EVENTS / rate
        time.sleep(max(0.0, moment - time.monotonic()))
        if place == len(blobs):
            fold, place = Fold(rules), 0
        position, blob = blobs[place]
        list(fold.apply(position, decoder.decode(blob)))
        place += 1
        lags.append(time.monotonic() - moment)
    return {
        "events_per_cpu_second": round(len(lags) * RECORD_EVENTS / (time.thread_time() - used)),
        "median": round(statistics.median(lags), 4),
        "p99": round(sorted(lags)[len(lags) * 99 // 100], 4),
        "max": round(max(lags), 4),
    }


def replay(path: Path) -> None:
    """Build and audit the releases of a log with the default publication."""
    import veilstream

    veilstream.replay(path)


def name(case: str) -> str:
    """A pseudonym of the length that ingest gives."""
    return hashlib.sha256(case.encode()).hexdigest()[:32]


def rules_of(new_cases: int) -> FoldRules:
    """`new_cases` + S1 + completion by end activity and silence."""
    return _rules({"new_cases": new_cases, "events_per_case": 3})


def counting_rules(cases: int) -> dict[str, FoldRules]:
    """Rules under which the moment of each completion matters."""
    return {"completed_cases": _rules({"completed_cases": cases}), "events_per_case": _rules({"events_per_case": 3})}


def _rules(window: dict[str, Any]) -> FoldRules:
    publication = PublicationRules("bench", read_window(window))
    return FoldRules((publication,), end_activities=("A_DECLINED",), inactivity=30 * DAY, embedded=True)


def fold_all(rules: FoldRules, blobs: list[tuple[int, bytes]]) -> Fold:
    """Decode and fold everything; cuts are taken, not projected."""
    fold, decoder = Fold(rules), msgspec.json.Decoder(Delta)
    for position, blob in blobs:
        for cut in fold.apply(position, decoder.decode(blob)):
            fold.decided(cut, released=True)
    return fold


def decode_all(decoder: msgspec.json.Decoder[Delta], blobs: list[tuple[int, bytes]]) -> None:
    """Decode and forget."""
    for _, blob in blobs:
        decoder.decode(blob)


def cpu(work: Any) -> float:
    """CPU seconds of one call."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def state_bytes(rules: FoldRules, blobs: list[tuple[int, bytes]]) -> int:
    """Return the bytes that Python and numpy hold for the fold alone, measured by allocation."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    fold = fold_all(rules, blobs)
    gc.collect()
    n_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return n_bytes if fold.position >= 0 else 0


if __name__ == "__main__":
    main()
