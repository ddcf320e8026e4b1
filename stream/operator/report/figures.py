"""Figures of measures: from the report's data of one publication to plots with legend and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from stream.operator.report import plots
from stream.operator.report.plots import Bound, Mark, PlotSeries

NAMES = {"ka": "KA", "ka1": "KA earlier", "ka2": "KA this", "fa": "FA", "ca": "CA", "ba": "BA"}
PROPORTIONS = {"fc": "F-attack", "cc": "C-attack", "bc": "B-attack"}
MOST_EARLIER = 4
"""Gaps shown side by side, as in Figure 4 of the paper."""

COLOURS = 6
"""Of the style sheet."""
HAPPENED = {
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
"""Shape and colour of marks on a timeline."""

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot, what its colours mean, and the numbers behind it."""

    title: str
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    """(name, class in the style sheet) of each series and each bound."""
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
    """None if no series has a value: an empty plot has no use."""
    kept = [drawn for drawn in series if any(value is not None for value in drawn.values)]
    if not kept:
        return None
    sign = "line " if draw is plots.lines else ""
    return Figure(
        title,
        draw(title, labels, kept, unit, bounds, first, **({"among": among} if among else {})),
        (*((drawn.name, f"{sign}s{drawn.colour}") for drawn in kept), *((bound.text, bound.kind) for bound in bounds)),
        (first, *(drawn.name for drawn in kept)),
        tuple((label, *(drawn.values[index] for drawn in kept)) for index, label in enumerate(labels)),
        note,
    )


def _least_bounds(bounds: Mapping[str, float]) -> list[Bound]:
    """min_ka .. min_ba as lines; attacks with the same bound share one."""
    by_value: dict[float, list[str]] = {}
    for name in ("ka", "fa", "ca", "ba"):
        if f"min_{name}" in bounds:
            by_value.setdefault(bounds[f"min_{name}"], []).append(NAMES[name])
    return [Bound(f"bound of {', '.join(names)}", value) for value, names in by_value.items()]


def _bound(bounds: Mapping[str, float], key: str) -> list[Bound]:
    return [Bound("bound of the gate", bounds[key])] if key in bounds else []


def comparison(rows: Sequence[Data]) -> list[Figure]:
    """Draw the rows of `replay --compare`: what attacks leave, and what is kept, useful and held back."""
    labels = [row["publication"] for row in rows]
    left = [
        PlotSeries(NAMES[name], [row[name] for row in rows], at) for at, name in enumerate(("ka", "fa", "ca", "ba"))
    ]
    shares = (("events_kept", "events kept"), ("utility", "data utility"), ("held", "held back"))
    kept = [PlotSeries(text, [row[key] for row in rows], at) for at, (key, text) in enumerate(shares)]
    waits = [PlotSeries("days", [row["delay_days"] for row in rows], 0)]
    drawn = (
        _figure(plots.bars, "What attacks leave", "publication", labels, left, "cases, least over all releases"),
        _figure(plots.bars, "Kept, useful, held back", "publication", labels, kept, "share"),
        _figure(plots.bars, "Wait for the first publication", "publication", labels, waits, "days, median of cases"),
    )
    return [figure for figure in drawn if figure is not None]


def kept(publications: Sequence[Data]) -> Figure | None:
    """Share of the events seen that each release keeps, of every publication on one scale."""
    measured = [publication for publication in publications if publication["cost"]]
    labels = list(dict.fromkeys(label for publication in measured for label, _ in publication["cost"]["by_release"]))
    labels.sort(key=int)
    series = [
        PlotSeries(
            publication["name"],
            [dict(publication["cost"]["by_release"]).get(label) for label in labels],
            colour % COLOURS,
        )
        for colour, publication in enumerate(measured)
    ]
    return _figure(plots.lines, "Events kept by release", "release", labels, series, "share of events")


