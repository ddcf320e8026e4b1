"""`leakage`: the leakage of all releases of a publication that spends epsilon (temporal-privacy-leakage-2022).

All figures are under replacement of a case's state, so e_i is twice the charge of the mechanism, which is paid for a
case more or less. Pure epsilon gives BPL, FPL and TPL over the chain of the exposed cases; as soon as a release has
delta > 0 that argument fails, and the sums are used instead (`method = "composition"`). Charges of withheld attempts
count with the next release: the refusal was an output too.

If each case is in one release (`cases = "completed"`, `method = "parallel"`), there is no chain between releases: BPL,
FPL and TPL of a release are its charge, delta included.

Not guaranteed: TPL below the sum of e holds only where the released query is at the state function's abstraction and
the chain is accepted as Markov. The chain is estimated from the cases; the audit is the operator's alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pydantic import Field, field_validator

from models.dp.budget import Charge, shown
from models.leakage.accumulation import TemporalLeakage, composition, under_replacement
from models.leakage.correlations import MOST_EVENTS, Scenario, steps
from models.leakage.persistence import from_state, to_state
from models.leakage.simulation import paths, transition_system
from models.leakage.states import StateFunction
from models.leakage.steps import EXTREME, LeakageStep, float_above
from stream.release.contract import Audit, AuditContext, Reads
from stream.release.reason import Reason


class Leakage(Audit):
    """BPL, FPL and TPL of the releases, over the chain of the exposed cases (pure epsilon), or sums."""

    name: ClassVar[str] = "leakage"
    reads: ClassVar[Reads] = "raw"

    scenario: Scenario = "certain"
    """Between two releases a case grows by exactly `window` events (`certain`) or by at most so many (`uncertain`).
    Set it when cases grow at different speeds: `uncertain`."""
    window: int = Field(default=1, ge=1, le=MOST_EVENTS)
    """Events by which a case grows between two releases. Set it when a window of the publication brings more than one
    event of each open case."""
    states: str = "prefix"
    """The state of a case: prefix, last, suffix-K, set or multiset; all but `prefix` need a query at that level
    (docs/limitations.md). Set it when recipients only see the last activities of a case or its set."""
    least_cases: int = Field(default=1, ge=1)
    """Transitions of fewer cases count as no correlation. Set it when single odd cases look like certain
    correlations."""
    complete_only: bool = False
    """Only complete traces count. Set it when open cases would make early steps look like ends."""

    @field_validator("states")
    @classmethod
    def _parsed(cls, value: str) -> str:
        return str(StateFunction.parse(value))

    @property
    def looks_back(self) -> int:
        """Number of earlier releases that are compared; see `Audit.looks_back`."""
        return 0

    def measure(self, context: AuditContext, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measure the candidate; see `Audit.measure`."""
        if context.mechanism.charge() == Charge():
            return {"status": "not_applicable", "reason": "the mechanism spends no epsilon"}
        if context.mechanism.charge().rho:
            return {
                "status": "not_applicable",
                "reason": "BPL, FPL and TPL are of pure epsilon; Gaussian noise has none: budget.spent says what all "
                "releases are together",
            }
        common = {"status": "ok", "reason": "", "relation": "replacement"}
        if context.once is not None:
            return {**common, **_parallel(context)}
        if any(charge.delta for charge in context.charges):
            return {**common, **_composed(context.charges)}
        return {**common, **self._chained(context)}

    def _chained(self, context: AuditContext) -> Mapping[str, Any]:
        state = context.previous_audit.get("leakage", {}).get("state")
        leakage = from_state(state) if state else TemporalLeakage()
        spent = sum((under_replacement(charge.epsilon) for charge in context.charges), Fraction(0))
        log = context.exposure.log
        state_paths = paths(log, StateFunction.parse(self.states), context.exposure.complete)
        system = transition_system(
            state_paths, state_paths.full, least_cases=self.least_cases, complete_only=self.complete_only
        )
        backward, forward = steps(system, self.scenario, self.window)
        leakage.release(spent - leakage.sum_epsilon, backward, forward)
        rows = []
        by_release = zip(leakage.bpl, leakage.fpl(), leakage.tpl(), strict=True)
        for number, (bpl, fpl, tpl) in enumerate(by_release, start=1):
            rows.append({"release": number, "bpl": shown(bpl), "fpl": shown(fpl), "tpl": shown(tpl)})
        return {
            "method": "definition",
            "scenario": self.scenario,
            "window": self.window,
            "abstraction": self.states,
            "epsilon": [shown(e) for e in leakage.epsilon],
            "releases": rows,
            "max_tpl": shown(leakage.max_tpl()),
            "sum_epsilon": shown(leakage.sum_epsilon),
            "states": len(system.states),
            "extreme": {"backward": backward.extreme, "forward": forward.extreme},
            "witness": {
                name: [system.space.label(end) for end in step.witness]
                for name, step in (("backward", backward), ("forward", forward))
                if step.witness is not None
            },
            "automaton": system.digest(),
            "state": to_state(leakage),
        }

    def before_noise(self, context_free: Mapping[str, Any], charge: Charge) -> list[Reason]:
        """Refuse a release that would push the largest TPL over `gate.max_tpl`.

        The next step is taken as extreme: its correlations are not known without reading the data, and every other
        step leaks less.
        """
        bound = context_free["policy"].max_tpl
        if bound is None or charge == Charge():
            return []
        charges: Sequence[Charge] = context_free["charges"]
        spent = context_free.get("spent") or sum(charges, Charge())
        e = under_replacement(spent.epsilon + charge.epsilon)
        state = ((context_free.get("audits") or {}).get(self.name) or {}).get("state")
        reached = e
        if state and not (charge.delta or spent.delta):
            leakage, worst = from_state(state), LeakageStep(points=[EXTREME])
            reached = leakage.preview(e - leakage.sum_epsilon, worst, worst)
        if reached <= bound:
            return []
        sentence = f"tpl: this release could raise it to {shown(reached):g} under replacement, bound {float(bound):g}"
        return [Reason("tpl", sentence, bound, reached)]


