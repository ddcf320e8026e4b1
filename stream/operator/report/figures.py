"""Figures of measures: plots with legend and numbers, from the report's data of one publication."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from stream.operator.report import plots
from stream.operator.report.plots import Bound, Mark, PlotSeries

LEAST = {"ka": "KA", "fa": "FA", "ca": "CA", "ba": "BA"}
"""Names of the least numbers that a release has over all n."""

PROPORTIONS = {"fc": "F-attack", "cc": "C-attack", "bc": "B-attack"}
MOST_EARLIER = 4
"""Most earlier releases that one plot compares with, as in Figure 4 of the paper."""

COLOURS = 6
"""Number of colours in the style sheet; further series begin again at the first."""

SHAPE_OF_OUTCOME = {
    "released": 0,
    "released after a repair": 4,
    "released, with a warning": 1,
    "sealed, not yet public": 2,
    "held for approval": 2,
    "rejected": 3,
    "superseded": 3,
    "withheld": 3,
    "waiting": 2,
    "number lost": 5,
}
"""Shape and colour of an attempt's mark on the timeline, by its outcome."""

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its legend and a table of its numbers.

    Parameters
    ----------
    title
        Title of the plot.
    svg
        The plot as SVG.
    legend
        Name and class in the style sheet of each series and each bound.
    head, rows
        The table: names of columns, and one row for each label of the plot.
    note
        A sentence below the plot.
    """

    title: str
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


def _figure(
    draw: Any,
    title: str,
    first: str,
    labels: Sequence[str],
    series: Sequence[PlotSeries],
    unit: str,
    *,
    bounds: Sequence[Bound] = (),
    note: str = "",
    among: Sequence[float] = (),
) -> Figure | None:
    """Return a figure of the series that have values; None if no series has one.

    `draw` is `plots.lines` or `plots.bars`; `first` names the labels, in the plot and as a column of the table.
    """
    shown = [line for line in series if any(value is not None for value in line.values)]
    if not shown:
        return None
    svg = draw(title, labels, shown, unit, bounds, first, among)
    sign = "line " if draw is plots.lines else ""
    legend = [(line.name, f"{sign}s{line.colour}") for line in shown]
    legend += [(bound.text, bound.kind) for bound in bounds]
    head = (first, *(line.name for line in shown))
    rows = tuple(zip(labels, *(line.values for line in shown), strict=True))
    return Figure(title, svg, tuple(legend), head, rows, note)


def _series(rows: Sequence[Data], names: Mapping[str, str]) -> list[PlotSeries]:
    """Return a series of each named figure of the rows, in colours of their own."""
    series = []
    for colour, (key, name) in enumerate(names.items()):
        values = [row[key] for row in rows]
        series.append(PlotSeries(name, values, colour))
    return series


def _least_bounds(bounds: Mapping[str, float]) -> list[Bound]:
    """Return min_ka to min_ba as lines. Measures with the same bound share a line."""
    names_of_value: dict[float, list[str]] = {}
    for key, name in LEAST.items():
        value = bounds.get(f"min_{key}")
        if value is not None:
            names_of_value.setdefault(value, []).append(name)
    return [Bound(f"bound of {', '.join(names)}", value) for value, names in names_of_value.items()]


def _bound(bounds: Mapping[str, float], key: str) -> list[Bound]:
    return [Bound("bound of the gate", bounds[key])] if key in bounds else []


def comparison(rows: Sequence[Data]) -> list[Figure]:
    """Draw the rows of `replay --compare`: anonymity after attacks, shares of kept and held events, and waits."""
    labels = [row["publication"] for row in rows]
    remaining = _series(rows, LEAST)
    shares = _series(rows, {"events_kept": "events kept", "utility": "data utility", "held": "held back"})
    waits = [PlotSeries("days", [row["delay_days"] for row in rows], 0)]
    drawn = (
        _figure(
            plots.bars, "Cases left by attacks", "publication", labels, remaining, "cases, least over all releases"
        ),
        _figure(plots.bars, "Kept, useful, held back", "publication", labels, shares, "share"),
        _figure(plots.bars, "Wait for the first publication", "publication", labels, waits, "days, median of cases"),
    )
    return [figure for figure in drawn if figure is not None]


def kept(publications: Sequence[Data]) -> Figure | None:
    """Draw the share of events that each release keeps, for all publications on one scale."""
    measured = [publication for publication in publications if publication["cost"]]
    shares_of = {publication["name"]: dict(publication["cost"]["by_release"]) for publication in measured}
    labels = sorted({label for shares in shares_of.values() for label in shares}, key=int)
    series = []
    for number, (name, shares) in enumerate(shares_of.items()):
        values = [shares.get(label) for label in labels]
        series.append(PlotSeries(name, values, number % COLOURS))
    return _figure(plots.lines, "Events kept by release", "release", labels, series, "share of events")


def timeline(rows: Sequence[Data]) -> Figure | None:
    """Draw all attempts that have a time, one line for each publication."""
    timed = [row for row in rows if row["time"]]
    if not timed:
        return None
    moments = [datetime.fromisoformat(row["time"]) for row in timed]
    first, last = min(moments), max(moments)
    seconds = (last - first).total_seconds() or 1.0
    marks: dict[str, list[Mark]] = {}
    outcomes: dict[str, list[str]] = {}
    for moment, row in zip(moments, timed, strict=True):
        name, outcome = row["publication"], row["what"]
        text = f"{name} {row['label']}: {outcome}, {moment:%Y-%m-%d %H:%M}"
        share = (moment - first).total_seconds() / seconds
        marks.setdefault(name, []).append(Mark(share, SHAPE_OF_OUTCOME.get(outcome, 1), text))
        outcomes.setdefault(name, []).append(outcome)
    kinds = list(dict.fromkeys(row["what"] for row in timed))
    title = "When it happened"
    ends = (f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}")
    legend = tuple((kind, f"mark s{SHAPE_OF_OUTCOME.get(kind, 1)}") for kind in kinds)
    table = []
    for name, outcomes_of_name in outcomes.items():
        counts = [outcomes_of_name.count(kind) for kind in kinds]
        table.append((name, *counts))
    svg = plots.timeline(title, list(marks.items()), ends)
    return Figure(title, svg, legend, ("publication", *kinds), tuple(table))


def cases(publication: Data) -> Figure | None:
    """Draw the number of released cases and of cases left out, by release."""
    shown = [row for row in publication["attempts"] if row["cases"] is not None]
    series = [
        PlotSeries("released cases", [row["cases"] for row in shown], 0),
        PlotSeries("cases left out whole", [row["suppressed_cases"] for row in shown], 3),
    ]
    cost = publication["cost"] or {}
    intact = cost.get("cases_as_they_were")
    note = ""
    if intact is not None and intact < 1:
        note = f"In release {cost['label']}, {100 * intact:.3g} % of the released cases kept all their events."
    labels = [row["label"] for row in shown]
    return _figure(plots.bars, "Cases by release", "release", labels, series, "cases", note=note)


def anonymity(publication: Data) -> Figure | None:
    """Draw KA of each release, and its least FA, CA and BA against all earlier ones.

    Parameters
    ----------
    publication
        Data of the publication (`stream.operator.report.data`).
    """
    entries = publication["anonymity"]
    series = _series([entry["worst"] for entry in entries], LEAST)
    note = (
        "The smallest number for any n and against any earlier release. It is counted twice, with all possible "
        "partners of a case and with its real partners; the smaller number is shown."
    )
    labels = [entry["label"] for entry in entries]
    title, bounds = "Anonymity before and after attacks", _least_bounds(publication["bounds"])
    return _figure(plots.lines, title, "release", labels, series, "cases, least", bounds=bounds, note=note)


def worst_pair(entry: Data) -> Data | None:
    """Return the pair of a release with the least anonymity after an attack.

    Parameters
    ----------
    entry
        Audit of one release.
    """
    linked_pairs = [pair for pair in entry["pairs"] if _has_linker(pair)]
    return min(linked_pairs, key=_least_of_pair, default=None)


def _has_linker(pair: Data) -> bool:
    """Return whether a linker joins the two releases for some n."""
    return any(row["linker"] != "none" for row in pair["results"])


def _least_of_pair(pair: Data) -> float:
    values = [row[name] for row in pair["results"] for name in ("fa", "ca", "ba")]
    return min((value for value in values if value is not None), default=0)


BY_N = (("ka1", "KA earlier", 4), ("ka2", "KA this", 0), ("fa", "FA", 1), ("ca", "CA", 2), ("ba", "BA", 3))
"""Measures of a pair, their names and their colours."""


def values_by_n(pairs: Sequence[Data]) -> list[float]:
    """Return all values of the pairs, so that their figures can share one axis.

    Parameters
    ----------
    pairs
        Audits of a release against earlier ones.
    """
    rows = [row for pair in pairs for row in pair["results"]]
    return [row[key] for row in rows for key, _, _ in BY_N if row[key] is not None]


def by_n(entry: Data, pair: Data, bounds: Mapping[str, float], among: Sequence[float] = ()) -> Figure | None:
    """Draw the anonymity of one pair for each n, as Figure 3 of correspondence-attacks-2021 does.

    Parameters
    ----------
    entry, pair
        Data of a release, and of one of its pairs.
    bounds
        Bounds of the gate.
    among
        Values of all pairs of the release, whose figures share one axis.
    """
    rows = pair["results"]
    labels = [str(row["n"]) for row in rows]
    series = [PlotSeries(name, [row[key] for row in rows], colour) for key, name, colour in BY_N]
    title = f"Release {entry['label']} against release {pair['earlier']}"
    note = "" if all(row["linker"] == "exists" for row in rows) else "No linker exists for an n without bars."
    return _figure(
        plots.bars, title, "n", labels, series, "cases, least", bounds=_least_bounds(bounds), note=note, among=among
    )


def proportions(entry: Data) -> list[Figure]:
    """Draw the proportion of cracked cases by n, as Figure 4 of the paper does.

    Each attack has a plot, and each of the last earlier releases a bar.

    Parameters
    ----------
    entry
        Audit of one release.
    """
    pairs = entry["pairs"][-MOST_EARLIER:]
    labels = [str(row["n"]) for row in pairs[0]["results"]] if pairs else []
    unlinked = [str(pair["earlier"]) for pair in pairs if not _has_linker(pair)]
    note = ""
    if unlinked:
        note = f"No bar for release {', '.join(unlinked)}: for no n can all of its cases be cases of this release."
    drawn = []
    for name, attack in PROPORTIONS.items():
        series = []
        for colour, pair in enumerate(pairs):
            shares = [row.get(name) for row in pair["results"]]
            series.append(PlotSeries(f"against release {pair['earlier']}", shares, colour))
        title = f"{attack}: proportion cracked, release {entry['label']}"
        drawn.append(_figure(plots.bars, title, "n", labels, series, "share of the matching set", note=note))
    return [figure for figure in drawn if figure is not None]


def leakage(publication: Data) -> Figure | None:
    """Draw BPL, FPL and TPL by release and the sum of epsilon; the sum alone if only composition holds.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    measured = publication["leakage"]
    if measured["status"] != "ok":
        return None
    bounds = _bound(publication["bounds"], "max_tpl")
    rows = measured.get("releases")
    if rows is None:
        spent = _running(measured["epsilon"])
        labels = [str(index) for index in range(1, len(spent) + 1)]
        sums = [PlotSeries("sum", spent, 0)]
        return _figure(plots.lines, "Leakage by composition", "release", labels, sums, "nats", bounds=bounds)
    series = _series(rows, {"bpl": "BPL", "fpl": "FPL", "tpl": "TPL"})
    labels = [str(row["release"]) for row in rows]
    total = Bound("sum of epsilon", measured["sum_epsilon"], reference=True)
    title = "Temporal privacy leakage"
    return _figure(plots.lines, title, "release", labels, series, "nats", bounds=[*bounds, total])


