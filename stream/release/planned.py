"""A build that was made on a table of variants, and what it makes of the cases behind the table.

Most mechanisms see of a case its variant and its sensitive classes only, so the table is enough to build on
(`models.variants`), and another program or host may do it. What it came to is tied to the cases that it was made of:
the digest of the table is in it, and a cut whose own table has another digest does not take it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import numpy as np

from models.anonymize.sensitive import class_columns
from models.errors import InputError
from models.eventlog import Column, EventLog, Ints
from models.variants import VariantTable, variant_table
from stream.ledger.entries import Entry
from stream.ledger.folder import json_bytes
from stream.release.contract import Applicability, Build, Exposure, Mechanism, TimeBasis


@dataclass(frozen=True, slots=True)
class Place:
    """Which release a build is for: the number that it will have if it leaves, and the id of its cut."""

    publication: str
    number: int
    cut: str


class BuiltBy(Protocol):
    """Who builds in the place of the mechanism on the cases in memory."""

    def check(self, entries: Iterable[Entry], named: Callable[[str], str]) -> None:
        """Called before anything is built. InputError where it has something for a release that the ledger knows
        otherwise. `named`: what the ledger calls a plan (`Pseudonyms.plan`)."""

    def unused(self) -> str:
        """Called after the last cut: what it had for a release that did not come, as a sentence, or ""."""

    def __call__(self, place: Place, mechanism: Mechanism, exposure: Exposure) -> Build:
        """The build of an exposure, with the digest of its plan. Errors as `Mechanism.build`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """`build` was made on the table of variants with the digest `table`: one case for each row that leaves, whose
    number stands in `build.origin` (-1: records that are no one's case)."""

    table: str
    build: Build

    @property
    def digest(self) -> str:
        """sha256 of what leaves: the same from every engine."""
        told = msgspec.json.encode([self.table, described(self.build)], order="deterministic")
        whole = hashlib.sha256(told + _traces(self.build.log) + self.build.origin.astype("<i8").tobytes())
        return whole.hexdigest()


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What a build says beside its cases: all that builds on tables have, as JSON has it."""

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
    """What a build says beside its cases."""
    told = {name: getattr(build, name) for name in Described.__struct_fields__}
    return msgspec.json.decode(json_bytes(told), type=Described)


def table_of_cut(mechanism: Mechanism, exposure: Exposure) -> tuple[VariantTable, Ints]:
    """The table of an exposure in memory as an engine counts it, and the row of each case."""
    classes = class_columns(exposure.log, classified(mechanism, exposure), getattr(mechanism, "bins", {}))
    return variant_table(exposure.log, mechanism.variants_by(), classes)


def classified(mechanism: Mechanism, exposure: Exposure) -> tuple[str, ...]:
    """The attributes whose classes are columns of the table."""
    return exposure.sensitive if mechanism.releases_attributes else ()


def table_digest(table: VariantTable) -> str:
    """sha256 of a table: rows in order, their classes and counts."""
    whole = hashlib.sha256(
        msgspec.json.encode([table.knowledge.structure, table.knowledge.attribute, table.knowledge.T])
    )
    whole.update(_traces(table.log) + table.count.astype("<i8").tobytes())
    for name, column in sorted(table.log.case_attributes.items()):
        whole.update(msgspec.json.encode(name) + _column(column))
    return whole.hexdigest()


def _traces(log: EventLog) -> bytes:
    arrays = log.starts.astype("<i8").tobytes() + log.time.astype("<i8").tobytes()
    return arrays + _column(log.activity) + _column(log.resource)


def _column(column: Column) -> bytes:
    """The values of a column, whatever their codes are."""
    named = [f"{type(value).__name__} {value}" for value in column.values]
    used = np.unique(column.codes[column.codes >= 0]).tolist()
    ascending = sorted(used, key=named.__getitem__)
    place = np.full(len(named) + 1, -1, dtype="<i8")
    place[ascending] = np.arange(len(ascending))
    return msgspec.json.encode([named[code] for code in ascending]) + place[column.codes].tobytes()


def built_on(mechanism: Mechanism, exposure: Exposure, table: VariantTable) -> Planned:
    """What the mechanism builds on the table of an exposure. Errors as `Mechanism.build`."""
    rows = table.log.n_cases
    counted = replace(
        exposure,
        log=table.log,
        complete=np.ones(rows, dtype=np.bool_),
        sensitive=classified(mechanism, exposure),
        public=(),
        cases=table.count,
    )
    return Planned(table_digest(table), mechanism.build(counted))


def applied(planned: Planned, exposure: Exposure, row: Ints) -> Build:
    """The build of the exposure: each case leaves as its row of the table does. `row`: int64[C], -1 for cases that do
    not leave."""
    build = planned.build
    if len(build.origin) and int(build.origin.min()) < 0:
        return replace(build, plan=planned.digest)
    place = np.full(int(max(row.max(initial=-1), build.origin.max(initial=-1))) + 2, -1, dtype=np.int64)
    place[build.origin] = np.arange(len(build.origin))
    leaves = place[row]
    origin = np.flatnonzero(leaves >= 0)
    log = build.log.select_cases(leaves[origin])
    values = {name: exposure.log.case_values(name).take(origin) for name in exposure.linked}
    ids = exposure.log.case_ids
    log = replace(log, case_ids=tuple([ids[case] for case in origin.tolist()]))
    return replace(build, log=log.with_columns(case=values, event={}), origin=origin, plan=planned.digest)


def refuse_unplanned(name: str, mechanism: Mechanism, *, repairs: bool, accumulates: bool) -> None:
    """InputError where the releases of a publication are not plans on a table of variants."""
    where = f"publication {name!r}"
    try:
        mechanism.variants_by()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if repairs:
        raise InputError(
            f'{where}: gate.on_violation = "repair" suppresses further case by case; only --engine embedded can'
        )
    if accumulates:
        raise InputError(f"{where}: accumulate adds releases up case by case; only --engine embedded can")


def refuse_other(planned: Planned, mechanism: Mechanism, table: VariantTable) -> None:
    """InputError where what somebody handed in is not of this table, or is not what a removal can come to: a case that
    shows what it does not have, or counts that are not those of the cases."""
    if planned.table != table_digest(table):
        raise InputError("it was made of other cases than this cut shows")
    build, source = planned.build, table.log
    known = mechanism.variants_by()
    basis = "relative" if known.structure == "rel" else "ordinal"
    if (build.carries, build.time_basis, build.T) != (known.carries, basis, known.T):
        raise InputError("it shows other parts of an event than the mechanism of this publication")
    rows = build.origin
    ascending = len(rows) == build.log.n_cases and (np.diff(rows) > 0).all()
    if not ascending or (len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < source.n_cases):
        raise InputError("its rows are not those of the table")
    _refuse_added(build, source.select_cases(rows))
    lost = source.lengths[rows] - build.log.lengths
    gone = int(table.count.sum() - table.count[rows].sum())
    if (build.n_actual, build.cases_dropped) != (int(lost.max(initial=0)), gone):
        raise InputError("its counts are not those of its cases")


def _refuse_added(build: Build, source: EventLog) -> None:
    """InputError where a released trace is no part of its row of the table, in that order."""
    released = list(_items(build.log, timed=build.time_basis != "ordinal"))
    whole = list(_items(source, timed=build.time_basis != "ordinal"))
    for (a, b), (c, d) in zip(_bounds(build.log), _bounds(source), strict=True):
        rest = iter(whole[c:d])
        if not all(item in rest for item in released[a:b]):
            raise InputError("a trace in it shows what its cases do not have")


def _items(log: EventLog, *, timed: bool) -> Any:
    times = log.time.tolist() if timed else [0] * log.n_events
    return zip(log.activity.decode(), log.resource.decode(), times, strict=True)


def _bounds(log: EventLog) -> list[tuple[int, int]]:
    return list(zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True))
