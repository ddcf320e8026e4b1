"""Releases as increments (`release = "increment"`): files of new cases, and the set that they belong to.

The build of a release is that of a cumulative one. Build, audits, gate, verdict and the operator's files
are those of everything released so far; only the public files hold less. So the claims of a release are
those of the *set*: the log that a recipient gets who puts the files of its releases together.

Why both ways to release give away the same (docs/decisions/102-increments.md): a recipient of cumulative
releases R_1, R_2, ... gets each increment as the difference of two bags of cases, R_i - R_(i-1), and a
recipient of the increments gets each R_i as their sum. Case ids are drawn freshly in both.

A set continues only while the sum of its files is the release that was audited: every case that the set has
shown is in the build, in the same form, and none of them was erased since. Otherwise the release begins a
new set: its files hold everything, and earlier sets are not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from connectors.store.base import MANIFEST, digest, parse_manifest, release_name, release_number
from models.errors import InputError
from models.eventlog import Column, Ints
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build
from stream.release.documents import SetMember
from stream.release.public_files import FILES
from stream.release.stages import Audited, PublicContent, ReleaseInputs

READ_FIRST = tuple(FILES[name] for name in ("parquet", "xes", "csv"))
"""Files of a released log, the fastest to read first."""


def content_of(audited: Audited, formats: Sequence[str]) -> PublicContent:
    """Return what the files of an increment hold: the new cases, or everything if a set begins.

    Parameters
    ----------
    audited
        The candidate, with everything released so far.
    formats
        Formats of its files. The files of a set have the same.
    """
    build, record, inputs = audited.build, audited.record, audited.built.charged.inputs
    previous = inputs.previous
    last = _last_of_set(audited, formats)
    if previous is None or last is None:
        return PublicContent(build, record, {"first": inputs.number, "earlier": []})
    section = inputs.previous_audit["increment"]
    earlier: list[SetMember] = [
        *section["earlier"],
        {"sequence": previous.sequence, "manifest": previous.body.manifest},
    ]
    # `last` shows everything that the set has shown so far, so all other cases are new ones.
    shown = set(last.case_ids)
    is_new = np.asarray([case not in shown for case in record.case_ids], dtype=np.bool_)
    new_cases = np.flatnonzero(is_new)
    return PublicContent(
        _part(build, new_cases, since=previous.sequence),
        record.showing(record.log.select_cases(new_cases)),
        {"first": section["first"], "earlier": earlier},
    )


def _last_of_set(audited: Audited, formats: Sequence[str]) -> ReleaseRecord | None:
    """Return the last release of the set that the candidate continues; None if it begins a set."""
    build, inputs = audited.build, audited.built.charged.inputs
    previous, audit = inputs.previous, inputs.previous_audit
    if previous is None or "increment" not in audit:
        return None

    numbers = {member["sequence"] for member in audit["increment"]["earlier"]}
    numbers.add(previous.sequence)
    # Recipients put the files of a set together: a set that went on would still contain the erased case.
    shows_erased_case = not numbers.isdisjoint(inputs.erased_releases)
    if shows_erased_case:
        return None

    files_of_set = {entry["path"] for entry in audit["files"]}
    has_same_files = files_of_set == {FILES[name] for name in formats}
    has_same_columns = audit["carries"] == [*build.carries, *build.attributes]
    has_same_times = audit["time_basis"] == build.time_basis
    if not (has_same_files and has_same_columns and has_same_times):
        return None

    last = _record_of(inputs, audited.record.publication, previous.sequence)
    if not _is_unchanged(last, audited.record):
        return None
    return last


def _record_of(inputs: ReleaseInputs, publication: str, number: int) -> ReleaseRecord:
    """Return an earlier release as audits see it: everything that its set had shown by then."""
    return next(record for record in reversed(inputs.earlier) if record.key == (publication, number))


def _is_unchanged(last: ReleaseRecord, candidate: ReleaseRecord) -> bool:
    """Return whether the candidate has all cases of the last release, each as it was."""
    if last.sensitive != candidate.sensitive:
        return False
    place_of_case = {case: place for place, case in enumerate(candidate.case_ids)}
    if not all(case in place_of_case for case in last.case_ids):
        return False

    # The cases of the last release in its order, as they are in the candidate.
    places = np.asarray([place_of_case[case] for case in last.case_ids], dtype=np.int64)
    before, now = last.log, candidate.log.select_cases(places)
    if not np.array_equal(before.starts, now.starts):
        return False
    if not np.array_equal(before.time, now.time):
        return False

    columns = [(before.activity, now.activity), (before.resource, now.resource)]
    columns.extend((before.case_values(name), now.case_values(name)) for name in last.sensitive)
    return all(_as_stored(old) == _as_stored(new) for old, new in columns)


def _as_stored(column: Column) -> bytes:
    """Return values as the operator's file has them: a release of this process and a read one then compare."""
    return msgspec.json.encode(column.decode())


