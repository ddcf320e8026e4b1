"""Registry of mechanisms: one file a kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from models.errors import InputError
from stream.release.contract import Mechanism
from stream.release.registry import kinds_of


@cache
def kinds() -> Mapping[str, type[Mechanism]]:
    """Return every mechanism of this package by its kind."""
    kinds_by_name: dict[str, type[Mechanism]] = {}
    for value in kinds_of(__name__, __path__, Mechanism):
        kind = value.model_fields["kind"].default
        if isinstance(kind, str):  # a class that several kinds share has none
            kinds_by_name[kind] = value
    return kinds_by_name


def mechanism(table: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of a configuration table `{kind = ..., ...}`.

    Pydantic's ValidationError names wrong keys.
    """
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in kinds():
        raise InputError(f"mechanism kind {kind!r} is not one of {', '.join(sorted(kinds()))}")
    return kinds()[kind].model_validate(dict(table))
