"""`replay --engine`: an engine builds each cut, and the releases are those of the mechanisms in memory."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log, write_log
from connectors.files import FileOps
from models.eventlog import EventLog, SimpleLog
from stream.commands import execute
from stream.config import sources
from stream.engine.building import EngineBuilds
from stream.fold.state import EVENT_COLUMNS
from stream.ledger.entries import SealEntry
from stream.ledger.release_record import ReleaseRecord, VariantsFile
from stream.ledger.sqlite import open_readonly
from stream.release.failpoints import Faults, Hook, nothing
from stream.run.replay import Replay, ReplayOutcome
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values import paged
from stream.values.paged import ColumnFiles
from tests.conftest import ROOT
from tests.replay.crashing import KILLED, configuration, run, sample

HOSPITAL = ROOT / "examples" / "hospital.xes.gz"

TLKC = '{ kind = "tlkc", knowledge = "seq", attribute = "ac", L = 2, K = 5, C = 0.8, suppression = "exact" }'
RELATIVE = '{ kind = "tlkc", knowledge = "rel", attribute = "ar", T = "days", L = 1, K = 5, suppression = "greedy" }'


KEY = "ab" * 32
"""Of pseudonyms: resources are named alike in two folders."""


def configured(folder: Path, *publications: str, sensitive: str = "diagnosis") -> Path:
    """A configuration file; of each publication what is behind its name."""
    tables = [f'[[publication]]\nname = "p{number}"\n{text}' for number, text in enumerate(publications)]
    path = folder / "veilstream.toml"
    path.write_text(
        "\n".join([f'key = "{KEY}"', '[process]\nname = "engines"', f"sensitive = [{sensitive!r}]", *tables]) + "\n"
    )
    return path


def replayed(log: Path, config: Path, output: Path, kind: str = "") -> ReplayOutcome:
    """A replay whose releases an engine builds; the mechanisms themselves if none is named."""
    loaded = sources.load(config)
    built_by = EngineBuilds(kind, output / "operator") if kind else None
    return Replay(loaded, output, built_by=built_by).run(read_log(log), final=True)


def measured(outcome: ReplayOutcome) -> list[dict[str, Any]]:
    """The audits of all decisions without what differs from run to run: moments, durations, and digests of files."""
    drawn = ("seconds", "published", "files", "chain")
    audits = [dict(decision.audit) for _, decision in outcome.decisions]
    return [{name: part for name, part in audit.items() if name not in drawn} for audit in audits]


def plans(output: Path) -> list[str | None]:
    """Return the plan in each seal."""
    entries = open_readonly(output / "operator" / "ledger.sqlite")
    return [entry.body.plan for entry in entries if isinstance(entry, SealEntry)]


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Put each column of events into a file, small ones too; count them by the function that made them."""
    monkeypatch.setattr(paged, "SMALL", 0)
    monkeypatch.setattr(paged, "BLOCK", 500)
    made, empty = Counter[str](), ColumnFiles.empty

    def noted(pages: ColumnFiles, length: int, dtype: Any) -> Any:
        made[sys._getframe(1).f_code.co_name] += 1
        return empty(pages, length, dtype)

    monkeypatch.setattr(ColumnFiles, "empty", noted)
    return made


def test_audits_meet_the_activities_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of variants begins with the frequent ones, and the fold with the first. Of several background knowledges
    with one value, their order decides which one an audit names."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    orders: list[tuple[Any, ...]] = []
    simple = ReleaseRecord.simple

    def noted(record: ReleaseRecord, carries: Sequence[str] | None = None) -> SimpleLog:
        result = simple(record, carries)
        orders.append(result.alphabet)
        return result

    monkeypatch.setattr(ReleaseRecord, "simple", noted)
    log = EventLog.from_traces([(("rare", "last"), None)] * 3 + [(("often", "last"), None)] * 40)
    write_log(log, tmp_path / "log.csv")
    config = configured(
        tmp_path, 'mechanism = { kind = "identity" }\nwindow = { new_cases = 20 }\ngate = { on_violation = "warn" }'
    )
    config.write_text(config.read_text().replace("sensitive = ['diagnosis']\n", ""))
    replayed(tmp_path / "log.csv", config, tmp_path / "memory")
    assert {*orders} == {("rare", "often", "last")}
    orders.clear()
    replayed(tmp_path / "log.csv", config, tmp_path / "engine", "duckdb")
    # A column of the fold has all names so far, and that of a plan those of its cases.
    assert {*orders} == {("rare", "often"), ("rare", "often", "last")}


