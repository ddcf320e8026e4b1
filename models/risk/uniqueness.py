"""Re-identification risk by uniqueness: cases that a little knowledge singles out.

Source: reidentification-risk-2020: case uniqueness (equation 1), trace uniqueness (equation 2), projections (Table 3).
A measure, never a guarantee: the adversary knows that the victim is in the log and knows points drawn at
random; one who chooses them knows more (`adversary="greedy"`), one who knows their order or their gaps also. A
uniqueness of 0 does not protect the sensitive values of cases that look alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from models.errors import InputError, check_choice
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Unit
from models.risk.index import TraceIndex
from models.risk.matching import greedy_lengths
from models.risk.points import (
    RESOURCE,
    Projection,
    Semantics,
    by_resource,
    chosen_event_attributes,
    default_case_attributes,
    default_event_attributes,
    lacking,
    view,
)
from models.variants import VariantTable

Points = int | str
"""A number of points, or a share of each trace as "10%" (at least one point); "all" is "100%"."""

MISSING_IDS = ("NA",)
"""Case ids that the paper's program reads as missing: the reason why it counts 1,049 of 1,050 Sepsis cases."""

NEVER = np.iinfo(np.int64).max
"""More points than any trace has: not even all of them single the case out."""

_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "projection": get_args(Projection),
    "resolution": tuple(NANOSECONDS),
    "semantics": get_args(Semantics),
    "unit": ("case", "resource"),
    "adversary": ("random", "greedy"),
}


@dataclass(frozen=True, slots=True)
class PointUniqueness:
    """Equation 2 for one amount of knowledge.

    Attributes
    ----------
    m
        The amount: a number of points, or a share.
    unique_mean, unique_sd
        Mean and sample standard deviation over the draws, in 0..1.
    draws
        Number of times that so many points were drawn of each case.
    """

    m: Points
    unique_mean: float
    unique_sd: float
    draws: int


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Uniqueness of a log under one projection.

    Attributes
    ----------
    case_uniqueness : float or None
        None if no case attribute is known.
    status : str
        "not available", with a `reason`, if the log lacks what the projection needs.
    """

    projection: str
    resolution: str
    semantics: str
    unit: str
    adversary: str
    cases: int
    points: tuple[PointUniqueness, ...]
    case_uniqueness: float | None
    event_attributes: tuple[str, ...]
    case_attributes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    status: str = "ok"
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON shape of one projection; further keys may be added."""
        return {
            "projection": self.projection,
            "resolution": self.resolution,
            "points": [asdict(point) for point in self.points],
            "case_uniqueness": self.case_uniqueness,
            "semantics": self.semantics,
            "unit": self.unit,
            "adversary": self.adversary,
            "cases": self.cases,
            "event_attributes": list(self.event_attributes),
            "case_attributes": list(self.case_attributes),
            "status": self.status,
            "reason": self.reason,
            "notes": list(self.notes),
        }


