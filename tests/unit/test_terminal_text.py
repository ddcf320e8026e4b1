"""Text of a source reaches a terminal as text: no escape sequence, no turned direction, no second line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from models.eventlog import EventLog
from stream.commands import execute
from stream.daemon.publisher import frames
from tests.conftest import ROOT

ESCAPE = "\x1b]0;pwned\x07\x1b[2J"
LABEL = f"visit{ESCAPE}\x9b31m\u202etxet\x7f"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def log(folder: Path, name: str, header: str = "case,act,time", cases: int = 6) -> str:
    rows = [f"c{case},{LABEL if case % 2 else 'other'},2025-01-01T00:00:0{case}Z" for case in range(cases)]
    (folder / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8", newline="")
    return str(folder / name)


COLUMNS = ("--columns", "case=case,activity=act,time=time")


@pytest.mark.parametrize("json_too", [False, True])
def test_labels_in_tables_and_json_are_text(tmp_path: Path, capfd: pytest.CaptureFixture[str], json_too: bool) -> None:
    """Suppressed items, the worst background knowledge: labels are shown, and do nothing."""
    first, second = log(tmp_path, "one.csv", cases=3), log(tmp_path, "two.csv", cases=6)
    shown = ["--json"] if json_too else []
    execute(["attack", first, second, *COLUMNS, "--bk-length", "1", "--n", "0", "--bk", LABEL, *shown])
    tlkc = ["--mechanism", "tlkc", "--knowledge", "set", "--L", "1", "--K", "4", "--C", "1"]
    execute(["anonymize", second, *COLUMNS, "-o", str(tmp_path / "out.csv"), *tlkc, *shown])
    out, err = capfd.readouterr()
    assert "visit" in out
    assert FORBIDDEN.findall(out.replace("\n", "") + err.replace("\n", "")) == []
    if json_too:
        assert LABEL in _texts(json.loads(out.splitlines()[0]))


def test_a_label_that_the_locale_lacks_ends_no_command(tmp_path: Path) -> None:
    """Standard output in ASCII, as under an old locale: shown as an escape."""
    rows = [f"c{case},prüfen,2025-01-01T00:00:0{case}Z" for case in range(4)]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(["case,act,time", *rows]) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "stream.commands", "attack", str(file), str(file), *COLUMNS, "--bk", "prüfen"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--bk-length", "1", "--n", "0"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "pr\\xfcfen" in done.stdout


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def test_names_in_error_lines_are_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A column's name is in the line that says what the file has."""
    bad = log(tmp_path, "bad.csv", header=f"case,act{ESCAPE},moment\x9b2J")
    assert execute(["risk", bad]) == 2
    err = capfd.readouterr().err
    assert "it has case, act" in err
    assert FORBIDDEN.findall(err.replace("\n", "")) == []


def test_released_events_hold_control_characters_as_escapes() -> None:
    """The topic's JSON: printing a frame runs nothing, and decoding it returns the sealed values."""
    one = EventLog.from_events(["c"], [LABEL], [0], [LABEL], unit="ns")
    announced = list(frames("p", 1, one))
    assert FORBIDDEN.findall(b"".join(announced).decode()) == []
    (_, events, _) = map(msgspec.json.decode, announced)
    assert events["rows"][0][1::2] == [LABEL, LABEL]
