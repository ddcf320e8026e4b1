"""`tlkc-cohorts`: completed cases in cohorts that each satisfy TLKC and never change again (docs/fcb-safe.md).

The registry of an audience (the file memory.json) holds every case of its cohorts exactly as it was first published.
All publications of cohorts to one audience continue one registry: a case that one of them released is in no cohort of
another. A publication shows the cohorts that it made. It also shows whole cohorts of others, as soon as its own window
exposes all their cases; a part of a cohort would promise nothing. Every release is a union of whole cohorts.

If each case is in one release (`cases = "completed"`), a release is its new cohort alone. The registry then
keeps sums of the cohorts that left before (`FormerCohorts`), and no case of them.

A build (`TlkcCohorts.build`) goes through these steps:

1. Read the registry, and take over the cohorts of other publications that can be shown from now on.
2. Collect the queue: completed cases that are in no cohort yet.
3. Divide the queue into cases that leave now and cases that wait for others like them (`_divided`).
4. Make the cases that leave satisfy TLKC as a log of their own (`models.anonymize.cohorts.cohort`): the new cohort.
5. Add it to the registry, and release all cohorts that the publication shows.

The file has the documents of the registry (`Memory`, `Cohort`), the registry with its index
(`PublishedCohorts`), and the mechanism (`TlkcCohorts`). A cohort is kept in columns: a case of ten events
takes some 190 bytes in memory, and in lists of Python values it would take 570.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from models.anonymize.cohort_division import (
    ItemPriorities,
    Patience,
    check_feasible,
    divided,
    frequent,
    item_priorities,
)
from models.anonymize.cohorts import SMALL_QUEUE, Alphabet, CohortRules, balanced, cohort, refuse_moving_bins
from models.anonymize.local import Choice
from models.anonymize.microaggregation import Pair, Pending, microaggregated_after
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import class_columns
from models.anonymize.tlkc import TlkcProblem
from models.anonymize.values import written
from models.chance import Chance
from models.errors import BoundError, RefusedError, TooFewCasesError
from models.eventlog import MISSING, Column, EventLog, Ints, places_of, starts_of
from stream.ledger.release_record import item_of_json
from stream.release.contract import Build, Exposure
from stream.release.mechanisms.suppression import UNTIMED, operator_view
from stream.release.mechanisms.tlkc import TlkcMechanism, values_words
from stream.release.once import OncePerCase

VERSION = 4
"""Version of memory.json. Version 1 did not record which publications show a cohort, version 3 had no sums of former
cohorts."""

COLUMNS_SINCE = 3
"""Version of memory.json since which a cohort is in columns."""

LEAST_SHARE = 0.4
"""Default of `min_share`: the least share of its events that a new cohort keeps. Otherwise the queue waits."""

Claim = Mapping[str, Any]
"""Settings that all cohorts of a registry must share, by name: parameters of the mechanism, sensitive and public
attributes."""


class Cohort(msgspec.Struct, frozen=True, eq=False):
    """Cases that left together and never change, in columns.

    Attributes
    ----------
    cases
        Pseudonym of each case, C of them. Erasure removes some.
    lengths
        int64[C], number of published events.
    exposed
        int64[C], number of events that the case had when it was published.
    activity, resource
        Released value of each event, case by case: E entries. Missing where the release does not carry them.
    time
        int64[E], nanoseconds since the first event of the case; 0 if times are ordinal.
    sensitive
        Sensitive values of the cases by name, C entries each.
    n_actual
        Most events removed from one case.
    size
        Number of cases when the cohort left.
    shown
        Publications that show the cohort.
    below_k
        Result of the audit of minimality; None for other suppression than `local`, or if an earlier program made the
        cohort.
    """

    cases: tuple[str, ...]
    lengths: Ints
    exposed: Ints
    activity: Column
    resource: Column
    time: Ints
    sensitive: dict[str, Column]
    n_actual: int
    size: int
    shown: tuple[str, ...] = ()
    below_k: int | None = None

    def without(self, gone: Collection[str]) -> Cohort:
        """Return the cohort without some cases; its size remains as it was."""
        is_left = np.asarray([name not in gone for name in self.cases], dtype=np.bool_)
        _, events = places_of(starts_of(self.lengths), np.flatnonzero(is_left))
        return msgspec.structs.replace(
            self,
            cases=tuple(itertools.compress(self.cases, is_left)),
            lengths=self.lengths[is_left],
            exposed=self.exposed[is_left],
            activity=self.activity.take(events),
            resource=self.resource.take(events),
            time=self.time[events],
            sensitive={name: column.take(is_left) for name, column in self.sensitive.items()},
        )

    def activities_of(self, case: str) -> list[Any]:
        """Return the published activities of one case of the cohort."""
        place = self.cases.index(case)
        begin, end = starts_of(self.lengths)[place : place + 2]
        return self.activity.take(slice(begin, end)).decode()

    def values(self, name: str) -> Column:
        """Return a sensitive attribute of the cases; missing if the cohort was published without it."""
        return self.sensitive.get(name) or _missing(len(self.cases))


class FormerCohorts(msgspec.Struct, frozen=True):
    """Sums over the cohorts of a series in which each case is in one release.

    Attributes
    ----------
    publication
        The publication that released them. No other one may continue the series: it would not know their cases.
    cohorts
        How many there are.
    recorded, published
        (activity, events) of their cases, as recorded and as published. An activity that no cohort has shown is not
        named: it could be that of one person.
    """

    publication: str
    cohorts: int = 0
    recorded: list[tuple[Any, int]] = []
    published: list[tuple[Any, int]] = []


class Memory(msgspec.Struct, frozen=True, eq=False):
    """The document memory.json, which a build writes and the next one reads (`PublishedCohorts`)."""

    cohorts: list[Cohort]
    alphabet: list[Any] | None = None
    version: int = VERSION
    claim: Claim | None = None
    waiting: dict[str, int] = {}
    pending: list[tuple[Any, Any, int, int, int, int | None]] = []
    former: FormerCohorts | None = None

    def __getitem__(self, name: str) -> Any:
        """Return a field by its key in the document."""
        return getattr(self, name)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Memory:
        """Read the content of memory.json, of this version or of an earlier one.

        Raises
        ------
        RefusedError
            If a newer program wrote it.
        """
        version = document.get("version", 1)
        if version > VERSION:
            raise RefusedError(f"memory.json of tlkc-cohorts: version {version} is newer than this program")
        if version < COLUMNS_SINCE:
            cohorts = [_columns_of(cohort) for cohort in document["cohorts"]]
            document = {**document, "cohorts": cohorts, "version": VERSION}
        return msgspec.convert(document, cls, dec_hook=_array)


def _array(kind: Any, values: Any) -> Any:
    """Return the array of a field from its list in the document."""
    _, dtype = get_args(kind)  # numpy.ndarray[shape, numpy.dtype[scalar]]
    (scalar,) = get_args(dtype)
    return np.asarray(values, dtype=scalar)


def _columns_of(cohort: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cohort of versions 1 and 2 in columns.

    It has a row [activity, resource, time, sensitive, exposed] for each case.
    """
    rows = list(cohort["cases"].values())
    values_of_case = [sensitive for _, _, _, sensitive, _ in rows]
    names = dict.fromkeys(name for values in values_of_case for name in values)
    columns = {
        "cases": list(cohort["cases"]),
        "lengths": [len(time) for _, _, time, _, _ in rows],
        "exposed": [exposed for _, _, _, _, exposed in rows],
        "activity": _column_document(value for activity, *_ in rows for value in activity),
        "resource": _column_document(value for _, resource, *_ in rows for value in resource),
        "time": [value for _, _, time, _, _ in rows for value in time],
    }
    sensitive = {name: _column_document(values.get(name) for values in values_of_case) for name in names}
    return {**cohort, **columns, "sensitive": sensitive}


