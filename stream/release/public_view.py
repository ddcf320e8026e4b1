"""Attributes and resources as they leave: classes, pseudonyms, or roles."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.anonymize.sensitive import class_columns
from models.anonymize.values import label
from models.eventlog import MISSING, Codes, Column, EventLog, Ints
from models.variants import amounts
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.spec import PublicationSpec
from stream.release.stages import ResourceForm
from stream.values.pseudonym import Pseudonyms

# Released attributes of a case (`release_attributes`): never a value that singles it out by itself.
#
# A sensitive attribute leaves as the classes that C bounds: numbers as their classes (the mechanism's
# bins, else quartiles), and values of fewer than K cases as `other`, together with the next rarest ones
# until `other` represents at least K cases. A public attribute leaves as it is. If cases leave in cohorts
# that never change, all of this is decided within each cohort, so a later release never shows another
# value of a case.
#
# Not promised: what the attributes reveal together with the events of a case. The bounds L and K concern
# events alone; the audits link on every released attribute, and the audit of uniqueness counts it.

OTHER = "other"

GROUP = 20
"""Least cases of a released sensitive value where the mechanism has no K."""


def as_released(
    build: Build, exposure: Exposure, spec: PublicationSpec, pseudonyms: Pseudonyms, form: ResourceForm
) -> Build:
    """Return a build with its resources and attributes as they leave.

    Parameters
    ----------
    build, exposure
        The build, and what it was made from.
    spec
        Configuration of the publication.
    pseudonyms, form
        Make the names of resources (`released_resources`).
    """
    named = replace(build, log=released_resources(build.log, spec, pseudonyms, form))
    return with_attributes(named, spec.attributes, exposure, spec.mechanism)


def released_resources(
    log: EventLog,
    spec: PublicationSpec,
    pseudonyms: Pseudonyms,
    form: ResourceForm,
) -> EventLog:
    """Return a log of the fold with its resources as releases of a publication name them.

    Parameters
    ----------
    log
        Log of the fold. Its resources are pseudonyms of the key alone, unless the process keeps raw names.
    spec
        Configuration of the publication.
    pseudonyms
        Makes the pseudonyms of resources.
    form
        How the series began to name its resources (`stream.release.stages.ResourceForm`).
    """
    if spec.raw_resources or spec.roles is not None:
        return log
    process = spec.process if form == "process" else None
    return pseudonymous_resources(log, pseudonyms, process, named=True)


def with_attributes(build: Build, names: Sequence[str], exposure: Exposure, mechanism: Mechanism) -> Build:
    """Return the build with the attributes that leave.

    Parameters
    ----------
    build
        The release without attributes.
    names
        `release_attributes` of the publication.
    exposure
        The events that the release was made from.
    mechanism
        Mechanism of the release: its `bins` and K decide which values are shown.
    """
    if not names:
        return build
    bins: Mapping[str, Sequence[float]] = getattr(mechanism, "bins", {})
    least = getattr(mechanism, "K", GROUP)
    # Without cohorts the whole release is one group.
    cohorts = build.cohort
    if cohorts is None:
        cohorts = np.zeros(build.log.n_cases, dtype=np.int64)
    shown: dict[str, Column] = {}
    for name in names:
        column = build.log.case_values(name)
        if name in exposure.sensitive:
            column = common(_classes(name, build, exposure, bins), least, cohorts)
        shown[name] = column
    not_guaranteed = (*build.not_guaranteed, attributes_sentence(names))
    return replace(build, attributes=shown, not_guaranteed=not_guaranteed)


def _classes(name: str, build: Build, exposure: Exposure, bins: Mapping[str, Sequence[float]]) -> Column:
    """Return the classes that C bounds.

    They are formed of the exposed cases; in cohorts that never change, of the cases published once.
    """
    if name in bins or build.cohort is not None:
        return class_columns(build.log, [name], {name: bins[name]} if name in bins else None)[name]
    return class_columns(exposure.log, [name])[name].take(build.origin)


def attributes_sentence(names: Sequence[str]) -> str:
    """Return the sentence on what a release with attributes does not guarantee."""
    return f"what the released attributes ({', '.join(names)}) reveal together with the events of a case"


def common(column: Column, least: int, groups: Ints, cases: Ints | None = None) -> Column:
    """Replace values that fewer than `least` cases of a group have by `other`.

    Missing stays missing if at least `least` cases of the group lack a value, else it is `other` too. A group of
    fewer than `least` cases shows nothing but `other`.

    Parameters
    ----------
    column
        Value of each entry (a case or an event).
    least
        Least cases of a shown value.
    groups
        int64[entries], group of each entry. Each group is decided by itself.
    cases
        int64[entries], how many cases each entry represents; None: one each.
    """
    values = (*(str(value) for value in column.values), OTHER)
    # The order of a column's values depends on all cases of the log, and so would the choice among values
    # of equally many cases: a later release would show another value of a case.
    rank = np.empty(len(values), dtype=np.int64)
    rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    codes = column.codes.copy()
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        represented = None if cases is None else cases[rows]
        codes[rows] = _common(column.codes[rows], least, rank, represented)
    return Column(codes, values).take(slice(None))


def _common(codes: Codes, least: int, rank: Ints, cases: Ints | None) -> Codes:
    """Return the codes of one group with the rare ones replaced by the last one, which is `other`.

    Parameters
    ----------
    codes
        int32[entries]; those below 0 are missing.
    least
        Least cases of a shown value.
    rank
        int64[values], place of each value in the order of the texts.
    cases
        As `common` takes them.
    """
    kinds, places = np.unique(codes, return_inverse=True)
    counts = amounts(places, cases, len(kinds))
    ranks = np.where(kinds == MISSING, -1, rank[kinds])
    order = np.lexsort((ranks, counts))  # rarest first, ties in the order of the texts
    merged = total = 0
    for count in counts[order].tolist():
        if count >= least and (total == 0 or total >= least):
            break
        merged += 1
        total += count
    rare = kinds[order[:merged]]
    return np.where(np.isin(codes, rare), len(rank) - 1, codes).astype(np.int32)


PSEUDONYM = re.compile(r"r-[0-9a-f]{16}")
"""Form of `Pseudonyms.resource`. The fold holds these already; a raw name never has this form there, since
ingest and replay replace whatever comes."""


def pseudonymous_resources(
    log: EventLog, pseudonyms: Pseudonyms, process: str | None = None, *, named: bool = False
) -> EventLog:
    """Replace resources by keyed pseudonyms, the same in every release.

    Employees are not protected by case-perspective mechanisms (semantics of the attacks, "Other operations").

    Parameters
    ----------
    log
        The log.
    pseudonyms
        Makes pseudonyms by key.
    process
        Name that makes pseudonyms of one process (`Pseudonyms.resource`); None for series that began without it,
        which show the inner pseudonym.
    named
        Whether the log comes from the fold: a name in the form of a pseudonym is then the inner pseudonym.
    """

    def shown(name: str) -> str:
        inner = name if named and PSEUDONYM.fullmatch(name) else pseudonyms.resource(name)
        return inner if process is None else pseudonyms.resource(inner, process)

    names = tuple(shown(str(name)) for name in log.resource.values)
    return replace(log, resource=Column(log.resource.codes, names))


# Roles instead of employees (`resources = "roles"`): a role leaves if it represents at least K resources.
#
# Each resource of a log is replaced by its role before the mechanism counts anything. The role comes from
# a column of the events or from a taxonomy that the operator gives. The items of the mechanism are then
# activities and roles, and its bounds hold for them. A role that fewer than K distinct resources of the
# exposed events have is shown as `other`, which represents at least K resources itself; if it cannot, no
# role is shown at all.
#
# Over a series: a role that was shown is always shown, and a role joins only if `other` then still
# represents K resources, or none. If `other` represented none and a rare role comes, the smallest shown
# role becomes `other` as well. So all releases together show of an event something that represents at
# least K resources: a role that was ever shown, or the roles that never were. Erasure and retention can
# make them fewer.
#
# Relation: which resource did an event. Unit: one resource, as far as its role. Not guaranteed: what a role
# shows about an employee who is known to have worked on a case. Cases are protected by the mechanism alone.


def roles_of_events(log: EventLog, roles: str | Mapping[str, str]) -> Column:
    """Return the role of each event that a resource did, missing if there is none.

    `roles`: the name of an attribute of events, or the role of each resource by the name that it has in the log.
    """
    if isinstance(roles, str):
        column = log.event_attributes.get(roles, Column(np.full(log.n_events, MISSING, dtype=np.int32), ()))
        texts = [label(str(value)) for value in column.values]
        codes = column.codes
    else:
        role_of_resource = {label(name): role for name, role in roles.items()}
        texts = [role_of_resource.get(label(str(name)), "") for name in log.resource.values]
        codes = log.resource.codes
    # An event without a resource has no role, and an empty text is none.
    role_of_event: list[str | None] = []
    for code, resource in zip(codes.tolist(), log.resource.codes.tolist(), strict=True):
        role = None
        if code != MISSING and resource != MISSING and texts[code]:
            role = texts[code]
        role_of_event.append(role)
    return Column.encode(role_of_event)


def with_roles(
    log: EventLog, roles: str | Mapping[str, str], least: int, before: Collection[str] = ()
) -> tuple[EventLog, tuple[str, ...]]:
    """Return the log with roles as its resources, and the roles that are shown.

    An event without a resource has no role. The role of a resource without one is `other`.

    Parameters
    ----------
    log
        The log.
    roles
        See `roles_of_events`.
    least
        Least resources of a shown role.
    before
        Roles that the series showed.
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


