"""Transitions of log files: what stays, under which name, and that the rest is reported."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pm4py
import pytest

import veilstream as vs
from connectors import read_log
from connectors.lifecycle import Lifecycle
from connectors.reading import Reading
from models.errors import InputError
from stream.commands import execute

ROWS = [
    ("1", "a", "start", "i1"),
    ("1", "a", "start", "i2"),
    ("1", "a", "complete", "i2"),
    ("1", "a", "suspend", "i1"),
    ("1", "b", "Complete", ""),
    ("2", "b", "", ""),
    ("2", "c", "start", ""),
    ("3", "d", "Ann called", ""),
]


def table(folder: Path, name: str = "lifecycle:transition") -> Path:
    """A log with starts, completes, and others."""
    path = folder / "log.csv"
    header = f"case:concept:name,concept:name,{name},concept:instance,time:timestamp"
    lines = [f"{','.join(row)},2024-01-01T00:0{minute}:00Z" for minute, row in enumerate(ROWS)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def xes(folder: Path) -> Path:
    """The same as XES."""
    events: dict[str, list[str]] = {}
    for minute, (case, name, step, instance) in enumerate(ROWS):
        texts = {"concept:name": name, "lifecycle:transition": step, "concept:instance": instance}
        inner = "".join(f'<string key="{key}" value="{value}"/>' for key, value in texts.items() if value)
        moment = f'<date key="time:timestamp" value="2024-01-01T00:0{minute}:00Z"/>'
        events.setdefault(case, []).append(f"<event>{inner}{moment}</event>")
    traces = [
        f'<trace><string key="concept:name" value="{case}"/>{"".join(mine)}</trace>' for case, mine in events.items()
    ]
    path = folder / "log.xes"
    path.write_text(f'<?xml version="1.0"?>\n<log>{"".join(traces)}</log>')
    return path


PLAIN = (
    '[[publication]]\nname = "p"\nwindow = { new_cases = 2 }\nmechanism = { kind = "identity" }\n'
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
)
LEFT = {
    "complete": "3 start, 1 suspend, 1 others",
    "start": "3 complete, 1 suspend, 1 others",
    "both": "1 suspend, 1 others",
}


@pytest.mark.parametrize("write", [table, xes])
@pytest.mark.parametrize(
    ("lifecycle", "traces", "cases_lost"),
    [
        ("complete", [("a", "b"), ("b",)], 1),
        ("start", [("a", "a"), ("c",)], 1),
        ("both", [("a+start", "a+start", "a+complete", "b+complete"), ("b+complete", "c+start")], 1),
    ],
)
def test_one_transition_or_both(
    tmp_path: Path, write: object, lifecycle: Lifecycle, traces: list[tuple[str, ...]], cases_lost: int
) -> None:
    """The events of the transition stay, an event without one is a completion, and what is left out is counted by the
    words of XES; a word that is none of them is not repeated."""
    notes: list[str] = []
    log = read_log(write(tmp_path), reading=Reading(lifecycle=lifecycle, say=notes.append))  # type: ignore[operator]
    assert log.traces() == traces
    left = sum(int(part.split()[0]) for part in LEFT[lifecycle].split(", "))
    assert f"lifecycle = {lifecycle}: {left} of 8 events left out ({_by_name(lifecycle)})" in notes
    assert f"lifecycle = {lifecycle}: {cases_lost} cases have no event left" in notes
    assert "Ann" not in "".join(notes)


def _by_name(lifecycle: str) -> str:
    return LEFT[lifecycle]


def test_starts_and_completes_are_paired_and_the_others_are_reported(tmp_path: Path) -> None:
    """By case, activity and instance: i2 has both, i1 waits forever, c too; the two of b were never started."""
    notes: list[str] = []
    read_log(table(tmp_path), reading=Reading(lifecycle="both", say=notes.append))
    assert notes[-1] == (
        "lifecycle = both: 1 starts have their complete; 2 starts and 2 completes have no partner, and stay"
    )


def test_every_event_stays_where_nothing_is_asked(tmp_path: Path) -> None:
    """The default, as before."""
    assert [len(trace) for trace in read_log(table(tmp_path)).traces()] == [5, 2, 1]


def test_a_log_without_the_column_is_refused(tmp_path: Path) -> None:
    """Nothing would be left out silently, or all of it; the flag that helps is named."""
    path = table(tmp_path, "state")
    with pytest.raises(InputError, match="--columns lifecycle=NAME"):
        read_log(path, reading=Reading(lifecycle="complete"))
    log = read_log(path, {"lifecycle": "state"}, reading=Reading(lifecycle="complete"))
    assert log.traces() == [("a", "b"), ("b",)]


def test_the_flag_and_the_key_of_the_configuration_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--lifecycle` of a command and `process.lifecycle` leave the same events in, and both report it."""
    path, out = table(tmp_path, "state"), {}
    config = tmp_path / "c.toml"
    config.write_text('[process]\nlifecycle = "both"\ncolumns = { lifecycle = "state" }\n' + PLAIN)
    ways = {
        "flag": ["--lifecycle", "both", "--columns", "lifecycle=state"],
        "key": ["-c", str(config)],
    }
    for name, way in ways.items():
        assert execute(["replay", str(path), *way, "-o", str(tmp_path / name), "--json"]) in (0, 3)
        shown = capsys.readouterr()
        assert "2 of 8 events left out" in shown.err
        out[name] = json.loads(shown.out)["events"]
    assert out == {"flag": 6, "key": 6}


TWICE = "each start and each complete is an event of its own"


@pytest.mark.parametrize("write", [table, xes])
def test_a_reader_reports_starts_beside_completes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Callable[[Path], Path]
) -> None:
    """Only inspect did, though knowing one activity is then knowing two of the L items of a promise."""
    path = write(tmp_path)
    said: list[str] = []
    read_log(path, reading=Reading(say=said.append))
    assert sum(TWICE in sentence for sentence in said) == 1
    assert execute(["inspect", str(path)]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(TWICE) == 1
    for lifecycle in ("complete", "start", "both"):
        said.clear()
        read_log(path, reading=Reading(lifecycle=lifecycle, say=said.append))
        assert not any(TWICE in sentence for sentence in said)


def test_a_log_of_completes_alone_has_no_such_note(tmp_path: Path) -> None:
    path = table(tmp_path)
    path.write_text(path.read_text().replace("start", "schedule"))
    said: list[str] = []
    read_log(path, reading=Reading(say=said.append))
    assert not any(TWICE in sentence for sentence in said)


@pytest.mark.parametrize("form", ["frame", "pm4py"])
@pytest.mark.parametrize(("lifecycle", "n_warnings"), [(None, 1), ("complete", 0), ("both", 0)])
def test_an_object_with_starts_beside_completes_is_reported(
    tmp_path: Path, form: str, lifecycle: Lifecycle | None, n_warnings: int
) -> None:
    """Only files were reported, though a frame is released under the same promise.

    With `both`, the names of the activities say that each transition is an event.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = vs.read_log(table(tmp_path), lifecycle=lifecycle)
        if form == "pm4py":
            log = pm4py.convert_to_event_log(log)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.risk(log, projection="A", points="1")
    assert sum(TWICE in str(warning.message) for warning in caught) == n_warnings


def test_a_path_is_reported_once(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.risk(table(tmp_path), projection="A", points="1")
    assert sum(TWICE in str(warning.message) for warning in caught) == 1
