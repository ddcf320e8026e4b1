"""Releases that must follow from the recorded delta topic: an embedded re-fold, and a log file for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from connectors import read_log
from models.eventlog import EventLog
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Config, Cut
from stream.fold.rules import FoldRules

Content = Counter[tuple[tuple[str, ...], Any]]


@dataclass(frozen=True)
class Release:
    """A cut and what it exposes: traces with their sensitive values, as a bag."""

    cut: Cut
    content: Content


def content(log: EventLog, sensitive: tuple[str, ...]) -> Content:
    """Return the bag of (trace, sensitive values) of a log; a released log has the same attribute names."""
    columns = [
        log.case_values(name).decode()
        if name in log.case_attributes or name in log.event_attributes
        else [None] * log.n_cases
        for name in sensitive
    ]
    values = list(zip(*columns, strict=True)) if columns else [()] * log.n_cases
    return Counter(zip(log.traces(), (tuple(map(str, value)) for value in values), strict=True))


def refold(records: Iterable[tuple[int, bytes]], sensitive: tuple[str, ...]) -> tuple[Fold, list[Release]]:
    """Return the fold of a recorded delta topic, under the rules of its first config record."""
    decoded = [(offset, msgspec.json.decode(value, type=AnyRecord)) for offset, value in records]
    first = next(record for _, record in decoded if isinstance(record, Config))
    fold = Fold(FoldRules.from_mapping(first.body))
    found = []
    for offset, record in decoded:
        for cut in fold.apply(offset, record):
            found.append(Release(cut, content(fold.exposed(cut).log, sensitive)))
            fold.decided(cut, released=True)
    return fold, found


def released(output: Path, publication: str, sensitive: tuple[str, ...]) -> list[Content]:
    """Return the contents of the releases in the public folder, by number."""
    folders = sorted((output / "public" / publication).glob("release-*"))
    return [content(read_log(folder / "log.xes.gz"), sensitive) for folder in folders]
