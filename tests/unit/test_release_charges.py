"""The charge of a cut against what is drawn for it: a crash and a changed configuration between the two."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from models.dp.budget import Charge
from models.errors import RefusedError
from models.eventlog import EventLog
from stream.config import sources
from stream.release import public_files
from stream.release.contract import Attempt, Decision, Exposure
from stream.release.failpoints import Faults
from stream.release.pipeline import Pipeline
from stream.release.schedule import SimulatedClock
from stream.release.stages import Built, Charged
from stream.run.service import ProcessContext, ReleaseService
from stream.testing.faults import Aborted, abort, at_nth


def _attempt(cut: str) -> Attempt:
    log = EventLog.from_traces([("ab", None)] * 200)
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    return Attempt(cut, "manual", 0, exposure, {})


def _decide(
    folder: Path,
    epsilon: str,
    delta_dp: str = "1e-6",
    at: Callable[[str], None] = lambda _name: None,
    gate: str = "",
    cut: str = "p@1.0.0",
) -> tuple[Decision, Charge]:
    """One attempt at a cut (the same one unless said) under a configuration, and what the ledger says was spent."""
    config = folder / "config.toml"
    config.write_text(
        '[[publication]]\nname = "p"\nwindow = { manual = true }\naudit = { risk = false, utility = false }\n'
        f'mechanism = {{ kind = "dp-variants", epsilon = {epsilon}, delta_dp = {delta_dp} }}\n{gate}'
    )
    service = ReleaseService(
        sources.load(config), folder / "out", faults=Faults(at), context=ProcessContext(clock=SimulatedClock())
    )
    try:
        pipeline = service.pipelines["p"]
        return pipeline.attempt(_attempt(cut)), pipeline.account.spending.summed
    finally:
        service.close()


@pytest.mark.parametrize(("epsilon", "delta_dp"), [("2", "1e-6"), ("1", "1e-3"), ("0.5", "1e-3")])
def test_a_cut_that_was_charged_less_is_not_drawn(tmp_path: Path, epsilon: str, delta_dp: str) -> None:
    """A crash after the charge, then a configuration that asks for more: the ledger keeps one charge a cut, so noise
    under the new terms would not be paid for. The cut is withheld, forever, and nothing is published."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "1", at=at_nth("charged", 1, abort))
    for first in (True, False):
        decision, spent = _decide(tmp_path, epsilon, delta_dp)
        assert decision.status == "withheld"
        assert "has charged this cut" in decision.reasons[0]
        if first:  # later ones are read from the ledger, which keeps the text
            numbers = ("epsilon", 1, 2) if epsilon == "2" else ("delta", Fraction(1, 10**6), Fraction(1, 1000))
            assert [(each.code, each.bound, each.value) for each in decision.because] == [numbers]
        assert spent == Charge(Fraction(1), Fraction(1, 10**6))
    assert not list((tmp_path / "out" / "public").glob("*/release-*"))


def test_a_cut_that_was_charged_for_other_noise_is_not_drawn(tmp_path: Path) -> None:
    """A crash after the charge, then the same epsilon divided in another way: the ledger states noise that would not be
    the noise that was drawn."""

    def decide(time_share: str, at: Callable[[str], None] = lambda _name: None) -> Decision:
        config = tmp_path / "config.toml"
        config.write_text(
            '[[publication]]\nname = "p"\nwindow = { manual = true }\naudit = { risk = false, utility = false }\n'
            f'mechanism = {{ kind = "dp-log", epsilon = 1, delta_dp = 1e-6, time_share = {time_share} }}\n'
        )
        service = ReleaseService(
            sources.load(config), tmp_path / "out", faults=Faults(at), context=ProcessContext(clock=SimulatedClock())
        )
        try:
            return service.pipelines["p"].attempt(_attempt("p@1.0.0"))
        finally:
            service.close()

    with pytest.raises(Aborted):
        decide("0.5", at=at_nth("charged", 1, abort))
    decision = decide("0.25")
    assert decision.status == "withheld"
    assert "an attempt with other noise has charged this cut" in decision.reasons[0]
    assert not list((tmp_path / "out" / "public").glob("*/release-*"))


@pytest.mark.parametrize("epsilon", ["1", "0.5"])
def test_a_cut_that_was_charged_enough_is_drawn(tmp_path: Path, epsilon: str) -> None:
    """The same crash, and terms that ask for as much or less: the charge stays and is reused."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "1", at=at_nth("charged", 1, abort))
    decision, spent = _decide(tmp_path, epsilon)
    assert decision.status == "sealed"
    assert spent == Charge(Fraction(1), Fraction(1, 10**6))


def test_what_is_drawn_for_a_burned_number_is_charged_again(tmp_path: Path) -> None:
    """Three draws that were visible, two of them lost before anybody noted that they were published: three charges, and
    the third manifest reports it."""
    for _ in range(2):
        with pytest.raises(Aborted):
            _decide(tmp_path, "0.5", at=at_nth("renamed", 1, abort))
        shutil.rmtree(tmp_path / "out" / "public" / "p")
    decision, spent = _decide(tmp_path, "0.5")
    assert (decision.status, decision.sequence) == ("sealed", 3)
    assert spent == Charge(Fraction(3, 2), Fraction(3, 10**6))
    (manifest,) = (tmp_path / "out" / "public" / "p").glob("*/manifest.json")
    assert json.loads(manifest.read_text())["budget"]["spent"]["epsilon"] == 1.5
    again, still = _decide(tmp_path, "0.5")
    assert (again.sequence, still) == (3, spent)


def test_a_crash_before_the_seal_of_a_redraw_reuses_its_charge(tmp_path: Path) -> None:
    """Nothing of it was sealed, so nobody can have seen it: one charge for the lost draw, one for what replaces it."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "0.5", at=at_nth("renamed", 1, abort))
    shutil.rmtree(tmp_path / "out" / "public" / "p")
    with pytest.raises(Aborted):
        _decide(tmp_path, "0.5", at=at_nth("built", 1, abort))
    decision, spent = _decide(tmp_path, "0.5")
    assert (decision.sequence, spent.epsilon) == (2, 1)


