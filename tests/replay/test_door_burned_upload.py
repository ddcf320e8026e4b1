"""A host that was paused between seal and upload does not upload a number that its successor burned.

On an object store the sealed bytes wait on the host's own disk. A successor on another host does not have them, so it
burns the number. The ledger of these tests fences as the ledger topic does: only the last opener may append.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from connectors import read_log
from connectors.store.objects import ObjectStore
from connectors.store.open import open_store
from models.errors import TakenOverError
from stream.config import sources
from stream.config.settings import Settings
from stream.ledger.entries import BurnedEntry
from stream.ledger.sqlite import Kind, SqliteLedger
from stream.release.failpoints import Faults
from stream.release.pipeline import Publisher
from stream.run.service import ProcessContext, ReleaseService
from tests.replay.crashing import configuration, sample
from tests.replay.test_door_taken_over import KEY, STORAGE, release_once


class SharedLedgers:
    """Ledgers of one process on several hosts. The one that was opened last fences all others."""

    def __init__(self) -> None:
        self.newest: SqliteLedger | None = None

    def open(self, path: Path, process: str) -> tuple[SqliteLedger, Publisher | None]:
        """Open the ledger of one host."""
        shared = self

        class FencingLedger(SqliteLedger):
            """One host's copy."""

            def append(self, entry: Kind) -> Kind:
                if shared.newest is not self:
                    raise TakenOverError("another coordinator has taken over this process")
                return super().append(entry)

        ledger = FencingLedger(path, process)
        self.newest = ledger
        return ledger, None


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two hosts publish to one object store."""
    values = {"store": f"memory://{uuid.uuid4().hex}", "key": KEY, "checkpoint_key": STORAGE}
    loaded = sources.load(configuration(tmp_path, 3), values)
    plain = tuple(publication for publication in loaded.publication if publication.name == "plain")
    return loaded.model_copy(update={"publication": plain})


def _take_over(settings: Settings, ledgers: SharedLedgers, first: Path, second: Path) -> None:
    """Start a second host with what the ledger topic holds; it burns the number whose bytes it does not have."""
    (second / "operator").mkdir(parents=True)
    for file in (first / "operator").glob("ledger.sqlite*"):  # with its write-ahead log
        shutil.copy(file, second / "operator")
    successor = ReleaseService(settings, second, context=ProcessContext(mirrored=True, open_ledger=ledgers.open))
    burned = [entry.sequence for entry in successor.ledger.entries() if isinstance(entry, BurnedEntry)]
    successor.close()
    assert burned == [1]


def test_a_host_that_was_paused_before_its_upload_uploads_nothing(settings: Settings, tmp_path: Path) -> None:
    """No object of the burned number appears, and the first host ends to be started again as a standby."""
    ledgers = SharedLedgers()
    first, second = tmp_path / "first", tmp_path / "second"

    def pause(point: str) -> None:
        if point == "sealed" and not second.exists():
            _take_over(settings, ledgers, first, second)

    service = ReleaseService(
        settings, first, context=ProcessContext(mirrored=True, open_ledger=ledgers.open), faults=Faults(pause)
    )
    try:
        with pytest.raises(TakenOverError):
            release_once(service, read_log(sample(tmp_path)))
    finally:
        service.close()
    store = open_store(settings.store or "", private=tmp_path / "look")
    assert store.releases("plain") == []
    assert store.publications() == []


def test_a_host_that_was_paused_during_its_upload_does_not_finish_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release exists with its manifest, which is uploaded last: it is not uploaded."""
    ledgers = SharedLedgers()
    first, second = tmp_path / "first", tmp_path / "second"
    create = ObjectStore._create

    def pause_after_the_log(store: ObjectStore, path: str, body: bytes) -> None:
        create(store, path, body)
        if path.endswith("log.xes.gz") and not second.exists():
            _take_over(settings, ledgers, first, second)

    monkeypatch.setattr(ObjectStore, "_create", pause_after_the_log)
    service = ReleaseService(settings, first, context=ProcessContext(mirrored=True, open_ledger=ledgers.open))
    try:
        with pytest.raises(TakenOverError):
            release_once(service, read_log(sample(tmp_path)))
    finally:
        service.close()
    assert open_store(settings.store or "", private=tmp_path / "look").releases("plain") == []


def test_a_host_that_is_not_replaced_publishes(settings: Settings, tmp_path: Path) -> None:
    """Control: the same release without a successor is there."""
    service = ReleaseService(
        settings, tmp_path / "first", context=ProcessContext(mirrored=True, open_ledger=SharedLedgers().open)
    )
    try:
        release_once(service, read_log(sample(tmp_path)))
    finally:
        service.close()
    assert open_store(settings.store or "", private=tmp_path / "look").releases("plain") == [1]
