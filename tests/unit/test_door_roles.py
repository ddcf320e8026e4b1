"""Roles of columns: names in several languages, values that speak against a name, and the safe side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from connectors.guessing import role
from connectors.role_words import extended
from models.errors import InputError
from models.eventlog import Column
from stream.commands import execute

CASE = Column.encode([f"c{number}" for number in range(60) for _ in range(2)])
ACTIVITY = Column.encode(["in", "out"] * 60)


def guessed(name: str, values: list[object]) -> str | None:
    """The role of a column of one value a case."""
    return role(name, Column.encode([value for value in values for _ in range(2)]), CASE, ACTIVITY)[0]


SOME = [f"v{number % 4}" for number in range(60)]


@pytest.mark.parametrize(
    "name",
    ["underlying_condition", "private_insurance", "german speaking", "case:germanSpeaking", "Krankenkasse", "Einkommen"]
    + [
        "zorgverzekering",
        "Inkomen",
        "Santé",
        "salaire_mensuel",
        "enfermedad",
        "Idioma",
        "malattia cronica",
        "Diagnosis",
    ],
)
def test_words_of_six_languages_are_sensitive(name: str) -> None:
    """Also inside compounds, with accents, and as true or false."""
    assert guessed(name, SOME) == "sensitive"
    assert guessed(name, ["true", "false"] * 30) == "sensitive"


@pytest.mark.parametrize(
    "name", ["Vorname", "achternaam", "Prénom", "Apellidos", "Cognome", "e-mail", "PatientId", "SSN"]
)
def test_words_of_six_languages_are_identifiers(name: str) -> None:
    """As long as their values can name somebody."""
    assert guessed(name, SOME) == "identifier"


@pytest.mark.parametrize("name", ["mail sent", "name", "flag", "price", "weight", "value"])
def test_booleans_prices_and_weights_are_no_identifiers(name: str) -> None:
    """The name of the column does not matter, even if nearly every case has its own value."""
    assert guessed(name, ["true", "false"] * 30) != "identifier"
    assert guessed(name, [f"{70 + number}.{number}" for number in range(60)]) is None
    assert guessed(name, [70 + number / 7 for number in range(60)]) is None


def test_texts_of_nearly_every_case_are_identifiers() -> None:
    """Without a word about it."""
    assert guessed("something", [f"x{number}" for number in range(60)]) == "identifier"


def test_a_copy_of_the_activity_and_one_value_are_not_sensitive() -> None:
    """Their names look so."""
    copy = Column(ACTIVITY.codes, ("A", "B"))
    assert role("treatment", copy, CASE, ACTIVITY) == (None, "a copy of the activity")
    assert guessed("diagnosis", ["flu"] * 60) is None
    other = Column(np.roll(ACTIVITY.codes, 1) * 0 + (np.arange(120) % 3 > 0).astype(np.int32), ("A", "B"))
    assert role("treatment", other, CASE, ACTIVITY)[0] == "sensitive"


def test_users_extend_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the same form, in any language."""
    (tmp_path / "log.csv").write_text(
        "case,activity,time,potilas\n"
        + "".join(f"c{n // 2},{'ab'[n % 2]},2025-01-01T00:00:{n:02}Z,{'xyz'[n // 2 % 3]}\n" for n in range(20))
    )
    words = tmp_path / "words.toml"
    words.write_text('[sensitive]\nfinnish = ["potilas"]\n')
    command = ["inspect", str(tmp_path / "log.csv"), "--json"]
    assert execute(command) == 0
    before = json.loads(capsys.readouterr().out)
    assert execute([*command, "--words", str(words)]) == 0
    after = json.loads(capsys.readouterr().out)
    found = [{one["name"]: one["role"] for one in each["columns"]}["potilas"] for each in (before, after)]
    assert found == [None, "sensitive"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("[secret]\na = ['x']", "is not a role"), ("[sensitive]\na = 'x'", "is not a list"), ("[", "no TOML")],
)
def test_a_bad_file_of_words_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    """With the file and the place."""
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        extended(tmp_path / "w.toml")
    with pytest.raises(InputError, match="cannot be read"):
        extended(tmp_path / "absent.toml")


def test_a_column_of_a_case_may_be_named_as_in_the_file(tmp_path: Path) -> None:
    """`--sensitive case:x` means x."""
    rows = ["case:concept:name,concept:name,time:timestamp,case:sick"]
    rows += [f"c{n // 2},{'ab'[n % 2]},2025-01-01T00:{n // 60:02}:{n % 60:02}Z,{'xy'[n // 2 % 2]}" for n in range(120)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    command = ["anonymize", str(tmp_path / "log.csv"), "-o", str(tmp_path / "out.csv"), "--K", "2", "--C", "1"]
    assert execute([*command, "--sensitive", "case:sick"]) == 0
