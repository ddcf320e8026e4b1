"""The configuration in an output folder: read again, it means the same, and it contains no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.errors import InputError
from stream.config import sources
from stream.config.settings import Settings
from stream.ledger.layout import OperatorLayout
from tests.conftest import ROOT

FILES = ["deploy/compose/veilstream.toml", "examples/hospital.toml", "examples/each-alone.toml"]


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_read_as_the_same(name: str, tmp_path: Path) -> None:
    """Durations, moments, tables and defaults."""
    loaded = sources.load(ROOT / name)
    path = OperatorLayout(tmp_path).configuration
    path.parent.mkdir()
    path.write_text(json.dumps(loaded.written()))
    again = sources.of_folder(tmp_path)
    assert again == loaded
    assert again.digest == loaded.digest


def test_no_secret_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys and passwords come from the environment where the folder's configuration is read again."""
    security = {"protocol": "sasl_ssl", "mechanism": "PLAIN", "username": "u", "password": "hush"}
    table = {"topics": ["t"], "security": security}
    given = {"key": "ab" * 32, "checkpoint_key": "cd" * 32, "checkpoint_key_former": "ef" * 32, "source": table}
    loaded = Settings.model_validate(given)
    text = json.dumps(loaded.written())
    assert not any(secret in text for secret in ("hush", "abab", "cdcd", "efef", "***"))
    path = OperatorLayout(tmp_path).configuration
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(InputError, match="password"):
        sources.of_folder(tmp_path)
    monkeypatch.setenv("VEILSTREAM_SOURCE__SECURITY__PASSWORD", "hush")
    again = sources.of_folder(tmp_path).source
    assert again == loaded.source


def test_a_folder_of_an_earlier_program_does_not_say_it(tmp_path: Path) -> None:
    """One clear line, with what to do."""
    with pytest.raises(InputError, match="does not name the configuration that it was made with; give it with -c"):
        sources.of_folder(tmp_path)
