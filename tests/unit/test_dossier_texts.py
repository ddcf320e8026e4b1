"""The texts of the dossier: one file for each language, alike in keys and placeholders."""

from __future__ import annotations

import string
import tomllib

import pytest

from models.errors import InputError
from stream.operator.dossier.texts import FOLDER, LANGUAGES, DossierTexts, flat


def _texts(language: str) -> dict[str, str]:
    return dict(flat(tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))))


def _placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


ENGLISH = _texts("en")


def test_each_file_of_texts_is_a_language() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_same_keys_and_placeholders(language: str) -> None:
    translated = _texts(language)
    assert list(translated) == list(ENGLISH)
    for key, text in translated.items():
        assert _placeholders(text) == _placeholders(ENGLISH[key]), key
        assert bool(text.strip()) == bool(ENGLISH[key].strip()), key


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_a_translation_leaves_no_sentence_in_english(language: str) -> None:
    """Terms, names of frameworks and texts without a word may be the same; a sentence of four words may not."""
    translated = _texts(language)
    same = [key for key, text in translated.items() if text == ENGLISH[key] and len(text.split()) > 3]
    assert same == []


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(InputError, match="--language fr: no such language"):
        DossierTexts("fr")
