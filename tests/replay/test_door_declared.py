"""Kinds that promise epsilon read what is declared, row by row, and say at what their promise begins."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from connectors.reading import Reading
from models.errors import InputError
from stream.commands import execute

KINDS = {
    "dp-variants": ["--epsilon", "1", "--delta-dp", "0.01"],
    "dp-log": ["--epsilon", "1", "--delta-dp", "0.01"],
    "dp-synthetic": ["--epsilon", "5", "--delta-dp", "0.1", "--set", "max_labels=2"],
    "amun": ["--delta", "0.2", "--variant", "sampling"],
}
ROWS = [f"c{case},{name},0{1 + case % 9}/03/2024 1{at}:00" for case in range(60) for at, name in enumerate("AB")]
FLAGS = ["--encoding", "utf-8", "--separator", "comma", "--time-format", "%d/%m/%Y %H:%M", "--timezone", "UTC"]
BAD: list[bytes] = [b"her,A,03/25/2024 10:00", b"her,M\xfcller,02/03/2024 10:00", b'her,"A,02/03/2024 10:00', b"her,A,"]


def table(folder: Path, *more: bytes) -> Path:
    """A CSV file whose dates do not distinguish day and month."""
    folder.mkdir(exist_ok=True)
    file = folder / "log.csv"
    rows = [row.encode() for row in ["case:concept:name,concept:name,time:timestamp", *ROWS]]
    file.write_bytes(b"\n".join([*rows[:20], *more, *rows[20:]]) + b"\n")
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_guessed_and_the_error_has_the_flags(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 with flags to copy; with them the command runs, and leaves out each row that cannot be read."""
    file = table(tmp_path, b"you,A,2024-03-25T10:00:00Z")
    words = ["anonymize", str(file), "-o", str(tmp_path / "out.xes"), "--mechanism", kind, *KINDS[kind]]
    assert execute(words) == 2
    said = capsys.readouterr().err
    assert "guesses nothing; declare --encoding, --separator, --time-format" in said
    assert "--encoding utf-8 --separator comma --time-format" in said
    assert execute([*words, *FLAGS, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["events"]["in"] == 120
    assert "1 rows were left out: 1 with a time that cannot be read" in shown.err
    assert json.loads(shown.out)["promise"]["intake"].startswith("the promise begins at the rows")


def test_the_flags_of_an_inspection_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The flags that `inspect` prints for such kinds can be pasted."""
    rows = ["case:concept:name;concept:name;time:timestamp", "1;A;13.02.2024 08:00", "1;Prüfung;14.02.2024 08:00"]
    file = tmp_path / "log.csv"
    file.write_bytes("\n".join(rows).encode("cp1252"))
    assert execute(["inspect", str(file), "--json"]) == 0
    flags = " ".join(json.loads(capsys.readouterr().out)["declared"]).replace("ZONE", "Europe/Berlin")
    words = ["anonymize", str(file), "-o", str(tmp_path / "out.xes"), "--mechanism", "dp-variants"]
    assert execute([*words, *KINDS["dp-variants"], *shlex.split(flags), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"]["in"] == 2


@pytest.mark.parametrize("row", BAD)
def test_the_others_are_read_as_without_the_row(row: bytes, tmp_path: Path) -> None:
    """Traces, times and labels of all others, whatever is in one row."""
    reading = Reading(
        declared=True, encoding="utf-8", separator="comma", time_format="%d/%m/%Y %H:%M", timezone="UTC"
    )  # fmt: skip
    with_row = read_log(table(tmp_path / "a", row), reading=reading)
    without = read_log(table(tmp_path / "b"), reading=reading)
    assert with_row.case_ids == without.case_ids
    assert with_row.traces() == without.traces()
    assert with_row.time.tolist() == without.time.tolist()


def test_a_field_of_two_lines_is_read_alike_whatever_other_rows_hold(tmp_path: Path) -> None:
    """It costs its row with and without a bad row elsewhere: no row moves the reader to another way of reading."""
    reading = Reading(
        declared=True, encoding="utf-8", separator="comma", time_format="%d/%m/%Y %H:%M", timezone="UTC"
    )  # fmt: skip
    two_lines = b'long,"A\nB",02/03/2024 10:00'
    for more in ((two_lines,), (two_lines, b"her,A,")):
        assert "long" not in read_log(table(tmp_path, *more), reading=reading).case_ids


def test_an_encoding_in_which_one_byte_shifts_the_rest_is_refused(tmp_path: Path) -> None:
    """UTF-16: an odd byte of one row makes other letters of all rows behind it."""
    file = tmp_path / "log.csv"
    file.write_bytes("\n".join(["case:concept:name,concept:name,time:timestamp", *ROWS]).encode("utf-16"))
    reading = Reading(declared=True, encoding="utf-16", separator="comma", time_format="day-first", timezone="UTC")
    with pytest.raises(InputError, match="convert the file to UTF-8"):
        read_log(file, reading=reading)


def test_times_of_parquet_that_are_texts_are_declared_too(tmp_path: Path) -> None:
    """A timestamp declares itself; a text and a number do not."""
    import pandas as pd

    parts = [row.split(",") for row in ROWS]
    frame = pd.DataFrame(parts, columns=["case:concept:name", "concept:name", "time:timestamp"])
    frame.to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(InputError, match="declare --time-format"):
        read_log(tmp_path / "texts.parquet", reading=Reading(declared=True, timezone="UTC"))
    frame["time:timestamp"] = range(1_704_067_200, 1_704_067_200 + len(frame))
    frame.to_parquet(tmp_path / "numbers.parquet")
    with pytest.raises(InputError, match="declare --time-format"):
        read_log(tmp_path / "numbers.parquet", reading=Reading(declared=True))
    frame["time:timestamp"] = pd.to_datetime(frame["time:timestamp"], unit="s", utc=True)
    frame.to_parquet(tmp_path / "typed.parquet")
    assert read_log(tmp_path / "typed.parquet", reading=Reading(declared=True)).n_events == 120


def published(folder: Path, log: Path, *words: str) -> dict[str, Any]:
    """The manifest of the first release of a replay with dp-variants."""
    config = folder / "c.toml"
    config.write_text(
        '[process]\ntimezone = "UTC"\n[[publication]]\nname = "p"\nstart = "2024-03-01T00:00:00Z"\n'
        'window = { every = "1d", time = "event" }\n'
        'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }\n'
    )
    assert execute(["replay", str(log), "-c", str(config), "-o", str(folder / "out"), *words, "--json"]) == 0
    first = sorted((folder / "out" / "public" / "p").glob("*/manifest.json"))[0]
    found: dict[str, Any] = json.loads(first.read_text())
    return found


@pytest.mark.parametrize("until", [(), ("--until", "2024-03-12T00:00:00Z")])
def test_the_manifest_says_where_the_promise_begins(
    until: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the rows, and whether the last one decides how many releases there are; no count of bad rows is in public."""
    log = table(tmp_path, *BAD)
    manifest = published(tmp_path, log, *FLAGS, *until)
    assert json.loads(capsys.readouterr().out)["bad_rows"]
    intake = manifest["promise"]["intake"]
    assert intake.startswith("the promise begins at the rows")
    assert ("ends with the last event" in intake) == (not until)
    assert "bad" not in json.dumps(manifest)
    assert (tmp_path / "out" / "operator" / "bad-rows.csv").is_file()


def test_one_event_of_xes_refuses_no_log(tmp_path: Path) -> None:
    """XES declares itself, and a bad event is left out like a bad row."""
    events = [
        f'<event><string key="concept:name" value="A"/><date key="time:timestamp" value="{time}"/></event>'
        for time in ("2024-03-02T10:00:00Z", "2024-03-03T10:00:00", "someday")
    ]
    traces = [f'<trace><string key="concept:name" value="{i}"/>{event}</trace>' for i, event in enumerate(events)]
    (tmp_path / "log.xes").write_text(f"<log>{''.join(traces)}</log>")
    manifest = published(tmp_path, tmp_path / "log.xes")
    assert manifest["promise"]["intake"].startswith("the promise begins at the rows (XES: events)")


def test_a_name_that_only_one_person_has_refuses_no_replay(tmp_path: Path) -> None:
    """`end_activities` names an activity that no row has: with one row it ran, without it the replay was refused."""
    config = tmp_path / "c.toml"
    config.write_text(
        '[process]\ntimezone = "UTC"\ncompletion = { end_activities = ["Z"] }\n[[publication]]\nname = "p"\n'
        'start = "2024-03-01T00:00:00Z"\nwindow = { every = "1d", time = "event" }\n'
        'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }\n'
    )
    for number, more in enumerate(((), (b"her,Z,02/03/2024 10:00",))):
        log, output = table(tmp_path / str(number), *more), tmp_path / str(number) / "out"
        assert execute(["replay", str(log), "-c", str(config), "-o", str(output), *FLAGS, "--json"]) == 0
