"""Contracts of mechanisms and audits: a new kind of either is one file.

A kind is a pydantic model: its fields are its parameters as the configuration file has them, checked when
the file is read; its methods do the work through the pure functions of `models`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from models.anonymize.hiding import Target
from models.anonymize.repair import Banned
from models.anonymize.shown import ShownItems
from models.dp.accumulation import Shape
from models.dp.budget import Charge, Draw
from models.errors import BoundError, InputError
from models.eventlog import Column, EventLog, Ints
from models.knowledge import Knowledge
from stream.fold.records import Outcome
from stream.ledger.entries import Ruling
from stream.ledger.release_record import ReleaseRecord
from stream.release.documents import AuditDocument
from stream.release.once import OncePerCase
from stream.release.reason import Reason, only_waits

Reads = Literal["ledger", "release", "raw"]
"""Sources that a decision may read: the ledger alone; the candidate as it would be released; anything else (the
source, its pseudonyms, what was measured against it)."""

WAITS = "held: waits for a person's decision"
"""Why a held release has not left."""

AUDIENCE = "everyone"
"""The audience of a publication that names none: all of them together."""

TimeBasis = Literal["ordinal", "relative", "noised", "microaggregated"]
"""ordinal: index of the event in seconds, without any information on time; relative: to the start of the
case; noised: by dp; microaggregated: means over at least K cases, dealt out at random."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Part of the log that a cut exposes to a mechanism: never more than the release may depend on.

    `log`: exposed events, case ids are the pseudonyms of the fold; `complete`: bool[C]; `sensitive`: names of the
    case-level sensitive attributes (read them with `log.case_values(name)` or `log.sensitive(names)`);
    `time_ns`: time of the cut; `public`: names of the public attributes that the publication releases;
    `publication`: which one releases; `last`: the log ends here, no other cut is to come; `roles`: those that the log
    shows in place of its resources (None: it has the resources themselves); `cases`: int64[C], where the log is a
    table of variants (`models.variants`), how many cases each of its cases represents, and its sensitive attributes are
    classes then; `number`: of the release, if it leaves; `once`: each case is in one release, and the log has only
    cases that no release has shown.
    """

    log: EventLog
    complete: npt.NDArray[np.bool_]
    sensitive: tuple[str, ...]
    time_ns: int
    public: tuple[str, ...] = ()
    publication: str = ""
    last: bool = False
    roles: tuple[str, ...] | None = None
    cases: Ints | None = None
    number: int = 1
    once: bool = False

    def without(self, names: Collection[str]) -> Exposure:
        """Return the exposure without some cases, by their ids."""
        if not names:
            return self
        gone = set(names)
        kept = np.flatnonzero([name not in gone for name in self.log.case_ids])
        return replace(self, log=self.log.select_cases(kept), complete=self.complete[kept])

    @property
    def linked(self) -> tuple[str, ...]:
        """The attributes of a case on which two releases are linked: the sensitive ones, and what is released."""
        return (*self.sensitive, *self.public)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A cut of the fold: its identity, exposure and counts. Nothing here is drawn or measured."""

    cut: str
    trigger: str
    time_ns: int
    exposure: Exposure
    counts: Mapping[str, int]
    vector: Mapping[str, int] = field(default_factory=dict)
    certain: bool = True
    moment: int | None = None
    """The clock at the cut (ns), if that is public: a tick made the cut. None if an event did."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of a cut: released, withheld, held for approval, or rejected.

    Attributes
    ----------
    because
        Reasons of the gate against it, also if the release left with a warning or was repaired.
    audit
        The operator's document; empty if a withheld attempt was never built.
    shown
        Pseudonyms of exposed cases that releases show by now, if cases wait for one (`PublicationSpec.waits`).
    """

    cut: str
    status: Literal["sealed", "withheld", "held", "rejected"]
    sequence: int = 0
    because: Sequence[Reason] = ()
    audit: AuditDocument = field(default_factory=AuditDocument)
    shown: Collection[str] = ()

    @property
    def outcome(self) -> Outcome:
        """The part that the fold reads. A held release does not count as one: it may never leave."""
        return Outcome(self.status == "sealed", self.shown)

    @property
    def reasons(self) -> list[str]:
        """Why the cut has not left, for people; none of a release."""
        if self.status == "held":
            return [WAITS]
        if self.status == "sealed":
            return []
        return [reason.text for reason in self.because]

    @property
    def waits(self) -> bool:
        """Whether the cut released nothing only because it waits, for more cases or behind a held release."""
        return self.status == "withheld" and only_waits(self.reasons)

    @property
    def refused(self) -> bool:
        """Whether the mechanism, the gate or a person refused the cut."""
        return self.status in ("withheld", "rejected") and not self.waits


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """Outcome of a person's decision on a held release.

    Attributes
    ----------
    status
        The ruling: `approved` (published, or at its moment), `rejected`, `superseded`, or `refused` (the gate no
        longer passes, and the release is still held). `ordered` if a daemon was asked to carry the decision out.
    because
        Reasons of the gate against the release, if an approval was refused, or passed with a warning.
    again
        Whether the release was decided alike before; nothing is new then.
    offset
        Position of an order in the delta topic; None if the decision was carried out here.
    """

    publication: str
    number: int
    status: Ruling | Literal["ordered"]
    because: tuple[Reason, ...] = ()
    again: bool = False
    offset: int | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """As sentences."""
        return tuple(reason.text for reason in self.because)