def budget(publication: Data) -> Figure | None:
    """Draw the epsilon of all charges so far, withheld attempts included, and the limit.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    account = publication["budget"]
    if account is None:
        return None
    points = account["course"]
    limit = [Bound("limit", account["limit"])] if account["limit"] is not None else []
    labels = [str(point["charges"]) for point in points]
    series = [PlotSeries("epsilon spent", [point["epsilon"] for point in points], 0)]
    return _figure(plots.bars, "Epsilon by charge", "charge", labels, series, "epsilon", bounds=limit)


def knowable(entry: Data) -> bool:
    """Return whether an audit of risk counts only what somebody can know, without artificial or noisy times.

    Audits of earlier versions have no `basis`. They counted all times that they carried.

    Parameters
    ----------
    entry
        Audit of risk of one release.
    """
    if "basis" in entry:
        return bool(entry["basis"] == "knowable")
    return "relative_time" not in entry.get("carries", ())


def uniqueness(publication: Data) -> list[Figure]:
    """Draw unique cases by amount of knowledge for the last release and its source, and the worst of every release.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    measured = [entry for entry in publication["risk"] if entry["status"] == "ok" and knowable(entry)]
    return _uniqueness(publication, measured)


def upper_limit(publication: Data) -> list[Figure]:
    """Draw uniqueness with artificial and noisy times counted as known: an upper limit, since nobody knows them.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    entries = []
    for entry in publication["risk"]:
        if entry["status"] != "ok":
            continue
        if not knowable(entry):
            entries.append(entry)
        elif "as_released" in entry:
            limit = entry["as_released"]
            entries.append({**entry, "release": limit["rows"], "worst": limit["worst"], "source": []})
    return _uniqueness(publication, entries, "if released times were known")


def true_times(publication: Data) -> list[Figure]:
    """Draw the share of persons whose record in the last release is found by their true events.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    measured = [entry for entry in publication["risk"] if entry["status"] == "ok" and entry.get("true_times")]
    if not measured:
        return []
    last = measured[-1]
    rows = last["true_times"]
    labels = list(dict.fromkeys(str(row["m"]) for row in rows))
    series = []
    for colour, times in enumerate(dict.fromkeys(row["times"] for row in rows)):
        share_by_events = {str(row["m"]): row["right"] for row in rows if row["times"] == times}
        name = "activities" if times is None else f"activities and true times ({times})"
        series.append(PlotSeries(name, [share_by_events.get(label) for label in labels], colour))
    title = f"Persons found by true events, release {last['label']}"
    note = (
        f"{rows[0]['persons']} persons were drawn, and for each the given number of true events. A person is found if "
        "exactly one record fits, and it is theirs."
    )
    figure = _figure(plots.lines, title, "events known", labels, series, "share of persons", note=note)
    return [] if figure is None else [figure]


