"""`dp-model`: a process map with its model, differentially private as a whole release, and no log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from models.dp import process_map, synthetic
from models.dp.synthesis.times import PublicTimeBounds
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.release import map_files
from stream.release.contract import Applicability, Build, Exposure
from stream.release.mechanisms.dp_synthetic import StagedMechanism
from stream.release.mechanisms.dp_variants import NOT_PERSONS, large_delta, strict_promise
from stream.release.once import OncePerCase
from stream.values.duration import UNITS, Duration

NO_LOG = Applicability("not_applicable", "the release holds counts of a process map, and no log")


class DpModel(StagedMechanism):
    """(epsilon, delta_dp)-DP process map with intervals, and a model discovered from it.

    A release holds no events and no cases. All keys are public knowledge, never read off the data.
    """

    releases_log: ClassVar[bool] = False

    kind: Literal["dp-model"] = "dp-model"
    case_weight: int | None = Field(default=None, ge=1, le=1_000)
    """The most that one case adds to the counts; steps of longer cases weigh less. Without it each release chooses it
    by noisy numbers and norms of cases (docs/process-maps.md). Set it when recipients compare the intervals of
    releases."""
    max_length: int = Field(default=200, ge=1)
    """Longest trace of the model behind consistent counts. Set it when true cases have more than 200 events."""
    max_duration: Duration | None = None
    """Longest time of a step; without it no times leave. Set it when recipients study how long steps take; half of
    epsilon goes to times then."""

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

    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        choice = "" if self.activities is not None else ", and the choice of the activities"
        times = "" if self.max_duration is None else ", all times"
        outputs = f"the released counts{times}, their intervals and the model{choice}"
        promise = strict_promise(self.charge(), self.cases_per_person, outputs, once)
        return {
            **promise,
            "not_guaranteed": "a step of the map or of the model may be one that no case took, and rare steps may be "
            f"missing; {promise['not_guaranteed']}",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        selected = self.selected_labels(memory)
        released = process_map.release_map(
            exposure.log,
            epsilon=self.epsilon,
            delta_dp=self.delta_dp,
            design=self.design(),
            adapt_weight=self.case_weight is None,
            cases_per_person=self.cases_per_person,
            kept_labels=None if selected is None else tuple(selected["labels"]),
        )
        public = self._public(self.budget_of(selected))
        memory_of_labels = None
        if self.activities is None:
            if selected is None:
                selected = {"labels": list(released.selected_labels), "release": exposure.number}
            public["labels_selected"] = {"release": selected["release"]}
            memory_of_labels = self.memory_of(selected)
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
        raise InputError("dp-model releases no log; replay the log with a configuration and --engine embedded")

    def _public(self, budget: synthetic.StageBudget) -> dict[str, Any]:
        """Return the facts that the manifest states besides the parameters. None of them is read from the data."""
        shares = {stage: float(getattr(budget, stage) / self.epsilon) for stage in synthetic.STAGES}
        used = {
            "labels": shares["labels"],
            "cases": shares["weights"],
            "variants": shares["variants"],
            "steps": shares["model"],
        }
        if self.max_duration is not None:
            used["times"] = shares["times"]
        return {"shares_used": used, **budget.thresholds(self.terms(), self.design())}

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        least = self.budget().thresholds(self.terms(), self.design()).get("label_threshold")
        return [*large_delta(self.delta_dp), *self.warnings_on_labels(least)]
