"""The promise of a series names the accumulated logs where they leave, and only there."""

from __future__ import annotations

import pytest

from stream.config.publication import Publication

MECHANISMS = [
    {"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6},
    {"kind": "dp-synthetic", "epsilon": 1, "delta_dp": 1e-6, "activities": ["a", "b"]},
]


def guaranteed(mechanism: dict[str, object], **keys: str) -> str:
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
    return str(one.build_mechanism.promise_once(once)["guaranteed"])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: str(one["kind"]))
def test_accumulated_logs_are_in_the_promise(mechanism: dict[str, object]) -> None:
    """They leave beside each release, and are part of what the formula is about."""
    without, beside = guaranteed(mechanism), guaranteed(mechanism, accumulate="sum")
    assert "accumulated" not in without
    assert "in all their accumulated logs, together" in beside
    assert beside.endswith("for every set S of series of releases and accumulated logs")
