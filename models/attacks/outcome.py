"""What an audit of a pair of releases answers, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy.typing as npt

from models.attacks.flows import FAR
from models.attacks.linker import Obstacle
from models.attacks.matching import Walk, unmatched
from models.attacks.pairs import Pair, Rows
from models.attacks.search import MEASURES
from models.content_free import content_free
from models.errors import InputError
from models.eventlog import Ints

Method = Literal["exact", "sound", "paper", "reference"]
"""exact: Def. 10-12 over all linkers; sound: group formulas that never over-state a crack; paper: Theorems 3-5 as
printed; reference: what the authors' program computes."""

Minimum = Literal["realisable", "all", "common"]
"""realisable: the least value >= 1 (exact 0 means that no case can be the victim);
all: the least, also 0, over the background knowledge that matches in one of the releases, so never above `realisable`;
common: the same over the background knowledge that matches in both."""

FLOOR: dict[Minimum, int] = {"realisable": 1, "all": 0, "common": -1}

LONGEST_BK = 32
MOST_N = 127


@content_free("n", "linker", "values")
@dataclass(frozen=True, slots=True)
class Result:
    """One n. Values are None where `linker` is "none", or where no background knowledge gives one.

    `worst`: background knowledge that attains each minimum; `matching`: for fa, ca and ba the records that match it in
    the attacked release (the earlier one for fa, else the later one); `groups`: for fa, ca and ba the sensitive value
    with the most cracked records there; `obstacles`: why there is no linker.
    """

    n: int
    linker: Literal["exists", "none"]
    values: dict[str, int | None]
    worst: dict[str, list[Any] | None] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    obstacles: list[Obstacle] = field(default_factory=list)
    matching: dict[str, int | None] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int | None:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def least_n(self) -> int | None:
        """Smallest n with which a linker exists; None when no n can make one, or when one exists already."""
        found = [obstacle.least_n for obstacle in self.obstacles]
        return None if not found or None in found else max(number for number in found if number is not None)

    def json(self) -> dict[str, Any]:
        """The entry of `results` (DESIGN section 5)."""
        body: dict[str, Any] = {
            "n": self.n,
            "linker": self.linker,
            **self.values,
            **proportions(self.values, self.matching),
        }
        body["worst"] = {name: self.worst.get(name) for name in ("fa", "ca", "ba", "ka1", "ka2")}
        body["groups"] = self.groups
        if self.linker == "none":
            body["least_n"] = self.least_n
            body["witness"] = [
                {"value": own.value, "earlier": own.earlier, "later": own.later, "least_n": own.least_n}
                for own in self.obstacles
            ]
        return body


@content_free("bk_length", "method", "minimum", "cases", "results")
@dataclass(frozen=True, slots=True)
class Anonymity:
    """Answer of `anonymity`: one `Result` for each n, ascending, and the named candidates."""

    bk_length: int
    method: str
    minimum: Minimum
    cases: tuple[int, int]
    results: list[Result]
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """The `attack` document (DESIGN section 5)."""
        body: dict[str, Any] = {
            "bk_length": self.bk_length,
            "method": self.method,
            "minimum": self.minimum,
            "cases": list(self.cases),
            "results": [result.json() for result in self.results],
        }
        if self.candidates:
            body["candidates"] = self.candidates
        return body


def proportions(values: Mapping[str, int | None], matching: Mapping[str, int | None]) -> dict[str, float | None]:
    """Proportions of cracked cases: FC, CC, BC, each of the one background knowledge in `worst`, so between 0 and 1
    where cracks are counted exactly.

    The paper (section 5) divides by the least KA, which another background knowledge attains: as printed, a proportion
    can be negative.
    """
    return {f"{name[0]}c": _lost(matching.get(name), values.get(name)) for name in ("fa", "ca", "ba")}


def _lost(before: int | None, after: int | None) -> float | None:
    return None if not before or after is None else (before - after) / before


def result(given: Pair, table: Walk, n: int, best: Ints, worst: npt.NDArray[Any]) -> Result:
    """A finished search, with symbols in place of codes."""
    matching: dict[str, int | None] = {
        name: _matching(given.later if name != "fa" else given.earlier, table, codes[codes >= 0], n)
        for name, codes, value in zip(MEASURES, worst, best, strict=True)
        if name in ("fa", "ca", "ba") and value < FAR
    }
    return Result(
        n,
        "exists",
        {name: int(value) if value < FAR else None for name, value in zip(MEASURES, best, strict=True)},
        {
            name: [given.alphabet[code] for code in codes if code >= 0] if value < FAR else None
            for name, codes, value in zip(MEASURES, worst, best, strict=True)
        },
        matching=matching,
    )


def _matching(rows: Rows, table: Walk, bk: npt.NDArray[Any], n: int) -> int:
    """|ms| of one release."""
    inside = unmatched(table, bk.tolist()) <= n
    return int(rows.count[inside[rows.known]].sum())


def unlinkable(n: int, found: list[Obstacle]) -> Result:
    """No linker: nothing can be said "for any linker", so no value is given."""
    return Result(n, "none", dict.fromkeys(MEASURES), obstacles=found)


def check(bk_length: int, n: Sequence[int], method: str = "exact", minimum: str = "realisable") -> None:
    """InputError for parameters out of range."""
    if not 1 <= bk_length <= LONGEST_BK:
        raise InputError(f"bk_length = {bk_length} is not in 1..{LONGEST_BK}")
    if not n:
        raise InputError("n names no number of removed events")
    for number in n:
        if not 0 <= number <= MOST_N:
            raise InputError(f"n = {number} is not in 0..{MOST_N}")
    if method not in get_args(Method):
        raise InputError(f"method {method!r} is not one of {', '.join(get_args(Method))}")
    if minimum not in get_args(Minimum):
        raise InputError(f"minimum {minimum!r} is not one of {', '.join(get_args(Minimum))}")