def trace_uniqueness(
    log: EventLog,
    projection: Projection = "A",
    points: Points | Sequence[Points] = 4,
    *,
    resolution: Unit = "seconds",
    draws: int = 20,
    seed: int | np.random.Generator = 0,
    semantics: Semantics = "joint",
    event_attributes: Sequence[str] | None = None,
    case_attributes: Sequence[str] | None = None,
    sensitive: Sequence[str] = (),
    unit: Literal["case", "resource"] = "case",
    adversary: Literal["random", "greedy"] = "random",
) -> Uniqueness:
    """Return the share of cases that no other case can be confused with, given m of their points (equation 2).

    A projection that the log cannot give has the status "not available".

    Parameters
    ----------
    log
        The log.
    projection
        Parts of an event and of a case that the adversary knows: A to F.
    points
        One amount of knowledge or several: numbers (capped at the length of a trace), shares such as "10%"
        (at least 1 point), or "all".
    resolution
        Unit in which times are known.
    draws
        Random choices of points, of which the result is the mean.
    seed
        Seed of these choices, or their source.
    semantics
        `joint` matches multisets of whole points. `per-column` reproduces the paper's program, which
        matches every column on its own, loses the last event of each trace, reads case id "NA" as missing
        and floors times in UTC.
    event_attributes, case_attributes
        Names of the known attributes. None: those that `models.risk.points` finds.
    sensitive
        Names of attributes that are never known.
    unit
        Persons: cases, or resources, whose events over all cases are then the trace.
    adversary
        `random` knows random points. `greedy` chooses each point as the one that leaves fewest candidates;
        there are no draws then, and the deviation is 0.

    Raises
    ------
    InputError
        For an m of 0, a bad share, no cases, or an attribute that the log does not have.

    References
    ----------
    reidentification-risk-2020, equation 2.
    """
    amounts = checked_amounts(points)
    _check(projection=projection, resolution=resolution, semantics=semantics, unit=unit, adversary=adversary)
    for name in sensitive:
        log.case_values(name)  # a misspelt name would leave the sensitive value among what is known
    if draws < 1:
        raise InputError(f"draws = {draws}: at least one draw is needed")
    persons = as_read(by_resource(log) if unit == "resource" else log, semantics)
    if not persons.n_cases:
        raise InputError("the log has no cases; uniqueness has no meaning")
    if event_attributes is None:
        events = default_event_attributes(persons)
    else:
        events = chosen_event_attributes(persons, event_attributes)
    if case_attributes is None:
        cases = _default_cases(persons, sensitive, unit)
    else:
        cases = tuple(case_attributes)
    reason = lacking(projection, events, cases)
    measured: tuple[PointUniqueness, ...] = ()
    notes: tuple[str, ...] = ()
    if not reason and projection != "F":
        seen = view(projection, events, cases, resolution)
        index = TraceIndex.build(persons, seen, joint=semantics == "joint")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        measured, notes = measure(index, amounts, draws, rng, adversary), beyond(index, amounts)
    return Uniqueness(
        projection=projection,
        resolution=resolution,
        semantics=semantics,
        unit=unit,
        adversary=adversary,
        cases=persons.n_cases,
        points=measured,
        case_uniqueness=case_uniqueness(persons, cases) if cases else None,
        event_attributes=events,
        case_attributes=cases,
        notes=notes,
        status="not available" if reason else "ok",
        reason=reason,
    )


def _check(**chosen: str) -> None:
    """Raise InputError with the first option outside its values, and the values."""
    for name, value in chosen.items():
        check_choice(name, value, _ALLOWED[name])


def measure(
    index: TraceIndex,
    amounts: Sequence[Points],
    draws: int,
    rng: np.random.Generator,
    adversary: str = "random",
) -> tuple[PointUniqueness, ...]:
    """Measure the uniqueness of cases by equation 2, for each amount of knowledge.

    Parameters
    ----------
    index
        The points of the cases.
    amounts
        Known points of a case.
    draws
        Draws of known points; their results are averaged.
    rng
        Draws the known points.
    adversary
        `random` or `greedy`.
    """
    if adversary == "greedy":
        needed = greedy_points(index)
        results = []
        for amount in amounts:
            is_unique = needed <= known_points(index.lengths, amount)
            results.append(PointUniqueness(amount, float(np.mean(is_unique)), 0.0, 1))
        return tuple(results)
    return tuple(_drawn(index, amount, draws, rng) for amount in amounts)


