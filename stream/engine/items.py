"""Items as numbers: what SQL of any engine counts, and what the numbers stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.eventlog import Column, Ints
from models.knowledge import Knowledge


def floor_sql(value: str, unit: int, whole: str) -> str:
    """Whole units of a time, rounded down also before 1970. `whole`: the operator of whole division (toward zero)."""
    return f"(({value} - ((({value}) % {unit}) + {unit}) % {unit}) {whole} {unit})"


def item_sql(known: Knowledge, items: Mapping[str, Column], activity: str, resource: str, tick: str) -> str:
    """The number of an item: its relative time, activity and resource as digits, as far as it has them. `activity`: the
    label's code; `resource`: the code and 1, 0 for none."""
    item = tick if known.structure == "rel" else "0"
    if "activity" in items:
        item = f"({item}) * {max(len(items['activity'].values), 1)} + {activity}"
    if "resource" in items:
        item = f"({item}) * {len(items['resource'].values) + 1} + {resource}"
    return item


def alphabet_of(numbers: Ints, known: Knowledge, items: Mapping[str, Column]) -> tuple[Any, ...]:
    """The items of their numbers."""
    parts: dict[str, list[Any]] = {}
    rest = numbers
    if "resource" in items:
        own = items["resource"].values
        parts["resource"] = [(None, *own)[code] for code in (rest % (len(own) + 1)).tolist()]
        rest = rest // (len(own) + 1)
    if "activity" in items:
        own = items["activity"].values
        parts["activity"] = [own[code] for code in (rest % max(len(own), 1)).tolist()]
        rest = rest // max(len(own), 1)
    parts["relative_time"] = rest.tolist()
    columns = [parts[name] for name in known.carries]
    return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))
