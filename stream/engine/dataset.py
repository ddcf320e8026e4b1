"""A release as a partitioned data set: `part-00000.parquet` ..., and `manifest.json` last.

Cases are in the order of their released ids, which are drawn, so that their order does not depend on the source's. The
folder gets its name when everything in it is durable; on an object store, which cannot rename, the release exists
when its manifest does.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from connectors import parquet
from connectors.files import FileOps
from connectors.store.base import MANIFEST, FileEntry, digest, encode_manifest
from models.errors import InputError, RefusedError, VeilstreamError, kind_of
from models.eventlog import MISSING, Column, EventLog, places_of
from models.variants import VariantPlan
from stream.engine.contract import Leaving
from stream.engine.source import is_url, located

ROWS = 4_000_000
"""Most events of a part, which then fits into the memory of a reader. A case is never in two parts."""

MARKER = ".veilstream-upload"
"""Marker next to the parts on an object store while a release is written there."""

_PART = re.compile(r"part-\d{5,}\.parquet")


@dataclass(frozen=True, slots=True)
class ReleasedAttributes:
    """The attributes of the cases that leave.

    `public` by the codes that come with them, over these values; `by_row` by the row of the table, for sensitive ones.
    """

    public: Mapping[str, tuple[Any, ...]]
    by_row: Mapping[str, Column]


def refuse_existing(target: str, source: str | None = None) -> None:
    """Refuse a target that exists: a release is never written over, and nothing of others is ever removed.

    With `source`, InputError also if the release would be inside what is read, or the other way round.
    """
    if source is not None:
        _refuse_overlap(target, source)
    if is_url(target):
        _left_over(*located(target), target)
    elif os.path.lexists(target.removeprefix("file://")):
        raise InputError(f"{target}: exists already; name another folder with -o")


def _left_over(system: Any, root: str, target: str) -> list[str]:
    """Return the files that a killed run of ours left under the prefix, the marker last.

    InputError if anything else is there.
    """
    try:
        system.invalidate_cache()
        names = {*system.find(root), *([root] if system.isfile(root) else [])}
    except OSError as error:
        raise InputError(
            f"{target}: cannot be listed ({type(error).__name__}); check the address and its permissions"
        ) from error
    below = [name for name in names if name.strip("/") != root.strip("/")]
    inside = {name: name.removeprefix(root).strip("/") for name in below}
    if MANIFEST in inside.values():
        raise InputError(f"{target}: there is a release already; name another folder with -o")
    if len(inside) < len(names) and system.isfile(root) and system.size(root):
        raise InputError(f"{target}: exists already; name another folder with -o")
    if not inside:
        return []
    if "/" not in root.strip("/"):
        raise InputError(f"{target}: a whole bucket, and it is not empty; name a folder in it with -o")
    is_ours = all(name == MARKER or _PART.fullmatch(name) for name in inside.values())
    if MARKER not in inside.values() or not is_ours:
        raise InputError(f"{target}: contains files that are not veilstream's; name another folder with -o")
    return sorted(inside, key=lambda name: (inside[name] == MARKER, name))


def _refuse_overlap(target: str, source: str) -> None:
    import fsspec

    (target_system, out), (other, read) = located(target), located(source)
    if type(target_system) is not type(other):
        return
    if isinstance(target_system, fsspec.implementations.local.LocalFileSystem):
        out, read = os.path.realpath(out), os.path.realpath(read)
    out, read = out.strip("/"), read.strip("/")
    fixed = re.split(r"[*?\[]", read)[0]
    if fixed != read:
        written = (f"{out}/{name}" for name in ("part-00000.parquet", MANIFEST))
        within = any(re.fullmatch(_translated(read), name) for name in written)
        fixed = fixed.rpartition("/")[0]
    else:
        within = f"{out}/".startswith(f"{read}/")
    if within or f"{fixed}/".startswith(f"{out}/"):
        raise InputError(f"{target}: overlaps with the input, {source}; name a folder outside of it with -o")


def _translated(pattern: str) -> str:
    from fsspec.utils import glob_translate

    return str(glob_translate(pattern))


MADE_BATCH = 50_000
"""Records that are nobody's case and are written together."""


def made(plan: VariantPlan, ids: Callable[[int], list[str]]) -> Iterator[Leaving]:
    """Return the records of a plan that are nobody's case, under `ids` (so many sorted ones, drawn)."""
    traces = plan.made()
    names = np.asarray(ids(len(traces)))
    order = np.argsort(names)
    rows = np.full(len(traces), MISSING, dtype=np.int64)
    for begin in range(0, len(order), MADE_BATCH):
        part = order[begin : begin + MADE_BATCH]
        yield Leaving(names[part].tolist(), traces[part], rows[part])


