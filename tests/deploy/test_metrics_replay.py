"""Metrics of a replay: values, number of series, and where they are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release.reason import CODES, of_record
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.replay import Replay

MECHANISM = {"kind": "identity"}


def tiny(folder: Path, cases: int) -> EventLog:
    """Cases of one event each, a minute apart."""
    rows = [f"c{i},a,2025-01-01T{i // 60:02}:{i % 60:02}:00Z,s{i % 2}" for i in range(cases)]
    (folder / "tiny.csv").write_text("\n".join(["case,act,time,sens", *rows]) + "\n")
    return read_log(folder / "tiny.csv", {"case": "case", "activity": "act", "time": "time"})


def settings(**more: Any) -> Settings:
    """One publication with a release every two cases and the audits that cost nothing."""
    publication = {
        "name": "research",
        "window": {"new_cases": 2},
        "mechanism": MECHANISM,
        "audit": {"bk_length": 1, "n": [0], "against": "last", "series": False, "risk": False, "utility": False},
        **more,
    }
    return Settings.model_validate({"process": {"name": "tiny", "sensitive": ["sens"]}, "publication": [publication]})


class Counting(Metrics):
    """Notes the series that exist after each release."""

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.seen: list[set[tuple[str, str]]] = []

    def decided(self, *arguments: Any) -> None:
        super().decided(*arguments)
        samples = (sample for family in self.registry.collect() for sample in family.samples)
        self.seen.append({(one.name, json.dumps(one.labels, sort_keys=True)) for one in samples})


def test_two_hundred_releases_add_no_series_after_the_second(tmp_path: Path) -> None:
    """The number of series is bounded by the configuration, not by the data or the number of releases."""
    chosen, metrics = settings(), Counting("tiny")
    Replay(chosen, tmp_path / "out", watch=MetricsObserver(chosen, metrics)).run(tiny(tmp_path, 400), final=True)
    assert len(metrics.seen) == 200
    assert set().union(*metrics.seen) == metrics.seen[1]


def test_the_third_release_begins_the_series_and_nothing_else(tmp_path: Path) -> None:
    """A series of releases is measured from three on: one gauge more, then no other with every audit switched on."""
    audit = {"bk_length": 1, "n": [0], "risk": {"points": [1], "draws": 1}, "leakage": {}}
    chosen, metrics = settings(audit=audit), Counting("tiny")
    Replay(chosen, tmp_path / "out", watch=MetricsObserver(chosen, metrics)).run(tiny(tmp_path, 20), final=True)
    assert len(metrics.seen) == 10
    later = set().union(*metrics.seen) - metrics.seen[1]
    assert {name for name, _ in later} == {"veilstream_series_worst_cases"}
    assert len(later) == 1


def test_values_are_those_of_the_log(tmp_path: Path) -> None:
    """Events, releases, bounds and withheld attempts as the configuration makes them."""
    chosen, metrics = settings(gate={"min_ka": 3}), Metrics("tiny")
    Replay(chosen, tmp_path / "out", watch=MetricsObserver(chosen, metrics)).run(tiny(tmp_path, 10), final=False)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"veilstream_{name}", {"process": "tiny", **labels})

    mine = {"publication": "research"}
    assert value("events_total") == value("open_cases") == 10
    assert value("withheld_total", **mine) == 1  # two cases cannot give KA 3; four and more can
    assert value("withheld_reasons_total", reason="ka", **mine) == 1
    assert value("withheld_streak_attempts", **mine) == 0
    assert value("releases_total", mechanism="identity", **mine) == 4
    assert value("released_cases", **mine) == 10
    assert value("anonymity_bound_cases", attack="ka", **mine) == 3
    assert value("anonymity_worst_cases", attack="ka", **mine) == 10
    assert value("watermark_timestamp_seconds", partition="log/0") == 1735689600 + 9 * 60
    assert value("decision_seconds_count", **mine) == 5
    assert value("leakage_epsilon", direction="total", **mine) is None


def test_what_attacks_leave_and_crack_is_reported_as_numbers_and_shares(tmp_path: Path) -> None:
    """Cases 1 and 2, then one more: who holds both releases knows of the third that it is new, BA = 1, so that two
    of the three that match are cracked."""
    chosen, metrics = settings(window={"new_cases": 1, "first": {"new_cases": 2}}), Metrics("tiny")
    Replay(chosen, tmp_path / "out", watch=MetricsObserver(chosen, metrics)).run(tiny(tmp_path, 3), final=False)

    def value(name: str, **labels: str) -> float | None:
        given = {"process": "tiny", "publication": "research", **labels}
        return metrics.registry.get_sample_value(f"veilstream_{name}", given)

    left = {attack: value("anonymity_cases", attack=attack, n="0") for attack in ("ka", "fa", "ca", "ba")}
    assert left == {"ka": 3, "fa": 2, "ca": 2, "ba": 1}
    cracked = {attack: value("cracked_ratio", attack=attack) for attack in ("fa", "ca", "ba")}
    assert cracked == {"fa": 0, "ca": pytest.approx(1 / 3), "ba": pytest.approx(2 / 3)}


def test_first_dead_letter_can_be_seen() -> None:
    """Counters of dead letters are at 0 from the start: Prometheus sees no increase of a series that begins at 1."""
    metrics = Metrics("tiny")
    watch = MetricsObserver(settings(late="dlq"), metrics)
    labels = {"process": "tiny", "reason": "late"}
    assert metrics.registry.get_sample_value("veilstream_dlq_records_total", labels) == 0
    watch.late(3)
    assert metrics.registry.get_sample_value("veilstream_dlq_records_total", labels) == 3


def test_endpoint_listens_on_loopback_only() -> None:
    """Figures derive from source data: nobody outside reads them unless they are configured."""
    metrics = Metrics("tiny")
    port, server = metrics.serve(0)
    try:
        assert server.server_address[0] == "127.0.0.1"
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"veilstream_releases_total" in answer.read()
    finally:
        server.shutdown()
        server.server_close()


def test_reasons_are_a_closed_list() -> None:
    """Every reason of a gate or a mechanism has one of the documented labels."""
    said = {
        "ka: 2 is below 20": "ka",
        "process budget epsilon: spent 1, with this release 2, limit 1": "process_budget",
        "no linker to release 3: the audit's premise does not hold": "premise",
        "tpl: composition gives 2, bound 1": "tpl",
        "case 4711 cannot be hidden": "mechanism",
    }
    assert {text: of_record(text).code for text in said} == said
    assert set(said.values()) <= set(CODES)
