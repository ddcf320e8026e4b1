"""A build on a table of variants, and its effect on the cases behind the table.

Most mechanisms see of a case its variant and its sensitive classes only, so the table is enough to build on
(`models.variants`), and an engine may count it. The seal of the release names the digest of table and build together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import msgspec
import numpy as np

from models.errors import InputError
from models.eventlog import Column, EventLog, Ints
from models.keys import BLOCK, distinct
from models.variants import VariantTable
from stream.ledger.folder import json_bytes
from stream.release.contract import Applicability, Build, Exposure, Mechanism, TimeBasis
from stream.values.memory import Bytes
from stream.values.paged import ColumnFiles, parts_of


@dataclass(frozen=True, slots=True)
class Place:
    """The release that a build is for: the number that it will have if it leaves, and the id of its cut."""

    publication: str
    number: int
    cut: str


class BuiltBy(Protocol):
    """Builds in place of the mechanism on the cases in memory: an engine."""

    @property
    def pages(self) -> ColumnFiles:
        """Files for the columns of cuts and releases, which so stay outside of the heap."""
        ...

    def __call__(self, place: Place, mechanism: Mechanism, exposure: Exposure, memory: Any = None) -> Build:
        """Build an exposure, with the digest of its plan. Memory and errors as of `Mechanism.build`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A build on a table of variants.

    Attributes
    ----------
    table
        sha256 of the table of variants.
    build
        One case for each row that leaves; `build.origin` has the number of the row (-1: a record that is nobody's
        case).
    """

    table: str
    build: Build

    @property
    def digest(self) -> str:
        """sha256 of the released log: the same from every engine."""
        statements = [self.table, described(self.build)]
        digest = hashlib.sha256(msgspec.json.encode(statements, order="deterministic"))
        for part in chain(_traces(self.build.log), [_numbers(self.build.origin)]):
            digest.update(part)
        return digest.hexdigest()


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """Statements about a build, as JSON has them: those that all builds on tables share."""

    carries: tuple[str, ...]
    time_basis: TimeBasis
    T: str
    n_actual: int | None
    cases_dropped: int
    public: Mapping[str, Any]
    not_guaranteed: tuple[str, ...]
    operator: Mapping[str, Any]
    applies: Mapping[str, Applicability]


def described(build: Build) -> Described:
    """Return the statements about a build."""
    fields = {name: getattr(build, name) for name in Described.__struct_fields__}
    return msgspec.json.decode(json_bytes(fields), type=Described)


def classified(mechanism: Mechanism, exposure: Exposure) -> tuple[str, ...]:
    """Return the attributes whose classes are columns of the table."""
    return exposure.sensitive if mechanism.releases_attributes else ()


def table_digest(table: VariantTable) -> str:
    """Return the sha256 of a table: rows in order, their classes and counts."""
    knowledge = table.knowledge
    digest = hashlib.sha256(msgspec.json.encode([knowledge.structure, knowledge.attribute, knowledge.T]))
    for part in chain(_traces(table.log), [_numbers(table.count)]):
        digest.update(part)
    for name, column in sorted(table.log.case_attributes.items()):
        digest.update(msgspec.json.encode(name))
        for part in _column(column):
            digest.update(part)
    return digest.hexdigest()


def _traces(log: EventLog) -> Iterator[Bytes]:
    yield _numbers(log.starts)
    yield _numbers(log.time)
    yield from _column(log.activity)
    yield from _column(log.resource)


def _numbers(array: Ints) -> memoryview:
    return np.ascontiguousarray(array, dtype="<i8").data


def _column(column: Column) -> Iterator[Bytes]:
    """Yield the values of a column as bytes that do not depend on its codes, part by part."""
    named = [f"{type(value).__name__} {value}" for value in column.values]
    used = distinct(column.codes[column.codes >= 0], len(named)).tolist()
    ascending = sorted(used, key=named.__getitem__)
    place = np.full(len(named) + 1, -1, dtype="<i8")
    place[ascending] = np.arange(len(ascending))
    yield msgspec.json.encode([named[code] for code in ascending])
    for begin in range(0, len(column.codes), BLOCK):
        yield place[column.codes[begin : begin + BLOCK]].data


def built_on(mechanism: Mechanism, exposure: Exposure, table: VariantTable, memory: Any = None) -> Planned:
    """Build on the table of an exposure. Errors as `Mechanism.build`.

    Parameters
    ----------
    mechanism
        Mechanism that builds on variants with numbers of cases.
    exposure
        Cases that the cut exposes.
    table
        Table of variants of these cases.
    memory
        State that the mechanism left with the last release.
    """
    rows = table.log.n_cases
    counted = replace(
        exposure,
        log=table.log,
        complete=np.ones(rows, dtype=np.bool_),
        sensitive=classified(mechanism, exposure),
        public=(),
        cases=table.count,
    )
    return Planned(table_digest(table), mechanism.build(counted, memory))


def applied(planned: Planned, exposure: Exposure, row: Ints, pages: ColumnFiles) -> Build:
    """Return the build of the exposure: each case leaves as its row of the table does.

    Parameters
    ----------
    planned
        The build on the table.
    exposure
        The cases behind the table.
    row
        int64[C], row of each case; -1 for cases that do not leave.
    pages
        Files for the released cases.
    """
    build = planned.build
    if len(build.origin) and int(build.origin.min()) < 0:
        return replace(build, plan=planned.digest)
    last_row = int(max(row.max(initial=-1), build.origin.max(initial=-1)))
    place = np.full(last_row + 2, -1, dtype=np.int64)  # the last item is for row -1
    place[build.origin] = np.arange(len(build.origin))
    leaves = place[row]
    origin = np.flatnonzero(leaves >= 0)
    used, trace = np.unique(leaves[origin], return_inverse=True)
    traces = build.log.select_cases(used)
    # In the order of the fold, not of the table: of several background knowledges with the same value, the audits name
    # the same one as without an engine.
    traces = replace(traces, activity=traces.activity.in_order_of(exposure.log.activity.values))
    log = pages.joined(parts_of(traces, trace), int(traces.lengths[trace].sum()), alike=traces)
    values = {name: exposure.log.case_values(name).take(origin) for name in exposure.linked}
    ids = exposure.log.case_ids
    log = replace(log, case_ids=tuple([ids[case] for case in origin.tolist()]))
    return replace(build, log=log.with_columns(case=values, event={}), origin=origin, plan=planned.digest)


def refuse_unplanned(name: str, mechanism: Mechanism, *, repairs: bool, accumulates: bool) -> None:
    """Refuse a publication whose releases are not plans on a table of variants.

    Parameters
    ----------
    name
        Name of the publication.
    mechanism
        Its mechanism.
    repairs
        Whether its gate repairs candidates.
    accumulates
        Whether it publishes an accumulated log.

    Raises
    ------
    InputError
        Names the publication, and what needs the cases.
    """
    place = f"publication {name!r}"
    try:
        mechanism.variants_by()
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    if repairs:
        raise InputError(
            f'{place}: gate.on_violation = "repair" suppresses further case by case; only --engine embedded can'
        )
    if accumulates:
        raise InputError(f"{place}: accumulate adds releases up case by case; only --engine embedded can")
