"""What an operator does to the folder of a replay while nothing runs there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.errors import InputError
from stream.config.settings import Settings
from stream.release.erasure import ErasureReport
from stream.runtime.service import ReleaseService
from stream.storage.entries import ClaimEntry
from stream.storage.folder import ledger_in


def erase_in_folder(settings: Settings, output: Path, cases: Sequence[str]) -> ErasureReport:
    """Erase cases (by raw id) from the checkpointed state and the operator's files of a replay's folder."""
    ledger_in(output, "a replay")
    service = ReleaseService(settings, output)
    try:
        claims = [entry.body.config for entry in service.ledger.entries("") if isinstance(entry, ClaimEntry)]
        if claims and claims[0] not in (None, settings.digest):
            raise InputError(f"{output}: its replay began with another configuration; give that one with -c")
        loaded = service.checkpoints.load()
        if loaded is None:
            raise InputError(f"{output}: there is no checkpoint to erase from; let the replay make one first")
        return service.erase(service.fold_of(loaded.state), [service.pseudonyms.case(case) for case in cases])
    finally:
        service.close()
