"""Manifests that name their predecessor and count the process's releases; a start that compares ledger and store."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.errors import RefusedError
from models.eventlog import EventLog
from stream.commands import execute
from stream.config import sources
from stream.ledger.sqlite import open_readonly
from stream.release.contract import Attempt, Exposure
from stream.release.schedule import SimulatedClock
from stream.run.service import ProcessContext, ReleaseService
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import configuration, replay


@pytest.fixture
def paid(world: Path) -> Path:
    """The world with a configuration of one publication, `private`, which spends epsilon."""
    configuration(world, 1)
    return world


def manifests(out: Path, name: str) -> list[tuple[dict[str, Any], str]]:
    """(manifest, its digest) of every release of a publication, in order."""
    files = sorted((out / "public" / name).glob("release-*/manifest.json"))
    return [(json.loads(file.read_bytes()), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]


def rewritten(out: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """The ledger with every entry changed, or left out where `change` gives None."""
    with closing(sqlite3.connect(out / "operator" / "ledger.sqlite", isolation_level=None)) as db:
        for number, body in db.execute("SELECT id, body FROM entries").fetchall():
            after = change(json.loads(body))
            if after is None:
                db.execute("DELETE FROM entries WHERE id = ?", (number,))
            else:
                db.execute("UPDATE entries SET body = ? WHERE id = ?", (json.dumps(after).encode(), number))


def resealed(out: Path, name: str, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """A release with another manifest, and a ledger that says it sealed that one."""
    file = out / "public" / name / f"release-{number:06d}" / "manifest.json"
    body = json.loads(file.read_bytes())
    change(body)
    file.write_text(json.dumps(body))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()

    def sealed(entry: dict[str, Any]) -> dict[str, Any]:
        if (entry["kind"], entry["publication"], entry.get("sequence")) == ("seal", name, number):
            entry["body"]["manifest"] = digest
        return entry

    rewritten(out, sealed)


def renamed(world: Path, publications: int, former: str, name: str) -> None:
    config = world / f"config{publications}.toml"
    config.write_text(config.read_text().replace(f'name = "{former}"', f'name = "{name}"'))


def test_recipients_can_follow_the_chain(world: Path) -> None:
    """Each manifest has the digest of the one before; the count is that of all seals before it. If the manifest may
    reveal nothing about the data, the releases of `plain`, whose number the data decides, are not counted."""
    replay(world)
    out = world / "out"
    seals = [entry for entry in open_readonly(out / "operator" / "ledger.sqlite") if entry.kind == "seal"]
    assert {entry.publication for entry in seals} == {"plain", "private"}
    for name in ("plain", "private"):
        found = manifests(out, name)
        digests = [None, *(digest for _, digest in found)]
        assert [body["chain"]["previous_manifest"] for body, _ in found] == digests[:-1]
        counted = {
            seal.sequence: sum(one.publication == name or name == "plain" for one in seals[: place + 1])
            for place, seal in enumerate(seals)
            if seal.publication == name
        }
        assert {body["sequence"]: body["chain"]["releases"] for body, _ in found} == counted


def test_a_burned_number_counts_and_is_nobodys_predecessor(paid: Path) -> None:
    """The release after it names the last one that exists, here none, and is the second number of the process."""
    with pytest.raises(Aborted):
        replay(paid, publications=1, at=at_nth("renamed", 1, abort))
    shutil.rmtree(paid / "out" / "public" / "private" / "release-000001")
    replay(paid, publications=1)
    assert manifests(paid / "out", "private")[0][0]["chain"] == {"previous_manifest": None, "releases": 2}


def test_a_renamed_publication_under_a_new_ledger_is_refused(paid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The store has releases of this process that the ledger does not know, under a name that nobody asks for."""
    replay(paid, publications=1)
    shutil.rmtree(paid / "out" / "operator")
    renamed(paid, 1, "private", "statistics")
    command = ["replay", str(paid / "log.xes"), "-c", str(paid / "config1.toml"), "-o", str(paid / "out")]
    assert execute(command) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "release 1 of private is in the store and belongs to this process" in line
    assert not (paid / "out" / "public" / "statistics").exists()


def test_releases_of_another_process_in_the_same_store_are_none_of_ours(paid: Path) -> None:
    """Two processes may share a store: what bears another name is left alone."""
    other = paid / "out" / "public" / "theirs" / "release-000001"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text('{"version": 1, "process": "billing", "chain": {"releases": 99}}')
    replay(paid, publications=1)
    replay(paid, publications=1)
    assert (paid / "out" / "public" / "private" / "release-000001").exists()


