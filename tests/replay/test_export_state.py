"""`veilstream export-state`: an engine builds from it what the coordinator would have released."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from connectors.reading import Reading
from models.eventlog import EventLog
from stream.commands import execute
from stream.engine.embedded import Embedded
from stream.release.mechanisms import mechanism
from tests.conftest import ROOT

LOG = ROOT / "examples" / "hospital.xes.gz"

CONFIG = """
[process]
name = "hospital"
sensitive = ["diagnosis"]
[[publication]]
name = "research"
window = { new_cases = 200 }
mechanism = { kind = "tlkc", knowledge = "seq", attribute = "ac", L = 2, K = 5, C = 0.8, suppression = "exact" }
gate = { on_violation = "warn" }
release_attributes = ["diagnosis"]
formats = ["parquet"]
"""


EVENTS = 11_500
"""Of the example, by time: a checkpoint is saved after the record with the last cut, and this is its last event."""


@pytest.fixture
def replayed(tmp_path: Path) -> Path:
    """A folder with a log, a configuration, and a replay of the log to the end in `out`."""
    (tmp_path / "veilstream.toml").write_text(CONFIG)
    whole = read_log(LOG)
    taken = np.zeros(whole.n_events, dtype=np.bool_)
    taken[np.lexsort((whole.row, whole.time))[:EVENTS]] = True
    write_log(whole.select_events(taken, drop_empty=True), tmp_path / "log.parquet")
    words = [
        "replay",
        str(tmp_path / "log.parquet"),
        "-c",
        str(tmp_path / "veilstream.toml"),
        "-o",
        str(tmp_path / "out"),
        "--final",
    ]
    assert execute(words) in (0, 3)
    return tmp_path


def exported(folder: Path, *more: str) -> int:
    """The exit code of the command."""
    words = ["-c", str(folder / "veilstream.toml"), "-o", str(folder / "out"), "--to", str(folder / "state"), *more]
    return execute(["export-state", "research", *words])


def shown(log: EventLog) -> Counter[Any]:
    """Traces with the class of the case, as a multiset."""
    names = log.activity.decode()
    own = log.case_values("diagnosis").decode()
    bounds = itertools.pairwise(log.starts.tolist())
    return Counter((tuple(names[a:b]), value) for (a, b), value in zip(bounds, own, strict=True))


def test_an_engine_builds_the_same_release(replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cases of the last release, from the state; by the same mechanism, in memory and by duckdb."""
    assert exported(replayed, "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    last = max((replayed / "out" / "public" / "research").glob("release-*"))
    wanted = shown(read_log(last / "log.parquet"))
    words = ["--K", "5", "--L", "2", "--C", "0.8", "--suppression", "exact", "--sensitive", "diagnosis"]
    words += ["--release-attributes", "diagnosis"]
    for engine in ("embedded", "duckdb"):
        target = replayed / f"by-{engine}"
        command = ["anonymize", str(replayed / "state"), "-o", str(target), "--engine", engine, *words]
        assert execute(command) == 0, capsys.readouterr().err
        assert shown(read_log(target)) == wanted
    source = read_log(replayed / "log.parquet")
    assert (found["cases"], found["events"], found["late"]) == (source.n_cases, source.n_events, 0)
    assert json.loads((replayed / "state" / "_state.json").read_text()) == found


def test_the_table_is_that_of_the_log(replayed: Path) -> None:
    """Row by row, in the same order; under pseudonyms."""
    from stream.engine.contract import CountQuery

    assert exported(replayed) == 0
    asked = CountQuery(mechanism({"kind": "tlkc", "K": 5, "L": 2}).variants_by(), ("diagnosis",))
    own, whole = (
        Embedded(path, Reading()).count(asked).table for path in (replayed / "state", replayed / "log.parquet")
    )
    assert own.decoded() == whole.decoded()
    ids = set(read_log(replayed / "state").case_ids)
    assert ids.isdisjoint(read_log(replayed / "log.parquet").case_ids)


def test_the_folder_is_for_this_user_and_whole(replayed: Path) -> None:
    """Nothing is left beside it, and the output folder is as before."""
    before = {path: path.read_bytes() for path in (replayed / "out").rglob("*") if path.is_file()}
    assert exported(replayed) == 0
    assert (replayed / "state").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in replayed.iterdir()) == ["log.parquet", "out", "state", "veilstream.toml"]
    assert {path: path.read_bytes() for path in (replayed / "out").rglob("*") if path.is_file()} == before


def test_what_is_refused(replayed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An existing folder, one that others read, an unknown publication, a folder without a checkpoint."""
    (replayed / "state").mkdir()
    assert exported(replayed) == 2
    assert "exists already" in capsys.readouterr().err
    words = ["-c", str(replayed / "veilstream.toml"), "-o", str(replayed / "out"), "--to"]
    assert execute(["export-state", "research", *words, str(replayed / "out" / "public" / "state")]) == 2
    assert "raw data" in capsys.readouterr().err
    assert execute(["export-state", "other", *words, str(replayed / "new")]) == 2
    assert "there are research" in capsys.readouterr().err
    for path in (replayed / "out" / "operator" / "checkpoints").iterdir():
        path.unlink()
    assert execute(["export-state", "research", *words, str(replayed / "new")]) == 2
    assert "no checkpoint" in capsys.readouterr().err
    assert not (replayed / "new").exists()


def test_parts_hold_whole_cases(replayed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts, one after the other, are the same data set."""
    from stream.operator import export_state

    assert exported(replayed) == 0
    (replayed / "state").rename(replayed / "one")
    monkeypatch.setattr(export_state, "ROWS", 100)
    assert exported(replayed) == 0
    parts = sorted((replayed / "state").glob("part-*.parquet"))
    assert len(parts) > 5
    seen = [set(read_log(part).case_ids) for part in parts]
    assert sum(map(len, seen)) == len(set.union(*seen))
    assert shown(read_log(replayed / "state")) == shown(read_log(replayed / "one"))
