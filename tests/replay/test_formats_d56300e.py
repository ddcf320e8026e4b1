"""Files that the program of commit d56300e wrote: state, ledger, releases, mirror and records are still read, and a run
that it left half-way continues to the same releases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from connectors import read_log
from stream.config.sources import load
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord
from stream.ledger.entries import ChargeEntry, read_entry, write_entry
from stream.run.log_source import log_facts
from stream.run.service import ProcessContext, ReleaseService

FROZEN = Path(__file__).resolve().parent.parent / "fixtures" / "d56300e"
CONFIGURATIONS = {"plain": "config.toml", "encrypted": "encrypted.toml"}


def records() -> list[tuple[int, AnyRecord]]:
    """Every record of the delta topic with its offset."""
    lines = (FROZEN / "delta.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=tuple[int, AnyRecord]) for line in lines]


def expected(publication: str) -> list[dict[str, Any]]:
    return list(json.loads((FROZEN / "expected.json").read_text())[publication])


def restored(kind: str, folder: Path) -> ReleaseService:
    """The service over a copy of the frozen folders."""
    for name in ("output", "store"):
        shutil.copytree(FROZEN / kind / name, folder / name)
    config = folder / "config.toml"
    config.write_text(f'store = "{folder / "store"}"\n' + (FROZEN / CONFIGURATIONS[kind]).read_text())
    return ReleaseService(load(config), folder / "output", context=ProcessContext(mirrored=True))


def finished(service: ReleaseService, fold: Fold) -> None:
    for position, record in records():
        for cut in fold.apply(position, record):
            service.decide(fold, cut)
        service.checkpoint(fold)


def essence(audit: dict[str, Any]) -> dict[str, Any]:
    """Return the statements of a release about itself and the attacks on it, without keys that were added since."""
    pairs = audit["anonymity"]["results"] or []
    minima = [
        {key: row[key] for key in ("n", "linker", "ka1", "ka2", "fa", "ca", "ba")}
        for pair in pairs
        for row in pair["results"]
    ]
    counts = {key: audit["counts"][key] for key in ("released", "exposed", "suppressed_events") if audit["counts"]}
    return {"cut": audit["cut"]["id"], "trigger": audit["trigger"], "counts": counts, "minima": minima}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_a_run_that_the_earlier_version_began_goes_on_to_the_same_releases(tmp_path: Path, kind: str) -> None:
    """Checkpoint, ledger, operator's files and store are opened as they are; the rest of the records gives the cuts,
    counts and minima of a whole run of the earlier version."""
    service = restored(kind, tmp_path)
    try:
        found = service.checkpoints.load()
        assert found is not None
        before = service.pipelines["plain"].account.released_numbers[:]
        finished(service, service.fold_of(found.state))
        pipeline = service.pipelines["plain"]
        assert before == [1, 2]
        assert [essence(pipeline.audit_of(number)) for number in pipeline.account.released_numbers] == [
            essence(audit) for audit in expected("plain")
        ]
        private = service.pipelines["private"].account
        assert [entry["cut"]["id"] for entry in expected("private")] == [
            private.seals[number].cut for number in private.released_numbers
        ]
    finally:
        service.close()


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_a_bare_host_takes_over_from_the_earlier_mirror(tmp_path: Path, kind: str) -> None:
    """The state in the mirror is the one of the checkpoint, and every release's operator files come back from it."""
    service = restored(kind, tmp_path)
    try:
        assert service.mirror is not None
        newest = service.checkpoints.load()
        assert newest is not None
        state = service.mirror.load()
        assert state == newest.state
        folder = service.pipelines["plain"].folder
        seal = service.pipelines["plain"].account.seals[2]
        shutil.rmtree(folder.release("plain", 2))
        assert service.mirror.bring("plain", 2, seal.body.operator, folder)
        assert essence(service.pipelines["plain"].audit_of(2)) == essence(expected("plain")[1])
    finally:
        service.close()


def test_the_earlier_records_give_the_same_cuts(tmp_path: Path) -> None:
    """A fold from nothing over the earlier delta records cuts where the earlier version cut."""
    config = tmp_path / "config.toml"
    text = (FROZEN / "config.toml").read_text()
    begin = 'name = "private"\nstart = "1970-01-01T00:00:00Z"'  # a new run of dp windows needs one; they began there
    config.write_text(text.replace('name = "private"', begin))
    service = ReleaseService(load(config), tmp_path / "out")
    try:
        fold = Fold(service.rules(embedded=True), log_facts(read_log(FROZEN / "log.xes")))
        finished(service, fold)
        for name in ("plain", "private"):
            account = service.pipelines[name].account
            cuts = [account.seals[number].cut for number in account.released_numbers]
            assert cuts == [audit["cut"]["id"] for audit in expected(name)]
    finally:
        service.close()


def test_every_earlier_ledger_entry_is_read() -> None:
    """Each entry of the earlier ledger has its kind, and charges keep their exact numbers."""
    lines = (FROZEN / "ledger.jsonl").read_bytes().splitlines()
    entries = [read_entry(line) for line in lines]
    assert [write_entry(entry) for entry in entries] == lines
    assert {entry.kind for entry in entries} >= {"charge", "seal", "published", "withheld"}
    assert {entry.body.epsilon for entry in entries if isinstance(entry, ChargeEntry)} == {"1"}
