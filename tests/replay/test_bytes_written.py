"""Bytes after writing, by the command line: the promise is counted on the files as a stranger reads them."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.run.replay import Replay, ReplayOutcome
from tests.conftest import ROOT

K, C = 4, 0.5
CONFIGURATION = f"""
[process]
name = "ward"
sensitive = ["Diagnose"]
completion = "log_end"
[[publication]]
name = "research"
window = {{ new_cases = 24 }}
mechanism = {{ kind = "tlkc", L = 2, K = {K}, C = {C} }}
formats = ["csv", "xes", "parquet"]
"""


def _source(path: Path, values: list[str]) -> None:
    """24 cases of `admit`, `treat`, one event a minute; `values`: the XES element of each case's Diagnose."""
    traces = []
    for number, value in enumerate(values):
        events = "".join(
            f'<event><string key="concept:name" value="{name}"/>'
            f'<date key="time:timestamp" value="2024-01-01T{number // 2:02}:{place:02}:00+00:00"/></event>\n'
            for place, name in enumerate(("admit", "treat"))
        )
        traces.append(f'<trace>\n<string key="concept:name" value="case {number}"/>\n{value}\n{events}</trace>\n')
    path.write_text(f'<?xml version="1.0"?>\n<log xmlns="http://www.xes-standard.org/">\n{"".join(traces)}</log>\n')


def _mixed() -> list[str]:
    """Ten times the number 1, ten times the text 1, and four others: no more than half of them share a value, until a
    file has no types."""
    return [
        *['<int key="Diagnose" value="1"/>'] * 10,
        *['<string key="Diagnose" value="1"/>'] * 10,
        *(f'<string key="Diagnose" value="{other}"/>' for other in "pqrs"),
    ]


def _hidden() -> list[str]:
    """The same with labels that differ in what nobody sees: DEL, NEL, an override of direction."""
    marks = ["&#x7f;", "&#x85;", "&#x202e;"]
    return [
        *(f'<string key="Diagnose" value="flu{marks[number % 3]}"/>' for number in range(20)),
        *(f'<string key="Diagnose" value="{other}"/>' for other in "pqrs"),
    ]


def _replay(folder: Path) -> Any:
    (folder / "conf.toml").write_text(CONFIGURATION)
    found = subprocess.run(
        [sys.executable, "-m", "stream.commands", "replay", str(folder / "log.xes"), "-c", str(folder / "conf.toml"),
         "-o", str(folder / "out"), "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
    )  # fmt: skip
    return found.returncode, json.loads(found.stdout)


def _seen(value: str) -> str:
    """The value as a reader sees it: what has no picture is not there."""
    return "".join(character if character.isprintable() else "\ufffd" for character in value)


@pytest.mark.parametrize("values", [_mixed, _hidden])
def test_a_value_that_files_cannot_distinguish_is_one_value(tmp_path: Path, values: Any) -> None:
    """A share above C in the CSV file is a share above C: the release is withheld, not written.

    The control, four diagnoses with six cases each, is released.
    """
    _source(tmp_path / "log.xes", values())
    code, found = _replay(tmp_path)
    for file in (tmp_path / "out").rglob("log.csv.gz"):  # what the old program published
        with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
            cases = {row["case:concept:name"]: _seen(row["case:Diagnose"]) for row in csv.DictReader(text)}
        assert max(Counter(cases.values()).values()) <= C * len(cases)
    assert (code, len(found["releases"])) == (3, 0)
    assert "infeasible" in found["withheld"][0]["reasons"][0]


def test_the_control_is_released(tmp_path: Path) -> None:
    """Values that every format can hold: the same log goes out in all three."""
    _source(tmp_path / "log.xes", [f'<int key="Diagnose" value="{number % 4}"/>' for number in range(24)])
    code, found = _replay(tmp_path)
    assert (code, found["withheld"]) == (0, [])
    assert found["releases"][0]["seconds"].keys() >= {"files", "read_back"}
    release = tmp_path / "out" / "public" / "research" / "release-000001"
    assert {path.name for path in release.iterdir()} == {"log.csv.gz", "log.xes.gz", "log.parquet", "manifest.json"}


def _run(log: EventLog, folder: Path, mechanism: dict[str, Any]) -> ReplayOutcome:
    publication = {"name": "research", "window": {"new_cases": 1_000}, "mechanism": mechanism}
    process = {"name": "ward", "sensitive": ["S"], "completion": "log_end"}
    loaded = Settings.model_validate({"process": process, "publication": [{**publication, "formats": ["csv"]}]})
    return Replay(loaded, folder).run(log, final=True)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "tlkc", "L": 2, "K": 4, "C": 0.5},
        {"kind": "tlkc-cohorts", "L": 2, "K": 4, "C": 0.5, "min_share": 0},
        {"kind": "lcs-start", "L": 2, "K": 4, "C": 0.5},
    ],
    ids=lambda mechanism: mechanism["kind"],
)
def test_planted_a_writer_that_merges_values_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: dict[str, Any]
) -> None:
    """Without the written form the solver sees 1 and "1", the file shows one value: the check of the bytes finds it,
    withholds, and nobody sees the file."""
    log = EventLog.from_traces([("ab", 1)] * 10 + [("ab", "1")] * 10, "S")
    for module in ("stream.run.service", "stream.release.mechanisms.cohorts"):
        monkeypatch.setattr(f"{module}.written", lambda log, _names: log)
    outcome = _run(log, tmp_path / "out", mechanism)
    assert [decision.status for _, decision in outcome.decisions] == ["withheld"]
    assert outcome.decisions[0][1].reasons[0].startswith("read back from log.csv.gz: seq: ")
    assert not list((tmp_path / "out" / "public").rglob("log.csv.gz"))


