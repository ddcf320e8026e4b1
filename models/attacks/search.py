"""Branch and bound over background knowledge, for the least anonymity (Def. 16-18) at one n.

The candidates form a trie: the children of a node extend its background knowledge (bk) by one symbol. Every measure
is a number of records in matching sets that never grows when bk is extended. Therefore two values bound a subtree:

* from above, the value of its node;
* from below, the value over the records that no extension can lose: those with at most n - (symbols left) symbols
  unmatched.

There is one walk (`walk`). It reads the totals of all children of a node from one of two sources (see
docs/decisions/031-two-sources-of-totals.md):

* **added up**: from the positions that each variant has reached, node by node. This needs no table over all bk, so
  bk may be long.
* **looked up**: from totals over every bk (models.attacks.totals). The pairs of one candidate share them, so that a
  further pair costs only what differs.

The walk is compiled. If the gap between the base linker and the best linker matters, it stops and asks for a flow.
The linker that a flow finds is kept as a witness: its free records bound BA from below for other candidates, too.

References
----------
correspondence-attacks-2021, Def. 10-12 (cracks) and Def. 16-18 (anonymity).
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from models.attacks.linker import UNREACHED, BaseLinker
from models.attacks.pairs import NextOccurrences, PartOfTables, ReleasePair, advance, is_in
from models.attacks.totals import SharedTotals, add_leaving, column_starts
from models.compiled import kernel, part, wraps_around
from models.eventlog import Codes, Flags, Ints

MEASURES = ("ka1", "ka2", "ka1_common", "ka2_common", "fa", "ca", "ba")
KA1, KA2, KA1_COMMON, KA2_COMMON, FA, CA, BA = range(7)

Minimum = Literal["realisable", "all", "common"]
"""realisable: the least value >= 1 (exact 0 means that no case can be the victim);
all: the least, also 0, over the background knowledge that matches in one of the releases, so never above `realisable`;
common: the same over the background knowledge that matches in both."""

FLOOR: dict[Minimum, int] = {"realisable": 1, "all": 0, "common": -1}

NO_VALUE = UNREACHED
"""The incumbent of a measure for which no candidate has a value."""

WITNESSES = 16
"""Linkers that are kept for their free records. Nearly always one of the latest sixteen answers."""

STATES = 1 << 17
"""States that are remembered at most (16 bytes each). A full neighbourhood forgets nothing and learns nothing."""

STRIDE = 50_000
"""Nodes between two returns from compiled code: a signal (Ctrl-C, a stopping daemon) waits for such a return."""

FlowAnswer = tuple[int, Ints | None]
"""M or BA of a candidate; for BA also the records that the linker found leaves free, by known variant."""

FlowQuestion = Callable[[int, Flags, int], FlowAnswer]
"""(ASK_M or ASK_BA, known variants in the matching set, enough) -> the exact number, or `enough` if it is not less."""

# --- Columns and entries of the arrays ---

C1, C2, NEW, OPEN = 0, 1, 2, 3
"""Columns of `weights`, by known variant: records of the earlier release; of the later one; records that the base
linker leaves free; whether some linker can leave one free."""

ALL_IN, CORE, ROOT = 0, 1, 2
"""Totals of a child: over all variants that match; over those that no extension can lose; over those that contain its
last symbol without any unmatched one."""

DEPTH, PLACE, ASKED, FLOW_M, FLOW_BA, N, LENGTH, LEAST_VALUE, SURPLUS, NODES, WITNESS, LAST, PAUSE = range(13)
"""Entries of `cursor`.

