"""Slow, obvious uniqueness: multisets as counters, every pair of cases compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Literal

import numpy as np


def unique(case: int, known: Counter[Hashable], cases: Sequence[Counter[Hashable]], groups: Sequence[Hashable]) -> bool:
    """Equation 2: no other case of the same attributes contains the multiset `known`."""
    return not any(
        other != case and groups[other] == groups[case] and known <= cases[other] for other in range(len(cases))
    )


def expected_uniqueness(traces: Sequence[Sequence[Hashable]], groups: Sequence[Hashable], m: int) -> float:
    """Mean of equation 2 over *all* choices of min(m, length) events of each case: what random draws estimate."""
    cases = [Counter(trace) for trace in traces]
    shares = []
    for case, trace in enumerate(traces):
        choices = list(combinations(trace, min(m, len(trace))))
        shares.append(sum(unique(case, Counter(choice), cases, groups) for choice in choices) / len(choices))
    return sum(shares) / len(shares)


def fewest_points(traces: Sequence[Sequence[Hashable]], groups: Sequence[Hashable], case: int) -> int | None:
    """The smallest number of events that singles the case out, by trying all; None when all do not suffice."""
    cases = [Counter(trace) for trace in traces]
    for size in range(len(traces[case]) + 1):
        if any(unique(case, Counter(choice), cases, groups) for choice in combinations(traces[case], size)):
            return size
    return None


def unique_chances(traces: Sequence[Sequence[Hashable]], groups: Sequence[Hashable], m: int) -> list[float]:
    """For each case the exact chance that min(m, length) events drawn without replacement single it out (equation 2).

    Every choice of every case is enumerated: a multiset of points that cases of one group contain is counted once for
    each of them, and singles out where that count is 1. Meant for small m (1 or 2 on a real log).
    """
    choices = [Counter(_choices(trace, min(m, len(trace)))) for trace in traces]
    holders: Counter[Hashable] = Counter()
    for group in set(groups):
        members = [case for case, own in enumerate(groups) if own == group]
        for size in {min(m, len(traces[case])) for case in members}:
            for case in members:  # a longer case contains the smaller choices of a shorter one too
                contained = choices[case] if size == min(m, len(traces[case])) else _choices(traces[case], size)
                holders.update((group, known) for known in set(contained))
    return [
        sum(count for known, count in own.items() if holders[group, known] == 1) / own.total()
        for own, group in zip(choices, groups, strict=True)
    ]


def _choices(trace: Sequence[Hashable], size: int) -> list[Hashable]:
    return [tuple(sorted(choice, key=repr)) for choice in combinations(trace, size)]


def person_searches(
    true_traces: Sequence[Sequence[Hashable]],
    records: Sequence[Sequence[Hashable]],
    origin: Sequence[int],
    take: Sequence[int],
    chosen: Sequence[int],
    rng: np.random.Generator,
) -> list[Literal["right", "wrong", "several", "none"]]:
    """The attack by true events, one person after the other: a draw for each, and every record compared.

    The person of record r is case `origin[r]`, of which `take[origin[r]]` events are known.
    """
    cases = [Counter(record) for record in records]
    outcomes: list[Literal["right", "wrong", "several", "none"]] = []
    for record in chosen:
        trace = true_traces[origin[record]]
        places = rng.choice(np.arange(len(trace)), size=take[origin[record]], replace=False)
        known = Counter(trace[place] for place in places.tolist())
        fitting = [number for number, case in enumerate(cases) if known <= case]
        if not known or len(fitting) > 1:  # without knowledge nobody can distinguish records, even if there is one
            outcomes.append("several")
        elif not fitting:
            outcomes.append("none")
        else:
            outcomes.append("right" if fitting == [record] else "wrong")
    return outcomes
