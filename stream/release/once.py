"""Each case once (`cases = "completed"`): what one charge then pays for, and what the series promises.

Parallel composition (McSherry 2009, theorem 4; for groups of m cases by the linearity of every stage's sensitivity).
Each case enters one release, and which one depends on its own events and on public moments. A person with k_i cases in
release i, m = `cases_per_person` in all, changes release i by at most k_i / m of the change that its noise covers. All
mechanisms that may be used count cases, so release i is (k_i / m epsilon_i, k_i / m delta_i)-DP for that person (a
threshold's tail is convex in the number of cases), and the series is (max epsilon_i, max delta_i)-DP, however long it
is. With Gaussian noise release i costs that person (k_i / m)^2 rho_i and k_i / m delta_i, together at most the largest
of them.

It holds for the life of the publication only if m does not change, and a cap that is enforced stays enforced: the
ledger records the terms of the charges, and other terms are refused. It also needs the state, which alone has the cases
that were shown: a start refuses a configuration by which the state has lost them (`was_paid`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from models.errors import RefusedError
from stream.fold.records import position_of
from stream.ledger.entries import CASES, ChargeBody, ChargeEntry

Accumulate = Literal["none", "sum", "tree", "factorized"]
"""Shape of the sums by which noisy counts of a series add up to a log over everything so far, if they do."""

PAID = "once: an earlier draw of this cut may have been seen, and its cases cannot be released twice on one charge"


@dataclass(frozen=True, slots=True)
class OncePerCase:
    """Terms of a series in which each case counts once.

    Attributes
    ----------
    cases_per_person
        Most cases of one person in all releases together.
    enforced
        Whether the fold drops cases beyond it.
    accumulate
        How a log over everything so far is made that leaves with each release. The promise covers it.
    """

    cases_per_person: int
    enforced: bool
    accumulate: Accumulate = "none"

    def with_terms(self, entry: ChargeEntry) -> ChargeEntry:
        """Return the entry of a charge under these terms, for the ledger."""
        body = msgspec.structs.replace(
            entry.body, scope=CASES, cases_per_person=self.cases_per_person, enforced=self.enforced
        )
        return msgspec.structs.replace(entry, body=body)

    def matches(self, body: ChargeBody) -> bool:
        """Return whether a charge was committed under these terms."""
        has_same_cap = body.cases_per_person == self.cases_per_person and body.enforced == self.enforced
        return body.scope == CASES and has_same_cap


def was_paid(entries: Iterable[ChargeEntry], position: int) -> bool:
    """Return whether a cut of a series in which each case counts once was paid for.

    Parameters
    ----------
    entries
        All charges of the publication.
    position
        Position of the last record that counts; charges of later cuts do not.
    """
    charges_of_cases = [entry for entry in entries if entry.body.scope == CASES]
    return any(position_of(entry.cut) <= position for entry in charges_of_cases)


def refuse_other_terms(publication: str, once: OncePerCase | None, bodies: Iterable[ChargeBody]) -> None:
    """Refuse a series that was charged under other terms.

    Under another `cases_per_person` it would promise a person of before less than was promised.

    Parameters
    ----------
    publication
        Name of the publication.
    once
        The terms of the configuration; None if a case may be exposed several times.
    bodies
        All charges of the publication.

    Raises
    ------
    RefusedError
        If a charge in `bodies` has other terms.
    """
    if once is None:
        return
    for body in bodies:
        if body.scope == CASES and not once.matches(body):
            was = f"cases_per_person = {body.cases_per_person}, " + ("a person" if body.enforced else "no person")
            now = f"{once.cases_per_person} and " + ("a" if once.enforced else "no")
            raise RefusedError(
                f"publication {publication!r}: its series was charged with {was} in process.attributes, and the "
                f"configuration now has {now}: they are declared for the life of a publication; go back, or give "
                "the publication a new name"
            )
