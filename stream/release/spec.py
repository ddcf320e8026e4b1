"""The configuration that a pipeline needs: one frozen object a publication, made by the room of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from models.dp.accumulation import Shape
from models.dp.budget import Draw
from models.dp.spending import ReleaseCharge
from models.dp.zcdp import PURE, Accounting
from stream.fold.window import Window
from stream.release.contract import AUDIENCE, Audit, Mechanism
from stream.release.gate import BudgetLimits, GatePolicy
from stream.release.once import OncePerCase

Intake = Literal["rows", "rows to the last event", "records", "log"]
"""Intake of events: row by row as declared (to a declared end, or to the last event), record by record from topics,
or as a log that was read in some way. Promises of epsilon begin there (`stream.release.manifest.INTAKE_STATEMENTS`)."""


@dataclass(frozen=True, slots=True)
class PublicationSpec:
    """One publication and the parts of its process that bear on its releases.

    * `once`: the terms under which each case is in one release, None if releases show everything so far;
    * `accumulation`: how releases add up to a second log, None if they do not;
    * `accounting`: how the process adds charges up, and as which (epsilon, delta) it shows them;
    * `delay`: nanoseconds from the cut to the publication of a dp release, None for the other kinds;
    * `increments`: whether the files of a release hold only the cases that are new since the last one;
    * `formats`: of the public files; `attributes`: what leaves with the cases (`release_attributes`);
    * `assess`: whether attacks on held-out cases are run before each release;
    * `approval`: whether a person must approve each release; `hold`: what happens to later cuts while one is held;
    * `max_epsilon`, `max_delta`: caps over all publications of the process;
    * `sensitive`: the sensitive attributes of the process;
    * `roles`: what resources leave as (an attribute of events, or the role of each resource), None: as themselves;
    * `raw_resources`: names of resources leave as they are; `min_free_bytes`: disk that a release needs;
    * `intake`: how events came in, for promises of epsilon;
    * `config_digest`: names the configuration in manifests.
    """

    process: str
    name: str
    mechanism: Mechanism
    audits: tuple[Audit, ...]
    gate: GatePolicy
    window: Window
    config_digest: str
    audience: str = AUDIENCE
    delay: int | None = None
    formats: tuple[str, ...] = ("xes",)
    increments: bool = False
    attributes: tuple[str, ...] = ()
    max_epsilon: Fraction | None = None
    max_delta: Fraction | None = None
    sensitive: tuple[str, ...] = ()
    raw_resources: bool = False
    roles: str | Mapping[str, str] | None = None
    min_free_bytes: int = 0
    once: OncePerCase | None = None
    accumulation: Shape | None = None
    assess: bool = False
    approval: bool = False
    hold: Literal["block", "supersede"] = "block"
    accounting: Accounting = PURE
    intake: Intake = "log"

    @property
    def waits(self) -> bool:
        """Whether each case is in one release, and waits for it behind the cut that follows its completion."""
        return self.once is not None and self.mechanism.keeps_cases

    @property
    def bounded(self) -> tuple[str, ...]:
        """The sensitive attributes whose values the mechanism bounds; none without a C, or if it is 1."""
        return self.sensitive if getattr(self.mechanism, "C", 1) < 1 else ()

    @property
    def is_paid_once(self) -> bool:
        """Whether the charge of the first release pays for the series, because each case is in one release."""
        return self.once is not None and self.mechanism.counts_cases

    @property
    def process_limits(self) -> BudgetLimits:
        """Limits of epsilon and delta over all publications of the process."""
        return BudgetLimits(self.max_epsilon, self.max_delta)

    @property
    def release_charge(self) -> ReleaseCharge:
        """Charge and noise of one release."""
        return ReleaseCharge(self.mechanism.charge(), self.draws, is_disjoint=self.is_paid_once)

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Noise of one release, as the ledger keeps it; empty if releases add up, whose noise is drawn by levels."""
        return () if self.accumulation is not None else self.mechanism.draws()
