"""Linkable records: which record of an earlier release can be which one of a later release, for every n at once.

Closed form: s1 and s2, with equal sensitive values, are linkable with n iff some prefix u of s2
(also the empty one) has

    LCS(s1, u) >= max(|u|, |s1|) - n

Therefore the least such n is the minimum of max(|u|, |s1|) - LCS(s1, u) over all prefixes u. One LCS table gives it,
and with it the answer for all n. The relation is not symmetric and not transitive.

References
----------
correspondence-attacks-2021, Def. 7 and 9, and Theorem 2 (a sound relation that misses pairs).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.pairs import ReleasePair, Sequences
from models.bits import count_ones
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import TooLargeError
from models.eventlog import Codes, Ints

SUBSEQUENCE = 128
"""Bit of an edge whose earlier trace is a subsequence of the later one: such a pair never leaves a matching set."""

LEAST = 127
"""Bits of an edge that hold its least n; no bound on n is larger."""

NEVER_STOPPED = 1 << 30
"""More symbols than any trace has."""

MOST_RUNS = 1 << 28
"""Runs of linkable rows (9 bytes each, twice that while they are listed): with more the system would end the program.
"""

Bytes = npt.NDArray[np.uint8]

Runs = tuple[Ints, Codes, Codes, Bytes]
"""Links by earlier rows, in the order that the compiled functions take (`Edges`): start, begin, end, least."""


@content_free("cap")
@dataclass(frozen=True, slots=True)
class Edges:
    """All linkable pairs of record classes with least n <= `cap`, as runs of later rows.

    A prefix decides most of a link, and later rows are in lexicographic order. So the rows that an earlier row links to
    are few runs of neighbours, each with one least n (and bit SUBSEQUENCE), while the pairs grow with the square of the
    cases. The links of one earlier row to later rows 0 to 6:

        least n of rows 0 to 6     1 1 1 0 - 1 1      (-: more than cap)
        its runs                   0 <= row < 3: 1    3 <= row < 4: 0    5 <= row < 7: 1

    Parameters
    ----------
    start
        int64[earlier rows + 1]. Earlier row i has the runs start[i] to start[i + 1] - 1, in ascending order.
    begin, end
        int32[runs]. A run holds the later rows begin to end - 1, all of one sensitive value.
    least
        uint8[runs], their least n, and bit SUBSEQUENCE.
    cap
        Largest n.
    """

    start: Ints
    begin: Codes
    end: Codes
    least: Bytes
    cap: int

    @property
    def runs(self) -> Runs:
        """The arrays in the order that the compiled functions of models.attacks.linker take."""
        return (self.start, self.begin, self.end, self.least)

    @property
    def n_links(self) -> int:
        """Number of linkable pairs."""
        return int((self.end.astype(np.int64) - self.begin).sum())

    def links(self) -> tuple[Ints, Ints, Bytes]:
        """Return the linkable pairs one by one: earlier row, later row, and least n with bit SUBSEQUENCE."""
        lengths = self.end.astype(np.int64) - self.begin
        row_of_run = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        first_link = np.cumsum(lengths) - lengths  # of each run
        place_in_run = np.arange(lengths.sum()) - np.repeat(first_link, lengths)
        later = np.repeat(self.begin.astype(np.int64), lengths) + place_in_run
        return np.repeat(row_of_run, lengths), later, np.repeat(self.least, lengths)


CLOSED_FORM, THEOREM_2, THEOREM_2_EMPTY_PREFIX = 0, 1, 2
"""The relation: the exact one; Theorem 2 as printed (sound, misses pairs); as the authors' program reads it."""