DEPTH: depth of the node; PLACE: next child to value; ASKED: the question (0: none; ASK_M, ASK_BA; DONE);
FLOW_M, FLOW_BA: the answers (-1: not asked); N: events removed; LENGTH: longest bk; LEAST_VALUE: least value that
counts (-1: 0, but only of bk that matches in both releases); SURPLUS: |L2| - |L1| (-1: no flows);
NODES: valued nodes; WITNESS: witnesses so far; LAST: the one that answered last;
PAUSE: count of nodes at which the walk returns once."""

CURSOR_CELLS = 13
ASK_M, ASK_BA, DONE = FLOW_M, FLOW_BA, -1

MS1, MS2, CORE1, CORE2, MOST_M, CORE_M, MOST_BA, CORE_BA, ORDER, KEY = range(10)
"""Columns of `nodes[depth, child]`: bounds of its subtree, above and below; ORDER and KEY: the visiting order."""

SYMBOL, NEXT_CHILD, N_ACTIVE, BK_NUMBER = 0, 1, 2, 3
"""Rows of `path[:, depth]`: the symbol by which the path continues; the next child to enter, by its place in the
visiting order; for totals that are added up, how many variants still match; for totals that are looked up, the number
of the bk among those of its length."""


class AddedUp(NamedTuple):
    """The source that adds up.

    first, after : as `NextOccurrences`; int64[variants], int16[positions, symbols]
    weights : int64[variants, 4], columns C1 to OPEN
    loose : int64[P, 3], links of the base linker that may leave matching sets (variant, variant or -1, records)
    """

    first: Any
    after: Any
    weights: Any
    loose: Any


class LookedUp(NamedTuple):
    """The source that looks up; empty arrays if nothing is looked up.

    table : uint8[all variants, bk], symbols of each bk that each variant leaves unmatched
    variants, symbols : int64, place of those of this pair among all
    starts : int64[length + 1], column at which the bk of each length begin
    all_in, core, root : int64[4, bk], totals by column of `weights` (see `totals.Totals`)
    leaving, core_leaving : int64[bk], records that the loose links send out of the matching set, and of its core
    """

    table: Any
    variants: Any
    symbols: Any
    starts: Any
    all_in: Any
    core: Any
    root: Any
    leaving: Any
    core_leaving: Any


class SearchTables(NamedTuple):
    """The arrays that the walk reads. One of the two sources is empty."""

    added_up: AddedUp
    looked_up: LookedUp


class SearchState(NamedTuple):
    """The arrays that the walk writes.

    By depth: `path` int64[4, length + 2], rows SYMBOL to BK_NUMBER; `nodes` int64[length + 1, symbols, 10], columns MS1
    to KEY; and for added up totals `positions` (int16, by unmatched symbols), `missing` (symbols unmatched) and
    `active` (variants that still match).

    Of the children of the current node: `totals` int64[3, 4, symbols] (ALL_IN, CORE, ROOT; columns C1 to OPEN) and
    `leaving` int64[2, symbols] (ALL_IN, CORE).

    `seen`: hashes of the states so far; `witness` int64[WITNESSES, variants, 2]: (known variant, free records), up to
    one with 0; `inside`: the matching set of a question; `best`, `worst`: incumbents; `cursor`: see above.
    """

    positions: Any
    missing: Any
    active: Any
    nodes: Any
    path: Any
    totals: Any
    leaving: Any
    seen: Any
    witness: Any
    inside: Any
    best: Any
    worst: Any
    cursor: Any


def exact_minima(
    pair: ReleasePair, table: NextOccurrences, base: BaseLinker, bk_length: int, minimum: Minimum
) -> tuple[Ints, Codes]:
    """Return the exact minima at one n by branch and bound.

    Parameters
    ----------
    pair, table
        The releases and their next occurrences.
    base
        The base linker of n, which exists.
    bk_length, minimum
        As `correspondence.anonymity`.

    Returns
    -------
    best
        int64[MEASURES], as `search.search`.
    worst
        int32[MEASURES, bk_length], the background knowledge that attains each.
    """
    known1, known2 = pair.earlier.known_variant, pair.later.known_variant
    loose = base.loose.copy()  # by rows; the search reads known variants
    loose[:, 0] = known1[loose[:, 0]]
    loose[:, 1] = known2[loose[:, 1]]

    def ask(question: int, inside: Flags, enough: int) -> FlowAnswer:
        in2 = inside[known2]
        try:
            if question == ASK_M:
                in1 = inside[known1]
                ms1 = int(pair.earlier.count[in1].sum())
                return ms1 - base.fewest_leaving(in1, in2), None
            most_free = base.most_free(in2, enough)
            free = np.bincount(known2, weights=base.linker.free, minlength=pair.n_known)
            return most_free, free.astype(np.int64)
        finally:
            base.undo()

    surplus = pair.later.n_cases - pair.earlier.n_cases
    weights = _search_weights(pair, base)
    return search(table, weights, loose, base.n, bk_length, FLOOR[minimum], surplus, ask)


def _search_weights(pair: ReleasePair, base: BaseLinker) -> Ints:
    """Return the `weights` of `search.search`, by known variant."""
    weights = np.zeros((pair.n_known, 4), dtype=np.int64)
    earlier, later = pair.earlier, pair.later
    _tally(
        earlier.known_variant,
        earlier.count,
        later.known_variant,
        later.count,
        base.linker.free,
        base.reachable,
        weights,
    )
    return weights


@kernel
def _tally(known1, count1, known2, count2, free, reachable, weights):  # type: ignore[no-untyped-def]
    """Add up rows by known variant; one pass is faster than four calls of numpy."""
    for i in range(len(known1)):
        weights[known1[i], C1] += count1[i]
    for j in range(len(known2)):
        weights[known2[j], C2] += count2[j]
        weights[known2[j], NEW] += free[j]
        weights[known2[j], OPEN] += np.int64(reachable[j])


def search(
    table: NextOccurrences, weights: Ints, loose: Ints, n: int, length: int, floor: int, surplus: int = 0,
    ask: FlowQuestion | None = None,
) -> tuple[Ints, Codes]:  # fmt: skip
    """Return the least value of each measure over all bk of length 1..length.

    Parameters
    ----------
    table
        Next occurrences in the known variants of the pair. Totals are looked up if `table.part_of` shares them and they
        fit; otherwise they are added up.
    weights
        int64[known variants, 4], columns C1 to OPEN.
    loose
        int64[P, 3], links of the base linker that may leave matching sets: known variant, known variant or -1, records.
    n
        Events removed from a case at most.
    length
        Longest background knowledge.
    floor
        Least value that counts: 1 (realisable), 0 (all), -1 (0, of bk that matches in both releases).
    surplus
        |L2| - |L1|, which bounds BA.
    ask
        Resolves the gap between the base linker and the best one. None: the base linker is the true one.

    Returns
    -------
    best
        int64[MEASURES], NO_VALUE if no bk has a value.
    worst
        int32[MEASURES, length], symbol codes of a bk that attains it, -1 after its end.
    """
    tables = _tables_looked_up(table, weights, loose, n, length, by_flows=ask is not None)
    if tables is None:
        not_looked_up = LookedUp(*(np.zeros(shape, dtype) for shape, dtype in _LOOKED_UP_SHAPES))
        added_up = AddedUp(table.first, table.after, weights, loose)
        state = _new_state(len(table.first), table.symbols, n, length, surplus, adds_up=True)
        tables = SearchTables(added_up, not_looked_up)
    else:
        state = _new_state(len(table.first), table.symbols, n, length, surplus, adds_up=False)
    cursor = state.cursor
    cursor[[N, LENGTH, LEAST_VALUE]] = n, length, floor
    cursor[SURPLUS] = -1 if ask is None else surplus
    while True:
        cursor[PAUSE] = cursor[NODES] + STRIDE
        walk(tables, state)
        if cursor[ASKED] == DONE:
            return state.best, state.worst
        if cursor[ASKED] != 0 and ask is not None:
            _answer(state, ask)


_LOOKED_UP_SHAPES: tuple[tuple[Any, Any], ...] = (
    ((0, 0), np.uint8), (0, np.int64), (0, np.int64), (0, np.int64),
    ((4, 0), np.int64), ((4, 0), np.int64), ((4, 0), np.int64), (0, np.int64), (0, np.int64),
)  # fmt: skip
"""Shapes and types of `LookedUp` if nothing is looked up: the same types, so that the walk is compiled once."""


def _new_state(variants: int, symbols: int, n: int, length: int, surplus: int, *, adds_up: bool) -> SearchState:
    """Return fresh arrays. Those by variant and depth are empty unless totals are added up."""
    best, worst = no_incumbents(length)
    followed = variants if adds_up else 0
    active = np.zeros((length + 1, followed), dtype=np.int32)
    active[0] = np.arange(followed)
    path = np.zeros((4, length + 2), dtype=np.int64)
    path[N_ACTIVE, 0] = followed
    return SearchState(
        positions=np.zeros((length + 1, followed, n + 1), dtype=np.int16),
        missing=np.zeros((length + 1, followed), dtype=np.int16),
        active=active,
        nodes=np.zeros((length + 1, symbols, 10), dtype=np.int64),
        path=path,
        totals=np.zeros((3, 4, symbols), dtype=np.int64),
        leaving=np.zeros((2, symbols), dtype=np.int64),
        seen=np.zeros((_states(symbols, length) if adds_up else 1, 2), dtype=np.uint64),
        witness=np.zeros((WITNESSES, min(surplus, variants), 2), dtype=np.int64),
        inside=np.zeros(variants, dtype=np.bool_),
        best=best,
        worst=worst,
        cursor=np.zeros(CURSOR_CELLS, dtype=np.int64),
    )


def _tables_looked_up(
    table: NextOccurrences, weights: Ints, loose: Ints, n: int, length: int, *, by_flows: bool
) -> SearchTables | None:
    """Return the totals that the pairs of one candidate share, or None if there are none or they would not fit."""
    tables_part: PartOfTables | None = table.part_of
    if tables_part is None or tables_part.shared is None:
        return None
    shared: SharedTotals = tables_part.shared
    unmatched = shared.table(length)
    if unmatched is None:
        return None
    starts = column_starts(tables_part.occurrences.symbols, length)
    totals = []
    for column, weight in enumerate(weights.T):
        over_all = np.zeros(len(unmatched), dtype=np.int64)
        over_all[tables_part.variants] = weight
        # The records of the later release, and those that a linker leaves free, change little from one earlier release
        # to the next: each kind of weights continues from its own last totals.
        kind = (column, column in (NEW, OPEN) and not by_flows)
        totals.append(shared.totals(kind, over_all, n, length))
    # The loose links under the numbers of all variants; -1 stays -1.
    number, (variant, partner, records) = tables_part.variants, loose.T
    links = np.column_stack((number[variant], number[partner], records))
    links[partner < 0, 1] = -1
    leaving = np.zeros(starts[-1], dtype=np.int64)
    core_leaving = np.zeros(starts[-2], dtype=np.int64)
    add_leaving(unmatched, starts, n, links, leaving, core_leaving)
    looked_up = LookedUp(
        table=unmatched,
        variants=tables_part.variants,
        symbols=tables_part.symbols.astype(np.int64),
        starts=starts,
        all_in=np.stack([by_weight.all_in for by_weight in totals]),
        core=np.stack([by_weight.core for by_weight in totals]),
        root=np.stack([by_weight.root for by_weight in totals]),
        leaving=leaving,
        core_leaving=core_leaving,
    )
    not_added_up = AddedUp(
        first=np.zeros(0, dtype=np.int64),
        after=np.zeros((0, 0), dtype=np.int16),
        weights=np.zeros((0, 4), dtype=np.int64),
        loose=np.zeros((0, 3), dtype=np.int64),
    )
    return SearchTables(not_added_up, looked_up)


def _answer(state: SearchState, ask: FlowQuestion) -> None:
    """Answer the question at which the walk stopped, and keep the linker found as a witness."""
    cursor = state.cursor
    question = int(cursor[ASKED])
    value, free = ask(question, state.inside, int(state.best[BA]))
    cursor[question] = value
    if free is None:
        return
    witness = state.witness[cursor[WITNESS] % WITNESSES]
    variants = np.flatnonzero(free)
    witness[: len(variants), 0] = variants
    witness[: len(variants), 1] = free[variants]
    witness[len(variants) : len(variants) + 1] = 0
    cursor[WITNESS] += 1


def _states(symbols: int, length: int) -> int:
    """Return room for all states that a walk can enter: a power of two, three quarters to spare, at most STATES."""
    nodes, nodes_of_depth = 1, 1
    for _ in range(length - 1):
        nodes_of_depth *= max(1, symbols)
        nodes += nodes_of_depth
        if 4 * nodes >= STATES:
            return STATES
    return max(64, 1 << (4 * nodes - 1).bit_length())


def no_incumbents(length: int) -> tuple[Ints, Codes]:
    """Return the incumbents before a search: no value, no bk.

    Parameters
    ----------
    length
        Symbols of the longest background knowledge.

    Returns
    -------
    best
        int64[measures], NO_VALUE everywhere.
    worst
        int32[measures, length], -1 everywhere.
    """
    best = np.full(len(MEASURES), NO_VALUE, dtype=np.int64)
    return best, np.full((len(MEASURES), length), -1, dtype=np.int32)


# --- The walk (compiled) ---


@kernel
def walk(tables, state):  # type: ignore[no-untyped-def]
    """Walk on until a flow is needed, PAUSE nodes are valued, or all is searched.

    `cursor[ASKED]` then holds the question (for the matching set `inside`), 0, or DONE. At each node first all
    children are valued, which gives incumbents; then the promising ones are entered in the same order.

    Parameters
    ----------
    tables
        `SearchTables`, which the walk reads.
    state
        `SearchState`, which it changes: the path, the incumbents, and the question at which it stops.
    """
    nodes, path, cursor, best = state.nodes, state.path, state.cursor, state.best
    symbols, length = nodes.shape[1], cursor[LENGTH]
    depth = cursor[DEPTH]
    while depth >= 0:
        # Return from time to time, so that a signal is heard. An answered question is used first.
        if cursor[ASKED] == 0 and cursor[NODES] >= cursor[PAUSE]:
            cursor[DEPTH] = depth
            return

        # A node that was just entered: set the totals of its children, and their order.
        if cursor[PLACE] == 0 and cursor[ASKED] == 0:
            if len(tables.looked_up.starts) > 0:
                _look_up_totals(tables.looked_up, state, depth)
            else:
                _add_up_totals(
                    tables.added_up, state.positions[depth], state.missing[depth],
                    state.active[depth, : path[N_ACTIVE, depth]], cursor[N], length - depth - 1, depth == 0,
                    state.totals, state.leaving,
                )  # fmt: skip
            _order_children(state.totals, nodes[depth])

        # Value its children. One that needs a flow stops the walk, which continues here with the answer.
        while cursor[PLACE] < symbols:
            a = nodes[depth, cursor[PLACE], ORDER]
            path[SYMBOL, depth] = a
            needs_flow = _value(state.totals, state.leaving, nodes[depth], best, state.worst, path, cursor, depth, a)
            if needs_flow and cursor[ASKED] == ASK_BA and _is_witnessed(tables, state, depth, a, best[BA]):
                cursor[FLOW_BA] = best[BA]  # at least: a flow would answer the same
                continue
            if needs_flow:
                for v in range(len(state.inside)):
                    state.inside[v] = _matches(tables, state, depth, v, a)
                cursor[DEPTH] = depth
                return
            cursor[PLACE] += 1

        # Nothing is left below: go back to the parent, whose children are all valued.
        if depth == length - 1 or path[NEXT_CHILD, depth] == symbols:
            path[NEXT_CHILD, depth] = 0
            depth -= 1
            continue

        # Enter the next child, if its subtree is promising and was not searched before.
        a = nodes[depth, path[NEXT_CHILD, depth], ORDER]
        path[NEXT_CHILD, depth] += 1
        if _is_promising(best, cursor[LEAST_VALUE], nodes[depth, a]):
            path[SYMBOL, depth] = a
            if _enter(tables, state, depth, a):
                depth += 1
                path[NEXT_CHILD, depth] = 0
                cursor[PLACE] = 0
    cursor[ASKED] = DONE


@part
def _order_children(totals, children):  # type: ignore[no-untyped-def]
    """Set the order to visit the children of a node.

    Small matching sets come first, since a small incumbent prunes more; ties go by the core, then by rarity.
    """
    for a in range(len(children)):
        matching = totals[ALL_IN, C1, a] + totals[ALL_IN, C2, a]
        core = totals[CORE, C1, a] + totals[CORE, C2, a]
        frequency = totals[ROOT, C1, a] + totals[ROOT, C2, a]
        _insert(children, a, _order_key(matching, core, frequency))


@part
def _insert(children, a, key):  # type: ignore[no-untyped-def]
    """Insert child `a` into the order of the children 0..a - 1, by ascending key."""
    place = a
    while place > 0 and children[place - 1, KEY] > key:
        children[place, KEY] = children[place - 1, KEY]
        children[place, ORDER] = children[place - 1, ORDER]
        place -= 1
    children[place, KEY] = key
    children[place, ORDER] = a


@part
def _order_key(matching, core, frequency):  # type: ignore[no-untyped-def]
    """Put three numbers into one integer that sorts by the first, then by the second, then by the third."""
    most = (1 << 20) - 1  # 20 bits each
    return (min(matching, most) << 40) + (min(core, most) << 20) + min(frequency, most)


@part
def _value(totals, leaving, children, best, worst, path, cursor, depth, a):  # type: ignore[no-untyped-def]
    """Value child `a`, offer it as incumbent, and set its bounds. Returns whether a flow is needed first.

    Called for each child, so it takes only the arrays of `state` that it reads; `children` is `nodes[depth]`.

    M is how many records of ms1 the best linker keeps inside ms2, BA how many records of ms2 the best linker leaves
    free. The base linker is one of all linkers, so

        ms1 - leaving       <=  M   <=  ms1
        its own free in ms2 <=  BA  <=  surplus

    A flow is needed only if the exact number could be below the incumbent. Without flows (surplus < 0) the base linker
    is the only one.
    """
    least_value, surplus = cursor[LEAST_VALUE], cursor[SURPLUS]
    has_flows = surplus >= 0
    ms1, ms2 = totals[ALL_IN, C1, a], totals[ALL_IN, C2, a]
    can_be_free = totals[ALL_IN, OPEN, a]
    if cursor[ASKED] == 0:  # a new child, and not the one whose question was just answered
        cursor[NODES] += 1
        cursor[FLOW_M], cursor[FLOW_BA] = -1, -1
    cursor[ASKED] = 0

    m = ms1 - leaving[ALL_IN, a]
    most_m = m
    if cursor[FLOW_M] >= 0:
        m = cursor[FLOW_M]
        most_m = m
    elif has_flows:
        most_m = ms1
        if m < ms1 and max(m, least_value) < max(best[FA], best[CA]):
            cursor[ASKED] = ASK_M

    ba = totals[ALL_IN, NEW, a]
    if cursor[FLOW_BA] >= 0:
        ba = cursor[FLOW_BA]
    elif has_flows and cursor[ASKED] == 0:
        more_can_be_free = can_be_free > 0 and ba < surplus
        if more_can_be_free and max(ba, least_value) < best[BA]:
            cursor[ASKED] = ASK_BA

    if cursor[ASKED] != 0:
        return True

    _offer(best, worst, path, least_value, depth, ms1, ms2, m, ba)
    children[a, MS1], children[a, MS2] = ms1, ms2
    children[a, CORE1], children[a, CORE2] = totals[CORE, C1, a], totals[CORE, C2, a]
    children[a, MOST_M] = most_m
    children[a, CORE_M] = totals[CORE, C1, a] - leaving[CORE, a]
    children[a, MOST_BA] = can_be_free if has_flows else ba
    children[a, CORE_BA] = totals[CORE, NEW, a]
    return False


@part
def _is_witnessed(tables, state, depth, a, enough):  # type: ignore[no-untyped-def]
    """Whether a witness leaves `enough` records of this matching set free. The last to answer is tried first."""
    witness, cursor = state.witness, state.cursor
    n_witnesses = min(cursor[WITNESS], len(witness))
    for turn in range(n_witnesses):
        number = (cursor[LAST] + turn) % n_witnesses
        free_inside = 0
        for k in range(witness.shape[1]):
            variant, records = witness[number, k, 0], witness[number, k, 1]
            if records == 0:
                break
            if _matches(tables, state, depth, variant, a):
                free_inside += records
        if free_inside >= enough:
            cursor[LAST] = number
            return True
    return False


@part
def _offer(best, worst, path, least_value, depth, ms1, ms2, m, ba):  # type: ignore[no-untyped-def]
    """Make the bk of the path the incumbent of every measure of which it has the least value.

    KA counts bk that matches; the attacks count values from `least_value` on (see FLOOR).
    """
    in_first, in_second = ms1 > 0, ms2 > 0
    in_both = in_first and in_second
    if in_first and ms1 < best[KA1]:
        _replace(best, worst, path, depth, KA1, ms1)
    if in_second and ms2 < best[KA2]:
        _replace(best, worst, path, depth, KA2, ms2)
    if in_both and ms1 < best[KA1_COMMON]:
        _replace(best, worst, path, depth, KA1_COMMON, ms1)
    if in_both and ms2 < best[KA2_COMMON]:
        _replace(best, worst, path, depth, KA2_COMMON, ms2)

    is_attacked = in_both if least_value < 0 else in_first or in_second
    if not is_attacked:
        return
    least_counted = max(least_value, 0)
    if least_counted <= m < best[FA]:
        _replace(best, worst, path, depth, FA, m)
    if least_counted <= m < best[CA]:
        _replace(best, worst, path, depth, CA, m)
    if least_counted <= ba < best[BA]:
        _replace(best, worst, path, depth, BA, ba)


@part
def _replace(best, worst, path, depth, measure, value):  # type: ignore[no-untyped-def]
    """Make a value, and the bk of the path, the incumbent of a measure."""
    best[measure] = value
    for d in range(worst.shape[1]):
        worst[measure, d] = path[SYMBOL, d] if d <= depth else -1


@part
def _is_promising(best, least_value, bounds):  # type: ignore[no-untyped-def]
    """Whether the subtree with these bounds can hold a smaller value of any measure.

    A value between the two bounds of its measure is possible. It must count, and be less than the incumbent.
    """
    # KA counts from 1 on.
    in_first, in_second = bounds[MS1] > 0, bounds[MS2] > 0
    in_both = in_first and in_second
    least1, least2 = max(bounds[CORE1], 1), max(bounds[CORE2], 1)
    if (in_first and least1 < best[KA1]) or (in_second and least2 < best[KA2]):
        return True
    if in_both and (least1 < best[KA1_COMMON] or least2 < best[KA2_COMMON]):
        return True

    # The attacks: FA and CA have the same value.
    best_m = max(best[FA], best[CA])
    if least_value > 0:
        smaller_m = bounds[MOST_M] > 0 and max(bounds[CORE_M], 1) < best_m
        smaller_ba = bounds[MOST_BA] > 0 and max(bounds[CORE_BA], 1) < best[BA]
        return smaller_m or smaller_ba
    is_attacked = in_both if least_value < 0 else in_first or in_second
    return is_attacked and (bounds[CORE_M] < best_m or bounds[CORE_BA] < best[BA])


@part
def _matches(tables, state, depth, v, a):  # type: ignore[no-untyped-def]
    """Whether variant v is in the matching set of child `a`."""
    n, looked_up = state.cursor[N], tables.looked_up
    if len(looked_up.starts) > 0:
        return looked_up.table[looked_up.variants[v], _column(looked_up, state.path, depth, a)] <= n
    added_up = tables.added_up
    return is_in(added_up.first, added_up.after, state.positions[depth], state.missing[depth], v, a, n)


@part
def _enter(tables, state, depth, a):  # type: ignore[no-untyped-def]
    """Make child `a` the node of the next depth. False: an equal state was entered before, and its subtree is equal."""
    looked_up = tables.looked_up
    if len(looked_up.starts) > 0:
        state.path[BK_NUMBER, depth + 1] = _column(looked_up, state.path, depth, a) - looked_up.starts[depth]
        return True
    added_up = tables.added_up
    return _advance_all(
        added_up.first, added_up.after, state.positions, state.missing, state.active, state.path[N_ACTIVE], state.seen,
        state.cursor[N], depth, a,
    )  # fmt: skip


# --- Totals that are looked up ---


@part
def _column(looked_up, path, depth, a):  # type: ignore[no-untyped-def]
    """Column of the bk that ends in child `a`: within its length, bk are numbered as digits of base `symbols`."""
    all_symbols = looked_up.starts[1]
    return looked_up.starts[depth] + path[BK_NUMBER, depth] * all_symbols + looked_up.symbols[a]


@part
def _look_up_totals(looked_up, state, depth):  # type: ignore[no-untyped-def]
    """Copy the totals of all children.

    The longest bk have no core of their own: no symbol follows, so all that matches stays.
    """
    totals, leaving = state.totals, state.leaving
    is_last = depth == state.cursor[LENGTH] - 1
    for a in range(totals.shape[2]):
        bk = _column(looked_up, state.path, depth, a)
        symbol = looked_up.symbols[a]
        for weight in range(4):
            totals[ALL_IN, weight, a] = looked_up.all_in[weight, bk]
            totals[CORE, weight, a] = looked_up.all_in[weight, bk] if is_last else looked_up.core[weight, bk]
            totals[ROOT, weight, a] = looked_up.root[weight, symbol]
        leaving[ALL_IN, a] = looked_up.leaving[bk]
        leaving[CORE, a] = looked_up.leaving[bk] if is_last else looked_up.core_leaving[bk]


# --- Totals that are added up ---


@part
def _add_up_totals(  # type: ignore[no-untyped-def]
    added_up, positions, missing, active, n, symbols_left, is_root, totals, leaving
):
    """Add up the totals of all children of a node; `positions`, `missing` and `active` are those of its depth."""
    first, after, weights, loose = added_up.first, added_up.after, added_up.weights, added_up.loose
    if is_root:
        _add_records(first, after, weights, positions, missing, active, 0, totals[ROOT])
    if is_root and n == 0:
        totals[ALL_IN] = totals[ROOT]
    else:
        _add_records(first, after, weights, positions, missing, active, n, totals[ALL_IN])
    _add_loose(first, after, loose, positions, missing, n, leaving[ALL_IN])
    if symbols_left == 0:  # no symbol follows, so all that matches stays; most of the walk is done here
        totals[CORE] = totals[ALL_IN]
        leaving[CORE] = leaving[ALL_IN]
    else:
        _add_records(first, after, weights, positions, missing, active, n - symbols_left, totals[CORE])
        _add_loose(first, after, loose, positions, missing, n - symbols_left, leaving[CORE])


@part
def _add_records(first, after, weights, positions, missing, active, threshold, totals):  # type: ignore[no-untyped-def]
    """Set totals[:, a] to the weights of the variants with at most `threshold` symbols unmatched after symbol a.

    Called for each node, so it takes only the arrays that it reads (of this node's depth).

    A variant v at this node has missing[v] symbols unmatched:

        missing[v] < threshold    matches whatever a is: counted once, in `base`
        missing[v] = threshold    matches iff a occurs after its position with `threshold` symbols unmatched
        missing[v] > threshold    never matches
    """
    totals_c1, totals_c2, totals_new, totals_open = totals[C1], totals[C2], totals[NEW], totals[OPEN]
    symbols = len(totals_c1)
    base_c1, base_c2, base_new, base_open = 0, 0, 0, 0
    for a in range(symbols):
        totals_c1[a], totals_c2[a], totals_new[a], totals_open[a] = 0, 0, 0, 0
    if threshold < 0:
        return
    for v in active:
        if missing[v] < threshold:
            base_c1 += weights[v, C1]
            base_c2 += weights[v, C2]
            base_new += weights[v, NEW]
            base_open += weights[v, OPEN]
        elif missing[v] == threshold:
            # Without branches and by column: the compiler then adds several symbols at once.
            next_position = after[first[v] + positions[v, threshold]]
            c1, c2, new, can_be_free = weights[v, C1], weights[v, C2], weights[v, NEW], weights[v, OPEN]
            for a in range(symbols):
                occurs = np.int64(next_position[a] >= 0)
                totals_c1[a] += occurs * c1
                totals_c2[a] += occurs * c2
                totals_new[a] += occurs * new
                totals_open[a] += occurs * can_be_free
    for a in range(symbols):
        totals_c1[a] += base_c1
        totals_c2[a] += base_c2
        totals_new[a] += base_new
        totals_open[a] += base_open


@part
def _add_loose(first, after, loose, positions, missing, threshold, leaving):  # type: ignore[no-untyped-def]
    """Set leaving[a] to the records that the loose links send from inside the matching set to outside."""
    for a in range(len(leaving)):
        leaving[a] = 0
    if threshold < 0:
        return
    for k in range(len(loose)):
        variant, partner_variant, records = loose[k, 0], loose[k, 1], loose[k, 2]
        if missing[variant] > threshold or (partner_variant >= 0 and missing[partner_variant] < threshold):
            continue  # outside from the start, or the partner stays inside whatever a is
        for a in range(len(leaving)):
            if not is_in(first, after, positions, missing, variant, a, threshold):
                continue
            if partner_variant < 0 or not is_in(first, after, positions, missing, partner_variant, a, threshold):
                leaving[a] += records


@part
@wraps_around
def _advance_all(first, after, positions, missing, active, sizes, seen, n, depth, a):  # type: ignore[no-untyped-def]
    """Set the positions of the next depth after symbol a. Returns whether this state is new.

    Variants with more than n symbols unmatched drop out of `active`. Two nodes of equal depth with equal positions
    have equal subtrees, so the second one need not be entered.
    """
    next_positions, next_missing, next_active = positions[depth + 1], missing[depth + 1], active[depth + 1]
    for v in range(len(first)):
        next_missing[v] = n + 1
    n_active = 0
    hash1, hash2 = np.uint64(depth + 1), np.uint64(n + 7)
    for v in active[depth, : sizes[depth]]:
        if not is_in(first, after, positions[depth], missing[depth], v, a, n):
            continue
        next_missing[v] = advance(first[v], after, positions[depth, v], a, n, next_positions[v])
        next_active[n_active] = v
        n_active += 1
        # Add the variant and its positions to both hashes of the state.
        for unmatched in range(n + 1):
            # Variant and position in one word: hashed one after the other, two states could have equal sums.
            word = np.uint64((np.int64(v) << 16) + next_positions[v, unmatched] + 2)
            hash1 = (hash1 ^ word) * np.uint64(0x9E3779B97F4A7C15)
            hash1 ^= hash1 >> np.uint64(32)
            hash2 = (hash2 + word) * np.uint64(0xC2B2AE3D27D4EB4F)
            hash2 ^= hash2 >> np.uint64(29)
    sizes[depth + 1] = n_active
    return _is_new(seen, hash1, hash2)


@part
def _is_new(seen, hash1, hash2):  # type: ignore[no-untyped-def]
    """Whether a state was not met before; remembers it while there is room in its neighbourhood.

    States are distinguished by 128 bits of hash: a mistake is less likely than an error of the memory it runs in.
    """
    mask = np.uint64(len(seen) - 1)
    place = hash1 & mask
    for _ in range(16):
        if seen[place, 0] == hash1 and seen[place, 1] == hash2:
            return False
        if seen[place, 0] == 0 and seen[place, 1] == 0:
            seen[place, 0] = hash1
            seen[place, 1] = hash2
            return True
        place = (place + np.uint64(1)) & mask
    return True
