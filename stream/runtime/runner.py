"""The one loop of replay and daemon: fold a record, decide its cuts, save the state between two records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from models.errors import InputError
from stream.fold.cut import Cut
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record at its position. `events`: how many it brings; `epoch`: leader epoch of it (-1: unknown)."""

    position: int
    record: AnyRecord
    events: int = 0
    epoch: int = -1


class RecordSource(Protocol):
    """Records in their order: of a log file in order of time, or of the delta topic."""

    def after(self, position: int) -> Iterator[Arrival]:
        """What comes behind the record at `position` (-1: from the begin)."""


class Host(Protocol):
    """What replay and daemon each do around a record."""

    def before(self, arrival: Arrival) -> None:
        """A record is about to be folded. InputError: a command that cannot be obeyed; it is left out."""

    def refused(self, arrival: Arrival, error: InputError) -> None:
        """A command was left out."""

    def decide(self, cut: Cut) -> None:
        """Decide an open cut, durably."""

    def settled(self) -> None:
        """The record is folded and its cuts are decided; what it asks for besides is made durable here."""

    def folded(self, arrival: Arrival) -> bool:
        """The state stands behind the record. True where it was saved already."""

    def save(self) -> None:
        """Save the state."""


class Runner:
    """A fold and how far it has come. `position`, `epoch`: of the last record that it has; `whole`: the state stands
    between two records, and not in the middle of one that failed."""

    def __init__(self, fold: Fold, host: Host, *, every: int, position: int = -1, epoch: int = -1) -> None:
        self.fold, self.position, self.epoch = fold, position, epoch
        self.whole = True
        self._host, self._every = host, every
        self._events = 0

    def run(self, source: RecordSource, stopped: Callable[[], bool] = lambda: False) -> None:
        """Take the records of `source` that are behind the position, until it ends or `stopped`. The state is saved
        after a record with a cut, and after `every` events."""
        for arrival in source.after(self.position):
            if stopped():
                return
            cuts, self.whole = 0, False
            for cut in self._cuts(arrival):
                self._host.decide(cut)
                cuts += 1
            self._host.settled()
            self.position, self.epoch, self.whole = arrival.position, arrival.epoch, True
            if self._host.folded(arrival):
                self._events = 0
            elif cuts or self._events >= self._every:
                self._host.save()
                self._events = 0

    def _cuts(self, arrival: Arrival) -> Iterator[Cut]:
        self._events += arrival.events
        try:
            self._host.before(arrival)
            yield from self.fold.apply(arrival.position, arrival.record)
        except InputError as error:
            if not isinstance(arrival.record, Command):
                raise
            self._host.refused(arrival, error)
