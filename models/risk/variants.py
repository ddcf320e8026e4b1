"""Uniqueness on a table of variants: what `trace_uniqueness` measures of a log, where only its variants are known.

A case that shares its variant (and the attributes that the table was counted by) with another is unique given no points
at all. So points are drawn for the rows of one case only, and the shares are of all cases. The figures are those of the
log: equal where all points are known; else another draw of the same distribution, since a row draws where a case did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.errors import InputError
from models.risk.index import TraceIndex
from models.risk.points import RESOURCE, Projection, lacking, view
from models.risk.uniqueness import Points, Uniqueness, beyond, checked, measure
from models.variants import VariantTable


def variant_uniqueness(
    table: VariantTable,
    projection: Projection,
    points: Points | Sequence[Points],
    case_attributes: Sequence[str] = (),
    *,
    draws: int = 20,
    seed: int = 0,
) -> Uniqueness:
    """Return the uniqueness for random points of projections B to F, with the cases of a variant table.

    The event attribute is the resource, if the table was counted by it; `case_attributes` are columns of the table with
    their values. InputError for projection A, which knows times.

    References
    ----------
    reidentification-risk-2020, equation 2.
    """
    if projection == "A":
        raise InputError("projection A knows the times of single cases, which no table of variants has")
    if not table.n_cases:
        raise InputError("the log has no cases; uniqueness has no meaning")
    amounts = tuple(checked(amount) for amount in ([points] if isinstance(points, int | str) else points))
    if draws < 1:
        raise InputError(f"draws = {draws}: at least one draw is needed")
    events = (RESOURCE,) if "resource" in table.knowledge.carries else ()
    found = Uniqueness(
        projection=projection,
        resolution="seconds",
        semantics="joint",
        unit="case",
        adversary="random",
        cases=table.n_cases,
        points=(),
        case_uniqueness=_by_attributes(table, case_attributes) if case_attributes else None,
        event_attributes=events,
        case_attributes=tuple(case_attributes),
    )
    if reason := lacking(projection, events, case_attributes):
        return replace(found, status="not available", reason=reason)
    if projection == "F":
        return found
    index = TraceIndex.build(table.log, view(projection, events, case_attributes))
    index.twin |= table.count > 1
    share = table.log.n_cases / table.n_cases  # what is measured is of the rows
    measured = tuple(
        replace(one, unique_mean=one.unique_mean * share, unique_sd=one.unique_sd * share)
        for one in measure(index, amounts, draws, np.random.default_rng(seed))
    )
    return replace(found, points=measured, notes=beyond(index, amounts))


def _by_attributes(table: VariantTable, attributes: Sequence[str]) -> float:
    """Equation 1: the share of cases whose combination of attributes occurs once."""
    codes = np.stack([table.log.case_values(name).codes for name in attributes], axis=1)
    _, kind = np.unique(codes, axis=0, return_inverse=True)
    return float(np.sum(np.bincount(kind.ravel(), table.count) == 1) / table.n_cases)
