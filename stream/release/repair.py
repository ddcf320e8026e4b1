"""`on_violation = "repair"`: suppress further until the bounds on the correspondence attacks hold, or withhold.

First, background knowledge that too few cases outside an earlier release match is removed from those cases, or from all
(`models.anonymize.repair`). Then, while the audit still finds an attack, the item that occurs in most of its background
knowledge per lost event is removed too. Every try is built, audited and gated like any other release: a release that
leaves has passed the gate, and if no try passes, nothing leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.anonymize.hiding import Target
from models.anonymize.repair import Banned
from models.anonymize.shown import ShownItems
from models.errors import BoundError
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import MEASURES, CorrespondenceAudit
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.gate import GatePolicy
from stream.release.reason import Reason
from stream.release.stages import Audited

ROUNDS = 100
"""Tries before the attempt is withheld: each suppresses one more item."""


def targets(policy: GatePolicy, audit: CorrespondenceAudit, earlier: Sequence[ReleaseRecord]) -> list[Target]:
    """Return what each group of cases must offer.

    The release itself for KA, the cases outside each earlier release for BA.

    Parameters
    ----------
    policy
        The bounds of the gate.
    audit
        The audit that measures them.
    earlier
        Earlier releases of the audience.
    """
    length = max(1, audit.bk_length - min(audit.n))
    of_source = [] if policy.min_ka is None else [Target(None, policy.min_ka, length)]
    if policy.min_ba is None:
        return of_source
    first = len(earlier) - len(audit.chosen(earlier))
    return of_source + [Target(place, policy.min_ba, length) for place in range(first, len(earlier))]


def shown(earlier: Sequence[ReleaseRecord]) -> ShownItems:
    """Return what the releases showed of each case.

    The cache of the last release carries it on from release to release.
    """
    keys = [record.key for record in earlier]
    n_added, state = 0, ShownItems()
    for place in range(len(earlier), 0, -1):
        kept_keys, kept_state = earlier[place - 1].cache.pop("shown", ([], state))
        if kept_keys == keys[:place]:
            n_added, state = place, kept_state
            break
    for record in earlier[n_added:]:
        state.add(record.log.case_ids, record.log.starts, record.items())
    if earlier:
        earlier[-1].cache["shown"] = (keys, state)
    return state


def walk(
    first: Audited,
    mechanism: Mechanism,
    exposure: Exposure,
    policy: GatePolicy,
    audit: CorrespondenceAudit,
    earlier: Sequence[ReleaseRecord],
    judge: Callable[[Build], Audited],
) -> Audited:
    """Suppress more and more until the gate passes a try, and return it.

    If none passes, the last try is returned with its reasons.

    Parameters
    ----------
    first
        The candidate that the gate refused.
    mechanism, exposure, policy, audit, earlier
        The inputs of the build and of the gate.
    judge
        Audits a build and judges it by the gate.

    Returns
    -------
    Audited
        A candidate whose manifest names the cost of the repair.
    """
    removed_items: list[Any] = []
    shown_before, targets_of_repair = shown(earlier), targets(policy, audit, earlier)
    bounds = _bounds(policy, audit)
    last = first
    for tries in range(1, ROUNDS + 1):
        try:
            build = mechanism.repair(exposure, shown_before, targets_of_repair, removed_items)
        except BoundError as error:
            return replace(last, reasons=[*first.reasons, Reason("mechanism", f"repair: {error}")])
        last = judge(_with_costs(build, first.build, tries, bounds))
        if not last.reasons:
            return last
        worst = list(_worst(policy, last.measures.get("anonymity") or {}))
        item = mechanism.cheapest(exposure, worst, removed_items)
        if item is None:
            break
        removed_items.append(item)
    return replace(last, reasons=[*last.reasons, Reason("mechanism", "repair: no further suppression helps")])


def _bounds(policy: GatePolicy, audit: CorrespondenceAudit) -> Mapping[str, Any]:
    """Return the bounds that this release keeps against each earlier one that was audited."""
    return {
        **{str(name): bound for name, bound in policy.anonymity_bounds.items()},
        "bk_length": audit.bk_length,
        "n": list(audit.n),
        "against": audit.against,
    }


def _with_costs(build: Build, before: Build, tries: int, bounds: Mapping[str, Any]) -> Build:
    """Add to the manifest how the release was repaired, what holds since, and the cost."""
    repair = {
        **build.public.get("repair", {}),
        "bounds": bounds,
        "events": before.log.n_events - build.log.n_events,
        "share_kept": build.log.n_events / before.log.n_events if before.log.n_events else 1.0,
        "cases": before.log.n_cases - build.log.n_cases,
        "rounds": tries,
    }
    public, operator = {**build.public, "repair": repair}, {**build.operator, "repair": repair}
    return replace(build, public=public, operator=operator)


def _worst(policy: GatePolicy, anonymity: Mapping[str, Any]) -> Iterator[Banned]:
    """Return the background knowledge of every attack that breaks its bound, by the real partners and by the search."""
    for name, bound in policy.anonymity_bounds.items():
        for row in _rows(anonymity):
            value, bk = row.get(name), (row.get("worst") or {}).get(name)
            if name in MEASURES and value and value < bound and bk:
                yield tuple(bk)


def _rows(anonymity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from anonymity.get("true_linker") or ()
    for pair in anonymity.get("results") or ():
        yield from pair["results"]
