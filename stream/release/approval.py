"""A person's decision on a held release: the gate judges again, the ledger records the decision, and it is carried out.

The candidate was audited when it was held, against everything that its audience had then. Releases to that audience
since then are audited now; a release that no longer passes is not published. The order is that of a release: decision
in the ledger, bytes out of the operator's folder, rename, announcement. A crash after the decision is finished at the
next start (stream.release.recovery).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from models.errors import InputError
from stream.fold.records import Command
from stream.fold.state import digest
from stream.ledger import release_record
from stream.ledger.entries import ApprovalBody, ApprovalEntry, Ruling, SealEntry
from stream.ledger.folder import json_bytes, rewrite, write_json
from stream.ledger.layout import VARIANTS
from stream.release import audit_document as documents
from stream.release import gate
from stream.release.audits.anonymity import correspondence_audit
from stream.release.contract import DecisionOutcome
from stream.release.failpoints import Failpoint
from stream.release.mechanisms import kinds
from stream.release.reason import Reason
from stream.release.recovery import Holder, finish, move_to_public, reject

if TYPE_CHECKING:
    from pathlib import Path

    from stream.ledger.release_record import ReleaseRecord
    from stream.release.documents import AuditDocument
    from stream.release.pipeline import Pipeline

Order = Literal["approve", "reject"]

LONGEST = 2000
"""Characters of a name or a reason: it is in a record of the delta topic and in the ledger."""


@dataclass(frozen=True, slots=True)
class PersonDecision:
    """A person's decision on a held release.

    Attributes
    ----------
    publication, number
        The release.
    order, by, why
        The order, the person who decided, and the reason.
    manifest
        sha256 of the manifest that the person had read, if known.
    position
        Position of the order in the delta topic. None for a decision taken on the host of the folder.

    Raises
    ------
    InputError
        If the name or the reason is empty, too long, or not one printable line.
    """

    publication: str
    number: int
    order: Order
    by: str
    why: str
    manifest: str | None = None
    position: int | None = None

    def __post_init__(self) -> None:
        """Check that the decision is complete."""
        for name, text in (("--by", self.by), ("--why", self.why)):
            if not text.strip():
                raise InputError(f"{name} is empty: a decision has a name and a reason")
            if len(text) > LONGEST:
                raise InputError(f"{name} is longer than {LONGEST} characters")
            if not text.isprintable():
                raise InputError(f"{name} holds a line break or a control character; use one line")

    @classmethod
    def of_command(cls, command: Command, position: int) -> PersonDecision:
        """Read the decision from an order of the delta topic. InputError if it is not complete."""
        arguments = command.arguments
        number, manifest = arguments.get("number"), arguments.get("manifest")
        if command.publication is None or not isinstance(number, int):
            raise InputError("it names no publication and no number")
        return cls(
            publication=command.publication,
            number=number,
            order="approve" if command.name == "approve" else "reject",
            by=str(arguments.get("by", "")),
            why=str(arguments.get("why", "")),
            manifest=manifest if isinstance(manifest, str) else None,
            position=position,
        )

    def command(self) -> Command:
        """Return the order to the daemon."""
        manifest = {} if self.manifest is None else {"manifest": self.manifest}
        arguments = {"number": self.number, "by": self.by, "why": self.why, **manifest}
        return Command(name=self.order, publication=self.publication, arguments=arguments)

    @property
    def ruling(self) -> Literal["approved", "rejected"]:
        """The ruling that the ledger gets if the decision is carried out."""
        return "approved" if self.order == "approve" else "rejected"


def decide(pipeline: Pipeline, decision: PersonDecision) -> DecisionOutcome:
    """Carry out a person's decision, durably.

    A decision that was carried out before is finished, and answered as then.

    Raises
    ------
    InputError
        If the release is not held, or is not the one that the person had read.
    """
    account, number = pipeline.account, decision.number
    if number in account.seals:
        _refuse_unseen(account.seals[number], decision)
    before = account.rulings.get(number)
    if before is not None and before.body.decision == decision.ruling:
        return DecisionOutcome(pipeline.name, number, decision.ruling, again=True)
    if number not in account.held:
        raise InputError(f"release {number} of {pipeline.name} is not held: {_state_words(pipeline, number)}")
    warned: list[Reason] = []
    if decision.order == "reject":
        recorded = reject(pipeline, number, by=decision.by, why=decision.why)
    else:
        reasons, warned = review(pipeline, number)
        if reasons:
            _append(pipeline, decision, "refused", reasons)
            return DecisionOutcome(pipeline.name, number, "refused", tuple(reasons))
        recorded = _append(pipeline, decision, "approved")
    # The first decision in the ledger counts, and another process may have been faster.
    if recorded.body.decision != decision.ruling:
        raise InputError(f"release {number} of {pipeline.name} was decided meanwhile: {recorded.body.decision}")
    if decision.order == "approve":
        # From here on `recover` would publish it: the ledger has the approval, and the bytes are still held.
        pipeline.at(Failpoint.APPROVED)
        _release(pipeline, number, account.seals[number])
    return DecisionOutcome(pipeline.name, number, decision.ruling, tuple(warned))


def _refuse_unseen(seal: SealEntry, decision: PersonDecision) -> None:
    """Refuse an order about other bytes, or one that was given before the release was cut.

    Nobody had seen a release that was not cut yet. After a crash, its seal is in the ledger before the order is read
    again.
    """
    release = f"release {seal.sequence} of {seal.publication}"
    if decision.manifest is not None:
        if decision.manifest != seal.body.manifest:
            raise InputError(f"{release} is another one than the order is about (its manifest has another sha256)")
    elif decision.position is not None and decision.position <= _cut_at(seal):
        raise InputError(f"{release} did not exist when the order was given; look at it, and repeat the order")


def _cut_at(seal: SealEntry) -> int:
    """Return the position of a release's cut, which is part of its id (`stream.fold.records`); -1 if it is absent."""
    position = seal.cut.rsplit("/", 3)[1:2]
    return int(position[0]) if position and position[0].isdigit() else -1


