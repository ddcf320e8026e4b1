"""A kind of fault, and how a fault enters the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kafka.chaos.world import World

WAITS: dict[str, str] = {}
"""Kinds that the product does not survive or report yet, and the point whose fix they wait for. They are drawn only
when they are asked for (`--also NAME`, `--also waiting`). Take a line out when it is mended."""


ALARM_SECONDS = 90.0
"""How long the daemon may take to report what an operator has to decide."""


@dataclass(frozen=True)
class Draw:
    """The drawn numbers of one fault: `u` and `v` in [0, 1) decide choices, `seconds` is its duration."""

    u: float
    v: float
    seconds: float


Strike = Callable[[World, Draw], None]


@dataclass(frozen=True)
class Kind:
    """One kind of fault; `outcome` is the required reaction."""

    name: str
    outcome: str
    strike: Strike
    weight: int
    place: str
    """any, quiet or last"""


CATALOGUE: dict[str, Kind] = {}
SURVIVED = "everything continues automatically; nothing is lost or announced twice"


def kind(name: str, outcome: str = SURVIVED, *, weight: int = 2, place: str = "any") -> Callable[[Strike], Strike]:
    """Enter a fault into the catalogue."""

    def entered(strike: Strike) -> Strike:
        CATALOGUE[name] = Kind(name, outcome, strike, weight, place)
        return strike

    return entered


class Finding(AssertionError):
    """The daemon did not react to a fault as the catalogue states."""


def pick(things: Sequence[Any], u: float) -> Any:
    """One of them."""
    return things[int(u * len(things))]