def _two_changes(charge: Charge) -> Fraction:
    """Return the delta of two changes, at most 1.

    Beyond that the claim is empty, and the exponential is not used.
    """
    if charge.epsilon > 700:  # exp of more is not a float
        return Fraction(1 if charge.delta else 0)
    grown = math.nextafter(math.exp(float_above(charge.epsilon)) * (1 + 2.0**-51), math.inf)  # never below e^epsilon
    return min(Fraction(1), charge.delta * (1 + Fraction(grown)))


def _composed(charges: Sequence[Charge]) -> Mapping[str, Any]:
    """(e, delta) under replacement, by group privacy of two changes: (2 eps, (1 + e^eps) delta) each, added up."""
    pairs = [(under_replacement(c.epsilon), _two_changes(c)) for c in charges]
    return {"epsilon": [shown(e) for e, _ in pairs], **composition(pairs)}


ONCE = (
    "each case is in one release: anything that others show of it was paid for by its own, regardless of relations "
    "between the events of one case"
)
NOT_SAID = (
    "relations between cases of different persons: a release can reveal something about a person who is in no "
    "release, through others like that person"
)


def _parallel(context: AuditContext) -> Mapping[str, Any]:
    """Return the leakage of releases in which each case counts once.

    BPL, FPL and TPL of each release are its own charge: a state that is in one release alone has no earlier and no
    later state in another one, so its rows of correlations are equal for all its values, and no leakage is carried
    over.
    """
    pairs = [(under_replacement(c.epsilon), _two_changes(c)) for c in context.charges]
    rows = [
        {"release": i, "bpl": shown(e), "fpl": shown(e), "tpl": shown(e), "delta": shown(d)}
        for i, (e, d) in enumerate(pairs, start=1)
    ]
    total = shown(under_replacement(context.spent.epsilon))
    return {
        "method": "parallel",
        "epsilon": [shown(e) for e, _ in pairs],
        "releases": rows,
        "max_tpl": total,
        "sum_epsilon": total,
        "sum_delta": shown(_two_changes(context.spent)),
        "because": ONCE,
        "not_said": NOT_SAID,
    }