def edges(pair: ReleasePair, cap: int, relation: int = CLOSED_FORM) -> Edges:
    """Return all linkable pairs with least n <= cap, by bit-parallel LCS over the tree of later traces.

    Time: for each earlier row the prefixes of later traces within cap, and the links. Memory: 9 bytes a run of links.

    Parameters
    ----------
    pair
        The two releases.
    cap
        Largest n, at most 127.
    relation
        CLOSED_FORM, or Theorem 2 as printed or as the authors' program reads it.

    Raises
    ------
    TooLargeError
        If they have more than MOST_RUNS runs.
    """
    linked1, linked2 = pair.earlier.linked, pair.later.linked
    items, starts = pair.linked.items, pair.linked.start
    related_start, related_item = pair.link_related
    lengths = np.diff(starts)
    longest1, longest2 = (int(lengths[rows].max(initial=1)) for rows in (linked1, linked2))
    words = (longest1 + 63) // 64  # one bit for each position of an earlier trace
    later_start = np.searchsorted(pair.later.value, np.arange(len(pair.values) + 1)).astype(np.int64)
    shared = np.zeros(len(linked2), dtype=np.int64)
    leap = np.full(len(linked2), len(linked2), dtype=np.int64)
    _fill_shared(items, starts, linked2, later_start, shared, leap)
    answered = np.zeros(len(linked2), dtype=np.uint64)
    _fill_answered(items, starts, related_start, related_item, linked2, answered)
    tables = LinkTables(
        items, starts, related_start, related_item, linked1, pair.earlier.value, linked2, later_start, shared, leap,
        answered,
    )  # fmt: skip
    scratch = LinkScratch(
        masks=np.zeros((len(pair.items), words), dtype=np.uint64),
        state=np.zeros((longest2 + 1, words), dtype=np.uint64),
        scores=np.zeros((longest2 + 1, 3), dtype=np.int64),
    )
    start = np.zeros(len(linked1) + 1, dtype=np.int64)
    begin, end, least = _edges(tables, scratch, start, np.int64(cap), np.int64(relation), np.int64(MOST_RUNS))
    if start[-1] > MOST_RUNS:
        raise TooLargeError(
            f"with n = {cap} the links between records have over {MOST_RUNS} runs, more than fit; ask for a smaller n, "
            "or name a sensitive attribute"
        )
    # The arrays of the listing have up to twice the room that the runs need.
    runs = start[-1]
    return Edges(start, begin[:runs].copy(), end[:runs].copy(), least[:runs].copy(), cap)


class LinkTables(NamedTuple):
    """The arrays that `_edges` reads.

    items, starts : the traces that are linked on, as `Sequences`
    rel_start, rel_item : the items related to each item
    linked1, value1 : int32[earlier rows], variant and sensitive value
    linked2 : int32[later rows], variant
    later_start : int64[values + 1], first later row of each sensitive value
    shared, leap : int64[later rows], see `_fill_shared`
    answered : uint64[later rows], see `_fill_answered`
    """

    items: Any
    starts: Any
    rel_start: Any
    rel_item: Any
    linked1: Any
    value1: Any
    linked2: Any
    later_start: Any
    shared: Any
    leap: Any
    answered: Any


SCORE_LCS, SCORE_LEAST_N, SCORE_PREFIX = 0, 1, 2
"""Columns of `LinkScratch.scores`: LCS, least n so far, and longest prefix of s2 within s1."""


class LinkScratch(NamedTuple):
    """The arrays that `_least` writes.

    masks : uint64[items, words], bits of the positions of s1 whose item is related to an item
    state : uint64[symbols of s2 + 1, words], state of the LCS after each symbol
    scores : int64[symbols of s2 + 1, 3], columns SCORE_LCS to SCORE_PREFIX
    """

    masks: Any
    state: Any
    scores: Any


@kernel
def _edges(tables, scratch, start, cap, relation, most):  # type: ignore[no-untyped-def]
    """List the runs of linkable later rows by earlier rows, and set where those of each row begin (`start`).

    If there are more than `most`, the last entry of `start` is most + 1.
    """
    linked1, n_later = tables.linked1, len(tables.linked2)
    # The runs of one earlier row have buffers of their own: a loop over later rows that could replace the arrays of all
    # runs by longer ones would take sixteen times as long.
    row_begin, row_end = np.empty(n_later, dtype=np.int32), np.empty(n_later, dtype=np.int32)
    row_least = np.empty(n_later, dtype=np.uint8)
    begin, end = np.zeros(1024, dtype=np.int32), np.zeros(1024, dtype=np.int32)
    least = np.zeros(1024, dtype=np.uint8)
    size = 0
    for i in range(len(linked1)):
        n_runs = _runs_of_row(i, tables, scratch, cap, relation, row_begin, row_end, row_least)
        if size + n_runs > most:
            start[len(linked1)] = most + 1
            return begin, end, least
        begin, end, least = _appended(begin, end, least, size, row_begin, row_end, row_least, n_runs)
        size += n_runs
        start[i + 1] = size
    return begin, end, least


