"""Elements of SVG: every picture of the report is built from these.

Only this module escapes texts and attributes. Colours are classes of the page's style sheet (s0, s1, ...), so one
drawing is right for light, dark and paper.
"""

from __future__ import annotations

from markupsafe import Markup

Scalar = str | float

NAME_SPACE = "http://www.w3.org/2000/svg"
"""Of a picture in a file of its own; within a page it is known."""


def element(name: str, *content: str | Markup, **attributes: Scalar) -> Markup:
    """Return an element of SVG.

    Parameters
    ----------
    name
        Its tag.
    content
        Its text or elements, in order.
    attributes
        Its attributes. An underscore is written as a hyphen, and one at the end of a name is dropped (`class_`).
        Numbers are written with one decimal at most.
    """
    written = Markup("")
    for key, value in attributes.items():
        written += Markup(' {}="{}"').format(_name(key), _written(value))
    opening = Markup("<{}{}>").format(name, written)
    closing = Markup("</{}>").format(name)
    return opening + Markup("").join(content) + closing


def picture(
    kind: str,
    label: str,
    width: float,
    height: float,
    content: list[Markup],
    **attributes: Scalar,
) -> Markup:
    """Return a whole picture.

    Parameters
    ----------
    kind, label
        Its class, and its description for a screen reader.
    width, height
        Its size in units of the drawing.
    content
        Its elements.
    attributes
        Further attributes, as in `element`.
    """
    view = f"0 0 {width:g} {height:g}"
    return element("svg", *content, class_=kind, role="img", aria_label=label, viewBox=view, **attributes)


def title(text: str) -> list[Markup]:
    """Return the tooltip of an element; no element for an empty text."""
    return [element("title", text)] if text else []


def marker(x: float, y: float, shape: int, text: str = "") -> Markup:
    """Return the mark of a series at a place. Each series has another form, so colour is never the only difference.

    Parameters
    ----------
    x, y
        Centre of the mark.
    shape
        Number of the series.
    text
        Text that a browser shows at the mark.
    """
    style, form = f"mark s{shape}", shape % 4
    if form == 0:
        return element("circle", *title(text), class_=style, cx=x, cy=y, r=3.2)
    if form == 1:
        return element("rect", *title(text), class_=style, x=x - 2.9, y=y - 2.9, width=5.8, height=5.8)
    triangle = [(0, -4.0), (4.0, 3.2), (-4.0, 3.2)]
    diamond = [(0, -4.0), (4.0, 0), (0, 4.0), (-4.0, 0)]
    corners = triangle if form == 2 else diamond
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return element("polygon", *title(text), class_=style, points=points)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _written(value: Scalar) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"
