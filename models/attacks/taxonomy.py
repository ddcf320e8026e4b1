"""Generalization by a given taxonomy of activities: a released activity may stand for any of its specializations.

Source: correspondence-attacks-2021, section 4 ("similar attack analysis can be done for the generalization
operation"). The taxonomy maps an activity to its generalization (child -> parent); a forest, any depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from models.errors import InputError


def ancestors(item: Any, taxonomy: Mapping[Any, Any] | None) -> Iterator[Any]:
    """The item itself and all that generalizes it, from special to general. InputError on a cycle."""
    seen = set()
    while True:
        if item in seen:
            raise InputError("the taxonomy has a cycle")
        seen.add(item)
        yield item
        if not taxonomy or item not in taxonomy:
            return
        item = taxonomy[item]


def related(one: Any, other: Any, taxonomy: Mapping[Any, Any] | None) -> bool:
    """Whether two released items can stand for one activity: one generalizes the other (in a forest)."""
    return one in ancestors(other, taxonomy) or other in ancestors(one, taxonomy)


def leaves(items: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> tuple[Any, ...]:
    """The most special activities that the items can stand for; without a taxonomy the items."""
    if not taxonomy:
        return tuple(items)
    nodes = dict.fromkeys([*items, *taxonomy, *taxonomy.values()])
    parents = set(taxonomy.values())
    shown = set(items)
    return tuple(
        node for node in nodes if node not in parents and any(above in shown for above in ancestors(node, taxonomy))
    )


def specializations(item: Any, symbols: Sequence[Any], taxonomy: Mapping[Any, Any] | None) -> list[Any]:
    """The symbols that `item` can stand for."""
    if not taxonomy:
        return [item]
    return [symbol for symbol in symbols if item in ancestors(symbol, taxonomy)]
