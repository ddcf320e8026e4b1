"""Resources in releases: one key for two processes links nobody, and a series that began before continues as it was."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from models.eventlog import EventLog
from stream.commands import execute
from stream.config import sources
from stream.ledger.view import Account
from stream.release.contract import Attempt, Exposure
from stream.run.service import ReleaseService
from stream.values.pseudonym import Pseudonyms

KEY = "ab" * 32


def configured(folder: Path, process: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "c.toml"
    path.write_text(
        f'key = "{KEY}"\n[process]\nname = "{process}"\n[[publication]]\nname = "p"\nwindow = {{ manual = true }}\n'
        'mechanism = { kind = "tlkc", attribute = "ar", L = 1, K = 1, C = 1.0 }\n'
        "audit = { risk = false, utility = false, series = false }\n"
    )
    return path


def release(folder: Path, process: str, cut: int = 1) -> tuple[set[str], dict[str, Any]]:
    """The resources of one more release, and its audit."""
    cases = [f"c{number}" for number in range(8) for _ in range(2)]
    log = EventLog.from_events(cases, ["a", "b"] * 8, np.arange(16), resource=["Ann", "Bob"] * 8, unit="ns")
    service = ReleaseService(sources.load(configured(folder, process)), folder / "out")
    try:
        exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
        decision = service.pipelines["p"].attempt(Attempt(f"p@{cut}.0.0", "manual", 0, exposure, {}))
        assert decision.status == "sealed", decision.reasons
    finally:
        service.close()
    (file,) = (folder / "out" / "public" / "p" / f"release-{decision.sequence:06d}").glob("log.xes.gz")
    audit = folder / "out" / "operator" / "p" / f"{decision.sequence:06d}" / "audit.json"
    return set(read_log(file).resource.values), json.loads(audit.read_text())


def forget_the_form(folder: Path) -> None:
    """The ledger as a program wrote it that knew one form alone."""
    with closing(sqlite3.connect(folder / "out" / "operator" / "ledger.sqlite", isolation_level=None)) as db:
        for number, body in db.execute("SELECT id, body FROM entries").fetchall():
            entry = json.loads(body)
            entry.get("body", {}).pop("resources", None)
            db.execute("UPDATE entries SET body = ? WHERE id = ?", (json.dumps(entry).encode(), number))


def test_one_key_for_two_processes_links_nobody(tmp_path: Path) -> None:
    """The same two persons bear other pseudonyms in each process, and the same ones in every release of one."""
    first, audit = release(tmp_path / "one", "admission")
    again, _ = release(tmp_path / "one", "admission", 2)
    other, _ = release(tmp_path / "two", "billing")
    assert len(first) == 2
    assert first == again
    assert not first & other
    assert audit["resources"] == {"named_by": "process", "note": ""}


def test_process_and_name_cannot_be_mistaken_for_another_pair() -> None:
    """Nor a name of the former form for one of the present."""
    one = Pseudonyms(bytes(32))
    pairs = [("a", "bc"), ("ab", "c"), (None, "a\0bc"), (None, "abc")]
    assert len({one.resource(name, process) for process, name in pairs}) == 4


def test_a_series_that_began_before_keeps_its_pseudonyms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seal without the mark: the next release names the persons as before; its audit reports it, as does migrate."""
    with monkeypatch.context() as patch:
        patch.setattr(Account, "resource_form", "key")
        before, _ = release(tmp_path / "one", "admission")
    forget_the_form(tmp_path / "one")
    after, audit = release(tmp_path / "one", "admission", 2)
    assert after == before == {Pseudonyms(bytes.fromhex(KEY)).resource(name, None) for name in ("Ann", "Bob")}
    assert audit["resources"]["named_by"] == "key"
    assert "another process under the same key" in audit["resources"]["note"]
    config, out = str(tmp_path / "one" / "c.toml"), str(tmp_path / "one" / "out")
    capsys.readouterr()
    for more in (["--dry-run"], []):
        assert execute(["migrate", "-c", config, "-o", out, "--json", *more]) == 0
        items = json.loads(capsys.readouterr().out)["items"]
        (said,) = [item for item in items if item["note"]]
        assert (said["name"], said["action"]) == ("resource pseudonyms of publication p", "keep")
    last, _ = release(tmp_path / "one", "admission", 3)
    assert last == before
