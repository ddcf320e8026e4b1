"""Labels of dp-synthetic in a series: selected once, kept over crashes, and selected by series of older versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import NoEventsError
from stream.config import sources
from stream.ledger.sqlite import open_readonly, read_view
from stream.release.failpoints import Faults, Hook, nothing
from stream.run.replay import Replay
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth

FROZEN = Path(__file__).resolve().parent.parent / "fixtures" / "labels_first_eight"
"""Written by the program of commit 1b03a1b4, which selected labels again in each release: two releases of
five days, and a third one charged."""

CONFIG = (FROZEN / "config.toml").read_text()
CLEAR = CONFIG.replace("delta_dp = 1e-3", "delta_dp = 1e-9")
"""With the frozen delta a label of two cases leaves in one of ten thousand releases; with this one, never."""
ALL_CASES = CLEAR.replace('cases = "completed"\n', "")


def rows(days: int) -> list[str]:
    """60 cases a day: on the first day a b z, on later ones a c z, with other labels of two cases a day."""
    found = []
    for day in range(1, days + 1):
        for number in range(60):
            trace = ("ab"[:2] if day == 1 else "ac") if number < 58 else "aq"
            found += [
                f"d{day}-{number},{activity},2024-01-{day:02}T{10 + hour}:00:00Z"
                for hour, activity in enumerate(f"{trace}z")
            ]
    return found


def replay(
    folder: Path, days: int, config: str = CLEAR, *, output: str = "output", at: Hook = nothing, **options: Any
) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config)
    log = folder / f"{days}.csv"
    log.write_text("\n".join(["case,act,time", *rows(days)]) + "\n")
    settings = sources.load(folder / "config.toml")
    events = read_log(log, columns=settings.process.columns.changed)
    Replay(settings, folder / output, faults=Faults(at), **options).run(events)


def labels(folder: Path, output: str = "output") -> list[set[str]]:
    """Labels of each release."""
    files = sorted((folder / output / "public" / "p").glob("*/log.xes.gz"))
    found: list[set[str]] = []
    for path in files:
        try:
            found.append(set(read_log(path).activity.values))
        except NoEventsError:
            found.append(set())
    return found


def selected(folder: Path, output: str = "output") -> list[int]:
    """Release that selected the labels, by the manifest of each release."""
    files = sorted((folder / output / "public" / "p").glob("*/manifest.json"))
    manifests = [json.loads(path.read_text()) for path in files]
    return [manifest["mechanism"]["labels_selected"]["release"] for manifest in manifests]


def charges(folder: Path, output: str = "output") -> int:
    entries = open_readonly(folder / output / "operator" / "ledger.sqlite")
    return sum(entry.kind == "charge" for entry in entries)


@pytest.mark.parametrize("config", [CLEAR, ALL_CASES], ids=["completed", "all"])
def test_the_first_release_selects_the_labels_of_a_series(tmp_path: Path, config: str) -> None:
    """Label c, which all cases of later days have, is not among them; every manifest says when they were selected."""
    replay(tmp_path, 4, config)
    assert labels(tmp_path) == [{"a", "b", "z"}, *[{"a", "z"} if config is CLEAR else {"a", "b", "z"}] * 2]
    assert selected(tmp_path) == [1, 1, 1]
    assert verifier.verify(tmp_path / "output") == []


@pytest.mark.parametrize("boundary", ["charged", "built", "files_written", "sealed", "published"])
@pytest.mark.parametrize("release", [1, 2])
def test_selected_labels_survive_a_crash(tmp_path: Path, boundary: str, release: int) -> None:
    """At each step of the release that selects, and of one that does not. An attempt that nobody saw is drawn again
    under its charge."""
    with pytest.raises(Aborted):
        replay(tmp_path, 4, at=at_nth(boundary, release, abort))
    replay(tmp_path, 4)
    assert labels(tmp_path) == [{"a", "b", "z"}, {"a", "z"}, {"a", "z"}]
    assert selected(tmp_path) == [1, 1, 1]
    assert charges(tmp_path) == 3
    assert verifier.verify(tmp_path / "output") == []


def test_an_engine_keeps_the_labels_too(tmp_path: Path) -> None:
    """Builds on a table of variants receive the memory of the series."""
    pytest.importorskip("duckdb")
    from stream.engine.building import EngineBuilds

    replay(tmp_path, 4, built_by=EngineBuilds("duckdb", tmp_path / "output" / "operator"))
    assert labels(tmp_path) == [{"a", "b", "z"}, {"a", "z"}, {"a", "z"}]
    assert selected(tmp_path) == [1, 1, 1]


def test_labels_without_any_case_are_selected_by_the_first_release_that_has_some(tmp_path: Path) -> None:
    """Windows without a completed case come first: their releases are empty and decide nothing."""
    replay(tmp_path, 4, CLEAR.replace("2024-01-01T00", "2023-12-30T00").replace('"1d"', '"12h"'))
    with_labels = [number for number, found in enumerate(labels(tmp_path), start=1) if found]
    assert with_labels[0] > 1
    decided = selected(tmp_path)
    assert decided[with_labels[0] - 1 :] == [with_labels[0]] * (len(decided) - with_labels[0] + 1)
    assert decided[: with_labels[0]] == list(range(1, with_labels[0] + 1))


def test_a_series_of_the_version_before_goes_on(tmp_path: Path) -> None:
    """Its ledger, manifests, audits and state are read; the next release selects labels, and later ones keep them."""
    shutil.copytree(FROZEN / "output", tmp_path / "output")
    before = sorted((tmp_path / "output" / "public" / "p").glob("*/*"))
    digests = {path: path.read_bytes() for path in before}
    (tmp_path / "config.toml").write_text(CONFIG)
    settings = sources.load(tmp_path / "config.toml")
    Replay(settings, tmp_path / "output").run(read_log(FROZEN / "log.csv", columns=settings.process.columns.changed))
    assert {path: path.read_bytes() for path in before} == digests
    manifests = sorted((tmp_path / "output" / "public" / "p").glob("*/manifest.json"))
    decided = [json.loads(path.read_text())["mechanism"].get("labels_selected") for path in manifests]
    assert decided == [None, None, *[{"release": 3}] * 2]
    account = read_view(tmp_path / "output" / "operator" / "ledger.sqlite", "series").account("p")
    assert float(account.spending.summed.epsilon) == 20
    assert verifier.verify(tmp_path / "output") == []
