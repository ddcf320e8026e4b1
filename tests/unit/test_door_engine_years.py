"""A time outside 1678 to 2261 is input of the user: exit code 2, and the row (duckdb refers to `embedded` for it)."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from stream.commands import execute
from tests.conftest import missing
from tests.spark import java_options


def _write(path: Path, year: int, unit: str) -> None:
    """Three rows; the second one is in that year."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    times = [datetime(2024, 1, 1, tzinfo=UTC), datetime(year, 6, 1, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC)]
    table = pa.table(
        {
            "case:concept:name": ["a", "b", "c"],
            "concept:name": ["x", "x", "x"],
            "time:timestamp": pa.array(times, pa.timestamp(unit, "UTC")),
        }
    )
    pq.write_table(table, path)


# Spark needs Java, without which `make fast` runs.
@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("year", [1500, 2300])
def test_a_year_that_cannot_be_read_is_refused_with_its_row(
    tmp_path: Path, engine: str, year: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 bits of nanoseconds end there: Spark ended with an exception of its own, and exit code 1."""
    if engine == "spark":
        if find_spec("pyspark") is None:
            missing("spark", 'pyspark is not installed (extra "spark")')
        monkeypatch.setenv("JDK_JAVA_OPTIONS", java_options())
    log = tmp_path / "log.parquet"
    _write(log, year, "us")
    output = tmp_path / ("out.parquet" if engine == "embedded" else "out")
    arguments = ["anonymize", str(log), "-o", str(output), "--engine", engine]
    assert execute(arguments) == 2
    said = capsys.readouterr().err
    assert "outside the years 1678 to 2261" in said
    assert "row 2" in said
    assert str(year) not in said
