"""`veilstream utility`: the documented JSON, and what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from connectors import write_log
from models.eventlog import EventLog
from stream.commands import execute as run

MINUTE = 60_000_000_000


def _log(*traces: str) -> EventLog:
    """One event a minute; activity a is done by ann, b by bob, and so on."""
    cases = [f"c{number}" for number, trace in enumerate(traces) for _ in trace]
    names = [name for trace in traces for name in trace]
    times = np.asarray([place * MINUTE for trace in traces for place in range(len(trace))]) + 10**18
    return EventLog.from_events(
        cases, names, times, [{"a": "ann", "b": "bob", "c": "cy"}[name] for name in names], unit="ns"
    )


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "original.xes"
    write_log(_log("abc", "abc", "ab"), path)
    return path


def _written(folder: Path, *traces: str) -> str:
    path = folder / "released.csv"
    write_log(_log(*traces), path)
    return str(path)


def _json(capfdbinary: Any, *arguments: str) -> Any:
    assert run(["utility", *arguments, "--json"]) == 0
    return json.loads(capfdbinary.readouterr().out)


def test_documented_json(original: Path, tmp_path: Path, capfdbinary: Any) -> None:
    """c is gone: two of three cases lose one of three events; edges ab stay, both bc are lost; so with the people."""
    found = _json(capfdbinary, str(original), _written(tmp_path, "ab", "ab", "ab"), "--fitness", "replay")
    assert found["data_utility"] == pytest.approx(1 - 2 / 3 * 1 / 3)
    assert found["dfg"] == {"fitness": 3 / 5, "precision": 1.0, "f1": pytest.approx(0.75)}
    assert found["handover"] == found["dfg"]
    assert found["discovery"].keys() == {"fitness", "precision", "f1", "method"}
    assert found["emd_frequency"] == found["mae_frequency"] == 1.0
    assert found["emd_time_months"] == pytest.approx(1 / 60 / 720)
    assert found["bottlenecks"]["edges_shared"] == 1


def test_a_release_in_place_of_the_original_is_refused(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fitness and precision change places then, and nobody sees it from the figures."""
    release = vs.anonymize(str(original), K=2, C=1)
    path = tmp_path / "release.xes.gz"
    release.save(path)
    with pytest.raises(vs.InputError, match="give the original first"):
        vs.utility(release, str(original), fitness="none")
    assert run(["utility", str(path), str(original), "--fitness", "none"]) == 2
    assert "the first log states that it is a release (times: ordinal)" in " ".join(capsys.readouterr().err.split())
    assert run(["utility", str(original), str(path), "--fitness", "none"]) == 0
    assert run(["utility", str(path), str(path), "--fitness", "none"]) == 0
    assert vs.utility(str(original), release, fitness="none").document["data_utility"] > 0


def test_a_release_with_pseudonyms_and_without_times(original: Path, tmp_path: Path, capfd: Any) -> None:
    """Null where the file has no value, not 0; and asking for it is bad usage."""
    released = str(tmp_path / "released.xes")
    assert run(["anonymize", str(original), "-o", released, "--attribute", "ar", "--K", "2", "--C", "1"]) == 0
    capfd.readouterr()
    assert run(["utility", str(original), released, "--fitness", "none", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["data_utility"] == 1.0
    assert [found[name] for name in ("handover", "discovery", "emd_time_months", "bottlenecks")] == [None] * 4
    for perspective, message in (("resource", "pseudonyms"), ("activity,relative_time", "no times")):
        assert run(["utility", str(original), released, "--perspective", perspective]) == 2
        assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fitness", "guess"], "'guess'"),
        (["--T", "weeks"], "'weeks'"),
        (["--perspective", "shoe"], "'shoe'"),
        (["--perspective", ","], "names nothing"),
    ],
)
def test_bad_usage(original: Path, capfd: Any, arguments: list[str], message: str) -> None:
    """One line that names the value, exit 2."""
    assert run(["utility", str(original), str(original), *arguments]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_release_without_an_activity_of_the_original_is_refused(
    original: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Names in capitals, or another file: a distance of 0 between common edges looked like a perfect release."""
    released = tmp_path / "released.csv"
    text = (tmp_path / _written(tmp_path, "abc", "ab")).read_text()
    released.write_text(text.replace(",a,", ",A,").replace(",b,", ",B,").replace(",c,", ",C,"))
    assert run(["utility", str(original), str(released), "--fitness", "none"]) == 2
    assert "no activity of the original" in capfd.readouterr().err
    released.write_text(text.replace(",a,", ",A,"))
    assert run(["utility", str(original), str(released), "--fitness", "none"]) == 0
