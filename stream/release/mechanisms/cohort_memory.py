"""What the cohorts of an audience are: every case exactly as it was first published (the file memory.json).

All publications of cohorts to one audience continue one registry: a case that one of them released is in no cohort of
another. A publication shows the cohorts that it made, and whole cohorts of others as soon as its own window exposes all
their cases: a part of a cohort would promise nothing. Every release is a union of whole cohorts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from models.anonymize.microaggregation import Pair, Pending
from models.anonymize.result import Anonymized
from models.anonymize.values import written
from models.errors import RefusedError
from models.eventlog import Column, EventLog, Ints
from stream.release.contract import Exposure

VERSION = 2
"""1 did not say which publications show a cohort."""


Claim = Mapping[str, Any]
"""Parameters of the mechanism, sensitive and public attributes: by name, what each cohort must have in common."""


class PublishedCase(msgspec.Struct, frozen=True, array_like=True):
    """One case: released activities and resources, times in nanoseconds (relative, or 0), sensitive values by name,
    and how many events it had then."""

    activity: list[Any]
    resource: list[Any]
    time: list[int]
    sensitive: Mapping[str, Any]
    exposed: int


class Cohort(msgspec.Struct, frozen=True):
    """Cases by pseudonym, and the most events removed from one of them; `shown`: the publications that show it;
    `below_k`: what the audit of minimality found (None: not by local suppression, or before it was kept)."""

    cases: dict[str, PublishedCase]
    n_actual: int
    size: int
    shown: tuple[str, ...] = ()
    below_k: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """memory.json: what a build leaves, and the next one reads."""

    cohorts: list[Cohort]
    alphabet: list[Any] | None = None
    version: int = VERSION
    claim: Claim | None = None
    waiting: dict[str, int] = {}
    pending: list[tuple[Any, Any, int, int, int, int | None]] = []

    def __getitem__(self, name: str) -> Any:
        """As the document that it becomes."""
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class Published:
    """The cohorts that are out, oldest first; `alphabet`: the common items, where there is one; `claim`: what was
    promised of them (None: not said). `of_case`: index of their cases; `waiting`: releases that each case of
    the queue has waited for; `pending`: what is not disclosed of the times of each directly-follows pair."""

    cohorts: tuple[Cohort, ...] = ()
    alphabet: tuple[Any, ...] | None = None
    of_case: dict[str, PublishedCase] = field(default_factory=dict)
    claim: Claim | None = None
    waiting: dict[str, int] = field(default_factory=dict)
    pending: dict[Pair, Pending] = field(default_factory=dict)

    @classmethod
    def of(cls, cohorts: Sequence[Cohort], alphabet: Collection[Any] | None, claim: Claim | None = None) -> Published:
        """With the index by case."""
        index = {name: case for one in cohorts for name, case in one.cases.items()}
        return cls(tuple(cohorts), None if alphabet is None else tuple(alphabet), index, claim)

    @classmethod
    def read(cls, memory: Any) -> Published:
        """From memory.json, or what a build of this process left; None where nothing has been published."""
        if memory is None:
            return cls()
        kept = memory if isinstance(memory, Memory) else msgspec.convert(memory, Memory)
        if kept.version > VERSION:
            raise RefusedError(f"memory.json of tlkc-cohorts: version {kept.version} is newer than this program")
        items = None if kept.alphabet is None else [_item(one) for one in kept.alphabet]
        claim = kept.claim
        if claim is not None and claim.get("knowledge") == "rel":
            claim = {"clock": "utc", **claim}  # earlier versions knew no other
        pending = {
            (one, two): Pending(cases, events, owed, mean) for one, two, cases, events, owed, mean in kept.pending
        }
        return replace(cls.of(kept.cohorts, items, claim), waiting=kept.waiting, pending=pending)

    def memory(self) -> Memory:
        """For memory.json."""
        items = None if self.alphabet is None else list(self.alphabet)
        pending = [(*pair, one.cases, one.events, one.owed, one.mean) for pair, one in self.pending.items()]
        return Memory(list(self.cohorts), items, claim=self.claim, waiting=self.waiting, pending=pending)

    @property
    def n_actual(self) -> list[int]:
        """By cohort."""
        return [one.n_actual for one in self.cohorts]

    @property
    def size(self) -> int:
        """Cases that were ever published."""
        return sum(one.size for one in self.cohorts)

    @property
    def shown(self) -> list[tuple[str, ...]]:
        """The publications that show each cohort."""
        return [one.shown for one in self.cohorts]

    def of_publication(self, name: str) -> Published:
        """The cohorts that a publication shows."""
        return Published.of([one for one in self.cohorts if name in one.shown], self.alphabet, self.claim)

    def owned(self, publication: str) -> Published:
        """With cohorts that nobody is said to show ascribed to a publication."""
        cohorts = [one if one.shown else msgspec.structs.replace(one, shown=(publication,)) for one in self.cohorts]
        return self._with(cohorts)

    def taken_over(self, exposure: Exposure) -> Published:
        """With the cohorts of other publications that this one can show from now on: it exposes all their cases, and no
        fewer events of them than they had when they were published."""
        lengths = dict(zip(exposure.log.case_ids, exposure.log.lengths.tolist(), strict=True))
        name = exposure.publication
        cohorts = [
            msgspec.structs.replace(one, shown=(*one.shown, name))
            if name not in one.shown
            and len(one.cases) == one.size
            and all(lengths.get(case, 0) >= known.exposed for case, known in one.cases.items())
            else one
            for one in self.cohorts
        ]
        return self._with(cohorts)

    def _with(self, cohorts: Sequence[Cohort]) -> Published:
        """The same with other cohorts in their place."""
        return replace(Published.of(cohorts, self.alphabet, self.claim), waiting=self.waiting, pending=self.pending)

    def queue(self, exposure: Exposure) -> Ints:
        """Completed cases that are not out: indices in the exposed log."""
        waiting = [name not in self.of_case for name in exposure.log.case_ids]
        return np.flatnonzero(exposure.complete & np.asarray(waiting, dtype=np.bool_) & (exposure.log.lengths > 0))

    def waited(self, exposure: Exposure, queue: Ints) -> Ints:
        """Releases that each case of the queue has waited for."""
        names = exposure.log.case_ids
        return np.asarray([self.waiting.get(names[case], 0) for case in queue.tolist()], dtype=np.int64)

    def activities(self, exposure: Exposure) -> tuple[dict[Any, int], dict[Any, int]]:
        """Events of the published cases by activity: as they came, and as they were published."""
        inside = np.asarray([name in self.of_case for name in exposure.log.case_ids], dtype=np.bool_)
        codes = exposure.log.activity.codes[inside[exposure.log.case_of_event]]
        counts = np.bincount(codes[codes >= 0], minlength=len(exposure.log.activity.values)).tolist()
        came = {name: count for name, count in zip(exposure.log.activity.values, counts, strict=True) if count}
        return came, Counter(name for case in self.of_case.values() for name in case.activity)

    def held_back(self, exposure: Exposure, queue: Ints) -> Published:
        """With what is left of the queue, which has waited for one release more."""
        names = [exposure.log.case_ids[case] for case in queue.tolist()]
        left = {name: self.waiting.get(name, 0) + 1 for name in names if name not in self.of_case}
        return replace(self, waiting=left)

    def joined(
        self,
        exposure: Exposure,
        fresh: Anonymized,
        alphabet: Collection[Any] | None,
        claim: Claim,
        times: Sequence[int] | None = None,
        pending: Mapping[Pair, Pending] | None = None,
    ) -> Published:
        """With a new cohort; `times` of its events where they are neither relative nor ordinal, and what of them is not
        disclosed then."""
        log = fresh.log
        values = {name: log.case_values(name).decode() for name in exposure.linked}
        shown = fresh.knowledge
        hidden = [None] * log.n_events
        activity = log.activity.decode() if "activity" in shown.carries else hidden
        resource = log.resource.decode() if "resource" in shown.carries else hidden
        if times is None:
            times = fresh.relative_ns.tolist() if shown.structure == "rel" else [0] * log.n_events
        lengths = fresh.source.lengths[fresh.origin].tolist()
        cases = {
            log.case_ids[k]: PublishedCase(
                activity[a:b],
                resource[a:b],
                list(times[a:b]),
                {name: one[k] for name, one in values.items()},
                lengths[k],
            )
            for k, (a, b) in enumerate(itertools.pairwise(log.starts.tolist()))
        }
        newest = Cohort(cases, fresh.n_actual, len(cases), (exposure.publication,), _below_k(fresh))
        all_ = Published.of([*self.cohorts, newest], alphabet, claim)
        return replace(all_, waiting=self.waiting, pending=dict(pending or {}))

    def without(self, cases: Collection[str]) -> Published:
        """Erased cases taken out; of the pairs that they show nothing is pending any more: it could be theirs alone."""
        gone = set(cases)
        borne = {
            pair for name, case in self.of_case.items() if name in gone for pair in itertools.pairwise(case.activity)
        }
        pending = {pair: Pending(mean=one.mean) if pair in borne else one for pair, one in self.pending.items()}
        rest = [
            replace_cases(one, {name: case for name, case in one.cases.items() if name not in gone})
            for one in self.cohorts
        ]
        waiting = {name: releases for name, releases in self.waiting.items() if name not in gone}
        return replace(Published.of(rest, self.alphabet, self.claim), waiting=waiting, pending=pending)

    def log(self, exposure: Exposure) -> tuple[EventLog, Ints]:
        """Every published case that the state still holds, and its index in the exposed log."""
        names = exposure.log.case_ids
        origin = np.asarray([i for i, name in enumerate(names) if name in self.of_case], dtype=np.int64)
        cases = [self.of_case[names[i]] for i in origin]
        lengths = [len(case.time) for case in cases]
        events = sum(lengths)
        log = written(
            EventLog(
                case_ids=tuple(names[i] for i in origin),
                starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
                activity=Column.encode(itertools.chain.from_iterable(case.activity for case in cases)),
                time=np.fromiter(itertools.chain.from_iterable(case.time for case in cases), np.int64, count=events),
                resource=Column.encode(itertools.chain.from_iterable(case.resource for case in cases)),
                row=np.arange(events, dtype=np.int64),
                case_attributes={
                    name: Column.encode(case.sensitive.get(name) for case in cases) for name in exposure.linked
                },
            ),
            exposure.linked,
        )
        return log, origin

    def cohort_of(self, exposure: Exposure, origin: Ints) -> Ints:
        """Number of the cohort of each published case, int64[len(origin)]."""
        number = {name: k for k, one in enumerate(self.cohorts) for name in one.cases}
        return np.asarray([number[exposure.log.case_ids[case]] for case in origin], dtype=np.int64)

    def held(self, exposure: Exposure) -> tuple[int, int]:
        """(cases, events) of the exposed log that are not out: open, or waiting for their cohort."""
        out = np.asarray([name in self.of_case for name in exposure.log.case_ids], dtype=np.bool_)
        return int(np.count_nonzero(~out)), int(exposure.log.lengths[~out].sum())

    def late(self, exposure: Exposure) -> int:
        """Events that came to a case after it was published: they are lost."""
        lengths = zip(exposure.log.case_ids, exposure.log.lengths.tolist(), strict=True)
        return sum(max(0, length - self.of_case[name].exposed) for name, length in lengths if name in self.of_case)

    def summary(self) -> list[dict[str, int]]:
        """One entry a cohort, for the operator."""
        return [
            {
                "cohort": number,
                "cases": len(one.cases),
                "erased": one.size - len(one.cases),
                "events": sum(len(case.time) for case in one.cases.values()),
                "n_actual": one.n_actual,
                **({} if one.below_k is None else {"minimality_below_k": one.below_k}),
            }
            for number, one in enumerate(self.cohorts, start=1)
        ]


def replace_cases(one: Cohort, cases: dict[str, PublishedCase]) -> Cohort:
    """The cohort with fewer cases; its size stays what it was."""
    return msgspec.structs.replace(one, cases=cases)


def _below_k(fresh: Anonymized) -> int | None:
    found = fresh.details.get("minimality")
    return None if found is None else int(found["below_k"])


def _item(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
