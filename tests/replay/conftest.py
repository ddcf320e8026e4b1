"""What tests of a replay begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.crashing import configuration, sample


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The small log, and a configuration of three publications."""
    sample(tmp_path)
    configuration(tmp_path, 3)
    return tmp_path
