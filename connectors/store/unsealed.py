"""What every store does alike: bytes that nobody can see yet wait in a local folder, and manifests are read."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from connectors.files import FileOps, Writer
from connectors.store.base import (
    Prepared,
    is_sealed,
    leftovers_in,
    parse_manifest,
    set_aside,
    write_release,
)


class UnsealedReleases(ABC):
    """Base of the stores. `private`: the operator's folder, which takes quarantined bytes."""

    __slots__ = ()

    ops: FileOps
    private: Path

    @abstractmethod
    def waiting(self, publication: str) -> Path:
        """The local folder in which unsealed releases of a publication are written."""

    @abstractmethod
    def location(self, publication: str, sequence: int) -> str:
        """Where a release is, whether it exists or not: a folder or a URL."""

    @abstractmethod
    def manifest_bytes(self, publication: str, sequence: int) -> bytes:
        """`manifest.json` of a release; InputError when it is missing."""

    def prepare(
        self, publication: str, candidate: int, files: Mapping[str, Writer], manifest: Mapping[str, Any]
    ) -> Prepared:
        """Write the files in the order given, then `manifest.json` (the manifest with the list of files), durably."""
        return write_release(self.waiting(publication), publication, candidate, files, manifest, self.ops)

    def holds(self, publication: str, temporary: str, manifest_sha256: str) -> bool:
        """Whether the sealed bytes wait here, to the byte."""
        return is_sealed(self.waiting(publication) / temporary, manifest_sha256)

    def read_manifest(self, publication: str, sequence: int) -> dict[str, Any]:
        """The manifest of a release; InputError when it is missing or no JSON object."""
        return parse_manifest(self.manifest_bytes(publication, sequence), self.location(publication, sequence))

    def manifest_sha256(self, publication: str, sequence: int) -> str:
        """SHA-256 of `manifest.json` as it lies there; InputError when it is missing."""
        return hashlib.sha256(self.manifest_bytes(publication, sequence)).hexdigest()

    def quarantine(self, prepared: Prepared) -> Path:
        """Set the bytes of a release that lost its number aside, in the private folder; where they lie now."""
        return set_aside(prepared.tmp, self.private / "quarantine" / prepared.publication, self.ops)

    def leftovers(self, publication: str) -> list[Path]:
        """Temporary folders of unsealed releases, lowest candidate first."""
        return leftovers_in(self.waiting(publication))

    def clear_leftovers(self, publication: str, keep: Collection[str] = ()) -> None:
        """Quarantine every leftover but those named in `keep`: nobody has seen them, and an operator may want to know
        why they are there."""
        for tmp in self.leftovers(publication):
            if tmp.name not in keep:
                set_aside(tmp, self.private / "quarantine" / publication, self.ops)