@part
def _runs_of_row(i, tables, scratch, cap, relation, begin, end, least):  # type: ignore[no-untyped-def]
    """Set the runs of later rows that earlier row i links to, and return how many there are.

    Later rows of one value are in lexicographic order. Each row continues at the position at which it differs from the
    row before it: its first `same` symbols are the same. If reading stopped after `stopped` symbols because cap was
    passed, all rows that begin with these symbols are skipped.

    Each symbol of the earlier row without a related symbol in the later one counts towards n. So a row that lacks more
    than cap of them is passed over unread. In a log of many activities these are nearly all rows.
    """
    items, starts, linked2 = tables.items, tables.starts, tables.linked2
    shared, leap, answered = tables.shared, tables.leap, tables.answered
    rel_start, rel_item, masks = tables.rel_start, tables.rel_item, scratch.masks
    low, high = starts[tables.linked1[i]], starts[tables.linked1[i] + 1]
    j, behind = tables.later_start[tables.value1[i]], tables.later_start[tables.value1[i] + 1]
    _mark(items, low, high, rel_start, rel_item, masks, True)
    present = _present(items, low, high)
    n_runs = 0
    least_n, stopped, same = 0, 0, 0
    while j < behind:
        if count_ones(present & ~answered[j]) > cap:
            j += 1
            if j < behind:  # `same`: how many first symbols row j has in common with the last row that was read
                same = min(same, shared[j])
            continue
        low2, high2 = starts[linked2[j]], starts[linked2[j] + 1]
        if same < stopped or stopped == 0:
            least_n, stopped = _least(items, low2, high2, high - low, scratch, same, cap, relation)
        if least_n <= cap:
            link = least_n + SUBSEQUENCE * _subsequence(items, low, high, low2, high2)
            n_runs = _add_link(j, link, begin, end, least, n_runs)
        j += 1
        while least_n > cap and j < behind and shared[j] >= stopped:
            j = leap[j]
        if j < behind:
            same = shared[j]
    _mark(items, low, high, rel_start, rel_item, masks, False)
    return n_runs


@part
def _add_link(j, link, begin, end, least, n_runs):  # type: ignore[no-untyped-def]
    """Add a link to later row j to the last run, or to a new one if it differs; return the number of runs."""
    if n_runs > 0 and end[n_runs - 1] == j and least[n_runs - 1] == link:
        end[n_runs - 1] = j + 1
        return n_runs
    begin[n_runs], end[n_runs], least[n_runs] = j, j + 1, link
    return n_runs + 1


@part
def _appended(begin, end, least, size, row_begin, row_end, row_least, n_runs):  # type: ignore[no-untyped-def]
    """Write the first `n_runs` runs of a row behind the first `size` runs; return the arrays, longer ones if needed."""
    while size + n_runs > len(least):
        begin, end, least = _doubled(begin, end, least)
    begin[size : size + n_runs] = row_begin[:n_runs]
    end[size : size + n_runs] = row_end[:n_runs]
    least[size : size + n_runs] = row_least[:n_runs]
    return begin, end, least


@part
def _doubled(begin, end, least):  # type: ignore[no-untyped-def]
    """Copy the runs into arrays of twice the size."""
    size = len(least)
    longer_begin, longer_end = np.zeros(2 * size, dtype=np.int32), np.zeros(2 * size, dtype=np.int32)
    longer_least = np.zeros(2 * size, dtype=np.uint8)
    for k in range(size):
        longer_begin[k], longer_end[k], longer_least[k] = begin[k], end[k], least[k]
    return longer_begin, longer_end, longer_least


@kernel
def _fill_shared(items, starts, linked2, later_start, shared, leap):  # type: ignore[no-untyped-def]
    """Set what neighbouring later rows of one value have in common.

    shared[j]: how many first items row j has in common with row j - 1; leap[j]: the next row whose `shared` is smaller
    than that of row j. For the rows ab, abc, abd, b:

        j        0   1   2   3
        shared   0   2   2   0
        leap     4   3   3   4
    """
    for s in range(len(later_start) - 1):
        for j in range(later_start[s] + 1, later_start[s + 1]):
            at1, at2 = starts[linked2[j - 1]], starts[linked2[j]]
            end1, end2 = starts[linked2[j - 1] + 1], starts[linked2[j] + 1]
            while at1 < end1 and at2 < end2 and items[at1] == items[at2]:
                at1 += 1
                at2 += 1
            shared[j] = at2 - starts[linked2[j]]
    for j in range(len(linked2) - 2, -1, -1):
        other = j + 1
        while other < len(linked2) and shared[other] >= shared[j]:
            other = leap[other]
        leap[j] = other


