"""Process maps and models under noise: dp-model, dp-synthetic, AIM and DPIM by one miner and one measure.

The miner is the inductive miner infrequent of pm4py (`models.utility.discovery`), over the traces behind
each release. dp-model and DPIM release a model themselves: the best of several by this miner
(`models.utility.map_model`), and a process tree. Fitness (token replay) and precision are those of the
model on the true log. The DFG error is that of `models.utility.similarity`. AIM and DPIM run as their
authors ship them, each in an interpreter and from a checkout of its own (`Peer`).

AIM releases tables of rows, and one case has many steps. `AimSteps` bounds what a case adds, so that the unit of its
claim is one case, as it is for dp-model and dp-synthetic.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.field.likeness import CpuLimit, spent
from benchmarks.field.tools import DELTA, LENGTH, PeerError, Traces, ask_peer, log_of, released
from models.dp import process_map, synthetic
from models.dp.synthesis.contexts import VariantSteps
from models.dp.synthesis.table import VariantCounts
from models.errors import VeilstreamError
from models.eventlog import EventLog
from models.utility.discovery import NOISE, as_frame, model_quality, quiet_pm4py
from models.utility.map_model import petri_net
from models.utility.similarity import dfg_error

ITSELF, SYNTHETIC, MAP = "the true log (no privacy)", "dp-synthetic (ours)", "dp-model (ours)"
AIM, DPIM = "AIM", "DPIM"
PROGRAMS = (ITSELF, MAP, SYNTHETIC, AIM, DPIM)
"""In the order of the page."""

RELEASES = 5
PEER_LIMIT = 600
"""CPU seconds that one release of AIM or DPIM may take."""
MODEL_LIMIT = 120
"""CPU seconds for fitness and precision of one model."""
COUNTS_ALONE = ("bpic2012",)
"""Logs on which no model is measured: token replay takes minutes a model."""

AIM_SETTINGS = ((1, 1), (4, 1), (12, 1), (1, LENGTH), (4, LENGTH), (12, LENGTH))
"""Steps of a case that count in full in the tables of AIM, and positions that they tell apart. The pair with the least
DFG error of one release is measured. This choice reads the true log and no epsilon is paid for it, in favour of AIM."""

MOST_WALKS = 20_000
LONGEST_WALK = 200

DPIM_SETTINGS = {
    "sepsis": {"lower": 120, "upper": 150, "threshold": 0.95},
    "bpic2013-incidents": {"lower": 5, "upper": 20, "threshold": 0.85},
    "bpic2012": {"lower": 120, "upper": 150, "threshold": 0.85},
}
"""Bounds of the number of pairs and threshold of the fitness: those of its authors (README and evaluation sheet)."""

Net = tuple[Any, Any, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program of others: the Python that has its packages, and the folder of its code."""

    python: str
    code: str


@dataclass(frozen=True, slots=True)
class MapResult:
    """One release.

    Attributes
    ----------
    find_model
        Returns the model with its markings; None if the program gave none.
    dfg_error
        None if the program releases no counts.
    """

    find_model: Callable[[], Net | None]
    dfg_error: float | None
    cpu: float
    setting: tuple[int, int] | None = None
    """Of AIM: see `AIM_SETTINGS`."""


@dataclass(frozen=True, slots=True)
class AimSteps:
    """Weighted rows (previous, next, position) of all cases.

    A case of s steps (with start and end) has s rows of the weight min(1 / cap, 1 / s). Its weights add up to at most
    1, so adding or removing a case changes every marginal by at most 1 in L1, and so in L2. This is what one row
    changes in a table of unweighted rows, and what AIM's noise and its choice of marginals are made for. So the claim
    of AIM holds for one case.

    Attributes
    ----------
    rows : int64[R, 3]
        Distinct rows. Activity A is the start in the first column and the end in the second one. The last
        position also represents all later ones.
    weights : float64[R]
    sizes
        Numbers of values of the columns.
    """

    rows: npt.NDArray[np.int64]
    weights: Floats
    sizes: tuple[int, int, int]

    @classmethod
    def of(cls, table: VariantCounts, cap: int, positions: int) -> AimSteps:
        """Return the rows of all cases."""
        labels = len(table.alphabet)
        steps = VariantSteps.of(table.variants, labels)
        sizes = (labels + 1, labels + 1, positions)
        columns = (steps.before, steps.after, np.minimum(steps.place, positions - 1))
        cells = np.ravel_multi_index(columns, sizes)
        steps_of_variant = np.bincount(steps.variant, minlength=len(table.variants))
        weight_of_step = np.minimum(1 / cap, 1 / steps_of_variant)
        weights = np.bincount(cells, weights=(table.counts * weight_of_step)[steps.variant], minlength=np.prod(sizes))
        taken = np.flatnonzero(weights)
        return cls(np.column_stack(np.unravel_index(taken, sizes)), weights[taken], sizes)


