"""The documents of officers in the operator's folder: the last dossier, and a page on the attacks that it names.

Report and console link to those that exist. `veilstream dossier` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stream.ledger.layout import FOR_OFFICERS, OperatorLayout

Links = Mapping[str, Mapping[str, str]]
"""Addresses of the documents, by publication and name (`dossier`, `assessment`)."""


def papers(output: Path) -> dict[str, dict[str, Path]]:
    """Return the documents that exist, by publication and name."""
    layout = OperatorLayout(output)
    folder = layout.root / FOR_OFFICERS
    documents: dict[str, dict[str, Path]] = {}
    for place in sorted(folder.iterdir()) if folder.is_dir() else []:
        paths = {"dossier": layout.dossier(place.name), "assessment": layout.assessment(place.name)}
        existing = {name: path for name, path in paths.items() if path.is_file()}
        if existing:
            documents[place.name] = existing
    return documents
