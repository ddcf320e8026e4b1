"""Compare the releases and audits of two checkouts: `run` writes the results of one of them, `compare` compares two.

`PYTHONPATH=CHECKOUT python benchmarks/_same.py run LOG OUT.json [--every N] [--sensitive A]` in each checkout, then
`python benchmarks/_same.py compare FIRST.json SECOND.json`. Random choices (case ids, order of cases, which case shows
which mean time) come from one seed. Measurements (seconds, digests, times of publication) are left out, and so is the
least n without a linker, which audits search on request only. Everything else must be equal, floats to 12 digits, since
the order of some sums differs. Each log goes through cohorts, plain TLKC and identity, with ten cuts each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import secrets
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

DRAWN = {
    "seconds", "published", "config_digest", "previous_manifest", "files", "software", "least_n",
}  # fmt: skip
"""Keys that differ from run to run, or are asked for on request only."""


def run(path: Path, every: int, sensitive: list[str]) -> dict[str, Any]:
    """Return all releases, decisions and audits of one log under three mechanisms."""
    import numpy as np

    from connectors.logs import read_log
    from stream.config.settings import Settings
    from stream.run.presets import with_default
    from stream.run.replay import Replay

    drawn = random.Random(22)  # both checkouts draw the same
    secrets.randbelow, secrets.token_bytes = drawn.randrange, lambda size=None: drawn.randbytes(size or 32)
    log = read_log(path, timezone="UTC")
    log = log.select_cases(np.arange(0, log.n_cases, every))
    table = {"name": "same", "sensitive": sensitive}
    share = 0.5 if sensitive else 1.0
    tlkc = {"kind": "tlkc", "knowledge": "seq", "attribute": "ac", "L": 2, "K": 5, "C": share}
    window = {"new_cases": max(2, log.n_cases // 10)}
    results = {}
    for name, mechanism in (("cohorts", None), ("tlkc", tlkc), ("identity", {"kind": "identity"})):
        if mechanism is None:
            settings = with_default(Settings.model_validate({"process": table}), log)
        else:
            publication = {
                "name": "research", "window": window, "mechanism": mechanism,
                "audit": {"bk_length": 2, "n": [0, 1], "against": "all"},
                "gate": {"min_ka": 1, "on_violation": "warn"},
            }  # fmt: skip
            settings = Settings.model_validate({"process": table, "publication": [publication]})
        with tempfile.TemporaryDirectory() as folder:
            outcome = Replay(settings, Path(folder) / "out").run(log, final=True)
            files = sorted((Path(folder) / "out" / "public").glob("*/release-*/log.xes.gz"))
            results[name] = {
                "decisions": [
                    [decision.status, decision.sequence, list(decision.reasons), _plain(decision.audit)]
                    for _, decision in outcome.decisions
                ],
                "contents": [_content(read_log(file)) for file in files],
                "tail": outcome.tail,
            }
    return results


def _content(log: Any) -> dict[str, Any]:
    """Return the cases of a release as a bag, without their ids and order."""
    resource = log.resource.decode()
    attributes = {name: column.decode() for name, column in sorted(log.case_attributes.items())}
    activity = log.activity.decode()
    times = log.time.tolist()
    cases: Counter[str] = Counter()
    for case, (begin, end) in enumerate(pairwise(log.starts.tolist())):
        values = [column[case] for column in attributes.values()]
        cases[repr((activity[begin:end], resource[begin:end], times[begin:end], values))] += 1
    text = json.dumps(sorted(cases.items()))
    return {"cases": log.n_cases, "events": log.n_events, "bag": hashlib.sha256(text.encode()).hexdigest()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if key not in DRAWN}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def differences(first: Any, second: Any, place: str = "") -> list[str]:
    """Return the places at which two documents differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = sorted(first.keys() | second.keys())
        return [line for key in keys for line in differences(first.get(key), second.get(key), f"{place}.{key}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [
            line
            for at, pair in enumerate(zip(first, second, strict=True))
            for line in differences(*pair, f"{place}[{at}]")
        ]
    if (
        isinstance(first, float)
        and isinstance(second, float)
        and math.isclose(first, second, rel_tol=1e-12, abs_tol=1e-15)
    ):
        return []
    if first == second:
        return []
    return [f"{place}: {str(first)[:80]} / {str(second)[:80]}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("log", type=Path)
    running.add_argument("out", type=Path)
    running.add_argument("--every", type=int, default=1)
    running.add_argument("--sensitive", default="")
    comparing = commands.add_parser("compare")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "run":
        names = [name for name in chosen.sensitive.split(",") if name]
        chosen.out.write_text(json.dumps(run(chosen.log, chosen.every, names)))
        return
    first, second = (json.loads(path.read_text()) for path in (chosen.one, chosen.other))
    different = differences(first, second)
    releases = {name: len(item["contents"]) for name, item in first.items()}
    audits = {name: len(item["decisions"]) for name, item in first.items()}
    print(
        json.dumps({"releases": releases, "decisions": audits, "differences": different[:20], "count": len(different)})
    )
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
