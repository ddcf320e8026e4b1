"""The facts that the entries of a ledger state together.

`LedgerView` is the only place that reduces entries to facts. A `Ledger` keeps one and gives it each entry that it
appends, so no other code reads entries to find what was spent, sealed, held, published or erased.

* `Account` has the facts about one publication: charges, then the states of its release numbers.
* `LedgerView` has one account for each publication, and the facts about all of them together. `LedgerView.take` is the
  only entry point for entries. It drops repeated entries and passes the others on to the account.

The life of a cut in the ledger, with the entry that records each step:

    charge -> seal ---------------> published
         |      |-> (held) -> approval or rejection
         |      `-> burned: the bytes were lost, and a redraw begins with a charge
         `-> withheld

Entries come from a file that somebody may have edited, and readers such as `verify` report what is wrong with it. So a
view accepts every sequence of entries: of several entries of a publication with one key
(`stream.ledger.entries.key_of`) the first one counts, and a ruling counts only for a release that was held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec

from models.dp.budget import Charge
from models.dp.spending import ReleaseCharge, Spending
from models.dp.zcdp import PURE, Accounting
from models.dp.zcdp import Kind as AccountingKind
from stream.ledger.entries import (
    ApprovalEntry,
    BurnedEntry,
    ChargeEntry,
    ClaimBody,
    ClaimEntry,
    DeltaAnchor,
    Entry,
    ErasedEntry,
    NoteEntry,
    PublishedEntry,
    SealEntry,
    WithheldEntry,
    charge_key,
)

ReleaseKey = tuple[str, int]
"""Publication and number of a release."""

ReleaseState = Literal["sealed", "published", "held", "rejected", "superseded", "burned"]
"""State of a sealed number. Only `sealed` (about to be published) and `published` releases exist for recipients.