def _state_words(pipeline: Pipeline, number: int) -> str:
    account = pipeline.account
    if number in account.rulings:
        ruling = account.rulings[number].body
        return f"it was {ruling.decision} by {ruling.by}"
    if number in account.published:
        return "it is published"
    if number in account.burned:
        return "its number was burned"
    held_numbers = ", ".join(str(waiting) for waiting in account.held)
    return f"held are {held_numbers}" if held_numbers else "nothing is"


def _append(
    pipeline: Pipeline, decision: PersonDecision, ruling: Ruling, reasons: Iterable[Reason] = ()
) -> ApprovalEntry:
    body = ApprovalBody(
        decision=ruling,
        by=decision.by,
        why=decision.why,
        at=pipeline.clock.now(),
        reasons=tuple(reason.text for reason in reasons),
    )
    entry = ApprovalEntry(publication=pipeline.name, sequence=decision.number, owner=uuid.uuid4().hex, body=body)
    return pipeline.ledger.append(entry)


def _release(pipeline: Pipeline, number: int, seal: SealEntry) -> None:
    """Publish an approved release, or let it wait if its moment has not come."""
    move_to_public(pipeline, number, seal)
    moment = seal.body.publish_at
    # It also waits behind earlier numbers whose moment has not come: releases become visible in order.
    if moment is not None and (pipeline.waiting or not pipeline.clock.due(moment)):
        pipeline.waiting[number] = seal
    elif finish(pipeline, number, seal):
        pipeline.at(Failpoint.PUBLISHED)
    else:
        raise InputError(f"release {number} of {pipeline.name}: its bytes are gone, so its number is burned")
    if pipeline.mirror is not None:
        pipeline.mirror.drop(pipeline.name, seal.body.temporary)
    # Audits of later releases compare with it from now on; as a held release it was visible to nobody.
    record = pipeline.audience.record((pipeline.name, number), seal)
    pipeline.audience.append(record, record.audit, seal)


# The gate, a second time.


def review(pipeline: Pipeline, number: int) -> tuple[list[Reason], list[Reason]]:
    """Run the gate on a held release again.

    Its audit.json then holds today's measures. If it may be published, it also holds the bounds of the gate, and the
    warning. They are durable before the decision.

    Returns
    -------
    reasons
        The reasons to refuse it.
    warnings
        The violations in spite of which it is published (`on_violation = "warn"`).
    """
    audit, policy = pipeline.audit_of(number), pipeline.spec.gate
    bytes_before = json_bytes(audit)
    released = released_since(pipeline, number)
    seal = pipeline.account.seals[number]
    record = pipeline.audience.record((pipeline.name, number), seal)
    reasons = _erased(pipeline, number)
    if released:
        reasons += _attacks_by_other_publications(pipeline, audit, record, released)
    violations = gate.after_audit(policy, audit)
    # `warn` excuses a violated bound, but neither an erasure nor a premise that no longer holds.
    if policy.on_violation != "warn":
        reasons += violations
    if not reasons:
        audit["bounds"] = policy.bounds
        if violations:
            audit["gate"] = {"decision": "warned", "reasons": [reason.text for reason in violations]}
    if json_bytes(audit) != bytes_before:
        _rewrite(pipeline, number, audit)
    warnings = [] if reasons else violations
    return reasons, warnings


