"""The stages of one release, each a value that is made from the one before.

    Attempt -> Charged -> Built -> Audited -> Judged -> Written -> Sealed -> Published

| stage | fact that it adds |
| --- | --- |
| Attempt | the events that the cut exposes |
| Charged | the charge is in the ledger, so noise may be drawn |
| Built | the anonymized log |
| Audited | measures of it, and the reasons of the gate against it |
| Judged | the decision of the gate: passed, warned or repaired (a refusal makes no stage) |
| Written | its files are durable under temporary names |
| Sealed | the ledger binds the release number to these bytes |
| Published | recipients can see it |

`stream.release.pipeline` makes them in this order. An attempt begins with the cut (`stream.release.contract.Attempt`)
and with the data of earlier releases (`ReleaseInputs`), which is read once, before anything is charged. A stage is
complete when it is made; no later step changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from connectors.store.base import Prepared
from models.dp.budget import Charge
from models.dp.spending import Spending
from models.errors import BoundError
from stream.ledger.entries import SealEntry
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Attempt, Build, Mechanism
from stream.release.documents import AuditDocument, IncrementSection, Manifest
from stream.release.reason import Reason
from stream.release.schedule import Slot

GateDecision = Literal["passed", "warned", "repaired", "withheld"]

ResourceForm = Literal["process", "key"]
"""Form of resource names in a series: made with key and process, or with the key alone if an earlier program, which had
no other form, began the series."""


@dataclass(frozen=True, slots=True)
class MechanismMemory:
    """State that the mechanism of an earlier release left for the next build.

    Attributes
    ----------
    state
        State that JSON can hold. Only the mechanism reads it.
    publication
        Publication of the release that left it: another one of the audience if they share a memory.
    kind
        Mechanism of that release. The configuration may have changed since.
    """

    state: Any
    publication: str
    kind: str

    def for_build(self, mechanism: Mechanism, publication: str) -> Any:
        """Return the state as the next build of `publication` receives it.

        Raises
        ------
        BoundError
            If another kind of mechanism made the earlier releases, and one of the two kinds keeps state about them.
        """
        remembers = self.state is not None or mechanism.remembers
        if self.kind == mechanism.kind or not remembers:
            return mechanism.owned(self.state, self.publication)
        series = f"the releases of {publication}"
        if self.publication != publication:
            series = f"the releases of {self.publication} to the same audience"
        raise BoundError(f"{series} were made by {self.kind}; give {mechanism.kind} its own publication")


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """Facts about earlier releases and other publications that an attempt reads.

    Attributes
    ----------
    number
        Number of the release, if it leaves.
    previous, previous_audit
        Seal and audit of the last release of the publication; None and {} for the first one.
    earlier
        Releases of the audience that audits look back at, oldest first.
    memory
        State that the mechanism left; None for the first release.
    spending_elsewhere
        Charges of the other publications of the process, with their noise.
    sealed_numbers
        How many numbers the process has sealed, as the manifest may count them.
    erased, erased_releases
        How many cases were erased since the first release, and which releases contained one.
    resource_form
        How the series names resources.
    """

    number: int
    previous: SealEntry | None
    previous_audit: AuditDocument
    earlier: Sequence[ReleaseRecord]
    memory: MechanismMemory | None
    spending_elsewhere: Spending
    sealed_numbers: int
    erased: int
    erased_releases: frozenset[int]
    resource_form: ResourceForm


@dataclass(frozen=True, slots=True)
class Charged:
    """An attempt whose charge is in the ledger: noise may be drawn.

    Attributes
    ----------
    charges, spending
        Charges of the publication, alone and with their noise; the charge of this attempt is included.
    slot
        When the release becomes visible, if its kind has a fixed delay.
    """

    attempt: Attempt
    inputs: ReleaseInputs
    charges: Sequence[Charge]
    spending: Spending
    slot: Slot | None


@dataclass(frozen=True, slots=True)
class Built:
    """The build of a cut. `seconds`: duration of each stage by name."""

    charged: Charged
    build: Build
    seconds: Mapping[str, float]

    @property
    def attempt(self) -> Attempt:
        """The attempt that it was built for."""
        return self.charged.attempt


@dataclass(frozen=True, slots=True)
class Audited:
    """A build with its measures and the reasons of the gate against it.

    Attributes
    ----------
    record
        The candidate as audits see it, with the pseudonyms of its source cases.
    measures
        Sections of `audit.json` that audits have measured.
    reasons
        Reasons of the gate against it; empty if it may leave.
    seconds
        How long the build and each audit took.
    """

    built: Built
    record: ReleaseRecord
    measures: AuditDocument
    reasons: list[Reason]
    seconds: Mapping[str, float]

    @property
    def build(self) -> Build:
        """The build that was audited."""
        return self.built.build


@dataclass(frozen=True, slots=True)
class Judged:
    """An audited candidate and the decision of the gate on it, with its reasons.

    A repaired candidate has the reasons that made the repair necessary.
    """

    audited: Audited
    decision: GateDecision
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class PublicContent:
    """The part of a build that the public files hold.

    Attributes
    ----------
    build, record
        The cases in the files, as build and as audits see them: all of the release, or those of an increment.
    increment
        The set that the release belongs to, if it is an increment (`stream.release.increments`).
    """

    build: Build
    record: ReleaseRecord
    increment: IncrementSection | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A candidate whose files are durable under temporary names.

    Attributes
    ----------
    prepared
        The public files, in the store or (if it will be held) in the operator's folder.
    operator_files
        Folder of `audit.json`, `variants.parquet` and `memory.json`.
    manifest, audit
        The documents in these folders.
    """

    judged: Judged
    prepared: Prepared
    operator_files: Path
    manifest: Manifest
    audit: AuditDocument

    @property
    def charged(self) -> Charged:
        """The attempt that produced the files."""
        return self.judged.audited.built.charged

    @property
    def number(self) -> int:
        """Number that the seal will give the release."""
        return self.charged.inputs.number


@dataclass(frozen=True, slots=True)
class Sealed:
    """A candidate whose seal is in the ledger: these bytes are the release of that number."""

    written: Written
    seal: SealEntry


@dataclass(frozen=True, slots=True)
class Published:
    """A release that recipients can see, and that is not announced yet."""

    number: int
    manifest: Mapping[str, Any]
