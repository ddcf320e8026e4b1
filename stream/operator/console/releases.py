"""Held releases as the console shows them, with the facts for a decision; and the decisions that were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.store.base import MANIFEST, digest
from models.instants import utc_text
from stream.ledger.entries import ApprovalEntry
from stream.ledger.view import Account, ChargeOutcome
from stream.operator.approval import HeldRelease, held
from stream.operator.history import History, attacks_sentence, ledger_view, read
from stream.operator.history import audit as audit_of
from stream.operator.report.statement import PublishedRelease, Statement, other_publications, statement
from stream.release.documents import AuditDocument, is_empty
from stream.release.gate import MEASURES, worst_anonymity
from stream.release.verdict import Verdict, Word

NANOSECONDS = 1_000_000_000
SMALL = ("TPL", "epsilon")
"""Figures whose bound is a largest value; of the others it is a least one."""


@dataclass(frozen=True, slots=True)
class BoundedNumber:
    """One number of the audit with its bound. A missing bound or number is None; `instead` states why."""

    name: str
    value: float | None
    bound: float | None
    instead: str = "not measured"

    @property
    def broken(self) -> bool:
        """Whether it violates its bound."""
        if self.value is None or self.bound is None:
            return False
        if self.name in SMALL:
            return self.value > self.bound
        return self.value < self.bound


@dataclass(frozen=True, slots=True)
class Held:
    """A held release with everything that a person needs to decide on it.

    Parameters
    ----------
    release
        Number, publication, manifest and files.
    since
        Time since which it is held.
    verdict
        The verdict on its publication if this release left and no other; None without its manifest or its audit.
    changed
        The verdicts on other publications that this release would change.
    together
        The verdict on its publication if all held releases left, if its word is another one.
    figures, facts
        Numbers of its audit with their bounds, and further facts.
    paper
        The statement that recipients would get; None if another host has the files.
    seen
        SHA-256 of the manifest that the page shows; empty without a manifest. The form sends it back.
    """

    release: HeldRelease
    since: str
    verdict: Verdict | None
    changed: tuple[Verdict, ...]
    together: Verdict | None
    figures: tuple[BoundedNumber, ...]
    facts: tuple[tuple[str, str], ...]
    paper: Statement | None
    seen: str

    @property
    def bounded(self) -> bool:
        """Whether a figure has a largest value."""
        return any(figure.name in SMALL for figure in self.figures)


def queue(output: Path) -> list[Held]:
    """Return every release that waits for a decision, oldest first.

    Parameters
    ----------
    output
        The output folder.
    """
    waiting = held(output)
    history = read(output) if waiting else History([], {})
    now = {verdict.publication: verdict.verdict for verdict in history.verdicts()}
    keys = [(release.publication, release.number) for release in waiting if release.manifest]
    # Two releases can be safe each, and not both: exact counts undo the noise of another publication.
    all_leave = history.verdicts(leaving=[key for key in keys if history.audits.get(key)])
    together = {verdict.publication: verdict for verdict in all_leave}
    return [_shown(output, release, history, now, together) for release in waiting]


def held_release(output: Path, publication: str, number: int) -> Held | None:
    """Return a held release; None if no such release is held.

    Publication and number come from a browser. They are only compared, and never used as a path.

    Parameters
    ----------
    output
        The output folder.
    publication, number
        Name of the publication, and number of the release.
    """
    for waiting in queue(output):
        if (waiting.release.publication, waiting.release.number) == (publication, number):
            return waiting
    return None


def decided(output: Path) -> list[tuple[str, ApprovalEntry]]:
    """Return every decision of the ledger with its time as text, newest first.

    Parameters
    ----------
    output
        The output folder.
    """
    decisions = reversed(ledger_view(output).decisions)
    return [(utc_text(entry.body.at / NANOSECONDS), entry) for entry in decisions]


def _shown(
    output: Path,
    release: HeldRelease,
    history: History,
    now: Mapping[str, Word],
    all_leave: Mapping[str, Verdict],
) -> Held:
    key = (release.publication, release.number)
    audit = audit_of(output, *key)
    path = release.files / MANIFEST
    sha256_of_manifest = digest(path) if release.manifest else ""
    paper = None
    if release.manifest:
        held_series = [PublishedRelease(release.number, release.manifest, sha256_of_manifest, folder=release.files)]
        paper = statement(held_series, alone=True, other_releases=other_publications(output, held_series))
    # The verdicts of all publications if this release left.
    verdicts_after = history.verdicts(leaving=[key]) if release.manifest and audit else []
    verdict_after = None
    changed = []
    for verdict in verdicts_after:
        if verdict.publication == release.publication:
            verdict_after = verdict
        elif verdict.verdict != now.get(verdict.publication):
            changed.append(verdict)
    together = all_leave.get(release.publication)
    if together is not None and (verdict_after is None or together.verdict == verdict_after.verdict):
        together = None
    since, figures, facts = utc_text(release.held_since), tuple(_figures(audit)), tuple(_facts(audit))
    facts += tuple(_spending(ledger_view(output).account(release.publication), release.number))
    attacks = attacks_sentence(output, *key)
    if attacks:
        facts += (("Attacks on held-out cases", attacks),)
    return Held(release, since, verdict_after, tuple(changed), together, figures, facts, paper, sha256_of_manifest)


def _figures(audit: AuditDocument) -> Iterator[BoundedNumber]:
    bounds = audit.get("bounds") or {}
    for measure in MEASURES:
        value = worst_anonymity(audit.get("anonymity") or {}, measure)
        if value is not None or f"min_{measure}" in bounds:
            yield BoundedNumber(measure.upper(), value, bounds.get(f"min_{measure}"), _instead(audit))
    leakage = audit.get("leakage") or {}
    if leakage.get("max_tpl") is not None:
        yield BoundedNumber("TPL", leakage["max_tpl"], bounds.get("max_tpl"))
    budget = audit.get("budget")
    if budget is not None:
        yield BoundedNumber("epsilon", budget["spent"]["epsilon"], budget["limit"])


def _instead(audit: AuditDocument) -> str:
    """Return the text in place of a count of cases that does not exist."""
    anonymity = audit.get("anonymity") or {}
    if anonymity.get("status") != "ok":
        return "not measured"
    compared = anonymity.get("results") or anonymity.get("true_linker")
    return "no case is concerned" if compared else "no earlier release"


def _facts(audit: AuditDocument) -> Iterator[tuple[str, str]]:
    counts, lost = audit.get("counts") or {}, audit.get("loss") or {}
    if counts.get("released_cases") is not None:
        yield "Cases and events", f"{counts['released_cases']} cases, {counts.get('released', 0)} events"
        if lost.get("kept") is not None:  # With noise a share can be above 100 %, and means nothing.
            yield "Kept", f"{100 * lost['kept']:.3g} % of the events that it could show"
    mechanism = audit.get("mechanism")
    if mechanism:
        yield "Mechanism", str(mechanism.get("kind", ""))
    if is_empty(audit):
        yield "Empty", "it shows nothing: no count exceeds the noise, and its charge is spent whether it leaves or not"
    bounded = audit.get("bounded")
    if bounded:
        # The statement speaks of sensitive attributes without their names, which are not public.
        yield "Attributes whose values C bounds", f"{', '.join(bounded)}, and no other"
    looser = audit.get("looser")
    if looser:
        yield "Looser than the release before", "; ".join(looser)
    doubts = audit.get("doubts")
    if doubts:
        yield "Doubtful values", "; ".join(doubts)


def _spending(account: Account, number: int) -> Iterator[tuple[str, str]]:
    """Yield where the charges of a publication went, if this release is not the only one that was charged."""
    cut = account.seals[number].cut
    counts = Counter(account.outcome(entry) for entry in account.charge_entries.values() if entry.cut != cut)
    n_charges, n_elsewhere = len(account.charge_entries), counts.total()
    if not n_elsewhere:
        return
    n_left = counts.pop("published", 0) + counts.pop("sealed", 0)
    others = [f"{n_left} for releases that left"] if n_left else []
    others += [f"{count} {_NOT_RELEASED[outcome]}" for outcome, count in sorted(counts.items())]
    yield (
        "Where epsilon went",
        f"{n_charges} charges by now: {n_charges - n_elsewhere} for this release, {', '.join(others)}; a charge stays "
        "if its release never leaves, since its noise was drawn",
    )


_NOT_RELEASED: Mapping[ChargeOutcome, str] = {
    "held": "for other releases that wait for a decision",
    "rejected": "for releases that were rejected",
    "superseded": "for held releases whose place a newer one took",
    "burned": "for numbers that a crash took",
    "withheld": "for withheld attempts",
    "not finished": "for attempts that did not finish",
}
