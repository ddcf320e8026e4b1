"""Releases of process maps: replayed, verified, described, and complete after a death at every boundary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.ledger.sqlite import read_view
from stream.operator.verify import verify
from stream.release.failpoints import BOUNDARIES
from stream.release.map_files import FILES
from stream.testing import verifier
from tests.replay.crashing import KILLED, run, sample

CONFIG = """
checkpoint_every = 60
[process]
name = "crash"
completion = { end_activities = ["d"] }
[[publication]]
name = "maps"
start = "1970-01-01T00:00:00Z"
window = { every = "1h", time = "wall" }
cases = "completed"
mechanism = { kind = "dp-model", epsilon = 20, delta_dp = 1e-3, activities = ["a", "b", "c", "d"] }
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, the configuration, and an undisturbed run."""
    folder = tmp_path_factory.mktemp("maps")
    (folder / "config.toml").write_text(CONFIG)
    assert run(sample(folder, 60), folder / "config.toml", folder / "calm") == 0
    return folder


def manifests(output: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((output / "public" / "maps").glob("*/manifest.json"))]


def test_releases_hold_the_files_of_a_map_and_no_log(world: Path) -> None:
    """Their manifests report it, and list every file."""
    found = manifests(world / "calm")
    assert len(found) == 3
    for manifest in found:
        assert manifest["content"] == "map"
        assert [entry["path"] for entry in manifest["files"]] == list(FILES)
        assert "counts" not in manifest
    folders = sorted((world / "calm" / "public" / "maps").iterdir())
    assert {path.name for path in folders[0].iterdir()} == {*FILES, "manifest.json"}


def test_a_run_holds_by_both_verifiers(world: Path) -> None:
    """The program's own, and the one of the test kit."""
    result = verify(world / "calm")
    assert result.holds, result.problems
    assert result.publications[0].files == len(manifests(world / "calm")) * len(FILES)
    assert verifier.verify(world / "calm") == []


def test_a_changed_map_does_not_hold(world: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(world / "calm", tmp_path / "out")
    path = tmp_path / "out" / "public" / "maps" / "release-000002" / "dfg.json"
    path.write_bytes(path.read_bytes().replace(b'"count": ', b'"count": 1', 1))
    assert {problem.kind for problem in verify(tmp_path / "out").problems} == {"bytes"}


@pytest.mark.parametrize("boundary", [*BOUNDARIES, "checkpointed"])
def test_kill_at_a_boundary(world: Path, tmp_path: Path, boundary: str) -> None:
    """A death right after each durable step: the run continues, and spends nothing twice."""
    output = tmp_path / "out"
    nth = 2 if boundary == "checkpointed" else 3
    assert run(world / "log.xes", world / "config.toml", output, at=boundary, nth=nth) == KILLED
    before = verifier.digests(output)
    assert run(world / "log.xes", world / "config.toml", output) == 0
    assert verifier.verify(output) == []
    assert verify(output).holds
    assert verifier.decisions(output) == verifier.decisions(world / "calm")
    account = read_view(output / "operator" / "ledger.sqlite", "crash").account("maps")
    assert float(account.spending.summed.epsilon) == 20
    after = verifier.digests(output)
    assert all(after[key] == files for key, files in before.items())


def test_statement_report_and_catalogue_describe_a_map(world: Path, tmp_path: Path) -> None:
    """They name its files and no columns of a log; the report draws the map."""
    statement, report, record = tmp_path / "s.md", tmp_path / "r.html", tmp_path / "c.jsonld"
    output = str(world / "calm")
    assert execute(["statement", output, "maps", "-o", str(statement)]) == 0
    text = statement.read_text()
    assert "## Files of a release" in text
    assert "## How to read the map" in text
    assert "Columns" not in text
    assert "Variants" not in text
    assert execute(["report", output, "-o", str(report)]) == 0
    page = report.read_text()
    assert "directly-follows graph of 4 activities" in page
    assert execute(["catalogue", output, "maps", "--url", "https://example.org/maps", "-o", str(record)]) == 0
    assert "map.html" in record.read_text()


def test_audits_of_cases_do_not_apply(world: Path) -> None:
    """Each says why; the operator learns the true number of cases."""
    audit = json.loads((world / "calm" / "operator" / "maps" / "000002" / "audit.json").read_text())
    for name in ("anonymity", "risk", "utility", "loss"):
        assert audit[name]["status"] == "not_applicable"
    assert audit["leakage"]["status"] == "ok"
    assert audit["dp"]["cases"]["in"] > 0
    assert audit["gate"]["decision"] == "passed"


def test_the_python_api_does_not_load_a_log_from_a_map(world: Path) -> None:
    """It names the folder with the files."""
    import veilstream as vs

    result = vs.replay(str(world / "log.xes"), config=str(world / "config.toml"))
    with pytest.raises(InputError, match="holds a process map and no log"):
        _ = result.releases[-1].log
