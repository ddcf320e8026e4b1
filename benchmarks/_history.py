"""Benchmarks over time: `keep NAME` runs one and stores its JSON in benchmarks/history, `compare` sets the last two of
each side by side. Figures of different machines or loads cannot be compared: both are kept with the figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "history"


def main() -> None:
    """Keep or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("keep").add_argument("name")
    commands.add_parser("compare").add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        print(keep(arguments.name))
    else:
        show(compared(), as_json=arguments.json)


def keep(name: str) -> Path:
    """Run one benchmark and store what it printed."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    now = datetime.now(UTC)
    body = {
        "benchmark": name,
        "commit": _commit(),
        "time": now.isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "result": json.loads(done.stdout),
    }
    path = FOLDER / f"{name}-{now:%Y%m%dT%H%M%S}.json"
    path.write_text(json.dumps(body, indent=1) + "\n")
    return path


def compared() -> list[dict[str, Any]]:
    """Return each figure of the last two runs of each benchmark: {benchmark, figure, before, after, ratio}."""
    rows = []
    for name in sorted({path.name.rpartition("-")[0] for path in FOLDER.glob("*.json")}):
        runs = [json.loads(path.read_text()) for path in sorted(FOLDER.glob(f"{name}-*.json"))[-2:]]
        if len(runs) < 2:
            continue
        before, after = (dict(_figures(run["result"], "")) for run in runs)
        for figure in sorted(before.keys() & after.keys()):
            old, new = before[figure], after[figure]
            rows.append(
                {
                    "benchmark": name,
                    "figure": figure,
                    "before": old,
                    "after": new,
                    "ratio": new / old if old else None,
                    "commits": [run["commit"] for run in runs],
                    "load": [run["machine"]["load"][0] for run in runs],
                }
            )
    return rows


def show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print JSON, or one line for each figure."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(f"{row['benchmark']:12} {row['figure']:60} {row['before']:>14.4g} {row['after']:>14.4g} {ratio:>6}")


def _figures(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _figures(inner, f"{place}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, float(value)


def _commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True, cwd=FOLDER.parent
    ).stdout.strip()


if __name__ == "__main__":
    main()