def test_planted_a_writer_that_loses_events_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every mechanism, the files that are read back have the built cases and events."""
    from stream.release import public_files

    log = EventLog.from_traces([("ab", "x")] * 3, "S")
    whole = public_files.write_log
    monkeypatch.setattr(
        public_files, "write_log", lambda log, path, **more: whole(log.select_events(log.time < 1), path, **more)
    )
    outcome = _run(log, tmp_path / "out", {"kind": "identity"})
    assert outcome.decisions[0][1].reasons == ["read back from log.csv.gz: 3 cases and 3 events, not 3 and 6"]


@pytest.mark.parametrize(("kind", "what"), [("baseline-1", "trace"), ("baseline-2", "trace"), ("pretsa", "prefix")])
def test_planted_a_writer_that_swaps_labels_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, what: str
) -> None:
    """Baselines promise K cases a trace (or prefix): one case with another label breaks it."""
    from dataclasses import replace

    from models.eventlog import Column
    from stream.release import public_files

    log = EventLog.from_traces([("ab", "x")] * 3 + [("ac", "y")] * 3, "S")
    whole = public_files.write_log

    def swapping(log: EventLog, path: Path, **more: Any) -> None:
        names = log.activity.decode()
        whole(replace(log, activity=Column.encode(["z", *names[1:]])), path, **more)

    monkeypatch.setattr(public_files, "write_log", swapping)
    outcome = _run(log, tmp_path / "out", {"kind": kind, "K": 3})
    assert outcome.decisions[0][1].reasons == [f"read back from log.csv.gz: a {what} is shared by 1 cases (K = 3)"]


def test_anonymize_counts_values_as_they_are_written(tmp_path: Path) -> None:
    """The same normalisation for one log by hand: refused as infeasible (exit 2), nothing written."""
    _source(tmp_path / "log.xes", _mixed())
    found = subprocess.run(
        [sys.executable, "-m", "stream.commands", "anonymize", str(tmp_path / "log.xes"), "-o", str(tmp_path / "o.csv"),
         "--sensitive", "Diagnose", "--L", "2", "--K", "4", "--C", "0.5"],
        capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
    )  # fmt: skip
    assert (found.returncode, (tmp_path / "o.csv").exists()) == (2, False)
    assert "C = 0.5 is infeasible" in found.stderr
    assert "tlkc-cohorts: it lets cases wait" in " ".join(found.stderr.split())


def test_what_leaves_is_what_was_read_back(tmp_path: Path) -> None:
    """The control of the planted faults: without one the release is there, and reads as it was built."""
    log = EventLog.from_traces([("ab", "x")] * 10 + [("ab", "y")] * 10, "S")
    outcome = _run(log, tmp_path / "out", {"kind": "tlkc", "L": 2, "K": 4, "C": 0.5})
    assert [decision.status for _, decision in outcome.decisions] == ["sealed"]
    assert read_log(next((tmp_path / "out").rglob("log.csv.gz"))).traces() == [("a", "b")] * 20
