"""A release as a partitioned data set: `part-00000.parquet` ..., and `manifest.json` last.

Cases stand in the order of their released ids, which are drawn, so that their order says nothing of the source's. The
folder gets its name when everything in it is durable; on an object store, where nothing can be renamed, the release
exists when its manifest does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from connectors import parquet
from connectors.files import FileOps
from connectors.store.base import MANIFEST, FileEntry, digest, encoded
from models.errors import InputError, VeilstreamError, kind_of
from models.eventlog import MISSING, Column, EventLog
from models.variants import Plan
from stream.engine.contract import Leaving
from stream.engine.source import is_url

ROWS = 4_000_000
"""Events of a part: it fits the memory of whoever reads it, and one case is never in two."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The attributes of the cases that leave: `public` by the codes that come with them, over these values; `by_row` by
    the row of the table, for sensitive ones."""

    public: Mapping[str, tuple[Any, ...]]
    by_row: Mapping[str, Column]


def refuse_existing(target: str) -> None:
    """InputError where something has the name already: a release is never written over."""
    if is_url(target):
        import fsspec

        system, root = fsspec.core.url_to_fs(target)
        if system.exists(f"{root}/{MANIFEST}"):
            raise InputError(f"{target}: there is a release already; name another folder with -o")
        return
    if Path(target.removeprefix("file://")).exists():
        raise InputError(f"{target}: exists already; name another folder with -o")


def made(plan: Plan, ids: Callable[[int], list[str]], size: int = 50_000) -> Iterator[Leaving]:
    """The records of a plan that are no one's case, under `ids` (so many sorted ones, drawn)."""
    traces = plan.made()
    names = np.asarray(ids(len(traces)))
    order = np.argsort(names)
    rows = np.full(len(traces), MISSING, dtype=np.int64)
    for begin in range(0, len(order), size):
        part = order[begin : begin + size]
        yield Leaving(names[part].tolist(), traces[part], rows[part])


def write(
    target: str,
    work: Path,
    plan: Plan,
    leaving: Iterable[Leaving],
    shown: Shown,
    manifest: Callable[[list[FileEntry]], Mapping[str, Any]],
    *,
    privacy: Mapping[str, Any],
    tell: Callable[[int], None] = lambda _: None,
    ops: FileOps | None = None,
) -> list[FileEntry]:
    """Write the release; `tell` is called with the cases written so far. What went wrong leaves nothing that anybody
    could take for a release."""
    disk, folder = ops or FileOps(), work / "release"
    try:
        folder.mkdir()
        files = _parts(folder, plan, leaving, shown, privacy, tell)
        listed = [_durable(path, disk) for path in files]
        (folder / MANIFEST).write_bytes(encoded(manifest(listed)))
        disk.fsync(folder / MANIFEST)
        disk.fsync(folder)
        if is_url(target):
            _upload(folder, target, [*(entry["path"] for entry in listed), MANIFEST])
            return listed
        final = Path(target.removeprefix("file://")).absolute()
        folder.chmod(0o755)
        disk.rename_noreplace(folder, final)
        disk.fsync(final.parent)
    except FileExistsError:
        raise InputError(f"{target}: exists already; name another folder with -o") from None
    except OSError as error:
        raise kind_of(error)(f"{target}: cannot be written ({error.strerror or type(error).__name__})") from error
    return listed


def _parts(
    folder: Path,
    plan: Plan,
    leaving: Iterable[Leaving],
    shown: Shown,
    privacy: Mapping[str, Any],
    tell: Callable[[int], None],
) -> list[Path]:
    import pyarrow.parquet as pq

    files: list[Path] = []
    writer: Any = None
    rows, cases, last = 0, 0, ""
    try:
        for part in leaving:
            if last and part.ids and part.ids[0] <= last:
                raise VeilstreamError("two cases drew one id, or the engine lost their order; run it again")
            last = part.ids[-1] if part.ids else last
            table = parquet.table(_log(plan, part, shown), privacy)
            if writer is None or rows >= ROWS:
                if writer is not None:
                    writer.close()
                files.append(folder / f"part-{len(files):05d}.parquet")
                writer, rows = pq.ParquetWriter(files[-1], table.schema, compression="zstd"), 0
            writer.write_table(table)
            rows += table.num_rows
            cases += len(part.ids)
            tell(cases)
    finally:
        if writer is not None:
            writer.close()
    if not files:
        nothing = Leaving([], np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        files.append(folder / "part-00000.parquet")
        pq.write_table(parquet.table(_log(plan, nothing, shown), privacy), files[-1], compression="zstd")
    return files


def _log(plan: Plan, part: Leaving, shown: Shown) -> EventLog:
    """The cases as a log; its columns keep all values of the release, so that every part has the same columns."""
    traces = plan.traces
    lengths = traces.lengths[part.trace]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    events = np.repeat(traces.starts[part.trace] - starts[:-1], lengths) + np.arange(starts[-1])
    attributes = {
        name: Column(part.attributes[name], of) for name, of in shown.public.items() if name in part.attributes
    }
    attributes |= {name: replace(column, codes=column.codes[part.row]) for name, column in shown.by_row.items()}
    return EventLog(
        case_ids=tuple(part.ids),
        starts=starts,
        activity=Column(traces.activity.codes[events], traces.activity.values),
        time=traces.time[events],
        resource=Column(traces.resource.codes[events], traces.resource.values),
        row=np.arange(starts[-1], dtype=np.int64),
        case_attributes=attributes,
    )


def _durable(path: Path, disk: FileOps) -> FileEntry:
    disk.fsync(path)
    return {"path": path.name, "sha256": digest(path), "bytes": path.stat().st_size}


def _upload(folder: Path, target: str, names: list[str]) -> None:
    """The files one by one, the manifest last; what an earlier run left without a manifest goes first."""
    import fsspec

    system, root = fsspec.core.url_to_fs(target)
    for left in system.find(root) if system.exists(root) else []:
        system.rm_file(left)
    for name in names:
        system.put_file(str(folder / name), f"{root}/{name}")
