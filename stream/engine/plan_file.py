"""A plan as one Parquet file: a line for each row of the table of variants that leaves, and what the build says.

The file holds variants of the source as they would leave: it is as secret as an audit. Its digest is made of what was
read, never taken from the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from connectors.files import FileOps
from connectors.output import replacing
from models.errors import InputError
from models.eventlog import Column, EventLog
from stream.release.contract import Build, Mechanism
from stream.release.mechanisms import mechanism as mechanism_of
from stream.release.planned import Described, Place, Planned, described

VERSION = 1

KEY = b"veilstream.plan"
"""Of the metadata that says which release the plan is of."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan, the release that it is for, and the mechanism that made it."""

    place: Place
    mechanism: Mechanism
    planned: Planned


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    publication: str
    number: int
    cut: str
    mechanism: Mapping[str, Any]
    table: str
    build: Described


def write(path: Path, plan: PlanFile) -> None:
    """The file, for this user only; it appears whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    build = plan.planned.build
    log = build.log
    told = _Told(
        version=VERSION,
        publication=plan.place.publication,
        number=plan.place.number,
        cut=plan.place.cut,
        mechanism=plan.mechanism.model_dump(mode="json"),
        table=plan.planned.table,
        build=described(build),
    )
    starts = pa.array(log.starts.astype(np.int32))
    columns = {
        "row": pa.array(build.origin, pa.int64()),
        "activity": pa.ListArray.from_arrays(starts, pa.array(log.activity.decode(), pa.string())),
        "resource": pa.ListArray.from_arrays(starts, pa.array(log.resource.decode(), pa.string())),
        "time": pa.ListArray.from_arrays(starts, pa.array(log.time, pa.int64())),
    }
    table = pa.table(columns).replace_schema_metadata({KEY: msgspec.json.encode(told)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
        temporary.chmod(0o600)
        FileOps().fsync(temporary)


def read(path: Path) -> PlanFile:
    """The plan of a file. InputError where it is none, or is of another version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=["row", "activity", "resource", "time"]).combine_chunks()
        told = msgspec.json.decode(table.schema.metadata[KEY], type=_Told)
        if told.version != VERSION:
            raise InputError(f"{path}: plan version {told.version} is not one that this program reads ({VERSION})")
        lists = {
            name: (_offsets(table[name]), table[name].combine_chunks().flatten()) for name in table.column_names[1:]
        }
        if len({offsets.tobytes() for offsets, _ in lists.values()}) != 1:
            raise ValueError("lists of different lengths")
        rows = table["row"].to_numpy()
        mechanism = mechanism_of(told.mechanism)
    except (pa.ArrowException, msgspec.MsgspecError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a readable plan; make it again with veilstream plan") from error
    starts, activity = lists["activity"]
    log = EventLog(
        case_ids=tuple(map(str, range(len(rows)))),
        starts=starts,
        activity=Column.encode(activity.to_pylist()),
        time=lists["time"][1].to_numpy().astype(np.int64),
        resource=Column.encode(lists["resource"][1].to_pylist()),
        row=np.arange(int(starts[-1]), dtype=np.int64),
    )
    build = Build(log=log, origin=rows.astype(np.int64), **msgspec.structs.asdict(told.build))
    place = Place(told.publication, told.number, told.cut)
    return PlanFile(place, mechanism, Planned(told.table, build))


def _offsets(column: Any) -> Any:
    lengths: Sequence[Any] = column.combine_chunks().value_lengths().to_numpy()
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
