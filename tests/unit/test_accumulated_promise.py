"""The promise of a series names the accumulated logs where they leave, and only there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stream.config.publication import Publication

MECHANISMS = [
    {"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6},
    {"kind": "dp-synthetic", "epsilon": 1, "delta_dp": 1e-6, "activities": ["a", "b"]},
]


def promised(mechanism: dict[str, object], **keys: object) -> Mapping[str, str]:
    one = Publication.model_validate(
        {
            "name": "p",
            "start": "2024-01-01T00:00:00Z",
            "window": {"every": "1d", "time": "wall"},
            "cases": "completed",
            "mechanism": mechanism,
            **keys,
        }
    )
    once = one.once(person=True)
    assert once is not None
    return dict(one.build_mechanism.promise_once(once))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: str(one["kind"]))
def test_accumulated_logs_are_in_the_promise(mechanism: dict[str, object]) -> None:
    """They leave with each release, and are part of what the formula is about."""
    without = promised(mechanism)["guaranteed"]
    claim = promised(mechanism, accumulate="sum")["guaranteed"]
    assert "accumulated" not in without
    assert "in all their accumulated logs, together" in claim
    assert claim.endswith("for every set S of series of releases and accumulated logs")


def test_correlated_noise_is_in_the_promise() -> None:
    """It is named, with the adversary who uses the correlation, and with the state that removes the noise."""
    synthetic = MECHANISMS[1]
    plain = promised(synthetic, accumulate="sum", horizon=24)
    correlated = promised(synthetic, accumulate="factorized", horizon=24)
    assert "accumulated logs, together, whose noise is correlated, however many" in correlated["guaranteed"]
    assert "compares the releases and knows how their noise is correlated" in correlated["against_whom"]
    assert correlated["not_guaranteed"].endswith("key and state, can remove the noise from what was published")
    for field in ("guaranteed", "against_whom", "not_guaranteed"):
        assert "correlated" not in plain[field]
        assert "remove the noise" not in plain[field]
