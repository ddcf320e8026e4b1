"""`baseline-1`, `baseline-2` and `pretsa`: K-anonymous traces (tlkc-privacy-extended-2021, section 5.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from models.anonymize.baselines import CONTROL_FLOW, baseline_1, baseline_2, pretsa
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.suppression import removed


class _SharedTraces(Mechanism):
    """Base of the baselines: activities are all that an adversary knows, and K cases share each trace."""

    K: int = Field(ge=1)
    """Cases that must share each released trace. Choose the group size of the mechanism that you compare this one
    with."""

    @property
    def perspective(self) -> tuple[str, ...]:
        """Return the columns that releases carry; see `Mechanism.perspective`."""
        return ("activity",)

    def variants_by(self) -> Knowledge:
        """Return the knowledge by which a table of variants is counted."""
        return CONTROL_FLOW

    def broken(self, released: ReleaseRecord, exposure: Exposure) -> list[str]:
        """Return what of the promise a release breaks that was read back."""
        return _shared(released.log, self.K)


class Baseline1(_SharedTraces):
    """Drop every case whose variant occurs less than K times."""

    kind: Literal["baseline-1"] = "baseline-1"

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return {
            "guaranteed": f"every released trace is shared by at least {self.K} cases of the release",
            "to_whom": "released cases",
            "against_whom": "a recipient of this one release who knows any part of a case's activities",
            "relation": None,
            "unit": "case",
            "not_guaranteed": "sensitive values (a group may share one), and anything over several releases",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        return removed(baseline_1(exposure.log, self.K, cases=exposure.cases), exposure.linked)


class Baseline2(_SharedTraces):
    """Shorten each rare variant to the most similar trace that K cases share."""

    kind: Literal["baseline-2"] = "baseline-2"

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return _shortening(self.K)

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        return removed(baseline_2(exposure.log, self.K, cases=exposure.cases), exposure.linked)


class Pretsa(_SharedTraces):
    """PRETSA_case: every prefix of a released trace is shared by K cases, by removal only."""

    kind: Literal["pretsa"] = "pretsa"

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return {
            **_shortening(self.K),
            "guaranteed": f"every prefix of a released trace is shared by at least {self.K} cases of the release",
            "against_whom": "a recipient of this one release who knows how a case began",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        return removed(pretsa(exposure.log, self.K, cases=exposure.cases), exposure.linked)

    def broken(self, released: ReleaseRecord, exposure: Exposure) -> list[str]:
        """Return what of the promise a release breaks that was read back."""
        return _shared(released.log, self.K, prefixes=True)


def _shared(log: EventLog, K: int, *, prefixes: bool = False) -> list[str]:
    """Return a line if a trace (or a prefix of one) belongs to fewer than K cases."""
    traces = Counter(trace for trace in log.traces() if trace)
    cases_of_trace = Counter[tuple[str, ...]]()
    for trace, cases in traces.items():
        for length in range(1 if prefixes else len(trace), len(trace) + 1):
            cases_of_trace[trace[:length]] += cases
    least = min(cases_of_trace.values(), default=K)
    unit = "prefix" if prefixes else "trace"
    if least < K:
        return [f"a {unit} is shared by {least} cases (K = {K})"]
    return []


def _shortening(K: int) -> Mapping[str, Any]:
    """Return the promise of Baseline-1 for mechanisms that shorten cases."""
    promise = dict(Baseline1(K=K).promise())
    addition = "; that a person's own case is among those that match what is known of it, since events were removed"
    return {**promise, "not_guaranteed": promise["not_guaranteed"] + addition}
