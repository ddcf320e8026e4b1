"""What leaves of the attributes of a case (`release_attributes`): never a value that singles it out by itself.

A sensitive attribute leaves as the classes that C bounds: numbers as their classes (the mechanism's bins, else
quartiles), and values of fewer than K cases as `other`, together with the next rarest ones until `other` stands for at
least K cases. A public attribute leaves as it is. Where cases leave in cohorts that never change, all of this is
decided within each cohort, so that no later release shows another value of a case.

Not promised: what the attributes tell together with the events of a case. The bounds L and K speak of events alone; the
audits link on every released attribute, and the audit of uniqueness counts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.anonymize.sensitive import class_columns
from models.eventlog import Codes, Column, Ints
from models.variants import amounts
from stream.release.contract import Build, Exposure, Mechanism

OTHER = "other"

GROUP = 20
"""Least cases of a released sensitive value where the mechanism has no K."""


def with_attributes(build: Build, names: Sequence[str], exposure: Exposure, mechanism: Mechanism) -> Build:
    """The build with the attributes that leave. `names`: `release_attributes` of the publication."""
    if not names:
        return build
    bins: Mapping[str, Sequence[float]] = getattr(mechanism, "bins", {})
    least = getattr(mechanism, "K", GROUP)
    cohorts = np.zeros(build.log.n_cases, dtype=np.int64) if build.cohort is None else build.cohort
    shown: dict[str, Column] = {}
    for name in names:
        column = build.log.case_values(name)
        if name in exposure.sensitive:
            column = common(_classes(name, build, exposure, bins), least, cohorts)
        shown[name] = column
    return replace(build, attributes=shown, not_guaranteed=(*build.not_guaranteed, beside(names)))


def _classes(name: str, build: Build, exposure: Exposure, bins: Mapping[str, Sequence[float]]) -> Column:
    """The classes that C bounds: of the exposed cases, but of what was once published where that never changes."""
    if name in bins or build.cohort is not None:
        return class_columns(build.log, [name], {name: bins[name]} if name in bins else None)[name]
    return class_columns(exposure.log, [name])[name].take(build.origin)


def public_parameters(mechanism: Mechanism, shown: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a mechanism as public documents may show them.

    Edges of classes (`bins`) of an attribute that does not leave are left out: recipients cannot use them, and they may
    have been chosen by looking at the data (`stream.run.presets`).

    Parameters
    ----------
    mechanism
        The mechanism with all its parameters.
    shown
        The attributes that leave with the cases.
    """
    parameters = mechanism.model_dump(mode="json", exclude={"kind"})
    if "bins" in parameters:
        parameters["bins"] = {name: edges for name, edges in parameters["bins"].items() if name in shown}
    return parameters


def beside(names: Sequence[str]) -> str:
    """What a release with attributes does not guarantee."""
    return f"what the released attributes ({', '.join(names)}) tell together with the events of a case"


def common(column: Column, least: int, groups: Ints, cases: Ints | None = None) -> Column:
    """The column with `other` for what fewer than `least` cases of a group have. Missing stays missing where at least
    `least` cases of the group lack a value, else it is `other` too.

    `groups`: of each entry, decided group by group. A group of fewer than `least` cases shows nothing but `other`.
    `cases`: how many cases each entry stands for; None: one each.
    """
    values = (*(str(value) for value in column.values), OTHER)
    codes = column.codes.copy()
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        stands = None if cases is None else cases[rows]
        codes[rows] = _common(column.codes[rows], least, len(values) - 1, stands)
    return Column(codes, values).take(slice(None))


def _common(codes: Codes, least: int, other: int, cases: Ints | None) -> Codes:
    kinds, places = np.unique(codes, return_inverse=True)
    counts = amounts(places, cases, len(kinds))
    order = np.lexsort((kinds, counts))  # rarest first, ties in the order of the values
    merged = 0
    while merged < len(order) and (counts[order[merged]] < least or 0 < counts[order[:merged]].sum() < least):
        merged += 1
    rare = kinds[order[:merged]]
    return np.where(np.isin(codes, rare), other, codes).astype(np.int32)
