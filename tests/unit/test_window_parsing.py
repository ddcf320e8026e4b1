"""Windows as they are in a configuration file."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import ValidationError

from models.errors import InputError
from stream.config.faults import explain
from stream.config.window import read_window
from stream.fold.window import First, Window

DAY = 86_400_000_000_000


def test_durations_become_nanoseconds():
    """`7d` is seven days of 86,400 seconds."""
    window = read_window({"every": "7d", "allowed_lateness": "1h", "idle_timeout": "30s"})
    assert (window.every, window.allowed_lateness, window.idle_timeout) == (7 * DAY, DAY // 24, 30_000_000_000)
    assert window.tumbling


def test_first_until_is_exact_to_the_nanosecond():
    """A moment survives as an integer: a float would be off by up to 256 ns today."""
    window = read_window({"new_cases": 1, "first": {"until": "2014-05-01T00:00:00.000001Z"}})
    assert window.first == First(until=1_398_902_400_000_001_000)
    assert Window.from_mapping(window.to_mapping()) == window


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"new_cases": 0}, "window.new_cases"),
        ({"new_cases": -1}, "window.new_cases"),
        ({"new_cases": 1.5}, "window.new_cases"),
        ({"new_cases": True}, "window.new_cases"),
        ({"new_cases": float("nan")}, "window.new_cases"),
        ({"new_evnts": 3}, "window.new_evnts"),
        ({"every": "0d"}, "window.every"),
        ({"every": "-1d"}, "window.every"),
        ({"every": 7}, "window.every"),
        ({"every": "7d", "time": "broker"}, "window.time"),
        ({"new_cases": 1, "time": "wall"}, "window.time"),
        ({"every": "7d", "time": "wall", "allowed_lateness": "1h"}, "window.allowed_lateness"),
        ({"events_per_case": {}}, "window.events_per_case.x"),
        ({"events_per_case": {"x": 0}}, "window.events_per_case.x"),
        ({"events_per_case": {"x": 1, "mode": "atmost"}}, "window.events_per_case.mode"),
        ({"events_per_case": {"x": 1, "fraction": 0}}, "window.events_per_case.fraction"),
        ({"events_per_case": {"x": 1, "fraction": float("nan")}}, "window.events_per_case.fraction"),
        ({"events_per_case": {"x": 1, "max_wait": "0s"}}, "window.events_per_case.max_wait"),
        ({"new_cases": 1, "first": {}}, "window.first"),
        ({"new_cases": 1, "first": {"until": "2014-05-01", "new_cases": 1}}, "window.first"),
        ({"new_cases": 1, "first": {"until": "2014-05-01T00:00:00"}}, "window.first.until"),
        ({"new_cases": 1, "first": {"until": date(2014, 5, 1)}}, "window.first.until: '2014-05-01' has no time zone"),
        ({"new_cases": 1, "first": {"until": "0001-01-01T00:00:00+05:00"}}, "window.first.until: a time outside"),
        ({"new_cases": 1, "first": {"until": "9999-12-31T00:00:00Z"}}, "window.first.until: a time outside"),
        ({"new_cases": 1, "first": {"paper_split": 1.0}}, "window.first.paper_split"),
        ({"new_cases": 1, "first": {"events_fraction": float("inf")}}, "window.first.events_fraction"),
        ({"new_cases": 1, "first": 0.5}, "window.first"),
        ({}, "window"),
        ({"skip_if_unchanged": True}, "window"),
        ({"manual": "yes"}, "window.manual"),
    ],
)
def test_what_cannot_be_a_window_is_refused_by_its_key(table, key):
    """Zero, negative, NaN, unknown, zoneless or lonely keys: one line that names the key."""
    with pytest.raises((InputError, ValidationError)) as caught:
        read_window(table)
    refusal = caught.value
    if isinstance(refusal, ValidationError):
        message = "; ".join(f"window.{fault}" for fault in explain(refusal))  # as the configuration says it
    else:
        message = str(refusal)
    assert message.startswith(key)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ({"new_cases": 1, "first": {"events_fraction": 0.5}}, ("first.events_fraction",)),
        ({"events_per_case": {"x": 1, "lockstep": True}}, ("events_per_case.lockstep",)),
        ({"new_cases": 1, "first": {"new_cases": 9}}, ()),
    ],
)
def test_windows_that_need_the_whole_log_say_so(table, keys):
    """A daemon's configuration can be refused by these names."""
    assert read_window(table).replay_only == keys