`held`: waits for an approval. `rejected`: a person refused it. `superseded`: a newer release took the place of one that
was held. `burned`: its bytes were lost after the seal.
"""

ChargeOutcome = Literal["sealed", "published", "held", "rejected", "superseded", "burned", "withheld", "not finished"]

HistoryEntry = SealEntry | WithheldEntry | ApprovalEntry | ErasedEntry | NoteEntry
"""Entries that people read in order: attempts, decisions on held releases, erasures, accepted gaps."""

HIDDEN: frozenset[ReleaseState] = frozenset(("held", "rejected", "superseded"))
"""States of a sealed release that nobody may see."""


class SpentAtSeal(NamedTuple):
    """Totals at the moment of a seal, which the manifest of the release repeats.

    Attributes
    ----------
    spending, process_spending
        Charges of the publication and of the whole process with their noise. `models.dp.account` states their loss.
    process_seals
        Numbers that the process had sealed, this one included.
    charged_seals
        Numbers that this publication had sealed, and the others had sealed and charged.
    """

    process_seals: int
    charged_seals: int
    spending: Spending
    process_spending: Spending


class Account:
    """Facts about one publication.

    Attributes
    ----------
    charges, charge_entries
        Charge of each draw and its entry, by `stream.ledger.entries.charge_key`, in ledger order.
    charge_of_cut
        Charge of the last draw of each charged cut.
    spending
        The charges in ledger order with their noise, also those of withheld and burned attempts.
    last_charge
        The last of them; None before the first one.
    accounting
        How the charges are added up, according to the last one.
    redraws
        How many numbers each cut lost after their seal. Their bytes may have been seen, so their charges pay for
        nothing else.
    seals, at_seal
        Seal of each number that was ever sealed, and the totals at that moment.
    sealed_cuts
        Seal of each cut, unless its number was burned.
    withheld
        Refusal of each refused cut.
    streak
        Attempts withheld since the last seal. Attempts that only waited for an approval do not count.
    burned, published, rulings
        Burned numbers, announced numbers, and decisions on held releases.
    rejected
        Numbers of releases that were held and will never be published.
    erased, erased_releases
        How many known cases were erased, and the numbers of the releases that contained one.
    first_seen
        Clock (ns) at which the ledger first recorded the publication, if it did.
    gaps
        Positions at which the operator accepted lost source events.
    """

    def __init__(self, publication: str) -> None:
        self.publication = publication
        self.charges: dict[str, Charge] = {}
        self.charge_entries: dict[str, ChargeEntry] = {}
        self.charge_of_cut: dict[str, Charge] = {}
        self.accounting = PURE
        self.redraws: Counter[str] = Counter()
        self.seals: dict[int, SealEntry] = {}
        self.at_seal: dict[int, SpentAtSeal] = {}
        self.sealed_cuts: dict[str, SealEntry] = {}
        self.withheld: dict[str, WithheldEntry] = {}
        self.streak = 0
        self.burned: dict[int, BurnedEntry] = {}
        self.published: set[int] = set()
        self.rulings: dict[int, ApprovalEntry] = {}
        self.rejected: set[int] = set()
        self.erased = 0
        self.erased_releases: set[int] = set()
        self.first_seen: int | None = None
        self.gaps: set[int] = set()
        # Kept with every entry, so that neither a charge nor a seal adds up all earlier ones.
        self.spending = Spending()
        self.last_charge: ReleaseCharge | None = None
        self._released: set[int] = set()
        self._held: set[int] = set()
        self._draw_outcomes: dict[tuple[str, int], SealEntry | WithheldEntry | BurnedEntry] = {}

    # charges

    def spending_with(self, cut: str, release: ReleaseCharge) -> tuple[Spending, Spending]:
        """Return the spending without the next draw of a cut, and with it.

        Parameters
        ----------
        cut
            Id of the cut. If a crashed attempt paid for its next draw, that charge is not counted twice.
        release
            Charge and noise of the draw.
        """
        key = charge_key(cut, self.redraws[cut])
        before = self.spending
        if key in self.charges:
            before = Spending()
            for name, entry in self.charge_entries.items():
                if name != key:
                    before = before.with_release(entry.body.release_charge)
        return before, before.with_release(release)

    def paid(self, cut: str) -> Charge:
        """Return what a crashed attempt paid for the next draw of a cut.

        A charge whose seal was lost does not count: its bytes may have been seen.
        """
        return self.charges.get(charge_key(cut, self.redraws[cut]), Charge())

    @property
    def unfinished(self) -> set[str]:
        """Cuts whose next draw is paid for, and which have no decision: an attempt is under way, or crashed."""
        return {cut for cut in self.charge_of_cut if self._is_unfinished(cut)}

    def _is_unfinished(self, cut: str) -> bool:
        is_decided = cut in self.sealed_cuts or cut in self.withheld
        is_next_draw_paid = charge_key(cut, self.redraws[cut]) in self.charges
        return is_next_draw_paid and not is_decided

    def outcome(self, charge: ChargeEntry) -> ChargeOutcome:
        """Return the result of the draw that a charge paid for."""
        decision = self._draw_outcomes.get((charge.cut, charge.body.redraw))
        match decision:
            case None:
                return "not finished"
            case WithheldEntry():
                return "withheld"
            case BurnedEntry():
                return "burned"
            case SealEntry():
                return self.state(decision.sequence)

    # releases

    @property
    def last_number(self) -> int:
        """The last sealed or burned number; the next candidate gets the next one."""
        return max([0, *self.seals, *self.burned])

    @property
    def released_numbers(self) -> list[int]:
        """Numbers of the releases that exist for recipients, in order: neither burned, nor held, nor rejected."""
        return sorted(self._released)

    @property
    def held(self) -> list[int]:
        """Numbers of the releases that wait for approval, in order."""
        return sorted(self._held)

    def state(self, number: int) -> ReleaseState:
        """Return the state of a sealed number.

        Raises
        ------
        KeyError
            If the number was never sealed.
        """
        seal = self.seals[number]
        if number in self.burned:
            return "burned"
        if seal.body.held_at is not None:
            if number not in self.rulings:
                return "held"
            decision = self.rulings[number].body.decision
            if decision != "approved":
                return "superseded" if decision == "superseded" else "rejected"
        return "published" if number in self.published else "sealed"

    def sealed(self, *, charged: bool = False) -> int:
        """Return how many numbers were sealed, burned ones included.

        Parameters
        ----------
        charged
            Count only numbers whose cut was charged.
        """
        if not charged:
            return len(self.seals)
        return sum(seal.cut in self.charge_of_cut for seal in self.seals.values())

    @property
    def has_attempts(self) -> bool:
        """Whether a cut of the publication was ever charged, sealed, withheld or burned."""
        return bool(self.charges or self.seals or self.withheld or self.burned or self.published or self.rulings)

    @property
    def resource_form(self) -> Literal["process", "key"]:
        """Form of resource names in releases of this publication: made with key and process, or with the key alone.

        The key alone belongs to series of earlier programs, which had no other form. Seals state it, so that every
        host continues the series as it began.
        """
        has_former_names = any(seal.body.resources != "process" for seal in self.seals.values())
        return "key" if has_former_names else "process"

    # entries; only LedgerView calls these, and only for the first entry with a key

    def _take_charge(self, entry: ChargeEntry, key: str) -> None:
        charge = entry.body.charge
        self.charges[key] = charge
        self.charge_entries[key] = entry
        self.charge_of_cut[entry.cut] = charge
        self.last_charge = entry.body.release_charge
        self.spending = self.spending.with_release(self.last_charge)
        if entry.body.rho:
            # The delta of a rho charge pays for the tail of its thresholds, and for the conversion to epsilon.
            conversion_delta = Fraction(entry.body.delta) - Fraction(entry.body.tail)
            self.accounting = Accounting("zcdp", conversion_delta)

    def _take_seal(self, entry: SealEntry, totals: SpentAtSeal) -> None:
        self.seals[entry.sequence] = entry
        self.at_seal[entry.sequence] = totals
        self.sealed_cuts[entry.cut] = entry
        self._draw_outcomes[entry.cut, self.redraws[entry.cut]] = entry
        self.streak = 0

    def _take_withheld(self, entry: WithheldEntry) -> None:
        self.withheld[entry.cut] = entry
        self._draw_outcomes[entry.cut, self.redraws[entry.cut]] = entry
        if not entry.waits_for:
            self.streak += 1

    def _take_burned(self, entry: BurnedEntry) -> None:
        self.burned[entry.sequence] = entry
        self.sealed_cuts.pop(entry.cut, None)
        self._draw_outcomes[entry.cut, self.redraws[entry.cut]] = entry
        self.redraws[entry.cut] += 1

    def _take_erased(self, entry: ErasedEntry) -> None:
        body = entry.body
        # Earlier programs stated the number of erased cases alone, known here or not.
        self.erased += body.cases if body.known is msgspec.UNSET else body.known
        self.erased_releases.update(entry.body.releases)

    def _update_state_sets(self, number: int) -> None:
        """Move a sealed number to the set of its present state."""
        self._released.discard(number)
        self._held.discard(number)
        self.rejected.discard(number)  # a number that is burned later counts as burned alone
        state = self.state(number)
        if state == "held":
            self._held.add(number)
        elif state in ("rejected", "superseded"):
            self.rejected.add(number)
        elif state != "burned":
            self._released.add(number)


class LedgerView:
    """Facts about all publications of a process, kept up to date entry by entry.

    Attributes
    ----------
    accounts
        Facts by publication, in the order of their first entries.
    seals
        Every seal, in ledger order, burned and held ones included.
    releases
        Seals of the releases that exist for recipients, in the order in which they left: a release that was held
        leaves with its approval.
    history
        Attempts, decisions on held releases, erasures and accepted gaps, in ledger order.
    first_seen
        Clock (ns) at which the ledger first recorded each publication, if it did.
    tombstones
        Digests (hexadecimal) of all erased cases.
    delta_anchors
        The delta topics that positions refer to, in ledger order.
    claim
        Log and configuration of the replay that the folder belongs to, if it belongs to one.
    made_by_daemon
        Whether a note about the process itself came before any claim. A replay begins its ledger with its claim, so
        only a daemon writes such a note first.
    accounting_kinds
        The ways in which charges of this ledger are added up. More than one is a damaged ledger.

    Parameters
    ----------
    entries
        The entries so far, in ledger order.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.accounts: dict[str, Account] = {}
        self.seals: dict[ReleaseKey, SealEntry] = {}
        self.releases: dict[ReleaseKey, SealEntry] = {}
        self.history: list[HistoryEntry] = []
        self.first_seen: dict[str, int] = {}
        self.tombstones: set[str] = set()
        self.delta_anchors: list[DeltaAnchor] = []
        self.claim: ClaimBody | None = None
        self.made_by_daemon = False
        self.accounting_kinds: set[AccountingKind] = set()
        self._charged_seals: Counter[str] = Counter()
        self._seal_places: dict[ReleaseKey, int] = {}
        for entry in entries:
            self.take(entry)

    # reading

    def account(self, publication: str) -> Account:
        """Return the facts about a publication; the object is updated by later entries."""
        account = self.accounts.get(publication)
        if account is None:
            account = self.accounts[publication] = Account(publication)
        return account

    @property
    def spending(self) -> Spending:
        """Charges of all publications with their noise."""
        return self.spending_elsewhere(None)

    def spending_elsewhere(self, publication: str | None) -> Spending:
        """Return the charges of all other publications with their noise, former ones included.

        A publication that the configuration no longer names has still spent its budget.
        """
        total = Spending()
        for name, account in self.accounts.items():
            if name != publication and account.charges:
                total = total.together(account.spending)
        return total

    def sealed_elsewhere(self, publication: str, *, charged: bool = False) -> int:
        """Return how many numbers all other publications sealed; only charged ones if `charged`."""
        other_accounts = (account for name, account in self.accounts.items() if name != publication)
        return sum(account.sealed(charged=charged) for account in other_accounts)

    @property
    def is_unused(self) -> bool:
        """Whether nothing was charged or sealed yet."""
        return not self.seals and not self.accounting_kinds

    @property
    def attempts(self) -> list[SealEntry | WithheldEntry]:
        """Sealed and withheld attempts, in ledger order."""
        return [entry for entry in self.history if isinstance(entry, SealEntry | WithheldEntry)]

    @property
    def decisions(self) -> list[ApprovalEntry]:
        """Decisions on held releases in ledger order, with the approvals that the gate refused."""
        return [entry for entry in self.history if isinstance(entry, ApprovalEntry)]

    @property
    def held(self) -> list[SealEntry]:
        """Seals of the releases that wait for approval, in ledger order."""
        return [seal for (name, number), seal in self.seals.items() if self.state(name, number) == "held"]

    def state(self, publication: str, number: int) -> ReleaseState:
        """Return the state of a sealed number. KeyError if it was never sealed."""
        return self.accounts[publication].state(number)

    def released_since(self, publication: str, number: int) -> list[ReleaseKey]:
        """Return the releases of all publications that left after a number was sealed, burned ones excepted."""
        keys: list[ReleaseKey] = []
        for entry in self._history_since(publication, number):
            key = (entry.publication, entry.sequence)
            if isinstance(entry, SealEntry):
                has_left = entry.body.held_at is None
            else:
                has_left = isinstance(entry, ApprovalEntry) and entry.body.decision == "approved"
            if has_left and key in self.releases:
                keys.append(key)
        return keys

    def erased_since(self, publication: str, number: int) -> set[str]:
        """Return the tombstones (hexadecimal) of the cases that were erased after a number was sealed."""
        since = self._history_since(publication, number)
        erasures = [entry for entry in since if isinstance(entry, ErasedEntry)]
        return {tombstone for entry in erasures for tombstone in entry.body.tombstones}

    def _history_since(self, publication: str, number: int) -> list[HistoryEntry]:
        place = self._seal_places.get((publication, number))
        return [] if place is None else self.history[place + 1 :]

    # writing

    def take(self, entry: Entry) -> None:
        """Update the facts with the next entry of the ledger."""
        match entry:
            case ChargeEntry():
                self._take_charge(entry)
            case SealEntry():
                self._take_seal(entry)
            case WithheldEntry():
                self._take_withheld(entry)
            case BurnedEntry():
                self.account(entry.publication)._take_burned(entry)
                self._update_state(entry)
            case ApprovalEntry():
                self._take_approval(entry)
            case PublishedEntry():
                self.account(entry.publication).published.add(entry.sequence)
            case ErasedEntry():
                self.account(entry.publication)._take_erased(entry)
                self.tombstones.update(entry.body.tombstones)
                self.history.append(entry)
            case ClaimEntry():
                if self.claim is None:
                    self.claim = entry.body
            case NoteEntry():
                self._take_note(entry)

    def _take_charge(self, entry: ChargeEntry) -> None:
        account = self.account(entry.publication)
        key = charge_key(entry.cut, entry.body.redraw)
        if key in account.charges:
            return
        account._take_charge(entry, key)
        self.accounting_kinds.add(entry.body.accounting)

    def _take_withheld(self, entry: WithheldEntry) -> None:
        account = self.account(entry.publication)
        if entry.cut not in account.withheld:
            account._take_withheld(entry)
            self.history.append(entry)

    def _take_seal(self, entry: SealEntry) -> None:
        account = self.account(entry.publication)
        key = (entry.publication, entry.sequence)
        if key in self.seals:
            return
        # `charged_seals` of the manifest: all seals of this publication, and those of others that had a charge.
        charged_elsewhere = self._charged_seals.total() - self._charged_seals[entry.publication]
        self._charged_seals[entry.publication] += entry.cut in account.charge_of_cut
        self.seals[key] = entry
        totals = SpentAtSeal(
            spending=account.spending,
            process_spending=self.spending,
            process_seals=len(self.seals),
            charged_seals=len(account.seals) + 1 + charged_elsewhere,
        )
        account._take_seal(entry, totals)
        self._seal_places[key] = len(self.history)
        self.history.append(entry)
        self._update_state(entry)

    def _take_approval(self, entry: ApprovalEntry) -> None:
        rulings = self.account(entry.publication).rulings
        if entry.body.decision != "refused":  # a refused approval decides nothing: the release stays held
            if entry.sequence in rulings:
                return
            rulings[entry.sequence] = entry
        self.history.append(entry)
        self._update_state(entry)

    def _take_note(self, entry: NoteEntry) -> None:
        body = entry.body
        name = entry.publication  # empty in a note about the process itself
        if not name and self.claim is None:
            self.made_by_daemon = True
        if body.first_seen is not None and name not in self.first_seen:
            self.first_seen[name] = body.first_seen
            self.account(name).first_seen = body.first_seen
        if body.gap is not None:
            self.account(name).gaps.add(body.gap)
            self.history.append(entry)
        if body.delta is not None:
            self.delta_anchors.append(body.delta)

    def _update_state(self, entry: SealEntry | BurnedEntry | ApprovalEntry) -> None:
        """Record the present state of a number, if it was sealed."""
        key = (entry.publication, entry.sequence)
        if key not in self.seals:
            return
        account = self.account(entry.publication)
        account._update_state_sets(entry.sequence)
        if account.state(entry.sequence) in HIDDEN or entry.sequence in account.burned:
            self.releases.pop(key, None)
        else:
            self.releases.setdefault(key, self.seals[key])
