"""`dp-log`: variants, frequencies and times, differentially private as a whole release within public bounds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any, ClassVar, Literal

from pydantic import AwareDatetime, Field, model_validator

from models.dp import strict
from models.dp.budget import Charge, Draw
from models.dp.counts import rule_of
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.dp_variants import large_delta, strict_build, strict_promise
from stream.release.once import OncePerCase
from stream.values.duration import UNITS, Duration
from stream.values.exact import Exact


class DpLog(Mechanism):
    """(epsilon, delta_dp)-DP release of a log.

    `start`, `max_duration`, `max_events` are public knowledge, never read off the data.
    """

    reads_data_in_gate: ClassVar[bool] = False
    releases_attributes: ClassVar[bool] = False
    counts_cases: ClassVar[bool] = True

    kind: Literal["dp-log"] = "dp-log"
    epsilon: Exact = Field(gt=0)
    """Privacy loss of one release: smaller is stricter. Choose the total first (`gate.max_epsilon`), then divide it by
    the number of releases."""
    delta_dp: Exact = Field(gt=0, lt=1)
    """Chance with which the promise of epsilon may fail. Choose well below one over the number of people in the
    log."""
    time_share: Exact = Field(default=Fraction(1, 2), gt=0, lt=1)
    """Share of epsilon that times get; variants get the rest. Set it when recipients study durations (higher), or only
    need the paths (lower)."""
    max_duration: Duration = 30 * UNITS["d"]
    """Bound on elapsed times: noise is in proportion to it. Set it when cases take longer than 30 days, or all are
    much shorter and deserve less noise."""
    start: tuple[AwareDatetime, AwareDatetime] | None = None
    """Public range of case starts; without it every case starts at 1970-01-01. Set it when recipients need calendar
    dates and the range is known without looking at the data."""
    max_events: int = Field(default=20, ge=1)
    """Times of a case that are released; of further ones half of their bound is. Set it when cases have more than 20
    events and their late times matter."""
    cases_per_person: int = Field(default=1, ge=1)
    """Cases of one person that the promise covers together. Set it when a person can have several cases, such as
    several stays in a hospital."""

    @model_validator(mode="after")
    def _bounds_hold(self) -> DpLog:
        self.threshold()
        self.bounds().check(self.epsilon * self.time_share / self.cases_per_person)
        return self

    def threshold(self) -> int:
        """Return the least noisy count that a variant is released with."""
        return strict.released_from(self.epsilon * (1 - self.time_share), self.delta_dp, self.cases_per_person)

    def bounds(self) -> strict.TimeBounds:
        """Return the public bounds in milliseconds."""
        millisecond = UNITS["ms"]
        start = None if self.start is None else (milliseconds(self.start[0]), milliseconds(self.start[1]))
        return strict.TimeBounds(self.max_duration // millisecond, start, self.max_events)

    def charge(self) -> Charge:
        """Return what one release costs."""
        return Charge(self.epsilon, self.delta_dp)

    def draws(self) -> tuple[Draw, ...]:
        """Return the noise of one release; see `Mechanism.draws`.

        How many times a variant has, and so the scale of their noise, is read off the released variants. Only the
        epsilon of all times is fixed.
        """
        counts = rule_of(self.epsilon * (1 - self.time_share), self.delta_dp, self.cases_per_person)
        times = Draw("pure", Fraction(1), self.epsilon * self.time_share)
        return counts.drawn(self.cases_per_person, self.delta_dp), times

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return self._promised(None)

    def promise_once(self, once: OncePerCase) -> Mapping[str, Any]:
        """Return the promise of a series in which each case counts once."""
        return self._promised(once)

    def _promised(self, once: OncePerCase | None) -> Mapping[str, Any]:
        outputs = "the released variants, their frequencies and all times"
        return strict_promise(self.charge(), self.cases_per_person, outputs, once)

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        result = strict.release_log(
            exposure.log,
            epsilon=self.epsilon,
            delta_dp=self.delta_dp,
            bounds=self.bounds(),
            time_share=self.time_share,
            cases_per_person=self.cases_per_person,
        )
        return strict_build(result, "noised", {"threshold": self.threshold()})

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        """Return warnings about the parameters; see `Mechanism.check`."""
        ranges = self.max_events * self.cases_per_person / (self.epsilon * self.time_share)
        noisy = f"noise on times of long cases is {float(ranges):.3g} times their declared range: close to coin flips"
        return [*large_delta(self.delta_dp), *([noisy] if ranges > 1 else [])]


def milliseconds(moment: AwareDatetime) -> int:
    """Return milliseconds since 1970-01-01 UTC."""
    from datetime import UTC, datetime

    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
