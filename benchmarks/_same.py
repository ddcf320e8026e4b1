"""Whether two checkouts release the same and audit the same: `run` writes what one of them did, `compare` sets two side
by side.

`PYTHONPATH=CHECKOUT python benchmarks/_same.py run LOG OUT.json [--every N] [--sensitive A]` in each checkout, then
`python benchmarks/_same.py compare ONE.json OTHER.json`. What is drawn at random (case ids, order of cases, which
case shows which mean time) is drawn from one seed, what is measured (seconds, digests, times of publication) is left
out; all else must be equal (floats to 12 digits, as some are sums in no order), the least n of no linker apart, which
audits search on request only. Each log goes through cohorts, plain TLKC and identity, ten cuts each.
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
from pathlib import Path
from typing import Any

DRAWN = {
    "seconds", "published", "config_digest", "previous_manifest", "files", "software", "least_n",
}  # fmt: skip
"""Keys that differ from run to run, or are asked for on request only."""


def run(path: Path, every: int, sensitive: list[str]) -> dict[str, Any]:
    """All releases, decisions and audits of one log under three mechanisms."""
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
    found = {}
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
            found[name] = {
                "decisions": [
                    [decision.status, decision.sequence, list(decision.reasons), _plain(decision.audit)]
                    for _, decision in outcome.decisions
                ],
                "contents": [_content(read_log(file)) for file in files],
                "tail": outcome.tail,
            }
    return found


def _content(log: Any) -> dict[str, Any]:
    """The cases of a release as a bag, whatever their ids and order."""
    resource = log.resource.decode()
    attributes = {name: column.decode() for name, column in sorted(log.case_attributes.items())}
    activity = log.activity.decode()
    cases = Counter(
        repr((activity[a:b], resource[a:b], log.time[a:b].tolist(), [column[case] for column in attributes.values()]))
        for case, (a, b) in enumerate(zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True))
    )
    text = json.dumps(sorted(cases.items()))
    return {"cases": log.n_cases, "events": log.n_events, "bag": hashlib.sha256(text.encode()).hexdigest()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items() if key not in DRAWN}
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Return the places at which two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [line for key in keys for line in differences(one.get(key), other.get(key), f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for at, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{place}[{at}]")
        ]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-15):
        return []
    return [] if one == other else [f"{place}: {str(one)[:80]} / {str(other)[:80]}"]


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
    one, other = (json.loads(path.read_text()) for path in (chosen.one, chosen.other))
    found = differences(one, other)
    releases = {name: len(own["contents"]) for name, own in one.items()}
    audits = {name: len(own["decisions"]) for name, own in one.items()}
    print(json.dumps({"releases": releases, "decisions": audits, "differences": found[:20], "count": len(found)}))
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
