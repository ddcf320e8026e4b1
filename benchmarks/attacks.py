"""Figures of the correspondence attacks (DESIGN section 7): `python -m benchmarks.attacks --json`.

CPU seconds of one process, kernels compiled before. `preparation` is what all n share (numbering, tables, linkable
pairs), `search` the minima of all n. Next to them are the seconds of the independent oracle (two integer programs by
HiGHS, tests/oracles/attacks.py) for one candidate of the same pair, the same times the number of candidates, and
whether its values agree on a sample. `peak_memory_mb`: the largest resident size of the process so far, with logs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from models.attacks.candidates import candidate_values, matching_rows
from models.attacks.correspondence import PairAttack
from models.attacks.enumeration import enumerate_all
from models.attacks.linkability import LEAST
from models.attacks.linker import base_linkers
from models.attacks.pairs import join_releases
from models.eventlog import EventLog, SimpleLog
from tests.oracles import attacks as oracle

LOGS = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))


def cut(log: EventLog, started: int) -> EventLog:
    """Return the cases that started up to a start, with their events up to that moment."""
    begun = log.time[log.starts[:-1]]
    instant = np.sort(begun)[started - 1]
    kept = log.select_cases(begun <= instant)
    return kept.select_events(kept.time <= instant)


def thinned(log: EventLog, share: float) -> EventLog:
    """Remove a share of all events, the same ones in every release (drawn by row of the file)."""
    draw = np.random.default_rng(1).random(int(log.row.max()) + 1)
    return log.select_events(draw[log.row] >= share)


def measure(earlier: SimpleLog, later: SimpleLog, bk_length: int, ns: list[int]) -> dict[str, Any]:
    """Measure preparation and search of one pair."""
    begin = time.process_time()
    audit = PairAttack(join_releases(earlier, later), bk_length, ns, "exact", "realisable")
    prepared = time.process_time()
    results = audit.run().results
    done = time.process_time()
    return {
        "variants": [len(earlier.variants), len(later.variants)],
        "links": audit.linkable.n_links,
        "preparation": prepared - begin,
        "search": done - prepared,
        "values": {row.n: row.values if row.linker == "exists" else "none" for row in results},
    }


def enumeration(earlier: SimpleLog, later: SimpleLog, bk_length: int, n: int, sample_size: int = 12) -> dict[str, Any]:
    """Every candidate at one n; `sample_size` of them are compared with the oracle."""
    audit = PairAttack(join_releases(earlier, later), bk_length, [n], "exact", "realisable")
    (base,) = base_linkers(audit.pair, audit.linkable, [n])
    judge = audit.valuer(base)
    list(enumerate_all(judge, 1))
    begin = time.process_time()
    blocks = list(enumerate_all(judge, bk_length))
    seconds = time.process_time() - begin
    codes = np.concatenate([block_codes for block_codes, _ in blocks])
    counts = np.concatenate([block_counts for _, block_counts in blocks])
    sample = np.random.default_rng(0).choice(len(codes), sample_size, replace=False)
    rows, later, least = audit.linkable.links()
    links = np.column_stack((rows, later))[(least & LEAST) <= n]
    begin, agree = time.process_time(), 0
    for row in sample:
        in1, in2 = matching_rows(judge, codes[row][codes[row] >= 0])
        expected = oracle.by_program(audit.pair.earlier.count, audit.pair.later.count, links, in1, in2)
        agree += expected == (counts[row, 0] - counts[row, 2], counts[row, 1] - counts[row, 4])
    single = (time.process_time() - begin) / sample_size
    begin = time.process_time()
    for row in sample:
        candidate_values(judge, codes[row][codes[row] >= 0])
    return {
        "candidates": len(codes),
        "seconds": seconds,
        "per_candidate": seconds / len(codes),
        "one_at_a_time": (time.process_time() - begin) / sample_size,
        "oracle_per_candidate": single,
        "oracle_for_all": single * len(codes),
        "oracle_agrees": f"{agree} of {sample_size}",
    }


TARGETS = {
    "sepsis n=1..5": {"search": 0.15},
    "sepsis, every candidate, n=2": {"seconds": 10.0},
    "bpic2013-incidents": {"search": 0.3},
    "bpic2012-app": {"search": 0.1},
    "bpic2012": {"search": 2.0},
    "bpic2012, a tenth of the events dropped": {"search": 10.0},
}
"""DESIGN section 7, CPU seconds."""

OTHERS = (
    ("bpic2013-incidents", ["impact"], [1, 2, 3]),
    ("bpic2012-app", [], [1, 2, 3]),
    ("bpic2012", [], [1, 2, 3, 4, 5]),
)


def runs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each measurement with its name, the cheap ones first."""
    sepsis = read_log(LOGS / "sepsis.xes.gz")
    pair_of = [SimpleLog.from_log(release, ["Diagnose"]) for release in (cut(sepsis, 1040), sepsis)]
    measure(*pair_of, 5, [1, 2, 3, 4, 5])  # every kernel of it compiled or loaded before anything is timed
    yield "sepsis n=1..5", measure(*pair_of, 5, [1, 2, 3, 4, 5])
    for name, sensitive, ns in OTHERS:
        log = read_log(LOGS / f"{name}.xes.gz")
        before = cut(log, log.n_cases * 99 // 100)
        yield name, measure(SimpleLog.from_log(before, sensitive), SimpleLog.from_log(log, sensitive), 5, ns)
    thin = [SimpleLog.from_log(thinned(release, 0.1)) for release in (before, log)]
    yield "bpic2012, a tenth of the events dropped", measure(*thin, 5, ns)
    yield "sepsis, every candidate, n=2", enumeration(*pair_of, 5, 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for name, result in runs():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        report[name] = {**result, "target": TARGETS[name], "peak_memory_mb": peak}
        print(f"{name}: {[result[key] for key in TARGETS[name]]} CPU s", file=sys.stderr, flush=True)
    print(json.dumps(report, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
