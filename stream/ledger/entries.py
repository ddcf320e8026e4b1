"""The entries of the ledger: one type for each kind, a union distinguished by `kind`, and their bytes.

Their JSON is a format of files and topics: fields are added with a default that is not written, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypedDict

import msgspec

from connectors.store.base import FileEntry
from models.dp.budget import Charge, Draw
from models.dp.spending import ReleaseCharge
from models.dp.zcdp import PURE, Accounting, Kind
from models.errors import InputError


class CutPosition(TypedDict, total=False):
    """Position of a cut: its id, the high-water mark by partition, and its time (ISO 8601)."""

    id: str
    vector: dict[str, int]
    time: str


class CutSection(TypedDict, total=False):
    """The part of a cut that goes into audit.json and, with its counts, into the ledger: nothing of the data."""

    cut: CutPosition
    trigger: str
    certain: bool
    counts: dict[str, int]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Fields of every entry: a publication ("": the process), and the cut and the release number, if it has them."""

    publication: str
    cut: str = ""
    sequence: int = 0
    owner: str = ""
    """Random for each attempt, so that an appender recognises whether its own entry is the valid one."""

    @property
    def kind(self) -> str:
        """The tag of the entry's type."""
        return str(self.__struct_config__.tag)


CASES = "cases"
"""Scope of a charge for a release whose cases are in no other release of the publication under such a charge."""


class DrawBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Noise that a charge pays for (models.dp.budget.Draw), in exact fractions as text: nothing of the data."""

    kind: Literal["laplace", "truncated", "gaussian", "pure"]
    scale: str
    sensitivity: str
    delta: str = "0"
    times: int = 1

    @classmethod
    def of(cls, draw: Draw) -> DrawBody:
        """Return the fields of a draw as the ledger keeps them."""
        return cls(
            kind=draw.kind,
            scale=str(draw.scale),
            sensitivity=str(draw.sensitivity),
            delta=str(draw.delta),
            times=draw.times,
        )

    @property
    def draw(self) -> Draw:
        """The exact draw."""
        return Draw(self.kind, Fraction(self.scale), Fraction(self.sensitivity), Fraction(self.delta), self.times)


class ChargeBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cost of a draw: exact fractions as text. `redraw`: how many numbers of this cut were burned before.

    `scope`: `cases` for charges that compose in parallel, each case being in one release; "" for those that add up. An
    older program adds up all. `cases_per_person`, `enforced`: the terms of such a series.

    `rho`, `tail`: of a charge that is added up as zCDP (models.dp.zcdp): rho, and the delta of thresholds. epsilon and
    delta are then what this draw alone is by the conversion of its time: an older program, which adds them up, counts
    too much.

    `draws`: the noise that this pays for, so that any later account can be computed. Without it, in entries of earlier
    programs, epsilon and delta are all that is known. An older program ignores it.
    """

    epsilon: str
    delta: str
    redraw: int = 0
    scope: str = ""
    cases_per_person: int = 0
    enforced: bool = False
    rho: str = ""
    tail: str = ""
    draws: tuple[DrawBody, ...] = ()

    @property
    def noise(self) -> tuple[Draw, ...]:
        """The exact draws; none if one of them has numbers that no noise has (`has_damaged_draws`)."""
        return _noise(self.draws)

    @property
    def has_damaged_draws(self) -> bool:
        """Whether the draws of the entry cannot be noise: it was edited or damaged."""
        return bool(self.draws) and not self.noise

    @property
    def charge(self) -> Charge:
        """The exact charge."""
        return charge_of(self.epsilon, self.delta, self.rho, self.tail)

    @property
    def release_charge(self) -> ReleaseCharge:
        """The charge as the account takes it: with its noise, and with what other charges it composes."""
        return ReleaseCharge(self.charge, self.noise, is_disjoint=self.scope == CASES)

    @property
    def accounting(self) -> Kind:
        """The accounting by which this charge is added up; entries of earlier programs are `pure`."""
        return "zcdp" if self.rho else "pure"


@lru_cache(maxsize=256)
def _noise(bodies: tuple[DrawBody, ...]) -> tuple[Draw, ...]:
    # Ten thousand charges of one configuration share their draws: they are parsed once.
    try:
        return tuple(body.draw for body in bodies)
    except (InputError, ValueError, ZeroDivisionError):
        return ()


