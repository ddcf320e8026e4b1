"""All measures of a release against its original, as `veilstream utility` documents them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from models.errors import InputError, check_choice
from models.eventlog import EventLog, Ints
from models.instants import utc_text
from models.knowledge import NANOSECONDS

FITNESS = ("alignment", "replay", "none")
"""Measures of how well the discovered model fits; `none` discovers no model."""

STEPS = 3
"""Calls of `on_step`: data utility, graphs, discovered model."""

AGREEMENTS = ("dfg", "handover", "discovery")
"""Measures with fitness, precision and F1: directly-follows graph, handover of work, discovered model."""

TIMED = ("emd_time_months", "mae_time_months", "bottlenecks", "active_cases")
"""Measures that need times."""


def _silent(_: str) -> None:
    pass


def compare(
    original: EventLog,
    released: EventLog,
    carries: tuple[str, ...] = ("activity",),
    T: str = "minutes",
    fitness: str = "alignment",
    *,
    cases: tuple[Ints | None, Ints | None] = (None, None),
    on_step: Callable[[str], None] = _silent,
) -> Mapping[str, Any]:
    """Compare a release with its original: variants, graphs, times, bottlenecks, and the discovered model.

    Parameters
    ----------
    original, released
        The logs; or one case of each variant, if `cases` is set. Variants have no times.
    carries
        Perspectives of data utility: activity, resource, relative_time.
    T
        Accuracy of relative times: seconds, minutes, hours or days.
    fitness
        One of `FITNESS`.
    cases
        int64[C] of each log, how many cases each of its cases represents; None: one each.
    on_step
        Called with the name of each step before it begins.

    Returns
    -------
    Mapping
        The documented JSON of `veilstream utility`. A measure that cannot be taken on these logs is None.

    Raises
    ------
    InputError
        An unknown unit, perspective or fitness, or a perspective that the release does not show.
    """
    from models.utility.discovery import discovery_quality
    from models.utility.distance import data_utility
    from models.utility.graphs import agreement, directly_follows, edge_distance, handover, ordinal
    from models.utility.mining import mining
    from models.utility.similarity import likeness
    from models.utility.variants import variant_changes

    check_options(T, fitness)
    _refuse_incomparable(original, released, carries)
    logs = (original, released)
    has_times = cases[0] is None and (ordinal(original) or not ordinal(released))
    on_step("data utility")
    result: dict[str, Any] = {
        "data_utility": data_utility(*logs, carries, T, cases),  # type: ignore[arg-type] # checked above
        "perspective": list(carries),
    }
    on_step("graphs")
    graphs = [directly_follows(log, cases=represented) for log, represented in zip(logs, cases, strict=True)]
    result["dfg"] = agreement(*graphs).as_json()
    network = handover(*logs, cases)
    result["handover"] = network.as_json() if network else None
    on_step("discovered model")
    result["discovery"] = None
    if fitness != "none":
        quality = discovery_quality(*logs, fitness)  # type: ignore[arg-type] # checked above
        result["discovery"] = quality.as_json() | {"method": fitness}
    result |= asdict(edge_distance(*graphs))
    result["likeness"] = asdict(likeness(*logs, cases=cases))
    result["bottlenecks"], result["active_cases"] = None, None
    result["variants"] = asdict(variant_changes(*logs))
    if has_times:
        result |= _of_times(*logs)
    else:
        result |= dict.fromkeys(TIMED)
    mined = mining(*logs, result["data_utility"], result["discovery"], timed=has_times, cases=cases)
    return {**result, "mining": mined.as_json()}


def check_options(T: str, fitness: str) -> None:
    """Refuse an unknown unit of times or measure of fitness.

    Parameters
    ----------
    T
        Unit of relative times.
    fitness
        Measure of fitness.

    Raises
    ------
    InputError
        If one of them is unknown.
    """
    check_choice("fitness", fitness, FITNESS)
    check_choice("T", T, NANOSECONDS)


def refuse_swapped(original_times: str | None, released_times: str | None) -> None:
    """Refuse logs in the wrong order: the figures of the reverse comparison look as plausible.

    Parameters
    ----------
    original_times, released_times
        Meaning of the times that each log states (`time_basis`); None if it states none. Only releases
        state one.

    Raises
    ------
    InputError
        If the first log is a release, and the second one is not known to be one.
    """
    if original_times is not None and released_times is None:
        raise InputError(
            f"the first log states that it is a release (times: {original_times}), and the second one does "
            "not: give the original first, then the release"
        )


def _of_times(original: EventLog, released: EventLog) -> Mapping[str, Any]:
    """Measure the times of events, in addition to the distance of edges."""
    from models.utility.graphs import bottlenecks
    from models.utility.variants import active_cases, moments_of

    moments = moments_of(original)
    return {
        "bottlenecks": asdict(bottlenecks(original, released)),
        "active_cases": {
            "moments": [utc_text(moment / 1e9) for moment in moments.tolist()],
            "original": active_cases(original, moments).tolist(),
            "released": active_cases(released, moments).tolist(),
        },
    }


def _refuse_incomparable(original: EventLog, released: EventLog, carries: tuple[str, ...]) -> None:
    """Raise InputError for a perspective that the release does not show, or shows under other names.

    Without an activity in common most measures have their worst value, and the distances of edges, which are taken
    over common ones, their best.
    """
    from models.utility.graphs import ordinal, same_names

    if not carries:
        raise InputError("perspective names nothing; use activity, resource or relative_time")
    if "relative_time" in carries and ordinal(released) and not ordinal(original):
        raise InputError("perspective relative_time: the release carries no times, only the order of events")
    if original.n_events and released.n_events and _activities(original).isdisjoint(_activities(released)):
        raise InputError(
            "the release has no activity of the original: are they of one process, with the same names of activities?"
        )
    # A log without any resource is named by data utility itself.
    both_have_resources = all((log.resource.codes >= 0).any() for log in (original, released))
    if "resource" in carries and both_have_resources and not same_names(original, released):
        raise InputError(
            "perspective resource: no resource of the release is in the original; pseudonyms cannot be compared "
            "(keep_resources of anonymize, process.raw_resources)"
        )


def _activities(log: EventLog) -> set[Any]:
    return {log.activity.values[code] for code in np.unique(log.activity.codes).tolist() if code >= 0}


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Return what `compare` measured, as lines for people; the figures of `AGREEMENTS` are a table of their own.

    Parameters
    ----------
    result
        The result of `compare`.
    """
    from models.utility.mining import readable

    lines = [
        f"data utility ({', '.join(result['perspective'])}): {result['data_utility']:.4f}",
        *result["mining"]["sentences"],
        "variants: {lost} lost, {new} new".format(**result["variants"]),
        "edges: frequency {emd_frequency:.4f} (matched {mae_frequency:.4f})".format(**result),
    ]
    if result["bottlenecks"] is None:
        return [*lines, "times: the release carries none, or only variants were compared"]
    month = 30 * 86_400
    by_edge = readable(result["emd_time_months"] * month)
    matched = readable(result["mae_time_months"] * month)
    return [
        *lines,
        f"times: {by_edge} by edge (matched {matched})",
        "bottlenecks: {top} of the {of} slowest edges are the same".format(**result["bottlenecks"]),
    ]
