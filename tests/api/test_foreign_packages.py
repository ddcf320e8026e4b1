"""A package of another project that would be imported in the place of ours is named in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder of other people's packages before the checkout."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def foreign(folder: Path, name: str, *, is_file: bool) -> Path:
    """A package or a single file of this name, as another project has it."""
    if is_file:
        path = folder / f"{name}.py"
        path.write_text("Customer = object\n")
        return path
    path = folder / name
    path.mkdir()
    (path / "__init__.py").write_text("Customer = object\n")
    return path


@pytest.mark.parametrize("is_file", [False, True], ids=["package", "file"])
@pytest.mark.parametrize("name", ["models", "connectors", "stream"])
def test_the_command_prints_one_line(tmp_path: Path, name: str, is_file: bool) -> None:
    """The line names the package, its place and how to install in isolation; exit code 2."""
    place = foreign(tmp_path, name, is_file=is_file)
    done = run("-m", "veilstream", "--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    for words in (f"another {name!r}", str(place), "pipx install veilstream", "uv tool install veilstream"):
        assert words in done.stderr


def test_an_import_raises_the_line(tmp_path: Path) -> None:
    """A notebook in a folder with a models.py."""
    place = foreign(tmp_path, "models", is_file=True)
    done = run("-c", "import veilstream", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: Python finds another 'models' first, at {place}")


def test_a_package_that_was_imported_before_is_named_too(tmp_path: Path) -> None:
    """The path may have changed since the other project imported its own package."""
    place = foreign(tmp_path, "models", is_file=False)
    script = "import sys, models; sys.path.pop(sys.path.index(sys.argv[1])); import veilstream"
    done = run("-c", script, str(tmp_path), folder=tmp_path)
    assert f"another 'models' first, at {place}" in done.stderr


def test_without_one_the_command_runs(tmp_path: Path) -> None:
    """The control."""
    done = run("-m", "veilstream", "--version", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
