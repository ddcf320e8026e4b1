"""`identity`: nothing is suppressed; only the configured perspective leaves, under fresh case ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from models.knowledge import Attribute, Knowledge, Structure, Unit, relative_times
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.mechanisms.suppression import in_knowledge


class Identity(Mechanism):
    """Fresh case ids and the perspective of `knowledge` x `attribute`; no promise beyond that."""

    kind: Literal["identity"] = "identity"
    knowledge: Structure = "seq"
    """Whether releases show sets, counts, sequences, or sequences with times. Set it when the attacks on an
    unprotected log are measured for another kind of knowledge."""
    attribute: Attribute = "ac"
    """Items are activities (`ac`), resources (`re`) or both (`ar`). Set it when you measure what resources give away
    without protection."""
    T: Unit = "minutes"
    """Accuracy of relative times with `knowledge = "rel"`. Set it when the log has times of another accuracy than
    minutes."""

    @property
    def perspective(self) -> tuple[str, ...]:
        """Return the columns that releases carry; see `Mechanism.perspective`."""
        carried = Knowledge(self.knowledge, self.attribute, self.T).carries
        return (*carried, self.T) if self.knowledge == "rel" else carried

    def promise(self) -> Mapping[str, Any]:
        """Return the promise in plain sentences; see `Mechanism.promise`."""
        return {
            "guaranteed": "case identifiers are fresh in this release, and only the named perspectives and the "
            "sensitive attributes leave",
            "to_whom": "cases",
            "against_whom": "a recipient who knows nothing of a case but its identifier",
            "relation": None,
            "unit": "case",
            "not_guaranteed": "anonymity: a rare trace singles out its case",
        }

    def variants_by(self) -> Knowledge:
        """Return the knowledge by which a table of variants is counted."""
        return Knowledge(self.knowledge, self.attribute, self.T)

    def build(self, exposure: Exposure, memory: Any = None) -> Build:
        """Build one release; see `Mechanism.build`."""
        knowledge = Knowledge(self.knowledge, self.attribute, self.T)
        log = exposure.log
        ticks = relative_times(log, self.T) if knowledge.structure == "rel" else None
        return in_knowledge(log, np.arange(log.n_cases), knowledge, exposure.linked, ticks)
