"""Configurations with `approval = "required"` for the small log of the crash tests, and what a folder then shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors import read_log
from stream.config import sources
from stream.ledger.entries import Entry
from stream.ledger.sqlite import open_readonly
from stream.release.failpoints import Faults, Hook, nothing
from stream.run.replay import Replay, ReplayOutcome
from tests.replay.crashing import PRIVATE, _toml

PLAIN = {"name": "plain", "window": {"new_cases": 25}, "mechanism": {"kind": "identity"}, "approval": "required"}
APPROVED_DP = {**PRIVATE, "approval": "required", "window": {"every": "3h", "time": "event"}}


def configured(folder: Path, *publications: dict[str, Any]) -> Path:
    """A TOML file with these publications."""
    lines = ["checkpoint_every = 60", "[process]", 'name = "crash"', 'sensitive = ["ill"]']
    for publication in publications:
        lines += ["[[publication]]", *(f"{key} = {_toml(value)}" for key, value in publication.items())]
    path = folder / "approval.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(folder: Path, *, at: Hook = nothing, **options: Any) -> ReplayOutcome:
    """One replay of the small log under `approval.toml`, into the folder `out` next to it."""
    loaded = sources.load(folder / "approval.toml")
    return Replay(loaded, folder / "out", batch=40, faults=Faults(at), **options).run(read_log(folder / "log.xes"))


def ledger(folder: Path) -> list[Entry]:
    """The entries of the folder's ledger."""
    return open_readonly(folder / "out" / "operator" / "ledger.sqlite")


def visible(folder: Path, name: str = "plain") -> list[str]:
    """Return everything that recipients can see of a publication: every name in its folder, hidden ones too."""
    public = folder / "out" / "public" / name
    return sorted(path.name for path in public.iterdir()) if public.is_dir() else []
