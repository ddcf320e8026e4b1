"""The process model of a map: BPMN and PNML, discovered from the traces behind its counts.

The traces are those that were fitted to noisy counts (`models.dp.process_map`), so a model of them is post-processing.
The miner is the inductive miner infrequent (Leemans, Fahland and van der Aalst, *Discovering block-structured process
models from event logs containing infrequent behaviour*, BPM 2013), by pm4py. That for directly-follows graphs, which
needs the counts alone, finds a flower of the map of BPIC 2013 (F1 .77 on the true log, and not .95).

Not guaranteed: that the model allows what cases did. Rare behaviour is left out (`NOISE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.content_free import content_free
from models.eventlog import EventLog
from models.utility.discovery import NOISE, as_frame, quiet_pm4py

NET = "model"
"""Name of the Petri net. The name that pm4py gives has the moment of the discovery, which a release must not show."""


@content_free()
@dataclass(frozen=True, slots=True)
class MapModel:
    """A model of a map in both notations, as the bytes of its files."""

    bpmn: bytes
    pnml: bytes


def discover(
    traces: Mapping[tuple[int, ...], int], labels: Sequence[str], written: Callable[[str], str] = str
) -> MapModel:
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
    pm4py: Any, traces: Mapping[tuple[int, ...], int], labels: Sequence[str], written: Callable[[str], str] = str
) -> tuple[Any, Any, Any]:
    """Return the Petri net of a map, with its initial and its final marking."""
    net, initial, final = pm4py.convert_to_petri_net(_tree(pm4py, traces, labels, written))
    net.name = NET
    return net, initial, final


def visible_labels(pm4py: Any, path: Path) -> tuple[str, ...]:
    """Return the sorted labels of the activities in a BPMN or PNML file."""
    if path.suffix == ".pnml":
        net, _, _ = pm4py.read_pnml(str(path))
        return tuple(sorted(t.label for t in net.transitions if t.label is not None))
    from pm4py.objects.bpmn.obj import BPMN

    nodes = pm4py.read_bpmn(str(path)).get_nodes()
    return tuple(sorted(node.get_name() for node in nodes if isinstance(node, BPMN.Task)))


def _tree(
    pm4py: Any, traces: Mapping[tuple[int, ...], int], labels: Sequence[str], written: Callable[[str], str]
) -> Any:
    """Return the process tree; a silent step if there is no trace.

    The miner sees numbers in place of labels: no text of a log has a meaning for it.
    """
    from pm4py.objects.process_tree.obj import ProcessTree

    if not traces:
        return ProcessTree()
    cases = [(tuple(map(str, trace)), None) for trace, number in traces.items() for _ in range(number)]
    frame = as_frame(EventLog.from_traces(cases))
    tree = pm4py.discover_process_tree_inductive(frame, noise_threshold=NOISE)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.label is not None:
            node.label = written(labels[int(node.label)])
    return tree


def _bpmn_bytes(bpmn: Any) -> bytes:
    from pm4py.objects.bpmn.exporter.variants import etree

    return _as_bytes(etree.get_xml_string(bpmn))


def _pnml_bytes(net: Any, initial: Any, final: Any) -> bytes:
    from pm4py.objects.petri_net.exporter.variants import pnml

    return _as_bytes(pnml.export_petri_as_string(net, initial, final))


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
