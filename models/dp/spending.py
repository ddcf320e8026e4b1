"""Charges of a ledger, in the form that an account needs: releases in order, with the noise that each drew.

Nothing is computed here: a ledger of ten thousand entries is read by comparing each charge with the one before it.
`models.dp.account` states the privacy loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from models.dp.budget import Charge, Draw, parallel

MOST_STRETCHES = 64
"""Ended stretches that are kept apart. Earlier ones count by the sums of their charges, which are never too small; so a
series whose configuration changes with every release costs no more memory than any other."""


NOTHING = Charge()


@dataclass(frozen=True, slots=True)
class ReleaseCharge:
    """Charge of one further release of a publication, before it is added to a spending.

    Attributes
    ----------
    charge
        Epsilon and delta, or rho.
    draws
        Noise that the release draws; empty if only epsilon and delta are known.
    is_disjoint
        Whether the cases of the release are in no other one (`cases = "completed"`).
    """

    charge: Charge
    draws: tuple[Draw, ...] = ()
    is_disjoint: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive releases of one publication with equal charges and equal noise.

    Attributes
    ----------
    charge, draws
        Charge and noise of each release; no draws: only epsilon and delta are known.
    number
        How many releases, withheld and burned attempts included.
    """

    charge: Charge
    draws: tuple[Draw, ...]
    number: int

    @property
    def summed(self) -> Charge:
        """The charges added up."""
        return self.charge.times(self.number)


@dataclass(frozen=True, slots=True)
class Spending:
    """Everything that was charged to one publication, or to several.

    Attributes
    ----------
    current
        The stretch that continues, of each publication.
    ended
        Stretches after which the charge or the noise changed.
    earlier
        Sum of the charges of stretches before them.
    disjoint
        Charge of releases in which each case counts once: the largest one of each publication.
    """

    current: tuple[Stretch, ...] = ()
    ended: tuple[Stretch, ...] = ()
    earlier: Charge = NOTHING
    disjoint: Charge = NOTHING

    def with_release(self, release: ReleaseCharge, number: int = 1) -> Spending:
        """Return the spending of a publication after `number` more such releases.

        Parameters
        ----------
        release
            Charge of one release, its draws, and whether its cases are in no other one.
        number
            Number of such releases.
        """
        if release.charge == NOTHING or not number:
            return self
        if release.is_disjoint:
            return self.with_disjoint(release.charge)
        return self.with_charge(release.charge, release.draws, number)

    def with_charge(self, charge: Charge, draws: tuple[Draw, ...] = (), number: int = 1) -> Spending:
        """Return the spending of a publication after `number` more equal releases of overlapping data.

        Parameters
        ----------
        charge, draws
            Charge and draws of one release.
        number
            Number of such releases.
        """
        if not number:
            return self
        if not self.current:
            return replace(self, current=(Stretch(charge, draws, number),))
        (last,) = self.current
        if (last.charge, last.draws) == (charge, draws):
            return replace(self, current=(replace(last, number=last.number + number),))
        ended = (*self.ended, last)
        earlier = self.earlier
        if len(ended) > MOST_STRETCHES:
            earlier = earlier + ended[0].summed
            ended = ended[1:]
        return replace(self, current=(Stretch(charge, draws, number),), ended=ended, earlier=earlier)

    def with_disjoint(self, charge: Charge) -> Spending:
        """Return the spending of a publication after one more release whose cases are in no other one.

        Parameters
        ----------
        charge
            Charge of the release.

        References
        ----------
        McSherry 2009, theorem 4 (parallel composition).
        """
        return replace(self, disjoint=parallel([self.disjoint, charge]))

    def together(self, other: Spending) -> Spending:
        """Return the spending of this and of other publications together.

        Parameters
        ----------
        other
            Spending of other publications over the same persons.
        """
        return Spending(
            self.current + other.current,
            self.ended + other.ended,
            self.earlier + other.earlier,
            self.disjoint + other.disjoint,
        )

    @property
    def summed(self) -> Charge:
        """All charges added up; of disjoint releases the largest."""
        total = self.earlier + self.disjoint
        for stretch in (*self.ended, *self.current):
            total = total + stretch.summed
        return total
