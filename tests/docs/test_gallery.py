"""Each configuration of the gallery is valid and ends in the verdict that its page claims."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from connectors import write_log
from models.eventlog import EventLog
from stream.commands import execute
from tests.conftest import ROOT

GALLERY = ROOT / "examples" / "gallery"

VERDICTS = {
    "hospital-to-researchers": ("SAFE", 0),
    "city-to-the-public": ("SAFE", 0),
    "insurer-monthly-series": ("SAFE", 0),
    "bank-to-an-auditor": ("WAITING", 3),
    "university-staff-pseudonyms": ("SAFE", 0),
    "one-export-once": ("SAFE", 0),
}

PATHS = (("ask", "check", "done"), ("ask", "check", "check", "done"), ("ask", "test", "check", "done"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 cases over five months, three variants, three employees, four diagnoses."""
    rng = random.Random(7)
    rows = []
    diagnosis: dict[str, object] = {}
    for number in range(300):
        case = f"c{number:03d}"
        diagnosis[case] = rng.choice("abcd")
        moment = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=12 * number)
        for activity in rng.choice(PATHS):
            moment += timedelta(minutes=rng.randint(5, 300))
            rows.append((case, activity, int(moment.timestamp()) * 1_000_000_000, rng.choice(("Ann", "Ben", "Cleo"))))
    cases, activities, times, staff = zip(*rows, strict=True)
    path = tmp_path_factory.mktemp("gallery") / "log.xes"
    made = EventLog.from_events(
        cases, activities, np.asarray(times, dtype=np.int64), staff, {"diagnosis": diagnosis}, unit="ns"
    )
    write_log(made, path)
    return path


def test_the_monthly_series_leaves_one_log_over_all_months(log: Path, tmp_path: Path) -> None:
    """Each release has it, the manifest names its correlated noise, and the promise too."""
    config = str(GALLERY / "insurer-monthly-series.toml")
    assert execute(["replay", str(log), "-c", config, "-o", str(tmp_path / "out"), "--final"]) == 0
    releases = sorted((tmp_path / "out").rglob("manifest.json"))
    assert len(releases) >= 4
    manifest = json.loads(releases[-1].read_text(encoding="utf-8"))
    accumulated = manifest["mechanism"]["accumulated"]
    assert (accumulated["how"], accumulated["horizon"], accumulated["status"]) == ("factorized", 24, "ok")
    assert "whose noise is correlated" in manifest["promise"]["guaranteed"]
    assert (releases[-1].parent / "accumulated.xes.gz").exists()


def test_every_configuration_has_a_row_and_a_verdict() -> None:
    """The files, the page and this test know the same ones."""
    files = sorted(path.stem for path in GALLERY.glob("*.toml"))
    page = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert files == sorted(VERDICTS)
    for name, (word, _code) in VERDICTS.items():
        (row,) = [line for line in page.splitlines() if f"({name}.toml)" in line]
        assert f"| {word}" in row


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_it_is_valid_and_ends_as_claimed(
    name: str, log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The verdict that the page claims, with its exit code; staff pseudonyms are warned of."""
    config = str(GALLERY / f"{name}.toml")
    assert execute(["check-config", config]) == 0
    checked = "".join(capfd.readouterr())
    assert ("a pseudonym for each employee" in checked) == (name == "university-staff-pseudonyms")
    word, code = VERDICTS[name]
    assert execute(["replay", str(log), "-c", config, "-o", str(tmp_path / "out"), "--final", "--json"]) == code
    verdicts = json.loads(capfd.readouterr().out)["verdicts"]
    assert [verdict["verdict"] for verdict in verdicts] == [word]
