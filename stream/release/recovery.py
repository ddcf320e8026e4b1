"""Recovery: what a restart does after a crash between two durable steps (docs/guarantees.md).

* seal row and temporary folder: the rename is done now, or at its moment if that has not come;
* seal row without bytes: the number is burned and its charge stays. The release drawn instead is charged again, since
  nobody knows whether the bytes were seen before they were lost;
* a folder without a seal row: somebody else's, or a restored ledger: refuse to release;
* a seal row of a held release: its bytes stay with the operator until the ledger has a person's decision, which is then
  carried out;
* a temporary folder without a seal: quarantined, since it was never visible;
* a seal row and a release, but no files of the operator (a host that takes over): they come from the mirror.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Protocol

from connectors.store.base import Store
from models.errors import InputError, RefusedError
from stream.ledger.entries import ApprovalBody, ApprovalEntry, BurnedEntry, Ruling, SealEntry
from stream.ledger.folder import OperatorFolder
from stream.ledger.layout import MEMORY, VARIANTS
from stream.ledger.mirror import Mirror
from stream.ledger.sqlite import Ledger
from stream.ledger.view import Account
from stream.release.failpoints import Failpoint, Hook
from stream.release.schedule import ReleaseClock
from stream.release.stages import Published

if TYPE_CHECKING:
    from stream.release.pipeline import Pipeline


class Holder(Protocol):
    """Tools to reject a held release.

    A publication's pipeline, or what is left of a publication that the configuration no longer names.
    """

    name: str
    ledger: Ledger
    account: Account
    store: Store
    folder: OperatorFolder
    mirror: Mirror | None
    clock: ReleaseClock

    @property
    def at(self) -> Hook:
        """Called at each step, for tests of crashes."""


def compare(ledger: Ledger, store: Store, process: str, configured: Collection[str]) -> None:
    """Compare the store with the whole ledger, publications included that the configuration does not name (any more).

    `recover` treats a release that the ledger knows and the store lacks.

    Parameters
    ----------
    ledger, store
        The ledger, and the store with the releases.
    process
        Name of the process.
    configured
        Names of the publications in the configuration.

    Raises
    ------
    RefusedError
        If the store has a release of this process that the ledger does not know, or one that counts more releases of
        the process than the ledger has. These releases were charged to another ledger, and their charges would be
        forgotten.
    """
    sealed = ledger.view.seals
    for name in store.publications():
        numbers = store.releases(name)
        if not numbers:
            continue
        unknown = [number for number in numbers if (name, number) not in sealed]
        if name in configured and unknown:
            continue  # `recover` reports it, whatever its manifest contains
        last = (unknown or numbers)[-1]
        try:
            manifest = store.read_manifest(name, last)
        except InputError:  # a foreign folder without a manifest; `recover` reports one that the ledger sealed
            continue
        if manifest.get("process") != process:
            continue
        if unknown:
            raise RefusedError(
                f"release {unknown[0]} of {name} is in the store and belongs to this process, but the ledger does not "
                "know it: the ledger is another one, or older than the store; restore the ledger of these releases"
            )
        counted = (manifest.get("chain") or {}).get("releases", 0)
        if counted > len(sealed):
            raise RefusedError(
                f"release {last} of {name} in the store is number {counted} of its process, but the ledger knows only "
                f"{len(sealed)}: the ledger is older than the store, or lacks entries; restore the newer ledger"
            )


def recover(pipeline: Pipeline) -> None:
    """Bring store, operator folder and ledger of one publication to agreement, or raise RefusedError."""
    account = pipeline.account
    _refuse_unknown(pipeline)
    _refuse_broken_chain(pipeline)
    # In order of the numbers: recipients never see a release before the one that its manifest names as previous.
    for number, seal in sorted(account.seals.items()):
        if number in account.burned:
            continue
        if number in account.rejected:
            # A crash came between the rejection and the deletion of the files.
            if shows_cases(pipeline, number):
                clear(pipeline, number)
            continue
        if number in account.held:
            _keep_held(pipeline, number, seal)
            continue
        if seal.body.held_at is not None and number not in account.published:
            # Approved, and its bytes may still be in the operator's folder.
            move_to_public(pipeline, number, seal)
        if _waits(pipeline, number, seal):
            pipeline.waiting[number] = seal
            bring_own(pipeline, number, seal)
        else:
            finish(pipeline, number, seal)
    kept = [*pipeline.waiting.values(), *(account.seals[number] for number in account.held)]
    if account.rejected and pipeline.mirror is not None:
        pipeline.mirror.prune(pipeline.name, account)
    # By now the files of every sealed release are in place or known to wait. Other temporary files are those of
    # attempts that were never sealed, and never visible.
    pipeline.store.clear_leftovers(pipeline.name, {seal.body.temporary for seal in kept})
    pipeline.folder.discard(pipeline.name)
    supersede(pipeline)


def _keep_held(pipeline: Pipeline, number: int, seal: SealEntry) -> None:
    """Keep a held release as it was sealed.

    If this host has no bytes of it, the mirror's copy is used. If they are gone, its number is burned.
    """
    bring_own(pipeline, number, seal)
    _bring_held(pipeline, number, seal)
    if not pipeline.store.has_held_bytes(pipeline.name, seal.body.temporary, seal.body.manifest):
        pipeline.ledger.append(BurnedEntry(publication=pipeline.name, cut=seal.cut, sequence=number))


def _bring_held(pipeline: Pipeline, number: int, seal: SealEntry) -> None:
    name, temporary, manifest = pipeline.name, seal.body.temporary, seal.body.manifest
    if pipeline.mirror is None or pipeline.store.has_held_bytes(name, temporary, manifest):
        return
    files = pipeline.mirror.held(name, number, temporary)
    if files is not None:
        pipeline.store.put_held(name, temporary, files)


def move_to_public(pipeline: Pipeline, number: int, seal: SealEntry) -> None:
    """Move the bytes of an approved release from the operator's folder to the staging folder, for `finish`.

    Bytes that were moved before a crash are left as they are.
    """
    name, body, store = pipeline.name, seal.body, pipeline.store
    moved = store.exists(name, number) or store.has_staged_bytes(name, body.temporary, body.manifest)
    if not moved:
        _bring_held(pipeline, number, seal)
        store.move_to_staging(name, body.temporary)
    pipeline.at(Failpoint.MOVED)


def supersede(pipeline: Pipeline) -> list[int]:
    """Reject every held release of a publication but the newest, if newer candidates replace older ones.

    Returns their numbers. A newer release that needed no approval replaces all.
    """
    if pipeline.spec.hold != "supersede":
        return []
    account = pipeline.account
    newest = max((number for number in account.seals if number not in account.burned), default=0)
    superseded = [number for number in account.held if number < newest]
    for number in superseded:
        reject(pipeline, number, by="veilstream", why=f"release {newest} took its place", ruling="superseded")
    return superseded


def reject(pipeline: Holder, number: int, *, by: str, why: str, ruling: Ruling = "rejected") -> ApprovalEntry:
    """Decide, durably, that a held release is never published, and delete its bytes.

    Its number and its charge stay used.

    Parameters
    ----------
    pipeline, number
        Pipeline of the publication, and the number of the release.
    by, why
        Name of the person, and reason.
    ruling
        `superseded` if a newer release takes its place.

    Returns
    -------
    ApprovalEntry
        The decision that counts: an earlier one, if there is one.
    """
    body = ApprovalBody(decision=ruling, by=by, why=why, at=pipeline.clock.now())
    entry = ApprovalEntry(publication=pipeline.name, sequence=number, owner=uuid.uuid4().hex, body=body)
    # The first decision in the ledger counts: another process may have decided since this one looked.
    valid_entry = pipeline.ledger.append(entry)
    if valid_entry.body.decision != "approved":
        pipeline.at(Failpoint.REJECTED)
        clear(pipeline, number)
    return valid_entry


FILES_WITH_CASES = (VARIANTS, MEMORY)
"""The operator's files of a release that name cases."""


