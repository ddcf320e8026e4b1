"""`veilstream migrate`: two versions and two storage keys are in use for a while, and then no longer."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.config.settings import Settings
from stream.config.sources import load
from stream.fold import snapshot
from stream.fold.fold import Fold
from stream.ledger import checkpoints as checkpoint
from stream.ledger import mirror
from stream.ledger.change_log import logs
from stream.ledger.checkpoints import CURRENT, PREVIOUS
from stream.ledger.envelope import header_of
from stream.operator import migrate as migration
from stream.run.log_source import log_facts, records_from_log
from stream.run.service import ProcessContext, ReleaseService, mirror_of
from tests.replay.crashing import configuration, sample

KEY, FIRST, SECOND = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return read_log(sample(tmp_path))


def configured(folder: Path, key: str | None = None, former: str | None = None) -> Path:
    """The configuration with a store, and with storage keys as given."""
    path = configuration(folder, 3)
    keys = {"checkpoint_key": key, "checkpoint_key_former": former}
    lines = [f'key = "{KEY}"', f'store = "{folder}/store"', *(f'{name} = "{one}"' for name, one in keys.items() if one)]
    path.write_text("\n".join(lines) + "\n" + path.read_text())
    return path


def run(config: Path, output: Path, log: EventLog) -> bytes:
    """Two releases and two checkpoints, here and in the mirror; the fold's state."""
    loaded = load(config)
    service = ReleaseService(loaded, output, context=ProcessContext(mirrored=True))
    assert service.mirror is not None
    fold = Fold(service.rules(embedded=True), log_facts(log))
    for position, record in records_from_log(
        log, pseudonym=service.pseudonyms.case, attributes=("ill",), batch=40, key=service.pseudonyms.id
    ):
        for cut in fold.apply(position, record):
            service.decide(fold, cut)
        service.checkpoint(fold)
        service.mirror.save(position, service.checkpoints.load().state)  # type: ignore[union-attr]
        if len(service.pipelines["plain"].account.released_numbers) == 2:
            break
    service.close()
    return service.restored(fold.snapshot()).snapshot()


def state(loaded: Settings, output: Path) -> bytes:
    """The fold as a start would read it, from the folder; the mirror must hold the same."""
    service = ReleaseService(loaded, output, context=ProcessContext(mirrored=True))
    try:
        found = service.checkpoints.load()
        place = mirror_of(loaded, output)
        assert found is not None
        assert place is not None
        assert place.load() == found.state
        return service.fold_of(found.state).snapshot()
    finally:
        service.close()


def asked(capsys: pytest.CaptureFixture[str], config: Path, output: Path, *more: str, code: int = 0) -> list[Any]:
    capsys.readouterr()
    assert veilstream(["migrate", "-c", str(config), "-o", str(output), "--json", *more]) == code
    out = capsys.readouterr().out
    return list(json.loads(out)["items"]) if out else []


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("before", [None, FIRST], ids=["from plain files", "from another key"])
def test_a_storage_key_is_rotated(
    tmp_path: Path, log: EventLog, capsys: pytest.CaptureFixture[str], before: str | None
) -> None:
    """The dry run names every file under the former key and changes none; after the migration the new key suffices,
    and nothing is left to do."""
    out = tmp_path / "out"
    expected = run(configured(tmp_path, before), out, log)
    assert logs(out / "operator" / "checkpoints")
    both = configured(tmp_path, SECOND, before)
    untouched = contents(tmp_path)
    planned = asked(capsys, both, out, "--dry-run")
    assert contents(tmp_path) == untouched
    rewritten = [item["name"] for item in planned if item["action"] == "rewrite"]
    mirrored = [path for path in (tmp_path / "store" / "operator").rglob("*") if path.is_file()]
    assert sorted(rewritten) == sorted(
        map(str, [*mirrored, *(out / "operator" / "checkpoints" / name for name in (CURRENT, PREVIOUS))])
    )
    assert {item["protection"] for item in planned if item["wanted"]} == {"former" if before else "plain"}
    assert asked(capsys, both, out) == planned
    assert logs(out / "operator" / "checkpoints") == []  # under the former key; they are in the whole states now
    alone = configured(tmp_path, SECOND)
    assert {item["action"] for item in asked(capsys, alone, out, "--dry-run")} == {"keep"}
    assert state(load(alone), out) == expected


