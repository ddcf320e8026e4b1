"""Slow, obvious correspondence attacks: all originals, all linkers, integer programs. Written from Def. 7-12 alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np

Record = tuple[str, Any]
"""A trace (one letter an activity) and a sensitive value."""


def embeds(small: str, large: str) -> bool:
    """Whether `small` is a subsequence of `large`."""
    letters = iter(large)
    return all(letter in letters for letter in small)


@cache
def originals(trace: str, n: int, alphabet: str) -> frozenset[str]:
    """Def. 7: every trace that becomes `trace` when at most n events are removed."""
    found = {trace}
    for _ in range(n):
        found |= {one[:at] + letter + one[at:] for one in found for at in range(len(one) + 1) for letter in alphabet}
    return frozenset(found)


@cache
def linkable(s1: str, s2: str, n: int, alphabet: str) -> bool:
    """Def. 9: some original of s1 is a prefix of some original of s2."""
    longer = originals(s2, n, alphabet)
    return any(one[:length] in originals(s1, n, alphabet) for one in longer for length in range(len(one) + 1))


def least_n(s1: Sequence[Any], s2: Sequence[Any]) -> int:
    """Return the least n with which s1 of the earlier and s2 of the later release are linkable (Def. 7 and 9).

    The least max(|u|, |s1|) - LCS(s1, u) over all prefixes u of s2, by one dynamic programme.
    """
    lcs = [0] * (len(s1) + 1)
    best = len(s1)
    for length, symbol in enumerate(s2, start=1):
        previous = lcs
        lcs = [0]
        for i, other in enumerate(s1, start=1):
            if other == symbol:
                lcs.append(previous[i - 1] + 1)
            else:
                lcs.append(max(previous[i], lcs[i - 1]))
        best = min(best, max(length, len(s1)) - lcs[-1])
    return best


def matches(trace: str, bk: str, n: int, alphabet: str) -> bool:
    """Def. 8: some original of the record contains bk."""
    return any(embeds(bk, one) for one in originals(trace, n, alphabet))


def linkers(earlier: Sequence[Record], later: Sequence[Record], n: int, alphabet: str) -> Iterator[tuple[int, ...]]:
    """Every total injective assignment of earlier to later records, each pair linkable and of one sensitive value."""

    def extend(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(earlier):
            yield done
            return
        trace, value = earlier[len(done)]
        for place, (other, own) in enumerate(later):
            if place not in done and own == value and linkable(trace, other, n, alphabet):
                yield from extend((*done, place))

    return extend(())


def cracks(
    earlier: Sequence[Record], later: Sequence[Record], bk: str, n: int, alphabet: str
) -> tuple[int, int, int, int, int] | None:
    """(|ms1|, |ms2|, F, C, B) by Def. 10-12: the least over all linkers. None if there is none."""
    ms1 = [i for i, (trace, _) in enumerate(earlier) if matches(trace, bk, n, alphabet)]
    ms2 = {j for j, (trace, _) in enumerate(later) if matches(trace, bk, n, alphabet)}
    f = c = b = None
    for linker in linkers(earlier, later, n, alphabet):
        kept = sum(linker[i] in ms2 for i in ms1)
        old = len(ms2.intersection(linker))
        f = min(len(ms1) - kept, len(ms1) if f is None else f)
        c = min(len(ms2) - kept, len(ms2) if c is None else c)
        b = min(old, len(ms2) if b is None else b)
    if f is None or c is None or b is None:
        return None
    return len(ms1), len(ms2), f, c, b


def least(
    earlier: Sequence[Record], later: Sequence[Record], length: int, n: int, alphabet: str
) -> dict[str, int | None] | None:
    """Least values >= 1 over every bk of length 1..length; None if there is no linker."""
    best: dict[str, int | None] = dict.fromkeys(("ka1", "ka2", "fa", "ca", "ba"))
    for size in range(1, length + 1):
        for letters in product(alphabet, repeat=size):
            found = cracks(earlier, later, "".join(letters), n, alphabet)
            if found is None:
                return None
            ms1, ms2, f, c, b = found
            for name, number in (("ka1", ms1), ("ka2", ms2), ("fa", ms1 - f), ("ca", ms2 - c), ("ba", ms2 - b)):
                known = best[name]
                if number >= 1 and (known is None or number < known):
                    best[name] = number
    return best


def by_program(count1: Any, count2: Any, links: Any, in1: Any, in2: Any) -> tuple[int, int]:
    """(M, BA) of one candidate by two integer linear programs over record classes (HiGHS).

    `links`: int[P, 2], linkable (earlier row, later row); `in1`, `in2`: which rows are in the matching sets.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    variables = len(links)
    place = np.arange(variables)
    one = np.ones(variables)
    saturate = csr_array((one, (links[:, 0], place)), shape=(len(count1), variables))
    room = csr_array((one, (links[:, 1], place)), shape=(len(count2), variables))
    constraints = [LinearConstraint(saturate, count1, count1), LinearConstraint(room, 0, count2)]
    answers = []
    for gain in (in1[links[:, 0]] & in2[links[:, 1]], in2[links[:, 1]]):
        sign = -1.0 if not answers else 1.0
        cost, options = sign * gain.astype(float), {"presolve": False}
        found = milp(cost, constraints=constraints, options=options)
        if np.abs(found.x - np.round(found.x)).max(initial=0) > 1e-6:
            # An integer optimum of the relaxation is one of the program, and costs half; any other needs branching.
            found = milp(cost, constraints=constraints, integrality=one, options=options)
        answers.append(round(abs(found.fun)))
    return answers[0], int(count2[in2].sum()) - answers[1]
