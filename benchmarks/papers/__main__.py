"""`python -m benchmarks.papers [--small] [--json] [--only PAPER]`: recompute the papers' tables into docs/papers.

`--small` computes the tables of the small logs, writes nothing and fails if one differs from the committed page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.papers import amun, attacks, leakage, tlkc, uniqueness
from benchmarks.papers.page import ROOT, Page

PAGES: Mapping[str, Callable[..., Page]] = {
    "correspondence-attacks-2021": attacks.page,
    "temporal-privacy-leakage-2022": leakage.page,
    "tlkc-privacy-extended-2021": tlkc.page,
    "differentially-private-release-2023": amun.page,
    "reidentification-risk-2020": uniqueness.page,
}
DOCS = ROOT / "docs" / "papers"


def stale(made: Page, folder: Path = DOCS) -> list[str]:
    """Titles of tables that the committed page does not have as they were computed now (times apart)."""
    path = folder / f"{made.name}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [table.title for table in made.tables if not table.timed and table.markdown().strip() not in text]


def write(made: Page, folder: Path = DOCS) -> None:
    """The Markdown page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{made.name}.md").write_text(made.markdown(), encoding="utf-8")


def main() -> int:
    """Compute; write, print or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small logs only; compare with the committed pages")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of pages")
    parser.add_argument("--only", choices=sorted(PAGES), action="append", help="this paper; repeatable")
    arguments = parser.parse_args()
    old: list[str] = []
    for name in arguments.only or PAGES:
        print(name, file=sys.stderr)
        made = PAGES[name](small=arguments.small)
        if arguments.json:
            print(json.dumps(made.as_json()))
        elif arguments.small:
            old += [f"{name}: {title}" for title in stale(made)]
        else:
            write(made)
    for title in old:
        print(f"not as committed: {title}", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
