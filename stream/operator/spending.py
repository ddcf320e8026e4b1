"""Spending of a publication as pages show it: everything that the ledger has charged by now.

A manifest states what was spent when its release was sealed. Later attempts of this publication and of others may have
spent more since, also if nothing of them left.
"""

from __future__ import annotations

import math
from fractions import Fraction

from models.dp.account import loss
from models.dp.budget import shown
from models.dp.spending import Spending
from stream.ledger.view import Account, LedgerView
from stream.release.documents import AuditDocument, Budget
from stream.release.gate import BudgetLimits, GatePolicy, releases_left
from stream.release.manifest import spent_section

MOST_POINTS = 50
"""Charges after which the course of the spending is stated. Each of them is a composition of its own."""


def budget_by_now(document: AuditDocument, view: LedgerView, account: Account) -> Budget:
    """Return the budget of a manifest or audit, with the amounts that the ledger has charged by now.

    It is empty if the document has no budget.
    """
    stated = document.get("budget")
    if not stated:
        return Budget()
    now = stated.copy()
    if not account.charges:  # the ledger of another folder, or a damaged one
        return now
    spent = loss(account.accounting, account.spending, _policy(document).max_delta)
    now["spent"] = spent_section(spent)
    if "process" in stated:  # not in manifests of programs before
        limit_of_delta = _process_limits(document).delta
        spent_by_process = loss(account.accounting, view.spending, limit_of_delta)
        now["process"] = {**stated["process"], "spent": spent_section(spent_by_process)}
    if "zcdp" in stated:
        rho, process_rho = shown(account.spending.summed.rho), shown(view.spending.summed.rho)
        now["zcdp"] = {**stated["zcdp"], "spent": rho, "process": process_rho}
    return now


def affordable_releases(document: AuditDocument, view: LedgerView, account: Account) -> int | None:
    """Return how many more releases like the last one the stated limits pay for.

    The result is None if nothing limits them.
    """
    if account.last_charge is None:
        return None
    elsewhere = view.spending_elsewhere(account.publication)
    return releases_left(
        _policy(document),
        account.last_charge,
        account.spending,
        elsewhere,
        _process_limits(document),
        account.accounting,
    )


def course(document: AuditDocument, account: Account) -> list[tuple[int, float]]:
    """Return the number of charges so far, and the epsilon of all of them, after each charge.

    Of many charges about `MOST_POINTS` are stated.
    """
    bodies = [entry.body for entry in account.charge_entries.values()]
    step = max(1, math.ceil(len(bodies) / MOST_POINTS))
    limit_of_delta = _policy(document).max_delta
    spending, points = Spending(), []
    for number, body in enumerate(bodies, start=1):
        spending = spending.with_release(body.release_charge)
        if number % step == 0 or number == len(bodies):
            spent = loss(account.accounting, spending, limit_of_delta).charge
            points.append((number, shown(spent.epsilon)))
    return points


def _policy(document: AuditDocument) -> GatePolicy:
    """Return the limits of the gate that a document states; the audit has all of them, a manifest that of epsilon."""
    bounds = document.get("bounds") or {}
    stated = (document.get("budget") or Budget()).get("limit")
    return GatePolicy.model_construct(
        max_epsilon=_limit(bounds.get("max_epsilon", stated)),
        max_delta=_limit(bounds.get("max_delta")),
        max_tpl=_limit(bounds.get("max_tpl")),
    )


def _process_limits(document: AuditDocument) -> BudgetLimits:
    process = (document.get("budget") or Budget()).get("process")
    if process is None:
        return BudgetLimits()
    return BudgetLimits(_limit(process["limit"]["epsilon"]), _limit(process["limit"]["delta"]))


def _limit(stated: float | None) -> Fraction | None:
    """Return the limit of a document. Documents round to floats: 1/3 must have room for three charges of 1/9."""
    return None if stated is None else Fraction(math.nextafter(stated, math.inf))
