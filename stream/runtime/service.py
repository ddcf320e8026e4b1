"""The release office: every publication's pipeline over one ledger, one store and one operator folder.

Replay and daemon bring cuts here; here a cut of the fold becomes an attempt of the pipeline, and a decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from connectors.files import FileOps
from connectors.store.open import open_store
from models.dp.budget import Charge
from models.errors import InputError, RefusedError
from models.eventlog import Column, EventLog
from stream.config.settings import Settings
from stream.fold.cut import Cut
from stream.fold.fold import Fold
from stream.fold.rules import FoldRules, PublicationRules
from stream.release.contract import Attempt, Decision, Exposure
from stream.release.erasure import erase, finish
from stream.release.pipeline import Pipeline, Publisher
from stream.storage.checkpoints import Checkpoints, FileOperations
from stream.storage.folder import OperatorFolder
from stream.storage.ledger import Account, Ledger, SqliteLedger
from stream.storage.mirror import open_mirror
from stream.values.pseudonym import Pseudonyms, key_from_text

if TYPE_CHECKING:
    from stream.metrics.observer import Watch

MakeLedger = Callable[[Path, str], Ledger]


class Saved(msgspec.Struct, frozen=True):
    """What a checkpoint holds beside the fold: how long the ledger was then."""

    entries: int
    fold: bytes


class Office:
    """Everything that outlives a cut. Opening it recovers what a crash left; `close` gives the folder free.

    `mirrored`: what a bare host needs is also kept in the store, where one is configured (the daemon).
    """

    def __init__(
        self,
        settings: Settings,
        output: Path,
        *,
        at: Callable[[str], None] = lambda _name: None,
        ops: FileOps | None = None,
        make_ledger: MakeLedger = SqliteLedger,
        publish: Publisher | None = None,
        mirrored: bool = False,
    ) -> None:
        self.settings, self.at = settings, at
        self.watch: Watch | None = None
        self.folder = OperatorFolder(output, ops)
        try:
            given = settings.key
            key = self.folder.key() if given is None else key_from_text(given.get_secret_value())
            self.pseudonyms = Pseudonyms(key)
            self.checkpoints = _checkpoints(self.folder, settings)
            self.store = open_store(settings.store or output, ops, self.folder.path)
            self.mirror = open_mirror(settings, output, ops) if mirrored else None
            self.ledger = make_ledger(self.folder.ledger, settings.process.name)
            self.pipelines = {
                publication.name: Pipeline(
                    settings=settings,
                    publication=publication,
                    ledger=self.ledger,
                    store=self.store,
                    folder=self.folder,
                    pseudonyms=self.pseudonyms,
                    at=at,
                    publish=publish,
                    mirror=self.mirror,
                    spent_elsewhere=self._spent_elsewhere(publication.name),
                )
                for publication in settings.publication
            }
            finish(self)
        except BaseException:
            if hasattr(self, "ledger"):
                self.ledger.close()
            self.folder.close()
            raise

    def close(self) -> None:
        """Close the ledger and give the folder free."""
        self.ledger.close()
        self.folder.close()

    def rules(self, *, embedded: bool) -> FoldRules:
        """What the fold goes by, from the configuration. InputError where a daemon's needs the whole log."""
        process = self.settings.process
        if process.completion.log_end and not embedded:
            raise InputError("process.completion.log_end needs the whole log: use it with replay")
        return FoldRules(
            publications=tuple(
                PublicationRules(publication.name, publication.build_window, publication.late)
                for publication in self.settings.publication
            ),
            end_activities=process.completion.end_activities,
            end_all=process.completion.end_all,
            inactivity=process.completion.inactivity,
            log_end=process.completion.log_end,
            retention=process.retention,
            key=self.pseudonyms.id,
            embedded=embedded,
        )

    def decide(self, fold: Fold, cut: Cut) -> Decision:
        """Take the open cut through its pipeline; the fold goes on when the decision is durable."""
        started = time.monotonic()
        decision = self.pipelines[cut.publication].attempt(self.attempt(fold, cut))
        fold.decided(cut, decision.status == "sealed")
        if self.watch is not None:
            self.watch.decided(self, cut.publication, decision, time.monotonic() - started)
        return decision

    def attempt(self, fold: Fold, cut: Cut) -> Attempt:
        """What the pipeline is told of a cut."""
        projection = fold.exposed(cut)
        accounting = fold.accounting(cut.publication)
        exposure = Exposure(
            log=_with_sensitive(projection.log, self.settings.process.sensitive),
            complete=projection.complete,
            sensitive=self.settings.process.sensitive,
            time_ns=cut.time_ns,
            last=cut.trigger == "final",
        )
        return Attempt(
            cut=cut.id,
            trigger=cut.trigger,
            time_ns=cut.time_ns,
            exposure=exposure,
            counts={**cut.counts, "seen": accounting["seen"]},
            vector={f"{source}/{partition}": offset for source, partition, offset in cut.vector},
            certain=cut.certain is not False,
        )

    def checkpoint(self, fold: Fold) -> None:
        """Save the state between two records: every cut so far has its durable decision."""
        saved = Saved(self.ledger.count(), fold.snapshot())
        self.checkpoints.save(msgspec.msgpack.encode(saved))
        self.at("checkpointed")

    def fold_of(self, state: bytes) -> Fold:
        """The fold of a checkpoint; RefusedError where the ledger is older than it."""
        saved = msgspec.msgpack.decode(state, type=Saved)
        entries = self.ledger.count()
        if entries < saved.entries:
            raise RefusedError(
                f"{self.folder.ledger}: has {entries} entries, the checkpoint saw {saved.entries}: "
                "the ledger is older than the state; restore the newer ledger"
            )
        return Fold.restore(saved.fold)

    def erase(self, fold: Fold, cases: Sequence[str]) -> dict[str, Any]:
        """Erase cases (by pseudonym) everywhere but in what is published already; the report lists that."""
        report = erase(self, fold, cases)
        for _generation in range(2):  # the newest and the one before
            self.checkpoint(fold)
        return report

    def tail(self, fold: Fold, name: str) -> dict[str, int | None]:
        """Where every event is after the last one: released and suppressed by the last release, pending, late.
        Released and suppressed are None after a dp release, which holds records of its own."""
        accounting, pipeline = fold.accounting(name), self.pipelines[name]
        standing = pipeline.account.standing
        counts = pipeline.audit_of(standing[-1])["counts"] if standing else {}
        exposed = counts.get("exposed", 0)
        return {
            "seen": accounting["seen"],
            "released": counts["released"] if counts else 0,
            "suppressed": counts["suppressed_events"] if counts else 0,
            "pending": accounting["seen"] - accounting["late"] - exposed + (counts.get("held") or 0),
            "late": accounting["late"],
        }

    def _spent_elsewhere(self, name: str) -> Callable[[], Charge]:
        """Also of publications that the configuration no longer names: what they spent stays spent."""
        configured = {publication.name for publication in self.settings.publication}
        former = {entry.publication for entry in self.ledger.entries() if entry.kind == "charge"} - configured
        gone = sum((Account(self.ledger, one).spent for one in sorted(former)), Charge())

        def spent() -> Charge:
            others = (pipeline for other, pipeline in self.pipelines.items() if other != name)
            return sum((pipeline.account.spent for pipeline in others), gone)

        return spent


def _checkpoints(folder: OperatorFolder, settings: Settings) -> Checkpoints:
    folder.checkpoints.mkdir(exist_ok=True)
    ops = folder.ops
    operations = FileOperations(
        write=lambda path, data: ops.write(path, lambda target: _write(target, data)),
        fsync=ops.fsync,
        rename=ops.replace,
    )
    return Checkpoints(folder.checkpoints, settings.storage_keys, operations)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _with_sensitive(log: EventLog, names: tuple[str, ...]) -> EventLog:
    """The log with every configured sensitive attribute, all missing where no event brought a value yet."""
    absent = [name for name in names if name not in log.case_attributes and name not in log.event_attributes]
    none = Column(np.full(log.n_cases, -1, dtype=np.int32), ())
    return replace(log, case_attributes={**log.case_attributes, **dict.fromkeys(absent, none)})
