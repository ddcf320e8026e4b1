"""The rules of the fold: publications, completion, retention.

They are part of its state, so a fold that is restored takes the same cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from stream.fold.window import First, Window

Late = Literal["next_release", "drop", "dlq"]
SourcePartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PublicationRules:
    """Rules of one publication.

    Attributes
    ----------
    window
        Triggers and guards of its cuts.
    late
        Treatment of events from before its last cut.
    start
        Time (ns) from which tumbling windows are counted. No window begins before it.
    private
        Whether its releases carry a dp promise. The exposure of a case, and its moment, then depend on the events of
        that case and on ticks, and never on a watermark that the event of another case has moved.
    once
        Whether each case is exposed by one cut, the first after its completion. Later events of it are lost.
    most_cases
        Most cases of one person (`FoldRules.person`) over all cuts; None if not bounded.
    waits
        With `once`: whether a case waits after its cut. Each later cut exposes it again, as it was then, until a
        decision names it as released (`Outcome.shown`). So the content of a cut depends on decisions, and no trigger
        and no count does.
    """

    name: str
    window: Window
    late: Late = "next_release"
    start: int | None = None
    private: bool = False
    once: bool = False
    most_cases: int | None = None
    waits: bool = False

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values; fields that earlier programs lacked are written only if set."""
        table = {"name": self.name, "window": self.window.to_mapping(), "late": self.late}
        for key in ("start", "private", "once", "most_cases", "waits"):
            value = getattr(self, key)
            if value is not None and value is not False:
                table[key] = value
        return table

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any]) -> PublicationRules:
        """Return the rules that `to_mapping` described."""
        return cls(**{**table, "window": Window.from_mapping(table["window"])})

    def window_end_after(self, moment: int) -> int:
        """Return the end of the window of `every` that contains `moment`.

        Windows are counted from `start`, or from 1970-01-01 UTC; before `start` it is the end of the first one.
        """
        every, origin = self.window.every, self.start or 0
        if every is None:
            raise ValueError("no window.every")
        since = moment - origin if self.start is None else max(moment - origin, 0)
        return origin + since // every * every + every


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts about a whole log, which a replay needs for some kinds of first releases.

    Attributes
    ----------
    events, cases
        Numbers of events and cases.
    file_times
        int64[N], event times in file order (for `paper_split`).
    """

    events: int
    cases: int
    file_times: npt.NDArray[np.int64]

    def resolve(self, first: First) -> First:
        """Return the first release in terms that a stream can follow: a count or a moment."""
        if first.events_fraction is not None:
            return First(new_events=max(1, ceil(first.events_fraction * self.events)))
        if first.cases_fraction is not None:
            return First(new_cases=max(1, ceil(first.cases_fraction * self.cases)))
        if first.paper_split is not None:
            # leakage.md: the time of the event with 0-based index floor(f N) in file order; events up to it, inclusive
            last = int(self.events * first.paper_split)
            return First(until=int(self.file_times[last]))
        return first


@dataclass(frozen=True, slots=True)
class FoldRules:
    """The rules of one process.

    Attributes
    ----------
    publications
        Rules of each publication, in order of their names.
    end_activities, end_all, inactivity
        Rules that complete a case: its last event is one of these activities, it has had all of these activities, or
        it has been silent this long (ns). A row can also end its case explicitly.
    log_end
        Whether each case ends with its last event of the log (replay only; `stream.run.log_source` marks these rows).
    retention
        Time (ns) after its last event at which a complete case leaves the state.
    key
        Id of the pseudonym key of all rows; "" takes the key of the first record.
    sources
        The recorded source partitions. No event-time window closes before each of them has reported or is idle.
    embedded
        Whether event time is the wall clock too (replay). A cut is then named by the rank of its event.
    person
        Case attribute with the pseudonym of the person. No cut exposes it.
    archive
        Whether the events of settled cases go to the archive when the state drops them (`Fold.dropped`).
    """

    publications: tuple[PublicationRules, ...]
    end_activities: tuple[str, ...] = ()
    inactivity: int | None = None
    end_all: tuple[str, ...] = ()
    log_end: bool = False
    retention: int | None = None
    key: str = ""
    sources: tuple[SourcePartition, ...] = ()
    embedded: bool = False
    person: str | None = None
    archive: bool = False

    def __post_init__(self) -> None:
        """Check the names, and put publications in order."""
        names = [publication.name for publication in self.publications]
        if len(set(names)) != len(names):
            raise InputError("two publications have the same name")
        # Several publications at one record are ordered by name.
        by_name = tuple(sorted(self.publications, key=lambda publication: publication.name))
        object.__setattr__(self, "publications", by_name)
        for publication in self.publications:
            keys = publication.window.replay_only
            if keys and not self.embedded:
                raise InputError(
                    f"publication {publication.name!r}: window.{keys[0]} needs the whole log: use it with replay"
                )

    @property
    def private(self) -> bool:
        """Whether a publication's releases carry a dp promise."""
        return any(publication.private for publication in self.publications)

    @property
    def forgets(self) -> bool:
        """Whether every publication shows each case once: the events of a case are then dropped after its last cut.

        The decision on that cut is durable by then. No later cut reads the events (`stream.fold.completion.Retention`).
        """
        return bool(self.publications) and all(publication.once for publication in self.publications)

    @property
    def waits(self) -> bool:
        """Whether the cases of a publication wait after their cut, until a release shows them."""
        return any(publication.waits for publication in self.publications)

    @property
    def counts_completions(self) -> bool:
        """Whether the moment of each completion matters, because a trigger counts completions."""
        return any(
            publication.window.only_events_per_case or publication.window.completed_cases is not None
            for publication in self.publications
        )

    def resolved(self, facts: LogFacts | None) -> FoldRules:
        """Return the same rules with first releases in counts and moments."""
        publications = tuple(_resolved(publication, facts) for publication in self.publications)
        return replace(self, publications=publications)

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values, for snapshots and `config` records."""
        return {
            "publications": [publication.to_mapping() for publication in self.publications],
            "end_activities": list(self.end_activities),
            "end_all": list(self.end_all),
            "inactivity": self.inactivity,
            "log_end": self.log_end,
            "retention": self.retention,
            "key": self.key,
            "sources": [list(source) for source in self.sources],
            "embedded": self.embedded,
            **({} if self.person is None else {"person": self.person}),
            **({"archive": True} if self.archive else {}),
        }

    @classmethod
    def from_mapping(cls, table: Mapping[str, Any]) -> FoldRules:
        """Return the rules that `to_mapping` described."""
        fields = dict(table)
        fields["publications"] = tuple(
            PublicationRules.from_mapping(publication) for publication in table["publications"]
        )
        fields["end_activities"] = tuple(table["end_activities"])
        fields["end_all"] = tuple(table.get("end_all", ()))  # rules of earlier programs lack it
        fields["sources"] = _pairs(table["sources"])
        return cls(**fields)


def _resolved(rules: PublicationRules, facts: LogFacts | None) -> PublicationRules:
    first = rules.window.first
    if first is None or not first.needs_whole_log:
        return rules
    if facts is None:
        raise InputError(f"publication {rules.name!r}: first.{first.kind} needs the whole log: use it with replay")
    return replace(rules, window=replace(rules.window, first=facts.resolve(first)))


def _pairs(raw: Sequence[Sequence[Any]]) -> tuple[SourcePartition, ...]:
    return tuple((str(source), int(partition)) for source, partition in raw)
