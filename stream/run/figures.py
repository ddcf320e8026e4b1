"""Figures of the releases of a process so far, from their audits, for status, metrics and verdicts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stream.fold.fold import Fold
from stream.ledger.view import Account
from stream.release.audit_document import AuditPart
from stream.release.documents import AuditDocument
from stream.release.verdict import PublicationSeries
from stream.run.service import ReleaseService

log = logging.getLogger("veilstream")


def events_by_outcome(service: ReleaseService, fold: Fold, name: str) -> dict[str, int | None]:
    """Return how many events of a publication were released, suppressed, pending and late after its last release.

    Parameters
    ----------
    service, fold
        The releases of the process, and its state.
    name
        Name of the publication.

    Returns
    -------
    dict
        {seen, released, suppressed, pending, late}. Released and suppressed are None after a dp release, whose records
        are not those of the source, and if the audit of the last release cannot be read: its events then count as
        pending.
    """
    accounting, pipeline = fold.accounting(name), service.pipelines[name]
    released = pipeline.account.released_numbers
    if pipeline.spec.waits:
        return _events_of_disjoint(accounting, [_counts_of(service, name, number) for number in released])
    counts: Mapping[str, Any] = _counts_of(service, name, released[-1]) if released else {}
    exposed = counts.get("exposed") or 0
    if pipeline.spec.once is not None:  # a release shows its own cases only
        exposed = accounting["exposed"]
    unexposed = accounting["seen"] - accounting["late"] - exposed
    exposed_but_waiting = counts.get("held") or 0  # of open cases, and of the queue for a later cohort
    return {
        "seen": accounting["seen"],
        "released": counts["released"] if counts else 0,
        "suppressed": counts["suppressed_events"] if counts else 0,
        "pending": unexposed + exposed_but_waiting,
        "late": accounting["late"],
    }


def _counts_of(service: ReleaseService, name: str, number: int) -> Mapping[str, Any]:
    """Return the counts of a release. Without its audit they are unknown: the publication is paused then."""
    audit = service.audit_of(name, number, AuditPart) or {}
    return audit.get("counts", {"released": None, "suppressed_events": None})


def _events_of_disjoint(accounting: Mapping[str, int], counts: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """Return `events_by_outcome` of a series in which each case is in one release: sums over all releases.

    Parameters
    ----------
    accounting
        Numbers of accepted events by their outcome (`Fold.accounting`).
    counts
        Counts of each release.
    """
    released = sum_of_known([of_release["released"] for of_release in counts])
    suppressed = sum_of_known([of_release["suppressed_events"] for of_release in counts])
    n_left = 0  # events of cases that are in a release
    if released is not None and suppressed is not None:
        n_left = released + suppressed
    return {
        "seen": accounting["seen"],
        "released": released,
        "suppressed": suppressed,
        "pending": accounting["seen"] - accounting["late"] - n_left,
        "late": accounting["late"],
    }


def publications_with_waiting_cases(service: ReleaseService, fold: Fold) -> list[str]:
    """Return the publications that keep completed cases of earlier cuts for a later cohort."""
    names = []
    for name, pipeline in service.pipelines.items():
        if not pipeline.spec.mechanism.shares_memory or pipeline.account.held:
            continue
        if events_by_outcome(service, fold, name)["pending"]:
            names.append(name)
    return names


def series_by_publication(service: ReleaseService) -> dict[str, PublicationSeries]:
    """Return what was released and refused so far, by publication, former ones included.

    It reads every audit.
    """
    accounts = [*service.former, *(pipeline.account for pipeline in service.pipelines.values())]
    return {account.publication: _series(service, account) for account in accounts}


def _series(service: ReleaseService, account: Account) -> PublicationSeries:
    series = PublicationSeries(account.publication)
    unreadable = []
    for number in account.released_numbers:
        audit = service.audit_of(account.publication, number, AuditPart)
        series.add(audit or AuditDocument())
        if audit is None:
            unreadable.append(number)
    if unreadable:
        log.warning(
            "%s: the audit of release %d cannot be read, of %d releases in all; they count as not measured",
            account.publication,
            unreadable[0],
            len(unreadable),
        )
    for entry in account.withheld.values():
        series.refuse(entry.body.reasons)
    series.held = len(account.held)
    return series


def sum_of_known(values: Sequence[int | None]) -> int | None:
    """Return the sum of the values; None if one is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
