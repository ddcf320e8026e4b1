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


def open_page(
    page: Path | str, pictures: Path | None = None, *, cookie: str = "", looks: str = ""
) -> dict[str, dict[str, Any]]:
    """Return the findings of browse.mjs by appearance, of a file or of an address with a cookie (`name=value`).
    `looks`: these appearances only, `light` among them.
    """
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = _run("browse.mjs", str(page), str(pictures or "-"), cookie, looks)
    return found


def press(address: str, steps: list[dict[str, str]]) -> dict[str, Any]:
    """Return the findings of press.mjs after `steps` on the keyboard; no mouse is moved."""
    found: dict[str, Any] = _run("press.mjs", address, json.dumps(steps))
    return found


def _run(script: str, *arguments: str) -> Any:
    program = chromium()
    command = [node(), str(HERE / script), program, *arguments]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
