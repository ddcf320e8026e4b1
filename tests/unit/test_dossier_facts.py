"""`dossier.toml`: what people know, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.operator.dossier.facts import KEYS, read_facts, template
from stream.operator.dossier.texts import LANGUAGES, DossierTexts
from tests.dossiers import FACTS, write_facts


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_facts(write_facts(tmp_path / "dossier.toml", FACTS)) == FACTS
    assert tuple(FACTS) == tuple(sorted(FACTS, key=KEYS.index)) or set(FACTS) == set(KEYS)


def test_a_date_and_several_lines_are_accepted_and_an_empty_value_is_none(tmp_path: Path) -> None:
    path = tmp_path / "dossier.toml"
    path.write_text('next_review = 2027-03-01\npurpose = """\nresearch\n  on waiting"""\ncontract = ""\n')
    assert read_facts(path) == {"next_review": "2027-03-01", "purpose": "research on waiting"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('controler = "A"', "unknown key 'controler' (did you mean 'controller'?)"),
        ("[facts]\npurpose = 'x'", "unknown key 'facts'"),
        ("storage_period = 10", "storage_period: must be text in quotes"),
        ('recipients = ["a", "b"]', "recipients: must be text in quotes"),
        ('purpose = "a\\u0007b"', "purpose: holds a control character"),
        ("purpose = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_gets_one_clear_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "dossier.toml"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_facts(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_fact_that_would_fill_the_page_is_refused(tmp_path: Path) -> None:
    path = write_facts(tmp_path / "dossier.toml", {"purpose": "x" * 601})
    with pytest.raises(InputError, match="has 601 characters, at most 600 fit"):
        read_facts(path)


def test_a_file_that_is_missing_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["dossier", str(tmp_path), "x", "--facts", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_template_has_every_key_empty(language: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["dossier", "--facts-template", "--language", language]) == 0
    text = capfd.readouterr().out
    assert text == template(DossierTexts(language))
    assert tomllib.loads(text) == dict.fromkeys(KEYS, "")
    path = tmp_path / "dossier.toml"
    path.write_text(text, encoding="utf-8")
    assert read_facts(path) == {}
