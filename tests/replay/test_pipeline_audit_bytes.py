"""The audit of the pipeline begins at the bytes of the log: one person's row decides nothing about the others', and a
reader that guesses is caught."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from models.dp.audit import Finding, audit, power
from stream.config.settings import LogFile, Settings
from stream.run.pipeline_audit import (
    BYTE_VICTIMS,
    Run,
    Scene,
    Victim,
    claimed,
    pipeline_pairs,
    small_configuration,
)

VARIANTS = {"kind": "dp-variants", "epsilon": "0.1", "delta_dp": "0.01"}
KINDS: dict[str, dict[str, Any]] = {
    "dp-variants": VARIANTS,
    "dp-log": {"kind": "dp-log", "epsilon": "0.1", "delta_dp": "0.01"},
    "dp-synthetic": {
        "kind": "dp-synthetic", "epsilon": "0.1", "delta_dp": "0.01",
        "activities": ["A", "B", "C"], "sample": 50, "traces": 5,
    },
}  # fmt: skip
RUNS, EVENTS, ALPHA = 40, 5, 1e-3


class SharedRuns:
    """Runs on the log without a victim, which the audits of all victims look at.

    Each audit compares `RUNS` of them with as many runs of its own victim, so that its chance of a false alarm is that
    of an audit with runs of its own.
    """

    def __init__(self, settings: Settings, kind: str) -> None:
        self.claim = claimed(small_configuration(KINDS[kind]), Scene())
        self._run = Run(settings, Scene(), None)
        self._outputs: list[list[Hashable]] = []

    def from_the_first(self) -> Callable[[], list[Hashable]]:
        """Return a run whose n-th call gives the n-th output."""
        numbers = itertools.count()

        def run() -> list[Hashable]:
            number = next(numbers)
            if number == len(self._outputs):
                self._outputs.append(list(self._run()))
            return self._outputs[number]

        return run


@pytest.fixture(scope="module")
def shared_runs() -> dict[tuple[str, str], SharedRuns]:
    """Runs without a victim, by the reader (as it is, or the fault that is planted in it) and the kind."""
    return {}


Flag = Callable[[Settings, str, Victim], Finding | None]


@pytest.fixture
def flagged(request: pytest.FixtureRequest, shared_runs: dict[tuple[str, str], SharedRuns]) -> Flag:
    """The finding, where it refutes what the releases of the declared pipeline are charged."""

    def flagged(settings: Settings, kind: str, victim: Victim) -> Finding | None:
        # Each test of this file has one reader: tests of other readers have runs of their own.
        reader = request.function.__name__
        if (reader, kind) not in shared_runs:
            shared_runs[reader, kind] = SharedRuns(settings, kind)
        without = shared_runs[reader, kind]
        epsilon, delta = float(without.claim.epsilon), float(without.claim.delta)
        seen = power(RUNS, epsilon, delta=delta, alpha=ALPHA, events=EVENTS)
        assert seen.probability is not None, "so few runs could refute nothing"
        (pair,) = pipeline_pairs(settings, Scene(), (victim,))
        pair = replace(pair, run_one=without.from_the_first())
        finding = audit(pair, RUNS, delta=delta, alpha=ALPHA, events=EVENTS)
        return finding if finding.refutes(epsilon) else None

    return flagged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", BYTE_VICTIMS, ids=lambda victim: victim.name)
def test_no_row_is_seen_beyond_the_claim(kind: str, victim: Victim, flagged: Flag) -> None:
    """Control: with the format declared, rows in another format, encoding or none at all change nothing."""
    finding = flagged(small_configuration(KINDS[kind]), kind, victim)
    assert finding is None, finding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", BYTE_VICTIMS, ids=lambda victim: victim.name)
def test_what_no_noise_hides_is_the_same_with_and_without_the_row(kind: str, victim: Victim) -> None:
    """Attempts, moments, decisions and manifests of each kind are equal on both files."""
    settings = small_configuration(KINDS[kind])

    def certain(victim: Victim | None) -> list[Any]:
        output, _ = Run(settings, Scene(), victim).output()
        kinds = ("sealed", "withheld", "manifest")
        return [event for event in output if isinstance(event, tuple) and (event[1] in kinds or "attempts" in event[0])]

    assert certain(None) == certain(victim)
    assert any(event[1] == "sealed" for event in certain(None))


@pytest.mark.parametrize("victim", BYTE_VICTIMS, ids=lambda victim: victim.name)
def test_the_others_are_read_alike(victim: Victim, tmp_path: Any) -> None:
    """The very events of all others, from the bytes with the row and without it."""
    settings = small_configuration(VARIANTS)
    without = Run(settings, Scene(), None)._read(tmp_path / "without.csv")
    with_row = Run(settings, Scene(), victim)._read(tmp_path / "with.csv")

    def events(log: Any) -> list[tuple[Any, ...]]:
        cases = [log.case_ids[case] for case in log.case_of_event.tolist()]
        rows = zip(cases, log.activity.decode(), log.time.tolist(), strict=True)
        return sorted(row for row in rows if row[0] != "victim-0")

    assert events(with_row) == events(without)
    assert without.n_events == 2 * Scene().common


def _guessing(monkeypatch: pytest.MonkeyPatch, kind: str) -> Settings:
    """Planted bug: what is declared does not reach the reader, which finds it out from all rows, as it did."""
    monkeypatch.setattr(Settings, "promises_epsilon", property(lambda _: False))
    return small_configuration(KINDS[kind]).model_copy(update={"file": LogFile()})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", BYTE_VICTIMS[:2], ids=lambda victim: victim.name)
def test_a_reader_that_guesses_the_order_of_dates_is_caught(
    kind: str, victim: Victim, flagged: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without her row nothing distinguishes day and month, and there is no release; with it there are, or others."""
    finding = flagged(_guessing(monkeypatch, kind), kind, victim)
    assert finding is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", BYTE_VICTIMS[1:], ids=lambda victim: victim.name)
def test_a_reader_that_refuses_a_log_for_one_row_is_caught(
    kind: str, victim: Victim, flagged: Flag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bug: the format is declared, and one row that cannot be read refuses the log."""
    monkeypatch.setattr(Settings, "promises_epsilon", property(lambda _: False))
    finding = flagged(small_configuration(KINDS[kind]), kind, victim)
    assert finding is not None
