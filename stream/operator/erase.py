"""Erasure in the folder of a replay while nothing runs there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.errors import InputError
from stream.config.settings import Settings
from stream.ledger.folder import ledger_in
from stream.operator.history import refuse_other_configuration
from stream.release.erasure import ErasureReport
from stream.run.service import ReleaseService


def erase_in_folder(settings: Settings, output: Path, cases: Sequence[str]) -> ErasureReport:
    """Erase cases (by raw id) from the checkpointed state and the operator's files of a replay's folder."""
    ledger_in(output, "a replay")
    refuse_other_configuration(settings, output)
    service = ReleaseService(settings, output)
    try:
        loaded = service.checkpoints.load()
        if loaded is None:
            raise InputError(f"{output}: there is no checkpoint to erase from; let the replay make one first")
        return service.erase(service.fold_of(loaded.state), [service.pseudonyms.case(case) for case in cases])
    finally:
        service.close()
