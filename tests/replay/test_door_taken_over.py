"""A host that was paused continues while its successor has taken over: it ends with 1, to be started as a standby.

Both hosts have an output folder of their own and one store. The successor opens at a chosen step of the first host's
release, as if the first one were stopped (SIGSTOP) there; no clock and no signal is involved.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors import read_log
from models.errors import VeilstreamError
from models.eventlog import EventLog
from stream.config import sources
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.release.failpoints import Faults
from stream.run.log_source import log_facts, records_from_log
from stream.run.service import ProcessContext, ReleaseService
from stream.testing.faults import WatchedDisk
from tests.replay.crashing import configuration, sample

KEY, STORAGE = "aa" * 32, "bb" * 32


class PausedDisk(WatchedDisk):
    """Calls `meanwhile` once, before the operation `step` on the file `name` of a release that is being written."""

    def __init__(self, step: str, name: str, meanwhile: Callable[[], None]) -> None:
        self._step, self._name, self._meanwhile = step, name, meanwhile
        self._done = False

    def before(self, step: str, path: Path) -> None:
        in_release = "public" in path.parts and path.name == self._name
        if in_release and step == self._step and not self._done:
            self._done = True
            self._meanwhile()


def _settings(folder: Path) -> Settings:
    given = {"store": str(folder / "store"), "key": KEY, "checkpoint_key": STORAGE}
    return sources.load(configuration(folder, 3), given)


def release_once(service: ReleaseService, log: EventLog) -> None:
    """Decide the cuts of the log until the first one of `plain` is decided."""
    fold = Fold(service.rules(embedded=True), log_facts(log))
    records = records_from_log(log, pseudonym=service.pseudonyms.case, attributes=("ill",), key=service.pseudonyms.id)
    for position, record in records:
        for cut in fold.apply(position, record):
            service.decide(fold, cut)
            if cut.publication == "plain":
                return
    raise AssertionError("the log has no cut of `plain`")


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("write", "log.xes.gz"),  # as it was seen: the folder goes before its first file is there
        ("write", "manifest.json"),
        ("fsync", "log.xes.gz"),
        ("rename", "release-000001"),  # sealed, and not yet visible
    ],
)
def test_who_was_replaced_while_it_wrote_a_release_ends_to_be_started_again(
    tmp_path: Path, step: str, name: str
) -> None:
    """The successor sets the unfinished folder of the first host aside. That is not a fault of a configuration (2), and
    nothing that a person has to look at (4): the first host is started again, as a standby."""
    settings = _settings(tmp_path)
    log = read_log(sample(tmp_path))
    first, second = tmp_path / "first", tmp_path / "second"

    def take_over() -> None:
        (second / "operator").mkdir(parents=True)
        shutil.copy(first / "operator" / "ledger.sqlite", second / "operator" / "ledger.sqlite")
        ReleaseService(settings, second, context=ProcessContext(mirrored=True)).close()

    service = ReleaseService(
        settings, first, context=ProcessContext(mirrored=True), faults=Faults(ops=PausedDisk(step, name, take_over))
    )
    try:
        with pytest.raises(VeilstreamError, match="another coordinator") as ended:
            release_once(service, log)
    finally:
        service.close()
    assert ended.value.exit_code == 1
    assert "configuration" not in str(ended.value)