def _rewrite(pipeline: Pipeline, number: int, audit: AuditDocument) -> None:
    path = pipeline.folder.layout.audit(pipeline.name, number)
    rewrite(pipeline.folder.ops, path, write_json(audit))
    if pipeline.mirror is not None:
        operator = pipeline.account.seals[number].body.operator
        pipeline.mirror.put_release(pipeline.name, operator, path.parent)


def released_since(pipeline: Pipeline, number: int) -> list[ReleaseRecord]:
    """Return the releases that the audience has received since this one was held."""
    seals = pipeline.audience.seals
    released = pipeline.ledger.view.released_since(pipeline.name, number)
    return [pipeline.audience.record(key, seals[key]) for key in released if key in seals]


def _attacks_by_other_publications(
    pipeline: Pipeline, audit: AuditDocument, record: ReleaseRecord, other_records: list[ReleaseRecord]
) -> list[Reason]:
    """Add the attacks between a held release and releases since to its audit; return reasons to refuse it.

    The releases are of other publications: the release's own publication waits for the decision.
    """
    mechanism = pipeline.spec.mechanism
    if mechanism.remembers or mechanism.shares_memory:
        last = other_records[-1]
        sentence = (
            f"premise: release {last.sequence} of {last.publication} left since, and this one does not continue it; "
            "reject it: the next one does"
        )
        return [Reason("premise", sentence)]
    correspondence = correspondence_audit(pipeline.spec.audits)
    anonymity = audit.get("anonymity")
    if correspondence is None or not anonymity or anonymity.get("status") == "not_applicable":
        return []
    rows = anonymity.get("true_linker") or []
    measured = {(row.get("publication"), row["earlier"]) for row in rows}
    unmeasured = [other for other in other_records if other.key not in measured]
    anonymity["true_linker"] = [*rows, *correspondence.against_other_publications(record, unmeasured)]
    return []


def _erased(pipeline: Pipeline, number: int) -> list[Reason]:
    if not holds_erased(pipeline, number):
        return []
    return [Reason("premise", "premise: a case was erased since, which this release may show; reject it")]


def holds_erased(holder: Holder, number: int) -> bool:
    """Return whether a held release shows, holds in memory, or may count a case that was erased after its seal.

    If its records are not cases, or its files are not on this host, this cannot be decided, and every erasure counts.
    """
    erased = holder.ledger.view.erased_since(holder.name, number)
    if not erased:
        return False
    folder = holder.folder.release(holder.name, number)
    variants = folder / VARIANTS
    if not variants.is_file():
        return True
    cases = [case for case in release_record.read(variants).log.case_ids if case]
    if not cases or any(digest(case).hex() in erased for case in cases):
        return True
    return _memory_names_erased(folder, erased)


def _memory_names_erased(folder: Path, erased: set[str]) -> bool:
    """Return whether the mechanism's memory names an erased case, also one that the release does not show.

    Examples: cohorts of other publications, and cases that wait for a cohort. A text with an erased case's digest need
    not be a case, so the mechanism forgets it on trial: its memory changes if it was one.
    """
    memory = documents.read_memory(folder)
    suspects = {text for text in _texts(memory) if digest(text).hex() in erased}
    if not suspects:
        return False
    mechanism = kinds()[documents.read_audit(folder)["mechanism"]["kind"]]
    return bool(mechanism.forget(memory, suspects) != mechanism.forget(memory, ()))


def _texts(document: Any) -> set[str]:
    """Return every text of a JSON document, names of keys too."""
    texts: set[str] = set()
    values = [document]
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
    return texts


def reject_erased(holder: Holder) -> list[int]:
    """Reject the held releases that an erasure concerns. Called after the erasure is in the ledger."""
    concerned = [number for number in holder.account.held if holds_erased(holder, number)]
    for number in concerned:
        reject(holder, number, by="veilstream erase", why="a case was erased, which it may show")
    return concerned
