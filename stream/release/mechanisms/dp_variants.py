"""`dp-variants`: noisy frequencies of variants above a threshold, differentially private as a whole release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from models.dp import series, strict
from models.dp.accumulation import Shape
from models.dp.budget import Charge, Draw, format_amount
from models.dp.counts import rule_of
from models.errors import InputError
from models.knowledge import Knowledge
from stream.release.contract import Applicability, Build, Exposure, Mechanism
from stream.release.once import OncePerCase
from stream.values.exact import Exact

LARGE_DELTA = Fraction(1, 1000)

NOT_PERSONS = Applicability("not_applicable", "records are noisy counts, not persons")


class DpVariants(Mechanism):
    """(epsilon, delta_dp)-DP release of variants and their frequencies, without times.

    With `rho` in place of epsilon, noise is Gaussian, for a ledger that adds up rho (`process.budget.accounting =
    "zcdp"`).
    """

    reads_data_in_gate: ClassVar[bool] = False
    releases_attributes: ClassVar[bool] = False
    counts_cases: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True

    kind: Literal["dp-variants"] = "dp-variants"
    epsilon: Exact | None = Field(default=None, gt=0)
    """Privacy loss of one release: smaller is stricter. Set it when charges add up as epsilon, as they do unless the
    ledger counts rho."""
    delta_dp: Exact = Field(gt=0, lt=1)
    """Chance with which the promise may fail; it decides how rare a released variant may be. Choose well below one
    over the number of people in the log."""
    cases_per_person: int = Field(default=1, ge=1)
    """Cases of one person that the promise covers together. Set it when a person can have several cases, such as
    several stays in a hospital."""
    rho: Exact | None = Field(default=None, gt=0)
    """Gaussian noise of this rho (zCDP) instead of epsilon. Set it when many releases share a budget
    (`process.budget.accounting = "zcdp"`)."""

    @model_validator(mode="after")
    def _terms_can_be_kept(self) -> DpVariants:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError('give epsilon (--epsilon), or rho where process.budget.accounting = "zcdp"; not both')
        self.threshold()
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the one of `epsilon` and `rho` that was not given."""
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value is not None}

    def threshold(self) -> int:
        """Return the least noisy count that a variant is released with."""
        if self.rho is not None:
            return strict.gaussian(self.rho, self.delta_dp, self.cases_per_person).threshold
        return strict.released_from(self._pure, self.delta_dp, self.cases_per_person)

    @property
    def _pure(self) -> Fraction:
        if self.epsilon is None:
            raise InputError("dp-variants with rho has no epsilon")
        return self.epsilon

    def charge(self) -> Charge:
        """Return what one release costs."""
        if self.rho is not None:
            return Charge(delta=self.delta_dp, rho=self.rho)
        return Charge(self._pure, self.delta_dp)

    def draws(self) -> tuple[Draw, ...]:
        """Return the noise of one release; see `Mechanism.draws`."""
        if self.rho is not None:
            scale = strict.gaussian(self.rho, self.delta_dp, self.cases_per_person).scale
            return (Draw("gaussian", Fraction(scale), Fraction(self.cases_per_person), self.delta_dp),)
        rule = rule_of(self._pure, self.delta_dp, self.cases_per_person)
        return (rule.drawn(self.cases_per_person, self.delta_dp),)

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return self._promised(None)

    def promise_once(self, once: OncePerCase) -> Mapping[str, Any]:
        """Return the promise of a series in which each case counts once."""
        return self._promised(once)

    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        return strict_promise(self.charge(), self.cases_per_person, "the released variants and their frequencies", once)

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        person = self.cases_per_person
        if self.rho is not None:
            result = strict.release_gaussian(
                exposure.log, rho=self.rho, delta_dp=self.delta_dp, cases_per_person=person, cases=exposure.cases
            )
            scale = strict.gaussian(self.rho, self.delta_dp, person).scale
            return strict_build(result, "ordinal", {"threshold": self.threshold(), "noise": "gaussian", "scale": scale})
        result = strict.release_variants(
            exposure.log, epsilon=self._pure, delta_dp=self.delta_dp, cases_per_person=person, cases=exposure.cases
        )
        return strict_build(result, "ordinal", {"threshold": self.threshold()})

    def variants_by(self) -> Knowledge:
        """Return the knowledge by which a table of variants is counted."""
        return Knowledge("seq", "ac")

    def terms(self) -> strict.Terms:
        """Return exact epsilon and delta, and the cap of cases."""
        return strict.Terms.of(self._pure, self.delta_dp, self.cases_per_person)

    def check_series(self, shape: Shape) -> None:
        """Refuse shapes of accumulated logs that cannot be built."""
        if self.rho is not None:
            raise InputError("noise of rho does not add up to an accumulated log; use epsilon, or remove accumulate")
        series.check_variants(self.terms(), shape)

    def build_series(self, exposure: Exposure, memory: Any, shape: Shape, number: int) -> Build:
        """Build one release, and the log over everything so far."""
        accumulated = series.release_variants(
            exposure.log, terms=self.terms(), shape=shape, number=number, state=memory
        )
        return series_build(accumulated, "ordinal", {"threshold": accumulated.release.threshold})

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        return large_delta(self.delta_dp)


