"""A cut that is built elsewhere: its cases go out as a data set, and what an engine built of them comes in as one file.

`replay --export-cut` ends at the first cut without a decision and writes what the mechanism of its publication would
see (`Handed`); `veilstream plan` builds on that by an engine (`plan_of`); `replay --plan` goes on with it. The cut has
no decision until then, as after a crash: nothing of it stands in the ledger, and the fold shows the same cases again.
What comes in is held against these cases, then audited, gated, written, read back and sealed as any release.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from connectors.files import FileOps
from connectors.reading import Reading
from models.errors import InputError, VeilstreamError, kind_of
from models.variants import VariantTable
from stream.engine.building import counted, write_cases
from stream.engine.contract import Tell, silent
from stream.engine.opening import open_engine
from stream.engine.plan_file import PlanFile
from stream.engine.work import workspace
from stream.ledger.entries import Entry, SealEntry, WithheldEntry
from stream.ledger.folder import json_bytes
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms import mechanism as mechanism_of
from stream.release.planned import (
    BuiltBy,
    Place,
    Planned,
    applied,
    built_on,
    classified,
    refuse_other,
    refuse_unplanned,
    table_of_cut,
)
from stream.release.spec import PublicationSpec

STATE = "_state.json"
"""Hidden from who reads the data set."""

VERSION = 2
"""Of `_state.json` of a cut; version 1 is of a checkpoint, which is no cut (stream.operator.export_state)."""


class OpenCutError(VeilstreamError):
    """The run ends at a cut that is to be built elsewhere: it has no decision, and the next run comes to it again."""

    exit_code = 3


class CutState(msgspec.Struct, frozen=True, kw_only=True):
    """What `_state.json` says of the cases of a cut: which release they are for, and how that is built."""

    version: int
    publication: str
    number: int
    cut: str
    mechanism: Mapping[str, Any]
    sensitive: tuple[str, ...]
    cases: int
    events: int


@dataclass(slots=True)
class Handed:
    """Builds from a plan that was handed in, and hands out the cases of the next cut (implements
    `stream.release.planned.BuiltBy`). `otherwise`: who builds the cuts that neither is about; None: their mechanism."""

    plan: PlanFile | None = None
    target: Path | None = None
    otherwise: BuiltBy | None = None
    _used: bool = False

    def check(self, entries: Iterable[Entry], named: Callable[[str], str]) -> None:
        """InputError where the number of the plan has another content, or its cut was refused."""
        if self.plan is not None:
            self._used = is_sealed(self.plan, entries, named)

    def unused(self) -> str:
        if self.plan is None or self._used:
            return ""
        place = self.plan.place
        return f"--plan was not used: no cut of this run was release {place.number} of {place.publication}"

    def __call__(self, place: Place, mechanism: Mechanism, exposure: Exposure) -> Build:
        """InputError for a plan that is not of this cut, OpenCutError where its cases went out."""
        if self.plan is not None and not self._used and _name(self.plan.place) == _name(place):
            self._used = True  # also where the gate withholds it: the next cut has its number then
            return self._handed_in(self.plan, place, mechanism, exposure)
        if self.target is not None and exposure.log.n_events:
            _hand_out(self.target, place, mechanism, exposure)
            raise OpenCutError(
                f"release {place.number} of {place.publication} is open, and {self.target} holds its cases (raw data): "
                f"veilstream plan {self.target} -o PLAN --engine duckdb, then replay again with --plan PLAN"
            )
        if self.otherwise is not None:
            return self.otherwise(place, mechanism, exposure)
        return mechanism.build(exposure)

    def _handed_in(self, plan: PlanFile, place: Place, mechanism: Mechanism, exposure: Exposure) -> Build:
        where = f"--plan: release {place.number} of {place.publication}"
        try:
            if plan.place.cut != place.cut:
                raise InputError(f"it is of cut {plan.place.cut}, and the open one is {place.cut}")
            if plan.mechanism != mechanism:
                raise InputError("it was built with other parameters than those of the publication")
            table, row = table_of_cut(mechanism, exposure)
            refuse_other(plan.planned, mechanism, table)
            build = applied(plan.planned, exposure, row)
            if broken := mechanism.broken(_record(place, build, exposure), exposure):
                raise InputError(f"it does not keep the promise: {broken[0]}")
        except InputError as error:
            raise InputError(f"{where}: {error}; the cut is still open, hand in one that was built of it") from None
        return build


def _name(place: Place) -> tuple[str, int]:
    return place.publication, place.number


def _record(place: Place, build: Build, exposure: Exposure) -> ReleaseRecord:
    return ReleaseRecord(
        place.number, build.log, build.carries, build.T, exposure.linked, publication=place.publication
    )


def refuse_unplannable(specs: Iterable[PublicationSpec], *, handed: bool) -> None:
    """InputError where a publication's releases cannot be built by an engine. `handed`: what is built comes in as a
    file; not noise, which is drawn once, after its charge, where the charge is."""
    for spec in specs:
        repairs = spec.gate.on_violation == "repair"
        refuse_unplanned(spec.name, spec.mechanism, repairs=repairs, accumulates=spec.accumulation is not None)
        if handed and not spec.mechanism.reads_data_in_gate:
            raise InputError(
                f"publication {spec.name!r}: the noise of {spec.mechanism.kind} is drawn once, after its charge, so no "
                "plan of it is handed in; replay --engine duckdb or spark builds it"
            )


def is_sealed(plan: PlanFile, entries: Iterable[Entry], named: Callable[[str], str]) -> bool:
    """Whether the release of a plan is sealed with its content. InputError where its number has another one, and where
    its cut was refused."""
    for entry in entries:
        if entry.publication != plan.place.publication:
            continue
        if isinstance(entry, SealEntry) and entry.sequence == plan.place.number:
            if entry.body.plan == named(plan.planned.digest):
                return True
            raise InputError(
                f"--plan: release {entry.sequence} of {entry.publication} is already sealed with different content"
            )
        if isinstance(entry, WithheldEntry) and entry.cut == plan.place.cut:
            raise InputError(f"--plan: its cut {entry.cut} was withheld, and is never decided again")
    return False


# out


def _hand_out(target: Path, place: Place, mechanism: Mechanism, exposure: Exposure) -> None:
    """Write the cases of a cut to the new folder `target`, for this user only; it appears at once or not at all."""
    refuse_target(target)
    disk = FileOps()
    state = CutState(
        version=VERSION,
        publication=place.publication,
        number=place.number,
        cut=place.cut,
        mechanism=mechanism.model_dump(mode="json"),
        sensitive=classified(mechanism, exposure),
        cases=exposure.log.n_cases,
        events=exposure.log.n_events,
    )
    with workspace(str(target)) as work:
        try:
            folder = work / "state"
            folder.mkdir(mode=0o700)
            write_cases(exposure, folder, disk)
            (folder / STATE).write_bytes(json_bytes(msgspec.to_builtins(state)))
            disk.fsync(folder / STATE)
            disk.fsync(folder)
            disk.rename_noreplace(folder, target.absolute())
            disk.fsync(target.absolute().parent)
        except FileExistsError:
            raise InputError(f"{target}: exists already; name another folder with --export-cut") from None
        except OSError as error:
            raise kind_of(error)(f"{target}: cannot be written ({error.strerror or type(error).__name__})") from error


def refuse_target(target: Path) -> None:
    """InputError for a folder that exists, or that others read."""
    if os.path.lexists(target):
        raise InputError(f"{target}: exists already; name another folder with --export-cut")
    if "public" in target.absolute().parts[-3:]:
        raise InputError(f"{target}: is what others can read; the cases are raw data, name another folder")


def state_of(folder: Path) -> CutState:
    """What a folder says of the cut whose cases it holds. InputError where it is not of one."""
    path = folder / STATE
    try:
        found: Mapping[str, Any] = msgspec.json.decode(path.read_bytes())
        if found.get("version") == 1:
            raise InputError(f"{folder}: holds a checkpoint, which is no cut; use what replay --export-cut wrote")
        state = msgspec.convert(found, CutState)
    except (OSError, msgspec.MsgspecError, AttributeError):
        raise InputError(f"{folder}: holds no cut; give the folder that replay --export-cut wrote") from None
    if state.version != VERSION:
        raise InputError(f"{path}: version {state.version} is not one that this program reads ({VERSION})")
    return state


# in between


def plan_of(folder: Path, kind: str, memory: str | None, tell: Tell = silent) -> PlanFile:
    """What an engine builds of the cases of a cut. Errors as the mechanism's."""
    state = state_of(folder)
    try:
        mechanism = mechanism_of(state.mechanism)
    except ValueError as error:  # pydantic's
        raise InputError(f"{folder}: its mechanism is not one of this program; use the same version") from error
    with workspace(str(folder.absolute().parent / f"plan-of-{folder.name}")) as work:
        engine = open_engine(kind, folder, Reading(), work, memory)
        try:
            table = counted(engine, mechanism, state.sensitive, tell)
        finally:
            engine.close()
    if (table.n_cases, table.n_events) != (state.cases, state.events):
        raise InputError(f"{folder}: holds other cases than were written to it; export the cut again")
    tell("mechanism")
    place = Place(state.publication, state.number, state.cut)
    return PlanFile(place, mechanism, _planned(state, mechanism, table))


def _planned(state: CutState, mechanism: Mechanism, table: VariantTable) -> Planned:
    whole = np.ones(table.log.n_cases, dtype=np.bool_)
    exposure = Exposure(table.log, whole, state.sensitive, 0, publication=state.publication)
    return built_on(mechanism, exposure, table)
