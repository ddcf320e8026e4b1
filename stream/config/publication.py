"""`[[publication]]`: one stream of releases, and which of them can go to one audience."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import (
    AwareDatetime,
    Field,
    field_validator,
    model_validator,
)

from connectors.times import nanoseconds as instant
from models.dp.accumulation import MOST_RELEASES, Shape
from models.dp.budget import Charge
from models.errors import InputError
from stream.config.faults import naming
from stream.config.process import ConfigTable, kept_moment, plain_name
from stream.config.window import read_window
from stream.fold.rules import Late
from stream.fold.window import Window
from stream.release.audits import audits
from stream.release.contract import AUDIENCE, Audit, Mechanism
from stream.release.gate import GatePolicy, refuse_impossible
from stream.release.mechanisms import mechanism
from stream.release.once import Accumulate, OncePerCase
from stream.release.schedule import LONGEST_BUILD
from stream.values.duration import Duration

RESERVED = {"checkpoints", "key", "ledger", "lock", "quarantine", "staging", "withheld"}
"""Names that the operator's folder needs itself. A publication of that name would overwrite them."""

READS_DATA = {"new_cases", "new_events", "completed_cases", "events_per_case", "skip_if_unchanged", "min_new_cases"}
"""Triggers and guards whose moment depends on the data, and would therefore reveal data."""

FIRST_IS_PUBLIC = {"until"}
"""Keys of `first` that do not read the data: a fixed moment."""

Format = Literal["xes", "csv", "parquet"]


