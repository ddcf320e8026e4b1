"""No released time is after the cut, and moving times for that reveals nothing about the true times of a case."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from models.anonymize.microaggregation import microaggregated, microaggregated_after
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.run.replay import Replay

HOUR = 3_600_000_000_000
DAY = 24 * HOUR


def below(seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    return lambda n: int(generator.integers(n))


def recent_log(seed: int, cases: int = 60) -> EventLog:
    """Cases whose starts are spread over 40 days and whose steps take 10 days on average, all over by day 200."""
    generator = np.random.default_rng(seed)
    owner, names, times = [], [], []
    for case in range(cases):
        clock = int(generator.integers(40 * 24)) * HOUR
        for _ in range(int(generator.integers(1, 8))):
            owner.append(f"c{case}")
            names.append("abc"[int(generator.integers(3))])
            times.append(clock)
            clock += int(generator.exponential(10 * DAY))
    return EventLog.from_events(owner, names, np.asarray(times).astype("datetime64[ns]"))


def two_step_log(starts: list[int], durations: list[int]) -> EventLog:
    """One case a -> b for each start and duration, in hours."""
    owner = [f"c{case}" for case in range(len(starts)) for _ in "ab"]
    times = [hour for start, took in zip(starts, durations, strict=True) for hour in (start, start + took)]
    moments = np.asarray(times, dtype=np.int64) * HOUR
    return EventLog.from_events(owner, list("ab") * len(starts), moments.astype("datetime64[ns]"))


@pytest.mark.parametrize("seed", range(10))
def test_no_time_is_after_the_latest_moment(seed: int) -> None:
    """The cut may be any moment after the newest event; without one, the newest event is the bound."""
    log = recent_log(seed)
    newest = int(log.time.max())
    for latest in (None, newest, newest + DAY):
        published = microaggregated(log, 5, "minutes", below(seed), latest=latest)
        assert int(published.max()) <= (latest or newest)


@pytest.mark.parametrize("seed", range(10))
def test_no_time_of_a_cohort_is_after_the_latest_moment(seed: int) -> None:
    """Also where the steps of a cohort carry what earlier cohorts are owed."""
    pending: dict[Any, Any] = {}
    for part in range(4):
        log = recent_log(100 * seed + part, 12)
        newest = int(log.time.max())
        published, pending = microaggregated_after(log, 5, "minutes", below(seed), pending, latest=newest)
        assert int(published.max()) <= newest


def test_a_long_case_takes_an_early_start() -> None:
    """Starts at hours 0 and 90, durations of 1 and 9 hours, cut at hour 95: a case of 9 hours cannot have started at
    90. Every elapsed time and every start is still shown as often as before."""
    log = two_step_log([0, 0, 90, 90], [9, 9, 1, 1])
    for seed in range(20):
        published = microaggregated(log, 2, "hours", below(seed), latest=95 * HOUR).reshape(4, 2)
        starts, durations = published[:, 0] // HOUR, np.diff(published)[:, 0] // HOUR
        assert sorted(zip(starts.tolist(), durations.tolist(), strict=True)) == [(0, 9), (0, 9), (90, 1), (90, 1)]


def test_a_case_that_fits_no_start_ends_at_the_latest_start() -> None:
    """Four cases take 12 hours, and the cut is at hour 21: the two starts at hour 10 are too late for all of them. Two
    cases move back and end at hour 10, a moment that was published as a start, not at the moment of the cut."""
    log = two_step_log([0, 0, 10, 10], [12, 12, 12, 12])
    published = microaggregated(log, 2, "hours", below(), latest=21 * HOUR).reshape(4, 2) // HOUR
    assert Counter(map(tuple, published.tolist())) == {(0, 12): 2, (-2, 10): 2}


@pytest.mark.parametrize("seed", range(10))
def test_who_started_when_changes_nothing(seed: int) -> None:
    """The true starts of two logs are the same ones, borne by other cases: the same bytes are published."""
    generator = np.random.default_rng(seed)
    starts = generator.integers(40 * 24, size=30).tolist()
    durations = generator.integers(30 * 24, size=30).tolist()
    others = generator.permutation(starts).tolist()
    published = [
        microaggregated(two_step_log(one, durations), 5, "minutes", below(seed), latest=60 * DAY).tolist()
        for one in (starts, others)
    ]
    assert published[0] == published[1]


def test_the_arrangement_is_uniform_among_those_that_end_in_time() -> None:
    """Three starts, of which a long case can have two and short cases all: over 3,000 draws each of the two is shown by
    the long case half of the time, within 5 sigma (27)."""
    log = two_step_log([0, 10, 20], [15, 1, 1])
    seen = Counter[int]()
    draw = below(5)
    for _ in range(3_000):
        published = microaggregated(log, 1, "hours", draw, latest=25 * HOUR).reshape(3, 2) // HOUR
        long = int(np.argmax(np.diff(published)[:, 0]))
        seen[int(published[long, 0])] += 1
    assert set(seen) == {0, 10}
    assert abs(seen[0] - 1_500) < 5 * 28


@pytest.mark.parametrize("kind", ["tlkc", "tlkc-cohorts"])
def test_every_release_of_a_replay_ends_by_its_cut(tmp_path: Path, kind: str) -> None:
    """As a recipient sees it: the times in the file, against the moment of the cut in the audit."""
    log = recent_log(11, 160)
    mechanism = {"kind": kind, "K": 5, "C": 1, "suppression": "local", "effort": 1, "times": "microaggregated"}
    audit = {"bk_length": 2, "n": [0, 1], "risk": False, "utility": False}
    publication = {"name": "p", "window": {"new_cases": 40}, "mechanism": mechanism, "audit": audit}
    process = {"completion": {"log_end": True}}
    settings = Settings.model_validate({"process": process, "publication": [publication]})
    outcome = Replay(settings, tmp_path).run(log, final=True)
    sealed = [decision for _, decision in outcome.decisions if decision.status == "sealed"]
    assert len(sealed) >= 3
    for decision in sealed:
        released = read_log(tmp_path / "public" / "p" / f"release-{decision.sequence:06d}" / "log.xes.gz")
        cut = np.datetime64(decision.audit["cut"]["time"].removesuffix("+00:00"), "ns").astype(np.int64)
        assert released.time.max() <= cut


def manifest_and_header(folder: Path, mechanism: dict[str, Any]) -> tuple[list[str], str]:
    """Return the manifest of the last release of a replay, and the head of its XES file."""
    publication = {"name": "p", "window": {"every": "30d", "time": "event"}, "mechanism": mechanism}
    publication |= {"start": "1970-01-01T00:00:00Z"}
    process = {"completion": {"log_end": True}}
    settings = Settings.model_validate({"process": process, "publication": [publication]})
    Replay(settings, folder).run(recent_log(11, 160), final=True)
    release = sorted((folder / "public" / "p").iterdir())[-1]
    header = gzip.decompress((release / "log.xes.gz").read_bytes()).decode().partition("<trace>")[0]
    reading: list[str] = json.loads((release / "manifest.json").read_text())["reading"]
    return reading, header


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ({"kind": "tlkc-cohorts", "K": 5, "C": 1, "suppression": "local"}, ["Events were removed"]),
        (
            {"kind": "tlkc", "K": 20, "L": 4, "C": 1, "suppression": "local"},
            ["Events were removed", "Cases that were not over"],
        ),
        ({"kind": "identity"}, ["Cases that were not over"]),
        (
            {"kind": "dp-log", "epsilon": 5, "delta_dp": 1e-6, "max_events": 8, "max_duration": "60d",
             "start": ["1970-01-01T00:00:00Z", "1970-03-01T00:00:00Z"]},
            ["Cases that were not over", "Times carry noise"],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_release_says_how_its_ends_and_times_are_to_be_read(
    tmp_path: Path, mechanism: dict[str, Any], expected: list[str]
) -> None:
    """In the manifest and in the header of the file, which people get who see no other page."""
    reading, header = manifest_and_header(tmp_path, mechanism)
    assert len(reading) == len(expected)
    for note, beginning in zip(reading, expected, strict=True):
        assert note.startswith(beginning)
        assert note in header
