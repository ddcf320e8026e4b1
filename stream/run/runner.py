"""The one loop of replay and daemon: fold a record, decide its cuts, save the state between two records.

A host decides a cut at once (replay), or makes its decision while the loop folds further records (`Fold.defer`). Until
that decision is taken, the state is not saved, and no command or configuration is folded. So a crash meanwhile has the
effect of a crash at the cut: the records are folded again from the state before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from models.errors import InputError
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Config, Cut


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
        """Decide an open cut, durably, or take its log and defer its decision."""

    def settled(self) -> None:
        """Make durable everything else that a folded record requires.

        While a decision is awaited it may wait too: the state is not saved before both.
        """

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
        Whether the state is between two records, and not inside one that failed. Only then may it be saved, and not
        while the fold awaits a decision.
    """

    def __init__(self, fold: Fold, host: Host, *, every: int, position: int = -1, epoch: int = -1) -> None:
        self.fold, self.position, self.epoch = fold, position, epoch
        self.between_records = True
        self._host, self._every = host, every
        # Events, and whether there was a cut, since the state was saved.
        self._events, self._has_cut = 0, False

    def run(self, source: RecordSource, stopped: Callable[[], bool] = lambda: False) -> None:
        """Fold the records of `source` behind the position, until it ends or `stopped`.

        The state is saved after each record with a cut, and after `every` events.
        """
        for arrival in source.after(self.position):
            if stopped():
                return
            self.between_records = False
            self._take_decision(arrival)
            for cut in self._cuts(arrival):
                self._has_cut = True
                self._host.decide(cut)
            self._host.settled()
            # Last, when the decisions are durable: after a crash the record is folded once more, and the ledger has the
            # decisions on its cuts.
            self.position, self.epoch = arrival.position, arrival.epoch
            self.between_records = True
            if self._host.folded(arrival):
                self._events, self._has_cut = 0, False
            # A state that is saved before the decision on its cut would not have the cut after a crash.
            elif (self._has_cut or self._events >= self._every) and not self.fold.awaits_decision:
                self._host.save()
                self._events, self._has_cut = 0, False

    def settle(self, *, wait: bool = False) -> bool:
        """Take the decision of a deferred cut behind the last record.

        Parameters
        ----------
        wait
            Whether to wait for a decision that has not come.

        Returns
        -------
        bool
            Whether a decision was taken. The caller then saves the state.
        """
        can_take = self.fold.awaits_decision if wait else self.fold.decision_has_come
        if not can_take or not self.between_records:
            return False
        self.between_records = False
        self.fold.take_decision()
        self._host.settled()
        self.between_records = True
        self._events, self._has_cut = 0, False
        return True

    def _take_decision(self, arrival: Arrival) -> None:
        """Take the decision of a deferred cut, if it has come or `arrival` must not overtake it.

        A command may erase cases or decide on a held release, and a configuration may remove the publication.
        """
        must_wait = isinstance(arrival.record, Command | Config) and self.fold.awaits_decision
        if must_wait or self.fold.decision_has_come:
            self.fold.take_decision()

    def _cuts(self, arrival: Arrival) -> Iterator[Cut]:
        self._events += arrival.events
        cuts = self.fold.apply(arrival.position, arrival.record)
        try:
            self._host.before(arrival)
            first_cut = next(cuts, None)
        except InputError as error:
            # A command that cannot be executed fails before its first cut. A later error is that of a decision.
            if not isinstance(arrival.record, Command):
                raise
            self._host.refused(arrival, error)
            return
        if first_cut is not None:
            yield first_cut
            yield from cuts
