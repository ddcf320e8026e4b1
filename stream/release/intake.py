"""Where the promise of epsilon begins: at the rows of a file, at the records of a topic, or at the log as it was read.

A reader that looks at all rows before it reads one (for the encoding, the order of day and month, the type of a column)
lets one person decide how everybody else is read, and no noise that is drawn later bounds that. What is promised of a
release therefore says how its events came in (docs/decisions/029-what-no-row-decides.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Intake = Literal["rows", "rows to the last event", "records", "log"]
"""How events came in: row by row as declared (to a declared end, or to the last event), record by record from topics,
or as a log that was read in some way."""

_ROWS = (
    "the promise begins at the rows (XES: events) of the file: each is read by itself, as declared, and rows that "
    "cannot be read are left out one by one; a file that is damaged as a whole is refused, which is not covered"
)

STATEMENTS: Mapping[Intake, str] = {
    "rows": _ROWS,
    "rows to the last event": (
        f"{_ROWS}, and neither is how many releases a replay has: it ends with the last event unless its end is "
        "declared (--until)"
    ),
    "records": (
        "the promise begins at the records of the source topics: each is read by itself, by the configuration and the "
        "schema that it names, and records that cannot be read are left out one by one"
    ),
    "log": (
        "the promise begins at the log as it was read; how it was read (which rows, types, formats and zones) may "
        "depend on every row of the file, and is not covered"
    ),
}
"""What manifests say of each, in `promise.intake`."""