class Publication(ConfigTable):
    """One stream of releases: window, mechanism, audit, gate."""

    name: str
    """Folder and label of its releases. Choose a name that recipients recognise; a renamed publication is a new series
    from release 1."""
    audience: str = AUDIENCE
    """The recipients. All releases of one audience are audited and gated as one series. Set it when releases go to
    recipients who do not share them with each other."""
    window: dict[str, Any]
    """When a release is taken: see publication.window. Choose a trigger that fits how often recipients need a release;
    fewer and larger releases hide each person better."""
    mechanism: dict[str, Any]
    """`{ kind = .., parameters }`: see the tables of the kinds below. Choose `tlkc-cohorts` for true cases in groups,
    `dp-variants` or `dp-synthetic` for noisy counts (docs/choosing-parameters.md)."""
    audit: dict[str, Any] = Field(default={})
    """Keys of publication.audit; further measures as tables of their own: `risk = { .. }`, or `risk = false` for none.
    Set it when the adversary knows more than two events, or when a measure takes too long."""
    gate: GatePolicy = GatePolicy()
    """Bounds that a release must hold: see publication.gate. Set it when a release must not leave unless it keeps a
    bound."""
    cases: Literal["all", "completed"] = "all"
    """`all`: every release is about everything so far, and charges add up. `completed`: each case is in one
    release, after it completed; later events of a case are lost (docs/series.md). Of a dp series one charge then pays
    for all releases. Set it when a dp series must continue forever, or when years of cohorts must fit into memory."""
    release: Literal["cumulative", "increment"] = "cumulative"
    """`tlkc-cohorts`: the files of a release hold everything released so far, or, as `increment`, only the
    cases that are new since the last release. All figures are those of everything so far in both
    (docs/increments.md). Set it when releases have become so large that recipients read a series as one
    data set of many files."""
    accumulate: Accumulate = "none"
    """A second log over everything published so far, free of charge: `sum` adds noisy counts up; `tree` keeps
    noise smaller over a declared horizon; `factorized` (`dp-synthetic`) lets the noise of later releases take that of
    earlier ones back, for a third more noise in single releases. Set it when recipients of a series with `cases =
    "completed"` want one log instead of many."""
    horizon: int | None = Field(default=None, ge=1, le=MOST_RELEASES)
    """The number of releases that the accumulated log is planned for. Set it when `accumulate` is `tree` or
    `factorized`, or when you know how many releases will be added up."""
    late: Late = "next_release"
    """Events behind the cut that should have shown them: `next_release` shows them then, `drop` leaves them out,
    `dlq` also writes them there. Set it when late events must not change what earlier releases said, or when
    somebody must look at them."""
    formats: tuple[Format, ...] = Field(default=("xes",), min_length=1)
    """The files of a release. Set it when recipients read tables (`csv`, `parquet`) instead of XES."""
    release_attributes: tuple[str, ...] = ()
    """Attributes of cases that are released: public ones, and sensitive ones as classes (values of fewer than K
    cases as `other`). Set it when recipients compare groups of cases, such as diagnoses or wards."""
    resources: Literal["none", "roles", "pseudonyms"] | None = None
    """`roles` of at least K resources (process.resource_roles), or `pseudonyms` for each employee. Otherwise no
    resource is released. Set it when recipients study handovers, so that the mechanism counts resources (`attribute =
    "ar"` or `"re"`)."""
    start: AwareDatetime | None = None
    """The moment from which windows are counted; there is none before it. Set it when windows begin with the start of
    recording, or when a dp publication is replayed."""
    publish_after: Duration | None = None
    """dp: time from the cut to the publication, 15m by default, which hides the time of a build; longer builds are
    withheld. Set it when builds take longer than 15 minutes, or when recipients need a release sooner."""
    assess: bool = False
    """Attack the mechanism on held-out cases before each release; the result is kept next to the audit and refuses
    nothing. Set it when an officer wants to see what attackers get from each release. With noise, `publish_after` must
    leave time for two more builds."""
    approval: Literal["none", "required"] = "none"
    """`required`: a release that passes the gate is charged, sealed and held until `veilstream approve`. Set it
    when an officer must look at each release before it leaves."""
    hold: Literal["block", "supersede"] = "block"
    """While a release is held for approval, `block` takes no later one, and `supersede` replaces it by the next
    candidate. Set it when an officer may take longer than a window and only the newest release matters."""

    _moment = field_validator("start")(kept_moment)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"publication name {value!r} is reserved")
        return plain_name(value, "publication.name")

    @field_validator("audience")
    @classmethod
    def _audience(cls, value: str) -> str:
        return plain_name(value, "publication.audience")

    @model_validator(mode="after")
    def _parts(self) -> Publication:
        place = f"publication {self.name!r}"
        refuse_impossible(self.gate, self.build_mechanism, place)
        self._refuse_data_cuts(place)
        window = self.build_window  # built here, so that a fault in it is reported when the file is read
        if self.start is not None and window.every is None:
            raise InputError(f"{place}: start is the begin of windows of `every`, but window.every is not set")
        if self.publish_after is not None and self.build_mechanism.reads_data_in_gate:
            raise InputError(
                f"{place}: publish_after hides how long a build took, which only dp releases must not reveal; "
                f"{self.build_mechanism.kind} makes none; remove it"
            )
        self._refuse_log_keys(place)
        self._refuse_other_resources(place)
        self._refuse_vacuous_bounds(place)
        self._refuse_impossible_ba(place)
        if self.cases == "completed":
            self._refuse_twice(place)
        self._refuse_other_releases(place)
        self._refuse_accumulation(place)
        return self

    @property
    def spends(self) -> bool:
        """Whether the releases are paid for from a privacy budget."""
        return self.build_mechanism.charge() != Charge()

    @cached_property
    def build_mechanism(self) -> Mechanism:
        """The mechanism of the table, validated.

        It aims at the bound of the gate on what the rules of local suppression give away: a gate that only refuses
        would withhold a release that a few more removed events make acceptable.
        """
        table = dict(self.mechanism)
        if table.get("suppression") == "local" and self.gate.max_minimality is not None:
            table.setdefault("max_minimality", self.gate.max_minimality)
        with naming(self.name, "mechanism"):
            return mechanism(table)

    @cached_property
    def build_audits(self) -> tuple[Audit, ...]:
        """The audits of the table, in order."""
        with naming(self.name, "audit"):
            return audits(self.audit)

    @cached_property
    def build_window(self) -> Window:
        """The window of the table, validated."""
        with naming(self.name, "window"):
            return read_window(self.window)

    @property
    def start_ns(self) -> int | None:
        """`start` in ns since 1970-01-01 UTC."""
        return None if self.start is None else instant(self.start)

    @property
    def private(self) -> bool:
        """Whether the releases carry a dp promise."""
        return not self.build_mechanism.reads_data_in_gate

    def once(self, *, person: bool) -> OncePerCase | None:
        """Return the terms under which each case counts once, if it does.

        Parameters
        ----------
        person : bool
            Whether the process has the person of each case.

        Returns
        -------
        OncePerCase or None
            None if each release is about everything so far.
        """
        if self.cases == "all":
            return None
        if self.waits:  # nothing is charged, so there is nothing that a person's number of cases changes
            return OncePerCase(cases_per_person=1, enforced=False)
        most = int(getattr(self.build_mechanism, "cases_per_person", 1))
        return OncePerCase(most, person, accumulate=self.accumulate)

    @property
    def accumulation(self) -> Shape | None:
        """The shape in which releases add up to a second log, if they do."""
        if self.accumulate == "none":
            return None
        return Shape.of(self.accumulate, self.horizon)

    @property
    def waits(self) -> bool:
        """Whether each case is in one release, and may wait for it until others are like it."""
        return self.cases == "completed" and self.build_mechanism.keeps_cases

    @property
    def counted_from_start(self) -> bool:
        """Whether windows must be counted from a public moment, because moments are protected."""
        return self.private and not self.gate.public_cut and self.build_window.every is not None

    @property
    def delay(self) -> int | None:
        """Nanoseconds from a cut to its publication; None: it is published at once."""
        return (self.publish_after or LONGEST_BUILD) if self.private else None

    @property
    def carries_resources(self) -> bool:
        """Whether the mechanism counts and releases who did an event."""
        return "resource" in (self.build_mechanism.perspective or ())

    def _refuse_log_keys(self, place: str) -> None:
        """Refuse keys about the log of a release for a kind that releases none."""
        if self.build_mechanism.releases_log:
            return
        keys: list[str] = [name for name in ("formats", "release_attributes") if name in self.model_fields_set]
        if self.assess:
            keys.append("assess")
        if keys:
            raise InputError(
                f"{place}: {keys[0]} is about released logs, and {self.build_mechanism.kind} has none; remove it"
            )

    def _refuse_other_resources(self, place: str) -> None:
        """Refuse to release resources that the mechanism does not count.

        A role with an activity that the mechanism does not count would be knowledge that no bound covers.
        """
        if self.resources in ("roles", "pseudonyms") and not self.carries_resources:
            raise InputError(
                f'{place}: resources = "{self.resources}" needs a mechanism that counts them: mechanism.attribute = '
                f'"ar" (activities and resources) or "re"; {self.build_mechanism.kind} as configured releases none'
            )
        if self.resources == "none" and self.carries_resources:
            raise InputError(
                f'{place}: resources = "none", but its mechanism releases them (mechanism.attribute = "ar" or "re"); '
                'use attribute = "ac"'
            )

    def _refuse_vacuous_bounds(self, place: str) -> None:
        """Refuse bounds that every release would pass.

        With n >= bk_length every record matches. The least value of `all` or `common` is nearly always 0, with no case
        as a victim, and a gate ignores such values.
        """
        for audit in self.build_audits:
            ns, length = getattr(audit, "n", ()), getattr(audit, "bk_length", None)
            minimum = getattr(audit, "minimum", "realisable")
            if self.gate.anonymity_bounds and minimum != "realisable":
                raise InputError(
                    f'{place}: audit.minimum = "{minimum}" is for reports: its least values are mostly 0, which no '
                    'case is behind, and the gate would pass whatever is released; use "realisable"'
                )
            if self.gate.anonymity_bounds and length is not None and max(ns, default=0) >= length:
                raise InputError(
                    f"{place}: audit.n = {max(ns)} is not below bk_length = {length}: with it every record matches "
                    "and the gate would pass whatever is released"
                )

    def _refuse_impossible_ba(self, place: str) -> None:
        """BA counts the cases that are new since an earlier release: never more than a window brings."""
        window, min_ba = self.build_window, self.gate.min_ba
        if min_ba is None or window.new_cases is None:
            return
        brought = max(window.new_cases, window.min_new_cases or 0)
        if brought < min_ba:
            raise InputError(
                f"{place}: min_ba = {min_ba} cannot hold where a window brings {brought} new cases; "
                f"set window.new_cases to at least {min_ba}"
            )

    def _refuse_data_cuts(self, place: str) -> None:
        if self.private and self.build_window.only_events_per_case:
            # The trigger depends on events of other people, and the exposure on ticks: one row could fire without end.
            raise InputError(
                f"{place}: window.events_per_case cannot fire by itself for {self.build_mechanism.kind}; "
                "add every = ... or manual = true"
            )
        if self.build_mechanism.reads_data_in_gate or (self.gate.public_cut and self.cases == "all"):
            return
        first = self.window.get("first") or {}
        keys = [f"window.{name}" for name in sorted(READS_DATA & set(self.window))]
        keys += [f"window.first.{name}" for name in sorted(set(first) - FIRST_IS_PUBLIC)]
        if keys:
            raise InputError(
                f"{place}: {keys[0]} reads the data, so the moment of a {self.build_mechanism.kind} release "
                "would itself reveal something; use every = ... or manual"
                + (", or set gate.public_cut = true (the promise then states it)" if self.cases == "all" else "")
            )

    def _refuse_other_releases(self, place: str) -> None:
        """Refuse `release` for a publication whose releases cannot be cumulative, or cannot be increments."""
        if self.cases == "completed" and "release" in self.model_fields_set:
            raise InputError(
                f'{place}: with cases = "completed" each release holds only cases that no other one holds; remove '
                "release, which is for releases that show earlier cases again"
            )
        if self.release == "increment" and not self.build_mechanism.keeps_cases:
            raise InputError(
                f'{place}: release = "increment" needs releases that never change an earlier case, which only '
                f"tlkc-cohorts makes; {self.build_mechanism.kind} anonymizes all cases again; remove it"
            )

    def _refuse_accumulation(self, place: str) -> None:
        """Refuse a second log that could not be made, or that adds nothing."""
        if self.accumulate == "none":
            if self.horizon is not None:
                raise InputError(f"{place}: horizon is of accumulated logs; add accumulate, or remove it")
            return
        kind = self.build_mechanism.kind
        if self.cases == "all":
            raise InputError(
                f'{place}: accumulate adds up releases of different cases; with cases = "all" each release is about '
                'everything so far already; add cases = "completed", or remove it'
            )
        if read := self.gate.reading("release"):
            raise InputError(
                f"{place}: gate.{read[0]} decides by the release, so an attempt that it withholds reveals noise that "
                "accumulated logs use, and that the next attempt would draw again; remove it, or accumulate"
            )
        if not self.build_mechanism.accumulates:
            raise InputError(
                f"{place}: releases of {kind} do not add up (only noisy counts do); use dp-variants or dp-synthetic, "
                "or remove accumulate"
            )
        try:
            self.build_mechanism.check_series(Shape.of(self.accumulate, self.horizon))
        except InputError as error:
            raise InputError(f"{place}: accumulate: {error}") from None

    def _refuse_twice(self, place: str) -> None:
        """Refuse what breaks a series in which each case is in one release.

        With noise, the window of a case must depend on that case's own events and on public moments.
        """
        kind, window = self.build_mechanism.kind, self.build_window
        if not self.build_mechanism.counts_cases and not self.build_mechanism.keeps_cases:
            raise InputError(
                f'{place}: cases = "completed" is for noisy counts of cases, where one charge then pays for the '
                f"series, and for groups of cases that never change (tlkc-cohorts); {kind} makes none of these; "
                "remove it"
            )
        if window.first is not None:
            raise InputError(
                f'{place}: first shapes a release that grows; with cases = "completed" each release is about '
                "the cases that completed since the last one; remove it"
            )
        if self.private and window.tumbling and not self.gate.public_cut:
            origin = "" if "time" in self.window else " (the default)"
            raise InputError(
                f'{place}: window.time = "event"{origin} closes a window when the events of all have passed it, so '
                'which window a case falls into can depend on others; use time = "wall", or set gate.public_cut = true '
                "(the promise then states it)"
            )