@pytest.mark.parametrize(
    "mechanism",
    [TLKC, RELATIVE, '{ kind = "baseline-2", K = 5 }', '{ kind = "pretsa", K = 5 }', '{ kind = "identity" }'],
    ids=["tlkc", "relative", "baseline-2", "pretsa", "identity"],
)
def test_the_same_releases_as_in_memory(mechanism: str, tmp_path: Path, in_files: Counter[str]) -> None:
    """Content and audits, release by release. The ledger names each plan, by other names under another key."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    rest = 'window = { new_cases = 700 }\ngate = { on_violation = "warn" }\nrelease_attributes = ["diagnosis"]'
    config = configured(tmp_path, f"mechanism = {mechanism}\n{rest}")
    whole = replayed(HOSPITAL, config, tmp_path / "memory")
    assert not in_files
    own = replayed(HOSPITAL, config, tmp_path / "engine", "duckdb")
    # Activity, resource, time and row of the released and the published log of three releases.
    assert in_files["joined"] == 3 * 2 * 4
    # Those of the exposed log and of the release that was read back; case, activity, resource, time and end of
    # the replayed log; and the columns of the fold, which then grow in files.
    assert in_files["keep"] == 3 * 2 * 4 + 5 + len([*EVENT_COLUMNS, "flag"])
    assert in_files["reserve"] > len(EVENT_COLUMNS)
    assert [decision.status for _, decision in own.decisions] == ["sealed"] * 3
    assert verifier.verify(tmp_path / "engine") == []
    assert verifier.contents(tmp_path / "engine") == verifier.contents(tmp_path / "memory")
    assert measured(own) == measured(whole)
    assert plans(tmp_path / "memory") == [None] * 3
    assert len({*plans(tmp_path / "engine")} - {None}) == 3
    config.write_text(config.read_text().replace(KEY, "cd" * 32))
    replayed(HOSPITAL, config, tmp_path / "again", "embedded")
    assert not {*plans(tmp_path / "again")} & {*plans(tmp_path / "engine")}, "the ledger shows a digest of the cases"
    left = [path.name for path in (tmp_path / "engine" / "operator").iterdir()]
    assert not [name for name in left if name.startswith(".cut-")]


@pytest.mark.usefixtures("in_files")
def test_a_public_log(logs: Path, tmp_path: Path) -> None:
    """Sepsis by month, with the diagnosis bound."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    mechanism = '{ kind = "tlkc", knowledge = "set", attribute = "ac", L = 2, K = 20, C = 0.9, suppression = "exact" }'
    rest = 'window = { new_cases = 400 }\ngate = { on_violation = "warn" }'
    config = configured(tmp_path, f"mechanism = {mechanism}\n{rest}", sensitive="Diagnose")
    log = logs / "sepsis.xes.gz"
    whole = replayed(log, config, tmp_path / "memory")
    own = replayed(log, config, tmp_path / "engine", "duckdb")
    assert len(whole.decisions) == 3
    assert verifier.contents(tmp_path / "engine") == verifier.contents(tmp_path / "memory")
    assert measured(own) == measured(whole)


def test_noise_is_drawn_after_its_charge(tmp_path: Path) -> None:
    """Of dp-variants the decisions and charges are those of a run in memory; what is drawn is another matter."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    log, config = sample(tmp_path), configuration(tmp_path, 1)
    replayed(log, config, tmp_path / "memory")
    replayed(log, config, tmp_path / "engine", "duckdb")
    assert verifier.verify(tmp_path / "engine") == []
    assert verifier.decisions(tmp_path / "engine") == verifier.decisions(tmp_path / "memory") != {}
    found = [
        [entry for entry in open_readonly(tmp_path / name / "operator" / "ledger.sqlite") if entry.kind == "charge"]
        for name in ("memory", "engine")
    ]
    assert found[0] == found[1] != []


REFUSED = {
    "cohorts": ('mechanism = { kind = "tlkc-cohorts", K = 5 }', "more of each case than its variant"),
    "times": (f'mechanism = {TLKC[:-2]}, times = "microaggregated" }}', "needs the times of each case"),
    "repair": (f'mechanism = {TLKC}\ngate = {{ min_ka = 2, on_violation = "repair" }}', "repair"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_plan_is_refused_before_anything_is_written(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, with the publication, the reason and the engine that can."""
    text, reason = REFUSED[what]
    config = configured(tmp_path, f"window = {{ new_cases = 700 }}\n{text}")
    words = ["replay", str(HOSPITAL), "-c", str(config), "-o", str(tmp_path / "out"), "--engine", "duckdb"]
    assert execute(words) == 2
    error = capsys.readouterr().err
    assert "publication 'p0'" in error
    assert reason in error
    assert "only --engine embedded can" in error
    assert not (tmp_path / "out").exists()


