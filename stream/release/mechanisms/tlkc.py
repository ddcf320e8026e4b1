"""`tlkc`: TLKC-privacy (tlkc-privacy-extended-2021, Def. 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from models.anonymize.hiding import Mode, Target
from models.anonymize.repair import Banned, choose, repaired
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import InfeasibleError, class_columns
from models.anonymize.shown import Shown
from models.anonymize.tlkc import Problem, Suppression
from models.errors import BoundError
from stream.release.contract import Build, Exposure
from stream.release.removal import removed
from stream.release.tlkc_options import TlkcMechanism


class Tlkc(TlkcMechanism):
    """Events leave until every candidate of at most L items has K cases and no sensitive value more than C of them."""

    kind: Literal["tlkc"] = "tlkc"
    repair_by: Mode = "events"
    """What `gate.on_violation = "repair"` suppresses: `events` of single cases first, or whole `items` only."""

    def problem(self, exposure: Exposure) -> Problem:
        """The log of a cut with these bounds, as the model takes it."""
        classes = class_columns(exposure.log, exposure.sensitive, self.bins)
        return Problem(exposure.log, self.known, self.bounds, classes)

    def promise(self) -> Mapping[str, Any]:
        more = "" if self.suppression != "local" else ", and adversaries who know the rules of local suppression"
        return {
            "guaranteed": f"whatever at most {self.L} items ({self.knowledge}, {self.attribute}) one knows of a case, "
            f"none or at least {self.K} released cases match, and no value of a sensitive attribute has more than "
            f"{self.C:g} of them",
            "to_whom": "released cases",
            "against_whom": f"a recipient of this one release who knows at most {self.L} items of a case",
            "relation": None,
            "unit": "case",
            "not_guaranteed": "more knowledge than that, several releases together (see the anonymity audit)" + more,
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        return self._released(lambda: self.problem(exposure).solve(self.options()), exposure)

    @property
    def repairable(self) -> bool:
        """Not `rel`: its items hold times, and background knowledge of an audit does not."""
        return self.knowledge != "rel"

    def repair(self, exposure: Exposure, shown: Shown, targets: Sequence[Target], gone: Sequence[Any]) -> Build:
        """Single cases lose events, whole items go. Not shortened by `local` nor capped, which would change the counts
        of other candidates. Released resources are pseudonyms: what was shown of them cannot be told from here, so
        only activities are hidden case by case."""
        method: Suppression = "exact" if self.suppression == "local" else self.suppression
        options = replace(self.options(), suppression=method, capping=False)
        mode: Mode = self.repair_by if self.attribute == "ac" else "items"
        problem = self.problem(exposure)
        return self._released(lambda: repaired(problem, shown, targets, options, gone=gone, mode=mode), exposure)

    def cheapest(self, exposure: Exposure, worst: Sequence[Banned], gone: Sequence[Any]) -> Any | None:
        return choose(self.problem(exposure), worst, gone)

    def _released(self, solve: Callable[[], Anonymized], exposure: Exposure) -> Build:
        try:
            result = solve()
        except InfeasibleError as error:
            raise BoundError(str(error)) from None
        public: dict[str, Any] = {
            "n_actual": result.n_actual,
            "suppressed": {
                "items": len(result.suppressed),
                "events": result.source.n_events - result.events,
                "cases": len(result.dropped),
                "why": result.details["violations"],
            },
            "satisfied": result.satisfied,
        }
        if result.warnings:
            public["warnings"] = list(result.warnings)
        return removed(result, exposure.sensitive, public=public)

    def check(self, settings: Mapping[str, Any]) -> list[str]:
        if self.value_aware:
            return ["tlkc: value_aware bans tell which cases hold a value; leave it off for anything that is published"]
        return []
