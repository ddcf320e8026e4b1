"""One cut's way: budget -> charge -> build -> audit -> gate -> files -> seal -> rename -> publish.

The order is the guarantee (docs/guarantees.md). What is published can never be published twice with other bytes,
nor uncharged: the charge is durable before any noise is drawn, the seal before anybody can see the bytes, and a cut
that has a decision is never decided again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast

from connectors.store.base import Prepared, Store
from models.anonymize.sensitive import refuse_identifying
from models.dp.budget import Charge
from models.errors import BoundError, InputError, RefusedError
from models.eventlog import EventLog
from stream.release import audit_document as documents
from stream.release import final_bytes, gate, repair
from stream.release.attributes import with_attributes
from stream.release.audience import Audience
from stream.release.candidate import Candidate
from stream.release.contract import Attempt, AuditContext, Build, Decision, Exposure, Mechanism
from stream.release.documents import AuditDocument, Chain, Manifest
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.manifest import ProcessAccount, manifest
from stream.release.prior_releases import Earlier
from stream.release.public_view import pseudonymous_resources, shuffled
from stream.release.reason import Code, Reason, of_record, texts
from stream.release.schedule import RealClock, ReleaseClock, Slot
from stream.release.spec import PublicationSpec
from stream.storage import variants
from stream.storage.entries import (
    CutSection,
    PublishedEntry,
    SealBody,
    SealEntry,
    WithheldBody,
    WithheldEntry,
    charge_entry,
)
from stream.storage.folder import OperatorFolder, write_json
from stream.storage.ledger import Account, Ledger
from stream.storage.mirror import Mirror
from stream.storage.release_record import Record
from stream.values.duration import SECOND
from stream.values.pseudonym import Pseudonyms

LATE = "the build took longer than publish_after allows"


class Publisher(Protocol):
    """What happens after the rename: topics in the daemon, nothing for files."""

    def __call__(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> None: ...


@dataclass
class Pipeline:
    """The release life of one publication."""

    spec: PublicationSpec
    ledger: Ledger
    store: Store
    folder: OperatorFolder
    pseudonyms: Pseudonyms
    at: Hook = nothing
    publish: Publisher | None = None
    mirror: Mirror | None = None
    spent_elsewhere: Callable[[], Charge] = Charge
    """Charges of the process's other publications: the process-level budget caps them together."""
    clock: ReleaseClock = field(default_factory=RealClock)
    """When a release that has a moment becomes visible."""
    sealed_elsewhere: Callable[[bool], int] = lambda _charged: 0
    """How many numbers the process's other publications have sealed; only those that were charged, where asked."""
    audience: Audience = field(init=False)
    """The series that this publication's releases belong to; `join` sets it, once all publications are recovered."""

    def __post_init__(self) -> None:
        self.name = self.spec.name
        self.account = Account(self.ledger, self.name)
        self.gaps_accepted = 0
        self.stages: dict[str, float] = {}
        self.waiting: dict[int, SealEntry] = {}
        """Seals of releases whose moment has not come, by number."""

    @property
    def earlier(self) -> Earlier:
        """The releases that audits look back at: all of the audience."""
        return self.audience.earlier

    def attempt(self, attempt: Attempt) -> Decision:
        """Decide one cut, durably. Called again for a decided cut (after a crash), it answers as before."""
        known = self.decided(attempt.cut)
        if known is not None:
            return known
        self._check_space()
        self.at(Failpoint.OPENED)
        mechanism, policy = self.spec.mechanism, self.spec.gate
        asked = mechanism.charge()
        reasons = self._before_noise(attempt, asked)
        if reasons:
            return self._withhold(attempt, reasons, {})
        if asked != Charge():
            reasons = self._charge(attempt.cut, asked)
        self.at(Failpoint.CHARGED)
        if reasons:
            return self._withhold(attempt, reasons, {})
        slot = self._slot(attempt)  # after the charge: its record has just told the broker's time
        started = time.monotonic()
        try:
            build = self._build(attempt)
        except BoundError as error:
            return self._withhold(attempt, [Reason("mechanism", str(error))], {})
        except InputError as error:
            if mechanism.reads_data_in_gate:
                raise
            # Noise was paid for, or a log without events came: the end of the process would tell, and come again.
            return self._withhold(attempt, [Reason("mechanism", str(error))], {})
        self.stages = {"build": time.monotonic() - started}
        self.at(Failpoint.BUILT)
        first = judged = self._judge(attempt, build)
        if first.reasons and policy.on_violation == "repair":
            judged = self._repaired(attempt, first)
        audit, reasons = judged.audit, judged.reasons
        audit["seconds"], audit["bounds"] = self.stages, policy.bounds
        if reasons and policy.on_violation != "warn":
            return self._withhold(attempt, reasons, audit)
        audit.setdefault("gate", {"decision": "warned" if reasons else "passed", "reasons": texts(reasons)})
        return self._seal(attempt, judged, first.reasons, slot)

    def _slot(self, attempt: Attempt) -> Slot | None:
        delay = self.spec.delay
        return None if delay is None else self.clock.slot(attempt.moment, delay)

    def _judge(self, attempt: Attempt, build: Build) -> Candidate:
        candidate = self._record(build, attempt.exposure)
        audit = self._audit(attempt, build, candidate)
        return Candidate(build, candidate, audit, gate.after_audit(self.spec.gate, audit))

    def _repaired(self, attempt: Attempt, first: Candidate) -> Candidate:
        """The attempt with more suppressed, so that the gate passes it; else with reasons, and it is withheld."""
        spec = self.spec
        audit = repair.main_audit(spec.audits)
        if audit is None:
            return first
        found = repair.walk(
            first,
            spec.mechanism,
            attempt.exposure,
            spec.gate,
            audit,
            self.earlier,
            lambda build: self._judge(attempt, self._outer(build, attempt.exposure)),
        )
        if not found.reasons:
            found.audit["gate"] = {"decision": "repaired", "reasons": texts(first.reasons)}
        return found

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
        audit = self.audit_of(seal.sequence)
        told = audit.get("gate", {}).get("reasons", ())
        return Decision(cut, "sealed", seal.sequence, [of_record(text) for text in told], audit)

    def audit_of(self, sequence: int) -> AuditDocument:
        """audit.json of a sealed release."""
        return documents.read_audit(self.folder.release(self.name, sequence))

    def _check_space(self) -> None:
        free = self.store.free_bytes()
        if free is not None and free < self.spec.min_free_bytes:
            raise RefusedError(
                f"{self.folder.output}: {free} bytes are free, a release needs min_free_bytes = "
                f"{self.spec.min_free_bytes}; free some space and start again"
            )

    def _before_noise(self, attempt: Attempt, asked: Charge) -> list[Reason]:
        """Budget and leakage gates. A charge that a crashed attempt of this cut left is reused, not added."""
        already = self.account.paid(attempt.cut)
        spent = Charge(self.account.spent.epsilon - already.epsilon, self.account.spent.delta - already.delta)
        leakage = [
            reason
            for audit in self.spec.audits
            for reason in audit.before_noise({**self._ledger_facts(), "spent": spent}, asked)
        ]
        reasons = gate.before_noise(self.spec.gate, spent, asked, leakage)
        others = self.spent_elsewhere()
        for name, limit, used, more in (
            ("epsilon", self.spec.max_epsilon, spent.epsilon + others.epsilon, asked.epsilon),
            ("delta", self.spec.max_delta, spent.delta + others.delta, asked.delta),
        ):
            if limit is not None and more and used + more > limit:
                told = f"process budget {name}: spent {float(used):g}, asked {float(more):g}, limit {float(limit):g}"
                reasons.append(Reason("process_budget", told, limit, used + more))
        return reasons

    def _charge(self, cut: str, asked: Charge) -> list[Reason]:
        """Commit the charge of a cut. Reasons to refuse where a crashed attempt paid less for it, the configuration
        having changed since: the ledger keeps the first charge of a cut, and would under-count this one."""
        paid = self.account.append(charge_entry(self.name, cut, asked, self.account.redraws[cut])).body.charge
        parts: tuple[tuple[Code, Fraction, Fraction], ...] = (
            ("epsilon", paid.epsilon, asked.epsilon),
            ("delta", paid.delta, asked.delta),
        )
        return [
            Reason(
                code,
                f"{code}: {float(more):g} is asked, but an attempt under another configuration has charged this cut "
                f"{float(before):g}; the next cut is charged anew",
                before,
                more,
            )
            for code, before, more in parts
            if more > before
        ]

    def _ledger_facts(self) -> Mapping[str, Any]:
        return {
            "charges": list(self.account.charges.values()),
            "policy": self.spec.gate,
            "audits": self._last_audit(),
        }

    def _last_audit(self) -> AuditDocument:
        standing = self.account.standing
        return self.audit_of(standing[-1]) if standing else {}

    def _build(self, attempt: Attempt) -> Build:
        mechanism = self.spec.mechanism
        memory = self._memory(mechanism)
        self._refuse_identifying(attempt.exposure)
        built = mechanism.build(replace(attempt.exposure, publication=self.name), memory)
        return self._outer(built, attempt.exposure)

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

    def _refuse_identifying(self, exposure: Exposure) -> None:
        """Not for dp mechanisms: they release no attribute, and a refusal would read the data."""
        mechanism = self.spec.mechanism
        if mechanism.releases_attributes:
            try:
                refuse_identifying(exposure.log, exposure.linked, getattr(mechanism, "bins", None))
            except InputError as error:
                raise BoundError(str(error)) from None

    def _outer(self, build: Build, exposure: Exposure) -> Build:
        """The build with resources and attributes as they leave."""
        named = replace(build, log=self._named(build.log))
        return with_attributes(named, self.spec.attributes, exposure, self.spec.mechanism)

    def _named(self, log: EventLog) -> EventLog:
        """The log with its resources as releases name them."""
        if self.spec.raw_resources:
            return log
        process = self.spec.process if self.account.resource_form == "process" else None
        return pseudonymous_resources(log, self.pseudonyms, process, named=True)

    def _record(self, build: Build, exposure: Exposure) -> Record:
        """The candidate as audits see it: source pseudonyms in place of case ids."""
        ids = tuple("" if case < 0 else exposure.log.case_ids[case] for case in build.origin)
        log = replace(build.log, case_ids=ids)
        number = self.account.last_number + 1
        return Record(number, log, build.carries, build.T, exposure.linked, publication=self.name)

    def _audit(self, attempt: Attempt, build: Build, candidate: Record) -> AuditDocument:
        context = AuditContext(
            candidate=candidate,
            earlier=self.earlier,
            build=build,
            exposure=replace(attempt.exposure, log=self._named(attempt.exposure.log)),
            mechanism=self.spec.mechanism,
            charges=list(self.account.charges.values()),
            counts=attempt.counts,
            erased=self.account.erased,
            erased_releases=frozenset(self.account.erased_releases),
            previous_audit=self._last_audit(),
        )
        results: dict[str, Mapping[str, Any]] = {}
        for audit in self.spec.audits:
            started = time.monotonic()
            results[audit.name] = dict(audit.measure(context, results))
            self.stages[audit.name] = time.monotonic() - started
        found = {**results, "suppressed": [], **build.operator, "n_actual": build.n_actual}
        return cast(AuditDocument, found)

    def _withhold(self, attempt: Attempt, reasons: Sequence[Reason], audit: AuditDocument) -> Decision:
        """Refuse the cut, on the record. The ledger entry holds reasons and counts, nothing of the data."""
        shown: CutSection = {**documents.cut_section(attempt), "counts": dict(attempt.counts)}
        body = WithheldBody(texts(reasons), shown)
        self.account.append(WithheldEntry(publication=self.name, cut=attempt.cut, body=body))
        self.at(Failpoint.WITHHELD)
        return Decision(attempt.cut, "withheld", because=tuple(reasons), audit=cast(AuditDocument, {**audit, **shown}))

    def _seal(self, attempt: Attempt, judged: Candidate, because: Sequence[Reason], slot: Slot | None) -> Decision:
        """Files, seal, rename, publish; the attempt is withheld where its bytes or its moment do not hold."""
        candidate, audit = judged.candidate, judged.audit
        number = candidate.sequence
        public = self._manifest(judged.build, number, slot)
        self._complete(audit, attempt, judged.build)
        prepared, faults = self._write_files(attempt, judged, public, slot)
        if faults:
            self.store.quarantine(prepared)
            audit["gate"] = {"decision": "withheld", "reasons": faults}
            return self._withhold(attempt, [Reason("mechanism", fault) for fault in faults], audit)
        public["files"] = list(prepared.files)
        document: AuditDocument = {**public, **audit}
        temporary = self._keep(judged, document)
        self.at(Failpoint.FILES_WRITTEN)
        if slot is not None and slot.missed():
            self.store.quarantine(prepared)
            self.folder.discard(self.name)
            return self._withhold(attempt, [Reason("mechanism", LATE)], audit)
        seal = self._seal_row(attempt, number, prepared, temporary)
        self.at(Failpoint.SEALED)
        self._show(seal, prepared, public, slot)
        candidate.audit = document
        self.audience.append(candidate, seal)
        return Decision(attempt.cut, "sealed", seal.sequence, tuple(because), document)

    def _complete(self, audit: AuditDocument, attempt: Attempt, build: Build) -> None:
        """What audit.json says beside the measures: the cut, its counts, how resources are named."""
        audit["resources"] = documents.resources(self.account.resource_form, raw=self.spec.raw_resources)
        audit.update(cast(AuditDocument, documents.cut_section(attempt)))
        audit["counts"] = documents.accounting(attempt, build, self.spec.mechanism)

    def _write_files(
        self, attempt: Attempt, judged: Candidate, public: Manifest, slot: Slot | None
    ) -> tuple[Prepared, list[str]]:
        """The public files, durable and invisible, and what is wrong with them as they are read back."""
        build, mechanism = judged.build, self.spec.mechanism
        released, order = shuffled(build)
        writers = documents.writers(self.spec.formats, released, build, mechanism)
        started = time.monotonic()
        prepared = self.store.prepare(self.name, judged.candidate.sequence, writers, public)
        prepared = prepared if slot is None else replace(prepared, moment=slot.moment)
        self.stages["files"] = time.monotonic() - started
        faults = final_bytes.faults(
            prepared.tmp,
            self.spec.formats,
            build,
            mechanism,
            attempt.exposure,
            judged.candidate,
            dict(zip(released.case_ids, order.tolist(), strict=True)),
        )
        self.stages["read_back"] = time.monotonic() - started - self.stages["files"]
        return prepared, faults

    def _keep(self, judged: Candidate, document: AuditDocument) -> Path:
        """The operator's files, durable under a temporary name, on this host and in the mirror."""
        operator_files = {
            "audit.json": write_json(document),
            "variants.parquet": lambda path: variants.write(path, judged.candidate),
            "memory.json": write_json(judged.build.memory),
        }
        temporary = self.folder.prepare(self.name, operator_files)
        if self.mirror is not None:
            self.mirror.put_release(self.name, temporary.name, temporary)
        return temporary

    def _show(self, seal: SealEntry, prepared: Prepared, public: Manifest, slot: Slot | None) -> None:
        """Rename and publish the sealed release, now or when its moment comes."""
        number, temporary = seal.sequence, seal.body.operator
        if slot is not None and (self.waiting or not self.clock.due(slot.moment)):
            self.folder.commit(temporary, self.name, number)
            self.waiting[number] = seal
            return
        self.store.commit(prepared, number)
        self.folder.commit(temporary, self.name, number)
        self.at(Failpoint.RENAMED)
        self.announce(number, public)
        self.at(Failpoint.PUBLISHED)

    def _seal_row(self, attempt: Attempt, number: int, prepared: Prepared, temporary: Path) -> SealEntry:
        owner = uuid.uuid4().hex
        body = SealBody(
            files=prepared.files,
            manifest=prepared.manifest_sha256,
            temporary=prepared.name,
            operator=temporary.name,
            publish_at=prepared.moment,
            resources=self.account.resource_form,
            audience=self.audience.name,
        )
        entry = SealEntry(publication=self.name, cut=attempt.cut, sequence=number, owner=owner, body=body)
        standing = self.account.append(entry)
        if standing.owner != owner:
            self.store.quarantine(prepared)
            raise RefusedError(
                f"release {number} of {self.name} was sealed by another process; its bytes stand, ours are quarantined"
            )
        return standing

    def announce(self, number: int, public: Mapping[str, Any]) -> None:
        """Tell the world (topics, in the daemon) and remember that it was told."""
        if self.publish is not None:
            self.publish(self.name, number, public, self.store.location(self.name, number))
        self.account.append(PublishedEntry(publication=self.name, sequence=number))

    def _chain(self) -> Chain:
        """What ties the release to those before it: the digest of the last one's manifest, and how many numbers the
        process has sealed, this one included.

        Where nothing in the manifest may depend on the data, only releases that were paid for count elsewhere: how
        many of the others there are, the data decided.
        """
        standing = self.account.standing
        elsewhere = self.sealed_elsewhere(not self.spec.mechanism.reads_data_in_gate)
        return {
            "previous_manifest": self.account.seals[standing[-1]].body.manifest if standing else None,
            "releases": len(self.account.seals) + elsewhere + 1,
        }

    def _manifest(self, build: Build, number: int, slot: Slot | None) -> Manifest:
        standing = self.account.standing
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
                self.account.spent + self.spent_elsewhere(),
                self.spec.max_epsilon,
                self.spec.max_delta,
            ),
            chain=self._chain(),
            accepted_gaps=self.gaps_accepted,
            simulated=self.clock.simulated and (walls or (slot is not None and slot.simulated)),
        )
