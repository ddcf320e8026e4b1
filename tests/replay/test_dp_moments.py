"""Replays of dp publications: what one person's events cannot move, and what a configuration must say for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.commands import execute
from stream.config import sources
from stream.run.replay import Replay
from tests.conftest import DECLARED

CONFIG = """
[process]
name = "moments"
{process}
[[publication]]
name = "p"
window = {{ every = "1d", time = "{time}"{first} }}
mechanism = {{ kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }}
audit = {{ anonymity = false, series = false, leakage = false, risk = false, utility = false }}
{publication}
"""
START = 'start = "2024-01-01T00:00:00Z"'
COLUMNS = 'columns = { case = "case", activity = "act", time = "time" }'
OTHERS = [f"c{i},a,2024-01-02T{i % 24:02}:00:00Z" for i in range(60)]


def replay(
    folder: Path,
    rows: list[str],
    *words: str,
    process: str = "",
    publication: str = START,
    time: str = "event",
    first: str = "",
) -> int:
    folder.mkdir(exist_ok=True)
    (folder / "log.csv").write_text("\n".join(["case,act,time", *rows]) + "\n")
    text = CONFIG.format(process=f"{COLUMNS}\n{process}", publication=publication, time=time, first=first)
    (folder / "c.toml").write_text(text + DECLARED)
    out = str(folder / "out")
    return execute(["replay", str(folder / "log.csv"), "-c", str(folder / "c.toml"), "-o", out, "--json", *words])


def manifests(folder: Path) -> list[dict[str, Any]]:
    """In order of their numbers."""
    return [json.loads(path.read_text()) for path in sorted((folder / "out" / "public" / "p").glob("*/manifest.json"))]


def outside(folder: Path) -> list[tuple[Any, ...]]:
    """Return what a recipient sees of each release apart from its content: number, moment, times of files, all manifest
    keys.
    """

    def of(path: Path) -> tuple[Any, ...]:
        manifest = json.loads((path / "manifest.json").read_text())
        files = [(file["path"]) for file in manifest.pop("files")]
        del manifest["chain"]["previous_manifest"]  # a digest of the noise before
        return path.name, manifest, files, {one.stat().st_mtime_ns for one in (path, *path.iterdir())}

    return [of(path) for path in sorted((folder / "out" / "public" / "p").iterdir())]


@pytest.mark.parametrize("time", ["event", "wall"])
@pytest.mark.parametrize(
    "hers",
    [
        ["her,x,2024-01-01T03:00:00Z"],
        ["her,x,1970-01-01T00:00:00Z"],
        ["her,x,2024-01-05T03:00:00Z", "her,y,2024-01-05T04:00:00Z"],
        ["her,x,2024-03-05T03:00:00Z"],
        [f"her,x,2024-01-02T12:{i // 60:02}:{i % 60:02}Z" for i in range(3000)],
    ],
    ids=["first", "1970", "last", "after the end", "long"],
)
def test_one_person_moves_no_moment(tmp_path: Path, time: str, hers: list[str]) -> None:
    """With and without her: as many releases, at the same moments, with the same words and times of files. An event
    of 1970 spent a whole budget on empty windows; a case of many events showed in `published`."""
    words = ("--until", "2024-01-06T00:00:00Z", "--final")
    process = 'earliest = "2023-01-01T00:00:00Z"'
    for name, rows in (("with", [*OTHERS, *hers]), ("without", OTHERS)):
        assert replay(tmp_path / name, rows, *words, process=process, time=time) == 0
    seen = [outside(tmp_path / name) for name in ("with", "without")]
    for one in seen:  # the final release says when the replay began, of each run
        number, manifest, files, _ = one.pop()
        one.append((number, {**manifest, "published": None}, files, set()))
    assert seen[0] == seen[1]
    days = [f"2024-01-{day:02}T00:15:00+00:00" for day in range(2, 7)]
    assert [one[1]["published"] for one in seen[0]] == [*days, None]


def test_events_before_the_earliest_and_after_the_end_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost silently."""
    rows = [*OTHERS, "x,a,1969-01-01T00:00:00Z", "x,a,2024-02-01T00:00:00Z"]
    words = ("--until", "2024-01-06T00:00:00Z")
    assert replay(tmp_path, rows, *words, process='earliest = "2023-01-01T00:00:00Z"') == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["events"], document["left_out"]) == (60, 2)
    assert document["tail"]["publications"]["p"]["seen"] == 60


