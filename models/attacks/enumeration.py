"""Every background knowledge with its values, in every method (compiled).

There is one walk (`_enumerate`) over the trie of candidates: the children of a node extend its background knowledge
(bk) by one symbol. All children of a node are counted together, so what matches whatever comes next is counted once.

Candidates are listed in lexicographic order. Row r of a block holds one of them, and its extensions follow it. With
symbols a, b and length 3, `subtree` counts the candidates that begin with a bk of 1, 2 or 3 symbols:

    row         0   1    2     3     4    5     6
    candidate   a   aa   aaa   aab   ab   aba   abb
    subtree     7   3    1     1     3    1     1

Child x of the node `a` is therefore in row 1 + 3x.

The methods differ in how one child is valued:

* `exact` asks for flows, and remembers their answers by which of the records that a flow depends on are in the matching
  sets. Most candidates share these records with an earlier candidate.
* the other methods evaluate their group formulas.

References
----------
correspondence-attacks-2021, Def. 10-12 (exact) and Theorems 3-5 (group formulas).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.attacks.candidates import METHODS, CandidateValuer, group_cracks
from models.attacks.linker import UNREACHED, fewest_leaving, most_free, undo
from models.attacks.pairs import advance, is_in
from models.attacks.search import FLOOR, KA2_COMMON, Minimum, no_incumbents
from models.compiled import kernel, part
from models.content_free import content_free
from models.errors import TooLargeError
from models.eventlog import Codes, Ints, starts_of

MOST_CANDIDATES = 60_000_000
"""An enumeration of more takes longer than anybody waits (about a minute in group formulas at the limit)."""

REMEMBERED_FLOWS = 1 << 19
"""Answers of flows that are kept (a power of two, 24 bytes each). A newer one takes the place of an older one."""

EXACT = 0
"""The method `exact`, in addition to the codes of `candidates.METHODS`."""

MS1, MS2, F, C, B = range(5)
"""Columns of the values of a candidate."""

Block = tuple[npt.NDArray[np.int16], npt.NDArray[np.int32]]


def enumerate_all(valuer: CandidateValuer, bk_length: int) -> Iterator[Block]:
    """Yield every candidate with its values, one block for each first symbol.

    Parameters
    ----------
    valuer
        The method, at one n.
    bk_length
        Longest background knowledge; all of length 1..bk_length are listed.

    Yields
    ------
    codes
        int16[N, bk_length], symbol codes of N candidates in lexicographic order, -1 after the end of each.
    values
        int32[N, 5]: ms1, ms2, F, C, B.

    Raises
    ------
    TooLargeError
        If the candidates are too many. The message states how many they are.
    """
    symbols = valuer.table.symbols
    total = sum(symbols**d for d in range(1, bk_length + 1))
    if total > MOST_CANDIDATES:
        raise TooLargeError(
            f"{symbols} activities and bk_length {bk_length} make {total} candidates, too many to enumerate "
            f"(at most {MOST_CANDIDATES}); method exact searches them by branch and bound without listing them"
        )
    # subtree[d]: candidates that begin with a given bk of d symbols, itself included.
    subtree = np.ones(bk_length + 1, dtype=np.int64)
    for d in range(bk_length - 1, 0, -1):
        subtree[d] = 1 + symbols * subtree[d + 1]
    method = METHODS.get(valuer.method, EXACT)
    tables = _tables(valuer)
    state = _new_state(valuer, tables, bk_length)
    block_size = int(subtree[1])
    for first_symbol in range(symbols):
        codes = np.full((block_size, bk_length), -1, dtype=np.int16)
        values = np.zeros((block_size, 5), dtype=np.int32)
        _enumerate(tables, state, subtree, valuer.n, method, first_symbol, codes, values)
        yield codes, values


@content_free()
class EnumerationTables(NamedTuple):
    """The arrays that the walk reads (1: earlier release, 2: later release).

    first, after : as `NextOccurrences`
    children, children_start : uint16 and int64, lists of children. Those of a row of `after`, whose symbol occurs
        after its position, are children[children_start[row]:children_start[row + 1]]. A last list holds the child
        `symbols` alone
    known1, known2 : int32[rows], known variant of each row
    count1, count2 : int64[rows], records of each row
    counts : int64[known variants, 2], records of each known variant, earlier and later
    start1, start2 : int64[values + 1], first row of each sensitive value
    runs : links by earlier rows

    The others are for the method `exact` alone, and empty otherwise. BA adds up over parts: the sensitive values with a
    record that some linker leaves free.

    part_of_row : int64[later rows], part of each row that some linker can leave a record of free, -1 for other rows
    part_rows : int64[parts, 4], rows of each part: first and last + 1 of the earlier release, and of the later one
    open_rows, open_start : later rows with a part, by known variant: those of v are open_rows[open_start[v]:...[v + 1]]
    hash_keys : uint64[2, later rows + known variants], random words that the hash of a set is made of
    loose, loose_variants : int64[P, 3], links of the base linker that can leave a matching set, by rows and by variants
    linker : the base linker
    """

    first: Any
    after: Any
    children: Any
    children_start: Any
    known1: Any
    known2: Any
    count1: Any
    count2: Any
    counts: Any
    start1: Any
    start2: Any
    runs: Any
    part_of_row: Any
    part_rows: Any
    open_rows: Any
    open_start: Any
    hash_keys: Any
    loose: Any
    loose_variants: Any
    linker: Any


@content_free()
class EnumerationState(NamedTuple):
    """The arrays that the walk writes.

    By depth: `positions` (int16, by known variant and unmatched symbols), `missing` (symbols unmatched), `active`
    (variants that still match) and `sizes` (how many these are).

    Of the children of the current node:

    totals : int64[symbols + 1, 2], records that match
    hashes : uint64[symbols + 1, parts + 1, 2], hash of the rows of each part that match; the last part is the set of
        all known variants

    Child `symbols` of totals and hashes holds what matches whatever comes next.

    in1, in2 : rows in the matching sets of one child
    cracks : answer of `candidates.group_cracks`
    remembered : uint64[REMEMBERED_FLOWS, 3], two hashes, and the answer of the flow + 1 (0: not known)
    scratch : of the flows
    """

    positions: Any
    missing: Any
    active: Any
    sizes: Any
    totals: Any
    hashes: Any
    in1: Any
    in2: Any
    cracks: Any
    remembered: Any
    scratch: Any


def _tables(valuer: CandidateValuer) -> EnumerationTables:
    pair, table, base = valuer.pair, valuer.table, valuer.base
    earlier, later = pair.earlier, pair.later
    variants = pair.n_known
    start1, start2 = valuer.value_starts()
    if valuer.method == "exact":
        loose, can_be_free = base.loose, base.reachable
    else:  # group formulas ask for no flows
        loose = np.zeros((0, 3), dtype=np.int64)
        can_be_free = np.zeros(len(later.known_variant), dtype=np.bool_)

    open_values = np.unique(later.value[can_be_free])
    part_of_row = np.where(can_be_free, np.searchsorted(open_values, later.value), -1).astype(np.int64)
    part_rows = np.column_stack(
        (start1[open_values], start1[open_values + 1], start2[open_values], start2[open_values + 1])
    )
    by_variant = np.argsort(later.known_variant, kind="stable")
    open_rows = by_variant[can_be_free[by_variant]]
    open_start = np.searchsorted(later.known_variant[open_rows], np.arange(variants + 1)).astype(np.int64)

    occurs = table.after >= 0
    symbol = np.broadcast_to(np.arange(table.symbols, dtype=np.uint16), occurs.shape)
    every_child = np.uint16(table.symbols)
    children = np.append(symbol[occurs], every_child)
    n_children = np.append(np.count_nonzero(occurs, axis=1), 1)

    loose_variants = loose.copy()
    loose_variants[:, 0] = earlier.known_variant[loose[:, 0]]
    loose_variants[:, 1] = later.known_variant[loose[:, 1]]
    n_keys = len(later.known_variant) + variants
    hash_keys = np.random.default_rng(0).integers(1, 1 << 63, (2, n_keys), dtype=np.uint64)
    return EnumerationTables(
        first=table.first,
        after=table.after,
        children=children,
        children_start=starts_of(n_children),
        known1=earlier.known_variant,
        known2=later.known_variant,
        count1=earlier.count,
        count2=later.count,
        counts=np.column_stack((earlier.per_known(variants), later.per_known(variants))),
        start1=start1,
        start2=start2,
        runs=valuer.linkable.runs,
        part_of_row=part_of_row,
        part_rows=np.ascontiguousarray(part_rows),
        open_rows=open_rows,
        open_start=open_start,
        hash_keys=hash_keys,
        loose=loose,
        loose_variants=loose_variants,
        linker=base.linker,
    )


def _new_state(valuer: CandidateValuer, tables: EnumerationTables, length: int) -> EnumerationState:
    variants, symbols, parts = len(tables.first), valuer.table.symbols, len(tables.part_rows)
    rows1, rows2 = len(tables.known1), len(tables.known2)
    active = np.zeros((length, variants), dtype=np.int32)
    active[0] = np.arange(variants)
    sizes = np.zeros(length, dtype=np.int64)
    sizes[0] = variants
    remembered = REMEMBERED_FLOWS if valuer.method == "exact" else 1
    return EnumerationState(
        positions=np.zeros((length, variants, valuer.n + 1), dtype=np.int16),
        missing=np.zeros((length, variants), dtype=np.int16),
        active=active,
        sizes=sizes,
        totals=np.zeros((symbols + 1, 2), dtype=np.int64),
        hashes=np.zeros((symbols + 1, parts + 1, 2), dtype=np.uint64),
        in1=np.zeros(rows1, dtype=np.bool_),
        in2=np.zeros(rows2, dtype=np.bool_),
        cracks=np.zeros((len(valuer.pair.values), 3), dtype=np.int64),
        remembered=np.zeros((remembered, 3), dtype=np.uint64),
        scratch=valuer.base.scratch,
    )


# --- The walk (compiled) ---


@kernel
def _enumerate(tables, state, subtree, n, method, first_symbol, codes, values):  # type: ignore[no-untyped-def]
    """List the candidates that begin with `first_symbol`, depth first.

    At depth d the node has d symbols, `path[:d]`. Its child a is in row first_row[d] + a * subtree[d + 1].
    """
    symbols, length = len(state.totals) - 1, codes.shape[1]
    path = np.zeros(length, dtype=np.int64)
    next_child = np.zeros(length, dtype=np.int64)
    first_row = np.zeros(length, dtype=np.int64)

    # The root has one child in this block, which is in row 0.
    next_child[0] = first_symbol
    first_row[0] = -first_symbol * subtree[1]
    end_of_root = first_symbol + 1
    _value_children(
        tables, state, n, method, 0, first_symbol, end_of_root, path, first_row[0], subtree[1], codes, values
    )

    depth = 0
    while depth >= 0:
        a = next_child[depth]
        end = end_of_root if depth == 0 else symbols
        if a == end or depth == length - 1:
            depth -= 1
            continue
        next_child[depth] = a + 1
        path[depth] = a
        _advance_active(tables, state, depth, a, n)
        first_row[depth + 1] = first_row[depth] + a * subtree[depth + 1] + 1
        depth += 1
        next_child[depth] = 0
        _value_children(
            tables, state, n, method, depth, 0, symbols, path, first_row[depth], subtree[depth + 1], codes, values
        )


@part
def _value_children(tables, state, n, method, depth, begin, end, path, first_row, step, codes, values):  # type: ignore[no-untyped-def]
    """Write the children begin..end - 1 of the node: child a in row first_row + a * step."""
    _count_children(tables, state, depth, n)
    for a in range(begin, end):
        row = first_row + a * step
        for d in range(depth):
            codes[row, d] = path[d]
        codes[row, depth] = a
        values[row, MS1], values[row, MS2] = state.totals[a, 0], state.totals[a, 1]
    if method == EXACT:
        _value_by_flows(tables, state, depth, begin, end, n, first_row, step, values)
    else:
        _value_by_groups(tables, state, depth, begin, end, n, method, first_row, step, values)


@part
def _count_children(tables, state, depth, n):  # type: ignore[no-untyped-def]
    """Set `totals` and `hashes` of all children.

    A variant with n symbols unmatched matches the children whose symbol occurs after its position. One
    with fewer matches all of them. It is counted once, for a child of its own that is added to all others
    at the end.
    """
    first, children, children_start, counts = tables.first, tables.children, tables.children_start, tables.counts
    part_of_row, open_rows, open_start = tables.part_of_row, tables.open_rows, tables.open_start
    positions, missing, active = state.positions[depth], state.missing[depth], state.active[depth]
    totals, hashes = state.totals, state.hashes
    every_child = len(totals) - 1
    list_of_every_child = len(children_start) - 2
    variants_part = hashes.shape[1] - 1
    # The set of all variants decides only how many loose links leave: it is hashed if there are such links.
    hashes_variants = len(tables.loose_variants) > 0
    totals[:] = 0
    hashes[:] = np.uint64(0)

    for k in range(state.sizes[depth]):
        v = active[k]
        matched = list_of_every_child if missing[v] < n else first[v] + positions[v, n]
        begin, end = children_start[matched], children_start[matched + 1]
        count1, count2 = counts[v, 0], counts[v, 1]
        for c in range(begin, end):
            totals[children[c], 0] += count1
            totals[children[c], 1] += count2
        for place in range(open_start[v], open_start[v + 1]):
            row = open_rows[place]
            _hash_in(hashes, part_of_row[row], tables.hash_keys, row, children, begin, end)
        if hashes_variants:
            key = len(part_of_row) + v  # the keys of variants follow those of rows
            _hash_in(hashes, variants_part, tables.hash_keys, key, children, begin, end)

    for a in range(every_child):
        totals[a, 0] += totals[every_child, 0]
        totals[a, 1] += totals[every_child, 1]
        for p in range(hashes.shape[1]):
            hashes[a, p, 0] ^= hashes[every_child, p, 0]
            hashes[a, p, 1] += hashes[every_child, p, 1]


@part
def _hash_in(hashes, p, keys, key, children, begin, end):  # type: ignore[no-untyped-def]
    """Add a member, by the number of its keys, to the set of part p of children[begin:end]."""
    key1, key2 = keys[0, key], keys[1, key]
    for c in range(begin, end):
        hashes[children[c], p, 0] ^= key1
        hashes[children[c], p, 1] += key2


@part
def _advance_active(tables, state, depth, a, n):  # type: ignore[no-untyped-def]
    """Set the positions of the next depth after symbol a; variants with more than n symbols unmatched drop out."""
    first, after = tables.first, tables.after
    positions, active = state.positions[depth], state.active[depth]
    next_positions, next_missing = state.positions[depth + 1], state.missing[depth + 1]
    next_active = state.active[depth + 1]
    for v in range(len(first)):
        next_missing[v] = n + 1
    n_active = 0
    for k in range(state.sizes[depth]):
        v = active[k]
        least_unmatched = advance(first[v], after, positions[v], a, n, next_positions[v])
        next_missing[v] = least_unmatched
        if least_unmatched <= n:
            next_active[n_active] = v
            n_active += 1
    state.sizes[depth + 1] = n_active


@part
def _match_rows(first, after, positions, missing, known_variant, a, n, begin, end, inside):  # type: ignore[no-untyped-def]
    """Set inside[begin:end] to whether each row is in the matching set of child `a`."""
    for i in range(begin, end):
        inside[i] = is_in(first, after, positions, missing, known_variant[i], a, n)


# --- The cracks of the children, by method ---


@part
def _value_by_flows(tables, state, depth, begin, end, n, first_row, step, values):  # type: ignore[no-untyped-def]
    """Write F, C and B of the children begin..end - 1 by Def. 10-12 (see `linker`)."""
    first, after, positions, missing = tables.first, tables.after, state.positions[depth], state.missing[depth]
    known1, known2, loose_variants, part_rows = tables.known1, tables.known2, tables.loose_variants, tables.part_rows
    hashes, remembered, in1, in2 = state.hashes, state.remembered, state.in1, state.in2
    parts = len(part_rows)
    for a in range(begin, end):
        # |ms1| - M: the base linker is a best one unless it sends a record out of the matching sets.
        leaving = 0
        for k in range(len(loose_variants)):
            variant, partner_variant = loose_variants[k, 0], loose_variants[k, 1]
            if is_in(first, after, positions, missing, variant, a, n) and not is_in(
                first, after, positions, missing, partner_variant, a, n
            ):
                leaving += loose_variants[k, 2]
        if leaving > 0:
            place = _remembered_at(remembered, hashes[a, parts, 0], hashes[a, parts, 1])
            if remembered[place, 2] == 0:
                _match_rows(first, after, positions, missing, known1, a, n, 0, len(in1), in1)
                _match_rows(first, after, positions, missing, known2, a, n, 0, len(in2), in2)
                answer = fewest_leaving(tables.linker, tables.runs, n, in1, in2, tables.loose, state.scratch)
                undo(tables.linker)
                remembered[place, 2] = 1 + answer
            leaving = int(remembered[place, 2]) - 1

        # Most free records of ms2. Links never leave a sensitive value, so those of each value add up.
        free = 0
        for p in range(parts):
            if hashes[a, p, 0] == 0 and hashes[a, p, 1] == 0:
                continue  # no row of this part matches
            place = _remembered_at(remembered, hashes[a, p, 0], hashes[a, p, 1])
            if remembered[place, 2] == 0:
                rows = part_rows[p]
                _match_rows(first, after, positions, missing, known2, a, n, rows[2], rows[3], in2)
                answer = most_free(tables.linker, tables.runs, n, in2, rows, UNREACHED, state.scratch)
                undo(tables.linker)
                remembered[place, 2] = 1 + answer
            free += int(remembered[place, 2]) - 1

        row = first_row + a * step
        ms1, ms2 = state.totals[a, 0], state.totals[a, 1]
        values[row, F] = leaving
        values[row, C] = ms2 - (ms1 - leaving)
        values[row, B] = ms2 - free


@part
def _remembered_at(remembered, hash1, hash2):  # type: ignore[no-untyped-def]
    """Return the place of the flow with these two hashes; its third number is 0 if its answer is not known."""
    place = np.int64(hash1 & np.uint64(len(remembered) - 1))
    if remembered[place, 0] != hash1 or remembered[place, 1] != hash2:
        remembered[place, 0], remembered[place, 1], remembered[place, 2] = hash1, hash2, np.uint64(0)
    return place


@part
def _value_by_groups(tables, state, depth, begin, end, n, method, first_row, step, values):  # type: ignore[no-untyped-def]
    """Write F, C and B of the children begin..end - 1 by the group formulas of a method."""
    first, after, positions, missing = tables.first, tables.after, state.positions[depth], state.missing[depth]
    in1, in2, cracks = state.in1, state.in2, state.cracks
    for a in range(begin, end):
        _match_rows(first, after, positions, missing, tables.known1, a, n, 0, len(in1), in1)
        _match_rows(first, after, positions, missing, tables.known2, a, n, 0, len(in2), in2)
        group_cracks(
            tables.start1, tables.start2, tables.count1, tables.count2, tables.runs, n, method,
            in1, in2, cracks,
        )  # fmt: skip
        row = first_row + a * step
        for s in range(len(cracks)):
            values[row, F] += cracks[s, 0]
            values[row, C] += cracks[s, 1]
            values[row, B] += cracks[s, 2]


# --- Minima over all candidates ---


def enumerated_minima(
    valuer: CandidateValuer, bk_length: int, minimum: Minimum, exactly: bool | None = None
) -> tuple[Ints, Codes]:
    """Return the minima over every candidate, for methods whose values may grow when bk is extended.

    Parameters
    ----------
    valuer
        The method, at one n.
    bk_length, minimum
        As `anonymity`.
    exactly
        Whether only bk of length bk_length count, as in the authors' program. If not given, for `reference` alone; the
        golden vectors have both for every method.

    Returns
    -------
    As `exact_minima`.
    """
    best, worst = no_incumbents(bk_length)
    floor = FLOOR[minimum]
    is_reference = valuer.method == "reference"
    if exactly is None:
        exactly = is_reference
    for codes, values in enumerate_all(valuer, bk_length):
        ms1, ms2, f, c, b = values.T.astype(np.int64)
        valid = codes[:, -1] >= 0 if exactly else codes[:, 0] >= 0
        in_both = valid & (ms1 > 0) & (ms2 > 0)
        in_one = valid & ((ms1 > 0) | (ms2 > 0))
        # The authors' program drops a bk with an empty matching set, for KA too.
        for_ka = in_both if is_reference else valid
        if is_reference or floor < 0:
            for_attacks = in_both
        else:
            for_attacks = valid if floor == 1 else in_one
        columns = (
            (ms1, for_ka & (ms1 > 0)),
            (ms2, for_ka & (ms2 > 0)),
            (ms1, in_both),
            (ms2, in_both),
            (ms1 - f, for_attacks),
            (ms2 - c, for_attacks),
            (ms2 - b, for_attacks),
        )  # in the order of MEASURES
        for measure, (numbers, allowed) in enumerate(columns):
            if floor == 1 or measure <= KA2_COMMON:
                allowed = allowed & (numbers >= 1)
            _take_least(best, worst, measure, numbers, allowed, codes)
    return best, worst


def _take_least(
    best: Ints, worst: Codes, measure: int, numbers: Ints, allowed: npt.NDArray[np.bool_], codes: npt.NDArray[Any]
) -> None:
    """Make the least allowed number the incumbent of a measure, if it is smaller."""
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return
    row = rows[np.argmin(numbers[rows])]
    if numbers[row] < best[measure]:
        best[measure] = numbers[row]
        worst[measure] = codes[row]
