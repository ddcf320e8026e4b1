"""Keys of earlier programs, and the keys that an old configuration must use now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

EVERY = "*"
"""Each entry of a list of tables, such as `[[publication]]`."""


@dataclass(frozen=True, slots=True)
class RemovedKey:
    """A key that was removed: its place in the file, and what to do instead."""

    path: tuple[str, ...]
    advice: str

    @property
    def name(self) -> str:
        """The key as documents write it."""
        return ".".join(part for part in self.path if part != EVERY)

    def tables(self, body: Any, path: tuple[str, ...] | None = None) -> Iterator[dict[str, Any]]:
        """Yield each table of a configuration that has the key."""
        step, *inner = self.path if path is None else path
        if step == EVERY:
            for entry in body if isinstance(body, list) else ():
                yield from self.tables(entry, tuple(inner))
        elif isinstance(body, dict) and step in body:
            if inner:
                yield from self.tables(body[step], tuple(inner))
            else:
                yield body

    @property
    def key(self) -> str:
        """The last part of the path."""
        return self.path[-1]


def _of_publication(*path: str, advice: str) -> RemovedKey:
    return RemovedKey(("publication", EVERY, *path), advice)


REMOVED = (
    RemovedKey(
        ("source", "attributes"),
        'name these attributes in process.attributes, for example public = ["department"]: a mechanism reads only '
        "attributes with a role",
    ),
    RemovedKey(("source", "delta_batch_bytes"), "remove it: a delta record has at most 512 KiB"),
    RemovedKey(
        ("metrics", "first_release"),
        "remove it: the first release of a window that counts is expected within a week; silence its alert until then",
    ),
    _of_publication("first", advice="write it into the window: window = { .., first = { .. } }"),
    _of_publication("audit", "least_n", advice="remove it: `veilstream attack` reports the least n of two releases"),
    _of_publication(
        "audit",
        "taxonomy",
        advice="remove it: use `veilstream attack --taxonomy` for releases that were generalized elsewhere",
    ),
    _of_publication("audit", "risk", "seed", advice="remove it; more `draws` make the figure depend less on the draw"),
    _of_publication("mechanism", "replicas", advice='remove it: a release divides by the "maximum"'),
    _of_publication("mechanism", "compression", advice='remove it: a release compresses times by "equation-4"'),
    _of_publication(
        "mechanism",
        "value_aware",
        advice="remove it: bans hold for all cases, since those of single cases revealed who has a value; `effort` "
        "keeps more events",
    ),
    _of_publication("window", "events_per_case", "releases", advice="remove it: lockstep makes at most five releases"),
    _of_publication(
        "window",
        "events_per_case",
        "seed",
        advice="remove it: `veilstream leakage --seed` repeats S2 with other draws",
    ),
)
"""All keys that were removed. They are listed in docs/upgrading.md too."""


def advice(body: Mapping[str, Any]) -> list[str]:
    """Return one line for each removed key that a configuration file has."""
    return [
        f"{removed.name} is not a key any more: {removed.advice}" for removed in REMOVED if any(removed.tables(body))
    ]


def translate(body: dict[str, Any]) -> None:
    """Bring the configuration that an earlier program left in its output folder up to date, in place.

    Commands that read an old folder, such as `erase`, must still read it; no release is made by this configuration.
    """
    for removed in REMOVED:
        for table in list(removed.tables(body)):
            value = table.pop(removed.key)
            if removed.path == ("publication", EVERY, "first") and value is not None:
                table["window"] = {**table.get("window", {}), "first": value}
