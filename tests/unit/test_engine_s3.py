"""Data sets on a real S3-compatible server: read from there, released to there, and nothing partial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute
from stream.engine.dataset import MARKER
from tests.unit.test_engine_command import log, run, shown  # noqa: F401 - fixtures
from tests.unit.test_store_s3 import network, server  # noqa: F401 - fixtures

IN, OUT = "s3://releases/in", "s3://releases/out"


@pytest.fixture
def bucket(network: Any, log: Path, tmp_path: Path) -> Any:  # noqa: F811
    """The file system, with the log as two Parquet files under `in/`."""
    import fsspec
    import pandas as pd

    frame = pd.read_csv(log)
    frame["time:timestamp"] = pd.to_datetime(frame["time:timestamp"])
    system = fsspec.filesystem("s3")
    for number, part in enumerate((frame[:100], frame[100:])):
        part.to_parquet(tmp_path / "part.parquet", index=False)
        system.put_file(str(tmp_path / "part.parquet"), f"{IN}/part-{number}.parquet")
    return system


def test_from_bucket_to_bucket(bucket: Any, log: Path, tmp_path: Path, capfdbinary: Any) -> None:  # noqa: F811
    """The same release as from the file, the manifest with the digests of the content."""
    import hashlib

    from connectors import read_log

    words = ["--engine", "duckdb", "--K", "5"]
    assert run(capfdbinary, "anonymize", IN, "-o", OUT, *words) == run(
        capfdbinary, "anonymize", log, "-o", tmp_path / "here", *words
    )
    manifest = json.loads(bucket.cat_file(f"{OUT}/manifest.json"))
    for entry in manifest["files"]:
        data = bucket.cat_file(f"{OUT}/{entry['path']}")
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        (tmp_path / "back").mkdir(exist_ok=True)
        (tmp_path / "back" / entry["path"]).write_bytes(data)
    assert shown(read_log(tmp_path / "back")) == shown(read_log(tmp_path / "here"))
    assert execute(["anonymize", IN, "-o", OUT, *words]) == 2
    assert "a release already" in capfdbinary.readouterr()[1].decode()


def test_what_a_killed_upload_left_goes_first(bucket: Any, capfdbinary: Any) -> None:
    """Parts without a manifest, next to the marker of an upload, are not a release: the next run removes them."""
    bucket.pipe_file(f"{OUT}/part-00007.parquet", b"half")
    bucket.pipe_file(f"{OUT}/{MARKER}", b"of a killed run")
    run(capfdbinary, "anonymize", IN, "-o", OUT, "--engine", "duckdb", "--K", "5")
    bucket.invalidate_cache()
    assert sorted(name.rpartition("/")[2] for name in bucket.find(OUT)) == ["manifest.json", "part-00000.parquet"]


@pytest.mark.parametrize(
    "name",
    [
        "other.txt",
        pytest.param("out/part-00007.parquet", marks=pytest.mark.slow),
        pytest.param("out/y=1/a.parquet", marks=pytest.mark.slow),
    ],
)
def test_what_others_wrote_is_refused_and_stays(name: str, bucket: Any, capfdbinary: Any) -> None:
    """Neither a bucket that is not empty nor a folder with files of others is written to."""
    bucket.pipe_file(f"s3://releases/{name}", b"precious")
    before = sorted(bucket.find("s3://releases"))
    for target in (OUT, "s3://releases") if name.startswith("out") else ("s3://releases",):
        assert execute(["anonymize", IN, "-o", target, "--engine", "duckdb", "--K", "5"]) == 2
        assert capfdbinary.readouterr()[1].count(b"\n") == 1
    bucket.invalidate_cache()
    assert sorted(bucket.find("s3://releases")) == before
    assert bucket.cat_file(f"s3://releases/{name}") == b"precious"


def test_a_release_is_not_written_into_what_is_read(bucket: Any, capfdbinary: Any) -> None:
    """One line; the log stays."""
    assert execute(["anonymize", IN, "-o", f"{IN}/out", "--engine", "duckdb", "--K", "5"]) == 2
    assert "overlaps" in capfdbinary.readouterr()[1].decode()