def test_a_redraw_that_the_budget_does_not_cover_is_withheld(tmp_path: Path) -> None:
    """The lost draw has used the budget up."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "0.5", at=at_nth("renamed", 1, abort), gate="gate = { max_epsilon = 0.9 }\n")
    shutil.rmtree(tmp_path / "out" / "public" / "p")
    decision, spent = _decide(tmp_path, "0.5", gate="gate = { max_epsilon = 0.9 }\n")
    assert (decision.status, decision.reasons) == ("withheld", ["epsilon: spent 0.5, with this release 1, limit 0.9"])
    assert spent.epsilon == Fraction(1, 2)


def test_a_cut_that_was_charged_under_other_terms_is_not_drawn(tmp_path: Path) -> None:
    """A crash after a charge of a series in which each case counts once, then a configuration of releases that add up:
    the charge would not pay for this draw. The cut is withheld, the next one charged again."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "1", at=at_nth("charged", 1, abort), gate='cases = "completed"\n')
    decision, spent = _decide(tmp_path, "1")
    assert (decision.status, len(decision.reasons)) == ("withheld", 1)
    assert "an attempt under other terms has charged this cut" in decision.reasons[0]
    assert spent == Charge(Fraction(1), Fraction(1, 10**6))
    assert not list((tmp_path / "out" / "public").glob("*/release-*"))


ONCE = 'cases = "completed"\ngate = { max_epsilon = 1 }\n'


def test_one_charge_pays_for_a_series_in_which_each_case_counts_once(tmp_path: Path) -> None:
    """Further cuts add nothing, at the very limit; a retry of a crashed attempt is the same cut; one that asks for more
    than the limit is refused."""
    one = Charge(Fraction(1), Fraction(1, 10**6))
    assert _decide(tmp_path, "1", gate=ONCE)[0].status == "sealed"
    for cut in ("p@2.0.0", "p@3.0.0"):
        with pytest.raises(Aborted):
            _decide(tmp_path, "1", at=at_nth("charged", 1, abort), gate=ONCE, cut=cut)
        decision, spent = _decide(tmp_path, "1", gate=ONCE, cut=cut)
        assert (decision.status, spent) == ("sealed", one)
    decision, spent = _decide(tmp_path, "1.5", gate=ONCE, cut="p@4.0.0")
    assert (decision.status, spent) == ("withheld", one)
    assert decision.reasons[0].startswith("epsilon: spent 1, with this release 1.5, limit 1")


def test_what_was_burned_of_such_a_series_is_not_drawn_again(tmp_path: Path) -> None:
    """Its cases have been paid for, and somebody may have seen them: the cut is withheld, and the next one is not."""
    with pytest.raises(Aborted):
        _decide(tmp_path, "1", at=at_nth("renamed", 1, abort), gate=ONCE)
    shutil.rmtree(tmp_path / "out" / "public" / "p")
    decision, spent = _decide(tmp_path, "1", gate=ONCE)
    assert (decision.status, spent.epsilon) == ("withheld", 1)
    assert decision.reasons[0].startswith("once: an earlier draw of this cut may have been seen")
    decision, spent = _decide(tmp_path, "1", gate=ONCE, cut="p@2.0.0")
    assert (decision.status, decision.sequence, spent.epsilon) == ("sealed", 2, 1)


def test_the_terms_of_such_a_series_are_looked_at_when_it_starts(tmp_path: Path) -> None:
    """Not at the next release, when an alarm at night would be the first to report it."""
    assert _decide(tmp_path, "1", gate=ONCE)[0].status == "sealed"
    with pytest.raises(RefusedError, match="declared for the life of a publication"):
        _decide(tmp_path, "1, cases_per_person = 2", gate=ONCE)


def test_an_accumulated_log_is_written_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is next to the release, each build knows which release it will be, and what is not read back as it was
    written does not leave."""
    numbers: list[int] = []
    build = Pipeline._build

    def noted(self: Pipeline, charged: Charged) -> Built:
        numbers.append(charged.inputs.number)
        return build(self, charged)

    monkeypatch.setattr(Pipeline, "_build", noted)
    terms = f'{ONCE}accumulate = "sum"\n'
    for number in (1, 2):
        assert _decide(tmp_path, "1", gate=terms, cut=f"p@{number}.0.0")[0].status == "sealed"
        release = tmp_path / "out" / "public" / "p" / f"release-{number:06d}"
        assert {"log.xes.gz", "accumulated.xes.gz"} <= {path.name for path in release.iterdir()}
    monkeypatch.setattr(public_files, "accumulated_faults", lambda *_: ["accumulated: another log"])
    decision, _ = _decide(tmp_path, "1", gate=terms, cut="p@3.0.0")
    assert (decision.status, list(decision.reasons)) == ("withheld", ["accumulated: another log"])
    assert numbers == [1, 2, 3]
