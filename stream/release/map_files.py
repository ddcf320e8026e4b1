"""The files of a release of a process map: counts as JSON, a model as BPMN and PNML, and the map as SVG and HTML.

They are made from noisy numbers alone, in an order that these and the labels decide. Nothing in them depends on when
or how they were made: file formats that keep the moment of their writing would show how long a build took.

Names of activities are text of the source. Pages show markup in them as text; characters that XML does not have are
replaced by U+FFFD in all files but `dfg.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
from markupsafe import Markup

from models.dp.process_map import COVERAGE, MapTimes, StepCounts
from models.utility.discovery import quiet_pm4py
from models.utility.map_model import discover, visible_labels
from stream.ledger.layout import MAP_COUNTS
from stream.values import graph_drawing
from stream.values.svg import NAME_SPACE, element, picture
from stream.values.visible import visible, visible_json

VERSION = 1
"""Version of dfg.json."""

BPMN, PNML, SVG, HTML = "model.bpmn", "model.pnml", "map.svg", "map.html"
FILES = (MAP_COUNTS, BPMN, PNML, SVG, HTML)

START, END = "start", "end"
"""Names of the start and the end of cases in the drawing, if no activity has this name."""

MOST_EDGES = 80
"""Most edges of the drawing: more cannot be distinguished. `dfg.json` and the table of `map.html` have all of them."""

STYLE = Markup("""
:root { color-scheme: light dark; --ground: #ffffff; --ink: #16191d; --soft: #4c5560; --line: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --ink: #e9ecef; --soft: #aab3bd; --line: #78b0f2; } }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--ground); color: var(--ink); }
body, text { font-family: system-ui, sans-serif; }
text { fill: var(--ink); font-size: 9.5px; }
.node { fill: var(--ground); stroke: var(--soft); }
.node-name { font-size: 10px; font-weight: 600; }
.node-count { fill: var(--soft); }
.edge, .edge-range { fill: none; stroke: var(--line); opacity: .75; }
.edge-range { opacity: .2; }
.arrow { fill: var(--soft); }
.edge-count { paint-order: stroke; stroke: var(--ground); stroke-width: 3px; }
table { border-collapse: collapse; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--soft); text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
""")

INTERVAL = (
    f"An interval covers the true number with a chance of {COVERAGE:.0%}, as far as the noise goes. It is about steps "
    "of cases that the noisy counts hold in full; of cases with more repeated steps than case_weight allows, a part "
    "was counted, and the rest is an estimate."
)
"""Sentence for readers of the counts."""


def map_files(steps: StepCounts, times: MapTimes | None = None) -> dict[str, bytes]:
    """Return the content of each file of a release, by name; `times` if they are released."""
    counts = document(steps, times)
    model = discover(steps.traces, steps.labels, visible)
    return {
        MAP_COUNTS: visible_json(msgspec.json.format(msgspec.json.encode(counts), indent=1)) + b"\n",
        BPMN: model.bpmn,
        PNML: model.pnml,
        SVG: ('<?xml version="1.0" encoding="utf-8"?>\n' + str(_drawing(counts)) + "\n").encode(),
        HTML: _page(counts).encode(),
    }


def document(steps: StepCounts, times: MapTimes | None = None) -> dict[str, Any]:
    """Return the content of `dfg.json`.

    `from` is null for the start of cases, and `to` for their end. Steps come by their counts, then by their labels.
    With times a step between two activities has `seconds`: the median of its durations, an interval of the median, and
    whether it is readable.
    """
    names = [*steps.labels, None]
    is_listed = (steps.counts != 0) | (steps.low != 0)
    before, after = np.nonzero(is_listed)
    order = np.argsort(-steps.counts[before, after], kind="stable")
    listed = zip(before[order].tolist(), after[order].tolist(), strict=True)
    cases = steps.cases
    throughput: dict[str, Any] = {}
    if times is not None:
        quantiles = {"median": times.throughput / 1000, "quantile_90": times.throughput_90 / 1000}
        throughput = {"throughput_seconds": quantiles}
    return {
        "version": VERSION,
        "activities": [
            {"name": name, "count": int(steps.counts[place].sum())} for place, name in enumerate(steps.labels)
        ],
        "cases": {"count": cases.count, "low": cases.low, "high": cases.high},
        "steps": [{"from": names[step[0]], "to": names[step[1]], **_numbers_of(step, steps, times)} for step in listed],
        "unlisted": {"count": 0, "high": int(steps.high[~is_listed].max(initial=0))},
        **throughput,
        "coverage": COVERAGE,
        "case_weight": steps.case_weight,
        "reading": [INTERVAL],
    }


def _numbers_of(step: tuple[int, int], steps: StepCounts, times: MapTimes | None) -> dict[str, Any]:
    """Return the count of a step, given as its row and column, and its median time if it has one."""
    numbers = {"count": int(steps.counts[step]), "low": int(steps.low[step]), "high": int(steps.high[step])}
    median = None if times is None else times.steps.get(step)
    if median is None:
        return numbers
    seconds = {
        "median": median.median / 1000,
        "low": median.low / 1000,
        "high": median.high / 1000,
        "readable": median.is_readable,
    }
    return {**numbers, "seconds": seconds}


def faults(folder: Path, written: Mapping[str, bytes]) -> list[str]:
    """Return why the files of a map must not leave: one of them is not what was written, or its readers cannot read it.

    Lines name files and nothing of the data.

    Parameters
    ----------
    folder
        The prepared folder of the release.
    written
        The content of each file.
    """
    lines = []
    for name, content in written.items():
        if (folder / name).read_bytes() != content:
            lines.append(f"read back from {name}: its bytes are not those that were written")
    if lines:
        return lines
    counts = msgspec.json.decode(written[MAP_COUNTS])
    in_counts = {visible(row["name"]) for row in counts["activities"]}
    with quiet_pm4py() as pm4py:
        for name in (BPMN, PNML):
            try:
                labels = visible_labels(pm4py, folder / name)
            except Exception as error:  # noqa: BLE001 - of pm4py's readers, which raise anything
                lines.append(f"read back from {name}: it cannot be read ({type(error).__name__})")
                continue
            if not set(labels) <= in_counts:
                lines.append(f"read back from {name}: an activity that the counts do not have")
    for name in (SVG, HTML):
        try:
            root = ElementTree.parse(folder / name).getroot()  # noqa: S314 - our own bytes, compared above
        except ElementTree.ParseError:
            lines.append(f"read back from {name}: it cannot be read")
            continue
        if any(part.tag.rpartition("}")[2] == "script" for part in root.iter()):
            lines.append(f"read back from {name}: it has a script")
    return lines


def _drawing(counts: Mapping[str, Any]) -> Markup:
    """Return the picture of the heaviest edges, with a band from the least to the largest count of each."""
    names = {visible(row["name"]) for row in counts["activities"]}
    start, end = _free(START, names), _free(END, names)
    edges = []
    for row in counts["steps"][:MOST_EDGES]:
        before = start if row["from"] is None else visible(row["from"])
        after = end if row["to"] is None else visible(row["to"])
        numbers = {"count": row["count"], "low": row["low"], "high": row["high"]}
        edges.append({"from": before, "to": after, "shared": None, **numbers})
    drawn = {edge[place] for edge in edges for place in ("from", "to")}
    number = {visible(row["name"]): row["count"] for row in counts["activities"]}
    number |= dict.fromkeys((start, end), counts["cases"]["count"])
    nodes = [{"name": name, "count": number[name]} for name in [start, *sorted(names), end] if name in drawn]
    head = [element("style", STYLE), _arrow()]
    drawn_map = graph_drawing.draw({"title": "Process map", "nodes": nodes, "edges": edges}, head=head)
    return drawn_map or picture("graph", "Process map without steps", 1, 1, [], xmlns=NAME_SPACE)


def _free(name: str, used_names: set[str]) -> str:
    """Return the name, in brackets as often as an activity is called so."""
    while name in used_names:
        name = f"({name})"
    return name


def _arrow() -> Markup:
    tip = element("path", class_="arrow", d="M0,0 L8,4 L0,8 z")
    view = {"viewBox": "0 0 8 8", "orient": "auto", "markerUnits": "userSpaceOnUse"}
    size: dict[str, str | float] = {"refX": 4, "refY": 4, "markerWidth": 7, "markerHeight": 7}
    return element("defs", element("marker", tip, id="_arrow", **view, **size))


def _page(counts: Mapping[str, Any]) -> str:
    """Return the page with the map and all counts. It has no script, and loads nothing."""
    only_styles = "default-src 'none'; style-src 'unsafe-inline'"
    policy = element("meta", http_equiv="Content-Security-Policy", content=only_styles)
    encoding = element("meta", charset="utf-8")
    head = element("head", encoding, policy, element("title", "Process map"), element("style", STYLE))
    cases = counts["cases"]
    sentences = [f"{cases['count']} cases, between {cases['low']} and {cases['high']}.", *counts["reading"]]
    left_out = len(counts["steps"]) - MOST_EDGES
    if left_out > 0:
        sentences.append(f"The picture has the {MOST_EDGES} most frequent steps; {left_out} others are in the table.")
    unlisted = counts["unlisted"]["high"]
    sentences.append(f"A step that is not listed was counted 0 times, and occurs {unlisted} times at most.")
    columns = ["from", "to", "steps", "at least", "at most"]
    is_timed = "throughput_seconds" in counts
    if is_timed:
        columns.append("median time")
        throughput = counts["throughput_seconds"]
        middle, late = _duration(throughput["median"]), _duration(throughput["quantile_90"])
        sentences.append(f"Half of the cases take up to {middle}, nine tenths up to {late}.")
    header = element("tr", *(element("th", name) for name in columns))
    rows = []
    for row in counts["steps"]:
        names = [
            START if row["from"] is None else visible(row["from"]),
            END if row["to"] is None else visible(row["to"]),
        ]
        numbers = [element("td", str(row[key]), class_="number") for key in ("count", "low", "high")]
        if is_timed:
            numbers.append(element("td", _median(row.get("seconds")), class_="number"))
        rows.append(element("tr", *(element("td", name) for name in names), *numbers))
    table = element("table", element("thead", header), element("tbody", *rows))
    paragraphs = [element("p", sentence) for sentence in sentences]
    body = element("body", element("h1", "Process map"), *paragraphs, _drawing(counts), table)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _median(seconds: Mapping[str, Any] | None) -> str:
    """Return a median for the table: empty for the start and the end of cases, and for one that is mostly noise."""
    if seconds is None:
        return ""
    if not seconds["readable"]:
        return "too noisy"
    return f"{_duration(seconds['median'])} ({_duration(seconds['low'])} to {_duration(seconds['high'])})"


def _duration(seconds: float) -> str:
    """Return a duration in its largest unit of which it has one."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
