"""Tables 1-4 of differentially-private-release-2023, and the automata of three public logs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.dp import guessing
from models.dp.amun import AmunSettings, event_epsilons, filtered
from models.dp.annotation import AnnotatedLog, annotate
from models.dp.dafsa import minimal_dafsa
from models.dp.priors import prior_probabilities
from models.eventlog import EventLog, SimpleLog
from tests.conftest import golden
from tests.oracles.dp import posterior

PAPER = golden("dp_paper_example.json")
ROWS: list[dict[str, Any]] = PAPER["rows"]
SETTINGS = AmunSettings(0.3, "filtering", prior="paper-tables")


def _table_1() -> EventLog:
    midnight = 1_596_844_800  # 2020-08-08 00:00 UTC
    stamps = [(midnight + 60 * row["day0_minutes"]) * 1_000_000_000 for row in ROWS]
    return EventLog.from_events([r["case"] for r in ROWS], [r["activity"] for r in ROWS], np.asarray(stamps), unit="ns")


def _annotated() -> AnnotatedLog:
    return annotate(_table_1())


def _counts(annotated: AnnotatedLog) -> dict[str, int]:
    """Counts by the paper's names of states, found through the golden list of transitions."""
    names = {"0": "s0"}
    automaton = annotated.dafsa
    labels = annotated.log.activity.values
    for _ in range(automaton.n_states):
        for number in range(automaton.n_transitions):
            source = names.get(str(automaton.source[number]))
            for edge in PAPER["transitions"]:
                if edge["src"] == source and edge["act"] == labels[automaton.label[number]]:
                    names[str(automaton.target[number])] = edge["tgt"]
    return {
        f"{names[str(automaton.source[t])]},{labels[automaton.label[t]]},{names[str(automaton.target[t])]}": int(count)
        for t, count in enumerate(annotated.counts)
        if count
    }


def test_table_2_states_and_counts() -> None:
    """The example's automaton has the paper's states, transitions and counts."""
    annotated = _annotated()
    assert annotated.dafsa.n_states == PAPER["n_states"]
    assert annotated.dafsa.n_transitions == len(PAPER["transitions"])
    assert int(annotated.dafsa.final.sum()) == len(PAPER["final"])
    assert _counts(annotated) == PAPER["counts_all_6_cases"]


def test_table_2_priors() -> None:
    """Every P_k of Table 2 comes from the reading that reproduces the tables."""
    priors = prior_probabilities(_annotated(), 0.3, "paper-tables")
    assert priors.tolist() == pytest.approx([row["pk_code"] for row in ROWS], abs=1e-12)


def test_closed_window_priors() -> None:
    """Equation 1 with a closed window, seconds and whole days, gives the alternatives; constants the worst case."""
    priors = prior_probabilities(_annotated(), 0.3)
    constant = {("4", 1), ("2", 1), ("2", 2), ("5", 1)}
    for row, prior in zip(ROWS, priors, strict=True):
        alternatives = row["pk_alternatives"]
        expected = alternatives["closed_1day"] if row["pos"] == 0 else alternatives["closed_10s"]
        if row["pos"] and (row["case"], row["pos"]) in constant:
            expected = 0.35
        assert prior == pytest.approx(expected, abs=1e-12), (row["case"], row["pos"])


def test_table_3_filter_priors_and_epsilons() -> None:
    """The filter drops the first case; the rest has Table 3's new priors and eps_t."""
    kept, mask = filtered(_annotated(), SETTINGS)
    assert np.flatnonzero(~mask).tolist() == [int(case) - 1 for case in PAPER["filtered_cases"]]
    rows = [row for row in ROWS if row["pk_after_filter_code"] is not None]
    assert prior_probabilities(kept, 0.3, "paper-tables").tolist() == pytest.approx(
        [row["pk_after_filter_code"] for row in rows], abs=1e-12
    )
    assert event_epsilons(kept, SETTINGS).tolist() == pytest.approx([row["eps_t_code"] for row in rows], abs=1e-9)
    printed = [row["printed_table3"][1] for row in rows]
    assert event_epsilons(kept, SETTINGS).tolist() == pytest.approx(printed, abs=0.0101)


def test_table_4_counts() -> None:
    """The contingency table after the filter is Table 4's."""
    assert _counts(filtered(_annotated(), SETTINGS)[0]) == PAPER["counts_after_filter_table4"]


def test_epsilons_of_counts_and_oversampling() -> None:
    """eps_d and proposition A.6 at every listed delta."""
    for delta, epsilon in PAPER["eps_d"].items():
        assert guessing.epsilon_of_counts(float(delta)) == pytest.approx(epsilon, abs=1e-12)
        assert AmunSettings(float(delta), "sampling").epsilon_counts == pytest.approx(epsilon, abs=1e-12)
    for delta, epsilon in PAPER["eps_oversampling_A6"].items():
        assert AmunSettings(float(delta), "oversampling").epsilon_counts == pytest.approx(epsilon, abs=1e-12)


def test_equation_3_samples() -> None:
    """Equation 3 at the listed priors."""
    for sample in PAPER["eps_eq3_samples"]:
        epsilon = guessing.epsilon_of_times(np.asarray([sample["P"]]), sample["delta"])
        assert epsilon[0] == pytest.approx(sample["eps"], abs=1e-12)


def test_composition_counterexample() -> None:
    """Cells compose: the advantage of k cells grows past delta, up to tanh(k eps_d / 4)."""
    for row in PAPER["composition_counterexample"]:
        total = row["cells"] * row["eps_d"]
        assert guessing.worst_case_advantage(total) == pytest.approx(row["worst_case_advantage"], abs=1e-12)
        gained = float(posterior(row["P"], total)) - row["P"]
        assert gained == pytest.approx(row["true_advantage_at_paper_P"], abs=1e-9)
        assert math.isclose(gained, row["delta"], abs_tol=1e-9) == (row["cells"] == 1)


@pytest.mark.logs
@pytest.mark.parametrize("name", ["Sepsis", "Unrineweginfectie", "CCC19"])
def test_automata_of_public_logs(logs: Path, name: str) -> None:
    """States and transitions equal those of the authors' construction."""
    from connectors import read_log

    file = {"Sepsis": "sepsis", "Unrineweginfectie": "urineweginfectie", "CCC19": "ccc19"}[name]
    expected = PAPER["dafsa_sizes_verified_against_authors_java"][name]
    simple = SimpleLog.from_log(read_log(logs / f"{file}.xes.gz"))
    automaton = minimal_dafsa(simple.variants)
    assert (len(simple.variants), automaton.n_states, automaton.n_transitions) == (
        expected["variants"],
        expected["states"],
        expected["transitions"],
    )


@pytest.mark.logs
@pytest.mark.parametrize("delta", ["0.2", "0.3", "0.4"])
def test_average_epsilon_of_table_6(logs: Path, delta: str) -> None:
    """The paper's prior gives the paper's average epsilon of Urineweginfectie within 3 %."""
    from connectors import read_log

    annotated = annotate(read_log(logs / "urineweginfectie.xes.gz"))
    epsilons = event_epsilons(annotated, AmunSettings(float(delta), "sampling", prior="paper-tables"))
    printed = golden("dp_paper_tables.json")["table6"]["Unrineweginfectie"][delta]["avg_phi"]
    assert float(epsilons.mean()) == pytest.approx(printed, rel=0.03)
