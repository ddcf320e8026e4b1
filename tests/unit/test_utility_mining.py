"""Utility in the words of who mines a release."""

from __future__ import annotations

import numpy as np
import pytest

from models.eventlog import EventLog
from models.utility.mining import median_throughput, mining, readable

HOUR = 3_600_000_000_000


def log(traces: list[str], hours: list[list[float]]) -> EventLog:
    owner = [f"c{case}" for case, trace in enumerate(traces) for _ in trace]
    times = np.asarray([int(hour * HOUR) for one in hours for hour in one])
    return EventLog.from_events(owner, list("".join(traces)), times, unit="ns")


SOURCE = log(["abc", "abc", "ac"], [[0, 1, 30], [0, 2, 48], [0, 96]])
RELEASED = log(["ac", "abc", "ac"], [[0, 30], [0, 2, 48], [0, 96]])


def test_throughput_is_the_median_of_cases() -> None:
    """30, 48 and 96 hours."""
    assert median_throughput(SOURCE) == 48 * 3600


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (107.5 * 30 * 86_400, "3225.0 days"),
        (86_400, "1.0 days"),
        (86_399, "24.0 hours"),
        (90, "1.5 minutes"),
        (0.25, "0.2 seconds"),
    ],
)
def test_times_are_in_units_of_people(seconds: float, words: str) -> None:
    """Never months."""
    assert readable(seconds) == words


def test_the_sentences_say_what_was_measured() -> None:
    """And what was not. With start and end: 11 steps before, 3 2 2 3 and ac 1; 10 after, 3 1 1 3 and ac 2. Half of the
    differences of their shares is 9/55."""
    model = {"fitness": 0.975, "precision": 0.5}
    assert mining(SOURCE, RELEASED, 0.9, model, timed=True).sentences() == [
        "relative log similarity 0.90",
        "directly-follows frequencies are off by 16.4 %",
        "discovered model: fitness 0.97, precision 0.50",
        "median throughput time 2.0 days, in the release 2.0 days",
    ]
    untimed = mining(SOURCE, RELEASED, 0.9, None, timed=False).sentences()
    assert untimed[2:] == [
        "discovered model: not measured",
        "median throughput time 2.0 days, in the release no times",
    ]
