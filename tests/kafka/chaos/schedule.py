"""The schedule of faults: drawn from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.kafka.chaos.catalogue import CATALOGUE, WAITS, Draw

STRIKES = 7
"""Most strikes of one round: its releases hold all its events, so that each costs more than the one before."""
LEAST, MOST = 4, 7
"""Faults of one strike. They overlap; then everything is healed, and the daemon comes to rest and is judged."""
QUIET = 0.25
"""Share of strikes that are one fault which an operator has to answer."""


@dataclass(frozen=True)
class Fault:
    """One entry: which kind, how many seconds behind the one before it, and its drawn numbers."""

    kind: str
    after: float
    draw: Draw

    def description(self) -> dict[str, Any]:
        return {"kind": self.kind, "after": self.after, **asdict(self.draw)}


def allowed(only: Iterable[str] = (), also: Iterable[str] = ()) -> list[str]:
    """Return the names of the kinds that may be drawn: all that wait for no fix, or those that were named."""
    asked, more = set(only), set(also)
    if unknown := (asked | more) - CATALOGUE.keys() - {"waiting"}:
        raise SystemExit(f"unknown kinds: {', '.join(sorted(unknown))}; there are {', '.join(CATALOGUE)}")
    if asked:
        return [name for name in CATALOGUE if name in asked]
    return [name for name in CATALOGUE if name not in WAITS or name in more or "waiting" in more]


def strikes(seed: int, number: int, kinds: Iterable[str]) -> Iterator[list[Fault]]:
    """Return the strikes of a round in order; the last one ends it if such a kind may be drawn."""
    chance = random.Random(f"{seed}/{number}")
    by_place = {place: [CATALOGUE[name] for name in kinds if CATALOGUE[name].place == place] for place in PLACES}
    for _ in range(STRIKES):
        quiet = chance.random() < QUIET if by_place["any"] else True
        if quiet and by_place["quiet"]:
            yield [_drawn(chance, by_place["quiet"])]
        elif by_place["any"]:
            yield [_drawn(chance, by_place["any"]) for _ in range(chance.randint(LEAST, MOST))]
    if by_place["last"]:
        yield [_drawn(chance, by_place["last"])]


PLACES = ("any", "quiet", "last")


def _drawn(chance: random.Random, kinds: list[Any]) -> Fault:
    (kind,) = chance.choices(kinds, [one.weight for one in kinds])
    long = chance.random() < 0.25  # beyond the session timeout of 3 s
    seconds = chance.uniform(3.0, 7.0) if long else chance.uniform(0.1, 2.0)
    draw = Draw(round(chance.random(), 3), round(chance.random(), 3), round(seconds, 2))
    return Fault(kind.name, round(chance.uniform(0.0, 1.5), 2), draw)