def _part(build: Build, cases: Ints, since: int) -> Build:
    """Return a build with some of its cases."""
    return replace(
        build,
        log=build.log.select_cases(cases),
        origin=build.origin[cases],
        attributes={name: column.take(cases) for name, column in build.attributes.items()},
        cohort=None if build.cohort is None else build.cohort[cases],
        since=since,
    )


# Readers: the files that make up the log of a release.


def numbers_of(manifest: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the releases whose files make up the log of a release, its own last."""
    earlier = manifest.get("increment", {}).get("earlier", ())
    return [*(member["sequence"] for member in earlier), manifest["sequence"]]


def log_files(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    """Return the files that make up the log of a release in a local folder, after a check of their digests.

    Parameters
    ----------
    folder
        Folder of the release. The other releases of its set are next to it.
    manifest
        Its manifest.

    Returns
    -------
    list of Path
        One file for each release of the set, oldest first.

    Raises
    ------
    InputError
        If a release of the set is missing or not the one that the manifest names, or a file is not that of
        its manifest.
    """
    files = []
    for member in manifest.get("increment", {}).get("earlier", ()):
        other = folder.parent / release_name(member["sequence"])
        manifest_file = other / MANIFEST
        if not manifest_file.is_file():
            raise InputError(
                f"{folder}: release {member['sequence']} of its set is not next to it; "
                f"get {other.name} too, since each release of a set holds other cases"
            )
        if digest(manifest_file) != member["manifest"]:
            raise InputError(f"{manifest_file}: not the manifest that {folder.name} names; get the release again")
        files.append(_log_file(other, parse_manifest(manifest_file.read_bytes(), str(manifest_file))))
    files.append(_log_file(folder, manifest))
    return files


def _log_file(folder: Path, manifest: Mapping[str, Any]) -> Path:
    """Return the file of a release's log. InputError without one, or if its bytes are not those of the manifest."""
    sums = {entry["path"]: entry["sha256"] for entry in manifest["files"]}
    name = next((name for name in READ_FIRST if name in sums), None)
    if name is None:
        raise InputError(f"{folder}: the release holds no log ({', '.join(sums) or 'no file'})")
    path = folder / name
    if not path.is_file() or digest(path) != sums[name]:
        raise InputError(f"{path}: missing, or not the file that its manifest names; get the release again")
    return path


def release_folders(folder: Path) -> list[Path]:
    """Return the folders of the releases of a publication, by number.

    Raises
    ------
    InputError
        If there is none.
    """
    folder_of_number = {}
    if folder.is_dir():
        for path in folder.iterdir():
            number = release_number(path.name)
            if number is not None and (path / MANIFEST).is_file():
                folder_of_number[number] = path
    if not folder_of_number:
        raise InputError(f"{folder}: no release; give the folder of a publication (public/PUBLICATION)")
    return [folder_of_number[number] for number in sorted(folder_of_number)]
