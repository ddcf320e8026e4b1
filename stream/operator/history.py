"""Read-only view of an output folder: every attempt in the order of the ledger."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import msgspec

from models.errors import InputError
from stream.config.settings import Settings
from stream.ledger.entries import (
    ApprovalEntry,
    BurnedEntry,
    ClaimEntry,
    Entry,
    NoteEntry,
    PublishedEntry,
    SealEntry,
    WithheldEntry,
)
from stream.ledger.folder import ledger_in
from stream.ledger.sqlite import open_readonly
from stream.release.audit_document import AuditPart
from stream.release.contract import WAITS
from stream.release.documents import AuditDocument
from stream.release.reason import only_waits, ruled
from stream.release.verdict import LOG_END, Verdict, verdicts


def entries(output: Path) -> list[Entry]:
    """All ledger entries of an output folder. InputError where it is none of ours."""
    return open_readonly(ledger_in(output))


def refuse_other_configuration(settings: Settings, output: Path) -> None:
    """InputError where a replay of another configuration made the folder: its gate would be another. Asked before the
    folder is opened, which finishes under the configuration given what a crash left."""
    claims = [entry.body.config for entry in entries(output) if isinstance(entry, ClaimEntry)]
    if claims and claims[0] not in (None, settings.digest):
        raise InputError(f"{output}: its replay began with another configuration; give that one with -c")


Status = Literal["withheld", "waiting", "sealed", "published", "burned", "held", "rejected", "superseded"]


class HistoryRow(TypedDict):
    """One attempt: `sequence` 0 where it was withheld, or waits for more cases or behind a held release; `time` and
    `trigger` of its cut; what was released of it, and `kept`, the share of the events exposed so far, where cases are
    counted; `decision` of the gate (with `warned` and `repaired` the reasons say what it found)."""

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
    return read(output).rows


@dataclass(slots=True)
class History:
    """The attempts of an output folder in the order of the ledger, and of each audit what rows and verdicts need: the
    audits of thousands of releases, whole, would not fit in memory."""

    rows: list[HistoryRow]
    audits: dict[tuple[str, int], AuditDocument]
    names: tuple[str, ...] = ()
    """Publications that the ledger names without an attempt of theirs."""

    def verdicts(self, leaving: tuple[str, int] | None = None) -> list[Verdict]:
        """Return what the releases that are out are together, for each publication; as if a held one had been released
        too, if `leaving` names one."""
        names = dict.fromkeys((*(row["publication"] for row in self.rows), *self.names))
        released: dict[str, list[AuditDocument]] = {name: [] for name in names}
        withheld: dict[str, list[list[str]]] = {name: [] for name in names}
        held = Counter[str]()
        ended = set()
        for row in self.rows:
            name = row["publication"]
            if row["status"] in ("published", "sealed") or (name, row["sequence"]) == leaving:
                released[name].append(self.audits[name, row["sequence"]])
            elif row["status"] == "held":
                held[name] += 1
            elif row["status"] != "burned":
                withheld[name].append(row["reasons"])
            if row["trigger"] == LOG_END:
                ended.add(name)
        return verdicts(released, withheld, held, ended)


def read(output: Path) -> History:
    """Every attempt, each audit read once."""
    found = entries(output)
    burned = {(entry.publication, entry.sequence) for entry in found if isinstance(entry, BurnedEntry)}
    published = {(entry.publication, entry.sequence) for entry in found if isinstance(entry, PublishedEntry)}
    claimed = [name for entry in found if isinstance(entry, ClaimEntry) for name in entry.body.publications]
    seen = [entry.publication for entry in found if isinstance(entry, NoteEntry) and entry.body.first_seen is not None]
    known: dict[tuple[str, int], AuditDocument] = {}
    rows = list(_rows(output, found, burned, published, known))
    return History(rows, known, tuple(dict.fromkeys((*claimed, *seen))))


def verdicts_of(output: Path) -> list[Verdict]:
    """What the releases that stand are together, for each publication of an output folder."""
    return read(output).verdicts()


def audit(output: Path, publication: str, sequence: int) -> AuditDocument:
    """audit.json of one release, {} where its number was burned or its files are not here."""
    return _read_audit(output, publication, sequence, Any)


def _read_audit(output: Path, publication: str, sequence: int, kind: Any) -> AuditDocument:
    path = f"{output}/operator/{publication}/{sequence:06d}/audit.json"  # pathlib costs more than the reading
    found: AuditDocument = read_json(path, kind) if os.path.isfile(path) else {}
    return found


def read_json(path: Path | str, kind: Any = Any) -> Any:
    """A document of an output folder, or the keys of it that a TypedDict names. InputError where it is damaged."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a whole JSON document"
        raise InputError(f"{path}: cannot be read ({reason}); restore it from a backup") from None


def _rows(
    output: Path,
    found: list[Entry],
    burned: set[tuple[str, int]],
    published: set[tuple[str, int]],
    known: dict[tuple[str, int], AuditDocument],
) -> Iterator[HistoryRow]:
    rulings = {
        (entry.publication, entry.sequence): entry
        for entry in found
        if isinstance(entry, ApprovalEntry) and entry.body.decision != "refused"
    }
    for entry in found:
        number = (entry.publication, entry.sequence)
        if isinstance(entry, WithheldEntry):
            status: Status = "waiting" if only_waits(entry.body.reasons) else "withheld"
            yield _row(entry, status, cast(AuditDocument, entry.body.audit), entry.body.reasons)
        elif isinstance(entry, SealEntry):
            status = "burned" if number in burned else "published" if number in published else "sealed"
            known[number] = _read_audit(output, *number, AuditPart)
            reasons: list[str] | None = None
            if status == "sealed" and entry.body.held_at is not None:
                status, reasons = _decided(rulings.get(number))
            yield _row(entry, status, known[number], reasons)


def _decided(ruling: ApprovalEntry | None) -> tuple[Status, list[str] | None]:
    """The status of a held release, with the reason why it is not to be seen."""
    if ruling is None:
        return "held", [WAITS]
    body = ruling.body
    if body.decision == "approved":
        return "sealed", None  # and about to be published
    return ("superseded" if body.decision == "superseded" else "rejected"), [ruled(body)]


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
