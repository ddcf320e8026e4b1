"""Examples that docs/daemon.md gives to copy: the configuration loads, and the broker is the one of the tests."""

from __future__ import annotations

import re
from pathlib import Path

from stream.config import lint
from stream.config.sources import load
from tests.conftest import ROOT
from tests.kafka.broker import PROPERTIES

PAGE = (ROOT / "docs" / "daemon.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
OWN = ("listeners", "log.dirs", "controller.quorum.voters", "controller.listener.names")
"""Ports and folders differ."""


def block(language: str) -> str:
    """The first code block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_configuration_is_whole(tmp_path: Path) -> None:
    """It loads as it is, names its source, and nobody has to be warned of it."""
    path = tmp_path / "veilstream.toml"
    path.write_text(block("toml"))
    settings = load(path)
    assert settings.source is not None
    assert [publication.name for publication in settings.publication] == ["research"]
    assert lint.warnings(settings) == []


def test_the_broker_is_the_one_that_the_tests_run() -> None:
    """Every line but ports and folders, and what the compose file sets is the same."""
    lines = [line for line in block("properties").splitlines() if line.split("=")[0] not in OWN]
    assert [line for line in lines if line not in PROPERTIES.splitlines()] == []
    factors = dict(line.split("=") for line in lines if "replication.factor" in line or "min.isr" in line)
    assert len(factors) == 3
    for key, value in factors.items():
        assert f'KAFKA_{key.upper().replace(".", "_")}: "{value}"' in COMPOSE
