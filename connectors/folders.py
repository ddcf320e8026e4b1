"""A log in several files of one folder.

Their rows make one table, as if one file had been cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models.errors import InputError
from models.eventlog import EventLog

if TYPE_CHECKING:
    import pandas as pd

    from connectors.bad_rows import PlaceOfRow


def parts(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the file itself, or the files of a folder with one of the suffixes.

    They are sorted by name. Hidden files and the manifest of a release are left out.

    Parameters
    ----------
    path
        A file or a folder.
    suffixes
        Suffixes in lower case, such as `.csv` and `.csv.gz`.
    """
    if not path.is_dir():
        return [path]
    files = []
    for file in sorted(path.iterdir()):
        is_left_out = file.name.startswith((".", "_")) or file.name == "manifest.json"
        has_suffix = file.name.lower().endswith(tuple(suffixes))
        if has_suffix and not is_left_out and file.is_file():
            files.append(file)
    return files


def joined(tables: Sequence[pd.DataFrame], places: Sequence[PlaceOfRow]) -> tuple[pd.DataFrame, PlaceOfRow]:
    """Return one table of the rows of all tables, and the place of each row.

    All tables must have the same columns, in any order.

    Parameters
    ----------
    tables
        One table a file, at least one.
    places
        For each table, a function from a row of it to its place.

    Returns
    -------
    table
        Rows of all tables, in order.
    place_of
        Function from a row of it to its place.

    Raises
    ------
    InputError
        If two tables have different columns.
    """
    import pandas as pd

    if len(tables) == 1:
        return tables[0], places[0]
    first = set(tables[0].columns)
    for table, place_in_table in zip(tables, places, strict=True):
        if set(table.columns) != first:
            differing_names = first.symmetric_difference(table.columns)
            differing = ", ".join(sorted(repr(str(name)) for name in differing_names))
            raise InputError(
                f"{place_in_table(0).rpartition(':')[0]}: other columns than the first file of the folder ({differing})"
            )
    ends = list(accumulate(len(table) for table in tables))

    def place_of(row: int) -> str:
        file = int(np.searchsorted(ends, row, side="right"))
        return places[file](row - (ends[file - 1] if file else 0))

    return pd.concat(tables, ignore_index=True), place_of


def one_after_another(logs: Sequence[EventLog], folder: Path) -> EventLog:
    """Return logs of distinct cases as one log.

    Parameters
    ----------
    logs
        The logs in order, at least one.
    folder
        The folder, for the message.

    Raises
    ------
    InputError
        A case is in two files: a file of XES has whole cases only.
    """
    ids = list(chain.from_iterable(log.case_ids for log in logs))
    if len(set(ids)) != len(ids):
        raise InputError(
            f"{folder}: a case appears in two files of the folder; XES has all events of a case in one file"
        )
    n_earlier_rows = 0
    numbered_logs = []
    for log in logs:  # rows count on from file to file
        numbered_logs.append(replace(log, row=log.row + n_earlier_rows))
        n_earlier_rows += log.n_events
    return EventLog.together(numbered_logs)
