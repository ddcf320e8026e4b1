"""A CSV file of a spreadsheet in another encoding than UTF-8, given to an engine: one line, wherever the letter is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream.commands import execute


@pytest.mark.parametrize("place", ["header", "first row", "far below"])
def test_a_file_that_is_not_utf_8_is_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], place: str
) -> None:
    """The program ended with a Python error and exit code 1."""
    log = tmp_path / "log.csv"
    row = {"header": -1, "first row": 0, "far below": 19_000}[place]
    lines = [f"case:concept:name,concept:name,time:timestamp,{'Tätigkeit' if row < 0 else 'note'}"]
    lines += [f"{case},{'Prüfung' if case == row else 'A'},2024-01-01T00:00:00Z,x" for case in range(20_000)]
    log.write_bytes(("\n".join(lines) + "\n").encode("cp1252"))
    assert execute(["anonymize", str(log), "--engine", "duckdb", "-o", str(tmp_path / "out")]) == 2
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert "log.csv" in line
    assert ("not utf-8; save it as UTF-8" in line) is (place != "far below")
    assert "--engine embedded" in line
