"""The stages of one release, in order (values: `stream.release.stages`).

    inputs -> budget -> charge -> build -> audit -> gate -> files -> seal -> rename -> announce

With `approval = "required"` an attempt ends at the seal, and a person's decision continues it
(`stream.release.approval`).

The order is the guarantee (docs/guarantees.md). A release is never published twice with different bytes, and never
without a charge: the charge is durable before any noise is drawn, the seal is durable before anybody can see the bytes,
and a cut that has a decision is never decided again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from connectors.store.base import Store, check_unfinished
from models.anonymize.sensitive import (
    refuse_identifying,
    warnings_of_lost_values,
    warnings_of_no_values,
    warnings_of_values,
)
from models.dp.account import AccountedLoss, loss
from models.dp.budget import Charge, covers
from models.errors import (
    BoundError,
    InputError,
    RefusedError,
    TooFewCasesError,
    TooLargeError,
    UnavailableError,
    UnreadableError,
)
from models.instants import utc_text
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
    charge_entry,
)
from stream.ledger.folder import EndedBuild, OperatorFolder, StartedBuild, write_compact, write_json
from stream.ledger.layout import ASSESSMENT, AUDIT, MEMORY, VARIANTS
from stream.ledger.mirror import Mirror
from stream.ledger.release_record import ReleaseRecord
from stream.ledger.sqlite import Ledger
from stream.release import audit_document, gate, increments, public_files, repair
from stream.release.audience import Audience, Earlier
from stream.release.audits.anonymity import correspondence_audit
from stream.release.audits.comparison import forget
from stream.release.contract import Applicability, Attempt, Audit, AuditContext, Build, Decision, Exposure
from stream.release.documents import AuditDocument, Manifest
from stream.release.failpoints import Failpoint, Hook, nothing
from stream.release.manifest import manifest
from stream.release.once import PAID, refuse_other_terms
from stream.release.planned import BuiltBy, Place
from stream.release.public_view import as_released, released_resources, with_attributes
from stream.release.reason import Code, Reason, blocked, of_record, ruled
from stream.release.schedule import RealClock, ReleaseClock, Slot
from stream.release.sealed_memory import SEALED, opened_memory, sealed_memory
from stream.release.spec import PublicationSpec
from stream.release.stages import (
    Audited,
    Built,
    Charged,
    Judged,
    PublicContent,
    Published,
    ReleaseInputs,
    Sealed,
    Written,
)
from stream.values.duration import SECOND
from stream.values.paged import HEAP, ColumnFiles, drop_log_pages
from stream.values.pseudonym import Pseudonyms

log = logging.getLogger("veilstream")

LATE = "the build took longer than publish_after allows"
ENDED = "the build took longer than longest_build allows ({allowed:.0f} s): the process was ended after {seconds:.0f} s"

KILLED = (
    "the process was killed {starts} times while it built this cut ({cases} cases, {events} events): probably it had "
    "too little memory; give it more, or choose smaller windows"
)
KILLED_STARTS = 2
"""Starts of one build that may end by a kill. Another one would end in the same way, so that no publication goes on. A
single kill may have another cause than the build."""


class Publisher(Protocol):
    """Announces releases: on topics in the daemon. Nothing announces releases that are files only."""

    def __call__(self, publication: str, sequence: int, manifest: Mapping[str, Any], folder: str) -> None:
        """Announce a visible release, whose files are in `folder`."""


class _WithheldError(Exception):
    """The attempt is refused, with reasons and as much of the audit as was measured."""

    def __init__(self, reasons: Sequence[Reason], audit: AuditDocument | None = None) -> None:
        super().__init__(*(reason.text for reason in reasons))
        self.reasons, self.audit = reasons, audit


@dataclass
class Pipeline:
    """The tools of one publication, and the functions that make a stage of its releases from the one before.

    Attributes
    ----------
    spec
        Configuration of the publication.
    ledger, store, folder, mirror
        Storage of charges and seals, public files, and the operator's files and their replica.
    audience
        The series of releases that this publication's releases belong to.
    clock
        Decides when a release with a fixed delay becomes visible.
    publish
        Announces a release after its rename; None for releases that are files only.
    built_by
        Engine that builds in place of the mechanism, if there is one.
    at
        Called at each durable step, for tests of crashes.
    waiting
        Seals of releases whose moment has not come, by number.
    on_assess
        Called with the name of each attack of an assessment, before it runs.
    looser
        Terms that protect less than those of the last release (`stream.release.looser`): the next audits
        state them.
    """

    spec: PublicationSpec
    ledger: Ledger
    store: Store
    folder: OperatorFolder
    pseudonyms: Pseudonyms
    audience: Audience
    at: Hook = nothing
    publish: Publisher | None = None
    mirror: Mirror | None = None
    clock: ReleaseClock = field(default_factory=RealClock)
    built_by: BuiltBy | None = None
    waiting: dict[int, SealEntry] = field(default_factory=dict)
    on_assess: Callable[[str], None] = lambda _attack: None
    looser: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Open the account of the publication."""
        self.name = self.spec.name
        self.account = self.ledger.view.account(self.name)
        charges = self.account.charge_entries.values()
        refuse_other_terms(self.name, self.spec.once, (entry.body for entry in charges))

    @property
    def earlier(self) -> Earlier:
        """The releases that audits look back at: all of the audience."""
        return self.audience.earlier

    @property
    def spent(self) -> AccountedLoss:
        """Epsilon and delta of everything that was charged to the publication."""
        return loss(self.spec.accounting, self.account.spending, self.spec.gate.max_delta)

    @property
    def spent_by_process(self) -> AccountedLoss:
        """Epsilon and delta of everything that was charged to any publication of the process."""
        return loss(self.spec.accounting, self.ledger.view.spending, self.spec.max_delta)

    @property
    def releases_left(self) -> int | None:
        """Number of further releases that the budget can pay for; None if nothing limits them."""
        elsewhere = self.ledger.view.spending_elsewhere(self.name)
        spec = self.spec
        return gate.releases_left(
            spec.gate, spec.release_charge, self.account.spending, elsewhere, spec.process_limits, spec.accounting
        )

    @property
    def roles_shown(self) -> tuple[str, ...]:
        """The roles that the last release showed in place of resources."""
        try:
            last_audit = self.audience.last_audit(self.name)
            return tuple(last_audit.get("resources", {}).get("roles", ()))
        except UnreadableError:
            return ()  # the attempt reads the audit too, and refuses the cut

    @property
    def _pages(self) -> ColumnFiles | None:
        """Files for the columns of cuts and releases; None if these stay in the heap."""
        return None if self.built_by is None else self.built_by.pages

    def attempt(self, attempt: Attempt) -> Decision:
        """Decide one cut, durably.

        Called again for a decided cut (after a crash), it returns the same decision. If cases wait for a release, those
        that a release has shown are left out, such as those of a held release that was approved since the last cut.
        """
        earlier_decision = self.decided(attempt.cut)
        if earlier_decision is not None:
            return earlier_decision
        if not self.spec.waits:
            return self._decide(attempt)
        waiting = attempt.exposure.log.case_ids
        try:
            shown = self.audience.newly_shown(waiting)
        except UnreadableError as lost:
            return self._pause(attempt, lost)
        decision = self._decide(replace(attempt, exposure=attempt.exposure.without(shown)))
        shown += self.audience.newly_shown(waiting)  # by this decision
        return replace(decision, shown=shown)

    def _decide(self, attempt: Attempt) -> Decision:
        """Decide a cut that has no decision yet, and whose log has no case that must not be shown."""
        ended = self.folder.ended_build()
        if ended is not None and ended.cut == attempt.cut:
            return self._withhold_ended(attempt, ended)
        starts = self._killed_starts(attempt.cut)
        if starts >= KILLED_STARTS:
            return self._withhold_killed(attempt, starts)
        if self.account.held and self.spec.hold == "block":
            # Before any charge: an earlier release waits for a person.
            held_number = self.account.held[0]
            return self._withhold(attempt, [blocked(self.name, held_number)], waits_for=held_number)
        self._check_space()
        self.at(Failpoint.OPENED)
        # A crash before the seal leaves at most a charge and temporary files. The next attempt of the cut reuses the
        # charge, and recovery sets the files aside.
        try:
            inputs = self.audience.inputs(self.name, self.spec.mechanism)
            self._refuse_over_budget(attempt, inputs)
            charged = self._charge(attempt, inputs)
            with self._counted_start(attempt.cut):
                built = self._build(charged)
                audited = self._audit(built)
                judged = self._judge(audited)
            written = self._write(judged)
        except _WithheldError as refusal:
            return self._withhold(attempt, refusal.reasons, refusal.audit)
        except UnreadableError as lost:
            return self._pause(attempt, lost)
        # From the seal on the ledger has the decision, and recovery finishes what a crash interrupts.
        sealed = self._seal(written)
        reasons = tuple(audited.reasons)
        if self.spec.approval:
            self._hold(sealed)
            return Decision(attempt.cut, "held", written.number, reasons, written.audit)
        if self._is_early(charged.slot):
            self._wait(sealed)
        else:
            self.announce(self._rename(sealed))
            self.at(Failpoint.PUBLISHED)
        self.audience.append(judged.audited.record, written.audit, sealed.seal, judged.audited.build)
        return Decision(attempt.cut, "sealed", written.number, reasons, written.audit)

    # builds that end the process

    def _killed_starts(self, cut: str) -> int:
        """Return how many processes in a row were killed while they built a cut."""
        started = self.folder.started_build()
        return started.starts if started is not None and started.cut == cut else 0

    @contextmanager
    def _counted_start(self, cut: str) -> Iterator[None]:
        """Note on disk that a build runs, until it ends with a result or an error.

        The kernel kills a process that has too little memory, without an error. The note is then left for the next
        start. The daemon alone counts: its service manager starts it again, and a person starts a replay again.
        """
        if self.spec.intake != "records":
            yield
            return
        self.folder.note_started_build(StartedBuild(cut, self._killed_starts(cut) + 1))
        try:
            yield
        except MemoryError:
            raise  # the note is left: the next start would end in the same way
        except BaseException:
            self.folder.forget_started_build()
            raise
        self.folder.forget_started_build()

    # before anything is charged

    def _check_space(self) -> None:
        free = self.store.free_bytes()
        if free is not None and free < self.spec.min_free_bytes:
            raise UnavailableError(
                f"{self.folder.output}: {free} bytes are free, a release needs min_free_bytes = "
                f"{self.spec.min_free_bytes}; free some space and start again"
            )

    def _refuse_over_budget(self, attempt: Attempt, inputs: ReleaseInputs) -> None:
        """Refuse a draw that the budget or a leakage bound does not allow. It reads the ledger alone.

        A charge that a crashed attempt of this cut left is reused, not added.
        """
        spec, account = self.spec, self.account
        if spec.is_paid_once and account.redraws[attempt.cut]:
            raise _WithheldError([Reason("mechanism", PAID)])
        before, after = account.spending_with(attempt.cut, spec.release_charge)
        ledger_facts = {
            "charges": list(account.charges.values()),
            "policy": spec.gate,
            "audits": inputs.previous_audit,
            "spent": before.summed,
        }
        added = after.summed - before.summed
        leakage = [reason for audit in spec.audits for reason in audit.before_noise(ledger_facts, added)]
        reasons = gate.before_noise(spec.gate, before, after, leakage, spec.accounting)
        elsewhere = inputs.spending_elsewhere
        reasons += gate.over_process_limits(
            spec.process_limits, elsewhere.together(before), elsewhere.together(after), spec.accounting
        )
        if reasons:
            raise _WithheldError(reasons)

    # charge

    def _charge(self, attempt: Attempt, inputs: ReleaseInputs) -> Charged:
        """Commit the charge of the cut, if the mechanism has one, before any noise is drawn."""
        reasons = self._commit_charge(attempt.cut)
        self.at(Failpoint.CHARGED)
        if reasons:
            raise _WithheldError(reasons)
        # After the charge: in the daemon its record has just reported the broker's time.
        delay = self.spec.delay
        slot = None if delay is None else self.clock.slot(attempt.moment, delay)
        return Charged(attempt, inputs, list(self.account.charges.values()), self.account.spending, slot)

    def _commit_charge(self, cut: str) -> list[Reason]:
        """Append the charge; return reasons to refuse if the ledger keeps an earlier, smaller charge of the cut.

        A crashed attempt left it, and the configuration has changed since. The old charge would not pay for noise
        under the new terms.
        """
        charge = self.spec.mechanism.charge()
        if charge == Charge():
            return []
        once, redraw = self.spec.once, self.account.redraws[cut]
        entry = charge_entry(self.name, cut, charge, redraw, self.spec.accounting, self.spec.draws)
        if once is not None:
            entry = once.with_terms(entry)
        # The ledger keeps the first charge of a cut, so this may be that of a crashed attempt.
        committed = self.ledger.append(entry).body
        if committed.scope and (once is None or not once.matches(committed)):
            text = f"{self.name}: an attempt under other terms has charged this cut; the next cut is charged again"
            return [Reason("mechanism", text)]
        paid = committed.charge
        amounts: tuple[tuple[Code, Fraction, Fraction], ...] = (
            ("epsilon", paid.epsilon, charge.epsilon),
            ("delta", paid.delta, charge.delta),
            ("epsilon", paid.rho, charge.rho),
        )
        reasons = []
        for code, charged, needed in amounts:
            if needed > charged:
                text = (
                    f"{code}: {float(needed):g} is needed, but an attempt under another configuration has charged "
                    f"this cut {float(charged):g}; the next cut is charged again"
                )
                reasons.append(Reason(code, text, charged, needed))
        if not reasons and not covers(committed.noise, self.spec.draws):
            text = f"{self.name}: an attempt with other noise has charged this cut; the next cut is charged again"
            reasons.append(Reason("mechanism", text))
        return reasons

    # build

    def _build(self, charged: Charged) -> Built:
        """Anonymize what the cut exposes."""
        started = time.monotonic()
        try:
            anonymized = self._anonymized(charged)
            build = as_released(
                anonymized,
                charged.attempt.exposure,
                self.spec,
                self.pseudonyms,
                charged.inputs.resource_form,
            )
        except TooFewCasesError as error:
            raise _WithheldError([Reason("cases", f"cases: not enough yet ({error})")]) from error
        except BoundError as error:
            raise _WithheldError([Reason("mechanism", str(error))]) from error
        except InputError as error:
            if self.spec.mechanism.reads_data_in_gate:
                raise
            # Noise was paid for, or the log has no events. If the process ended here, its end would reveal the data
            # that caused it, and the next start would end in the same way.
            raise _WithheldError([Reason("mechanism", str(error))]) from error
        built = Built(charged, build, {"build": time.monotonic() - started})
        self.at(Failpoint.BUILT)
        return built

    def _anonymized(self, charged: Charged) -> Build:
        """Let the mechanism, or the engine in its place, build. BoundError if no release can keep the promise."""
        spec, inputs = self.spec, charged.inputs
        mechanism = spec.mechanism
        exposure = replace(charged.attempt.exposure, publication=self.name, number=inputs.number)
        memory = None if inputs.memory is None else inputs.memory.for_build(mechanism, self.name)
        if isinstance(memory, dict) and SEALED in memory:
            memory = opened_memory(memory, self.pseudonyms.memory_key)
        if mechanism.releases_attributes:
            # Not for dp mechanisms: they release no attribute, and a refusal would read the data.
            try:
                refuse_identifying(exposure.log, exposure.linked, getattr(mechanism, "bins", None))
            except InputError as error:
                raise BoundError(str(error)) from None
        if self.built_by is not None:
            place = Place(self.name, inputs.number, charged.attempt.cut)
            return self.built_by(place, mechanism, exposure, memory)
        if spec.accumulation is None:
            return mechanism.build(exposure, memory)
        build = mechanism.build_series(exposure, memory, spec.accumulation, inputs.number)
        if not spec.accumulation.factorized:
            return build
        # A reader of the memory can remove the correlated noise from everything that was published.
        return replace(build, memory=sealed_memory(build.memory, self.pseudonyms.memory_key))

    # audit

    def _audit(self, built: Built) -> Audited:
        """Measure the build against all earlier releases of the audience, and judge it by the gate."""
        attempt, inputs, build = built.attempt, built.charged.inputs, built.build
        record = _candidate(build, attempt.exposure, self.name, inputs.number)
        exposed = released_resources(attempt.exposure.log, self.spec, self.pseudonyms, inputs.resource_form)
        context = AuditContext(
            candidate=record,
            # No case is in two releases of such a series, and no other publication goes to its audience.
            earlier=() if self.spec.waits else inputs.earlier,
            build=build,
            exposure=replace(attempt.exposure, log=exposed),
            mechanism=self.spec.mechanism,
            charges=built.charged.charges,
            counts=attempt.counts,
            spent=built.charged.spending.summed,
            once=self.spec.once,
            erased=inputs.erased,
            erased_releases=inputs.erased_releases,
            previous_audit=inputs.previous_audit,
        )
        results: dict[str, Mapping[str, Any]] = {}
        seconds = dict(built.seconds)
        for audit in self.spec.audits:
            started = time.monotonic()
            try:
                results[audit.name] = section_of(audit, context, results)
            except TooLargeError as error:
                forget(record)
                # If the process ended here, each start would end in the same way, and no publication would go on.
                raise _WithheldError([of_record(f"{audit.name}: not measured ({error})")]) from error
            seconds[audit.name] = time.monotonic() - started
            if self._pages is not None:
                drop_log_pages(exposed)
                drop_log_pages(record.log)
        forget(record)
        sections = {**results, "suppressed": [], **build.operator, "n_actual": build.n_actual}
        measures = cast(AuditDocument, sections)
        return Audited(built, record, measures, gate.after_audit(self.spec.gate, measures), seconds)

    # gate

    def _judge(self, audited: Audited) -> Judged:
        """Let the candidate pass, repaired if the policy permits it, or refuse it."""
        policy = self.spec.gate
        needs_repair = bool(audited.reasons) and policy.on_violation == "repair"
        candidate = self._repaired(audited) if needs_repair else audited
        if candidate.reasons and policy.on_violation != "warn":
            measures = audit_document.measured(candidate, policy.bounds, candidate.seconds)
            raise _WithheldError(candidate.reasons, measures)
        if needs_repair:
            return Judged(candidate, "repaired", audited.reasons)
        if candidate.reasons:
            return Judged(candidate, "warned", candidate.reasons)
        return Judged(candidate, "passed", ())

    def _repaired(self, first: Audited) -> Audited:
        """Suppress more until the gate passes the candidate, or return it with the reasons that are left."""
        attacks = correspondence_audit(self.spec.audits)
        if attacks is None:
            return first
        built = first.built
        exposure, inputs = built.attempt.exposure, built.charged.inputs

        def audit(build: Build) -> Audited:
            released = as_released(build, exposure, self.spec, self.pseudonyms, inputs.resource_form)
            return self._audit(replace(built, build=released))

        return repair.walk(first, self.spec.mechanism, exposure, self.spec.gate, attacks, inputs.earlier, audit)

    # files

    def _write(self, judged: Judged) -> Written:
        """Write the release and the operator's files under temporary names, durably, and read the release back."""
        audited, spec = judged.audited, self.spec
        charged, build = audited.built.charged, audited.build
        seconds = dict(audited.seconds)
        content = PublicContent(build, audited.record)
        if spec.increments:
            content = increments.content_of(audited, spec.formats)
        public = self._manifest(build, charged, content)
        released, order = public_files.shuffled(content.build, self._pages)
        source_of_case = dict(zip(released.case_ids, order.tolist(), strict=True))
        writers = public_files.writers(spec.formats, released, content.build, spec.mechanism)

        started = time.monotonic()
        prepared = self.store.prepare(self.name, charged.inputs.number, writers, public, held=spec.approval)
        if charged.slot is not None:
            prepared = replace(prepared, moment=charged.slot.moment)
        del released, order, writers  # as large as the release, which is now read again
        seconds["files"] = time.monotonic() - started

        started = time.monotonic()
        exposure = charged.attempt.exposure
        faults = public_files.faults(
            prepared.tmp,
            spec.formats,
            content.build,
            spec.mechanism,
            exposure,
            content.record,
            source_of_case,
            self._pages or HEAP,
        )
        seconds["read_back"] = time.monotonic() - started
        if faults:
            check_unfinished(prepared.tmp)  # a folder that somebody removed is not a fault of the mechanism
            self.store.quarantine(prepared)
            reasons = [Reason("mechanism", fault) for fault in faults]
            audit = audit_document.full_audit(judged, "withheld", reasons, seconds, spec)
            raise _WithheldError(reasons, audit)

        announced: Manifest = {**public, "files": list(prepared.files)}
        audit = audit_document.full_audit(judged, judged.decision, judged.reasons, seconds, spec)
        document = self._document(announced, audit, exposure)
        operator_files = self._write_operator_files(audited, document)
        if spec.approval and self.mirror is not None:
            self.mirror.put_held(self.name, prepared.name, prepared.tmp)
        self.at(Failpoint.FILES_WRITTEN)
        # A release that comes later than its moment would reveal how long its build took, and that depends on data.
        if charged.slot is not None and charged.slot.missed():
            self.store.quarantine(prepared)
            self.folder.discard(self.name)
            raise _WithheldError([Reason("mechanism", LATE)], audit)
        return Written(judged, prepared, operator_files, announced, document)

    def _document(self, announced: Manifest, audit: AuditDocument, exposure: Exposure) -> AuditDocument:
        """Return `audit.json`: manifest and audit, with warnings that only the operator reads."""
        document: AuditDocument = {**announced, **audit}
        if self.spec.bounded:
            document["bounded"] = list(self.spec.bounded)
            doubts = self._doubts(exposure)
            if doubts:
                document["doubts"] = doubts
        if self.looser:
            document["looser"] = list(self.looser)
        return document

    def _doubts(self, exposure: Exposure) -> list[str]:
        """Return warnings about the values of the sensitive attributes that C bounds."""
        spec = self.spec
        doubts = warnings_of_no_values(exposure.log, spec.bounded)
        if exposure.cases is None:  # a table of variants has no order of cases
            K = getattr(spec.mechanism, "K", 1)
            doubts += warnings_of_lost_values(exposure.log, spec.bounded, K, exposure.complete)
        bins = getattr(spec.mechanism, "bins", None)
        return doubts + warnings_of_values(exposure.log, spec.bounded, bins, exposure.cases)

    def _manifest(self, build: Build, charged: Charged, content: PublicContent) -> Manifest:
        slot, window = charged.slot, self.spec.window
        published = time.time() if slot is None else slot.moment // SECOND
        has_wall_windows = window.every is not None and window.time == "wall"
        has_simulated_slot = slot is not None and slot.simulated
        return manifest(
            self.spec,
            charged,
            build,
            content,
            published=utc_text(published),
            accepted_gaps=self.gaps_accepted,
            simulated=self.clock.simulated and (has_wall_windows or has_simulated_slot),
        )

    def _write_operator_files(self, audited: Audited, document: AuditDocument) -> Path:
        """Write what later audits and builds need of the release: here, and in the mirror."""
        record = audited.record
        operator_files = {
            AUDIT: write_json(document),
            VARIANTS: lambda path: release_record.write(path, record),
            MEMORY: write_compact(audited.build.memory),
        }
        if self.spec.assess:
            operator_files[ASSESSMENT] = write_json(self._assessment(audited.built))
        temporary = self.folder.prepare(self.name, operator_files)
        if self.mirror is not None:
            self.mirror.put_release(self.name, temporary.name, temporary)
        return temporary

    def _assessment(self, built: Built) -> Mapping[str, Any]:
        """Return the attacks on held-out cases of the cut, or why they could not be run.

        They refuse nothing: whatever goes wrong here stops no release. Nothing of the halves leaves, so their noise
        costs no epsilon.
        """
        from stream.release import held_out  # the attacks import much that no other release needs

        exposure, form = built.attempt.exposure, built.charged.inputs.resource_form
        named = replace(exposure, log=released_resources(exposure.log, self.spec, self.pseudonyms, form))

        def finish(build: Build, part: Exposure) -> Build:
            return with_attributes(build, self.spec.attributes, part, self.spec.mechanism)

        return held_out.document(
            self.spec.mechanism, named, finish, seed=built.charged.inputs.number, on_step=self.on_assess
        )

    # seal

    def _seal(self, written: Written) -> Sealed:
        """Commit the seal: from here on the number belongs to these bytes."""
        sealed = Sealed(written, self._append_seal(written))
        self.at(Failpoint.SEALED)
        return sealed

    def _append_seal(self, written: Written) -> SealEntry:
        prepared, inputs = written.prepared, written.charged.inputs
        plan = written.judged.audited.build.plan
        owner = uuid.uuid4().hex
        body = SealBody(
            files=prepared.files,
            manifest=prepared.manifest_sha256,
            temporary=prepared.name,
            operator=written.operator_files.name,
            publish_at=prepared.moment,
            resources=inputs.resource_form,
            audience=self.audience.name,
            held_at=self.clock.now() if self.spec.approval else None,
            plan=None if plan is None else self.pseudonyms.plan(plan),
        )
        cut = written.charged.attempt.cut
        entry = SealEntry(publication=self.name, cut=cut, sequence=written.number, owner=owner, body=body)
        committed = self.ledger.append(entry)
        # Another process that took this one's place sealed the number first: its bytes count.
        if committed.owner != owner:
            self.store.quarantine(prepared)
            raise RefusedError(
                f"release {written.number} of {self.name} was sealed by another process; its bytes are the "
                "release, ours are quarantined"
            )
        return committed

    # hold, wait, or rename and announce

    def _hold(self, sealed: Sealed) -> None:
        """Leave a sealed release with the operator until a person decides.

        No audit looks back at it and no build continues its memory, since nobody has seen it.
        """
        self._commit_operator_files(sealed)
        self.at(Failpoint.HELD)

    def _is_early(self, slot: Slot | None) -> bool:
        """Return whether the moment of a release has not come, or an earlier release still waits for its moment."""
        return slot is not None and (bool(self.waiting) or not self.clock.due(slot.moment))

    def _wait(self, sealed: Sealed) -> None:
        """Keep a sealed release back until its moment (`stream.release.recovery.publish_due`)."""
        self._commit_operator_files(sealed)
        self.waiting[sealed.written.number] = sealed.seal

    def _rename(self, sealed: Sealed) -> Published:
        """Make the release visible."""
        written = sealed.written
        check_fence = partial(self.check_fence, written.number)
        self.store.commit(written.prepared, written.number, check_fence=check_fence)
        self._commit_operator_files(sealed)
        self.at(Failpoint.RENAMED)
        return Published(written.number, written.manifest)

    def check_fence(self, number: int) -> None:
        """Raise TakenOverError if another coordinator has taken over since the release was sealed.

        A fence is found only by an append, so this leaves a note in the ledger.
        """
        self.ledger.append(NoteEntry(publication=self.name, body=NoteBody(publishing=number)))

    def _commit_operator_files(self, sealed: Sealed) -> None:
        self.folder.commit(sealed.written.operator_files.name, self.name, sealed.written.number)

    def announce(self, published: Published) -> None:
        """Announce a visible release (on topics, in the daemon), then record that in the ledger.

        A crash between the two announces it again at the next start, so consumers may see an announcement twice, and
        never miss one.
        """
        if self.publish is not None:
            location = self.store.location(self.name, published.number)
            self.publish(self.name, published.number, published.manifest, location)
        self.ledger.append(PublishedEntry(publication=self.name, sequence=published.number))

    # refused cuts

    def _withhold_ended(self, attempt: Attempt, ended: EndedBuild) -> Decision:
        """Refuse the cut because of which an earlier process has ended: its build would take too long again."""
        text = ENDED.format(allowed=ended.allowed, seconds=ended.seconds)
        decision = self._withhold(attempt, [Reason("mechanism", text)])
        self.folder.forget_ended_build()
        return decision

    def _withhold_killed(self, attempt: Attempt, starts: int) -> Decision:
        """Refuse the cut during whose build earlier processes were killed."""
        source = attempt.exposure.log
        text = KILLED.format(starts=starts, cases=source.n_cases, events=source.n_events)
        decision = self._withhold(attempt, [Reason("mechanism", text)])
        self.folder.forget_started_build()
        return decision

    def _pause(self, attempt: Attempt, lost: UnreadableError) -> Decision:
        """Refuse the cut of a publication that lost a file of an earlier release. Other publications continue."""
        log.error(
            "%s is paused: %s, and put it back; its cuts are refused until then, others continue", self.name, lost
        )
        reason = Reason("mechanism", f"{lost}, and put it back: the next cut continues")
        return self._withhold(attempt, [reason])

    def _withhold(
        self,
        attempt: Attempt,
        reasons: Sequence[Reason],
        audit: AuditDocument | None = None,
        *,
        waits_for: int = 0,
    ) -> Decision:
        """Refuse the cut, on the record. The ledger entry holds reasons and counts, nothing of the data.

        Parameters
        ----------
        attempt, reasons
            The attempt, and why it is refused.
        audit
            Measures from before the refusal; None if there are none.
        waits_for
            Number of the held release that the cut waits for; 0 if it waits for none.
        """
        section: CutSection = {**audit_document.cut_section(attempt), "counts": dict(attempt.counts)}
        body = WithheldBody([reason.text for reason in reasons], section)
        self.ledger.append(WithheldEntry(publication=self.name, cut=attempt.cut, body=body, waits_for=waits_for))
        self.at(Failpoint.WITHHELD)
        measured = AuditDocument() if audit is None else audit
        document = cast(AuditDocument, {**measured, **section})
        return Decision(attempt.cut, "withheld", because=tuple(reasons), audit=document)

    # records of earlier decisions

    def decided(self, cut: str) -> Decision | None:
        """Return the durable decision on a cut, if there is one."""
        account = self.account
        if cut in account.withheld:
            body = account.withheld[cut].body
            reasons = [of_record(text) for text in body.reasons]
            return Decision(cut, "withheld", because=reasons, audit=cast(AuditDocument, body.audit))
        seal = account.sealed_cuts.get(cut)
        if seal is None:
            return None
        number = seal.sequence
        if number in account.rejected:
            # Only the host that held the release has its audit.
            is_here = self.folder.release(self.name, number).exists()
            audit = self.audit_of(number) if is_here else AuditDocument()
            reason = Reason("held", ruled(account.rulings[number].body))
            return Decision(cut, "rejected", number, [reason], audit)
        try:
            audit = self.audit_of(number)
        except UnreadableError as lost:  # the decision is in the ledger and does not depend on the audit
            log.error("release %d of %s: %s", number, self.name, lost)
            audit = AuditDocument()
        reasons = [of_record(text) for text in audit.get("gate", {}).get("reasons", ())]
        status: Literal["held", "sealed"] = "held" if number in account.held else "sealed"
        return Decision(cut, status, number, reasons, audit)

    def audit_of(self, sequence: int) -> AuditDocument:
        """Return audit.json of a sealed release."""
        return audit_document.read_audit(self.folder.release(self.name, sequence))

    @property
    def gaps_accepted(self) -> int:
        """Number of gaps that the operator has accepted."""
        return len(self.account.gaps)

    def accept_gap(self, position: int, missing: Sequence[str]) -> None:
        """Record that the operator accepted the loss of some events. Manifests state how often that happened."""
        body = NoteBody(gap=position, missing=tuple(missing))
        self.ledger.append(NoteEntry(publication=self.name, body=body))


def section_of(audit: Audit, context: AuditContext, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of an audit in `audit.json`: its measures, or why they do not apply to the build.

    Parameters
    ----------
    audit
        The audit.
    context
        The candidate, and what it is compared with.
    results
        Sections of the audits that came before this one, by name.
    """
    applies = context.build.applies.get(audit.name, Applicability())
    if applies.status == "not_applicable":
        return {"status": applies.status, "reason": applies.reason, **audit.unmeasured(context)}
    return dict(audit.measure(context, results))


def _candidate(build: Build, exposure: Exposure, publication: str, number: int) -> ReleaseRecord:
    """Return the candidate as audits see it: with the pseudonyms of its source cases in place of case ids."""
    ids = tuple("" if case < 0 else exposure.log.case_ids[case] for case in build.origin)
    log = replace(build.log, case_ids=ids)
    return ReleaseRecord(number, log, build.carries, build.T, exposure.linked, publication=publication)
