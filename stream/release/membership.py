"""Measures against an adversary who knows the whole trace of a person (docs/limitations.md).

No promise of groups covers such knowledge, so pages that list what is not promised give the figure. It was measured on
a public log, once, by `python -m benchmarks.membership`: it compares mechanisms, and nothing certain follows about the
user's own log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOG = "the public Sepsis log"
SPLITS = 5


@dataclass(frozen=True, slots=True)
class MembershipFigure:
    """Area under the ROC curve (.5 is guessing, 1 is certainty), with its 95 % interval over the splits."""

    auc: float
    low: float
    high: float

    def words(self) -> str:
        """Return the text for people, for example `.65 (.63 to .68)`."""
        auc, low, high = (f"{value:.2f}".lstrip("0") for value in (self.auc, self.low, self.high))
        return f"{auc} ({low} to {high})"


MEASURED: Mapping[tuple[str, str | None], MembershipFigure] = {
    ("identity", None): MembershipFigure(0.8954, 0.8892, 0.9017),
    ("tlkc", "local"): MembershipFigure(0.8448, 0.8326, 0.857),
    ("tlkc", "exact"): MembershipFigure(0.7087, 0.6954, 0.7221),
    ("tlkc-cohorts", "local"): MembershipFigure(0.6546, 0.6291, 0.68),
    ("dp-synthetic", None): MembershipFigure(0.5082, 0.4931, 0.5233),
}
"""By kind and suppression; groups of L = 2, K = 20, noise of epsilon 1 with declared activities."""


def measured(mechanism: Mapping[str, Any]) -> MembershipFigure | None:
    """Return the figure of a mechanism (`{kind, suppression, ...}`), None if it was not measured."""
    kind, suppression = str(mechanism.get("kind")), mechanism.get("suppression")
    return MEASURED.get((kind, suppression if kind.startswith("tlkc") else None))


def sentence(mechanism: Mapping[str, Any]) -> str | None:
    """Return the meaning of the figure, how it was measured, and its limits."""
    attack = measured(mechanism)
    if attack is None:
        return None
    parameters = "epsilon 1" if mechanism.get("kind") == "dp-synthetic" else "K = 20, L = 2"
    if mechanism.get("kind") == "identity":
        parameters = "no bound"
    return (
        "Somebody who knows the whole trace of a person can guess whether the person is in the log. Measured on "
        f"{LOG}, not on this one, with this kind of mechanism ({parameters}): AUC {attack.words()}, where .5 is "
        f"guessing and 1 is certainty. Half of the cases were released; 95 % interval over {SPLITS} random halves"
    )
