"""Part 5 of the dossier: approvals, rejections, erasures, and changes of the configuration, in each language."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stream.commands import execute
from stream.operator.dossier.texts import LANGUAGES
from tests.dossiers import replayed, small


def _part_5(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert execute(["dossier", *words]) == 0
    return capfd.readouterr().out.split("## 5. ")[1].split("## 6. ")[0]


def _part_3(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert execute(["dossier", *words]) == 0
    return capfd.readouterr().out.split("## 3. ")[1].split("## 4. ")[0]


@pytest.fixture
def approved(tmp_path: Path) -> Path:
    """One release approved, the next one rejected."""
    output = replayed(tmp_path, small(more='approval = "required"\nhold = "supersede"'), code=(0, 3))
    decide = ["-o", str(output), "--by", "Dr. A. Officer", "--why", "read and fine"]
    assert execute(["approve", "steps", "3", *decide]) == 0
    return output


def test_who_approved_and_why_is_in_the_history(approved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = _part_5(capfd, str(approved), "steps")
    assert "release 3 by Dr. A. Officer (read and fine)" in part
    assert "**Replaced before a decision** | 2 (numbers 1 to 2)" in part
    assert "**Releases** | 1 (number 3); cut on 2025-01-28" in part


def test_an_erasure_is_in_the_history(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = replayed(tmp_path, small())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"c3\n")))
    assert execute(["erase", "-c", str(tmp_path / "clinic.toml"), "-o", str(output)]) == 0
    capfd.readouterr()
    part = _part_5(capfd, str(output), "steps")
    assert "1 case; in releases 1 to 3." in part
    assert "A published release cannot be called back" in part
    part_3 = _part_3(capfd, str(output), "steps")
    assert "1 erased case is missing from later releases, and recipients still have it in releases 1 to 3" in part_3


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_retention_of_cases_is_a_limit_where_one_is_set(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], language: str
) -> None:
    configuration = small().replace('name = "clinic"', 'name = "clinic"\nretention = "30d"')
    completion = '[process.completion]\nend_activities = ["c"]\n[[publication]]'
    output = replayed(tmp_path, configuration.replace("[[publication]]", completion), code=(0, 3))
    words = [str(output), "steps", "-c", str(tmp_path / "clinic.toml"), "--language", language]
    sentence = {"en": "complete for 30 days", "de": "seit 30 Tagen", "nl": "30 dagen geleden is afgerond"}[language]
    assert sentence in _part_3(capfd, *words)
    (tmp_path / "without").mkdir()
    output = replayed(tmp_path / "without", small())
    words = [str(output), "steps", "-c", str(tmp_path / "without" / "clinic.toml"), "--language", language]
    assert "30" not in _part_3(capfd, *words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_words_for_it(approved: Path, capfd: pytest.CaptureFixture[str], language: str) -> None:
    assert "Dr. A. Officer" in _part_5(capfd, str(approved), "steps", "--language", language)