class ReleaseObserver(Protocol):
    """Follows durable decisions (metrics). It may only count, and it decides nothing."""

    def decided(self, publication: str, decision: Decision, spent: Charge, seconds: float) -> None:
        """Follow the durable decision on a cut.

        Parameters
        ----------
        publication, decision
            The decision.
        spent
            Epsilon and delta of everything that was charged to the publication so far.
        seconds
            How long the decision took.
        """

    def ruled(self, outcome: DecisionOutcome, audit: AuditDocument | None) -> None:
        """Follow the first decision on a held release; `audit` is that of one that leaves, if readable."""

    def late(self, letters: int) -> None:
        """Follow events that were too late and went to the dead-letter queue."""


@dataclass(frozen=True, slots=True)
class Applicability:
    """Whether a measure means something for a build: `ok`, or why not. Never a number in its stead."""

    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """Result of a mechanism.

    * `log`: the released cases with released attributes and times; its case ids are not published (fresh random ones
      are drawn when files are written). Sensitive values are in `log.case_attributes`.
    * `attributes`: what leaves of the cases' attributes, one column a name, as it leaves (stream.release.public_view).
    * `cohort`: int64[released cases], number of the group that left together and never changes; None: one group.
    * `origin`: int64[released cases], index of the case in `exposure.log`, -1 for a record that is not a single case.
    * `carries`: the perspectives that leave (`activity`, `resource`, `relative_time`): what an adversary links on.
      Times of the log are written only where `time_basis` is not `ordinal`.
    * `n_actual`: most events removed from one released case (None if the mechanism does not remove events).
    * `public`: goes into the manifest: never data-dependent for dp mechanisms.
    * `not_guaranteed`: what this build does not promise beyond what the mechanism's `promise` names.
    * `operator`: goes into audit.json only.
    * `memory`: opaque state that the next build of the publication receives once this release is sealed; it is kept as
      JSON, arrays as lists.
    * `applies`: by name of audit, where the answer is not plain "ok".
    * `held`: (cases, events) exposed and kept back for a later release: pending, not suppressed.
    * `immutable`: released cases never change again; an adversary's time is their first publication.
    * `accumulated`: the log over everything published so far that is published with the release, without times.
    * `weakened`: erasure or retention removed cases that the promise had counted. It then holds of the others as far
      as it still can, and `not_guaranteed` lists that.
    * `files`: content of the files of a release without a log, by name; None: the files hold `log`. They do not show
      when they were made.
    * `alone`: whether no other release of the publication holds a case of this one.
    * `since`: number of the release after which its cases were new, of the part of a build that the files
      of an increment hold; None: all cases so far.
    * `plan`: digest of the plan on a table of variants, if an engine made the build as one (stream.release.planned).
    """

    log: EventLog
    origin: Ints
    carries: tuple[str, ...]
    time_basis: TimeBasis = "ordinal"
    T: str = "minutes"
    n_actual: int | None = 0
    cases_dropped: int = 0
    public: Mapping[str, Any] = field(default_factory=dict)
    not_guaranteed: tuple[str, ...] = ()
    operator: Mapping[str, Any] = field(default_factory=dict)
    memory: Any = None
    applies: Mapping[str, Applicability] = field(default_factory=dict)
    held: tuple[int, int] = (0, 0)
    immutable: bool = False
    attributes: Mapping[str, Column] = field(default_factory=dict)
    cohort: Ints | None = None
    weakened: bool = False
    accumulated: EventLog | None = None
    plan: str | None = None
    files: Mapping[str, bytes] | None = None
    alone: bool = False
    since: int | None = None


