"""`dp-model`: a process map with its model, differentially private as a whole release, and no log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from models.dp import process_map, synthetic
from models.dp.budget import Charge, Draw
from models.dp.strict import Terms
from models.dp.synthesis.series import LABELS
from models.dp.synthesis.times import PublicTimeBounds
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.release import map_files
from stream.release.contract import Applicability, Build, Exposure, Mechanism
from stream.release.mechanisms.dp_variants import NOT_PERSONS, large_delta, strict_promise
from stream.release.once import OncePerCase
from stream.values.duration import UNITS, Duration
from stream.values.exact import Exact

NO_LOG = Applicability("not_applicable", "the release holds counts of a process map, and no log")


class DpModel(Mechanism):
    """(epsilon, delta_dp)-DP process map with intervals, and a model discovered from it.

    A release holds no events and no cases. All keys are public knowledge, never read off the data.
    """

    reads_data_in_gate: ClassVar[bool] = False
    releases_attributes: ClassVar[bool] = False
    releases_log: ClassVar[bool] = False
    counts_cases: ClassVar[bool] = True

    kind: Literal["dp-model"] = "dp-model"
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
    whole series (docs/synthetic.md). Set it when the labels are public, for example from a process model."""
    other: str | None = Field(default=None, min_length=1)
    """Label for events whose own label may not leave; without it they are dropped. Set it when recipients need to see
    that something happened between two steps."""
    max_labels: int = Field(default=64, ge=1)
    """Without `activities`: a case counts for its first so many distinct labels. Set it when cases have more than 64
    different activities (higher), or never more than a few (lower, for a slightly lower threshold)."""
    case_weight: int | None = Field(default=None, ge=1, le=1_000)
    """The most that one case adds to the counts; steps of longer cases weigh less. Without it each release chooses it
    by its noisy number of cases (docs/process-maps.md). Set it when recipients compare the intervals of releases."""
    max_length: int = Field(default=200, ge=1)
    """Longest trace of the model behind consistent counts. Set it when true cases have more than 200 events."""
    max_duration: Duration | None = None
    """Longest time of a step; without it no times leave. Set it when recipients study how long steps take; half of
    epsilon goes to times then."""

    @field_validator("activities", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        """Parse the text of a flag (`A,B`)."""
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _terms_can_be_kept(self) -> DpModel:
        self.budget()
        return self

    def terms(self) -> Terms:
        """Return exact epsilon and delta, and the cap on cases of a person."""
        return Terms.of(self.epsilon, self.delta_dp, self.cases_per_person)

    def design(self) -> synthetic.Design:
        """Return the public parameters as the stages take them."""
        return process_map.map_design(
            activities=self.activities,
            other=self.other,
            max_labels=self.max_labels,
            case_weight=self.case_weight,
            max_length=self.max_length,
            bounds=None if self.max_duration is None else PublicTimeBounds(self.max_duration // UNITS["ms"]),
        )

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

    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        choice = "" if self.activities is not None else ", and the choice of the activities"
        times = "" if self.max_duration is None else ", all times"
        what = f"the released counts{times}, their intervals and the model{choice}"
        promise = strict_promise(self.charge(), self.cases_per_person, what, once)
        return {
            **promise,
            "not_guaranteed": "a step of the map or of the model may be one that no case took, and rare steps may be "
            f"missing; {promise['not_guaranteed']}",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        selected = None if self.activities is not None or memory is None else memory.get(LABELS)
        released = process_map.release_map(
            exposure.log,
            epsilon=self.epsilon,
            delta_dp=self.delta_dp,
            design=self.design(),
            adapt_weight=self.case_weight is None,
            cases_per_person=self.cases_per_person,
            kept_labels=None if selected is None else tuple(selected["labels"]),
        )
        budget = self.budget() if selected is None else self.budget().after_labels()
        public = self._public(budget)
        memory_of_labels = None
        if self.activities is None:
            if selected is None:
                selected = {"labels": list(released.selected_labels), "release": exposure.number}
            public["labels_selected"] = {"release": selected["release"]}
            # A release without any label decides nothing for later ones: the next one selects again.
            memory_of_labels = {LABELS: selected} if selected["labels"] else None
        return Build(
            log=EventLog.from_traces([]),
            origin=np.zeros(0, dtype=np.int64),
            carries=("activity",),
            n_actual=None,
            public=public,
            operator={"dp": dict(released.operator), "warnings": list(released.operator["warnings"])},
            memory=memory_of_labels,
            applies={"anonymity": NOT_PERSONS, "risk": NO_LOG, "utility": NO_LOG, "loss": NO_LOG},
            files=map_files.map_files(released.steps, released.times),
        )

    def broken_files(self, folder: Path, files: Mapping[str, bytes]) -> list[str]:
        """Return why the files of a release must not leave; see `Mechanism.broken_files`."""
        return map_files.faults(folder, files)

    def variants_by(self) -> Knowledge:
        """Refuse engines: they write logs, and this kind has none."""
        raise InputError("dp-model releases no log; only --engine embedded can build its files")

    def _public(self, budget: synthetic.StageBudget) -> dict[str, Any]:
        """Return the facts that the manifest states besides the parameters. None of them is read from the data."""
        shares = {stage: float(getattr(budget, stage) / self.epsilon) for stage in synthetic.STAGES}
        used = {"labels": shares["labels"], "cases": shares["weights"], "steps": shares["model"]}
        if self.max_duration is not None:
            used["times"] = shares["times"]
        return {"shares_used": used, **budget.thresholds(self.terms(), self.design())}

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        doubts = large_delta(self.delta_dp)
        least = self.budget().thresholds(self.terms(), self.design()).get("label_threshold")
        if least is not None:
            doubts.append(
                f"labels are selected: one leaves if about {least} cases have no other label, or {3 * least} cases "
                "have it among nine; the first release with labels decides for the whole series; declare activities if "
                "the labels are public"
            )
        return doubts
