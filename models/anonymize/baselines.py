"""k-anonymity of whole traces: Baseline-1, Baseline-2 and PRETSA_case (tlkc-privacy-extended-2021, section 5.1).

Promise: each released sequence of activities is shared by at least K released cases, whatever part of it an
adversary knows. Relation: linkage of one case within one release; unit: one case. Not guaranteed:
anything about sensitive values (a group may share one), and nothing over several releases.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from models.anonymize.result import Anonymized, refuse_empty
from models.compiled import kernel
from models.errors import BoundError, InputError
from models.eventlog import EventLog, Flags, Ints
from models.knowledge import Knowledge, items
from models.variants import amounts

# Compiled parts of Baseline-2: longest common subsequences and the cheapest partner of a group.

Array = Any


@kernel
def lcs_table(first: Array, second: Array, table: Array) -> int:
    """Return the length of a longest common subsequence.

    Parameters
    ----------
    first, second
        int32, items of two traces.
    table
        int64, at least [len(first) + 1, len(second) + 1]. `table[i, j]` becomes the length for the suffixes
        from i and j.
    """
    for j in range(len(second) + 1):
        table[len(first), j] = 0
    for i in range(len(first) - 1, -1, -1):
        table[i, len(second)] = 0
        for j in range(len(second) - 1, -1, -1):
            if first[i] == second[j]:
                table[i, j] = table[i + 1, j + 1] + 1
            else:
                table[i, j] = max(table[i + 1, j], table[i, j + 1])
    return int(table[0, 0])


@kernel
def common(first: Array, second: Array, table: Array) -> Array:
    """Return a longest common subsequence (the leftmost choice).

    Parameters
    ----------
    first, second
        int32, items of two traces.
    table
        int64, at least [len(first) + 1, len(second) + 1]; overwritten.

    Returns
    -------
    Array
        int32, items of the subsequence.
    """
    length = lcs_table(first, second, table)
    result = np.empty(length, dtype=np.int32)
    i = j = n = 0
    while n < length:
        if first[i] == second[j]:
            result[n] = first[i]
            n, i, j = n + 1, i + 1, j + 1
        elif i + 1 < len(first) and table[i + 1, j] >= table[i, j]:
            i += 1
        else:
            j += 1
    return result


@kernel
def cheapest_partner(
    group: int, traces: Array, lengths: Array, sizes: Array, alive: Array, K: int, table: Array
) -> tuple[int, int]:
    """Return the group whose merger with `group` loses the fewest events, and that loss.

    The group is -1 if `group` has nothing in common with any other. A group of K or more cases does not
    violate: others may join it, but it loses no event.

    Parameters
    ----------
    group
        Number of the group.
    traces
        int32[groups, longest], trace of each group, filled up behind its end.
    lengths, sizes
        int64[groups], length of its trace, and cases in it.
    alive
        bool[groups], groups with events that have not been merged into another one.
    K
        Least cases of a group.
    table
        int64[longest + 1, longest + 1]; overwritten.
    """
    best, partner = -1, -1
    length_of_group, n = lengths[group], sizes[group]
    for other in range(len(lengths)):
        if other == group or not alive[other]:
            continue
        # At the best, the shorter trace is a subsequence of the longer one, and the longer one loses the rest.
        surplus = length_of_group - lengths[other]
        least = max(surplus, 0) * n + max(-surplus, 0) * sizes[other]
        if partner >= 0 and least >= best:
            continue
        length = lcs_table(traces[group, :length_of_group], traces[other, : lengths[other]], table)
        if length == 0 or (sizes[other] >= K and length < lengths[other]):
            continue
        cost = (length_of_group - length) * n + (lengths[other] - length) * sizes[other]
        if partner < 0 or cost < best:
            best, partner = cost, other
    return int(partner), int(best) if partner >= 0 else 0


CONTROL_FLOW = Knowledge("seq", "ac")
"""Two traces are one variant if they have the same activities in the same order."""


def variants(log: EventLog) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the variants of a log, and that of each case.

    Parameters
    ----------
    log
        The log. Items are its activities (`CONTROL_FLOW`).

    Returns
    -------
    traces
        The variants as item codes, in order of first appearance.
    variant_of_case
        int64[C], index into `traces`.
    """
    codes = items(log, CONTROL_FLOW).codes.tolist()
    number_of_trace: dict[tuple[int, ...], int] = {}
    variant_of_case = []
    for begin, end in itertools.pairwise(log.starts.tolist()):
        trace = tuple(codes[begin:end])
        variant_of_case.append(number_of_trace.setdefault(trace, len(number_of_trace)))
    return list(number_of_trace), np.asarray(variant_of_case, dtype=np.int64)


