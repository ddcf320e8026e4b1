"""Directly-follows graphs of releases, as the report draws them: the heaviest edges, numbered activities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.eventlog import EventLog
from stream.ledger import variants
from stream.operator.report.document import Graph
from stream.operator.report.knowledge import Names

MOST_NODES, MOST_EDGES = 24, 36
"""More than that cannot be read; what is left out is counted on the page."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Activities with their events, and how often one directly follows another."""

    nodes: Counter[str]
    edges: Counter[tuple[str, str]]


def flow(log: EventLog) -> Flow:
    """The directly-follows counts of a log; events without an activity count for nothing."""
    codes, names = log.activity.codes, log.activity.values
    inner = np.ones(log.n_events, dtype=np.bool_)
    inner[log.starts[:-1][log.lengths > 0]] = False
    later = np.flatnonzero(inner)
    pairs, times = np.unique(np.stack([codes[later - 1], codes[later]]), axis=1, return_counts=True)
    edges: Counter[tuple[str, str]] = Counter()
    for (a, b), count in zip(pairs.T.tolist(), times.tolist(), strict=True):
        if a >= 0 and b >= 0:
            edges[str(names[a]), str(names[b])] = count
    seen, counts = np.unique(codes[codes >= 0], return_counts=True)
    nodes = {str(names[code]): count for code, count in zip(seen.tolist(), counts.tolist(), strict=True)}
    return Flow(Counter(nodes), edges)


def released(folder: Path) -> EventLog | None:
    """What a release held, from the operator's variants.parquet; None where it is not kept."""
    path = folder / "variants.parquet"
    return variants.read(path).log if path.is_file() else None


def shown(found: Flow, names: Names, title: str, other: Flow | None) -> Graph:
    """The graph for the page: its heaviest nodes and edges, how many of each it leaves out, and which edges the
    other graph has too (`shared`, null where there is no other)."""
    kept = dict(found.nodes.most_common(MOST_NODES))
    chosen = _chosen(found, set(kept))
    edges: list[Mapping[str, Any]] = [
        {
            "from": names.label(a),
            "to": names.label(b),
            "count": count,
            "shared": None if other is None else (a, b) in other.edges,
        }
        for (a, b), count in chosen
    ]
    return {
        "title": title,
        "nodes": [{"name": names.label(name), "count": count} for name, count in kept.items()],
        "edges": edges,
        "left_out": {"nodes": len(found.nodes) - len(kept), "edges": len(found.edges) - len(edges)},
    }


def _chosen(found: Flow, kept: set[str]) -> list[tuple[tuple[str, str], int]]:
    """Heaviest edges first; every activity keeps its heaviest way in, so that none stands alone."""
    inside = [(pair, count) for pair, count in found.edges.most_common() if set(pair) <= kept]
    ways_in: dict[str, tuple[str, str]] = {}
    for (a, b), _ in inside:
        if a != b:
            ways_in.setdefault(b, (a, b))
    needed = set(ways_in.values())
    room = MOST_EDGES - len(needed)
    others = {pair for pair, _ in [edge for edge in inside if edge[0] not in needed][: max(0, room)]}
    return [edge for edge in inside if edge[0] in needed or edge[0] in others]
