"""Held releases of an output folder, and a person's decision on one: for the command line and the console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connectors.store.base import MANIFEST, parse_manifest
from models.errors import InputError
from stream.config.settings import Settings
from stream.config.sources import of_folder
from stream.ledger.entries import SealEntry
from stream.ledger.folder import ledger_in
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import owner_of
from stream.ledger.view import LedgerView
from stream.operator.history import ledger_view, read_json, refuse_other_process
from stream.operator.idle_folder import opened_service
from stream.release.approval import Order, PersonDecision
from stream.release.contract import DecisionOutcome

SECOND = 1_000_000_000


@dataclass(frozen=True)
class HeldRelease:
    """A release that waits for a person.

    Attributes
    ----------
    process, publication, number
        The release.
    cut
        Time of its cut (ISO 8601).
    held_since
        Seconds since 1970.
    decision, reasons
        Result of the gate when the release was held.
    refusals
        Reasons of the approvals that were refused since.
    files, audit
        Folder of the files that would become public, and path of audit.json.
    manifest
        The manifest that recipients would get; empty if another host has the files.
    """

    process: str
    publication: str
    number: int
    cut: str
    held_since: float
    decision: str
    reasons: tuple[str, ...]
    refusals: tuple[str, ...]
    files: Path
    audit: Path
    manifest: Mapping[str, Any]


def held(folder: Path) -> list[HeldRelease]:
    """Return the releases of an output folder that wait for a decision, oldest first.

    The folder is only read, without its lock.

    Raises
    ------
    InputError
        If the folder was not made by this program.
    """
    view = ledger_view(folder)
    process = owner_of(ledger_in(folder))
    return [_held(folder, process, seal, view) for seal in view.held]


def _held(folder: Path, process: str, seal: SealEntry, view: LedgerView) -> HeldRelease:
    name, number = seal.publication, seal.sequence
    layout = OperatorLayout(folder)
    files, audit = layout.held(name, seal.body.temporary), layout.audit(name, number)
    document = read_json(audit) if audit.is_file() else {}
    manifest = files / MANIFEST
    gate = document.get("gate") or {}
    refusals = [
        "; ".join(entry.body.reasons)
        for entry in view.decisions
        if (entry.publication, entry.sequence) == (name, number)
    ]
    return HeldRelease(
        process=process,
        publication=name,
        number=number,
        cut=(document.get("cut") or {}).get("time", ""),
        held_since=(seal.body.held_at or 0) / SECOND,
        decision=gate.get("decision", ""),
        reasons=tuple(gate.get("reasons", ())),
        refusals=tuple(refusals),
        files=files,
        audit=audit,
        manifest=parse_manifest(manifest.read_bytes(), str(manifest)) if manifest.is_file() else {},
    )


def decide(
    folder_or_settings: Path | Settings,
    publication: str,
    number: int,
    decision: Order,
    by: str,
    why: str,
    *,
    output: Path | None = None,
) -> DecisionOutcome:
    """Approve or reject a held release.

    The decision is an order to the daemon if the configuration has one, else a change of the folder.

    Parameters
    ----------
    folder_or_settings
        The output folder of a replay or daemon, which records its configuration; or the configuration.
    publication, number
        The release.
    decision, by, why
        The decision, the name of the person, and the reason.
    output
        The output folder, if a configuration is given. One without [source] needs it.

    Raises
    ------
    InputError
        If there is no such release.
    RefusedError
        If a replay is using the folder, or ledger and store do not agree.
    """
    person = PersonDecision(publication, number, decision, by, why)
    if isinstance(folder_or_settings, Settings):
        settings, folder = folder_or_settings, output
    else:
        ledger_in(folder_or_settings)
        settings, folder = of_folder(folder_or_settings), folder_or_settings
    seal = None
    if folder is not None:
        refuse_other_process(settings, folder)
        seal = _seal_of(folder, publication, number)
    if settings.source is not None:
        manifest = None if seal is None else seal.body.manifest
        return _order(settings, replace(person, manifest=manifest))
    if folder is None:
        raise InputError("give the folder of the replay: its configuration has no [source]")
    with opened_service(settings, folder) as service:
        return service.rule(person)


def _seal_of(folder: Path, publication: str, number: int) -> SealEntry | None:
    """Return the seal of a release, or None if the folder has no ledger.

    InputError if no such release was ever sealed; other obstacles are reported under the lock.
    """
    if not OperatorLayout(folder).ledger.is_file():
        return None
    view = ledger_view(folder)
    if (publication, number) in view.seals:
        return view.seals[publication, number]
    waiting = ", ".join(f"{seal.publication} {seal.sequence}" for seal in view.held)
    held_now = f"held are {waiting}" if waiting else "nothing is held there"
    raise InputError(f"{folder}: release {number} of {publication} was never sealed; {held_now}")


def _order(settings: Settings, decision: PersonDecision) -> DecisionOutcome:
    """Give the order to the daemon; it names the digest of the release, if the folder has it."""
    from stream.daemon import operator_commands

    if settings.source is None:
        raise InputError("no [source] table: there is no daemon to give an order to")
    offset = operator_commands.send(settings, settings.source, decision.command())
    return DecisionOutcome(decision.publication, decision.number, "ordered", offset=offset)