@kernel
def _fill_answered(items, starts, rel_start, rel_item, linked2, answered):  # type: ignore[no-untyped-def]
    """Set which items a later row has a related item for: one bit an item, modulo 64."""
    related_to = np.zeros(len(rel_start) - 1, dtype=np.uint64)  # bits of the items that each item is related to
    for item in range(len(rel_start) - 1):
        for k in range(rel_start[item], rel_start[item + 1]):
            related_to[rel_item[k]] |= np.uint64(1) << np.uint64(item & 63)
    for j in range(len(linked2)):
        for p in range(starts[linked2[j]], starts[linked2[j] + 1]):
            answered[j] |= related_to[items[p]]


@part
def _present(items, low, high):  # type: ignore[no-untyped-def]
    """Return which items a trace has: one bit an item, modulo 64."""
    present = np.uint64(0)
    for p in range(low, high):
        present |= np.uint64(1) << np.uint64(items[p] & 63)
    return present


@part
def _mark(items, low, high, rel_start, rel_item, masks, on):  # type: ignore[no-untyped-def]
    """Set the bits of `masks` for the trace items[low:high], or clear them again."""
    for p in range(low, high):
        word, bit = (p - low) // 64, np.uint64(1) << np.uint64((p - low) % 64)
        for k in range(rel_start[items[p]], rel_start[items[p] + 1]):
            if on:
                masks[rel_item[k], word] |= bit
            else:
                masks[rel_item[k], word] = np.uint64(0)