class Mechanism(BaseModel, ABC):
    """A mechanism. Subclass in `stream/release/mechanisms/<kind>.py` with `kind: Literal["..."] = "..."`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_data_in_gate: ClassVar[bool] = True
    """False for dp mechanisms: gates and cuts that read raw data are refused for them, and gates that read the release
    need every attempt to be paid for."""

    releases_attributes: ClassVar[bool] = True
    """Whether a released record is one case of the source, whose attributes can leave with it."""

    releases_log: ClassVar[bool] = True
    """Whether a release holds a log. The builds of a kind without one have `files`, and it overrides `broken_files`."""

    counts_cases: ClassVar[bool] = False
    """Whether everything in a release is noisy counts of cases, so that releases of disjoint cases compose in parallel
    (`cases = "completed"`); the kind then has `cases_per_person`."""

    accumulates: ClassVar[bool] = False
    """Whether releases of disjoint cases can be added up (`accumulate`): `build_series` then."""

    remembers: ClassVar[bool] = False
    """Whether a promise rests on what the publication's earlier releases left in its memory."""

    shares_memory: ClassVar[bool] = False
    """Whether the publications of one audience continue each other's memory."""

    keeps_cases: ClassVar[bool] = False
    """Whether no later release shows a released case in another form, so that the files of a release need
    hold only new cases (`release = "increment"`)."""

    kind: str

    def charge(self) -> Charge:
        """Return the budget that one release spends, which is committed before the build. Zero: spends none."""
        return Charge()

    def draws(self) -> tuple[Draw, ...]:
        """Return the noise of one release, which the ledger keeps next to its charge; empty: not stated.

        It is the same for all releases under one configuration, reads no data, and together it is (epsilon, delta)-DP
        or less, those of `charge`. Of a charge without it, releases are composed by epsilon and delta alone.
        """
        return ()

    @abstractmethod
    def promise(self) -> Mapping[str, Any]:
        """Return the promise as plain, public sentences.

        Keys: guaranteed, to_whom, against_whom, relation, unit, not_guaranteed.
        """

    def promise_once(self, once: OncePerCase) -> Mapping[str, Any]:
        """Return the promise of a series in which each case counts once.

        A kind that `counts_cases` overrides it.
        """
        raise InputError(f"{self.kind} does not count cases")

    def changed_terms(self, earlier: Mapping[str, Any]) -> str:
        """Return the terms that a series cannot change and that this configuration changes, as they were.

        Parameters
        ----------
        earlier
            Parameters of the last release, of the same kind.

        Returns
        -------
        str
            For example "K = 20". Empty if the next release can continue the series.
        """
        return ""

    @abstractmethod
    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Anonymize the cases of one release.

        A build reads nothing but its arguments, and its noise comes from models.dp.noise alone.

        Raises
        ------
        BoundError
            If no release can satisfy the parameters. The attempt is then withheld, with the reason.
        """

    def variants_by(self) -> Knowledge:
        """Return through which knowledge a table of variants is counted for `build`.

        `build` gives the same on that table as on the log (`Exposure.cases`), so any engine can count and apply
        (stream.engine). A kind that reads more of a case than its variant and its sensitive classes does not override
        this.

        Raises
        ------
        InputError
            If the kind reads more; the message names the engine that can build it.
        """
        raise InputError(f"{self.kind} reads more of each case than its variant; only --engine embedded can")

    def build_series(self, exposure: Exposure, memory: Any, shape: Shape, number: int) -> Build:
        """Build release `number`, with the log over everything so far (`Build.accumulated`).

        A kind that `accumulates` overrides it.

        Parameters
        ----------
        exposure
            The events to release.
        memory
            The memory of the mechanism, as the last release left it.
        shape
            Shape of the sums over releases.
        number
            Number of the release in its series, from 1.
        """
        raise InputError(f"{self.kind} cannot be accumulated")

    def check_series(self, shape: Shape) -> None:
        """Refuse an impossible shape of accumulated logs, by public values alone.

        Raises
        ------
        InputError
            If the kind cannot be accumulated in that shape.
        """
        raise InputError(f"{self.kind} cannot be accumulated")

    @property
    def perspective(self) -> tuple[str, ...] | None:
        """Return the columns that releases carry, with the accuracy of times; None if their records are not persons.

        Publications of one audience are comparable if they carry the same.
        """
        return None

    def claim(self) -> Mapping[str, Any]:
        """Return what publications that share a memory must have in common for the promise to hold."""
        return {}

    @classmethod
    def owned(cls, memory: Any, publication: str) -> Any:
        """Return the memory that a release of `publication` left.

        A memory of an older version does not name the publication itself.
        """
        return memory

    @classmethod
    def forget(cls, memory: Any, cases: Collection[str]) -> Any:
        """Return the memory without the erased cases (pseudonyms).

        A mechanism whose memory names cases overrides this.
        """
        return memory

    @property
    def repairable(self) -> bool:
        """Whether `repair` can suppress further (`gate.on_violation = "repair"`)."""
        return False

    def repair(
        self,
        exposure: Exposure,
        shown: ShownItems,
        targets: Sequence[Target],
        gone: Sequence[Any],
    ) -> Build:
        """Build again so that every target holds, without the items `gone`.

        Parameters
        ----------
        exposure
            Part of the log that the cut exposes.
        shown
            Items of each case in earlier releases.
        targets
            Bounds that each group of cases must keep.
        gone
            Items that leave all cases.

        Raises
        ------
        BoundError
            If no suppression reaches the targets.
        """
        raise BoundError(f"{self.kind} cannot suppress further")

    def cheapest(self, exposure: Exposure, worst: Sequence[Banned], gone: Sequence[Any]) -> Any | None:
        """Return the item to suppress next: most of `worst` per event lost; None if none is left.

        Parameters
        ----------
        exposure
            The events to release.
        worst
            Background knowledge that violates a bound.
        gone
            Items that are suppressed already.
        """
        return None

    def broken(self, released: ReleaseRecord, exposure: Exposure) -> list[str]:
        """Return the parts of the promise that do not hold on a release that was read back from its file.

        `released.log` comes from the reader; `exposure` is used only for the class of each sensitive value.
        """
        return []

    def broken_files(self, folder: Path, files: Mapping[str, bytes]) -> list[str]:
        """Return why the files of a release without a log must not leave, after they were read back.

        Parameters
        ----------
        folder
            The prepared folder of the release.
        files
            The content that the build gave each file.
        """
        raise InputError(f"{self.kind} releases a log")

    def check_log(self, log: EventLog) -> None:
        """Raise InputError if a whole log lacks what the parameters need (a stream is never seen as a whole)."""

    def check_unit(self, unit: str | None) -> None:
        """Raise InputError if the parameters need finer times than the log has, which are whole `unit` apart."""

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings of check-config about the mechanism within its whole publication table."""
        return []


