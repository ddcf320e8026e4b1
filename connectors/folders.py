"""A log in several files of one folder.

Their rows make one table, as if one file had been cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models.errors import InputError
from models.eventlog import Column, EventLog

if TYPE_CHECKING:
    import pandas as pd

    from connectors.bad_rows import Where


def parts(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the file itself, or the files of a folder with one of the suffixes.

    They are sorted by name. Hidden files and the manifest of a release are left out.
    """
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.iterdir()
        if file.is_file()
        and not file.name.startswith((".", "_"))
        and file.name != "manifest.json"
        and file.name.lower().endswith(tuple(suffixes))
    )


def joined(tables: Sequence[pd.DataFrame], where: Sequence[Where]) -> tuple[pd.DataFrame, Where]:
    """Return one table of the rows of all tables, and the place of each row.

    All tables must have the same columns, in any order.
    """
    import pandas as pd

    if len(tables) == 1:
        return tables[0], where[0]
    first = set(tables[0].columns)
    for table, place in zip(tables, where, strict=True):
        if set(table.columns) != first:
            differing = ", ".join(sorted(repr(str(name)) for name in first.symmetric_difference(table.columns)))
            raise InputError(
                f"{place(0).rpartition(':')[0]}: other columns than the first file of the folder ({differing})"
            )
    ends = list(accumulate(len(table) for table in tables))

    def at(row: int) -> str:
        file = int(np.searchsorted(ends, row, side="right"))
        return where[file](row - (ends[file - 1] if file else 0))

    return pd.concat(tables, ignore_index=True), at


def one_after_another(logs: Sequence[EventLog], folder: Path) -> EventLog:
    """Return logs of distinct cases as one log.

    Raises
    ------
    InputError
        A case is in two files: a file of XES has whole cases only.
    """
    ids = tuple(chain.from_iterable(log.case_ids for log in logs))
    if len(set(ids)) != len(ids):
        raise InputError(f"{folder}: a case stands in two files of the folder; a case of XES stands whole in one")
    events = np.cumsum([0, *(log.n_events for log in logs)])
    return EventLog(
        ids,
        np.concatenate([[0], *(log.starts[1:] + begin for log, begin in zip(logs, events, strict=False))]).astype(
            np.int64
        ),
        _chained([log.activity for log in logs]),
        np.concatenate([log.time for log in logs]),
        _chained([log.resource for log in logs]),
        np.concatenate([log.row + begin for log, begin in zip(logs, events, strict=False)]),
        _by_name([log.case_attributes for log in logs], [log.n_cases for log in logs]),
        _by_name([log.event_attributes for log in logs], [log.n_events for log in logs]),
        None
        if any(log.offset is None for log in logs)
        else np.concatenate([log.offset for log in logs if log.offset is not None]),
    )


def _chained(columns: Sequence[Column]) -> Column:
    return Column.encode(chain.from_iterable(column.decode() for column in columns))


def _by_name(tables: Sequence[Mapping[str, Column]], sizes: Sequence[int]) -> dict[str, Column]:
    names = dict.fromkeys(chain.from_iterable(tables))
    return {
        name: Column.encode(
            chain.from_iterable(
                table[name].decode() if name in table else [None] * size
                for table, size in zip(tables, sizes, strict=True)
            )
        )
        for name in names
    }
