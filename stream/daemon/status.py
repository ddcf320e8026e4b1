"""What an active coordinator says of itself, for `status` and `gap`: positions and counts, nothing of cases."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stream.daemon.state_machine import Engine

FILE = "status.json"


def write_status(output: Path, engine: Engine, state: str) -> None:
    """Replace `operator/status.json`. It may be lost in a crash: everything in it is told again at the next batch."""
    body = msgspec.json.encode(status(engine, state))
    path = output / "operator" / FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(body)
    os.replace(temporary, path)


def status(engine: Engine, state: str) -> dict[str, Any]:
    """Position in the delta topic, partitions with their high-water marks, gaps, and each publication's counts."""
    fold = engine.fold
    return {
        "state": state,
        "at": time.time(),
        "pid": os.getpid(),
        "position": engine.position,
        "delta": {"log": engine.anchor.log, "lost": _lost(engine)},
        "checkpoint": engine.saved,
        "partitions": [
            {
                "src": source,
                "p": number,
                "last": partition.hwm,
                "missing": partition.missing,
                "fault": partition.fault if partition.gap else None,
            }
            for (source, number), partition in sorted(fold.state.partitions.items())
        ],
        "key": fold.key or fold.rules.key,
        "foreign": fold.state.foreign,
        "publications": {name: fold.accounting(name) for name in fold.publications},
    }


def _lost(engine: Engine) -> dict[str, Any] | None:
    """The topic that stands in the place of the one that was folded, and its first offset that is not the same."""
    return None if engine.lost is None else {"log": engine.lost.lineage.topic, "first": engine.lost.lost}


def read_status(output: Path) -> dict[str, Any] | None:
    """The last status, None where no coordinator ever ran here."""
    try:
        decoded: dict[str, Any] = msgspec.json.decode((output / "operator" / FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return decoded
