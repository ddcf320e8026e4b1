"""What a release looks like on the outside: fresh ids, no order of arrival, ordinal or protected times."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from models.chance import Chance
from models.eventlog import Column, EventLog, Ints
from stream.release.contract import Build
from stream.values.pseudonym import Pseudonyms

SECOND = 1_000_000_000

PSEUDONYM = re.compile(r"r-[0-9a-f]{16}")
"""What `Pseudonyms.resource` makes. The fold holds these already; a raw name never stands there in this form, since
ingest and replay replace whatever comes."""


def pseudonymous_resources(
    log: EventLog, pseudonyms: Pseudonyms, process: str | None = None, *, named: bool = False
) -> EventLog:
    """The log with its resources replaced by keyed pseudonyms, the same in every release. `named`: it comes from the
    fold, and what has the form of a pseudonym is one; it is the inner name, of which a publication of a process shows a
    pseudonym of its own (`process`, see `Pseudonyms.resource`; None: series that began without it show the inner one).

    Employees are not protected by case-perspective mechanisms (semantics of the attacks, "Other operations").
    """

    def shown(name: str) -> str:
        inner = name if named and PSEUDONYM.fullmatch(name) else pseudonyms.resource(name)
        return inner if process is None else pseudonyms.resource(inner, process)

    names = tuple(shown(str(name)) for name in log.resource.values)
    return replace(log, resource=Column(log.resource.codes, names))


def public_log(build: Build) -> EventLog:
    """The log as recipients get it."""
    return shuffled(build)[0]


def shuffled(build: Build) -> tuple[EventLog, Ints]:
    """The log as recipients get it, and the case of the build that each of its cases is, int64[released cases].

    Cases come in random order under fresh random ids (a cryptographic source: the order of arrival and a stable id
    would both link releases). What the build does not carry is not there, nor any attribute that it does not show:
    without `activity`, the event is named by its resource; without a protected time, events bear ordinal times, since
    readers need a time column.
    """
    order = np.asarray(_shuffled(build.log.n_cases), dtype=np.int64)
    log = carried(build).select_cases(order)
    drawn = secrets.token_hex(8 * log.n_cases)
    ids = tuple(drawn[at : at + 16] for at in range(0, 16 * log.n_cases, 16))
    attributes = {name: column.take(order) for name, column in build.attributes.items()}
    row = np.arange(log.n_events, dtype=np.int64)
    return replace(log, case_ids=ids, row=row, case_attributes=attributes), order


def carried(build: Build) -> EventLog:
    """The cases of a build as they leave, in their own order, under their own ids and without attributes."""
    log = build.log
    hidden = Column(np.full(log.n_events, -1, dtype=np.int32), ())
    resource = log.resource if "resource" in build.carries else hidden
    activity = log.activity if "activity" in build.carries else _named_by(resource)
    within = np.arange(log.n_events) - np.repeat(log.starts[:-1], log.lengths)
    return EventLog(
        case_ids=log.case_ids,
        starts=log.starts,
        activity=activity,
        time=within * SECOND if build.time_basis == "ordinal" else log.time,
        resource=resource,
        row=np.arange(log.n_events, dtype=np.int64),
    )


def _named_by(resource: Column) -> Column:
    codes = np.where(resource.codes < 0, len(resource.values), resource.codes).astype(np.int32)
    unknown = "unknown"
    while unknown in resource.values:  # one who is called so is somebody
        unknown = f"({unknown})"
    return Column(codes, (*resource.values, unknown))


def _shuffled(count: int, draw: Callable[[int], int] | None = None) -> list[int]:
    """A uniformly random permutation of 0..count-1 (Fisher-Yates)."""
    draw = draw or Chance().below
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = draw(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
