"""Run tests with the oldest or the newest libraries that pyproject.toml allows, in an environment of their own.

`python deploy/release/libraries.py oldest|newest [TESTS...]`. oldest: each direct dependency at the lower bound of its
`>=`; what these need themselves is the newest that fits. newest: no bound but those of pyproject.toml. The environment
is out/libraries-<which>-<python>, and stays for the next run while pyproject.toml is as it was.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/unit", "tests/golden", "tests/replay")
LEAST = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)")


def bounds(project: dict[str, object], extras: Sequence[str] = ("test",)) -> list[str]:
    """`name==version` for each lower bound of the dependencies and of some extras."""
    table = project["project"]
    assert isinstance(table, dict)
    asked = [*table["dependencies"], *(one for extra in extras for one in table["optional-dependencies"][extra])]
    found = (LEAST.match(one) for one in asked)
    return [f"{match[1]}=={match[2]}" for match in found if match]


def environment(which: str) -> Path:
    """The Python of the environment, made where it is missing or of another pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_bytes()
    folder = ROOT / "out" / f"libraries-{which}-{sys.version_info.major}.{sys.version_info.minor}"
    python, mark = folder / "bin" / "python", folder / "made-for"
    wanted = hashlib.sha256(text).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[test,plot]"]
    if which == "oldest":
        pins = folder / "oldest.txt"
        pins.write_text("\n".join(bounds(tomllib.loads(text.decode()), ("test", "plot"))) + "\n")
        install += ["--constraint", str(pins)]
    subprocess.run(install, check=True)
    mark.write_text(wanted)
    return python


def main(words: Sequence[str]) -> int:
    if not words or words[0] not in ("oldest", "newest"):
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
