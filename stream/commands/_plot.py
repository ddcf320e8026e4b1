"""What `--plot` of several commands shares: which files can be drawn, and the figure itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models.errors import InputError

KINDS = (".png", ".pdf", ".svg")


def check(path: Path) -> None:
    """InputError for an unknown kind of file, a folder that is not there, and where matplotlib is not installed. Asked
    before the measuring, which can take its time."""
    if path.suffix.lower() not in KINDS:
        raise InputError(f"--plot {path}: the suffix is none of {', '.join(KINDS)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--plot {path}: no such folder")
    new_figure(1, 1)


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("--plot needs matplotlib: install veilstream with the extra `plot`") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write the figure; InputError where the file cannot be written."""
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"--plot {path}: cannot be written ({error.strerror})") from error
