"""Roles in the place of employees (`resources = "roles"`): a role leaves where it stands for at least K resources.

Each resource of a log that is about to be anonymized is replaced by its role, from a column of the events or from a
taxonomy that the operator gives, before the mechanism counts anything: its items are activities and roles, and its
bounds hold of them. A role that fewer than K distinct resources of the exposed events have is shown as `other`, which
stands for at least K resources itself; where it could not, no role at all is shown.

Over a series: a role that was shown stays shown, and one joins only where `other` then still stands for K resources or
for nobody. Where it stood for nobody and a rare role comes, the smallest shown role becomes `other` beside it. So what
all releases together say of an event stands for at least K resources: a role that was ever shown, or the roles that
never were. Erasure and retention can make them fewer.

Relation: which resource did an event; unit: one resource, as far as its role. Not guaranteed: what a role tells of an
employee who is known to have worked on a case; anything of cases, which is the mechanism's part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from models.anonymize.values import label
from models.eventlog import MISSING, Codes, Column, EventLog, Ints
from stream.release.attributes import OTHER


def roles_of_events(log: EventLog, roles: str | Mapping[str, str]) -> Column:
    """The role of each event that a resource did, missing where there is none. `roles`: the name of an attribute of
    events, or the role of each resource by the name that it has in the log."""
    if isinstance(roles, str):
        column = log.event_attributes.get(roles, Column(np.full(log.n_events, MISSING, dtype=np.int32), ()))
        texts = [label(str(value)) for value in column.values]
        codes = column.codes
    else:
        known = {label(name): role for name, role in roles.items()}
        texts = [known.get(label(str(name)), "") for name in log.resource.values]
        codes = log.resource.codes
    named = [texts[code] or None if code != MISSING else None for code in codes.tolist()]
    done = (log.resource.codes != MISSING).tolist()
    return Column.encode(name if by else None for name, by in zip(named, done, strict=True))


def with_roles(
    log: EventLog, roles: str | Mapping[str, str], least: int, before: Collection[str] = ()
) -> tuple[EventLog, tuple[str, ...]]:
    """The log with roles as its resources, and the roles that are shown. `before`: those that the series showed.

    An event that no resource did has no role; one of a resource without a role is `other`.
    """
    column = roles_of_events(log, roles)
    shown = shown_roles(column, log.resource.codes, least, before)
    if not shown and _resources(column, log.resource.codes, range(-1, len(column.values))) < least:
        return replace(log, resource=Column(np.full(log.n_events, MISSING, dtype=np.int32), ())), ()
    values = (*shown, OTHER)
    place = {name: number for number, name in enumerate(values)}
    table = np.asarray([place.get(name, len(shown)) for name in (*column.values, None)], dtype=np.int32)
    codes = np.where(log.resource.codes == MISSING, MISSING, table[column.codes]).astype(np.int32)
    return replace(log, resource=Column(codes, values).take(slice(None))), shown


def shown_roles(column: Column, resources: Codes, least: int, before: Collection[str] = ()) -> tuple[str, ...]:
    """The roles that may be shown, sorted. `column`: the role of each event; `resources`: who did it."""
    everyone = range(-1, len(column.values))
    counts = {code: _resources(column, resources, [code]) for code in everyone}
    named = [code for code in everyone if code != MISSING and column.values[code] != OTHER]
    enough = [code for code in named if counts[code] >= least]
    order = sorted(enough, key=lambda one: (-counts[one], str(column.values[one])))
    kept = [code for code in order if column.values[code] in before]

    def rest(*without: int) -> int:
        return _resources(column, resources, [one for one in everyone if one not in (*kept, *without)])

    if 0 < rest() < least and kept:
        kept.pop()
    for code in order:
        if code not in kept and (rest(code) == 0 or rest(code) >= least):
            kept.append(code)
    return tuple(sorted(str(column.values[code]) for code in kept))


def _resources(column: Column, resources: Codes, codes: Collection[Any]) -> int:
    """Distinct resources of the events that have one of the roles."""
    chosen: Ints = resources[np.isin(column.codes, list(codes)) & (resources != MISSING)]
    return len(np.unique(chosen))
