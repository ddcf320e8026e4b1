"""What of a cut goes into audit.json and into the ledger, and how a release's files are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from connectors import write_log
from connectors.files import Writer
from models.errors import UnreadableError, shortage
from models.eventlog import EventLog
from stream.ledger.entries import CutSection
from stream.release.contract import Attempt, Build, Mechanism
from stream.release.documents import AuditDocument, Resources
from stream.release.manifest import reading_notes
from stream.release.public_view import public_parameters, shuffled

FILES = {"xes": "log.xes.gz", "csv": "log.csv.gz", "parquet": "log.parquet"}


def cut_section(attempt: Attempt) -> CutSection:
    """Where the cut stands and what made it."""
    return {
        "cut": {"id": attempt.cut, "vector": dict(attempt.vector), "time": iso(attempt.time_ns)},
        "trigger": attempt.trigger,
        "certain": attempt.certain,
    }


SHARED = (
    "this series began when resource pseudonyms depended on the key alone, and keeps them: another process under the "
    "same key names the same persons alike; a publication of a new name gets pseudonyms of this process"
)


def resources(form: str, *, raw: bool, roles: Sequence[str] | None = None) -> Resources:
    """How the release names resources: `raw`, by `roles`, or pseudonyms by `process` and key, or by `key` alone."""
    if roles is not None:
        return {"named_by": "roles", "note": "", "roles": list(roles)}
    named = "raw" if raw else form
    return {"named_by": named, "note": SHARED if named == "key" else ""}


def accounting(attempt: Attempt, build: Build, mechanism: Mechanism) -> dict[str, int | None]:
    """seen = released + suppressed_events + pending + late, for mechanisms that only remove.

    What the mechanism itself keeps back is pending, and stands apart as `held`, `held_cases`.
    A dp release holds records of its own: released and suppressed are None there.
    """
    exposed = attempt.exposure.log
    removes = mechanism.reads_data_in_gate and build.n_actual is not None
    events, cases = (build.log.n_events, build.log.n_cases) if removes else (None, None)
    held_cases, held = build.held
    counts: dict[str, int | None] = dict(attempt.counts)
    if held:
        counts.update(pending=attempt.counts.get("pending", 0) + held, held=held, held_cases=held_cases)
    return {
        **counts,
        "exposed": exposed.n_events,
        "released": events,
        "released_cases": cases,
        "suppressed_events": None if events is None else exposed.n_events - events - held,
        "suppressed_cases": None if cases is None else exposed.n_cases - cases - held_cases,
    }


def writers(formats: Sequence[str], released: EventLog, build: Build, mechanism: Mechanism) -> dict[str, Writer]:
    """A writer for each file of the release, by file name."""
    privacy = {
        "mechanism": mechanism.kind,
        "parameters": public_parameters(mechanism, tuple(build.attributes)),
        "time_basis": build.time_basis,
        "reading": reading_notes(build),
    }

    def write(path: Path) -> None:
        write_log(released, path, privacy=privacy, time_basis=build.time_basis)

    return {FILES[name]: write for name in formats}


def accumulated_writers(formats: Sequence[str], build: Build, mechanism: Mechanism) -> dict[str, Writer]:
    """A writer for each file of the log over everything published so far, by file name; none where there is none."""
    if build.accumulated is None:
        return {}
    whole = replace(build, log=build.accumulated, time_basis="ordinal", attributes={})
    shown, _ = shuffled(whole)
    return {beside(name): writer for name, writer in writers(formats, shown, whole, mechanism).items()}


def beside(name: str) -> str:
    """Name of the accumulated log's file: `log.xes.gz` is the release, `accumulated.xes.gz` everything so far."""
    return name.replace("log.", "accumulated.", 1)


class AuditPart(TypedDict, total=False):
    """Of audit.json what rows and verdicts read, as it stands there; the rest is skipped where it is decoded."""

    sequence: Any
    cut: Any
    trigger: Any
    counts: Any
    gate: Any
    audience: Any
    budget: Any
    bounds: Any
    anonymity: Any
    mechanism: Any
    minimality: Any
    cohorts: Any
    loss: Any


def read(path: Path, kind: Any = Any) -> Any:
    """A document of a sealed release on the operator's side, or the keys of it that a TypedDict names; UnreadableError
    where it is gone or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise shortage(error) or _unreadable(path) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> UnreadableError:
    return UnreadableError(f"{path}: cannot be read; restore it from a backup")


def read_audit(folder: Path, kind: Any = Any) -> AuditDocument:
    """audit.json of a sealed release, or the keys of it that a TypedDict names."""
    document: AuditDocument = read(folder / "audit.json", kind)
    return document


def read_memory(folder: Path) -> Any:
    """The mechanism's own memory of a sealed release."""
    return read(folder / "memory.json")


def iso(time_ns: int) -> str:
    """A moment as text: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(time_ns / 1_000_000_000, UTC).isoformat(timespec="milliseconds")


KEPT_WHOLE = 100
"""So many of the last releases keep the leakage of the whole series in their audits; of an older one only its own row
is left. Each release lists all before it: ten thousand would have a gigabyte of them, and the last says it all."""


def thinned(audit: AuditDocument) -> AuditDocument | None:
    """An audit without what later ones say again; None where nothing of it is said again."""
    leakage = audit.get("leakage") or {}
    shorter = {
        name: rows[-1:]
        for name in ("epsilon", "releases")
        if isinstance(rows := leakage.get(name), list) and len(rows) > 1
    }
    if not shorter and "state" not in leakage:
        return None
    rest = {name: value for name, value in leakage.items() if name != "state"}
    return cast(AuditDocument, {**audit, "leakage": {**rest, **shorter, "series": "in later releases"}})
