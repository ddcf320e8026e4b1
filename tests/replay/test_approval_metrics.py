"""Metrics of held releases: how many, for how long, and what a decision changes."""

from __future__ import annotations

import time
from pathlib import Path

from stream.config import sources
from stream.release.approval import PersonDecision
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.service import ReleaseService
from tests.replay.approving import PLAIN, configured, replayed
from tests.replay.crashing import sample


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The value of one series of the publication."""
    return metrics.registry.get_sample_value(
        f"veilstream_{name}", {"process": "crash", "publication": "plain", **labels}
    )


def test_a_held_release_is_counted_until_it_is_decided_on(tmp_path: Path) -> None:
    """No release yet and none withheld by the gate; its age grows by itself; approved it is the latest release."""
    sample(tmp_path)
    settings = sources.load(configured(tmp_path, PLAIN))
    metrics = Metrics("crash")
    before = time.time()
    replayed(tmp_path, watch=MetricsObserver(settings, metrics))
    assert (value(metrics, "held_releases"), value(metrics, "releases_total", mechanism="identity")) == (1, 0)
    assert (value(metrics, "withheld_total"), value(metrics, "withheld_reasons_total", reason="held")) == (3, 3)
    assert value(metrics, "withheld_streak_attempts") == 0

    metrics = Metrics("crash", live=True)
    watch = MetricsObserver(settings, metrics)
    service = ReleaseService(settings, tmp_path / "out", watch=watch)
    try:
        watch.opened(service)
        first = value(metrics, "held_age_seconds") or 0
        assert 0 < first <= time.time() - before + 1
        assert (value(metrics, "held_age_seconds") or 0) > first
        assert value(metrics, "release_timestamp_seconds") is None
        service.rule(PersonDecision("plain", 1, "approve", by="Ann", why="x"))
        assert (value(metrics, "held_releases"), value(metrics, "held_age_seconds")) == (0, 0)
        assert value(metrics, "releases_total", mechanism="identity") == 1
        assert (value(metrics, "release_timestamp_seconds") or 0) >= before
    finally:
        service.close()


def test_a_superseded_release_is_not_counted_as_held(tmp_path: Path) -> None:
    """Four were sealed, and one waits."""
    sample(tmp_path)
    settings = sources.load(configured(tmp_path, {**PLAIN, "hold": "supersede"}))
    metrics = Metrics("crash")
    replayed(tmp_path, watch=MetricsObserver(settings, metrics))
    assert (value(metrics, "held_releases"), value(metrics, "withheld_total")) == (1, 0)
