"""Registry of mechanisms: one file a kind, found by looking, not by listing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from models.errors import InputError
from stream.release.contract import Mechanism


@cache
def kinds() -> Mapping[str, type[Mechanism]]:
    """Return every mechanism of this package by its kind."""
    kinds_by_name: dict[str, type[Mechanism]] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Mechanism) and value.__module__ == module.__name__:
                default = value.model_fields["kind"].default
                if isinstance(default, str):
                    kinds_by_name[default] = value
    return kinds_by_name


def mechanism(table: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of a configuration table `{kind = ..., ...}`.

    Pydantic's ValidationError names wrong keys.
    """
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in kinds():
        raise InputError(f"mechanism kind {kind!r} is not one of {', '.join(sorted(kinds()))}")
    return kinds()[kind].model_validate(dict(table))
