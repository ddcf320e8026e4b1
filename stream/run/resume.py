"""Where a replay goes on: its checkpoint, held against the log, the configuration and the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from models.errors import RefusedError
from models.eventlog import EventLog
from stream.fold.fold import Fold
from stream.ledger.entries import ClaimBody, ClaimEntry, NoteEntry, SealEntry, WithheldEntry
from stream.release.contract import Decision
from stream.release.erasure import apply_tombstones
from stream.run.log_source import SOURCE, log_facts
from stream.run.service import ReleaseService


class Resume:
    """The start of a replay in a folder that may hold an earlier, unfinished one of the same log: `fold`, as it was at
    the checkpoint or a new one, and `taken`, the highest rank that it holds."""

    def __init__(self, service: ReleaseService, log: EventLog, until: int | None = None) -> None:
        self.service, self.until = service, until
        self._claim(log)
        loaded = service.checkpoints.load()
        self.warning = loaded.warning if loaded else ""
        self.fold, self.taken = self._begun(log) if loaded is None else self._restored(loaded.state)
        apply_tombstones(service, self.fold)

    def _begun(self, log: EventLog) -> tuple[Fold, int]:
        return Fold(self.service.rules(embedded=True), log_facts(log)), -1

    def _restored(self, state: bytes) -> tuple[Fold, int]:
        fold = self.service.fold_of(state)
        return fold, fold.state.partition((SOURCE, 0)).hwm

    def before(self, again: Sequence[tuple[str, Decision]]) -> list[tuple[str, Decision]]:
        """Decisions of the earlier run whose cuts lie before the checkpoint, in the order of the ledger."""
        seen = {decision.cut for _, decision in again}
        return [
            (entry.publication, decision)
            for entry in self.service.ledger.entries()
            if isinstance(entry, SealEntry | WithheldEntry) and entry.cut not in seen
            if (decision := self.service.pipelines[entry.publication].decided(entry.cut)) is not None
            if decision.status == "withheld" or decision.sequence == entry.sequence
        ]

    def _claim(self, log: EventLog) -> None:
        """The folder belongs to one log and one configuration: with others its cuts would mean something else."""
        own = ClaimBody(
            log=digest(log),
            config=self.service.settings.digest,
            key=self.service.pseudonyms.id,
            until=None if self.until is None else str(self.until),
            publications=tuple(one.name for one in self.service.settings.publication),
        )
        notes = [one for one in self.service.ledger.entries("") if isinstance(one, ClaimEntry | NoteEntry)]
        if not notes:
            self.service.ledger.append(ClaimEntry(publication="", body=own))
            return
        claim = notes[0].body if isinstance(notes[0], ClaimEntry) else ClaimBody()  # a daemon's folder: nobody's replay
        for name, what in (
            ("log", "the log"),
            ("config", "the configuration"),
            ("key", "the pseudonym key"),
            ("until", "the end (--until)"),
        ):
            if getattr(claim, name) != getattr(own, name):
                raise RefusedError(
                    f"{self.service.folder.output}: {what} is not the one that this folder's replay began with; "
                    "choose another folder with -o"
                )


def digest(log: EventLog) -> str:
    """sha256 over everything a replay reads of a log."""
    whole = hashlib.sha256(msgspec.json.encode([log.case_ids, log.activity.values, log.resource.values]))
    for array in (log.starts, log.time, log.row, log.activity.codes, log.resource.codes):
        whole.update(array.tobytes())
    for name, column in sorted([*log.case_attributes.items(), *log.event_attributes.items()]):
        whole.update(msgspec.json.encode([name, [str(value) for value in column.values]]) + column.codes.tobytes())
    return whole.hexdigest()
