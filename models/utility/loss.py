"""Loss of a release against its source: events by activity, cases by variant.

Both logs are read as they are: for the operator, never to be published together with a differentially private release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.content_free import content_free
from models.eventlog import EventLog, Ints
from models.keys import case_blocks, distinct
from models.variants import amounts, of_events, total

FREQUENT = 0.05
"""Share of the cases from which on an activity should still be in a release."""


@content_free("cases", "events", "released")
@dataclass(frozen=True, slots=True)
class ActivityLoss:
    """One activity of the source.

    Attributes
    ----------
    activity
        Its name.
    cases
        Cases that show it.
    events, released
        Its events in the source, and in the release.
    """

    activity: str
    cases: int
    events: int
    released: int

    @property
    def kept(self) -> float:
        """Share of its events that the release holds (above 1 if a mechanism adds)."""
        return self.released / self.events


@content_free("kept", "frequent", "variants_in", "variants_kept", "cases_as_they_were")
@dataclass(frozen=True, slots=True)
class Loss:
    """Events, activities and cases that a release lost.

    Attributes
    ----------
    kept : float
        Events of the release / events of the source.
    lost
        Activities that at least `FREQUENT` of the source's cases show and the release does not.
    frequent : int
        Number of activities that are that frequent.
    cases_as_they_were : float or None
        Released cases whose trace equals that of their source case, as a share of the source's cases. None if
        records are not cases.
    """

    kept: float
    activities: tuple[ActivityLoss, ...]
    frequent: int
    lost: tuple[str, ...]
    variants_in: int
    variants_kept: int
    cases_as_they_were: float | None


def loss(source: EventLog, released: EventLog, origin: Ints | None = None, cases: Ints | None = None) -> Loss:
    """Return the loss of a release against its source.

    Parameters
    ----------
    source
        The log, which has at least one event.
    released
        The release.
    origin : int64[released cases]
        Case of the source, or -1.
    cases : int64[cases of the source], optional
        Number of cases that each case represents (a table of variants; every released case then has an origin); by
        default one.
    """
    names = list(source.activity.values)
    size = len(names)
    weights = None if cases is None or origin is None else cases[origin]
    events = amounts(source.activity.codes, of_events(cases, source.starts), size)
    holding = _cases_with(source, size, cases)
    has_activity = released.activity.codes >= 0
    each = of_events(weights, released.starts)
    counts = amounts(
        released.activity.codes[has_activity],
        None if each is None else each[has_activity],
        len(released.activity.values),
    )
    released_events = dict(zip(released.activity.values, counts.tolist(), strict=True))
    # Activities of many cases first, then by name.
    order = sorted(range(len(names)), key=lambda code: (-int(holding[code]), str(names[code])))
    rows = tuple(
        ActivityLoss(
            activity=str(names[code]),
            cases=int(holding[code]),
            events=int(events[code]),
            released=released_events.get(names[code], 0),
        )
        for code in order
        if events[code]
    )
    n_cases = total(source.lengths >= 0, cases)
    frequent_rows = [row for row in rows if row.cases >= FREQUENT * n_cases]
    labels: dict[Any, int] = {}
    before, after = source.trace_keys(labels), released.trace_keys(labels)
    return Loss(
        kept=total(released.lengths, weights) / total(source.lengths, cases),
        activities=rows,
        frequent=len(frequent_rows),
        lost=tuple(row.activity for row in frequent_rows if not row.released),
        variants_in=len(set(before)),
        variants_kept=len(set(before) & set(after)),
        cases_as_they_were=_unchanged(before, after, origin, cases),
    )


def _cases_with(log: EventLog, size: int, cases: Ints | None) -> Ints:
    """Count the cases that show each activity."""
    holding = np.zeros(size, dtype=np.int64)
    for begin, end in case_blocks(log.starts):
        codes = log.activity.codes[log.starts[begin] : log.starts[end]]
        case = np.repeat(np.arange(end - begin), log.lengths[begin:end])
        has_activity = codes >= 0
        pairs = distinct((case * size + codes)[has_activity], (end - begin) * size)
        case_of_pair, code_of_pair = np.divmod(pairs, size)
        weights = None if cases is None else cases[begin + case_of_pair]
        holding += amounts(code_of_pair, weights, size)
    return holding


def _unchanged(
    before: Sequence[bytes], after: Sequence[bytes], origin: Ints | None, cases: Ints | None
) -> float | None:
    if origin is None or not len(before) or (len(origin) and int(origin.min()) < 0):
        return None
    weight = np.ones(len(before), dtype=np.int64) if cases is None else cases
    unchanged = [case for case, trace in zip(origin.tolist(), after, strict=True) if before[case] == trace]
    return sum(int(weight[case]) for case in unchanged) / int(weight.sum())