def baseline_1(log: EventLog, K: int, *, cases: Ints | None = None) -> Anonymized:
    """Drop every case whose variant occurs less than K times.

    Parameters
    ----------
    log
        The source log.
    K
        Least number of cases of a released variant, at least 1.
    cases
        int64[C], number of cases that each case of `log` represents (a table of variants); None: one each.

    Returns
    -------
    Anonymized
        The cases of frequent variants, unchanged.

    Raises
    ------
    InputError
        If K is below 1.
    BoundError
        If no case is left.

    References
    ----------
    tlkc-privacy-extended-2021, section 5.1 (Baseline-1).
    """
    check_k(K)
    _, owner = variants(log)
    is_frequent = np.zeros(0, dtype=np.bool_)
    if log.n_cases:
        cases_of_variant = amounts(owner, cases, 1)
        is_frequent = cases_of_variant[owner] >= K
    kept = np.repeat(is_frequent, log.lengths)
    satisfied = k_anonymous(log, kept, K, cases)
    result = Anonymized(log, kept, CONTROL_FLOW, satisfied=satisfied, cases=cases)
    return _checked(result, f"baseline-1 with K = {K}")


def _checked(result: Anonymized, subject: str) -> Anonymized:
    """Return the result; BoundError if nothing is left or the recount finds a trace below K."""
    if not result.satisfied:
        raise BoundError(f"{subject}: the checker found a trace of fewer than K cases; not released")
    return refuse_empty(result, subject)


def check_k(K: int) -> None:
    """Raise InputError unless K is a positive integer.

    Parameters
    ----------
    K
        Least cases of a group.
    """
    if K < 1:
        raise InputError(f"K = {K} is not a positive number of cases")


def k_anonymous(log: EventLog, kept: Flags, K: int, cases: Ints | None = None) -> bool:
    """Return whether every non-empty trace of the kept events is shared by at least K cases.

    It is a count from scratch, which shares no code with the baselines.

    Parameters
    ----------
    log
        The source log.
    kept
        bool[E], events that stay.
    K
        Least number of cases.
    cases
        int64[C], number of cases that each case represents; None: one each.
    """
    values = items(log, CONTROL_FLOW)
    counts: dict[tuple[object, ...], int] = {}
    for (a, b), weight in zip(itertools.pairwise(log.starts.tolist()), _each(log, cases), strict=True):
        trace = tuple(values.values[code] for code in values.codes[a:b][kept[a:b]])
        counts[trace] = counts.get(trace, 0) + weight
    return all(count >= K for trace, count in counts.items() if trace)


def _each(log: EventLog, cases: Ints | None) -> list[int]:
    return [1] * log.n_cases if cases is None else cases.tolist()


def baseline_2(log: EventLog, K: int, *, cases: Ints | None = None) -> Anonymized:
    """Map each variant below K to the most similar non-violating subtrace, by removing events.

    Groups of cases share one released trace. The violating group and the partner that lose the fewest events together
    merge into their longest common subsequence; a group of K cases or more is never shortened again. A remaining case
    takes the longest released trace that is a subtrace of its own, or is dropped. Greedy: the paper's own tables are
    not optimal either. Time grows with the square of the number of variants.

    Parameters
    ----------
    log
        The source log.
    K
        Least number of cases of a released trace.
    cases
        int64[C], number of cases that each case represents; None: one each.

    Raises
    ------
    InputError
        If K is below 1.
    BoundError
        If no event would stay.
    """
    check_k(K)
    traces, owner = variants(log)
    counts = amounts(owner, cases, len(traces))
    threshold = min(K, int(counts.sum()) + 1)  # more means no more, and the compiled loops count in 64 bits
    merged = _grouped(traces, counts, threshold)
    targets = sorted(set(merged) - {()}, key=len, reverse=True)
    shared = [target or _first_within(trace, targets) for trace, target in zip(traces, merged, strict=True)]
    kept = _mapped(traces, owner, shared)
    satisfied = k_anonymous(log, kept, K, cases)
    result = Anonymized(log, kept, CONTROL_FLOW, satisfied=satisfied, cases=cases)
    return _checked(result, f"baseline-2 with K = {K}")


