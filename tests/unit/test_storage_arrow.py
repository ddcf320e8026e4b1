"""Arrow arrays made of their buffers are those that pyarrow makes, and no process imports pandas for them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from stream.ledger import release_record

WRITES = """
import sys, tempfile, pathlib
from models.eventlog import EventLog
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
log = EventLog.from_traces([(("a", "b"), "x"), ((), None)], "s")
with tempfile.TemporaryDirectory() as folder:
    record = ReleaseRecord(1, log, ("activity",), "minutes", ("s",))
    release_record.write(pathlib.Path(folder) / "variants.parquet", record)
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize("values", [[], [""], ["a", "", "ü\U0001f600"], ["a", None, "b"], [None] * 9, ["x"] * 20])
def test_texts(values: list[str | None]) -> None:
    """Empty ones, ones of several bytes a character, and nulls, also more than a byte of the bitmap has."""
    made = release_record.texts(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, type=pa.string()))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("length", [0, 1, 8, 19])
def test_integers(kind: type, length: int) -> None:
    """With and without nulls, also if the values are not side by side."""
    values = np.arange(-3, 2 * length - 3, dtype=kind)[::2]
    there = np.arange(length) % 3 != 1
    for mask in (None, there, np.ones(length, dtype=np.bool_)):
        made = release_record.integers(values, mask)
        made.validate(full=True)
        assert made.equals(pa.array(values, mask=None if mask is None else ~mask))


def test_a_release_is_written_without_pandas() -> None:
    """A fifth of a CPU second of every replay."""
    done = subprocess.run([sys.executable, "-c", WRITES], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
