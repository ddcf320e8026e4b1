"""A directly-follows graph as inline SVG: activities in layers from top to bottom, edges as wide as they are frequent.

Layers: edges are taken from the heaviest on, those that would close a cycle are drawn upwards at the side; an
activity stands one layer below its deepest predecessor. Within a layer, activities stand near their predecessors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from markupsafe import Markup

BOX_WIDTH, BOX_HEIGHT, GAP, LAYER = 90.0, 40.0, 10.0, 82.0
SIDE = 34.0
"""Room at both sides for edges that go upwards."""
MOST_ABREAST = 5
"""Activities of one row: more would not fit beside the other graph; a wider layer takes several rows."""
NAMED_EDGES = 14
LONGEST_LINE = 14
"""Letters of a line of a box; a name takes two lines at most."""
LABEL_WIDTH, LABEL_HEIGHT = 24.0, 10.0

Place = tuple[float, float]


def draw(graph: Mapping[str, Any], most: int | None = None) -> Markup:
    """The SVG of one graph of the report's data; empty for a graph without nodes. `most`: the count of the widest
    edge, where graphs are to be compared (default: the graph's own)."""
    names = [node["name"] for node in graph["nodes"]]
    if not names:
        return Markup("")
    layers = _layers(names, graph["edges"])
    width = max(360.0, 2 * SIDE + max(len(row) for row in layers) * (BOX_WIDTH + GAP) - GAP)
    height = len(layers) * LAYER - (LAYER - BOX_HEIGHT) + 16
    places = _places(layers, width)
    body = [*_edges(graph["edges"], places, width, most), *_nodes(graph["nodes"], places)]
    text = f"{graph['title']}: directly-follows graph of {len(names)} activities and {len(graph['edges'])} edges"
    return Markup(  # noqa: S704 - every text in it went through escape()
        f'<svg class="graph" role="img" aria-label="{escape(text, quote=True)}" style="--natural:{width:g}px" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(body)}</svg>'
    )


def _layers(names: Sequence[str], edges: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    below: dict[str, set[str]] = defaultdict(set)
    for edge in edges:  # heaviest first
        a, b = edge["from"], edge["to"]
        if a != b and not _reaches(below, b, a):
            below[a].add(b)
    depth = dict.fromkeys(names, 0)
    for _ in names:  # a path has at most as many steps as there are activities
        for a, found in below.items():
            for b in found:
                depth[b] = max(depth[b], depth[a] + 1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        rows[depth[name]].append(name)
    sorted_rows = _untangled([row for row in rows if row], below)
    return [row[at : at + MOST_ABREAST] for row in sorted_rows for at in range(0, len(row), MOST_ABREAST)]


def _reaches(below: Mapping[str, set[str]], start: str, goal: str) -> bool:
    waiting, seen = [start], {start}
    while waiting:
        here = waiting.pop()
        if here == goal:
            return True
        more = below.get(here, set()) - seen
        seen |= more
        waiting += more
    return False


def _untangled(rows: list[list[str]], below: Mapping[str, set[str]]) -> list[list[str]]:
    """Each layer sorted by the mean place of its predecessors (one downward sweep)."""
    place: dict[str, float] = {}
    for row in rows:
        above = {name: [place[a] for a, found in below.items() if name in found and a in place] for name in row}
        row.sort(key=lambda name: (sum(above[name]) / len(above[name]) if above[name] else 0.5, name))
        place |= {name: (index + 0.5) / len(row) for index, name in enumerate(row)}
    return rows


def _places(layers: Sequence[Sequence[str]], width: float) -> dict[str, Place]:
    """Centre of each box. Layers of one stand alternately off the middle, so that long edges pass beside them."""
    found: dict[str, Place] = {}
    for level, row in enumerate(layers):
        span = len(row) * (BOX_WIDTH + GAP) - GAP
        shift = (-1) ** level * 26.0 if len(row) == 1 else 0.0
        for index, name in enumerate(row):
            x = (width - span) / 2 + index * (BOX_WIDTH + GAP) + BOX_WIDTH / 2 + shift
            found[name] = (x, 8 + level * LAYER + BOX_HEIGHT / 2)
    return found


def _edges(
    edges: Sequence[Mapping[str, Any]], places: Mapping[str, Place], width: float, most: int | None
) -> Iterator[str]:
    most = most or max((edge["count"] for edge in edges), default=1)
    labels: list[str] = []
    taken: list[Place] = []
    for rank, edge in enumerate(edges):
        stroke = 0.8 + 3.4 * math.sqrt(edge["count"] / most)
        path, label = _path(places[edge["from"]], places[edge["to"]], width, edge["from"] == edge["to"])
        kind = "edge only" if edge["shared"] is False else "edge"
        text = escape(f"{edge['from']} to {edge['to']}: {edge['count']}")
        yield (
            f'<path class="{kind}" d="{path}" stroke-width="{stroke:.2f}" marker-end="url(#_arrow)">'
            f"<title>{text}</title></path>"
        )
        if rank < NAMED_EDGES:
            x, y = _free(label, taken)
            taken.append((x, y))
            count = edge["count"]
            labels.append(f'<text class="edge-count" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{count}</text>')
    yield from labels


def _free(wanted: Place, taken: Sequence[Place]) -> Place:
    """The wanted place of a number, or the nearest one below that no other number covers."""
    x, y = wanted
    while any(abs(x - a) < LABEL_WIDTH and abs(y - b) < LABEL_HEIGHT for a, b in taken):
        y += LABEL_HEIGHT / 2
    return x, y


def _path(start: Place, end: Place, width: float, loop: bool) -> tuple[str, Place]:
    (x1, y1), (x2, y2) = start, end
    half, up = BOX_WIDTH / 2, BOX_HEIGHT / 2
    if loop:
        x = x1 + half
        return f"M{x:.1f},{y1 - 6:.1f} c18,-8 18,20 3,13", (x + 18, y1 + 16)
    if y2 > y1:
        bend = (y2 - y1) / 2
        a, b = y1 + up, y2 - up - 4
        return f"M{x1:.1f},{a:.1f} C{x1:.1f},{a + bend:.1f} {x2:.1f},{b - bend:.1f} {x2:.1f},{b:.1f}", (
            (x1 + x2) / 2,
            (a + b) / 2,
        )
    right = (x1 + x2) / 2 >= width / 2
    sign = 1 if right else -1
    edge = width - 8 if right else 8.0
    a, b = x1 + sign * half, x2 + sign * (half + 4)
    return f"M{a:.1f},{y1:.1f} C{edge:.1f},{y1:.1f} {edge:.1f},{y2:.1f} {b:.1f},{y2:.1f}", (
        (a + 6 * edge + b) / 8,  # the middle of the curve
        (y1 + y2) / 2,
    )


def _nodes(nodes: Sequence[Mapping[str, Any]], places: Mapping[str, Place]) -> Iterator[str]:
    for node in nodes:
        x, y = places[node["name"]]
        name = node["name"]
        lines = _lines(name)
        top = y - 5.0 * len(lines) + 3.5
        yield (
            f"<g><title>{escape(name)}: {node['count']} events</title>"
            f'<rect class="node" x="{x - BOX_WIDTH / 2:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" rx="6" '
            f'width="{BOX_WIDTH:g}" height="{BOX_HEIGHT:g}"/>'
            + "".join(
                f'<text class="node-name" x="{x:.1f}" y="{top + 10.5 * at:.1f}" text-anchor="middle">'
                f"{escape(line)}</text>"
                for at, line in enumerate(lines)
            )
            + f'<text class="node-count" x="{x:.1f}" y="{top + 10.5 * len(lines):.1f}" text-anchor="middle">'
            f"{node['count']}</text></g>"
        )


def _lines(name: str) -> list[str]:
    """A name on one line or two, cut at a word where there is one."""
    if len(name) <= LONGEST_LINE:
        return [name]
    space = name.rfind(" ", 1, LONGEST_LINE + 1)
    first, rest = (name[:space], name[space + 1 :]) if space > 0 else (name[:LONGEST_LINE], name[LONGEST_LINE:])
    return [first, rest if len(rest) <= LONGEST_LINE else rest[: LONGEST_LINE - 1] + "…"]