def _uniqueness(publication: Data, measured: Sequence[Data], condition: str = "") -> list[Figure]:
    if not measured:
        return []
    last = measured[-1]
    suffix = f", {condition}" if condition else ""
    labels = [str(point["m"]) for point in last["release"]]
    series = [PlotSeries("release", [point["unique_mean"] for point in last["release"]], 0)]
    source_rows = [row for row in last.get("source") or [] if "m" in row]
    projections = dict.fromkeys(row["projection"] for row in source_rows)
    for colour, projection in enumerate(projections, start=1):
        rows = [row for row in source_rows if row["projection"] == projection]
        share_of = {str(row["m"]): row["unique_mean"] for row in rows}
        shares = [share_of.get(label) for label in labels]
        series.append(PlotSeries(f"source, projection {projection}", shares, colour))
    releases = [entry["label"] for entry in measured]
    worst = [PlotSeries("worst", [entry["worst"] for entry in measured], 0)]
    # The gate compares its bound with the knowable figures; drawn with an upper limit, the bound would look broken.
    bounds = [] if condition and "as_released" in last else _bound(publication["bounds"], "max_uniqueness")
    unit = "share of cases"
    title = f"Unique cases by points known, release {last['label']}{suffix}"
    by_points = _figure(plots.lines, title, "points known", labels, series, unit, bounds=bounds)
    title = f"Unique cases in the release, worst{suffix}"
    by_release = _figure(plots.lines, title, "release", releases, worst, unit, bounds=bounds)
    return [figure for figure in (by_points, by_release) if figure is not None]


def utility(publication: Data) -> Figure | None:
    """Draw data utility and agreement of the directly-follows graphs by release.

    Parameters
    ----------
    publication
        Data of the publication.
    """
    entries = publication["utility"]
    measured = [entry if entry["status"] == "ok" else {} for entry in entries]
    graphs = [entry.get("dfg") or {} for entry in measured]
    series = [
        PlotSeries("data utility", [entry.get("data_utility") for entry in measured], 0),
        PlotSeries("DFG fitness", [graph.get("fitness") for graph in graphs], 1),
        PlotSeries("DFG precision", [graph.get("precision") for graph in graphs], 2),
        PlotSeries("DFG F1", [graph.get("f1") for graph in graphs], 3),
    ]
    labels, bounds = [entry["label"] for entry in entries], _bound(publication["bounds"], "min_utility")
    return _figure(plots.lines, "Utility by release", "release", labels, series, "1 is best", bounds=bounds)


def _running(values: Sequence[float]) -> list[float]:
    return list(itertools.accumulate(values, initial=0.0))[1:]
