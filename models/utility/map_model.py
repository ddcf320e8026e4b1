"""The process model of a map: BPMN and PNML, discovered from the traces behind its counts.

The traces are those that were fitted to noisy counts (`models.dp.process_map`), so a model of them is post-processing.
The miner is the inductive miner infrequent (Leemans, Fahland and van der Aalst, *Discovering block-structured process
models from event logs containing infrequent behaviour*, BPM 2013), by pm4py. The variant for directly-follows graphs
would need the counts alone, but it finds a flower model for the map of BPIC 2013 (F1 .77 on the true log, not .95).

Several models are mined, of all traces and of the most frequent ones (`PARTS`), with two thresholds
(`THRESHOLDS`). The one with the largest F1 of fitness and precision on the fitted traces is shown. Noise
fills rare steps, and the miner cuts at thresholds: with one setting, little noise decides whether a model
is near to a flower. The choice reads the fitted traces alone, so it is post-processing as well.

Not guaranteed: that the model allows what cases did. Rare behaviour is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.content_free import content_free
from models.eventlog import EventLog
from models.utility.discovery import NOISE, as_frame, model_quality, quiet_pm4py

NET = "model"
"""Name of the Petri net. The name that pm4py gives has the moment of the discovery, which a release must not show."""

PARTS = (1.0, 0.8, 0.6, 0.45, 0.3)
"""Parts of the cases, those of the most frequent traces, that models are mined from; the largest first."""

THRESHOLDS = (NOISE, 0.4)
"""Noise thresholds of the miner."""

MEASURED_CASES = 500
"""Most cases that the F1 of a model is measured on: all traces of a long log would take minutes a model."""

MARGIN = 0.02
"""F1 that 500 cases do not tell apart: of models so near to the best, the one of the most cases is shown."""

MOST_LABELS = 40
"""Labels of a map up to which several models are mined. With 64 one of random traces takes 20 CPU s, and is a flower
with any setting: only that of all cases is mined."""

Traces = Mapping[tuple[int, ...], int]
"""Cases of each trace, whose labels are places in the labels of the map."""


@content_free()
@dataclass(frozen=True, slots=True)
class MapModel:
    """A model of a map in both notations, as the bytes of its files.

    Attributes
    ----------
    bpmn, pnml
        Content of the BPMN and of the PNML file.
    """

    bpmn: bytes
    pnml: bytes


def discover(traces: Traces, labels: Sequence[str], written: Callable[[str], str] = str) -> MapModel:
    """Discover the model of a map.

    Parameters
    ----------
    traces
        Cases of each trace, whose labels are places in `labels`.
    labels
        Labels of the map.
    written
        Gives the text of a label in the files, such as one without characters that XML lacks.
    """
    with quiet_pm4py() as pm4py:
        net, initial, final = petri_net(pm4py, traces, labels, written)
        bpmn = pm4py.convert_to_bpmn(_tree(pm4py, traces, labels, written))
        return MapModel(_bpmn_bytes(bpmn), _pnml_bytes(net, initial, final))


def petri_net(
    pm4py: Any, traces: Traces, labels: Sequence[str], written: Callable[[str], str] = str
) -> tuple[Any, Any, Any]:
    """Return the Petri net of a map, with its initial and its final marking.

    Parameters
    ----------
    pm4py
        The library, imported by `quiet_pm4py`.
    traces, labels
        Traces of the map, as places in the labels, and the cases of each.
    written
        Returns the text of a label in the net.
    """
    net, initial, final = pm4py.convert_to_petri_net(_tree(pm4py, traces, labels, written))
    net.name = NET
    return net, initial, final


def visible_labels(pm4py: Any, path: Path) -> tuple[str, ...]:
    """Return the sorted labels of the activities in a BPMN or PNML file.

    Parameters
    ----------
    pm4py
        The library, imported by the caller.
    path
        The file; its suffix names the format.
    """
    if path.suffix == ".pnml":
        net, _, _ = pm4py.read_pnml(str(path))
        return tuple(sorted(t.label for t in net.transitions if t.label is not None))
    from pm4py.objects.bpmn.obj import BPMN

    nodes = pm4py.read_bpmn(str(path)).get_nodes()
    return tuple(sorted(node.get_name() for node in nodes if isinstance(node, BPMN.Task)))


def _tree(pm4py: Any, traces: Traces, labels: Sequence[str], written: Callable[[str], str]) -> Any:
    """Return the process tree; a silent step if there is no trace.

    The miner sees numbers in place of labels: no text of a log has a meaning for it.
    """
    from pm4py.objects.process_tree.obj import ProcessTree

    if not traces:
        return ProcessTree()
    trees = _mined(pm4py, traces)
    few_labels = len(set().union(*traces)) <= MOST_LABELS
    tree = _best(pm4py, trees, traces) if few_labels else next(trees)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.label is not None:
            node.label = written(labels[int(node.label)])
    return tree


def _best(pm4py: Any, trees: Iterable[Any], traces: Traces) -> Any:
    """Return the tree with the largest F1 on the traces; of those within `MARGIN` of it, the first."""
    measured_on = _log(evenly(traces, MEASURED_CASES))
    different = {str(tree): tree for tree in trees}
    rated = []
    for tree in different.values():
        net = pm4py.convert_to_petri_net(tree)
        rated.append((model_quality(pm4py, measured_on, net, "replay").f1, tree))
    best = max(f1 for f1, _ in rated)
    return next(tree for f1, tree in rated if f1 >= best - MARGIN)


def _mined(pm4py: Any, traces: Traces) -> Iterator[Any]:
    """Yield the process tree of each part of the cases, the largest first, by each threshold."""
    for part in PARTS:
        frame = as_frame(_log(most_frequent(traces, part)))
        for threshold in THRESHOLDS:
            yield pm4py.discover_process_tree_inductive(frame, noise_threshold=threshold)


def most_frequent(traces: Traces, part: float) -> dict[tuple[int, ...], int]:
    """Return the most frequent traces that have a part of the cases, and one more for each label that they lack.

    A model has every activity of the map: token replay passes over activities that a model lacks, so a
    model of few of them would be rated too well.

    Parameters
    ----------
    traces
        Cases of each trace.
    part
        Share of the cases, 0 to 1.
    """
    enough = part * sum(traces.values())
    kept: dict[tuple[int, ...], int] = {}
    labels: set[int] = set()
    n_cases = 0
    for trace, number in sorted(traces.items(), key=lambda row: (-row[1], len(row[0]), row[0])):
        if n_cases < enough or not labels.issuperset(trace):
            kept[trace] = number
            labels.update(trace)
            n_cases += number
    return kept


def evenly(traces: Traces, most: int) -> dict[tuple[int, ...], int]:
    """Return so many cases at equal distances in the order of the traces; all of them if they are no more.

    Parameters
    ----------
    traces
        Cases of each trace.
    most
        Most cases to return.
    """
    in_order = sorted(traces)
    upto = np.cumsum([traces[trace] for trace in in_order])
    n_cases = int(upto[-1])
    if n_cases <= most:
        return dict(traces)
    at = (np.arange(most) + 0.5) * n_cases / most
    places, numbers = np.unique(np.searchsorted(upto, at, side="right"), return_counts=True)
    return {in_order[place]: number for place, number in zip(places.tolist(), numbers.tolist(), strict=True)}


def _log(traces: Traces) -> EventLog:
    """Return the cases as a log of numbers."""
    return EventLog.from_traces(
        [(tuple(map(str, trace)), None) for trace, number in traces.items() for _ in range(number)]
    )


def _bpmn_bytes(bpmn: Any) -> bytes:
    from pm4py.objects.bpmn.exporter.variants import etree

    return _as_bytes(etree.get_xml_string(bpmn))


def _pnml_bytes(net: Any, initial: Any, final: Any) -> bytes:
    from pm4py.objects.petri_net.exporter.variants import pnml

    return _as_bytes(pnml.export_petri_as_string(net, initial, final))


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
