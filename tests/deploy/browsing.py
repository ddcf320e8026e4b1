"""A real headless Chromium for tests: what it met when it opened a page in each appearance."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import missing
from tests.deploy.node import node

HERE = Path(__file__).parent
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 600


def chromium() -> str:
    """The program; skips (or fails, where required) when it is not here."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        missing("chromium", "chromium is not installed; install the package of that name")
    return str(found)


def open_page(page: Path, pictures: Path | None = None) -> dict[str, dict[str, Any]]:
    """What browse.mjs found, by appearance."""
    program = chromium()
    command = [node(), str(HERE / "browse.mjs"), program, str(page)]
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        command.append(str(pictures))
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found
