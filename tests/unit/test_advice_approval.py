"""Warnings of check-config about releases that a person approves."""

from __future__ import annotations

import pytest

from stream.config.lint import warnings
from stream.config.settings import Settings

COHORTS = {"kind": "tlkc-cohorts", "L": 1, "K": 4, "C": 1.0}
DP = {"kind": "dp-variants", "epsilon": 1.0, "delta_dp": 1e-3}
DAILY = {"every": "1d", "time": "wall"}


def settings(*publications: dict[str, object]) -> Settings:
    """Publications a, b, ... of one audience."""
    named = [{"name": "ab"[at], **one} for at, one in enumerate(publications)]
    return Settings.model_validate({"process": {"completion": {"end_activities": ["d"]}}, "publication": named})


@pytest.mark.parametrize(
    ("hold", "sentence"), [("block", "each later cut is refused"), ("supersede", "newer one replaces")]
)
def test_cases_that_a_late_decision_costs_are_said(hold: str, sentence: str) -> None:
    """Each case is in one release at most: what is not released then is lost."""
    one = {"window": DAILY, "mechanism": DP, "cases": "completed", "hold": hold}
    assert any(sentence in warning for warning in warnings(settings({**one, "approval": "required"})))
    assert not any("lost: with" in warning for warning in warnings(settings(one)))


def test_cohorts_that_overtake_a_held_release_are_said() -> None:
    """They continue one memory; alone there is nothing to say."""
    one = {"window": {"new_cases": 10}, "mechanism": COHORTS}
    held = {**one, "approval": "required"}
    assert any("impossible to approve" in warning for warning in warnings(settings(held, one)))
    for quiet in ((held,), (one, one)):
        assert not any("impossible to approve" in warning for warning in warnings(settings(*quiet)))