def test_an_end_belongs_to_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A later end would cut the same windows again under other names."""
    for end, code in (("2024-01-06", 0), ("2024-01-06", 0), ("2024-01-07", 4)):
        assert replay(tmp_path, OTHERS, "--until", f"{end}T00:00:00Z") == code
    assert "--until" in capsys.readouterr().err
    assert len(manifests(tmp_path)) == 5


@pytest.mark.parametrize("time", ["event", "wall"])
def test_a_replay_needs_a_public_start(tmp_path: Path, capsys: pytest.CaptureFixture[str], time: str) -> None:
    """Otherwise it would begin with the first event, which is a person's. If the operator accepts that, it does."""
    assert replay(tmp_path / "a", OTHERS, publication="", time=time) == 2
    error = capsys.readouterr().err
    assert "start = <time>" in error
    assert not (tmp_path / "a" / "out").exists()
    assert replay(tmp_path / "b", OTHERS, "--final", publication="gate = { public_cut = true }", time=time) == 0


def test_a_fixed_first_moment_comes_without_an_event(tmp_path: Path) -> None:
    """`until` is two days behind the last event, and before the end."""
    first = ', first = { until = "2024-01-04T12:00:00Z" }'
    assert replay(tmp_path, OTHERS, "--until", "2024-01-06T00:00:00Z", first=first) == 0
    moments = [one["published"] for one in manifests(tmp_path)]
    assert moments == [f"2024-01-{moment}:00+00:00" for moment in ("04T12:15", "05T00:15", "06T00:15")]


def test_every_key_of_first_but_a_fixed_moment_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """new_events among them: 0 of 5 releases without one person's event, 5 of 5 with it."""
    for key in ("new_events = 61", "new_cases = 2", "events_fraction = 0.5", "paper_split = 0.5"):
        assert replay(tmp_path, OTHERS, first=f", first = {{ {key} }}") == 2
        assert f"first.{key.split()[0]} reads the data" in capsys.readouterr().err


def test_a_simulated_clock_is_said(tmp_path: Path) -> None:
    """Wall windows of any mechanism, and dp releases at a moment of that clock; others reveal the machine's time."""
    assert replay(tmp_path / "dp", OTHERS, "--final") == 0
    assert [one.get("clock") for one in manifests(tmp_path / "dp")] == ["simulated", None]
    for time, said in (("wall", {"simulated"}), ("event", {None})):
        folder = tmp_path / time
        replay(folder, OTHERS, time=time)  # writes the files; the mechanism is changed below
        text = (
            (folder / "c.toml")
            .read_text()
            .replace('kind = "dp-variants", epsilon = 1, delta_dp = 1e-3', 'kind = "identity"')
        )
        (folder / "c.toml").write_text(text)
        words = [
            "replay",
            str(folder / "log.csv"),
            "-c",
            str(folder / "c.toml"),
            "-o",
            str(folder / "plain"),
            "--final",
        ]
        assert execute(words) == 0
        found = [json.loads(path.read_text()) for path in (folder / "plain").glob("public/p/*/manifest.json")]
        assert {one.get("clock") for one in found} == said


def test_a_delay_belongs_to_dp_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another mechanism's bytes would wait while a case in them is erased."""
    (tmp_path / "c.toml").write_text(
        '[[publication]]\nname = "p"\nwindow = { new_cases = 5 }\nmechanism = { kind = "identity" }\n'
        'publish_after = "1m"\n'
    )
    assert execute(["check-config", str(tmp_path / "c.toml")]) == 2
    assert "publish_after" in capsys.readouterr().err


def test_a_start_needs_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not report a publication that counts cases."""
    (tmp_path / "c.toml").write_text(
        f'[[publication]]\nname = "p"\nwindow = {{ new_cases = 5 }}\nmechanism = {{ kind = "identity" }}\n{START}\n'
    )
    assert execute(["check-config", str(tmp_path / "c.toml")]) == 2
    assert "window.every" in capsys.readouterr().err


def test_at_a_speed_a_release_is_hidden_until_event_time_reaches_its_moment(tmp_path: Path) -> None:
    """`--speed` sleeps from event to event and for nothing else; the rest comes with the last event."""
    assert replay(tmp_path, [*OTHERS, "c1,b,2024-01-03T00:10:00Z", "c1,b,2024-01-03T00:20:00Z"], publication=START) == 0
    public = tmp_path / "paced" / "public" / "p"
    seen: list[list[str]] = []

    def look(_seconds: float) -> None:
        seen.append(sorted(path.name for path in public.glob("release-*")))

    paced = Replay(sources.load(tmp_path / "c.toml"), tmp_path / "paced", speed=1.0, sleep=look)
    log = read_log(tmp_path / "log.csv", {"case": "case", "activity": "act", "time": "time"})
    outcome = paced.run(log)
    assert [decision.status for _, decision in outcome.decisions] == ["sealed", "sealed"]
    first = ["release-000001"]
    assert seen[-3:] == [first, first, first]  # before the last events: 23:00, 00:10 and 00:20 of the third day
    assert sorted(path.name for path in public.iterdir()) == ["release-000001", "release-000002"]
