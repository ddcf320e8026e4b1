"""The delta topic of a coordinator: whether it is the one that the state was folded from, and its records.

A cut is named by its position, and the ledger keeps cuts forever. A topic that was created again, or lost its tail,
assigns the same offsets a second time. A cut at such an offset would be mistaken for one that was charged and sealed.
Therefore positions continue where the state ended, and an anchor in the ledger maps them to offsets of the topic.

Faust delivers the records. This module also reads the topic by itself, for a host whose state is older than the offset
at which its group continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec

from connectors.kafka.lineage import Leader, Lineage, LogClient
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import RefusedError, VeilstreamError
from stream.daemon.partition_reader import PartitionReader
from stream.fold.records import READABLE, AnyRecord, Command, Config, Delta
from stream.fold.rules import FoldRules
from stream.fold.state import lost_from
from stream.ledger.entries import DeltaAnchor, NoteBody, NoteEntry
from stream.ledger.sqlite import Ledger
from stream.release.pipeline import Pipeline
from stream.run.runner import Arrival


class DeltaReader(PartitionReader):
    """A reader of the one partition of the delta topic."""

    def __init__(self, process: str, source: Source) -> None:
        super().__init__(topic(process, "delta"), 0, source)

    def read(self, first: int, until: int) -> Iterator[tuple[int, bytes | None, int]]:
        """Yield offset, value and leader epoch of the records from `first` to `until` - 1, in order."""
        for record in self.records(first, until):
            yield record.offset, record.value, int(record.leader_epoch)


class _Subject(msgspec.Struct):
    """The source partition that a record is about; ticks, commands and configurations have none."""

    src: str | None = None
    p: int | None = None


def seen_in_delta_topic(process: str, source: Source, topic: str, number: int) -> bool:
    """Return whether the delta topic has, or may have had, a record about a source partition.

    If it has, the fold expects the later events of that partition, and their loss is a gap.

    Parameters
    ----------
    process
        Name of the process.
    source
        The configuration of the source.
    topic, number
        The source partition.

    Raises
    ------
    UnavailableError
        If the topic cannot be read.
    """
    subject = msgspec.json.Decoder(_Subject)
    reader = DeltaReader(process, source)
    try:
        if reader.begin() > 0:
            return True  # the deleted records may have been about it
        for _, value, _ in reader.read(0, reader.end()):
            record = subject.decode(value or b"{}")
            if (record.src, record.p) == (topic, number):
                return True
        return False
    finally:
        reader.close()


class Anchor(DeltaAnchor, frozen=True):
    """The ledger's entry about the delta topic, with its consequences."""

    def position(self, offset: int) -> int:
        """Return the position of an offset."""
        return self.base + offset

    def offset(self, position: int) -> int:
        """Return the offset of a position."""
        return position - self.base

    @property
    def begin(self) -> int:
        """The position of its first record."""
        return self.base + self.first

    def lost_from(self, lineage: Lineage, position: int, epoch: int) -> int | None:
        """Return the first offset at which the topic differs from the one that was folded.

        Parameters
        ----------
        lineage
            The log of the topic now.
        position
            Position of the last folded record.
        epoch
            Leader epoch of that record.

        Returns
        -------
        int | None
            None if it is the same topic.
        """
        if self.log and lineage.topic and self.log != lineage.topic:
            return 0
        return lost_from(lineage.epochs, lineage.end, epoch, self.offset(position))


class LostDeltasError(RefusedError):
    """The delta topic is not the one that the state was folded from. `lost`: the first offset that differs."""

    def __init__(self, topic: str, lineage: Lineage, anchor: Anchor, position: int, lost: int) -> None:
        self.lineage, self.lost = lineage, lost
        is_same_topic = not anchor.log or anchor.log == lineage.topic
        if is_same_topic:
            cause = f"the topic lost its records from offset {lost} on"
        else:
            cause = "the topic was deleted and created again"
        super().__init__(
            f"{topic}: the state was folded up to position {position}, and {cause}; deltas that were not folded are "
            "gone; nothing is released until `veilstream gap rewind|accept`"
        )


def anchors(ledger: Ledger) -> list[Anchor]:
    """Return every anchor in the ledger, in order."""
    return [Anchor(anchor.log, anchor.base, anchor.first) for anchor in ledger.view.delta_anchors]


def note(anchor: Anchor) -> NoteEntry:
    """Return the ledger entry of an anchor."""
    return NoteEntry(publication="", body=NoteBody(delta=anchor))


# Records of the delta topic as the runner takes them: complete, decoded, at their positions.

