"""The headers under which programs export event logs, so that nobody has to name columns that everybody knows.

Disco, Celonis, pm4py and ProM, and the words that stand for these parts in hand-made tables. Only whole names count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from connectors.columns import ColumnNames

_TIERS: Mapping[str, tuple[frozenset[str], ...]] = {
    role: tuple(frozenset(tier.split()) for tier in tiers)
    for role, tiers in {
        "case": (
            "case:concept:name",
            "casekey caseid caseconceptname",
            "case caseno casenr casenumber caseidentifier traceid trace processinstance processinstanceid instanceid",
        ),
        "activity": (
            "concept:name",
            "activity activityen activityname",
            "activityid activitykey conceptname event eventname task taskname step stepname",
        ),
        "time": (
            "time:timestamp",
            "completetimestamp completetime endtimestamp endtime completiontime completedat",
            "timestamp eventtime eventtimestamp timetimestamp datetime eventdatetime",
            "time date eventdate",
            "starttimestamp starttime startedat",
        ),
        "resource": (
            "org:resource",
            "resource orgresource",
            "user username originator performer",
        ),
    }.items()
}
"""For each part, from the surest words to the least sure. The end of an activity goes before its begin, as in XES."""


def plain(name: str) -> str:
    """The name without case, blanks and signs: `Complete Timestamp` is `completetimestamp`."""
    bare = name.strip().casefold()
    return bare if bare in ("case:concept:name", "concept:name", "time:timestamp", "org:resource") else _bare(bare)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name)


def candidates(header: Sequence[str], role: str) -> list[str]:
    """The columns of the surest tier that has any."""
    for tier in _TIERS[role]:
        found = [name for name in header if plain(name) in tier]
        if found:
            return found
    return []


def resolved(header: Sequence[str], columns: Mapping[str, str] | None) -> ColumnNames:
    """The names of the log's columns: those given, XES names where they stand, else the one known name of the header.

    A part with two equally good columns keeps its XES name, so that the error about its absence lists all columns.
    A resource is looked for where another part was found so: who names columns names this one too.
    """
    given = dict(columns or {})
    names = ColumnNames.of(given)
    found: dict[str, str] = {}
    taken = set(given.values())
    for role in ("case", "activity", "time"):
        if role in given or getattr(names, role) in header:
            continue
        free = [name for name in candidates(header, role) if name not in taken]
        if len(free) == 1:
            found[role] = free[0]
            taken.add(free[0])
    if found and "resource" not in given and names.resource not in header:
        free = [name for name in candidates(header, "resource") if name not in taken]
        if len(free) == 1:
            found["resource"] = free[0]
    return ColumnNames(**{**asdict(names), **found})


def said(header: Sequence[str], columns: Mapping[str, str] | None, names: ColumnNames) -> str | None:
    """What was taken for which part without being told, in one line; None where nothing was."""
    usual, given = ColumnNames(), columns or {}
    guessed = [
        f"{role}={getattr(names, role)!r}"
        for role in ("case", "activity", "time", "resource")
        if role not in given and getattr(names, role) != getattr(usual, role) and getattr(names, role) in header
    ]
    return f"columns known by their names: {', '.join(guessed)} (others with --columns)" if guessed else None
