"""A real headless Chromium for tests: what it met when it opened a page in each appearance."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import missing

HERE = Path(__file__).parent
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120


def chromium() -> str:
    """The program; skips (or fails, where required) when it is not here."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        missing("chromium", "chromium is not installed; install the package of that name")
    return str(found)


def drivers() -> str:
    """Node with playwright-core and axe-core beside browse.mjs, installed on first use."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing("npm", "node and npm are not installed; they drive the browser")
    if not all((HERE / "node_modules" / name / "package.json").is_file() for name in ("axe-core", "playwright-core")):
        command = [str(npm), "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            missing("npm", f"npm cannot install axe-core and playwright-core (exit {done.returncode})")
    return str(node)


def open_page(page: Path, pictures: Path | None = None) -> dict[str, dict[str, Any]]:
    """What browse.mjs found, by appearance."""
    program, node = chromium(), drivers()
    command = [node, str(HERE / "browse.mjs"), program, str(page)]
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        command.append(str(pictures))
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found
