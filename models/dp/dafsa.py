"""The minimal deterministic acyclic finite state automaton of a set of variants.

Source: differentially-private-release-2023, definition 3.2 (Daciuk et al. 2000). States that share their set of
suffixes are one. Built as a trie of the sorted variants whose subtrees are interned from the leaves up: the result is
the automaton that Daciuk's incremental construction gives, since the minimal one is unique.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.compiled import kernel
from models.eventlog import Codes, Ints


@dataclass(frozen=True, slots=True)
class Dafsa:
    """* `source`, `label`, `target`: int32[T], one row per transition; state 0 is the initial one;
    * `final`: bool[S];
    * `starts`: int64[V + 1], `path`: int32[P]: transitions of variant v are path[starts[v]:starts[v+1]].
    """

    source: Codes
    label: Codes
    target: Codes
    final: npt.NDArray[np.bool_]
    starts: Ints
    path: Codes

    @property
    def n_states(self) -> int:
        return len(self.final)

    @property
    def n_transitions(self) -> int:
        return len(self.label)


def minimal_dafsa(variants: Sequence[tuple[int, ...]]) -> Dafsa:
    """The minimal automaton that accepts exactly `variants` (distinct sequences of labels >= 0)."""
    lengths = np.asarray([len(variant) for variant in variants], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    symbols = np.asarray([label for variant in variants for label in variant], dtype=np.int64)
    order = np.asarray(sorted(range(len(variants)), key=variants.__getitem__), dtype=np.int64)
    edge, parent, label, following, first, final = _trie(starts, symbols, order)
    state, accepts = _intern(label, following, first, final)
    width = int(symbols.max(initial=0)) + 1
    distinct, representative, transition = np.unique(
        state[parent] * width + label, return_index=True, return_inverse=True
    )
    return Dafsa(
        source=(distinct // width).astype(np.int32),
        label=(distinct % width).astype(np.int32),
        target=state[representative + 1].astype(np.int32),
        final=accepts,
        starts=starts,
        path=transition[edge].astype(np.int32),
    )


@kernel
def _trie(starts: Ints, symbols: Ints, order: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Trie of the variants taken in sorted `order`: node n + 1 is entered by edge n, children and later siblings have
    larger numbers. Gives the edge of every symbol; parent, label and next sibling (-1: none) of every edge; first
    child edge (-1: none) and acceptance of every node."""
    edge_of_symbol = np.full(len(symbols), -1, dtype=np.int64)
    parent = np.empty(len(symbols), dtype=np.int64)
    label = np.empty(len(symbols), dtype=np.int64)
    following = np.full(len(symbols), -1, dtype=np.int64)
    first = np.full(len(symbols) + 1, -1, dtype=np.int64)
    last = np.full(len(symbols) + 1, -1, dtype=np.int64)
    final = np.zeros(len(symbols) + 1, dtype=np.bool_)
    size = 0
    before = -1
    for variant in order:
        begin, end = starts[variant], starts[variant + 1]
        node = 0
        shared = True
        for position in range(begin, end):
            if before >= 0 and shared:
                other = starts[before] + position - begin
                shared = other < starts[before + 1] and symbols[other] == symbols[position]
                if shared:
                    edge_of_symbol[position] = edge_of_symbol[other]
            if before < 0 or not shared:
                parent[size], label[size] = node, symbols[position]
                if last[node] < 0:
                    first[node] = size
                else:
                    following[last[node]] = size
                last[node] = size
                edge_of_symbol[position] = size
                size += 1
            node = edge_of_symbol[position] + 1
        final[node] = True
        before = variant
    return edge_of_symbol, parent[:size], label[:size], following[:size], first[: size + 1], final[: size + 1]


@kernel
def _intern(
    label: Ints, following: Ints, first: Ints, final: npt.NDArray[np.bool_]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """State of each trie node, equal for equal subtrees, 0 for the root; and whether each state accepts.

    Subtrees are binary (first child, next sibling) and interned like Lisp lists: an edge by (label, state below, class
    of the later siblings), a node by (accepts, class of its first child edge). Open addressing, at most half full.
    """
    nodes = len(final)
    mask = 1
    while mask < 4 * nodes:
        mask *= 2
    mask -= 1
    table = np.full(mask + 1, -1, dtype=np.int64)
    keys = np.empty((2 * nodes, 3), dtype=np.int64)
    classes = 0
    below = np.empty(nodes, dtype=np.int64)
    tail = np.full(nodes, -1, dtype=np.int64)  # class of the sibling list from each edge on; the last slot is "none"
    for item in range(2 * nodes - 2, -1, -1):
        node = (item + 1) // 2
        if item % 2 == 0:  # the node itself, before the edge that enters it
            a, b, c = -1 - np.int64(final[node]), tail[first[node]], np.int64(0)
        else:
            a, b, c = label[node - 1], below[node], tail[following[node - 1]]
        slot = (a * 0x9E3779B1 + b * 0x85EBCA6B + c * 0xC2B2AE35) * 0x27D4EB2F
        slot = (slot ^ (slot >> 17)) & mask
        while table[slot] >= 0:
            found = table[slot]
            if keys[found, 0] == a and keys[found, 1] == b and keys[found, 2] == c:
                break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = classes
            keys[classes, 0], keys[classes, 1], keys[classes, 2] = a, b, c
            classes += 1
        if item % 2 == 0:
            below[node] = table[slot]
        else:
            tail[node - 1] = table[slot]
    return _numbered(below, keys)


@kernel
def _numbered(below: Ints, keys: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Classes of nodes as 0, 1, 2 ... in order of first appearance from the root, and whether each accepts."""
    number = np.full(len(keys), -1, dtype=np.int64)
    state = np.empty(len(below), dtype=np.int64)
    accepts = np.zeros(len(below), dtype=np.bool_)
    size = 0
    for node in range(len(below)):
        if number[below[node]] < 0:
            number[below[node]] = size
            accepts[size] = keys[below[node], 0] == -2
            size += 1
        state[node] = number[below[node]]
    return state, accepts[:size]
