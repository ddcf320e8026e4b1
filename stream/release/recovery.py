"""What a restart finds between two durable steps, and what it does (docs/guarantees.md).

* seal row and temporary folder: the rename is done now, or at its moment where that has not come;
* seal row without bytes: the number is burned, its charge stays;
* a folder without a seal row: somebody else's, or a restored ledger: refuse to release;
* a temporary folder that no seal speaks of: quarantined, since nobody has seen it;
* a seal row and a release, but no files of the operator (a host that takes over): they come from the mirror.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.errors import RefusedError
from stream.storage.ledger import Entry

if TYPE_CHECKING:
    from stream.release.pipeline import Pipeline


def recover(pipeline: Pipeline) -> None:
    """Bring store, operator folder and ledger of one publication to agreement, or raise RefusedError."""
    account = pipeline.account
    _refuse_unknown(pipeline)
    for number, seal in sorted(account.seals.items()):
        if number in account.burned:
            continue
        if _waits(pipeline, number, seal):
            pipeline.waiting[number] = seal
            _bring_own(pipeline, number, seal)
        else:
            finish(pipeline, number, seal)
    pipeline.store.clear_leftovers(pipeline.name, {seal.body["temporary"] for seal in pipeline.waiting.values()})
    pipeline.folder.discard(pipeline.name)


def _waits(pipeline: Pipeline, number: int, seal: Entry) -> bool:
    """Whether a release was sealed before its moment, which has not come (or that of one before it), and its bytes are
    there."""
    moment = seal.body.get("publish_at")
    if moment is None or number in pipeline.account.published or pipeline.store.exists(pipeline.name, number):
        return False
    due = not pipeline.waiting and pipeline.clock.due(moment)
    return not due and pipeline.store.holds(pipeline.name, seal.body["temporary"], seal.body["manifest"])


def _refuse_unknown(pipeline: Pipeline) -> None:
    known = set(pipeline.account.standing)
    unknown = [number for number in pipeline.store.releases(pipeline.name) if number not in known]
    if unknown:
        raise RefusedError(
            f"release {unknown[0]} of {pipeline.name} stands in the store, but the ledger does not know it: "
            "the ledger is older than the store; restore the newer ledger"
        )


def finish(pipeline: Pipeline, number: int, seal: Entry) -> bool:
    """Make a sealed release visible, whatever was done of it; False where its bytes are gone and its number burned."""
    account, store, body = pipeline.account, pipeline.store, seal.body
    if not store.exists(pipeline.name, number):
        if number in account.published:
            raise RefusedError(f"release {number} of {pipeline.name} was published and is gone from the store")
        if not store.resume(pipeline.name, number, body["temporary"], body["manifest"], body.get("publish_at")):
            account.append(Entry(kind="burned", publication=pipeline.name, cut=seal.cut, sequence=number))
            return False
        pipeline.at("renamed")
    if store.manifest_sha256(pipeline.name, number) != body["manifest"]:
        raise RefusedError(f"release {number} of {pipeline.name} in the store is not what the ledger sealed")
    _bring_own(pipeline, number, seal)
    if number not in account.published:
        pipeline.announce(number, store.read_manifest(pipeline.name, number))
    return True


def _bring_own(pipeline: Pipeline, number: int, seal: Entry) -> None:
    """The operator's files of a sealed release, from where they were written or from the mirror."""
    pipeline.folder.commit(seal.body["operator"], pipeline.name, number)
    if pipeline.mirror is not None and not pipeline.folder.release(pipeline.name, number).exists():
        pipeline.mirror.bring(pipeline.name, number, seal.body["operator"], pipeline.folder)
