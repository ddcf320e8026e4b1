"""Process maps of the field: what a case adds to AIM's tables, how programs are asked, and what the page states."""

from __future__ import annotations

import sys
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.field import maps
from benchmarks.field.maps import AIM, DPIM, MAP, SYNTHETIC, AimSteps, Peer, map_key, steps_error, walks
from benchmarks.field.page import page
from benchmarks.field.tools import PeerError
from models.dp.synthesis.table import VariantCounts
from models.eventlog import EventLog
from models.utility.similarity import dfg_error

LABELS = ("A", "B", "C")
BASE = [(("A", "B", "C"), None)] * 5 + [(("A",), None)]
ANOTHER_CASE = {
    "short": ("B",),
    "of the same activity, longer than any cap": ("A",) * 60,
    "of alternating activities": ("A", "C") * 7,
    "empty": (),
}


def log_of(*traces: tuple[str, ...]) -> EventLog:
    return EventLog.from_traces([(trace, None) for trace in traces])


def cells_of(log: EventLog, cap: int, positions: int = 20) -> np.ndarray[Any, Any]:
    """All cells of the table of steps, with A, B and C as the activities."""
    steps = AimSteps.of(VariantCounts.of(log, LABELS), cap, positions)
    cells = np.zeros(steps.sizes)
    cells[tuple(steps.rows.T)] = steps.weights
    return cells


@pytest.mark.parametrize("setting", maps.AIM_SETTINGS, ids=str)
@pytest.mark.parametrize("trace", ANOTHER_CASE.values(), ids=ANOTHER_CASE.keys())
def test_a_case_changes_every_marginal_by_at_most_one(trace: tuple[str, ...], setting: tuple[int, int]) -> None:
    """In L1, over any columns: as one row does, which is what AIM's claim is for."""
    without = cells_of(EventLog.from_traces(BASE), *setting)
    change = cells_of(EventLog.from_traces([*BASE, (trace, None)]), *setting) - without
    for summed in chain.from_iterable(combinations(range(3), size) for size in range(4)):
        assert np.abs(change.sum(axis=summed)).sum() <= 1 + 1e-9
    assert change.sum() == pytest.approx(min(1.0, (len(trace) + 1) / setting[0]))


def test_walks_follow_the_activity_and_the_position() -> None:
    """The first A is followed by another A, the second one by B."""
    traces = walks(cells_of(log_of(*[("A", "A", "B")] * 40), 1))
    assert traces == {(0, 0, 1): 40}


def test_walks_read_other_positions_where_a_position_is_not_known() -> None:
    """B is followed by C at the only position that has it, so at every other one too."""
    cells = np.zeros((4, 4, 5))
    cells[3, 0, 0] = 30.0  # start to A
    cells[0, 1, 1] = 30.0  # A to B
    cells[1, 2, 4] = 30.0  # B to C, at a position that no walk reaches with B
    assert set(walks(cells)) == {(0, 1, 2)}


def test_error_of_steps_is_that_of_logs() -> None:
    """The one measure of all rows of the table."""
    true, other = log_of(("A", "B"), ("A", "C"), ("B",)), log_of(("A", "B", "B"), ("C",))
    counts = [maps._true_steps(VariantCounts.of(log, LABELS)) for log in (true, other)]
    assert steps_error(*counts) == pytest.approx(dfg_error(true, other))
    assert steps_error(counts[0], np.zeros((4, 4))) == 1.0


FAKE_AIM = """
import numpy as np
class AIM:
    def __init__(self, epsilon, delta):
        assert (epsilon, delta) == (0.5, 1e-6)
    def run(self, data, workload):
        assert workload == [(("previous", "next", "position"), 1.0)]
        print("progress")
        return data, None
"""
FAKE_MBI = """
import numpy as np
class Domain:
    def __init__(self, names, sizes):
        self.sizes = sizes
class Dataset:
    def __init__(self, rows, domain, weights):
        self.cells = np.zeros(domain.sizes)
        self.cells[tuple(rows.T)] = weights
    def project(self, columns):
        return self
    def datavector(self):
        return self.cells.ravel()
"""


def test_aim_is_asked_with_the_weighted_steps(tmp_path: Path) -> None:
    """A program without noise gives the log back, where no case is longer than the cap."""
    (tmp_path / "aim.py").write_text(FAKE_AIM)
    (tmp_path / "mbi.py").write_text(FAKE_MBI)
    log = log_of(*[("A", "B", "C")] * 20)
    traces, error, _ = maps.aim_release(log, 0.5, (4, 20), Peer(sys.executable, str(tmp_path)))
    assert traces == {("A", "B", "C"): 20}
    assert error == pytest.approx(0)


