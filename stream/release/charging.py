"""What a release may spend, and its charge: both before any noise is drawn, from the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import msgspec

from models.dp.budget import Charge
from stream.ledger.entries import charge_entry
from stream.ledger.sqlite import Account
from stream.release import gate
from stream.release.documents import AuditDocument
from stream.release.once import PAID
from stream.release.reason import Code, Reason
from stream.release.spec import PublicationSpec


@dataclass(frozen=True, slots=True)
class Charging:
    """The budget of one publication."""

    spec: PublicationSpec
    account: Account

    def refusals(self, cut: str, last_audit: AuditDocument, spent_elsewhere: Charge) -> list[Reason]:
        """Reasons of the budget and leakage gates against the draw of a cut. A charge that a crashed attempt of this
        cut left is reused, not added. `last_audit`: of the last sealed release; `spent_elsewhere`: charges of
        the process's other publications, since a limit of the process caps them together."""
        once = self.spec.once
        if once is not None and self.account.redraws[cut]:
            return [Reason("mechanism", PAID)]
        spent, added = self.account.cost(cut, self.spec.mechanism.charge(), once=once is not None)
        accounting = self.spec.accounting
        facts = {
            "charges": list(self.account.charges.values()),
            "policy": self.spec.gate,
            "audits": last_audit,
            "spent": spent,
        }
        leakage = [reason for audit in self.spec.audits for reason in audit.before_noise(facts, added)]
        own = gate.before_noise(self.spec.gate, spent, added, leakage, accounting)
        return [*own, *self._of_process(spent, added, spent_elsewhere)]

    def _of_process(self, spent: Charge, added: Charge, others: Charge) -> list[Reason]:
        """Reasons of the limits that all publications of the process share."""
        loss = self.spec.accounting.loss
        before, after = loss(spent + others), loss(spent + others + added)
        reasons = []
        for name, limit, used, reached in (
            ("epsilon", self.spec.max_epsilon, before.epsilon, after.epsilon),
            ("delta", self.spec.max_delta, before.delta, after.delta),
        ):
            more = reached - used
            if limit is not None and more and reached > limit:
                told = f"process budget {name}: spent {float(used):g}, asked {float(more):g}, limit {float(limit):g}"
                reasons.append(Reason("process_budget", told, limit, reached))
        return reasons

    def commit(self, cut: str) -> list[Reason]:
        """Commit the charge of a cut, where the mechanism asks for one.

        Returns reasons to refuse where a crashed attempt paid less for the cut, the configuration having changed since:
        the ledger keeps the first charge of a cut, and would under-count this one.
        """
        asked = self.spec.mechanism.charge()
        if asked == Charge():
            return []
        once, redraw = self.spec.once, self.account.redraws[cut]
        entry = charge_entry(self.spec.name, cut, asked, redraw, self.spec.accounting)
        if once is not None:
            entry = msgspec.structs.replace(entry, body=once.body(asked, redraw, self.spec.accounting))
        standing = self.account.append(entry).body
        if standing.scope and (once is None or not once.matches(standing)):
            told = f"{self.spec.name}: an attempt under other terms has charged this cut; the next cut is charged anew"
            return [Reason("mechanism", told)]
        paid = standing.charge
        parts: tuple[tuple[Code, Fraction, Fraction], ...] = (
            ("epsilon", paid.epsilon, asked.epsilon),
            ("delta", paid.delta, asked.delta),
            ("epsilon", paid.rho, asked.rho),
        )
        return [
            Reason(
                code,
                f"{code}: {float(more):g} is asked, but an attempt under another configuration has charged this cut "
                f"{float(before):g}; the next cut is charged anew",
                before,
                more,
            )
            for code, before, more in parts
            if more > before
        ]