def shows_cases(pipeline: Holder, number: int) -> bool:
    """Return whether something of a rejected release is still here."""
    name, seal = pipeline.name, pipeline.account.seals[number]
    operator_folder = pipeline.folder.release(name, number)
    unnamed_folder = pipeline.folder.path / name / seal.body.operator
    has_files = any((operator_folder / file).exists() for file in FILES_WITH_CASES) or unnamed_folder.exists()
    return has_files or pipeline.store.has_held_bytes(name, seal.body.temporary)


def clear(pipeline: Holder, number: int) -> None:
    """Delete the files of a rejected release that show cases; its audit stays, with the reason."""
    name, seal = pipeline.name, pipeline.account.seals[number]
    # The audit has to be in its final folder first, since the mirror's copy of it is dropped below.
    bring_own(pipeline, number, seal)
    pipeline.store.drop_held(name, seal.body.temporary)
    for file in FILES_WITH_CASES:
        (pipeline.folder.release(name, number) / file).unlink(missing_ok=True)
    if pipeline.mirror is not None:
        pipeline.mirror.drop(name, seal.body.temporary)
        pipeline.mirror.drop(name, seal.body.operator)
    pipeline.at(Failpoint.DROPPED)


def _waits(pipeline: Pipeline, number: int, seal: SealEntry) -> bool:
    """Return whether a release with bytes waits for its moment, or for the moment of one before it."""
    moment = seal.body.publish_at
    if moment is None or number in pipeline.account.published or pipeline.store.exists(pipeline.name, number):
        return False
    due = not pipeline.waiting and pipeline.clock.due(moment)
    return not due and pipeline.store.has_staged_bytes(pipeline.name, seal.body.temporary, seal.body.manifest)


