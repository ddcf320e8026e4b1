"""The answer of an attack on a pair of releases, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy.typing as npt

from models.attacks.linker import Obstacle
from models.attacks.matching import NextOccurrences, unmatched
from models.attacks.pairs import RecordClasses, ReleasePair
from models.attacks.search import MEASURES, NO_VALUE
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
class AttackResult:
    """The minima of a pair at one n.

    Parameters
    ----------
    n
        Events removed at most.
    linker
        "none": no linker exists, so nothing can be stated for any linker.
    values
        Least value of each measure, in records. None if `linker` is "none", or no background knowledge has a value.
    worst
        Background knowledge that attains each minimum.
    groups
        For fa, ca and ba the sensitive value with the most cracked records there.
    obstacles
        Why no linker exists.
    matching
        For fa, ca and ba the records that match the worst one in the attacked release: the earlier one for fa,
        otherwise the later one.
    """

    n: int
    linker: Literal["exists", "none"]
    values: dict[str, int | None]
    worst: dict[str, list[Any] | None] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    obstacles: list[Obstacle] = field(default_factory=list)
    matching: dict[str, int | None] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int | None:
        """Return the value of a measure by its name: `result.fa`."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def least_n(self) -> int | None:
        """Smallest n with which a linker exists; None if no n can make one, or if one exists already."""
        least = 0
        for obstacle in self.obstacles:
            if obstacle.least_n is None:
                return None
            least = max(least, obstacle.least_n)
        return least if self.obstacles else None

    def json(self) -> dict[str, Any]:
        """Return the entry of `results` in the `attack` document."""
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
                {
                    "value": obstacle.value,
                    "earlier": obstacle.earlier,
                    "later": obstacle.later,
                    "least_n": obstacle.least_n,
                }
                for obstacle in self.obstacles
            ]
        return body


@content_free("bk_length", "method", "minimum", "cases", "results")
@dataclass(frozen=True, slots=True)
class Anonymity:
    """Answer of `anonymity`: one `AttackResult` for each n, ascending, and the named candidates."""

    bk_length: int
    method: str
    minimum: Minimum
    cases: tuple[int, int]
    results: list[AttackResult]
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """Return the `attack` document."""
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
    """Return the proportions of cracked cases FC, CC and BC.

    Each is of the one background knowledge in `worst`, so it is between 0 and 1 where cracks are counted exactly.

    The paper (section 5) divides by the least KA, which another background knowledge attains: as printed, a proportion
    can be negative.
    """
    return {f"{name[0]}c": _lost(matching.get(name), values.get(name)) for name in ("fa", "ca", "ba")}


def _lost(before: int | None, after: int | None) -> float | None:
    return None if not before or after is None else (before - after) / before


def attack_result(
    pair: ReleasePair, table: NextOccurrences, n: int, best: Ints, worst: npt.NDArray[Any]
) -> AttackResult:
    """Return the answer of a finished search, with symbols in place of codes."""
    values: dict[str, int | None] = {}
    worst_bk: dict[str, list[Any] | None] = {}
    matching: dict[str, int | None] = {}
    for measure, value, codes in zip(MEASURES, best, worst, strict=True):
        if value >= NO_VALUE:
            values[measure] = worst_bk[measure] = None
            continue
        codes = codes[codes >= 0]
        values[measure] = int(value)
        worst_bk[measure] = [pair.alphabet[code] for code in codes]
        if measure in ("fa", "ca", "ba"):
            attacked = pair.earlier if measure == "fa" else pair.later
            matching[measure] = _matching(attacked, table, codes, n)
    return AttackResult(n, "exists", values, worst_bk, matching=matching)


def _matching(rows: RecordClasses, table: NextOccurrences, bk: npt.NDArray[Any], n: int) -> int:
    """Return |ms| of one release, in records."""
    inside = unmatched(table, bk.tolist()) <= n
    return int(rows.count[inside[rows.known]].sum())


def result_without_linker(n: int, obstacles: list[Obstacle]) -> AttackResult:
    """Return the answer without values: nothing can be stated "for any linker" if there is none."""
    return AttackResult(n, "none", dict.fromkeys(MEASURES), obstacles=obstacles)


def check_parameters(bk_length: int, n: Sequence[int], method: str = "exact", minimum: str = "realisable") -> None:
    """Raise InputError for a parameter out of range."""
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
