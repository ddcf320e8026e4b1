"""An export that repeats its rows: each copy is an event, and only inspect reported it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import veilstream as vs
from connectors import read_log, write_log
from connectors.reading import Reading
from stream.commands import execute

COPIES = "rows are exact copies of an earlier row"
BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)


def frame_of(n_copies: int, n_events: int = 400, note: bool = False) -> pd.DataFrame:
    """Return a log in which some events appear twice, not next to each other; with notes no two are alike."""
    rows = [(f"c{event // 4}", "abcd"[event % 4], BEGIN + timedelta(hours=event)) for event in range(n_events)]
    frame = pd.DataFrame([*rows, *rows[:n_copies]], columns=["case", "activity", "time"])
    return frame.assign(note=range(len(frame))) if note else frame


def test_copies_in_xes_are_counted_without_pandas(tmp_path: Path) -> None:
    """Its import takes half a second and 75 MB, which each command on XES would pay."""
    frame = frame_of(40)
    frame.to_csv(tmp_path / "log.csv", index=False)
    write_log(read_log(tmp_path / "log.csv", reading=Reading(say=[].append)), tmp_path / "log.xes")
    program = (
        "import sys; from connectors import read_log; from connectors.reading import Reading; said = [];"
        f"read_log({str(tmp_path / 'log.xes')!r}, reading=Reading(say=said.append));"
        f"print(sum({COPIES!r} in sentence for sentence in said), 'pandas' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "False"]


@pytest.mark.parametrize(
    ("n_copies", "note", "found"),
    [(40, False, True), (4, False, False), (40, True, False)],
    ids=["many", "few", "noted"],
)
def test_readers_report_many_copies(tmp_path: Path, n_copies: int, note: bool, found: bool) -> None:
    """Real logs have some events twice. If the rows differ in any field, they are no copies."""
    frame = frame_of(n_copies, note=note)
    frame.to_csv(tmp_path / "log.csv", index=False)
    said: list[str] = []
    log = read_log(tmp_path / "log.csv", reading=Reading(say=said.append))
    write_log(log, tmp_path / "log.xes")
    read_log(tmp_path / "log.xes", reading=Reading(say=said.append))
    assert sum(f"{n_copies} {COPIES}" in sentence for sentence in said) == 2 * found
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vs.risk(frame, projection="A", points=1)
    assert any(f"{n_copies} {COPIES}" in str(one.message) for one in caught) == found


def test_releases_with_coarse_times_have_no_copies(tmp_path: Path) -> None:
    """Their events are alike on purpose."""
    log = read_log(_written(tmp_path, frame_of(40)))
    write_log(log, tmp_path / "release.xes", time_basis="relative")
    said: list[str] = []
    read_log(tmp_path / "release.xes", reading=Reading(say=said.append))
    assert not any(COPIES in sentence for sentence in said)


def test_replay_reports_them_before_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, frame_of(40))
    assert execute(["replay", str(path), "-o", str(tmp_path / "out")]) in (0, 3)
    assert " ".join(capsys.readouterr().err.split()).count(f"40 {COPIES}") == 1


def test_inspect_reports_them_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["inspect", str(_written(tmp_path, frame_of(40)))]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(f"40 {COPIES}") == 1


def _written(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"
