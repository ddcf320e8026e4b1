"""Read-only view of an output folder: every attempt in the order of the ledger."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

import msgspec

from connectors.store.base import PUBLIC, release_number
from models.errors import InputError, RefusedError
from stream.ledger.entries import SealEntry, WithheldEntry
from stream.ledger.folder import ledger_in
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import owner_of, read_view
from stream.ledger.view import LedgerView, ReleaseKey, ReleaseState
from stream.release.audit_document import AuditPart
from stream.release.contract import WAITS
from stream.release.documents import AuditDocument
from stream.release.looser import discontinued, last_seal, looser_terms
from stream.release.reason import only_waits, ruled
from stream.release.verdict import LOG_END, Verdict, verdicts
from stream.values.amounts import number_of

if TYPE_CHECKING:
    from stream.config.settings import Settings


def ledger_view(output: Path) -> LedgerView:
    """Return the facts in the ledger of an output folder, read without a lock.

    Raises
    ------
    InputError
        If the folder has no ledger.
    """
    return read_view(ledger_in(output))


def current_ledger_view(output: Path) -> LedgerView:
    """Return the facts in the ledger of a folder, unless its public files are newer.

    They are after a restore of the operator's files alone. A page made of both would state fewer releases,
    and less spent of the budget, than everybody can see.

    Raises
    ------
    InputError
        If the folder has no ledger.
    RefusedError
        If a publication of the ledger has a public release that no seal names.
    """
    # A release is sealed before it becomes public: in this order a daemon may go on meanwhile.
    public = {path: release_number(path.name) for path in output.joinpath(PUBLIC).glob("*/*")}
    view = ledger_view(output)
    claimed = () if view.claim is None else view.claim.publications
    # A ledger from before the first release of a publication names it too.
    known_publications = {*claimed, *view.accounts}
    for path, number in sorted(public.items()):
        name = path.parent.name
        if number is not None and name in known_publications and (name, number) not in view.seals:
            raise RefusedError(
                f"{output}: release {number} of {name} is public, but the ledger does not know it: the "
                "ledger is older than the releases; restore the newer ledger (veilstream verify lists all "
                "that it does not know)"
            )
    return view


def refuse_other_configuration(settings: Settings, output: Path) -> None:
    """Refuse a folder that a replay of another configuration made, since its gate would be another.

    Called before the folder is opened, which finishes under the given configuration what a crash left.

    Raises
    ------
    InputError
        If the digest of the configuration is not the one that the ledger states.
    """
    claim = ledger_view(output).claim
    if claim is not None and claim.config not in (None, settings.digest):
        raise InputError(f"{output}: its replay began with another configuration; give that one with -c")


def refuse_other_process(settings: Settings, folder: Path) -> None:
    """Refuse a folder that does not belong to the configuration's process.

    A decision would concern its releases, and another daemon would carry it out. A folder without a ledger is of none.
    """
    if not OperatorLayout(folder).ledger.is_file():
        return
    owner, name = owner_of(ledger_in(folder)), settings.process.name
    if owner != name:
        raise InputError(
            f"{folder}: belongs to process {owner!r}, and the configuration is of {name!r}; give the two that belong "
            "together"
        )


def looser_than_released(settings: Settings, output: Path) -> list[str]:
    """Return warnings about terms of a configuration that differ from those of the last releases.

    They name looser terms, and terms that a series cannot change.

    Raises
    ------
    InputError
        If the folder has no ledger, or is of another process.
    """
    refuse_other_process(settings, output)
    view = ledger_view(output)
    warnings = []
    for publication in settings.publication:
        seal = last_seal(view.account(publication.name))
        if seal is None:
            continue
        earlier = _read_audit(output, publication.name, seal.sequence, AuditPart)
        spec = settings.spec(publication)
        reason = discontinued(spec, earlier)
        if reason is not None:
            warnings.append(f"{publication.name}: {reason}")
        terms = looser_terms(spec, seal, earlier)
        if terms:
            warnings.append(f"{publication.name}: looser than its last release: {'; '.join(terms)}")
    return warnings


Status = Literal["withheld", "waiting"] | ReleaseState

LOOSER = "looser than before:"
"""Begins a reason of a release that states a term which protects less than at the release before it."""


class HistoryRow(TypedDict):
    """One attempt.

    Attributes
    ----------
    sequence
        0 if it was withheld, or waits for more cases or behind a held release.
    time, trigger
        Of its cut.
    kept
        Share of the events exposed so far, if cases are counted.
    decision
        Decision of the gate (with `warned` and `repaired` the reasons state its findings).
    late
        Accepted events up to the cut that came too late for any release: after their window or their case.
    """

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
    late: int | None


def history(output: Path) -> list[HistoryRow]:
    """Return a row for each attempt of an output folder, in the order of the ledger."""
    return read(output).rows


@dataclass(slots=True)
class History:
    """The attempts of an output folder in the order of the ledger.

    Of each audit only what rows and verdicts need is kept: the audits of thousands of releases, whole, would not fit in
    memory.
    """

    rows: list[HistoryRow]
    audits: dict[tuple[str, int], AuditDocument]
    names: tuple[str, ...] = ()
    """Publications that the ledger names without an attempt of theirs."""

    def verdicts(self, leaving: Collection[ReleaseKey] = ()) -> list[Verdict]:
        """Return the verdict on the published releases together, for each publication.

        The held releases that `leaving` names count as published.
        """
        names = dict.fromkeys((*(row["publication"] for row in self.rows), *self.names))
        released: dict[str, list[AuditDocument]] = {name: [] for name in names}
        withheld: dict[str, list[list[str]]] = {name: [] for name in names}
        n_held = Counter[str]()
        ended = set()
        for row in self.rows:
            name = row["publication"]
            if row["status"] in ("published", "sealed") or (name, row["sequence"]) in leaving:
                released[name].append(self.audits[name, row["sequence"]])
            elif row["status"] == "held":
                n_held[name] += 1
            elif row["status"] != "burned":
                withheld[name].append(row["reasons"])
            if row["trigger"] == LOG_END:
                ended.add(name)
        return verdicts(released, withheld, n_held, ended)


def read(output: Path) -> History:
    """Read every attempt, and each audit once."""
    return read_from(output, ledger_view(output))


def read_from(output: Path, view: LedgerView) -> History:
    """Return every attempt of a ledger that is read already; each audit is read once."""
    audits: dict[ReleaseKey, AuditDocument] = {}
    rows = [_attempt_row(output, view, entry, audits) for entry in view.attempts]
    claimed = () if view.claim is None else view.claim.publications
    return History(rows, audits, tuple(dict.fromkeys((*claimed, *view.first_seen))))


def verdicts_of(output: Path) -> list[Verdict]:
    """Return the verdict on the published releases together, for each publication of an output folder."""
    return read(output).verdicts()


def audit(output: Path, publication: str, sequence: int) -> AuditDocument:
    """Return audit.json of one release, {} if its number was burned or its files are not here."""
    return _read_audit(output, publication, sequence, Any)


def _read_audit(output: Path, publication: str, sequence: int, kind: Any) -> AuditDocument:
    path = OperatorLayout(output).audit(publication, sequence)
    audit: AuditDocument = read_json(path, kind) if os.path.isfile(path) else {}
    return audit


def attacks_sentence(output: Path, publication: str, sequence: int) -> str:
    """Return what attacks on held-out cases saw before a release, in words; empty if none were run."""
    path = OperatorLayout(output).attacks_before(publication, sequence)
    if not path.is_file():
        return ""
    document = read_json(path)
    if "reason" in document:
        return f"Not run: {document['reason']}."
    seen: dict[str, None] = {}
    for assessment in document["assessments"]:
        for profile in assessment["profiles"]:
            names = [
                f"{measure['attack']} ({measure['how']})" for measure in profile["measures"] if measure.get("seen")
            ]
            seen.update(dict.fromkeys(names))
    place_of_figures = f"The figures are in operator/{publication}/{path.parent.name}/{path.name}."
    if seen:
        return f"A leak was seen by {', '.join(seen)}. {place_of_figures}"
    return f"No attack saw a leak. This shows no more than what each of them would have seen. {place_of_figures}"


def read_json(path: Path | str, kind: Any = Any) -> Any:
    """Read a JSON document of an output folder.

    Parameters
    ----------
    path
        The file.
    kind
        A TypedDict whose keys alone are read; every key by default.

    Raises
    ------
    InputError
        If the file cannot be read, or is damaged.
    """
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a whole JSON document"
        raise InputError(f"{path}: cannot be read ({reason}); restore it from a backup") from None


def _attempt_row(
    output: Path, view: LedgerView, entry: SealEntry | WithheldEntry, audits: dict[ReleaseKey, AuditDocument]
) -> HistoryRow:
    """Return the row of an attempt, and add the audit of a sealed one to `audits`."""
    if isinstance(entry, WithheldEntry):
        result: Status = "waiting" if only_waits(entry.body.reasons) else "withheld"
        return _row(entry, result, cast(AuditDocument, entry.body.audit), entry.body.reasons)
    key = (entry.publication, entry.sequence)
    audits[key] = _read_audit(output, *key, AuditPart)
    status = view.state(*key)
    reasons: list[str] | None = None  # those of the gate
    if status == "held":
        reasons = [WAITS]
    elif status in ("rejected", "superseded"):
        reasons = [ruled(view.account(entry.publication).rulings[entry.sequence].body)]
    return _row(entry, status, audits[key], reasons)


def _row(
    entry: SealEntry | WithheldEntry, status: Status, shown: AuditDocument, reasons: list[str] | None = None
) -> HistoryRow:
    counts, lost = shown.get("counts", {}), shown.get("loss") or {}
    counted = counts.get("released") is not None and lost.get("status") == "ok"
    reasons = reasons or shown.get("gate", {}).get("reasons", [])
    looser = [f"{LOOSER} {term}" for term in shown.get("looser") or ()]
    # Doubts hold for most releases of a series alike: they are listed only where a person has to decide.
    doubts = shown.get("doubts") or () if status == "held" else ()
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
        "reasons": [*reasons, *looser, *doubts],
        "late": _late(shown),
    }


def _late(shown: AuditDocument) -> int | None:
    """Return the events that the fold left out, and those that came to cases of published cohorts."""
    late = shown.get("counts", {}).get("late")
    return None if late is None else late + (shown.get("late_lost") or 0)


def late_events(rows: Sequence[HistoryRow]) -> int:
    """Return how many events of a publication came too late for any release, up to its last attempt.

    Parameters
    ----------
    rows
        Attempts of the publication. The counts add up from cut to cut, so the last one is the total.
    """
    counts = [row["late"] for row in rows if row["late"] is not None]
    return counts[-1] if counts else 0


def late_sentence(rows: Sequence[HistoryRow]) -> str:
    """Return how many events of a publication are in no release, in words; empty if none came too late."""
    late = late_events(rows)
    if not late:
        return ""
    events = number_of(late, "event")
    return (
        f"{events} came too late for any release, up to the last cut: after their case left, or behind a window. "
        "Allow more time (allowed_lateness, completion) if this grows"
    )