def timeline(rows: Sequence[Data]) -> Figure | None:
    """Everything that happened and has a time, a line a publication."""
    timed = [(datetime.fromisoformat(row["time"].replace("Z", "+00:00")), row) for row in rows if row["time"]]
    if not timed:
        return None
    first, last = min(timed, key=_when)[0], max(timed, key=_when)[0]
    span = (last - first).total_seconds() or 1.0
    marks: dict[str, list[Mark]] = {}
    for at, row in timed:
        text = f"{row['publication']} {row['label']}: {row['what']}, {at:%Y-%m-%d %H:%M}"
        share = (at - first).total_seconds() / span
        marks.setdefault(row["publication"], []).append(Mark(share, HAPPENED.get(row["what"], 1), text))
    present = dict.fromkeys(row["what"] for _, row in timed)
    counts = {name: [row["what"] for _, row in timed if row["publication"] == name] for name in marks}
    return Figure(
        "When it happened",
        plots.timeline("When it happened", list(marks.items()), (f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}")),
        tuple((what, f"mark s{HAPPENED.get(what, 1)}") for what in present),
        ("publication", *present),
        tuple((name, *(happened.count(what) for what in present)) for name, happened in counts.items()),
    )


def _when(timed: tuple[datetime, Data]) -> datetime:
    return timed[0]


def cases(publication: Data) -> Figure | None:
    """Cases of every release, and those that it left out."""
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
    """KA of each release, and the least FA, CA, BA against its earlier ones."""
    entries = publication["anonymity"]
    series = [
        PlotSeries(NAMES[name], [entry["worst"][name] for entry in entries], colour)
        for colour, name in enumerate(("ka", "fa", "ca", "ba"))
    ]
    note = (
        "The smallest number for any n and against any earlier release. Counted twice, by the search for all possible "
        "partners of a case and by its real partners; the smaller one is shown."
    )
    labels = [entry["label"] for entry in entries]
    title, bounds = "Anonymity before and after attacks", _least_bounds(publication["bounds"])
    return _figure(plots.lines, title, "release", labels, series, "cases, least", bounds=bounds, note=note)


def worst_pair(entry: Data) -> Data | None:
    """Return the pair of a release with the least anonymity after an attack."""
    joined = [pair for pair in entry["pairs"] if any(row["linker"] != "none" for row in pair["results"])]
    return min(joined, key=_least, default=None)


def _least(pair: Data) -> float:
    return min(
        (row[name] for row in pair["results"] for name in ("fa", "ca", "ba") if row[name] is not None), default=0
    )


BY_N = (("ka1", 4), ("ka2", 0), ("fa", 1), ("ca", 2), ("ba", 3))
"""Measures of a pair, and their colours."""


def values_by_n(pairs: Sequence[Data]) -> list[float]:
    """All values of the pairs, for one axis in the figures of all of them."""
    return [row[name] for pair in pairs for row in pair["results"] for name, _ in BY_N if row[name] is not None]


def by_n(entry: Data, pair: Data, bounds: Mapping[str, float], among: Sequence[float] = ()) -> Figure | None:
    """Figure 3 of correspondence-attacks-2021: the anonymity values of one pair for each n."""
    rows = pair["results"]
    labels = [str(row["n"]) for row in rows]
    series = [PlotSeries(NAMES[name], [row[name] for row in rows], colour) for name, colour in BY_N]
    title = f"Release {entry['label']} against release {pair['earlier']}"
    note = "" if all(row["linker"] == "exists" for row in rows) else "No linker exists for an n without bars."
    return _figure(
        plots.bars, title, "n", labels, series, "cases, least", bounds=_least_bounds(bounds), note=note, among=among
    )


def proportions(entry: Data) -> list[Figure]:
    """Figure 4 of the paper: proportion of cases cracked by n, one plot an attack, one bar an earlier release."""
    pairs = entry["pairs"][-MOST_EARLIER:]
    labels = [str(row["n"]) for row in pairs[0]["results"]] if pairs else []
    apart = [str(pair["earlier"]) for pair in pairs if all(row["linker"] == "none" for row in pair["results"])]
    note = f"Its cases cannot all be cases of release {', '.join(apart)}, for no n: no bar." if apart else ""
    drawn = []
    for name, attack in PROPORTIONS.items():
        series = [
            PlotSeries(f"against release {pair['earlier']}", [row.get(name) for row in pair["results"]], colour)
            for colour, pair in enumerate(pairs)
        ]
        title = f"{attack}: proportion cracked, release {entry['label']}"
        drawn.append(_figure(plots.bars, title, "n", labels, series, "share of the matching set", note=note))
    return [figure for figure in drawn if figure is not None]


def leakage(publication: Data) -> Figure | None:
    """BPL, FPL and TPL by release, with the sum of epsilon; sums alone where only composition holds."""
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
    series = [
        PlotSeries(name.upper(), [row[name] for row in rows], colour)
        for colour, name in enumerate(("bpl", "fpl", "tpl"))
    ]
    labels = [str(row["release"]) for row in rows]
    total = Bound("sum of epsilon", measured["sum_epsilon"], reference=True)
    title = "Temporal privacy leakage"
    return _figure(plots.lines, title, "release", labels, series, "nats", bounds=[*bounds, total])


def budget(publication: Data) -> Figure | None:
    """Epsilon spent after each charge, withheld attempts included, against the limit."""
    account = publication["budget"]
    if account is None:
        return None
    charges = account["charges"]
    limit = [Bound("limit", account["limit"])] if account["limit"] is not None else []
    labels = [str(index) for index in range(1, len(charges) + 1)]
    series = [PlotSeries("epsilon spent", _running([charge["epsilon"] for charge in charges]), 0)]
    return _figure(plots.bars, "Epsilon by charge", "charge", labels, series, "epsilon", bounds=limit)


def knowable(entry: Data) -> bool:
    """Return whether an audit of risk counts what somebody can know, and no artificial or noisy times.

    Audits of earlier versions do not say it, and counted all times.
    """
    if "basis" in entry:
        return bool(entry["basis"] == "knowable")
    return "relative_time" not in entry.get("carries", ())


def uniqueness(publication: Data) -> list[Figure]:
    """By amount of knowledge for the last release and its source, and the worst of every release."""
    return _uniqueness(
        publication, [entry for entry in publication["risk"] if entry["status"] == "ok" and knowable(entry)]
    )


def upper_limit(publication: Data) -> list[Figure]:
    """Return the same with every released time counted as known: artificial and noisy ones, which nobody knows."""
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
    """Draw the share of persons who were found in the last release by true events of theirs."""
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
        f"{rows[0]['persons']} persons were drawn, and that many of their true events each. Found: exactly one record "
        "fits, and it is theirs."
    )
    figure = _figure(plots.lines, title, "events known", labels, series, "share of persons", note=note)
    return [] if figure is None else [figure]