def charge_of(epsilon: str, delta: str, rho: str = "", tail: str = "") -> Charge:
    """Return the exact charge of the fields of an entry.

    Parameters
    ----------
    epsilon, delta, rho
        Exact numbers as text; empty if the entry has none.
    tail
        Exact delta of the conversion from rho, as text.
    """
    if rho:
        return Charge(Fraction(0), Fraction(tail), Fraction(rho))
    return Charge(Fraction(epsilon), Fraction(delta))


class ChargeEntry(_Entry, tag="charge", frozen=True, kw_only=True):
    """A draw is paid for; durable before any noise."""

    body: ChargeBody


class SealBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bytes of a release.

    Attributes
    ----------
    manifest
        sha256 of its manifest.
    temporary, operator
        Temporary folders where the public files and the operator's files wait for their number.
    """

    files: tuple[FileEntry, ...]
    manifest: str
    temporary: str
    operator: str
    publish_at: int | None = None
    """Time (ns) at which it becomes visible, if that is fixed."""
    resources: str = ""
    """`Account.resource_form` at that seal; absent in older ledgers."""
    audience: str | None = None
    """Audience of the release; absent in older ledgers, and if the publication is a series of its own."""
    held_at: int | None = None
    """Time (ns) since which it is held for a person's approval, if it is. An `ApprovalEntry` states the decision."""
    plan: str | None = None
    """Keyed digest of its plan on a table of variants, if an engine built it (`Pseudonyms.plan`)."""


class SealEntry(_Entry, tag="seal", frozen=True, kw_only=True):
    """A release number and its bytes belong together, forever."""

    body: SealBody


class WithheldBody(msgspec.Struct, frozen=True):
    """Reasons for refusing a cut, for people, and the counts of the fold."""

    reasons: list[str]
    audit: CutSection = {}


class WithheldEntry(_Entry, tag="withheld", frozen=True, kw_only=True):
    """A cut is refused, and never decided again."""

    body: WithheldBody
    waits_for: int = 0
    """Number of the held release that had to be decided first, if that was the reason."""


class BurnedEntry(_Entry, tag="burned", frozen=True, kw_only=True):
    """The bytes of a sealed number are gone: it is never used again, and its charge is kept."""


Ruling = Literal["approved", "rejected", "superseded", "refused"]
"""Decision on a held release. approved: it leaves. rejected: its number is never used. superseded: nor is it, since a
newer release took its place. refused: the gate did not pass the approval, and the release is still held."""


class ApprovalBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's decision on a held release: name, reason and time (ns). `reasons`: what the gate had against it."""

    decision: Ruling
    by: str
    why: str
    at: int
    reasons: tuple[str, ...] = ()


class ApprovalEntry(_Entry, tag="approval", frozen=True, kw_only=True):
    """A person decided on a held release. The first decision counts; one that the gate refused is not a decision."""

    body: ApprovalBody


class PublishedEntry(_Entry, tag="published", frozen=True, kw_only=True):
    """A release is visible, and was announced."""


class ErasedBody(msgspec.Struct, frozen=True, kw_only=True):
    """Number of cases to erase, their digests, and the numbers of the releases that contained one.

    `known`: how many of the cases the state had; entries of earlier versions lack it. `archived_events`: how many of
    their events were in the archive; not written if none was.
    """

    cases: int = 1
    known: int | msgspec.UnsetType = msgspec.UNSET
    tombstones: tuple[str, ...] = ()
    releases: tuple[int, ...] = ()
    archived_events: int | msgspec.UnsetType = msgspec.UNSET


class ErasedEntry(_Entry, tag="erased", frozen=True, kw_only=True):
    """Cases are gone from state and audits, and never come back."""

    body: ErasedBody = ErasedBody()


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The log and the configuration of a replay's folder.

    Digests of the log and of the configuration, the id of the pseudonym key, the last moment (ns) of `--until`, and the
    names of the publications: a publication without any attempt has a verdict too.
    """

    log: str | None = None
    config: str | None = None
    key: str | None = None
    until: str | None = None
    publications: tuple[str, ...] = ()


class ClaimEntry(_Entry, tag="note", frozen=True, kw_only=True):
    """The output folder belongs to the replay of one log under one configuration. Written as kind `note`."""

    body: ClaimBody


class DeltaAnchor(msgspec.Struct, frozen=True):
    """Offset `first` of the topic with id `log` is at position `base + first`; nothing before it counts."""

    log: str
    base: int = 0
    first: int = 0


class NoteBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that are not decisions; each note has one of these.

    * `first_seen`: clock (ns) at which the ledger first recorded the publication;
    * `publishing`: number of a release whose moment has come;
    * `gap`, `missing`: position at which lost source events were accepted, and what is missing;
    * `delta`: which delta topic the positions count, from where on.
    """

    first_seen: int | None = None
    publishing: int | None = None
    gap: int | None = None
    missing: tuple[str, ...] = ()
    delta: DeltaAnchor | None = None


