"""TLKC-privacy: time, memory, events kept, data utility and discovery quality, compared with the authors' figures.

Run `python -m benchmarks.tlkc --json`. `--fitness replay` leaves out the slow fitness by alignments, `--effort N` adds
the search of `local`, `--log NAME` takes one log. Weak: L = 2, K = 20, C = 0.5; strong: L = 6, K = 60, C = 0.2;
minutes. CPU seconds of the mechanism with the checker's verdict, after reading and one warm-up of the compiled loops;
`price_cpu_seconds`: of data utility and discovery quality. Reach (DESIGN section 7), Sepsis: seq L = 6 violations
<= 2 s; rel <= 2 s; exact suppression <= 5 s. `authors`: Sepsis with Diagnose and Age, measured with their program,
whose seq, rel and mult releases do not satisfy the definition.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors import read_log
from models.anonymize.result import Anonymized
from models.anonymize.tlkc import SuppressionOptions, TlkcProblem, anonymize
from models.anonymize.view import view
from models.anonymize.violations import TlkcBounds, minimal_violations
from models.eventlog import EventLog
from models.knowledge import Knowledge
from models.utility.discovery import Method, discovery_quality
from models.utility.distance import data_utility

SETTINGS = {"weak": {"L": 2, "K": 20, "C": 0.5}, "strong": {"L": 6, "K": 60, "C": 0.2}}
METHODS: tuple[Method, ...] = ("alignment", "replay")
TYPES: tuple[Any, ...] = ("set", "mult", "seq", "rel")
LOGS = {"sepsis": ["Diagnose"], "bpic2012-app": ["AMOUNT_REQ"]}
AUTHORS = {
    ("sepsis", "weak"): {
        "set": {"events": 15_103, "data_utility": 0.993},
        "mult": {"events": 15_083, "data_utility": 0.992},
        "seq": {"events": 10_761, "data_utility": 0.662},
        "rel": {"events": 4_283, "data_utility": 0.429, "seconds": 291},
    },
    ("sepsis", "strong"): {
        "set": {"events": 13_116, "data_utility": 0.859},
        "mult": {"events": 10_241, "data_utility": 0.706},
        "seq": "did not finish",
        "rel": "did not finish",
    },
    ("bpic2012-app", "weak"): dict.fromkeys(("set", "mult", "seq"), "removes nothing"),
    ("bpic2012-app", "strong"): dict.fromkeys(("set", "mult"), "removes nothing"),
}
LOCAL = [(2, 20, 0.5), (2, 60, 0.5), (2, 60, 0.2), (6, 20, 0.5), (6, 60, 0.2)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", choices=sorted(LOGS), help="one log alone")
    parser.add_argument("--fitness", choices=("both", *METHODS), default="both")
    parser.add_argument("--effort", type=int, default=0, help="proposals of the search of local suppression")
    parser.add_argument("--no-quality", action="store_true", help="leave out data utility and discovery")
    arguments = parser.parse_args()
    methods: tuple[Any, ...] = (arguments.fitness,)
    if arguments.no_quality:
        methods = ()
    elif arguments.fitness == "both":
        methods = METHODS
    names = [arguments.log] if arguments.log else list(LOGS)
    print(json.dumps(measure({name: read(name) for name in names}, methods, arguments.effort), indent=2))


def measure(logs: dict[str, EventLog], fitness: Sequence[Method] = METHODS, effort: int = 0) -> dict[str, Any]:
    """Return all figures; `fitness`: the methods of discovery quality, none to leave out utility."""
    _warm_up()
    result: dict[str, Any] = {"exact": {}}
    if "sepsis" in logs:
        seq = _search(logs["sepsis"], "seq", TlkcBounds.of(6, 20, "0.5"))
        result["violations"] = {"sepsis seq L=6 K=20 C=0.5": seq}
    for name, log in logs.items():
        for setting, bounds in SETTINGS.items():
            rows = {
                each: {
                    **run(log, LOGS[name], {**bounds, "knowledge": each}, fitness),
                    "authors": AUTHORS.get((name, setting), {}).get(each),
                }
                for each in TYPES
            }
            result["exact"][f"{name} {setting}"] = rows
    if "sepsis" in logs:
        result["local (sepsis, seq)"] = {
            f"{L}/{K}/{C}": run(
                logs["sepsis"],
                LOGS["sepsis"],
                {"L": L, "K": K, "C": C, "suppression": "local", "effort": effort},
                fitness,
            )
            for L, K, C in LOCAL
        }
    return result


def read(name: str) -> EventLog:
    """Read a log of the log folder (VEILSTREAM_LOGS)."""
    root = Path(__file__).resolve().parent.parent
    return read_log(Path(os.environ.get("VEILSTREAM_LOGS", root.parent / "shared" / "logs")) / f"{name}.xes.gz")


def run(log: EventLog, sensitive: list[str], parameters: dict[str, Any], fitness: Sequence[Method]) -> dict[str, Any]:
    """Measure one release and its price. The memory is that of a second, traced run."""
    print(parameters, file=sys.stderr)
    begin = time.process_time()
    released = anonymize(log, sensitive=sensitive, T="minutes", **parameters)
    seconds = time.process_time() - begin
    tracemalloc.start()
    anonymize(log, sensitive=sensitive, T="minutes", **{**parameters, "effort": 0})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row = {
        "cpu_seconds": round(seconds, 3),
        "peak_MiB": round(peak / 2**20, 1),
        "events": {"in": log.n_events, "out": released.events},
        "cases": {"in": log.n_cases, "out": len(released.origin)},
        "n_actual": released.n_actual,
        "satisfied": released.satisfied,
        **{key: released.details[key] for key in ("violations", "bans", "minimality") if key in released.details},
    }
    return {**row, **price(log, released, fitness)} if fitness else row


def price(log: EventLog, released: Anonymized, fitness: Sequence[Method]) -> dict[str, Any]:
    """Return data utility of the control flow, and the quality of the discovered model by each method."""
    begin = time.process_time()
    models = {method: discovery_quality(log, released.log, method) for method in fitness}
    return {
        "data_utility": round(data_utility(log, released.log), 4),
        "discovery": {
            method: {
                "fitness": round(model.fitness, 4),
                "precision": round(model.precision, 4),
                "f1": round(model.f1, 4),
            }
            for method, model in models.items()
        },
        "price_cpu_seconds": round(time.process_time() - begin, 1),
    }


def _search(log: EventLog, structure: Any, bounds: TlkcBounds) -> dict[str, Any]:
    trace_view = view(log, Knowledge(structure, "ac", "minutes"), {"Diagnose": log.case_values("Diagnose")})
    begin = time.process_time()
    violations = minimal_violations(trace_view, bounds)
    return {
        "cpu_seconds": round(time.process_time() - begin, 3),
        "minimal": len(violations),
        "counted": violations.counted,
    }


def _warm_up() -> None:
    """Load the compiled loops, so that the first figure does not include the compiler."""
    log = EventLog.from_traces([("ab", "x"), ("ba", "y"), ("ab", "z")])
    classes = {"sensitive": log.case_values("sensitive")}
    for suppression in ("exact", "local"):
        TlkcProblem(log, Knowledge("seq"), TlkcBounds.of(2, 2, 1), classes).solve(
            SuppressionOptions(suppression=suppression)
        )


if __name__ == "__main__":
    main()
