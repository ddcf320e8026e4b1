"""Measure the field and write docs/papers/field.md.

`python -m benchmarks.field` (`make papers`). `--log`, `--epsilon`, `--tool` compute a part and keep it in `--results`;
`--page` writes the page from that file alone.

Peers of pm4py run as shipped in an interpreter of their own (VEILSTREAM_FIELD_PYTHON; extra `field`),
within `LIMIT` CPU seconds; without it their rows state that they did not run. All logs are read by activity
alone. Means over `ROUNDS` releases, fewer if a peer is too slow for more; each release has fresh noise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.field.guarantee import guarantees
from benchmarks.field.likeness import measured
from benchmarks.field.page import EPSILONS, LOGS, page, result_key
from benchmarks.field.tools import TOOLS, Tool
from benchmarks.papers.page import ROOT, held

DOCS = ROOT / "docs" / "papers" / "field.md"
RESULTS = ROOT / "out" / "field.json"


def main() -> None:
    """Measure the chosen part, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", action="append", choices=LOGS)
    parser.add_argument("--epsilon", action="append", type=float, choices=EPSILONS)
    parser.add_argument("--tool", action="append", type=int, help="number in the order of the page; repeatable")
    parser.add_argument("--guarantees", action="store_true", help="only what is kept, no likeness")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page from the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what the results have")
    arguments = parser.parse_args()
    tools = [TOOLS[number] for number in arguments.tool] if arguments.tool is not None else list(TOOLS)
    part = arguments.log or arguments.epsilon or arguments.tool is not None or arguments.guarantees
    if not arguments.page:
        have = json.loads(arguments.results.read_text()) if arguments.resume and arguments.results.exists() else {}
        for key, measure in _measurements(arguments, tools, all_of=not part):
            if key not in have:
                result = measure()
                print(key, json.dumps(result), file=sys.stderr, flush=True)
                _keep(arguments.results, key, result)
    if arguments.page or not part:
        DOCS.write_text(page(json.loads(arguments.results.read_text())), encoding="utf-8")


def _measurements(arguments: argparse.Namespace, tools: list[Tool], *, all_of: bool) -> Iterator[tuple[str, Any]]:
    """Return the measurements: the key of the result, and the function that computes it."""
    if not arguments.guarantees:
        for name in arguments.log or LOGS:
            log = held(name)
            for tool in tools if log is not None else ():
                for epsilon in (arguments.epsilon or EPSILONS) if tool.claims else EPSILONS[:1]:
                    yield (
                        result_key(name, epsilon, tool),
                        partial(measured, log, tool, epsilon, model=name != "bpic2012"),
                    )
    if arguments.guarantees or all_of:
        for tool in tools:
            if "over its levels" not in tool.name and tool.claims:
                yield f"guarantee {tool.name}", partial(guarantees, tool)


def _keep(path: Path, key: str, result: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held_so_far = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held_so_far, key: result}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