class NoteEntry(_Entry, tag="note", frozen=True, kw_only=True):
    """A fact that later starts need, and that decides nothing by itself."""

    body: NoteBody = NoteBody()


Entry = (
    ChargeEntry
    | SealEntry
    | WithheldEntry
    | BurnedEntry
    | ApprovalEntry
    | PublishedEntry
    | ErasedEntry
    | ClaimEntry
    | NoteEntry
)
"""One line of the ledger."""


class _RawNote(_Entry, tag="note", frozen=True, kw_only=True):
    """Claims and notes share a tag, and are distinguished by the keys of the body."""

    body: msgspec.Raw = msgspec.Raw(b"{}")

    def to_entry(self) -> ClaimEntry | NoteEntry:
        claim = msgspec.json.decode(self.body, type=ClaimBody)
        if claim.log is not None:
            return ClaimEntry(
                publication=self.publication,
                cut=self.cut,
                sequence=self.sequence,
                owner=self.owner,
                body=claim,
            )
        note = msgspec.json.decode(self.body, type=NoteBody)
        return NoteEntry(
            publication=self.publication,
            cut=self.cut,
            sequence=self.sequence,
            owner=self.owner,
            body=note,
        )


_AnyRawEntry = (
    ChargeEntry | SealEntry | WithheldEntry | BurnedEntry | ApprovalEntry | PublishedEntry | ErasedEntry | _RawNote
)
_DECODER: msgspec.json.Decoder[_AnyRawEntry] = msgspec.json.Decoder(_AnyRawEntry)


def write_entry(entry: Entry) -> bytes:
    """Encode an entry, for file and topic."""
    return msgspec.json.encode(entry)


def read_entry(line: bytes) -> Entry:
    """Decode an entry of this or an earlier version.

    Raises
    ------
    msgspec.DecodeError
        If the bytes are not an entry.
    """
    entry = _DECODER.decode(line)
    return entry.to_entry() if isinstance(entry, _RawNote) else entry


def charge_key(cut: str, redraw: int) -> str:
    """Key of the charge that pays for a draw of a cut. `redraw`: how many numbers of this cut were burned before."""
    return f"charge/{cut}/{redraw}" if redraw else f"charge/{cut}"


def key_of(entry: Entry) -> str | None:
    """Return what makes an entry the only one of its kind; None for entries that may repeat.

    One charge a cut, and one more for each number that the cut lost (`charge_key`); one refusal per cut; one seal and
    one publication per number, and one decision on a held one.
    """
    match entry:
        case ChargeEntry():
            return charge_key(entry.cut, entry.body.redraw)
        case SealEntry():
            return f"number/{entry.publication}/{entry.sequence}"
        case WithheldEntry():
            return f"withheld/{entry.cut}"
        case PublishedEntry():
            return f"published/{entry.publication}/{entry.sequence}"
        case ApprovalEntry() if entry.body.decision != "refused":
            return f"approval/{entry.publication}/{entry.sequence}"
        case _:
            return None


def charge_entry(
    publication: str,
    cut: str,
    charge: Charge,
    redraw: int = 0,
    accounting: Accounting = PURE,
    draws: Iterable[Draw] = (),
) -> ChargeEntry:
    """Return the entry that commits a charge before the draw.

    Parameters
    ----------
    publication, cut
        Publication and id of the cut.
    charge
        The exact charge.
    redraw
        Number of the redraw; see `charge_key`.
    accounting
        How the charges of the ledger are added up.
    draws
        The noise that the charge pays for; empty if the mechanism does not state it.
    """
    alone = accounting.loss(charge)
    body = ChargeBody(
        epsilon=str(alone.epsilon),
        delta=str(alone.delta),
        redraw=redraw,
        draws=tuple(DrawBody.of(draw) for draw in draws),
    )
    if charge.rho:
        body = msgspec.structs.replace(body, rho=str(charge.rho), tail=str(charge.delta))
    return ChargeEntry(publication=publication, cut=cut, body=body)