def greedy_points(index: TraceIndex) -> Ints:
    """Return how many points a greedy adversary needs to single out each case, int64[C].

    The adversary chooses: each further point is the one that leaves fewest candidates. The smallest set of points that
    singles out is a set cover problem. The greedy number is an upper bound on it, so the uniqueness reported for m
    points is a lower bound on what the best m points reach, and never below any random draw at full length.

    Parameters
    ----------
    index
        The index of one log.

    Returns
    -------
    int64[C]
        `NEVER` if all points do not suffice, 0 if the case attributes do alone.

    Raises
    ------
    InputError
        Unless the index matches whole points (joint semantics) and holds a log.

    References
    ----------
    reidentification-risk-2020, section 4.2: random selection underestimates; it names optimized point selection without
    giving one.
    """
    if not index.coder.joint:
        raise InputError("the greedy adversary knows whole points: it needs semantics = 'joint'")
    if index.postings is None:
        raise InputError("the index is empty; update it with a log first")
    # Only what is unique with every point known can be singled out with fewer.
    chosen = index.unique(index.lengths, np.random.default_rng(0))
    posted = index.postings
    needed = greedy_lengths(
        np.ascontiguousarray(index.points[:, 0]),
        index.starts,
        index.group_items,
        chosen,
        posted.base,
        posted.offsets,
        posted.cases,
        posted.row,
        posted.bits,
    )
    return np.where(needed < 0, NEVER, needed)


def _drawn(index: TraceIndex, amount: Points, draws: int, rng: np.random.Generator) -> PointUniqueness:
    take = known_points(index.lengths, amount)
    # If every case reveals all of its points, every draw is the same: one is enough.
    runs = 1 if np.array_equal(take, index.lengths) else draws
    shares = np.asarray([index.unique(take, rng).mean() for _ in range(runs)])
    deviation = float(shares.std(ddof=1)) if runs > 1 else 0.0
    return PointUniqueness(amount, float(shares.mean()), deviation, draws)


def case_uniqueness(log: EventLog, attributes: Sequence[str]) -> float:
    """Return the share of cases whose combination of case attributes occurs once. A missing value is a value.

    Parameters
    ----------
    log
        The log.
    attributes
        Names of case attributes.

    Raises
    ------
    InputError
        If the log lacks an attribute, or there is no attribute or no case.

    References
    ----------
    reidentification-risk-2020, equation 1.
    """
    if not attributes:
        raise InputError("case uniqueness needs at least one case attribute")
    if not log.n_cases:
        raise InputError("the log has no cases; uniqueness has no meaning")
    codes = np.stack([log.case_values(name).codes for name in attributes], axis=1)
    _, counts = np.unique(codes, axis=0, return_counts=True)
    return float(np.sum(counts == 1) / log.n_cases)


def singleton_variants(log: EventLog, labels: dict[Any, int]) -> frozenset[bytes]:
    """Return the activity sequences that exactly one case has, as keys (`EventLog.trace_keys`).

    Parameters
    ----------
    log
        The log.
    labels
        Number of each activity; new activities are added to it. Keys of logs that share it can be compared.
    """
    counts = Counter(log.trace_keys(labels))
    return frozenset(key for key, count in counts.items() if count == 1)


def checked(amount: Any) -> Points:
    """Check an amount of knowledge as it is written, and return it.

    Parameters
    ----------
    amount
        4, "4", "10%" or "all".

    Returns
    -------
    Points
        A number, or a share; "all" is "100%".

    Raises
    ------
    InputError
        For anything else.
    """
    text = str(amount).strip()
    if text == "all":
        return "100%"
    if re.fullmatch(r"\d{1,9}", text) and int(text) >= 1:
        return int(text)
    if re.fullmatch(r"\d{1,3}%", text) and 1 <= int(text[:-1]) <= 100:
        return f"{int(text[:-1])}%"
    raise InputError(f"points = {text!r}: give a number from 1 on, a share from 1% to 100%, or all")


def checked_amounts(points: Points | Sequence[Points]) -> tuple[Points, ...]:
    """Check one or several amounts of knowledge.

    Parameters
    ----------
    points
        One amount or several.

    Raises
    ------
    InputError
        If one of them is no amount.
    """
    if isinstance(points, int | str):
        points = [points]
    return tuple(checked(amount) for amount in points)


def known_points(lengths: Ints, amount: Points) -> Ints:
    """Return the number of known points of each case, int64[C]: `amount`, at most its length; shares are at least 1.

    Parameters
    ----------
    lengths
        int64[C], events of each case.
    amount
        A number of points, or a share such as "10%".
    """
    if isinstance(amount, str):
        share = lengths * int(amount[:-1]) // 100
        return np.minimum(np.maximum(share, 1), lengths)
    return np.minimum(amount, lengths)


