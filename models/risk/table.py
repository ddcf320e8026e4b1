"""The risk of a log as one table, in the shape of Figure 2: projections by amounts of knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from models.errors import InputError
from models.eventlog import EventLog
from models.risk.points import PROJECTIONS, Projection
from models.risk.uniqueness import Points, Uniqueness, checked

ARTIFICIAL_TIMES = {
    "microaggregated": "A: the times of this release are artificial (means that are dealt out at random). This counts "
    "them as if an attacker knew them; nobody does. Read it as an upper limit; B to F count what can be known.",
    "noised": "A: the times of this release carry noise. This counts them as if an attacker knew them as they were "
    "released. Read it as an upper limit.",
}
"""Note on projection A, the one that knows times, by the time basis of a release."""


def questions(projections: Sequence[str], points: Sequence[Points]) -> tuple[list[Projection], list[Points]]:
    """Return the projections (`all` for each of them) and the amounts of knowledge, checked.

    Parameters
    ----------
    projections
        Letters, or `all` alone.
    points
        Amounts of knowledge, as they are written.

    Returns
    -------
    projections
        Each of them, for `all`.
    amounts
        The amounts of knowledge.

    Raises
    ------
    InputError
        Nothing is asked, or an amount is neither a number nor a share.
    """
    amounts = [checked(amount) for amount in points]
    if not projections or not amounts:
        raise InputError("projection and points each need a value")
    if list(projections) == ["all"]:
        return [*PROJECTIONS], amounts
    # An unknown letter is refused by the measure, which names those that exist.
    return cast("list[Projection]", list(projections)), amounts


def known_event_attributes(names: Sequence[str], resource_column: str | None) -> list[str]:
    """Return event attributes by their names in a log: the column of resources is `resource` there.

    Parameters
    ----------
    names
        Names of event attributes in the file.
    resource_column
        Name of the column of resources in the file, if it has one.
    """
    return ["resource" if name == resource_column else name for name in names]


def measure_each(
    projections: Iterable[Projection], measure: Callable[[Projection], Uniqueness], clock: Callable[[], float]
) -> tuple[list[Uniqueness], list[float]]:
    """Measure each projection, with its seconds by `clock`.

    Parameters
    ----------
    projections
        Projections in order.
    measure
        Measures one of them.
    clock
        Returns the time in seconds.

    Returns
    -------
    measured
        By projection.
    seconds
        By projection.
    """
    measured: list[Uniqueness] = []
    seconds: list[float] = []
    for projection in projections:
        begin = clock()
        measured.append(measure(projection))
        seconds.append(clock() - begin)
    return measured, seconds


def with_time_note(measured: Sequence[Uniqueness], time_basis: str | None) -> list[Uniqueness]:
    """Add a note to projection A if the times of the measured release are nobody's.

    Parameters
    ----------
    measured
        The measured projections.
    time_basis
        The statement of the release about its times; None if it states nothing.
    """
    note = ARTIFICIAL_TIMES.get(time_basis or "")
    if note is None:
        return list(measured)
    result = list(measured)
    for place, each in enumerate(measured):
        if each.projection == "A" and each.status == "ok":
            result[place] = replace(each, notes=(*each.notes, note))
    return result


def estimate_population(log: EventLog, measured: Uniqueness, size: int, seed: int) -> Mapping[str, Any]:
    """Estimate uniqueness among `size` persons, by the case attributes that `measured` knows.

    Parameters
    ----------
    log
        The log, a sample of the population.
    measured
        A measure of the log, which names the known case attributes.
    size
        Persons in the population.
    seed
        Seed of the simulated populations.

    Returns
    -------
    Mapping
        Mean and deviation of the share of unique persons over the simulated populations, that of the
        sample, and the error of the fit.

    Raises
    ------
    InputError
        No case attribute is known, or the persons are resources.
    """
    from models.risk.population import population_uniqueness

    if measured.unit != "case" or not measured.case_attributes:
        raise InputError("population needs case attributes; name them (case_attributes)")
    return asdict(population_uniqueness(log, measured.case_attributes, size, seed=seed))


def document(
    measured: Sequence[Uniqueness],
    seconds: Sequence[float],
    resolution: str,
    population: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """Return the documented JSON of `veilstream risk`.

    Parameters
    ----------
    measured, seconds
        The measured projections, and how long each took.
    resolution
        Accuracy of the times that are known.
    population
        The estimate for a population; None if it was not asked for.
    """
    rows = [each.as_json() | {"seconds": spent} for each, spent in zip(measured, seconds, strict=True)]
    if len(rows) == 1:
        return {**rows[0], "population": population}
    attributes_alone = [row["case_uniqueness"] for row in rows if row["case_uniqueness"] is not None]
    return {
        "projection": "all",
        "resolution": resolution,
        "points": [],
        "case_uniqueness": attributes_alone[0] if attributes_alone else None,
        "population": population,
        "projections": rows,
    }


def sentences(measured: Sequence[Uniqueness], population: Mapping[str, Any] | None) -> list[str]:
    """Return what is said below the table: gaps, notes, known attributes, and the estimate for a population.

    Parameters
    ----------
    measured
        Measures, at least one.
    population
        The estimate for a population, if one was asked for.
    """
    lines = [f"{each.projection}: {each.reason}" for each in measured if each.reason]
    lines += [note for each in measured for note in each.notes]
    first = measured[0]
    lines.append(
        f"known attributes: of cases {', '.join(first.case_attributes) or 'none'}; "
        f"of events {', '.join(first.event_attributes) or 'none'}"
    )
    if population:
        lines.append(
            "population of {size}: {unique_mean:.4f} unique (sd {unique_sd:.4f} over {runs} runs), "
            "sample {sample_unique:.4f}; error of the fit {fit_error:.4f}".format(**population)
        )
    return list(dict.fromkeys(lines))
