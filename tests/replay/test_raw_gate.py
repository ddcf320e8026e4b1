"""A gate that reads raw data, by the command line: 60 cases of one variant, with and without one person of another.

`min_utility` with `charge_withheld = true` published 100 of 100 releases without her, and 0 of 100 with her.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DECLARED, ROOT

CONFIGURATION = """
[process]
name = "ward"
columns = { case = "case", activity = "act", time = "time" }
[[publication]]
name = "p"
start = "2024-01-01T00:00:00Z"
window = { every = "1d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-4 }
"""
RAW = "gate = { min_utility = 0.9, charge_withheld = true }\n"
LEDGER = "gate = { max_epsilon = 2 }\n"

OTHERS = [f"{case},{label},2024-01-01T0{hour}:{case:02}:00Z" for case in range(60) for hour, label in enumerate("AB")]
HERS = [f"her,{label},2024-01-01T0{hour}:30:00Z" for hour, label in enumerate("XYZ")]


def run(folder: Path, rows: list[str], gate: str) -> tuple[int, Any, str]:
    """A replay as a process of its own: exit code, JSON, and the lines for a person."""
    folder.mkdir()
    (folder / "log.csv").write_text("\n".join(["case,act,time", *rows]) + "\n")
    (folder / "c.toml").write_text(CONFIGURATION + gate + DECLARED)
    found = subprocess.run(
        [sys.executable, "-m", "stream.commands", "replay", str(folder / "log.csv"), "-c", str(folder / "c.toml"),
         "-o", str(folder / "out"), "--until", "2024-01-04T00:00:00Z", "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
    )  # fmt: skip
    return found.returncode, json.loads(found.stdout) if found.stdout else None, found.stderr


@pytest.mark.parametrize("rows", [OTHERS, [*OTHERS, *HERS]], ids=["without her", "with her"])
def test_a_gate_that_reads_raw_data_is_refused_for_any_data(tmp_path: Path, rows: list[str]) -> None:
    """Exit 2 and a line that names the bound, before a folder is made: the same on both logs."""
    code, found, error = run(tmp_path / "run", rows, RAW)
    assert (code, found) == (2, None)
    assert "gate.min_utility reads raw data" in error
    assert not (tmp_path / "run" / "out").exists()


def test_a_gate_that_reads_the_ledger_decides_alike_with_and_without_her(tmp_path: Path) -> None:
    """Three windows under a budget for two: which ones come, when, and which are withheld does not depend on her."""
    seen = []
    for name, rows in (("without", OTHERS), ("with", [*OTHERS, *HERS])):
        code, found, error = run(tmp_path / name, rows, LEDGER)
        assert code == 3, error
        manifests = sorted((tmp_path / name / "out" / "public" / "p").glob("release-*/manifest.json"))
        moments = [json.loads(path.read_text())["published"] for path in manifests]
        seen.append((moments, [(one["publication"], one["reasons"]) for one in found["withheld"]]))
    assert seen[0] == seen[1]
    moments, withheld = seen[0]
    assert [moment[:10] for moment in moments] == ["2024-01-02", "2024-01-03"]
    assert len(withheld) == 1
    assert withheld[0][1][0].startswith("epsilon: spent 2, with this release 3, limit 2")
