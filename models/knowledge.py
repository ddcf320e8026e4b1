"""Background knowledge: the items of a person's case that an adversary knows.

Source: tlkc-privacy-extended-2021, section 4.1. A type (how much of the structure of the trace is known) and an
attribute (of which items) give the perspective that a release protects and may therefore carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from models.errors import InputError, check_choice
from models.eventlog import Column, EventLog, Ints

Structure = Literal["set", "mult", "seq", "rel"]
"""set: which items; mult: how often each; seq: their order; rel: order and relative time."""

Attribute = Literal["ac", "re", "ar"]
"""ac: activity; re: resource; ar: both."""

WEAKER: dict[str, tuple[Structure, ...]] = {"set": (), "mult": ("set",), "seq": ("mult", "set"), "rel": ()}
"""Weaker structures over the same items, strongest first. Those below `rel` have other items, without times."""

Clock = Literal["utc", "log"]
"""By which clock days and hours begin: UTC, or the clock by which the log writes its times (`EventLog.offset`)."""

Unit = Literal["seconds", "minutes", "hours", "days"]

NANOSECONDS: dict[str, int] = {
    "seconds": 1_000_000_000,
    "minutes": 60_000_000_000,
    "hours": 3_600_000_000_000,
    "days": 86_400_000_000_000,
}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Type and attribute of background knowledge.

    Parameters
    ----------
    structure, attribute
        The structure of a trace that is known, and the perspectives of its items.
    T, clock
        Accuracy of relative times, and the clock by which days and hours begin. Used by `rel` only.
    """

    structure: Structure = "seq"
    attribute: Attribute = "ac"
    T: Unit = "minutes"
    clock: Clock = "utc"

    def __post_init__(self) -> None:
        """Check that each field has one of its values."""
        for value, allowed, name in (
            (self.structure, get_args(Structure), "knowledge"),
            (self.attribute, get_args(Attribute), "attribute"),
            (self.T, get_args(Unit), "T"),
            (self.clock, get_args(Clock), "clock"),
        ):
            check_choice(f"{name} =", value, allowed)

    @property
    def carries(self) -> tuple[str, ...]:
        """Perspectives that a release protected against this knowledge may carry."""
        names = {"ac": ("activity",), "re": ("resource",), "ar": ("activity", "resource")}[self.attribute]
        return (*names, "relative_time") if self.structure == "rel" else names


def relative_times(log: EventLog, T: Unit, clock: Clock = "utc") -> Ints:
    """Return the time of each event since the start of its case, in whole units of T.

    Truncate, then subtract (semantics of TLKC, `rel`): floor(t / T) - floor(t0 / T).

    Parameters
    ----------
    log
        The log, times in ns.
    T
        The unit.
    clock
        The clock by which days and hours begin. Minutes and seconds begin together everywhere.

    Returns
    -------
    Ints
        int64[E].

    Raises
    ------
    InputError
        The unit is unknown, or the log does not state its clock.
    """
    check_choice("T =", T, NANOSECONDS)
    time = log.time
    if clock == "log" and T in ("hours", "days"):
        if log.offset is None:
            raise InputError('clock = "log": this log does not state by which clock it was written; use "utc"')
        time = time + log.offset.astype(np.int64) * NANOSECONDS["minutes"]
    ticks = time // NANOSECONDS[T]
    has_events = log.lengths > 0
    first_events = log.starts[:-1][has_events]
    return ticks - np.repeat(ticks[first_events], log.lengths[has_events])


def items(log: EventLog, knowledge: Knowledge) -> Column:
    """Return the item of each event.

    It is the activity, the resource or both, with the relative time for `rel`. A missing resource is the item value
    None: an adversary sees that there is none.

    Parameters
    ----------
    log
        The log.
    knowledge
        Attributes of an event that the adversary knows.

    Returns
    -------
    Column
        One entry for each event.
    """
    return perspective(log, knowledge.carries, knowledge.T, knowledge.clock)


def perspective(log: EventLog, carries: tuple[str, ...], T: Unit = "minutes", clock: Clock = "utc") -> Column:
    """Return the joint item of each event over the named perspectives.

    Parameters
    ----------
    log
        The log.
    carries
        Any of `activity`, `resource` and `relative_time`.
    T, clock
        Unit and clock of relative times.

    Returns
    -------
    Column
        For one perspective its plain values; for several, tuples in the given order.
    """
    if not carries:
        raise InputError("no perspective is named; use activity, resource or relative_time")
    parts: list[Column] = []
    for name in carries:
        if name == "activity":
            parts.append(log.activity)
        elif name == "resource":
            parts.append(_resource(log))
        elif name == "relative_time":
            parts.append(_numbers(relative_times(log, T, clock)))
        else:
            raise InputError(f"unknown perspective {name!r}")
    return joint(parts)


def _resource(log: EventLog) -> Column:
    if log.n_events and np.all(log.resource.codes < 0):
        raise InputError("the log has no resource; attribute re and ar need one (XES key org:resource)")
    if np.any(log.resource.codes < 0):
        codes = np.where(log.resource.codes < 0, len(log.resource.values), log.resource.codes)
        return Column(codes.astype(np.int32), (*log.resource.values, None))
    return log.resource


def _numbers(values: Ints) -> Column:
    distinct, codes = np.unique(values, return_inverse=True)
    return Column(codes.astype(np.int32), tuple(distinct.tolist()))


def joint(parts: list[Column]) -> Column:
    """Return one column of the tuples of several columns' values.

    A single column stays as it is.

    Parameters
    ----------
    parts
        Columns of equal length, at least one.
    """
    if len(parts) == 1:
        return parts[0]
    joint_codes = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        joint_codes = joint_codes * max(len(part.values), 1) + part.codes
    _, first, codes = np.unique(joint_codes, return_index=True, return_inverse=True)
    # The values of the first event with each joint code.
    values_of_parts = [[part.values[code] for code in part.codes[first].tolist()] for part in parts]
    return Column(codes.astype(np.int32), tuple(zip(*values_of_parts, strict=True)))
