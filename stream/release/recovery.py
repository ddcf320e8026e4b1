"""What a restart finds between two durable steps, and what it does (docs/guarantees.md).

* seal row and temporary folder: the rename is done now;
* seal row without bytes: the number is burned, its charge stays, and what is drawn in its place is charged anew, since
  nobody knows whether the bytes were seen before they went;
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
        if number not in account.burned:
            _finish(pipeline, number, seal)
    pipeline.store.clear_leftovers(pipeline.name)
    pipeline.folder.discard(pipeline.name)


def _refuse_unknown(pipeline: Pipeline) -> None:
    known = set(pipeline.account.standing)
    unknown = [number for number in pipeline.store.releases(pipeline.name) if number not in known]
    if unknown:
        raise RefusedError(
            f"release {unknown[0]} of {pipeline.name} stands in the store, but the ledger does not know it: "
            "the ledger is older than the store; restore the newer ledger"
        )


def _finish(pipeline: Pipeline, number: int, seal: Entry) -> None:
    account, store, body = pipeline.account, pipeline.store, seal.body
    if not store.exists(pipeline.name, number):
        if number in account.published:
            raise RefusedError(f"release {number} of {pipeline.name} was published and is gone from the store")
        if not store.resume(pipeline.name, number, body["temporary"], body["manifest"]):
            account.append(Entry(kind="burned", publication=pipeline.name, cut=seal.cut, sequence=number))
            return
    if store.manifest_sha256(pipeline.name, number) != body["manifest"]:
        raise RefusedError(f"release {number} of {pipeline.name} in the store is not what the ledger sealed")
    pipeline.folder.commit(body["operator"], pipeline.name, number)
    if pipeline.mirror is not None and not pipeline.folder.release(pipeline.name, number).exists():
        pipeline.mirror.bring(pipeline.name, number, body["operator"], pipeline.folder)
    if number not in account.published:
        pipeline.announce(number, store.read_manifest(pipeline.name, number))
