"""The release service: every publication's pipeline over one ledger, one store and one operator folder.

Replay and daemon pass the cuts of the fold to it. It makes an attempt of each cut and returns the decision of the
publication's pipeline.

* Opening: recover what a crash left, then read the earlier releases that audits need.
* `rules`: the rules of the fold, from the configuration.
* `decide`: one cut, through the pipeline of its publication. `attempt` and `decide_attempt` are its two halves: the
  first reads the fold, the second does not. `rule` and `obey`: a person's decision on a held release.
* `checkpoint`, `fold_of`: save and restore the fold. `erase`: remove cases from all of it.
* `audit_of`: the audit of a release. `stream.run.figures` derives figures from them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from connectors.files import FileOps
from connectors.store.blobs import open_blobs
from connectors.store.open import open_store
from connectors.times import offsets
from models.anonymize.values import written
from models.errors import InputError, RefusedError
from models.eventlog import Column, EventLog
from stream.config.lint import PLAIN_ENGINE_FILES
from stream.config.settings import Publication, Settings
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Cut, Delta, with_resources
from stream.fold.rules import FoldRules, LogFacts, PublicationRules
from stream.ledger.archive import Archive
from stream.ledger.checkpoints import CURRENT, Checkpoints, SavedState
from stream.ledger.entries import NoteBody, NoteEntry
from stream.ledger.folder import OperatorFolder, make_private
from stream.ledger.layout import ARCHIVE, AUDIT, CHECKPOINTS, OPERATOR
from stream.ledger.mirror import Mirror, open_mirror
from stream.ledger.sqlite import Ledger, SqliteLedger, refuse_other_accounting
from stream.ledger.view import Account
from stream.release.approval import PersonDecision, decide
from stream.release.audience import Audience, reach, refuse_apart
from stream.release.audit_document import AuditPart, read_audit
from stream.release.contract import Attempt, Decision, DecisionOutcome, Exposure, ReleaseObserver
from stream.release.documents import AuditDocument
from stream.release.erasure import ErasureReport, erase, finish
from stream.release.failpoints import Failpoint, Faults
from stream.release.looser import changes_cases, discontinued, keeps_approval, last_seal, looser_terms
from stream.release.once import was_paid
from stream.release.pipeline import Pipeline, Publisher
from stream.release.planned import BuiltBy
from stream.release.public_view import GROUP, with_roles
from stream.release.recovery import compare, publish_due, recover, supersede
from stream.release.schedule import RealClock, ReleaseClock
from stream.release.spec import Intake
from stream.run.data_warnings import DataWarnings
from stream.run.keeper import StateKeeper
from stream.values.memory import Bytes
from stream.values.paged import HEAP, ColumnPlace
from stream.values.pseudonym import Pseudonyms, key_from_text

log = logging.getLogger("veilstream")

OpenLedger = Callable[[Path, str], tuple[Ledger, Publisher | None]]
"""Opens a ledger, given the path of its file and the name of the process. Returns the ledger, and the publisher that
announces its releases, if there is one."""


def local_ledger(path: Path, process: str) -> tuple[Ledger, Publisher | None]:
    """Open a ledger of this host alone; nothing is announced.

    Raises
    ------
    RefusedError
        If the ledger of a folder that was used before is missing. A new one would state that nothing was released.
    """
    folder = path.parent
    was_used = (folder / CHECKPOINTS / CURRENT).exists() or any(folder.glob(f"*/*/{AUDIT}"))
    if was_used and not path.exists():
        raise RefusedError(
            f"{path}: is missing, and the folder has releases or a saved state: restore the ledger (with -wal and "
            "-shm, if there are such files) from a backup, or choose another folder"
        )
    return SqliteLedger(path, process), None


@dataclass(frozen=True)
class ProcessContext:
    """The process in which a release service runs: a daemon, a replay, or a command on a folder (the default).

    Attributes
    ----------
    clock
        Decides when releases with a fixed delay become visible.
    intake
        How events came in. The promise of epsilon in a manifest begins with it.
    open_ledger
        Opens the ledger, and returns what announces releases.
    mirrored
        Whether a replica of the operator's files is kept in the store, if one is configured (the daemon).
    """

    clock: ReleaseClock = field(default_factory=RealClock)
    intake: Intake = "log"
    open_ledger: OpenLedger = local_ledger
    mirrored: bool = False


class ReleaseService:
    """Ledger, store, operator folder and the pipelines of all publications.

    Opening it recovers what a crash left; `close` unlocks the folder.

    Parameters
    ----------
    settings, output
        Configuration, and the folder of the process.
    context
        Clock, intake and ledger of the process. By default those of a command on the folder.
    watch
        Follows decisions, for metrics.
    built_by
        Engine that builds in place of the mechanisms.
    assess
        Whether attacks on held-out cases are run before each release of all publications.
    on_assess
        Called with the name of each attack of such an assessment, before it runs.
    faults
        Faults that a test injects.
    """

    def __init__(
        self,
        settings: Settings,
        output: Path,
        *,
        context: ProcessContext = ProcessContext(),
        watch: ReleaseObserver | None = None,
        built_by: BuiltBy | None = None,
        assess: bool = False,
        on_assess: Callable[[str], None] = lambda _attack: None,
        faults: Faults = Faults(),  # noqa: B008 - frozen
    ) -> None:
        self.settings, self.at, self.watch = settings, faults.at, watch
        self.place: ColumnPlace = HEAP if built_by is None else built_by.pages
        self._data_warnings = DataWarnings(settings.process.sensitive)
        self.clock = context.clock
        ops = faults.ops
        # If a later step fails, this closes the ledger and unlocks the folder: the process may try again.
        with ExitStack() as opened:
            # Files of the operator, public store, and copies of both elsewhere.
            self.folder = OperatorFolder(output, ops)
            opened.callback(self.folder.close)
            self.pseudonyms = Pseudonyms(self._key())
            self.checkpoints = _checkpoints(self.folder, settings)
            self.store = open_store(settings.store or output, ops, self.folder.path)
            self.mirror = mirror_of(settings, output, ops) if context.mirrored else None
            self.archive = archive_of(settings, output, self.mirror, faults)
            if self.mirror is not None:
                # Segments that were written before the mirror was configured.
                self.archive.move_from(open_blobs(output, OPERATOR, ops))
            self._warn_of_kept_archive()
            if built_by is not None and settings.checkpoint_key is not None:
                log.warning("%s", PLAIN_ENGINE_FILES)
            self.keeper = StateKeeper(self.checkpoints, archive=self.archive)

            # The ledger. Nothing may be charged to one that counts in another way, or that lacks releases of the store:
            # both are refused before the pipelines exist.
            self.ledger, publish = context.open_ledger(self.folder.ledger, settings.process.name)
            opened.callback(self.ledger.close)
            refuse_other_accounting(settings.process.name, settings.process.budget.accounting, self.ledger.view)
            configured = [publication.name for publication in settings.publication]
            compare(self.ledger, self.store, settings.process.name, configured)

            # A pipeline for each publication.
            self.former = self._former()
            self.audiences = self._audiences()
            audience_of = {name: audience for audience in self.audiences for name in audience.members}
            self.pipelines = dict[str, Pipeline]()
            for publication in settings.publication:
                spec = replace(settings.spec(publication), intake=context.intake, assess=assess or publication.assess)
                self.pipelines[publication.name] = Pipeline(
                    spec=spec,
                    ledger=self.ledger,
                    store=self.store,
                    folder=self.folder,
                    pseudonyms=self.pseudonyms,
                    audience=audience_of[publication.name],
                    at=self.at,
                    publish=publish,
                    mirror=self.mirror,
                    clock=self.clock,
                    built_by=built_by,
                    on_assess=on_assess,
                )

            self._recover()
            self._warn_of_looser_terms()
            self._keep_configuration()
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close the ledger and unlock the folder."""
        self._opened.close()

    # opening

    def _key(self) -> bytes:
        """Return the pseudonym key: of the configuration, or of the folder, which makes one on first use."""
        if self.settings.key is None:
            return self.folder.key()
        return key_from_text(self.settings.key.get_secret_value())

    def _recover(self) -> None:
        """Finish what a crash left, and read the releases that audits look back at.

        Recovery and the mirror bring the operator's files of earlier releases. Audits read these files, and an erasure
        that a crash left unfinished needs them too.
        """
        for pipeline in self.pipelines.values():
            recover(pipeline)
        self.check_mirror(contents=True)
        self._read_earlier()
        finish(self)

    def _former(self) -> list[Account]:
        """Return the accounts of publications that the configuration no longer names.

        A renamed publication has an account under its former name.
        """
        configured = {publication.name for publication in self.settings.publication}
        accounts = self.ledger.view.accounts
        former = [name for name, account in accounts.items() if account.charges or account.seals]
        return [accounts[name] for name in sorted(set(former) - configured)]

    def _audiences(self) -> list[Audience]:
        """Make one series for each audience, over its publications whose records are cases.

        Each of the other publications has a series of its own.
        """
        members_of: dict[str, list[Publication]] = {}
        unlinked = []
        for publication in self.settings.publication:
            if publication.build_mechanism.perspective is None:
                unlinked.append(publication)
            else:
                members_of.setdefault(publication.audience, []).append(publication)
        series = [self._audience(name, members) for name, members in members_of.items()]
        return [*series, *(self._audience(None, [publication]) for publication in unlinked)]

    def _audience(self, name: str | None, members: Sequence[Publication]) -> Audience:
        repairs = any(publication.gate.on_violation == "repair" for publication in members)
        max_lookback: int | None
        if name is None:  # none of its records is a case: nothing links one release with another
            max_lookback = 1
        elif any(publication.waits for publication in members):  # no case is in two releases
            max_lookback = 0
        elif repairs:
            max_lookback = None  # a repair compares with all earlier releases
        else:
            max_lookback = reach(audit for publication in members for audit in publication.build_audits)
        names = [publication.name for publication in members]
        return Audience(name, names, self.ledger, self.folder, max_lookback=max_lookback, mirror=self.mirror)

    def _read_earlier(self) -> None:
        """Read the releases that audits look back at."""
        publications = self.settings.publication
        sharing = {member.name for member in publications if member.build_mechanism.shares_memory}
        for audience in self.audiences:
            if audience.name is not None:
                refuse_apart(audience.seals, audience.name, sharing.intersection(audience.members))
            # The property reads the files: a release that cannot be read is reported at the start, and not only with
            # the next cut.
            _ = audience.earlier

    # terms of a publication, compared with those of its last release

    def _warn_of_looser_terms(self) -> None:
        """Log the terms that protect less than those of the last release, and an approval that was dropped."""
        for publication in self.settings.publication:
            pipeline = self.pipelines[publication.name]
            why_ended = self._compare_terms(publication)
            if why_ended is not None:
                log.warning("%s: %s", publication.name, why_ended)
            if pipeline.looser:
                sentences = "; ".join(pipeline.looser)
                log.warning("%s: looser than its last release: %s", publication.name, sentences)
            if pipeline.spec.approval and publication.approval == "none":
                log.warning(
                    "%s: its releases needed an approval, and the configuration has dropped it: the next release is "
                    "held once more, and approving it accepts the change",
                    publication.name,
                )

    def _compare_terms(self, publication: Publication) -> str | None:
        """Compare the terms of a publication with those of its last release.

        An approval that the configuration has dropped is required once more. Nothing is compared if this host does not
        have the audit of the last release.

        Returns
        -------
        str or None
            Why no release can follow the last one; None if one can.
        """
        pipeline = self.pipelines[publication.name]
        spec = replace(pipeline.spec, approval=publication.approval == "required")
        seal = last_seal(pipeline.account)
        if seal is None:
            return None
        earlier = self.audit_of(publication.name, seal.sequence, AuditPart) or AuditDocument()
        pipeline.looser = looser_terms(spec, seal, earlier)
        pipeline.spec = replace(spec, approval=spec.approval or keeps_approval(spec, seal, earlier))
        return discontinued(spec, earlier)

    def refuse_other_cases(self) -> None:
        """Refuse another value of `cases` than a series of cohorts has, before the state follows it.

        With "completed" the state forgets released cases, so later releases of a series with "all" lack them.
        With "all" a cut takes open cases, and their later events are lost. Both are lost for good. Another kind of
        mechanism has the same effect: it does not know the cases that wait, or shows those that left by noise.

        Raises
        ------
        InputError
            If a publication has another value, or such another kind, than at its last release.
        """
        for name, pipeline in self.pipelines.items():
            seal = last_seal(pipeline.account)
            earlier = None if seal is None else self.audit_of(name, seal.sequence, AuditPart)
            if earlier is None or not changes_cases(pipeline.spec, earlier):
                continue
            terms, them = f'cases = "{earlier.get("cases", "all")}"', "it"
            former_kind = (earlier.get("mechanism") or {}).get("kind")
            if former_kind != pipeline.spec.mechanism.kind:
                terms, them = f'{terms} and mechanism.kind = "{former_kind}"', "both"
            raise InputError(
                f"publication {name!r}: its releases have {terms}, and with another value the state would lose cases "
                f"of the series for ever: give {them} again, or configure another publication, for another audience"
            )

    def refuse_lost_series(self, recorded: FoldRules, position: int) -> None:
        """Refuse a configuration by which the state cannot know what one charge has paid for already.

        One charge pays for all releases of a series in which each case counts once (`stream.release.once`). The state
        alone has the cases that were shown, and forgets this when the publication leaves the configuration. If it came
        back, its next release would show these cases a second time. The state also counts the cases of each person,
        under one attribute: by the name in another one, each person would begin again.

        Parameters
        ----------
        recorded
            The rules of the state, before those of the configuration replace them.
        position
            Position of the last record in the state. Charges of later cuts are no fault: the state is then folded
            again, with the rules of their time.

        Raises
        ------
        InputError
            If the state has lost a series that was charged, or counts persons by another attribute.
        """
        in_state = {rules.name for rules in recorded.publications}
        for name, pipeline in self.pipelines.items():
            spec = pipeline.spec
            if not spec.is_paid_once or not was_paid(pipeline.account.charge_entries.values(), position):
                continue
            if name not in in_state:
                raise InputError(
                    f"publication {name!r}: it has released before, and the configuration lacked it since, so the "
                    "state has forgotten which cases it has shown: one charge would pay for them twice; give it a new "
                    "name (under which it is charged again)"
                )
            person = self.settings.process.person
            if spec.once is not None and spec.once.enforced and recorded.person != person:
                raise InputError(
                    f"publication {name!r}: its cases were counted by the person in {recorded.person!r}, and "
                    f"process.attributes.person is {person!r} now: each person could have cases_per_person more; give "
                    "the former attribute again, or give the publication a new name"
                )

    # archive, copy of the configuration, and mirror

    def _warn_of_kept_archive(self) -> None:
        """Warn of an archive that a former configuration left: nothing removes its events any more."""
        if self.settings.process.archive is None and self.archive.segments():
            log.warning(
                "%s/%s has events of released cases, and process.archive is not set: they are kept there without "
                "end; delete the folder if nobody needs them",
                self.archive.blobs.location,
                ARCHIVE,
            )

    def _keep_configuration(self) -> None:
        """Keep a copy of the configuration in the folder, for commands that get the folder alone.

        These are `approve`, `reject` and `dossier`. A replay without a configuration file has no other copy. A
        configuration that names persons (`resource_roles`) is kept only for `approve` and `reject`, which need it: the
        folder knows persons by pseudonyms.

        A folder whose claim names another configuration keeps the copy that it has.
        """
        needs_approval = any(publication.approval == "required" for publication in self.settings.publication)
        names_persons = isinstance(self.settings.process.resource_roles, dict)
        if names_persons and not needs_approval:
            return
        claim = self.ledger.view.claim
        if claim is None or claim.config in (None, self.settings.digest):
            self.folder.keep_configuration(self.settings.written())

    def check_mirror(self, *, contents: bool = False) -> None:
        """Compare the mirror with the ledger, and restore what it has lost (`stream.ledger.mirror.Mirror.restore`).

        Called at each start and with each checkpoint that is mirrored: a host that takes over in months needs it whole.

        Parameters
        ----------
        contents : bool
            Whether to compare the files of this host with their mirrored copies, too. It reads all of them.
        """
        if self.mirror is None:
            return
        for account in self.former:
            self.mirror.restore(account.publication, account, self.folder, required=False)
        for name, pipeline in self.pipelines.items():
            self.mirror.restore(name, pipeline.account, self.folder, required=True)
            if contents:
                self.mirror.renew(name, pipeline.account, self.folder)

    # rules of the fold

    def rules(self, *, embedded: bool) -> FoldRules:
        """Return the rules of the fold, from the configuration.

        Raises
        ------
        InputError
            If `completion.log_end` is set for a daemon: it needs the whole log.
        """
        process = self.settings.process
        if process.completion.log_end and not embedded:
            raise InputError("process.completion.log_end needs the whole log: use it with replay")
        publication_rules = []
        for publication in self.settings.publication:
            rules = PublicationRules(
                publication.name,
                publication.build_window,
                publication.late,
                self._start(publication, embedded=embedded),
                publication.private,
                once=publication.cases == "completed",
                most_cases=self._most_cases(publication),
                waits=publication.waits,
            )
            publication_rules.append(rules)
        return FoldRules(
            publications=tuple(publication_rules),
            end_activities=process.completion.end_activities,
            end_all=process.completion.end_all,
            inactivity=process.completion.inactivity,
            log_end=process.completion.log_end,
            retention=process.retention,
            key=self.pseudonyms.id,
            embedded=embedded,
            person=process.person,
            archive=process.archive is not None,
        )

    def _most_cases(self, publication: Publication) -> int | None:
        """Return the cap on the cases of a person, if the fold can enforce it."""
        once = publication.once(person=self.settings.process.person is not None)
        if once is None or not once.enforced:
            return None
        return once.cases_per_person

    def _start(self, publication: Publication, *, embedded: bool) -> int | None:
        """Return from when tumbling windows are counted.

        Without a declared start, those of a dp publication begin with the window (aligned to 1970-01-01 UTC) in which
        the ledger first recorded it. The rules carry this time to the fold.
        """
        lacks_start = publication.start is None and publication.counted_from_start
        if embedded:
            if lacks_start:
                refuse_without_start(publication)
            return publication.start_ns
        # Recorded for every publication, also for those with a start.
        first_seen = self._first_seen_or_now(publication.name)
        if not lacks_start:
            return publication.start_ns
        every = publication.build_window.every or 1
        return first_seen // every * every

    def _first_seen_or_now(self, name: str) -> int:
        """Return when (ns) the ledger first recorded a publication, and record it now if it is new.

        The wait for a first release is counted from the same moment, so a restart does not reset its alert.
        """
        seen = self.first_seen(name)
        if seen is None:
            seen = self.clock.now()
            self.ledger.append(NoteEntry(publication=name, body=NoteBody(first_seen=seen)))
        return seen

    def first_seen(self, name: str) -> int | None:
        """Return when (ns) the ledger first recorded a publication, if it did."""
        return self.ledger.view.first_seen.get(name)

    # decisions

    def publish_due(self) -> None:
        """Publish the sealed releases whose moment has come."""
        for pipeline in self.pipelines.values():
            publish_due(pipeline)

    def decide(self, fold: Fold, cut: Cut) -> Decision:
        """Take the open cut through its pipeline; the fold continues when the decision is durable."""
        decision = self.decide_attempt(cut.publication, self.attempt(fold, cut))
        fold.decided(cut, *decision.outcome)
        return decision

    def decide_attempt(self, publication: str, attempt: Attempt) -> Decision:
        """Decide an attempt of a publication, durably.

        It reads nothing of the fold, which may go on meanwhile, in another thread. Nothing else may use the ledger and
        the pipelines until it returns.

        Parameters
        ----------
        publication
            Name of the publication.
        attempt
            The attempt of its cut.
        """
        started = time.monotonic()
        pipeline = self.pipelines[publication]
        decision = pipeline.attempt(attempt)
        if decision.status == "sealed":
            pipeline.looser = ()  # from now on these are the terms of its last release
        if pipeline.spec.hold == "supersede":
            for number in supersede(pipeline):
                if self.watch is not None:
                    self.watch.ruled(DecisionOutcome(publication, number, "superseded"), None)
        if self.watch is not None:
            self.watch.decided(publication, decision, pipeline.spent.charge, time.monotonic() - started)
        return decision

    def rule(self, decision: PersonDecision) -> DecisionOutcome:
        """Carry out a person's decision on a held release. InputError if no release with its number is held."""
        publication, number = decision.publication, decision.number
        if publication not in self.pipelines:
            names = ", ".join(self.pipelines)
            raise InputError(f"there is no publication {publication!r}; there are {names}")
        outcome = decide(self.pipelines[publication], decision)
        if outcome.status == "approved":
            configured = next(table for table in self.settings.publication if table.name == publication)
            self._compare_terms(configured)
        if self.watch is not None and not outcome.again:
            audit = self.audit_of(publication, number) if outcome.status == "approved" else None
            self.watch.ruled(outcome, audit)
        return outcome

    def obey(self, fold: Fold, position: int, command: Command) -> DecisionOutcome:
        """Carry out `approve` or `reject` of the delta topic.

        Parameters
        ----------
        fold
            The fold of the process.
        position
            Position of the command in the delta topic.
        command
            The command.

        Raises
        ------
        InputError
            If the command is not complete, its release is not held, or an approval would publish while nothing is to
            be released.
        """
        decision = PersonDecision.of_command(command, position)
        if decision.order == "approve":
            _refuse_stopped(fold, decision.publication, decision.number)
        return self.rule(decision)

    # the attempt of a cut

    def attempt(self, fold: Fold, cut: Cut) -> Attempt:
        """Return the attempt of a cut: what the cut exposes, and its counts."""
        projection = fold.exposed(cut, self.place)
        accounting = fold.accounting(cut.publication)
        process, spec = self.settings.process, self.pipelines[cut.publication].spec
        if not fold.rules.embedded:  # a replay has read the whole log first, and has warned of all of it
            self._data_warnings.log_new(fold, projection.log, projection.complete, spec.mechanism)
        log, roles = self._by_role(self._read(projection.log, cut.publication), cut.publication)
        exposure = Exposure(
            log=log,
            complete=projection.complete,
            sensitive=process.sensitive,
            time_ns=cut.time_ns,
            public=tuple(name for name in spec.attributes if name in process.attributes.public),
            once=spec.once is not None,
            last=cut.trigger == "final",
            roles=roles,
        )
        return Attempt(
            cut=cut.id,
            trigger=cut.trigger,
            time_ns=cut.time_ns,
            exposure=exposure,
            counts={**cut.counts, "seen": accounting["seen"]},
            vector={f"{source}/{partition}": offset for source, partition, offset in cut.vector},
            certain=cut.certain is not False,
            moment=self._moment(fold, cut),
        )

    def _moment(self, fold: Fold, cut: Cut) -> int | None:
        """Return the clock at the cut, if that is public.

        In a replay events move the clock, so only cuts at a deadline are at its moment.
        """
        window = self.pipelines[cut.publication].spec.window
        ends_at_fixed_time = window.first is not None and window.first.until is not None
        at_deadline = cut.trigger == "every" or (cut.trigger == "first" and ends_at_fixed_time)
        is_replay = fold.rules.embedded
        if is_replay and not at_deadline:
            return None
        return fold.now

    def _read(self, log: EventLog, publication: str) -> EventLog:
        """Return an exposed log as a mechanism reads it.

        Values are as they are written. Times have the clock of the process if the mechanism counts by it: deltas
        carry moments, not clocks.
        """
        process = self.settings.process
        log = written(_with_attributes(log, process.kept), process.kept)
        # The kinds of tlkc have a clock; the others have none.
        clock = getattr(self.pipelines[publication].spec.mechanism, "clock", "utc")
        if clock == "utc" or process.timezone is None:
            return log
        return replace(log, offset=offsets(log.time, process.timezone))

    def _by_role(self, log: EventLog, publication: str) -> tuple[EventLog, tuple[str, ...] | None]:
        """Replace the resources of a log by roles, if the publication releases roles.

        Returns the log and the roles that it shows, or None if it keeps its resources.
        """
        pipeline = self.pipelines[publication]
        roles = pipeline.spec.roles
        if roles is None:
            return log, None
        if not isinstance(roles, str) and not self.settings.process.raw_resources:
            # The fold has pseudonyms of resources only; the configuration has their names.
            roles = {self.pseudonyms.resource(name): role for name, role in roles.items()}
        return with_roles(log, roles, getattr(pipeline.spec.mechanism, "K", GROUP), pipeline.roles_shown)

    # the state

    def checkpoint(self, fold: Fold, *, in_full: bool = False) -> None:
        """Save the state between two records, when every cut so far has its durable decision.

        Parameters
        ----------
        fold
            The state.
        in_full
            Whether to save all of it, and not only the changes since the last save.
        """
        self.keeper.save(fold, SavedState("replay", b"", self.ledger.count()), in_full=in_full)
        self.at(Failpoint.CHECKPOINTED)

    def fold_of(self, state: memoryview) -> Fold:
        """Restore the fold of a checkpoint.

        Raises
        ------
        RefusedError
            If the ledger is older than the checkpoint.
        """
        saved = SavedState.decode(state)
        entries = self.ledger.count()
        if entries < saved.ledger:
            raise RefusedError(
                f"{self.folder.ledger}: has {entries} entries, the checkpoint covers {saved.ledger}: "
                "the ledger is older than the state; restore the newer ledger"
            )
        return self.restored(saved.fold)

    def new_fold(self, rules: FoldRules, facts: LogFacts | None = None) -> Fold:
        """Return an empty fold. If an engine builds, its events are in files: most are read at cuts only."""
        fold = Fold(rules, facts)
        fold.state.move(self.place)
        return fold

    def restored(self, snapshot: Bytes) -> Fold:
        """Restore the fold of a snapshot, with its events where those of a new fold are.

        An older program kept the names of resources as they came; they become pseudonyms here.
        """
        fold = Fold.restore(snapshot)
        if not self.settings.process.raw_resources:
            fold.state.name_resources(self.pseudonyms.resource)
        fold.state.move(self.place)
        return fold

    def with_pseudonyms(self, record: AnyRecord) -> AnyRecord:
        """Return a recorded delta with pseudonyms of resources; an older ingest left their names in it."""
        if isinstance(record, Delta) and not self.settings.process.raw_resources:
            return with_resources(record, self.pseudonyms.resource)
        return record

    def erase(self, fold: Fold, cases: Sequence[str]) -> ErasureReport:
        """Erase cases (by pseudonym) everywhere except in published releases; the report lists those."""
        report = erase(self, fold, cases)
        # Two generations of checkpoints are kept, and both have the erased cases: two new ones replace them.
        for _generation in range(2):
            self.checkpoint(fold, in_full=True)
        return report

    # audits

    def audit_of(self, publication: str, number: int, kind: Any = Any) -> AuditDocument | None:
        """Return the audit of a release for verdicts and metrics, or the keys that `kind` names.

        None if it is gone or damaged: a figure stops no release.
        """
        try:
            return read_audit(self.folder.release(publication, number), kind)
        except RefusedError:
            return None


