"""The verdict that a daemon shows is the one that `veilstream releases` prints, at every moment and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.operator.history import verdicts_of
from stream.release.contract import Attempt, Exposure
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.service import ReleaseService

PLAIN = {"mechanism": {"kind": "identity"}, "audit": {"series": False, "risk": False, "utility": False}}
BOUNDS = {f"min_{one}": 20 for one in ("ka", "fa", "ca", "ba")}
NOISE = {
    "mechanism": {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-6},
    "audit": {"anonymity": False, "series": False, "leakage": False, "risk": False, "utility": False},
    "gate": {"public_cut": True, "max_epsilon": 1},
}


def settings(**publications: dict[str, Any]) -> Settings:
    tables = [{"name": name, "window": {"new_cases": 20}, **one} for name, one in publications.items()]
    return Settings.model_validate({"process": {"name": "p"}, "publication": tables})


def words(metrics: Metrics) -> dict[str, str]:
    """The word of each publication that the metrics show; exactly one of them is 1."""
    found: dict[str, str] = {}
    for family in metrics.registry.collect():
        for one in family.samples:
            if one.name == "veilstream_verdict" and one.value == 1:
                assert one.labels["publication"] not in found
                found[one.labels["publication"]] = one.labels["verdict"]
    return found


def printed(folder: Path) -> dict[str, str]:
    return {one.publication: one.verdict for one in verdicts_of(folder)}


def live(chosen: Settings, folder: Path, cuts: dict[str, list[int]]) -> dict[str, str]:
    """One life of a process: cuts of so many equal cases each; what its metrics say at the end."""
    metrics = Metrics("p", live=True)
    watch = MetricsObserver(chosen, metrics)
    service = ReleaseService(chosen, folder, watch=watch)
    try:
        watch.opened(service)
        for name, sizes in cuts.items():
            for size in sizes:
                log = EventLog.from_traces([(("a", "b"), None)] * size)
                exposure = Exposure(log, np.ones(size, dtype=np.bool_), (), 0)
                decision = service.pipelines[name].attempt(Attempt(f"{name}/{size}/0/0", "new_cases", 0, exposure, {}))
                watch.decided(name, decision, service.pipelines[name].spent.charge, 0.0)
                assert words(metrics)[name] == printed(folder)[name]
    finally:
        service.close()
    return words(metrics)


@pytest.mark.parametrize(
    ("gate", "sizes", "word"),
    [
        (BOUNDS, [25, 40], "SAFE"),
        ({"min_ka": 20}, [25], "LIMITED"),
        (BOUNDS, [3], "WITHHELD"),
        ({**BOUNDS, "on_violation": "warn"}, [3, 40], "LIMITED"),
    ],
)
def test_the_word_that_is_shown_is_the_one_that_is_printed(
    gate: dict[str, Any], sizes: list[int], word: str, tmp_path: Path
) -> None:
    """Also by the next process, which reads what appears; before its first attempt NOTHING is RELEASED."""
    chosen = settings(one={**PLAIN, "gate": gate})
    assert live(chosen, tmp_path, {}) == {"one": "NOTHING RELEASED"}
    assert live(chosen, tmp_path, {"one": sizes}) == {"one": word} == printed(tmp_path)
    assert live(chosen, tmp_path, {}) == {"one": word}


def test_a_former_publication_still_voids_the_promise(tmp_path: Path) -> None:
    """It showed the same cases without noise, and what is out stays out, whatever the configuration says now."""
    both = settings(one={**PLAIN, "gate": BOUNDS}, noise=NOISE)
    assert live(both, tmp_path, {"noise": [30]}) == {"one": "NOTHING RELEASED", "noise": "SAFE"}
    assert live(both, tmp_path, {"one": [30]}) == {"one": "SAFE", "noise": "DP VOID"}
    assert live(settings(noise=NOISE), tmp_path, {"noise": [31]})["noise"] == "DP VOID" == printed(tmp_path)["noise"]