def write(
    target: str,
    work: Path,
    plan: VariantPlan,
    leaving: Iterable[Leaving],
    shown: ReleasedAttributes,
    manifest: Callable[[list[FileEntry]], Mapping[str, Any]],
    *,
    privacy: Mapping[str, Any],
    report_cases: Callable[[int], None] = lambda _: None,
    ops: FileOps | None = None,
) -> list[FileEntry]:
    """Write the release to a folder or URL, and return its files.

    After an error, nothing is left that could be mistaken for a release.

    Parameters
    ----------
    target
        Folder or URL of the release.
    work
        Working folder (`stream.engine.work`).
    plan, leaving
        The plan, and the cases that leave by it.
    shown
        Released attributes.
    manifest
        Makes the manifest of the list of files.
    privacy
        Header of each file.
    report_cases
        Called with the number of cases written so far.
    ops
        File operations, for tests of crashes.

    Raises
    ------
    RefusedError
        If another run writes to the same prefix.
    """
    disk, folder = ops or FileOps(), work / "release"
    try:
        folder.mkdir()
        files = _parts(folder, plan, leaving, shown, privacy, report_cases)
        listed = [_durable(path, disk) for path in files]
        (folder / MANIFEST).write_bytes(encode_manifest(manifest(listed)))
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
    plan: VariantPlan,
    leaving: Iterable[Leaving],
    shown: ReleasedAttributes,
    privacy: Mapping[str, Any],
    report_cases: Callable[[int], None],
) -> list[Path]:
    import pyarrow.parquet as pq

    files: list[Path] = []
    writer: Any = None
    rows, cases, last = 0, 0, ""
    try:
        for part in leaving:
            # Ids are random and ascend, so the order of the rows reveals nothing of the order in the source.
            if last and part.ids and part.ids[0] <= last:
                raise VeilstreamError("two cases drew one id, or the engine lost their order; run it again")
            last = part.ids[-1] if part.ids else last
            table = parquet.table(_log(plan, part, shown), privacy)
            # A file ends between two parts, and never inside a case.
            if writer is None or rows >= ROWS:
                if writer is not None:
                    writer.close()
                files.append(folder / f"part-{len(files):05d}.parquet")
                writer, rows = pq.ParquetWriter(files[-1], table.schema, compression="zstd"), 0
            writer.write_table(table)
            rows += table.num_rows
            cases += len(part.ids)
            report_cases(cases)
    finally:
        if writer is not None:
            writer.close()
    if not files:
        # Without a leaving case there is still a file, with the columns of the release.
        nothing = Leaving([], np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        files.append(folder / "part-00000.parquet")
        pq.write_table(parquet.table(_log(plan, nothing, shown), privacy), files[-1], compression="zstd")
    return files


def _log(plan: VariantPlan, part: Leaving, shown: ReleasedAttributes) -> EventLog:
    """Return the cases as a log. Its columns keep all values of the release: every part has the same columns."""
    traces = plan.traces
    starts, events = places_of(traces.starts, part.trace)
    attributes: dict[str, Column] = {}
    for name, values in shown.public.items():
        if name in part.attributes:
            attributes[name] = Column(part.attributes[name], values)
    for name, column in shown.by_row.items():
        attributes[name] = replace(column, codes=column.codes[part.row])
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
    """Upload the files one by one, the manifest last.

    A marker exists there from the start to the end. If it is found at the start, parts without a manifest are those of
    a run that was killed, and are removed first.
    """
    system, root = located(target)
    leftovers, token = _left_over(system, root, target), secrets.token_hex(16).encode()
    system.pipe_file(f"{root}/{MARKER}", token)
    for name in leftovers:
        if not name.endswith(f"/{MARKER}"):
            system.rm_file(name)
    for name in names:
        if name == MANIFEST:
            _refuse_other(system, root, target, token)
        system.put_file(str(folder / name), f"{root}/{name}")
    system.rm_file(f"{root}/{MARKER}")


def _refuse_other(system: Any, root: str, target: str, token: bytes) -> None:
    """Refuse a prefix that another run writes to: it has parts of both runs, and none of them is a release."""
    system.invalidate_cache()
    if system.exists(f"{root}/{MANIFEST}") or system.cat_file(f"{root}/{MARKER}") != token:
        raise RefusedError(f"{target}: another run has written to this; name another folder with -o")
