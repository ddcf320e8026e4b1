"""`veilstream advise --noise`: how much utility each epsilon buys, measured on public or older data.

Each mechanism releases the log several times at each epsilon of `EPSILONS`. The releases are compared with the log and
dropped; nothing is published.

Guaranteed: for the people of a log that is released later, an epsilon chosen here reveals nothing, if none of them is
in the log that was measured. It was fixed without their data.
Not guaranteed: anything for the people of the measured log. The figures, and the epsilon chosen by them, are computed
from that log without noise. Measured on the log to be released, the chosen epsilon would be a result of that log that
no epsilon pays for: somebody who knows all other cases can learn from it whether a person is in the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from models.errors import InputError, VeilstreamError
from models.eventlog import EventLog
from models.utility.similarity import likeness
from stream.release.contract import Mechanism
from stream.release.single import exposure_of, mechanism_of

EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "4")
"""Epsilons of one release that are compared. Above 4 a promise excludes little."""

RUNS = 5
"""Releases at each epsilon. With fewer the least and the largest figure do not show the spread."""

DELTA_DP = "1e-6"

CLOSE = 0.05
"""Two figures that differ by less are as good: the runs of one epsilon differ by up to .05 where figures are poor."""

MOST_ERROR = 0.25
"""No epsilon is recommended if a run has a larger DFG error: more than a quarter of the steps would be wrong."""

Origin = Literal["public", "older"]
ORIGINS: tuple[Origin, ...] = ("public", "older")

SAME_LOG = (
    "choosing epsilon on the log that will be released leaks: the chosen epsilon is computed from its cases without "
    "noise, and no epsilon pays for that"
)

MEASURES = {
    "similarity": "1 - earth mover's distance between the variants of log and release (normalised Levenshtein "
    "distance); 1 is equal",
    "dfg_error": "half the sum of differences of relative directly-follows frequencies, with start and end; 0 is equal",
    "empty": "runs whose release had no case; they count as similarity 0 and DFG error 1",
    "activities": "activities of the log that the release shows, on average",
}


@dataclass(frozen=True, slots=True)
class FigureSpread:
    """Mean and extremes of one measure over all runs of one epsilon."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> FigureSpread:
        """Summarize at least one value."""
        return cls(fmean(values), min(values), max(values))

    def as_json(self) -> Mapping[str, float]:
        """Return the figures by name."""
        return {"mean": self.mean, "least": self.least, "most": self.most}


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """Figures of all runs at one epsilon; `MEASURES` describes them."""

    epsilon: str
    similarity: FigureSpread
    dfg_error: FigureSpread
    empty: int
    activities: float

    def as_json(self) -> Mapping[str, Any]:
        """Return the point as `advise --noise --json` prints it."""
        return {
            "epsilon": self.epsilon,
            "similarity": self.similarity.as_json(),
            "dfg_error": self.dfg_error.as_json(),
            "empty": self.empty,
            "activities": self.activities,
        }


@dataclass(frozen=True, slots=True)
class NoiseCurve:
    """Figures of one mechanism by epsilon, and the epsilon to recommend.

    Attributes
    ----------
    kind
        Kind of the mechanism.
    labels
        How it gets its activities: `declared`, `selected`, or `of released variants`.
    points
        One for each epsilon that can release the log, ascending.
    recommended
        The least epsilon that buys nearly as much as the largest one; None if no epsilon is good enough.
    reason
        One sentence with the figures that decided.
    refused
        Each epsilon that cannot release the log, with the reason.
    """

    kind: str
    labels: str
    points: tuple[NoisePoint, ...]
    recommended: str | None
    reason: str
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The mechanism in words."""
        return f"{self.kind}, activities {self.labels}"

    def as_json(self) -> Mapping[str, Any]:
        """Return the curve as `advise --noise --json` prints it."""
        return {
            "mechanism": self.kind,
            "activities": self.labels,
            "points": [point.as_json() for point in self.points],
            "recommended": self.recommended,
            "reason": self.reason,
            "refused": dict(self.refused),
        }


def mechanism_tables(log: EventLog, cases_per_person: int) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the mechanisms to compare without their epsilon, each with how it gets its activities.

    `dp-synthetic` appears twice, since only its user knows whether the activities are public.
    """
    terms = {"delta_dp": DELTA_DP, "cases_per_person": cases_per_person}
    labels = sorted(map(str, log.activity.values))
    tables: list[tuple[str, Mapping[str, Any]]] = []
    if labels:
        tables.append(("declared", {"kind": "dp-synthetic", **terms, "activities": labels}))
    tables.append(("selected", {"kind": "dp-synthetic", **terms}))
    tables.append(("of released variants", {"kind": "dp-variants", **terms}))
    return tables


def total_runs(log: EventLog) -> int:
    """Return how many releases `noise_curves` makes, for a progress bar."""
    return len(mechanism_tables(log, 1)) * len(EPSILONS) * RUNS


def noise_curves(
    log: EventLog,
    cases_per_person: int = 1,
    step: Callable[[], None] = lambda: None,
) -> list[NoiseCurve]:
    """Release a public or older log repeatedly, and return what each epsilon buys.

    Parameters
    ----------
    log
        The log; not the one that will be released.
    cases_per_person
        Cases of one person that the promise covers together.
    step
        Called after each release.

    Returns
    -------
    list of NoiseCurve
        One for each mechanism.

    Raises
    ------
    InputError
        The log has no case.
    """
    if not log.n_cases:
        raise InputError("--noise: the log has no case to measure on")
    return [_curve(log, labels, table, step) for labels, table in mechanism_tables(log, cases_per_person)]