def _refuse_unknown(pipeline: Pipeline) -> None:
    sealed = set(pipeline.account.released_numbers)
    unknown = [number for number in pipeline.store.releases(pipeline.name) if number not in sealed]
    if unknown:
        raise RefusedError(
            f"release {unknown[0]} of {pipeline.name} is in the store, but the ledger does not know it: "
            "the ledger is older than the store; restore the newer ledger"
        )


def _refuse_broken_chain(pipeline: Pipeline) -> None:
    """Refuse a last release whose predecessor has another digest; releases of earlier programs name none."""
    seals, numbers = pipeline.account.seals, pipeline.store.releases(pipeline.name)
    if not numbers:
        return
    manifest = pipeline.store.read_manifest(pipeline.name, numbers[-1])
    before, digest = manifest.get("previous"), (manifest.get("chain") or {}).get("previous_manifest")
    if digest is not None and (before not in seals or seals[before].body.manifest != digest):
        raise RefusedError(
            f"release {numbers[-1]} of {pipeline.name} follows a release {before} that is not the one in the ledger: "
            "store and ledger do not belong together; restore the ledger of these releases"
        )


def finish(pipeline: Pipeline, number: int, seal: SealEntry) -> bool:
    """Make a sealed release visible from any step on; return False if its bytes are gone and its number is burned."""
    account, store, body = pipeline.account, pipeline.store, seal.body
    if not store.exists(pipeline.name, number):
        if number in account.published:
            # Recipients may have it: a number is never given to other bytes.
            raise RefusedError(
                f"release {number} of {pipeline.name} was published and is gone from the store; put it back, to the "
                "byte, from a copy of the store: its number is never given to other bytes"
            )
        check_fence = partial(pipeline.check_fence, number)
        place = (pipeline.name, number, body.temporary, body.manifest, body.publish_at)
        if not store.resume(*place, check_fence=check_fence):
            pipeline.ledger.append(BurnedEntry(publication=pipeline.name, cut=seal.cut, sequence=number))
            return False
        pipeline.at(Failpoint.RENAMED)
    if store.manifest_sha256(pipeline.name, number) != body.manifest:
        raise RefusedError(f"release {number} of {pipeline.name} in the store is not what the ledger sealed")
    bring_own(pipeline, number, seal)
    if number not in account.published:
        pipeline.announce(Published(number, store.read_manifest(pipeline.name, number)))
    return True


def publish_due(pipeline: Pipeline) -> None:
    """Publish the sealed releases whose moment has come, in order of their numbers."""
    for number, seal in sorted(pipeline.waiting.items()):
        if not pipeline.clock.due(seal.body.publish_at or 0):
            return
        # It was sealed minutes ago: a coordinator that was fenced since then stops here, before the bytes are visible.
        pipeline.check_fence(number)
        if not finish(pipeline, number, seal):
            raise RefusedError(f"release {number} of {pipeline.name} waited for its moment, and its bytes are gone")
        del pipeline.waiting[number]
        pipeline.at(Failpoint.PUBLISHED)


def bring_own(pipeline: Holder, number: int, seal: SealEntry) -> None:
    """Fetch the operator's files of a sealed release, from their temporary folder or from the mirror."""
    pipeline.folder.commit(seal.body.operator, pipeline.name, number)
    if pipeline.mirror is not None and not pipeline.folder.release(pipeline.name, number).exists():
        pipeline.mirror.bring(pipeline.name, number, seal.body.operator, pipeline.folder)