@dataclass(frozen=True, slots=True)
class AuditContext:
    """All that an audit may read: the candidate and everything released before it."""

    candidate: ReleaseRecord
    earlier: Sequence[ReleaseRecord]
    build: Build
    exposure: Exposure
    mechanism: Mechanism
    charges: Sequence[Charge]
    """Charges of the sealed releases and of withheld attempts of the publication, in order, this one last."""
    counts: Mapping[str, int]
    """Of the cut: new_cases, new_events, pending, late, non_append_insertions, ..."""
    erased: int = 0
    """Cases declared gone since the first release (erasure, retention)."""
    erased_releases: frozenset[int] = frozenset()
    """Numbers of earlier releases that hold a case erased since: their variants lack it, their bytes do not."""
    spent: Charge = field(default_factory=Charge)
    """Sum of these charges (of disjoint cases the largest), as temporal privacy leakage counts them."""
    once: OncePerCase | None = None
    """Each case is in one release."""
    previous_audit: AuditDocument = field(default_factory=AuditDocument)
    """audit.json of the last sealed release, {} for the first: where an audit finds the state that it keeps."""


class Audit(BaseModel, ABC):
    """A measure of a candidate. Subclass in `stream/release/audits/<name>.py`.

    The top-level keys of a publication's `audit` table belong to `anonymity`; every other audit reads the
    sub-table of its own name (`audit.risk = {...}`); `false` switches one off, `true` on with its defaults.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    reads: ClassVar[Reads]
    """The most that `measure` reads. A bound of the gate may use a part of it that reads less (`gate.BOUNDS`)."""
    on_by_default: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ()
    """Audits whose results this one reads (through `results`)."""

    @property
    def looks_back(self) -> int | None:
        """Number of earlier releases, counted back from the last one, that are compared; None: all of them."""
        return None

    @abstractmethod
    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a JSON-able result: always `status` and `reason`; numbers only if `status` is one that has them.

        It is not called for a build that the audit does not apply to (`Build.applies`).

        Parameters
        ----------
        context
            The candidate, and what it is compared with.
        results
            Sections of the audits that came before this one, by name.
        """

    def unmeasured(self, context: AuditContext) -> Mapping[str, Any]:
        """Return the further keys of the section of a build that the audit does not apply to."""
        return {}

    def before_noise(self, context_free: Mapping[str, Any], charge: Charge) -> list[Reason]:
        """Return reasons to refuse before any noise is drawn, from facts of the ledger alone (leakage, budget)."""
        return []
