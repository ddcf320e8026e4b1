"""The one loop of replay and daemon: fold a record, decide its cuts, save the state between two records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from models.errors import InputError
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Cut


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record and its position. `events`: how many events it brings; `epoch`: its leader epoch (-1: unknown)."""

    position: int
    record: AnyRecord
    events: int = 0
    epoch: int = -1


class RecordSource(Protocol):
    """An ordered source of records: a log file in order of time, or the delta topic."""

    def after(self, position: int) -> Iterator[Arrival]:
        """Return the records behind the one at `position` (-1: all)."""


class Host(Protocol):
    """Steps of the loop that differ between replay and daemon."""

    def before(self, arrival: Arrival) -> None:
        """Prepare for a record that is folded next.

        Raises
        ------
        InputError
            If the record is a command that cannot be executed; it is skipped.
        """

    def refused(self, arrival: Arrival, error: InputError) -> None:
        """Report a command that was skipped."""

    def decide(self, cut: Cut) -> None:
        """Decide an open cut, durably."""

    def settled(self) -> None:
        """Make durable everything else that a folded record requires."""

    def folded(self, arrival: Arrival) -> bool:
        """Follow a record that the state contains now; return whether the host saved the state."""

    def save(self) -> None:
        """Save the state."""


class Runner:
    """A fold and the position that it has reached.

    Attributes
    ----------
    position, epoch
        Position and leader epoch of the last record that was folded.
    between_records
        Whether the state is between two records, and not inside one that failed. Only then may it be saved.
    """

    def __init__(self, fold: Fold, host: Host, *, every: int, position: int = -1, epoch: int = -1) -> None:
        self.fold, self.position, self.epoch = fold, position, epoch
        self.between_records = True
        self._host, self._every = host, every
        self._events = 0

    def run(self, source: RecordSource, stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold the records of `source` behind the position, until it ends or `stopped`.

        The state is saved after each record with a cut, and after `every` events.
        """
        for arrival in source.after(self.position):
            if stopped():
                return
            cuts, self.between_records = 0, False
            for cut in self._cuts(arrival):
                self._host.decide(cut)
                cuts += 1
            self._host.settled()
            self.position, self.epoch = arrival.position, arrival.epoch
            self.between_records = True
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
