"""Erasure: a case leaves the state and everything kept for later audits, and can never come back.

Releases that are already out cannot be called back; the report lists those that held the case. The ledger keeps how
many cases were erased and a tombstone (a digest of the pseudonym, nothing else), so that a replay from the beginning
refuses the case too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypedDict

import msgspec

from connectors.store.base import Store
from stream.fold.state import digest
from stream.ledger import release_record
from stream.ledger.archive import Archive
from stream.ledger.entries import ErasedBody, ErasedEntry
from stream.ledger.folder import OperatorFolder, rewrite
from stream.ledger.mirror import Mirror
from stream.ledger.release_record import ReleaseRecord
from stream.ledger.sqlite import Ledger
from stream.ledger.view import Account
from stream.release.approval import reject_erased
from stream.release.audience import Audience
from stream.release.failpoints import Hook, nothing
from stream.release.pipeline import Pipeline
from stream.release.recovery import bring_own, clear, shows_cases
from stream.release.schedule import ReleaseClock

if TYPE_CHECKING:
    from stream.fold.fold import Fold


class ErasureReport(TypedDict):
    """Result of an erasure.

    `known`: cases that the state held, or had forgotten; `archived_events`: events of them that were removed from the
    archive; `releases`: numbers of releases that held one, by name.
    """

    known: int
    archived_events: int
    releases: dict[str, list[int]]


class AffectedReleases(Protocol):
    """Places where erased cases may still be: ledger, pipelines, the operator's folder, the archive, the mirror."""

    ledger: Ledger
    pipelines: dict[str, Pipeline]
    audiences: list[Audience]
    folder: OperatorFolder
    archive: Archive
    mirror: Mirror | None
    store: Store
    clock: ReleaseClock


def erase(service: AffectedReleases, fold: Fold, cases: Sequence[str]) -> ErasureReport:
    """Erase cases (by pseudonym) from the fold, the archive, every variants file and the memory of mechanisms.

    The ledger records it first: after a crash, `finish` and `apply_tombstones` do the remaining steps at the
    next start. Returns the report. The caller then writes checkpoints until no generation holds the cases.
    """
    names = set(cases)
    out: dict[str, list[int]] = {name: [] for name in service.pipelines}
    for audience in service.audiences:
        for record in audience.earlier:
            if not names.isdisjoint(record.case_ids):
                out.setdefault(record.publication, []).append(record.sequence)
    # Counted before the ledger entry, which reports the number; the events are removed after it.
    digests = {digest(case) for case in cases}
    stones = tuple(digest(case).hex() for case in cases)
    archived_events = service.archive.count(digests)
    n_known = fold.count_known(cases)
    for name, releases in out.items():
        body = ErasedBody(
            cases=len(names),
            known=n_known,
            tombstones=stones,
            releases=tuple(releases),
            archived_events=archived_events or msgspec.UNSET,
        )
        entry = ErasedEntry(publication=name, body=body)
        service.ledger.append(entry)
    fold.erase(list(cases))
    finish(service)
    return {"known": n_known, "archived_events": archived_events, "releases": out}


def tombstones(service: AffectedReleases) -> set[bytes]:
    """Return the digests of every case that was ever erased."""
    return {bytes.fromhex(text) for text in service.ledger.view.tombstones}


def apply_tombstones(service: AffectedReleases, fold: Fold) -> None:
    """Give a fold the tombstones of the ledger, and take out what it still holds of them (an older checkpoint)."""
    gone = tombstones(service)
    if gone:
        fold.erase([case for case in fold.state.index.names(fold.state.cases.size) if digest(case) in gone])
        forgotten = fold.state.forgotten.contains(sorted(gone))
        fold.state.removed_cases += int(forgotten.sum())
        fold.state.refuse(gone)


def finish(service: AffectedReleases) -> None:
    """Remove erased cases from the archive and the kept data of earlier releases if not done yet; the mirror last."""
    # All cases that were ever erased, and not only the newest: a crash may have interrupted any earlier erasure.
    gone = tombstones(service)
    if gone:
        service.archive.erase(gone)
        _take_out(service, gone)
    if service.mirror is not None:
        for pipeline in service.pipelines.values():
            service.mirror.renew(pipeline.name, pipeline.account, service.folder)


def _take_out(service: AffectedReleases, gone: set[bytes]) -> None:
    """Take the cases with these digests out of held releases, and of what audits and builds read."""
    for pipeline in service.pipelines.values():
        reject_erased(pipeline)
    for former in _former(service):
        _reject_former(former)
    for audience in service.audiences:
        erased_of_record = [_erased_cases(record, gone) for record in audience.earlier]
        known_cases = set().union(*erased_of_record)
        if known_cases:
            # All memories before any variants, which show the cases to forget: the memory of one release may name
            # a case that only another one shows.
            for key in audience.seals:
                audience.forget(key, known_cases)
        for place, cases in enumerate(erased_of_record):
            if cases:
                audience.earlier[place] = _rewritten(service, audience.earlier[place], cases)


def _erased_cases(record: ReleaseRecord, gone: set[bytes]) -> set[str]:
    """Return the cases of a release with these digests. A record that is no case has no name."""
    return {case for case in record.case_ids if case and digest(case) in gone}


@dataclass(slots=True)
class _Former:
    """A publication with held releases that the configuration no longer names."""

    name: str
    ledger: Ledger
    account: Account
    store: Store
    folder: OperatorFolder
    mirror: Mirror | None
    clock: ReleaseClock
    at: Hook = nothing


def _former(service: AffectedReleases) -> list[_Former]:
    view = service.ledger.view
    held_names = {name for (name, _), seal in view.seals.items() if seal.body.held_at is not None}
    shared = (service.store, service.folder, service.mirror, service.clock)
    former = sorted(held_names - set(service.pipelines))
    return [_Former(name, service.ledger, view.account(name), *shared) for name in former]


def _reject_former(former: _Former) -> None:
    """Reject its held releases: nothing else reads them until the publication is configured again."""
    for number in former.account.held:
        bring_own(former, number, former.account.seals[number])
    reject_erased(former)
    for number in sorted(former.account.rejected):
        if shows_cases(former, number):  # a crash came before
            clear(former, number)


def _rewritten(service: AffectedReleases, record: ReleaseRecord, cases: set[str]) -> ReleaseRecord:
    remaining = release_record.without_cases(record, cases)
    path = service.folder.layout.variants(*record.key)
    rewrite(service.folder.ops, path, partial(release_record.write, record=remaining))
    return remaining.released(record.audit, release_record.VariantsFile(path))
