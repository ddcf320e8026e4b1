"""Measure the field and write docs/papers/field.md.

`python -m benchmarks.field` (`make papers`). `--log`, `--epsilon`, `--tool` compute a part and keep it in `--results`;
`--page` writes the page from that file alone.

`--maps` computes the section on process maps alone (`benchmarks.field.maps`). AIM and DPIM are measured if `--aim` and
`--dpim` name an interpreter that has their packages (mbi 1.1, pandas and matplotlib; pm4py 2.2.31) and a folder with
the authors' code (`mechanisms` of ryan112358/private-pgm at 4d2b3c5; Schulze-M/DPIM at d99a160).

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
from benchmarks.field.maps import AIM, DPIM, ITSELF, PROGRAMS, RELEASES, Peer, map_key, measured_maps
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
    parser.add_argument("--maps", action="store_true", help="only process maps and models")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="only this one of the maps; repeatable")
    parser.add_argument("--releases", type=int, default=RELEASES, help="of each program of the maps")
    parser.add_argument("--aim", nargs=2, metavar=("PYTHON", "FOLDER"), help="where AIM is")
    parser.add_argument("--dpim", nargs=2, metavar=("PYTHON", "FOLDER"), help="where DPIM is")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page from the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what the results have")
    arguments = parser.parse_args()
    tools = [TOOLS[number] for number in arguments.tool] if arguments.tool is not None else list(TOOLS)
    part = arguments.log or arguments.epsilon or arguments.tool is not None or arguments.guarantees or arguments.maps
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
    if arguments.maps or all_of:
        yield from _map_measurements(arguments)
    if not arguments.guarantees and not arguments.maps:
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


def _map_measurements(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Return the measurements of maps; a program of others only if it is known where it is."""
    peers = {AIM: arguments.aim, DPIM: arguments.dpim}
    for name in arguments.log or LOGS:
        log = held(name)
        for epsilon in arguments.epsilon or EPSILONS if log is not None else ():
            for program in arguments.program or PROGRAMS:
                if (program in peers and peers[program] is None) or (program == ITSELF and epsilon != EPSILONS[0]):
                    continue
                peer = Peer(*peers[program]) if program in peers else None
                measure = partial(measured_maps, name, log, epsilon, program, peer=peer, releases=arguments.releases)
                yield map_key(name, epsilon, program), measure


def _keep(path: Path, key: str, result: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held_so_far = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held_so_far, key: result}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
