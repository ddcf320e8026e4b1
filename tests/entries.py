"""Ledger entries as they are in file and topic, for tests that need one of a kind and few of its fields."""

from __future__ import annotations

from typing import Any

import msgspec

from stream.ledger.entries import Entry, read_entry

LEAST: dict[str, dict[str, Any]] = {
    "charge": {"epsilon": "0", "delta": "0"},
    "seal": {"files": [], "manifest": "", "temporary": "", "operator": ""},
    "withheld": {"reasons": []},
}
"""Required fields of the body of a kind."""


def entry(kind: str, publication: str, body: dict[str, Any] | None = None, **fields: Any) -> Entry:
    """The entry that those keys mean when they are read."""
    whole = {"kind": kind, "publication": publication, **fields, "body": {**LEAST.get(kind, {}), **(body or {})}}
    return read_entry(msgspec.json.encode(whole))


def body_of(one: Entry) -> dict[str, Any]:
    """Return the bytes of an entry's body."""
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(one)).get("body", {})
    return written
