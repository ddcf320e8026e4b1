"""Wait for the decisions on a release that somebody ordered, by reading the ledger topic."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from connectors.kafka import topics
from connectors.kafka.faults import explained
from connectors.kafka.source import Source
from models.errors import InputError, UnavailableError
from stream.daemon.partition_reader import PartitionReader
from stream.ledger.entries import (
    DeltaAnchor,
    Entry,
    NoteEntry,
    PublishedEntry,
    SealEntry,
    WithheldEntry,
    read_entry,
)

LOOK_SECONDS = 0.5
"""Interval between two looks at the end of the ledger."""

Outcome = Literal["published", "held", "withheld"]


@dataclass(frozen=True, slots=True)
class OrderedRelease:
    """Decision on one publication.

    Attributes
    ----------
    publication, outcome
        The publication, and the decision on its cut.
    number
        Number of the release; 0 if it was withheld.
    reasons
        Reasons for refusing it, for people.
    """

    publication: str
    outcome: Outcome
    number: int = 0
    reasons: tuple[str, ...] = ()


class DecisionReader:
    """Follows the ledger of a process. Create it before the order is sent, so that it misses no entry.

    Parameters
    ----------
    process
        Name of the process.
    source
        Configuration of the broker.

    Raises
    ------
    InputError
        If the ledger topic is missing, or has a record that is not an entry.
    """

    def __init__(self, process: str, source: Source) -> None:
        self._source = source
        self._name = topics.topic(process, "ledger")
        topics.require(source, [self._name])
        self._reader = PartitionReader(self._name, 0, source)
        self._next = 0
        self._anchor = DeltaAnchor("")
        with explained(source):
            self._next = self._reader.begin()
            for _ in self._new_entries():
                pass  # only the newest anchor matters

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def wait(
        self,
        offset: int,
        publications: Collection[str],
        seconds: float,
    ) -> Mapping[str, OrderedRelease]:
        """Wait for the decisions on the order at an offset of the delta topic.

        Parameters
        ----------
        offset
            Offset of the order.
        publications
            Names of the publications that it is about.
        seconds
            Longest wait.

        Returns
        -------
        mapping of str to OrderedRelease
            The decision on each publication.

        Raises
        ------
        UnavailableError
            If not all of them were decided, or a release did not become visible, within `seconds`.
        """
        deadline = time.monotonic() + seconds
        decided: dict[str, OrderedRelease] = {}
        sealed: dict[str, int] = {}
        with explained(self._source):
            while True:
                for entry in self._new_entries():
                    self._take(entry, offset, sealed, decided)
                missing = [name for name in publications if name not in decided]
                if not missing:
                    return decided
                if time.monotonic() > deadline:
                    raise UnavailableError(_explain_missing(missing, sealed, seconds))
                time.sleep(LOOK_SECONDS)

    def _take(
        self,
        entry: Entry,
        offset: int,
        sealed: dict[str, int],
        decided: dict[str, OrderedRelease],
    ) -> None:
        """Record what an entry says about the order."""
        name = entry.publication
        if isinstance(entry, PublishedEntry) and sealed.get(name) == entry.sequence:
            decided.setdefault(name, OrderedRelease(name, "published", entry.sequence))
        if not entry.cut.startswith(f"{name}/{self._anchor.base + offset}/"):
            return
        if isinstance(entry, WithheldEntry):
            decided.setdefault(name, OrderedRelease(name, "withheld", 0, tuple(entry.body.reasons)))
        elif isinstance(entry, SealEntry):
            sealed[name] = entry.sequence  # a later seal of the same cut replaces a number that was burned
            if entry.body.held_at is not None:
                decided.setdefault(name, OrderedRelease(name, "held", entry.sequence))

    def _new_entries(self) -> Iterator[Entry]:
        """Yield the entries behind the last one that was read."""
        end = self._reader.end()
        for record in self._reader.records(self._next, end):
            try:
                entry = read_entry(record.value or b"")
            except msgspec.DecodeError:
                raise InputError(f"{self._name}: the record at offset {record.offset} is not a ledger entry") from None
            if isinstance(entry, NoteEntry) and entry.body.delta is not None:
                self._anchor = entry.body.delta
            yield entry
        self._next = max(self._next, end)


def _explain_missing(missing: Collection[str], sealed: Mapping[str, int], seconds: float) -> str:
    """Return the message about publications without a decision."""
    waiting = [f"release {sealed[name]} of {name} is sealed and not yet visible" for name in missing if name in sealed]
    undecided = [name for name in missing if name not in sealed]
    if undecided:
        waiting.append(
            f"{', '.join(undecided)}: no decision; a pause, a gap or a coordinator that does not run causes this "
            "(veilstream status)"
        )
    return (
        f"after {seconds:g} s: {'; '.join(waiting)}. A coordinator that starts later carries out the order; "
        "one that is paused, or has a gap, ignores it"
    )
