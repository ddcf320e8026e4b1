"""The archive of a replay: written before the state, erased, backed up, migrated, and read back as a log."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import InputError, RefusedError
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.config import sources
from stream.fold.state import digest
from stream.ledger.archive import Archive
from stream.ledger.folder import read_key
from stream.ledger.sqlite import SqliteLedger
from stream.operator import held_events
from stream.operator.held_events import held_log
from stream.operator.verify import verify
from stream.release.failpoints import Faults
from stream.run.replay import Replay
from stream.run.service import ReleaseService, archive_of
from stream.testing import verifier
from stream.testing.faults import Aborted, WatchedDisk, abort
from stream.values.pseudonym import Pseudonyms
from tests.entries import entry
from tests.replay.crashing import KILLED, run, sample
from tests.replay.test_crash_once import manifests, traces

CASES = 100
CONFIG = """
checkpoint_every = 60
{key}
[process]
name = "crash"
sensitive = ["ill"]
completion = {{ end_activities = ["d"] }}
{archive}
[[publication]]
name = "counted"
start = "1970-01-01T00:00:00Z"
window = {{ every = "1h", time = "wall" }}
cases = "completed"
mechanism = {{ kind = "dp-variants", epsilon = 60, delta_dp = 1e-3 }}
audit = {{ risk = false, utility = false }}
"""
"""So little noise (none but for one draw in e^20) that true counts are released."""
ANOTHER_PLAN = """
[process]
name = "another"
[[publication]]
name = "everything"
window = { new_cases = 20 }
mechanism = { kind = "identity" }
audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }
"""

Event = tuple[str, str, int, Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the log and the configuration."""
    sample(tmp_path, CASES)
    configured(tmp_path)
    return tmp_path


def configured(folder: Path, archive: str = 'archive = "for ever"', key: str = "") -> Path:
    path = folder / "config.toml"
    path.write_text(CONFIG.format(archive=archive, key=key))
    return path


def replayed(
    folder: Path,
    output: str = "out",
    log: str = "log.xes",
    config: str = "config.toml",
    faults: Faults = Faults(),  # noqa: B008
) -> None:
    Replay(sources.load(folder / config), folder / output, batch=40, faults=faults).run(read_log(folder / log))


def half_way(folder: Path) -> None:
    """Run until events of two drops are in the archive and a state without them is saved, and die."""
    n_segments = 0

    def at(point: str) -> None:
        nonlocal n_segments
        n_segments += point == "archived"
        if point == "checkpointed" and n_segments >= 2:
            abort()

    with pytest.raises(Aborted):
        replayed(folder, faults=Faults(at))
    assert len(archive(folder).segments()) == 2


def archive(folder: Path) -> Archive:
    return archive_of(sources.load(folder / "config.toml"), folder / "out", None)


def pseudonyms(folder: Path) -> Pseudonyms:
    return Pseudonyms(read_key(folder / "out" / "operator" / "key"))


def bag(log: EventLog, pseudonym: Any = str) -> Counter[Event]:
    """Case, activity, time and sensitive value of each event."""
    ill = log.case_attributes["ill"].decode()
    cases = log.case_of_event.tolist()
    found: Iterator[Event] = (
        (pseudonym(log.case_ids[case]), activity, time, ill[case])
        for case, activity, time in zip(cases, log.activity.decode(), log.time.tolist(), strict=True)
    )
    return Counter(found)


def source(folder: Path) -> Counter[Event]:
    return bag(read_log(folder / "log.xes"), pseudonyms(folder).case)


def archived_cases(folder: Path) -> set[str]:
    return {case for table in archive(folder).read(until=1 << 40) for case in table.column("case").to_pylist()}


def released(folder: Path, output: str, name: str = "counted") -> list[Counter[tuple[str, ...]]]:
    public = folder / output / "public" / name
    return [traces(path / "log.xes.gz") for path in sorted(public.glob("release-*"))]