@part
def _matched(state, d, m):  # type: ignore[no-untyped-def]
    """Return LCS(s1[:d], u) from the state after u: the zeros among its first min(d, m) bits are its steps."""
    bits, zeros = min(d, m), np.int64(0)
    for w in range((bits + 63) // 64):
        word = ~state[w]
        if bits - 64 * w < 64:
            word &= (np.uint64(1) << np.uint64(bits - 64 * w)) - np.uint64(1)
        zeros += count_ones(word)
    return zeros


@part
def _least(items, low2, high2, m, scratch, begin, cap, relation):  # type: ignore[no-untyped-def]
    """Return the least n of a pair (more than cap if it is larger), and how many symbols of s2 were read to be sure.

    Hyyrö's recurrence of the bit-parallel LCS: the carry out of the last word is 1 if the LCS grew. `state[d]` and
    `scores[d]` belong to the first d symbols of s2, and are valid up to `begin`.

    Reading stops once LCS(s1[:d], u) < d - cap for the prefix u of length d, since then no longer prefix w = u.x
    links within cap. Take a common subsequence of s1 and w that leaves at most cap symbols of each unmatched, and say
    that its part within u reaches up to s1[:i]. That part leaves at most cap symbols of u and of s1[:i] unmatched, so
    LCS(s1[:i], u) >= max(d, i) - cap. If i <= d, s1[:d] contains s1[:i]; if i > d, the i - d symbols after s1[:d]
    match at most i - d, and LCS(s1[:d], u) >= i - cap - (i - d). Both give LCS(s1[:d], u) >= d - cap.
    """
    masks, state, scores = scratch.masks, scratch.state, scratch.scores
    words = max(1, (m + 63) // 64)
    if begin == 0:
        for w in range(words):
            state[0, w] = ~np.uint64(0)
        scores[0, SCORE_LCS], scores[0, SCORE_LEAST_N], scores[0, SCORE_PREFIX] = 0, m, 0
    length = high2 - low2
    for d in range(begin, length):
        # One step of the recurrence, word by word: state + (state & mask), with the carry of the word before.
        carry = np.uint64(0)
        for w in range(words):
            old = state[d, w]
            both = old & masks[items[low2 + d], w]
            total = old + both
            total_with_carry = total + carry
            overflows = total < old or total_with_carry < total
            carry = np.uint64(1) if overflows else np.uint64(0)
            state[d + 1, w] = total_with_carry | (old - both)

        # The scores of the first d + 1 symbols of s2.
        lcs, prefix = scores[d, SCORE_LCS] + np.int64(carry), scores[d, SCORE_PREFIX]
        if relation and d + 1 == lcs:
            prefix = lcs
        scores[d + 1, SCORE_LCS], scores[d + 1, SCORE_PREFIX] = lcs, prefix
        scores[d + 1, SCORE_LEAST_N] = min(scores[d, SCORE_LEAST_N], max(d + 1, m) - lcs)
        if not relation and (d + 1 - lcs > cap or d + 1 - _matched(state[d + 1], d + 1, m) > cap):
            return scores[d, SCORE_LEAST_N], d + 1

    if not relation:
        return scores[length, SCORE_LEAST_N], np.int64(NEVER_STOPPED)
    # Theorem 2: all that s2 shares with s1 is a prefix of s2.
    lcs = scores[length, SCORE_LCS]
    is_prefix = scores[length, SCORE_PREFIX] == lcs and (lcs > 0 or relation == THEOREM_2_EMPTY_PREFIX)
    least_n = m - lcs if is_prefix else max(m, length) - lcs
    return least_n, np.int64(NEVER_STOPPED)


def may_leave(variants: Sequences, links: Ints) -> npt.NDArray[np.bool_]:
    """Return which links can leave a matching set: all but subsequence pairs.

    Parameters
    ----------
    variants
        The linked variants.
    links
        int64[P, 2 or more], earlier variant, and later variant or -1 (no partner).

    Returns
    -------
    Flags
        bool[P].
    """
    result = np.empty(len(links), dtype=np.bool_)
    _may_leave(variants.items, variants.start, links, result)
    return result


@kernel
def _may_leave(items, start, links, result):  # type: ignore[no-untyped-def]
    for k in range(len(links)):
        i, j = links[k, 0], links[k, 1]
        result[k] = j < 0 or not _subsequence(items, start[i], start[i + 1], start[j], start[j + 1])


@part
def _subsequence(items, low, high, low2, high2):  # type: ignore[no-untyped-def]
    """Return 1 if items[low:high] is a subsequence of items[low2:high2], otherwise 0."""
    q = low2
    for p in range(low, high):
        while q < high2 and items[q] != items[p]:
            q += 1
        if q == high2:
            return 0
        q += 1
    return 1


# --- Links kept from one candidate to the next ---
#
# Whether two classes (sensitive value, variant) are linkable, and with which n, depends on the two alone. From one
# candidate of a series to the next nearly all classes are the same. So the links between the classes of all earlier
# releases and those of the last candidate are kept, and for the next candidate only pairs with a new class on either
# side are listed. The result equals listing all pairs; tests/property/test_attacks_kept_links.py compares both.

Lister = Callable[[Ints, Ints], Runs]
"""Lists the links between some earlier and some later rows, both ascending; later rows by their place among these."""


def _no_keys() -> Ints:
    return np.zeros(0, np.int64)


def _no_runs() -> Runs:
    return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8)


@content_free()
@dataclass
class KeptLinks:
    """Links up to one n, from one candidate to the next.

    Parameters
    ----------
    earlier, later
        int64, keys of the classes that were compared.
    runs
        The links between them.
    """

    earlier: Ints = field(default_factory=_no_keys)
    later: Ints = field(default_factory=_no_keys)
    runs: Runs = field(default_factory=_no_runs)

    def move_on(self, earlier: Ints, later: Ints, listed: Lister) -> Runs:
        """Return the links between the classes of the next candidate, and keep them.

        Parameters
        ----------
        earlier, later
            int64, distinct keys of the classes, in the order of their rows. Links of other classes are forgotten.
        listed
            Lists the links between classes that were not compared before.

        Raises
        ------
        TooLargeError
            If they are too many. Then nothing changes.
        """
        old_row1 = _places(earlier, self.earlier)
        new_row2 = _places(self.later, later)
        is_old2 = np.zeros(len(later), dtype=np.bool_)
        is_old2[new_row2[new_row2 >= 0]] = True
        rows1, rows2 = np.arange(len(earlier)), np.arange(len(later))
        new1, old1, new2 = rows1[old_row1 < 0], rows1[old_row1 >= 0], rows2[~is_old2]

        # New earlier classes with all later ones, then the other earlier classes with new later ones. The links of two
        # old classes are kept.
        of_new1 = _listed(listed, new1, rows2)
        of_old1 = _listed(listed, old1, new2)
        place1 = np.empty(len(earlier), dtype=np.int64)  # of each earlier class in the one of these two that has it
        place1[new1], place1[old1] = np.arange(len(new1)), np.arange(len(old1))
        start = np.zeros(len(earlier) + 1, dtype=np.int64)
        begin, end, least = _joined(
            old_row1, place1, (self.runs, new_row2), (of_new1, rows2), (of_old1, new2), np.int64(MOST_RUNS), start
        )
        if start[-1] > MOST_RUNS:
            raise TooLargeError(f"the links between records have over {MOST_RUNS} runs, more than fit")
        n_runs = start[-1]
        self.earlier, self.later = earlier, later
        self.runs = start, begin[:n_runs].copy(), end[:n_runs].copy(), least[:n_runs].copy()
        return self.runs


def _listed(listed: Lister, rows1: Ints, rows2: Ints) -> Runs:
    """List the links between some rows; without rows there are none, and nothing is listed."""
    if len(rows1) and len(rows2):
        return listed(rows1, rows2)
    _, begin, end, least = _no_runs()
    return np.zeros(len(rows1) + 1, dtype=np.int64), begin, end, least


NO_LINK = -1


@kernel
def _joined(old_row1, place1, kept, of_new1, of_old1, most, start):  # type: ignore[no-untyped-def]
    """Join kept and new links by earlier rows: the runs, and where those of each row begin (`start`).

    `old_row1`: the row of each earlier class in `kept`, -1 if it is new; `place1`: its row in `of_new1` if it is new,
    otherwise in `of_old1`. Each of the three is a pair: runs, and the present later row of each row that they name, -1
    if it is gone. If there are more runs than `most`, the last entry of `start` is most + 1.
    """
    n_later = len(of_new1[1])  # new classes are linked to all later rows
    row_begin, row_end = np.empty(n_later, dtype=np.int32), np.empty(n_later, dtype=np.int32)
    row_least = np.empty(n_later, dtype=np.uint8)
    begin, end = np.zeros(1024, dtype=np.int32), np.zeros(1024, dtype=np.int32)
    least = np.zeros(1024, dtype=np.uint8)
    link = np.empty(n_later, dtype=np.int16)  # of one earlier row to each later row
    size = 0
    for i in range(len(old_row1)):
        link[:] = NO_LINK
        if old_row1[i] < 0:
            _spread(of_new1, place1[i], link)
        else:
            _spread(kept, old_row1[i], link)
            _spread(of_old1, place1[i], link)
        n_runs = _collected(link, row_begin, row_end, row_least)
        if size + n_runs > most:
            start[len(old_row1)] = most + 1
            return begin, end, least
        begin, end, least = _appended(begin, end, least, size, row_begin, row_end, row_least, n_runs)
        size += n_runs
        start[i + 1] = size
    return begin, end, least


@part
def _spread(links, row, link):  # type: ignore[no-untyped-def]
    """Set the link of each later row that an earlier row has in `links` (runs, and the present later rows)."""
    (start, begin, end, least), present_row = links
    for k in range(start[row], start[row + 1]):
        for j in range(begin[k], end[k]):
            if present_row[j] >= 0:
                link[present_row[j]] = least[k]


@part
def _collected(link, begin, end, least):  # type: ignore[no-untyped-def]
    """Set the runs of equal links to neighbouring rows, and return how many there are."""
    n_runs = 0
    for j in range(len(link)):
        if link[j] != NO_LINK:
            n_runs = _add_link(j, link[j], begin, end, least, n_runs)
    return n_runs


def _places(before: Ints, now: Ints) -> Ints:
    """Return the place of each key of `before` in `now`, -1 if it is gone."""
    if not len(now):
        return np.full(len(before), -1, dtype=np.int64)
    order = np.argsort(now)
    at = np.minimum(np.searchsorted(now[order], before), len(now) - 1)
    places: Ints = np.where(now[order[at]] == before, order[at], -1)
    return places