def test_the_command_takes_an_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By flag, with a limit of memory; an unknown one is refused."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    config = configured(
        tmp_path, f'mechanism = {TLKC}\nwindow = {{ new_cases = 1500 }}\ngate = {{ on_violation = "warn" }}'
    )
    words = ["replay", str(HOSPITAL), "-c", str(config), "-o", str(tmp_path / "out")]
    assert execute([*words, "--engine", "flink"]) == 2
    assert "is not one of embedded, duckdb, spark" in capsys.readouterr().err
    assert execute([*words, "--engine", "duckdb", "--memory", "500MB"]) == 0
    assert [one is not None for one in plans(tmp_path / "out")] == [True]


def test_a_full_disk_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the cases of a cut are written: no entry but the claim, nothing left, and the next run releases."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    config = configured(
        tmp_path, f'mechanism = {TLKC}\nwindow = {{ new_cases = 1500 }}\ngate = {{ on_violation = "warn" }}'
    )
    words = ["replay", str(HOSPITAL), "-c", str(config), "-o", str(tmp_path / "out"), "--engine", "duckdb"]
    synced = FileOps.fsync

    def full(disk: FileOps, path: Path) -> None:
        if ".cut-" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(disk, path)

    with monkeypatch.context() as patch:
        patch.setattr(FileOps, "fsync", full)
        assert execute(words) == 1
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    assert [entry.kind for entry in entries] == ["note"]
    assert not list((tmp_path / "out" / "operator").glob(".cut-*"))
    assert execute(words) == 0
    assert verifier.verify(tmp_path / "out") == []


@pytest.mark.usefixtures("in_files")
def test_a_disk_without_room_for_columns_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second log of the release does not fit: no entry but the claim, and the next run releases."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    config = configured(
        tmp_path, f'mechanism = {TLKC}\nwindow = {{ new_cases = 1500 }}\ngate = {{ on_violation = "warn" }}'
    )
    words = ["replay", str(HOSPITAL), "-c", str(config), "-o", str(tmp_path / "out"), "--engine", "duckdb"]
    reserved, reserve = [], os.posix_fallocate

    def full(descriptor: int, offset: int, size: int) -> None:
        reserved.append(size)
        if len(reserved) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        reserve(descriptor, offset, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        assert execute(words) == 1
    assert "free some space" in capsys.readouterr().err
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    assert [entry.kind for entry in entries] == ["note"]
    assert not [path.name for path in (tmp_path / "out" / "operator").iterdir() if ".pages" in path.name]
    assert execute(words) == 0
    assert verifier.verify(tmp_path / "out") == []


DYING = """
import os, signal, sys
from stream.commands import execute
from stream.engine import building
from stream.engine.duckdb import DuckDb

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "counting":
    DuckDb._table = die
elif sys.argv[1] == "leaving":
    DuckDb.leaving = die
else:
    building.applied = die
execute(sys.argv[2:])
"""


@pytest.mark.parametrize("place", ["counting", "leaving", "applying"])
def test_a_killed_build_decides_nothing(place: str, tmp_path: Path) -> None:
    """kill -9 in the middle of a build: the cases of the cut are removed by the next user of the folder, and the cut
    is built again, to the same content."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    config = configured(
        tmp_path, f'mechanism = {TLKC}\nwindow = {{ new_cases = 1500 }}\ngate = {{ on_violation = "warn" }}'
    )
    words = ["replay", str(HOSPITAL), "-c", str(config), "-o", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DYING, place, *words, "--engine", "duckdb"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    operator = tmp_path / "out" / "operator"
    assert list(operator.glob(".cut-*.tmp"))
    assert [entry.kind for entry in open_readonly(operator / "ledger.sqlite")] == ["note"]
    assert execute(words) == 0
    assert not list(operator.glob(".cut-*"))
    replayed(HOSPITAL, config, tmp_path / "calm", "")
    own, calm = (verifier.contents(tmp_path / name) for name in ("out", "calm"))
    assert own.items() <= calm.items()
    assert own


@pytest.mark.parametrize("boundary", ["built", "files_written", "sealed", "renamed", "published"])
def test_a_crash_between_two_steps(boundary: str, tmp_path: Path) -> None:
    """One content per number, that of a run in memory, whatever builds before and after the crash."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    log, config = (
        sample(tmp_path),
        configured(tmp_path, 'window = { new_cases = 25 }\nmechanism = { kind = "identity" }'),
    )
    config.write_text(config.read_text().replace("diagnosis", "ill"))
    assert run(log, config, tmp_path / "calm") == 0
    assert run(log, config, tmp_path / "out", at=boundary, nth=2, engine="duckdb") == KILLED
    before = verifier.digests(tmp_path / "out")
    assert run(log, config, tmp_path / "out") == 0
    assert verifier.verify(tmp_path / "out") == []
    assert verifier.contents(tmp_path / "out") == verifier.contents(tmp_path / "calm")
    after = verifier.digests(tmp_path / "out")
    assert before
    assert all(after[key] == files for key, files in before.items())


