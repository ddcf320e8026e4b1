"""From the distinct values of a data set to labels, items and classes, by the same functions as for a log in memory.

Engines count; what a value means is decided here, on the few distinct ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.anonymize.sensitive import class_columns, refuse_identifying
from models.anonymize.values import written
from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog, Ints
from stream.engine.contract import Asked


def check_bins(asked: Asked) -> None:
    """InputError for bins of an attribute that is not asked for."""
    if unknown := sorted(set(asked.bins) - set(asked.sensitive)):
        raise InputError(f"bins are given for {', '.join(unknown)}, which is no sensitive attribute here")


def labels(texts: Sequence[str], asked: Asked, *, resource: bool = False) -> Column:
    """The label of each distinct text of activities or resources, as a column over the texts."""
    column = Column(np.arange(len(texts), dtype=np.int32), tuple(texts))
    if not asked.written:
        return column
    nothing = Column(np.full(len(texts), MISSING, dtype=np.int32), ())
    activity, actor = (nothing, column) if resource else (column, nothing)
    log = written(_log(len(texts), activity, actor))
    return log.resource if resource else log.activity


def attribute(name: str, own: Column | None, last: Column | None, cases: Ints, asked: Asked) -> Column:
    """The value of attribute `name` in each kind of case: (its own value, the last one of its events).

    `own`, `last`: int32[kinds] with all distinct values of the column, also those that no case ends with, None where
    the data set has no such column; `cases`: int64[kinds]. Values are in written form where that is asked for, and
    classes where it is a sensitive attribute whose classes are asked for. InputError where it names cases.
    """
    kinds = len(cases)
    activity = Column(np.zeros(kinds, dtype=np.int32), ("",))
    log = _log(kinds, activity, Column(np.full(kinds, MISSING, dtype=np.int32), ()))
    log = log.with_columns(case={} if own is None else {name: own}, event={} if last is None else {name: last})
    if not asked.written:
        return log.case_values(name)
    bins = {name: asked.bins[name]} if name in asked.bins else None
    refuse_identifying(log, (name,), bins, cases)
    log = written(log, (name,))
    if name in asked.sensitive and asked.classes:
        return class_columns(log, (name,), bins, cases)[name]
    return log.case_values(name)


def _log(events: int, activity: Column, resource: Column) -> EventLog:
    """One case for each event."""
    return EventLog(
        case_ids=tuple(map(str, range(events))),
        starts=np.arange(events + 1, dtype=np.int64),
        activity=activity,
        time=np.zeros(events, dtype=np.int64),
        resource=resource,
        row=np.arange(events, dtype=np.int64),
    )


def common_values(column: Column, cases: Ints, least: int) -> Column:
    """The classes of a released sensitive attribute as they leave: what fewer than `least` cases have is `other`.
    `column`: the class of each row of the release; `cases`: how many of each row leave."""
    from stream.release.attributes import common

    leave = np.flatnonzero(cases)
    shown = common(column.take(leave), least, np.zeros(len(leave), dtype=np.int64), cases[leave])
    codes = np.full(len(column), MISSING, dtype=np.int32)
    codes[leave] = shown.codes
    return Column(codes, shown.values)
