"""All events that a process still has, of its archive and of its state, as one event log.

The log is for the operator: it shows what publications would release of it, such as a new publication with a past or
another plan (`veilstream replay`). Cases, persons and resources have their pseudonyms, so it is personal data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from models.errors import InputError, RefusedError
from models.eventlog import MISSING, Codes, Column, EventLog, Ints
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.fold.named_events import named_events
from stream.ledger.archive import as_table, of_other_cases
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.layout import OperatorLayout
from stream.operator.history import ledger_view, refuse_other_process
from stream.run.service import archive_of, mirror_of

log = logging.getLogger("veilstream")

READS, SECONDS_BETWEEN_READS = 5, 1.0
"""A daemon may be saving its state: a file that is incomplete at one read is whole at the next."""


def held_log(settings: Settings, output: Path) -> EventLog:
    """Return all events of the archive and of the newest saved state of a process, each once.

    A case with a tombstone in the ledger is left out, also if its erasure has not ended: a crash in it leaves events of
    the case in the archive or in the state until the next start.

    It may be called while a daemon runs. The state is read first: it counts the drops to the archive, and all segments
    up to its count were durable before it was saved.

    Parameters
    ----------
    settings
        The configuration of the process.
    output
        The output folder of the replay or of the coordinator.

    Returns
    -------
    EventLog
        Each case in the order of event time, source and partition. Events of different cases at one time are in the
        order in which they left the state.

    Raises
    ------
    InputError
        If the folder has no ledger or is of another process, or the process has no event.
    RefusedError
        If the newest state or a segment of the archive cannot be read.
    """
    refuse_other_process(settings, output)
    tombstones = {bytes.fromhex(text) for text in ledger_view(output).tombstones}
    mirror = mirror_of(settings, output) if settings.source is not None else None
    state = _newest_state(Checkpoints(OperatorLayout(output).checkpoints, settings.storage_keys))
    if state is None and mirror is not None:
        state = mirror.load()
    if state is None:
        raise InputError(f"{output}: no state is saved here yet; let the process make a checkpoint first")
    fold_state = Fold.restore(SavedState.decode(state).fold).state
    everything = np.ones(fold_state.events.size, dtype=np.bool_)
    in_state = as_table(named_events(fold_state, everything, fold_state.drops))
    archive = archive_of(settings, output, mirror)
    lost = [segment for segment in archive.missing() if segment.number <= fold_state.drops]
    if lost:
        log.warning(
            "%s/%s: is missing, the first of %d segments of the archive: the log lacks their events",
            archive.blobs.location,
            lost[0].path,
            len(lost),
        )
    archived = archive.read(until=fold_state.drops)
    tables = [*archived, in_state]
    return as_log([table.filter(of_other_cases(table, tombstones)) for table in tables])


def _newest_state(checkpoints: Checkpoints) -> memoryview | None:
    """Return the newest saved state, or None if there is none here.

    Raises
    ------
    RefusedError
        If only an older one can be read: events that came later would be missing.
    """
    warning = ""
    for _ in range(READS):
        loaded = checkpoints.load()
        if loaded is None:
            return None
        if not loaded.warning:
            return loaded.state
        warning = loaded.warning
        time.sleep(SECONDS_BETWEEN_READS)
    raise RefusedError(
        f"{warning}: the state before it lacks the events that came later; start the daemon, or run the replay "
        "again, so that a new state is saved, and repeat this command"
    )


def as_log(tables: Sequence[pa.Table]) -> EventLog:
    """Return the events of segments as one log.

    Parameters
    ----------
    tables
        Tables of `stream.ledger.archive.as_table`, in the order in which their events left the state.

    Raises
    ------
    InputError
        If they have no event.
    """
    events = pa.concat_tables(tables, promote_options="default")
    if not len(events):
        raise InputError("the process has no event; there is nothing to write")
    case = _column(events, "case", plain=True)
    source = _column(events, "source", plain=True)
    time = events.column("time").to_numpy()
    partition = events.column("partition").to_numpy()

    # The trace order of the fold. Events that left together are in the order of acceptance already.
    rank_of_source = np.argsort(np.argsort(np.array(source.values)))
    rank = rank_of_source[source.codes]
    order_of_leaving = np.arange(len(events))
    in_time = np.lexsort((order_of_leaving, partition, rank, time))
    row = np.empty(len(events), dtype=np.int64)
    row[in_time] = np.arange(len(events))
    ordered = np.lexsort((row, case.codes))

    case_of_event = case.codes[ordered]
    starts = np.searchsorted(case_of_event, np.arange(len(case.values) + 1)).astype(np.int64)
    case_attributes: dict[str, Column] = {}
    event_attributes: dict[str, Column] = {}
    for name in events.column_names:
        level, colon, attribute = name.partition(":")
        if not colon:
            continue
        column = _column(events, name)
        codes = column.codes[ordered]
        if level == "case":
            last_codes = _last_of_case(codes, case_of_event, len(case.values))
            case_attributes[attribute] = Column(last_codes, column.values)
        else:
            event_attributes[attribute] = Column(codes, column.values)
    activity, resource = _column(events, "activity"), _column(events, "resource")
    return EventLog(
        case_ids=case.values,
        starts=starts,
        activity=Column(activity.codes[ordered], activity.values),
        time=time[ordered],
        resource=Column(resource.codes[ordered], resource.values),
        row=row[ordered],
        case_attributes=case_attributes,
        event_attributes=event_attributes,
    )


def _column(events: pa.Table, name: str, *, plain: bool = False) -> Column:
    """Return a column of a segment; its values are JSON unless `plain`."""
    encoded = events.column(name).combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int32)
    texts: list[Any] = encoded.dictionary.to_pylist()
    values = texts if plain else [msgspec.json.decode(text) for text in texts]
    return Column(codes, tuple(values))


def _last_of_case(codes: Codes, case: Ints | Codes, n_cases: int) -> Codes:
    """Return the last value of each case; `case` is the case of each event, in trace order."""
    result = np.full(n_cases, MISSING, dtype=np.int32)
    carrying = np.flatnonzero(codes != MISSING)
    # The last assignment wins, and events are in trace order.
    result[case[carrying]] = codes[carrying]
    return result
