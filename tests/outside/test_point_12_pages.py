"""Point 12: an officer compares report and statement of two publications of the same cases."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.outside.conftest import Command

CONFIGURATION = """\
[process]
name = "ward"
[process.completion]
log_end = true
[[publication]]
name = "groups"
audience = "analysts"
window = { new_cases = 60 }
mechanism = { kind = "tlkc-cohorts", L = 2, K = 5, C = 1, suppression = "local" }
audit = { bk_length = 2, n = [0, 1], method = "exact", against = "all" }
gate = { min_ka = 5, min_fa = 5, min_ca = 5, min_ba = 5, max_minimality = 0 }
[[publication]]
name = "noise"
audience = "public"
start = "2024-01-01T00:00:00Z"
window = { every = "1d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-6 }
audit = { leakage = true }
gate = { max_epsilon = 9.0 }
[file]
encoding = "utf-8"
separator = "comma"
time_format = "iso"
"""


@pytest.fixture
def folder(veilstream: Command, table: Callable[[int], Path], tmp_path: Path) -> Path:
    """Both publications of 120 cases. Earlier versions know no `[file]`, and read the same file without it."""
    config = tmp_path / "v.toml"
    config.write_text(CONFIGURATION, encoding="utf-8")
    replay = ("replay", str(table(120)), "-c", "v.toml", "-o", "out", "--final")
    outcome = veilstream(*replay)
    if outcome.returncode == 2:
        config.write_text(CONFIGURATION.partition("[file]")[0], encoding="utf-8")
        outcome = veilstream(*replay)
    for publication in ("groups", "noise"):
        assert list((tmp_path / "out" / "public" / publication).glob("release-*")), outcome.stdout + outcome.stderr
    return tmp_path / "out"


def _report(veilstream: Command, folder: Path) -> str:
    page = folder.parent / "report.html"
    veilstream("report", "out", "-o", str(page))
    text = re.sub(r"<(style|svg).*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text)))


def test_noise_is_not_said_to_hold_bounds_on_attacks(veilstream: Command, folder: Path) -> None:
    """The report says of noise what holds for it: a limit of epsilon, and no bound on the four attacks."""
    page = _report(veilstream, folder)
    assert "all four attacks (with noise" not in page
    assert "A limit of epsilon was set" in page


def test_the_leakage_is_compared_with_the_budget(veilstream: Command, folder: Path) -> None:
    """TPL counts the same spending by another comparison. The page states it next to the number."""
    same = r"TPL \S+ with delta \S+ and epsilon \S+ with delta \S+ are about the same releases"
    assert re.search(same, _report(veilstream, folder))


def test_cases_left_out_are_no_suppressed_cases(veilstream: Command, folder: Path) -> None:
    """ "suppressed cases 0" next to "59 % kept all their events" read as a contradiction."""
    assert "suppressed cases" not in _report(veilstream, folder)


def test_the_statement_of_noise_names_the_exact_counts_of_the_same_cases(veilstream: Command, folder: Path) -> None:
    """The statement informs its signer that another publication undoes the noise."""
    page = veilstream("statement", "out", "noise").stdout
    assert "shows exact counts" in page
