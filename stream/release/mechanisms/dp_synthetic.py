"""`dp-synthetic`: traces drawn from noisy models with noisy counts, differentially private as a whole release."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, Field, field_validator, model_validator

from models.dp import synthetic
from models.dp.accumulation import Shape
from models.dp.budget import Charge, Draw
from models.dp.strict import StrictRelease, Terms
from models.dp.synthesis import series
from models.dp.synthesis.series import LABELS
from models.dp.synthesis.times import PublicTimeBounds
from models.errors import InputError
from models.knowledge import Knowledge
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.dp_log import milliseconds
from stream.release.mechanisms.dp_variants import large_delta, series_build, strict_build, strict_promise
from stream.release.once import OncePerCase
from stream.values.duration import UNITS, Duration
from stream.values.exact import Exact

Traces = tuple[tuple[str, ...], ...]


class StagedMechanism(Mechanism):
    """Noise in the stages of `models.dp.synthetic`, over labels that are declared or selected.

    If `activities` is not set, the first release with frequent labels selects them, and its memory hands
    them to all later ones.
    """

    reads_data_in_gate: ClassVar[bool] = False
    releases_attributes: ClassVar[bool] = False
    counts_cases: ClassVar[bool] = True

    epsilon: Exact = Field(gt=0)
    """Privacy loss of one release: smaller is stricter. Choose the total first (`gate.max_epsilon`), then divide it by
    the number of releases."""
    delta_dp: Exact = Field(gt=0, lt=1)
    """Chance with which the promise of epsilon may fail. Choose it well below one over the number of people in the
    log."""
    cases_per_person: int = Field(default=1, ge=1)
    """Cases of one person that the promise covers together. Set it when a person can have several cases, such as
    several stays in a hospital."""
    activities: tuple[str, ...] | None = None
    """Labels that may leave; others are dropped. Without it the first release with frequent ones selects them for the
    whole series (docs/synthetic.md). Set it when the labels are public, for example from a process model: rare labels
    are then released too."""
    other: str | None = Field(default=None, min_length=1)
    """Label for events whose own label may not leave; without it they are dropped. Set it when recipients need to see
    that something happened between two steps."""
    max_labels: int = Field(default=64, ge=1)
    """Without `activities`: a case counts for its first so many distinct labels. Set it when cases have more than 64
    different activities (higher), or never more than a few (lower, for a slightly lower threshold)."""

    @field_validator("activities", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        """Parse the text of a flag (`A,B`)."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _terms_can_be_kept(self) -> Self:
        self.budget()
        return self

    def terms(self) -> Terms:
        """Return exact epsilon and delta, and the cap on cases of a person."""
        return Terms.of(self.epsilon, self.delta_dp, self.cases_per_person)

    @abstractmethod
    def design(self) -> synthetic.Design:
        """Return the public parameters as the stages take them."""

    def budget(self) -> synthetic.StageBudget:
        """Return epsilon and delta of each stage. InputError if a stage could not draw with its share."""
        return synthetic.StageBudget.of(self.terms(), self.design())

    def charge(self) -> Charge:
        """Return what one release costs."""
        return Charge(self.epsilon, self.delta_dp)

    def draws(self) -> tuple[Draw, ...]:
        """Return the noise of one release; see `Mechanism.draws`."""
        return synthetic.series_draws(self.budget(), self.terms(), self.design())

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return self._promised(None)

    def promise_once(self, once: OncePerCase) -> Mapping[str, Any]:
        """Return the promise of a series in which each case counts once."""
        return self._promised(once)

    @abstractmethod
    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        """Return the promise, of a series in which each case counts once if `once` is given."""

    def selected_labels(self, memory: Any) -> dict[str, Any] | None:
        """Return the labels that an earlier release selected, and its number; None if none has, or if declared.

        Releases of versions that selected labels again each time left no memory.
        """
        if self.activities is not None or memory is None:
            return None
        labels: dict[str, Any] | None = memory.get(LABELS)
        return labels

    def budget_of(self, selected: Mapping[str, Any] | None) -> synthetic.StageBudget:
        """Return the budget of a release; it differs if an earlier one has selected the labels."""
        return self.budget() if selected is None else self.budget().after_labels()

    @staticmethod
    def memory_of(selected: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the memory of a release of selected labels.

        A release without any label decides nothing for later ones: the next one selects again, under its
        own charge.
        """
        return {LABELS: selected} if selected["labels"] else None

    @staticmethod
    def warnings_on_labels(least: int | None) -> list[str]:
        """Return the warning that labels are selected, with the least number of cases; none if declared."""
        if least is None:
            return []
        return [
            f"labels are selected: one leaves if about {least} cases have no other label, or {3 * least} cases "
            "have it among nine; the first release with labels decides for the whole series; declare activities if "
            "the labels are public"
        ]


class DpSynthetic(StagedMechanism):
    """(epsilon, delta_dp)-DP synthetic log.

    Its cases are not persons' cases, and its variants may be invented. All keys are public knowledge, never
    read off the data.

    `build` makes the release of a publication whose releases are independent, or in which each case counts
    once; `build_series` one of a publication whose releases add up (`accumulate`). In both the first
    release with frequent labels selects them, if `activities` is not set, and its memory hands them to
    later ones.
    """

    accumulates: ClassVar[bool] = True

    kind: Literal["dp-synthetic"] = "dp-synthetic"
    shares: dict[str, Exact] | None = None
    """Shares of epsilon, adding up to 1: `{ labels, variants, model, weights, times }`; the defaults are in
    docs/synthetic.md. Set it when recipients need one figure most, such as durations or the frequent variants."""
    order: int | None = Field(default=None, ge=1)
    """Most preceding labels from which the model predicts the next one: 3 (2 for more than a hundred declared
    activities), and fewer if noisy counts are too weak (docs/synthetic.md). Set it when a step depends on more than the
    three before it, and the log is large (higher), or a build takes too long (lower)."""
    case_weight: int = Field(default=3, ge=1)
    """The most that one case adds to a level of the model with `accumulate`, and to the histograms of times: steps of
    longer cases weigh less. Without both it changes nothing. Set it when most cases have far more than ten steps
    (higher), or fewer (lower, for less noise)."""
    traces: int = Field(default=1_000, ge=1)
    """Number of traces of the model; each case is counted for the nearest one. Set it when a log has far more than a
    thousand typical paths, or a build takes too long."""
    max_length: int = Field(default=200, ge=1)
    """Longest trace of the model. Set it when true cases have more than 200 events."""
    sample: int = Field(default=10_000, ge=1)
    """Traces drawn from the model, among which `traces` are chosen. Set it when a build takes too long (lower), or
    when rare paths of a large log are missing (higher)."""
    candidates: str | None = None
    """A public log whose traces are counted too, such as that of a normative model or an earlier release. Set it when
    you know paths that cases are supposed to follow."""
    max_duration: Duration | None = None
    """Longest time of a step; without it no times leave. Set it when recipients study how long steps take."""
    start: tuple[AwareDatetime, AwareDatetime] | None = None
    """Public range of case starts; without it every case starts at 1970-01-01. Set it when recipients need calendar
    dates and the range is known without looking at the data."""

    @field_validator("shares", mode="before")
    @classmethod
    def _table(cls, value: Any) -> Any:
        """Parse the text of a flag (`variants=0.1,model=0.4,weights=0.5`); return another value as it is."""
        if not isinstance(value, str):
            return value
        parts = [part.partition("=") for part in value.split(",")]
        if not all(name and sign for name, sign, _ in parts):
            raise ValueError("is not like variants=0.1,model=0.4,weights=0.5")
        return {name.strip(): share for name, _, share in parts}

    def design(self) -> synthetic.Design:
        """Return the public parameters as the mechanism takes them; read the file of candidates."""
        bounds = self.bounds()
        shares = None
        if self.shares is not None:
            shares = synthetic.Shares.of(self.shares, labels=self.activities is None, times=bounds is not None)
        return synthetic.Design(
            activities=self.activities,
            other=self.other,
            max_labels=self.max_labels,
            order=self.order or synthetic.usual_order(self.activities),
            case_weight=self.case_weight,
            candidates=self.traces,
            max_length=self.max_length,
            sample=self.sample,
            given=() if self.candidates is None else _public_traces(self.candidates)[0],
            bounds=bounds,
            shares=shares,
        )

    def bounds(self) -> PublicTimeBounds | None:
        """Return the public bounds of times in milliseconds; None: no times leave."""
        if self.max_duration is None:
            if self.start is not None:
                raise InputError("start without max_duration: bounds of both are needed for times to leave")
            return None
        start = None if self.start is None else (milliseconds(self.start[0]), milliseconds(self.start[1]))
        return PublicTimeBounds(self.max_duration // UNITS["ms"], start)

    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        covered = "the released traces, their frequencies"
        if self.max_duration is not None:
            covered += ", all times and what the manifest states about times"
        if self.activities is None:
            covered += ", and the choice of their labels"
        promise = strict_promise(self.charge(), self.cases_per_person, covered, once)

        not_guaranteed = "a released case is not a person's case and its variant may be invented; "
        if self.max_duration is not None:
            not_guaranteed += "durations of the pairs that the manifest names as unreadable are mostly noise; "
        uncovered = promise["not_guaranteed"]
        if self.activities is None:  # selected labels are covered, only those of declared candidates are not
            uncovered = uncovered.replace("activity labels", "labels of declared candidates", 1)
        return {**promise, "not_guaranteed": not_guaranteed + uncovered}

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        design = self.design()
        selected = self.selected_labels(memory)
        result = synthetic.release_synthetic(
            exposure.log,
            epsilon=self.epsilon,
            delta_dp=self.delta_dp,
            design=design,
            cases_per_person=self.cases_per_person,
            cases=exposure.cases,
            kept_labels=None if selected is None else tuple(selected["labels"]),
        )
        basis: Literal["ordinal", "noised"] = "ordinal" if design.bounds is None else "noised"
        if self.activities is not None:
            return strict_build(result, basis, self._public(design, self.budget(), result))

        # Labels are selected: by an earlier release, whose choice this one used, or by this one.
        budget = self.budget_of(selected)
        if selected is None:
            selected = {"labels": list(result.labels), "release": exposure.number}
        public = self._public(design, budget, result) | {"labels_selected": {"release": selected["release"]}}
        return replace(strict_build(result, basis, public), memory=self.memory_of(selected))

    def variants_by(self) -> Knowledge:
        """Return the knowledge by which a table of variants is counted."""
        if self.max_duration is not None:
            raise InputError("max_duration: times are read off single cases; only --engine embedded can")
        return Knowledge("seq", "ac")

    def series_design(self) -> synthetic.Design:
        """Return the design for releases that add up."""
        design = self.design()
        if self.order is None:
            design = replace(design, order=series.usual_order(self.epsilon, self.activities))
        if design.shares is None:
            design = replace(design, shares=self._shares_adding_up(design))
        return design

    def _shares_adding_up(self, design: synthetic.Design) -> synthetic.Shares:
        return synthetic.Shares.adding_up(times=design.bounds is not None, labels=design.activities is None)

    def check_series(self, shape: Shape) -> None:
        """Refuse shapes of accumulated logs that cannot be built."""
        series.check(self.terms(), self.series_design(), shape)

    def build_series(self, exposure: Exposure, memory: Any, shape: Shape, number: int) -> Build:
        """Build one release, and the log over everything so far."""
        design = self.series_design()
        # Labels that earlier releases selected do not count if activities are declared now.
        has_selected = memory is not None and bool(memory.get(LABELS))
        state = None if self.activities is not None and has_selected else memory
        accumulated = series.release_synthetic(
            exposure.log, terms=self.terms(), design=design, shape=shape, number=number, state=state
        )
        basis: Literal["ordinal", "noised"] = "ordinal" if design.bounds is None else "noised"
        facts = self._public(design, synthetic.StageBudget.of(self.terms(), design), accumulated.release)
        if self.activities is None:
            selected = accumulated.state.get(LABELS, {"release": number})
            facts["label_threshold"] = series.label_rule(self.terms(), design).least_cases
            facts["labels_selected"] = {"release": selected["release"]}
        return series_build(accumulated, basis, facts)

    def _public(
        self,
        design: synthetic.Design,
        budget: synthetic.StageBudget,
        result: StrictRelease,
    ) -> dict[str, Any]:
        """Return the facts that the manifest states besides the parameters.

        `times` is read from the noisy histograms of the release, the others from parameters only.
        """
        shares = {stage: float(getattr(budget, stage) / self.epsilon) for stage in synthetic.STAGES}
        facts: dict[str, Any] = {"synthetic": True, "shares_used": shares, "order_used": design.order}
        facts |= budget.thresholds(self.terms(), design)
        if self.candidates is not None:
            _, digest = _public_traces(self.candidates)
            facts["candidates_sha256"] = digest
        if result.facts:
            facts["times"] = dict(result.facts)
        return facts

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        terms = self.terms()
        least = self.budget().thresholds(terms, self.design()).get("label_threshold")
        if least is not None and settings.get("accumulate") == "factorized":
            least = series.label_rule(terms, self.series_design()).least_cases
        return [*large_delta(self.delta_dp), *self.warnings_on_labels(least)]


def _public_traces(name: str) -> tuple[Traces, str]:
    """Return the distinct traces of a public log, and the SHA-256 of its bytes.

    InputError if the log cannot be read.
    """
    path = Path(name)
    try:
        stamp = path.stat()
    except OSError:
        raise InputError(f"candidates: {name} cannot be read") from None
    return _traces_of(path, (stamp.st_size, stamp.st_mtime_ns))


@lru_cache(maxsize=8)
def _traces_of(path: Path, stamp: tuple[int, int]) -> tuple[Traces, str]:
    from connectors import read_log

    log = read_log(path)
    distinct = {tuple(map(str, trace)) for trace in log.traces() if trace}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return tuple(sorted(distinct)), digest
