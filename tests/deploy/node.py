"""Node and the packages of package.json, installed next to it on first use."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import missing

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
SECONDS = 600


def node() -> str:
    """Return the program, with the packages of package.json; skip without it, or fail if it is required."""
    programs = shutil.which("node"), shutil.which("npm")
    if None in programs:
        missing("npm", "node and npm are not installed; they drive the browser and check dashboards")
    with (HERE / "package.json").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # several test processes begin at once
        wanted: dict[str, str] = json.load(alone)["dependencies"]
        if any(_version(name) != version for name, version in wanted.items()):
            _install(str(programs[1]))
    return str(programs[0])


def _version(package: str) -> Any:
    path = MODULES / package / "package.json"
    return json.loads(path.read_text())["version"] if path.is_file() else None


def _install(npm: str) -> None:
    command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        missing("npm", f"npm cannot install the packages of tests/deploy/package.json (exit {done.returncode})")


def run(package: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return the program of an installed package, found by its `bin`."""
    program = node()
    described = json.loads((MODULES / package / "package.json").read_text())["bin"]
    script = described if isinstance(described, str) else next(iter(described.values()))
    command = [program, str(MODULES / package / script), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS, check=False)