def test_a_release_that_is_out_leaves_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits of the next one read what they counted of it, and no file."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    read: list[Path] = []
    monkeypatch.setattr(VariantsFile, "log", lambda file: read.append(file.path))
    config = configured(
        tmp_path, 'mechanism = { kind = "identity" }\nwindow = { new_cases = 700 }\ngate = { on_violation = "warn" }'
    )
    loaded = sources.load(config)
    replay = Replay(loaded, tmp_path / "out", built_by=EngineBuilds("duckdb", tmp_path / "out" / "operator"))
    outcome = replay.run(read_log(HOSPITAL), final=True)
    assert [decision.status for _, decision in outcome.decisions] == ["sealed"] * 3
    assert [len(decision.audit["anonymity"]["true_linker"]) for _, decision in outcome.decisions] == [0, 1, 2]
    assert not read
    for record in replay.service.pipelines["p0"].earlier:
        assert record.log is None, "it was still in memory"
    assert len(read) == 3


def test_a_withheld_cut_is_withheld_alike(tmp_path: Path) -> None:
    """KA is 23, 5 and 16 in memory: the second cut is withheld, and the third one shows its cases."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    config = configured(tmp_path, f"mechanism = {TLKC}\nwindow = {{ new_cases = 700 }}\ngate = {{ min_ka = 10 }}")
    in_memory = replayed(HOSPITAL, config, tmp_path / "memory")
    by_engine = replayed(HOSPITAL, config, tmp_path / "engine", "duckdb")
    assert [decision.status for _, decision in by_engine.decisions] == ["sealed", "withheld", "sealed"]
    assert verifier.verify(tmp_path / "engine") == []
    assert verifier.contents(tmp_path / "engine") == verifier.contents(tmp_path / "memory")
    assert measured(by_engine) == measured(in_memory)
    assert [decision.reasons for _, decision in by_engine.decisions] == [
        decision.reasons for _, decision in in_memory.decisions
    ]


def test_a_case_that_is_erased_between_two_cuts_is_in_no_later_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops after its first release, one case of it is erased, and the engine builds the later ones."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    log, output = sample(tmp_path), tmp_path / "out"
    publication = 'mechanism = { kind = "identity" }\nwindow = { new_cases = 25 }'
    config = configured(tmp_path, publication, sensitive="ill")
    config.write_text("checkpoint_every = 60\n" + config.read_text())
    loaded = sources.load(config)

    def replay_by_engine(at: Hook = nothing) -> ReplayOutcome:
        built_by = EngineBuilds("duckdb", output / "operator")
        return Replay(loaded, output, built_by=built_by, faults=Faults(at), batch=40).run(read_log(log), final=True)

    with pytest.raises(Aborted):
        replay_by_engine(at_nth("checkpointed", 3, abort))
    released_before = len(list(output.glob("public/p0/release-*")))
    assert released_before >= 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\n")))
    assert execute(["erase", "-c", str(config), "-o", str(output)]) == 0
    replay_by_engine()
    assert verifier.verify(output) == []
    releases = sorted(output.glob("public/p0/release-*"))
    assert len(releases) > released_before
    assert read_log(releases[0] / "log.xes.gz").n_cases == 25
    assert read_log(releases[-1] / "log.xes.gz").n_cases == 99