def map_key(log: str, epsilon: float, program: str) -> str:
    """Key of a result."""
    return f"map {log} {epsilon:g} {program}"


def measured_maps(
    name: str, log: EventLog, epsilon: float, program: str, *, peer: Peer | None, releases: int = RELEASES
) -> dict[str, Any]:
    """Measure some releases of a program: means, and the least and the largest F1."""
    release = _releases(name, log, epsilon, peer)[program]
    results: list[MapResult] = []
    note = ""
    for _ in range(1 if program == ITSELF else releases):
        try:
            results.append(release())
        except (PeerError, VeilstreamError) as error:
            note = str(error)
            break
    return _summary(log, results, models=name not in COUNTS_ALONE) | {"note": note}


def best_setting(log: EventLog, epsilon: float, peer: Peer) -> tuple[int, int]:
    """Return the setting of AIM with the least DFG error in one release each."""
    errors = {setting: aim_release(log, epsilon, setting, peer)[1] for setting in AIM_SETTINGS}
    return min(errors, key=lambda setting: errors[setting])


def _releases(name: str, log: EventLog, epsilon: float, peer: Peer | None) -> dict[str, Callable[[], MapResult]]:
    def itself() -> MapResult:
        return MapResult(lambda: _mined(log), 0.0, 0.0)

    def aim() -> MapResult:
        assert peer is not None
        if not settings:
            settings.append(best_setting(log, epsilon, peer))
        traces, error, cpu = aim_release(log, epsilon, settings[0], peer)
        return MapResult(lambda: _mined(log_of(traces)), error, cpu, settings[0])

    settings: list[tuple[int, int]] = []
    return {
        ITSELF: itself,
        SYNTHETIC: lambda: _synthetic(log, epsilon),
        MAP: lambda: _map(log, epsilon),
        AIM: aim,
        DPIM: lambda: _dpim(name, log, epsilon, peer),
    }


def _synthetic(log: EventLog, epsilon: float) -> MapResult:
    design = synthetic.Design(activities=_labels(log))
    begin = spent()
    release = synthetic.release_synthetic(log, epsilon=repr(epsilon), delta_dp=repr(DELTA), design=design)
    cpu = spent() - begin
    return MapResult(lambda: _mined(log_of(released(release.log))), dfg_error(log, release.log), cpu)


def _map(log: EventLog, epsilon: float) -> MapResult:
    labels = _labels(log)
    design = process_map.map_design(activities=labels)
    begin = spent()
    steps = process_map.release_map(log, epsilon=repr(epsilon), delta_dp=repr(DELTA), design=design).steps
    cpu = spent() - begin
    error = steps_error(_true_steps(VariantCounts.of(log, steps.labels)), steps.counts)

    def find_model() -> Net:
        with quiet_pm4py() as pm4py:
            return petri_net(pm4py, steps.traces, steps.labels)

    return MapResult(find_model, error, cpu)


def aim_release(log: EventLog, epsilon: float, setting: tuple[int, int], peer: Peer) -> tuple[Traces, float, float]:
    """Return traces that follow a table of AIM, the DFG error, and CPU seconds.

    The DFG error is that of the (previous, next) cells or of the traces, whichever is less.
    """
    labels = _labels(log)
    table = VariantCounts.of(log, labels)
    steps = AimSteps.of(table, *setting)
    question = {
        "code": peer.code,
        "epsilon": epsilon,
        "delta": DELTA,
        "sizes": steps.sizes,
        "rows": steps.rows.tolist(),
        "weights": steps.weights.tolist(),
    }
    answer = ask_peer(peer.python, "aim_peer.py", question, PEER_LIMIT)
    cells = np.maximum(np.asarray(answer["table"]).reshape(steps.sizes), 0.0)
    traces = walks(cells)
    named = Counter({tuple(labels[place] for place in trace): count for trace, count in traces.items()})
    error_of_cells = steps_error(_true_steps(table), cells.sum(axis=2))
    return named, min(error_of_cells, dfg_error(log, log_of(named))), float(answer["cpu"])


