"""Line and bar plots as inline SVG, drawn for a column of 360 units so that they stay readable on a phone.

Every series has a marker or a place of its own besides its colour. A missing value is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stream.values import svg
from stream.values.svg import element

WIDTH, HEIGHT = 360.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 42.0, 10.0, 26.0, 36.0
GROUND = HEIGHT - BOTTOM
MOST_LABELS = 12
SHARES = ("share", "share of events", "share of cases", "share of the matching set", "1 is best")
"""Units that run from 0 to 1: their axes do so for all values."""
WIDE_RANGE = 40.0
"""From this ratio of largest to least value on, the axis is logarithmic: anonymity runs from 1 to thousands."""
WIDEST_BAR = 22.0
LEAST_BAR = 1.5
"""Least height of a bar: the least value of the axis is visible too."""
TIMELINE_ROW = 34.0
"""Height of one row of a timeline: its name, and the marks below."""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line or one kind of bar. `colour`: its class in the style sheet."""

    name: str
    values: Sequence[float | None]
    colour: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A horizontal line: a bound of the gate, or a `reference` that bounds nothing.

    Its name is in the legend, since in the plot it would cover bars and lines.
    """

    name: str
    value: float
    reference: bool = False

    @property
    def kind(self) -> str:
        """Its class in the style sheet."""
        return "bound reference" if self.reference else "bound"

    @property
    def text(self) -> str:
        """Name and value."""
        return f"{self.name}: {_number(self.value)}"


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical scale."""

    low: float
    high: float
    logarithmic: bool

    def y(self, value: float) -> float:
        """Return the height of a value on the drawing.

        Parameters
        ----------
        value
            A value within the axis.
        """
        if self.logarithmic:
            decades = math.log10(self.high) - math.log10(self.low)
            share = (math.log10(value) - math.log10(self.low)) / decades
        else:
            share = (value - self.low) / (self.high - self.low)
        return GROUND - share * (GROUND - TOP)

    def ticks(self) -> list[float]:
        """Return round values within the axis."""
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if len(powers) <= 3 else (1,)
            values = [step * 10.0**power for power in powers for step in steps]
        else:
            step = _round_step((self.high - self.low) / 5)
            values = [step * index for index in range(round(self.high / step) + 1)]
        return [value for value in values if self.low - 1e-9 <= value <= self.high * (1 + 1e-9)]


def lines(
    title: str,
    labels: Sequence[str],
    series: Sequence[PlotSeries],
    unit: str,
    bounds: Sequence[Bound] = (),
    across: str = "",
    among: Sequence[float] = (),
) -> Markup:
    """Draw a line for each series, with a gap for each missing value.

    Parameters
    ----------
    title, labels, series
        Title of the plot, and a value of each series for each label.
    unit
        The name of the values. Shares have the whole axis from 0 to 1, so that figures of one unit compare.
    bounds
        Horizontal lines.
    across
        The name of the labels.
    among
        The values of all figures that are compared with this one: they have one axis.
    """
    axis = _axis(series, bounds, unit, among)
    if axis is None:
        return Markup("")
    places = _places(labels)
    body = _frame(axis, labels, unit, across) + _bound_lines(axis, bounds)
    for drawn in series:
        body += _line(axis, places, labels, drawn)
    return _plot(title, labels, series, body)


def bars(
    title: str,
    labels: Sequence[str],
    series: Sequence[PlotSeries],
    unit: str,
    bounds: Sequence[Bound] = (),
    across: str = "",
    among: Sequence[float] = (),
) -> Markup:
    """Draw a group of bars for each label, a bar for each series, and a dot on the ground for each missing value.

    The parameters are those of `lines`.
    """
    axis = _axis(series, bounds, unit, among)
    if axis is None:
        return Markup("")
    room = (WIDTH - LEFT - RIGHT) / max(1, len(labels)) * 0.8
    width = min(WIDEST_BAR, room / max(1, len(series)))
    body = _frame(axis, labels, unit, across)
    for number, drawn in enumerate(series):
        shift = (number - len(series) / 2) * width
        for place, value, label in zip(_places(labels), drawn.values, labels, strict=True):
            body.append(_bar(axis, place + shift, width, value, f"{drawn.name}, {label}", drawn.colour))
    return _plot(title, labels, series, body + _bound_lines(axis, bounds))


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on a timeline, at a `share` of the time from the first moment to the last; `shape`: colour and form."""

    share: float
    shape: int
    text: str


def timeline(title: str, rows: Sequence[tuple[str, Sequence[Mark]]], ends: tuple[str, str]) -> Markup:
    """Draw one row for each name, its marks by their time.

    Parameters
    ----------
    title
        Title of the figure.
    rows
        Each name with its marks.
    ends
        The first and the last moment, as text.
    """
    left, right = 10.0, WIDTH - 10.0
    body: list[Markup] = []
    for index, (name, marks) in enumerate(rows):
        y = index * TIMELINE_ROW + 24
        body.append(element("text", name[:48], class_="tick", x=left - 4, y=y - 11))
        body.append(element("line", class_="grid", x1=left, x2=right, y1=y, y2=y))
        for mark in marks:
            x = left + mark.share * (right - left)
            body.append(svg.marker(x, y, mark.shape, mark.text))
    height = len(rows) * TIMELINE_ROW + 20
    first, last = ends
    body.append(element("text", first, class_="unit", x=left - 4, y=height - 6))
    body.append(element("text", last, class_="unit", x=right + 4, y=height - 6, text_anchor="end"))
    counts = "; ".join(f"{name}: {len(marks)} marks" for name, marks in rows)
    return svg.picture("plot", f"{title}. {counts}", WIDTH, height, body)


def swatch(kind: str) -> Markup:
    """Return the sign of a series or bound in a legend.

    `kind`: `bound`, `bound reference`, `line s1`, `mark s1` or (for bars) `s1`.

    Parameters
    ----------
    kind
        `bound`, `bound reference`, `line s1`, `mark s1` or (for bars) `s1`.
    """
    shape = int(kind.rpartition("s")[2]) if kind.startswith(("mark", "line")) else 0
    if kind.startswith("mark"):
        return _sign(10, svg.marker(5, 5, shape))
    if kind.startswith("line"):
        return _sign(24, _rule(kind, 0, 24, 5), svg.marker(12, 5, shape))
    if kind.startswith("bound"):
        return _sign(24, _rule(kind, 0, 24, 5))
    return _sign(10, element("rect", class_=f"mark {kind}", width=10, height=10, rx=2))


def _sign(width: int, *content: Markup) -> Markup:
    view, style = f"0 0 {width} 10", f"--wide:{width}"
    return element("svg", *content, class_="swatch", aria_hidden="true", viewBox=view, style=style)


# The parts of a plot.


def _axis(
    series: Sequence[PlotSeries],
    bounds: Sequence[Bound],
    unit: str,
    among: Sequence[float] = (),
) -> Axis | None:
    """Return the axis that holds all values and bounds; None if no series has a value."""
    values = [value for drawn in series for value in drawn.values if value is not None]
    if not values:
        return None
    values += [bound.value for bound in bounds]
    values += among
    if unit in SHARES:
        return Axis(0.0, max(1.0, *values), logarithmic=False)
    least, most = min(values), max(values)
    if least >= 1 and most / least > WIDE_RANGE:
        return Axis(1.0, _round_above(most), logarithmic=True)
    step = _round_step(most / 5) if most > 0 else 1.0
    highest = math.ceil(most / step - 1e-9) * step
    return Axis(0.0, max(step, highest), logarithmic=False)


def _round_above(most: float) -> float:
    power = 10.0 ** math.floor(math.log10(most))
    round_values = [step * power for step in (1.5, 2, 3, 5, 7, 10, 15)]
    return next(value for value in round_values if value >= most)


def _round_step(rough: float) -> float:
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    round_steps = [step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0)]
    return next(step for step in round_steps if step >= rough - 1e-12)


def _places(labels: Sequence[str]) -> list[float]:
    """Return the middle of each label's part of the width."""
    room = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    return [LEFT + room * (index + 0.5) for index in range(len(labels))]


