"""TLKC-privacy by enumeration: every sub-candidate of every case, straight from the definitions.

Cases are (items, {attribute: class or None}); items are hashable. Candidates in canonical form: `set` sorted distinct,
`mult` sorted with repetition, `seq` and `rel` in order. Slow and obvious on purpose; shares nothing with the product.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Case = tuple[Sequence[Any], dict[str, Any]]


def form(items: Sequence[Any], structure: str) -> tuple[Any, ...]:
    """The canonical form of some of a case's events."""
    if structure == "set":
        return tuple(sorted(set(items)))
    if structure == "mult":
        return tuple(sorted(items))
    return tuple(items)


def candidates(items: Sequence[Any], structure: str, L: int) -> set[tuple[Any, ...]]:
    """Every candidate of 1..L items that a case matches."""
    trace = form(items, structure)
    return {chosen for size in range(1, L + 1) for chosen in itertools.combinations(trace, size)}


def matching(cases: Sequence[Case], structure: str, L: int) -> dict[tuple[Any, ...], list[int]]:
    """The matching set of every candidate that occurs."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for number, (items, _) in enumerate(cases):
        for candidate in candidates(items, structure, L):
            found.setdefault(candidate, []).append(number)
    return found


def violates(cases: Sequence[Case], matched: Sequence[int], K: int, C: Fraction) -> bool:
    """Def. 14 for one candidate: below K cases, or a class above C of them; missing classes count as cases only."""
    if len(matched) < K:
        return True
    for name in cases[matched[0]][1]:
        counts = Counter(cases[number][1][name] for number in matched if cases[number][1][name] is not None)
        if any(Fraction(count, len(matched)) > C for count in counts.values()):
            return True
    return False


def violating(cases: Sequence[Case], structure: str, L: int, K: int, C: Fraction) -> set[tuple[Any, ...]]:
    """Every violating candidate (not only the minimal ones)."""
    return {candidate for candidate, matched in matching(cases, structure, L).items() if violates(cases, matched, K, C)}


def parts(candidate: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Every proper non-empty sub-candidate of the same structure."""
    for size in range(1, len(candidate)):
        yield from itertools.combinations(candidate, size)


def minimal(bad: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """The violating candidates none of whose proper parts violate (Def. 16)."""
    return {candidate for candidate in bad if not any(part in bad for part in parts(candidate))}


def satisfies(cases: Sequence[Case], structure: str, L: int, K: int, C: Fraction) -> bool:
    """Whether a log satisfies TLKC-privacy for every candidate of 1..L items."""
    return not violating(cases, structure, L, K, C)


def cheapest(cases: Sequence[Case], structure: str, bad: set[tuple[Any, ...]]) -> int:
    """Least number of events lost by any set of suppressed items that hits every violating candidate."""
    alphabet = sorted({item for items, _ in cases for item in items})
    loss = Counter(item for items, _ in cases for item in items)
    return min(
        sum(loss[item] for item in chosen)
        for size in range(len(alphabet) + 1)
        for chosen in itertools.combinations(alphabet, size)
        if all(set(candidate) & set(chosen) for candidate in bad)
    )


def cheapest_caps(cases: Sequence[Case], bad: set[tuple[Any, ...]]) -> int:
    """Least number of events lost by any caps on how often an item stays in a case, such that every violating
    multiset has more of some item than stays."""
    counts = [Counter(items) for items, _ in cases]
    every_item = {item for items, _ in cases for item in items}
    most = {item: max(count[item] for count in counts) for item in every_item}
    best = sum(len(items) for items, _ in cases)
    for caps in itertools.product(*(range(top + 1) for top in most.values())):
        limit = dict(zip(most, caps, strict=True))
        lost = sum(max(0, count[item] - limit[item]) for count in counts for item in count)
        if lost < best and all(any(candidate.count(item) > limit[item] for item in candidate) for candidate in bad):
            best = lost
    return best


def holds(trace: Sequence[int], candidate: Sequence[int]) -> bool:
    """Whether a trace contains a candidate as a subsequence."""
    events = iter(trace)
    return all(item in events for item in candidate)


def hidden_from(
    trace: Sequence[int], item: int, gap: int, priority: Sequence[int], bans: Sequence[Sequence[int]]
) -> int | None:
    """First gap from `gap` on at which an event of the item would have been skipped by local suppression.

    Every gap is tried: the events that entered before that event, with it, complete a ban.
    """
    for trial_gap in range(gap, len(trace) + 1):
        before = [k for k, other in enumerate(trace) if priority[other] < priority[item]]
        before += [k for k in range(trial_gap) if trace[k] == item]
        left = [trace[k] for k in sorted(before) if k < trial_gap]
        right = [trace[k] for k in sorted(before) if k >= trial_gap]
        if any(holds([*left, item, *right], ban) for ban in bans):
            return trial_gap
    return None


def possible_cases(
    traces: Sequence[Sequence[int]],
    weights: Sequence[int],
    priority: Sequence[int],
    bans: Sequence[Sequence[int]],
    once: Sequence[bool],
    candidate: Sequence[int],
) -> int:
    """Released cases whose source may have contained a candidate, for an adversary who knows bans and priorities."""
    possible = 0
    for trace, weight in zip(traces, weights, strict=True):
        gap: int | None = 0
        for item in candidate:
            assert gap is not None
            shown = [place + 1 for place in range(gap, len(trace)) if trace[place] == item]
            hidden = hidden_from(trace, item, gap, priority, bans)
            if once[item] and item in trace:
                hidden = None
            gap = min([*shown, *([] if hidden is None else [hidden])], default=None)
            if gap is None:
                break
        possible += weight if gap is not None else 0
    return possible
