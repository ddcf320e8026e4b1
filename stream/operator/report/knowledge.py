"""Names by number: what a page may show of activities and background knowledge without naming any of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class Names:
    """Items of one publication, numbered. `shown` says whether a label is the item itself or only its number.

    Numbers follow the sorted names of what was released, so they mean the same all over one report and nothing
    outside of it.
    """

    def __init__(self, activities: Iterable[str], *, shown: bool) -> None:
        self.shown = shown
        self._numbers: dict[str, int] = {}
        for activity in sorted(set(activities)):
            self.number(activity)

    def number(self, item: Any) -> int:
        """The number of an item, from 1; an item that was not seen before gets the next one."""
        key = item if isinstance(item, str) else msgspec.json.encode(item).decode()
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def label(self, item: Any) -> str:
        """The item as text where values are shown, else `#` and its number."""
        if not self.shown:
            return f"#{self.number(item)}"
        return " ".join(str(part) for part in item) if isinstance(item, list | tuple) else str(item)

    def labels(self, items: Sequence[Any] | None) -> list[str]:
        """Background knowledge as labels, in its order."""
        return [self.label(item) for item in items or []]
