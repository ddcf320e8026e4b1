"""The cases of a fold as a data set that engines read: for a release that the coordinator's host has no memory for.

What is written is what a release of everything so far would show the mechanism of one publication: its events exposed
or pending, not those that came too late for it or whose retention is over, in trace order, cases in order of their
first acceptance. Case ids are the pseudonyms of the fold. It is raw data nonetheless, and never to be published.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connectors import parquet
from connectors.files import FileOps
from models.errors import InputError, RefusedError, kind_of
from models.eventlog import EventLog, Ints
from stream.config.settings import Settings
from stream.engine.work import workspace
from stream.fold.cases import EXPOSED, PENDING
from stream.fold.exposure import project, trace_order
from stream.fold.fold import Fold
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.folder import json_bytes, ledger_in

VERSION = 1
"""Of `_state.json`."""

STATE = "_state.json"
"""Hidden from who reads the data set."""

ROWS = 4_000_000
"""Events of a part; a case is never in two."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. `position`: last record of the delta topic that the state has (None: of a replay); `ledger`:
    entries of the ledger when it was saved; `late`: accepted events that the publication leaves out."""

    publication: str
    cases: int
    events: int
    late: int
    position: int | None
    ledger: int
    warning: str = ""

    def document(self) -> Mapping[str, Any]:
        """The content of `_state.json`."""
        return {"version": VERSION, **asdict(self)}


def export_state(
    settings: Settings, output: Path, publication: str, target: Path, ops: FileOps | None = None
) -> Exported:
    """Write the cases of the newest checkpoint of `output` to the new folder `target`, for this user only; it appears
    at once or not at all. Reads `output` only, also beside a running daemon. InputError where there is no checkpoint or
    no such publication, or where `target` exists."""
    if os.path.lexists(target):
        raise InputError(f"{target}: exists already; name another folder with --to")
    if "public" in target.absolute().parts[-3:]:
        raise InputError(f"{target}: is what others can read; the state is raw data, name another folder with --to")
    saved, warning = _newest(settings, output)
    fold = Fold.restore(saved.fold)
    if publication not in fold.publications:
        raise InputError(f"there is no publication {publication!r}; there are {', '.join(fold.publications)}")
    if not settings.process.raw_resources and not fold.state.named:
        raise RefusedError(
            f"{output}: the checkpoint is of an older program, which kept resources as they came; let this one save one"
        )
    ordered = _shown(fold, publication)
    if not len(ordered):
        raise InputError(f"{publication}: no event of the state would be in a release")
    cases = len(np.unique(fold.state.events["case"][ordered]))
    late = fold.accounting(publication)["late"]
    found = Exported(publication, cases, len(ordered), late, saved.position, saved.ledger, warning)
    with workspace(str(target)) as work:
        try:
            _write(fold, ordered, settings.process.kept, work / "state", found, target, ops or FileOps())
        except FileExistsError:
            raise InputError(f"{target}: exists already; name another folder with --to") from None
        except OSError as error:
            raise kind_of(error)(f"{target}: cannot be written ({error.strerror or type(error).__name__})") from error
    return found


def _newest(settings: Settings, output: Path) -> tuple[SavedState, str]:
    ledger_in(output)
    folder = output / "operator" / "checkpoints"
    loaded = Checkpoints(folder, settings.storage_keys).load()
    if loaded is None:
        raise InputError(f"{output}: there is no checkpoint yet; let the replay or daemon make one first")
    return SavedState.decode(loaded.state), loaded.warning


def _shown(fold: Fold, publication: str) -> Ints:
    """The events that a release of everything so far shows, in trace order."""
    flags = fold.state.events[f"flag:{publication}"]
    chosen = np.flatnonzero((flags == EXPOSED) | (flags == PENDING))
    return trace_order(fold.state.events, chosen, fold.state.rank)


def _write(
    fold: Fold, ordered: Ints, kept: tuple[str, ...], folder: Path, found: Exported, target: Path, disk: FileOps
) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(mode=0o700)
    for number, log in enumerate(_parts(fold, ordered, kept)):
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(parquet.table(log), path, compression="zstd")
        disk.fsync(path)
    (folder / STATE).write_bytes(json_bytes(found.document()))
    disk.fsync(folder / STATE)
    disk.fsync(folder)
    disk.rename_noreplace(folder, target.absolute())
    disk.fsync(target.absolute().parent)


def _parts(fold: Fold, ordered: Ints, kept: tuple[str, ...]) -> Iterator[EventLog]:
    """The events as logs of whole cases, with the attributes that have a role."""
    state = fold.state
    names, case = state.index.names(state.cases.size), state.events["case"][ordered]
    begins = np.flatnonzero(np.diff(case, prepend=-1))
    bounds = [0]
    while bounds[-1] < len(ordered):
        later = begins[begins >= bounds[-1] + ROWS]
        bounds.append(int(later[0]) if len(later) else len(ordered))
    for begin, end in itertools.pairwise(bounds):
        yield project(
            state.events,
            ordered[begin:end],
            names,
            tuple(state.activity_names),
            tuple(state.resource_names),
            {name: one for name, one in state.case_attributes.items() if name in kept},
            {name: one for name, one in state.event_attributes.items() if name in kept},
        )
