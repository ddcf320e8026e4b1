"""Output folders that reports are made of: Sepsis and the bundled sample, with every kind of section filled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stream.commands import execute
from tests.conftest import ROOT

SEPSIS = """
[process]
name = "sepsis"
sensitive = ["Diagnose"]
[[publication]]
name = "research"
window = { new_cases = 250 }
mechanism = { kind = "tlkc", knowledge = "seq", attribute = "ac", L = 2, K = 20, C = 0.5, suppression = "greedy" }
audit = { bk_length = 3, n = [0, 1, 2] }
gate = { min_ka = 2, on_violation = "warn" }
[[publication]]
name = "statistics"
start = 2013-11-01T00:00:00Z
window = { every = "90d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }
gate = { max_epsilon = 0.4 }
"""

HOSPITAL = """
[process]
name = "hospital"
sensitive = ["diagnosis"]
[[publication]]
name = "research"
window = { new_cases = 400 }
mechanism = { kind = "tlkc", knowledge = "seq", attribute = "ac", L = 2, K = 20, C = 0.5, suppression = "greedy" }
audit = { bk_length = 2, n = [0, 1] }
gate = { min_ba = 15, on_violation = "withhold" }
[[publication]]
name = "amun"
start = 2025-01-01T00:00:00Z
window = { every = "60d", time = "event" }
mechanism = { kind = "amun", variant = "sampling", delta = 0.2 }
"""


def replayed(folder: Path, log: Path, configuration: str, *more: str) -> Path:
    """Return the output folder of a replay; a withheld release (exit 3) is part of what a report shows."""
    (folder / "veilstream.toml").write_text(configuration)
    arguments = ["replay", str(log), "-c", str(folder / "veilstream.toml"), "-o", str(folder / "out"), "--final"]
    assert execute([*arguments, *more]) in (0, 3)
    return folder / "out"


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replay of the bundled log: TLKC with a gate that withholds, and Amun, compared with each other."""
    return replayed(tmp_path_factory.mktemp("hospital"), ROOT / "examples" / "hospital.xes.gz", HOSPITAL, "--compare")


@pytest.fixture(scope="session")
def sepsis(tmp_path_factory: pytest.TempPathFactory, logs: Path) -> Path:
    """A replay of Sepsis: TLKC at n = 0, 1, 2, and differentially private statistics that use up their budget."""
    return replayed(tmp_path_factory.mktemp("sepsis"), logs / "sepsis.xes.gz", SEPSIS)


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Return the folder of screenshots, which are kept only for `make screenshots`."""
    folder = os.environ.get("SCREENSHOTS")
    return Path(folder) if folder else None