def as_read(log: EventLog, semantics: str) -> EventLog:
    """Return the log as the paper's program sees it under `per-column`, and unchanged otherwise.

    Parameters
    ----------
    log
        The log.
    semantics
        "joint" or "per-column".
    """
    if semantics == "joint":
        return log
    named = np.asarray([case_id not in MISSING_IDS for case_id in log.case_ids], dtype=bool)
    log = log.select_cases(named)
    last = np.zeros(log.n_events, dtype=bool)
    last[log.starts[1:][log.lengths > 0] - 1] = True
    return replace(log.select_events(~last), offset=None)


def _default_cases(log: EventLog, sensitive: Sequence[str], unit: str) -> tuple[str, ...]:
    # A resource serves many cases, so attributes of a case are not attributes of the resource.
    return () if unit == "resource" else default_case_attributes(log, sensitive)


def beyond(index: TraceIndex, amounts: Sequence[Points]) -> tuple[str, ...]:
    """Return a note for each number of points that no trace has.

    Parameters
    ----------
    index
        The index of one log.
    amounts
        Amounts of knowledge. Shares are never beyond a trace.
    """
    longest = int(index.lengths.max(initial=0))
    beyond = [amount for amount in amounts if isinstance(amount, int) and amount > longest]
    return tuple(f"m = {m} is beyond the longest trace ({longest} events): all points are known" for m in beyond)


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

    It is what `trace_uniqueness` measures of a log, if only its variants are known. A case that shares its variant (and
    the attributes that the table was counted by) with another is unique given no points at all. So points are drawn for
    the rows of one case only, and the shares are of all cases. The figures are those of the log: equal if all points
    are known; else another draw of the same distribution, since a row draws where a case did.

    The event attribute is the resource, if the table was counted by it; `case_attributes` are columns of the table with
    their values.

    Parameters
    ----------
    table
        The variants and their cases.
    projection
        B to F.
    points
        One amount of knowledge or several, as of `trace_uniqueness`.
    case_attributes
        Columns of the table whose values are known.
    draws
        Random choices of points, of which the result is the mean.
    seed
        Seed of these choices.

    Raises
    ------
    InputError
        For projection A, which knows times, and what `trace_uniqueness` refuses.

    References
    ----------
    reidentification-risk-2020, equation 2.
    """
    if projection == "A":
        raise InputError("projection A knows the times of single cases, which no table of variants has")
    if not table.n_cases:
        raise InputError("the log has no cases; uniqueness has no meaning")
    amounts = checked_amounts(points)
    if draws < 1:
        raise InputError(f"draws = {draws}: at least one draw is needed")
    events = (RESOURCE,) if "resource" in table.knowledge.carries else ()
    uniqueness = Uniqueness(
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
        return replace(uniqueness, status="not available", reason=reason)
    if projection == "F":
        return uniqueness
    index = TraceIndex.build(table.log, view(projection, events, case_attributes))
    index.twin |= table.count > 1
    share = table.log.n_cases / table.n_cases  # what is measured is of the rows
    measured = tuple(
        replace(point, unique_mean=point.unique_mean * share, unique_sd=point.unique_sd * share)
        for point in measure(index, amounts, draws, np.random.default_rng(seed))
    )
    return replace(uniqueness, points=measured, notes=beyond(index, amounts))


def _by_attributes(table: VariantTable, attributes: Sequence[str]) -> float:
    """Equation 1: the share of cases whose combination of attributes occurs once."""
    codes = np.stack([table.log.case_values(name).codes for name in attributes], axis=1)
    _, kind = np.unique(codes, axis=0, return_inverse=True)
    cases_of_kind = np.bincount(kind.ravel(), table.count)
    n_unique = np.count_nonzero(cases_of_kind == 1)
    return float(n_unique / table.n_cases)
