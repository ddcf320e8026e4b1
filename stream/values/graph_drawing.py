"""A directly-follows graph as inline SVG: activities in layers from top to bottom, edges as wide as they are frequent.

Layers: edges are taken from the heaviest on, and those that would close a cycle are drawn upwards at the side. An
activity is one layer below its deepest predecessor. Within a layer, activities are near their predecessors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from stream.values import svg
from stream.values.svg import element

BOX_WIDTH, BOX_HEIGHT, GAP, LAYER = 90.0, 40.0, 10.0, 82.0
SIDE = 34.0
"""Room at both sides for edges that go upwards."""
MOST_ABREAST = 5
"""Activities of one row: more would not fit if two graphs are shown side by side. A wider layer takes several rows."""
NAMED_EDGES = 14
"""Heaviest edges whose counts are written."""
LONGEST_LINE = 14
"""Letters of a line of a box; a name takes two lines at most."""
LABEL_WIDTH, LABEL_HEIGHT = 24.0, 10.0

Place = tuple[float, float]


def draw(graph: Mapping[str, Any], most: int | None = None, head: Sequence[Markup] = ()) -> Markup:
    """Draw one graph of the report's data.

    Parameters
    ----------
    graph
        Title, nodes and edges; the heaviest edges come first. An edge whose count is uncertain has `low` and `high`: a
        pale band shows how wide the edge may be.
    most
        The count of the widest edge, if graphs are to be compared; else the graph's own.
    head
        Style and head of the arrows, for a picture that is a file of its own.

    Returns
    -------
    Markup
        The picture; empty for a graph without nodes.
    """
    names = [node["name"] for node in graph["nodes"]]
    if not names:
        return Markup("")
    layers = _layers(names, graph["edges"])
    widest = max(len(row) for row in layers)
    width = max(360.0, 2 * SIDE + widest * (BOX_WIDTH + GAP) - GAP)
    height = len(layers) * LAYER - (LAYER - BOX_HEIGHT) + 16
    places = _places(layers, width)
    body = [*head, *_edges(graph["edges"], places, width, most)]
    body += [_node(node, places[node["name"]]) for node in graph["nodes"]]
    text = f"{graph['title']}: directly-follows graph of {len(names)} activities and {len(graph['edges'])} edges"
    name_space = {"xmlns": svg.NAME_SPACE} if head else {}
    return svg.picture("graph", text, width, height, body, style=f"--natural:{width:g}px", **name_space)


def _layers(names: Sequence[str], edges: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    below: dict[str, set[str]] = defaultdict(set)
    for edge in edges:  # the heaviest come first, so the lightest edge of a cycle is the one that goes upwards
        start, end = edge["from"], edge["to"]
        if start != end and not _reaches(below, end, start):
            below[start].add(end)
    depth = dict.fromkeys(names, 0)
    for _ in names:  # a path has at most as many steps as there are activities
        for name, successors in below.items():
            for successor in successors:
                depth[successor] = max(depth[successor], depth[name] + 1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        rows[depth[name]].append(name)
    layers = []
    for row in _untangled([row for row in rows if row], below):
        layers += [row[begin : begin + MOST_ABREAST] for begin in range(0, len(row), MOST_ABREAST)]
    return layers


def _reaches(below: Mapping[str, set[str]], start: str, goal: str) -> bool:
    waiting, seen = [start], {start}
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        unseen = below.get(name, set()) - seen
        seen |= unseen
        waiting += unseen
    return False


def _untangled(rows: list[list[str]], below: Mapping[str, set[str]]) -> list[list[str]]:
    """Sort each layer by the mean place of its predecessors (one downward sweep)."""
    place: dict[str, float] = {}
    for row in rows:
        mean_place = {}
        for name in row:
            places_above = [
                place[other] for other, successors in below.items() if name in successors and other in place
            ]
            mean_place[name] = sum(places_above) / len(places_above) if places_above else 0.5
        row.sort(key=lambda name: (mean_place[name], name))
        for index, name in enumerate(row):
            place[name] = (index + 0.5) / len(row)
    return rows


def _places(layers: Sequence[Sequence[str]], width: float) -> dict[str, Place]:
    """Return the centre of each box.

    Layers of one box are alternately left and right of the middle, so that long edges have room to pass.
    """
    centres: dict[str, Place] = {}
    for level, row in enumerate(layers):
        span = len(row) * (BOX_WIDTH + GAP) - GAP
        shift = (-1) ** level * 26.0 if len(row) == 1 else 0.0
        for index, name in enumerate(row):
            x = (width - span) / 2 + index * (BOX_WIDTH + GAP) + BOX_WIDTH / 2 + shift
            centres[name] = (x, 8 + level * LAYER + BOX_HEIGHT / 2)
    return centres


def _edges(
    edges: Sequence[Mapping[str, Any]], places: Mapping[str, Place], width: float, most: int | None
) -> list[Markup]:
    """Draw all edges, and over them the counts of the heaviest ones."""
    most = most or max((edge["count"] for edge in edges), default=1)
    paths: list[Markup] = []
    counts: list[Markup] = []
    occupied: list[Place] = []
    for rank, edge in enumerate(edges):
        start, end, count = edge["from"], edge["to"], edge["count"]
        path, label = _path(places[start], places[end], width, start == end)
        kind = "edge only" if edge["shared"] is False else "edge"
        label_text = f"{start} to {end}: {count}"
        if "high" in edge:
            label_text += f" ({edge['low']} to {edge['high']})"
            paths.append(element("path", class_="edge-range", d=path, stroke_width=_stroke(edge["high"], most)))
        shape = {"d": path, "stroke_width": _stroke(edge.get("low", count), most), "marker_end": "url(#_arrow)"}
        paths.append(element("path", *svg.title(label_text), class_=kind, **shape))
        if rank < NAMED_EDGES:
            x, y = _free(label, occupied)
            occupied.append((x, y))
            counts.append(element("text", str(count), class_="edge-count", x=x, y=y, text_anchor="middle"))
    return paths + counts


def _stroke(count: int, most: int) -> str:
    """Return the width of an edge: its area grows with the count."""
    return f"{0.8 + 3.4 * math.sqrt(count / most):.2f}"


def _free(preferred: Place, occupied: Sequence[Place]) -> Place:
    """Return the wanted place of a number, or the nearest one below that no other number covers."""
    x, y = preferred
    while any(abs(x - a) < LABEL_WIDTH and abs(y - b) < LABEL_HEIGHT for a, b in occupied):
        y += LABEL_HEIGHT / 2
    return x, y


def _path(start: Place, end: Place, width: float, loop: bool) -> tuple[str, Place]:
    """Return the path of an edge between the centres of two boxes, and the place of its count."""
    (x1, y1), (x2, y2) = start, end
    half, up = BOX_WIDTH / 2, BOX_HEIGHT / 2
    if loop:
        x = x1 + half
        return f"M{x:.1f},{y1 - 6:.1f} c18,-8 18,20 3,13", (x + 18, y1 + 16)
    if y2 > y1:
        top, bottom = y1 + up, y2 - up - 4
        bend = (y2 - y1) / 2
        curve = f"C{x1:.1f},{top + bend:.1f} {x2:.1f},{bottom - bend:.1f} {x2:.1f},{bottom:.1f}"
        return f"M{x1:.1f},{top:.1f} {curve}", ((x1 + x2) / 2, (top + bottom) / 2)
    # Upwards, along the nearer side of the picture.
    right = (x1 + x2) / 2 >= width / 2
    sign, side = (1, width - 8) if right else (-1, 8.0)
    begin, tip = x1 + sign * half, x2 + sign * (half + 4)
    curve = f"C{side:.1f},{y1:.1f} {side:.1f},{y2:.1f} {tip:.1f},{y2:.1f}"
    middle_of_curve = (begin + 6 * side + tip) / 8
    return f"M{begin:.1f},{y1:.1f} {curve}", (middle_of_curve, (y1 + y2) / 2)


def _node(node: Mapping[str, Any], centre: Place) -> Markup:
    """Return a box with the name on one line or two, and the count of events."""
    x, y = centre
    lines = _lines(node["name"])
    top = y - 5.0 * len(lines) + 3.5
    box = {"x": x - BOX_WIDTH / 2, "y": y - BOX_HEIGHT / 2, "width": BOX_WIDTH, "height": BOX_HEIGHT, "rx": 6.0}
    parts = [*svg.title(f"{node['name']}: {node['count']} events"), element("rect", class_="node", **box)]
    for place, line in enumerate(lines):
        parts.append(element("text", line, class_="node-name", x=x, y=top + 10.5 * place, text_anchor="middle"))
    below = top + 10.5 * len(lines)
    parts.append(element("text", str(node["count"]), class_="node-count", x=x, y=below, text_anchor="middle"))
    return element("g", *parts)


def _lines(name: str) -> list[str]:
    """Return a name on one line or two, cut between two words if possible."""
    if len(name) <= LONGEST_LINE:
        return [name]
    space = name.rfind(" ", 1, LONGEST_LINE + 1)
    if space > 0:
        first, second = name[:space], name[space + 1 :]
    else:
        first, second = name[:LONGEST_LINE], name[LONGEST_LINE:]
    if len(second) > LONGEST_LINE:
        second = second[: LONGEST_LINE - 1] + "…"
    return [first, second]
