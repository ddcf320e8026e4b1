"""The model of a process map: the traces it is mined from, and the choice among several models."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from models.eventlog import EventLog
from models.utility import map_model
from models.utility.discovery import model_quality, quiet_pm4py
from models.utility.graphs import Agreement

SEQUENCE = (0, 1, 2, 3, 4)
RARE = [trace for trace in itertools.permutations(range(5)) if trace != SEQUENCE][::9]
NOISY = {SEQUENCE: 600} | dict.fromkeys(RARE, 10)
LABELS = tuple("abcde")


def test_frequent_traces_have_their_part_of_the_cases() -> None:
    """The most frequent ones come first; of equal numbers the shorter ones."""
    traces = {(0, 1, 0): 20, (0, 1): 50, (1, 0, 1): 10, (1, 0): 20}
    assert map_model.most_frequent(traces, 0.5) == {(0, 1): 50}
    assert map_model.most_frequent(traces, 0.51) == {(0, 1): 50, (1, 0): 20}
    assert list(map_model.most_frequent(traces, 0.8)) == [(0, 1), (1, 0), (0, 1, 0)]
    assert map_model.most_frequent(traces, 1.0) == traces


def test_a_label_of_rare_traces_alone_keeps_the_most_frequent_of_them() -> None:
    """Token replay would not count an activity that the model lacks."""
    traces = {(0,): 90, (0, 2): 5, (1, 2): 3, (2, 1): 2}
    assert map_model.most_frequent(traces, 0.5) == {(0,): 90, (0, 2): 5, (1, 2): 3}


def test_measured_cases_are_spread_over_all_traces() -> None:
    """Each trace has its share of them, up to one case; a small map is measured whole."""
    traces = {(place,): 10 * (place + 1) for place in range(8)}
    chosen = map_model.evenly(traces, 90)
    assert sum(chosen.values()) == 90
    assert all(abs(chosen[trace] - number / 4) < 1 for trace, number in traces.items())
    assert map_model.evenly(traces, 360) == traces
    assert map_model.evenly(traces, 1) == {(5,): 1}


def _rated(monkeypatch: pytest.MonkeyPatch, *figures: tuple[float, float]) -> Any:
    """Return the model that is chosen among models of this fitness and precision; its name is its place."""
    measured: list[EventLog] = []

    def quality(pm4py: Any, log: EventLog, net: str, method: str) -> Agreement:
        measured.append(log)
        assert method == "replay"
        return Agreement(*figures[int(net)])

    monkeypatch.setattr(map_model, "model_quality", quality)
    program = SimpleNamespace(convert_to_petri_net=lambda tree: tree)
    chosen = map_model._best(program, map(str, range(len(figures))), NOISY)
    assert {log.n_cases for log in measured} == {500}
    return chosen


def test_the_model_of_the_largest_f1_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fitness and precision together, neither alone."""
    assert _rated(monkeypatch, (1.0, 0.4), (0.9, 0.8), (0.5, 1.0)) == "1"


def test_of_models_that_are_equally_good_the_one_of_most_cases_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within what the measured cases tell apart."""
    assert _rated(monkeypatch, (0.4, 0.4), (0.81, 0.81), (0.82, 0.82)) == "1"
    assert _rated(monkeypatch, (0.4, 0.4), (0.79, 0.79), (0.82, 0.82)) == "2"


def _quality(labels: tuple[str, ...] = LABELS) -> tuple[float, set[str | None]]:
    """F1 of the model of noisy traces on the traces without noise, and its activities."""
    log = EventLog.from_traces([("".join(LABELS), None)] * 10)
    with quiet_pm4py() as pm4py:
        net = map_model.petri_net(pm4py, NOISY, labels)
        return model_quality(pm4py, log, net, "replay").f1, {place.label for place in net[0].transitions}


def test_rare_traces_make_no_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence that four of five cases take is the model; mined once, from all traces, it is a flower."""
    chosen, activities = _quality()
    assert chosen == pytest.approx(1.0)
    assert activities >= set(LABELS)
    monkeypatch.setattr(map_model, "PARTS", (1.0,))
    monkeypatch.setattr(map_model, "THRESHOLDS", (0.2,))
    assert _quality()[0] < 0.6


def test_a_map_of_many_labels_is_mined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model is that of all traces by the usual threshold, and nothing is measured."""

    def refused(*_: Any) -> Agreement:
        raise AssertionError

    monkeypatch.setattr(map_model, "model_quality", refused)
    monkeypatch.setattr(map_model, "MOST_LABELS", 4)
    assert _quality()[0] < 0.6
    monkeypatch.setattr(map_model, "MOST_LABELS", 5)
    with pytest.raises(AssertionError):
        _quality()