FAKE_DPIM = """
import pm4py
class DPIM:
    def create_tree(self, permutations, traceList, epsilon, event_log):
        assert (self.lower_bound, self.upper_bound, self.fit_trehsold, epsilon) == (5, 8, 0.85, 0.5)
        print("progress")
        return False if traceList == 1 else pm4py.parse_process_tree("->('A', 'B')")
"""
FAKE_PARSING = """
class xesFile:
    def createPermutations_XES(self, log):
        return [], len(log), 3
"""


# Each release starts a program of its own, which imports pm4py.
@pytest.mark.slow
@pytest.mark.parametrize("cases", [1, 4])
def test_dpim_gives_a_model_or_none(tmp_path: Path, cases: int) -> None:
    """Its bounds are cut to what the number of activities allows, as the program does it."""
    (tmp_path / "utils").mkdir()
    (tmp_path / "main.py").write_text(FAKE_DPIM)
    (tmp_path / "utils" / "eventLog_parsing.py").write_text(FAKE_PARSING)
    log = log_of(*[("A", "B")] * cases)
    peer = Peer(sys.executable, str(tmp_path))
    summary = maps.measured_maps("bpic2013-incidents", log, 0.5, DPIM, peer=peer, releases=1)
    assert summary["releases"] == 1
    assert summary["without_model"] == (1 if cases == 1 else 0)
    assert "dfg_error" not in summary
    if cases > 1:
        assert summary["fitness"] == summary["precision"] == summary["f1"] == summary["f1_least"] == 1.0


def test_a_program_that_is_not_installed_is_a_note(tmp_path: Path) -> None:
    log = log_of(("A", "B"))
    with pytest.raises(PeerError, match="not installed"):
        maps.aim_release(log, 1.0, (1, 1), Peer(str(tmp_path / "none"), ""))
    summary = maps.measured_maps("sepsis", log, 1.0, DPIM, peer=Peer(sys.executable, str(tmp_path)))
    assert (summary["releases"], summary["note"]) == (0, "not installed")


def test_ours_are_measured_by_the_same_miner_and_measure() -> None:
    """Where noise is small (epsilon is 50), the counts of ours are near, and their models fit the log."""
    log = log_of(*[("A", "B", "C")] * 3000)
    for program in (MAP, SYNTHETIC):
        summary = maps.measured_maps("sepsis", log, 50.0, program, peer=None, releases=1)
        assert summary["dfg_error"] < 0.05
        assert summary["fitness"] > 0.95
        fitness, precision = summary["fitness"], summary["precision"]
        assert summary["f1"] == pytest.approx(2 * fitness * precision / (fitness + precision))
        assert summary["f1_least"] == summary["f1"]


def test_page_states_where_dp_model_is_behind() -> None:
    """By measure; a program without counts is compared by F1 alone."""

    def result(dfg: float | None, f1: float, **other: Any) -> dict[str, Any]:
        figures = {"fitness": 0.5, "precision": 0.5, "f1": f1, "f1_least": f1, "f1_most": f1, "cpu": 1.0}
        counted = {} if dfg is None else {"dfg_error": dfg}
        return {"releases": 5, "without_model": 0, "note": "", **figures, **counted, **other}

    results = {
        map_key("sepsis", 1.0, MAP): result(0.1, 0.5),
        map_key("sepsis", 1.0, SYNTHETIC): result(0.1, 0.6),
        map_key("sepsis", 1.0, AIM): result(0.05, 0.5),
        map_key("sepsis", 1.0, DPIM): result(None, 0.7, without_model=2, note="more than 600 CPU s"),
        map_key("sepsis", 0.1, AIM): {"releases": 0, "without_model": 0, "note": "not installed"},
    }
    shown = page(results)
    assert "| sepsis | 1 | AIM | dp-synthetic (ours), DPIM |" in shown
    assert "| sepsis | 1 | DPIM | 5, 2 without a model, then more than 600 CPU s | - | 0.5 | 0.5 | 0.7 |" in shown
    assert "| sepsis | 0.1 | AIM | none: not installed |" in shown
    assert "| sepsis | 0.1 | dp-model (ours) | not run |" in shown