def _column_document(values: Iterable[Any]) -> dict[str, Any]:
    column = Column.encode(values)
    return {"codes": column.codes.tolist(), "values": list(column.values)}


def _missing(entries: int) -> Column:
    """Return a column without a value."""
    return Column(np.full(entries, MISSING, dtype=np.int32), ())


@dataclass(frozen=True, slots=True)
class PublishedCohorts:
    """The published cohorts, oldest first.

    Attributes
    ----------
    alphabet
        The items that all cohorts share, if the alphabet is common.
    place_of
        Place of each published case by pseudonym, counted over all cohorts.
    claim
        Settings of the cohorts; None if an older program did not record them.
    waiting
        Number of releases that each case of the queue has waited for.
    pending
        Undisclosed part of the times of each directly-follows pair.
    former
        Sums over cohorts whose cases no later release shows; None if releases show all cohorts.
    """

    cohorts: tuple[Cohort, ...] = ()
    alphabet: tuple[Any, ...] | None = None
    place_of: dict[str, int] = field(default_factory=dict)
    claim: Claim | None = None
    waiting: dict[str, int] = field(default_factory=dict)
    pending: dict[Pair, Pending] = field(default_factory=dict)
    former: FormerCohorts | None = None

    @classmethod
    def of(
        cls, cohorts: Sequence[Cohort], alphabet: Collection[Any] | None, claim: Claim | None = None
    ) -> PublishedCohorts:
        """Make the object with its index by case."""
        names = itertools.chain.from_iterable(cohort.cases for cohort in cohorts)
        index = {name: place for place, name in enumerate(names)}
        return cls(tuple(cohorts), None if alphabet is None else tuple(alphabet), index, claim)

    @classmethod
    def read(cls, memory: Any) -> PublishedCohorts:
        """Read memory.json, or the memory that a build of this process left; None is read as no cohorts."""
        if memory is None:
            return cls()
        kept = memory if isinstance(memory, Memory) else Memory.read(memory)
        items = None if kept.alphabet is None else [item_of_json(item) for item in kept.alphabet]
        claim = kept.claim
        if claim is not None and claim.get("knowledge") == "rel":
            claim = {"clock": "utc", **claim}  # earlier versions had no other clock
        pending = {
            (first, second): Pending(cases, events, owed, mean)
            for first, second, cases, events, owed, mean in kept.pending
        }
        registry = cls.of(kept.cohorts, items, claim)
        return replace(registry, waiting=kept.waiting, pending=pending, former=kept.former)

    def memory(self) -> Memory:
        """Return the content of memory.json."""
        items = None if self.alphabet is None else list(self.alphabet)
        pending = [
            (*pair, waiting_pair.cases, waiting_pair.events, waiting_pair.owed, waiting_pair.mean)
            for pair, waiting_pair in self.pending.items()
        ]
        return Memory(
            list(self.cohorts),
            items,
            claim=self.claim,
            waiting=self.waiting,
            pending=pending,
            former=self.former,
        )

    @property
    def n_actual(self) -> list[int]:
        """Most events removed from a case, by cohort."""
        return [cohort.n_actual for cohort in self.cohorts]

    @property
    def size(self) -> int:
        """Number of cases that were ever published."""
        return sum(cohort.size for cohort in self.cohorts)

    @property
    def shown(self) -> list[tuple[str, ...]]:
        """The publications that show each cohort."""
        return [cohort.shown for cohort in self.cohorts]

    def of_publication(self, name: str) -> PublishedCohorts:
        """Return the cohorts that a publication shows."""
        cohorts = [cohort for cohort in self.cohorts if name in cohort.shown]
        return replace(PublishedCohorts.of(cohorts, self.alphabet, self.claim), former=self.former)

    def owned(self, publication: str) -> PublishedCohorts:
        """Return these cohorts; those without a publication become cohorts of `publication`."""
        cohorts = []
        for published_cohort in self.cohorts:
            shown = published_cohort.shown or (publication,)
            cohorts.append(msgspec.structs.replace(published_cohort, shown=shown))
        return self._with(cohorts)

    def taken_over(self, exposure: Exposure) -> PublishedCohorts:
        """Add the cohorts of other publications that this one can show from now on.

        It must expose all their cases, with no fewer events than they had when they were published.
        """
        name = exposure.publication
        if all(name in cohort.shown for cohort in self.cohorts):
            return self
        exposed_length = dict(zip(exposure.log.case_ids, exposure.log.lengths.tolist(), strict=True))

        def shown_if_possible(cohort: Cohort) -> Cohort:
            # A cohort that lost cases may no longer have K of them for what somebody knows.
            has_erased_cases = len(cohort.cases) < cohort.size
            if name in cohort.shown or has_erased_cases:
                return cohort
            lengths_now = np.asarray([exposed_length.get(case, 0) for case in cohort.cases], dtype=np.int64)
            if (lengths_now < cohort.exposed).any():
                return cohort
            return msgspec.structs.replace(cohort, shown=(*cohort.shown, name))

        return self._with([shown_if_possible(cohort) for cohort in self.cohorts])

    def _with(self, cohorts: Sequence[Cohort]) -> PublishedCohorts:
        """Return the same registry with other cohorts."""
        return replace(
            PublishedCohorts.of(cohorts, self.alphabet, self.claim),
            waiting=self.waiting,
            pending=self.pending,
            former=self.former,
        )

    def places(self, exposure: Exposure) -> Ints:
        """Return the place of each exposed case among the published ones, int64[C]; -1 if not published."""
        names = exposure.log.case_ids
        places = map(self.place_of.get, names, itertools.repeat(-1))
        return np.fromiter(places, np.int64, count=len(names))

    def queue(self, exposure: Exposure) -> Ints:
        """Return the completed cases that are not published yet: indices in the exposed log."""
        is_unpublished = self.places(exposure) < 0
        has_events = exposure.log.lengths > 0
        return np.flatnonzero(exposure.complete & is_unpublished & has_events)

    def waited(self, exposure: Exposure, queue: Ints) -> Ints:
        """Return how many releases each case of the queue has waited for."""
        names = exposure.log.case_ids
        return np.asarray([self.waiting.get(names[case], 0) for case in queue.tolist()], dtype=np.int64)

    def activities(self, exposure: Exposure) -> tuple[dict[Any, int], dict[Any, int]]:
        """Count the events of the published cases by activity: as recorded, and as published."""
        is_published = self.places(exposure) >= 0
        recorded = Counter[Any](_counts(exposure.log.activity, is_published[exposure.log.case_of_event]))
        published = Counter[Any]()
        for published_cohort in self.cohorts:
            published.update(_counts(published_cohort.activity))
        if self.former is not None:
            recorded.update(dict(self.former.recorded))
            published.update(dict(self.former.published))
        return recorded, published

    def with_queue(self, exposure: Exposure, queue: Ints) -> PublishedCohorts:
        """Return the registry with the cases of the queue that remain: they have waited for one more release."""
        names = [exposure.log.case_ids[case] for case in queue.tolist()]
        still_waiting = {name: self.waiting.get(name, 0) + 1 for name in names if name not in self.place_of}
        return replace(self, waiting=still_waiting)

    def joined(
        self,
        exposure: Exposure,
        fresh: Anonymized,
        alphabet: Collection[Any] | None,
        claim: Claim,
        times: Ints | None = None,
        pending: Mapping[Pair, Pending] | None = None,
    ) -> PublishedCohorts:
        """Add a new cohort.

        Parameters
        ----------
        exposure, fresh
            The exposed log, and the new cohort as it leaves.
        alphabet, claim
            Common items of the cohorts, if there are any, and their settings.
        times
            Times (ns) of its events, if they are neither relative nor ordinal.
        pending
            Undisclosed part of these times.
        """
        log = fresh.log
        carried = fresh.knowledge.carries
        hidden = _missing(log.n_events)
        # Values that no event of the cohort shows are dropped: they were suppressed.
        activity = log.activity.take(slice(None)) if "activity" in carried else hidden
        resource = log.resource.take(slice(None)) if "resource" in carried else hidden
        if times is None:
            is_relative = fresh.knowledge.structure == "rel"
            times = fresh.relative_ns if is_relative else np.zeros(log.n_events, dtype=np.int64)
        newest = Cohort(
            cases=log.case_ids,
            lengths=log.lengths,
            exposed=fresh.source.lengths[fresh.origin],
            activity=activity,
            resource=resource,
            time=times,
            sensitive={name: log.case_values(name) for name in exposure.linked},
            n_actual=fresh.n_actual,
            size=log.n_cases,
            shown=(exposure.publication,),
            below_k=_below_k(fresh),
        )
        with_newest = PublishedCohorts.of([*self.cohorts, newest], alphabet, claim)
        return replace(with_newest, waiting=self.waiting, pending=dict(pending or {}), former=self.former)

    def reduced_to_sums(self, exposure: Exposure) -> PublishedCohorts:
        """Return the registry with sums in place of cases, for a series that shows each case once."""
        recorded, published = self.activities(exposure)
        former_cohorts = 0 if self.former is None else self.former.cohorts
        former = FormerCohorts(
            publication=exposure.publication,
            cohorts=former_cohorts + len(self.cohorts),
            recorded=[(name, count) for name, count in recorded.items() if name in published],
            published=list(published.items()),
        )
        return replace(self, cohorts=(), place_of={}, former=former)

    def without(self, cases: Collection[str]) -> PublishedCohorts:
        """Return these cohorts without erased cases.

        The pending times of every pair that an erased case shows are dropped: they could be of that case alone. The
        pairs of a former case are not known any more, so those of all pairs are dropped then.
        """
        gone = set(cases)
        pairs_of_erased = set[Pair]()
        if self.former is not None:
            pairs_of_erased.update(self.pending)
        for erased_from in self.cohorts:
            for name in gone.intersection(erased_from.cases):
                pairs_of_erased.update(itertools.pairwise(erased_from.activities_of(name)))
        pending = dict(self.pending)
        for pair in pairs_of_erased & pending.keys():
            pending[pair] = Pending(mean=pending[pair].mean)
        remaining = []
        for published in self.cohorts:
            has_erased_case = not gone.isdisjoint(published.cases)
            remaining.append(published.without(gone) if has_erased_case else published)
        waiting = {name: releases for name, releases in self.waiting.items() if name not in gone}
        return replace(self._with(remaining), waiting=waiting, pending=pending)

    def log(self, exposure: Exposure) -> tuple[EventLog, Ints]:
        """Return every published case that the state still has, and its index in the exposed log."""
        places = self.places(exposure)
        origin = np.flatnonzero(places >= 0)
        log = self._all(exposure.linked).select_cases(places[origin])
        log = replace(log, row=np.arange(log.n_events, dtype=np.int64))
        return written(log, exposure.linked), origin

    def _all(self, attributes: Sequence[str]) -> EventLog:
        """Return all cases of the cohorts as one log, with some attributes of the cases."""
        cohorts = self.cohorts
        time = np.concatenate([cohort.time for cohort in cohorts])
        columns = {name: Column.together([cohort.values(name) for cohort in cohorts]) for name in attributes}
        return EventLog(
            case_ids=tuple(itertools.chain.from_iterable(cohort.cases for cohort in cohorts)),
            starts=starts_of(np.concatenate([cohort.lengths for cohort in cohorts])),
            activity=Column.together([cohort.activity for cohort in cohorts]),
            time=time,
            resource=Column.together([cohort.resource for cohort in cohorts]),
            row=np.arange(len(time), dtype=np.int64),
            case_attributes=columns,
        )

    def cohort_of(self, exposure: Exposure, origin: Ints) -> Ints:
        """Return the number of the cohort of each published case, int64[len(origin)]."""
        sizes = [len(published_cohort.cases) for published_cohort in self.cohorts]
        number_at_place = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        return number_at_place[self.places(exposure)[origin]]

    def held(self, exposure: Exposure) -> tuple[int, int]:
        """Count the cases and events of the exposed log that are not published: open, or waiting for their cohort."""
        is_unpublished = self.places(exposure) < 0
        return int(np.count_nonzero(is_unpublished)), int(exposure.log.lengths[is_unpublished].sum())

    def late(self, exposure: Exposure) -> int:
        """Count the events that were recorded after their case was published: they are lost."""
        places = self.places(exposure)
        is_published = places >= 0
        exposed_then = np.concatenate([cohort.exposed for cohort in self.cohorts])
        recorded_since = exposure.log.lengths[is_published] - exposed_then[places[is_published]]
        return int(np.maximum(recorded_since, 0).sum())

    def summary(self) -> list[dict[str, int]]:
        """Return an entry for each cohort, for the operator."""
        rows = []
        first_number = 1 if self.former is None else self.former.cohorts + 1
        for number, published_cohort in enumerate(self.cohorts, start=first_number):
            cases = published_cohort.cases
            row = {
                "cohort": number,
                "cases": len(cases),
                "erased": published_cohort.size - len(cases),
                "events": len(published_cohort.time),
                "n_actual": published_cohort.n_actual,
            }
            if published_cohort.below_k is not None:
                row["minimality_below_k"] = published_cohort.below_k
            rows.append(row)
        return rows