def test_a_state_of_the_version_before_is_read_and_rewritten(
    tmp_path: Path, log: EventLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N - 1 is read without a migration; `migrate` writes N; a version that no step leads to is refused, exit 4."""
    out, config = tmp_path / "out", configured(tmp_path, FIRST)
    run(config, out, log)
    upgraded: list[int] = []

    def step(table: dict[str, Any]) -> dict[str, Any]:
        upgraded.append(table["version"])
        return table

    now = snapshot.STATE_VERSION
    for module in (snapshot, checkpoint, mirror, migration):
        monkeypatch.setattr(module, "STATE_VERSION", now + 1)
    monkeypatch.setattr(snapshot, "UPGRADES", {now: step})
    state(load(config), out)
    assert upgraded == [now]
    newest = out / "operator" / "checkpoints" / CURRENT
    planned = asked(capsys, config, out, "--dry-run")
    assert header_of(io.BytesIO(newest.read_bytes()), checkpoint.FORMAT).version == now
    assert [item["version"] for item in planned if item["action"] == "rewrite"] == [now] * 4
    asked(capsys, config, out)
    assert header_of(io.BytesIO(newest.read_bytes()), checkpoint.FORMAT).version == now + 1
    upgraded.clear()
    state(load(config), out)
    assert upgraded == []
    monkeypatch.setattr(snapshot, "STATE_VERSION", now + 3)
    refused = [item for item in asked(capsys, config, out, "--dry-run", code=4) if item["action"] == "refuse"]
    assert len(refused) == 4
    assert all("older than" in item["problem"] for item in refused)


def test_nothing_is_written_where_one_file_cannot_be_read(
    tmp_path: Path, log: EventLog, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 and the name of the file, with a dry run too; half a migration would hide the damage."""
    out = tmp_path / "out"
    run(configured(tmp_path, FIRST), out, log)
    config = configured(tmp_path, SECOND, FIRST)
    path = out / "operator" / "checkpoints" / PREVIOUS
    path.write_bytes(path.read_bytes()[:-1])
    untouched = contents(tmp_path)
    planned = asked(capsys, config, out, "--dry-run", code=4)
    assert [item["name"] for item in planned if item["action"] == "refuse"] == [str(path)]
    asked(capsys, config, out, code=4)
    assert contents(tmp_path) == untouched


def test_a_running_process_is_not_migrated(
    tmp_path: Path, log: EventLog, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The holder of the folder writes it; a dry run may read."""
    caplog.set_level(logging.ERROR)
    out, config = tmp_path / "out", configured(tmp_path, FIRST)
    run(config, out, log)
    service = ReleaseService(load(config), out, context=ProcessContext(mirrored=True))
    assert asked(capsys, config, out, "--dry-run")
    asked(capsys, config, out, code=4)
    service.close()
    assert asked(capsys, config, out)


def test_a_folder_without_a_ledger_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2: there is nothing that could be migrated, and a wrong folder is the likelier reason."""
    sample(tmp_path)
    asked(capsys, configured(tmp_path), tmp_path / "nowhere", "--dry-run", code=2)


def test_a_look_leaves_no_file_next_to_the_ledger(
    tmp_path: Path, log: EventLog, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite makes a log for a reader too, of the reader's owner: a look as root kept the daemon from its ledger."""
    config, output = configured(tmp_path), tmp_path / "out"
    run(config, output, log)
    before = {path.name for path in (output / "operator").iterdir()}
    asked(capsys, config, output, "--dry-run")
    assert {path.name for path in (output / "operator").iterdir()} == before
