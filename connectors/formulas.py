"""CSV cells that a spreadsheet would evaluate.

They are guarded in output, and restored by our reader. A label is any text that a source wrote; opened in a
spreadsheet, `=HYPERLINK(...)` is a program.
"""

from __future__ import annotations

import re

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""Characters that make a cell a formula for spreadsheets, the full-width forms too; behind quotes of `guarded`."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|inf)", re.ASCII)
"""A number is not a formula, and stays one."""


def guarded(text: str) -> str:
    """Return the text as a cell that no spreadsheet evaluates.

    A quote is put before a text that would be a formula. `unguarded` restores the text.

    Parameters
    ----------
    text
        The text. Numbers stay as they are.

    References
    ----------
    OWASP, CSV injection.
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguarded(cell: str) -> str:
    """Return the cell without the quote of `guarded`.

    Parameters
    ----------
    cell
        Text of a cell.
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