def test_a_renamed_publication_is_seen_in_its_manifests(tmp_path: Path) -> None:
    """The new name begins at 1 with a budget of its own; those of the process and the count continue."""
    log = EventLog.from_traces([("ab", None)] * 200)
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    found = []
    for name in ("research", "statistics"):
        config = tmp_path / f"{name}.toml"
        config.write_text(
            f'[process]\nname = "ward"\nbudget = {{ max_epsilon = 3 }}\n[[publication]]\nname = "{name}"\n'
            'window = { manual = true }\nmechanism = { kind = "dp-variants", epsilon = 0.1, delta_dp = 1e-6 }\n'
            "audit = { risk = false, utility = false }\ngate = { max_epsilon = 0.3 }\n"
        )
        service = ReleaseService(sources.load(config), tmp_path / "out", context=ProcessContext(clock=SimulatedClock()))
        for cut in (1, 2):
            decision = service.pipelines[name].attempt(Attempt(f"{name}@{cut}.0.0", "manual", 0, exposure, {}))
            assert decision.status == "sealed", decision.reasons
        service.close()
        found.append([body for body, _ in manifests(tmp_path / "out", name)])
    assert [body["budget"]["spent"]["epsilon"] for bodies in found for body in bodies] == [0.1, 0.2, 0.1, 0.2]
    assert [body["budget"]["process"]["spent"]["epsilon"] for bodies in found for body in bodies] == [
        0.1,
        0.2,
        0.3,
        0.4,
    ]
    assert found[1][0]["budget"]["process"]["limit"] == {"epsilon": 3.0, "delta": None}
    assert [body["chain"]["releases"] for bodies in found for body in bodies] == [1, 2, 3, 4]
    first = found[1][0]
    assert (first["sequence"], first["previous"], first["chain"]["previous_manifest"]) == (1, None, None)


def test_a_ledger_that_lacks_another_publications_releases_is_refused(world: Path) -> None:
    """Its seals and its folder are gone; what `plain` counts says that there were more."""
    replay(world)
    out = world / "out"
    last = manifests(out, "plain")[-1][0]
    rewritten(out, lambda entry: None if entry["publication"] == "private" else entry)
    shutil.rmtree(out / "public" / "private")
    with pytest.raises(RefusedError, match=f"is number {last['chain']['releases']} of its process"):
        replay(world)


def test_a_predecessor_that_is_not_the_ledgers_is_refused(world: Path) -> None:
    """Ledger and store agree on every single release, but the last one follows another than theirs."""
    replay(world)
    before, last = (body["sequence"] for body, _ in manifests(world / "out", "plain")[-2:])
    resealed(world / "out", "plain", before, lambda body: body.update(software={"name": "other"}))
    with pytest.raises(RefusedError, match=f"release {last} of plain follows a release {before} that is not"):
        replay(world)


def test_manifests_without_a_chain_are_read(paid: Path) -> None:
    """Releases of a program that knew no chain: the series continues, and the chain begins behind them."""
    with pytest.raises(Aborted):
        replay(paid, publications=1, at=at_nth("checkpointed", 3, abort))
    out = paid / "out"
    former = len(manifests(out, "private"))
    assert former

    def older(body: dict[str, Any]) -> None:
        del body["chain"], body["budget"]["process"]

    for number in range(1, former + 1):
        resealed(out, "private", number, older)
    replay(paid, publications=1)
    found = manifests(out, "private")
    assert len(found) > former
    assert "chain" not in found[former - 1][0]
    assert found[former][0]["chain"] == {"previous_manifest": found[former - 1][1], "releases": former + 1}


def test_check_config_says_what_a_rename_does(paid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The series begins again; a budget of its own, with or without a cap over the process."""
    config = paid / "config1.toml"
    notes = []
    for budget in ("", "budget = { max_epsilon = 5 }\n"):
        config.write_text(config.read_text().replace("[process]\n", f"[process]\n{budget}"))
        assert execute(["check-config", str(config), "--json"]) == 0
        notes.append(json.loads(capsys.readouterr().out)["notes"])
        assert execute(["check-config", str(config)]) == 0
        assert "note: " in capsys.readouterr().out
    assert all("renamed begins a new series" in found[0] for found in notes)
    assert "gets a fresh max_epsilon; set process.budget.max_epsilon to prevent that" in notes[0][1]
    assert "max_epsilon = 5" in notes[1][1]
