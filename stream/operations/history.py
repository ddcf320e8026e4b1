"""Read-only view of an output folder: every attempt in the order of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import msgspec

from models.errors import InputError
from stream.release.documents import AuditDocument
from stream.release.verdict import Verdict, verdicts
from stream.storage.entries import BurnedEntry, Entry, PublishedEntry, SealEntry, WithheldEntry
from stream.storage.folder import ledger_in
from stream.storage.ledger import open_readonly


def entries(output: Path) -> list[Entry]:
    """All ledger entries of an output folder. InputError where it is none of ours."""
    return open_readonly(ledger_in(output))


Status = Literal["withheld", "sealed", "published", "burned"]


class HistoryRow(TypedDict):
    """One attempt: `sequence` 0 where it was withheld; `time` and `trigger` of its cut; what was released of it, and
    `kept`, the share of the events exposed so far, where cases are counted; `decision` of the gate (with `warned` and
    `repaired` the reasons say what it found)."""

    publication: str
    sequence: int
    status: Status
    cut: str
    time: str
    trigger: str
    cases: int | None
    events: int | None
    kept: float | None
    decision: str | None
    reasons: list[str]


def history(output: Path) -> list[HistoryRow]:
    """One row an attempt: publication, sequence, status, cut, time, trigger, released cases and events, reasons."""
    found = entries(output)
    burned = {(entry.publication, entry.sequence) for entry in found if isinstance(entry, BurnedEntry)}
    published = {(entry.publication, entry.sequence) for entry in found if isinstance(entry, PublishedEntry)}
    return list(_rows(output, found, burned, published))


def verdicts_of(output: Path) -> list[Verdict]:
    """What the releases that stand are together, for each publication of an output folder."""
    rows = history(output)
    names = dict.fromkeys(row["publication"] for row in rows)
    standing = [row for row in rows if row["status"] in ("published", "sealed")]
    released = {
        name: [audit(output, name, r["sequence"]) for r in standing if r["publication"] == name] for name in names
    }
    withheld = {
        name: [r["reasons"] for r in rows if r["publication"] == name and r["status"] == "withheld"] for name in names
    }
    return verdicts(released, withheld)


def audit(output: Path, publication: str, sequence: int) -> AuditDocument:
    """audit.json of one release, {} where its number was burned or its files are not here."""
    path = output / "operator" / publication / f"{sequence:06d}" / "audit.json"
    found: AuditDocument = read_json(path) if path.is_file() else {}
    return found


def read_json(path: Path) -> Any:
    """A document of an output folder. InputError where it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a whole JSON document"
        raise InputError(f"{path}: cannot be read ({reason}); restore it from a backup") from None


def _rows(
    output: Path, found: list[Entry], burned: set[tuple[str, int]], published: set[tuple[str, int]]
) -> Iterator[HistoryRow]:
    for entry in found:
        number = (entry.publication, entry.sequence)
        if isinstance(entry, WithheldEntry):
            yield _row(entry, "withheld", cast(AuditDocument, entry.body.audit), entry.body.reasons)
        elif isinstance(entry, SealEntry):
            status: Status = "burned" if number in burned else "published" if number in published else "sealed"
            yield _row(entry, status, audit(output, *number))


def _row(entry: Entry, status: Status, shown: AuditDocument, reasons: list[str] | None = None) -> HistoryRow:
    counts, lost = shown.get("counts", {}), shown.get("loss") or {}
    counted = counts.get("released") is not None and lost.get("status") == "ok"
    return {
        "publication": entry.publication,
        "sequence": entry.sequence,
        "status": status,
        "cut": entry.cut,
        "time": shown.get("cut", {}).get("time", ""),
        "trigger": shown.get("trigger", ""),
        "cases": counts.get("released_cases"),
        "events": counts.get("released"),
        "kept": lost.get("kept") if counted else None,
        "decision": shown.get("gate", {}).get("decision"),
        "reasons": reasons or shown.get("gate", {}).get("reasons", []),
    }
