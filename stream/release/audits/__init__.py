"""Registry of audits: one file a measure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from typing import Any

from pydantic import ValidationError

from models.errors import InputError
from stream.release.contract import Audit
from stream.release.registry import kinds_of

MAIN = "anonymity"
"""The audit that owns the top-level keys of the `audit` table."""


@cache
def kinds() -> Mapping[str, type[Audit]]:
    """Return every audit of this package by its name."""
    return {audit.name: audit for audit in kinds_of(__name__, __path__, Audit)}


def audits(table: Mapping[str, Any]) -> tuple[Audit, ...]:
    """Return the audits that a publication's `audit` table asks for.

    Each comes after those whose results it reads.
    """
    main_table = {key: value for key, value in table.items() if key not in kinds() or key == MAIN}
    if MAIN in main_table and not isinstance(main_table[MAIN], bool):
        raise InputError(f"audit.{MAIN}: its keys belong in the audit table itself")
    chosen: dict[str, Audit] = {}
    for name, kind in kinds().items():
        setting = table.get(name, kind.on_by_default)
        if setting is False:
            continue
        if not isinstance(setting, bool | Mapping):
            raise InputError(f"audit.{name}: must be a table of its keys, true or false")
        parameters = setting if isinstance(setting, Mapping) else {}
        if name == MAIN:
            parameters = {key: value for key, value in main_table.items() if key != MAIN}
        try:
            chosen[name] = kind.model_validate(parameters)
        except ValidationError as error:
            if name != MAIN:
                error.add_note(name)  # the table of the keys that are at fault
            raise
    order = TopologicalSorter[str]()
    for name, audit in chosen.items():
        order.add(name, *(predecessor for predecessor in audit.after if predecessor in chosen))
    return tuple(chosen[name] for name in order.static_order())
