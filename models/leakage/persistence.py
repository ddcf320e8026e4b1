"""The leakage of a publication as JSON, so that a restart continues where the last release left it.

Kept: e_i and BPL_i, FPL_i before the run of extreme steps (after it they follow from sums), AL_F of each step by its
points, the flags. Values are written as fractions ("1/10"). States of earlier programs also hold numbers: they were
rounded to the nearest, and are read as a little more.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from models.errors import RefusedError
from models.leakage.accumulation import TemporalLeakage
from models.leakage.steps import ROUNDING, LeakageStep, Point

VERSION = 1


def to_state(leakage: TemporalLeakage) -> dict[str, Any]:
    """Return the state of `leakage` for JSON.

    Parameters
    ----------
    leakage
        The leakage of a series so far.
    """
    return {
        "v": VERSION,
        "epsilon": [str(e) for e in leakage.epsilon],
        "bpl": [str(value) for value in leakage.bpl],
        "fpl_before": [str(value) for value in leakage.before],
        "lead": None if leakage.lead is None else str(leakage.lead),
        "backward_extreme": list(leakage.backward_extreme),
        "forward": [[[point.Q, point.D] for point in step.complete().points] for step in leakage.forward],
    }


def from_state(state: Mapping[str, Any]) -> TemporalLeakage:
    """Read the leakage that `to_state` wrote.

    Parameters
    ----------
    state
        The state, as JSON has it.

    Raises
    ------
    RefusedError
        For another version, or a state that is damaged or contradicts itself.
    """
    if state.get("v") != VERSION:
        raise RefusedError(f"the leakage state has version {state.get('v')!r}; this program reads version {VERSION}")
    try:
        return _read_state(state)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise RefusedError(
            f"the leakage state cannot be read ({type(error).__name__}); restore it from a backup"
        ) from None


def _read_state(state: Mapping[str, Any]) -> TemporalLeakage:
    epsilon = [Fraction(e) for e in state["epsilon"]]
    releases = len(epsilon)
    steps = max(releases - 1, 0)
    lengths = (len(state["bpl"]), len(state["forward"]), len(state["backward_extreme"]))
    has_all_steps = lengths == (releases, steps, steps) and len(state["fpl_before"]) <= steps
    has_lead = state["lead"] is not None  # every state but that of no release has one
    if not has_all_steps or has_lead != (releases > 0):
        raise RefusedError(f"the leakage state of {releases} releases is incomplete; restore it from a backup")
    points_of_steps = [[Point(float(Q), float(D)) for Q, D in points] for points in state["forward"]]
    return TemporalLeakage(
        epsilon=epsilon,
        bpl=[_read(value) for value in state["bpl"]],
        forward=[LeakageStep(points=points) for points in points_of_steps],
        backward_extreme=list(state["backward_extreme"]),
        sums=list(itertools.accumulate(epsilon, initial=Fraction(0))),
        before=[_read(value) for value in state["fpl_before"]],
        lead=_read(state["lead"]) if has_lead else None,
    )


def _read(value: str | float) -> Fraction:
    if isinstance(value, str):
        return Fraction(value)
    return Fraction(value) + Fraction(abs(value)) * Fraction(ROUNDING)
