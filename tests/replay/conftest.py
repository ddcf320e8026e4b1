"""Shared steps of the tests of a replay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay.approving import APPROVED_DP, PLAIN, configured, replayed
from tests.replay.crashing import configuration, sample
from tests.serving import Console, start


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The small log, and a configuration of three publications."""
    sample(tmp_path)
    configuration(tmp_path, 3)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replay of two publications that need an approval: the first release of each is held. No test changes it."""
    folder = tmp_path_factory.mktemp("held")
    sample(folder)
    configured(folder, PLAIN, APPROVED_DP)
    replayed(folder)
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Iterator[Console]:
    """A console on a copy of the output folder `made`, signed in."""
    shutil.copytree(made, tmp_path / "out")
    running = start(tmp_path / "out", tmp_path / "console.log")
    running.sign_in()
    yield running
    running.end()
