"""Slow, obvious uniqueness: multisets as counters, every pair of cases compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations


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
