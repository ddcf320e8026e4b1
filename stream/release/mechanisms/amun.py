"""`amun`: the log release of differentially-private-release-2023, in paper mode; it never claims epsilon-DP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from models.dp import amun
from models.dp.budget import format_amount
from models.dp.noise import checked_scale
from models.dp.priors import Prior
from models.errors import BoundError
from stream.release.contract import Applicability, Build, Exposure, Mechanism

NOT_PERSONS = Applicability("not_applicable", "cases are copied, deleted and noised: matching sets count no persons")
NO_EPSILON = Applicability(
    "not_applicable", "no differential privacy of a whole release: there is no epsilon to add up"
)


class Amun(Mechanism):
    """Sampled cases and noised times at guessing advantage `delta` per count cell and per time."""

    reads_data_in_gate: ClassVar[bool] = False
    releases_attributes: ClassVar[bool] = False

    kind: Literal["amun"] = "amun"
    delta: float = Field(gt=0, lt=1, allow_inf_nan=False)
    """Largest rise in the chance of a right guess about one count or one time (guessing advantage). Choose the
    advantage that you can defend before the people in the log; the paper shows 0.01 to 0.5."""
    variant: amun.Design = "filtering"
    """`sampling` copies and deletes cases, `filtering` also drops rare variants first, `oversampling` deletes none.
    Set it when rare variants must stay (`sampling`), or no count may shrink (`oversampling`)."""
    prior: Prior = "closed-window"
    """Estimate of the adversary's prior belief: `closed-window`, equation 1 in whole units; `paper-tables`, which
    reproduces Tables 2 and 3. Set it when you compare results with the tables of the paper."""
    time_correlation: amun.Correlation = "independent"
    """`linear` divides the noise of times over the longest trace (proposition A.7), `independent` does not (equation
    3). Set it when the times of a case depend on each other, so that one guess helps the next."""
    releases: int | None = Field(default=None, ge=1)
    """Releases that the per-cell delta is to cover together; by default each release alone. Set it when recipients get
    several releases about the same cases."""
    cases_per_person: int = Field(default=1, ge=1)
    """Cases of one person that the promise covers together. Set it when a person can have several cases, such as
    several stays in a hospital."""

    @model_validator(mode="after")
    def _terms_can_be_kept(self) -> Amun:
        checked_scale(1 / self.settings().epsilon_counts)
        return self

    def settings(self) -> amun.AmunSettings:
        """Return the parameters as the model takes them, checked again there."""
        return amun.AmunSettings(
            self.delta,
            self.variant,
            self.prior,
            self.time_correlation,
            releases=self.releases or 1,
            cases_per_person=self.cases_per_person,
        )

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        span = "of one release" if self.releases is None else f"of all {self.releases} releases together"
        mean = ", a count's on average over the noise" if self.variant == "oversampling" else ""
        return {
            "guaranteed": f"one noised count of a transition, and one noised time, {span}, raises the chance of a "
            f"right guess about it by at most {format_amount(self.delta)} (guessing advantage{mean})",
            "to_whom": "persons with at most " + _cases(self.cases_per_person),
            "against_whom": "an adversary who knows everything but that one count or time",
            "relation": "counts: one trace more or less; times: one time of one trace changed",
            "unit": "one count cell or one time value, not a person's whole trace",
            "whole_release": None,
            "not_guaranteed": "; ".join(self._not_guaranteed()),
        }

    def _not_guaranteed(self) -> Iterator[str]:
        yield "epsilon-differential privacy of the release, for any epsilon"
        yield "only variants that were there are released, so variant support is not protected"
        copied = "copied" if self.variant == "oversampling" else "copied and deleted"
        if self.variant == "oversampling":
            yield "no case is deleted, so no count of the source was above the released one"
        yield "the cells of a person's trace compose"
        yield (
            f"the counts of the released log are not the noised ones: whole cases are {copied} until every transition "
            "has at least its noise, chosen in proportion to the true counts"
        )
        filtered = "the filter, " if self.variant == "filtering" else ""
        yield f"{filtered}the priors and the ranges of times read the data"
        yield "groups of one value carry no time noise"
        yield "activity labels, and when the first and the last case of the log started, count as public"
        if self.releases is None:
            yield "several releases add up"
        else:
            yield "priors and ranges are estimated again in each release"
        yield (
            "only if all variants were public, nothing was filtered, no group was constant and the cases were chosen "
            "without regard to the counts would tanh(e / 4) bound the advantage, with e the longest variant times "
            "eps_d plus the largest sum of eps_t of a case"
        )

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        made = int(memory["releases"]) if memory else 0
        if self.releases is not None and made >= self.releases:
            raise BoundError(f"delta was divided over releases = {self.releases}, and so many were made")
        parameters = self.model_dump(exclude={"kind", "releases"})
        result = amun.release(exposure.log, **parameters, releases=self.releases or 1)
        return Build(
            log=result.log,
            origin=result.origin,
            carries=("activity",),
            time_basis="noised",
            n_actual=None,
            public={
                "guessing_advantage": self.delta,
                "guessing_advantage_per": "count cell or time value",
                "epsilon_per_count_cell": result.epsilon_counts,
                "whole_release": None,
            },
            operator={"dp": dict(result.operator), "warnings": _warnings(result)},
            memory={"releases": made + 1},
            applies={"anonymity": NOT_PERSONS, "leakage": NO_EPSILON},
        )

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        if self.releases is None:
            return ["amun: delta holds for each release alone; several releases add up (set mechanism.releases)"]
        return [f"amun: ends after {self.releases} releases, its epsilon is divided over them"]


def _warnings(result: amun.AmunRelease) -> list[str]:
    """Return warnings for the operator before the release is used (read from raw data)."""
    counts = result.operator
    warnings = []
    quiet = counts["events_without_time_noise"]
    if quiet:
        warnings.append(
            f"{quiet} of {counts['events_released']} events carry no time noise (their transition has one single time)"
        )
    if counts["cases_filtered"] > counts["cases"] / 2:
        warnings.append(f"the filter dropped {counts['cases_filtered']} of {counts['cases']} cases")
    return warnings


def _cases(count: int) -> str:
    return "one case" if count == 1 else f"{count} cases"
