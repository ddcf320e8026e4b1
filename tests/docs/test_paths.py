"""The paths of a reader through the code are as short as docs/architecture.md says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LIMITS = {
    "one release": (12, 12),
    "one record": (6, 6),
    "one record, completions count": (6, 6),
    "one attack": (8, 8),
}
"""Files of each path, and returns to a file that was left."""


@pytest.mark.slow
def test_the_page_prints_the_paths_of_the_code_and_they_are_short() -> None:
    """A change that lengthens a path is seen when it is made, and the page is printed again with it."""
    program = [sys.executable, "-m", "benchmarks.paths"]
    printed = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line for line in printed.splitlines() if line.startswith("| one ")]
    assert [row for row in rows if row not in page] == [], "print `python -m benchmarks.paths` on the page"
    lengths = {}
    for row in rows:
        name, _, steps = (cell.strip() for cell in row.split("|")[1:4])
        files, returns = (int(number) for number in re.findall(r"\d+", steps))
        lengths[name] = files, returns
    assert lengths.keys() == LIMITS.keys()
    too_long = {
        name: length for name, length in lengths.items() if length[0] > LIMITS[name][0] or length[1] > LIMITS[name][1]
    }
    assert too_long == {}