def _frame(axis: Axis, labels: Sequence[str], unit: str, across: str) -> list[Markup]:
    """Draw the grid, the numbers of the axis, the labels, and the names of axis and labels."""
    frame: list[Markup] = []
    for tick in axis.ticks():
        y = axis.y(tick)
        frame.append(_rule("grid", LEFT, WIDTH - RIGHT, y))
        frame.append(element("text", _number(tick), class_="tick", x=LEFT - 5, y=y + 3.5, text_anchor="end"))
    every = max(1, math.ceil(len(labels) / MOST_LABELS))
    for label, place in list(zip(labels, _places(labels), strict=True))[::every]:
        frame.append(element("text", label, class_="tick", x=place, y=GROUND + 14, text_anchor="middle"))
    scale = f"{unit} (logarithmic)" if axis.logarithmic else unit
    frame.append(element("text", scale, class_="unit", x=2, y=11))
    if across:
        frame.append(element("text", across, class_="unit", x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"))
    return frame


def _rule(kind: str, x1: float, x2: float, y: float, text: str = "") -> Markup:
    return element("line", *svg.title(text), class_=kind, x1=x1, x2=x2, y1=y, y2=y)


def _bound_lines(axis: Axis, bounds: Sequence[Bound]) -> list[Markup]:
    return [_rule(bound.kind, LEFT, WIDTH - RIGHT, axis.y(bound.value), bound.text) for bound in bounds]


def _line(axis: Axis, places: Sequence[float], labels: Sequence[str], drawn: PlotSeries) -> list[Markup]:
    """Draw unbroken runs of values as lines, and a marker for each value."""
    runs: list[list[str]] = [[]]
    markers: list[Markup] = []
    for place, value, label in zip(places, drawn.values, labels, strict=True):
        if value is None:
            runs.append([])
            continue
        y = axis.y(value)
        runs[-1].append(f"{place:.1f},{y:.1f}")
        markers.append(svg.marker(place, y, drawn.colour, f"{drawn.name}, {label}: {_number(value)}"))
    kind = f"line s{drawn.colour}"
    lines_of_runs = [element("polyline", class_=kind, points=" ".join(run)) for run in runs if len(run) > 1]
    return lines_of_runs + markers


def _bar(axis: Axis, x: float, width: float, value: float | None, name: str, colour: int) -> Markup:
    if value is None:
        text, middle = svg.title(f"{name}: none"), x + width / 2
        return element("circle", *text, class_="none", cx=middle, cy=GROUND - 3, r=1.5)
    y = min(axis.y(value), GROUND - LEAST_BAR)
    text = svg.title(f"{name}: {_number(value)}")
    return element("rect", *text, class_=f"mark s{colour}", x=x, y=y, width=width * 0.9, height=GROUND - y)


def _plot(title: str, labels: Sequence[str], series: Sequence[PlotSeries], body: list[Markup]) -> Markup:
    """Return the whole picture, described for a screen reader by the range of each series."""
    ranges = []
    for drawn in series:
        values = [value for value in drawn.values if value is not None]
        if values:
            ranges.append(f"{drawn.name} from {_number(min(values))} to {_number(max(values))}")
    return svg.picture("plot", f"{title}. {len(labels)} places; {', '.join(ranges)}", WIDTH, HEIGHT, body)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.3g}"