DeltaRecord = tuple[int, bytes | None, int]
"""Offset, value, leader epoch (-1: unknown) of a record of the delta topic."""


@dataclass(frozen=True, slots=True)
class DeltaRecords:
    """A `RecordSource` over records of the delta topic.

    Parameters
    ----------
    records
        Records as they are read.
    anchor
        Maps offsets to positions.
    readable
        Converts a record of an earlier program to the present form.
    """

    records: Iterable[DeltaRecord]
    anchor: Anchor
    readable: Callable[[AnyRecord], AnyRecord]

    def after(self, position: int) -> Iterator[Arrival]:
        """Yield the records behind `position`; the state contains the others already."""
        for offset, value, epoch in self.records:
            record_position = self.anchor.position(offset)
            if record_position <= position:
                continue
            record = self.readable(decode_record(offset, value))
            n_events = len(record.rows) if isinstance(record, Delta) else 0
            yield Arrival(record_position, record, n_events, epoch)


Reread = Callable[[int, int], Iterable[DeltaRecord]]
"""Reads the records from an offset up to another (exclusive) once more, with another consumer."""


def complete(records: Iterable[DeltaRecord], first: int, reread: Reread) -> Iterator[DeltaRecord]:
    """Yield the records from offset `first` on, in order, including those that a consumer skipped.

    Offsets that are missing between two records are read once more. Usually they are markers of transactions, which
    have an offset and are not records. A record that was skipped is yielded at its place, so that it is folded before
    any later cut.
    """
    next_offset = first
    for record in records:
        offset = record[0]
        if offset > next_offset:
            yield from reread(next_offset, offset)
        if offset >= next_offset:
            yield record
            next_offset = offset + 1


def decode_record(offset: int, value: bytes | None) -> AnyRecord:
    """Decode a record of the delta topic.

    Raises
    ------
    RefusedError
        For another version, or bytes that are not a record: a fold that guesses cannot be replayed.
    """
    try:
        record: Any = DECODER.decode(value or b"")
    except msgspec.DecodeError:
        raise RefusedError(f"delta offset {offset}: {_version_of(value)}; {_READS}") from None
    if record.v not in READABLE:
        raise RefusedError(f"delta offset {offset}: version {record.v}; {_READS}")
    return record  # type: ignore[no-any-return]  # the decoder's type is the union of the records


_READS = f"this program reads versions {' and '.join(map(str, READABLE))}"

DECODER: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class _Version(msgspec.Struct):
    v: int


def _version_of(value: bytes | None) -> str:
    try:
        return f"version {msgspec.json.decode(value or b'', type=_Version).v}"
    except msgspec.DecodeError:
        return "not a delta record"


log = logging.getLogger("veilstream")