def _uniqueness(publication: Data, measured: Sequence[Data], condition: str = "") -> list[Figure]:
    if not measured:
        return []
    last = measured[-1]
    aside = f", {condition}" if condition else ""
    labels = [str(point["m"]) for point in last["release"]]
    series = [PlotSeries("release", [point["unique_mean"] for point in last["release"]], 0)]
    projections = dict.fromkeys(row["projection"] for row in last.get("source") or [] if "m" in row)
    for colour, projection in enumerate(projections, start=1):
        share_by_points = {
            str(row["m"]): row["unique_mean"] for row in last["source"] if row["projection"] == projection
        }
        series.append(
            PlotSeries(f"source, projection {projection}", [share_by_points.get(label) for label in labels], colour)
        )
    title = f"Unique cases by points known, release {last['label']}{aside}"
    releases = [entry["label"] for entry in measured]
    worst = [PlotSeries("worst", [entry["worst"] for entry in measured], 0)]
    # The gate reads the first figures; a bound beside an upper limit would look broken.
    bounds = [] if condition and "as_released" in last else _bound(publication["bounds"], "max_uniqueness")
    unit = "share of cases"
    drawn = (
        _figure(plots.lines, title, "points known", labels, series, unit, bounds=bounds),
        _figure(
            plots.lines, f"Unique cases in the release, worst{aside}", "release", releases, worst, unit, bounds=bounds
        ),
    )
    return [figure for figure in drawn if figure is not None]


def utility(publication: Data) -> Figure | None:
    """Draw data utility and agreement of the directly-follows graphs by release."""
    entries = publication["utility"]
    measured = [entry if entry["status"] == "ok" else {} for entry in entries]
    graph = [entry.get("dfg") or {} for entry in measured]
    series = [
        PlotSeries("data utility", [entry.get("data_utility") for entry in measured], 0),
        PlotSeries("DFG fitness", [agreement.get("fitness") for agreement in graph], 1),
        PlotSeries("DFG precision", [agreement.get("precision") for agreement in graph], 2),
        PlotSeries("DFG F1", [agreement.get("f1") for agreement in graph], 3),
    ]
    labels, bounds = [entry["label"] for entry in entries], _bound(publication["bounds"], "min_utility")
    return _figure(plots.lines, "Utility by release", "release", labels, series, "1 is best", bounds=bounds)


def _running(values: Sequence[float]) -> list[float]:
    total, sums = 0.0, []
    for value in values:
        total += value
        sums.append(total)
    return sums