def refuse_impossible_audience(name: str, members: Sequence[Publication]) -> None:
    """Check that the publications of one audience can be one series.

    Raises
    ------
    InputError
        If their contents cannot be compared, or if the promise of one over all releases would not hold because of
        another.
    """
    linked = [publication for publication in members if publication.build_mechanism.perspective is not None]
    remembering = [publication for publication in linked if publication.build_mechanism.remembers]
    if len(linked) > 1:
        _refuse_roles(name, linked)
        _refuse_other_columns(name, linked)
    if len(linked) > 1:
        _refuse_others_beside_once(name, linked)
    if remembering:
        _refuse_other_memory(name, linked, remembering[0])
        _refuse_uncounted(name, members, remembering[0])
    if len(linked) > 1:
        _refuse_bound_of_series(name, linked)


def _refuse_others_beside_once(name: str, linked: Sequence[Publication]) -> None:
    """Refuse other publications in the audience of one that forgets its released cases: nothing could compare them."""
    forgetting = next((publication for publication in linked if publication.waits), None)
    if forgetting is None:
        return
    other = next(publication for publication in linked if publication is not forgetting)
    raise InputError(
        f"publications {forgetting.name!r} and {other.name!r} go to one audience ({name}): {forgetting.name!r} has "
        f'cases = "completed", so it forgets the cases that it released, and nothing can count what the releases of '
        "both give away together; give one of them another audience"
    )


