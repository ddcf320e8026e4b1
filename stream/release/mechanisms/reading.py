"""Whether a release that was read back from its file satisfies TLKC-privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from models.anonymize.check import first_violation
from models.anonymize.sensitive import Edges, class_columns, quartile_classes
from models.anonymize.values import text_of
from models.anonymize.violations import TlkcBounds
from models.eventlog import MISSING, Column, EventLog
from models.knowledge import Structure
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Exposure


def faults(
    released: ReleaseRecord,
    exposure: Exposure,
    structures: Sequence[Structure],
    bounds: TlkcBounds,
    bins: Mapping[str, Edges],
) -> list[str]:
    """One line for each structure of knowledge for which the checker, which shares nothing with the search, finds a
    violating candidate: counts, no item."""
    classes = list(classes_read(released.log, exposure, bins).values())
    found = []
    for structure in structures:
        names = tuple(name for name in released.carries if name != "relative_time" or structure == "rel")
        fault = first_violation(
            released.log.starts, released.items(names), structure, classes, bounds.L, bounds.K, bounds.C
        )
        if fault is not None:
            found.append(
                f"{structure}: {len(fault.candidate)} items match {fault.support} cases, {fault.worst} of them with "
                f"one value (L = {bounds.L}, K = {bounds.K}, C = {float(bounds.C):g})"
            )
    return found


def classes_read(read: EventLog, exposure: Exposure, bins: Mapping[str, Edges]) -> dict[str, Column]:
    """The class of each case by sensitive attribute, as `class_columns` gives it for the exposed log.

    Values are compared by their text: that is what they have in common in all formats. Given bins are applied to the
    values that were read; quartiles are those of the exposed log, of which a release may be a part.
    """
    return {name: _classes(name, read, exposure, bins) for name in exposure.sensitive}


def _classes(name: str, read: EventLog, exposure: Exposure, bins: Mapping[str, Edges]) -> Column:
    if name not in read.case_attributes:  # a format leaves out an attribute that no case has
        return Column(np.full(read.n_cases, MISSING, dtype=np.int32), ())
    if name in bins:
        return class_columns(read, [name], {name: bins[name]})[name]
    found, own = read.case_attributes[name], exposure.log.case_values(name)
    by_text = {}
    if own.values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in own.values):
        pairs = zip(own.decode(), quartile_classes(own).decode(), strict=True)
        by_text = {text_of(value): label for value, label in pairs}
    texts = [text_of(value) for value in found.values]
    labels = Column.encode(by_text.get(text, text) or None for text in texts)
    return Column(np.append(labels.codes, np.int32(MISSING))[found.codes], labels.values)
