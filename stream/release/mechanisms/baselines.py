"""`baseline-1`, `baseline-2` and `pretsa`: K-anonymous traces (tlkc-privacy-extended-2021, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from models.anonymize.baselines import baseline_1, baseline_2, pretsa
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.suppression import removed


class Baseline1(Mechanism):
    """Drop every case whose variant occurs less than K times."""

    kind: Literal["baseline-1"] = "baseline-1"
    K: int = Field(ge=1)

    def promise(self) -> Mapping[str, Any]:
        return {
            "guaranteed": f"every released trace is shared by at least {self.K} cases of the release",
            "to_whom": "released cases",
            "against_whom": "a recipient of this one release who knows any part of a case's activities",
            "relation": None,
            "unit": "case",
            "not_guaranteed": "sensitive values (a group may share one), and anything over several releases",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        result = baseline_1(exposure.log, self.K)
        return removed(result, exposure.linked)


class Baseline2(Mechanism):
    """Shorten each rare variant to the most similar trace that K cases share."""

    kind: Literal["baseline-2"] = "baseline-2"
    K: int = Field(ge=1)

    def promise(self) -> Mapping[str, Any]:
        return _shortening(self.K)

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        result = baseline_2(exposure.log, self.K)
        return removed(result, exposure.linked)


class Pretsa(Mechanism):
    """PRETSA_case: every prefix of a released trace is shared by K cases, by removal only."""

    kind: Literal["pretsa"] = "pretsa"
    K: int = Field(ge=1)

    def promise(self) -> Mapping[str, Any]:
        return {
            **_shortening(self.K),
            "guaranteed": f"every prefix of a released trace is shared by at least {self.K} cases of the release",
            "against_whom": "a recipient of this one release who knows how a case began",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        result = pretsa(exposure.log, self.K)
        return removed(result, exposure.linked)


def _shortening(K: int) -> dict[str, Any]:
    """The promise of Baseline-1 for mechanisms that shorten cases."""
    promise = dict(Baseline1(K=K).promise())
    own = "; that a case is among those that match what is known of it (its own events may be missing)"
    return {**promise, "not_guaranteed": promise["not_guaranteed"] + own}
