"""`anonymize --engine`: the same release from every engine, refusals in one line, and nothing partial after a kill."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.commands import execute
from tests.conftest import ROOT

pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')

TIME, CASES = "2024-01-01T10:{:02d}:00Z", 90


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """90 cases of a few variants, with a sensitive and a public attribute."""
    generator = np.random.default_rng(11)
    lines = ["case:concept:name,concept:name,time:timestamp,org:resource,case:disease,case:age,case:ward"]
    for case in range(CASES):
        trace = ["abc", "acb", "abcd", "ab", "dcba"][int(generator.choice(5, p=[0.4, 0.3, 0.15, 0.1, 0.05]))]
        own = f"{['flu', 'cold', ''][case % 3]},{20 + case % 30},{['north', 'south'][case % 2]}"
        lines += [f"person-{case},{name},{TIME.format(k)},nurse-{k},{own}" for k, name in enumerate(trace)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capfdbinary: Any, *words: Any) -> dict[str, Any]:
    """The JSON of a command that ends well."""
    code = execute([*map(str, words), "--json"])
    out, err = capfdbinary.readouterr()
    assert code == 0, err.decode()
    found: dict[str, Any] = json.loads(out)
    found.pop("seconds", None)
    return found


def shown(log: EventLog) -> Counter[Any]:
    """Traces with all their attributes, as a multiset; ids of cases are left out."""
    parts = list(zip(log.activity.decode(), log.resource.decode(), log.time.tolist(), strict=True))
    names = sorted(log.case_attributes)
    own = list(zip(*(log.case_attributes[name].decode() for name in names), strict=True)) or [()] * log.n_cases
    bounds = itertools.pairwise(log.starts.tolist())
    return Counter((tuple(parts[a:b]), values) for (a, b), values in zip(bounds, own, strict=True))


ASKED: list[list[str]] = [
    ["--K", "5", "--L", "2"],
    ["--K", "4", "--C", "0.8", "--sensitive", "disease,age", "--release-attributes", "disease,ward"],
    ["--K", "3", "--knowledge", "rel", "--attribute", "ar", "--suppression", "local", "--keep-resources"],
    ["--K", "3", "--sensitive", "age", "--bins", "age=30,40", "--C", "0.9", "--release-attributes", "age"],
    ["--mechanism", "baseline-2", "--set", "K=10"],
    ["--mechanism", "pretsa", "--set", "K=10"],
    ["--mechanism", "identity", "--release-attributes", "ward"],
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda words: "-".join(words).replace("--", ""))
def test_every_engine_releases_the_same(asked: list[str], log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """The same summary and, as a multiset, the same cases: as one file, by embedded and by duckdb as data sets."""
    whole = run(capfdbinary, "anonymize", log, "-o", tmp_path / "whole.parquet", *asked)
    wanted = shown(read_log(tmp_path / "whole.parquet"))
    manifests = []
    for engine in ("embedded", "duckdb"):
        target = tmp_path / engine
        assert run(capfdbinary, "anonymize", log, "-o", target, "--engine", engine, *asked) == whole
        released = read_log(target)
        assert shown(released) == wanted
        assert list(released.case_ids) == sorted(released.case_ids)
        manifest = json.loads((target / "manifest.json").read_text())
        assert {entry["path"] for entry in manifest["files"]} == {path.name for path in target.glob("*.parquet")}
        assert manifest["counts"]["events"] == released.n_events == whole["events"]["out"]
        assert manifest["counts"]["cases"] == released.n_cases == whole["cases"]["out"]
        assert b"person-" not in b"".join(path.read_bytes() for path in target.iterdir())
        manifests.append({key: value for key, value in manifest.items() if key not in ("files", "published")})
    assert manifests[0] == manifests[1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_noisy_counts_leave_as_a_data_set(log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """dp-variants: nothing in the manifest is counted from the data."""
    words = ["--mechanism", "dp-variants", "--epsilon", "20", "--delta-dp", "0.1", "--engine", "duckdb"]
    found = run(capfdbinary, "anonymize", log, "-o", tmp_path / "out", *words)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "counts" not in manifest
    assert found["cases"]["out"] == read_log(tmp_path / "out").n_cases > 0


def test_violations_are_listed_from_the_table(log: Path, capfdbinary: Any) -> None:
    """The same list as from the log, without a release."""
    words = ["anonymize", log, "--list-violations", "--K", "20", "--L", "2"]
    assert run(capfdbinary, *words, "--engine", "duckdb")["violations"] == run(capfdbinary, *words)["violations"] != []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "hive"], "not one of embedded, duckdb, spark"),
        (["--mechanism", "amun", "--delta", "0.2", "--engine", "duckdb"], "only --engine embedded can"),
        (["--set", "times=microaggregated", "--engine", "duckdb"], "only --engine embedded can"),
        (["--memory", "1GB"], "--engine duckdb"),
        (["--engine", "duckdb", "--memory", "much"], "amount of memory"),
        (["--engine", "duckdb", "--format", "duration"], "timestamps"),
        (["--engine", "duckdb", "--sensitive", "blood"], "it has age, disease, ward"),
        (["--engine", "duckdb", "--K", "1000"], "infeasible"),
    ],
)
def test_what_an_engine_cannot_do_is_one_line(
    words: list[str], says: str, log: Path, tmp_path: Path, capfdbinary: Any
) -> None:
    """Exit code 2, what and what to do; no folder is left."""
    assert execute(["anonymize", str(log), "-o", str(tmp_path / "out"), *words]) == 2
    _, err = capfdbinary.readouterr()
    assert says in err.decode()
    assert err.count(b"\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


@pytest.mark.parametrize("name", ["out.csv", "out.xes"])
def test_an_engine_writes_folders(name: str, log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """A file of another kind is refused before anything is counted."""
    assert execute(["anonymize", str(log), "-o", str(tmp_path / name), "--engine", "duckdb"]) == 2
    assert "name a folder" in capfdbinary.readouterr()[1].decode()


@pytest.mark.parametrize("name", ["out.foo", "out.xlsx", "out.tsv"])
def test_an_ending_that_no_log_has_is_refused(name: str, log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """A mistyped name made a folder of that name; the folder of a data set is named without an ending."""
    assert execute(["anonymize", str(log), "-o", str(tmp_path / name), "--K", "5"]) == 2
    error = capfdbinary.readouterr()[1].decode()
    assert "a log is written as .xes, .xes.gz, .csv, .csv.gz, .parquet, and not as ." in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]
    assert execute(["anonymize", str(log), "-o", str(tmp_path / "out"), "--K", "5"]) == 0
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_a_release_is_never_written_over(log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """Not even one of the same log."""
    words = ["anonymize", str(log), "-o", str(tmp_path / "out"), "--engine", "duckdb", "--K", "5"]
    assert execute(words) == 0
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    assert execute(words) == 2
    assert "exists already" in capfdbinary.readouterr()[1].decode()
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("row", ["person-1,a,,nurse,flu,3,north", ",a,2024-01-01T10:00:00Z,nurse,flu,3,north"])
def test_a_bad_row_is_named_and_not_quoted(row: str, log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """File, row and column; never a value."""
    log.write_text(log.read_text() + row + "\n")
    assert execute(["anonymize", str(log), "-o", str(tmp_path / "out"), "--engine", "duckdb"]) == 2
    err = capfdbinary.readouterr()[1].decode()
    assert f"row {len(log.read_text().splitlines()) - 1}:" in err
    assert "person" not in err


KILLED = """
import os, signal, sys
from connectors.files import FileOps
from stream.commands import execute
from stream.engine import dataset
from stream.engine.duckdb import DuckDb

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

