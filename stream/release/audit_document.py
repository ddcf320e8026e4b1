"""The operator's audit of a release: what `audit.json` states of its cut, how it is read, and how it is shortened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from models.errors import UnreadableError, shortage
from stream.ledger.entries import CutSection
from stream.ledger.layout import AUDIT, MEMORY
from stream.release.contract import Attempt, Build, Mechanism
from stream.release.documents import AuditDocument, Resources
from stream.release.reason import Reason
from stream.release.spec import PublicationSpec
from stream.release.stages import Audited, GateDecision, Judged


def measured(audited: Audited, bounds: Mapping[str, float], seconds: Mapping[str, float]) -> AuditDocument:
    """Return what was measured of a candidate, how long each stage took, and the bounds that it was held against.

    Parameters
    ----------
    audited
        Results of the audits.
    bounds
        Bounds of the gate.
    seconds
        Seconds of each stage, by the clock: on a loaded host more than the CPU time.
    """
    return {**audited.measures, "seconds": dict(seconds), "bounds": dict(bounds)}


def full_audit(
    judged: Judged,
    decision: GateDecision,
    reasons: Sequence[Reason],
    seconds: Mapping[str, float],
    spec: PublicationSpec,
) -> AuditDocument:
    """Return the sections of audit.json that the manifest lacks: measures, decision, cut, counts, resources.

    Parameters
    ----------
    judged
        The candidate.
    decision, reasons
        Decision on it. Files that break the promise change that of the gate.
    seconds
        How long each stage took so far.
    spec
        Configuration of the publication.
    """
    audited = judged.audited
    attempt, inputs = audited.built.attempt, audited.built.charged.inputs
    body = {
        **measured(audited, spec.gate.bounds, seconds),
        "gate": {"decision": decision, "reasons": [reason.text for reason in reasons]},
        "on_violation": spec.gate.on_violation,
        "resources": resources(inputs.resource_form, raw=spec.raw_resources, roles=attempt.exposure.roles),
        **cut_section(attempt),
        "counts": accounting(attempt, audited.build, spec.mechanism),
    }
    return cast(AuditDocument, body)


def cut_section(attempt: Attempt) -> CutSection:
    """Return the position of the cut, and what triggered it."""
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
    """Return how the release names resources.

    Raw, by `roles`, or pseudonyms: by process and key, or by the key alone (`form`).

    Parameters
    ----------
    form
        How the series began to name its resources.
    raw
        Whether resources keep their names.
    roles
        Names of the roles, if resources are released as roles.
    """
    if roles is not None:
        return {"named_by": "roles", "note": "", "roles": list(roles)}
    named = "raw" if raw else form
    return {"named_by": named, "note": SHARED if named == "key" else ""}


def accounting(attempt: Attempt, build: Build, mechanism: Mechanism) -> dict[str, int | None]:
    """Count the seen events by what happened to them.

    seen = released + suppressed_events + pending + late, for mechanisms that only remove. Events that the mechanism
    itself keeps back are pending, and are also counted as `held` and `held_cases`. Released and suppressed are None
    for a dp release, whose records are not those of the source.
    """
    exposed = attempt.exposure.log
    removes = mechanism.reads_data_in_gate and build.n_actual is not None
    events, cases = (build.log.n_events, build.log.n_cases) if removes else (None, None)
    held_cases, held_events = build.held
    counts: dict[str, int | None] = dict(attempt.counts)
    if held_events:
        pending = attempt.counts.get("pending", 0) + held_events
        counts.update(pending=pending, held=held_events, held_cases=held_cases)
    return {
        **counts,
        "exposed": exposed.n_events,
        "released": events,
        "released_cases": cases,
        "suppressed_events": None if events is None else exposed.n_events - events - held_events,
        "suppressed_cases": None if cases is None else exposed.n_cases - cases - held_cases,
    }


class AuditPart(TypedDict, total=False):
    """Keys of audit.json that rows and verdicts read; the others are skipped while decoding."""

    sequence: Any
    cut: Any
    trigger: Any
    counts: Any
    gate: Any
    audience: Any
    cases: Any
    config_digest: Any
    budget: Any
    carries: Any
    content: Any
    dp: Any
    bounds: Any
    bounded: Any
    doubts: Any
    anonymity: Any
    mechanism: Any
    resources: Any
    minimality: Any
    cohorts: Any
    loss: Any
    looser: Any
    late_lost: Any
    on_violation: Any


def read(path: Path, kind: Any = Any) -> Any:
    """Read a document of a sealed release on the operator's side.

    Parameters
    ----------
    path
        The document.
    kind
        A TypedDict that names the keys to read; all if not given.

    Raises
    ------
    UnreadableError
        If it is gone or damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise shortage(error) or _unreadable(path) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> UnreadableError:
    return UnreadableError(f"{path}: cannot be read; restore it from a backup")


def read_audit(folder: Path, kind: Any = Any) -> AuditDocument:
    """Read audit.json of a sealed release, or the keys of it that a TypedDict names."""
    document: AuditDocument = read(folder / AUDIT, kind)
    return document


def read_memory(folder: Path) -> Any:
    """Read the state that the mechanism left with a sealed release."""
    return read(folder / MEMORY)


def iso(time_ns: int) -> str:
    """Return a moment as text: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(time_ns / 1_000_000_000, UTC).isoformat(timespec="milliseconds")


KEPT_WHOLE = 100
"""So many of the last releases keep the leakage of the whole series in their audits; of an older one only its own row
is left. Each release lists all before it: ten thousand would have a gigabyte of them, and the last says it all."""


def thinned(audit: AuditDocument) -> AuditDocument | None:
    """Return an audit without the parts that later ones repeat; None if there are none."""
    leakage = audit.get("leakage") or {}
    shorter = {}
    for name in ("epsilon", "releases"):
        rows = leakage.get(name)
        if isinstance(rows, list) and len(rows) > 1:
            shorter[name] = rows[-1:]
    if not shorter and "state" not in leakage:
        return None
    without_state = {name: value for name, value in leakage.items() if name != "state"}
    return cast(AuditDocument, {**audit, "leakage": {**without_state, **shorter, "series": "in later releases"}})
