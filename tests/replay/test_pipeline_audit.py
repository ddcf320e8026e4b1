"""The audit of the whole pipeline: the faults that it was made for are planted, and it flags each; the pipeline as it
is is not flagged."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from models.dp.audit import Finding, NeighbourPair, audit, power
from stream.commands import execute as veilstream
from stream.config import publication as configuration
from stream.config.settings import Publication, Settings
from stream.fold.completion import Retention
from stream.fold.triggers import PublicationState
from stream.run import pipeline_audit
from stream.run.pipeline_audit import (
    VICTIMS,
    Run,
    Scene,
    Victim,
    claimed,
    pipeline_pairs,
    small_configuration,
)
from tests.oracles.privacy_loss import ball, precision, reference

MECHANISM = {"kind": "dp-variants", "epsilon": "0.1", "delta_dp": "0.01"}
RUNS, EVENTS = 40, 5
ALPHA = 1e-3
"""Bound on the chance that a right pipeline is flagged, for each pair. It is far smaller: with so few runs only an
event that nearly always happens on one log and nearly never on the other refutes the claim."""

AMONG, NEW_VARIANT, BEFORE, AFTER = VICTIMS


def _flagged(settings: Settings, victim: Victim, runs: int = RUNS) -> Finding | None:
    """The finding, where it refutes what the releases were charged."""
    scene = Scene()
    claim = claimed(settings, scene)
    epsilon, delta = float(claim.epsilon), float(claim.delta)
    seen = power(runs, epsilon, delta=delta, alpha=ALPHA, events=EVENTS)
    assert seen.probability is not None, "so few runs could refute nothing"
    pair = pipeline_pairs(settings, scene, (victim,))[0]
    finding = audit(pair, runs, delta=delta, alpha=ALPHA, events=EVENTS)
    return finding if finding.refutes(epsilon) else None


@pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: victim.name)
def test_the_unchanged_pipeline_is_not_flagged(victim: Victim) -> None:
    """Negative control: no person is seen beyond what the releases of the run are charged."""
    finding = _flagged(small_configuration(MECHANISM), victim)
    assert finding is None, finding


def test_a_gate_that_reads_raw_data_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault 1: `min_utility` with `charge_withheld`; one case of a new variant decides what comes."""
    monkeypatch.setattr(configuration, "refuse_impossible", lambda *_: None)
    finding = _flagged(small_configuration(MECHANISM, gate={"min_utility": 1.0, "charge_withheld": True}), NEW_VARIANT)
    assert finding is not None
    assert "attempt" in finding.witness  # withheld or sealed, or what only a sealed one shows


def test_a_first_release_after_so_many_events_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault 2: `window.first.new_events`; one case more brings the first release forward."""
    monkeypatch.setattr(Publication, "_refuse_data_cuts", lambda *_: None)
    count = 2 * Scene().common + 1
    window = {"every": "1d", "time": "wall", "first": {"new_events": count}}
    finding = _flagged(small_configuration(MECHANISM, window=window), AMONG)
    assert finding is not None
    assert "attempt" in finding.witness


def _opened_by_the_first_event(self: PublicationState, rules: Any, clock: Any, earliest: int | None, **_: Any) -> None:
    """`PublicationState.open_windows` of commit d56300e."""
    every = rules.window.every
    if every is None or self.window_end is not None or earliest is None:
        return
    known = clock.watermark if rules.window.tumbling else clock.now
    if known is not None:
        begin = min(earliest, known) if rules.window.tumbling else known
        self.window_end = begin // every * every + every


def test_windows_that_begin_at_the_first_event_are_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault 3: a person who comes before all others brings a release more."""
    monkeypatch.setattr(PublicationState, "open_windows", _opened_by_the_first_event)
    finding = _flagged(small_configuration(MECHANISM), BEFORE)
    assert finding is not None
    assert "attempt" in finding.witness


def _retired_by_the_watermark(self: Retention) -> None:
    """`Cutter.retire` of commit d56300e."""
    from stream.fold.state import PENDING

    state, retention, clock = self._state, self._rules.retention, self._clocks.read()
    if clock.watermark is None or retention is None:
        return
    leave = self._completions.complete(clock)
    leave &= state.cases["last"] <= clock.watermark - retention
    for name in self._publications.states:
        leave[state.events["case"][state.events[f"flag:{name}"] == PENDING]] = False
    if np.any(leave):
        self._remove(~leave)


