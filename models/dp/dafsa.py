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
from models.content_free import content_free
from models.eventlog import Codes, Ints, starts_of


@content_free()
@dataclass(frozen=True, slots=True)
class Dafsa:
    """A deterministic acyclic finite state automaton; state 0 is the initial one.

    Attributes
    ----------
    source, label, target : int32[T]
        One row per transition.
    final : bool[S]
        Accepting states.
    starts : int64[V + 1]
    path : int32[P]
        Transitions of variant v are path[starts[v]:starts[v + 1]].
    """

    source: Codes
    label: Codes
    target: Codes
    final: npt.NDArray[np.bool_]
    starts: Ints
    path: Codes

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.final)

    @property
    def n_transitions(self) -> int:
        """Number of transitions."""
        return len(self.label)


def minimal_dafsa(variants: Sequence[tuple[int, ...]]) -> Dafsa:
    """Build the minimal automaton that accepts exactly `variants` (distinct sequences of labels >= 0).

    Parameters
    ----------
    variants
        The sequences.

    Returns
    -------
    Dafsa
        Its states are numbered from the initial one on. `path` has the transitions of each variant.
    """
    lengths = np.asarray([len(variant) for variant in variants], dtype=np.int64)
    starts = starts_of(lengths)
    symbols = np.asarray([label for variant in variants for label in variant], dtype=np.int64)
    order = np.asarray(sorted(range(len(variants)), key=variants.__getitem__), dtype=np.int64)
    entered, parent, label, final = _trie(starts, symbols, order)
    subtree = 2 * _children(parent, label, final) + final
    _, first, alike = np.unique(subtree, return_index=True, return_inverse=True)
    appearance = np.argsort(first)
    state = np.argsort(appearance)[alike]
    width = label.max() + 1
    distinct, representative, transition = np.unique(
        state[parent[1:]] * width + label[1:], return_index=True, return_inverse=True
    )
    return Dafsa(
        source=(distinct // width).astype(np.int32),
        label=(distinct % width).astype(np.int32),
        target=state[1:][representative].astype(np.int32),
        final=final[first[appearance]],
        starts=starts,
        path=transition[entered - 1].astype(np.int32),
    )


@kernel
def _trie(starts: Ints, symbols: Ints, order: Ints) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Build the trie of the variants, taken in sorted `order`.

    Node 0 is the root; children and later siblings have larger numbers. Returns the node that every symbol leads to,
    and parent (of the root: 0), label (of the root: -1) and acceptance of every node. As the variants are sorted, a
    child that exists already is the newest child of its parent.
    """
    nodes = len(symbols) + 1
    entered = np.empty(len(symbols), dtype=np.int64)
    parent = np.zeros(nodes, dtype=np.int64)
    label = np.full(nodes, -1, dtype=np.int64)
    newest = np.zeros(nodes, dtype=np.int64)  # without a child the root, whose label no symbol has
    final = np.zeros(nodes, dtype=np.bool_)
    size = 1
    for variant in order:
        node = 0
        for position in range(starts[variant], starts[variant + 1]):
            child = newest[node]
            if label[child] != symbols[position]:
                child = size
                parent[child], label[child], newest[node] = node, symbols[position], child
                size += 1
            entered[position] = child
            node = child
        final[node] = True
    return entered, parent[:size], label[:size], final[:size]


@kernel
def _children(parent: Ints, label: Ints, final: npt.NDArray[np.bool_]) -> Ints:
    """Assign a number to the children of each trie node, equal for equal ones.

    0 means no children; else the number is the node that was first to be the eldest of such children. Nodes are taken
    from the last to the first and interned like Lisp lists, by (label, class of the children, later siblings). Open
    addressing, at most half full.
    """
    classes = np.zeros(len(label), dtype=np.int64)
    table = np.zeros(2 * len(label), dtype=np.int64)
    below, later = np.empty_like(classes), np.empty_like(classes)
    for node in range(len(label) - 1, 0, -1):
        below[node], later[node] = 2 * classes[node] + final[node], classes[parent[node]]
        slot = hash((label[node], below[node], later[node])) % len(table)
        same_node = table[slot]
        while same_node and (
            label[same_node] != label[node] or below[same_node] != below[node] or later[same_node] != later[node]
        ):
            slot = (slot + 1) % len(table)
            same_node = table[slot]
        if not same_node:
            table[slot] = node
        classes[parent[node]] = table[slot]
    return classes
