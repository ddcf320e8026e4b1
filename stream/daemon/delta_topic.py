"""The delta topic of a coordinator: check that it is the one that the state was folded from, and read it beside
Faust."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import NoReturn

import msgspec

from connectors.kafka.lineage import Leader, Lineage, LogClient
from connectors.kafka.source import Source
from connectors.kafka.topics import topic
from models.errors import RefusedError, VeilstreamError
from stream.daemon.delta_log import Anchor, LostDeltasError, anchors, note
from stream.daemon.delta_reader import DeltaReader
from stream.daemon.delta_records import DECODER, DeltaRecord, decode_record, whole
from stream.fold.records import Command, Config
from stream.fold.rules import FoldRules
from stream.ledger.sqlite import Ledger
from stream.release.pipeline import Pipeline

log = logging.getLogger("veilstream")


class DeltaTopic:
    """Reads the topic and compares it with what the ledger records of it.

    `anchor` maps offsets to positions of the fold; `lost`: why nothing may be released, where the topic is not the one
    that was folded.
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
        """Compare the topic with the one that the state was folded from, up to `position`. Returns the leader epoch of
        that record, -1 where it was of an earlier topic. LostDeltasError where the topic is another one and no operator
        has decided how to go on."""
        lineage = self._lineage()
        if not self._recorded:
            self.anchor = Anchor(lineage.topic)
        if position + 1 < self.anchor.begin:
            raise RefusedError(
                f"the state here ends at {position}, the delta topic of now begins at {self.anchor.begin}: what "
                "lies between is gone; restore a newer checkpoint"
            )
        epoch = -1 if position < self.anchor.begin else epoch  # of a log of before
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
        for pipeline in pipelines if action == "accept" else ():
            pipeline.accept_gap(position + 1, [f"{self.name}: from position {position + 1} on"])
        log.warning("%s: goes on from offset %d as position %d (gap %s)", self.name, lost, self.anchor.begin, action)
        return -1

    def check(self, position: int, epoch: int, *, whole: bool = False) -> None:
        """LostDeltasError where the topic is no longer the one that is folded. Call it after records were fetched and
        before they are folded, so that the answer covers them. Without a new leader this costs one request; `whole`
        also compares the end, for a topic that brings no records."""
        leader = self._client.leaders([self.name]).get((self.name, 0))
        if leader is not None and leader == self._leader and not whole:
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
        found = self._client.lineages([place]).get(place)
        if found is None:
            raise VeilstreamError(f"topic {self.name}: is gone; run `veilstream topics create`")
        return found

    def _decided_on(self, error: LostDeltasError, position: int) -> str | None:
        """The decision of the operator on a replaced delta topic: `rewind`, `accept`, or None without a decision. The
        command stands in the topic that it is about. Before the first charge no decision is needed."""
        if position < 0 and not any(entry.kind in ("charge", "seal") for entry in self._ledger.entries()):
            return "rewind"
        for _, value, _ in self._reader.read(max(error.lost, self._reader.begin()), self._reader.end()):
            with suppress(msgspec.DecodeError):
                record = DECODER.decode(value or b"")
                if isinstance(record, Command) and record.name == "gap":
                    told = record.arguments
                    if (told.get("delta"), told.get("position")) == (error.lineage.topic, position):
                        return str(told["action"])
        return None

    # what stands in it

    def first_position(self) -> int:
        """Return the position of the first record that can still be read."""
        return max(self.anchor.begin, self.anchor.position(self._reader.begin()))

    def between(self, position: int, until: int) -> Iterator[DeltaRecord]:
        """Read the records behind `position` up to the offset `until` (exclusive). RefusedError where some were
        deleted."""
        following = self.anchor.offset(position + 1)
        if until <= following:
            return
        begin = self._reader.begin()
        if begin > following:
            raise RefusedError(
                f"the state here ends at {position}, the delta topic begins at {self.anchor.position(begin)}: "
                "what lies between is gone; restore a newer checkpoint"
            )
        yield from whole(self._reader.read(following, until), following, self._reread)

    def whole(self, records: Iterable[DeltaRecord], position: int) -> Iterator[DeltaRecord]:
        """Records behind `position` as Faust brings them; what it left out between them is read here."""
        return whole(records, self.anchor.offset(position + 1), self._reread)

    def _reread(self, first: int, until: int) -> Iterator[DeltaRecord]:
        """Read offsets once more, with a new consumer."""
        with closing(self._second()) as reader:
            for record in reader.read(max(first, reader.begin()), until):
                log.warning(
                    "%s: the record at offset %d was left out by one consumer, not by another", self.name, record[0]
                )
                yield record

    def recorded_rules(self) -> FoldRules | None:
        """The rules of the first config record, for a fold from the start of the topic; None where it has none."""
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
