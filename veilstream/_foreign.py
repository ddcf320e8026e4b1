"""Find packages of other projects that Python would import in place of ours.

The packages installed with this one have common names. A file `models.py` in the folder of a notebook, or another
project on PYTHONPATH, comes first on the path and would be imported instead. This module imports none of ours.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

NAMES = ("models", "connectors", "stream")
"""Packages of this program other than `veilstream`."""

_HERE = Path(__file__).resolve().parent.parent


def check() -> None:
    """Refuse to continue with a foreign package.

    Raises
    ------
    ImportError
        One line: the package, its place, and how to install this program in isolation.
    SystemExit
        The same line on stderr and exit code 2, if the program was started as a command.
    """
    problem = describe_foreign()
    if problem is None:
        return
    if _is_command():
        sys.stderr.write(f"veilstream: {problem}\n")
        raise SystemExit(2)
    raise ImportError(problem)


def describe_foreign() -> str | None:
    """Return one line on the first package that is not ours; None if all are."""
    for name in NAMES:
        place = _place_of(name)
        if place is None:
            return f"the package {name!r} of this program is missing next to {_HERE / 'veilstream'}; install it again"
        if not _is_ours(place, name):
            return (
                f"Python finds another {name!r} first, at {place}; rename it or take its folder off the path "
                "(PYTHONPATH, the folder of the notebook), or install veilstream in isolation: "
                "pipx install veilstream, or uv tool install veilstream"
            )
    return None


def _place_of(name: str) -> Path | None:
    """Return the file or folder that `import name` takes; None if there is none."""
    module = sys.modules.get(name)
    spec: importlib.machinery.ModuleSpec | None
    if module is not None:
        spec = module.__spec__
    else:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return None if spec.origin is None else Path(spec.origin)


def _is_ours(place: Path, name: str) -> bool:
    return place.resolve() == _HERE / name


def _is_command() -> bool:
    """Return whether this process is `veilstream` or `python -m veilstream`, and not a program that imports it."""
    started = sys.argv[0] if sys.argv else ""
    # While `python -m` looks for the package, the first argument is -m itself.
    return started == "-m" or Path(started).stem == "veilstream"