def walks(cells: Floats) -> Counter[tuple[int, ...]]:
    """Draw traces that follow a table: each next activity by the one before it and by the position.

    Positions that the table does not have for an activity are read from all positions of it. It is post-processing.

    Parameters
    ----------
    cells : float64[A + 1, A + 1, P]
        Weights of (previous, next, position) as `AimSteps` has them.
    """
    end = cells.shape[0] - 1
    generator = np.random.default_rng()
    anywhere = cells.sum(axis=2)
    cases = round(float(cells.sum()))  # the true weights add up to at most the number of cases
    traces: Counter[tuple[int, ...]] = Counter()
    chances: dict[tuple[int, int], Floats] = {}
    for _ in range(min(max(cases, 1), MOST_WALKS)):
        trace: list[int] = []
        activity = end
        for position in range(LONGEST_WALK):
            key = activity, min(position, cells.shape[2] - 1)
            if key not in chances:
                chances[key] = _cumulated(cells[activity, :, key[1]], anywhere[activity])
            activity = int(np.searchsorted(chances[key], generator.random(), side="right"))
            if activity == end:
                break
            trace.append(activity)
        if trace:
            traces[tuple(trace)] += 1
    return traces


def _cumulated(weights: Floats, otherwise: Floats) -> Floats:
    """Return cumulated chances of the next activity; the end alone if no weight is known."""
    for choice in (weights, otherwise):
        if choice.sum() > 0:
            return np.asarray(np.cumsum(choice[:-1]) / choice.sum())
    return np.zeros(len(weights) - 1)


def _dpim(name: str, log: EventLog, epsilon: float, peer: Peer | None) -> MapResult:
    assert peer is not None
    cases = [[str(activity) for activity in trace] for trace in log.traces()]
    question = {"code": peer.code, "epsilon": epsilon, "cases": cases, **DPIM_SETTINGS[name]}
    answer = ask_peer(peer.python, "dpim_peer.py", question, PEER_LIMIT)
    if answer["model"] is None:
        return MapResult(lambda: None, None, answer["cpu"])
    with quiet_pm4py() as pm4py, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pnml"
        path.write_text(answer["model"], encoding="utf-8")
        net = pm4py.read_pnml(str(path))
    return MapResult(lambda: net, None, answer["cpu"])


def _mined(log: EventLog) -> Net | None:
    if not log.n_events:
        return None
    with quiet_pm4py() as pm4py:
        net: Net = pm4py.discover_petri_net_inductive(as_frame(log), noise_threshold=NOISE)
        return net


def _labels(log: EventLog) -> tuple[str, ...]:
    return tuple(sorted(map(str, log.activity.values)))


def _true_steps(table: VariantCounts) -> Floats:
    """Return float64[A + 1, A + 1]: how often each activity follows each, with start and end in the last place."""
    labels = len(table.alphabet)
    steps = VariantSteps.of(table.variants, labels)
    cells = np.zeros((labels + 1, labels + 1))
    np.add.at(cells, (steps.before, steps.after), table.counts[steps.variant])
    return cells


def steps_error(true: Floats, counts: npt.NDArray[Any]) -> float:
    """Return half the sum of the differences of relative frequencies; 1 for counts that are all 0."""
    total = counts.sum()
    if not total:
        return 1.0
    return 0.5 * float(np.abs(true / true.sum() - counts / total).sum())


def _summary(log: EventLog, results: list[MapResult], *, models: bool) -> dict[str, Any]:
    """Return means; a release without a model counts in `without_model` alone."""
    nets = [result.find_model() for result in results] if models else []
    summary: dict[str, Any] = {"releases": len(results), "without_model": sum(net is None for net in nets)}
    if results:
        summary["cpu"] = fmean(result.cpu for result in results)
        summary["setting"] = results[0].setting
    errors = [result.dfg_error for result in results if result.dfg_error is not None]
    if errors:
        summary["dfg_error"] = fmean(errors)
    qualities = [quality for net in nets if (quality := _quality(log, net)) is not None]
    summary["measured_models"] = len(qualities)
    if qualities:
        for figure in ("fitness", "precision", "f1"):
            summary[figure] = fmean(quality[figure] for quality in qualities)
        summary["f1_least"] = min(quality["f1"] for quality in qualities)
        summary["f1_most"] = max(quality["f1"] for quality in qualities)
    return summary


def _quality(log: EventLog, net: Net | None) -> dict[str, float] | None:
    """Return fitness, precision and F1 of a model on the true log; None without a model or without time."""
    if net is None:
        return None
    try:
        with CpuLimit(MODEL_LIMIT), quiet_pm4py() as pm4py:
            return model_quality(pm4py, log, net, "replay").as_json()
    except TimeoutError:
        return None
