"""One cut's way: budget -> charge -> build -> audit -> gate -> files -> seal -> rename -> publish.

With `approval = "required"` the way ends at the seal, and a person's decision continues it (stream.release.approval).

The order is the guarantee (docs/guarantees.md). What is published can never be published twice with other bytes,
nor uncharged: the charge is durable before any noise is drawn, the seal before anybody can see the bytes, and a cut
that has a decision is never decided again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from connectors.store.base import Prepared, Store, check_unfinished
from models.dp.budget import Charge
from models.errors import BoundError, InputError, RefusedError, TooFewCasesError, UnavailableError, UnreadableError
from stream.ledger import release_record
from stream.ledger.entries import (
    CutSection,
    NoteBody,
    NoteEntry,
    PublishedEntry,
    SealBody,
    SealEntry,
    WithheldBody,
    WithheldEntry,
)
from stream.ledger.folder import OperatorFolder, rewrite, write_json
from stream.ledger.mirror import Mirror
from stream.ledger.release_record import ReleaseRecord
from stream.ledger.sqlite import Account, Ledger
from stream.release import audit_document as documents
from stream.release import final_bytes, gate, repair
from stream.release.audience import Audience, Earlier
from stream.release.builder import Builder
from stream.release.charging import Charging
from stream.release.comparison import forget
from stream.release.contract import Attempt, AuditContext, Build, Candidate, Decision, Mechanism
from stream.release.documents import AuditDocument, Manifest
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.manifest import ProcessAccount, chain, manifest
from stream.release.once import refuse_other_terms
from stream.release.planned import BuiltBy
from stream.release.public_view import shuffled
from stream.release.reason import Reason, of_record, ruled, texts
from stream.release.schedule import RealClock, ReleaseClock, Slot
from stream.release.spec import PublicationSpec
from stream.release.stages import ProcessAccounts
from stream.values.duration import SECOND
from stream.values.pseudonym import Pseudonyms

log = logging.getLogger("veilstream")

LATE = "the build took longer than publish_after allows"


class Publisher(Protocol):
    """What happens after the rename: topics in the daemon, nothing for files."""

    def __call__(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> None: ...


class _WithheldError(Exception):
    """The attempt is refused, with reasons and as much of the audit as there is."""

    def __init__(self, reasons: Sequence[Reason], audit: AuditDocument | None = None) -> None:
        super().__init__(*texts(reasons))
        self.reasons, self.audit = reasons, audit or AuditDocument()


@dataclass(frozen=True, slots=True)
class Judged:
    """An audited candidate and the decision of the gate on it, with its reasons as sentences."""

    audited: Candidate
    decision: Literal["passed", "warned", "repaired", "withheld"]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class _Written:
    """Files of a candidate under temporary names: the release `prepared`, the operator's `temporary` folder, the
    manifest and audit in them, and the name of the `plan` that it is."""

    number: int
    prepared: Prepared
    temporary: Path
    public: Manifest
    document: AuditDocument
    plan: str | None


@dataclass
class Pipeline:
    """The release life of one publication."""

    spec: PublicationSpec
    ledger: Ledger
    store: Store
    folder: OperatorFolder
    pseudonyms: Pseudonyms
    audiences: Mapping[str, Audience]
    """The series of releases by name of a publication; complete once all publications are recovered."""
    at: Hook = nothing
    publish: Publisher | None = None
    mirror: Mirror | None = None
    accounts: ProcessAccounts = field(default_factory=ProcessAccounts)
    """Accounts of all publications of the process: the process-level budget caps them together."""
    clock: ReleaseClock = field(default_factory=RealClock)
    """When a release that has a moment becomes visible."""
    built_by: BuiltBy | None = None
    """Who builds in the place of the mechanism here: an engine."""

    def __post_init__(self) -> None:
        self.name = self.spec.name
        self.account = Account(self.ledger, self.name)
        refuse_other_terms(self.name, self.spec.once, self.account.terms.values())
        self.accounts.add(self.account)
        self.charging = Charging(self.spec, self.account)
        self.builder = Builder(self.spec, self.account, self.pseudonyms, self.built_by)
        notes = (entry.body for entry in self.ledger.entries(self.name) if isinstance(entry, NoteEntry))
        self._gaps = {body.gap for body in notes if body.gap is not None}
        self.stages: dict[str, float] = {}
        self.waiting: dict[int, SealEntry] = {}
        """Seals of releases whose moment has not come, by number."""

    @property
    def audience(self) -> Audience:
        """The series that this publication's releases belong to."""
        return self.audiences[self.name]

    @property
    def earlier(self) -> Earlier:
        """The releases that audits look back at: all of the audience."""
        return self.audience.earlier

    @property
    def spent_elsewhere(self) -> Charge:
        """Charges of the process's other publications."""
        return self.accounts.spent_elsewhere(self.name)

    def attempt(self, attempt: Attempt) -> Decision:
        """Decide one cut, durably. Called again for a decided cut (after a crash), it answers as before."""
        known = self.decided(attempt.cut)
        if known is not None:
            return known
        if self.account.held and self.spec.hold == "block":
            return self._blocked(attempt, self.account.held[0])
        self._check_space()
        self.at(Failpoint.OPENED)
        try:
            self._check_memory()
            self._budget(attempt)
            self._charge(attempt.cut)
            slot = self._slot(attempt)  # after the charge: its record has just told the broker's time
            build = self._build(attempt)
            found = self._audit(attempt, build)
            judged = self._gate(attempt, found)
            written = self._files(attempt, judged, slot)
        except _WithheldError as refusal:
            return self._withhold(attempt, refusal.reasons, refusal.audit)
        except UnreadableError as lost:
            return self._rest(attempt, lost)
        seal = self._seal(attempt, written)
        if self.spec.approval:
            return self._hold(attempt, written, found.reasons)
        if slot is not None and (self.waiting or not self.clock.due(slot.moment)):
            self._wait(written, seal)
        else:
            self._rename(written)
            self._publish(written)
        released, build = judged.audited.candidate, judged.audited.build
        released.audit = written.document
        self.audience.append(released, seal, build)
        self.thin(seal.sequence - documents.KEPT_WHOLE)
        return Decision(attempt.cut, "sealed", seal.sequence, tuple(found.reasons), written.document)

    # before anything is drawn

    def _check_space(self) -> None:
        free = self.store.free_bytes()
        if free is not None and free < self.spec.min_free_bytes:
            raise UnavailableError(
                f"{self.folder.output}: {free} bytes are free, a release needs min_free_bytes = "
                f"{self.spec.min_free_bytes}; free some space and start again"
            )

    def _check_memory(self) -> None:
        """Read what earlier releases left before anything is charged. UnreadableError where it is lost."""
        self.earlier.read_lost()
        self._last_audit()
        self.audience.memory(None if self.spec.mechanism.shares_memory else self.name)

    def _rest(self, attempt: Attempt, lost: UnreadableError) -> Decision:
        """Refuse the cut of a publication that lost a file of an earlier release. Other publications go on."""
        log.error("%s is paused: %s, and put it back; its cuts are refused until then, others go on", self.name, lost)
        return self._withhold(
            attempt, [Reason("mechanism", f"{lost}, and put it back: the next cut goes on")], AuditDocument()
        )

    def _slot(self, attempt: Attempt) -> Slot | None:
        delay = self.spec.delay
        return None if delay is None else self.clock.slot(attempt.moment, delay)

    def _budget(self, attempt: Attempt) -> None:
        """Budget and leakage gates."""
        reasons = self.charging.refusals(attempt.cut, self._last_audit(), self.spent_elsewhere)
        if reasons:
            raise _WithheldError(reasons)

    # charge

    def _charge(self, cut: str) -> None:
        """Commit the charge of a cut, where the mechanism asks for one."""
        reasons = self.charging.commit(cut)
        self.at(Failpoint.CHARGED)
        if reasons:
            raise _WithheldError(reasons)

    # build

    def _build(self, attempt: Attempt) -> Build:
        """Anonymize what the cut exposes."""
        started = time.monotonic()
        try:
            memory = self._memory(self.spec.mechanism)
            build = self.builder.build(attempt.exposure, memory, self.account.last_number + 1, attempt.cut)
        except TooFewCasesError as error:
            raise _WithheldError([Reason("cases", f"cases: not enough yet ({error})")]) from error
        except BoundError as error:
            raise _WithheldError([Reason("mechanism", str(error))]) from error
        except InputError as error:
            if self.spec.mechanism.reads_data_in_gate:
                raise
            # Noise was paid for, or a log without events came: the end of the process would tell, and come again.
            raise _WithheldError([Reason("mechanism", str(error))]) from error
        self.stages = {"build": time.monotonic() - started}
        self.at(Failpoint.BUILT)
        return build

    def _memory(self, mechanism: Mechanism) -> Any:
        """What the last release left: of the audience where its publications share a memory, else of this one."""
        found = self.audience.memory(None if mechanism.shares_memory else self.name)
        if found is None:
            return None
        memory, last = found
        made_by = self.audience.made_by(last)
        if made_by != mechanism.kind and (memory is not None or mechanism.remembers):
            whose = f"the releases of {self.name}"
            if mechanism.shares_memory and last[0] != self.name:
                whose = f"the releases of {last[0]} to the same audience"
            raise BoundError(f"{whose} were made by {made_by}; give {mechanism.kind} its own publication")
        return mechanism.owned(memory, last[0])

    # audit

    def _audit(self, attempt: Attempt, build: Build) -> Candidate:
        """Measure the build against all earlier releases of the audience, and what the gate says of it."""
        candidate = self.builder.record(build, attempt.exposure, self.account.last_number + 1)
        audit = self._measured(attempt, build, candidate)
        return Candidate(build, candidate, audit, gate.after_audit(self.spec.gate, audit))

    def _measured(self, attempt: Attempt, build: Build, candidate: ReleaseRecord) -> AuditDocument:
        context = AuditContext(
            candidate=candidate,
            earlier=self.earlier,
            build=build,
            exposure=replace(attempt.exposure, log=self.builder.named(attempt.exposure.log)),
            mechanism=self.spec.mechanism,
            charges=list(self.account.charges.values()),
            counts=attempt.counts,
            spent=self.account.spent,
            once=self.spec.once,
            erased=self.account.erased,
            erased_releases=frozenset(self.account.erased_releases),
            previous_audit=self._last_audit(),
        )
        results: dict[str, Mapping[str, Any]] = {}
        for audit in self.spec.audits:
            started = time.monotonic()
            results[audit.name] = dict(audit.measure(context, results))
            self.stages[audit.name] = time.monotonic() - started
        forget(candidate)
        found = {**results, "suppressed": [], **build.operator, "n_actual": build.n_actual}
        return cast(AuditDocument, found)

    def _last_audit(self) -> AuditDocument:
        standing = self.account.standing
        return self.audit_of(standing[-1]) if standing else {}

    @property
    def roles_shown(self) -> tuple[str, ...]:
        """The roles that the last release showed in the place of resources."""
        try:
            return tuple(self._last_audit().get("resources", {}).get("roles", ()))
        except UnreadableError:
            return ()  # the attempt reads the audit too, and refuses the cut

    # gate

    def _gate(self, attempt: Attempt, found: Candidate) -> Judged:
        """Let the candidate pass, repaired where the policy says so, or refuse it."""
        policy = self.spec.gate
        repairs = found.reasons and policy.on_violation == "repair"
        last = self._repaired(attempt, found) if repairs else found
        if last.reasons and policy.on_violation != "warn":
            raise _WithheldError(last.reasons, self._measures(last))
        if repairs:
            return Judged(last, "repaired", texts(found.reasons))
        return Judged(last, "warned" if last.reasons else "passed", texts(last.reasons))

    def _measures(self, candidate: Candidate) -> AuditDocument:
        """Return what was measured of a candidate, how long each stage took, and the bounds it was held against."""
        return {**candidate.audit, "seconds": dict(self.stages), "bounds": self.spec.gate.bounds}

    def _repaired(self, attempt: Attempt, first: Candidate) -> Candidate:
        """The attempt with more suppressed, so that the gate passes it; else with reasons, and it is withheld."""
        spec = self.spec
        audit = repair.main_audit(spec.audits)
        if audit is None:
            return first
        return repair.walk(
            first,
            spec.mechanism,
            attempt.exposure,
            spec.gate,
            audit,
            self.earlier,
            lambda build: self._audit(attempt, self.builder.outer(build, attempt.exposure)),
        )

    # files

    def _files(self, attempt: Attempt, judged: Judged, slot: Slot | None) -> _Written:
        """Write the release and the operator's files under temporary names, durably, and read the release back."""
        build, candidate = judged.audited.build, judged.audited.candidate
        number = candidate.sequence
        mechanism = self.spec.mechanism
        public = self._manifest(build, number, slot)
        released, order = shuffled(build)
        sources = dict(zip(released.case_ids, order.tolist(), strict=True))
        writers = documents.writers(self.spec.formats, released, build, mechanism)
        writers |= documents.accumulated_writers(self.spec.formats, build, mechanism)
        started = time.monotonic()
        prepared = self.store.prepare(self.name, number, writers, public, held=self.spec.approval)
        prepared = prepared if slot is None else replace(prepared, moment=slot.moment)
        del released, order, writers  # as large as the release, which is now read again
        self.stages["files"] = time.monotonic() - started
        faults = final_bytes.faults(
            prepared.tmp,
            self.spec.formats,
            build,
            mechanism,
            attempt.exposure,
            candidate,
            sources,
        )
        faults += final_bytes.accumulated_faults(prepared.tmp, self.spec.formats, build)
        self.stages["read_back"] = time.monotonic() - started - self.stages["files"]
        if faults:
            check_unfinished(prepared.tmp)  # a folder that was taken away is no fault of the mechanism
            self.store.quarantine(prepared)
            broken = replace(judged, decision="withheld", reasons=faults)
            raise _WithheldError([Reason("mechanism", fault) for fault in faults], self._audit_part(attempt, broken))
        announced: Manifest = {**public, "files": list(prepared.files)}
        audit = self._audit_part(attempt, judged)
        document: AuditDocument = {**announced, **audit}
        temporary = self._operator_files(candidate, build, document)
        if self.spec.approval and self.mirror is not None:
            self.mirror.put_held(self.name, prepared.name, prepared.tmp)
        self.at(Failpoint.FILES_WRITTEN)
        if slot is not None and slot.missed():
            self.store.quarantine(prepared)
            self.folder.discard(self.name)
            raise _WithheldError([Reason("mechanism", LATE)], audit)
        plan = None if build.plan is None else self.pseudonyms.plan(build.plan)
        return _Written(number, prepared, temporary, announced, document, plan)

    def _audit_part(self, attempt: Attempt, judged: Judged) -> AuditDocument:
        """Build what audit.json says beside the manifest: measures, decision, the cut, its counts, resources."""
        raw, roles = self.spec.raw_resources, attempt.exposure.roles
        body = {
            **self._measures(judged.audited),
            "gate": {"decision": judged.decision, "reasons": judged.reasons},
            "resources": documents.resources(self.account.resource_form, raw=raw, roles=roles),
            **documents.cut_section(attempt),
            "counts": documents.accounting(attempt, judged.audited.build, self.spec.mechanism),
        }
        return cast(AuditDocument, body)

    def _operator_files(self, candidate: ReleaseRecord, build: Build, document: AuditDocument) -> Path:
        """What later audits and builds need of the release: here, and in the mirror."""
        operator_files = {
            "audit.json": write_json(document),
            "variants.parquet": lambda path: release_record.write(path, candidate),
            "memory.json": write_json(build.memory),
        }
        temporary = self.folder.prepare(self.name, operator_files)
        if self.mirror is not None:
            self.mirror.put_release(self.name, temporary.name, temporary)
        return temporary

    # seal, rename, publish

    def _seal(self, attempt: Attempt, written: _Written) -> SealEntry:
        """Commit the seal: from here on the number, and these bytes, are the release."""
        seal = self._seal_row(attempt, written)
        self.at(Failpoint.SEALED)
        return seal

    def _seal_row(self, attempt: Attempt, written: _Written) -> SealEntry:
        owner, number, prepared = uuid.uuid4().hex, written.number, written.prepared
        body = SealBody(
            files=prepared.files,
            manifest=prepared.manifest_sha256,
            temporary=prepared.name,
            operator=written.temporary.name,
            publish_at=prepared.moment,
            resources=self.account.resource_form,
            audience=self.audience.name,
            held_at=self.clock.now() if self.spec.approval else None,
            plan=written.plan,
        )
        entry = SealEntry(publication=self.name, cut=attempt.cut, sequence=number, owner=owner, body=body)
        standing = self.account.append(entry)
        if standing.owner != owner:
            self.store.quarantine(prepared)
            raise RefusedError(
                f"release {number} of {self.name} was sealed by another process; its bytes stand, ours are quarantined"
            )
        return standing

    def _hold(self, attempt: Attempt, written: _Written, found: Sequence[Reason]) -> Decision:
        """Leave a sealed release with the operator until a person decides. No audit looks back at it, and no build
        continues its memory, since nobody has seen it."""
        self.folder.commit(written.temporary.name, self.name, written.number)
        self.at(Failpoint.HELD)
        return Decision(attempt.cut, "held", written.number, tuple(found), written.document)

    def _wait(self, written: _Written, seal: SealEntry) -> None:
        """Keep a sealed release back until its moment (`stream.release.recovery.publish_due`)."""
        self.folder.commit(written.temporary.name, self.name, written.number)
        self.waiting[written.number] = seal

    def _rename(self, written: _Written) -> None:
        """Make the release visible."""
        self.store.commit(written.prepared, written.number)
        self.folder.commit(written.temporary.name, self.name, written.number)
        self.at(Failpoint.RENAMED)

    def _publish(self, written: _Written) -> None:
        """Announce the release."""
        self.announce(written.number, written.public)
        self.at(Failpoint.PUBLISHED)

    def announce(self, number: int, public: Mapping[str, Any]) -> None:
        """Publish the announcement (to topics, in the daemon) and record it in the ledger."""
        if self.publish is not None:
            self.publish(self.name, number, public, self.store.location(self.name, number))
        self.account.append(PublishedEntry(publication=self.name, sequence=number))

    def thin(self, number: int) -> None:
        """Shorten the audit of a release that was published long ago. A crash here leaves it as it was."""
        published = self.account.published
        if number not in published or max(published) == number:  # behind a later published one nothing goes back
            return
        path = self.folder.release(self.name, number) / "audit.json"
        try:
            shorter = documents.thinned(documents.read_audit(path.parent)) if path.is_file() else None
        except RefusedError as error:  # the release that was just made stands; whoever reads this one says so again
            log.warning("an old audit is not shortened: %s", error)
            return
        if shorter is not None:
            rewrite(self.folder.ops, path, write_json(shorter))

    # withheld

    def _blocked(self, attempt: Attempt, held: int) -> Decision:
        """Refuse the cut before any charge: an earlier release waits for a person."""
        told = f"held: release {held} waits for a decision (veilstream approve or reject {self.name} {held})"
        return self._withhold(attempt, [Reason("held", told)], AuditDocument(), waits_for=held)

    def _withhold(
        self, attempt: Attempt, reasons: Sequence[Reason], audit: AuditDocument, *, waits_for: int = 0
    ) -> Decision:
        """Refuse the cut, on the record. The ledger entry holds reasons and counts, nothing of the data."""
        shown: CutSection = {**documents.cut_section(attempt), "counts": dict(attempt.counts)}
        body = WithheldBody(texts(reasons), shown)
        self.account.append(WithheldEntry(publication=self.name, cut=attempt.cut, body=body, waits_for=waits_for))
        self.at(Failpoint.WITHHELD)
        return Decision(attempt.cut, "withheld", because=tuple(reasons), audit=cast(AuditDocument, {**audit, **shown}))

    # what is on record

    def decided(self, cut: str) -> Decision | None:
        """The durable decision on a cut, if there is one."""
        if cut in self.account.withheld:
            body = self.account.withheld[cut].body
            return Decision(
                cut,
                "withheld",
                because=[of_record(text) for text in body.reasons],
                audit=cast(AuditDocument, body.audit),
            )
        seal = self.account.sealed_cuts.get(cut)
        if seal is None:
            return None
        if seal.sequence in self.account.rejected:
            ruling = self.account.rulings[seal.sequence].body
            there = self.folder.release(self.name, seal.sequence).exists()  # on the host that held it
            kept = self.audit_of(seal.sequence) if there else AuditDocument()
            return Decision(cut, "rejected", seal.sequence, [Reason("held", ruled(ruling))], kept)
        try:
            audit = self.audit_of(seal.sequence)
        except UnreadableError as lost:  # the decision stands in the ledger, and a figure changes nothing of it
            log.error("release %d of %s: %s", seal.sequence, self.name, lost)
            audit = AuditDocument()
        told = audit.get("gate", {}).get("reasons", ())
        status: Literal["held", "sealed"] = "held" if seal.sequence in self.account.held else "sealed"
        return Decision(cut, status, seal.sequence, [of_record(text) for text in told], audit)

    def audit_of(self, sequence: int) -> AuditDocument:
        """audit.json of a sealed release."""
        return documents.read_audit(self.folder.release(self.name, sequence))

    # the manifest

    @property
    def gaps_accepted(self) -> int:
        """How many gaps the operator has accepted."""
        return len(self._gaps)

    def accept_gap(self, position: int, missing: Sequence[str]) -> None:
        """Record that the operator goes on without some events; manifests say how often."""
        body = NoteBody(gap=position, missing=tuple(missing))
        self.ledger.append(NoteEntry(publication=self.name, body=body))
        self._gaps.add(position)

    def _manifest(self, build: Build, number: int, slot: Slot | None) -> Manifest:
        standing = self.account.standing
        charged_only = not self.spec.mechanism.reads_data_in_gate
        sealed_elsewhere = self.accounts.sealed_elsewhere(self.name, charged=charged_only)
        published = datetime.now(UTC) if slot is None else datetime.fromtimestamp(slot.moment // SECOND, UTC)
        window = self.spec.window
        walls = window.every is not None and window.time == "wall"
        return manifest(
            self.spec,
            build,
            sequence=number,
            previous=standing[-1] if standing else None,
            published=published.isoformat(timespec="seconds"),
            spent=self.account.spent,
            process_budget=ProcessAccount(
                self.account.spent + self.spent_elsewhere,
                self.spec.max_epsilon,
                self.spec.max_delta,
            ),
            chain=chain(self.account, sealed_elsewhere),
            accepted_gaps=self.gaps_accepted,
            simulated=self.clock.simulated and (walls or (slot is not None and slot.simulated)),
        )
