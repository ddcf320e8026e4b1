"""Work on the folder of a replay while no process uses it: decisions on held releases, and erasure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from models.errors import InputError, RefusedError
from stream.config.settings import Settings
from stream.ledger.folder import FolderLockedError, ledger_in
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import is_copy
from stream.operator.history import refuse_other_configuration
from stream.release.erasure import ErasureReport
from stream.run.service import ReleaseService


@contextmanager
def opened_service(settings: Settings, output: Path) -> Iterator[ReleaseService]:
    """Open the release service of a replay's folder, and close it at the end.

    Opening finishes what a crash left, so the configuration is checked first.

    Raises
    ------
    InputError
        If there is no ledger, the folder is one of a daemon, or it was made under another configuration or key.
    RefusedError
        If another process uses the folder, or ledger and store do not agree.
    """
    ledger = ledger_in(output, "a replay")
    if settings.key is None and not OperatorLayout(output).key.exists():
        raise InputError(
            f"{output}: the pseudonym key of this folder was given from outside; give the same one "
            "(VEILSTREAM_KEY_FILE)"
        )
    if is_copy(ledger):
        raise InputError(f"{output}: is the folder of a daemon; give its configuration with -c")
    refuse_other_configuration(settings, output)
    try:
        service = ReleaseService(settings, output)
    except FolderLockedError:
        in_use = f"{output}: another veilstream process is using this folder; wait until it has ended"
        raise RefusedError(in_use) from None
    try:
        yield service
    finally:
        service.close()


def erase_in_folder(settings: Settings, output: Path, cases: Sequence[str]) -> ErasureReport:
    """Erase cases (by raw id) from the checkpointed state and the operator's files of a replay's folder.

    Parameters
    ----------
    settings
        The configuration.
    output
        The output folder.
    cases
        Ids of the cases, as the source has them.

    Raises
    ------
    InputError
        If there is no checkpoint.
    RefusedError
        Under another pseudonym key than that of the state: no case would be found, and all would seem erased.
    """
    with opened_service(settings, output) as service:
        loaded = service.checkpoints.load()
        if loaded is None:
            raise InputError(f"{output}: there is no checkpoint to erase from; let the replay make one first")
        fold = service.fold_of(loaded.state)
        if fold.key not in ("", service.pseudonyms.id):
            raise RefusedError(
                f"{output}: its cases have pseudonyms under another key than the one given here, so none of them would "
                "be found: give the key of the replay (operator/key, or VEILSTREAM_KEY_FILE)"
            )
        pseudonyms = [service.pseudonyms.case(case) for case in cases]
        return service.erase(fold, pseudonyms)
