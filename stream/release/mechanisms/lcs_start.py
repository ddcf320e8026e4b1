"""`lcs-start`: from the longest common subsequence upwards (correspondence-attacks-2021, section 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from models.anonymize.lcs_start import lcs_start
from models.anonymize.repair import fresh_violations
from models.anonymize.sensitive import FewerThanKError, InfeasibleError, check_edges, class_columns
from models.anonymize.tlkc import TlkcProblem, violation_in
from models.anonymize.violations import TlkcBounds
from models.errors import BoundError, TooFewCasesError
from models.eventlog import Flags
from models.knowledge import Attribute, Knowledge
from stream.ledger.release_record import ReleaseRecord
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.suppression import faults, removed
from stream.release.mechanisms.tlkc import values_words


class LcsStart(Mechanism):
    """Shared subsequence of all cases, then item by item what the bounds allow.

    The bounds are TLKC and the B-attack on earlier releases.
    """

    remembers: ClassVar[bool] = True

    kind: Literal["lcs-start"] = "lcs-start"
    attribute: Attribute = "ac"
    """Items are activities (`ac`), resources (`re`) or both (`ar`). Set it when recipients study who works with
    whom."""
    L: int = Field(default=2, ge=1)
    """Items that an adversary knows of a case. Set it when colleagues or relatives may know more than two events."""
    K: int = Field(default=20, ge=1)
    """Cases that must match. Set it when your policy asks for another group size than 20."""
    C: float = Field(default=0.5, gt=0, le=1)
    """Largest share of one value of a sensitive attribute among the cases that match. Set it when half of a group
    sharing a diagnosis already reveals too much (lower)."""
    bins: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    """Upper edges of the classes of a numeric sensitive attribute; its quartiles without. Set it when classes have a
    meaning, such as age groups of a statistic."""

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        for name, edges in self.bins.items():
            check_edges(name, edges)
        return self

    @property
    def perspective(self) -> tuple[str, ...]:
        """Return the columns that releases carry; see `Mechanism.perspective`."""
        return Knowledge("seq", self.attribute).carries

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return {
            "guaranteed": f"whatever somebody knows of a case, up to {self.L} items: at least {self.K} "
            f"released cases match it (or none), and at least {self.K} (or none) of those that are not in an earlier "
            f"release of this publication{values_words(self.C, 'the matching cases')}",
            "to_whom": "released cases",
            "against_whom": f"a recipient of the releases who knows at most {self.L} items of a case",
            "relation": None,
            "unit": "case",
            "not_guaranteed": "anything against somebody who knows more than that; F- and C-attacks (bound them by the "
            "gate); data utility: the order in which items come back is greedy",
        }

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        earlier = [frozenset(cases) for cases in (memory or {}).get("releases", ())]
        knowledge = Knowledge("seq", self.attribute)
        classes = class_columns(exposure.log, exposure.sensitive, self.bins)
        problem = TlkcProblem(exposure.log, knowledge, TlkcBounds.of(self.L, self.K, self.C), classes)
        try:
            problem.refuse_infeasible()
        except FewerThanKError as error:
            raise TooFewCasesError(str(error)) from None
        except InfeasibleError as error:
            raise BoundError(str(error)) from None
        result = problem.verified(
            lcs_start(exposure.log, knowledge, lambda kept: self._allowed(problem, kept, earlier))
        )
        names = [exposure.log.case_ids[case] for case in result.origin]
        return removed(
            result,
            exposure.linked,
            memory={"releases": [*(sorted(cases) for cases in earlier), names]},
        )

    def _allowed(self, problem: TlkcProblem, kept: Flags, earlier: Collection[frozenset[str]]) -> bool:
        if violation_in(problem, kept) is not None:
            return False
        shown = TlkcProblem(problem.log.select_events(kept), problem.knowledge, problem.bounds, {})
        return not any(fresh_violations(shown, cases, self.K, self.L) for cases in earlier)

    def broken(self, released: ReleaseRecord, exposure: Exposure) -> list[str]:
        """Check each release alone; `build` checks what earlier releases add."""
        return faults(released, exposure, ("seq",), TlkcBounds.of(self.L, self.K, self.C), self.bins)

    @classmethod
    def forget(cls, memory: Any, cases: Collection[str]) -> Any:
        """Return the memory without the erased cases."""
        if not memory:
            return memory
        gone = set(cases)
        releases = memory.get("releases", ())
        return {"releases": [[name for name in release if name not in gone] for release in releases]}