def _refuse_stopped(fold: Fold, name: str, number: int) -> None:
    """Refuse an approval while events are missing or its publication is paused: nothing may be published then.

    Raises
    ------
    InputError
        If a gap is open, or the publication is paused.
    """
    refusal = f"release {number} of {name} is not approved, and stays held"
    if fold.gap:
        raise InputError(f"{refusal}: a gap is open (veilstream gap rewind or accept); approve it again after that")
    if name in fold.publications and fold.publications[name].paused:
        raise InputError(f"{refusal}: {name} is paused (veilstream resume {name}); approve it again after that")


def mirror_of(settings: Settings, output: Path, ops: FileOps | None = None) -> Mirror | None:
    """Open the mirror of a configuration, if it has one."""
    place = open_mirror(settings.store, settings.process.name, settings.storage_keys, output, ops)
    if place is not None and settings.key is None:
        log.warning("no key is configured: a host that takes over needs the same one (`veilstream key create`)")
    return place


def archive_of(
    settings: Settings,
    output: Path,
    mirror: Mirror | None,
    faults: Faults = Faults(),  # noqa: B008 - frozen
) -> Archive:
    """Open the archive of a process: in its mirror, so that another host has it too, or in the operator's folder.

    It is opened without `process.archive` too: an erasure must reach what was archived before.
    """
    blobs = open_blobs(output, OPERATOR, faults.ops) if mirror is None else mirror.blobs
    keep = settings.process.archive
    keep_ns = keep if isinstance(keep, int) else None
    return Archive(blobs, settings.storage_keys, keep_ns, lambda: faults.at(Failpoint.ARCHIVED))


def refuse_without_start(publication: Publication) -> None:
    """Refuse a replay that would take the start of dp windows from the first event.

    Raises
    ------
    InputError
        If the windows of a dp publication have no declared start.
    """
    if publication.counted_from_start and publication.start is None:
        raise InputError(
            f"publication {publication.name!r}: a replay cannot find where its windows begin without reading the data; "
            "set start = <time> (a moment that is public anyway, such as the day on which recording began), or "
            "gate.public_cut = true"
        )


def _checkpoints(folder: OperatorFolder, settings: Settings) -> Checkpoints:
    folder.checkpoints.mkdir(exist_ok=True)
    make_private(folder.checkpoints)
    return Checkpoints(folder.checkpoints, settings.storage_keys, folder.ops)


def _with_attributes(log: EventLog, names: tuple[str, ...]) -> EventLog:
    """Add every attribute that has a role; its values are missing if no event brought one yet."""
    absent = [name for name in names if name not in log.case_attributes and name not in log.event_attributes]
    all_missing = Column(np.full(log.n_cases, -1, dtype=np.int32), ())
    return replace(log, case_attributes={**log.case_attributes, **dict.fromkeys(absent, all_missing)})