def _counts(column: Column, rows: npt.NDArray[np.bool_] | slice = slice(None)) -> dict[Any, int]:
    """Count the entries of each value, of all rows or of some; values without an entry are left out."""
    codes = column.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.values)).tolist()
    return {value: count for value, count in zip(column.values, counts, strict=True) if count}


def _below_k(fresh: Anonymized) -> int | None:
    """Return how many audited candidates have fewer than K possible cases; None without the audit of minimality."""
    minimality = fresh.details.get("minimality")
    return None if minimality is None else int(minimality["below_k"])


UNCHECKED_COHORTS = "shares for weaker knowledge in cohorts of an earlier version (they were not checked for it)"

CLAIM_DEFAULTS = {"times": "ordinal", "resources": "pseudonyms", "cases": "all"}
"""Value of each field that a claim may leave out."""


class TlkcCohorts(TlkcMechanism):
    """Cases are published once, when complete, in a cohort that satisfies TLKC on its own; the rest waits."""

    remembers: ClassVar[bool] = True
    shares_memory: ClassVar[bool] = True
    keeps_cases: ClassVar[bool] = True

    kind: Literal["tlkc-cohorts"] = "tlkc-cohorts"
    alphabet: Alphabet = "per-cohort"
    """`common`: later cohorts show the items of the first one only, and suppress no more of them. Set it when
    recipients must not conclude anything from the activities that a cohort lacks."""
    min_share: float | None = Field(default=None, ge=0, le=1)
    """The queue waits while a cohort would keep less than this share of its events: 0.4, but none for 3 K cases
    with `local`. Set it when recipients prefer fewer releases with more events."""
    balance: float | None = Field(default=None, gt=0, le=1)
    """Largest share of one sensitive class among the cases that leave together, by default C; the rest of it waits.
    Set it when cohorts with a frequent class wait too long or lose too many events."""
    patience: int = Field(default=4, ge=0)
    """`local`: releases that a case waits at most for others like it; three times as many for an activity of 4 %
    of the cases that no cohort has shown; 0: none waits. Set it when timeliness matters more than rare activities
    (lower), or the reverse."""

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        combined = "" if self.alphabet == "common" else " conclusions from which activities each cohort shows or lacks;"
        return {
            "guaranteed": f"whatever somebody knows of a case, up to {self.L} items ({self.known_words}): in "
            f"every release to this audience at least {self.K} cases match it (or none), and as many remain possible "
            "for somebody who compares any two of these releases (attacks F, C, B)"
            f"{values_words(self.C, 'the matching cases of a release')}",
            "to_whom": "released cases",
            "against_whom": f"a recipient of all releases to this audience who knows at most {self.L} items of a "
            "case and when it was first published",
            "relation": None,
            "unit": "case",
            "not_guaranteed": f"anything against somebody who knows more than that;{self.left_words} what "
            "somebody learns by combining this with releases given to others, or with noisy ones; anything against "
            "somebody who knows when a case started;"
            f"{combined} conclusions from when a case first appeared (rare cases, and those of a class that is too "
            "frequent, are published later); cohorts that erasure or retention made smaller",
        }

    def promise_once(self, once: OncePerCase) -> Mapping[str, Any]:
        """Return the promise of a series in which each case is in one release; see `Mechanism.promise_once`."""
        promised = self.promise()
        return {
            **promised,
            "guaranteed": f"each case is in one release only, and whatever somebody knows of it, up to {self.L} items "
            f"({self.known_words}): in every release at least {self.K} cases match it (or none), also for somebody "
            f"who compares all releases to this audience{values_words(self.C, 'the matching cases of a release')}",
            "against_whom": f"a recipient of all releases to this audience who knows at most {self.L} items of a "
            "case and which release shows it",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build the published cases as they were, and a new cohort; only that if each case is in one release.

        Raises
        ------
        BoundError
            If the queue has to wait: a release that repeats the last one would be no release. Or if another publication
            has released cases to the audience and keeps none of them.
        """
        before = PublishedCohorts.read(memory)
        former = before.former
        if former is not None and former.publication != exposure.publication:
            raise BoundError(
                f"tlkc-cohorts: publication {former.publication} has released cases to this audience and keeps none of "
                "them, so they could be released again; give this publication another audience"
            )
        published = before.taken_over(exposure)
        claim = self._claim(exposure)
        claim_of_all = _claim_of_all(published, claim)
        if published.claim not in (None, claim_of_all):
            raise BoundError(
                f"tlkc-cohorts: the published cohorts promise {_changed(published.claim, claim)}; other bounds "
                "need a publication of their own"
            )
        queue = published.queue(exposure)
        # Without a new cohort there may still be something new to show: cohorts of another publication.
        fresh = self._fresh(exposure, queue, published, took_over=published.shown != before.shown)
        registry = published
        if fresh is not None:
            with_newest = self._joined(published, exposure, fresh, claim_of_all)
            registry = with_newest.with_queue(exposure, queue)

        cohorts = registry.of_publication(exposure.publication)
        log, origin = cohorts.log(exposure)
        # The promise of a release is that of its weakest cohort.
        has_unchecked_cohorts = claim_of_all != claim
        carries = tuple(self.adversary_knowledge.carries)
        not_guaranteed = tuple(self.local_risks)
        if has_unchecked_cohorts:
            not_guaranteed = (*not_guaranteed, UNCHECKED_COHORTS)
        if self.times == "microaggregated":
            carries = (*carries, "relative_time")
            not_guaranteed = (*not_guaranteed, UNTIMED)
        operator = {"cohorts": cohorts.summary(), "late_lost": cohorts.late(exposure)}
        if fresh is not None:
            operator = {**operator_view(fresh), **operator}
        # A series that shows each case once keeps sums in place of cases.
        kept_registry = registry.reduced_to_sums(exposure) if exposure.once else registry
        return Build(
            log=log,
            origin=origin,
            carries=carries,
            time_basis=self._time_basis(),
            T=self.T,
            n_actual=max(cohorts.n_actual),
            held=cohorts.held(exposure),
            immutable=True,
            alone=exposure.once,
            cohort=cohorts.cohort_of(exposure, origin),
            weakened=has_unchecked_cohorts or cohorts.size > log.n_cases,
            public=_public(cohorts, fresh),
            not_guaranteed=not_guaranteed,
            operator=operator,
            memory=kept_registry.memory(),
        )

    def _joined(
        self, published: PublishedCohorts, exposure: Exposure, fresh: Anonymized, claim: Claim
    ) -> PublishedCohorts:
        """Return the registry with the new cohort, its times averaged if they are microaggregated."""
        common = None
        if self.alphabet == "common":  # the first cohort decides for all later ones
            common = fresh.items.values if published.alphabet is None else published.alphabet
        if self.times != "microaggregated":
            return published.joined(exposure, fresh, common, claim, pending=published.pending)
        times, pending = microaggregated_after(
            fresh.log, self.K, self.T, Chance().below, published.pending, latest=exposure.time_ns
        )
        return published.joined(exposure, fresh, common, claim, times, pending)

    def _time_basis(self) -> Literal["microaggregated", "relative", "ordinal"]:
        if self.times == "microaggregated":
            return "microaggregated"
        return "relative" if self.knowledge == "rel" else "ordinal"

    def claim(self) -> Mapping[str, Any]:
        """Return what each cohort must promise for their union to promise it."""
        names = {"knowledge", "attribute", "L", "K", "C", "bins", "alphabet", "also"}
        if self.knowledge == "rel":
            names |= {"T", "clock"}
        elif self.times != "ordinal":
            names |= {"T", "times"}
        return self.model_dump(mode="json", include=names)

    def changed_terms(self, earlier: Mapping[str, Any]) -> str:
        """Return the terms of the published cohorts that this configuration changes; see `Mechanism.changed_terms`."""
        try:
            former = TlkcCohorts.model_validate(earlier)
        except ValidationError:
            return ""  # parameters of another version of the program: the build compares the registry itself
        return _changed(former.claim(), self.claim())

    def _claim(self, exposure: Exposure) -> Claim:
        """Return the claim of a cohort of these cases: parameters, and attributes that are sensitive or public."""
        claim = {**self.claim(), "sensitive": sorted(exposure.sensitive)}
        if exposure.public:
            claim["public"] = sorted(exposure.public)
        if exposure.roles is not None:
            claim["resources"] = "roles"
        if exposure.once:
            claim["cases"] = "completed"
        return claim

    def _fresh(
        self, exposure: Exposure, queue: Ints, published: PublishedCohorts, *, took_over: bool
    ) -> Anonymized | None:
        """Return a new cohort; None if the queue has to wait, but cohorts of another publication were taken over."""
        try:
            return self._cohort(exposure, queue, published)
        except BoundError:
            if took_over:
                return None
            raise

    def _cohort(self, exposure: Exposure, queue: Ints, published: PublishedCohorts) -> Anonymized:
        """Return a new cohort from the queue. BoundError if the queue has to wait."""
        if not len(queue) and not exposure.complete.any():
            raise TooFewCasesError(
                "tlkc-cohorts: no case is complete so far; process.completion says when a case is "
                '("log_end" in a replay: after its last event)'
            )
        if not len(queue):
            raise TooFewCasesError("tlkc-cohorts: no completed case is waiting; nothing new to release")
        # Classes that are derived from the data would move from cohort to cohort, and shares by class with them.
        for name in set(exposure.sensitive) - set(self.bins):
            refuse_moving_bins(name, exposure.log.case_values(name))
        try:
            problem, choice = self._divided(exposure, queue, published)
            rules = CohortRules(self.options(), self._least_share(len(queue)), published.alphabet, choice)
            return cohort(problem, rules)
        except TooFewCasesError as error:
            raise TooFewCasesError(f"tlkc-cohorts: {error}") from None
        except BoundError as error:
            raise BoundError(f"tlkc-cohorts: {error}") from None

    def _divided(
        self,
        exposure: Exposure,
        queue: Ints,
        published: PublishedCohorts,
    ) -> tuple[TlkcProblem, Choice]:
        """Return the problem of the cases that leave now, and what the division already chose for them.

        Cases wait for others like them, and the last cases of classes that are too frequent in the queue wait too.
        """
        log = exposure.log.select_cases(queue)
        classes = class_columns(log, exposure.sensitive, self.bins)
        problem = TlkcProblem(log, self.adversary_knowledge, self.bounds, classes, also=self.also)
        largest_class = self.C if self.balance is None else min(self.balance, self.C)
        share = Fraction(str(largest_class))  # as the decimal that was configured
        if self.suppression == "local" and self.alphabet == "per-cohort":
            patience = Patience(self.patience, last=exposure.last, seed=self.seed)
            waited = published.waited(exposure, queue)
            priorities = self._item_priorities(exposure, published)
            division = divided(problem, waited, patience, share, self._least_share(len(queue)), priorities)
            return problem.only(division.cases), division.choice
        check_feasible(problem, share)
        everyone = np.ones(log.n_cases, dtype=np.bool_)
        leaving = balanced(everyone, list(classes.values()), share)
        return problem.only(np.flatnonzero(leaving)), Choice()

    def _least_share(self, queue: int) -> float:
        """Return the least share of its events that a cohort from a queue of so many cases keeps."""
        if self.min_share is not None:
            return self.min_share
        is_large = queue >= SMALL_QUEUE * self.K
        if self.suppression == "local" and is_large:
            # More cases would hardly raise the share of so large a queue: waiting gains nothing.
            return 0.0
        return LEAST_SHARE

    def _item_priorities(self, exposure: Exposure, published: PublishedCohorts) -> ItemPriorities:
        """Return the weights of activities: those that lost many events so far count more.

        Items of other knowledge all count the same.
        """
        if self.attribute != "ac" or self.knowledge == "rel":
            return ItemPriorities()
        done = exposure.log.select_cases(exposure.complete)
        classes = class_columns(done, exposure.sensitive, self.bins).values()
        return item_priorities(*published.activities(exposure), frequent(done, classes, self.bounds))

    @classmethod
    def owned(cls, memory: Any, publication: str) -> Any:
        """Give cohorts that name no publication (of earlier programs) to the publication whose memory holds them."""
        if not memory:
            return memory
        published = PublishedCohorts.read(memory)
        if not all(published.shown):
            published = published.owned(publication)
        return published.memory()

    @classmethod
    def forget(cls, memory: Any, cases: Collection[str]) -> Any:
        """Return the memory without erased cases. They are in no later release, and their cohort gets smaller."""
        if not memory:
            return memory
        published = PublishedCohorts.read(memory)
        shows_none = published.place_of.keys().isdisjoint(cases)
        is_unknown = shows_none and published.waiting.keys().isdisjoint(cases)
        if is_unknown and not (published.former and published.pending):
            return memory
        return msgspec.to_builtins(published.without(cases).memory(), enc_hook=np.ndarray.tolist)


def _claim_of_all(published: PublishedCohorts, claim: Claim) -> Claim:
    """Return the part of the claim that holds for all cohorts.

    Earlier versions did not check theirs for weaker knowledge.
    """
    has_unchecked_cohorts = bool(published.cohorts) and "also" not in (published.claim or {})
    return {name: value for name, value in claim.items() if name != "also" or not has_unchecked_cohorts}


def _changed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Return the settings of an earlier claim that differ from the present ones, as text."""
    earlier_settings = {**CLAIM_DEFAULTS, **(before or {})}
    settings = {**CLAIM_DEFAULTS, **now}
    changed = {name: value for name, value in earlier_settings.items() if settings.get(name) != value}
    return ", ".join(f"{name} = {value!r}" for name, value in changed.items())


def _public(cohorts: PublishedCohorts, fresh: Anonymized | None) -> Mapping[str, Any]:
    published = {"cohorts": len(cohorts.cohorts), "n_actual": cohorts.n_actual}
    if fresh is None:
        return {**published, "newest": None}
    lost = fresh.source.lengths - fresh.kept_per_case
    newest = {
        "cases": len(fresh.origin),
        "events": fresh.events,
        "suppressed_events": int(np.sum(lost[fresh.origin])),
        "suppressed_items": len(fresh.suppressed),
        "why": fresh.details["violations"],
    }
    warnings = {"warnings": list(fresh.warnings)} if fresh.warnings else {}
    return {**published, "newest": newest, **warnings}
