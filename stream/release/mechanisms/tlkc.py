"""`tlkc`: TLKC-privacy (tlkc-privacy-extended-2021, Def. 14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from models.anonymize.hiding import Mode, Target
from models.anonymize.repair import Banned, choose, repaired
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import FewerThanKError, InfeasibleError, class_columns
from models.anonymize.shown import Shown
from models.anonymize.tlkc import Problem
from models.errors import BoundError, InputError, TooFewCasesError
from models.knowledge import Knowledge
from stream.release.contract import Build, Exposure
from stream.release.mechanisms.suppression import removed, timed
from stream.release.mechanisms.tlkc_parameters import TlkcMechanism, values_words

HIDDEN = (
    "adversaries who know the rules of repair by events: a case that an earlier release does not hold lacks what "
    "fewer than the bound of such cases share",
    "that a person's own case is among those that match what is known of it, since events were removed",
)


class Tlkc(TlkcMechanism):
    """Events leave until every candidate of at most L items has K cases and no sensitive value more than C of them."""

    kind: Literal["tlkc"] = "tlkc"
    repair_by: Mode = "events"
    """What `gate.on_violation = "repair"` suppresses: `events` of single cases first, or whole `items` only."""

    def problem(self, exposure: Exposure) -> Problem:
        """The log of a cut with these bounds, as the model takes it."""
        if exposure.cases is None:
            classes = class_columns(exposure.log, exposure.sensitive, self.bins)
        else:
            classes = {name: exposure.log.case_values(name) for name in exposure.sensitive}
        return Problem(exposure.log, self.known, self.bounds, classes, also=self.also, cases=exposure.cases)

    def variants_by(self) -> Knowledge:
        if self.value_aware:
            raise InputError("value_aware tells cases of one variant apart; only --engine embedded can")
        if self.times != "ordinal":
            raise InputError(f"times = {self.times!r} needs the times of each case; only --engine embedded can")
        return self.known

    def promise(self) -> Mapping[str, Any]:
        return {
            "guaranteed": f"whatever somebody knows of a case, up to {self.L} items ({self.known_words}): "
            f"none or at least {self.K} released cases match it{values_words(self.C, 'them')}",
            "to_whom": "released cases",
            "against_whom": f"a recipient of this one release who knows at most {self.L} items of a case",
            "relation": None,
            "unit": "case",
            "not_guaranteed": f"anything against somebody who knows more than that;{self.left_words} what follows from "
            "the absence of an item; several releases together (after a repair `mechanism.repair.bounds` says what "
            "holds of them)",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        build = self._released(lambda: self.problem(exposure).solve(self.options()), exposure)
        return replace(build, not_guaranteed=(*build.not_guaranteed, *self.local_risks))

    @property
    def repairable(self) -> bool:
        """Not `rel`: its items hold times, and background knowledge of an audit does not."""
        return self.knowledge != "rel"

    def repair(self, exposure: Exposure, shown: Shown, targets: Sequence[Target], gone: Sequence[Any]) -> Build:
        """Single cases lose events, whole items go; with `local` only where single events cannot. Nothing is capped,
        which would change the counts of other candidates. Released resources are pseudonyms: what was shown of them
        cannot be told from here, so only activities are hidden case by case."""
        options = replace(self.options().whole_items, capping=False)
        mode: Mode = self.repair_by if self.attribute == "ac" else "items"
        local = self.suppression == "local" and mode == "events"
        problem = self.problem(exposure)
        build = self._released(
            lambda: repaired(problem, shown, targets, options, gone=gone, mode=mode, local=local), exposure
        )
        how = {
            "by": mode,
            "suppression": "local" if local else options.suppression,
            "hidden": build.operator["hidden"],
        }
        hidden = HIDDEN if mode == "events" else ()
        risks = tuple(one for one in self.local_risks if one not in hidden) if local else ()
        return replace(
            build, public={**build.public, "repair": how}, not_guaranteed=(*build.not_guaranteed, *hidden, *risks)
        )

    def cheapest(self, exposure: Exposure, worst: Sequence[Banned], gone: Sequence[Any]) -> Any | None:
        return choose(self.problem(exposure), worst, gone)

    def _released(self, solve: Callable[[], Anonymized], exposure: Exposure) -> Build:
        try:
            result = solve()
        except FewerThanKError as error:
            raise TooFewCasesError(str(error)) from None
        except InfeasibleError as error:
            raise BoundError(str(error)) from None
        build = removed(result, exposure.linked)
        return build if self.times == "ordinal" else timed(build, self.K, self.T, exposure.time_ns)