place = sys.argv[1]
if place == "counting":
    DuckDb._table = die
elif place == "writing":
    dataset._durable = die
elif place == "manifest":
    dataset.encode_manifest = die
elif place == "rename":
    FileOps.rename_noreplace = die
execute(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("counting", marks=pytest.mark.slow),
        "writing",
        pytest.param("manifest", marks=pytest.mark.slow),
        pytest.param("rename", marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_leaves_no_release_and_can_be_run_again(place: str, log: Path, tmp_path: Path) -> None:
    """kill -9: nobody sees a part of it; the next run removes what is left and writes the release."""
    words = ["anonymize", str(log), "-o", str(tmp_path / "out"), "--engine", "duckdb", "--K", "5"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, place, *words], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = sorted(path.name for path in tmp_path.iterdir() if path != log)
    assert left
    assert all(name.startswith(".out.") for name in left)
    assert execute(words) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "out"]
    assert read_log(tmp_path / "out").n_cases > 0


def test_two_runs_do_not_write_one_release(log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """The second is refused while the first is at work, and does not touch what the first has."""
    from stream.engine.work import workspace

    with workspace(str(tmp_path / "out")) as work:
        (work / "mine").touch()
        assert execute(["anonymize", str(log), "-o", str(tmp_path / "out"), "--engine", "duckdb"]) == 4
        assert (work / "mine").exists()
    assert "another run" in capfdbinary.readouterr()[1].decode()


def test_a_full_disk_leaves_nothing(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1: a later try may go well."""
    import errno

    from connectors.files import FileOps

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileOps, "fsync", full)
    assert execute(["anonymize", str(log), "-o", str(tmp_path / "out"), "--engine", "duckdb", "--K", "5"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


def test_partitioned_folders_and_patterns_are_read(log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """Files in `ward=north/` and `ward=south/` are one data set with the attribute `ward` of events."""
    import pandas as pd

    frame = pd.read_csv(log)
    frame["time:timestamp"] = pd.to_datetime(frame["time:timestamp"])
    for ward, part in frame.groupby("case:ward"):
        folder = tmp_path / "parts" / f"ward={ward}"
        folder.mkdir(parents=True)
        part.drop(columns="case:ward").to_parquet(folder / "a.parquet", index=False)
    words = ["--K", "5", "--engine", "duckdb"]
    whole = run(capfdbinary, "anonymize", log, "-o", tmp_path / "one", *words)
    assert run(capfdbinary, "anonymize", tmp_path / "parts", "-o", tmp_path / "two", *words) == whole
    assert run(capfdbinary, "anonymize", tmp_path / "parts/*/a.parquet", "-o", tmp_path / "three", *words) == whole
    own = run(
        capfdbinary, "anonymize", tmp_path / "parts", "-o", tmp_path / "four", *words, "--release-attributes", "ward"
    )
    assert own["cases"] == whole["cases"]
    wards = Counter(read_log(tmp_path / "four").case_attributes["ward"].decode())
    assert set(wards) == {"north", "south"}


@pytest.mark.parametrize(
    "asked", [["--link", "time"], ["--sensitive", "disease", "--bk", "a,b"], ["--attribute", "re"]]
)
def test_attacks_on_tables_are_those_on_logs(asked: list[str], log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """The same document for two releases, counted by duckdb and in memory."""
    lines = log.read_text().splitlines()
    earlier = tmp_path / "earlier.csv"
    earlier.write_text("\n".join(line for line in lines if not line.startswith("person-8") or ",d," not in line) + "\n")
    words = ["attack", earlier, log, "--n", "0..2", *asked]
    assert run(capfdbinary, *words, "--engine", "duckdb") == run(capfdbinary, *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["risk", "LOG"], "times of single cases"),
        (["risk", "LOG", "--projection", "D"], "--case-attributes"),
        (["risk", "LOG", "--projection", "C"], "--event-attributes resource"),
        (["risk", "LOG", "--projection", "E", "--adversary", "greedy"], "single cases"),
        (["risk", "LOG", "--projection", "E", "--population", "100"], "--population"),
        (["utility", "LOG", "LOG"], "--fitness none"),
        (["utility", "LOG", "LOG", "--fitness", "none", "--perspective", "relative_time"], "times of single cases"),
        (["replay", "LOG"], "tlkc-cohorts reads more of each case"),
        (["anonymize", "LOG", "-o", "OUT", "--mechanism", "tlkc-cohorts"], "tlkc-cohorts reads more of each case"),
    ],
)
def test_what_reads_more_than_variants_is_refused(
    words: list[str], says: str, log: Path, tmp_path: Path, capfdbinary: Any
) -> None:
    """One line with the engine that can, and nothing is written."""
    asked = [{"LOG": str(log), "OUT": str(tmp_path / "out")}.get(word, word) for word in words]
    assert execute([*asked, "--engine", "duckdb"]) == 2
    err = capfdbinary.readouterr()[1].decode()
    assert "only --engine embedded can" in err
    assert says in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


def test_risk_on_variants(log: Path, capfdbinary: Any) -> None:
    """The same document where all points are known."""
    words = ["risk", log, "--projection", "B,C,D,E,F", "--case-attributes", "ward,age", "--points", "all"]
    words += ["--event-attributes", "resource"]
    found, wanted = (run(capfdbinary, *words, "--engine", kind) for kind in ("duckdb", "embedded"))
    shares = []
    for one in (*found["projections"], *wanted["projections"]):
        one.pop("seconds")
        shares += [point.pop("unique_mean") for point in one["points"]]
    half = len(shares) // 2
    assert shares[:half] == pytest.approx(shares[half:], rel=1e-12)
    assert min(shares) < max(shares)
    assert found == wanted


@pytest.mark.parametrize("perspective", ["activity", "activity,resource"])
def test_utility_on_variants(perspective: str, log: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """Measures on variants are the same; measures on times are null."""
    run(capfdbinary, "anonymize", log, "-o", tmp_path / "out", "--K", "5", "--keep-resources", "--attribute", "ar")
    words = ["utility", log, tmp_path / "out", "--fitness", "none", "--perspective", perspective]
    found, wanted = (run(capfdbinary, *words, "--engine", kind) for kind in ("duckdb", "embedded"))
    for part in (found, wanted):
        mining = part.pop("mining")
        part["words"] = {name: mining[name] for name in ("log_similarity", "dfg_error")}
    assert found["emd_time_months"] is found["bottlenecks"] is found["active_cases"] is None
    for part in ("data_utility", "emd_frequency", "mae_frequency"):
        assert found[part] == pytest.approx(wanted[part], rel=1e-12)
    for part in ("dfg", "likeness", "words", *(["handover"] if "resource" in perspective else [])):
        assert found[part] == pytest.approx(wanted[part], rel=1e-12)
    assert found["variants"] == wanted["variants"]
    assert 0 < found["data_utility"] < 1
