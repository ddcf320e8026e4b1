"""Linkability: two halves of what is known of one person lead to the same released record.

The case of a target is cut into two views. Each view is compared with the release alone, and its nearest records are
its candidates. The attack succeeds if the views have a candidate in common: somebody who holds both views, from two
sources, then knows that they are about one person. The files do not say which record stems from whom, so
agreement is what is counted (as Anonymeter does for tables).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

from models.disclosure.intervals import AttackRisk, against_control, against_guess
from models.disclosure.material import Material
from models.eventlog import Codes, Ints

CANDIDATES = 5
"""Nearest records of a view; of records at the same distance, those are random."""

Halves = Callable[[Codes], tuple[Codes, Codes]]


def _odd_and_even(trace: Codes) -> tuple[Codes, Codes]:
    return trace[::2], trace[1::2]


def _early_and_late(trace: Codes) -> tuple[Codes, Codes]:
    middle = (len(trace) + 1) // 2
    return trace[:middle], trace[middle:]


VIEWS: Mapping[str, Halves] = {"odd and even items": _odd_and_even, "early and late items": _early_and_late}
"""The ways in which a case is cut into two views."""

ATTRIBUTES = "items and attributes"
"""The two views of a case if its attributes are known: the first half of its items, and its attributes."""


def linkability(
    material: Material, targets: Ints, controls: Ints, measures: int, rng: np.random.Generator
) -> dict[str, AttackRisk | None]:
    """Return the risk by the way in which cases are cut into views; None if no target, or no control, can be cut.

    Parameters
    ----------
    material
        The logs.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Breaks ties between records at the same distance.
    """
    original, control, _ = material.rows(material.traces)
    rows, control_rows = original[targets], control[controls]
    result: dict[str, AttackRisk | None] = {}
    for name, cut in VIEWS.items():
        result[name] = _risk(
            material, [_agreements(material, some, cut, rng) for some in (rows, control_rows)], measures
        )
    if material.profile.attributes:
        result[ATTRIBUTES] = _risk(
            material, [_attribute_agreements(material, some, rng) for some in (rows, control_rows)], measures
        )
    return result


def _risk(material: Material, agreements: list[tuple[int, int]], measures: int) -> AttackRisk | None:
    (successes, attacked), (by_chance, controls) = agreements
    if not attacked:
        return None
    if not material.n_control:
        return against_guess(successes, attacked, _chance(material.n_released))
    return against_control(successes, attacked, by_chance, controls, measures) if controls else None


def _chance(records: int) -> float:
    """Probability that two random choices of the candidates have one in common."""
    k = min(CANDIDATES, records)
    apart = 1.0
    for taken in range(k):
        apart *= max(records - k - taken, 0) / (records - taken)
    return 1 - apart


def _agreements(material: Material, rows: Ints, cut: Halves, rng: np.random.Generator) -> tuple[int, int]:
    """Return how many targets have a candidate in common, and how many could be cut in two."""
    views = [cut(material.trace(row)) for row in rows.tolist() if len(material.trace(row)) >= 2]
    if not views:
        return 0, 0
    first = _Nearest(material, [first_half for first_half, _ in views])
    second = _Nearest(material, [second_half for _, second_half in views])
    agreed = 0
    for number in range(len(views)):
        agreed += bool(first.candidates(number, rng) & second.candidates(number, rng))
    return agreed, len(views)


def _attribute_agreements(material: Material, rows: Ints, rng: np.random.Generator) -> tuple[int, int]:
    """As `_agreements`, for a view of the items and one of the attributes."""
    chosen = [row for row in rows.tolist() if len(material.trace(row))]
    if not chosen:
        return 0, 0
    nearest = _Nearest(material, [_early_and_late(material.trace(row))[0] for row in chosen])
    agreed = 0
    for number, row in enumerate(chosen):
        by_attributes = nearest.records(np.flatnonzero(material.same_attributes(row, nearest.rows)), rng)
        agreed += bool(nearest.candidates(number, rng) & by_attributes)
    return agreed, len(chosen)


class _Nearest:
    """Nearest released records of several views.

    A record is nearer if it lacks fewer items of the view (longest common subsequence), and of records that lack as
    many, if its length is nearer to twice that of the view, which is half of a case.
    """

    def __init__(self, material: Material, views: list[Codes]) -> None:
        self.rows, texts = material.shown_texts
        self._weight = material.released_weight[self.rows]
        self._ends = np.cumsum(self._weight)
        lengths = np.diff(material.traces.starts)[self.rows]
        sizes = np.asarray([len(view) for view in views], dtype=np.int64)
        queries = [material.text(view) for view in views]
        lacking = cdist(queries, texts, scorer=LCSseq.similarity, dtype=np.int32)
        self._distance = (sizes[:, None] - lacking) * (int(lengths.max()) + 2 * int(sizes.max()) + 1)
        self._distance += np.abs(lengths[None, :] - 2 * sizes[:, None])

    def candidates(self, view: int, rng: np.random.Generator) -> set[int]:
        """Return the numbers of the nearest records of a view."""
        distance = self._distance[view]
        kth = min(CANDIDATES, len(distance))
        near = np.flatnonzero(distance <= np.partition(distance, kth - 1)[kth - 1])
        chosen: set[int] = set()
        for level in np.unique(distance[near]).tolist():
            chosen |= self.records(near[distance[near] == level], rng, CANDIDATES - len(chosen))
            if len(chosen) >= CANDIDATES:
                break
        return chosen

    def records(self, places: Ints, rng: np.random.Generator, wanted: int = CANDIDATES) -> set[int]:
        """Return numbers of random records among those of some rows (places in `rows`)."""
        weight = self._weight[places]
        total = int(weight.sum())
        picks = rng.choice(total, size=min(wanted, total), replace=False)
        ends = np.cumsum(weight)
        at = np.searchsorted(ends, picks, side="right")
        inside = picks - (ends[at] - weight[at])
        first = self._ends[places[at]] - self._weight[places[at]]
        return set((first + inside).tolist())