def test_the_log_of_a_process_replays_as_the_original_log(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Archive and state are the source, event by event. The plan of the process makes the same releases of it, and so
    does another plan: a new publication gets its past."""
    replayed(place)
    assert len(archived_cases(place)) > CASES // 3
    command = ["archive", str(place / "out"), "-c", str(place / "config.toml"), "-o", str(place / "held.parquet")]
    assert veilstream([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == CASES
    assert (place / "held.parquet").stat().st_mode & 0o077 == 0
    assert bag(read_log(place / "held.parquet")) == source(place)

    replayed(place, "again", "held.parquet")
    original = released(place, "out")
    assert len(original) >= 4
    assert released(place, "again") == original

    (place / "another.toml").write_text(ANOTHER_PLAN)
    for output, log in (("of-archive", "held.parquet"), ("of-source", "log.xes")):
        replayed(place, output, log, "another.toml")
    assert len(released(place, "of-source", "everything")) == CASES // 20
    assert released(place, "of-archive", "everything") == released(place, "of-source", "everything")


def test_without_the_key_nothing_is_archived(place: Path) -> None:
    """No file keeps the released events then."""
    configured(place, archive="")
    replayed(place)
    assert not (place / "out" / "operator" / "archived_events").exists()
    assert held_log(sources.load(place / "config.toml"), place / "out").n_cases < CASES


def test_an_archive_that_was_switched_off_is_reported(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its files do not expire any more, and only the operator can remove them."""
    replayed(place)
    for archive_key, is_reported in (('archive = "for ever"', False), ("", True)):
        configured(place, archive=archive_key)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "veilstream"):
            ReleaseService(sources.load(place / "config.toml"), place / "out").close()
        assert ("kept there without end" in caplog.text) is is_reported