class DeltaTopic:
    """Reads the topic and compares it with the ledger's entries about it.

    Attributes
    ----------
    anchor
        Maps offsets to positions of the fold.
    lost
        The error that forbids releases if the topic is not the one that was folded; None otherwise.
    """

    def __init__(self, process: str, source: Source, ledger: Ledger) -> None:
        self.name = topic(process, "delta")
        self.lost: LostDeltasError | None = None
        self._ledger = ledger
        self._client, self._reader = LogClient(source), DeltaReader(process, source)
        self._second = partial(DeltaReader, process, source)
        self._leader: Leader | None = None
        recorded = anchors(ledger)
        self._recorded = bool(recorded)
        self.anchor = recorded[-1] if recorded else Anchor("")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._reader.close()

    # which topic it is

    def settle(self, position: int, epoch: int, pipelines: Iterable[Pipeline]) -> int:
        """Compare the topic with the one that the state was folded from, up to `position`.

        Parameters
        ----------
        position, epoch
            The last folded record, and its leader epoch.
        pipelines
            Those that record an accepted gap.

        Returns
        -------
        int
            The leader epoch of that record; -1 if it was of an earlier topic.

        Raises
        ------
        LostDeltasError
            If the topic is another one, and no operator has decided how to continue.
        """
        lineage = self._lineage()
        if not self._recorded:
            self.anchor = Anchor(lineage.topic)
        if position + 1 < self.anchor.begin:
            raise RefusedError(
                f"the state here ends at {position}, the delta topic of now begins at {self.anchor.begin}: the "
                "records between are gone; restore a newer checkpoint"
            )
        if position < self.anchor.begin:
            epoch = -1  # the last folded record belongs to an earlier topic
        lost = self.anchor.lost_from(lineage, position, epoch)
        if lost is None:
            if not self._recorded:
                self._ledger.append(note(self.anchor))
            return epoch
        error = LostDeltasError(self.name, lineage, self.anchor, position, lost)
        action = self._decided_on(error, position)
        if action is None:
            self._refuse(error)
        self.anchor = Anchor(lineage.topic, position + 1 - lost, lost)
        self._ledger.append(note(self.anchor))
        if action == "accept":
            for pipeline in pipelines:
                pipeline.accept_gap(position + 1, [f"{self.name}: from position {position + 1} on"])
        log.warning("%s: continues from offset %d as position %d (gap %s)", self.name, lost, self.anchor.begin, action)
        return -1

    def check(self, position: int, epoch: int, *, compare_end: bool = False) -> None:
        """Check that the topic is still the one that is folded.

        Call it after records were fetched and before they are folded, so that the answer covers them. Without a new
        leader this costs one request.

        Parameters
        ----------
        position, epoch
            The last folded record, and its leader epoch.
        compare_end
            Whether to compare the end of the topic too. Needed while no records arrive.

        Raises
        ------
        LostDeltasError
            If it is another topic.
        """
        leader = self._client.leaders([self.name]).get((self.name, 0))
        if leader is not None and leader == self._leader and not compare_end:
            return
        lineage = self._lineage()
        lost = self.anchor.lost_from(lineage, position, epoch)
        if lost is not None:
            self._refuse(LostDeltasError(self.name, lineage, self.anchor, position, lost))
        self._leader = leader

    def _refuse(self, error: LostDeltasError) -> NoReturn:
        self.lost = error
        raise error

    def _lineage(self) -> Lineage:
        place = (self.name, 0)
        lineage = self._client.lineages([place]).get(place)
        if lineage is None:
            raise VeilstreamError(f"topic {self.name}: does not exist any more; run `veilstream topics create`")
        return lineage

    def _decided_on(self, error: LostDeltasError, position: int) -> str | None:
        """Return the operator's decision on a replaced delta topic, `rewind` or `accept`; None without a decision.

        The command is a record of the topic that it is about. Before the first charge no decision is needed.
        """
        if position < 0 and self._ledger.view.is_unused:
            return "rewind"
        for _, value, _ in self._reader.read(max(error.lost, self._reader.begin()), self._reader.end()):
            with suppress(msgspec.DecodeError):
                record = DECODER.decode(value or b"")
                if isinstance(record, Command) and record.name == "gap":
                    arguments = record.arguments
                    if (arguments.get("delta"), arguments.get("position")) == (error.lineage.topic, position):
                        return str(arguments["action"])
        return None

    # its contents

    def first_position(self) -> int:
        """Return the position of the first record that can still be read."""
        return max(self.anchor.begin, self.anchor.position(self._reader.begin()))

    def between(self, position: int, until: int) -> Iterator[DeltaRecord]:
        """Yield the records behind `position` up to the offset `until` (exclusive).

        Raises
        ------
        RefusedError
            If some of them were deleted.
        """
        following = self.anchor.offset(position + 1)
        if until <= following:
            return
        begin = self._reader.begin()
        if begin > following:
            raise RefusedError(
                f"the state here ends at {position}, the delta topic begins at {self.anchor.position(begin)}: "
                "the records between are gone; restore a newer checkpoint"
            )
        yield from complete(self._reader.read(following, until), following, self._reread)

    def complete(self, records: Iterable[DeltaRecord], position: int) -> Iterator[DeltaRecord]:
        """Yield the records after `position` that Faust delivers, and those that it skipped.

        Skipped records are read once more, by a consumer of this class.
        """
        return complete(records, self.anchor.offset(position + 1), self._reread)

    def _reread(self, first: int, until: int) -> Iterator[DeltaRecord]:
        """Read offsets once more, with a new consumer."""
        with closing(self._second()) as reader:
            for record in reader.read(max(first, reader.begin()), until):
                log.warning(
                    "%s: the record at offset %d was left out by one consumer, not by another", self.name, record[0]
                )
                yield record

    def recorded_rules(self) -> FoldRules | None:
        """Return the rules of the first config record, for a fold from the start of the topic.

        The result is None if the topic has no config record.

        Raises
        ------
        RefusedError
            If the topic has lost its first records.
        """
        begin = self._reader.begin()
        if begin > 0 or self.anchor.begin > 0:
            raise RefusedError(
                f"no checkpoint here, and the delta topic begins at {begin}: its first records are gone; restore a "
                "backup of the operator's folder"
            )
        for offset, value, _ in self._reader.read(0, self._reader.end()):
            record = decode_record(offset, value)
            if isinstance(record, Config):
                return FoldRules.from_mapping(record.body)
        return None
