"""Run tests with the oldest or the newest libraries that pyproject.toml allows, in an environment of their own.

`python deploy/release/libraries.py oldest|newest [TESTS...]`. oldest: each direct dependency, those of extras too, at
the lower bound of its `>=`; what these need themselves is the newest that fits. newest: no bound but those of
pyproject.toml. uv resolves both: pip finds no set for the first, and has no option that asks for it. The environment is
out/libraries-<which>-<python>, and stays for the next run while pyproject.toml is as it was.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/unit", "tests/golden", "tests/replay")
RESOLUTION = {"oldest": "lowest-direct", "newest": "highest"}


def environment(which: str) -> Path:
    """Return the Python of the environment, which is made if it is missing or of another pyproject.toml."""
    folder = ROOT / "out" / f"libraries-{which}-{sys.version_info.major}.{sys.version_info.minor}"
    python, mark = folder / "bin" / "python", folder / "made-for"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "uv>=0.5"], check=True)
    install = [str(python), "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    # Compiled here: what compiles with a warning is an error of the first test that imports it.
    chosen = ["--compile-bytecode", "--resolution", RESOLUTION[which], "--editable", f"{ROOT}[test,plot]"]
    subprocess.run([*install, *chosen], check=True)
    mark.write_text(wanted)
    return python


def main(words: Sequence[str]) -> int:
    if not words or words[0] not in RESOLUTION:
        print(__doc__, file=sys.stderr)
        return 2
    tests = words[1:] or TESTS
    # A library's own deprecations are what newer versions bring; ours are held by `make test`.
    chosen = ["-m", "not kafka and not chromium and not prometheus and not logs", "-W", "default"]
    return subprocess.run(
        [str(environment(words[0])), "-m", "pytest", "-q", *chosen, *tests], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
