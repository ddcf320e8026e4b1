"""One publication lost a file of the operator: it alone is paused, and continues when the file is back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors import read_log
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Cut
from stream.release.contract import Decision
from stream.run.log_source import log_facts, records_from_log
from stream.run.service import ReleaseService
from tests.replay.crashing import configuration, sample


class Run:
    """Decisions on the cuts of a small log, in its order, over one folder."""

    def __init__(self, folder: Path) -> None:
        self.log = read_log(sample(folder))
        self.settings, self.output = sources.load(configuration(folder, 3)), folder / "out"
        self.service = ReleaseService(self.settings, self.output)
        self.fold = Fold(self.service.rules(embedded=True), log_facts(self.log))
        self._cuts = self._all()
        self.first: dict[str, str] = {}
        """By publication: its first cut."""

    def _all(self) -> Iterator[Cut]:
        pseudonyms = self.service.pseudonyms
        records = records_from_log(self.log, pseudonym=pseudonyms.case, attributes=("ill",), key=pseudonyms.id)
        for position, record in records:
            yield from self.fold.apply(position, record)

    def reopen(self) -> None:
        """A restart between two records: what was only in memory is read again."""
        self.service.close()
        self.service = ReleaseService(self.settings, self.output)

    def until(self, publication: str, number: int = 1) -> Decision:
        """Decide cuts until `number` of a publication are decided; return the decision on the last one."""
        for cut in self._cuts:
            decision = self.service.decide(self.fold, cut)
            self.first.setdefault(cut.publication, cut.id)
            number -= cut.publication == publication
            if not number:
                return decision
        raise AssertionError(f"the log has too few cuts of {publication}")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    found = Run(tmp_path)
    yield found
    found.service.close()


@pytest.mark.parametrize("name", ["audit.json", "memory.json"])
@pytest.mark.parametrize("publication", ["plain", "private"])
def test_only_the_publication_that_lost_a_file_is_paused(
    run: Run, publication: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its cuts are refused before anything is charged, with the file that is missing; the others release."""
    other = {"plain": "private", "private": "plain"}[publication]
    assert run.until(publication).status == "sealed"
    pipeline = run.service.pipelines[publication]
    lost = run.service.folder.release(publication, pipeline.account.released_numbers[-1]) / name
    body = lost.read_bytes()
    lost.unlink()
    if name == "memory.json":
        run.reopen()  # until then nothing reads it
        pipeline = run.service.pipelines[publication]
    spent = pipeline.account.spending.summed
    with caplog.at_level(logging.ERROR, "veilstream"):
        refused = run.until(publication)
    assert refused.status == "withheld"
    assert name in refused.because[0].text
    assert "put it back" in refused.because[0].text
    assert pipeline.account.spending.summed == spent
    assert f"{publication} is paused" in caplog.text
    assert pipeline.decided(run.first[publication]) is not None  # a record that is folded again after a crash
    assert run.until(other).status == "sealed"
    lost.write_bytes(body)
    assert run.until(publication).status == "sealed"


@pytest.mark.parametrize("name", ["audit.json", "variants.parquet"])
@pytest.mark.parametrize("publication", ["plain", "private"])
def test_a_file_that_is_missing_at_the_start_pauses_one_publication(
    run: Run, publication: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The process starts, the other publication releases, and this one continues when the file is back."""
    other = {"plain": "private", "private": "plain"}[publication]
    assert run.until(publication).status == "sealed"
    pipeline = run.service.pipelines[publication]
    lost = run.service.folder.release(publication, pipeline.account.released_numbers[-1]) / name
    body = lost.read_bytes()
    lost.unlink()
    with caplog.at_level(logging.ERROR, "veilstream"):
        run.reopen()
    assert name in caplog.text
    pipeline = run.service.pipelines[publication]
    spent = pipeline.account.spending.summed
    refused = run.until(publication)
    assert refused.status == "withheld"
    assert name in refused.because[0].text
    assert "put it back" in refused.because[0].text
    assert pipeline.account.spending.summed == spent
    assert run.until(other).status == "sealed"
    lost.write_bytes(body)
    assert run.until(publication).status == "sealed"