def _curve(log: EventLog, labels: str, table: Mapping[str, Any], step: Callable[[], None]) -> NoiseCurve:
    kind = str(table["kind"])
    settings = {key: value for key, value in table.items() if key != "kind"}
    points = []
    refused = {}
    for epsilon in EPSILONS:
        # Too many labels, or noise of too large a scale: other mechanisms and larger epsilons are
        # worth comparing.
        try:
            tried = mechanism_of(kind, {**settings, "epsilon": epsilon})
            points.append(_point(log, tried, epsilon, step))
        except VeilstreamError as error:
            refused[epsilon] = str(error)
            for _ in range(RUNS):
                step()
    if not points:
        return NoiseCurve(kind, labels, (), None, refused[EPSILONS[-1]], refused)
    recommended, reason = recommendation(points)
    if recommended == points[0].epsilon and refused:
        largest = list(refused)[-1]
        reason = f"{reason}; at {largest} no release is possible: {refused[largest]}"
    return NoiseCurve(kind, labels, tuple(points), recommended, reason, refused)


def _point(log: EventLog, tried: Mechanism, epsilon: str, step: Callable[[], None]) -> NoisePoint:
    """Release the log `RUNS` times with fresh noise, and compare each release with it."""
    exposure = exposure_of(log, (), (), tried)
    similarity, dfg_error, activities = [], [], []
    empty = 0
    for _ in range(RUNS):
        released = tried.build(exposure).log
        figures = likeness(exposure.log, released)
        similarity.append(figures.similarity)
        dfg_error.append(figures.dfg_error)
        shown = set(released.activity.decode()) - {None}
        activities.append(float(len(shown)))
        empty += int(not released.n_cases)
        step()
    return NoisePoint(epsilon, FigureSpread.of(similarity), FigureSpread.of(dfg_error), empty, fmean(activities))


def recommendation(points: Sequence[NoisePoint]) -> tuple[str | None, str]:
    """Return the epsilon to recommend, and the reason; None if no epsilon is good enough.

    It is the least epsilon from which on no run is empty, no run has a DFG error above `MOST_ERROR`, and both means are
    within `CLOSE` of the best means.

    Parameters
    ----------
    points
        Figures by ascending epsilon, at least one.
    """
    # Of equal figures the reason names the larger epsilon.
    largest_first = list(reversed(points))
    most_similar = max(largest_first, key=lambda point: point.similarity.mean)
    least_wrong = min(largest_first, key=lambda point: point.dfg_error.mean)

    def obstacle(point: NoisePoint) -> str:
        """Return why an epsilon is not good enough; empty if it is."""
        if point.empty:
            return f"{point.empty} of {RUNS} releases are empty"
        if point.dfg_error.most > MOST_ERROR:
            return f"a run has a DFG error of {point.dfg_error.most:.3f}, above {MOST_ERROR}"
        if point.similarity.mean < most_similar.similarity.mean - CLOSE:
            return (
                f"similarity {point.similarity.mean:.3f} is more than {CLOSE} below that at {most_similar.epsilon} "
                f"({most_similar.similarity.mean:.3f})"
            )
        if point.dfg_error.mean > least_wrong.dfg_error.mean + CLOSE:
            return (
                f"DFG error {point.dfg_error.mean:.3f} is more than {CLOSE} above that at {least_wrong.epsilon} "
                f"({least_wrong.dfg_error.mean:.3f})"
            )
        return ""

    chosen: NoisePoint | None = None
    below = ""
    for point in largest_first:
        why_not = obstacle(point)
        if why_not:
            below = f"at {point.epsilon} {why_not}"
            break
        chosen = point
    if chosen is None:
        return None, f"no epsilon up to {points[-1].epsilon} is good enough: {below}"
    figures = (
        f"similarity {chosen.similarity.mean:.3f} (best {most_similar.similarity.mean:.3f}), DFG error "
        f"{chosen.dfg_error.mean:.3f} (best {least_wrong.dfg_error.mean:.3f}), no run empty"
    )
    if not below:
        return chosen.epsilon, f"{figures}; it is the least that was measured, and less may do"
    return chosen.epsilon, f"{figures}; {below}"


def refuse_same_log(measured: Path, to_release: Path, logs: tuple[EventLog, EventLog]) -> None:
    """Refuse a measurement on cases that will be released.

    A case is in both logs if its identifier, first time and first activity are the same: a case that continues is
    found. Cases that got new identifiers are not found.

    Parameters
    ----------
    measured, to_release
        Names of both files; equal bytes are refused too.
    logs
        Their content.

    Raises
    ------
    InputError
        The files are equal, or share a case. The message contains no identifier.
    """
    if _digest(measured) == _digest(to_release):
        raise InputError(f"--noise: {measured} is the log that will be released; {SAME_LOG}. Use public or older data")
    shared = len(_begun_cases(logs[0]) & _begun_cases(logs[1]))
    if shared:
        raise InputError(
            f"--noise: {shared} cases of {measured} are also in {to_release}; {SAME_LOG}. Remove these cases from the "
            "older log, or use other data"
        )


def _digest(path: Path) -> bytes:
    """Return the SHA-256 of a file; of the name of a folder or of standard input, which have no bytes to read twice."""
    if not path.is_file():
        return str(path.absolute()).encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _begun_cases(log: EventLog) -> set[tuple[str, int, str]]:
    """Return identifier, first time and first activity of each case with events."""
    names = log.activity.decode()
    begun = set()
    for case, (start, end) in enumerate(zip(log.starts[:-1].tolist(), log.starts[1:].tolist(), strict=True)):
        if start < end:
            begun.add((str(log.case_ids[case]), int(log.time[start]), str(names[start])))
    return begun
