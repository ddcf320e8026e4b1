"""Speed and size of the fold, embedded, decoding of the delta records included.

Run `python -m benchmarks.fold --json`; the log is bpic2012 of the log folder, else the bundled sample.
Rules: `new_cases` with events_per_case (S1) and completion on (DESIGN section 7). In `counting`, each completion
counts: for `completed_cases`, and for events_per_case alone.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
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
    arguments = parser.parse_args()
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