class FullArchive(WatchedDisk):
    """A disk on which one operation fails in the archive, from the n-th on: the rest of the folder has its space."""

    def __init__(self, operation: str, nth: int) -> None:
        self._operation, self._left = operation, nth

    def before(self, operation: str, path: Path) -> None:
        if operation != self._operation or "archived_events" not in path.parts:
            return
        self._left -= 1
        if self._left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.mark.parametrize("operation", ["write", "fsync", "replace"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_disk_that_is_full_while_a_segment_is_written(place: Path, operation: str, nth: int) -> None:
    """The run ends before it saves a state without the events; with space, the next one archives each of them once."""
    with pytest.raises(OSError, match="No space left"):
        replayed(place, faults=Faults(ops=FullArchive(operation, nth)))
    replayed(place)
    assert bag(held_log(sources.load(place / "config.toml"), place / "out")) == source(place)
    assert verifier.verify(place / "out") == []


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_kill_behind_a_segment(place: Path, nth: int) -> None:
    """The segment is there and the state still has its events: the next start drops them again, and none is doubled."""
    calm = run(place / "log.xes", place / "config.toml", place / "calm")
    assert calm == 0
    death = {"at": "archived", "nth": nth}
    assert run(place / "log.xes", place / "config.toml", place / "out", **death) == KILLED
    assert archive(place).segments()
    if nth > 1:  # behind the first segment no state was saved yet
        assert bag(held_log(sources.load(place / "config.toml"), place / "out")) <= source(place)
    assert run(place / "log.xes", place / "config.toml", place / "out") == 0
    assert bag(held_log(sources.load(place / "config.toml"), place / "out")) == source(place)
    assert released(place, "out") == released(place, "calm")
    assert [one["sequence"] for one in manifests(place / "out", "counted")] == list(
        range(1, len(released(place, "out")) + 1)
    )
    assert verifier.verify(place / "out") == []


def test_an_erased_case_is_in_no_segment(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was archived; the report counts its events; then it is in no file, at once and after the run continued."""
    half_way(place)
    pseudonym = pseudonyms(place).case("case3")
    assert pseudonym in archived_cases(place)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\n")))
    assert veilstream(["erase", "-c", str(place / "config.toml"), "-o", str(place / "out"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    source_events = source(place)
    erased = Counter({event: count for event, count in source_events.items() if event[0] == pseudonym})
    assert report["archived_events"] == erased.total()
    assert_erased(place, pseudonym)
    replayed(place)
    assert_erased(place, pseudonym)
    assert bag(held_log(sources.load(place / "config.toml"), place / "out")) == source_events - erased


def assert_erased(place: Path, pseudonym: str) -> None:
    assert pseudonym not in archived_cases(place)
    for path in (place / "out" / "operator").rglob("*"):
        if path.is_file():
            assert pseudonym.encode() not in path.read_bytes()


def test_an_erasure_that_died_before_the_archive_is_finished_at_the_next_start(place: Path) -> None:
    """The ledger has it: opening the folder removes the case, also from a backup of before, whose files are older than
    the list of cases that were removed."""
    half_way(place)
    pseudonym = pseudonyms(place).case("case3")
    assert veilstream(["backup", str(place / "out"), str(place / "b.tar.gz"), "--with-key"]) == 0
    body = {"cases": 1, "tombstones": [digest(pseudonym).hex()], "releases": [1]}
    ledger = SqliteLedger(place / "out" / "operator" / "ledger.sqlite", "crash")
    ledger.append(entry("erased", publication="counted", body=body))
    ledger.close()
    assert pseudonym in archived_cases(place)
    log = held_log(sources.load(place / "config.toml"), place / "out")
    assert pseudonym not in log.case_ids  # nor is it written by `veilstream archive` before that
    assert len(log.case_ids) > 1
    replayed(place)
    assert_erased(place, pseudonym)

    assert veilstream(["backup", str(place / "out"), str(place / "late.tar.gz"), "--with-key"]) == 0
    shutil.rmtree(place / "out")
    assert veilstream(["restore", str(place / "late.tar.gz"), str(place / "out")]) == 0
    assert not (place / "out" / "operator" / "archived_events" / "erased.sealed").exists()
    assert pseudonym not in archived_cases(place)


def test_a_backup_has_the_archive(place: Path) -> None:
    """The operator's folder is lost; the restored one continues, and has each event once."""
    half_way(place)
    before = archived_cases(place)
    assert veilstream(["backup", str(place / "out"), str(place / "b.tar.gz"), "--with-key"]) == 0
    shutil.rmtree(place / "out" / "operator")
    assert veilstream(["restore", str(place / "b.tar.gz"), str(place / "out")]) == 0
    assert archived_cases(place) == before
    replayed(place)
    assert bag(held_log(sources.load(place / "config.toml"), place / "out")) == source(place)


def test_a_storage_key_encrypts_the_archive(place: Path) -> None:
    """Plain segments are listed and rewritten by migrate; with the key they are read, without it nothing is."""
    replayed(place)
    (segment, *_) = sorted((place / "out" / "operator" / "archived_events").glob("*-*.sealed"))
    assert b"PAR1" in segment.read_bytes()
    configured(place, key=f'checkpoint_key = "{"ab" * 32}"')
    with pytest.raises(RefusedError, match="veilstream migrate"):
        archived_cases(place)
    command = ["migrate", "-c", str(place / "config.toml"), "-o", str(place / "out")]
    assert veilstream(command) == 0
    assert b"PAR1" not in segment.read_bytes()
    assert bag(held_log(sources.load(place / "config.toml"), place / "out")) == source(place)
    configured(place)
    with pytest.raises(RefusedError):
        archived_cases(place)


def test_verify_names_a_damaged_segment(place: Path) -> None:
    """A part of the archive is lost, and nothing else would read it for years."""
    replayed(place)
    assert verify(place / "out").holds
    (segment, *_) = sorted((place / "out" / "operator" / "archived_events").glob("*-*.sealed"))
    segment.write_bytes(segment.read_bytes()[:-20])
    (problem,) = verify(place / "out").problems
    assert problem.kind == "archive"
    assert segment.name in problem.text


def test_verify_and_the_exported_log_miss_a_deleted_segment(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its events are in no state: neither an export nor a check passes over them."""
    replayed(place)
    (segment, *_) = sorted((place / "out" / "operator" / "archived_events").glob("*-*.sealed"))
    segment.unlink()
    (problem,) = verify(place / "out").problems
    assert problem.kind == "archive"
    assert f"{segment}: is missing" in problem.text
    held_log(sources.load(place / "config.toml"), place / "out")
    assert f"{segment.name}: is missing" in caplog.text


def test_an_older_state_is_not_exported_as_the_newest(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest checkpoint is damaged, and the one before lacks the events that came later: exit 4."""
    monkeypatch.setattr(held_events, "SECONDS_BETWEEN_READS", 0.0)
    replayed(place)
    newest = place / "out" / "operator" / "checkpoints" / "fold.checkpoint"
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(RefusedError, match=r"fold\.checkpoint.*lacks the events that came later") as caught:
        held_log(sources.load(place / "config.toml"), place / "out")
    assert caught.value.exit_code == 4


def test_the_folder_of_another_process_is_not_exported(place: Path) -> None:
    """Its events would be taken for those of the configuration's process."""
    replayed(place)
    other = place / "config.toml"
    other.write_text(re.sub(r'name = "\w+"', 'name = "other"', other.read_text(), count=1))
    with pytest.raises(InputError, match="the configuration is of 'other'"):
        held_log(sources.load(other), place / "out")