def _first_within(trace: tuple[int, ...], targets: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the first target that is a subtrace of `trace`, or the empty trace."""
    return next((target for target in targets if leftmost(trace, target).sum() == len(target)), ())


def _grouped(traces: list[tuple[int, ...]], counts: Ints, K: int) -> list[tuple[int, ...]]:
    """Return the released trace of each variant, empty if no partner was left."""
    longest = max(map(len, traces), default=0)
    table = np.zeros((longest + 1, longest + 1), dtype=np.int64)
    lengths = np.asarray([len(trace) for trace in traces], dtype=np.int64)
    padded = np.full((len(traces), longest), -1, dtype=np.int32)
    for number, trace in enumerate(traces):
        padded[number, : len(trace)] = trace
    sizes, alive, parent = counts.astype(np.int64), lengths > 0, np.arange(len(traces))
    partner, loss = np.full(len(traces), -1), np.zeros(len(traces), dtype=np.int64)
    stale = np.flatnonzero(alive & (sizes < K))
    while True:
        for group in stale.tolist():
            partner[group], loss[group] = cheapest_partner(group, padded, lengths, sizes, alive, K, table)
        violating = np.flatnonzero(alive & (sizes < K) & (partner >= 0))
        if not len(violating):
            break
        group = int(violating[np.argmin(loss[violating])])
        host = int(partner[group])
        both = common(padded[group, : lengths[group]], padded[host, : lengths[host]], table)
        padded[host, : len(both)], lengths[host] = both, len(both)
        sizes[host] += sizes[group]
        parent[group], alive[group] = host, False
        moved = (partner == group) | (partner == host)
        moved[host] = True
        stale = np.flatnonzero(moved & alive & (sizes < K))
    lengths[alive & (sizes < K)] = 0
    return [tuple(padded[root, : lengths[root]].tolist()) for root in _roots(parent)]


def _roots(parent: Ints) -> Ints:
    while not np.array_equal(parent, parent[parent]):
        parent = parent[parent]
    return parent


def _mapped(traces: list[tuple[int, ...]], owner: Ints, shared: list[tuple[int, ...]]) -> Flags:
    """Return the events of each case that spell its released trace (leftmost match), bool[E]."""
    if not len(owner):
        return np.zeros(0, dtype=np.bool_)
    masks = [leftmost(trace, target) for trace, target in zip(traces, shared, strict=True)]
    return np.concatenate([masks[variant] for variant in owner])


def leftmost(trace: tuple[int, ...], target: tuple[int, ...]) -> Flags:
    """Return the leftmost match of as much of `target` as is a subsequence of `trace`, bool[len(trace)].

    Parameters
    ----------
    trace, target
        Item codes. Matching ends at the first item of `target` that does not follow.
    """
    mask = np.zeros(len(trace), dtype=np.bool_)
    need = 0
    for place, item in enumerate(trace):
        if need < len(target) and item == target[need]:
            mask[place] = True
            need += 1
    return mask


def pretsa(log: EventLog, K: int, *, cases: Ints | None = None) -> Anonymized:
    """Apply PRETSA_case: Baseline-2 against an adversary who knows a prefix of the trace, by removal only.

    Promise: every prefix of a released trace is shared by at least K released cases. Each trace becomes the longest
    of its subtraces that is a path in the tree of prefixes shared by K cases; as moved cases no longer count at
    their old prefix, this repeats until no prefix falls below K.

    Parameters
    ----------
    log
        The source log.
    K
        Least number of cases of a prefix.
    cases
        int64[C], number of cases that each case represents; None: one each.

    Raises
    ------
    InputError
        If K is below 1.
    BoundError
        If no event would stay.
    """
    check_k(K)
    traces, owner = variants(log)
    counts = amounts(owner, cases, len(traces)).tolist()
    paths: set[tuple[int, ...]] = {trace[:n] for trace in traces for n in range(1, len(trace) + 1)}
    while True:
        shared = [_longest_path(trace, paths) for trace in traces]
        cases_with_prefix = _prefix_counts(shared, counts)
        rare = {path for path in paths if cases_with_prefix.get(path, 0) < K}
        if not any(path in rare for path in cases_with_prefix):
            break
        paths -= rare
    kept = _mapped(traces, owner, shared)
    satisfied = prefixes_shared(log, kept, K, cases)
    result = Anonymized(log, kept, CONTROL_FLOW, satisfied=satisfied, cases=cases)
    return _checked(result, f"pretsa with K = {K}")


def _prefix_counts(traces: list[tuple[int, ...]], counts: list[int]) -> dict[tuple[int, ...], int]:
    cases_with_prefix: dict[tuple[int, ...], int] = {}
    for trace, count in zip(traces, counts, strict=True):
        for n in range(1, len(trace) + 1):
            cases_with_prefix[trace[:n]] = cases_with_prefix.get(trace[:n], 0) + count
    return cases_with_prefix


def _longest_path(trace: tuple[int, ...], paths: set[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the longest subtrace that is a path; ties go to the one that follows the trace longest."""
    if trace in paths or not trace:
        return trace
    reached: dict[tuple[int, ...], None] = {(): None}
    for item in trace:
        reached.update({(*path, item): None for path in reached if (*path, item) in paths})
    # The own prefix is reached first, so among paths of one length `max` takes the earliest found.
    return max(reached, key=len)


def prefixes_shared(log: EventLog, kept: Flags, K: int, cases: Ints | None = None) -> bool:
    """Return whether every prefix of every released trace is shared by at least K cases.

    It is a count from scratch, which shares no code with the baselines.

    Parameters
    ----------
    log, kept, K, cases
        As for `k_anonymous`.
    """
    column = items(log, CONTROL_FLOW)
    counts: dict[tuple[object, ...], int] = {}
    for (a, b), weight in zip(itertools.pairwise(log.starts.tolist()), _each(log, cases), strict=True):
        trace = [column.values[code] for code in column.codes[a:b][kept[a:b]]]
        for prefix in itertools.accumulate(([item] for item in trace), lambda path, step: path + step):
            counts[tuple(prefix)] = counts.get(tuple(prefix), 0) + weight
    return all(count >= K for count in counts.values())