def _refuse_roles(name: str, linked: Sequence[Publication]) -> None:
    by_role = [publication for publication in linked if publication.resources == "roles"]
    if by_role:
        other = next(publication for publication in linked if publication is not by_role[0])
        raise InputError(
            f"publications {by_role[0].name!r} and {other.name!r} go to one audience ({name}): which roles represent "
            "enough resources is decided for one series; give one of them another audience"
        )


def _refuse_other_columns(name: str, linked: Sequence[Publication]) -> None:
    first = linked[0]
    for publication in linked[1:]:
        if publication.build_mechanism.perspective != first.build_mechanism.perspective:
            carried = [", ".join(each.build_mechanism.perspective or ()) for each in (first, publication)]
            raise InputError(
                f"publications {first.name!r} and {publication.name!r} go to one audience ({name}) and carry "
                f"{carried[0]} and {carried[1]}: what they give away together cannot be counted; give one of them "
                "another audience"
            )


def _refuse_other_memory(name: str, linked: Sequence[Publication], first: Publication) -> None:
    """Refuse publications that cannot continue the memory of `first`, whose promise is about the whole audience."""
    for publication in linked:
        if publication is first:
            continue
        mechanism = publication.build_mechanism
        if mechanism.kind != first.build_mechanism.kind or not mechanism.shares_memory:
            raise InputError(
                f"publications {first.name!r} and {publication.name!r} go to one audience ({name}): the promise of "
                f"{first.build_mechanism.kind} is about all releases of its audience, and does not hold together "
                f"with {publication.build_mechanism.kind}; give one of them another audience"
            )
        first_claim, claim = first.build_mechanism.claim(), publication.build_mechanism.claim()
        if first_claim != claim:
            differing = ", ".join(key for key in claim if claim[key] != first_claim.get(key))
            raise InputError(
                f"publications {first.name!r} and {publication.name!r} share their cohorts, since they go to one "
                f"audience ({name}), and differ in {differing}; make these equal, or give one of them another audience"
            )


def _refuse_uncounted(name: str, members: Sequence[Publication], first: Publication) -> None:
    """Refuse publications whose records no audit compares, and which no budget bounds: those of `amun`."""
    for publication in members:
        if publication.build_mechanism.perspective is None and not publication.spends:
            raise InputError(
                f"publications {first.name!r} and {publication.name!r} go to one audience ({name}): what "
                f"{publication.build_mechanism.kind} reveals in addition to {first.build_mechanism.kind} cannot be "
                "counted; give one of them another audience"
            )


def _refuse_bound_of_series(name: str, linked: Sequence[Publication]) -> None:
    for publication in linked:
        if publication.gate.min_series is not None:
            raise InputError(
                f"publication {publication.name!r}: gate.min_series is counted over releases with the same windows, "
                f"and audience {name} receives other publications too; give it an audience of its own"
            )
