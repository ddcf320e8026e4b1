"""A build with its audit and what the gate says of it."""

from __future__ import annotations

from dataclasses import dataclass

from stream.ledger.release_record import Record
from stream.release.contract import Build
from stream.release.documents import AuditDocument
from stream.release.reason import Reason


@dataclass(frozen=True, slots=True)
class Candidate:
    """A build with its audit and the gate's reasons against it."""

    build: Build
    candidate: Record
    audit: AuditDocument
    reasons: list[Reason]
