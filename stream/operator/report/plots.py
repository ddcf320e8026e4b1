"""Line and bar plots as inline SVG, drawn for a column of 360 units so that they stay readable on a phone.

Colours come from the page's style sheet (classes s0, s1, ...), so one drawing serves light, dark and paper. Every
series also has a marker or a place of its own: colour is never the only difference. A missing value is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

WIDTH, HEIGHT = 360.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 42.0, 10.0, 26.0, 36.0
MOST_LABELS = 12
SHARES = ("share", "share of events", "share of cases", "share of the matching set", "1 is best")
"""Units that run from 0 to 1: their axes always do, whatever the values."""
WIDE_RANGE = 40.0
"""From this ratio of largest to least value on, the axis is logarithmic: anonymity runs from 1 to thousands."""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line or one kind of bar. `colour`: which class of the style sheet."""

    name: str
    values: Sequence[float | None]
    colour: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A horizontal line: what the gate asks, or a `reference` that nothing is measured against. Its name stands in
    the legend: in the plot it would lie on bars and lines."""

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
        """Where a value stands on the drawing."""
        if self.logarithmic:
            share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def ticks(self) -> list[float]:
        """Round values within the axis."""
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            few = len(powers) <= 3
            values = [step * 10.0**power for power in powers for step in ((1, 2, 5) if few else (1,))]
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
) -> Markup:
    """Values by release, a line each; a gap where there is none. `unit` names the values, `across` the labels. Shares
    have the whole axis from 0 to 1, so that figures of equal unit compare."""
    axis = _axis(series, bounds, share=unit in SHARES)
    if axis is None:
        return Markup("")
    places = [_centre(index, len(labels)) for index in range(len(labels))]
    body = [*_frame(axis, labels, places, unit, across), *_bounds(axis, bounds)]
    for one in series:
        points = [None if v is None else (x, axis.y(v)) for x, v in zip(places, one.values, strict=True)]
        body += _line(points, one, labels)
    return _svg(title, _described(series, labels), body)


def bars(
    title: str,
    labels: Sequence[str],
    series: Sequence[PlotSeries],
    unit: str,
    bounds: Sequence[Bound] = (),
    across: str = "",
    among: Sequence[float] = (),
) -> Markup:
    """Groups of bars, one group a label, one bar a series; a dot on the ground where there is no value. `among`:
    the values of all figures that are compared with this one: they have one axis."""
    axis = _axis(series, bounds, share=unit in SHARES, among=among)
    if axis is None:
        return Markup("")
    places = [_centre(index, len(labels)) for index in range(len(labels))]
    room = (WIDTH - LEFT - RIGHT) / max(1, len(labels)) * 0.8
    width = min(22.0, room / max(1, len(series)))
    body = [*_frame(axis, labels, places, unit, across)]
    for number, one in enumerate(series):
        shift = (number - len(series) / 2) * width
        for x, value, label in zip(places, one.values, labels, strict=True):
            body.append(_bar(axis, x + shift, width, value, f"{one.name}, {label}", one.colour))
    return _svg(title, _described(series, labels), [*body, *_bounds(axis, bounds)])


ROW = 34.0
"""Height of one line of a timeline: its name, and the marks below."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: `share` of the way from the first moment to the last; `shape`: a colour and a form."""

    share: float
    shape: int
    text: str


def timeline(title: str, rows: Sequence[tuple[str, Sequence[Mark]]], ends: tuple[str, str]) -> Markup:
    """One line a row, its marks where they stand in time; `ends`: the first and the last moment."""
    body, left, right = [], 10.0, WIDTH - 10.0
    for index, (name, marks) in enumerate(rows):
        y = index * ROW + 24
        body.append(f'<text class="tick" x="{left - 4:g}" y="{y - 11:.1f}">{escape(name[:48])}</text>')
        body.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body += [_marker(left + one.share * (right - left), y, one.shape, one.text) for one in marks]
    height = len(rows) * ROW + 20
    body.append(f'<text class="unit" x="{left - 4:g}" y="{height - 6:g}">{escape(ends[0])}</text>')
    body.append(f'<text class="unit" x="{right + 4:g}" y="{height - 6:g}" text-anchor="end">{escape(ends[1])}</text>')
    told = "; ".join(f"{name}: {len(marks)} marks" for name, marks in rows)
    return _svg(title, told, body, height)


def _axis(
    series: Sequence[PlotSeries], bounds: Sequence[Bound], *, share: bool = False, among: Sequence[float] = ()
) -> Axis | None:
    values = [v for one in series for v in one.values if v is not None]
    if not values:
        return None
    values += [bound.value for bound in bounds] + [*among]
    if share:
        return Axis(0.0, max(1.0, *values), False)
    least, most = min(values), max(values)
    if least >= 1 and most / least > WIDE_RANGE:
        return Axis(1.0, _above(most), True)
    step = _round_step(most / 5) if most > 0 else 1.0
    return Axis(0.0, max(step, math.ceil(most / step - 1e-9) * step), False)


def _above(most: float) -> float:
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1.5, 2, 3, 5, 7, 10, 15) if step * power >= most)