def shown_roles(
    column: Column,
    resources: Codes,
    least: int,
    before: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the roles that may be shown, sorted.

    Parameters
    ----------
    column
        Role of each event.
    resources
        Resource of each event.
    least
        Least resources of a shown role.
    before
        Roles that the series showed.
    """
    everyone = range(-1, len(column.values))
    counts = {code: _resources(column, resources, [code]) for code in everyone}
    named = [code for code in everyone if code != MISSING and column.values[code] != OTHER]
    enough = [code for code in named if counts[code] >= least]
    largest_first = sorted(enough, key=lambda code: (-counts[code], str(column.values[code])))
    kept = [code for code in largest_first if column.values[code] in before]

    def left_for_other(*joining: int) -> int:
        """Count the resources that `other` represents if these roles join."""
        return _resources(column, resources, [code for code in everyone if code not in (*kept, *joining)])

    if 0 < left_for_other() < least and kept:
        kept.pop()
    for code in largest_first:
        if code not in kept and (left_for_other(code) == 0 or left_for_other(code) >= least):
            kept.append(code)
    return tuple(sorted(str(column.values[code]) for code in kept))


def _resources(column: Column, resources: Codes, codes: Collection[Any]) -> int:
    """Count the distinct resources of the events that have one of the roles."""
    chosen: Ints = resources[np.isin(column.codes, list(codes)) & (resources != MISSING)]
    return len(np.unique(chosen))
