"""A mirror that lost files: it is filled again from this host, and a bare host names what nobody has any more."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from connectors import read_log
from models.errors import RefusedError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.run.service import ProcessContext, ReleaseService
from tests.replay.test_mirror import another_host, configured, decide


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    from tests.replay.crashing import sample

    return read_log(sample(tmp_path))


def _mirrored(settings: Settings, service: ReleaseService, publication: str, number: int) -> Path:
    """The mirror's file of the operator's part of one release."""
    account = service.pipelines[publication].account
    name = account.seals[number].body.operator.lstrip(".").removesuffix(".tmp")
    return Path(str(settings.store)) / "operator" / "crash" / publication / name


def _last(service: ReleaseService, publication: str) -> int:
    return service.pipelines[publication].account.released_numbers[-1]


def test_a_start_fills_a_mirror_that_lost_files_and_logs_it(
    tmp_path: Path, log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """The marks in the folder of this host say that everything was mirrored once; only the mirror knows what it has."""
    settings = configured(tmp_path, str(tmp_path / "store"))
    first = decide(settings, tmp_path / "a", log, 2)
    lost = _mirrored(settings, first, "plain", 1)
    lost.unlink()
    with caplog.at_level(logging.WARNING, "veilstream"):
        ReleaseService(settings, tmp_path / "a", context=ProcessContext(mirrored=True)).close()
    assert lost.is_file()
    assert "release 1 of plain" in caplog.text
    second = decide(settings, another_host(tmp_path / "a", tmp_path / "b"), log, 3)
    assert [record.sequence for record in second.pipelines["plain"].earlier] == [1, 2, 3]


def test_a_whole_mirror_that_is_gone_is_made_again(
    tmp_path: Path, log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of the store that somebody cleaned up."""
    settings = configured(tmp_path, str(tmp_path / "store"))
    decide(settings, tmp_path / "a", log, 2)
    shutil.rmtree(tmp_path / "store" / "operator")
    with caplog.at_level(logging.WARNING, "veilstream"):
        ReleaseService(settings, tmp_path / "a", context=ProcessContext(mirrored=True)).close()
    assert "releases 1, 2 of plain" in caplog.text
    ReleaseService(
        settings, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True)
    ).close()


def test_a_running_coordinator_fills_its_mirror_at_a_checkpoint(tmp_path: Path, log: EventLog) -> None:
    """A coordinator that runs for months does not wait for its next start."""
    settings = configured(tmp_path, str(tmp_path / "store"))
    decide(settings, tmp_path / "a", log, 2)
    service = ReleaseService(settings, tmp_path / "a", context=ProcessContext(mirrored=True))
    try:
        lost = _mirrored(settings, service, "plain", 2)
        lost.unlink()
        service.check_mirror()
        assert lost.is_file()
    finally:
        service.close()


@pytest.mark.parametrize("publication", ["plain", "private"])
def test_a_bare_host_names_the_release_that_nobody_has(tmp_path: Path, log: EventLog, publication: str) -> None:
    """Exit code 4: started again, it would end in the same way. A publication whose audits look at no earlier release
    (`private`) is not an exception: its host ended with a stack trace, again and again."""
    settings = configured(tmp_path, str(tmp_path / "store"))
    first = decide(settings, tmp_path / "a", log, 2)
    number = _last(first, publication)
    _mirrored(settings, first, publication, number).unlink()
    with pytest.raises(RefusedError, match=rf"release {number} of {publication}: .* mirror .* backup") as ended:
        ReleaseService(settings, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True))
    assert ended.value.exit_code == 4


def test_a_file_that_this_host_lost_comes_back_from_the_mirror(
    tmp_path: Path, log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """And the loss is not copied into the mirror."""
    settings = configured(tmp_path, str(tmp_path / "store"))
    decide(settings, tmp_path / "a", log, 2)
    lost = tmp_path / "a" / "operator" / "plain" / "000001" / "variants.parquet"
    body = lost.read_bytes()
    lost.unlink()
    with caplog.at_level(logging.WARNING, "veilstream"):
        service = ReleaseService(settings, tmp_path / "a", context=ProcessContext(mirrored=True))
    service.close()
    assert lost.read_bytes() == body
    assert "release 1 of plain" in caplog.text
    ReleaseService(
        settings, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True)
    ).close()
    assert (tmp_path / "b" / "operator" / "plain" / "000001" / "variants.parquet").read_bytes() == body