def large_delta(delta_dp: Fraction) -> list[str]:
    """Return a warning if the promise may fail outright for more than one person in a thousand."""
    if delta_dp <= LARGE_DELTA:
        return []
    return [f"delta_dp = {float(delta_dp):g} is large: keep it well below 1 / number of persons"]


def strict_promise(
    charge: Charge, cases_per_person: int, outputs: str, once: OncePerCase | None = None
) -> Mapping[str, Any]:
    """Return the words of a strict release: formula, relation, unit, and parts that are not covered.

    Parameters
    ----------
    charge
        Charge of one release.
    cases_per_person
        Cases of one person that the promise covers together.
    outputs
        The covered parts of a release, in words.
    once
        Terms of a series in which each case counts once, if it is one.
    """
    cases = "one case" if cases_per_person == 1 else f"{cases_per_person} cases"
    epsilon, delta, rho = map(format_amount, (charge.epsilon, charge.delta, charge.rho))
    formula = f"P[M(L) in S] <= exp({epsilon}) P[M(L') in S] + {delta} for every set S of"
    if charge.rho:
        formula = (
            f"{delta}-approximate {rho}-zCDP, that is D_a(M(L) | E || M(L') | E') <= "
            f"{rho} a for every a > 1 and events E, E' that fail with chance {delta} "
            "at most (budget.spent says as which epsilon and delta); M the mechanism of all"
        )
    what_adds, twice = ("rho", "four times in rho") if charge.rho else ("epsilon", "twice")
    adversary = "any adversary, also one who knows all other cases and the program"
    public = "activity labels, parameters and bounds count as public"
    if once is None:
        return {
            "guaranteed": f"{outputs}: {formula} releases",
            "to_whom": f"every person with at most {cases} in the log",
            "against_whom": adversary,
            "relation": "unbounded: L' is L, the log that the window exposed, with or without the cases of one person "
            f"(to replace them counts {twice})",
            "unit": f"one person ({cases})",
            "not_guaranteed": f"{public}; releases of overlapping data add up, {what_adds} and delta; a person with "
            "more cases than declared is covered in parts only",
        }
    whom, beyond = f"every person with at most {cases} in all releases of this publication together", "a person with "
    beyond += "more cases than declared is covered in parts only"
    if once.enforced:
        whom = f"every person that the source names: no more than {cases} of each, in all releases together"
        beyond = "a person whom the source names in two ways counts as two"
    all_of_it, series_of = "in all releases of this publication together", "releases"
    state = ""
    if once.accumulate != "none":
        all_of_it = "in all releases of this publication and in all their accumulated logs, together"
        series_of = "releases and accumulated logs"
    if once.accumulate == "factorized":
        all_of_it += ", whose noise is correlated"
        adversary += "; also one who compares the releases and knows how their noise is correlated"
        state = (
            "; the operator, and everybody with the operator's key and state, can remove the noise from what was "
            "published"
        )
    return {
        "guaranteed": f"{outputs}, {all_of_it}, however many: {formula} series of {series_of}",
        "to_whom": whom,
        "against_whom": adversary,
        "relation": "unbounded: L' is L, all that the windows of the series exposed, with or without the cases of one "
        f"person (to replace them counts {twice}); each case is in one release only, and which one its own events and "
        "public moments decide",
        "unit": f"one person ({cases} in the whole series)",
        "not_guaranteed": f"{public}; other publications of the same cases add up, {what_adds} and delta; what persons "
        f"have in common is not protected; what comes to a case after its release is in none; {beyond}{state}",
    }


def strict_build(
    result: strict.StrictRelease,
    time_basis: Literal["ordinal", "noised"],
    public: Any,
) -> Build:
    """Return a strict release as the pipeline takes it.

    Public facts follow from parameters, or from noisy numbers that the promise covers.
    """
    return Build(
        log=result.log,
        origin=np.full(result.log.n_cases, -1, dtype=np.int64),
        carries=("activity",),
        time_basis=time_basis,
        n_actual=None,
        public=public,
        operator={"dp": dict(result.operator), "warnings": list(result.operator["warnings"])},
        applies={"anonymity": NOT_PERSONS},
    )


def series_build(
    accumulated: series.Accumulated,
    time_basis: Literal["ordinal", "noised"],
    public: Any,
) -> Build:
    """Return a strict release with the log over everything so far."""
    build = strict_build(accumulated.release, time_basis, {**public, "accumulated": dict(accumulated.public)})
    return replace(build, accumulated=accumulated.log, memory=accumulated.state)
