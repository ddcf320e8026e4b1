"""Attribute linkage after the correspondence attacks (section 7): l-diversity, (alpha, k)-anonymity, confidence.

Cracked records leave a matching set; what an adversary may then conclude about a victim's sensitive value is bounded
by the groups that stay. With `size_s` records of value s in the matching set and `crack_s` of them excluded, the
largest share that s can reach is `left_s / sum of left`, where `left_s = size_s - crack_s`: cracks are counted per
value and hold for every linker, so no linker leaves fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.attacks.candidates import Judge, by_value, matching, sizes
from models.attacks.pairs import encode
from models.content_free import content_free

Attack = Literal["f", "c", "b"]


@content_free("k", "l", "confidence")
@dataclass(frozen=True, slots=True)
class Diversity:
    """A matching set after an attack.

    `k`: records left; `l`: distinct values left (a missing value is a value); `confidence`: largest share of a known
    value (TLKC: a missing value is none that could be learned), None where nothing is left; `value`: which one.
    """

    k: int
    l: int  # noqa: E741 - the letter of l-diversity
    confidence: float | None
    value: Any

    def alpha_k(self, alpha: float, k: int) -> bool:
        """(alpha, k)-anonymity of this matching set: at least k records, no value with a share above alpha."""
        return self.k >= k and (self.confidence is None or self.confidence <= alpha)


def after(judge: Judge, bk: Sequence[Any], attack: Attack | None) -> Diversity:
    """The matching set that `attack` aims at (earlier release for F, later for C and B), without what it excludes.

    `attack` None: the later matching set before any attack. `bk`: symbols. The linker must exist.
    """
    given, code = judge.given, encode(judge.given, bk)
    in1, in2 = matching(judge, code)
    rows, inside = (given.earlier, in1) if attack == "f" else (given.later, in2)
    left = sizes(rows, inside, len(given.values))
    if attack is not None:
        left = left - by_value(judge, code)[:, "fcb".index(attack)]
    return _of(left.tolist(), given.values)


def _of(left: list[int], values: Sequence[Any]) -> Diversity:
    total = sum(left)
    known = [(count, place) for place, count in enumerate(left) if values[place] is not None and count > 0]
    count, place = max(known, default=(0, -1))
    return Diversity(
        total, sum(count > 0 for count in left), count / total if total else None, values[place] if known else None
    )
