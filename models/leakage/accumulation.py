"""BPL, FPL and TPL of a series of releases, kept up to date release by release.

Source: temporal-privacy-leakage-2022, definitions 12 to 14, equations 9, 11 and 13:

    BPL_1 = e_1,  BPL_i = AL_B(BPL_{i-1}) + e_i         what release i and all before it say
    FPL_n = e_n,  FPL_i = AL_F(FPL_{i+1}) + e_i         what release i and all after it say
    TPL_i = BPL_i + FPL_i - e_i                         what all of them say about a case's state at release i

Unit: nats. Unit of privacy: one case (its state at release i). Neighbouring relation of e_i: *replacement* of that
state (equation 1 of the paper), not addition of a case (its definition 6): counts with Laplace noise of scale 1/eps
leak 2 eps under replacement (`under_replacement`). The recursion bounds an adversary who knows all other cases and
the correlations given to it; it bounds nothing for states that the correlations never saw, for mechanisms that are
not pure epsilon (add those up: `method = "composition"`), nor for a chain that is not Markov.
Every TPL_i is between e_i and the sum of all e (sequential composition).

Rounding is towards safety: sums are of fractions, AL is taken as a fraction that is never below the true value
(`Step.above`), and a sweep goes back until a value stays the same. So `max_tpl() <= bound` is never true by an accident
of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from models.dp.budget import shown
from models.leakage.steps import LeakageStep, leakage_step

__all__ = ["TemporalLeakage", "batch", "composition", "leakage_step", "reference", "under_replacement"]


def under_replacement(epsilon: Fraction) -> Fraction:
    """Return the epsilon under replacement of an `epsilon`-dp mechanism (a case added or removed).

    Replacing is removing and adding, so it is twice as large.

    Parameters
    ----------
    epsilon
        Epsilon of the mechanism.
    """
    return 2 * epsilon


@dataclass(slots=True)
class TemporalLeakage:
    """The leakage of the releases so far. Lists are by release, first to last.

    * `epsilon`: e_i, exact, under replacement;
    * `bpl`: BPL_i, final once computed;
    * `forward`: AL_F of the steps 1->2, 2->3, ... (one less than releases);
    * `backward_extreme`: whether AL_B of each of those steps was the identity;
    * `evaluations`: values of AL_B and AL_F that had to be computed so far.

    From release `run` on, all forward steps are extreme: there FPL_i is a difference of running sums, so a release
    costs O(1); `before` holds FPL_i of the releases before the run.
    """

    epsilon: list[Fraction] = field(default_factory=list)
    bpl: list[Fraction] = field(default_factory=list)
    forward: list[LeakageStep] = field(default_factory=list)
    backward_extreme: list[bool] = field(default_factory=list)
    sums: list[Fraction] = field(default_factory=lambda: [Fraction(0)])
    before: list[Fraction] = field(default_factory=list)
    lead: Fraction | None = None
    """Largest BPL_i - (e_1 + .. + e_i) of the run: the largest TPL of the run is this plus the sum of all e."""
    evaluations: int = 0

    @property
    def n(self) -> int:
        """Number of releases so far."""
        return len(self.epsilon)

    @property
    def run(self) -> int:
        """Number of releases since the correlations last changed."""
        return len(self.before)

    @property
    def sum_epsilon(self) -> Fraction:
        """Sum of the epsilons of all releases, exact."""
        return self.sums[-1]

    def fpl(self) -> list[Fraction]:
        """Return FPL_i of every release, as of the newest one."""
        return [*self.before, *(self.sum_epsilon - start for start in self.sums[self.run : -1])]

    def tpl(self) -> list[Fraction]:
        """Return TPL_i of every release, as of the newest one; exactly the sum of e if all steps are extreme."""
        return [b + f - e for b, f, e in zip(self.bpl, self.fpl(), self.epsilon, strict=True)]

    def max_tpl(self) -> Fraction:
        """Return the largest TPL_i, without building the lists of the run."""
        if self.lead is None:
            return Fraction(0)
        values = (b + f - e for b, f, e in zip(self.bpl, self.before, self.epsilon, strict=False))
        return max((self.lead + self.sum_epsilon, *values))

    def release(
        self, epsilon: Fraction, backward: LeakageStep | None = None, forward: LeakageStep | None = None
    ) -> None:
        """Account for one more release with leakage `epsilon` of its own.

        Parameters
        ----------
        epsilon
            Leakage of the release alone, in nats.
        backward, forward
            AL of the step from the previous release to this one, from this release's automaton. None, which
            only the first release may have, means that there is no previous release.

        Raises
        ------
        ValueError
            If a later release lacks the correlations of its step.
        """
        if self.n and (backward is None or forward is None):
            raise ValueError("a release after the first needs the correlations of its step")
        if backward is not None and forward is not None and self.n:
            self.bpl.append(self._apply(backward, self.bpl[-1]) + epsilon)
            self.backward_extreme.append(backward.extreme)
            self.forward.append(forward)
        else:
            self.bpl.append(epsilon)
        self.epsilon.append(epsilon)
        self.sums.append(self.sums[-1] + epsilon)
        self._sweep()

    def _sweep(self) -> None:
        """Bring FPL up to date from the last release backwards; stop if a value does not change any more."""
        last = self.n - 1
        if last and not self.forward[-1].extreme:
            self._end_run(last)
        else:
            lead = self.bpl[-1] - self.sum_epsilon
            self.lead = lead if self.lead is None else max(self.lead, lead)
        later = self.sum_epsilon - self.sums[self.run]
        for i in range(self.run - 1, -1, -1):
            value = self._apply(self.forward[i], later) + self.epsilon[i]
            if value <= self.before[i]:  # less by rounding alone: a further release lowers nothing
                return
            self.before[i] = later = value

    def _end_run(self, last: int) -> None:
        total = self.sums[last]
        self.before += [total - start for start in self.sums[self.run : last]]
        self.lead = self.bpl[-1] - self.sum_epsilon

    def _apply(self, step: LeakageStep, value: Fraction) -> Fraction:
        already = step.evaluations
        result = step.above(value)
        self.evaluations += step.evaluations - already
        return result

    def preview(
        self,
        epsilon: Fraction,
        backward: LeakageStep | None,
        forward: LeakageStep | None,
    ) -> Fraction:
        """Return the largest TPL of all releases if one more followed; nothing is changed.

        Parameters
        ----------
        epsilon
            Of that release, in nats.
        backward, forward
            Its step from the release before, as of `release`.
        """
        trial = TemporalLeakage(
            list(self.epsilon),
            list(self.bpl),
            list(self.forward),
            list(self.backward_extreme),
            list(self.sums),
            list(self.before),
            self.lead,
        )
        trial.release(epsilon, backward, forward)
        return trial.max_tpl()


def batch(
    epsilon: Sequence[Fraction], backward: Sequence[LeakageStep], forward: Sequence[LeakageStep]
) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """Return BPL, FPL and TPL of a series by the printed recursions.

    Parameters
    ----------
    epsilon
        Of each release, in nats.
    backward, forward
        Item i is the step from release i + 1 to release i + 2, one fewer than releases.

    Returns
    -------
    tuple of list
        BPL, FPL and TPL of each release, in nats.
    """
    bpl = [epsilon[0]]
    for e, step in zip(epsilon[1:], backward, strict=True):
        bpl.append(step.above(bpl[-1]) + e)
    fpl = [epsilon[-1]]
    for e, step in zip(reversed(epsilon[:-1]), reversed(forward), strict=True):
        fpl.append(step.above(fpl[-1]) + e)
    fpl.reverse()
    return bpl, fpl, [b + f - e for b, f, e in zip(bpl, fpl, epsilon, strict=True)]


def composition(charges: Sequence[tuple[Fraction, Fraction]]) -> dict[str, object]:
    """Return the bound for (epsilon, delta)-dp releases: the sums (basic composition, every chain, every relation).

    AL assumes pure epsilon. With thresholding or any delta > 0 it proves nothing, so no BPL, FPL or TPL is given.

    Parameters
    ----------
    charges
        Epsilon and delta of each release.

    Returns
    -------
    dict
        `sum_epsilon`, `sum_delta`, and `max_tpl`, which is the former sum.
    """
    epsilon = shown(sum((epsilon for epsilon, _ in charges), Fraction(0)))
    delta = shown(sum((delta for _, delta in charges), Fraction(0)))
    return {"method": "composition", "sum_epsilon": epsilon, "sum_delta": delta, "max_tpl": epsilon}


def reference(
    epsilon: Sequence[Fraction], chain_length: Sequence[int] | None
) -> tuple[list[float], list[float], list[float]]:
    """Compute (BPL, FPL, TPL) as the program of the paper's authors does: the published curves, not the definitions.

    It departs in two ways: FPL runs forward and earlier releases are never raised, so that its "TPL" passes
    the sum of all e; and columns with d_j = 0 are ignored, so that rows which share little seem to leak
    little.

    The longest row (chain length plus one entries) against the shortest (2 entries: the empty prefix has no
    row) gives Q = 1, D = 2 / (length + 1).

    Parameters
    ----------
    epsilon
        Epsilon of each release, at least one.
    chain_length
        For scenario S2, by step 1->2, 2->3, ...: min(window, depth of the automaton), on which the backward
        rows are uniform. None for scenario S1, in which every step is the identity.

    Returns
    -------
    bpl, fpl, tpl
        By release, in nats.
    """
    bpl, fpl = [float(epsilon[0])], [float(epsilon[0])]
    for i, e in enumerate(epsilon[1:]):
        kept = bpl[-1] if chain_length is None else _shared_only(bpl[-1], chain_length[i])
        bpl.append(kept + float(e))
        fpl.append(float(sum(epsilon[: i + 2])))
    return bpl, fpl, [b + f - float(e) for b, f, e in zip(bpl, fpl, epsilon, strict=True)]


def _shared_only(alpha: float, length: int) -> float:
    t = math.expm1(alpha)
    return math.log((t + 1.0) / (2.0 / (max(length, 1) + 1) * t + 1.0))