def test_retention_by_the_watermark_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault 4: the last event of one person takes others out of the exposure."""
    monkeypatch.setattr(Retention, "retire", _retired_by_the_watermark)
    monkeypatch.setattr(Retention, "_retire_for", lambda *_: None, raising=False)
    finding = _flagged(small_configuration(MECHANISM), AFTER, 60)  # a count reveals it, and noise hides some of it
    assert finding is not None
    assert "('A', 'B')" in finding.witness


def test_a_run_sees_all_that_an_outsider_sees() -> None:
    """Attempts, moments, manifest, sizes and contents are in the output, and nothing that is fresh in every run."""
    output, charge = Run(small_configuration(MECHANISM), Scene(), None).output()
    assert charge == claimed(small_configuration(MECHANISM), Scene())
    what = {event[1] if isinstance(event[1], str) else event[0] for event in output if isinstance(event, tuple)}
    assert {"sealed", "at hour 48", "bytes", "manifest", "variant", "at least", "statistics attempts"} <= what
    moments = [event[3] for event in output if isinstance(event, tuple) and event[1:3] == ("manifest", "published")]
    assert moments == [f'"2024-01-0{day}T00:15:00+00:00"' for day in (2, 3, 4)]
    again, _ = Run(small_configuration(MECHANISM), Scene(), None).output()
    manifests = [
        [event for event in one if isinstance(event, tuple) and "manifest" in event] for one in (output, again)
    ]
    assert manifests[0] == manifests[1]


def test_power_says_what_so_many_runs_can_see() -> None:
    """An event that is certain on one log and impossible on the other gives exactly the bound that `power` names, and
    one of the named frequency refutes while one hit fewer does not."""
    from models.dp.audit import NeighbourPair, lower_bound, upper_bound

    seen = power(100, 0.5, delta=0.01, alpha=0.01, events=1)
    pair = NeighbourPair("certain", lambda: ["here"], list)
    assert audit(pair, 100, delta=0.01, alpha=0.01, events=1).epsilon == pytest.approx(seen.epsilon)
    assert seen.probability is not None
    hits = round(seen.probability * 50)
    error = 0.01 / 4
    bounds = [np.log((lower_bound(count, 50, error) - 0.01) / upper_bound(0, 50, error)) for count in (hits - 1, hits)]
    assert bounds[0] <= 0.5 < bounds[1]
    assert power(20, 3.0, events=20).probability is None


def test_the_command_audits_the_pipeline(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--pipeline` claims what a run is charged, says what it could have seen, and refuses where it could see nothing.

    The runs of the pairs are stubs here (the tests above have the real ones): a person who shows, and one who does not.
    """
    assert veilstream(["audit-epsilon", "--pipeline", "--runs", "20"]) == 2
    assert "nothing could be refuted; raise --runs or lower --epsilon" in " ".join(capfd.readouterr().err.split())
    assert veilstream(["audit-epsilon", "--pipeline", "--mechanism", "amun"]) == 2
    assert "not amun" in capfd.readouterr().err
    pairs = [
        NeighbourPair("hidden", lambda: ["same"], lambda: ["same"]),
        NeighbourPair("shown", lambda: ["here"], lambda: ["there"]),
    ]
    for number, verdict, code in ((1, "consistent", 0), (2, "refuted", 3)):
        monkeypatch.setattr(pipeline_audit, "pipeline_pairs", lambda *_, number=number: pairs[:number])
        assert veilstream(["audit-epsilon", "--pipeline", "--json"]) == code
        found = json.loads(capfd.readouterr().out)
        assert (found["audited"], found["verdict"], found["runs"]) == ("pipeline", verdict, 200)
        claim, last = found["claimed"]["epsilon"], found["pairs"][-1]
        delta = found["claimed"]["delta"]
        assert claim <= 0.3  # a tenth for each of three releases
        spare = Fraction(repr(delta)) - 3 * Fraction("0.01")  # each has a delta of .01
        with precision(200):
            assert reference(Fraction(0), [Fraction(1, 10)] * 3, Fraction(repr(claim))) <= ball(spare)
        seen = power(200, claim, delta=delta, alpha=0.01 / number)
        expected = {"largest_epsilon": seen.epsilon, "least_probability": seen.probability}
        assert {key: last["power"][key] for key in expected} == expected
    monkeypatch.setenv("COLUMNS", "200")
    assert veilstream(["audit-epsilon", "--pipeline"]) == 3
    table = capfd.readouterr().out
    assert table.startswith("pipeline of dp-variants: refuted")
    event = f"an event of frequency {seen.probability:.2f} on one log and 0 on the other"
    assert f"power at 200 runs: {event} refutes the claim" in table
