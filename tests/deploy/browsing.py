"""A real headless Chromium for tests: what it met when it opened a page in each appearance."""

from __future__ import annotations

import atexit
import functools
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
    browser = _browser()
    assert browser.stdin is not None
    assert browser.stdout is not None
    browser.stdin.write(json.dumps([str(page), str(pictures or "-"), cookie, looks]) + "\n")
    browser.stdin.flush()
    line = browser.stdout.readline()
    assert line, "the browser has ended"
    answer = json.loads(line)
    assert "error" not in answer, answer["error"]
    found: dict[str, dict[str, Any]] = answer["found"]
    return found


@functools.cache
def _browser() -> subprocess.Popen[str]:
    """Start the browser that opens all pages of a test process: its start costs as much as a page."""
    command = [node(), str(HERE / "browse.mjs"), chromium()]
    process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    """End the browser, by the end of its input."""
    process.communicate()


def press(address: str, steps: list[dict[str, str]]) -> dict[str, Any]:
    """Return the findings of press.mjs after `steps` on the keyboard; no mouse is moved."""
    command = [node(), str(HERE / "press.mjs"), chromium(), address, json.dumps(steps)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
