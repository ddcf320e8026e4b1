"""The output of commands: JSON on stdout, everything else on stderr."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from models.errors import InputError
from stream.values.visible import visible, visible_json

if TYPE_CHECKING:
    from rich.table import Table

    from stream.release.verdict import Verdict

WIDE = 200
"""Columns of a file or a pipe, which have no width of their own. With the usual 80, times and reasons would be cut."""


def emit_json(value: Any) -> None:
    """Print one JSON document on stdout. NaN and infinities become null.

    Parameters
    ----------
    value
        The document.
    """
    sys.stdout.buffer.write(visible_json(msgspec.json.encode(_finite(value))) + b"\n")
    sys.stdout.buffer.flush()


def check_page(path: Path | None, subject: str, hint: str = "") -> None:
    """Refuse the file of a page for people that is neither HTML nor Markdown, before the page is made.

    Parameters
    ----------
    path
        The file; None if the page is printed.
    subject
        What the page is, for the message.
    hint
        Another way to get it, which continues the message.

    Raises
    ------
    InputError
        If the suffix is neither `.html` nor `.md`.
    """
    if path is not None and path.suffix not in (".html", ".md"):
        raise InputError(f"{path}: the {subject} is written as .html or .md{hint}")


def write_page(path: Path, text: str, *, private: bool) -> None:
    """Write a page for people. If it is private, a new file is readable by its owner only.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    text
        Its content.
    private
        Whether the page is for its owner alone.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        if private:
            path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


class _Plain(Console):
    """A console that prints text of a log as text: it moves no cursor and turns no direction."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with control characters replaced."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(visible(part.text), part.style)


def tables() -> Console:
    """Return the console for tables (stdout). Brackets in text are not markup."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return _Plain(highlight=False, markup=False, width=None if has_width else WIDE)


def grid(*names: str, title: str | None = None, word_columns: int = 1) -> Table:
    """Return a table without lines between its columns, for 80 columns of text.

    A word that is too long continues in the next line; nothing is cut, and no word of a heading is divided.

    Parameters
    ----------
    *names
        Headings of the columns.
    title
        Title of the table.
    word_columns
        Number of first columns that hold words; the others hold numbers.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for at, name in enumerate(names):
        widest = max(map(len, name.split()))
        table.add_column(name, justify="left" if at < word_columns else "right", overflow="fold", min_width=widest)
    return table


def or_dash(value: Any, form: str = "") -> str:
    """Return a figure in a format, "-" if there is none.

    Parameters
    ----------
    value
        A figure or a text.
    form
        Format as of `format`.
    """
    return "-" if value is None else format(value, form)


def filled(names: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str, word_columns: int) -> Table:
    """Return a grid with rows, without columns that are empty in all rows.

    Releases with noise have no counts, for example.

    Parameters
    ----------
    names
        Headings of the columns.
    rows
        Cells of each row; None is empty.
    title
        Title of the table.
    word_columns
        Number of first columns that hold words.
    """

    def has_value(column: int) -> bool:
        return any(row[column] is not None for row in rows)

    kept = [column for column in range(len(names)) if has_value(column)]
    kept_word_columns = sum(column < word_columns for column in kept)
    table = grid(*(names[column] for column in kept), title=title, word_columns=kept_word_columns)
    for row in rows:
        cells = [row[column] for column in kept]
        table.add_row(*["" if cell is None else str(cell) for cell in cells])
    return fitted(table)


def fitted(table: Table) -> Table:
    """Return the table with one space between columns if two would divide a word.

    Parameters
    ----------
    table
        The table; its padding may change.
    """
    from rich.measure import Measurement

    console = tables()
    without_limit = console.options.update(max_width=_ENDLESS)
    full_width = Measurement.get(console, without_limit, table).maximum
    if full_width > console.width:
        table.padding = (0, 0, 0, 0)
    return table


def show_reasons(console: Console, rows: Iterable[tuple[str, str, str]]) -> None:
    """Print one line for each reason of attempts, with the number of its attempts.

    Parameters
    ----------
    console
        The console.
    rows
        (number or sign, moment, reasons) of each attempt; reasons may be empty.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for number, moment, reasons in rows:
        if reasons:
            groups.setdefault(reasons, []).append((number, moment))
    for reasons, attempts in groups.items():
        numbers = list(dict.fromkeys(number for number, _ in attempts))
        named = ", ".join(numbers[:_NAMED])
        if len(numbers) > _NAMED:
            named += f" and {len(numbers) - _NAMED} more"
        first_moment, last_moment = attempts[0][1], attempts[-1][1]
        moments = first_moment
        if len(attempts) > 1:
            moments = f"{len(attempts)} times, {first_moment} to {last_moment}"
        console.print(f"  {named}, {moments}: {reasons}")


_NAMED = 6
"""Releases of one reason that are named; all of them have a row in the table above."""


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print one line per publication, and one below it about readers of the rules.

    Word and symbol state the same as the colour.
    """
    from stream.release.verdict import LOOKS

    console = tables()
    for verdict in verdicts:
        for line in verdict.lines():
            console.print(line, style=LOOKS[verdict.verdict].colour, soft_wrap=False)


_ENDLESS = 10_000
"""Columns that no table needs."""


def progress() -> Progress:
    """Return a progress bar on stderr, shown on terminals only."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _finite(value.item())
    return value