def _round_step(rough: float) -> float:
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= rough - 1e-12)


def _centre(index: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / max(1, count)


def _frame(axis: Axis, labels: Sequence[str], places: Sequence[float], unit: str, across: str) -> Iterator[str]:
    for tick in axis.ticks():
        y = axis.y(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{_number(tick)}</text>'
    every = max(1, math.ceil(len(labels) / MOST_LABELS))
    for index in range(0, len(labels), every):
        text = escape(labels[index])
        x, y = places[index], HEIGHT - BOTTOM + 14
        yield f'<text class="tick" x="{x:.1f}" y="{y:g}" text-anchor="middle">{text}</text>'
    scale = f"{unit} (logarithmic)" if axis.logarithmic else unit
    yield f'<text class="unit" x="2" y="11">{escape(scale)}</text>'
    if across:
        yield f'<text class="unit" x="{WIDTH - RIGHT}" y="{HEIGHT - 5}" text-anchor="end">{escape(across)}</text>'


def _bounds(axis: Axis, bounds: Sequence[Bound]) -> Iterator[str]:
    for bound in bounds:
        y = axis.y(bound.value)
        yield (
            f'<line class="{bound.kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}">'
            f"<title>{escape(bound.text)}</title></line>"
        )


def _line(points: Sequence[tuple[float, float] | None], one: PlotSeries, labels: Sequence[str]) -> Iterator[str]:
    run: list[str] = []
    for point in [*points, None]:
        if point is not None:
            run.append(f"{point[0]:.1f},{point[1]:.1f}")
            continue
        if len(run) > 1:
            yield f'<polyline class="line s{one.colour}" points="{" ".join(run)}"/>'
        run = []
    for point, value, label in zip(points, one.values, labels, strict=True):
        if point is not None and value is not None:
            yield _marker(point[0], point[1], one.colour, f"{one.name}, {label}: {_number(value)}")


def _marker(x: float, y: float, shape: int, text: str) -> str:
    """A shape of its own for each series."""
    kind = shape % 4
    title = f"<title>{escape(text)}</title>" if text else ""
    if kind == 0:
        return f'<circle class="mark s{shape}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">{title}</circle>'
    if kind == 1:
        return (
            f'<rect class="mark s{shape}" x="{x - 2.9:.1f}" y="{y - 2.9:.1f}" width="5.8" height="5.8">{title}</rect>'
        )
    reach = 4.0
    corners = [(0, -reach), (reach, reach * 0.8), (-reach, reach * 0.8)]
    if kind == 3:
        corners = [(0, -reach), (reach, 0), (0, reach), (-reach, 0)]
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="mark s{shape}" points="{path}">{title}</polygon>'


def swatch(kind: str) -> Markup:
    """How a series or bound is drawn, for the legend. `kind`: `bound`, `bound reference`, `line s1`, `mark s1` or
    (bars) `s1`."""
    if kind.startswith("mark"):
        return _sign(10, _marker(5, 5, int(kind.rpartition("s")[2]), ""))
    if not kind.startswith(("bound", "line")):
        return _sign(10, f'<rect class="mark {kind}" width="10" height="10" rx="2"/>')
    line = f'<line class="{kind}" x1="0" x2="24" y1="5" y2="5"/>'
    shape = int(kind.rpartition("s")[2]) if kind.startswith("line") else None
    return _sign(24, line if shape is None else line + _marker(12, 5, shape, ""))


def _sign(width: int, body: str) -> Markup:
    return Markup(  # noqa: S704 - classes and numbers of our own
        f'<svg class="swatch" aria-hidden="true" viewBox="0 0 {width} 10" style="--wide:{width}">{body}</svg>'
    )


def _bar(axis: Axis, x: float, width: float, value: float | None, name: str, colour: int) -> str:
    ground = HEIGHT - BOTTOM
    if value is None:
        centre = x + width / 2
        title = f"<title>{escape(name)}: none</title>"
        return f'<circle class="none" cx="{centre:.1f}" cy="{ground - 3}" r="1.5">{title}</circle>'
    y = min(axis.y(value), ground - 1.5)  # a value of the least on the axis stays a visible bar
    return (
        f'<rect class="mark s{colour}" x="{x:.1f}" y="{y:.1f}" width="{width * 0.9:.1f}" height="{ground - y:.1f}">'
        f"<title>{escape(name)}: {_number(value)}</title></rect>"
    )


def _described(series: Sequence[PlotSeries], labels: Sequence[str]) -> str:
    parts = []
    for one in series:
        values = [v for v in one.values if v is not None]
        if values:
            parts.append(f"{one.name} from {_number(min(values))} to {_number(max(values))}")
    return f"{len(labels)} places; " + ", ".join(parts)


def _svg(title: str, description: str, body: Sequence[str], height: float = HEIGHT) -> Markup:
    inner = "".join(body)
    name = escape(f"{title}. {description}", quote=True)
    return Markup(  # noqa: S704 - every text in it went through escape()
        f'<svg class="plot" role="img" aria-label="{name}" viewBox="0 0 {WIDTH:g} {height:g}">{inner}</svg>'
    )


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.3g}"
