"""A release written to a file carries its header, as the command line writes it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import veilstream as vs
from connectors import read_log
from stream.commands import execute
from tests.api.conftest import variants

TERMS: dict[str, Any] = {"K": 5, "L": 2, "C": 1}
FLAGS = ["--K", "5", "--L", "2", "--C", "1"]


def header(path: Path) -> str:
    """Return the part of an XES file before its first trace."""
    return gzip.decompress(path.read_bytes()).decode().split("<trace>")[0]


def about(path: Path) -> Any:
    """The privacy metadata of a Parquet file."""
    return json.loads((pq.read_schema(path).metadata or {})[b"privacy"])


@pytest.mark.parametrize("name", ["out.xes.gz", "out.parquet"])
def test_the_header_is_the_one_of_the_command(small: pd.DataFrame, small_file: Path, tmp_path: Path, name: str) -> None:
    """Mechanism, parameters, meaning of the times and what a reader has to know."""
    by_command, by_function = tmp_path / f"command-{name}", tmp_path / f"function-{name}"
    assert execute(["anonymize", str(small_file), "-o", str(by_command), *FLAGS]) == 0
    vs.anonymize(small, **TERMS).save(by_function)
    read = header if name.endswith(".xes.gz") else about
    assert "tlkc" in str(read(by_function))
    assert read(by_function) == read(by_command)


@pytest.mark.parametrize("name", ["out.xes", "out.xes.gz", "out.csv", "out.csv.gz", "out.parquet"])
def test_the_file_has_the_cases_of_the_log(small: pd.DataFrame, tmp_path: Path, name: str) -> None:
    """The same ids, so that a question about a row of the file can be answered with the result."""
    release = vs.anonymize(small, sensitive="diagnosis", release_attributes="diagnosis", **TERMS)
    release.save(tmp_path / name)
    read = vs.read_log(tmp_path / name)
    ids = set(read["case:concept:name"])
    assert ids == set(release.log["case:concept:name"])
    assert variants(read) == variants(release.log)


def test_a_release_of_a_series_is_saved_with_the_header_of_its_file(small: pd.DataFrame, tmp_path: Path) -> None:
    """A copy: the sealed files stay in the folder of the series."""
    series = vs.replay(small, sensitive="diagnosis", output=tmp_path / "series")
    series.releases[0].save(tmp_path / "copy.xes.gz")
    sealed = tmp_path / "series" / "public" / "research" / "release-000001" / "log.xes.gz"
    assert header(tmp_path / "copy.xes.gz") == header(sealed)
    assert read_log(tmp_path / "copy.xes.gz").traces() == read_log(sealed).traces()
    assert read_log(tmp_path / "copy.xes.gz").case_ids == read_log(sealed).case_ids


def test_the_meaning_of_the_times_reaches_a_measure_by_way_of_a_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Artificial times are marked as such; a file written by pandas has lost that."""
    release = vs.replay(frame, sensitive="diagnosis").releases[0]
    release.save(tmp_path / "kept.xes.gz")
    release.log.to_csv(tmp_path / "lost.csv", index=False)
    kept = vs.risk(tmp_path / "kept.xes.gz", projection="A", points=1).notes
    lost = vs.risk(tmp_path / "lost.csv", projection="A", points=1).notes
    assert any("artificial" in note for note in kept)
    assert not any("artificial" in note for note in lost)


def test_relative_times_may_be_durations(small: pd.DataFrame, tmp_path: Path) -> None:
    """As `--format duration`."""
    release = vs.anonymize(small, mechanism="identity", knowledge="rel", T="minutes")
    release.save(tmp_path / "out.csv", durations=True)
    assert re.search(r"P0DT\d+H\d+M", (tmp_path / "out.csv").read_text())


def test_what_cannot_be_saved(small: pd.DataFrame, small_file: Path, tmp_path: Path) -> None:
    """The source stays; the message names the file and what to do."""
    before = small_file.read_bytes()
    release = vs.anonymize(small_file, **TERMS)
    with pytest.raises(vs.InputError, match="is the source itself; name another file"):
        release.save(small_file)
    assert small_file.read_bytes() == before
    with pytest.raises(vs.InputError, match="its folder does not exist"):
        release.save(tmp_path / "nowhere" / "out.xes")
    with pytest.raises(vs.InputError, match="xlsx"):
        release.save(tmp_path / "out.xlsx")
    with pytest.raises(vs.InputError, match="durations are for relative times; those of this release are ordinal"):
        release.save(tmp_path / "out.csv", durations=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [small_file.name]


def test_releases_in_a_remote_store(small: pd.DataFrame, tmp_path: Path) -> None:
    """The results of a series are read from the store that the configuration names."""
    config = tmp_path / "remote.toml"
    config.write_text('store = "memory://facade-test"\n[process]\nname = "ward"\nsensitive = ["diagnosis"]\n')
    local = vs.replay(small, sensitive="diagnosis")
    remote = vs.replay(small, config=config)
    assert not list(remote.folder.rglob("log.xes.gz"))
    assert len(remote.releases) == len(local.releases) > 1
    assert [variants(release.log) for release in remote.releases] == [
        variants(release.log) for release in local.releases
    ]
    remote.releases[-1].save(tmp_path / "last.parquet")
    assert variants(vs.read_log(tmp_path / "last.parquet")) == variants(remote.releases[-1].log)
